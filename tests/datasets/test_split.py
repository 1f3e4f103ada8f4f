"""Splits by group: stable, disjoint, near their shares, and cut by time where asked."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expcomp.datasets.options import DatasetOptions
from expcomp.datasets.split import assign, group_key, unlisted
from expcomp.errors import ConfigError

HALVES = (("train", 0.8), ("valid", 0.1), ("test", 0.1))


def options(**given: object) -> DatasetOptions:
    return DatasetOptions(**{"splits": HALVES, **given})  # type: ignore[arg-type]


def tasks(*ids: str | None, **columns: list[str | None]) -> pl.DataFrame:
    return pl.DataFrame({"task_id": ids, **columns}, schema_overrides=dict.fromkeys(("task_id", *columns), pl.String))


def attempts(lines: list[tuple[str, datetime | None]] | None = None) -> pl.DataFrame:
    schema = {"task_id": pl.String, "started_at": pl.Datetime("us", "UTC")}
    return pl.DataFrame(lines or [], schema=schema, orient="row")


def splits(frame: pl.DataFrame, key: str = "task_id") -> dict[str, str]:
    return dict(frame.select(key, "split").iter_rows())


def test_the_place_is_the_first_32_bits_of_the_hash_of_seed_and_group() -> None:
    made = assign(tasks(*(f"t{i}" for i in range(200))), attempts(), options(seed="s1"))
    for task, split in splits(made).items():
        u = int(hashlib.sha256(f"s1\ntask:{task}".encode()).hexdigest()[:8], 16) / 2**32
        assert split == ("train" if u < 0.8 else "valid" if u < 0.8 + 0.1 else "test")


@settings(max_examples=50, deadline=None)
@given(st.sets(st.text(max_size=8), min_size=1, max_size=40), st.sets(st.text(max_size=8), max_size=40))
def test_more_tasks_never_move_an_old_one(old: set[str], new: set[str]) -> None:
    before = splits(assign(tasks(*sorted(old)), attempts(), options()))
    after = splits(assign(tasks(*sorted(new | old, reverse=True)), attempts(), options()))
    assert {t: after[t] for t in old} == before


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 30)), min_size=1, max_size=60))
def test_no_group_is_in_two_splits(pairs: list[tuple[int, int]]) -> None:
    lines = {f"t{task}": f"o/r{repo}" for repo, task in pairs}
    made = assign(tasks(*lines, cluster=list(lines.values())), attempts(), options(group="repository"))
    assert made.group_by("group").agg(pl.col("split").n_unique())["split"].to_list() == [1] * made["group"].n_unique()
    assert made["group"].n_unique() == len(set(lines.values()))


def test_shares_are_near_for_many_groups_and_the_seed_moves_them() -> None:
    ids = [f"task-{i}" for i in range(10_000)]
    one, two = (assign(tasks(*ids), attempts(), options(seed=s)) for s in "ab")
    for made in (one, two):
        share = dict(made["split"].value_counts(normalize=True).iter_rows())
        assert all(abs(share[name] - want) < 0.015 for name, want in HALVES)
    assert 0.2 < (one["split"] != two["split"]).mean() < 0.5  # type: ignore[operator]


def test_one_split_takes_all() -> None:
    made = assign(tasks("a", "b"), attempts([("c", None)]), DatasetOptions())
    assert splits(made) == {"a": "train", "b": "train", "c": "train"}


def test_a_task_that_only_attempts_name_is_placed_as_an_unlisted_one() -> None:
    ids = [f"x{i}" for i in range(50)]
    made = assign(tasks("a"), attempts([(i, None) for i in ids]), options())
    group, split = unlisted(options())
    lone = tasks(*ids).with_columns(group).with_columns(split)
    assert made["task_id"].to_list() == ["a", *ids]
    assert made.tail(50).equals(lone.select("task_id", "group", "split"))


@pytest.mark.parametrize(
    ("native", "group"),
    [
        ("sqlfluff__sqlfluff-1763", "repository:sqlfluff/sqlfluff"),
        ("sqlfluff__sqlfluff.50a1c4b6.lm_rewrite__5n2sn94d", "repository:sqlfluff/sqlfluff"),
        ("pvlib__pvlib-python-1072", "repository:pvlib/pvlib-python"),
        ("tempoCollaboration__OQuPy-74_55", "repository:tempocollaboration/oqupy"),
        ("instance_NodeBB__NodeBB-04998908ba6721d64eba79ae3b65a351dcfbc5b5-vnan", "repository:nodebb/nodebb"),
        ("v0.7_pydicom__pydicom-1458", "repository:pydicom/pydicom"),
        ("owner__tool-2-next-17", "repository:owner/tool-2-next"),
        ("cli/cli:pr-8394", "repository:cli/cli"),
        ("cli/cli#12", "repository:cli/cli"),
        ("https://github.com/cli/cli/pull/3", "task:t"),
        ("count-words", "task:t"),
        ("8", "task:t"),
        ("default/699f8a5a8786", "task:t"),
        ("my__notes", "task:t"),
        (None, "task:t"),
    ],
)
def test_the_repository_is_read_off_the_id_of_the_task(native: str | None, group: str) -> None:
    made = assign(tasks("t", task=[native]), attempts(), options(group="repository"))
    assert made["group"].to_list() == [group]


@pytest.mark.parametrize(
    "cluster", ["cli/cli", "CLI/cli", "https://github.com/cli/cli.git", "github.com/cli/cli/", "cli__cli", "v2_cli/cli"]
)
def test_a_stated_repository_is_the_one_that_ids_name(cluster: str) -> None:
    frame = tasks("a", "b", cluster=[cluster, None], task=["nothing", "cli__cli-1"])
    assert assign(frame, attempts(), options(group="repository"))["group"].to_list() == ["repository:cli/cli"] * 2


def test_the_last_part_of_a_task_id_names_the_repository_too() -> None:
    group, _ = unlisted(options(group="repository"))
    assert tasks("swe_bench/o__r/o__r-12").select(group).item() == "repository:o/r"


def test_kinds_of_group_never_collide() -> None:
    frame = tasks("task:f", "f", "g", workflow_family=[None, "f", None])
    made = frame.select(group_key(options(group="template"), frame.columns))
    assert made.to_series().to_list() == ["task:task:f", "template:f", "task:g"]


def test_users_who_share_a_task_share_a_split() -> None:
    lines = [("t1", "ann"), ("t2", "bob"), ("t2", "cyd"), ("t3", "cyd"), ("t3", "ann"), ("t4", "dan"), ("t5", None)]
    frame = pl.DataFrame(lines, schema=["task_id", "user"], orient="row")
    made = assign(tasks("t1", "t2", "t3", "t4", "t5"), frame, options(group="user"))
    assert made["group"].to_list() == ["user:ann", "user:ann", "user:ann", "user:dan", "task:t5"]
    with pytest.raises(ConfigError, match="nothing in the compile names users"):
        assign(tasks("t1"), attempts(), options(group="user"))


def at(day: int) -> datetime:
    return datetime(2026, 3, day, tzinfo=UTC)


def test_what_began_later_goes_to_the_last_split_and_nothing_else_does() -> None:
    names = [f"t{i}" for i in range(300)]
    lines = [(n, at(1 + i % 20)) for i, n in enumerate(names)]
    made = splits(assign(tasks(*names, "silent"), attempts([*lines, ("silent", None)]), options(before="2026-03-11")))
    assert {t for t, s in made.items() if s == "test"} == {n for n, when in lines if when >= at(11)}
    rest = [s for s in made.values() if s != "test"]
    assert abs(rest.count("train") / len(rest) - 8 / 9) < 0.06
    assert made["silent"] in {"train", "valid"}


def test_the_first_attempt_of_the_whole_group_decides() -> None:
    frame = tasks("a", "b", "c", cluster=["o/r", "o/r", "o/s"])
    lines = [("a", at(20)), ("b", at(2)), ("b", at(25)), ("c", at(11))]
    two = (("train", 0.5), ("test", 0.5))
    made = assign(frame, attempts(lines), options(splits=two, group="repository", before="2026-03-11"))
    assert splits(made) == {"a": "train", "b": "train", "c": "test"}


def test_a_date_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="before is 'soon'"):
        assign(tasks("a"), attempts(), options(before="soon"))


def test_rows_without_a_task_have_no_place() -> None:
    group, split = unlisted(options())
    assert tasks(None).with_columns(group).with_columns(split).row(0) == (None, None, None)
