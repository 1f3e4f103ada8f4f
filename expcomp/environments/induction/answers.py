"""Answers as classes and fields. A class is an outcome with a shape: the keys of an object, the constant words of a text.

A text becomes a skeleton with slots: numbers, and words that are values of the row's own operands. Each slot, and each member of
an object, is a field of its own that is explained apart.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.environments.flatten import dump, load
from expcomp.environments.induction.skeleton import SLOT, skeleton, slot_value, words_of

if TYPE_CHECKING:
    from expcomp.environments.induction.matrix import Matrix

__all__ = ["WHOLE", "Answers", "Shape", "describe", "shape_of"]

WHOLE = ""
"""Key of a document that is taken as one value."""
MAX_SHAPES, SHAPE_SHARE = 6, 0.2
LONGEST = 2_000


@dataclass(slots=True)
class Answers:
    """Classes of rows and their fields: `shape` one text a row, `fields` by key one canonical JSON value a row, `raw` as written."""

    shape: list[str]
    fields: dict[str, list[str | None]] = field(default_factory=dict)
    raw: dict[str, list[str | None]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Shape:
    """A parsed shape: failure or not, JSON or not, members (None: one value), skeletons of texts by member."""

    failed: bool
    is_json: bool
    keys: tuple[str, ...] | None
    texts: dict[str, str]


def shape_of(text: str) -> Shape:
    """The parts of a shape's text."""
    failed, is_json, keys, texts = load(text)
    return Shape(failed, is_json, None if keys is None else tuple(keys), texts)


def describe(answer: pl.Series, failed: pl.Series, is_json: pl.Series, m: Matrix) -> Answers:
    """Class and fields of each row.

    Args:
        answer: Canonical JSON documents.
        failed: Outcome.
        is_json: Whether the source wrote JSON; else the document is a JSON string of its text.
        m: Operands of the same rows.
    """
    docs = [load(a) if a is not None else None for a in answer]
    sets = {tuple(sorted(d)) for d in docs if type(d) is dict}
    opened = len(sets) <= max(8, 0.25 * len(docs))
    parts = [_parts(d, opened=opened) for d in docs]
    cut: list[dict[str, tuple[str, list[str]]]] = []
    counts: dict[str, set[str]] = {}
    for i, (members, bad, js) in enumerate(zip(parts, failed, is_json, strict=True)):
        texts = {}
        words = words_of(m, i)
        for key, value in members.items():
            if type(value) is str and value and len(value) <= LONGEST and (bad or not js or " " in value):
                text, slots = skeleton(value, words)
                if bad or not js or (slots and text.count(" ") >= 2 and text != SLOT):
                    texts[key] = (text, slots)
                    counts.setdefault(f"{bad}{key}", set()).add(text)
        cut.append(texts)
    limit = max(MAX_SHAPES, SHAPE_SHARE * len(docs))
    out = Answers([])
    for i, (members, bad, js) in enumerate(zip(parts, failed, is_json, strict=True)):
        # A member whose texts have too many skeletons is prose: one value.
        texts = {k: v for k, v in cut[i].items() if len(counts[f"{bad}{k}"]) <= limit and v[0] != SLOT}
        keys = sorted(members) if opened and type(docs[i]) is dict else None
        out.shape.append(dump([bool(bad), bool(js), keys, {k: v[0] for k, v in texts.items()}]))
        _store(out, i, members, texts, len(docs))
    return out


def _parts(doc: Any, *, opened: bool) -> dict[str, Any]:
    return doc if type(doc) is dict and opened else {WHOLE: doc}


def _store(out: Answers, i: int, members: dict[str, Any], texts: dict[str, tuple[str, list[str]]], n: int) -> None:
    for key, value in members.items():
        if key not in texts:
            out.fields.setdefault(key, [None] * n)[i] = dump(value)
    for key, (_, slots) in texts.items():
        for place, raw in enumerate(slots):
            name = f"{key}#{place}"
            out.fields.setdefault(name, [None] * n)[i] = slot_value(raw)
            out.raw.setdefault(name, [None] * n)[i] = raw
