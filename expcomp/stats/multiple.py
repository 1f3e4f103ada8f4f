"""Several comparisons at once: adjusted p-values for claims, adjusted confidence for intervals that hold together."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from expcomp.stats.inputs import level, refuse
from expcomp.stats.numbers import between, whole, within

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from expcomp.stats.inputs import Floats, Numbers

Method = Literal["bonferroni", "holm", "hommel", "simes_hochberg", "fdr_bh", "fdr_by"]
METHODS: tuple[Method, ...] = get_args(Method)


class Adjusted(NamedTuple):
    """p-values adjusted for their number, in the order given.

    Attributes:
        adjusted: Adjusted p-values, at most 1.
        reject: Whether each hypothesis is rejected at alpha.
    """

    adjusted: Floats
    reject: NDArray[np.bool_]


def adjust(p_values: Numbers, *, method: Method = "holm", alpha: float = 0.05) -> Adjusted:
    """p-values of one family of comparisons, adjusted by `statsmodels.stats.multitest.multipletests`.

    Args:
        p_values: One a comparison.
        method: `holm` (the default, for claims) and `bonferroni` hold the family-wise error rate under any dependence, `hommel` and
            `simes_hochberg` under independence or positive dependence; `fdr_bh` holds the false discovery rate under the same (the
            default for guards), `fdr_by` under any dependence.
        alpha: Rate to hold.

    Raises:
        StatsError: No p-values, one outside [0, 1] or missing, alpha not between 0 and 1, an unknown method.
    """
    from statsmodels.stats.multitest import multipletests

    if method not in METHODS:
        raise refuse("bad_option", f"method is {method!r}; use one of {', '.join(METHODS)}")
    values, alpha = within("p_values", p_values, 0, 1), between("alpha", alpha, 0, 1)
    reject, adjusted, _, _ = multipletests(values, alpha=alpha, method=method.replace("simes_", "simes-"))
    return Adjusted(adjusted, reject)


def simultaneous_confidence(confidence: float, comparisons: int) -> float:
    """Confidence of each of m intervals that hold together at `confidence`: `1 - (1 - confidence) / m` (Bonferroni).

    Raises:
        StatsError: Confidence not between 0 and 1, or no comparison.
    """
    m = int(whole("comparisons", comparisons, low=1))
    return 1 - (1 - level(confidence)) / m


def resamples_needed(confidence: float, comparisons: int = 1) -> int:
    """Resamples without which the tails of m simultaneous intervals are empty: `2 m / (1 - confidence)`, rounded up.

    Raises:
        StatsError: As `simultaneous_confidence`.
    """
    each = simultaneous_confidence(confidence, comparisons)
    return ceil(2 / (1 - each) - 1e-6)
