"""Evaluation of held-out turns: every call is answered from what its episode has shown before it, and compared with what came back.

Metrics and their intervals are in `measures`. The headline is the coverage at the gate, and the exactness of what is answered there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.environments.induction.evaluate import risk_coverage, scored
from expcomp.environments.induction.experience import whole_families
from expcomp.environments.induction.prepared import operands
from expcomp.environments.measures import bootstrapped, by_route, metrics, with_majority
from expcomp.environments.records import lines

if TYPE_CHECKING:
    from expcomp.environments.induction.prepared import Prepared
    from expcomp.environments.induction.reconstruct import Reconstruction

PART = 20_000
"""Transitions that are answered at a time, whole families."""


@dataclass(frozen=True)
class HeldOut:
    """Held-out turns, answered.

    Attributes:
        steps: One row a transition: what `induction.evaluate.scored` gives, `answered` (confidence reaches the gate), `knowable` (every
            entity that the call names was seen in training or earlier in the episode), `leaky` (its family was learned from), and
            `modal_exact` and `memory_exact`: the most frequent answer to the action, and to the call, would have been exact.
        outcomes: `transition_id`, `outcome` as the answers say it.
        first: `episode_id`, `state_json`: first views of entities.
    """

    steps: pl.DataFrame
    outcomes: pl.DataFrame
    first: pl.DataFrame


def answer_held_out(learned: Reconstruction, experience: pl.DataFrame, *, gate: float, families: pl.Series) -> HeldOut:
    """Answer held-out transitions.

    Args:
        learned: What was learned.
        experience: Columns of EXPERIENCE.
        gate: Confidence from which on an answer counts as given.
        families: Families that were learned from.
    """
    from expcomp.environments.starting import first_views

    steps, outcomes, first = [], [], []
    for part in whole_families(experience, PART):
        p = operands(part, classes=learned.classes, own=learned.own)
        got = learned.predict(part, prepared=p).join(
            p.rows.select("t", "transition_id"), on="transition_id", how="inner", maintain_order="left"
        )
        answers = got.drop("transition_id").with_columns(key=pl.lit(None, pl.String))
        known = _knowable(learned, p)
        said = pl.when("failed").then(pl.lit("failure")).otherwise(pl.lit("success"))
        steps.append(
            scored(answers, p.rows).join(
                p.rows.select("t", "transition_id", "args").join(known, on="t", how="left", maintain_order="left").drop("t"),
                on="transition_id", how="left", maintain_order="left",
            )
        )  # fmt: skip
        outcomes.append(p.rows.select("transition_id", outcome=said))
        first.append(first_views(p))
    made = _floors(learned, pl.concat(steps)).with_columns(
        answered=~pl.col("abstained") & (pl.col("confidence") >= gate),
        leaky=pl.col("group").is_in(families.unique().implode()),
    )
    return HeldOut(
        made.sort("episode_id", "turn", "transition_id"),
        pl.concat(outcomes).sort("transition_id"),
        pl.concat(first).sort("episode_id"),
    )


def _floors(learned: Reconstruction, steps: pl.DataFrame) -> pl.DataFrame:
    """What two plain predictors are worth on the same turns; the memory falls back on the most frequent answer to the action."""
    world = learned.learned.world
    modal = (
        world.modal.sort(["n", "answer"], descending=[True, False], maintain_order=True)
        .unique("action_type", keep="first", maintain_order=True)
        .select("action_type", _modal="answer")
    )
    memory = world.memory.select("action_type", "args", _memory="answer")
    found = steps.join(modal, on="action_type", how="left", maintain_order="left").join(
        memory, on=["action_type", "args"], how="left", maintain_order="left"
    )
    told = {"modal_exact": pl.col("_modal"), "memory_exact": pl.coalesce("_memory", "_modal")}
    return found.with_columns((v == pl.col("truth")).fill_null(value=False).alias(k) for k, v in told.items()).drop(
        "_modal", "_memory", "args"
    )


def _knowable(learned: Reconstruction, p: Prepared) -> pl.DataFrame:
    """`t`, `knowable`: every entity that the call names was seen in training, or earlier in the episode, or it names none."""
    by = ["cls", "key"]
    trained = (
        learned.learned.world.views.select(by).unique(maintain_order=True).with_columns(trained=pl.lit(value=True))
    )
    shown = p.facts.group_by("episode_id", *by, maintain_order=True).agg(shown=pl.col("turn").min())
    asked = (
        p.asked.join(p.rows.select("t", "episode_id", "turn"), on="t", how="inner", maintain_order="left")
        .join(trained, on=by, how="left", maintain_order="left")
        .join(shown, on=["episode_id", *by], how="left", maintain_order="left")
        .with_columns(known=pl.col("trained").fill_null(value=False) | (pl.col("shown") < pl.col("turn")).fill_null(value=False))
        .group_by("t", maintain_order=True)
        .agg(pl.col("known").all())
    )  # fmt: skip
    return (
        p.rows.select("t")
        .join(asked, on="t", how="left", maintain_order="left")
        .select("t", knowable=pl.col("known").fill_null(value=True))
    )


def evaluated(steps: pl.DataFrame, *, gate: float, trained: pl.DataFrame) -> dict[str, Any]:
    """The evaluation section of a report; null where there is nothing to measure.

    Figures are those of families that were not learned from; steps of the others are only counted, as `leaky_steps`.

    Args:
        steps: `HeldOut.steps`.
        gate: Of `answered`.
        trained: `action_type`, `failed` of the transitions that were learned from, for the majority.
    """
    clean = steps.filter(~pl.col("leaky"))
    told = {
        "gate": gate,
        "steps": clean.height,
        "families": clean["group"].n_unique(),
        "leaky": clean.is_empty() and not steps.is_empty(),
        "leaky_steps": steps.height - clean.height,
    }
    if clean.is_empty():
        return {**told, "headline": None, "overall": None, "per_action": [], "risk_coverage": []}
    measured = with_majority(clean, trained)
    overall = metrics(measured)[0]
    overall.pop("action_type")
    intervals = overall["intervals"] = {**overall["intervals"], **bootstrapped(measured)}
    headline = {
        "coverage": overall["coverage"],
        "selective_exact": overall["selective_exact"],
        "answered": int(measured["answered"].sum()),
        "coverage_interval": intervals["coverage"],
        "selective_exact_interval": intervals["selective_exact"],
        "coverage_99": overall["coverage_99"],
    }
    return {
        **told,
        "headline": headline,
        "overall": overall,
        "per_action": metrics(measured, "action_type"),
        "routes": dict(lines(by_route(measured), "route", "found")),
        "risk_coverage": [
            {"confidence": c, "coverage": v, "selective_exact": s}
            for c, v, s in lines(risk_curve(measured), "confidence", "coverage", "selective")
        ],
    }


def risk_curve(steps: pl.DataFrame) -> pl.DataFrame:
    """Coverage and exactness of what is answered at every confidence that occurs: `confidence`, `coverage`, `selective`."""
    some = steps.filter(~pl.col("abstained"))
    share = some.height / steps.height if steps.height else 0.0
    return risk_coverage(some).with_columns(pl.col("coverage") * share)
