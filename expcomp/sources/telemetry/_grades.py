"""Scores, feedback, assessments and evaluation events: what they say, and which of them is the attempt's verdict."""

from __future__ import annotations

from dataclasses import dataclass

from expcomp.sources._values import Score, score_of
from expcomp.sources.telemetry._spans import Grade

_PASS = frozenset("pass passed true correct resolved verified success successful succeeded solved yes".split())
_FAIL = frozenset("fail failed false incorrect unresolved unverified failure unsuccessful unsolved no".split())
_VAGUE = frozenset({"yes", "no", "true", "false"})
_VERDICTS = frozenset(
    "pass passed success successful succeeded resolved solved correct correctness verified completed".split()
)


@dataclass(slots=True)
class Scored:
    """A grade with its score, and the step it is on."""

    grade: Grade
    score: Score
    step: int | None = None


def read_score(grade: Grade) -> Score:
    """The grade as a score: words of a verdict are one, a bare number is none."""
    label = grade.label
    raw = grade.value
    if isinstance(raw, bool):
        label = label or str(raw).lower()
        raw = float(raw)
    word = label.strip().lower() if label is not None else None
    verdict = True if word in _PASS else False if word in _FAIL else None
    if word in _VAGUE and not _VERDICTS & set(grade.name.lower().replace("-", "_").replace(".", "_").split("_")):
        # "toxicity: yes" is no pass.
        verdict = None
    if raw is None and label is None:
        return Score(None, None, None, None, valid=False, issue=grade.issue or "score_missing")
    if raw is None:
        value = float(word in _PASS) if word in _PASS or word in _FAIL else None
        out = Score(value, None, None, verdict, valid=True, issue=None, label=label)
    else:
        given = score_of(raw, None, verdict=False)
        shown = label if label is not None else given.label
        out = Score(
            given.value, None, None, verdict if given.valid else None, valid=given.valid, issue=given.issue, label=shown
        )
    return (
        out
        if grade.valid
        else Score(out.value, None, None, None, valid=False, issue=grade.issue or "invalid", label=out.label)
    )


def primary(scored: list[Scored]) -> Scored | None:
    """The grade that is the attempt's score: the only one, the last of one name, the only verdict, or the only reward."""
    usable = [e for e in scored if e.score.valid] or scored
    for chosen in (
        usable,
        [e for e in usable if e.score.passed is not None],
        [e for e in usable if "reward" in e.grade.name.lower()],
    ):
        if chosen and len({e.grade.name for e in chosen}) == 1:
            return max(enumerate(chosen), key=lambda p: (str(p[1].grade.created_at or ""), p[0]))[1]
    return None
