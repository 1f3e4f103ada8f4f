"""From a conversation of OpenHands to the rows of its attempt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from expcomp.sources._dialogue import USAGE
from expcomp.sources._emit import add_attempt, sum_usage, voided
from expcomp.sources._json import dump_json
from expcomp.sources._values import redact, text
from expcomp.sources.errors_map import ErrorClass

if TYPE_CHECKING:
    from expcomp.sources._chat import Row
    from expcomp.sources._contract import Batch, ReadOptions, Unit
    from expcomp.sources._values import Score
    from expcomp.sources.openhands._script import Conversation

_LIMITS = (
    "maximum iteration",
    "max iteration",
    "MaxIterationsReached",
    "max_budget",
    "maximum budget",
    "budget exceeded",
)
_LIMIT = ErrorClass("limit", voids_reward=False)
_PRIVATE = frozenset(
    "extra_headers headers env environment acp_env aws_access_key_id openrouter_site_url openrouter_app_name".split()
)


def cleaned(value: Any) -> Any:
    """The value without secrets, headers and environment dumps (R14)."""
    return _without(redact(value))


def _without(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without(v) for k, v in value.items() if k not in _PRIVATE}
    if isinstance(value, list):
        return [_without(v) for v in value]
    return value


def emit(
    batch: Batch,
    unit: Unit,
    found: Conversation,
    ident: str,
    options: ReadOptions,
    *,
    digest: str,
    version: str,
    pos: int | None = None,
    more: Row | None = None,
    score: Score | None = None,
    judged_by: str | None = None,
    failed: bool = False,
    native: str | None = None,
    trace_ref: str | None = None,
    **columns: Any,
) -> Row:
    """Add the attempt that was read."""
    dialogue = found.dialogue
    meaning, word = _status(found, options, failed=failed, graded=score is not None and score.valid)
    if word is not None:
        dialogue.note("unknown_status", f"status {word!r} is not known; the attempt's status is unknown")
    if found.naive:
        dialogue.note("naive_time", "times without a zone were read as UTC", "info")
    transcript = dialogue.finish()
    if pos is not None:
        for note in transcript.notes:
            note.pos = pos
    summed = sum_usage(transcript.steps)
    usage = found.usage and {name: found.usage.get(name) for name in USAGE}
    if usage and summed["input_tokens"] is not None and usage["input_tokens"] not in (None, summed["input_tokens"]):
        detail = f"the totals say {usage['input_tokens']} input tokens, the model calls {summed['input_tokens']}; both are kept"
        batch.diagnose(
            "usage_differs",
            detail,
            package_id=unit.package_id,
            source_uri=unit.package_id,
            attempt_id=ident,
            severity="info",
        )
    error = found.error if meaning.status in ("agent_error", "infra_error", "limit") else None
    settings = cleaned({"agent_class": found.agent} | found.settings if found.agent else found.settings)
    notes = {"ignored_events": dict(sorted(found.ignored.items()))} if found.ignored else {}
    notes |= {"other_usage": found.other_usage} if found.other_usage else {}
    metadata = cleaned((more or {}) | notes)
    if score is not None and judged_by == "verifier" and meaning.voids_reward and score.passed is not True:
        score = voided(score, meaning.status)
    native = native or text(found.settings.get("sid"))
    row = add_attempt(
        batch,
        unit,
        ident,
        transcript,
        score=score,
        usage=usage or None,
        native_attempt_id=native,
        trace_id=native,
        agent="openhands",
        agent_version=found.version,
        model=found.model or _most(transcript.steps),
        model_provider=found.model.partition("/")[0] if found.model and "/" in found.model else None,
        params=dump_json(settings) if settings else None,
        status=meaning.status,
        stop_reason=found.state,
        error_type=error[0] if error else None,
        error_message=error[1] if error else None,
        started_at=found.first,
        ended_at=found.last,
        tools=dump_json(found.tools) if found.tools else None,
        is_truncated=found.gaps,
        has_compaction=dialogue.context > 0,
        source_version=version,
        source_digest=digest,
        source_pos=pos,
        metadata=dump_json(metadata) if metadata else None,
        **({"trace_ref": trace_ref} if trace_ref and transcript.messages else {}),
        **columns,
    )
    if score is not None:
        row["grade_ref"] = unit.path.name
        row["grade_kind"] = judged_by
    for artifact in found.pictures:
        batch.add("artifacts", attempt_id=ident, **artifact)
    return row


def _status(found: Conversation, options: ReadOptions, *, failed: bool, graded: bool) -> tuple[ErrorClass, str | None]:
    """How the conversation ended, and the word for it if nobody knows it."""
    rules = options.rules
    meaning, known = rules.status("openhands", found.state)
    unknown = None if known else found.state
    if found.error is None or not (failed or meaning.status in ("agent_error", "unknown")):
        return meaning, unknown
    kind, said = found.error
    told = f"{kind} {said}"
    if (failed or found.state is not None) and any(mark in told for mark in _LIMITS):
        return _LIMIT, None
    bare = kind.removeprefix("LLM") if kind else None
    if failed or bare in rules.errors:
        return rules.error(bare, graded=graded), None
    return meaning, unknown


def _most(steps: list[Row]) -> str | None:
    """Model of most steps."""
    counts: dict[str, int] = {}
    for step in steps:
        if step.get("model") and step["source"] == "agent":
            counts[step["model"]] = counts.get(step["model"], 0) + 1
    return max(counts, key=lambda name: counts[name]) if counts else None
