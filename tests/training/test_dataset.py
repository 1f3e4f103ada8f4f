"""Training datasets: every check by its code, the two forms, and that they are one dataset."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from expcomp.errors import OutputError, TableError
from expcomp.io.canon import digest, digest_bytes
from expcomp.tables.models import validate
from expcomp.training.bundle import BundleManifest, write_bundle, write_document, write_inventory
from expcomp.training.checks import CHECKS, DatasetError
from expcomp.training.dataset import Limits, check_dataset, read_dataset, row_digests
from expcomp.training.documents import to_wire
from expcomp.training.validate import ROWS, validate_rows
from tests.training.made import document, row, sha, write

SMALL = Limits(document_bytes=3_000, rows=4)
GOOD = [row("t1"), row("t2"), row("v1", "validation")]


def text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def without(value: dict[str, Any], key: str) -> dict[str, Any]:
    return {k: v for k, v in value.items() if k != key}


def task(**change: Any) -> dict[str, Any]:
    made = row()
    return made | {"task": made["task"] | change}


def data(kind: str = "sft", **change: Any) -> dict[str, Any]:
    made = row(kind=kind)
    return made | {"data": made["data"] | change}


def chat(*roles: str) -> list[dict[str, Any]]:
    return [{"role": r, "content": "x"} for r in roles]


# A document, the code that it is refused with, the row, the path, and a part of what was found.
BAD: list[tuple[Any, str, int | None, str | None, str]] = [
    (document(GOOD, extra=1), "dataset_bad_shape", None, "extra", "unknown"),
    (without(document(GOOD), "format"), "dataset_bad_shape", None, "format", "no format"),
    (document(GOOD, version=2), "dataset_bad_shape", None, "version", "2"),
    (document(GOOD, version=True), "dataset_bad_shape", None, "version", "true"),
    (document(GOOD, version=1.0), "dataset_bad_shape", None, "version", "1.0"),
    (document(GOOD, format="rlhf"), "dataset_bad_shape", None, "format", "rlhf"),
    (document(GOOD, format=["sft"]), "dataset_bad_shape", None, "format", "sft"),
    (document(GOOD) | {"rows": {}}, "dataset_bad_shape", None, "rows", "Expected"),
    ([1], "dataset_bad_shape", None, None, "list"),
    (document([]), "dataset_empty", None, "rows", "no rows"),
    (document([row(f"t{n}") for n in range(5)]), "dataset_too_many_rows", None, "rows", "5 rows"),
    (text(document(GOOD))[:-1], "dataset_not_json", None, None, ""),
    (text(document(GOOD)) + "x", "dataset_not_json", None, None, ""),
    ('{"version":1,"version":1,"format":"sft","rows":[]}', "dataset_not_json", None, None, "twice"),
    (text(document([row()])).replace('"data":', '"partition":"train","data":'), "dataset_not_json", None, None, "twice"),
    (text(document(GOOD)).replace('"Twelve."', "NaN", 1), "dataset_not_json", None, None, ""),
    (document([data(seed=2**53)]), "dataset_not_canonicalizable", 0, None, "2^53"),
    (document([row("t1"), data(note="\ud800")]), "dataset_not_utf8", None, None, "0xed"),
    (text(document([data(note="~")])).replace("~", "\\ud800"), "dataset_not_json", None, None, ""),
    (document([row("t1"), "row"]), "row_bad_shape", 1, "", "str"),
    (document([without(row(), "data")]), "row_bad_shape", 0, "data", "nothing"),
    (document([row() | {"id": 1}]), "row_bad_shape", 0, "id", "an unknown key"),
    (document([row(), row("t2", "test")]), "row_bad_partition", 1, "partition", "test"),
    (document([row() | {"partition": 1}]), "row_bad_partition", 0, "partition", "1"),
    (document([row() | {"task": "t1"}]), "row_bad_task", 0, "task", "str"),
    (document([task(owner="x")]), "row_bad_task", 0, "task.owner", "an unknown key"),
    (document([task(task=None)]), "row_bad_task", 0, "task.task", "null"),
    (document([task(task="")]), "row_bad_task", 0, "task.task", ""),
    (document([task(benchmark="b\n")]), "row_bad_task", 0, "task.benchmark", "b\n"),
    (document([task(task="x" * 513)]), "row_bad_task", 0, "task.task", "xxx"),
    (document([task(contentDigest="sha256:0")]), "row_bad_task", 0, "task.contentDigest", "sha256:0"),
    (document([row("v1"), row("v1", "validation", content="other")]), "partition_overlap_name", 0, "task", "row 1 of validation"),
    (document([row("a", content="c"), row("b", "validation", content="c")]), "partition_overlap_content", 0, "task.contentDigest", "row 1"),
    (document([row("a", "validation")]), "no_training_rows", None, None, ""),
    (document([data(messages=[])]), "row_bad_data", 0, "data.messages", "`array` of length >= 1"),
    (document([data(messages=chat("user"))]), "row_bad_data", 0, "data.messages", "user"),
    (document([data(messages=[{"content": "x"}])]), "row_bad_data", 0, "data.messages[0]", "role"),
    (document([row() | {"data": []}]), "row_bad_data", 0, "data", "array"),
    (document([row(kind="dpo"), data("dpo", chosen=None)], "dpo"), "row_bad_data", 1, "data.chosen", "null"),
    (document([data("dpo", margin="high")], "dpo"), "row_bad_data", 0, "data.margin", "str"),
    (document([data("grpo", rewards=[1.0])], "grpo"), "row_bad_data", 0, "data.rewards", "1"),
    (document([data("grpo", completions=["a"], rewards=[1])], "grpo"), "row_bad_data", 0, "data.completions", "length"),
    (document([data("grpo", rewards=[1, None])], "grpo"), "row_bad_data", 0, "data.rewards[1]", "null"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "code", "number", "path", "found"), BAD, ids=[f"{c}-{n}" for n, (_, c, *_) in enumerate(BAD)]
)
def test_a_bad_dataset_is_refused_by_code_row_and_path(
    value: Any, code: str, number: int | None, path: str | None, found: str, tmp_path: Path
) -> None:
    file = write(tmp_path / "rows.json", value)
    checked = check_dataset(file, limits=SMALL)
    assert checked.dataset is None
    first = checked.findings.filter(pl.col("code") == code)
    assert first.height, checked.findings
    assert (first["document"][0], first["row"][0], first["path"][0]) == ("rows.json", number, path)
    assert found in str(first["found"][0]) + str(first["expected"][0])
    with pytest.raises(DatasetError, match=r"rows\.json") as caught:
        read_dataset(file, limits=SMALL)
    assert caught.value.findings.equals(checked.findings)


@pytest.mark.parametrize("compact", [True, False])
@pytest.mark.parametrize("kind", ["sft", "dpo", "grpo"])
def test_a_good_dataset_passes(kind: str, compact: bool, tmp_path: Path) -> None:
    rows = [row("t1", kind=kind), row("t2", kind=kind), row("v1", "validation", kind=kind)]
    path = write(tmp_path / "rows.json", document(rows, kind), compact=compact)
    checked = check_dataset(path, expected_digest=digest_bytes(path.read_bytes()))
    assert not checked.findings.height
    assert checked.dataset is not None
    validate("training_rows", checked.dataset.frame)
    validate("training_tasks", checked.dataset.tasks)
    assert checked.dataset.frame["row_digest"].to_list() == [digest_bytes(rfc8785.dumps(r)) for r in rows]
    assert checked.dataset.identity().digest == digest_bytes(path.read_bytes())
    assert [t.task for t in checked.dataset.identity().tasks] == ["t1", "t2", "v1"]  # type: ignore[union-attr]


def test_all_findings_of_all_rows_are_reported(tmp_path: Path) -> None:
    rows = [
        row("a") | {"partition": "x"},
        task(task=" ") | {"data": {}},
        7,
        row("b"),
        row("b", "validation"),
        row("c", content="1"),
        row("c", content="2"),
    ]
    found = check_dataset(write(tmp_path / "d.json", document(rows))).findings
    validate("training_findings", found)
    assert list(zip(found["row"], found["code"], found["severity"], strict=True)) == [
        (0, "row_bad_partition", "error"),
        (1, "row_bad_task", "error"),
        (1, "row_bad_data", "error"),
        (2, "row_bad_shape", "error"),
        (3, "partition_overlap_name", "error"),
        (3, "partition_overlap_content", "error"),
        (4, "partition_overlap_name", "error"),
        (4, "partition_overlap_content", "error"),
        (6, "task_content_conflict", "warning"),
    ]


def test_a_conflict_of_contents_is_a_warning_unless_told_otherwise(tmp_path: Path) -> None:
    path = write(tmp_path / "d.json", document([row("a", content="1"), row("a", content="2")]))
    checked = check_dataset(path)
    assert checked.findings["code"].to_list() == ["task_content_conflict"]
    assert checked.dataset is not None
    with pytest.raises(DatasetError, match="task_content_conflict"):
        read_dataset(path, severities={"task_content_conflict": "error"})


def test_what_is_no_file_of_rows_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "d.json", document(GOOD))
    (tmp_path / "link.json").symlink_to(path)
    os.mkfifo(tmp_path / "pipe.json")
    for name, code in (
        ("link.json", "dataset_not_regular_file"),
        ("pipe.json", "dataset_not_regular_file"),
        ("none.json", "dataset_not_regular_file"),
    ):
        assert check_dataset(tmp_path / name).findings["code"].to_list() == [code]
    assert check_dataset(path, limits=Limits(document_bytes=10)).findings["code"].to_list() == ["dataset_too_large"]
    assert check_dataset(path, expected_digest=sha("x")).findings["code"].to_list() == ["dataset_digest_mismatch"]


def test_a_file_that_changes_meanwhile_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "d.json", document(GOOD))
    real = os.read

    def reading(handle: int, size: int) -> bytes:
        chunk = real(handle, size)
        if not chunk:
            path.write_bytes(b"[]")
        return chunk

    monkeypatch.setattr("expcomp.io.pinned_files.os.read", reading)
    assert check_dataset(path).findings["code"].to_list() == ["dataset_changed"]


def test_a_large_document_is_looked_through_for_keys_that_stand_twice(tmp_path: Path) -> None:
    rows = [data(note="x" * 1_000) | {"task": row(f"t{n}")["task"]} for n in range(1_500)]
    good = text(document(rows))
    assert check_dataset(write(tmp_path / "d.json", good)).dataset is not None
    twice = good.replace('{"version":1,', '{"version":1,"rows":[],', 1)
    for value, code, number in (
        (twice, "dataset_not_json", None),
        (good.replace('"note":', '"note":1,"note":', 1), "dataset_not_json", 0),
        (good.replace('"partition":"train"', '"partition":"train","partition":"train"', 1), "dataset_not_json", 0),
        (good.replace('"version":1', '"version":2', 1), "dataset_bad_shape", None),
        (good[:-1] + ',"x":1}', "dataset_bad_shape", None),
        (good[:-2], "dataset_not_json", None),
    ):
        found = check_dataset(write(tmp_path / "d.json", value)).findings
        assert (found["code"][0], found["row"][0]) == (code, number)


# Both forms.


def frame(rows: list[dict[str, Any]]) -> pl.DataFrame:
    parts = [
        (
            n,
            r["task"]["benchmark"],
            r["task"]["task"],
            r["task"]["contentDigest"],
            r["partition"],
            rfc8785.dumps(r["data"]).decode(),
        )
        for n, r in enumerate(rows)
    ]
    return pl.DataFrame(parts, schema=ROWS, orient="row")


SCALARS = st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(-1e9, 1e9) | st.text(max_size=5)
NAMES = st.text('ab"\\\u0001é\ufffd😀', min_size=1, max_size=4)
PAYLOAD = st.fixed_dictionaries(
    {
        "messages": st.just(chat("user", "assistant")),
        "more": st.dictionaries(
            st.text("k\ufffd😀\"", max_size=3),
            SCALARS,
            max_size=4,
        ),
    }
)  # fmt: skip
MADE = st.lists(st.tuples(NAMES, PAYLOAD), min_size=1, max_size=6)


def from_drawn(drawn: list[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    return [row(name) | {"data": payload} for name, payload in drawn]


@settings(max_examples=25)
@given(MADE, st.sampled_from(["parquet", "jsonl"]), st.integers(1, 4))
def test_document_and_bundle_are_one_dataset(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[tuple[str, dict[str, Any]]], suffix: Any, shard_rows: int
) -> None:
    folder = tmp_path_factory.mktemp("forms")
    rows = from_drawn(drawn)
    plain = write(folder / "plain.json", json.dumps(document(rows)))
    first = read_dataset(plain)
    written = write_document(first.rows, "sft", folder / "d.json")
    packed = write_bundle(first.rows, "sft", folder / "b", shard_rows=shard_rows, suffix=suffix)
    content = (folder / "d.json").read_bytes()
    assert content == rfc8785.dumps(document(rows))
    assert written == digest_bytes(content)
    one, other = (
        read_dataset(folder / "d.json", expected_digest=written),
        read_dataset(folder / "b", expected_digest=packed),
    )
    assert one.rows.equals(other.rows)
    assert one.rows.equals(first.rows)
    assert one.identity().task_set_digest == other.identity().task_set_digest
    manifest = json.loads((folder / "b" / "manifest.json").read_bytes())
    assert (manifest["documentDigest"], digest(manifest)) == (written, packed)


@settings(max_examples=100)
@given(MADE)
def test_row_digests_are_those_of_the_canonical_rows(drawn: list[tuple[str, dict[str, Any]]]) -> None:
    rows = from_drawn(drawn)
    assert row_digests(frame(rows)).to_list() == [digest_bytes(rfc8785.dumps(r)) for r in rows]


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    write_bundle(frame(GOOD), "sft", tmp_path / "b", shard_rows=2)
    return tmp_path / "b"


def test_equal_rows_give_equal_bundles(bundle: Path, tmp_path: Path) -> None:
    write_bundle(frame(GOOD), "sft", tmp_path / "again", shard_rows=2)
    assert {p.name: p.read_bytes() for p in bundle.iterdir()} == {
        p.name: p.read_bytes() for p in (tmp_path / "again").iterdir()
    }


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def manifest(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        value = json.loads((folder / "manifest.json").read_bytes())
        change(value)
        (folder / "manifest.json").write_bytes(rfc8785.dumps(value))

    return apply


def respace(path: Path) -> None:
    write(path, json.loads(path.read_bytes()), compact=False)


def reshard(**columns: pl.Expr) -> Callable[[Path], None]:
    """Another first shard, with a manifest that fits it."""

    def apply(folder: Path) -> None:
        path = folder / "rows-00000.parquet"
        pl.read_parquet(path).with_columns(**columns).write_parquet(path)
        content = path.read_bytes()
        manifest(lambda m: m["shards"][0].update(bytes=len(content), sha256=digest_bytes(content)))(folder)

    return apply


TAMPERED: list[tuple[Callable[[Path], Any], str, str, str]] = [
    (lambda b: flip(b / "rows-00001.parquet"), "dataset_file_mismatch", "rows-00001.parquet", ""),
    (lambda b: flip(b / "inventory.parquet"), "dataset_file_mismatch", "inventory.parquet", ""),
    (lambda b: (b / "rows-00001.parquet").unlink(), "dataset_file_missing", "b", "rows-00001.parquet"),
    (lambda b: (b / "manifest.json").unlink(), "dataset_file_missing", "b", "manifest.json"),
    (lambda b: (b / "more.parquet").write_bytes(b"x"), "dataset_file_unlisted", "b", "more.parquet"),
    (lambda b: write(b / "manifest.json", "{"), "dataset_not_json", "manifest.json", ""),
    (lambda b: respace(b / "manifest.json"), "dataset_bad_shape", "manifest.json", "canonical"),
    (manifest(lambda m: m.update(format="x")), "dataset_bad_shape", "manifest.json", ""),
    (manifest(lambda m: m.update(rows=4)), "dataset_bad_shape", "manifest.json", ""),
    (manifest(lambda m: m["shards"].append(m["shards"][0])), "dataset_bad_shape", "manifest.json", ""),
    (manifest(lambda m: m["shards"][0].update(path="../x.parquet")), "dataset_bad_shape", "manifest.json", ""),
    (manifest(lambda m: m.update(shards=[], rows=0)), "dataset_empty", "b", ""),
    (manifest(lambda m: m.update(taskSetDigest=sha("x"))), "dataset_identity_mismatch", "manifest.json", sha("x")),
    (manifest(lambda m: m.update(documentDigest=sha("x"))), "dataset_identity_mismatch", "manifest.json", sha("x")),
    (manifest(lambda m: m.update(taskCount=9)), "dataset_identity_mismatch", "manifest.json", "9"),
    (reshard(task=pl.lit("t1")), "dataset_identity_mismatch", "manifest.json", ""),
    (reshard(row=pl.lit(1)), "dataset_bad_shape", "rows-00000.parquet", ""),
    (reshard(data=pl.lit("{")), "dataset_not_json", "rows-00000.parquet", ""),
    (reshard(data=pl.lit(None, pl.String)), "dataset_not_json", "rows-00000.parquet", "no text"),
    (reshard(data=pl.lit('{"a":9007199254740993}')), "dataset_not_canonicalizable", "rows-00000.parquet", ""),
    (reshard(task=pl.lit(None, pl.String)), "row_bad_task", "b", ""),
    (reshard(partition=pl.lit("test")), "row_bad_partition", "b", "test"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("tamper", "code", "name", "found"), TAMPERED, ids=[f"{c}-{n}" for n, (_, c, *_) in enumerate(TAMPERED)]
)
def test_a_tampered_bundle_is_refused_by_name(
    tamper: Callable[[Path], Any], code: str, name: str, found: str, bundle: Path
) -> None:
    tamper(bundle)
    first = check_dataset(bundle).findings.filter(pl.col("code") == code)
    assert first.height
    assert first["document"][0] == name
    assert found in str(first["found"][0])


def test_a_bundle_has_to_have_the_digest_that_was_pinned(bundle: Path) -> None:
    found = check_dataset(bundle, expected_digest=sha("x")).findings
    assert found["code"].to_list() == ["dataset_digest_mismatch"]


def test_a_shard_with_other_rows_than_stated_is_refused(bundle: Path) -> None:
    manifest(lambda m: (m["shards"][0].update(rows=1), m.update(rows=2)))(bundle)
    assert check_dataset(bundle).findings["code"].to_list() == ["dataset_file_mismatch"]


def test_files_of_a_bundle_are_listed_once() -> None:
    good = {"path": "a.parquet", "bytes": 1, "rows": 1, "sha256": sha("a")}
    fields = {
        "version": 1,
        "format": "sft",
        "rows": 1,
        "documentDigest": sha("d"),
        "taskSetDigest": sha("t"),
        "taskCount": 1,
        "inventory": good | {"path": "inventory.parquet"},
    }
    for shards, code in (
        ([good, good | {"rows": 0}], "bundle_files"),
        ([good | {"rows": 2}], "bundle_rows"),
        ([good | {"path": "a.csv"}], "bundle_kinds"),
    ):
        with pytest.raises(msgspec.ValidationError, match=code):
            msgspec.convert(fields | {"shards": shards}, BundleManifest)


def test_nothing_bad_is_written(tmp_path: Path) -> None:
    for rows, code in (
        (frame([row(), row("t1", "validation")]), "partition_overlap_name"),
        (frame([]), "dataset_empty"),
    ):
        with pytest.raises(DatasetError, match=code):
            write_document(rows, "sft", tmp_path / "d.json")
        with pytest.raises(DatasetError, match=code):
            write_bundle(rows, "sft", tmp_path / "b")
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_replaced_unasked(bundle: Path) -> None:
    with pytest.raises(OutputError):
        write_bundle(frame(GOOD), "sft", bundle)


def test_many_tasks_are_named_by_an_inventory(tmp_path: Path) -> None:
    rows = [row(f"t{n}") for n in range(4_097)]
    path = write(tmp_path / "d.json", document(rows))
    dataset = read_dataset(path)
    with pytest.raises(TableError, match="inventory"):
        dataset.identity()
    file = write_inventory(dataset.rows, tmp_path / "tasks.parquet")
    assert file.digest == digest_bytes((tmp_path / "tasks.parquet").read_bytes())
    identity = dataset.identity(file)
    assert to_wire(identity)["taskCount"] == 4_097
    assert "tasks" not in to_wire(identity)
    write_bundle(dataset.rows, "sft", tmp_path / "b")
    other = read_dataset(tmp_path / "b").identity()
    assert (other.task_set_digest, other.inventory) == (identity.task_set_digest, file)


def test_rows_may_be_lazy() -> None:
    assert validate_rows(frame(GOOD).lazy(), "sft").height == 0
    assert validate_rows(frame(GOOD), "dpo")["code"].unique().to_list() == ["row_bad_data"]


def test_every_check_has_a_test() -> None:
    source = Path(__file__).read_text("utf-8")
    assert [c for c in CHECKS if f'"{c}"' not in source] == []
