"""Scores of an inspect sample: letters, numbers, flags, texts, lists and maps, and which of several is the headline."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from expcomp.sources._emit import add_grade, voided
from expcomp.sources._json import dump_json
from expcomp.sources._values import UNIT, Score, moment, obj, redact, score_of, text
from expcomp.sources.inspect_log._log import short

if TYPE_CHECKING:
    from expcomp.sources._contract import Batch
    from expcomp.sources.inspect_log._events import Events
    from expcomp.sources.inspect_log._log import Log

_LETTERS: dict[str, tuple[float, bool | None]] = {
    # The words of the format: correct, incorrect, partly correct (no verdict), no answer.
    "C": (1.0, True),
    "I": (0.0, False),
    "P": (0.5, None),
    "N": (0.0, False),
}
_MISSING = Score(None, None, None, None, valid=False, issue="score_missing")
_TRANSCRIPT = "grading"


def scores_of(sample: dict[str, Any], log: Log) -> dict[str, Any]:
    """Scores by scorer; the oldest logs have a single one without a name."""
    found = sample.get("scores")
    if isinstance(found, dict):
        return found
    single = sample.get("score")
    if isinstance(single, dict):
        return {log.order[0] if log.order else "score": single}
    return {}


def headline(scores: dict[str, Any], log: Log) -> str | None:
    """The scorer whose score counts: the first of the results that the sample has, else its own first."""
    names = {short(name): name for name in reversed(scores)}
    return next((names[n] for n in log.order if n in names), next(iter(scores), None))


def read_value(raw: Any, part: str | None) -> Score:
    """A score's value: letters and flags are verdicts, numbers are not, texts and lists are labels.

    Of a map the value named `part` is the score, else its first number; the map itself is the label.
    """
    if isinstance(raw, str) and raw in _LETTERS:
        value, passed = _LETTERS[raw]
        return Score(value, UNIT, value, passed, valid=True, issue=None, label=raw)
    if isinstance(raw, bool):
        return Score(float(raw), UNIT, float(raw), raw, valid=True, issue=None)
    if isinstance(raw, int | float):
        return score_of(raw, None, verdict=False)
    if isinstance(raw, str):
        return Score(None, None, None, None, valid=True, issue=None, label=raw)
    if isinstance(raw, list):
        return Score(None, None, None, None, valid=True, issue=None, label=dump_json(raw))
    if isinstance(raw, dict):
        inner = raw.get(part) if part in raw else next((v for v in raw.values() if isinstance(v, int | float)), None)
        if inner is None or isinstance(inner, dict | list):
            return Score(None, None, None, None, valid=True, issue=None, label=dump_json(raw))
        return replace(read_value(inner, None), label=dump_json(raw))
    return _MISSING


def add_grades(
    batch: Batch,
    ident: str,
    sample: dict[str, Any],
    log: Log,
    events: Events,
    *,
    void: str | None,
    ref: str,
) -> tuple[Score | None, str | None, int]:
    """Add one grade for each scorer; give the headline, its kind, and how many transcripts of judges were left out.

    Without any score the place for a verdict is empty where scoring was asked for, and there is none where it was not.
    """
    scores = scores_of(sample, log)
    first = headline(scores, log)
    primary, kind_of_first, left_out = (_MISSING if log.asked else None), None, 0
    for name, raw in scores.items():
        entry = raw if isinstance(raw, dict) else {"value": raw}
        plain = short(name)
        score = read_value(entry.get("value"), log.parts.get(plain))
        if score.issue is not None and text(entry.get("reason")):
            score = replace(score, issue=entry["reason"])
        if void is not None and score.issue is None:
            score = voided(score, void)
        about = obj(entry.get("metadata"))
        judge = events.judges.get(plain)
        judged = plain in events.judges or _TRANSCRIPT in about or "model_graded" in plain
        kind = "model_judge" if judged else "verifier"
        left_out += _TRANSCRIPT in about
        rest = {k: v for k, v in about.items() if k != _TRANSCRIPT}
        more = {
            "answer": entry.get("answer"),
            "judge": judge,
            "reason": entry.get("reason"),
            "metadata": redact(rest) or None,
            "history": entry.get("history") or None,
        }
        kept = {k: v for k, v in more.items() if v is not None}
        if name == first:
            primary, kind_of_first = score, kind
        add_grade(
            batch,
            ident,
            name,
            score,
            kind=kind,
            primary=name == first,
            grader=plain,
            rationale=text(entry.get("explanation")),
            created_at=moment(events.scored_at.get(plain))[0],
            source_ref=ref,
            refs=[ref],
            metadata=dump_json(kept) if kept else None,
        )
    return primary, kind_of_first, left_out
