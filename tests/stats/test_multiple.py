from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import false_discovery_control

from expcomp.errors import StatsError
from expcomp.stats.multiple import METHODS, adjust, resamples_needed, simultaneous_confidence

families = st.lists(st.floats(0, 1), min_size=1, max_size=12)


@settings(max_examples=30)
@given(families, st.sampled_from(METHODS))
def test_adjusting_only_makes_claims_harder_and_keeps_their_order(p, method) -> None:
    got = adjust(p, method=method)
    assert (got.adjusted >= np.array(p) - 1e-12).all()
    assert (got.adjusted <= 1).all()
    order = np.argsort(p, kind="stable")
    assert (np.diff(got.adjusted[order]) >= -1e-12).all()


@settings(max_examples=40)
@given(families, st.sampled_from(METHODS), st.randoms(use_true_random=False))
def test_the_order_of_the_family_does_not_matter(p, method, random) -> None:
    order = list(range(len(p)))
    random.shuffle(order)
    shuffled = adjust([p[i] for i in order], method=method).adjusted
    np.testing.assert_allclose(shuffled, adjust(p, method=method).adjusted[order], atol=1e-12)


@settings(max_examples=10)
@given(families)
def test_stricter_methods_claim_no_more(p) -> None:
    by = {m: adjust(p, method=m).adjusted for m in METHODS}
    for strict, loose in (
        ("bonferroni", "holm"),
        ("holm", "simes_hochberg"),
        ("simes_hochberg", "hommel"),
        ("fdr_by", "fdr_bh"),
    ):
        assert (by[strict] >= by[loose] - 1e-9).all(), (strict, loose)


@given(families)
def test_benjamini_hochberg_is_that_of_scipy(p) -> None:
    np.testing.assert_allclose(adjust(p, method="fdr_bh").adjusted, false_discovery_control(p), atol=1e-12)


def test_one_comparison_stays_as_it_is() -> None:
    for method in METHODS:
        assert adjust([0.03], method=method).adjusted.tolist() == pytest.approx([0.03])
    assert simultaneous_confidence(0.95, 1) == pytest.approx(0.95)


@pytest.mark.parametrize(
    ("p", "options", "what"),
    [
        ([], {}, "p_values has 0 values"),
        ([0.1, 1.2], {}, r"p_values\[1\] is 1.2"),
        ([0.1, None], {}, r"p_values\[1\] is nan"),
        ([0.1], {"method": "sidak"}, "method is 'sidak'; use one of bonferroni"),
        ([0.1], {"alpha": 0}, "alpha"),
    ],
)
def test_what_is_no_family_is_refused(p, options, what) -> None:
    with pytest.raises(StatsError, match=what):
        adjust(p, **options)


def test_simultaneous_intervals_share_the_error() -> None:
    assert simultaneous_confidence(0.95, 5) == pytest.approx(0.99)
    assert (resamples_needed(0.95), resamples_needed(0.95, 5), resamples_needed(0.99, 3)) == (40, 200, 600)
    with pytest.raises(StatsError, match="comparisons"):
        simultaneous_confidence(0.95, 0)
    with pytest.raises(StatsError, match="confidence"):
        resamples_needed(1.0)
