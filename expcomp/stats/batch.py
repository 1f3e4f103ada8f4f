"""Many comparisons at once: the intervals and tests to decide on, one row a comparison."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from expcomp.stats import binary
from expcomp.stats.bootstrap import enough
from expcomp.stats.flat import LabelLists, Lists, single_units, whole_clusters
from expcomp.stats.inputs import Floats, Numbers, Scale, level, refuse, same_length
from expcomp.stats.tango import tango_limits
from expcomp.stats.unit_means import unit_means


class Limits(NamedTuple):
    """Lower and upper limits, shape (m,)."""

    low: Floats
    high: Floats


def paired_means(
    differences: Lists,
    *,
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
    scale: Scale = None,
) -> pl.DataFrame:
    """Mean differences with `low = min(t, BCa)` and `high = max(t, BCa)`: Student's t, widened where the data are skewed.

    The interval depends on a comparison's own differences and on confidence, resamples and seed alone, neither on the order of the
    units nor on the batch; the negated differences give the negated interval.

    Args:
        differences: Candidate minus baseline by unit: a list Series, a 2-D array or a sequence of columns, one a comparison.
        confidence: Of the intervals.
        resamples: Bootstrap resamples, at least `2 / (1 - confidence)`.
        seed: Of the resamples, at least 0.
        scale: Magnitude of the scores that were subtracted, one for all comparisons or one for each: differences that differ by its
            rounding only are equal. By default the largest absolute difference of each.

    Returns:
        One row a comparison: `n`, `mean`, `sd` (n - 1), `se`, `t`, `df`, `p_two_sided`, `low_t`, `high_t`, `low_bca`, `high_bca`,
        `low`, `high`, `degenerate` and `reason` (a key of `inputs.REASONS`). A degenerate comparison (a non-finite difference, fewer
        than 2 units, or all of them equal) has its reason and neither spread, test nor interval; its mean is given when its
        differences are equal. BCa limits are null, and t stands alone, where all resamples lie on one side.

    Raises:
        StatsError: Confidence, resamples or seed outside their range.
    """
    enough(resamples, confidence)
    units = single_units(differences)
    frame = unit_means(units, confidence=confidence, resamples=resamples, seed=seed, scale=scale)
    n = pl.Series("n", units.count)
    return frame.select(n, "mean", (pl.col("se") * n.sqrt()).alias("sd"), pl.exclude("mean"))


def clustered_means(
    differences: Lists,
    clusters: LabelLists,
    *,
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
    scale: Scale = None,
) -> pl.DataFrame:
    """`paired_means` of units that come in clusters: CR1 standard error, t with G - 1 degrees of freedom, bootstrap of whole clusters.

    Args:
        differences: As in `paired_means`.
        clusters: The cluster of each unit, in the same shape; labels of one comparison say nothing about another.
        confidence: Of the intervals.
        resamples: Bootstrap resamples, at least `2 / (1 - confidence)`.
        seed: Of the resamples, at least 0.
        scale: As in `paired_means`.

    Returns:
        The columns of `paired_means` without `sd`, and `clusters` (G) after `n`; `se` is `clustered_se`'s `se_cr1`.

    Raises:
        StatsError: As `paired_means`, or a comparison has not one label for each unit.
    """
    enough(resamples, confidence)
    units = whole_clusters(differences, clusters)
    frame = unit_means(units, confidence=confidence, resamples=resamples, seed=seed, scale=scale)
    return frame.select(pl.Series("n", units.values), pl.Series("clusters", units.count), pl.all())


def tango(b: Numbers, c: Numbers, n: Numbers, *, confidence: float = 0.95) -> Limits:
    """Tango's score interval of `(b - c) / n`, as in `binary.risk_difference`.

    Args:
        b: Tasks that only the candidate passes, shape (m,).
        c: Tasks that only the baseline passes.
        n: All tasks of each comparison.
        confidence: Of the intervals.

    Raises:
        StatsError: A count that is negative or no whole number, b + c above n, or n of 0.
    """
    level(confidence)
    only_b, only_c, total = _counts(b, c, n)
    if (bad := np.flatnonzero((only_b + only_c > total) | (total < 1))).size:
        i = bad[0]
        raise refuse("bad_counts", f"comparison {i}: b {only_b[i]:g}, c {only_c[i]:g} of {total[i]:g} tasks")
    return Limits(*tango_limits(only_b, only_c, total, confidence))


def mcnemar_mid_p(b: Numbers, c: Numbers) -> Floats:
    """McNemar's mid-p, as in `binary.mcnemar`, shape (m,).

    Raises:
        StatsError: A count that is negative or no whole number.
    """
    only_b, only_c = _counts(b, c)
    return np.asarray(binary.mid_p(only_b, only_c))


def wilson(successes: Numbers, n: Numbers, *, confidence: float = 0.95) -> Limits:
    """Wilson's interval of `successes / n` (`statsmodels proportion_confint`).

    Raises:
        StatsError: A count that is negative or no whole number, more successes than trials, or no trial.
    """
    from statsmodels.stats.proportion import proportion_confint

    level(confidence)
    k, total = _counts(successes, n)
    if (bad := np.flatnonzero((k > total) | (total < 1))).size:
        raise refuse("bad_counts", f"proportion {bad[0]}: {k[bad[0]]:g} successes of {total[bad[0]]:g}")
    low, high = proportion_confint(k, total, alpha=1 - confidence, method="wilson")
    return Limits(np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64))


def _counts(*columns: Numbers) -> tuple[Floats, ...]:
    """Columns of whole numbers of at least 0 and one length."""
    arrays = tuple(
        np.atleast_1d(np.asarray(c.to_numpy() if isinstance(c, pl.Series) else c, np.float64)) for c in columns
    )
    for array in arrays:
        same_length(arrays[0].size, array.size, "the first column of counts", "another")
        bad = np.flatnonzero(~(np.isfinite(array) & (array >= 0) & (array == np.floor(array))))
        if bad.size:
            raise refuse(
                "bad_counts", f"count {array[bad[0]]:g} of comparison {bad[0]}; use whole numbers of at least 0"
            )
    return arrays
