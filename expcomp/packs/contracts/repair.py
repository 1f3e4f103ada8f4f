"""A repair plan: which files to change, which to keep, and how risky that is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from expcomp.io.canon import digest

if TYPE_CHECKING:
    from collections.abc import Sequence

FEW = 3
"""A repair of more files than these is no repair but another attempt."""
RISKS = ((1, "low"), (FEW, "medium"))
"""Files to change at the most, and the risk of breaking something; `high` beyond."""


def repair_plan(
    verdict: str, failures: Sequence[dict[str, Any]], files: Sequence[str], passing: Sequence[str]
) -> dict[str, Any]:
    """The plan for failures.

    Args:
        verdict: pass, uncertain or fail.
        failures: Failures that are shown.
        files: Paths with failures, sorted.
        passing: Paths without, sorted.
    """
    needed = verdict == "fail"
    risk = next((word for most, word in RISKS if len(files) <= most), "high") if needed else None
    plan = {
        "repair_required": needed,
        "repair_allowed": needed and len(files) <= FEW,
        "issues_to_fix": list(failures),
        "files_to_modify": list(files),
        "files_to_preserve": list(passing),
        "preserve_passing_items": True,
        "risk_of_regression": "high" if verdict == "uncertain" else risk,
        "repair_steps": list(dict.fromkeys(f["repair_hint"] for f in failures)),
    }
    return {"repair_id": "repair_" + digest(plan).removeprefix("sha256:")[:16], **plan}
