"""Which files of a table may hold a value, what long values do to the log, and what a table of another engine means."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expcomp.errors import OutputError, SourceError
from expcomp.io.delta import Change, DeltaFolder, create_table, open_table
from expcomp.io.delta_snapshot import Snapshot, bounds

KEYS = st.text("ab\x7fé日𝄞", max_size=3)
SCHEMA = pl.Schema({"key": pl.String(), "value": pl.Int64()})


def table(folder: Path) -> DeltaFolder:
    return create_table(folder / "table", SCHEMA, name="t", description="")


def rows(*keys: str | None) -> pl.DataFrame:
    return pl.DataFrame({"key": keys, "value": range(len(keys))}, schema=SCHEMA)


def write(to: DeltaFolder, *keys: str | None, locks: frozenset[str] = frozenset()) -> int:
    return to.transact(lambda _: Change(rows(*keys), locks=locks), stats=["key"])


def snapshot(parts: list[list[str | None]]) -> Snapshot:
    """A snapshot of parts that are only described."""
    said = [bounds(rows(*keys), ["key"]) for keys in parts]
    found = object.__new__(Snapshot)
    found.files = pl.DataFrame(
        {
            "path": [str(i) for i in range(len(parts))],
            "min.key": [s["minValues"].get("key") for s in said],
            "max.key": [s["maxValues"].get("key") for s in said],
        },
        schema=dict.fromkeys(("path", "min.key", "max.key"), pl.String),
    )
    return found


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(st.one_of(st.none(), KEYS), min_size=1, max_size=4), max_size=4), st.lists(KEYS, max_size=3))
def test_no_file_that_holds_a_value_is_left_out(parts: list[list[str | None]], wanted: list[str]) -> None:
    seen = snapshot(parts)
    series = pl.Series(wanted, dtype=pl.String)
    assert {str(i) for i, p in enumerate(parts) if set(p) & set(wanted)} <= set(seen.holding("key", series))
    heads = {w[:1] for w in wanted}
    near = set(seen.holding("key", pl.Series(sorted(heads), dtype=pl.String), head=1))
    assert {str(i) for i, p in enumerate(parts) if {k[:1] for k in p if k is not None} & heads} <= near


def test_files_that_cannot_hold_it_are_not_read(tmp_path: Path) -> None:
    made = table(tmp_path)
    for keys in (("a", "b"), ("c", "d"), ("e", "f")):
        write(made, *keys)
    seen = made.snapshot()
    assert [len(seen.holding("key", pl.Series(w))) for w in (["d"], ["a", "f"], ["z"], ["bb"])] == [1, 2, 0, 0]
    assert len(seen.holding("value", pl.Series(["1"]))) == 3


def test_long_values_have_no_bounds_and_are_found(tmp_path: Path) -> None:
    made = table(tmp_path)
    write(made, "x" * 5_000)
    assert len(made.snapshot().holding("key", pl.Series(["x" * 5_000]))) == 1
    log = Path(made.uri) / "_delta_log" / f"{1:020}.json"
    assert len(log.read_bytes()) < 2_000


def test_a_plan_on_a_lock_that_another_took_is_made_again(tmp_path: Path) -> None:
    mine, other = table(tmp_path), open_table(tmp_path / "table")
    heights = []

    def plan(seen: Snapshot) -> Change:
        heights.append(seen.scan().collect().height)
        if len(heights) == 1:
            write(other, "a", locks=frozenset({"one"}))
        return Change(rows("b"), locks=frozenset({"one", "two"}))

    mine.transact(plan, stats=["key"])
    assert heights == [0, 1]
    assert len(list(Path(mine.uri).glob("*.parquet"))) == 2  # the part of the first try is gone


def test_writers_without_a_common_lock_do_not_wait(tmp_path: Path) -> None:
    mine, other = table(tmp_path), open_table(tmp_path / "table")
    tries = []

    def plan(_: Snapshot) -> Change:
        tries.append(write(other, "a", locks=frozenset({"one"})))
        return Change(rows("b"), locks=frozenset({"two"}))

    mine.transact(plan, stats=["key"])
    assert len(tries) == 1


@pytest.mark.parametrize("rewrite_first", [True, False])
def test_a_rewrite_that_meets_a_compaction_is_made_again(tmp_path: Path, rewrite_first: bool) -> None:
    mine, other = table(tmp_path), open_table(tmp_path / "table")
    for key in "ab":
        write(mine, key)

    def rewrite(seen: Snapshot) -> Change:
        files = tuple(seen.files["path"])
        return Change(seen.scan(files).with_columns(pl.col("value") + 1).collect(), files)

    def merge(seen: Snapshot) -> Change:
        files = tuple(seen.files["path"])
        return Change(seen.scan(files).collect(), files, same_rows=True)

    first, second = (rewrite, merge) if rewrite_first else (merge, rewrite)
    tries = []

    def meets(seen: Snapshot) -> Change:
        tries.append(1)
        if len(tries) == 1:
            other.transact(first, stats=["key"])
        return second(seen)

    mine.transact(meets, stats=["key"])
    assert (len(tries), sorted(mine.snapshot().scan().collect().rows())) == (2, [("a", 1), ("b", 1)])


def test_a_table_that_needs_more_of_delta_is_read_only(tmp_path: Path) -> None:
    from deltalake import DeltaTable
    from deltalake.table import TableFeatures

    made = table(tmp_path)
    write(made, "a")
    DeltaTable(made.uri).alter.add_feature(TableFeatures.AppendOnly, allow_protocol_versions_increase=True)
    with pytest.raises(OutputError, match="needs features of Delta"):
        write(made, "b")
    assert made.snapshot().scan().collect().height == 1


def test_there_is_no_table_where_there_is_none(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="holds no table"):
        open_table(tmp_path)


def test_the_way_to_an_object_store_writes_and_reads_the_same(tmp_path: Path) -> None:
    made = table(tmp_path)
    address = f"file://{made.uri}"  # taken as an address, it goes through the store of delta-rs, as s3:// does
    store = DeltaFolder(address, made._live, None)
    store.transact(lambda _: Change(rows("a", "b")), stats=["key"])
    store.transact(lambda _: Change(rows("c")), stats=["key"])
    assert store.snapshot().scan().collect().sort("key").equals(made.snapshot().scan().collect().sort("key"))
    with_paths = store.snapshot().scan(source="file").collect()
    assert {store.snapshot().name_of(p) for p in with_paths["file"]} == set(store.snapshot().files["path"])
    assert store.compact(stats=["key"], order=["key"]) == (2, 1)
    assert made.snapshot().scan().collect()["key"].to_list() == ["a", "b", "c"]


def test_a_table_that_is_made_while_its_place_is_looked_at_is_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = Path.iterdir

    def late(path: Path) -> Iterator[Path]:
        monkeypatch.undo()
        create_table(path, SCHEMA, name="t", description="another run")
        return look(path)

    monkeypatch.setattr(Path, "iterdir", late)
    (tmp_path / "t").mkdir()
    assert create_table(tmp_path / "t", SCHEMA, name="t", description="this run").description == "another run"


def test_those_that_make_a_table_at_once_get_that_of_the_quickest(tmp_path: Path) -> None:
    def make(path: Path, name: str) -> str:
        ready.wait()
        return create_table(path, SCHEMA, name="t", description=name).description

    ready = Barrier(4)
    with ThreadPoolExecutor(4) as pool:
        for i in range(5):
            said = set(pool.map(make, [tmp_path / str(i)] * 4, "abcd"))
            now = open_table(tmp_path / str(i))
            assert (said, now.snapshot().version) == ({now.description}, 0)
