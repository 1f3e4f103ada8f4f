"""What is no input, damaged or hostile: an error or a refusal that names file, record and field, and a ledger as it was."""

from __future__ import annotations

import gzip
import json
import math
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from expcomp.errors import ConfigError, ExpcompError, OutputError, SourceError, UsageError
from expcomp.io.record_files import DEPTH, read_records
from expcomp.ledger.store import Ledger
from tests.helpers import tree
from tests.ledger.attempts import many, one

pytestmark = pytest.mark.filterwarnings("error")

DOCUMENT = "benchmark_run_ledger_v0"


def record(**changes: Any) -> dict[str, Any]:
    body = {
        "schema_version": "benchmark_run_v0",
        "benchmark_id": "b",
        "case_id": "c",
        "job_name": "j",
        "official_score": 0.5,
    }
    return body | changes


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value}
    return value


def document(runs: Any) -> dict[str, Any]:
    return {"schema_version": DOCUMENT, "benchmarks": {"b": {"cases": {"c": {"runs": runs}}}}}


LINE = json.dumps(record()).encode()
OTHER = json.dumps(record(case_id="d")).encode()


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a ledger of each profile that holds a run, and one of attempts; tests work on copies."""
    folder = tmp_path_factory.mktemp("stored")
    for profile in ("default", "loopx"):
        Ledger(folder / profile, profile, create=True).add(record(case_id="held"))
    Ledger(folder / "attempts", create=True).add(many(5))
    return folder


@pytest.fixture(params=["default", "loopx"])
def ledger(request: pytest.FixtureRequest, stored: Path, tmp_path: Path) -> Ledger:
    return Ledger(shutil.copytree(stored / request.param, tmp_path / "ledger"))


@pytest.fixture
def default(stored: Path, tmp_path: Path) -> Ledger:
    return Ledger(shutil.copytree(stored / "attempts", tmp_path / "ledger"))


@contextmanager
def unchanged(ledger: Ledger) -> Iterator[None]:
    """The same version, rows and files after as before."""
    before = (ledger.version, ledger.runs.collect(), tree(Path(ledger.path)))
    yield
    after = (ledger.version, ledger.runs.collect(), tree(Path(ledger.path)))
    assert (after[0], after[2]) == (before[0], before[2])
    assert after[1].equals(before[1])


# Files that are refused whole

BAD_FILES: dict[str, tuple[str, bytes, str]] = {
    "cut document": ("a.json", LINE[:-9], "a.json: no JSON, or cut off"),
    "cut line": ("a.jsonl", LINE + b"\n" + OTHER[:-9], "a.jsonl, line 2: no JSON, or cut off"),
    "cut gzip": ("a.jsonl.gz", gzip.compress((LINE + b"\n") * 50)[:-20], "a.jsonl.gz cannot be decompressed, or is cut off"),
    "gzip with a flipped bit": ("a.json.gz", gzip.compress(LINE)[:-6] + b"abcdef", "a.json.gz cannot be decompressed"),
    "cut ledger": ("a.json", json.dumps(document([record()])).encode()[:-7], "a.json: no JSON, or cut off"),
    "empty": ("a.json", b"", "a.json: no JSON, or cut off"),
    "empty lines": ("a.jsonl", b"\n\n", "nothing to read in"),
    "NUL bytes": ("a.jsonl", LINE + b"\n\0\0\0\n", "a.jsonl, line 2: no JSON"),
    "no UTF-8": ("a.jsonl", LINE + b"\n" + LINE.replace(b'"c"', b'"\xff\xfe"'), "a.jsonl, line 2: no JSON"),
    "another schema": (
        "a.json",
        json.dumps(record(schema_version="benchmark_run_v9")).encode(),
        "a.json: schema_version is 'benchmark_run_v9'; a ledger takes benchmark_run_v0",
    ),
    "another schema of a ledger": (
        "a.json",
        json.dumps(document([]) | {"schema_version": "benchmark_run_ledger_v9"}).encode(),
        "a.json: schema_version is 'benchmark_run_ledger_v9'",
    ),
    "a key twice": (
        "a.jsonl",
        OTHER + b"\n" + LINE.replace(b'"job_name"', b'"case_id"'),
        "a.jsonl, line 2: the key 'case_id' is there twice in one object",
    ),
    "a key twice inside": ("a.json", LINE[:-1] + b', "o": {"k" : 1, "k" : 2}}', "a.json: the key 'k' is there twice"),
    "nested beyond the limit": ("a.json", json.dumps(record(x=nested(DEPTH))).encode(), f"deeper than {DEPTH} levels"),
    "nested beyond the stack": ("a.json", b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "a.json: no JSON, or cut off"),
    "lists beyond the stack": ("a.json", b"[" * 100_000, "a.json: no JSON, or cut off"),
    "ten thousand digits": ("a.json", LINE.replace(b"0.5", b"9" * 10_000), "a.json: no JSON, or cut off"),
    "a number": ("a.json", b"42", "nothing to read in"),
    "no Parquet": ("a.parquet", b"PAR1 and no more", "nothing to read in"),
    "no suffix": ("a", LINE, "nothing to read in"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD_FILES)
def test_a_file_that_cannot_be_read_is_named_with_its_line(default: Ledger, tmp_path: Path, what: str) -> None:
    name, data, said = BAD_FILES[what]
    (tmp_path / name).write_bytes(data)
    with unchanged(default), pytest.raises(SourceError) as caught:
        default.add(tmp_path / name)
    assert said in str(caught.value)
    assert str(tmp_path / name) in str(caught.value)


def test_one_bad_file_among_good_ones_lets_none_in(ledger: Ledger, tmp_path: Path) -> None:
    (tmp_path / "good.json").write_bytes(OTHER)
    (tmp_path / "bad.json").write_bytes(LINE[:-9])
    with unchanged(ledger), pytest.raises(SourceError, match=r"bad\.json"):
        ledger.add([tmp_path / "good.json", tmp_path / "bad.json"])


def test_a_file_that_is_gone_a_link_or_a_pipe_is_named(default: Ledger, tmp_path: Path) -> None:
    (tmp_path / "target.json").write_bytes(LINE)
    (tmp_path / "link.json").symlink_to(tmp_path / "target.json")
    os.mkfifo(tmp_path / "pipe.json")
    for name in ("gone.json", "link.json", "pipe.json"):
        with unchanged(default), pytest.raises(SourceError, match=name.replace(".", r"\.")):
            default.add(tmp_path / name)


def test_a_bomb_of_a_file_is_not_inflated(default: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("expcomp.io.record_files.LIMIT", 1 << 20)
    (tmp_path / "bomb.json.gz").write_bytes(gzip.compress(b" " * (1 << 24)))
    with unchanged(default), pytest.raises(SourceError, match="when decompressed; not read"):
        default.add(tmp_path / "bomb.json.gz")


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_file_cut_or_changed_anywhere_is_read_as_it_is_or_an_error(tmp_path: Path, data: st.DataObject) -> None:
    whole = LINE + b"\n" + OTHER + b"\n"
    at = data.draw(st.integers(0, len(whole) - 1))
    byte = data.draw(st.none() | st.binary(min_size=1, max_size=1))
    path = tmp_path / "a.jsonl"
    path.write_bytes(whole[:at] if byte is None else whole[:at] + byte + whole[at + 1 :])
    lines = [x for x in path.read_bytes().split(b"\n") if x.strip()]
    try:
        wanted: Any = [json.loads(x) for x in lines]
    except ValueError:
        with pytest.raises(SourceError, match=r"a\.jsonl, line [12]: "):
            read_records(path)
    else:
        assert read_records(path) == wanted


def test_integers_beyond_64_bits_keep_their_digits_and_their_records_apart(default: Ledger, tmp_path: Path) -> None:
    path, document = tmp_path / "a.jsonl", tmp_path / "d.json"
    numbers = [2**70, 2**70 + 1, -(2**63) - 1]
    record = {"schema_version": "benchmark_run_v0", "benchmark_id": "b", "case_id": "c", "official_score": 1.0}
    path.write_text("\n".join(json.dumps(record | {"odd": n}) for n in numbers))
    assert [r["odd"] for r in read_records(path)] == numbers
    assert default.add(path).count("inserted") == 3
    run = {"run_id": "r", "benchmark_id": "b", "case_id": "c", "status": "completed", "odd": 2**70}
    cases = {"schema_version": "benchmark_run_ledger_v0", "benchmarks": {"b": {"cases": {"c": {"runs": [run]}}}}}
    document.write_text(json.dumps(cases))
    with unchanged(default), pytest.raises(SourceError, match="run 'r': integer exceeds 64-bit range"):
        default.add(document)


@settings(max_examples=30, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_no_document_with_each_key_once_is_called_repeated(
    tmp_path_factory: pytest.TempPathFactory, value: Any
) -> None:
    path = tmp_path_factory.mktemp("records") / "a.json"
    path.write_text(json.dumps(value), "utf-8")
    assert read_records(path) == value


# Records that are refused while the others go in

BAD_RECORDS: dict[str, tuple[Any, str, str]] = {
    "a list": ([1], "", "list is no record"),
    "null": (None, "", "NoneType is no record"),
    "no schema": ({"case_id": "c"}, "schema_version", "None; expected benchmark_run_v0"),
    "another schema": (record(schema_version="v9"), "schema_version", "'v9'; expected benchmark_run_v0"),
    "NaN": (record(official_score=math.nan), "official_score", "not a finite number"),
    "infinity inside": (record(agent={"cost": [1.0, math.inf]}), "agent.cost.1", "not a finite number"),
}


@pytest.mark.parametrize("what", BAD_RECORDS)
def test_a_bad_record_is_refused_by_file_record_and_field(ledger: Ledger, tmp_path: Path, what: str) -> None:
    value, field, reason = BAD_RECORDS[what]
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(json.dumps(r) for r in (record(), value, record(case_id="d"))))
    told = ledger.add(path)
    assert told.refused.select("record", "field", "file").rows() == [(1, field, str(path))]
    assert told.refused["reason"][0].startswith(reason)
    assert ledger.runs.collect()["filed_case"].sort().to_list() == ["c", "d", "held"]


@pytest.mark.parametrize("value", [record(official_score=math.nan), 7, record(x=nested(5000))])
def test_a_batch_of_nothing_but_bad_records_changes_nothing(ledger: Ledger, value: Any) -> None:
    with unchanged(ledger):
        assert ledger.add([value]).counts == {"refused": 1}


@pytest.mark.parametrize(
    "changes",
    [
        {"official_score": 10**400},
        {"official_score": 2**70},
        {"seed": 2**70, "attempt": 10**30},
        {"case_id": "\ud800x"},
        {"x": nested(DEPTH - 3)},
        {"job_name": "x" * 1_000_000},
        {"a\x00b": "\x00"},
        {"trials": 7, "official_task_score": [1], "round_reward_trace": "x", "agent": []},
    ],
    ids=["huge score", "wide score", "wide seed", "half a character", "deep", "long", "NUL", "other types"],
)
def test_a_record_of_hostile_values_is_a_run_and_harms_no_other(
    ledger: Ledger, tmp_path: Path, changes: dict[str, Any]
) -> None:
    (tmp_path / "a.json").write_text(json.dumps([record(case_id="d"), record(case_id="e") | changes]))
    told = ledger.add(tmp_path / "a.json")
    assert (told.refused.height, ledger.runs.collect().height) == (0, 3)
    assert ledger.decisions.collect().height == 3


def test_what_of_a_hostile_record_is_not_taken_is_reported(default: Ledger) -> None:
    default.add(record(official_score=10**400, seed=2**70, attempt=10**30))
    run = default.runs.filter(pl.col("filed_benchmark") == "b").collect()
    assert run.select("score", "seed", "attempt").row(0) == (None, None, None)
    assert {"score_refused", "seed_refused", "attempt_refused"} <= set(run["issues"][0])


# Frames and documents


def test_frames_of_another_schema_are_refused(default: Ledger) -> None:
    for frame in (pl.DataFrame(), pl.DataFrame({"score": [1.0]}), many(2).drop("task_id"), many(2).drop("status")):
        with unchanged(default), pytest.raises(UsageError, match="cannot be added"):
            default.add(frame)


@pytest.mark.parametrize(
    ("column", "value"), [("score", "high"), ("started_at", "yesterday"), ("input_tokens", "many"), ("passed", "yes")]
)
def test_a_column_of_another_type_is_named(default: Ledger, column: str, value: Any) -> None:
    frame = many(3).with_columns(pl.lit(value).alias(column))
    with unchanged(default), pytest.raises(ExpcompError, match=column):
        default.add(frame)


def test_rows_that_are_there_twice_count_once(default: Ledger) -> None:
    told = default.add(pl.concat([many(7), many(7)]))
    assert told.counts == {"identical": 12, "inserted": 2, "refused": 0}
    assert default.runs.collect()["run_key"].is_unique().all()


@pytest.mark.parametrize("column", ["score", "cost_usd", "duration_s", "score_max"])
def test_nan_in_a_frame_is_refused_by_its_column(default: Ledger, column: str) -> None:
    with unchanged(default):
        told = default.add(one(**{column: math.nan}))
    assert told.refused.select("record", "field", "reason").rows() == [(0, column, "not a finite number")]


@pytest.mark.parametrize(
    ("runs", "field"),
    [
        ([1, {"run_id": "r", "status": "completed"}], "runs[0]"),
        ({"r": 1}, "runs"),
        ([{"run_id": "r", "official_score": 1.0}, {"run_id": "r", "official_score": 0.0}], "run_id"),
    ],
)
def test_what_of_a_ledger_document_is_no_run_is_told(ledger: Ledger, tmp_path: Path, runs: Any, field: str) -> None:
    (tmp_path / "a.json").write_text(json.dumps(document(runs)))
    told = ledger.add(tmp_path / "a.json")
    assert told.refused.select("name", "field", "file").rows() == [("b/c", field, str(tmp_path / "a.json"))]


@pytest.mark.parametrize(("benchmarks", "field"), [([1], "benchmarks"), ({"b": 1}, "benchmarks.b")])
def test_a_ledger_document_without_benchmarks_is_told(
    ledger: Ledger, tmp_path: Path, benchmarks: Any, field: str
) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"schema_version": DOCUMENT, "benchmarks": benchmarks}))
    with unchanged(ledger):
        assert ledger.add(tmp_path / "a.json").refused["field"].to_list() == [field]


def test_nan_in_a_ledger_document_is_refused_by_ours(default: Ledger, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(document([record(run_id="r", official_score=math.nan)])))
    with unchanged(default):
        told = default.add(tmp_path / "a.json")
    assert told.refused.select("name", "field").rows() == [("c", "official_score")]


# Rules and profiles


@pytest.mark.parametrize("create", [True, False])
def test_an_unknown_profile_is_named_with_those_there_are(default: Ledger, tmp_path: Path, create: bool) -> None:
    with unchanged(default), pytest.raises(UsageError, match="unknown profile 'ours'; known are default, loopx"):
        Ledger(default.path, "ours", create=create)
    with pytest.raises(UsageError, match="unknown profile"):
        Ledger(tmp_path / "new", "ours", create=create)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[benchmarks", "own.toml"),
        ("[nonsense]\na = 1", "own.toml: unknown section 'nonsense'"),
        ('[[rules.infra]]\nid = "x"\nwhen = { no_such = 1 }\nthen = true', "unknown column 'no_such'"),
        ('[[rules.infra]]\nid = "x"\nwhen = { score = { near = 1 } }\nthen = true', "near"),
    ],
)
def test_rules_that_mean_nothing_are_named_and_nothing_is_added(
    default: Ledger, tmp_path: Path, text: str, said: str
) -> None:
    (tmp_path / "own.toml").write_text(text)
    with unchanged(default), pytest.raises(ConfigError) as caught:
        Ledger(default.path, rules=tmp_path / "own.toml").add(many(9))
    assert said in str(caught.value)


# Stores

Damage = Callable[[Path], None]


def newest(where: Path) -> Path:
    return max((where / "_delta_log").glob("*.json"))


DAMAGE: dict[str, Damage] = {
    "a part is gone": lambda w: next(w.glob("*.parquet")).unlink(),
    "a part is cut": lambda w: (p := next(w.glob("*.parquet"))).write_bytes(p.read_bytes()[:-100]),
    "a part is empty": lambda w: next(w.glob("*.parquet")).write_bytes(b""),
    "a part is another's": lambda w: (p := next(w.glob("*.parquet"))).write_bytes(b"x" * p.stat().st_size),
    "a part is a folder": lambda w: ((p := next(w.glob("*.parquet"))).unlink(), p.mkdir()),
    "the newest commit is cut": lambda w: (p := newest(w)).write_bytes(p.read_bytes()[:-40]),
    "the newest commit is empty": lambda w: newest(w).write_bytes(b""),
    "the newest commit is no JSON": lambda w: newest(w).write_bytes(b"\x00\xff" * 20),
    "a commit in between is gone": lambda w: (w / "_delta_log" / f"{1:020}.json").unlink(),
    "the first commit is gone": lambda w: (w / "_delta_log" / f"{0:020}.json").unlink(),
    "the log is gone": lambda w: shutil.rmtree(w / "_delta_log"),
    "the log is a file": lambda w: (shutil.rmtree(w / "_delta_log"), (w / "_delta_log").write_text("x")),
    "the log is a link": lambda w: ((w / "_delta_log").rename(w.parent / "log"), (w / "_delta_log").symlink_to(w.parent / "log")),
}  # fmt: skip


@pytest.mark.parametrize("what", DAMAGE)
def test_a_half_written_or_damaged_table_is_named_and_left_as_it_is(default: Ledger, tmp_path: Path, what: str) -> None:
    default.add(many(8))
    where = Path(default.path)
    DAMAGE[what](where)
    before = tree(tmp_path)
    acts: list[Callable[[], Any]] = [
        lambda: Ledger(where).runs.select(pl.len()).collect(),
        lambda: Ledger(where).estimate("latest"),
        lambda: Ledger(where).add(many(12)),
        lambda: Ledger(where).compact(),
        lambda: Ledger(where, create=True).add(many(12)),
    ]
    for act in acts:
        with pytest.raises(ExpcompError) as caught:
            act()
        assert str(where) in str(caught.value)
        assert tree(tmp_path) == before


def test_a_part_without_a_commit_is_not_read(default: Ledger) -> None:
    part = next(Path(default.path).glob("*.parquet"))
    shutil.copy(part, part.with_name("part-0.zstd.parquet"))
    assert Ledger(default.path).runs.collect().height == 5


def test_a_store_that_is_no_folder_or_a_link_is_named(default: Ledger, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(default.path)
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    before = tree(tmp_path)
    for name, create in ((n, c) for n in ("file", "file/below", "link", "dangling") for c in (False, True)):
        with pytest.raises(ExpcompError) as caught:
            Ledger(tmp_path / name, create=create)
        assert name in str(caught.value)
    assert tree(tmp_path) == before


@contextmanager
def as_nobody(folder: Path) -> Iterator[None]:
    """Without the rights of root, which no permission stops; the folders above are opened first."""
    above = [p for p in folder.parents if len(p.parts) > 2]
    modes = {p: p.stat().st_mode & 0o777 for p in above}
    for path in above:
        path.chmod(0o755)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
        for path, mode in modes.items():
            path.chmod(mode)


@pytest.mark.skipif(os.name != "posix", reason="POSIX permissions")
@pytest.mark.parametrize(
    ("inside", "mode", "readable"), [(".", 0o000, False), ("_delta_log", 0o000, False), (".", 0o555, True)]
)
def test_a_store_without_permission_says_so(default: Ledger, inside: str, mode: int, readable: bool) -> None:
    where = Path(default.path)
    before = tree(where)
    os.chmod(where / inside, mode)  # noqa: PTH101
    try:
        with as_nobody(where):
            if readable:
                assert Ledger(where).runs.collect().height == 5
            with pytest.raises((SourceError, OutputError)) as caught:
                Ledger(where).add(many(9))
            assert str(where) in str(caught.value)
            with pytest.raises((SourceError, OutputError)):
                Ledger(where.parent / "new", create=True)
    finally:
        os.chmod(where / inside, 0o755)  # noqa: PTH101
    assert tree(where) == before
