"""Sums, differences and products of operands that reproduce a column of numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from expcomp.environments.induction.terms import Linear, Term

if TYPE_CHECKING:
    from expcomp.environments.induction.matrix import Matrix

__all__ = ["linear_terms"]

ROWS, SINGLES, PAIRS, TRIPLES = 96, 80, 32, 12
KEEP = 3
SHARE = 0.25


def linear_terms(m: Matrix, y: np.ndarray) -> list[Term]:
    """Terms that are right in a quarter of the rows and at least two, the most frequent first.

    Tried in order, stopping at the first kind that explains nine tenths: `c*x`, `x+c`; `x+y`, `x-y`, `c*x*y`; `x+-y+-z`,
    `x+-y*z`, `(x+-y)*z`. Each also rounded to two decimals.
    """
    rows = np.flatnonzero(np.isfinite(y))
    rows = rows[np.linspace(0, len(rows) - 1, min(ROWS, len(rows))).astype(int)] if len(rows) else rows
    if len(rows) < 2:
        return []
    y = y[rows]
    share = np.isfinite(m.nums[rows]).mean(0)
    usable = [j for j in np.argsort(m.costs[: len(m.names)], kind="stable") if share[j] >= 0.3]
    # An operand that never changes is a constant in disguise.
    usable = [j for j in usable if np.nanstd(m.nums[rows, j]) > 0 or m.names[j].startswith(("arg.", "seen[", "state."))]
    names, x = [m.names[j] for j in usable], m.nums[rows][:, usable]
    found: dict[Term, tuple[int, int]] = {}
    with np.errstate(all="ignore"):
        for search, width in ((_one, SINGLES), (_two, PAIRS), (_three, TRIPLES)):
            search(x[:, :width], names[:width], y, found)
            if found and max(n for n, _ in found.values()) >= 0.9 * len(rows):
                break
    order = sorted(found, key=lambda t: (-found[t][0], found[t][1], repr(t)))
    return order[:KEEP]


def _keep(found: dict[Term, tuple[int, int]], term: Term, right: np.ndarray, y: np.ndarray, cost: int) -> None:
    hits = int(right.sum())
    if hits >= max(2, SHARE * len(y)) and len(np.unique(y[right])) > 1:
        found.setdefault(term, (hits, cost))


def _equal(a: np.ndarray, y: np.ndarray) -> np.ndarray:
    near: np.ndarray = np.abs(a - y) <= 1e-9 * np.maximum(1.0, np.abs(y))
    return near


def _decimals(y: np.ndarray) -> int | None:
    return next((d for d in (0, 1, 2) if np.allclose(np.round(y, d), y, rtol=0, atol=1e-9)), None)


def _nice(value: float) -> float:
    return float(f"{value:.6g}")


def _one(x: np.ndarray, names: list[str], y: np.ndarray, found: dict[Term, tuple[int, int]]) -> None:
    digits = _decimals(y)
    for j, name in enumerate(names):
        column = x[:, j]
        shift = _nice(_mode(y - column))
        _keep(found, Linear(((1.0, (name,)),), shift), _equal(column + shift, y), y, j)
        factor = _factor(y, column)
        if not np.isfinite(factor):
            continue
        _keep(found, Linear(((factor, (name,)),)), _equal(column * factor, y), y, j + 1)
        if digits is not None:
            term = Linear(((factor, (name,)),), digits=digits)
            _keep(found, term, _equal(np.round(column * factor, digits), y), y, j + 2)


def _mode(values: np.ndarray) -> float:
    known = np.round(values[np.isfinite(values)], 6)
    if len(known) == 0:
        return float("nan")
    distinct, counts = np.unique(known, return_counts=True)
    return float(distinct[np.argmax(counts)])


def _factor(y: np.ndarray, x: np.ndarray) -> float:
    """The ratio that most rows share; of rounded ratios the one at the largest number is the most exact."""
    ratio = y / x
    ratio[~np.isfinite(ratio) | (x == 0) | (y == 0)] = np.nan
    known = np.flatnonzero(np.isfinite(ratio))
    if len(known) < 2:
        return float("nan")
    middle = float(np.median(ratio[known]))
    near = known[np.abs(ratio[known] - middle) <= 0.01 * abs(middle) + 1e-12]
    if len(near) == 0:
        return float("nan")
    return _nice(float(ratio[near[np.argmax(np.abs(y[near]))]]))


def _two(x: np.ndarray, names: list[str], y: np.ndarray, found: dict[Term, tuple[int, int]]) -> None:
    digits = _decimals(y)
    plus = _equal(x[:, :, None] + x[:, None, :], y[:, None, None])
    minus = _equal(x[:, :, None] - x[:, None, :], y[:, None, None])
    for i, j in zip(*np.nonzero(plus.sum(0) >= max(2, SHARE * len(y))), strict=True):
        if i < j:
            _keep(found, Linear(((1.0, (names[i],)), (1.0, (names[j],)))), plus[:, i, j], y, i + j)
    for i, j in zip(*np.nonzero(minus.sum(0) >= max(2, SHARE * len(y))), strict=True):
        if i != j:
            _keep(found, Linear(((1.0, (names[i],)), (-1.0, (names[j],)))), minus[:, i, j], y, i + j)
    if digits is not None and digits:
        for sign in (1.0, -1.0):
            near = np.abs(np.round(x[:, :, None] + sign * x[:, None, :], digits) - y[:, None, None]) <= 1e-9
            for i, j in zip(*np.nonzero(near.sum(0) >= max(2, SHARE * len(y))), strict=True):
                if i != j:
                    term = Linear(((1.0, (names[i],)), (sign, (names[j],))), digits=digits)
                    _keep(found, term, near[:, i, j], y, i + j + 1)
    _products(x, names, y, digits, found)


def _products(
    x: np.ndarray, names: list[str], y: np.ndarray, digits: int | None, found: dict[Term, tuple[int, int]]
) -> None:
    product = x[:, :, None] * x[:, None, :]
    ratio = y[:, None, None] / product
    ratio[~np.isfinite(ratio) | (product == 0)] = np.nan
    known = np.isfinite(ratio).sum(0)
    middle = np.nanmedian(np.where(known[None] > 0, ratio, 0.0), axis=0)
    near = np.abs(ratio - middle) <= 0.01 * np.abs(middle)
    for i, j in zip(*np.nonzero((near.sum(0) >= max(2, SHARE * len(y))) & (known > 1)), strict=True):
        if i > j:
            continue
        factor = _factor(y, product[:, i, j])
        if not np.isfinite(factor):
            continue
        value = product[:, i, j] if factor == 1 else product[:, i, j] * factor
        term = Linear(((factor, (names[i], names[j])),))
        _keep(found, term, _equal(value, y), y, i + j + 1)
        if digits is not None:
            rounded = Linear(((factor, (names[i], names[j])),), digits=digits)
            _keep(found, rounded, _equal(np.round(value, digits), y), y, i + j + 2)


def _scaled(
    x: np.ndarray,
    names: list[str],
    y: np.ndarray,
    found: dict[Term, tuple[int, int]],
    i: int,
    j: int,
    sign: float,
) -> None:
    """`(x_i +- x_j) * x_k`."""
    base = x[:, i] + sign * x[:, j]
    right = _equal(base[:, None] * x, y[:, None])
    for k in np.flatnonzero(right.sum(0) >= max(3, SHARE * len(y))):
        parts = ((1.0, (names[i], names[k])), (sign, (names[j], names[k])))
        _keep(found, Linear(parts), right[:, k], y, i + j + int(k))


def _three(x: np.ndarray, names: list[str], y: np.ndarray, found: dict[Term, tuple[int, int]]) -> None:
    n, least = len(names), max(3, SHARE * len(y))
    for i in range(n):
        for j in range(n):
            if i == j:
                continue
            for sign in (1.0, -1.0):
                rest = y - (x[:, i] + sign * x[:, j])
                if sign < 0 or i < j:
                    _scaled(x, names, y, found, i, j, sign)
                for other in (1.0, -1.0):
                    right = _equal(other * x[:, j + 1 :], rest[:, None])
                    for k in np.flatnonzero(right.sum(0) >= least) + j + 1:
                        if k != i:
                            parts = ((1.0, (names[i],)), (sign, (names[j],)), (other, (names[k],)))
                            _keep(found, Linear(parts), right[:, k - j - 1], y, i + j + int(k))
            for sign in (1.0, -1.0):
                right = _equal(x[:, [i]] + sign * x[:, [j]] * x[:, j:], y[:, None])
                for k in np.flatnonzero(right.sum(0) >= least) + j:
                    parts2 = ((1.0, (names[i],)), (sign, (names[j], names[k])))
                    _keep(found, Linear(parts2), right[:, k - j], y, i + j + int(k))
