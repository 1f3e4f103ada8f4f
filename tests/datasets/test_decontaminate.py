from __future__ import annotations

import json
import pickle
import re
import unicodedata
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from expcomp.datasets.decontaminate.chain import semantic_review, task_hits
from expcomp.datasets.decontaminate.heldout import held_out, task_identity
from expcomp.datasets.decontaminate.index import Index
from expcomp.datasets.decontaminate.report import ROW_HITS, manifest_entry, row_hits, row_report, task_report
from expcomp.datasets.decontaminate.scan import FOUND
from expcomp.datasets.decontaminate.words import Stream, normalized, streams
from expcomp.datasets.options import Policy
from expcomp.errors import ConfigError, SourceError, UsageError
from expcomp.io.canon import digest
from expcomp.tables.decontamination import DECONTAMINATION_ROWS, DECONTAMINATION_TASKS, HELD_OUT

# Sentences of twenty different words each, so that no two share an n-gram.
NUMBERS = [
    f"{a}{b}"
    for a in ("amber", "birch", "cobalt", "delta", "ember")
    for b in ("ant", "bee", "cat", "dog", "elk", "fox")
]


def sentence(seed: int, length: int = 20) -> str:
    return " ".join(f"{NUMBERS[(seed * 7 + i * i + i) % len(NUMBERS)]}{seed}x{i}" for i in range(length))


def held(*tasks: dict[str, str | None]) -> pl.DataFrame:
    return pl.DataFrame([dict.fromkeys(HELD_OUT.columns) | t for t in tasks], schema=HELD_OUT.schema)


def rows(*texts: str | list[str]) -> pl.DataFrame:
    each = [(i, t) for i, of in enumerate(texts) for t in ([of] if isinstance(of, str) else of)]
    return pl.DataFrame(each, schema={"row": pl.UInt32, "text": pl.String}, orient="row")


def found(heldout: pl.DataFrame, texts: pl.DataFrame, **policy: Any) -> list[dict[str, Any]]:
    return Index.build(heldout, Policy(**policy)).scan(texts).to_dicts()


# -- words ------------------------------------------------------------------------------------------------------------------


def words_of(text: str) -> list[str]:
    """The definition, in plain Python, over letters on which all implementations of \\w agree."""
    return re.findall(r"\w+", unicodedata.normalize("NFKC", text).casefold())


ALPHABET = "abzAZ09_ .,-\n\t'\"éÉßΣς①ﬁ日本ЖжÅå“”→…"


def stream_words(stream: Stream) -> list[list[str]]:
    words = stream.words(pl.int_range(len(stream), dtype=pl.UInt32, eager=True)).to_list()
    first = stream.first.to_list()
    return [words[a:b] for a, b in pairwise(first)]


@given(st.lists(st.text(ALPHABET, max_size=30), max_size=8))
@example(["", "ΟΔΟΣ Straße", "ﬁne\n①", "a\u0301 x", " ", "x"])
def test_words_are_found_in_bytes_as_the_definition_finds_them(texts: list[str]) -> None:
    assert stream_words(Stream.of(pl.Series(texts, dtype=pl.String))) == [words_of(t) for t in texts]


@given(st.text(ALPHABET, max_size=60))
def test_normalised_text_is_its_words_with_one_space(text: str) -> None:
    assert pl.select(normalized(pl.lit(text))).item() == " ".join(words_of(text))


def test_texts_in_json_are_read_as_what_they_stand_for() -> None:
    text = json.dumps({"cmd": 'echo "a"\n\tnext C:\\new'})
    assert stream_words(Stream.of(pl.Series([text]))) == [["cmd", "echo", "a", "next", "c", "new"]]


def test_null_is_a_text_without_words() -> None:
    assert stream_words(Stream.of(pl.Series([None, "a b", None], dtype=pl.String))) == [[], ["a", "b"], []]


def test_portions_hold_all_texts_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("expcomp.datasets.decontaminate.words.CHUNK", 10)
    texts = pl.Series(["one two", "", "three four five six", "x", "y z"])
    parts = [(at, stream_words(s)) for at, s in streams(texts)]
    assert [w for _, part in parts for w in part] == [t.split() for t in texts]
    assert len(parts) > 1
    assert all(part[0] == texts[at].split() for at, part in parts)


@given(st.lists(st.sampled_from(["aa", "ab", "longish", "longest"]), min_size=3, max_size=30))
def test_equal_words_hash_equally_wherever_they_stand(words: list[str]) -> None:
    stream = Stream.of(pl.Series([" ".join(words), "x " + ", ".join(words).upper()]))
    hashes = stream.grams(3).to_list()
    n = len(words)
    assert hashes[: n - 2] == hashes[n + 1 : n + 1 + n - 2]


# -- coverage, against a plain reference ------------------------------------------------------------------------------------


def reference(field: list[str], texts: list[list[str]], policy: Policy) -> tuple[int, int]:
    """Matched words and longest run of a field that is long enough, without boilerplate."""
    n = policy.n if len(field) >= policy.evidence_n else len(field)
    there = {tuple(t[i : i + n]) for t in texts for i in range(len(t) - n + 1)}
    starts = [i for i in range(len(field) - n + 1) if tuple(field[i : i + n]) in there]
    covered = {i + k for i in starts for k in range(n)}
    longest = best = 0
    for i in range(len(field)):
        longest = longest + 1 if i in starts else 0
        best = max(best, longest + n - 1 if longest else 0)
    return len(covered), best


VOCABULARY = [f"w{i}" for i in range(6)]


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(VOCABULARY), min_size=4, max_size=24),
    st.lists(st.lists(st.sampled_from(VOCABULARY), max_size=30), min_size=1, max_size=3),
    st.data(),
)
def test_coverage_and_run_are_those_of_a_plain_count(
    field: list[str], texts: list[list[str]], data: st.DataObject
) -> None:
    policy = Policy(n=4, evidence_n=6, coverage=0.5, run=9)
    for text in texts:  # plant a stretch of the field, so that there is something to find
        start = data.draw(st.integers(0, len(field)))
        text[len(text) // 2 : len(text) // 2] = field[start : start + data.draw(st.integers(0, len(field)))]
    matched, longest = reference(field, texts, policy)
    index = Index.build(held({"prompt": " ".join(field)}), policy)
    got = index.scan(rows([" ".join(t) for t in texts])).to_dicts()
    drop = matched / len(field) >= policy.coverage or longest >= policy.run
    if drop or longest >= policy.evidence_n:
        (hit,) = got
        assert (hit["tokens"], hit["matched"], hit["longest_run"]) == (len(field), matched, longest)
        assert hit["coverage"] == pytest.approx(matched / len(field))
        assert hit["verdict"] == ("drop" if drop else "review")
        assert hit["evidence"] == (longest >= policy.evidence_n)
    else:
        assert got == []


# -- planted cases ----------------------------------------------------------------------------------------------------------

TASK = {
    "benchmark": "bench",
    "task": "t1",
    "prompt": sentence(1, 40),
    "answer": sentence(2, 40),
    "tests": sentence(3, 40),
}


@pytest.mark.parametrize("field", ["prompt", "answer", "tests"])
def test_a_passage_in_a_long_text_is_found_in_each_field_apart(field: str) -> None:
    long = " ".join(sentence(50 + i) for i in range(200))
    (hit,) = found(held(TASK), rows(f"{long} {TASK[field]} {long}", long))
    assert (hit["row"], hit["field"], hit["coverage"], hit["longest_run"]) == (0, field, 1.0, 40)
    assert hit["verdict"] == "drop"


def test_rendering_does_not_hide_a_passage() -> None:
    shown = TASK["prompt"].upper().replace(" ", " -\n\t«") + "!"
    (hit,) = found(held(TASK), rows(shown))
    assert hit["coverage"] == 1.0


def test_a_passage_inside_arguments_of_a_call_is_found() -> None:
    (hit,) = found(held(TASK), rows(json.dumps({"patch": TASK["answer"].replace(" ", "\n")})))
    assert (hit["field"], hit["coverage"]) == ("answer", 1.0)


def test_the_texts_of_a_row_count_together() -> None:
    words = TASK["prompt"].split()
    halves = [" ".join(words[:12]), " ".join(words[28:])]
    assert [h["coverage"] for h in found(held(TASK), rows(halves))] == [24 / 40]
    assert found(held(TASK), rows(*halves)) == []


def test_some_words_are_for_review_and_fewer_are_nothing() -> None:
    words = TASK["prompt"].split()
    part = lambda n: "so " + " ".join(words[5 : 5 + n]) + " end"  # noqa: E731
    hits = found(held(TASK), rows(part(12), part(13), part(19), part(20)))
    assert [(h["row"], h["verdict"]) for h in hits] == [(1, "review"), (2, "review"), (3, "drop")]


def test_a_long_stretch_drops_whatever_its_share() -> None:
    long = " ".join(sentence(i, 20) for i in range(30))
    words = long.split()
    hits = found(held({"prompt": long}), rows(" ".join(words[100:149]), " ".join(words[100:150])))
    assert [(h["row"], h["verdict"], h["longest_run"]) for h in hits] == [(0, "review", 49), (1, "drop", 50)]


@pytest.mark.parametrize(("words", "text", "hit"), [
    (8, "so {} it is", True),
    (12, "so {} it is", True),
    (12, "so {cut} it is", False),
    (7, "so {} it is", False),
    (7, " {}!! ", True),
    (1, "{}", True),
])  # fmt: skip
def test_short_questions_have_to_be_there_as_a_whole(words: int, text: str, *, hit: bool) -> None:
    asked = sentence(9, words)
    shown = text.format(asked, cut=" ".join(asked.split()[:-1]))
    assert bool(found(held({"prompt": asked}), rows(shown))) == hit


def test_short_answers_never_drop() -> None:
    heldout = held({"prompt": sentence(1), "answer": "42"}, {"prompt": sentence(2), "answer": "the answer is forty"})
    hits = found(heldout, rows("42", "The answer is forty."))
    assert [(h["row"], h["verdict"]) for h in hits] == [(1, "review")]


def test_boilerplate_of_a_set_is_no_leak_and_does_not_hide_one() -> None:
    shared = sentence(99, 60)
    tasks = held(*({"task": f"t{i}", "prompt": f"{shared} {sentence(i)}"} for i in range(30)))
    index = Index.build(tasks, Policy())
    assert index.counts["stop_grams"] > 50
    hits = index.scan(rows(shared, sentence(4), f"{shared} {sentence(5)}")).to_dicts()
    assert [(h["row"], h["heldout"], h["coverage"] > 0.7) for h in hits] == [(1, 4, True), (2, 5, True)]
    assert all(h["tokens"] < 40 for h in hits)


def test_texts_that_never_count_do_not() -> None:
    notice = sentence(77, 30)
    heldout = held({"prompt": f"{notice} {sentence(1)}"})
    assert found(heldout, rows(notice))[0]["coverage"] == 0.6
    assert found(heldout, rows(notice), boilerplate=(notice,)) == []


def test_a_task_that_is_there_many_times_is_no_boilerplate() -> None:
    tasks = held(*({"task": f"copy{i}", "prompt": sentence(1)} for i in range(30)))
    index = Index.build(tasks, Policy())
    assert index.counts["stop_grams"] == 0
    assert index.scan(rows(sentence(1)))["heldout"].to_list() == list(range(30))
    attempts = held(
        *({"benchmark": "b", "task": "one", "prompt": sentence(1), "answer": sentence(5 + i)} for i in range(30))
    )
    assert Index.build(attempts, Policy()).counts["stop_grams"] == 0


def test_a_field_that_is_boilerplate_throughout_is_found_as_a_whole_text() -> None:
    tasks = held(*({"task": f"t{i}", "prompt": sentence(50), "answer": sentence(i)} for i in range(30)))
    index = Index.build(tasks, Policy())
    assert index.counts["fields_all_boilerplate"] == 1
    assert index.scan(rows(sentence(50), sentence(50) + " more"))["row"].unique().to_list() == [0]


def test_words_that_hash_alike_are_told_apart() -> None:
    # Length, ends and middles agree, so the hashes do; the words do not.
    asked = " ".join(f"axb{i:02d}cydz{i:02d}ew" for i in range(20))
    other = asked.replace("cydz", "cyqz")
    a, b = (Stream.of(pl.Series([t])).grams(8).to_list()[:13] for t in (asked, other))
    assert a == b
    assert found(held({"prompt": asked}), rows(other)) == []
    assert found(held({"prompt": asked}), rows(asked))


def test_equal_texts_are_looked_at_once_and_count_for_each_row() -> None:
    hits = found(held(TASK), rows(TASK["prompt"], sentence(5), TASK["prompt"], [TASK["prompt"], TASK["prompt"]]))
    assert [h["row"] for h in hits] == [0, 2, 3]


def test_a_scan_does_not_depend_on_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = rows(*(f"{sentence(60 + i)} {TASK['prompt']}" for i in range(5)), sentence(90))
    index = Index.build(held(TASK), Policy())
    whole = index.scan(texts)
    monkeypatch.setattr("expcomp.datasets.decontaminate.words.CHUNK", 100)
    assert index.scan(texts).equals(whole)


def test_an_index_travels_to_workers() -> None:
    index = Index.build(held(TASK), Policy())
    there = pickle.loads(pickle.dumps(index))
    assert there.scan(rows(TASK["prompt"])).equals(index.scan(rows(TASK["prompt"])))


@pytest.mark.parametrize("heldout", [held(), held({"task": "only-a-name"}), held({"prompt": "  ...  "})])
def test_nothing_to_look_for_finds_nothing(heldout: pl.DataFrame) -> None:
    got = Index.build(heldout, Policy()).scan(rows("a b c d e f g h i j k l m n o p"))
    assert got.schema == pl.Schema(FOUND)
    assert got.is_empty()


def test_nothing_to_look_in_finds_nothing() -> None:
    assert Index.build(held(TASK), Policy()).scan(rows()).schema == pl.Schema(FOUND)
    assert Index.build(held(TASK), Policy()).scan(rows("", "a")).is_empty()


# -- tasks ------------------------------------------------------------------------------------------------------------------


def tasks(**columns: list[str | None]) -> pl.DataFrame:
    n = len(next(iter(columns.values())))
    names = ("task_id", "dataset", "native_id", "instruction", "target", "task_digest")
    return pl.DataFrame(
        {c: columns.get(c, [f"id-{i}" for i in range(n)] if c == "task_id" else [None] * n) for c in names},
        schema=dict.fromkeys(names, pl.String),
    )


def test_identity_is_the_declared_digest_or_that_of_the_content() -> None:
    declared = "sha256:" + "a" * 64
    got = task_identity(
        tasks(
            instruction=["do it", 'é "x"\n', None, None],
            target=["42", None, None, None],
            task_digest=[declared, "md5:1", "x", None],
            dataset=["d", "unnamed", None, ""],
        )
    )
    assert got["content_digest"].to_list() == [declared, digest({"instruction": 'é "x"'}), None, None]
    assert got["benchmark"].to_list() == ["d", None, None, None]
    both = task_identity(tasks(instruction=["do it"], target=["42"]))
    assert both["content_digest"].to_list() == [digest({"instruction": "do it", "target": "42"})]


def levels(ours: pl.DataFrame, heldout: pl.DataFrame, policy: Policy | None = None) -> list[tuple[str, str, int]]:
    return task_hits(ours, heldout, policy or Policy()).rows()


def test_the_same_content_under_another_name_is_found() -> None:
    heldout = held_out(pl.DataFrame({"id": ["old"], "prompt": ["Do the thing."], "answer": ["42"]}))
    ours = tasks(native_id=["renamed"], instruction=["Do the thing."], target=["42"])
    assert levels(ours, heldout) == [("id-0", "exact_content", 0), ("id-0", "normalized_text", 0)]


def test_the_same_name_with_other_content_is_found() -> None:
    heldout = held({"benchmark": "b", "task": "7", "prompt": "Version one."})
    ours = tasks(dataset=["b", "c", None], native_id=["7", "7", "7"], instruction=["Version two."] * 3)
    assert levels(ours, heldout) == [("id-0", "exact_name", 0)]


def test_an_id_that_names_its_task_alone_needs_no_benchmark() -> None:
    heldout = held(
        {"benchmark": "SWE-bench_Verified", "task": "django__django-11099"}, {"task": "12"}, {"task": "tau/air/3"}
    )
    ours = tasks(
        task_id=["a", "b", "tau/air/3"],
        dataset=["other", None, None],
        native_id=["django__django-11099", "12", "3"],
    )
    assert levels(ours, heldout) == [("a", "exact_name", 0), ("tau/air/3", "exact_name", 2)]


def test_a_number_that_two_domains_share_names_both_unless_the_domain_is_said() -> None:
    ours = tasks(task_id=["tau/air/5", "tau/shop/5", "tau/shop/6"], dataset=["tau"] * 3, native_id=["5", "5", "6"])
    named = [{"benchmark": "tau", "task": "5"}, {"benchmark": "tau", "task": "shop/5"}, {"task": "tau/shop/5"}]
    assert [t for t, _, _ in levels(ours, held(named[0]))] == ["tau/air/5", "tau/shop/5"]
    for heldout in (held(named[1]), held(named[2]), held_out(ours.filter(pl.col("task_id") == "tau/shop/5"))):
        assert [t for t, level, _ in levels(ours, heldout) if level == "exact_name"] == ["tau/shop/5"]


def test_another_rendering_of_the_text_is_found() -> None:
    heldout = held({"prompt": "Refund  the KETTLE, please!"})
    assert levels(tasks(instruction=["refund the kettle\nplease"]), heldout) == [("id-0", "normalized_text", 0)]


def test_what_is_unknown_equals_nothing() -> None:
    heldout = held({"benchmark": None, "task": None, "prompt": None}, {"prompt": "..."})
    assert levels(tasks(instruction=[None, "", "!!!"]), heldout) == []


def test_only_the_levels_of_the_policy_count() -> None:
    heldout = held_out(pl.DataFrame({"prompt": ["Do the thing."]}))
    ours = tasks(instruction=["Do the thing."])
    assert levels(ours, heldout, Policy(levels=("normalized_text",))) == [("id-0", "normalized_text", 0)]
    with pytest.raises(ConfigError, match="near_enough"):
        levels(ours, heldout, Policy(levels=("near_enough",)))


def test_a_few_changed_words_are_found_by_minhash() -> None:
    pytest.importorskip("rensa")
    words = sentence(1, 200).split()
    changed = " ".join([*words[:100], "other", *words[101:]])
    ours = tasks(instruction=[sentence(5), changed])
    assert levels(ours, held({"prompt": " ".join(words)}), Policy(levels=("minhash",))) == [("id-1", "minhash", 0)]


def test_embeddings_make_a_list_to_look_at() -> None:
    def embed(texts: list[str]) -> list[list[float]]:
        return [[float("kettle" in t), float("order" in t), 0.1] for t in texts]

    texts = rows("the kettle", "an order", "kettle, order")
    got = semantic_review(texts, held({"task": "no text"}, {"prompt": "a kettle"}, {"prompt": "order"}), embed)
    assert got.select("row", "heldout").rows() == [(0, 1), (1, 2)]


# -- held-out sets ----------------------------------------------------------------------------------------------------------

SWE = {"instance_id": "django__django-1", "problem_statement": "It breaks.", "patch": "--- a", "test_patch": "+++ b"}


def put(path: Path, records: list[dict[str, Any]]) -> Path:
    match path.suffix:
        case ".parquet":
            pl.DataFrame(records).write_parquet(path)
        case ".csv":
            pl.DataFrame(records).write_csv(path)
        case ".json":
            path.write_text(json.dumps(records), "utf-8")
        case _:
            path.write_text("".join(json.dumps(r) + "\n" for r in records), "utf-8")
    return path


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".json", ".jsonl"])
def test_a_file_of_any_kind_is_read_by_its_well_known_names(tmp_path: Path, suffix: str) -> None:
    got = held_out(put(tmp_path / f"swe{suffix}", [SWE]))
    assert got.schema == HELD_OUT.schema
    assert got.select("task", "prompt", "answer", "tests").rows() == [
        ("django__django-1", "It breaks.", "--- a", "+++ b")
    ]
    assert got["content_digest"].to_list() == [digest({"instruction": "It breaks.", "target": "--- a"})]


def test_columns_can_be_named(tmp_path: Path) -> None:
    path = put(tmp_path / "x.jsonl", [{"my_col": "What?", "n": 7}])
    assert held_out(path, columns={"prompt": "my_col", "task": "n"}).select("task", "prompt").rows() == [("7", "What?")]
    with pytest.raises(SourceError, match=r"x\.jsonl has no column nope; it has my_col, n"):
        held_out(path, columns={"prompt": "nope"})
    with pytest.raises(UsageError, match="promt"):
        held_out(path, columns={"promt": "my_col"})


def test_what_cannot_be_compared_is_an_error_that_names_file_and_columns(tmp_path: Path) -> None:
    path = put(tmp_path / "x.jsonl", [{"my_col": "What?"}])
    with pytest.raises(
        SourceError, match=r"x\.jsonl has no column that says what is held out; it has my_col; .*--column"
    ):
        held_out(path)


@pytest.mark.parametrize(("name", "text", "message"), [
    ("gone.jsonl", None, "does not exist"),
    ("x.txt", "a", "ends in"),
    ("x.jsonl", '{"a": 1}\n[1]\n', "line 2: list"),
    ("x.jsonl", '{"a": \n', "line 1: no JSON"),
    ("x.json", "[1]", "list of JSON objects"),
    ("x.parquet", "PAR", "cannot be read"),
])  # fmt: skip
def test_a_file_that_cannot_be_read_says_why(tmp_path: Path, name: str, text: str | None, message: str) -> None:
    if text is not None:
        (tmp_path / name).write_text(text, "utf-8")
    with pytest.raises(SourceError, match=message):
        held_out(tmp_path / name)


@pytest.mark.parametrize(
    "value", [[{"id": "a", "prompt": "x"}], {"a": {"prompt": "x"}}, {"v": 1, "tasks": [{"id": "a", "prompt": "x"}]}]
)
def test_json_comes_as_a_list_or_by_id(tmp_path: Path, value: Any) -> None:
    (tmp_path / "x.json").write_text(json.dumps(value), "utf-8")
    assert held_out(tmp_path / "x.json").select("task", "prompt").rows() == [("a", "x")]


def test_chats_and_lists_become_text(tmp_path: Path) -> None:
    record = {
        "prompt": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}],
        "tests": ["a", "b"],
        "answer": {"k": 1},
    }
    expected = [("s\n\nu", '{"k":1}', "a\nb")]
    for path in (put(tmp_path / "x.jsonl", [record]), put(tmp_path / "x.parquet", [record])):
        assert held_out(path).select("prompt", "answer", "tests").rows() == expected
    assert held_out(pl.LazyFrame([record])).select("prompt", "answer", "tests").rows() == expected


def test_folders_of_ours_are_held_out_sets(tmp_path: Path) -> None:
    (tmp_path / "ds").mkdir()
    inventory = {
        "benchmark": "unnamed",
        "task": "t",
        "task_id": "i",
        "content_digest": "sha256:" + "b" * 64,
        "instruction": "x",
        "target": None,
        "split": "test",
    }
    pl.DataFrame([inventory]).write_parquet(tmp_path / "ds/inventory.parquet")
    (tmp_path / "out/tables").mkdir(parents=True)
    tasks(dataset=["d"], native_id=["n"], instruction=["y"]).write_parquet(tmp_path / "out/tables/tasks.parquet")
    got = held_out([tmp_path / "ds", tmp_path / "out", tmp_path / "ds"])
    assert got.select("benchmark", "task", "prompt").rows() == [(None, "t", "x"), ("d", "id-0", "y")]
    assert got["content_digest"][0] == "sha256:" + "b" * 64
    with pytest.raises(SourceError, match=r"inventory\.parquet"):
        held_out(tmp_path)


# -- reports ----------------------------------------------------------------------------------------------------------------


def test_every_held_out_task_is_reported_and_every_row_once_with_its_worst() -> None:
    heldout = held(
        {"benchmark": "b", "task": "1", "prompt": sentence(1, 40)},
        {"task": "2", "prompt": sentence(2, 40)},
        {"task": "3", "prompt": sentence(3)},
    )
    by_task = pl.DataFrame(
        {"task_id": ["t"], "level": ["exact_name"], "heldout": [0]}, schema_overrides={"heldout": pl.UInt32}
    )
    ours = pl.DataFrame({"kind": ["k", "k"], "row_id": ["r1", "r2"], "task_id": ["t", None]})
    some = " ".join(sentence(1, 40).split()[:15])
    scanned = Index.build(heldout, Policy()).scan(rows([], f"{sentence(2, 40)}. {some}"))
    texts = scanned.with_columns(
        row_id=pl.lit("r2"), kind=pl.lit("k"), task_id=pl.lit(None, pl.String), level=pl.lit("ngram")
    )
    hits = pl.concat([row_hits(ours, by_task), texts.select(pl.col(n).cast(t) for n, t in ROW_HITS.items())])

    report = task_report(heldout, by_task, hits)
    assert report.schema == DECONTAMINATION_TASKS.schema
    assert report.select("levels", "n_tasks", "rows_dropped", "rows_review", "max_coverage", "longest_run").rows() == [
        (["exact_name", "ngram"], 1, 1, 1, 15 / 40, 15),
        (["ngram"], 0, 1, 0, 1.0, 40),
        ([], 0, 0, 0, None, None),
    ]
    by_row = row_report(heldout, hits)
    assert by_row.schema == DECONTAMINATION_ROWS.schema
    assert by_row.select("row_id", "verdict", "level", "benchmark", "task", "coverage", "n_heldout").rows() == [
        ("r1", "drop", "exact_name", "b", "1", None, 1),
        ("r2", "drop", "ngram", None, "2", 1.0, 2),
    ]


def test_thresholds_and_counts_go_into_the_manifest() -> None:
    index = Index.build(held(TASK), Policy(coverage=0.4))
    entry = json.loads(json.dumps(manifest_entry(index.policy, index)))
    assert (entry["policy"]["coverage"], entry["policy"]["n"]) == (0.4, 8)
    assert entry["index"]["tasks"] == 1
    assert entry["index"]["stop_grams"] == 0
