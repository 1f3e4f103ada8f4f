"""The selection: what each rule leaves out, that slices do not matter, and orders without neighbours of one task."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expcomp.datasets.options import DatasetOptions
from expcomp.datasets.order import shuffle_key
from expcomp.datasets.select import RULES, kto_weights, length_report, select

TYPES = {
    "row_id": pl.String,
    "task_id": pl.String,
    "attempt_id": pl.String,
    "split": pl.String,
    "_hash": pl.String,
    "_chars": pl.Int64,
    "margin": pl.Float64,
    "_chosen_chars": pl.Int64,
    "_rejected_chars": pl.Int64,
    "label": pl.Boolean,
}
SPLITS = DatasetOptions(splits=(("train", 0.9), ("test", 0.1)))


def options(**given: Any) -> DatasetOptions:
    return DatasetOptions(**{"splits": SPLITS.splits, **given})


def keys(*rows: dict[str, Any]) -> pl.DataFrame:
    base = {
        "task_id": "t",
        "split": "train",
        "_chars": 10,
        "margin": 1.0,
        "_chosen_chars": 1,
        "_rejected_chars": 1,
        "label": True,
    }
    lines = [{"row_id": f"r{i:04}", "attempt_id": f"a{i}", "_hash": f"h{i}", **base, **r} for i, r in enumerate(rows)]
    return pl.DataFrame(lines, schema=TYPES)


def reasons(kind: str, frame: pl.DataFrame, **given: Any) -> list[str | None]:
    return select(kind, frame, options(**given))["reason"].to_list()


def by_row(made: pl.DataFrame) -> dict[str, tuple[str | None, int | None]]:
    return {r: (why, order) for r, why, order in made.select("row_id", "reason", "_order").iter_rows()}


MANY = keys(
    *(
        {
            "task_id": f"t{i % 7 if i % 3 else 0}",
            "attempt_id": f"t{i % 7}.{i % 5}",
            "split": "test" if i % 7 == 6 else "train",
            "_hash": f"h{i % 80}",
            "_chars": (i * 37) % 100,
            "margin": (i % 4) / 4 or None,
            "_chosen_chars": 20 + (i * 13) % 11,
            "_rejected_chars": 22,
            "label": i % 9 == 0,
        }
        for i in range(120)
    )
)


@pytest.mark.parametrize("kind", RULES)
def test_neither_the_order_nor_the_slices_of_the_keys_matter(kind: str) -> None:
    made = select(kind, MANY, options())
    assert made.columns == [*MANY.columns, "reason", "_order"]
    assert made.select(MANY.columns).equals(MANY)
    for seed in range(3):
        order = random.Random(seed).sample(range(MANY.height), MANY.height)
        assert by_row(select(kind, MANY[order], options())) == by_row(made)
    with_key = MANY.with_columns(_order=shuffle_key(options().seed))
    assert by_row(select(kind, with_key, options())) == by_row(made)


@pytest.mark.parametrize("kind", RULES)
def test_no_keys_give_no_keys(kind: str) -> None:
    made = select(kind, MANY.clear(), options())
    assert made.schema["_order"] == pl.UInt64
    assert made.height == 0


@pytest.mark.parametrize("kind", sorted(set(RULES) - {"judged"}))
def test_the_order_is_a_seeded_hash_that_new_rows_leave_alone(kind: str) -> None:
    order = dict(select(kind, MANY.head(50), options()).select("row_id", "_order").iter_rows())
    more = dict(select(kind, MANY, options()).select("row_id", "_order").iter_rows())
    other = dict(select(kind, MANY, options(seed="x")).select("row_id", "_order").iter_rows())
    assert {r: more[r] for r in order} == order
    assert not set(more.values()) & set(other.values())
    assert sorted(more, key=more.__getitem__) != sorted(more)


# -- duplicates ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", RULES)
def test_of_equal_rows_one_stays_in_the_split_named_first(kind: str) -> None:
    rows = [{"_hash": "same", "split": s, "task_id": f"t{i}"} for i, s in enumerate(("test", "train", "test", "train"))]
    got = reasons(kind, keys(*rows))
    assert (got[0], got[2]) == ("duplicate_exact", "duplicate_exact")
    assert sorted((got[1], got[3]), key=str) == [None, "duplicate_exact"]


def test_rows_without_a_hash_are_no_duplicates() -> None:
    assert reasons("prompt", keys({"_hash": None}, {"_hash": None})) == [None, None]


# -- attempts of a task --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["conversation", "turn"])
def test_the_shortest_attempts_of_a_task_stay_with_all_their_rows(kind: str) -> None:
    sizes = {"long": [50, 50], "two": [10, 15], "short": [5], "mid": [30]}
    rows = [{"attempt_id": a, "_chars": c} for a, cs in sizes.items() for c in cs]
    frame = keys(*rows, {"task_id": "u", "attempt_id": "other", "_chars": 999})
    got = dict(
        zip([*(a for a, cs in sizes.items() for _ in cs), "other"], reasons(kind, frame, max_attempts=2), strict=True)
    )
    assert got == {"long": "task_cap", "two": None, "short": None, "mid": "task_cap", "other": None}


def test_an_attempt_that_is_a_duplicate_takes_no_place() -> None:
    rows = [
        {"_hash": "x", "_chars": 1},
        {"_hash": "x", "_chars": 1},
        {"_hash": "y", "_chars": 2},
        {"_hash": "z", "_chars": 3},
    ]
    got = reasons("conversation", keys(*rows), max_attempts=2)
    assert sorted(got[:2], key=str) == [None, "duplicate_exact"]
    assert got[2:] == [None, "task_cap"]


def test_rows_without_a_task_are_no_task_together() -> None:
    rows = [{"task_id": None} for _ in range(5)]
    assert reasons("conversation", keys(*rows), max_attempts=1) == [None] * 5


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5), st.integers(0, 30)), max_size=50), st.integers(1, 4))
def test_no_task_has_more_attempts_than_the_cap(lines: list[tuple[int, int, int]], cap: int) -> None:
    frame = keys(*({"task_id": f"t{t}", "attempt_id": f"t{t}.{a}", "_chars": c} for t, a, c in lines))
    made = select("turn", frame, options(max_attempts=cap))
    attempts = made.group_by("task_id", "attempt_id").agg(
        size=pl.col("_chars").sum(), kept=pl.col("reason").is_null().all(), some=pl.col("reason").is_null().any()
    )
    assert attempts.filter(pl.col("kept") != pl.col("some")).is_empty()
    for task in attempts.partition_by("task_id"):
        kept, gone = task.filter("kept"), task.filter(~pl.col("kept"))
        assert kept.height == min(cap, task.height)
        assert gone.is_empty() or kept["size"].max() <= gone["size"].min()  # type: ignore[operator]


# -- pairs ---------------------------------------------------------------------------------------------------------------


def test_pairs_with_the_largest_margins_stay_and_step_pairs_come_last() -> None:
    rows = [{"margin": m} for m in (0.5, None, 0.9, 0.7, None, 1.0)]
    assert reasons("pair", keys(*rows), max_pairs=3) == ["task_cap", "task_cap", None, None, "task_cap", None]


def pairs(longer: int, shorter: int, equal: int = 0, split: str = "train") -> list[dict[str, Any]]:
    sizes = [(2, 1)] * longer + [(1, 2)] * shorter + [(1, 1)] * equal
    return [
        {
            "task_id": f"{split}{i}",
            "split": split,
            "_chosen_chars": c,
            "_rejected_chars": r,
            "margin": 0.5 + (i * 7 % 50) / 100,
        }
        for i, (c, r) in enumerate(sizes)
    ]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 10))
def test_length_is_balanced_by_leaving_out_no_more_than_it_takes(longer: int, shorter: int, equal: int) -> None:
    frame = keys(*pairs(longer, shorter, equal))
    made = select("pair", frame, options())
    kept = length_report(made.filter(pl.col("reason").is_null()))
    n_longer, n_shorter = int(kept["n_longer"] or 0), int(kept["n_shorter"] or 0)
    assert kept["n_pairs"] == n_longer + n_shorter + equal
    if longer + shorter < 20 or 0 in {longer, shorter}:
        assert (n_longer, n_shorter) == (longer, shorter)
        return
    assert n_longer == longer or n_shorter == shorter
    assert 0.45 - 1e-9 <= (kept["share_longer"] or 0) <= 0.55 + 1e-9
    if n_longer < longer:
        assert (n_longer + 1) / (n_longer + 1 + n_shorter) > 0.55
    if n_shorter < shorter:
        assert n_longer / (n_longer + n_shorter + 1) < 0.45


def test_pairs_that_say_least_are_left_out_for_the_balance() -> None:
    made = select("pair", keys(*pairs(40, 10)), options())
    longer = made.filter(pl.col("_chosen_chars") > pl.col("_rejected_chars"))
    kept, gone = (longer.filter(pl.col("reason").is_null() == k)["margin"] for k in (True, False))
    assert set(made["reason"].drop_nulls()) == {"length_balance"}
    assert len(kept) == 12
    assert kept.min() >= gone.max()  # type: ignore[operator]


def test_every_split_is_balanced_by_itself_and_small_ones_are_left_alone() -> None:
    frame = keys(*pairs(30, 10), *pairs(10, 4, split="test"))
    made = select("pair", frame, options()).filter(pl.col("reason").is_null())
    assert dict(made["split"].value_counts().iter_rows()) == {"train": 22, "test": 14}
    assert reasons("pair", frame, longer_share=None) == [None] * 54
    assert reasons("pair", frame, longer_share=(0.0, 1.0)) == [None] * 54


# -- judged rows ---------------------------------------------------------------------------------------------------------


def judged(*groups: tuple[str, int, bool], split: str = "train") -> pl.DataFrame:
    return keys(*({"task_id": t, "label": label, "split": split} for t, n, label in groups for _ in range(n)))


def queue(made: pl.DataFrame, column: str = "task_id") -> list[Any]:
    return made.filter(pl.col("reason").is_null()).sort("_order")[column].to_list()


def neighbours(tasks: list[str]) -> int:
    return sum(a == b for a, b in pairwise(tasks))


def test_the_larger_class_is_cut_to_its_multiple_where_tasks_have_most() -> None:
    frame = judged(("big", 30, True), ("small", 5, True), ("one", 5, False))
    got = select("judged", frame, options(class_ratio=2.0))
    kept = Counter(got.filter(pl.col("reason").is_null())["task_id"])
    assert set(got["reason"].drop_nulls()) == {"class_ratio"}
    assert kept == {"big": 5, "small": 5, "one": 5}


def test_a_content_that_was_judged_both_ways_is_left_out_whole() -> None:
    labels = {"a": (True, False), "b": (True, True), "c": (False,), "d": (True,), "e": (False,)}
    frame = keys(
        *({"task_id": f"{h}{i}", "_hash": h, "label": v} for h, vs in labels.items() for i, v in enumerate(vs))
    )
    assert reasons("judged", frame) == [
        "label_conflict",
        "label_conflict",
        None,
        "duplicate_exact",
        None,
        None,
        None,
    ] or (reasons("judged", frame) == ["label_conflict", "label_conflict", "duplicate_exact", None, None, None, None])


def test_a_conflict_is_one_over_the_borders_of_splits() -> None:
    frame = keys(
        {"_hash": "h", "label": True, "split": "train", "task_id": "a"},
        {"_hash": "h", "label": False, "split": "test", "task_id": "b"},
    )
    assert reasons("judged", frame) == ["label_conflict"] * 2


def test_one_class_alone_is_left_as_it_is() -> None:
    frame = judged(*((f"t{i}", 2, True) for i in range(6)))
    made = select("judged", frame, options(class_ratio=1.0))
    assert made["reason"].null_count() == 12
    assert neighbours(queue(made)) == 0


def test_a_task_that_fills_its_split_loses_what_nothing_can_part() -> None:
    made = select("judged", judged(("big", 10, True), ("a", 2, False), ("b", 1, True)), options(class_ratio=100.0))
    assert Counter(made["reason"].drop_nulls()) == {"task_dominates": 6}
    tasks = queue(made)
    assert tasks[::2] == ["big"] * 4
    assert sorted(tasks[1::2]) == ["a", "a", "b"]


def test_both_rules_hold_at_the_end() -> None:
    # Leaving out rows of `big` takes mostly negatives, after which the positives are too many.
    frame = judged(("big", 20, False), ("big", 10, True), *((f"t{i}", 1, True) for i in range(20)))
    made = select("judged", frame, options(class_ratio=1.5))
    assert made["reason"].drop_nulls().unique(maintain_order=True).sort().to_list() == ["class_ratio", "task_dominates"]
    made = made.filter(pl.col("reason").is_null())
    assert made["label"].sum() <= 1.5 * (~made["label"]).sum()
    assert neighbours(queue(made)) == 0


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 6), st.booleans(), st.sampled_from(["train", "test"])), max_size=60),
    st.sampled_from([1.0, 2.0, 4.0]),
)
def test_no_two_neighbours_share_a_task_and_the_ratio_holds(lines: list[tuple[int, bool, str]], ratio: float) -> None:
    frame = keys(*({"task_id": f"{s}{t}", "label": label, "split": s} for t, label, s in lines))
    made = select("judged", frame, options(class_ratio=ratio))
    assert made.filter(pl.col("reason").is_not_null())["_order"].null_count() == made["reason"].count()
    for split in ("train", "test"):
        part = made.filter((pl.col("split") == split) & pl.col("reason").is_null())
        assert sorted(part["_order"]) == list(range(part.height))
        assert neighbours(queue(part)) == 0
        n_pos, n_neg = part["label"].sum(), (~part["label"]).sum()
        assert not n_pos or not n_neg or max(n_pos, n_neg) <= ratio * min(n_pos, n_neg)


def test_a_crowd_of_small_tasks_keeps_the_shuffle() -> None:
    frame = keys(*({"task_id": f"t{i % 40}", "label": i % 2 == 0} for i in range(400)))
    made = select("judged", frame, options())
    rows = queue(made, "row_id")
    plain = frame.sort(shuffle_key(options().seed))["row_id"].to_list()
    place = {r: i for i, r in enumerate(rows)}
    assert neighbours(queue(made)) == 0
    moved = sum(place[a] > place[b] for a, b in pairwise(plain))
    assert moved < 0.1 * len(plain)


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_kto_weights_even_out_the_classes(n_pos: int, n_neg: int) -> None:
    weights = kto_weights(n_pos, n_neg)
    assert weights is not None
    assert min(weights) == 1.0
    assert 1 - 1e-9 <= weights[0] * n_pos / (weights[1] * n_neg) <= 1.33 + 1e-9


def test_kto_weights_with_known_values() -> None:
    assert kto_weights(100, 300) == (3.0, 1.0)
    assert kto_weights(300, 100) == (1.0, 3.0)
    assert kto_weights(120, 100) == (1.0, 1.0)
    assert kto_weights(0, 3) is None
    assert kto_weights(3, 0) is None


# -- report --------------------------------------------------------------------------------------------------------------


def report(*lines: tuple[int, int, float | None]) -> dict[str, int | float | None]:
    names = {n: TYPES[n] for n in ("_chosen_chars", "_rejected_chars", "margin")}
    return length_report(pl.DataFrame(list(lines), schema=names, orient="row"))


def test_the_report_says_how_length_goes_with_preference() -> None:
    made = report((30, 10, 1.0), (10, 20, 0.5), (10, 10, 0.625), (90, 10, None))
    assert made == {
        "n_pairs": 4,
        "n_longer": 2,
        "n_shorter": 1,
        "share_longer": 2 / 3,
        "length_margin_correlation": pytest.approx(0.9959, abs=1e-4),
    }


@pytest.mark.parametrize(
    "lines", [[], [(3, 1, 1.0)], [(3, 1, 1.0), (4, 1, 1.0)], [(3, 1, 0.5), (4, 2, 1.0)], [(3, 1, None), (4, 1, 0.5)]]
)
def test_a_correlation_of_what_does_not_vary_is_null(lines: list[tuple[int, int, float | None]]) -> None:
    assert report(*lines)["length_margin_correlation"] is None
    assert report()["share_longer"] is None
