from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from expcomp.errors import StatsError
from expcomp.stats.planning import mde_table, pilot, plan, tasks_table
from expcomp.stats.power import detectable_lift, paired_t, tasks_needed
from expcomp.stats.trials import tasks_with_trials

ARMS = {"baseline": "old", "candidate": "new"}


def trials(tasks=12, each=3, seed=0):
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "task_id": np.repeat([f"t{i}" for i in range(tasks)], 2 * each),
            "arm": ["old", "new"] * (tasks * each),
            "score": rng.random(2 * tasks * each),
        }
    )


def test_the_variances_are_those_of_the_comparison() -> None:
    frame = trials()
    lists = frame.group_by("task_id", maintain_order=True).agg(
        old=pl.col("score").filter(pl.col("arm") == "old"), new=pl.col("score").filter(pl.col("arm") == "new")
    )
    known, compared = pilot(frame, **ARMS), tasks_with_trials(lists["old"], lists["new"])
    assert known.tasks == known.replicated_tasks == 12
    assert (known.trials_baseline, known.trials_candidate) == (36, 36)
    assert (known.sigma2_baseline, known.sigma2_candidate) == pytest.approx(compared.within_variance)
    assert known.omega2 == pytest.approx(compared.between_variance, abs=1e-12)
    assert known.difference_variance == pytest.approx(compared.se**2 * 12)


def test_what_is_left_out_is_counted() -> None:
    frame = pl.concat(
        [
            trials(),
            pl.DataFrame({"task_id": ["alone", "t0", "t0"], "arm": ["old", "new", "third"], "score": [1.0, None, 1.0]}),
        ]
    )
    known = pilot(frame.lazy(), **ARMS)
    assert (known.tasks, known.unpaired_tasks, known.unscored_trials) == (12, 1, 1)
    assert pilot(frame.sample(fraction=1, shuffle=True, seed=3), **ARMS).omega2 == pytest.approx(known.omega2)


def test_a_task_with_one_trial_takes_the_variance_of_its_arm() -> None:
    frame = trials().filter(~((pl.col("task_id") == "t3") & (pl.int_range(pl.len()).over("task_id", "arm") > 0)))
    known = pilot(frame, **ARMS)
    assert known.replicated_tasks == 11
    arm = known.sigma2_baseline + known.sigma2_candidate
    var = frame.group_by("task_id", "arm", maintain_order=True).agg(v=pl.col("score").var(), n=pl.len())
    noise = sum(
        (var.filter(arm=a)["v"].fill_null(s) / var.filter(arm=a)["n"]).mean()
        for a, s in (("old", known.sigma2_baseline), ("new", known.sigma2_candidate))
    )
    assert known.omega2 == pytest.approx(max(0, known.difference_variance - noise))
    assert known.variance([2]) == pytest.approx([known.omega2 + arm / 2])


def test_the_table_holds_both_formulas() -> None:
    known = pilot(trials(), **ARMS)
    table = mde_table(known, tasks=[10, 40], trials=[1, 4], power=0.9)
    assert table.columns == ["trials", "tasks", "se", "mde", "mde_t"]
    assert table.select("tasks", "trials").rows() == [(10, 1), (10, 4), (40, 1), (40, 4)]
    variance = np.tile(known.variance([1, 4]), 2)
    tasks = table["tasks"].to_numpy()
    np.testing.assert_allclose(table["mde"], detectable_lift(tasks, omega2=variance, power=0.9).mde)
    dz = [paired_t(pairs=int(n), power=0.9) for n in tasks]
    np.testing.assert_allclose(table["mde_t"], np.sqrt(variance) * dz)
    assert (table["mde_t"] > table["mde"]).all()
    assert mde_table(known)["tasks"].unique().to_list() == [12, 24, 48]


def test_a_pilot_of_one_trial_a_task_says_nothing_about_more() -> None:
    known = pilot(trials(each=1), **ARMS)
    assert (known.omega2, known.sigma2_baseline, known.replicated_tasks) == (None, None, 0)
    table = mde_table(known, tasks=[12])
    assert table["mde"].is_null().to_list() == [False, True, True, True, True]
    assert table["se"][0] == pytest.approx(np.sqrt(known.difference_variance / 12))
    assert tasks_table(known, 0.1)["tasks"].is_null().to_list() == [False, True, True, True, True]


def test_trials_in_one_arm_only_say_nothing_at_all() -> None:
    frame = trials().filter((pl.col("arm") == "new") | (pl.int_range(pl.len()).over("task_id", "arm") == 0))
    known = pilot(frame, **ARMS)
    assert known.sigma2_baseline is None
    assert known.sigma2_candidate is not None
    assert mde_table(known)["mde"].null_count() == 15


def test_a_plan_names_tasks_for_the_wanted_lift() -> None:
    got = plan(trials(), **ARMS, delta=0.05)
    variance = got.pilot.variance([1, 2, 4, 8, 16])
    assert got.needed["tasks"].to_list() == [tasks_needed(0.05, omega2=v).n_required for v in variance]
    assert plan(trials(), **ARMS).needed is None


def test_the_observed_difference_plays_no_part() -> None:
    frame = trials()
    shifted = frame.with_columns(pl.col("score") + pl.when(pl.col("arm") == "new").then(10).otherwise(0))
    np.testing.assert_allclose(plan(frame, **ARMS).mde["mde"], plan(shifted, **ARMS).mde["mde"])


def test_pass_and_fail_are_scores() -> None:
    frame = trials().with_columns(pl.col("score") > 0.5)
    assert pilot(frame, **ARMS).difference_variance > 0


def test_a_pilot_without_two_tasks_is_refused() -> None:
    with pytest.raises(StatsError, match="0 tasks with a score under both 'old' and 'none'"):
        pilot(trials(), baseline="old", candidate="none")
    with pytest.raises(StatsError, match="score"):
        pilot(trials().with_columns(score=pl.lit(float("nan"))), **ARMS)


def test_a_plan_is_short_in_a_notebook_and_shows_its_tables() -> None:
    got = plan(trials(), **ARMS, delta=0.05)
    assert repr(got) == "Plan(pilot of 12 tasks, 36 and 36 trials; 15 designs)"
    assert got._repr_html_().count("<table") == 2
    assert plan(trials(), **ARMS)._repr_html_().count("<table") == 1
