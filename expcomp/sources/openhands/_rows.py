"""Records of OpenHands files that hold a list of events: feedback exports and evaluation rows."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from expcomp.sources._contract import attempt_id
from expcomp.sources._emit import add_grade, verdict, voided
from expcomp.sources._values import Score, obj, text
from expcomp.sources.openhands._emit import emit
from expcomp.sources.openhands._v0 import V0, totals
from expcomp.sources.openhands._v1 import KINDS, V1
from expcomp.sources.swe._common import add_patch, instance_task

if TYPE_CHECKING:
    from expcomp.sources._chat import Row
    from expcomp.sources._contract import Batch, ReadOptions, Unit
    from expcomp.sources.openhands._script import Conversation

LISTS = ("trajectory", "history")
"""Keys under which a record holds its events."""
_ERROR = re.compile(r"\b([A-Z]\w*(?:Error|Exception|Timeout))\b")
_FEEDBACK = {"positive": 1.0, "negative": 0.0}
_VOIDS = ("error_eval", "test_timeout")
_MAPPED = frozenset({*LISTS, "instance_id", "instruction", "test_result", "metrics", "error", "metadata", "instance"})


def conversation(events: list[Any]) -> tuple[Conversation, str]:
    """Read a list of events of either generation."""
    if any(
        isinstance(e, dict) and isinstance(e.get("kind"), str) and "action_id" not in e and e["kind"] in KINDS
        for e in events
    ):
        reader = V1({})
        for pos, event in enumerate(events):
            if not isinstance(event, dict):
                detail = f"event {pos} is {type(event).__name__}, expected an object; left out"
                reader.found.dialogue.note("bad_event", detail, pos=pos)
        return reader.read([e for e in events if isinstance(e, dict)]), "V1"
    return V0().read(events), "V0"


def feedback(
    batch: Batch, unit: Unit, options: ReadOptions, pos: int, row: Row, events: list[Any], digest: str
) -> None:
    """Add the attempt of a feedback export: the user's word is its only label, and no verdict."""
    found, version = conversation(events)
    ident = attempt_id("openhands", unit.package_id, pos)
    label = text(row.get("feedback"))
    value = _FEEDBACK.get(label) if label is not None else None
    score = None
    if label:
        score = Score(
            value, (0.0, 1.0) if value is not None else None, value, None, valid=True, issue=None, label=label
        )
    more = {k: v for k, v in row.items() if k not in ("trajectory", "feedback")}
    emit(
        batch,
        unit,
        found,
        ident,
        options,
        digest=digest,
        version=version,
        pos=pos,
        more=more,
        score=score,
        judged_by="user_feedback",
    )
    if score is not None:
        add_grade(
            batch,
            ident,
            "feedback",
            score,
            kind="user_feedback",
            primary=True,
            created_at=_stamp(row.get("timestamp")),
            source_ref=unit.path.name,
        )


def evaluation(
    batch: Batch,
    unit: Unit,
    options: ReadOptions,
    pos: int,
    row: Row,
    events: list[Any],
    digest: str,
    tasks: list[Row],
    attempts: list[Row],
) -> None:
    """Add the attempt and the task of a row of an evaluation's `output.jsonl`."""
    found, version = conversation(events)
    ident = attempt_id("openhands", unit.package_id, pos)
    about, result = obj(row.get("metadata")), obj(row.get("test_result"))
    settings = obj(about.get("llm_config")) or obj(about.get("llm"))
    found.model = text(settings.get("model")) or found.model
    found.agent = text(about.get("agent_class")) or found.agent
    found.settings |= {k: v for k, v in settings.items() if k != "model" and v is not None}
    if about.get("max_iterations") is not None:
        found.settings["max_iterations"] = about["max_iterations"]
    found.usage = totals(obj(row.get("metrics"))) or found.usage
    failure = text(row.get("error")) or None
    if failure is not None:
        cls = _ERROR.search(failure)
        found.error = (cls.group(1) if cls else None, failure)
    score = _verdict(row, result)
    more = {k: v for k, v in row.items() if k not in _MAPPED and k not in ("resolved", "report")}
    more |= {
        "metadata": {k: v for k, v in about.items() if k not in ("llm_config", "llm", "agent_class", "max_iterations")}
    }
    rest = {k: v for k, v in result.items() if k != "git_patch"}
    if rest:
        more["test_result"] = rest
    instance = text(row.get("instance_id"))
    task = _task(instance, row) if instance else None
    attempt = emit(
        batch,
        unit,
        found,
        ident,
        options,
        digest=digest,
        version=version,
        pos=pos,
        more=more,
        score=score,
        judged_by="verifier",
        failed=failure is not None,
        native=instance,
        task_id=task["task_id"] if task else None,
        run_id=unit.package_id,
    )
    if score is not None:
        if score.valid and attempt["score_valid"] is False:
            score = voided(score, str(attempt["score_issue"]))
        add_grade(batch, ident, "resolved", score, kind="verifier", primary=True, source_ref=unit.path.name)
    add_patch(batch, ident, f"{instance or pos}.patch", text(result.get("git_patch")))
    if task is not None:
        tasks.append(task)
        attempts.append(attempt)


def _task(instance: str, row: Row) -> Row:
    about = obj(row.get("instance"))
    repo, commit = text(about.get("repo")), text(about.get("base_commit"))
    return instance_task(
        instance,
        instruction=text(row.get("instruction")) or text(about.get("problem_statement")),
        environment=f"{repo}@{commit}" if repo and commit else None,
        dataset_version=None,
    )


def _verdict(row: Row, result: Row) -> Score | None:
    """The verdict of the report that an evaluation adds; none when no report was asked for."""
    places = [obj(result.get("report")), obj(row.get("report")), result, row]
    flag = next((p["resolved"] for p in places if isinstance(p.get("resolved"), bool)), None)
    if flag is None:
        asked = "report" in result or "report" in row or any("resolved" in p for p in places)
        return verdict(passed=None) if asked else None
    void = next((k for p in places[:2] for k in _VOIDS if p.get(k) is True), None)
    score = verdict(passed=flag)
    return voided(score, void) if void is not None and not flag else score


def _stamp(raw: Any) -> datetime | None:
    """Time of a feedback export: `2024-10-06-12-25-18`, read as UTC."""
    if not isinstance(raw, str):
        return None
    try:
        return datetime.strptime(raw, "%Y-%m-%d-%H-%M-%S").replace(tzinfo=UTC)
    except ValueError:
        return None
