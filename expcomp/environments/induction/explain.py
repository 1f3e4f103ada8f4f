"""Explain a column of values: find the terms, and the cases, that reproduce it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from expcomp.environments.flatten import dump, elements, load, members
from expcomp.environments.induction.arithmetic import linear_terms
from expcomp.environments.induction.calls import call_terms
from expcomp.environments.induction.compose import Appended, Cases, Object, Single, Slot, Text
from expcomp.environments.induction.contrast import Case, decide
from expcomp.environments.induction.skeleton import SLOT, skeleton, slot_value, styled, words_of
from expcomp.environments.induction.terms import Const, Copy, Linear, Term

if TYPE_CHECKING:
    from collections.abc import Sequence

    from expcomp.environments.induction.matrix import Matrix
    from expcomp.environments.induction.predicates import Tests

__all__ = ["explain"]

MAX_CONSTANTS = 24
ENOUGH = 0.97
DEEPEST = 4
MOSTLY = 0.8
PROBES = 10


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
        more = _further(sub, y, column, tests, truth, cases, terms, hits, known, depth)
        if more:
            frame = sub.frame.with_columns(t.expr().alias(f"\x01{i}") for i, t in enumerate(more))
            table = sub.encode(column, *(frame[f"\x01{i}"] for i in range(len(more))))
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
) -> list[Term]:
    """Computed terms for the rows that the cases so far do not decide safely."""
    left = np.ones(len(y), bool)
    for case in cases:
        p, e, n, right = case.predicate, case.term, case.n, case.hits
        if n == right and n >= 3 and not isinstance(terms[e], Const):
            left &= ~(truth[:, p] & known[:, e])
    rows = np.flatnonzero(left)
    if len(rows) < 2:
        return []
    sub, values = m.take(rows), column[rows]
    inner = tests.at(rows)
    more: list[Term] = []
    for search in _SEARCHES:
        more += search(sub, values, inner, depth)
        if _whole(sub, values, more):
            break
    return more


def _whole(m: Matrix, values: pl.Series, terms: Sequence[Term]) -> bool:
    """Whether one of the terms found so far gives nearly all values."""
    frame = m.frame.with_columns(t.expr().alias(f"\x01{i}") for i, t in enumerate(terms))
    right = [int((frame[f"\x01{i}"] == values).sum()) for i in range(len(terms))]
    return max(right, default=0) >= ENOUGH * len(values)


def _share(values: pl.Series, first: str) -> float:
    """Share of values whose JSON text begins with one of some characters."""
    return int(values.str.slice(0, 1).is_in(list(first)).sum()) / len(values)


def _number(m: Matrix, values: pl.Series, _: Tests, __: int) -> list[Term]:
    numbers = values.cast(pl.Float64, strict=False)
    return linear_terms(m, numbers.fill_null(float("nan")).to_numpy()) if _share(values, "-0123456789") > 0.5 else []


def _function(m: Matrix, values: pl.Series, _: Tests, __: int) -> list[Term]:
    return call_terms(m, values)


def _object(m: Matrix, values: pl.Series, tests: Tests, depth: int) -> list[Term]:
    if depth >= DEEPEST or _share(values, "{") <= MOSTLY:
        return []
    split = members(values)
    docs = split["doc"].n_unique()
    if split.height == docs and split["key"].n_unique() > 1:
        return _single(m, values, split, tests, depth)
    keys = split.group_by("key", maintain_order=True).len().filter(pl.col("len") == docs)["key"].sort()
    if len(keys) == 0 or len(keys) > 40 or split["key"].n_unique() > len(keys):
        return []
    wide = split.pivot(on="key", index="doc", values="value", maintain_order=True)
    rows = pl.DataFrame({"doc": values}).join(wide, on="doc", how="left", maintain_order="left")
    items = []
    for key in keys:
        term = explain(m, rows[key], tests, label=key, depth=depth + 1)
        if term is None:
            return []
        items.append((dump(key), term))
    return [Object(tuple(items))]


def _spelled(m: Matrix, values: pl.Series, tests: Tests, depth: int) -> list[Term]:
    """Texts with slots, when most of them have the same constant words."""
    if depth >= DEEPEST or _share(values, '"') <= MOSTLY:
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
    values: pl.Series,
    split: pl.DataFrame,
    tests: Tests,
    depth: int,
) -> list[Term]:
    rows = pl.DataFrame({"doc": values}).join(split, on="doc", how="left", maintain_order="left")
    key = explain(m, rows.select(pl.format('"{}"', "key")).to_series(), tests, depth=depth + 1)
    value = explain(m, rows["value"], tests, depth=depth + 1)
    return [] if key is None or value is None else [Single(key, value)]


def _grows(m: Matrix, j: int, known: np.ndarray, values: pl.Series) -> bool:
    """Whether one of a few rows holds the operand with more behind it."""
    few = known[np.linspace(0, len(known) - 1, min(PROBES, len(known))).astype(int)]
    pairs = [(m.values["value"][int(m.codes[i, j])], values[int(i)]) for i in few]
    return any(b is not None and a != b and b.startswith(a[:-1]) for a, b in pairs)


def _appended(m: Matrix, values: pl.Series, tests: Tests, depth: int) -> list[Term]:
    """Arrays that are an operand with one element more."""
    if depth >= DEEPEST or _share(values, "[") <= MOSTLY:
        return []
    inside = values.str.slice(1, None).str.strip_suffix("]")
    out: list[Term] = []
    for j, name in enumerate(m.names):
        if (m.codes[:, j] < 0).mean() > 0.5:
            continue
        known = np.flatnonzero(m.codes[:, j] >= 0)
        if m.values["value"][int(m.codes[known[0], j])][0] != "[" or not _grows(m, j, known, values):
            continue
        base = m.column(name)
        stem = base.str.strip_prefix("[").str.strip_suffix("]")
        begins = pl.DataFrame({"a": inside, "b": stem}).select(pl.col("a").str.starts_with(pl.col("b"))).to_series()
        usable = base.str.starts_with("[") & (base != values) & begins
        usable = usable.fill_null(value=False)
        if usable.sum() < max(2, 0.3 * len(values)):
            continue
        tails = pl.DataFrame({"a": inside, "b": stem}).select(
            pl.col("a").str.slice(pl.col("b").str.len_chars()).str.strip_prefix(",")
        ).to_series()  # fmt: skip
        docs = pl.select(pl.when(usable).then(pl.format("[{}]", tails))).to_series()
        found = elements(docs)
        single = found.filter(pl.len().over("doc") == 1).select("doc", element="value")
        tail = pl.DataFrame({"doc": docs}).join(single, on="doc", how="left", maintain_order="left")["element"]
        if tail.null_count() > 0.7 * len(tail):
            continue
        term = explain(m, tail, tests, depth=depth + 1)
        if term is not None:
            out.append(Appended(name, term))
        if len(out) == 3:
            break
    return out


_SEARCHES = (_number, _function, _spelled, _object, _appended)
"""Ways of computing a value, in the order in which they are tried."""
