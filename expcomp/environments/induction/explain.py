"""Explain a column of values: find the terms, and the cases, that reproduce it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from expcomp.environments.flatten import dump, load, opened
from expcomp.environments.induction.arithmetic import linear_terms
from expcomp.environments.induction.calls import call_terms
from expcomp.environments.induction.compose import Appended, Cases, Object, Single, Slot, Text
from expcomp.environments.induction.contrast import Case, decide
from expcomp.environments.induction.skeleton import SLOT, skeleton, slot_value, styled, words_of
from expcomp.environments.induction.terms import Const, Copy, Linear, Term

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from expcomp.environments.induction.matrix import Matrix
    from expcomp.environments.induction.predicates import Tests

__all__ = ["explain"]

MAX_CONSTANTS = 24
ENOUGH = 0.97
DEEPEST = 4
MOSTLY = 0.8
PROBES = 10
MOST_KEYS = 40


def explain(
    m: Matrix,
    target: pl.Series,
    tests: Tests,
    *,
    label: str = "",
    depth: int = 0,
) -> Term | None:
    """The term that reproduces most of a column without guessing; None when nothing does.

    Args:
        m: Operands of the rows.
        target: Canonical JSON values, one a row; nulls are not explained.
        tests: Predicates, truth and cost for the same rows.
        label: Name of the field: an operand of the same name is the better explanation.
        depth: Levels of the answer above this one.
    """
    code = m.encode(target)[:, 0]
    rows = np.flatnonzero(code != -2)
    if len(rows) == 0:
        return None
    sub = m if len(rows) == len(code) else m.take(rows)
    y, column = code[rows], target[rows]
    truth = tests.truth[rows]
    terms, hits, known, costs = _simple(sub, y, column, label)
    cases = decide(truth, tests.cost, hits, known, costs, sub.groups)
    if _right(cases) < ENOUGH * len(rows) or _listed(cases, terms, column):
        more, given = _further(sub, y, column, tests, truth, cases, terms, hits, known, depth)
        if more:
            table = sub.encode(column, *given)
            y, table = table[:, 0], table[:, 1:]
            terms = terms + more
            hits = np.column_stack([hits, table == y[:, None]])
            known = np.column_stack([known, table != -2])
            costs = costs + [
                1.2 + 0.3 * len(t.reads()) + (0.2 if isinstance(t, Linear) and t.digits is not None else 0.0)
                for t in more
            ]
            cases = decide(truth, tests.cost, hits, known, costs, sub.groups)
    if not cases:
        return None
    if len(cases) == 1 and cases[0].predicate == 0:
        return terms[cases[0].term]
    return Cases(tuple((tests.predicates[c.predicate], terms[c.term], c.n, c.hits) for c in cases))


def _listed(cases: Sequence[Case], terms: Sequence[Term], column: pl.Series) -> bool:
    """Whether the cases only list values, so that a computed term may say more with less."""
    constants = sum(isinstance(terms[c.term], Const) for c in cases)
    numbers = column[0] is not None and column[0][0] in "-0123456789"
    return len(cases) > 1 and ((numbers and constants > 0) or constants >= 3)


def _right(cases: Sequence[Case]) -> int:
    return sum(c.hits for c in cases)


def _simple(
    m: Matrix, y: np.ndarray, column: pl.Series, label: str
) -> tuple[list[Term], np.ndarray, np.ndarray, list[float]]:
    codes, first, counts = np.unique(y, return_index=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:MAX_CONSTANTS]
    constants: list[Term] = [Const(column[int(first[i])]) for i in order]
    const_hits = y[:, None] == codes[order][None, :]
    const_cost = [1.1 if len(codes) == 1 else 1.6] * len(constants)
    copies = (m.codes == y[:, None]) & (m.codes >= 0)
    useful = np.flatnonzero(copies.any(0))
    terms = constants + [Copy(m.names[j]) for j in useful]
    named = [m.names[j].rsplit(".", 1)[-1] == label and label != "" for j in useful]
    costs = const_cost + [float(m.costs[j]) - (1.2 if same else 0.0) for j, same in zip(useful, named, strict=True)]
    hits = np.column_stack([const_hits, copies[:, useful]])
    known = np.column_stack([np.ones_like(const_hits), m.codes[:, useful] >= 0])
    return terms, hits, known, costs


def _further(
    m: Matrix,
    y: np.ndarray,
    column: pl.Series,
    tests: Tests,
    truth: np.ndarray,
    cases: Sequence[Case],
    terms: Sequence[Term],
    hits: np.ndarray,
    known: np.ndarray,
    depth: int,
) -> tuple[list[Term], list[pl.Series]]:
    """Computed terms for the rows that the cases so far do not decide safely, and their values in all rows."""
    left = np.ones(len(y), bool)
    for case in cases:
        p, e, n, right = case.predicate, case.term, case.n, case.hits
        if n == right and n >= 3 and not isinstance(terms[e], Const):
            left &= ~(truth[:, p] & known[:, e])
    rows = np.flatnonzero(left)
    if len(rows) < 2:
        return [], []
    sub, values = m.take(rows), column[rows]
    inner = tests.at(rows)
    firsts = Counter(v[0] for v in values.to_list() if v)
    more: list[Term] = []
    given: list[pl.Series] = []
    for search, begins, share in _SEARCHES:
        if begins and sum(firsts[c] for c in begins) <= share * len(values):
            continue
        found = search(sub, values, inner, depth)
        told = m.compute(found) if found else []
        more += found
        given += told
        # A term that gives nearly all values ends the search.
        if any(int((v == column)[rows].sum()) >= ENOUGH * len(rows) for v in told):
            break
    return more, given


def _number(m: Matrix, values: pl.Series, _: Tests, __: int) -> list[Term]:
    return linear_terms(m, values.cast(pl.Float64, strict=False).fill_null(float("nan")).to_numpy())


def _function(m: Matrix, values: pl.Series, _: Tests, __: int) -> list[Term]:
    return call_terms(m, values)


def _object(m: Matrix, values: pl.Series, tests: Tests, depth: int) -> list[Term]:
    if depth >= DEEPEST:
        return []
    texts = values.to_list()
    docs = opened(texts)
    keys = {k for d in docs.values() for k in d}
    if len(keys) > 1 and all(len(d) == 1 for d in docs.values()):
        return _single(m, [docs.get(t) for t in texts], tests, depth)
    if not 0 < len(keys) <= MOST_KEYS or any(len(d) < len(keys) for d in docs.values()):
        return []
    items = []
    for key in sorted(keys):
        column = [docs[t][key] if t in docs else None for t in texts]
        term = explain(m, pl.Series(column, dtype=pl.String), tests, label=key, depth=depth + 1)
        if term is None:
            return []
        items.append((dump(key), term))
    return [Object(tuple(items))]


def _spelled(m: Matrix, values: pl.Series, tests: Tests, depth: int) -> list[Term]:
    """Texts with slots, when most of them have the same constant words."""
    if depth >= DEEPEST:
        return []
    cut = [_cut(m, v, i) for i, v in enumerate(values)]
    skeletons = [c[0] for c in cut]
    common = max(sorted(set(skeletons)), key=skeletons.count)
    n = common.count(SLOT)
    if common == SLOT or n == 0 or n > 8 or skeletons.count(common) < 0.5 * len(values):
        return []
    rows = np.flatnonzero(np.array([s == common for s in skeletons]))
    part, own = m.take(rows), tests.at(rows)
    parts: list[str | Term] = [dump(common.split(SLOT)[0])[1:-1]]
    for place, after in enumerate(common.split(SLOT)[1:]):
        raw = [cut[int(i)][1][place] for i in rows]
        column = pl.Series([slot_value(r) for r in raw], dtype=pl.String)
        term = explain(part, column, own, depth=DEEPEST)
        if term is None:
            return []
        parts += [Slot(term, styled(raw)), dump(after)[1:-1]]
    return [Text(tuple(parts))]


def _cut(m: Matrix, value: str | None, row: int) -> tuple[str, list[str]]:
    text = load(value) if value is not None else None
    return skeleton(text, words_of(m, row)) if type(text) is str and len(text) < 400 else ("", [])


def _single(
    m: Matrix,
    docs: Sequence[Mapping[str, str] | None],
    tests: Tests,
    depth: int,
) -> list[Term]:
    pairs = [next(iter(d.items())) if d else (None, None) for d in docs]
    keys, values = [None if k is None else f'"{k}"' for k, _ in pairs], [v for _, v in pairs]
    key = explain(m, pl.Series(keys, dtype=pl.String), tests, depth=depth + 1)
    value = explain(m, pl.Series(values, dtype=pl.String), tests, depth=depth + 1)
    return [] if key is None or value is None else [Single(key, value)]


def _grows(m: Matrix, j: int, known: np.ndarray, values: Sequence[str | None]) -> bool:
    """Whether one of a few rows holds the operand with more behind it."""
    few = known[np.linspace(0, len(known) - 1, min(PROBES, len(known))).astype(int)]
    pairs = [(m.texts[int(m.codes[i, j])], values[int(i)]) for i in few]
    return any(b is not None and a != b and b.startswith(a[:-1]) for a, b in pairs)


def _rest(base: str | None, value: str | None) -> str | None:
    """What an array has behind the elements of another, as an array; None where it does not begin so or has no more."""
    if base is None or value is None or base == value or base[0] != "[" or value[0] != "[":
        return None
    stem, inside = base[1:-1], value[1:-1]
    if stem and not inside.startswith(f"{stem},"):
        return None
    return f"[{inside[len(stem) + 1 :] if stem else inside}]"


def _only(array: str | None) -> str | None:
    """The element of an array of one."""
    items: Sequence[Any] = load(array) if array is not None else ()
    return dump(items[0]) if len(items) == 1 else None


def _appended(m: Matrix, values: pl.Series, tests: Tests, depth: int) -> list[Term]:
    """Arrays that are an operand with one element more."""
    if depth >= DEEPEST:
        return []
    texts = values.to_list()
    out: list[Term] = []
    there = m.codes >= 0
    for j in np.flatnonzero(there.mean(0) >= 0.5):
        known, name = np.flatnonzero(there[:, j]), m.names[j]
        if m.texts[int(m.codes[known[0], j])][0] != "[" or not _grows(m, int(j), known, texts):
            continue
        base = [m.texts[c] if c >= 0 else None for c in m.codes[:, j].tolist()]
        rests = [_rest(b, v) for b, v in zip(base, texts, strict=True)]
        if len(texts) - rests.count(None) < max(2, 0.3 * len(texts)):
            continue
        tail = [_only(r) for r in rests]
        if tail.count(None) > 0.7 * len(tail):
            continue
        term = explain(m, pl.Series(tail, dtype=pl.String), tests, depth=depth + 1)
        if term is not None:
            out.append(Appended(name, term))
        if len(out) == 3:
            break
    return out


_SEARCHES = (
    (_number, "-0123456789", 0.5),
    (_function, "", 0.0),
    (_spelled, '"', MOSTLY),
    (_object, "{", MOSTLY),
    (_appended, "[", MOSTLY),
)
"""Ways of computing a value, in the order in which they are tried, each on columns of which more than a share begins so."""
