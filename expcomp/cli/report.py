"""The verb `report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from expcomp.cli.arms_options import Confidence, Paths, Scale, end, opened
from expcomp.cli.options import Force, Json, Quiet
from expcomp.errors import UsageError


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(report)


def report(
    paths: Paths,
    baseline: Annotated[
        str | None, typer.Option("--baseline", "-b", help="Arm or role to compare with; default: the role baseline.")
    ] = None,
    treatment: Annotated[
        list[str] | None, typer.Option("--treatment", "-t", help="Arm or role that is compared with it; may repeat.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for report.md, report.html, report.json and figures.")
    ] = None,
    title: Annotated[str, typer.Option(help="Title.")] = "Report",
    confidence: Confidence = 0.95,
    score_scale: Scale = None,
    html: Annotated[bool, typer.Option("--html", help="Print the page on stdout.")] = False,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Report on runs: scores, comparison, solver gap, pass@k, failures, what a compile made, what was found wrong.

    Without --out it prints Markdown.

    Example: expcomp report ledger -b plain -t with-skills --out report
    """
    from expcomp.cli.options import scale_option
    from expcomp.reports.report import report as made_of

    if html and as_json:
        raise UsageError("--html and --json exclude each other")
    runs = opened(paths)
    found = made_of(
        runs,
        baseline=baseline,
        treatment=treatment or None,
        confidence=confidence,
        score_scale=scale_option(score_scale),
        title=title,
    )
    if out is not None:
        found.write(out, force=force)
    if as_json:
        print(found.to_json(), end="")
    elif html:
        print(found.to_html(), end="")
    elif out is None and not quiet:
        print(found.to_markdown(), end="")
    elif not quiet:
        print(f"Wrote {out}: report.md, report.html, report.json. Sections: {', '.join(s.id for s in found.sections)}.")
    end(runs)
