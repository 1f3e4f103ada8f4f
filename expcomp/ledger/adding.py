"""How runs are added: what is new, what is there, what claims the place of another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.errors import TableError, UsageError
from expcomp.io.delta import Change
from expcomp.io.digest import PREFIX, sha256_expr
from expcomp.ledger.cases import ARCHIVE_COLUMNS, CASE, RUN
from expcomp.ledger.changes import buckets, case_locks, counts, rewritten, runs_of
from expcomp.ledger.identity import DIGITS, slot_of
from expcomp.ledger.inputs import REFUSED
from expcomp.ledger.recompute import recompute
from expcomp.ledger.upsert import upsert
from expcomp.tables.ledger import DOCUMENT, RUNS

if TYPE_CHECKING:
    from expcomp.io.delta_snapshot import Snapshot
    from expcomp.ledger.pack import Pack

CONFLICTS = ("newest", "error", "keep_both")
INSERTED, UPDATED, IDENTICAL, CONFLICTING = "inserted", "updated", "identical", "conflicting"
_SHOWN = 5


@dataclass(frozen=True)
class AddReport:
    """What became of the records of one call.

    Attributes:
        actions: One row a run: benchmark, case, key and `action` (inserted, updated, identical, conflicting).
        refused: Records that were not taken: number, name, field, reason, file.
        version: A version of the table that holds them; on a dry run the one that was looked at.
        dry_run: Nothing was written.
    """

    actions: pl.DataFrame
    refused: pl.DataFrame
    version: int
    dry_run: bool = False

    def count(self, action: str) -> int:
        """How many runs an action befell."""
        return int((self.actions["action"] == action).sum())

    @property
    def counts(self) -> dict[str, int]:
        """Runs by action, and the records refused."""
        return {**counts(self.actions), "refused": self.refused.height}

    def __repr__(self) -> str:
        told = ", ".join(f"{n:,} {what}" for what, n in self.counts.items() if n) or "nothing"
        return f"AddReport({'dry run: ' if self.dry_run else ''}{told}; version {self.version})"


class ConflictError(TableError):
    """Two records claim one attempt and say different things."""

    exit_code = 1


def checked(runs: pl.DataFrame, *, stored: bool) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Runs that hold to the rules of the table and have ended, and the others: record, field, reason.

    What a ledger holds has been taken as ended: a rule that sees it otherwise loses no stored run.
    """
    why: Any = pl.when((pl.col("status") == "running") & pl.lit(not stored)).then(
        pl.lit("status;running: the run has not ended")
    )
    for name, dtype in RUNS.schema.items():
        if dtype.is_float():
            why = why.when(~pl.col(name).is_finite().fill_null(value=True)).then(pl.lit(f"{name};not a finite number"))
    for rule, expr in RUNS.rules.items():
        column, _, said = rule.partition("|")
        why = why.when(~expr).then(pl.lit(f"{column};{said.replace('_', ' ')}: broken"))
    for name in ("filed_benchmark", "filed_case"):
        why = why.when(pl.col(name).fill_null("") == "").then(pl.lit(f"{name};empty"))
    for name in () if stored else ("benchmark", "case"):
        told = pl.col("issues").list.contains(f"{name}_refused").fill_null(value=False)
        why = why.when(told).then(pl.lit(f"{name}_id;neither a text nor a number"))
    reasons = runs.select(why.otherwise(None)).to_series()
    parts = reasons.str.split_exact(";", 1).struct.unnest()
    refused = pl.DataFrame(
        {
            "record": pl.int_range(runs.height, eager=True),
            "name": runs["filed_case"],
            "field": parts["field_0"],
            "reason": parts["field_1"],
            "file": pl.repeat(None, runs.height, dtype=pl.String, eager=True),
        },
        schema=REFUSED,
    )
    return runs.filter(reasons.is_null()), refused.filter(reasons.is_not_null())


def with_content(runs: pl.DataFrame) -> pl.DataFrame:
    """A digest of the document of each run that has none of its record."""
    if not runs["content_hash"].null_count():
        return runs
    text = pl.struct(c for c in DOCUMENT if c not in ARCHIVE_COLUMNS).struct.json_encode()
    return runs.with_columns(content_hash=pl.coalesce("content_hash", pl.lit(PREFIX) + sha256_expr(text)))


def within_batch(new: pl.DataFrame, policy: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The runs of a batch that are tried, each once, and what became of the others."""
    first = new.select(pl.col("run_key").is_first_distinct()).to_series()
    actions = [_acted(new.filter(~first), IDENTICAL)]
    kept = new.filter(first)
    if policy == "keep_both":
        return kept, pl.concat(actions)
    slot = pl.when(pl.col("attempt").is_not_null()).then(slot_of())
    rivals = kept.select((slot.is_not_null() & (pl.len().over(slot) > 1)).fill_null(value=False)).to_series()
    if rivals.any() and policy == "error":
        raise _conflict(kept.filter(rivals))
    if rivals.any():
        stamps = pl.col("run_at").cast(pl.Int64).fill_null(-1)
        order = kept.select(pl.struct(stamps, pl.int_range(pl.len())).rank("ordinal").alias("r"), slot.alias("s"))
        last = order.select((pl.col("r") == pl.col("r").max().over("s")) | pl.col("s").is_null()).to_series()
        actions.append(_acted(kept.filter(~last), CONFLICTING))
        kept = kept.filter(last)
    return kept, pl.concat(actions)


def by_identity(seen: Snapshot, new: pl.DataFrame, policy: str) -> tuple[Change | None, pl.DataFrame]:
    """Add runs under the default profile: what is there stays, the same record is nothing new, rivals go by the policy."""
    if policy not in CONFLICTS:
        raise UsageError(f"conflict is {policy!r}; expected one of {', '.join(CONFLICTS)}")
    tried, before = within_batch(new, policy)
    slots = tried.select(slot_of()).to_series().unique()
    files = seen.holding("run_key", slots, head=DIGITS)
    old = (
        seen.scan(files)
        .select(*RUN, "attempt", "run_at", *ARCHIVE_COLUMNS, slot_of().alias("_slot"))
        .filter(pl.col("_slot").is_in(slots.implode()))
        .collect()
    )
    known = tried["run_key"].is_in(old["run_key"].implode())
    actions = [before, _acted(tried.filter(known), IDENTICAL)]
    fresh = tried.filter(~known)
    gone = old.clear()
    if policy != "keep_both":
        claimed = fresh.filter(pl.col("attempt").is_not_null()).select("run_key", slot_of().alias("_slot"), "run_at")
        rivals = claimed.join(old, on="_slot", how="inner", suffix="_old", maintain_order="left_right")
        if rivals.height and policy == "error":
            raise _conflict(fresh.filter(pl.col("run_key").is_in(rivals["run_key"].implode())))
        later = pl.col("run_at_old").is_null() | (pl.col("run_at") >= pl.col("run_at_old")).fill_null(value=False)
        verdict = rivals.group_by("run_key", maintain_order=True).agg(later.all().alias("wins"))
        stale = fresh["run_key"].is_in(verdict.filter(~pl.col("wins"))["run_key"].implode())
        actions.append(_acted(fresh.filter(stale), CONFLICTING))
        fresh = fresh.filter(~stale)
        winners = rivals.filter(pl.col("run_key").is_in(fresh["run_key"].implode()))
        gone = old.filter(pl.col("run_key").is_in(winners["run_key_old"].implode()))
        fresh = _sticky(fresh, gone)
        wins = fresh["run_key"].is_in(winners["run_key"].implode())
        actions += [_acted(fresh.filter(wins), UPDATED), _acted(fresh.filter(~wins), INSERTED)]
    else:
        actions.append(_acted(fresh, INSERTED))
    done = pl.concat(actions)
    if not fresh.height:
        return None, done
    rows, replaced = rewritten(seen, gone.select(RUN), fresh)
    return Change(rows, replaced, buckets(fresh.select(slot_of()).to_series())), done


def by_key(seen: Snapshot, new: pl.DataFrame) -> tuple[Change | None, pl.DataFrame]:
    """Put runs of another ledger in as they are: one with the key of a run that is there replaces it if it differs."""
    fresh = new.unique(RUN, keep="last", maintain_order=True)
    cases = fresh.select(CASE).unique(maintain_order=True)
    old = runs_of(seen, cases)
    mine = [c for c in RUNS.columns if c != "ingested_at"]
    same = pl.struct(mine).struct.json_encode().alias("_text")
    marked = fresh.select(*RUN, same).join(
        old.select(*RUN, same.alias("_old")), on=RUN, how="left", maintain_order="left"
    )
    action = (
        pl.when(pl.col("_old").is_null())
        .then(pl.lit(INSERTED))
        .when(pl.col("_old") == pl.col("_text"))
        .then(pl.lit(IDENTICAL))
        .otherwise(pl.lit(UPDATED))
    )
    actions = marked.select(*RUN, action=action)
    wanted = actions.filter(pl.col("action") != IDENTICAL).select(RUN)
    if not wanted.height:
        return None, actions
    rows, replaced = rewritten(
        seen,
        old.join(wanted, on=RUN, how="semi", maintain_order="left").select(RUN),
        fresh.join(wanted, on=RUN, how="semi", maintain_order="left"),
    )
    return Change(rows, replaced, case_locks(cases)), actions


def by_pack(seen: Snapshot, new: pl.DataFrame, pack: Pack) -> tuple[Change | None, pl.DataFrame]:
    """Add runs under a profile whose pack says what an upsert is: a run may go into another of its case."""
    cases = new.select(CASE).unique(maintain_order=True)
    old = recompute(runs_of(seen, cases), pack)
    merged, report = upsert(old, new, pack)
    written = report.actions.filter(pl.col("action") != "skipped")
    if not written.height:
        return None, report.actions
    keys = written.select(*CASE, pl.col("into_key").alias("run_key")).unique(maintain_order=True)
    fresh = merged.join(keys, on=RUN, how="semi", maintain_order="left")
    rows, replaced = rewritten(seen, old.join(keys, on=RUN, how="semi", maintain_order="left").select(RUN), fresh)
    return Change(rows, replaced, case_locks(cases)), report.actions


def _acted(runs: pl.DataFrame, action: str) -> pl.DataFrame:
    return runs.select(*RUN, action=pl.lit(action))


def _sticky(fresh: pl.DataFrame, gone: pl.DataFrame) -> pl.DataFrame:
    """A newer record of a run takes over whether the ledger had it archived; what another ledger did with it does not count."""
    if not gone.height:
        return fresh
    old = gone.select("_slot", *(pl.col(c).alias(f"{c}_old") for c in ARCHIVE_COLUMNS))
    old = old.sort("archive_state_old", nulls_last=True, maintain_order=True)
    joined = fresh.with_columns(_slot=slot_of()).join(
        old.unique("_slot", keep="first", maintain_order=True).with_columns(_there=True),
        on="_slot",
        how="left",
        maintain_order="left",
    )
    there = pl.col("_there").is_not_null()
    return joined.with_columns(
        pl.when(there).then(pl.col(f"{c}_old")).otherwise(pl.col(c)).alias(c) for c in ARCHIVE_COLUMNS
    ).select(fresh.columns)


def _conflict(runs: pl.DataFrame) -> ConflictError:
    shown = runs.select(
        pl.concat_str(
            pl.col("filed_benchmark"), pl.lit("/"), pl.col("filed_case"), pl.lit(", attempt "), pl.col("attempt")
        )
    )
    names = "; ".join(shown.to_series().head(_SHOWN).to_list())
    return ConflictError(
        f"{runs.height} records claim an attempt that says something else: {names}; nothing was changed"
    )
