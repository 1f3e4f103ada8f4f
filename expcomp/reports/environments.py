"""Report on an environment package: how much of the held-out turns it answers, how exact what it answers is, and where it stops."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.figures.risk import risk_coverage
from expcomp.io.counts import Count
from expcomp.reports.cells import plain
from expcomp.reports.model import Col, Figure, Section, Table
from expcomp.reports.report import Report

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

METRICS: Mapping[str, str] = {
    "coverage": "answered (confidence reaches the gate)",
    "selective_exact": "exact, of the answered",
    "coverage_99": "largest share that can be answered at 99 % exactness",
    "exact": "exact, without a gate",
    "text_exact": "text equal as written, of answers that are no JSON",
    "leaf": "leaf paths with equal value",
    "outcome": "outcome",
    "outcome_majority": "outcome, by the majority of the action",
    "outcome_balanced": "outcome, mean recall of failure and success",
    "outcome_mcc": "outcome, Matthews correlation",
    "state": "next state exact, of turns with a recorded one",
    "ece": "calibration error (10 bins)",
    "knowable": "knowable: every entity was seen before",
    "modal_exact": "floor: most frequent answer to the action",
    "memory_exact": "floor: most frequent answer to the call",
}
"""Metric to its words, in order."""

FREE: Mapping[str, str] = {
    "episodes": "episodes played",
    "exact_to_the_end": "share exact to the end",
    "mean_exact_steps_from_the_start": "mean exact steps from the start",
    "rules_used_right": "share of the supported rules that a right step used",
    "steps_by_a_rule": "share of the steps that a rule decided",
}
_SHARES = ("coverage", "selective_exact", "exact", "leaf", "outcome", "state", "knowable")
_SPANS = ("coverage", "selective_exact", "exact")


def environment_report(
    evaluation: Mapping[str, Any], *, told: Mapping[str, Any] | None = None, title: str = "Environment"
) -> Report:
    """Report on an evaluation.

    Args:
        evaluation: As `evaluate_environment` gives it, or the section `evaluation` of the report of a build.
        told: The report of the build, for its conditions.
        title: Title.
    """
    sections = [_headline(evaluation)]
    if evaluation["headline"] is not None:
        sections += [_actions(evaluation), _curve(evaluation)]
    if evaluation.get("free_running"):
        sections.append(_free(evaluation["free_running"]))
    if told is not None and told.get("conditions"):
        sections.append(_conditions(told))
    return Report(plain(title), "environment", tuple(sections))


def _headline(found: Mapping[str, Any]) -> Section:
    text = []
    if found["leaky_steps"]:
        text.append(
            f"Leaky: {Count(found['leaky_steps']):turn is of a task that was|turns are of tasks that were} learned from; no figure "
            "counts them."
        )
    head = found["headline"]
    if head is None:
        return Section(
            "evaluation", "Evaluation", (*text, "There is no turn of an unseen task, so nothing can be said.")
        )
    share = head["selective_exact"]
    exact = "nothing is answered" if share is None else f"{share:.1%} of these are exact"
    text.append(
        f"{head['coverage']:.1%} of {Count(found['steps']):unseen turn is answered|unseen turns are answered}; {exact} (gate "
        f"{found['gate']:g}, {Count(found['families']):family|families}). Each turn is answered from what its episode has shown before it."
    )
    overall = found["overall"]
    frame = _spans(
        {"metric": list(METRICS.values()), "value": [overall.get(k) for k in METRICS]},
        [overall["intervals"].get(k) for k in METRICS],
    ).filter(pl.col("value").is_not_null())
    absent = [words for key, words in METRICS.items() if overall.get(key) is None]
    note = "Intervals are 95 %, families as clusters."
    if absent:
        note += f" Not measured, as nothing to measure it on is recorded: {'; '.join(absent)}."
    columns = (Col("metric", "metric"), Col("value", "value", "share", "low", "high"), Col("why", "no interval, as"))
    return Section(
        "evaluation", "Evaluation", tuple(text), (Table("evaluation_overall", "All turns", frame, columns, note),)
    )


def _spans(
    columns: Mapping[str, Sequence[Any]], spans: Sequence[Mapping[str, Any] | None], prefix: str = ""
) -> pl.DataFrame:
    told = [s or {} for s in spans]
    return pl.DataFrame(
        [
            *(pl.Series(k, v, dtype=pl.Float64 if k == "value" else None) for k, v in columns.items()),
            pl.Series(f"{prefix}low", [s.get("low") for s in told], dtype=pl.Float64),
            pl.Series(f"{prefix}high", [s.get("high") for s in told], dtype=pl.Float64),
            pl.Series(f"{prefix}why", [s.get("reason") for s in told], dtype=pl.String),
        ]
    )


def _actions(found: Mapping[str, Any]) -> Section:
    rows = found["per_action"]
    frame = pl.DataFrame(
        [
            pl.Series("action", [r["action_type"] for r in rows], dtype=pl.String),
            pl.Series("n", [r["n"] for r in rows], dtype=pl.Int64),
            *(pl.Series(k, [r.get(k) for r in rows], dtype=pl.Float64) for k in METRICS),
        ]
    )
    for name in _SPANS:
        spans = _spans({}, [r.get("intervals", {}).get(name) for r in rows], f"{name}_")
        frame = frame.hstack(spans.select(f"{name}_low", f"{name}_high"))
    words = {"coverage": "answered", "selective_exact": "exact of these", "exact": "exact", "leaf": "leaves"}
    columns = (
        Col("action", "action"),
        Col("n", "turns", "count"),
        *(Col(k, words.get(k, k), "share", *((f"{k}_low", f"{k}_high") if k in _SPANS else ("", ""))) for k in _SHARES),
        Col("outcome_balanced", "mean recall", "share"),
        Col("outcome_mcc", "MCC", "number"),
        Col("memory_exact", "memory alone", "share"),
    )
    routes = found.get("routes", {})
    by_route = pl.DataFrame(
        {
            "route": list(routes),
            "answered": [r["answered"] for r in routes.values()],
            "exact": [r["exact"] for r in routes.values()],
        },
        schema={"route": pl.String, "answered": pl.Int64, "exact": pl.Float64},
    )
    tables = (
        Table("evaluation_actions", "By action", frame, columns),
        Table(
            "evaluation_routes", "By what answered", by_route,
            (Col("route", "route"), Col("answered", "answered", "count"), Col("exact", "exact", "share")),
        ),
    )  # fmt: skip
    return Section("actions", "By action and route", (), tables)


def _curve(found: Mapping[str, Any]) -> Section:
    points = found["risk_coverage"]
    frame = pl.DataFrame(
        [
            pl.Series("confidence", [p["confidence"] for p in points], dtype=pl.Float64),
            pl.Series("coverage", [p["coverage"] for p in points], dtype=pl.Float64),
            pl.Series("selective", [p["selective_exact"] for p in points], dtype=pl.Float64),
        ]
    )
    draw = partial(risk_coverage, frame, gate=found["gate"], turns=found["steps"])
    alt = (
        "Exactness of what is answered by the share that is answered, the gate marked; the numbers stand in the table."
    )
    columns = (
        Col("confidence", "confidence", "number"),
        Col("coverage", "answered", "share"),
        Col("selective", "exact of these", "share"),
    )
    table = Table(
        "risk_coverage", "Risk and coverage", frame, columns, "One row a confidence that occurs, the highest first."
    )
    return Section(
        "risk_coverage",
        "Risk and coverage",
        (),
        (table,),
        (Figure("risk_coverage", "Risk-coverage curve.", alt, draw),),
    )


def _free(found: Mapping[str, Any]) -> Section:
    frame = pl.DataFrame(
        {"what": list(FREE.values()), "value": [found.get(k) for k in FREE]},
        schema={"what": pl.String, "value": pl.Float64},
    ).filter(pl.col("value").is_not_null())
    text = "Played on the predicted state. Initial state: what was given; elsewhere the first views of the entities."
    columns = (Col("what", "what"), Col("value", "value", "number"))
    return Section(
        "free_running", "Running freely", (text,), (Table("free_running", "Whole episodes", frame, columns),)
    )


def _conditions(told: Mapping[str, Any]) -> Section:
    frame = pl.DataFrame(told["conditions"], schema={"name": pl.String, "holds": pl.Boolean, "found": pl.String})
    status = "validated" if told.get("eligible") else "a candidate"
    columns = (Col("name", "condition"), Col("holds", "holds"), Col("found", "found"))
    return Section(
        "conditions", "Promotion", (f"The package is {status}.",), (Table("conditions", "Conditions", frame, columns),)
    )
