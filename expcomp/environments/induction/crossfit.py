"""Confidence by cross-fitting: families are held out in turn, and what is right on them is counted."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import polars as pl

from expcomp.environments.induction.prepared import Prepared
from expcomp.environments.induction.slices import slices
from expcomp.environments.induction.world import World, fit, predict, states

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Learned", "answer", "fold_of", "highest", "learn"]

FOLDS = 3
UNTRIED = 0.5
RANK = ("const", "function", "entity_episode", "effect", "entity_kb", "memo", "retrieval")
"""Routes in the order in which they are asked; of equal confidence the earlier one answers."""
_ACTION = pl.col("key").str.extract(r"^([^|]*)").alias("action")


@dataclass
class Learned:
    """A fitted world with the held-out counts of its keys.

    Attributes:
        world: Learned from all rows.
        counts: `key`, `route`, `case`, `n`, `hits`, `families`, `family_hits`: what they got right on families that they were not
            learned from, of rules the answer and, where it is given, the next state; `family_hits` is the sum over families of the
            share that is right.
        heldout: Candidates of the held-out rows, with `hit`.
    """

    world: World
    counts: pl.DataFrame
    heldout: pl.DataFrame

    @cached_property
    def ratios(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Confidence by key and route, and by action and route."""
        tried = self.heldout.with_columns(_ACTION)
        return _ratio(tried, ["key", "route"], "by_key"), _ratio(tried, ["action", "route"], "by_action")


def fold_of(groups: pl.Series, folds: int, salt: str = "fold") -> pl.DataFrame:
    """`group`, `fold` = first 8 hex digits of SHA-256 of `<salt>:<group>`, modulo `folds`, for the distinct groups."""
    names: Sequence[str] = groups.unique(maintain_order=True).to_list()
    found = [int(hashlib.sha256(f"{salt}:{n}".encode()).hexdigest()[:8], 16) % folds for n in names]
    return pl.DataFrame({"group": names, "fold": found}, schema={"group": pl.String, "fold": pl.Int64})


def learn(p: Prepared, rows: pl.DataFrame, *, folds: int = FOLDS) -> Learned:
    """Learn from rows, and count on held-out families what each part is worth."""
    ready = slices(p, rows)
    world = fit(p, rows, ready)
    placed = rows.join(fold_of(rows["group"], folds, "inner"), on="group", how="left", maintain_order="left")
    found, kept = [], []
    for fold in range(folds):
        inside, outside = placed.filter(pl.col("fold") != fold), placed.filter(pl.col("fold") == fold)
        if inside.is_empty() or outside.is_empty():
            continue
        asked = frozenset(outside["action_type"].unique(maintain_order=True))
        fitted = fit(p, inside, ready, only=asked)
        found.append(predict(fitted, p, outside))
        if p.ops.height:
            kept.append(_next_states(fitted, p, outside, found[-1]))
    truth = rows.select("t", "group", truth="answer", bad="failed")
    if found:
        held = pl.concat(found).join(truth, on="t", how="left", maintain_order="left")
    else:
        held = predict(world, p, rows.clear()).join(truth, on="t", how="left", maintain_order="left")
    held = held.filter(pl.col("answer").is_not_null()).with_columns(hit=pl.col("answer") == pl.col("truth"))
    # A rule also says what the call changes: it is right when both are, where the next state is given.
    whole = pl.concat(kept) if kept else pl.DataFrame(schema={"t": pl.UInt32, "kept": pl.Boolean})
    told = held.join(whole.unique("t", keep="first", maintain_order=True), on="t", how="left", maintain_order="left")
    wrong = pl.col("case").is_not_null() & ~pl.col("kept").fill_null(value=True)
    per = told.group_by("key", "route", "case", "group", maintain_order=True).agg(
        rows=pl.len(), right=(pl.col("hit") & ~wrong).sum()
    )
    counts = per.group_by("key", "route", "case", maintain_order=True).agg(
        n=pl.col("rows").sum(),
        hits=pl.col("right").sum(),
        families=pl.len(),
        family_hits=(pl.col("right") / pl.col("rows")).sum(),
    )
    return Learned(world, counts, held)


def _next_states(world: World, p: Prepared, rows: pl.DataFrame, candidates: pl.DataFrame) -> pl.DataFrame:
    """`t`, `kept`: the state after the call is the one that the rules give; only of rows whose states are given."""
    ruled = candidates.filter(pl.col("case").is_not_null()).select("t", outcome="failed")
    given = rows.filter(pl.col("before").is_not_null() & pl.col("after").is_not_null())
    asked = given.join(ruled.unique("t", keep="first", maintain_order=True), on="t", how="inner", maintain_order="left")
    after = states(world, p, asked).rename({"after": "said"})
    return (
        asked.select("t", "after")
        .join(after, on="t", how="left", maintain_order="left")
        .select("t", kept=(pl.col("said") == pl.col("after")).fill_null(value=False))
    )


def _ratio(held: pl.DataFrame, by: Sequence[str], name: str) -> pl.DataFrame:
    """`(hits + 1) / (n + 2)` by columns; a family counts once, with the share of its rows that is right."""
    per = held.group_by(*by, "group", maintain_order=True).agg(share=pl.col("hit").mean())
    return per.group_by(*by, maintain_order=True).agg(((pl.col("share").sum() + 1) / (pl.len() + 2)).alias(name))


def _confidence(candidates: pl.DataFrame, learned: Learned) -> pl.DataFrame:
    """Ratio of the key, else of the action and route; a route that was never tried for an action has one half."""
    by_key, by_action = learned.ratios
    return (
        candidates.lazy()
        .with_columns(_ACTION)
        .join(by_key.lazy(), on=["key", "route"], how="left", maintain_order="left")
        .join(by_action.lazy(), on=["action", "route"], how="left", maintain_order="left")
        .with_columns(confidence=pl.coalesce("by_key", "by_action", pl.lit(UNTRIED)))
        .select(*candidates.columns, "confidence")
        .collect(engine="in-memory")
    )


def highest(learned: Learned, *, routes: Sequence[str] = RANK) -> pl.DataFrame:
    """`action`, `confidence`: the most that an answer to the action by some routes can have; an action that is not listed has UNTRIED."""
    tried = learned.heldout.filter(pl.col("route").is_in(routes)).with_columns(_ACTION)
    parts = [_ratio(tried, ["action", *by, "route"], "confidence") for by in ((), ("key",))]
    both = pl.concat([p.select("action", "confidence") for p in parts])
    best = both.group_by("action", maintain_order=True).agg(pl.col("confidence").max().clip(lower_bound=UNTRIED))
    return best.sort("action")


def answer(learned: Learned, p: Prepared, rows: pl.DataFrame) -> pl.DataFrame:
    """One answer a row: `t`, `route`, `answer`, `failed`, `confidence`; the most confident route answers.

    A row that no route answers has a null answer and confidence 0. `failed` is what the class of the rule says, or the
    recorded outcome of what was remembered.
    """
    found = _confidence(predict(learned.world, p, rows), learned)
    outcome = found.lazy().filter(~pl.col("route").is_in(["memo", "retrieval"])).select("t", ruled="failed")
    best = (
        found.lazy()
        .filter(pl.col("answer").is_not_null())
        .with_columns(
            rank=pl.col("route").replace_strict(RANK, range(len(RANK)), default=len(RANK), return_dtype=pl.Int32)
        )
        .sort(["t", "confidence", "rank"], descending=[False, True, False], maintain_order=True)
        .unique("t", keep="first", maintain_order=True)
    )
    return (
        rows.lazy()
        .select("t")
        .join(best, on="t", how="left", maintain_order="left")
        .join(outcome, on="t", how="left", maintain_order="left")
        .select(
            "t",
            route=pl.col("route").fill_null("abstain"),
            key="key",
            answer="answer",
            failed=pl.coalesce("ruled", "failed"),
            confidence=pl.col("confidence").fill_null(0.0),
        )
        .collect(engine="in-memory")
    )
