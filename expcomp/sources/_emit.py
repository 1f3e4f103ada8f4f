"""From a transcript and what a format knows of an attempt to rows of the tables, the same way for every format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from expcomp.sources._dialogue import USAGE
from expcomp.sources._values import Score

if TYPE_CHECKING:
    from collections.abc import Iterable

    from expcomp.sources._chat import Row, Transcript
    from expcomp.sources._contract import Batch, Unit

_STEP = dict.fromkeys(
    (
        "attempt_id step_index source content started_at ended_at tool_calls observations context_id is_copied_context trainable turn "
        "reasoning reasoning_opaque model llm_call_id detail"
    ).split()
    + list(USAGE)
)
_MESSAGE = dict.fromkeys(
    "attempt_id message_index role origin content parts context_id branch timestamp native_id tool_calls reasoning step_index "
    "tool_call_id name".split()
)
"""What a `Dialogue` writes: rows with the same keys are taken apart fastest."""


def default_arm(name: str | None, version: str | None, model: str | None) -> str | None:
    """`agent@version/model` with the parts that are known; of a model the part after the last slash."""
    versioned = f"{name}@{version}" if name and version else name
    served = model.rpartition("/")[2] if model else None
    return "/".join(part for part in (versioned, served) if part) or None


def sum_usage(steps: Iterable[Row]) -> Row:
    """Usage columns of `attempts`: sums over agent steps that are not copied, each model call once (R3); null where no call tells."""
    out: Row = dict.fromkeys(USAGE)
    seen: set[str] = set()
    for step in steps:
        if step["source"] != "agent" or step.get("is_copied_context"):
            continue
        call_id = step.get("llm_call_id")
        if call_id is not None:
            if call_id in seen:
                continue
            seen.add(call_id)
        for name in USAGE:
            value = step.get(name)
            if value is not None:
                out[name] = value if out[name] is None else out[name] + value
    return out


def add_attempt(
    batch: Batch,
    unit: Unit,
    ident: str,
    transcript: Transcript,
    *,
    score: Score | None = None,
    usage: Row | None = None,
    uri: str | None = None,
    **columns: Any,
) -> Row:
    """Add the attempt, its steps, messages and notes; gives the attempt's row, which may still be changed.

    Args:
        batch: Where rows go.
        unit: Unit that is read.
        ident: Id of the attempt (`_contract.attempt_id`).
        transcript: Steps, messages and notes; empty for attempts without transcript.
        score: Primary grade; null when no verdict was ever asked for (then every score column is null).
        usage: Usage columns that the source reports for the attempt as a whole; without it they are summed over steps.
        uri: File of the diagnostics when it is not the unit.
        **columns: Columns of `attempts` that the format knows; they win over everything set here.
    """
    batch.rows["steps"] += [{**_STEP, **step, "attempt_id": ident} for step in transcript.steps]
    batch.rows["messages"] += [{**_MESSAGE, **message, "attempt_id": ident} for message in transcript.messages]
    for note in transcript.notes:
        batch.diagnose(
            note.code,
            note.detail,
            package_id=unit.package_id,
            source_uri=uri or unit.package_id,
            source_pos=note.pos,
            attempt_id=ident,
            severity=note.severity,
        )
    counted = usage if usage is not None else sum_usage(transcript.steps)
    known = any(value is not None for value in counted.values())
    row: Row = {
        "attempt_id": ident,
        "package_id": unit.package_id,
        "arm": default_arm(columns.get("agent"), columns.get("agent_version"), columns.get("model")),
        "trial_source": "unknown",
        "status": "unknown",
        **score_columns(score),
        **{name: counted.get(name) for name in USAGE},
        "usage_basis": "missing" if not known else "summed" if usage is None else "reported",
        **transcript.counts(),
        "root_attempt_id": ident,
        "relation": "root",
        "is_truncated": False,
        "has_compaction": "has_compaction" not in columns and any(m.get("context_id") for m in transcript.messages),
        "has_transcript": bool(transcript.messages),
        "has_system_prompt": transcript.has_system_prompt() or bool(columns.get("system_prompt")),
        "has_tools": bool(columns.get("tools")),
        "trace_ref": unit.path.name if transcript.messages else None,
        "source_format": unit.format,
        "source_uri": unit.package_id,
        **columns,
    }
    start, end = row.get("started_at"), row.get("ended_at")
    if row.get("duration_s") is None and start is not None and end is not None and end >= start:
        row["duration_s"] = (end - start).total_seconds()
    batch.rows["attempts"].append(row)
    return row


def score_columns(score: Score | None) -> Row:
    """The score columns of `attempts`."""
    if score is None:
        return {}
    return {
        "score": score.value,
        "score_min": score.scale[0] if score.scale else None,
        "score_max": score.scale[1] if score.scale else None,
        "score_norm": score.norm,
        "passed": score.passed,
        "score_valid": score.valid,
        "score_issue": score.issue,
    }


def verdict(*, passed: bool | None, issue: str = "score_missing") -> Score:
    """A verdict in words or as a flag, as a score on 0..1; null means a place for a verdict that is empty."""
    if passed is None:
        return Score(None, (0.0, 1.0), None, None, valid=False, issue=issue)
    value = float(passed)
    return Score(value, (0.0, 1.0), value, passed, valid=True, issue=None)


def voided(score: Score, issue: str) -> Score:
    """The score as it stands in the file, no longer to be trusted: no norm and no verdict (R1)."""
    return Score(score.value, score.scale, None, None, valid=False, issue=issue, label=score.label)


def add_grade(batch: Batch, ident: str, name: str, score: Score, *, kind: str, primary: bool, **columns: Any) -> None:
    """Add a grade."""
    batch.add(
        "grades",
        **{
            "attempt_id": ident,
            "name": name,
            "value": score.value,
            "label": score.label,
            "passed": score.passed,
            "kind": kind,
            "is_primary": primary,
            "valid": score.valid,
            "invalid_reason": score.issue,
            "score_min": score.scale[0] if score.scale else None,
            "score_max": score.scale[1] if score.scale else None,
            **columns,
        },
    )
