"""The verb `compare`."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any

import typer

from expcomp.cli.arms_options import Confidence, Metric, Paths, Resamples, Scale, Seed, end, opened, rows_of, with_arm
from expcomp.cli.options import Json, Quiet
from expcomp.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl

    from expcomp.comparing.comparison import Comparison

DECISIONS = ("regressed", "no_difference_shown", "need_more_data", "not_improved", "guard", "inferior")
_MEANS = {"n_units": "tasks", "baseline_mean": "baseline", "treatment_mean": "treatment"}
_ESTIMATE = {"estimate": "difference", "low": "low", "high": "high"}
_SECTIONS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "sensitivity": (
        "policies for lost trials",
        {"missing": "without score", "infra": "infrastructure", **_MEANS, **_ESTIMATE, "decision": "decision"},
    ),
    "flips": ("pairs of outcomes", {"baseline_outcome": "baseline", "treatment_outcome": "treatment", "tasks": "tasks"}),
    "guards": (
        "guards",
        {"guard": "guard", **_MEANS, "difference": "difference", "low": "low", "high": "high", "change": "relative", "status": "status"},
    ),
    "slices": ("slices", {"slice": "slice", "value": "value", **_MEANS, **_ESTIMATE, "p_adjusted": "p adjusted", "decision": "decision"}),
    "cost_per_success": (
        "arms",
        {"arm": "arm", "trials": "trials", "cost_usd": "cost USD", "successes": "successes", "cost_per_success": "cost of a success",
         "low": "low", "high": "high", "note": "note"},
    ),
}  # fmt: skip


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(compare)


def compare(
    paths: Paths,
    baseline: Annotated[str, typer.Option("--baseline", "-b", help="Arm, or role as `baseline`.", show_default=False)],
    treatment: Annotated[
        list[str], typer.Option("--treatment", "-t", help="Arm or role. Repeatable.", show_default=False)
    ],
    cluster: Annotated[str | None, typer.Option(help="Column of a unit above the task, as cluster or domain.")] = None,
    metric: Metric = "auto",
    missing: Annotated[
        str, typer.Option(help="What a trial without a score counts as: exclude, fail, bounds.")
    ] = "exclude",
    infra: Annotated[
        str | None, typer.Option(help="The same of trials lost to infrastructure; default: as --missing.")
    ] = None,
    confidence: Confidence = 0.95,
    delta: Annotated[float | None, typer.Option(help="Smallest difference that matters.")] = None,
    margin: Annotated[float | None, typer.Option(help="Non-inferiority margin.")] = None,
    guard: Annotated[
        list[str] | None,
        typer.Option(help="Relative increase that is tolerated, as cost_usd=0.1; also tokens, duration_s. Repeatable."),
    ] = None,
    slice_by: Annotated[
        list[str] | None, typer.Option("--slice", help="Column of the task to compare within. Repeatable.")
    ] = None,
    min_units: Annotated[int, typer.Option(min=0, help="Tasks or clusters below which more data are needed.")] = 20,
    resamples: Resamples = 10_000,
    seed: Seed = 0,
    score_scale: Scale = None,
    fail_on: Annotated[
        list[str] | None, typer.Option("--fail-on", help=f"Exit 1 on {', '.join(DECISIONS)}. Repeatable.")
    ] = None,
    csv: Annotated[bool, typer.Option("--csv", help="Print the tasks as CSV, one row a task.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare arms over the tasks both did: difference, interval, decision, and what they hang on.

    Example: expcomp compare runs/ -b plain -t with-skills --slice domain --fail-on regressed
    """
    wrong = [f for f in fail_on or () if f not in DECISIONS]
    if wrong:
        msg = f"--fail-on {wrong[0]}: expected one of {', '.join(DECISIONS)}"
        raise UsageError(msg)
    from expcomp.cli.frames import emit, form_of
    from expcomp.cli.options import scale_option
    from expcomp.comparing.compare import compare as compared
    from expcomp.comparing.guards import GUARDS

    form = form_of(as_json=as_json, md=False, csv=csv, quiet=quiet)
    limits = dict.fromkeys(GUARDS) | _guards(guard or [])
    runs = opened(paths)
    found = compared(
        runs,
        baseline,
        treatment,
        cluster=cluster,
        metric=metric,
        missing=missing,
        infra=infra,
        confidence=confidence,
        delta=delta,
        margin=margin,
        guards=limits,
        slices=slice_by or (),
        min_units=min_units,
        resamples=resamples,
        seed=seed,
        score_scale=scale_option(score_scale),
    )
    if form == "json":
        from expcomp.io.documents import json_document

        print(json_document([_record(c) for c in found]), end="")
    elif form == "csv":
        import polars as pl

        emit(pl.concat(with_arm(c.table, "treatment", c.treatment) for c in found), form, {}, what="tasks")
    elif form == "table":
        for c in found:
            _show(c)
    if any(_fails(c, fail_on or []) for c in found):
        raise typer.Exit(1)
    end(runs)


def _guards(given: list[str]) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for text in given:
        name, sign, value = text.partition("=")
        try:
            found[name] = float(value) if sign else None
        except ValueError:
            msg = f"--guard {text}: expected NAME=INCREASE, as in cost_usd=0.1 for 10 %"
            raise UsageError(msg) from None
    return found


def _fails(c: Comparison, asked: list[str]) -> bool:
    told = {
        c.decision,
        *(["not_improved"] if c.decision != "improved" else []),
        *(["guard"] if c.guards["status"].is_in(["exceeded", "worse"]).any() else []),
        *(["inferior"] if c.non_inferior is False else []),
    }
    return bool(told & set(asked))


def _record(c: Comparison) -> dict[str, Any]:
    return {f.name: rows_of(getattr(c, f.name)) for f in fields(c)} | {"robust": c.robust}


def _show(c: Comparison) -> None:
    from expcomp.cli.frames import emit
    from expcomp.comparing.showing import needed_text
    from expcomp.io.counts import percent

    print(c.sentence())
    p = (
        ""
        if c.p_value is None
        else f"; p = {c.p_value:.3g}" + (f", Holm {c.p_adjusted:.3g}" if c.p_adjusted is not None else "")
    )
    mde = "" if c.mde is None else f"; smallest difference such data show {c.mde:.3f}"
    print(
        f"  {c.metric}, {c.method or 'no interval'}, {percent(c.confidence)}{p}{mde}; {c.n_trials[0]:,} and {c.n_trials[1]:,} trials"
    )
    if c.decision == "need_more_data":
        print(f"  needed: {needed_text(c.needed) or 'not known'} ({c.reason.replace('_', ' ')})")
    if c.non_inferior is not None:
        print(f"  {'non-inferior' if c.non_inferior else 'not shown to be non-inferior'} at margin {c.margin}")
    for note in c.notes:
        print(f"  note: {note}")
    for name, (what, shown) in _SECTIONS.items():
        frame = _worth_showing(name, getattr(c, name))
        if frame.height:
            print()
            emit(frame, "table", shown, what=what)
    print()


def _worth_showing(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    import polars as pl

    if name == "sensitivity" and frame["estimate"].n_unique() == 1:
        return frame.clear()  # no trial was lost: every policy is the same
    useful = {
        "flips": pl.col("tasks") > 0,
        "guards": pl.col("n_units") > 0,
        "cost_per_success": pl.col("cost_usd").is_not_null(),
    }
    return frame.filter(useful[name]) if name in useful and frame.height else frame
