"""Evaluation of held-out turns: every call is answered from what its episode has shown before it, and compared with what came back.

The metrics are those of `induction.evaluate`. Intervals are 95 %, families as clusters: Student's t on CR1, widened by the BCa bootstrap
of whole families (`stats.batch.clustered_means`). The headline is the coverage at the gate, and the exactness of what is answered there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.environments.induction.evaluate import risk_coverage, scored, summary
from expcomp.environments.induction.prepared import operands
from expcomp.environments.records import lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from expcomp.environments.induction.prepared import Prepared
    from expcomp.environments.induction.reconstruct import Reconstruction

PART = 20_000
"""Transitions that are answered at a time, whole families."""

RESAMPLES = 2_000


@dataclass(frozen=True)
class HeldOut:
    """Held-out turns, answered.

    Attributes:
        steps: One row a transition: what `induction.evaluate.scored` gives, `answered` (confidence reaches the gate), `knowable` (every
            entity that the call names was seen in training or earlier in the episode) and `leaky` (its family was learned from).
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
    for part in _parts(experience):
        p = operands(part, classes=learned.classes)
        got = learned.predict(part).join(
            p.rows.select("t", "transition_id"), on="transition_id", how="inner", maintain_order="left"
        )
        answers = got.drop("transition_id").with_columns(key=pl.lit(None, pl.String))
        known = _knowable(learned, p)
        said = pl.when("failed").then(pl.lit("failure")).otherwise(pl.lit("success"))
        steps.append(
            scored(answers, p.rows).join(
                p.rows.select("t", "transition_id").join(known, on="t", how="left", maintain_order="left").drop("t"),
                on="transition_id", how="left", maintain_order="left",
            )
        )  # fmt: skip
        outcomes.append(p.rows.select("transition_id", outcome=said))
        first.append(first_views(p))
    made = pl.concat(steps).with_columns(
        answered=~pl.col("abstained") & (pl.col("confidence") >= gate),
        leaky=pl.col("group").is_in(families.unique().implode()),
    )
    return HeldOut(
        made.sort("episode_id", "turn", "transition_id"),
        pl.concat(outcomes).sort("transition_id"),
        pl.concat(first).sort("episode_id"),
    )


def _parts(experience: pl.DataFrame) -> Iterator[pl.DataFrame]:
    sizes = experience.group_by("group", maintain_order=True).agg(n=pl.len()).sort("group")
    placed = sizes.select("group", part=(pl.col("n").cum_sum() - 1) // PART)
    rows = experience.join(placed, on="group", how="inner", maintain_order="left").sort("part", maintain_order=True)
    yield from rows.partition_by("part", maintain_order=True, include_key=False)


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
    measured = _with_majority(clean, trained)
    intervals = _intervals(measured)
    overall = {**_metrics(measured)[0], "intervals": intervals}
    overall.pop("action_type")
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
        "per_action": _metrics(measured, "action_type"),
        "routes": dict(lines(_by_route(measured), "route", "found")),
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


def _with_majority(steps: pl.DataFrame, trained: pl.DataFrame) -> pl.DataFrame:
    """`majority_ok`: the outcome is the one that most trained calls of the action had; success where there was none."""
    mostly = trained.group_by("action_type", maintain_order=True).agg(mostly=pl.col("failed").mean() > 0.5)
    return steps.join(mostly, on="action_type", how="left", maintain_order="left").with_columns(
        majority_ok=pl.col("failed") == pl.col("mostly").fill_null(value=False)
    )


def _metrics(steps: pl.DataFrame, by: str | None = None) -> list[dict[str, Any]]:
    """Metrics of all steps, or one record a value of a column, in its order."""
    key = by or "action_type"
    frame = steps if by else steps.with_columns(action_type=pl.lit("all"))
    bad, said = pl.col("failed"), pl.col("failed_predicted")
    cells = {f"_{a}{b}": ((bad == a) & (said == b)).sum().cast(pl.Float64) for a in (0, 1) for b in (0, 1)}
    more = frame.group_by(key, maintain_order=True).agg(
        coverage=pl.col("answered").mean(),
        selective_exact=pl.col("exact").filter("answered").mean(),
        outcome_majority=pl.col("majority_ok").mean(),
        knowable=pl.col("knowable").mean(),
        **cells,
    )
    found = summary(frame, [key]).join(more, on=key, how="left", maintain_order="left")
    ones = {n: pl.col(f"_{n}") for n in ("00", "01", "10", "11")}
    margins = (
        (ones["11"] + ones["10"]),
        (ones["11"] + ones["01"]),
        (ones["00"] + ones["10"]),
        (ones["00"] + ones["01"]),
    )
    root = (margins[0] * margins[1] * margins[2] * margins[3]).sqrt()
    mcc = (ones["11"] * ones["00"] - ones["01"] * ones["10"]) / root
    found = found.with_columns(outcome_mcc=pl.when(root > 0).then(mcc)).sort(key)
    names = (
        key, "n", "exact", "text_exact", "leaf", "coverage", "selective_exact", "coverage_99", "outcome", "outcome_majority",
        "outcome_balanced", "outcome_mcc", "state", "ece", "knowable",
    )  # fmt: skip
    return [dict(zip(("action_type", *names[1:]), map(_known, row), strict=True)) for row in lines(found, *names)]


def _known(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


def _by_route(steps: pl.DataFrame) -> pl.DataFrame:
    return (
        steps.filter("answered")
        .group_by("route", maintain_order=True)
        .agg(answered=pl.len(), exact=pl.col("exact").mean())
        .sort("route")
        .select("route", found=pl.struct("answered", "exact"))
    )


_MEASURED = {
    "exact": ("exact", None),
    "leaf": ("leaf", None),
    "outcome": ("outcome_ok", None),
    "coverage": ("answered", None),
    "selective_exact": ("exact", "answered"),
}


def _intervals(steps: pl.DataFrame) -> dict[str, Any]:
    """Family-clustered intervals by metric: `{"low", "high"}`, or `{"reason"}` why there is none."""
    from expcomp.stats.batch import clustered_means

    values: list[pl.Series] = []
    groups: list[pl.Series] = []
    for column, only in _MEASURED.values():
        part = steps if only is None else steps.filter(only)
        values.append(part[column].cast(pl.Float64))
        groups.append(part["group"])
    some = [i for i, v in enumerate(values) if len(v)]
    found = clustered_means([values[i] for i in some], [groups[i] for i in some], resamples=RESAMPLES, scale=1.0)
    limits = dict(zip(some, lines(found, "low", "high", "reason"), strict=True))
    return {name: _limit(limits.get(i)) for i, name in enumerate(_MEASURED)}


def _limit(found: Sequence[Any] | None) -> dict[str, Any]:
    if found is None:
        return {"reason": "nothing was answered"}
    low, high, reason = found
    # A share lies between 0 and 1; the t interval does not know.
    return {"reason": str(reason)} if reason is not None else {"low": max(0.0, low), "high": min(1.0, high)}
