from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from expcomp.errors import StatsError
from expcomp.stats.batch import paired_means
from expcomp.stats.curves import k_curves
from expcomp.stats.passk import best_of_k, pass_at_k, pass_hat_k


def trials(tasks=9, each=4, seed=0, **extra):
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(tasks), each)
    score = rng.random(tasks * each)
    return pl.DataFrame({"task_id": task, "score": score, "passed": score > rng.random(tasks)[task]} | extra)


def lists(frame, column):
    return frame.group_by("task_id", maintain_order=True).agg(column)[column].to_list()


@pytest.mark.parametrize(("estimator", "function"), [("pass_at_k", pass_at_k), ("pass_hat_k", pass_hat_k)])
def test_a_point_is_the_mean_over_tasks_with_the_interval_of_that_mean(estimator, function) -> None:
    frame = trials()
    curve = k_curves(frame, estimator=estimator)
    assert curve["k"].to_list() == [1, 2, 3, 4]
    each = [[function(4, sum(task), k) for task in lists(frame, "passed")] for k in range(1, 5)]
    np.testing.assert_allclose(curve["estimate"], np.mean(each, axis=1))
    bounds = paired_means(each).select(pl.col("low", "high").clip(0, 1))
    np.testing.assert_allclose(curve.select("low", "high"), bounds)
    assert (curve["tasks"] == 9).all()
    assert (curve["left_out"] == 0).all()


@pytest.mark.parametrize(("estimator", "part"), [("best_of_k", "best"), ("worst_of_k", "worst")])
def test_rewards_have_curves_of_their_best_and_worst(estimator, part) -> None:
    frame = trials()
    curve = k_curves(frame, estimator=estimator, value="score", ks=[1, 3])
    each = [[getattr(best_of_k(task, k), part) for task in lists(frame, "score")] for k in (1, 3)]
    np.testing.assert_allclose(curve["estimate"], np.mean(each, axis=1))
    assert (curve["low"] < curve["estimate"]).all()
    assert (curve["high"] > curve["estimate"]).all()


def test_pass_at_k_rises_and_pass_hat_k_falls_from_the_same_pass_rate() -> None:
    frame = trials()
    at, hat = (k_curves(frame, estimator=e)["estimate"].to_numpy() for e in ("pass_at_k", "pass_hat_k"))
    assert at[0] == pytest.approx(hat[0])
    assert at[0] == pytest.approx(frame["passed"].mean())
    assert (np.diff(at) >= 0).all()
    assert (np.diff(hat) <= 0).all()


def test_each_group_has_its_own_curve_as_if_it_were_alone() -> None:
    old, new = trials(seed=1), trials(seed=2)
    both = pl.concat([new.with_columns(arm=pl.lit("new")), old.with_columns(arm=pl.lit("old"))])
    curves = k_curves(both.lazy(), by="arm")
    assert curves["arm"].to_list() == ["new"] * 4 + ["old"] * 4
    for arm, alone in (("new", new), ("old", old)):
        assert curves.filter(arm=arm).drop("arm").equals(k_curves(alone))


def test_trials_without_a_verdict_and_tasks_with_too_few_are_left_out_and_counted() -> None:
    frame = trials().with_columns(
        passed=pl.when((pl.col("task_id") == 0) | ((pl.col("task_id") == 1) & (pl.int_range(pl.len()) % 2 == 0)))
        .then(None)
        .otherwise("passed")
    )
    assert k_curves(frame)["k"].to_list() == [1, 2]
    wide = k_curves(frame, ks=[2, 3, 5])
    assert wide["tasks"].to_list() == [8, 7, 0]
    assert wide["left_out"].to_list() == [1, 2, 9]
    assert wide["estimate"].is_null().to_list() == [False, False, True]
    assert wide["reason"].to_list() == [None, None, "too_few_units"]
    ranked = k_curves(frame, estimator="best_of_k", ks=[2, 3, 5])
    assert ranked["left_out"].to_list() == [1, 2, 9]


def test_tasks_that_do_not_differ_have_an_estimate_and_no_interval() -> None:
    curve = k_curves(trials().with_columns(passed=True))
    assert (curve["estimate"] == 1).all()
    assert curve["low"].null_count() == 4
    assert (curve["reason"] == "zero_width").all()


def test_the_order_of_rows_does_not_matter() -> None:
    frame = trials(arm=["a", "b"] * 18)
    shuffled = frame.sample(fraction=1, shuffle=True, seed=5)
    one, other = k_curves(frame, by=["arm"]), k_curves(shuffled, by=["arm"])
    for column in ("k", "tasks", "left_out", "estimate", "low", "high"):
        np.testing.assert_allclose(one[column], other[column], rtol=1e-12)


@pytest.mark.parametrize(
    ("frame", "options", "what"),
    [
        (trials(), {"value": "score"}, "neither 0 nor 1"),
        (trials().with_columns(passed=pl.lit(float("nan"))), {}, "passed"),
        (trials().with_columns(passed=pl.lit(None, pl.Boolean)), {}, "no trial has a value of passed"),
        (trials(), {"ks": [0]}, r"ks\[0\] is 0"),
    ],
)
def test_what_has_no_curve_is_refused(frame, options, what) -> None:
    with pytest.raises(StatsError, match=what):
        k_curves(frame, **options)
