"""Bootstrap of statistics of sums, whole clusters drawn."""

from __future__ import annotations

import numpy as np
import pytest

from expcomp.errors import StatsError
from expcomp.stats.additive import additive_bootstrap
from expcomp.stats.inputs import Floats


def share(totals: Floats) -> Floats:
    with np.errstate(invalid="ignore"):
        found: Floats = totals[..., 0] / totals[..., 1]
    return found


def test_a_share_has_the_interval_of_its_clusters() -> None:
    rng = np.random.default_rng(5)
    hits = rng.integers(0, 11, size=40).astype(float)
    sums = np.column_stack([hits, np.full(40, 10.0)])
    low, high = additive_bootstrap(sums, share, resamples=4_000)
    mean, se = hits.mean() / 10, hits.std(ddof=1) / 10 / np.sqrt(40)
    assert low == pytest.approx(mean - 1.96 * se, abs=0.01)
    assert high == pytest.approx(mean + 1.96 * se, abs=0.01)
    assert additive_bootstrap(sums, share, resamples=4_000) == (low, high)


@pytest.mark.parametrize(
    ("sums", "reason"),
    [
        ([[1.0, 2.0]], "too_few_clusters"),
        ([[1.0, 2.0], [0.0, 0.0]], "too_few_clusters"),
        ([[1.0, 2.0], [2.0, 4.0]], "zero_width"),
        ([[1.0, np.nan], [2.0, 4.0]], "non_finite"),
    ],
)
def test_what_has_no_interval_says_why(sums: list[list[float]], reason: str) -> None:
    with pytest.raises(StatsError) as caught:
        additive_bootstrap(sums, share)
    assert caught.value.reason == reason
