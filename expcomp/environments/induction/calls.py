"""Library functions that reproduce a column of values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from expcomp.environments.flatten import load
from expcomp.environments.induction.library import FUNCTIONS, PAIRS, SINGLES, letter, run, with_field
from expcomp.environments.induction.terms import Call, Term

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    from expcomp.environments.induction.matrix import Matrix

__all__ = ["call_terms"]

ROWS, PROBES = 40, 3
SINGLE_OPERANDS, FIRST_OPERANDS, SECOND_OPERANDS = 60, 40, 12
KEEP = 3
SHARE = 0.5
NEAR = ("arg.", "seen[arg.", "state.")


def call_terms(m: Matrix, values: pl.Series) -> list[Term]:
    """Calls that are right in half of the rows and in at least three with two different values.

    A call is tried on a few rows first, and dropped when it is right in none of them.
    """
    n = len(values)
    places = np.unique(np.linspace(0, n - 1, min(ROWS, n)).astype(int))
    wanted = [load(values[int(i)]) for i in places]
    gives = _common(wanted)
    columns = _columns(m, places)
    kinds = [_common([v for v in column if v is not None]) for _, column in columns]
    every = {k: [i for i, own in enumerate(kinds) if k in ("*", own)] for k in {"*", *kinds}}
    plans: list[tuple[str, tuple[int, ...]]] = [
        (f, (i,)) for f, d in SINGLES.items() if d.gives == gives for i in every.get(d.takes, ())
    ]
    seconds = [i for i, (name, _) in enumerate(columns) if name.startswith(NEAR)][:SECOND_OPERANDS]
    near = {k: [i for i in seconds if k in ("*", kinds[i])] for k in every}
    plans += [
        (f, (i, j))
        for f, d in PAIRS.items()
        if d.gives == gives
        for i in every.get(d.takes[0], ())
        if i < FIRST_OPERANDS
        for j in near.get(d.takes[1], ())
        if i != j
    ]
    found: list[tuple[int, int, Term]] = []
    for rank, (name, operands) in enumerate(plans):
        function = FUNCTIONS[name]
        rows = list(zip(*(columns[i][1] for i in operands), strict=True))
        if not any(run(function, r) == w for r, w in zip(rows[:PROBES], wanted[:PROBES], strict=True)):
            continue
        right = [w for r, w in zip(rows, wanted, strict=True) if run(function, r) == w]
        if len(right) >= max(3, SHARE * len(wanted)) and any(w != right[0] for w in right):
            told = with_field(name, [r[0] for r in rows])
            found.append((-len(right), rank, Call(told, tuple(columns[i][0] for i in operands))))
    return [t for *_, t in sorted(found, key=lambda f: f[:2])[:KEEP]]


def _common(values: Sequence[Any]) -> str:
    """The type letter of most values."""
    letters = [letter(v) for v in values]
    return max(sorted(set(letters)), key=letters.count) if letters else " "


def _columns(m: Matrix, places: np.ndarray) -> list[tuple[str, list[Any]]]:
    """Operands as parsed values, the nearest first; of those with equal values one."""
    texts, parsed = m.texts, m.parsed
    order = np.argsort(m.costs[: len(m.names)], kind="stable")
    seen: set[bytes] = set()
    out = []
    near = m.codes[places]
    for j in order[(near >= 0).mean(0)[order] >= SHARE]:
        codes = near[:, j]
        if codes.tobytes() in seen:
            continue
        seen.add(codes.tobytes())
        listed = codes.tolist()
        for code in listed:
            if code not in parsed:
                parsed[code] = load(texts[code])
        out.append((m.names[j], [parsed[c] for c in listed]))
        if len(out) == SINGLE_OPERANDS:
            break
    return out
