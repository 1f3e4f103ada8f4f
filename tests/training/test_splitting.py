"""Partitions by group: what belongs together is never parted, and adding rows moves no old group."""

from __future__ import annotations

import json
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expcomp.errors import ConfigError, SourceError
from expcomp.training.splitting import SplitOptions, split_rows
from expcomp.training.validate import ROWS, validate_rows
from tests.training.made import PAYLOADS, sha


def rows(*tasks: tuple[str, str, dict[str, Any]], benchmark: str = "b", partition: str = "train") -> pl.DataFrame:
    """Rows of (task, content, further keys of the payload)."""
    made = [
        (n, benchmark, task, sha(content), partition, json.dumps(PAYLOADS["sft"] | more))
        for n, (task, content, more) in enumerate(tasks)
    ]
    return pl.DataFrame(made, schema=ROWS, orient="row")


def plain(*names: str, **more: Any) -> pl.DataFrame:
    return rows(*((n, n, {}) for n in names), **more)


def places(split: Any) -> dict[str, str]:
    return dict(zip(split.rows["task"], split.rows["partition"], strict=True))


NAMES = st.sampled_from([f"n{i}" for i in range(12)])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(NAMES, NAMES), min_size=4, max_size=14), st.floats(0.2, 0.8), st.booleans())
def test_a_split_passes_every_check_of_partitions(drawn: list[tuple[str, str]], share: float, stratify: bool) -> None:
    frame = rows(*((t, c, {}) for t, c in drawn))
    try:
        made = split_rows(frame, SplitOptions(share=share, stratify=stratify))
    except SourceError:  # all groups came to one partition
        return
    codes = set(validate_rows(made.rows, "sft")["code"])
    assert codes <= {"task_content_conflict"}
    assert made.rows.drop("partition").equals(frame.drop("partition"))
    assert made.groups["n_rows"].sum() == frame.height


@settings(max_examples=30, deadline=None)
@given(st.sets(st.integers(0, 10_000), min_size=30, max_size=40), st.sets(st.integers(10_001, 20_000), max_size=20))
def test_adding_rows_moves_no_old_group(old: set[int], new: set[int]) -> None:
    names = [f"t{n}" for n in sorted(old)]
    options = SplitOptions(share=0.5)
    before = places(split_rows(plain(*names), options))
    after = places(split_rows(plain(*reversed(names), *(f"t{n}" for n in sorted(new))), options))
    assert {n: after[n] for n in names} == before


def test_the_share_and_the_seed() -> None:
    frame = plain(*(f"t{n}" for n in range(2_000)))
    made = [split_rows(frame, SplitOptions(share=0.2, seed=s)) for s in ("a", "a", "b")]
    share = [(m.rows["partition"] == "validation").mean() for m in made]
    assert all(abs(float(s) - 0.2) < 0.04 for s in share)  # type: ignore[arg-type]
    assert made[0].rows.equals(made[1].rows)
    assert not made[0].rows.equals(made[2].rows)
    assert made[0].moved == made[0].rows.filter(partition="validation").height


def test_repositories_stay_together() -> None:
    frame = plain(*(f"owner__repo{r}-{n}" for n in range(5) for r in range(12)), "alone")
    made = split_rows(frame, SplitOptions(group="repository", share=0.5))
    assert made.groups.height == 13
    assert made.groups["group"].to_list()[0] == "repository:owner/repo0"
    kept = made.rows.group_by(pl.col("task").str.replace(r"-\d+$", ""), maintain_order=True)
    assert kept.agg(pl.col("partition").n_unique())["partition"].max() == 1


def test_a_field_of_the_payload_is_a_group_and_shared_tasks_join_groups() -> None:
    frame = rows(
        *((f"t{n}", f"t{n}", {"meta": {"user": f"u{n % 20}"}}) for n in range(40)),
        ("t0", "t0", {"meta": {"user": "u1"}}),
    )
    made = split_rows(frame, SplitOptions(group="meta.user", share=0.5))
    assert made.groups.height == 19
    both = made.groups.filter(group="meta.user:u0")
    assert (both["n_tasks"].item(), both["n_rows"].item()) == (4, 5)


def test_stratified_shares_hold_within_each_benchmark() -> None:
    frame = pl.concat([plain(*(f"{b}{n}" for n in range(20)), benchmark=b) for b in ("x", "y")])
    frame = frame.with_columns(row=pl.int_range(pl.len(), dtype=pl.Int64))
    made = split_rows(frame, SplitOptions(share=0.25, stratify=True)).rows
    counts = made.filter(partition="validation").group_by("benchmark", maintain_order=True).len()
    assert counts["len"].to_list() == [5, 5]


TIMES = [
    ("early", "2025-12-31T23:59:59Z"),
    ("gap", "2026-01-01 12:00:00"),
    ("late", "2026-01-05"),
    ("zoned", "2026-01-05T01:00:00+02:00"),
]


def test_a_split_by_time_with_an_embargo() -> None:
    frame = rows(*((t, t, {"at": at}) for t, at in TIMES), ("early", "early", {"at": "2027-01-01"}))
    options = SplitOptions(time="at", before="2026-01-05", embargo_days=4)
    made = split_rows(frame, options)
    assert places(made) == {"early": "train", "late": "validation"}
    assert made.rows["row"].to_list() == [0, 1, 2]
    assert made.groups.filter(pl.col("partition").is_null())["n_rows"].to_list() == [1, 1]
    assert made.counts.rows() == [("train", 1, 1, 2), ("validation", 1, 1, 1), (None, 2, 2, 2)]


@pytest.mark.parametrize(
    ("more", "options", "told"),
    [
        ({}, SplitOptions(group="repo"), r"2 rows have no data\.repo, as row 0"),
        (
            {"at": "soon"},
            SplitOptions(time="at", before="2026-01-01"),
            "row 0: data.at is 'soon', expected an ISO time",
        ),
        ({}, SplitOptions(min_groups=2), "groups by task come to"),
        (
            {"at": "2025-01-01"},
            SplitOptions(time="at", before="2026-01-01"),
            "0 of 2 groups by task come to validation",
        ),
    ],
)
def test_rows_that_cannot_be_placed_are_named(more: dict[str, Any], options: SplitOptions, told: str) -> None:
    with pytest.raises(SourceError, match=told):
        split_rows(rows(("a", "a", more), ("b", "b", more)), options)


@pytest.mark.parametrize(
    "given",
    [
        {"share": 0.0},
        {"share": 1.0},
        {"time": "at"},
        {"before": "2026-01-01"},
        {"embargo_days": 1.0},
        {"time": "at", "before": "2026-01-01", "stratify": True},
    ],
)
def test_options_that_contradict_each_other_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        SplitOptions(**given)


def test_a_date_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="ISO date"):
        split_rows(rows(("a", "a", {"at": "2026-01-01"})), SplitOptions(time="at", before="soon"))
