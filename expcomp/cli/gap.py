"""The verbs `gap` and `power`."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Annotated

import typer

from expcomp.cli.arms_options import Confidence, Metric, Paths, Resamples, Scale, Seed, end, opened, rows_of
from expcomp.cli.options import Json, Quiet
from expcomp.io.counts import Count

if TYPE_CHECKING:
    from collections.abc import Mapping

_TASKS = {
    "benchmark": "benchmark", "task": "task", "weak_mean": "weak", "strong_mean": "strong", "gap": "gap", "n": "n", "mean": "mean",
    "pass_rate": "pass rate", "learnability": "learnability", "band": "band", "keep_reason": "GRPO",
}  # fmt: skip
_SECTIONS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "bands": ("bands", {"band": "band", "tasks": "tasks", "keep_for_grpo": "keep for GRPO"}),
    "explained": (
        "failure classes",
        {"failure_class": "failure class", "weak_trials": "weak trials", "strong_trials": "strong trials",
         "contribution": "part of the gap", "share": "share"},
    ),
    "curves": (
        "points",
        {"arm": "arm", "estimator": "estimator", "k": "k", "tasks": "tasks", "left_out": "left out", "estimate": "estimate",
         "low": "low", "high": "high"},
    ),
}  # fmt: skip


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    app.command()(gap)
    app.command()(power)


def gap(
    paths: Paths,
    weak: Annotated[str | None, typer.Option(help="Arm or role of the weak solver: the policy to train.")] = None,
    strong: Annotated[str | None, typer.Option(help="Arm or role of the strong solver.")] = None,
    metric: Metric = "auto",
    band: Annotated[
        str, typer.Option(help="Pass rates a task is too hard below and too easy above, as LOW,HIGH.")
    ] = "0.2,0.8",
    failure: Annotated[str, typer.Option(help="Column that says what went wrong in a trial.")] = "failure_class",
    confidence: Confidence = 0.95,
    resamples: Resamples = 10_000,
    seed: Seed = 0,
    score_scale: Scale = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, help="Tasks to print.")] = 20,
    csv: Annotated[bool, typer.Option("--csv", help="Print all tasks as CSV, one row a task.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Solver gap by task: weak against strong arm, or best against worst attempt; bands, GRPO, failures, pass@k.

    Example: expcomp gap runs/ --weak small-model --strong large-model
    """
    from expcomp.cli.frames import emit, form_of
    from expcomp.cli.options import scale_option
    from expcomp.comparing.gap import solver_gap
    from expcomp.io.documents import json_document

    form = form_of(as_json=as_json, md=False, csv=csv, quiet=quiet)
    runs = opened(paths)
    found = solver_gap(
        runs,
        weak,
        strong,
        metric=metric,
        band=_band(band),
        failure=failure,
        confidence=confidence,
        resamples=resamples,
        seed=seed,
        score_scale=scale_option(score_scale),
    )
    if form == "json":
        print(json_document({f.name: rows_of(getattr(found, f.name)) for f in fields(found)}), end="")
    elif form == "csv":
        emit(found.frame, form, {}, what="tasks")
    elif form == "table":
        print(found.sentence())
        for note in found.notes:
            print(f"  note: {note}")
        for name, (what, shown) in _SECTIONS.items():
            if getattr(found, name).height:
                print()
                emit(getattr(found, name), form, shown, what=what)
        print()
        tasks = found.frame.sort("gap", descending=True, nulls_last=True, maintain_order=True)
        shown = {k: v for k, v in _TASKS.items() if found.weak is not None or k not in ("weak_mean", "strong_mean")}
        emit(tasks, form, shown, limit=limit, what="tasks, largest gap first")
    end(runs)


def power(
    paths: Paths,
    baseline: Annotated[str, typer.Option("--baseline", "-b", help="Arm or role.", show_default=False)],
    treatment: Annotated[str, typer.Option("--treatment", "-t", help="Arm or role.", show_default=False)],
    delta: Annotated[float | None, typer.Option(help="Difference to plan for.")] = None,
    tasks: Annotated[list[int] | None, typer.Option(min=2, help="Number of tasks. Repeatable.")] = None,
    trials: Annotated[list[int] | None, typer.Option(min=1, help="Trials a task. Repeatable.")] = None,
    metric: Metric = "auto",
    confidence: Confidence = 0.95,
    target: Annotated[float, typer.Option("--power", help="Chance to show a difference that is there.")] = 0.8,
    score_scale: Scale = None,
    csv: Annotated[bool, typer.Option("--csv", help="Print the designs as CSV.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Plan a comparison from a pilot: the smallest difference each design shows, the tasks that a difference needs.

    Example: expcomp power pilot/ -b plain -t with-skills --delta 0.05
    """
    from expcomp.cli.frames import emit, form_of
    from expcomp.cli.options import scale_option
    from expcomp.comparing.planning import TRIALS
    from expcomp.comparing.planning import power as planned
    from expcomp.io.documents import json_document

    form = form_of(as_json=as_json, md=False, csv=csv, quiet=quiet)
    runs = opened(paths)
    found = planned(
        runs,
        baseline,
        treatment,
        delta=delta,
        tasks=tasks or None,
        trials=trials or TRIALS,
        metric=metric,
        confidence=confidence,
        target=target,
        score_scale=scale_option(score_scale),
    )
    if form == "json":
        print(
            json_document({"pilot": asdict(found.pilot), "mde": rows_of(found.mde), "needed": rows_of(found.needed)}),
            end="",
        )
    elif form in ("csv", "table"):
        pilot = found.pilot
        if form == "table":
            print(
                f"pilot: {Count(pilot.tasks):task|tasks} with both arms, {pilot.trials_baseline:,} and {pilot.trials_candidate:,} trials, "
                f"{Count(pilot.unpaired_tasks):task|tasks} and {Count(pilot.unscored_trials):trial|trials} left out"
            )
        emit(
            found.mde,
            form,
            {
                "trials": "trials a task",
                "tasks": "tasks",
                "se": "se",
                "mde": "smallest difference, normal",
                "mde_t": "by t",
            },
            what="designs",
        )
        if found.needed is not None and form == "table":
            print(f"\ntasks for a difference of {delta}:")
            emit(found.needed, form, {"trials": "trials a task", "tasks": "tasks"}, what="designs")
    end(runs)


def _band(text: str) -> tuple[float, float]:
    from expcomp.errors import UsageError

    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        msg = f"--band {text}: expected LOW,HIGH, as in 0.2,0.8"
        raise UsageError(msg) from None
    return low, high
