"""Tasks with trials: the task is the unit."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from expcomp.errors import StatsError
from expcomp.stats.paired import paired_difference
from expcomp.stats.trials import tasks_with_trials
from tests.stats.samples import arms


def close(x):
    return pytest.approx(x, rel=1e-9, abs=1e-12)


@given(arms())
def test_one_trial_a_task_is_a_paired_difference_without_a_within_variance(sample):
    a, b = sample
    trials, plain = tasks_with_trials(a[:, None], b[:, None], predict=[2]), paired_difference(a, b)
    assert (trials.mean, trials.se, *trials.t, trials.p_two_sided) == close(
        (plain.mean, plain.se, *plain.t, plain.p_two_sided)
    )
    assert trials.within_variance == (None, None)
    assert (trials.noise_variance, trials.between_variance, trials.predicted_se) == (None, None, {})


@given(arms(), st.integers(2, 5))
def test_repeating_every_trial_leaves_the_standard_error_alone(sample, times):
    a, b = sample
    once, often = (
        tasks_with_trials(np.repeat(a[:, None], k, axis=1), np.repeat(b[:, None], k, axis=1)) for k in (1, times)
    )
    assert (often.mean, often.se, often.df) == close((once.mean, once.se, once.df))
    assert often.within_variance == close((0.0, 0.0))
    assert often.between_variance == close(often.se**2 * often.tasks)


@given(st.lists(st.tuples(*[st.lists(st.integers(0, 1), min_size=2, max_size=6)] * 2), min_size=2, max_size=12))
def test_formulas_by_hand_on_ragged_trials(tasks):
    baseline, candidate = (list(side) for side in zip(*tasks, strict=True))
    d = np.array([np.mean(b) - np.mean(a) for a, b in tasks])
    if np.ptp(d) < 1e-9:
        with pytest.raises(StatsError):
            tasks_with_trials(baseline, candidate)
        return
    result = tasks_with_trials(baseline, candidate, predict=[1, 7])
    va, vb = (np.array([np.var(t, ddof=1) for t in side]) for side in (baseline, candidate))
    noise = np.mean([v / len(t) for v, t in zip(va, baseline, strict=True)]) + np.mean(
        [v / len(t) for v, t in zip(vb, candidate, strict=True)]
    )
    omega = max(0.0, np.var(d, ddof=1) - noise)
    assert result.task_differences == close(d)
    assert (result.noise_variance, result.between_variance) == close((noise, omega))
    for k in (1, 7):
        assert result.predicted_se[k] == close(np.sqrt((omega + va.mean() / k + vb.mean() / k) / len(tasks)))
    assert result.trial_weighted_mean == close(np.mean(np.concatenate(candidate)) - np.mean(np.concatenate(baseline)))
    assert result.trials == (sum(map(len, baseline)), sum(map(len, candidate)))


def test_an_arm_with_a_single_trial_somewhere_has_no_within_variance():
    result = tasks_with_trials([[1, 0], [1]], [[1, 1], [0, 0]])
    assert result.within_variance == (None, 0.0)
    assert result.between_variance is None


def test_list_series_are_taken_as_they_are():
    baseline, candidate = [[1, 0, 1], [0, 0]], [[1, 1], [0, 1, 1]]
    lists = tasks_with_trials(baseline, candidate)
    series = tasks_with_trials(pl.Series(baseline), pl.Series(candidate))
    assert (series.mean, series.se, series.trial_weighted_se) == (lists.mean, lists.se, lists.trial_weighted_se)


@pytest.mark.parametrize(
    "broken", [pl.Series([[1.0, None], [0.0, 1.0]]), [[1, None], [0, 1]], pl.Series([[1.0], None])]
)
def test_a_missing_trial_or_task_is_refused(broken):
    with pytest.raises(StatsError):
        tasks_with_trials(broken, [[1, 1], [0, 1]])


def test_no_prediction_for_less_than_one_trial():
    with pytest.raises(StatsError, match="at least 1"):
        tasks_with_trials([[1, 0], [0, 0]], [[1, 1], [0, 1]], predict=[0])
