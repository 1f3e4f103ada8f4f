"""`expcomp decide`: ship, hold, or need more work, with every reason."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from expcomp.cli.arms_options import Scale, opened, rows_of
from expcomp.cli.options import Json, Quiet
from expcomp.cli.trained import Trained
from expcomp.errors import UsageError

if TYPE_CHECKING:
    from expcomp.training.deciding import Decided

_REASONS = {
    "coverage_incomplete": "a run that was asked for is missing, failed, or is there twice",
    "held_out_exposure": "the training of the candidate could see held-out tasks",
    "too_few_units": "too few tasks",
    "degenerate_interval": "the interval has no width: the tasks do not differ in their difference",
    "lower_bound_not_above_minimum_lift": "the lower bound is not above the lift that is asked for",
    "mcnemar_veto": "McNemar's test is not sure",
    "guard_regression": "a guarded metric may have got worse by more than is tolerated",
    "cost_accounting_incomplete": "what some calls cost is not known, and they had no maximum",
    "cost_ceiling_exceeded": "the work cost more than was allowed",
}


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(decide)


def decide(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            help="Runs of both arms: a ledger, a compile, a file of trials, traces; or two files of trials, the baseline first.",
            show_default=False,
        ),
    ] = None,
    baseline: Annotated[str, typer.Option("--baseline", "-b", help="Arm or role that is in use.")] = "baseline",
    candidate: Annotated[str, typer.Option("--candidate", "-c", help="Arm or role that may replace it.")] = "candidate",
    experiment: Annotated[
        Path | None, typer.Option(help="Sealed experiment, in place of runs; with --benchmark and --receipts.")
    ] = None,
    benchmark: Annotated[Path | None, typer.Option(help="Seal of the benchmark that the experiment names.")] = None,
    receipts: Annotated[Path | None, typer.Option(help="Run receipts of the experiment, JSON lines.")] = None,
    job: Annotated[
        Path | None, typer.Option(help="Job folder that made the candidate; all of it is verified first.")
    ] = None,
    profile: Annotated[Path | None, typer.Option(help="Profile of the candidate, in place of a job.")] = None,
    receipt: Annotated[
        list[Path] | None,
        typer.Option(
            help="Training receipt that the profile only names; or, without a profile, that of the candidate. Repeatable."
        ),
    ] = None,
    inventory: Annotated[
        list[Path] | None,
        typer.Option(help="Inventory of a dataset whose receipt does not list its tasks. Repeatable."),
    ] = None,
    exposure: Annotated[Path | None, typer.Option(help="Report of `exposure check --json`, in place of these.")] = None,
    untrained: Annotated[
        bool, typer.Option("--untrained", help="Nobody trained the candidate: a prompt, a tool, a setting.")
    ] = False,
    heldout: Annotated[
        list[Path] | None,
        typer.Option(
            help="Held-out set that the tasks of the runs are of; they are looked for in any case. Repeatable."
        ),
    ] = None,
    policy: Annotated[Path | None, typer.Option(help="TOML file that says what is asked of the candidate.")] = None,
    costs: Annotated[
        Path | None, typer.Option(help="Cost ledger of all calls; default: the costs of the runs.")
    ] = None,
    preparation_usd: Annotated[
        float | None, typer.Option(min=0, help="What making the candidate cost, where no cost ledger says so.")
    ] = None,
    score_scale: Scale = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="New folder for the decision and all that it rests on.")
    ] = None,
    check: Annotated[
        Path | None, typer.Option(help="Make the decision in such a folder again, and nothing else.")
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Decide about a candidate: ship (exit 0), hold or need_more_work (exit 1), with every reason in order.

    Ships when the lower bound of the difference is above the lift that is asked for and nothing else speaks against it.

    Example: expcomp decide trials.jsonl -b plain -c tuned --job jobs/job-1f0c9d2ab3e4f567 --costs costs.jsonl --policy policy.toml
    """
    from expcomp.cli.options import scale_option
    from expcomp.io.documents import json_document
    from expcomp.training.cost_frames import read_costs
    from expcomp.training.documents import to_wire
    from expcomp.training.verdict_files import check_decision, write_decision

    if check is not None:
        decision = check_decision(check)
        if as_json:
            print(json_document(to_wire(decision)), end="")
        elif not quiet:
            print(f"{check}: {decision.outcome}, as its documents give it.")
        _exit(decision.outcome)
        return
    sheet = None if costs is None else read_costs(costs)
    sealed = [s for s in (experiment, benchmark, receipts) if s is not None]
    if sealed and (paths or policy or len(sealed) < 3):
        raise UsageError("a sealed experiment is --experiment, --benchmark and --receipts, without runs and --policy")
    what = None if sealed else _runs(paths or [])
    trained = Trained(job, profile, receipt or [], inventory or [], exposure, untrained)
    more: dict[str, Any] = {"costs": sheet, "preparation_usd": preparation_usd}
    if sealed:
        found = _sealed(sealed, trained, heldout or [], more)
    else:
        more["score_scale"] = scale_option(score_scale)
        found = _unsealed(what, (baseline, candidate), trained, heldout or [], policy, more)
    if out is not None:
        write_decision(found, out)
    if as_json:
        told = {
            "decision": found.decision,
            "comparison": found.comparison,
            "exposure": found.exposure,
            "policy": found.policy,
        }
        wire = {n: to_wire(d) for n, d in told.items()}
        print(json_document(wire | {"findings": rows_of(found.findings)}), end="")
    elif not quiet:
        _show(found)
    _exit(found.outcome)


def _runs(paths: list[str]) -> Any:
    from expcomp.training.trial_files import both_arms, holds_trials

    files = [Path(p) for p in paths]
    return both_arms(*files) if len(files) == 2 and all(map(holds_trials, files)) else opened(paths)


def _unsealed(
    what: Any, arms: tuple[str, str], trained: Trained, heldout: list[Path], policy: Path | None, more: dict[str, Any]
) -> Decided:
    from expcomp.comparing.trials import read_trials
    from expcomp.training.deciding import decide as decided
    from expcomp.training.looked_for import measured_tasks
    from expcomp.training.policy import DEFAULT_POLICY, read_policy
    from expcomp.training.trial_files import check_models

    given = read_trials(what)
    trials = given.collect(given.frame)
    if trained.profile is not None:
        check_models(trials, arms[1], trained.profile)
    seen = trained.exposure(heldout, measured_tasks(what, *arms))
    asked = DEFAULT_POLICY if policy is None else read_policy(policy)
    return decided(what, *arms, exposure=seen, policy=asked, **more)


def _sealed(paths: list[Path], trained: Trained, heldout: list[Path], more: dict[str, Any]) -> Decided:
    from expcomp.training.deciding import decide_experiment
    from expcomp.training.run_receipts import read_receipts
    from expcomp.training.sealing import check_candidate, heldout_frame
    from expcomp.training.verdict_files import read_experiment

    experiment_path, benchmark_path, receipts_path = paths
    experiment, benchmark = read_experiment(experiment_path, benchmark_path)
    if trained.profile is not None:
        check_candidate(experiment, trained.profile)
    return decide_experiment(
        experiment,
        benchmark,
        read_receipts(receipts_path),
        exposure=trained.exposure(heldout, heldout_frame(benchmark)),
        **more,
    )


def _show(found: Decided) -> None:
    from expcomp.io.counts import Count, percent

    c, score = found.comparison, found.comparison.score
    print(found.outcome.replace("_", " "))
    for reason in found.reasons:
        print(f"  {reason}: {_REASONS[reason]}")
    low, high = (("-" if v is None else f"{v:+.4g}") for v in (score.interval.low, score.interval.high))
    units = f"{Count(c.n_units):task|tasks}" if c.unit == "task" else f"{Count(c.n_units):cluster|clusters}"
    print(
        f"  {score.name}: {score.baseline_mean:.4g} to {score.candidate_mean:.4g}, difference {score.difference:+.4g} "
        f"[{low}, {high}] by {score.interval.method} at {percent(score.interval.confidence)}; {units}, {Count(c.n_samples):run|runs} an arm"
    )
    if not c.complete or c.unmeasured:
        print(f"  runs: {c.failed_runs:,} without a result, {c.missing_runs:,} missing, {c.surplus_runs:,} too many")
        print(f"  guarded but not measured: {', '.join(c.unmeasured) or 'none'}")
    if c.archived_runs:
        gone = Count(c.archived_tasks or 0)
        print(f"  archive: {Count(c.archived_runs):run is|runs are} left out; {gone:task has|tasks have} no other")
    for m in (*c.objectives, *c.dimensions):
        print(f"  guard {m.name}: {m.baseline_mean:.4g} to {m.candidate_mean:.4g}, tolerance {m.tolerance:.4g}")
    e = found.exposure
    seen = f"{Count(e.receipts):run|runs}, {Count(e.tasks_seen):task|tasks}"
    print(f"  training: {seen} against {Count(e.heldout_tasks):held-out task|held-out tasks}, {e.verdict}")
    a = c.accounting
    unknown = "" if not a.unknown_calls else f", and {Count(a.unknown_calls):call|calls} of unknown cost"
    print(f"  cost: {a.known_nanos / 1e9:.6f} USD known{unknown}")
    if found.findings is not None and found.findings.height:
        for line in found.findings.head(20).to_dicts():
            where = f"{line['arm']}, task {line['task_index']}, repetition {line['repetition']}"
            print(f"  receipts: {where}: {line['code']}: found {line['found']}; expected {line['expected']}")


def _exit(outcome: str) -> None:
    if outcome != "ship":
        raise typer.Exit(1)
