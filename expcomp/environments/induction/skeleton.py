"""Texts as constant words with slots for numbers and for values of the row's own operands."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from expcomp.environments.flatten import dump, load

if TYPE_CHECKING:
    from collections.abc import Sequence

    from expcomp.environments.induction.matrix import Matrix

__all__ = ["SLOT", "Words", "skeleton", "slot_value", "styled", "words_of"]

SLOT = "\x00"
_TOKEN = re.compile(r"\d+(?:[-:/]\d+)+|\d+(?:\.\d+)?|[^\W\d_][\w@\-]*(?:\.\w+)*|\s+|.", re.DOTALL)
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_DIGIT = re.compile(r"\d")
_PRIVATE = 0xE000
_OWN_MARK = re.compile("[\ue000-\uf8ff]")
_FAR = ("last.", "memory", "kb[")
LONGEST_VALUE = 120


class Words(NamedTuple):
    """Texts that a row knows: its arguments, and all its operands."""

    own: frozenset[str]
    known: frozenset[str]


def words_of(m: Matrix, row: int) -> Words:
    """Text values of the operands of a row, but of what is far-fetched."""
    place = int(m.at[row])
    if place not in m.words:
        m.words[place] = _words(m, row)
    return m.words[place]


def _words(m: Matrix, row: int) -> Words:
    texts = m.texts
    own, known = set(), set()
    for j, name in enumerate(m.names):
        code = m.codes[row, j]
        if code < 0 or name.startswith(_FAR):
            continue
        text = texts[int(code)]
        if text[0] != '"' or len(text) > LONGEST_VALUE:
            continue
        word = load(text)
        if name.startswith("arg.") and word and not _NUMBER.fullmatch(word):
            own.add(word)
        if len(word) > 1:
            known.add(word)
    return Words(frozenset(own), frozenset(known))


def skeleton(text: str, words: Words) -> tuple[str, list[str]]:
    """Constant words with SLOT marks, and what stands in the slots."""
    held: list[str] = []
    # A text with private characters of its own keeps them: no word is marked by one.
    marked = () if _OWN_MARK.search(text) else sorted(words.own, key=lambda w: (-len(w), w))
    for value in marked:
        if value not in text or _TOKEN.fullmatch(value):
            continue
        if len(value) > 2 or re.search(rf"\b{re.escape(value)}\b", text):
            text = text.replace(value, chr(_PRIVATE + len(held)))
            held.append(value)
    constant, slots = [], []
    for token in _TOKEN.findall(text):
        code = ord(token) - _PRIVATE if len(token) == 1 else -1
        if 0 <= code < len(held):
            constant.append(SLOT)
            slots.append(held[code])
        elif token == SLOT or _DIGIT.search(token) or token in words.known or token in words.own:
            constant.append(SLOT)
            slots.append(token)
        else:
            constant.append(token)
    return "".join(constant), slots


def slot_value(raw: str) -> str:
    """Canonical JSON of what stands in a slot: a number, or a text."""
    return dump(float(raw)) if _NUMBER.fullmatch(raw) else dump(raw)


def styled(raw: Sequence[str | None]) -> str:
    """How numbers are written in a slot: plain, float (`3.0`), fixed (`3.00`)."""
    numbers = [r for r in raw if r is not None and _NUMBER.fullmatch(r)]
    if not numbers or all(r == dump(float(r)) for r in numbers):
        return "plain"
    if all("." in r and r == str(float(r)) for r in numbers):
        return "float"
    return "fixed" if all(re.fullmatch(r"\d+\.\d\d", r) for r in numbers) else "plain"
