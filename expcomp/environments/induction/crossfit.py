"""Confidence by cross-fitting: families are held out in turn, and what is right on them is counted."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from expcomp.environments.induction.prepared import Prepared
from expcomp.environments.induction.slices import slices
from expcomp.environments.induction.world import World, fit, predict

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Learned", "answer", "fold_of", "highest", "learn"]

FOLDS = 3
UNTRIED = 0.5
RANK = ("const", "function", "entity_episode", "effect", "entity_kb", "memo", "retrieval")
"""Routes in the order in which they are asked; of equal confidence the earlier one answers."""


@dataclass(slots=True)
class Learned:
    """A fitted world with the held-out counts of its keys.

    Attributes:
        world: Learned from all rows.
        counts: `key`, `route`, `case`, `n`, `hits`, `families`, `family_hits`: what they got right on families that they were not
            learned from; `family_hits` is the sum over families of the share that is right.
        heldout: Candidates of the held-out rows, with `hit`.
    """

    world: World
    counts: pl.DataFrame
    heldout: pl.DataFrame


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
    found = []
    for fold in range(folds):
        inside, outside = placed.filter(pl.col("fold") != fold), placed.filter(pl.col("fold") == fold)
        if inside.is_empty() or outside.is_empty():
            continue
        found.append(predict(fit(p, inside, ready, effects=False), p, outside))
    truth = rows.select("t", "group", truth="answer", bad="failed")
    if found:
        held = pl.concat(found).join(truth, on="t", how="left", maintain_order="left")
    else:
        held = predict(world, p, rows.clear()).join(truth, on="t", how="left", maintain_order="left")
    held = held.filter(pl.col("answer").is_not_null()).with_columns(hit=pl.col("answer") == pl.col("truth"))
    per = held.group_by("key", "route", "case", "group", maintain_order=True).agg(
        rows=pl.len(), right=pl.col("hit").sum()
    )
    counts = per.group_by("key", "route", "case", maintain_order=True).agg(
        n=pl.col("rows").sum(),
        hits=pl.col("right").sum(),
        families=pl.len(),
        family_hits=(pl.col("right") / pl.col("rows")).sum(),
    )
    return Learned(world, counts, held)


def _ratio(held: pl.DataFrame, by: Sequence[str], name: str) -> pl.DataFrame:
    """`(hits + 1) / (n + 2)` by columns; a family counts once, with the share of its rows that is right."""
    per = held.group_by(*by, "group", maintain_order=True).agg(share=pl.col("hit").mean())
    return per.group_by(*by, maintain_order=True).agg(((pl.col("share").sum() + 1) / (pl.len() + 2)).alias(name))


def _confidence(candidates: pl.DataFrame, held: pl.DataFrame) -> pl.DataFrame:
    """Ratio of the key, else of the action and route; a route that was never tried for an action has one half."""
    action = pl.col("key").str.extract(r"^([^|]*)").alias("action")
    tried = held.with_columns(action)
    return (
        candidates.with_columns(action)
        .join(_ratio(tried, ["key", "route"], "by_key"), on=["key", "route"], how="left", maintain_order="left")
        .join(
            _ratio(tried, ["action", "route"], "by_action"), on=["action", "route"], how="left", maintain_order="left"
        )
        .with_columns(confidence=pl.coalesce("by_key", "by_action", pl.lit(UNTRIED)))
        .select(*candidates.columns, "confidence")
    )


def highest(learned: Learned) -> pl.DataFrame:
    """`action`, `confidence`: the most that an answer to the action can have; an action that is not listed has UNTRIED."""
    tried = learned.heldout.with_columns(pl.col("key").str.extract(r"^([^|]*)").alias("action"))
    parts = [_ratio(tried, ["action", *by, "route"], "confidence") for by in ((), ("key",))]
    both = pl.concat([p.select("action", "confidence") for p in parts])
    best = both.group_by("action", maintain_order=True).agg(pl.col("confidence").max().clip(lower_bound=UNTRIED))
    return best.sort("action")


def answer(learned: Learned, p: Prepared, rows: pl.DataFrame) -> pl.DataFrame:
    """One answer a row: `t`, `route`, `answer`, `failed`, `confidence`; the most confident route answers.

    A row that no route answers has a null answer and confidence 0. `failed` is what the class of the rule says, or the
    recorded outcome of what was remembered.
    """
    found = _confidence(predict(learned.world, p, rows), learned.heldout)
    outcome = found.filter(~pl.col("route").is_in(["memo", "retrieval"])).select("t", ruled="failed")
    best = (
        found.filter(pl.col("answer").is_not_null())
        .with_columns(
            rank=pl.col("route").replace_strict(RANK, range(len(RANK)), default=len(RANK), return_dtype=pl.Int32)
        )
        .sort(["t", "confidence", "rank"], descending=[False, True, False], maintain_order=True)
        .unique("t", keep="first", maintain_order=True)
    )
    return (
        rows.select("t")
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
    )
