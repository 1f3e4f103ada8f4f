"""What is refused, and under which reason."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from expcomp.errors import StatsError
from expcomp.stats import inputs
from expcomp.stats.binary import mcnemar, risk_difference
from expcomp.stats.bootstrap import bootstrap_exhaustive_clusters, bootstrap_exhaustive_mean, bootstrap_monte_carlo
from expcomp.stats.clusters import clustered_se
from expcomp.stats.exact import cluster_sign_flip, exact_paired_tests
from expcomp.stats.means import mean_se
from expcomp.stats.noninferiority import noninferiority_binary, noninferiority_mean
from expcomp.stats.paired import paired_clustered, paired_difference
from expcomp.stats.proportions import proportion_ci
from expcomp.stats.trials import tasks_with_trials

NAN = float("nan")
# Third column of a case: the reason under which the call is refused.
REFUSED = {
    "one score": (mean_se, ([0.5],), "too_few_units"),
    "no score": (mean_se, ([],), "too_few_units"),
    "equal scores": (mean_se, ([0.3, 0.3, 0.3],), "zero_width"),
    "NaN": (mean_se, ([0.3, NAN, 0.3],), "non_finite"),
    "infinity": (mean_se, ([0.3, float("inf")],), "non_finite"),
    "None": (mean_se, ([0.3, None, 0.4],), "non_finite"),
    "null": (mean_se, (pl.Series([0.3, None, 0.4]),), "non_finite"),
    "text": (mean_se, (["high", "low"],), "non_finite"),
    "table": (mean_se, (np.ones((2, 2)),), "lengths_differ"),
    "unpaired": (paired_difference, ([1, 0, 1], [1, 0]), "lengths_differ"),
    "equal differences": (paired_difference, ([0.3, 0.5, 0.1], [0.4, 0.6, 0.2]), "zero_width"),
    "no difference": (paired_difference, ([0.3, 0.5], [0.3, 0.5]), "zero_width"),
    "one cluster": (clustered_se, ([0.3, 0.5, 0.1], ["a", "a", "a"]), "too_few_clusters"),
    "no label": (clustered_se, ([0.3, 0.5, 0.1], ["a", None, "b"]), "non_finite"),
    "mixed labels": (clustered_se, ([0.3, 0.5], [1, "1"]), "bad_labels"),
    "labels missing": (clustered_se, ([0.3, 0.5, 0.1], ["a", "b"]), "lengths_differ"),
    "equal clusters": (clustered_se, ([0.1, 0.3, 0.2, 0.2], ["a", "a", "b", "b"]), "zero_width"),
    "clusters of pairs": (paired_clustered, ([0.1, 0.3], [0.2, 0.2], ["a", "a"]), "too_few_clusters"),
    "one task": (tasks_with_trials, ([[1, 0]], [[1, 1]]), "too_few_units"),
    "no task": (tasks_with_trials, ([], []), "too_few_units"),
    "empty task": (tasks_with_trials, ([[1, 0], []], [[1, 1], [0]]), "too_few_units"),
    "other tasks": (tasks_with_trials, ([[1, 0], [1]], [[1, 1], [0], [0]]), "lengths_differ"),
    "equal tasks": (tasks_with_trials, ([[1, 0], [1, 0]], [[0, 1], [0, 1]]), "zero_width"),
    "no trial": (proportion_ci, (0, 0), "too_few_units"),
    "more than all": (proportion_ci, (3, 2), "bad_counts"),
    "half a success": (proportion_ci, (0.5, 2), "bad_counts"),
    "negative": (mcnemar, (-1, 2), "bad_counts"),
    "empty table": (risk_difference, (0, 0, 0, 0), "too_few_units"),
    "NaN count": (risk_difference, (NAN, 0, 0, 1), "bad_counts"),
    "no unit": (exact_paired_tests, ([],), "too_few_units"),
    "too many flips": (exact_paired_tests, (np.arange(1.0, 42.0),), "too_many_units"),
    "one cluster to flip": (cluster_sign_flip, ([0.1, 0.2], ["a", "a"]), "too_few_clusters"),
    "too many resamples": (bootstrap_exhaustive_mean, (np.arange(12.0),), "too_many_units"),
    "nothing to resample": (bootstrap_exhaustive_mean, ([0.2, 0.2],), "zero_width"),
    "empty cluster": (bootstrap_exhaustive_clusters, ([0.2, 0.3], [1, 0]), "bad_counts"),
    "nothing to draw": (bootstrap_monte_carlo, ([0.2, 0.2],), "zero_width"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_computed_is_refused_with_its_reason(case):
    function, arguments, reason = REFUSED[case]
    with pytest.raises(StatsError) as refused:
        function(*arguments)
    assert refused.value.reason == reason
    assert inputs.REASONS[reason] in str(refused.value)


OPTIONS = {
    "confidence": lambda c: mean_se([1, 0, 1], confidence=c),
    "of a table": lambda c: risk_difference(1, 2, 3, 4, confidence=c),
    "of trials": lambda c: tasks_with_trials([[1], [0]], [[1], [1]], confidence=c),
    "of resamples": lambda c: bootstrap_monte_carlo([1, 0, 1], confidence=c),
    "of all resamples": lambda c: bootstrap_exhaustive_mean([1, 0, 1], confidence=c),
    "one-sided": lambda c: noninferiority_mean([1, 0, 1], [1, 1, 0], margin=0.1, confidence=c),
    "one-sided of a table": lambda c: noninferiority_binary(1, 2, 3, 4, margin=0.1, confidence=c),
}


@pytest.mark.parametrize("confidence", [0, 1, 95, -0.5, NAN])
@pytest.mark.parametrize("call", OPTIONS)
def test_a_confidence_outside_its_range_is_refused(call, confidence):
    with pytest.raises(StatsError) as refused:
        OPTIONS[call](confidence)
    assert refused.value.reason == "bad_option"


@pytest.mark.parametrize("margin", [0, -0.1, NAN, float("inf")])
def test_a_margin_that_is_no_margin_is_refused(margin):
    with pytest.raises(StatsError, match="margin"):
        noninferiority_mean([1, 0, 1], [1, 1, 0], margin=margin)
    with pytest.raises(StatsError, match="margin"):
        noninferiority_binary(1, 2, 3, 4, margin=margin)


def test_a_refusal_says_which_value_it_met():
    with pytest.raises(StatsError, match=r"candidate\[1\] is nan"):
        paired_difference([1, 2], [1, NAN])


def test_an_unknown_reason_is_a_mistake_of_the_caller():
    with pytest.raises(KeyError):
        inputs.refuse("no such reason", "x")


@pytest.mark.parametrize(
    "values",
    [[1, 0, 1], (True, False, True), np.array([1, 0, 1]), pl.Series([1, 0, 1]), pl.Series([True, False, True])],
)
def test_a_column_may_be_a_series_an_array_or_a_sequence(values):
    assert mean_se(values) == mean_se([1.0, 0.0, 1.0])


def test_labels_may_be_of_any_one_type():
    scores = [0.1, 0.5, 0.3, 0.9]
    expected = clustered_se(scores, [0, 0, 1, 1])
    for labels in (
        ["x", "x", "y", "y"],
        pl.Series(["b", "b", "a", "a"], dtype=pl.Categorical),
        np.array([7, 7, -1, -1]),
    ):
        assert clustered_se(scores, labels).se_cr1 == pytest.approx(expected.se_cr1, rel=1e-12)


@pytest.mark.parametrize("unit", [1e-300, 1e-170, 1e160, 1e300])
def test_numbers_whose_squares_no_float_holds_are_refused(unit):
    far = np.array([1.0, 2.0, 4.0, 3.0]) * unit
    for call in (
        lambda: mean_se(far),
        lambda: paired_difference(np.zeros(4), far),
        lambda: clustered_se(far, [0, 0, 1, 1]),
    ):
        with pytest.raises(StatsError, match="cannot be squared"):
            call()


def test_clusters_that_differ_by_the_rounding_of_the_scores_only_are_refused():
    base = np.random.default_rng(1).random(40)
    gain = np.tile([0.0011, 0.0009], 20)  # 0.001 in every cluster of two
    with pytest.raises(StatsError, match="equal means"):
        paired_clustered(base, base + gain, np.repeat(np.arange(20), 2))
