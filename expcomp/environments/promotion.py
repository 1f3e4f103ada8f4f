"""Promotion: a package is published as validated when a report carries it that is bound to its tables, settings, cases and results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.environments.digests import cases_digest
from expcomp.environments.folder import write_package
from expcomp.environments.replay import Replay
from expcomp.errors import PromotionRefusedError

if TYPE_CHECKING:
    from expcomp.environments.assessment import Assessment
    from expcomp.environments.package import EnvironmentPackage


def promote(
    package: EnvironmentPackage,
    report: Mapping[str, Any] | None,
    cases: pl.DataFrame,
    steps: pl.DataFrame,
    played: Replay,
    out: Path,
    *,
    force: bool = False,
    more: Mapping[str, pl.DataFrame] | None = None,
) -> EnvironmentPackage:
    """Publish a package as validated, with report, cases and step results beside its tables.

    Args:
        package: What was assessed.
        report: Of the assessment.
        cases: Cases of the replay.
        steps: Their steps.
        played: The replay.
        out: Folder.
        force: Replace an earlier output of expcomp.
        more: Further frames to keep below `validation/`, by file stem.

    Raises:
        PromotionRefusedError: The report is absent, not eligible, or of another package, other settings, cases or results.
        DestinationExistsError: `out` exists and `force` is not given.
    """
    if report is None:
        raise PromotionRefusedError("there is no replay report; assess the package first")
    want = {
        "artifact_digest": package.artifact_digest,
        "config_digest": package.config.digest(),
        "cases_digest": cases_digest(cases, steps),
        "results_digest": played.results_digest(),
    }
    reasons = [f"{k} of the report is that of something else" for k, v in want.items() if report.get(k) != v]
    if cases.is_empty():
        reasons.append("there is no case")
    if (cases["split"] == "test").any():
        reasons.append("a case of the test split never promotes")
    if report.get("eligible") is not True:
        reasons += [str(r) for r in report.get("reasons", ())] or ["the report says it is not eligible"]
    if reasons:
        raise PromotionRefusedError(f"package {package.config.environment_id}: {'; '.join(reasons)}")
    made = replace(package, validation=dict(report))
    write_package(made, out, force=force, results={**_tables(cases, steps, played), **(more or {})})
    return made


def publish_candidate(
    judged: Assessment, out: Path, *, force: bool = False, more: Mapping[str, pl.DataFrame] | None = None
) -> EnvironmentPackage:
    """Publish a package as the candidate it is, with the report that says why, its cases and results; options as of `promote`.

    Raises:
        DestinationExistsError: `out` exists and `force` is not given.
    """
    results = {**_tables(judged.cases, judged.steps, judged.replay), **(more or {})}
    write_package(judged.package, out, force=force, results=results, report=dict(judged.report))
    return judged.package


def _tables(cases: pl.DataFrame, steps: pl.DataFrame, played: Replay) -> dict[str, pl.DataFrame]:
    return {
        "replay_cases": cases,
        "replay_steps": steps,
        "replay_results": played.cases,
        "replay_step_results": played.steps,
    }
