"""pass@k, pass^k, G-Pass@k and best-of-k of one task or many: unbiased over all k-subsets of the trials a task has.

Shapes broadcast as numpy does: counts of many tasks against one k, or against a column of them. Numbers in, a float out; arrays in, an
array out. The `_expr` forms say the same inside a Polars `group_by` and give null where a task has fewer than k trials. Curves over k
with intervals over tasks are in `curves`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from expcomp.stats.inputs import finite, refuse, same_length
from expcomp.stats.numbers import between, whole

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import ArrayLike

    from expcomp.stats.inputs import Floats, Ints, Numbers

CELLS = 2_000_000  # factors held at once: 16 MB an array


class OfK(NamedTuple):
    """Expected rewards over all k-subsets of a task's trials.

    Attributes:
        best: Expected greatest reward of k.
        worst: Expected smallest reward of k.
        mean: Mean reward, the same for every k.
    """

    best: float
    worst: float
    mean: float


def pass_at_k(n: ArrayLike, c: ArrayLike, k: ArrayLike) -> Floats | float:
    """Chance that at least one of k trials passes: `1 - C(n-c, k) / C(n, k)` (Chen et al. 2021, arXiv 2107.03374).

    Args:
        n: Trials of each task.
        c: How many of them passed.
        k: Draws, at most n.

    Raises:
        StatsError: Counts that are not whole, c above n, k above n or below 1.
    """
    n, c, k = _counts(n, c, k)
    return _out(-np.expm1(_log_subsets(n, n - c, k)))


def pass_hat_k(n: ArrayLike, c: ArrayLike, k: ArrayLike) -> Floats | float:
    """Chance that all of k trials pass, pass^k: `C(c, k) / C(n, k)` of each task (Yao et al. 2024, tau-bench, arXiv 2406.12045).

    The figure of a benchmark is the mean over its tasks. Arguments and errors as `pass_at_k`.
    """
    n, c, k = _counts(n, c, k)
    return _out(np.exp(_log_subsets(n, c, k)))


def g_pass_at_k(n: ArrayLike, c: ArrayLike, k: ArrayLike, tau: float) -> Floats | float:
    """Chance that at least `ceil(tau k)` of k trials pass, a hypergeometric tail (Liu et al. 2024, G-Pass@k, arXiv 2412.13147).

    `tau = 1` is pass^k, a tau of at most 1/k is pass@k.

    Raises:
        StatsError: As `pass_at_k`, or tau outside (0, 1].
    """
    from scipy.stats import hypergeom

    n, c, k = _counts(n, c, k)
    if tau != 1:
        between("tau", tau, 0, 1)
    needed = np.ceil(tau * k - 1e-9)  # 0.55 * 20 is 11.000000000000002 in binary
    return _out(hypergeom.sf(needed - 1, n, c, k))


def best_of_k(rewards: Numbers, k: int) -> OfK:
    """Expected best and worst of k trials of one task: rewards in order, rank i of n (from 0) weighted by `C(i, k-1) / C(n, k)`.

    Args:
        rewards: One reward a trial.
        k: Draws, at most the number of trials.

    Raises:
        StatsError: No rewards, one that is not finite, k above their number or below 1.
    """
    ordered = np.sort(finite(rewards, "rewards"))
    weights = subset_weights(ordered.size, k)
    return OfK(float(weights @ ordered), float(weights @ ordered[::-1]), float(ordered.mean()))


def best_of_k_by_proxy(proxy: Numbers, true_reward: Numbers, k: int) -> float:
    """Expected true reward of the trial that a proxy ranks first among k: a reward model, a judge, a vote.

    Trials in order of the proxy, the true reward of rank i of n weighted by `C(i, k-1) / C(n, k)`. Trials of equal proxy share their
    mean true reward: what a choice among them by lot gives.

    Raises:
        StatsError: Lengths differ, no trials, a value that is not finite, k above their number or below 1.
    """
    scores, rewards = finite(proxy, "proxy"), finite(true_reward, "true_reward")
    same_length(scores.size, rewards.size, "proxy", "true_reward")
    _, tie = np.unique(scores, return_inverse=True)
    shared = np.bincount(tie, weights=rewards) / np.bincount(tie)
    return float(subset_weights(scores.size, k) @ shared[np.sort(tie)])


def subset_weights(n: int, k: int) -> Floats:
    """Chance that the trial of rank i (0 the smallest) is the greatest of a k-subset of n: `C(i, k-1) / C(n, k)`, n values.

    Raises:
        StatsError: k is not between 1 and n.
    """
    n, k = int(whole("n", n, low=1)), int(whole("k", k, low=1))
    if k > n:
        raise refuse("bad_counts", f"k is {k} draws out of {n} trials; choose k up to {n} or run more trials")
    weights = np.zeros(n)
    rank = np.arange(n - 1, k - 1, -1)
    # From the top down, each weight is the one above it times a factor: no binomial is ever formed.
    weights[k - 1 :] = (k / n * np.concatenate(([1.0], np.cumprod((rank - k + 1) / rank))))[::-1]
    return weights


def pass_at_k_expr(n: pl.Expr, c: pl.Expr, k: int) -> pl.Expr:
    """`pass_at_k` of count columns; null where n is below k. k factors: for k up to a few hundred."""
    return 1 - pass_hat_k_expr(n, n - c, k)


def pass_hat_k_expr(n: pl.Expr, c: pl.Expr, k: int) -> pl.Expr:
    """`pass_hat_k` of count columns; null where n is below k. k factors: for k up to a few hundred."""
    import polars as pl

    k = int(whole("k", k, low=1))
    n, c = n.cast(pl.Int64), c.cast(pl.Int64)
    share: pl.Expr = pl.lit(1.0)
    for drawn in range(k):
        share *= (c - drawn).clip(0) / (n - drawn)
    return pl.when(n >= k).then(share)


def best_of_k_expr(reward: pl.Expr, k: int) -> pl.Expr:
    """`best_of_k(...).best` of a reward column, one value a group; null where a group has fewer than k rewards that are not null."""
    import polars as pl

    k = int(whole("k", k, low=1))
    ordered = reward.drop_nulls().sort()
    n = ordered.len().cast(pl.Int64)
    rank = pl.int_range(0, n, dtype=pl.Int64)
    weight: pl.Expr = k / n.cast(pl.Float64)
    for drawn in range(k - 1):
        weight *= (rank - drawn).clip(0) / (n - 1 - drawn)
    return pl.when(n >= k).then((ordered * weight).sum())


def _counts(n: ArrayLike, c: ArrayLike, k: ArrayLike) -> tuple[Ints, Ints, Ints]:
    try:
        trials, passed, drawn = np.broadcast_arrays(whole("n", n, low=1), whole("c", c), whole("k", k, low=1))
    except ValueError as error:
        raise refuse("lengths_differ", f"the shapes of n, c and k do not fit together: {error}") from error
    for name, bad, why in (
        ("c", passed > trials, "passed of {} trials; c counts the passing trials among n"),
        ("k", drawn > trials, "draws out of {} trials; choose k up to n, or leave such tasks out and count them"),
    ):
        if bad.any():
            value = (passed if name == "c" else drawn)[bad].flat[0]
            raise refuse("bad_counts", f"{name} is {value} {why.format(trials[bad].flat[0])}")
    return trials, passed, drawn


def _log_subsets(n: Ints, m: Ints, k: Ints) -> Floats:
    """`log(C(m, k) / C(n, k))`, of the shape of the three; -inf where m is below k.

    With r = n - m the ratio is a product of min(k, r) factors `1 - max(k, r) / (n - j)`; their logs have one sign, so the sum is exact
    to rounding at any n.
    """
    short, long = np.minimum(k, n - m), np.maximum(k, n - m)
    total = np.zeros(n.shape)
    most = int(short.max(initial=0))
    block = max(1, CELLS // max(1, n.size))
    for start in range(0, most, block):
        step = np.arange(start, min(start + block, most))
        left = np.maximum(n[..., None] - step, 1)
        open_ = step < short[..., None]
        over = np.where(open_, long[..., None], 0)
        rest = np.where(open_, np.maximum(left - over, 0), left)
        with np.errstate(divide="ignore"):
            # Whichever of the two is exact: the log of a factor near 1, or of one near 0.
            total += np.where(rest > over, np.log1p(-np.minimum(over / left, 1)), np.log(rest / left)).sum(axis=-1)
    return total


def _out(values: Floats) -> Floats | float:
    return values if np.ndim(values) else float(values)
