"""Labels of a row of a set: verdicts, scores and judgements in columns beside the messages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from expcomp.sources._emit import verdict
from expcomp.sources._json import dump_json
from expcomp.sources._values import Score, amount, obj, score_of, text
from expcomp.sources.chat._columns import Path, lookup
from expcomp.sources.chat._parts import parsed

if TYPE_CHECKING:
    from expcomp.sources.chat._columns import Columns

PASS = frozenset("true pass passed success successful resolved solved correct verified yes".split())
FAIL = frozenset("false fail failed failure unresolved unsolved incorrect wrong unverified no".split())
"""Words that are a verdict."""
_WORDS_ONLY = frozenset({"target", "label"})
"""Columns whose numbers may be classes or preferences: 0 and 1 are no verdict there."""


_WORDS = 3
"""Rank of a grade in words that are no verdict: it is kept and never counts."""


@dataclass(slots=True)
class Graded:
    """Grades of a row.

    Attributes:
        primary: The grade that counts; none where the row has no place for one.
        grades: Name, score, kind and further columns of each grade.
        error_type: Class of the error that stands where a score is expected.
        left: Labels that are none: they stay in the metadata.
    """

    primary: Score | None = None
    grades: list[tuple[str, Score, str, dict[str, Any]]] = field(default_factory=list)
    primary_name: str | None = None
    error_type: str | None = None
    left: dict[str, Any] = field(default_factory=dict)


def grade(columns: Columns, row: dict[str, Any]) -> Graded:
    """Read the labels of a row. A flag or a word of verdict comes before a number, a number before an empty place."""
    out = Graded()
    places = [*columns.paths.get("verdict", ()), *columns.paths.get("score", ())]
    if places:
        flags = len(columns.paths.get("verdict", ()))
        found = [one for at, path in enumerate(places) for one in _label(out, path, lookup(row, path), flag=at < flags)]
        best = min(range(len(found)), key=lambda i: (_rank(found[i][1]), i), default=None)
        if best is not None and _rank(found[best][1]) < _WORDS:
            name, score = found[best]
            out.primary, out.primary_name = score, name
        kept = [(n, s) for i, (n, s) in enumerate(found) if i == best or s.issue != "score_missing"]
        out.grades = [(n, s, "verifier", {}) for n, s in kept]
    for path in columns.paths.get("judge", ()):
        out.grades += _judged(path[-1], lookup(row, path), out, path)
    return out


def preference(row: dict[str, Any], mark: str) -> Graded:
    """The grade of one side of a preference: 1 for the chosen, 0 for the rejected; no verdict, for both may be right or wrong."""
    value = 1.0 if mark == "chosen" else 0.0
    score = Score(value, (0.0, 1.0), value, None, valid=True, issue=None, label=mark)
    out = Graded(score, [("preference", score, "unstated", {})], "preference")
    rating = amount(row.get(f"score_{mark}", row.get(f"{mark}_score")))
    if rating is not None:
        out.grades.append(("rating", Score(rating, None, None, None, valid=True, issue=None), "unstated", {}))
    return out


def as_flag(name: str, value: Any) -> bool | None:
    """A verdict: a boolean, a word, or 0 and 1 in a column that can be nothing else."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        word = value.strip().lower()
        return True if word in PASS else False if word in FAIL else None
    if isinstance(value, int | float) and name not in _WORDS_ONLY and value in (0, 1):
        return bool(value)
    return None


def _label(out: Graded, path: Path, value: Any, *, flag: bool) -> list[tuple[str, Score]]:
    name = path[-1]
    if value is None:
        return [(name, verdict(passed=None) if flag else score_of(None, None, verdict=False))]
    if flag:
        passed = as_flag(name, value)
        if passed is not None:
            return [(name, verdict(passed=passed))]
    if isinstance(value, str) and value[:1] in "{[":
        value = parsed(value) or value
    if isinstance(value, dict):
        return [(f"{name}.{k}", s) for k, v in value.items() if (s := _number(v)) is not None]
    number = _number(value)
    if number is not None:
        return [(name, number)]
    if isinstance(value, bool):
        # A boolean in a column of scores is no verdict that a person named so.
        return [(name, Score(float(value), None, None, None, valid=True, issue=None))]
    if name == "result" and isinstance(value, str) and value.isidentifier():
        out.error_type = value
        return [(name, score_of(None, None, verdict=False))]
    if isinstance(value, str) and len(value) <= 200:
        return [(name, Score(None, None, None, None, valid=True, issue=None, label=value))] if flag else []
    out.left[name] = value
    return []


def _number(value: Any) -> Score | None:
    """A number, or its text, as a score without a scale."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return score_of(value, None, verdict=False)


def _rank(score: Score) -> int:
    if score.passed is not None:
        return 0
    if score.value is not None and score.valid:
        return 1
    return _WORDS if score.label is not None else 2


def _judged(name: str, value: Any, out: Graded, path: Path) -> list[tuple[str, Score, str, dict[str, Any]]]:
    """Judgements of a model: one grade for each criterion with a number; a text alone is no grade and stays in the metadata."""
    raw = parsed(value) if isinstance(value, str) else value
    found = []
    for key, entry in obj(raw).items():
        score = _number(entry.get("score", entry.get("rating")) if isinstance(entry, dict) else entry)
        if score is None:
            continue
        why = obj(entry).get("reasoning", obj(entry).get("rationale"))
        found.append((f"{name}.{key}", score, "model_judge", {"rationale": text(why)}))
    if not found and value is not None and len(path) == 1:
        out.left[name] = value if isinstance(value, str) else dump_json(value)
    return found
