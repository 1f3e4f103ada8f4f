"""Verbs that learn an environment from traces, and that say how well it answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from expcomp.cli.options import Force, Json, Quiet

if TYPE_CHECKING:
    from collections.abc import Mapping

CANDIDATE = 3
"""Exit code of a build that ends in a candidate."""


def register(env: typer.Typer) -> None:
    """Add the verbs to `env`."""
    env.command("build")(build)
    env.command("evaluate")(evaluate)


def build(
    paths: Annotated[
        list[Path],
        typer.Argument(
            help="Traces of any format, plain transcripts (.txt), or JSON lines of states and calls, of events, or of episodes of events; "
            "files or folders."
        ),
    ],
    env_id: Annotated[str, typer.Option("--env-id", help="Which environment it is.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the package; must not exist, unless --force.")],
    holdout: Annotated[
        str,
        typer.Option(
            help="Share of the families (tasks) that are held out, as group:0.2; never by episode, which leaks."
        ),
    ] = "group:0.2",
    seed: Annotated[int, typer.Option(help="Of the split, which is by hash of the family.")] = 0,
    initial_states: Annotated[
        Path | None,
        typer.Option(
            "--initial-states", help="States before the first step: one for all, or records of episode and state."
        ),
    ] = None,
    tools: Annotated[Path | None, typer.Option(help="Tool definitions, a JSON array; what they declare wins.")] = None,
    gate: Annotated[
        float | None, typer.Option(min=0, max=1, help="Confidence from which on an answer is given; default 0.7.")
    ] = None,
    threshold: Annotated[
        float, typer.Option(min=0, max=1, help="Exactness asked of the answers that are given.")
    ] = 0.95,
    baseline: Annotated[Path | None, typer.Option(help="Package that must not do better on the same cases.")] = None,
    redact_pii: Annotated[
        bool, typer.Option("--redact-pii", help="Also replace e-mail addresses, phone numbers and IP addresses.")
    ] = False,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Learn an environment from traces, without a model, and publish it.

    Exit code 0: validated by held-out families; 3: a candidate, with the reasons; 2: bad input.

    Example: expcomp env build runs/ --env-id airline --out world
    """
    from expcomp.environments.build import build_environment
    from expcomp.environments.folder import open_package, require_free
    from expcomp.environments.predictor import GATE
    from expcomp.environments.starting import read_states
    from expcomp.errors import SourceError, UsageError
    from expcomp.io.documents import json_document

    require_free(out, force=force)
    try:
        built = build_environment(
            paths,
            environment_id=env_id,
            holdout=_share(holdout),
            seed=seed,
            states=None if initial_states is None else read_states(initial_states),
            tools=_tools(tools),
            gate=GATE if gate is None else gate,
            threshold=threshold,
            baseline=None if baseline is None else open_package(baseline),
            pii=redact_pii,
        )
    except SourceError as error:
        # 3 says that there is a candidate; here there is none.
        raise UsageError(str(error)) from error
    made = built.write(out, force=force)
    report = built.report
    status = "validated" if built.validated else "candidate"
    if as_json:
        told = {"out": str(out), "status": status, "artifact_digest": built.package.artifact_digest}
        print(json_document(told | {"report": dict(report)}), end="")
    elif not quiet:
        print(f"{made!r}")
        for rule, n in report["redactions"].items():
            print(f"redacted: {n} by {rule}")
        if report["copies_left_out"]:
            print(f"left out: {report['copies_left_out']:,} episodes of copies of a source")
        learned = report["learned"]
        if learned["rules_from"] < learned["transitions"]:
            print(
                f"rules and their counts come from {learned['rules_from']:,} of {learned['transitions']:,} transitions (whole families, "
                "by hash); what is remembered comes from all"
            )
        _tell(report["evaluation"])
        for rule in report["demoted"]:
            print(f"made tentative: {rule}")
        for condition in report["conditions"]:
            print(f"{'holds' if condition['holds'] else 'FAILS'}  {condition['name']}: {condition['found']}")
        print(f"{status} package in {out}")
    if not built.validated:
        raise typer.Exit(CANDIDATE)


def _share(text: str) -> float:
    from expcomp.errors import UsageError

    unit, _, share = text.partition(":")
    if unit != "group":
        raise UsageError(
            f"--holdout {text}: expected group:SHARE; a split by {unit or 'nothing'} puts runs of one task on both sides, and what "
            "it measures is memory"
        )
    try:
        return float(share)
    except ValueError:
        raise UsageError(f"--holdout {text}: {share!r} is no number; expected group:SHARE, as group:0.2") from None


def _tools(path: Path | None) -> list[dict[str, Any]]:
    from expcomp.errors import UsageError
    from expcomp.io.record_files import read_records

    if path is None:
        return []
    found = read_records(path)
    if not isinstance(found, list) or not all(isinstance(t, dict) for t in found):
        raise UsageError(f"--tools {path}: expected a JSON array of tool definitions")
    return found


def evaluate(
    folder: Annotated[Path, typer.Argument(help="Folder of an environment package.")],
    traces: Annotated[
        list[Path] | None, typer.Argument(help="Other recordings of the environment; none: the report of the build.")
    ] = None,
    gate: Annotated[float | None, typer.Option(min=0, max=1, help="Confidence from which on an answer counts.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="Folder for report.md, report.html, report.json and the risk-coverage figure."
        ),
    ] = None,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Say how well a package answers held-out turns; tasks it was learned from are counted and left out of every figure.

    Exit code 1 when nothing else is left: then no figure says anything of unseen tasks.

    Example: expcomp env evaluate world more-runs/ --out report
    """
    from expcomp.environments.build import evaluate_environment
    from expcomp.environments.folder import open_package, read_report
    from expcomp.errors import UsageError
    from expcomp.io.documents import json_document

    package = open_package(folder)
    found: dict[str, Any] | None
    told = None
    if traces:
        found, _ = evaluate_environment(package, traces, gate=gate)
    else:
        if gate is not None:
            raise UsageError("--gate goes with traces; the report of the build has its own")
        told = read_report(package)
        found = told.get("evaluation")
        if found is None:
            raise UsageError(f"{folder}: the package holds no evaluation; name traces to evaluate it on")
    if out is not None:
        from expcomp.reports.environments import environment_report

        title = f"Environment {package.config.environment_id}"
        environment_report(found, told=told, title=title).write(out, force=force)
    if as_json:
        print(json_document(found), end="")
    elif not quiet:
        _tell(found)
        if out is not None:
            print(f"Wrote {out}: report.md, report.html, report.json, figures.")
    if found["leaky"]:
        raise typer.Exit(1)


_COLUMNS = {
    "exact": "exact",
    "leaf": "leaf",
    "coverage": "answered",
    "selective_exact": "of these exact",
    "outcome": "outcome",
    "outcome_balanced": "balanced",
}


def _tell(found: Mapping[str, Any]) -> None:
    if found["leaky_steps"]:
        print(f"leaky: {found['leaky_steps']:,} turns are of tasks that were learned from; no figure counts them")
    headline = found["headline"]
    if headline is None:
        print("evaluation: no turn of an unseen task")
        return
    span = [_span(headline[f"{n}_interval"]) for n in ("coverage", "selective_exact")]
    print(
        f"answers {headline['coverage']:.1%} of {found['steps']:,} unseen turns{span[0]}, {_share_of(headline['selective_exact'])} of "
        f"these exact{span[1]} (gate {found['gate']}; {found['families']} families)"
    )
    print(f"{'action':32} {'n':>7}" + "".join(f"{word:>15}" for word in _COLUMNS.values()))
    for row in [*found["per_action"], {**found["overall"], "action_type": "all"}]:
        print(f"{row['action_type'][:32]:32} {row['n']:7,}" + "".join(f"{_share_of(row[k]):>15}" for k in _COLUMNS))
    o = found["overall"]
    print(
        f"exact without a gate {_share_of(o['exact'])}{_span(o['intervals']['exact'])}, knowable {_share_of(o['knowable'])}, "
        f"calibration error {o['ece']:.3f}, coverage at 99 % exactness {_share_of(o['coverage_99'])}"
    )
    mcc = "-" if o["outcome_mcc"] is None else f"{o['outcome_mcc']:.3f}"
    print(
        f"next state {_share_of(o['state'])}, outcome MCC {mcc}, by majority {_share_of(o['outcome_majority'])}, memory alone "
        f"{_share_of(o['memory_exact'])} exact"
    )
    if free := found.get("free_running"):
        print(
            f"free running: {_share_of(free['exact_to_the_end'])} of {free['episodes']:,} episodes exact to the end, "
            f"{_share_of(free['steps_by_a_rule'])} of the steps by a rule"
        )


def _share_of(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _span(limits: Mapping[str, Any]) -> str:
    return "" if "low" not in limits else f" [{limits['low']:.1%}, {limits['high']:.1%}]"
