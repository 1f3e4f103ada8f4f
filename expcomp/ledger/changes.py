"""Changes of a table of runs: rows that go, rows that come, files they replace, and locks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.io.digest import sha256_expr
from expcomp.ledger.cases import CASE, RUN
from expcomp.ledger.identity import plain_text, slot_of
from expcomp.tables.ledger import RUNS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from expcomp.io.delta_snapshot import Snapshot

STATS = ("run_key", "filed_benchmark", "filed_case")
ORDER = ("filed_benchmark", "filed_case", "arm_id", "run_at", "run_key")


def patched(seen: Snapshot, keys: pl.DataFrame, columns: Iterable[str]) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """The rows of some runs with new values in some columns, as `rewritten` gives them; `keys` holds the values."""
    names = list(columns)
    old = runs_of(seen, keys.select(CASE).unique(maintain_order=True)).join(
        keys.select(RUN), on=RUN, how="semi", maintain_order="left"
    )
    fresh = (
        old.drop(names).join(keys.select(*RUN, *names), on=RUN, how="left", maintain_order="left").select(old.columns)
    )
    return rewritten(seen, keys.select(RUN), fresh)


def rewritten(seen: Snapshot, gone: pl.DataFrame, fresh: pl.DataFrame) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """Rows to write and files they replace, so that some runs go and others come; the other runs of those files stay."""
    fresh = fresh.sort(ORDER, nulls_last=True, maintain_order=True)
    if not gone.height:
        return fresh, ()
    near = seen.holding("filed_case", gone["filed_case"])
    found = (
        seen.scan(near, source="_file")
        .select(*RUN, "_file")
        .join(gone.lazy(), on=RUN, how="semi", maintain_order="left")
        .select(pl.col("_file").unique(maintain_order=True))
        .collect()
    )
    files = tuple(seen.name_of(p) for p in found["_file"])
    rest = seen.scan(files).join(gone.lazy(), on=RUN, how="anti", maintain_order="left").collect()
    return pl.concat([rest.select(fresh.columns), fresh]).sort(ORDER, nulls_last=True, maintain_order=True), files


def runs_of(seen: Snapshot, cases: pl.DataFrame) -> pl.DataFrame:
    """All runs of some cases."""
    files = seen.holding("filed_case", cases["filed_case"])
    found: pl.DataFrame = (
        seen.scan(files)
        .join(cases.lazy(), on=CASE, how="semi", maintain_order="left")
        .collect()
        .select(list(RUNS.columns))
    )
    return found


def case_locks(cases: pl.DataFrame) -> frozenset[str]:
    """Locks of cases: two writers of one case exclude each other."""
    return buckets(cases.select(sha256_expr(plain_text(CASE))).to_series())


def counts(actions: pl.DataFrame) -> dict[str, int]:
    """How many runs each action befell."""
    by = actions.group_by("action", maintain_order=True).agg(pl.len())
    return dict(zip(by["action"].to_list(), by["len"].to_list(), strict=True))


def buckets(digests: pl.Series) -> frozenset[str]:
    """Locks of digests: their first two digits."""
    return frozenset(digests.str.slice(0, 2).unique().to_list())


def note(action: str, actions: pl.DataFrame, refused: int, **facts: Any) -> Mapping[str, Any]:
    """What a commit says of itself in the history."""
    return {"action": action, **counts(actions), "refused": refused, **facts}


def run_locks(runs: pl.DataFrame, by_slot: bool) -> frozenset[str]:  # noqa: FBT001
    """Locks of runs that are there: of their slots, or of their cases where a pack files runs into others."""
    if by_slot:
        return buckets(runs.select(slot_of()).to_series())
    return case_locks(runs.select(CASE).unique(maintain_order=True))
