"""Upsert of a batch of runs, equal to one after the other: replace by key, fill in what an equal run lacks, append."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import orjson
import polars as pl

from expcomp.ledger.cases import ARCHIVE_COLUMNS, ARCHIVED, CASE, RUN, terminal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from expcomp.ledger.pack import Pack


@dataclass(frozen=True, slots=True)
class UpsertReport:
    """What became of each new run.

    Attributes:
        actions: One row a new run, in its order: its case and key, the key of the run it went into, and `action`, one of
            `appended`, `replaced`, `filled`, `skipped`.
    """

    actions: pl.DataFrame

    def count(self, action: str) -> int:
        """How many new runs an action befell."""
        return int((self.actions.get_column("action") == action).sum())

    @property
    def accepted(self) -> int:
        """How many new runs were written."""
        return self.actions.height - self.count("skipped")


def upsert(runs: pl.DataFrame, new: pl.DataFrame, pack: Pack) -> tuple[pl.DataFrame, UpsertReport]:
    """Runs with the new ones in them, and what became of each.

    A run that has not ended is skipped. A run with the key of another replaces it; the archive state of the old one stays unless
    the new one says otherwise. What the pack calls an equal run fills what that one lacks. All else is appended. The order of
    the new runs counts; the result is that of as many upserts of one run.
    """
    rules = pack.data("operations")["upsert"]
    ended = new.select(terminal()).to_series()
    taken = (new if ended.all() else new.filter(ended)).select(runs.columns)
    touched = taken.select(CASE).unique(maintain_order=True)
    old = runs.join(touched, on=CASE, how="semi", maintain_order="left")
    both = pl.concat([old, taken])
    plan = _plan(both, old.height, rules)
    rest = runs.join(touched, on=CASE, how="anti", maintain_order="left")
    merged = _content(both, plan, rules.get("fill", []))
    return (pl.concat([rest, merged]) if rest.height else merged), UpsertReport(_actions(new, ended, both, plan))


def _plan(both: pl.DataFrame, known: int, rules: Mapping[str, Any]) -> pl.DataFrame:
    """Per row: the run it is of, the twin it is equal to, and the run it goes into."""
    key, equal = rules.get("key", []), rules.get("equal", [])
    plan = _codes(both, {"case": CASE, "run": RUN, "twin": [*CASE, *key, *equal]})
    given = [(pl.col(c) != "").fill_null(value=False) for c in key] or [pl.lit(value=False)]
    named = both.with_columns(_named=pl.all_horizontal(given)).get_column("_named")
    plan = plan.with_columns(named=named).with_columns(
        twin=pl.when("named").then("twin"),
        at=pl.int_range(pl.len(), dtype=pl.UInt32),
        old=pl.int_range(pl.len()) < known,
    )
    # Where a run keeps its twin for good and no twin has two runs to begin with, the first run of a twin takes all the others.
    moves = pl.col("twin").n_unique().over("run") > 1
    crowded = pl.col("twin").is_not_null() & (pl.col("run").filter("old").n_unique().over("twin") > 1)
    first = pl.col("run").first().over("twin")
    plan = plan.with_columns(
        hard=(moves | crowded).any().over("case"), into=pl.when(pl.col("twin").is_null()).then("run").otherwise(first)
    )
    if plan.get_column("hard").any():
        plan = _in_sequence(plan, both)
    return plan.with_columns(sets=pl.col("into") == pl.col("run"))


def _codes(frame: pl.DataFrame, groups: Mapping[str, Sequence[str]]) -> pl.DataFrame:
    """A number for each combination of some columns, nulls equal."""
    out = {}
    for name, columns in groups.items():
        distinct = frame.select(columns).unique(maintain_order=True).with_row_index("_code")
        joined = frame.select(columns).join(
            distinct, on=list(columns), how="left", nulls_equal=True, maintain_order="left"
        )
        out[name] = joined.get_column("_code")
    return pl.DataFrame(out)


def _in_sequence(plan: pl.DataFrame, both: pl.DataFrame) -> pl.DataFrame:
    """`into` for cases where a run changes its twin: a fold over their numbers, as there the order of events decides."""
    order = both.select(pl.col("recorded_at", "run_id").fill_null(""), at=plan.get_column("at"))
    order = order.sort("recorded_at", "run_id", maintain_order=True).with_row_index("rank")
    hard = plan.filter("hard").join(order.select("at", "rank"), on="at", how="left", maintain_order="left")
    twins: dict[int, int | None] = {}
    ranks: dict[int, int] = {}
    runs_of: defaultdict[int, set[int]] = defaultdict(set)
    into = []
    for run, twin, at, old in zip(*(hard.get_column(c).to_list() for c in ("run", "twin", "rank", "old")), strict=True):
        others = runs_of.get(twin) if run not in twins and twin is not None and not old else None
        if others:
            into.append(min(others, key=ranks.__getitem__))
            continue
        before = twins.get(run)
        if before is not None:
            runs_of[before].discard(run)
        if twin is not None:
            runs_of[twin].add(run)
        twins[run], ranks[run] = twin, at
        into.append(run)
    found = hard.select("at", folded=pl.Series(into, dtype=plan.schema["into"]))
    joined = plan.join(found, on="at", how="left", maintain_order="left")
    return joined.with_columns(into=pl.coalesce("folded", "into")).drop("folded")


def _content(both: pl.DataFrame, plan: pl.DataFrame, fill: Sequence[str]) -> pl.DataFrame:
    """One row a run: its last record, the archive state that sticks, and what later equal runs filled in."""
    if plan.get_column("into").is_unique().all():
        return both
    rows = both.with_columns(_into=plan.get_column("into"), _sets=plan.get_column("sets"), _at=plan.get_column("at"))
    says = pl.col("_sets") & pl.col("archive_state").is_not_null()
    rows = rows.with_columns(
        _last=pl.col("_at").filter("_sets").max().over("_into"), _state=pl.col("_at").filter(says).max().over("_into")
    ).filter(pl.col("_at") >= pl.col("_last"))
    own = pl.col("_state") == pl.col("_last")
    archive = both.select(ARCHIVE_COLUMNS)
    states = {c: archive.get_column(c).gather(rows.get_column("_state")) for c in ARCHIVE_COLUMNS}
    sticks = own | (states["archive_state"] == ARCHIVED)
    rows = rows.with_columns(
        pl.when(sticks).then(pl.coalesce(s, c)).otherwise(pl.col(c)).alias(c) for c, s in states.items()
    )
    filled = [c for c in fill if c in both.columns]
    alone = rows.select((pl.len().over("_into") == 1).alias("alone")).to_series()
    groups = rows.filter(~alone).group_by("_into", maintain_order=True)
    merged = groups.agg(
        *(pl.col(c).drop_nulls().first() if c in filled else pl.col(c).first() for c in both.columns),
        pl.col("extra").alias("_extras"),
        (~pl.col("_sets") & pl.col("extra").is_not_null()).any().alias("_more"),
    )
    if merged.get_column("_more").any():
        merged = _fill_extra(merged, fill)
    return pl.concat([rows.filter(alone).select(both.columns), merged.select(both.columns)])


def _fill_extra(merged: pl.DataFrame, fill: Sequence[str]) -> pl.DataFrame:
    """What no column can hold is filled in the JSON text beside them: rare, so one by one."""
    wanted = merged.get_column("_more")
    present = merged.filter(wanted).select(pl.col(c).is_not_null() for c in fill if c in merged.columns)
    texts = []
    for i, parts in enumerate(merged.get_column("_extras").filter(wanted)):
        first, *others = (orjson.loads(p) if p is not None else {} for p in parts)
        for other in others:
            for name in fill:
                held = name in present.columns and present.get_column(name)[i]
                if not held and other.get(name) is not None and first.get(name) is None:
                    first[name] = other[name]
        texts.append(orjson.dumps(first).decode() if first else None)
    done = merged.get_column("extra").scatter(wanted.arg_true(), pl.Series(texts, dtype=pl.String))
    return merged.with_columns(extra=done)


def _actions(new: pl.DataFrame, ended: pl.Series, both: pl.DataFrame, plan: pl.DataFrame) -> pl.DataFrame:
    """One row a new run: what became of it."""
    keys = both.select(RUN).unique(maintain_order=True).get_column("run_key")
    begun = pl.col("at").filter("sets").min().over("into")
    fate = pl.when(~pl.col("sets")).then(pl.lit("filled")).when(pl.col("at") == begun).then(pl.lit("appended"))
    done = plan.select("old", action=fate.otherwise(pl.lit("replaced")), into_key=keys.gather(plan.get_column("into")))
    done = done.filter(~pl.col("old")).drop("old").with_columns(_new=ended.arg_true())
    rows = new.select(RUN).with_row_index("_new")
    joined = rows.join(done, on="_new", how="left", maintain_order="left").drop("_new")
    return joined.with_columns(pl.col("action").fill_null("skipped"))
