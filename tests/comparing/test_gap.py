"""Solver gap: bands, what to keep for GRPO, the gap taken apart, curves."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import expcomp as xc
from expcomp.errors import UsageError
from tests.comparing.frames import noisy, scores, trials

QUICK = {"resamples": 2_000}


def gap(frame, weak="a", strong="b", **options):
    return xc.solver_gap(frame, weak, strong, **(QUICK | options))


def test_the_overall_gap_is_the_comparison_of_the_arms():
    frame = noisy(30, 3, 0.2)
    found, other = gap(frame), xc.compare(frame, "a", "b", **QUICK)
    assert (found.estimate, found.low, found.high, found.n_units) == (
        other.estimate,
        other.low,
        other.high,
        other.n_units,
    )
    single = noisy(30, 1, 0.2)
    found, other = gap(single), xc.compare(single, "a", "b", **QUICK)
    assert (found.method, found.low, found.high) == ("tango", other.low, other.high)


def test_the_frame_holds_to_its_table():
    xc.validate("solver_gap_tasks", gap(noisy(20, 3, 0.2)).frame)
    xc.validate("solver_gap_tasks", gap(noisy(20, 3, 0.2), None, None).frame)


@pytest.mark.parametrize(
    ("passes", "band", "keep", "reason"),
    [
        ([True] * 20, "too_easy", False, "all_passed"),
        ([False] * 20, "too_hard", False, "all_failed"),
        ([True, False], "learnable", True, "spread"),
        ([True] * 4, "unknown", False, "all_passed"),
        ([False] * 4, "unknown", False, "all_failed"),
        ([True], "unknown", False, "too_few_attempts"),
        ([True] * 60 + [False], "too_easy", True, "spread"),
    ],
)
def test_a_task_is_banded_by_the_bounds_of_its_pass_rate(passes, band, keep, reason):
    row = gap(trials({"a": [passes], "b": [[True]]})).frame.row(0, named=True)
    assert (row["band"], row["keep_for_grpo"], row["keep_reason"]) == (band, keep, reason)
    p = sum(passes) / len(passes)
    assert row["pass_rate"] == pytest.approx(p)
    assert row["learnability"] == (None if len(passes) < 2 else pytest.approx(4 * p * (1 - p)))
    assert row["pass_low"] <= p + 1e-12
    assert row["pass_high"] >= p - 1e-12


def test_the_bounds_are_wilson_s():
    from statsmodels.stats.proportion import proportion_confint

    row = gap(trials({"a": [[True] * 3 + [False] * 7], "b": [[True]]})).frame.row(0, named=True)
    assert (row["pass_low"], row["pass_high"]) == pytest.approx(proportion_confint(3, 10, method="wilson"))


def test_scores_without_verdicts_have_no_band_but_may_be_kept():
    found = gap(scores([0.1, 0.2]), None, None)
    assert set(found.frame["band"]) == {"unknown"}
    assert found.frame["keep_for_grpo"].to_list() == [True, True]
    assert found.frame["gap"].to_list() == pytest.approx([0.1, 0.2])
    assert any("no trial has a verdict" in n for n in found.notes)
    assert set(found.curves["estimator"]) == {"best_of_k", "worst_of_k"}


def test_one_attempt_has_no_gap_to_itself():
    found = gap(trials({"a": [[True], [True, False]]}), None, None)
    assert found.frame["gap"].to_list() == [None, 1.0]
    assert found.n_units == 1


def test_a_task_of_one_arm_has_no_gap_and_is_counted():
    found = gap(trials({"a": [[True], [False]], "b": [[True], []]}))
    assert found.frame["gap"].to_list() == [0.0, None]
    assert any("1 task has no usable trial of one of the arms" in n for n in found.notes)


def test_lost_attempts_are_counted_not_used():
    frame = trials({"a": [[True, False, None]], "b": [[True]]}).with_columns(infra=pl.col("attempt") == 1)
    row = gap(frame).frame.row(0, named=True)
    assert (row["n"], row["n_unusable"], row["pass_rate"]) == (1, 2, 1.0)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1_000), st.floats(0, 0.3))
def test_the_parts_of_the_gap_sum_to_it(seed, lift):
    rng = np.random.default_rng(seed)
    frame = noisy(8, 3, lift, seed=seed)
    failed = pl.Series(rng.choice(["timeout", "wrong", "crash"], frame.height))
    frame = frame.with_columns(failure_class=pl.when(~pl.col("passed")).then(failed))
    found = gap(frame)
    assert found.explained["contribution"].sum() == pytest.approx(found.estimate, abs=1e-12)
    if abs(found.estimate) > 1e-9:
        assert found.explained["share"].sum() == pytest.approx(1)


def test_a_gap_is_taken_apart_by_the_failures_of_the_weak_arm():
    frame = trials({"a": [[True], [False], [False], [False]], "b": [[True], [True], [True], [False]]})
    words = {("a", "t001"): "timeout", ("a", "t002"): "timeout", ("a", "t003"): "wrong", ("b", "t003"): "wrong"}
    frame = frame.with_columns(why=pl.Series([words.get((a, t)) for a, t in frame.select("arm", "task").rows()]))
    found = gap(frame, failure="why").explained
    assert found.select("failure_class", "contribution", "share").rows() == [("timeout", 0.5, 1.0), ("wrong", 0.0, 0.0)]


def test_raw_scores_are_not_taken_apart():
    found = gap(trials({"a": [[1.0], [3.0]], "b": [[2.0], [7.0]]}, column="score"))
    assert found.explained.height == 0
    assert found.estimate == pytest.approx(2.5)
    assert any("no known scale" in n for n in found.notes)


def test_curves_are_means_of_the_estimators_over_tasks():
    from expcomp.stats.passk import pass_at_k, pass_hat_k

    frame = noisy(12, 4, 0.2)
    found = gap(frame).curves
    assert found["k"].unique(maintain_order=True).to_list() == [1, 2, 4]
    counts = (
        frame.filter(pl.col("arm") == "a")
        .group_by("task", maintain_order=True)
        .agg(pl.col("passed").sum())["passed"]
        .to_numpy()
    )
    for name, function in (("pass_at_k", pass_at_k), ("pass_hat_k", pass_hat_k)):
        point = found.filter(pl.col("arm") == "a", pl.col("estimator") == name, pl.col("k") == 2).row(0, named=True)
        assert point["estimate"] == pytest.approx(np.mean(function(np.full(12, 4), counts, 2)))
        assert point["low"] <= point["estimate"] <= point["high"]
        assert (point["tasks"], point["left_out"]) == (12, 0)


def test_bands_and_reasons_count_every_task_once():
    found = gap(noisy(40, 3, 0.1))
    assert found.bands["tasks"].sum() == found.kept["tasks"].sum() == 40
    assert found.bands["keep_for_grpo"].sum() == found.frame["keep_for_grpo"].sum()


def test_a_gap_is_json_and_html():
    found = gap(noisy(10, 2, 0.1))
    assert json.loads(json.dumps(found.to_dict()))["n_units"] == 10
    assert repr(found).startswith("SolverGap(b vs a: ")
    assert "Bands" in found._repr_html_()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"strong": None}, "name both arms"),
        ({"band": (0.8, 0.2)}, "band is"),
        ({"failure": "no_such"}, "no column no_such"),
    ],
)
def test_what_is_refused(options, words):
    with pytest.raises(UsageError, match=words):
        gap(noisy(4, 2, 0.1), **options)


def test_power_is_planned_from_variances_alone():
    frame = noisy(40, 4, 0.1)
    plan = xc.power(frame, "a", "b", delta=0.1, tasks=[40, 160])
    shifted = frame.with_columns(passed=pl.col("passed"))
    assert xc.power(shifted, "b", "a", delta=0.1, tasks=[40, 160]).mde.equals(plan.mde)
    cells = {a: np.array(frame.filter(pl.col("arm") == a)["passed"], float).reshape(40, 4) for a in "ab"}
    within = [cells[a].var(axis=1, ddof=1).mean() for a in "ab"]
    between = max(0.0, (cells["b"].mean(1) - cells["a"].mean(1)).var(ddof=1) - sum(within) / 4)
    z = 1.959963984540054 + 0.8416212335729143
    row = plan.mde.filter(pl.col("trials") == 8, pl.col("tasks") == 160).row(0, named=True)
    assert row["mde"] == pytest.approx(z * np.sqrt((between + sum(within) / 8) / 160))
    assert plan.needed.filter(pl.col("trials") == 2)["tasks"][0] == int(
        np.ceil(z**2 * (between + sum(within) / 2) / 0.01)
    )


def test_lost_trials_are_no_part_of_a_pilot():
    frame = noisy(20, 3, 0.1)
    lossy = frame.with_columns(infra=pl.col("attempt") == 2)
    assert xc.power(lossy, "a", "b").pilot.trials_baseline == 40


@pytest.mark.parametrize("kind", ["histogram", "plane", "curves"])
def test_every_kind_of_figure_is_drawn_where_it_is_told(kind):
    plt = pytest.importorskip("matplotlib.pyplot")
    _, ax = plt.subplots()
    assert gap(noisy(20, 3, 0.2)).plot(kind, ax=ax) is ax
    plt.close("all")
