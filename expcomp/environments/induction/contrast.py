"""Decision lists: conditions that tell classes, or ways of computing a value, apart (separate and conquer on counts)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Case", "decide"]

MISS = 5.0
"""What one wrong row costs, in right rows, when a case is chosen."""
MIN_HITS, MIN_GROUPS = 2, 2
MAX_CASES = 14
FEW = 12


@dataclass(frozen=True, slots=True)
class Case:
    """One case of a list: positions of predicate and term, training rows it decided, rows it got right."""

    predicate: int
    term: int
    n: int
    hits: int


def decide(
    truth: np.ndarray,
    cost: np.ndarray,
    hits: np.ndarray,
    known: np.ndarray,
    term_cost: Sequence[float],
    groups: np.ndarray,
) -> list[Case]:
    """A first-match list of (predicate, term).

    Args:
        truth: Rows by predicates; column 0 is always true.
        cost: Cost of each predicate.
        hits: Rows by terms: the term gives the right value.
        known: Rows by terms: the term gives a value.
        term_cost: Cost of each term.
        groups: Family of each row.

    A case needs two right rows of two families unless it is the last word.
    """
    keep = _distinct(truth, cost)
    told = truth[:, keep]
    left = np.ones(len(truth), bool)
    p32, h32, k32 = told.astype(np.float32), hits.astype(np.float32), known.astype(np.float32)
    prior = 0.05 * (cost[keep][:, None] + np.asarray(term_cost, np.float32)[None, :])
    right, tried = p32.T @ h32, p32.T @ k32
    cases: list[Case] = []
    while left.any() and len(cases) < MAX_CASES:
        score = right - MISS * (tried - right) - prior
        score[right < min(MIN_HITS, int(left.sum()))] = -np.inf
        chosen = _best(score, told, hits, groups, np.flatnonzero(left))
        if chosen is None:
            last = _fallback(right, tried, prior)
            if last is not None:
                p, e = last
                cases.append(Case(int(keep[p]), e, round(float(tried[p, e])), round(float(right[p, e]))))
            break
        p, e = chosen
        cases.append(Case(int(keep[p]), e, round(float(tried[p, e])), round(float(right[p, e]))))
        done = np.flatnonzero(left & told[:, p] & known[:, e])
        left[done] = False
        right -= p32[done].T @ h32[done]
        tried -= p32[done].T @ k32[done]
    return cases


def _distinct(truth: np.ndarray, cost: np.ndarray) -> np.ndarray:
    """Positions of predicates that hold in different rows, the cheapest of each; the first is always kept."""
    packed = np.packbits(truth, axis=0).T
    best: dict[bytes, int] = {}
    for place, bits in enumerate(packed):
        key = bits.tobytes()
        if key not in best or (cost[place] < cost[best[key]] and best[key] != 0):
            best[key] = place
    return np.array(sorted(best.values()), int)


def _best(
    score: np.ndarray, truth: np.ndarray, hits: np.ndarray, groups: np.ndarray, rows: np.ndarray
) -> tuple[int, int] | None:
    """The best pair of positive score that families agree on; only the few best are looked at."""
    needed = _several(groups[rows])
    for _ in range(FEW):
        place = int(np.argmax(score))
        p, e = divmod(place, score.shape[1])
        if not score[p, e] > 0:
            return None
        if _several(groups[rows][truth[rows, p] & hits[rows, e]]) >= needed:
            return p, e
        score[p, e] = -np.inf
    return None


def _several(groups: np.ndarray) -> int:
    """Distinct families, at most MIN_GROUPS."""
    return min(MIN_GROUPS, len(set(groups.tolist())))


def _fallback(right: np.ndarray, tried: np.ndarray, prior: np.ndarray) -> tuple[int, int] | None:
    """What is right most often of what is left, without a condition."""
    score = right[0] - 0.2 * (tried[0] - right[0]) - prior[0]
    term = int(np.argmax(score))
    return (0, term) if right[0, term] > 0 else None
