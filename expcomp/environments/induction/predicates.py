"""Conditions worth trying for one action, with the rows they hold in."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from expcomp.environments.induction.terms import Linear, Predicate

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from expcomp.environments.induction.matrix import Matrix

__all__ = ["Tests", "comparisons", "predicates"]

MAX_VALUES, MAX_NUMBERS, MAX_OTHERS, MAX_BOUNDS = 8, 36, 60, 6
MIN_ROWS = 2


class Tests(NamedTuple):
    """Predicates with their truth (rows, predicates) and their cost."""

    predicates: list[Predicate]
    truth: np.ndarray
    cost: np.ndarray

    def at(self, rows: np.ndarray) -> Tests:
        """The same predicates for some rows."""
        return Tests(self.predicates, self.truth[rows], self.cost)


def predicates(m: Matrix) -> Tests:
    """Predicates worth trying; of those that hold in the same rows the cheapest is kept."""
    pool = _Pool(len(m.codes))
    pool.add(0.0, "always", "", None, np.ones(len(m.codes), bool))
    for make in (_presence, _values, _pairs, _numbers):
        make(m, pool)
    kept = list(pool.best.values())
    return Tests([p for _, p in kept], pool.truth(), np.array([c for c, _ in kept]))


def comparisons(m: Matrix, terms: Sequence[Linear], tests: Tests) -> Tests:
    """The predicates, and those that compare computed numbers with operands: what an answer computes often decides it."""
    pool = _Pool(len(m.codes))
    pool.best = {
        np.packbits(t).tobytes(): (float(c), p)
        for p, t, c in zip(tests.predicates, tests.truth.T, tests.cost, strict=True)
    }
    share = np.isfinite(m.nums).mean(0)
    order = np.argsort(m.costs[: len(m.names)], kind="stable")
    usable = [j for j in order if share[j] > 0.1][:MAX_NUMBERS]
    names, x, costs = [m.names[j] for j in usable], m.nums[:, usable], m.costs[usable]
    with np.errstate(invalid="ignore", over="ignore"):
        for term in terms:
            number = m.select({"n": term.number()}, set(term.reads()))[0].fill_null(float("nan")).to_numpy()
            own = set(term.reads())
            skip = [j for j, n in enumerate(names) if n in own]
            _compared(pool, term, number, x, names, 0.6 + 0.5 * costs, skip=skip)
            apart = np.abs(number[:, None] - x) > 1e-9 * np.maximum(1.0, np.abs(x))
            known = np.isfinite(number)[:, None] & np.isfinite(x)
            use = [j for j in range(len(names)) if j not in skip]
            pool.block([(0.5 + 0.5 * costs[j], "unequal", term, names[j]) for j in use], (known & apart)[:, use])
            pool.block([(0.5 + 0.5 * costs[j], "equal", term, names[j]) for j in use], (known & ~apart)[:, use])
    kept = list(pool.best.values())
    return Tests([p for _, p in kept], pool.truth(), np.array([c for c, _ in kept]))


class _Pool:
    """Predicates by the rows they hold in; the cheapest of equals stays."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.best: dict[bytes, tuple[float, Predicate]] = {}

    def add(
        self, cost: float, kind: str, left: str | Linear, right: str | float | Linear | None, truth: np.ndarray
    ) -> None:
        self.block([(cost, kind, left, right)], truth[:, None])

    def block(self, plans: Sequence[tuple[float, str, Any, Any]], truth: np.ndarray) -> None:
        """Several at once: `truth` has a column for each plan."""
        if not plans:
            return
        packed = np.packbits(truth, axis=0)
        width, bits = len(packed), packed.T.tobytes()
        for place in np.flatnonzero(truth.any(0)).tolist():
            key = bits[place * width : (place + 1) * width]
            cost, kind, left, right = plans[place]
            held = self.best.get(key)
            if held is None or cost < held[0]:
                self.best[key] = (cost, Predicate(kind, left, right))

    def truth(self) -> np.ndarray:
        """Rows by predicates."""
        bits = np.frombuffer(b"".join(self.best), np.uint8).reshape(len(self.best), -1)
        return np.unpackbits(bits, axis=1, count=self.n).astype(bool).T


def _presence(m: Matrix, pool: _Pool) -> None:
    there = m.codes >= 0
    places = np.flatnonzero(there.any(0) & ~there.all(0))
    truth = np.empty((len(there), 2 * len(places)), bool)
    truth[:, ::2], truth[:, 1::2] = there[:, places], ~there[:, places]
    told = [(0.5 * m.costs[j], m.names[j]) for j in places]
    pool.block([(c, kind, n, None) for c, n in told for kind in ("present", "absent")], truth)


def _values(m: Matrix, pool: _Pool) -> None:
    # What other families saw says nothing of the state.
    places = np.array([j for j, n in enumerate(m.names) if not n.startswith("kb[")], int)
    where, codes = _frequent(m.codes[:, places])
    brief = [_brief(m.texts[c]) for c in codes.tolist()]
    told: dict[int, list[int]] = {}
    for j, c in zip(places[where[brief]].tolist(), codes[brief].tolist(), strict=True):
        told.setdefault(j, []).append(c)
    for j, short in told.items():
        name, values = m.names[j], [m.texts[c] for c in short]
        truth = m.codes[:, [j]] == np.array(short, int)
        plans = [(cost + m.costs[j], kind, name, v) for cost, kind in ((0.5, "is"), (0.6, "differs")) for v in values]
        pool.block(plans, np.hstack([truth, (m.codes[:, [j]] >= 0) & ~truth]))


def _frequent(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Column and code of the most frequent values of each column, the most frequent first; none of a column with too many."""
    n = len(codes)
    ordered = np.sort(codes, axis=0).T
    starts = np.ones(ordered.shape, bool)
    starts[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    places = np.flatnonzero(starts)
    times = np.diff(places, append=ordered.size)
    column, code = places // n, ordered.ravel()[places]
    often = (code >= 0) & (times >= MIN_ROWS)
    column, code, times = column[often], code[often], times[often]
    order = np.lexsort((code, -times, column))
    column, code = column[order], code[order]
    sizes = np.bincount(column, minlength=len(ordered))
    rank = np.arange(len(column)) - (np.cumsum(sizes) - sizes)[column]
    kept = (sizes[column] <= 4 * MAX_VALUES) & (rank < MAX_VALUES)
    return column[kept], code[kept]


def _brief(value: str) -> bool:
    return len(value) <= 60 and (value[0] not in "[{" or len(value) <= 2)


def _pairs(m: Matrix, pool: _Pool) -> None:
    order = np.argsort(m.costs[: len(m.names)], kind="stable")[: MAX_OTHERS + 20]
    scalar = np.array([j for j in order if _short(m, j)][:MAX_OTHERS], int)
    left = [j for j in scalar if m.costs[j] <= 2.0][:20]
    for i in left:
        same = (m.codes[:, [i]] == m.codes[:, scalar]) & (m.codes[:, [i]] >= 0)
        telling = same.any(0) & ~same.all(0) & (scalar != i)
        js = scalar[telling]
        costs = 0.5 * (m.costs[i] + m.costs[js]) - 0.3
        names = [m.names[j] for j in js]
        pool.block([(c, "same", m.names[i], n) for c, n in zip(costs, names, strict=True)], same[:, telling])
        pool.block([(c, "other", m.names[i], n) for c, n in zip(costs, names, strict=True)], ~same[:, telling])


def _short(m: Matrix, j: int) -> bool:
    there = np.flatnonzero(m.codes[:, j] >= 0)
    return len(there) > 0 and m.texts[int(m.codes[there[0], j])][0] not in "[{"


def _numbers(m: Matrix, pool: _Pool) -> None:
    share = np.isfinite(m.nums).mean(0) if len(m.nums) else np.zeros(0)
    order = np.argsort(m.costs[: len(m.names)], kind="stable")
    usable = np.array([j for j in order if share[j] > 0.2][:MAX_NUMBERS], int)
    if len(usable) == 0:
        return
    x, names, costs = m.nums[:, usable], [m.names[j] for j in usable], m.costs[usable]
    with np.errstate(invalid="ignore", over="ignore"):
        for j, name in enumerate(names):
            _thresholds(pool, name, x[:, j], 1.2 + costs[j])
        for i in [i for i in range(len(names)) if costs[i] <= 2.0][:8]:
            _compared(pool, names[i], x[:, i], x, names, 0.5 * (costs[i] + costs), skip=(i,))
        for i in [i for i, n in enumerate(names) if n.startswith("arg.")][:4]:
            for j in range(min(20, len(names))):
                if i == j:
                    continue
                near = slice(0, 24)
                more = 0.6 + 0.5 * (costs[j] + costs[near])
                total = Linear(((1.0, (names[i],)), (1.0, (names[j],))))
                _thresholds(pool, total, x[:, i] + x[:, j], 2.0 + costs[j], zero=False)
                _compared(pool, total, x[:, i] + x[:, j], x[:, near], names[near], more + 0.2, skip=range(j + 1))
                product = Linear(((1.0, (names[i], names[j])),))
                _compared(pool, product, x[:, i] * x[:, j], x[:, near], names[near], more, skip=(i, j))


def _compared(
    pool: _Pool,
    left: str | Linear,
    a: np.ndarray,
    b: np.ndarray,
    names: Sequence[str],
    costs: np.ndarray,
    *,
    skip: Container[int],
) -> None:
    """One number against many: `most` and `over`, and `below` and `least` where an equal pair tells them apart."""
    slack = 1e-9 * np.maximum(1.0, np.abs(b))
    below, over = a[:, None] < b - slack, a[:, None] > b + slack
    known = np.isfinite(a)[:, None] & np.isfinite(b)
    use = [j for j in np.flatnonzero((below | over).any(0)).tolist() if j not in skip]
    told = [(cost, names[j]) for cost, j in zip(costs[use].tolist(), use, strict=True)]
    for kind, truth, more in (
        ("most", known & ~over, 0.0),
        ("over", over, 0.0),
        ("below", below, 0.05),
        ("least", known & ~below, 0.05),
    ):
        pool.block([(cost + more, kind, left, name) for cost, name in told], truth[:, use])


def _thresholds(pool: _Pool, name: str | Linear, values: np.ndarray, cost: float, *, zero: bool = True) -> None:
    distinct = np.unique(values[np.isfinite(values)])
    if len(distinct) < 2:
        return
    # Values a program would be written with: round numbers between the values that were seen.
    bounds = _round_bounds(distinct)
    if zero and distinct[0] <= 0 <= distinct[-1]:
        bounds = [0.0, *[b for b in bounds if b != 0]]
    at = np.array(bounds)
    column = values[:, None]
    for kind, truth in (("most", column <= at), ("over", column > at), ("below", column < at), ("least", column >= at)):
        plans = [(cost + (0.0 if b in (0.0, 1.0) else 0.4), kind, name, float(b)) for b in bounds]
        pool.block(plans, truth)


def _round_bounds(distinct: np.ndarray) -> list[float]:
    many = len(distinct) > 2 * MAX_BOUNDS
    edges = distinct[np.linspace(0, len(distinct) - 1, 4 * MAX_BOUNDS).astype(int)] if many else distinct
    out = []
    for low, high in pairwise(edges):
        gap = high - low
        step = 10.0 ** np.floor(np.log10(gap)) if gap > 0 else 1.0
        rounded = float(np.floor(high / step) * step)
        out.append(round(rounded if low <= rounded <= high else float(low), 6))
    return list(dict.fromkeys(out))
