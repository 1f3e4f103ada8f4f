"""Decisions, intervals and policies of `compare`, on cases whose answer is known."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import expcomp as xc
from expcomp.comparing.decide import beyond
from expcomp.comparing.plots import arm_means
from expcomp.comparing.showing import number
from expcomp.errors import StatsError, UsageError
from expcomp.io.counts import percent
from expcomp.stats.clusters import clustered_se
from expcomp.stats.power import paired_t
from tests.comparing.frames import noisy, scores, singles, trials

QUICK = {"resamples": 2_000}


def compare(frame, **options):
    return xc.compare(frame, "a", "b", **(QUICK | options))


# -- decisions ---------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("cells", "decision"),
    [
        ((20, 15, 2, 10), "improved"),
        ((20, 2, 15, 10), "regressed"),
        ((20, 5, 5, 20), "no_difference_shown"),
        ((5, 5, 0, 5), "need_more_data"),
    ],
)
def test_a_decision_of_single_trials(cells, decision):
    found = compare(singles(*cells))
    assert found.method == "tango"
    assert found.metric == "passed"
    assert found.decision == decision


@pytest.mark.parametrize(("shift", "decision"), [(0.2, "improved"), (-0.2, "regressed"), (0.0, "no_difference_shown")])
def test_a_decision_of_scores(shift, decision):
    d = np.random.default_rng(3).normal(0, 0.1, 40)
    found = compare(scores((d - d.mean()) / 2 + shift, base=0.5))
    assert found.method == "min(t, BCa)"
    assert found.metric == "score"
    assert found.estimate == pytest.approx(shift, abs=1e-9)
    assert found.decision == decision


@pytest.mark.parametrize("shift", [1e-3, 1e-5, 1e-8])
@pytest.mark.parametrize("cluster", [None, "group"])
def test_the_rounding_of_scores_is_no_spread_of_their_differences(shift, cluster):
    base = np.random.default_rng(0).random(60)
    frame = trials({"a": [[x] for x in base], "b": [[x + shift] for x in base]}, column="score")
    frame = frame.with_columns(cost_usd=pl.col("score") + 0.25, group=pl.col("task").str.slice(0, 3))
    found = compare(frame, cluster=cluster)
    assert (found.low, found.high, found.p_value, found.decision) == (None, None, None, "need_more_data")
    assert found.guards["p_value"].null_count() == found.guards.height


@pytest.mark.parametrize("delta", [1e-6, 1e-12, 1e-300, 1e300])
@pytest.mark.parametrize(
    "frame", [singles(9, 9, 9, 9), scores(np.random.default_rng(1).normal(0, 0.1, 30))], ids=["tango", "t"]
)
def test_tasks_that_nobody_can_run_are_not_told(frame, delta):
    found = compare(frame, delta=delta)
    assert found.needed == ({"tasks": None, "trials": None} if delta < 1 else {})


def test_tango_and_mid_p_are_those_of_the_statistics_room():
    from expcomp.stats.batch import mcnemar_mid_p, tango

    found = compare(singles(30, 9, 3, 20))
    limits = tango([9], [3], [62])
    assert (found.low, found.high) == (limits.low[0], limits.high[0])
    assert found.p_value == mcnemar_mid_p([9], [3])[0]
    assert (found.better, found.worse, found.n_units) == (9, 3, 62)
    assert found.estimate == pytest.approx(6 / 62)


def test_too_few_tasks_are_need_more_data_however_clear():
    found = compare(singles(0, 10, 0, 0), min_units=20)
    assert found.low > 0
    assert (found.decision, found.reason) == ("need_more_data", "too_few_units")
    assert found.needed["tasks"] == 10
    assert any("min_units=20" in note and "sign test" in note for note in found.notes)


def test_equal_differences_give_no_interval_and_no_claim():
    found = compare(scores([0.1] * 30))
    assert (found.low, found.high, found.p_value) == (None, None, None)
    assert (found.decision, found.reason) == ("need_more_data", "degenerate_interval")
    assert found.estimate == pytest.approx(0.1)
    assert found.needed["tasks"] is None


def test_a_difference_that_matters_and_is_not_excluded_needs_more_tasks():
    d = np.random.default_rng(5).normal(0.0, 0.3, 30)
    d -= d.mean()
    wide = compare(scores(np.clip(d, -0.4, 0.6)), delta=0.02)
    assert wide.decision == "need_more_data"
    var = float(np.var(np.clip(d, -0.4, 0.6), ddof=1))
    assert wide.needed["tasks"] == int(np.ceil(paired_t(effect_size=0.02 / np.sqrt(var), power=0.8))) - 30
    assert compare(scores(np.clip(d, -0.4, 0.6)), delta=0.5).decision == "no_difference_shown"


def test_more_trials_are_planned_where_trials_are_the_noise():
    tasks, k, delta = 60, 4, 0.1
    frame = noisy(tasks, k, 0.0, seed=2)
    found = compare(frame, delta=delta)
    cells = {arm: np.array(frame.filter(pl.col("arm") == arm)["passed"], float).reshape(tasks, k) for arm in "ab"}
    within = [cells[arm].var(axis=1, ddof=1).mean() for arm in "ab"]
    between = max(0.0, (cells["b"].mean(1) - cells["a"].mean(1)).var(ddof=1) - sum(within) / k)
    dz = paired_t(pairs=tasks, power=0.8) * np.sqrt(tasks)
    mde = {n: dz * np.sqrt((between + sum(within) / n) / tasks) for n in (1, 2, 4, 8, 16)}
    assert found.decision == "need_more_data"
    assert found.needed["trials"] == min(n for n, lift in mde.items() if lift <= delta) > k


def test_non_inferiority_is_the_lower_limit_above_minus_the_margin():
    found = compare(singles(60, 5, 5, 30), margin=0.1)
    assert found.non_inferior is (found.low > -0.1) is True
    assert compare(singles(60, 5, 5, 30), margin=0.01).non_inferior is False
    assert compare(singles(60, 5, 5, 30)).non_inferior is None


def test_trials_are_never_units():
    with pytest.raises(UsageError, match="trials of one task are not independent"):
        compare(singles(5, 5, 5, 5), unit="trial")


def test_many_trials_of_one_task_make_one_unit():
    found = compare(noisy(25, 6, 0.1))
    assert (found.n_units, found.n_trials) == (25, (150, 150))
    assert found.method == "min(t, BCa)"


# -- symmetry and invariance -------------------------------------------------------------------------------------------------
@settings(max_examples=15, deadline=None)
@given(st.integers(0, 1_000), st.integers(1, 4))
def test_swapping_the_arms_mirrors_everything(seed, n):
    frame = noisy(24, n, 0.15, seed=seed)
    one, other = xc.compare(frame, "a", "b", **QUICK), xc.compare(frame, "b", "a", **QUICK)
    assert (one.estimate, one.low, one.high) == pytest.approx((-other.estimate, -other.high, -other.low), abs=1e-12)
    assert one.p_value == pytest.approx(other.p_value)
    assert (one.better, one.worse) == (other.worse, other.better)
    mirrored = {"improved": "regressed", "regressed": "improved"}
    assert mirrored.get(one.decision, one.decision) == other.decision


@settings(max_examples=10, deadline=None)
@given(st.randoms(use_true_random=False))
def test_the_order_of_trials_does_not_matter(random):
    frame = noisy(24, 3, 0.1)
    order = list(range(frame.height))
    random.shuffle(order)
    assert compare(frame[order]).to_dict() == compare(frame).to_dict()


def test_the_same_call_gives_the_same_bits():
    frame = noisy(30, 3, 0.1)
    assert compare(frame).to_dict() == compare(frame.lazy()).to_dict()


# -- lost trials -------------------------------------------------------------------------------------------------------------
def lossy(seed: int = 1) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    frame = noisy(40, 2, 0.1, seed=seed)
    lost = rng.random(frame.height)
    return frame.with_columns(infra=pl.Series(lost < 0.15), passed=pl.when(pl.Series(lost > 0.1)).then("passed"))


def test_each_policy_says_what_a_lost_trial_counts_as():
    frame = trials({"a": [[True, None], [True, False]], "b": [[True, True], [False, None]]})
    means = {
        m: compare(frame, missing=m).table.select("baseline_mean", "treatment_mean").rows() for m in ("exclude", "fail")
    }
    assert means == {"exclude": [(1.0, 1.0), (0.5, 0.0)], "fail": [(0.5, 1.0), (0.5, 0.0)]}
    both = compare(frame, missing="bounds")
    assert both.bounds == pytest.approx((np.mean([0.0, -0.5]), np.mean([0.5, 0.0])))
    assert both.estimate is None


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 500))
def test_bounds_hold_every_other_policy_for_trials_inside_tasks(seed):
    frame = lossy(seed)
    kept = frame.filter((pl.col("passed").is_not_null() & ~pl.col("infra")).any().over("task", "arm"))
    whole = kept.filter((pl.col("arm").n_unique() == 2).over("task"))
    found = compare(whole)
    worst, best = found.bounds
    assert worst <= found.estimate <= best
    assert (
        found.sensitivity.filter((pl.col("estimate") < worst - 1e-12) | (pl.col("estimate") > best + 1e-12)).height == 0
    )
    outer = compare(whole, missing="bounds")
    inner = found.sensitivity.filter(pl.col("missing").is_in(["worst", "best"]))
    assert (outer.low, outer.high) == (inner["low"].min(), inner["high"].max())


def test_p_values_of_bounds_hold_in_both_cases():
    half = [[True, None]] * 15 + [[False, None]] * 15 + [[True, True]]
    frame = trials({"a": half, "b": half})
    found = compare(frame, missing="bounds")
    cases = found.sensitivity.filter(pl.col("missing").is_in(["worst", "best"]))
    assert (cases["p_value"] < 1e-6).all()
    assert found.low < 0 < found.high
    assert (found.p_value, found.sign_p, found.better, found.worse) == (1.0, 1.0, 0, 0)
    plain, same = (compare(singles(20, 15, 2, 10), missing=m) for m in ("exclude", "bounds"))
    assert (same.p_value, same.sign_p, same.tie_share) == (plain.p_value, plain.sign_p, plain.tie_share)


def test_a_case_of_bounds_without_an_interval_leaves_the_whole_without_one():
    # The best case makes of the lost trial one more difference of 0.2, so that all are the same.
    cells = {"a": [[0.4]] * 29 + [[0.8]], "b": [[0.6]] * 29 + [[None]]}
    frame = trials(cells, column="score").with_columns(scale_known=pl.lit(value=True))
    found = compare(frame, missing="bounds")
    cases = found.sensitivity.filter(pl.col("missing").is_in(["worst", "best"]))
    assert cases["low"].null_count() == 1
    assert (found.low, found.p_value, found.se, found.decision) == (None, None, None, "need_more_data")
    third = frame.filter(arm="a").with_columns(arm=pl.lit("c"))
    several = xc.compare(pl.concat([frame, third]), "a", ["b", "c"], missing="bounds", **QUICK)
    assert several["b"].simultaneous is None


def test_infrastructure_has_a_policy_of_its_own():
    frame = trials({"a": [[True]] * 25, "b": [[True]] * 20 + [[False]] * 5}).with_columns(
        infra=(pl.col("arm") == "b") & (pl.col("passed") == False)  # noqa: E712
    )
    assert compare(frame).n_units == 20
    counted = compare(frame, infra="fail")
    assert (counted.n_units, counted.worse) == (25, 5)
    assert compare(frame).robust is False or counted.decision == compare(frame).decision
    assert any("lost to infrastructure: 0 of 25 trials of the baseline, 5 of 25" in n for n in counted.notes)


def test_tasks_of_one_arm_stay_in_the_table_with_their_reason():
    frame = singles(10, 5, 5, 5).filter(~((pl.col("task") == "t003") & (pl.col("arm") == "b")))
    found = compare(frame)
    row = found.table.filter(~pl.col("used"))
    assert row.select("task", "left_out").rows() == [("t003", "no_treatment_trial")]
    assert "1 task has no trial of the treatment" in found.notes
    xc.validate("comparison_units", found.table)


def test_a_policy_that_fills_in_needs_a_scale():
    raw = trials({"a": [[1.0], [None]], "b": [[3.0], [2.0]]}, column="score")
    with pytest.raises(UsageError, match="1 task has lost trials, and their scores no known scale"):
        compare(raw, missing="fail")
    found = compare(raw)
    assert found.bounds is None
    assert found.sensitivity.select("missing", "infra").rows() == [("exclude", "exclude")]
    assert compare(raw, missing="fail", score_scale=(0, 4)).n_units == 2


def test_scores_of_known_and_unknown_scale_are_not_mixed():
    mixed = scores([0.1, 0.2]).with_columns(scale_known=pl.col("task") == "t000")
    with pytest.raises(UsageError, match="2 of 4 scores have no known scale"):
        compare(mixed)


def test_arms_that_share_no_task_say_so():
    frame = trials({"a": [[True], []], "b": [[], [True]]})
    found = compare(frame)
    assert (found.n_units, found.estimate, found.decision) == (0, None, "need_more_data")
    assert "no task has a usable trial of both arms" in found.notes


# -- metric ------------------------------------------------------------------------------------------------------------------
def test_auto_takes_scores_where_some_lie_between():
    partial = scores([0.1, -0.1, 0.2]).with_columns(passed=pl.col("score") > 0.45)
    assert compare(partial).metric == "score"
    assert compare(partial, metric="passed").metric == "passed"
    whole = partial.with_columns(score=pl.col("passed").cast(pl.Float64))
    assert compare(whole).metric == "passed"


# -- clusters ----------------------------------------------------------------------------------------------------------------
def clustered(n: int = 12, size: int = 5) -> pl.DataFrame:
    rng = np.random.default_rng(4)
    effect = np.repeat(rng.normal(0.05, 0.2, n), size)
    frame = scores(np.clip(effect + rng.normal(0, 0.05, n * size), -0.4, 0.6))
    return frame.with_columns(repo=(pl.col("task").str.slice(1).cast(pl.Int64) // size).cast(pl.String))


def test_clusters_widen_the_interval_to_that_of_cr1():
    from expcomp.stats.clusters import clustered_se

    frame = clustered()
    plain, wide = compare(frame), compare(frame, cluster="repo", min_units=10)
    expected = clustered_se(wide.table["difference"], wide.table["cluster"])
    assert wide.se == pytest.approx(expected.se_cr1)
    assert wide.n_clusters == 12
    assert wide.method == "CR1 t, cluster BCa"
    assert wide.high - wide.low > plain.high - plain.low
    assert wide.low <= expected.t.low


def test_clusters_of_one_task_are_no_clusters():
    frame = scores(np.random.default_rng(1).normal(0, 0.1, 30))
    alone = compare(frame.with_columns(own="task"), cluster="own")
    plain = compare(frame)
    assert alone.se == pytest.approx(plain.se)


def test_min_units_counts_clusters():
    found = compare(clustered(), cluster="repo", min_units=20)
    assert found.reason == "too_few_units"
    assert found.needed["clusters"] == 8


def test_one_cluster_is_why_there_is_no_interval():
    found = compare(clustered().with_columns(repo=pl.lit("all")), cluster="repo")
    assert (found.n_clusters, found.low, found.decision) == (1, None, "need_more_data")
    (note,) = [n for n in found.notes if "interval" in n]
    assert note.startswith("one cluster: ")


def test_a_task_without_a_cluster_is_one():
    frame = clustered().with_columns(repo=pl.when(pl.col("repo") != "0").then("repo"))
    found = compare(frame, cluster="repo")
    assert found.n_clusters == 11 + 5
    assert "5 tasks have no repo; each is a cluster of its own" in found.notes


def test_a_cluster_that_cuts_through_tasks_is_refused():
    frame = singles(5, 5, 5, 5).with_columns(repo=pl.col("arm"))
    with pytest.raises(UsageError, match="repo is no property of the task: t000 has 'a' and 'b'"):
        compare(frame, cluster="repo")


def test_clusters_that_are_there_but_not_used_are_pointed_out():
    frame = clustered().with_columns(cluster="repo")
    assert any("12 clusters hold more than one task" in n for n in compare(frame).notes)


# -- several treatments ------------------------------------------------------------------------------------------------------
def three() -> pl.DataFrame:
    a = noisy(60, 3, 0.0, seed=1)
    parts = [noisy(60, 3, lift, seed=1).filter(pl.col("arm") == "b") for lift in (0.15, 0.05, 0.0)]
    return pl.concat(
        [a.filter(pl.col("arm") == "a"), *(p.with_columns(arm=pl.lit(n)) for p, n in zip(parts, "bcd", strict=True))]
    )


def test_several_treatments_are_adjusted_by_holm():
    from statsmodels.stats.multitest import multipletests

    found = xc.compare(three(), "a", ["b", "c", "d"], **QUICK)
    alone = [xc.compare(three(), "a", t, **QUICK) for t in "bcd"]
    assert [c.p_value for c in found] == [c.p_value for c in alone]
    assert [(c.low, c.high) for c in found] == [(c.low, c.high) for c in alone]
    expected = multipletests([c.p_value for c in alone], method="holm")[1]
    assert [c.p_adjusted for c in found] == pytest.approx(list(expected))
    assert all(c.simultaneous.low <= c.low and c.high <= c.simultaneous.high for c in found)
    assert alone[0].p_adjusted is None
    assert found["c"] is found[1]
    assert found.table["treatment"].to_list() == ["b", "c", "d"]


def test_a_claim_among_several_needs_holm():
    frame = singles(20, 12, 3, 10)
    twins = pl.concat(
        [frame, *(frame.filter(pl.col("arm") == "b").with_columns(arm=pl.lit(f"b{i}")) for i in range(9))]
    )
    alone = xc.compare(frame, "a", "b")
    many = xc.compare(twins, "a", ["b", *(f"b{i}" for i in range(9))])
    assert alone.decision == "improved"
    assert {c.decision for c in many} == {"no_difference_shown"}


# -- arms and roles ----------------------------------------------------------------------------------------------------------
def test_an_unknown_arm_is_refused_with_the_nearest():
    with pytest.raises(UsageError, match=r"no arm or role 'with-skill'; did you mean 'with-skills'\?"):
        xc.compare(trials({"plain": [[True]], "with-skills": [[True]]}), "plain", "with-skill")


def test_an_arm_is_not_compared_with_itself():
    with pytest.raises(UsageError, match="compared with itself"):
        xc.compare(singles(1, 1, 1, 1), "a", "a")


def test_a_role_stands_for_its_arms():
    frame = singles(10, 8, 2, 5).with_columns(
        role=pl.col("arm").replace_strict({"a": "baseline", "b": "treatment"}), arm=pl.concat_str("arm", pl.lit("-1"))
    )
    found = xc.compare(frame, "baseline", "treatment")
    assert found.estimate == pytest.approx(6 / 25)
    with pytest.raises(UsageError, match="belongs to more than one of"):
        xc.compare(frame, "baseline", "a-1")


# -- guards, slices, cost ----------------------------------------------------------------------------------------------------
def costly(ratio: float) -> pl.DataFrame:
    rng = np.random.default_rng(2)
    frame = noisy(30, 2, 0.1)
    cost = (
        rng.uniform(0.9, 1.1, frame.height)
        * pl.select(pl.when(frame["arm"] == "b").then(ratio).otherwise(1.0)).to_series()
    )
    return frame.with_columns(cost_usd=cost, duration_s=pl.lit(5.0))


@pytest.mark.parametrize(
    ("ratio", "tolerance", "status"),
    [(1.5, None, "worse"), (1.0, None, "not_shown"), (1.5, 0.1, "exceeded"), (1.02, 0.2, "ok")],
)
def test_a_guard_on_cost(ratio, tolerance, status):
    found = compare(costly(ratio), guards={"cost_usd": tolerance})
    row = found.guards.row(0, named=True)
    assert (row["guard"], row["status"]) == ("cost_usd", status)
    assert row["change"] == pytest.approx(ratio - 1, abs=0.05)
    assert any("guards exceeded: cost_usd" in n for n in found.notes) == (status == "exceeded")


def test_guards_without_data_or_spread_say_no_data():
    found = compare(costly(1.0))
    status = dict(found.guards.select("guard", pl.col("status").cast(pl.String)).rows())
    assert status["tokens"] == status["duration_s"] == "no_data"


@pytest.mark.parametrize(("guards", "words"), [(["speed"], "unknown guard 'speed'"), ({"tokens": -1}, "tolerates -1")])
def test_a_guard_that_is_none(guards, words):
    with pytest.raises(UsageError, match=words):
        compare(singles(1, 1, 1, 1), guards=guards)


def test_slices_are_comparisons_of_their_tasks_alone():
    frame = noisy(60, 3, 0.2).with_columns(
        domain=pl.when(pl.col("task") < "t030").then(pl.lit("x")).otherwise(pl.lit("y"))
    )
    found = compare(frame, slices="domain")
    alone = compare(frame.filter(pl.col("domain") == "x"))
    row = found.slices.filter(pl.col("value") == "x").row(0, named=True)
    assert (row["estimate"], row["low"], row["high"]) == (alone.estimate, alone.low, alone.high)
    assert row["n_units"] == 30
    assert (found.slices["p_adjusted"] >= found.slices["p_value"]).all()


def test_slices_weighed_by_their_tasks_make_the_whole():
    frame = noisy(50, 2, 0.1).with_columns(domain=pl.col("task").str.slice(-1))
    found = compare(frame, slices=["domain"])
    weighed = found.slices.select((pl.col("estimate") * pl.col("n_units")).sum() / pl.col("n_units").sum()).item()
    assert weighed == pytest.approx(found.estimate)


def test_cost_per_success_is_a_ratio_of_totals():
    frame = costly(1.5)
    found = compare(frame).cost_per_success.row(1, named=True)
    own = frame.filter(pl.col("arm") == "b")
    assert found["cost_per_success"] == pytest.approx(own["cost_usd"].sum() / own["passed"].sum())
    assert found["low"] < found["cost_per_success"] < found["high"]


def test_tasks_of_unknown_cost_are_left_out_of_it_and_counted():
    frame = costly(1.0).with_columns(cost_usd=pl.when(pl.col("task") != "t000").then("cost_usd"))
    assert compare(frame).cost_per_success["tasks_left_out"].to_list() == [1, 1]
    assert set(compare(singles(5, 5, 5, 5)).cost_per_success["note"]) == {"no cost is known"}


# -- flips -------------------------------------------------------------------------------------------------------------------
def test_flips_count_tasks_by_outcome():
    found = compare(singles(4, 3, 2, 1))
    cells = {tuple(r[:2]): r[2] for r in found.flips.rows()}
    assert cells[("pass", "pass")] == 4
    assert cells[("fail", "pass")] == 3
    assert cells[("pass", "fail")] == 2
    assert sum(cells.values()) == 10
    assert len(cells) == 9


def test_the_flip_rate_of_an_arm_is_the_share_of_its_pairs_that_disagree():
    found = compare(trials({"a": [[True, True, False, False]], "b": [[True, True, True]]}))
    assert found.table["baseline_flip_rate"][0] == pytest.approx(4 / 6)
    assert found.table["treatment_flip_rate"][0] == 0
    assert found.table["gain_rate"][0] == pytest.approx(0.5)


# -- results -----------------------------------------------------------------------------------------------------------------
def test_a_comparison_is_json_and_html():
    frame = singles(10, 8, 2, 5).with_columns(task=pl.concat_str(pl.lit("<b>"), "task"))
    found = compare(frame, slices="benchmark")
    assert json.loads(json.dumps(found.to_dict()))["decision"] == found.decision
    assert repr(found).startswith("Comparison(b vs a: +0.240 [")
    assert "<b>t000" not in found._repr_html_()
    assert "&lt;b&gt;" in found._repr_html_()
    assert "<b>t0" not in xc.compare(frame, "a", ["b"])._repr_html_()


def test_a_confidence_outside_its_range_is_refused():
    with pytest.raises(StatsError, match="confidence is 95"):
        compare(noisy(20, 2, 0.1), confidence=95)


@pytest.mark.parametrize(("name", "value"), [("missing", "zero"), ("infra", "drop"), ("metric", "reward")])
def test_an_unknown_word_is_refused(name, value):
    with pytest.raises(UsageError, match=f"{name} is '{value}'; expected one of"):
        compare(singles(1, 1, 1, 1), **{name: value})


@pytest.mark.parametrize("kind", ["slopes", "dumbbells", "flips", "forest", "cumulative", "policies"])
def test_every_kind_of_figure_is_drawn_where_it_is_told(kind):
    plt = pytest.importorskip("matplotlib.pyplot")
    frame = noisy(20, 2, 0.2).with_columns(domain=pl.lit("x"), infra=pl.col("task") == "t003")
    _, ax = plt.subplots()
    assert compare(frame, slices="domain").plot(kind, ax=ax) is ax
    plt.close("all")


def test_another_kind_of_figure_is_refused():
    with pytest.raises(UsageError, match="there is no figure 'pie'; there are slopes"):
        compare(singles(5, 5, 5, 5)).plot("pie")


@pytest.mark.parametrize(("name", "value"), [("delta", 0), ("delta", -0.1), ("delta", float("nan")), ("margin", -0.1)])
def test_a_difference_that_cannot_matter_is_refused(name, value):
    with pytest.raises(UsageError, match=f"{name} is {value}; expected"):
        compare(singles(5, 5, 5, 5), **{name: value})


@pytest.mark.parametrize("bound", [0.0, 2.8e-15])
def test_a_limit_that_only_rounding_lifts_above_0_is_no_improvement(bound):
    frame = pl.DataFrame({"low": [bound], "high": [0.2]})
    assert frame.select(beyond("low", 1), mirrored=beyond("high", 1)).row(0) == (False, True)


def test_the_difference_such_data_show_is_by_t_where_the_interval_is_and_by_the_normal_under_tango():
    d = np.random.default_rng(0).normal(0, 0.3, 8)
    few = compare(scores(d))
    assert few.mde == pytest.approx(paired_t(pairs=8, power=0.8) * np.std(d, ddof=1), rel=1e-4)
    z = 1.959963984540054 + 0.8416212335729143
    single = compare(singles(5, 4, 3, 8))
    assert single.method == "tango"
    assert single.mde == pytest.approx(z * single.se)


@pytest.mark.parametrize(
    ("confidence", "told"), [(0.95, "95%"), (0.975, "97.5%"), (0.999, "99.9%"), (1 - 0.05 / 3, "98.33333333%")]
)
def test_a_confidence_is_told_whole(confidence, told):
    assert percent(confidence) == told


@pytest.mark.parametrize(
    ("value", "told"), [(0.0, "0.000"), (1e-15, "0.000"), (0.0004, "4.0e-04"), (-2e-6, "-2.0e-06"), (0.25, "0.250")]
)
def test_a_small_figure_is_not_told_as_nothing(value, told):
    assert number(value) == told


def test_the_mean_of_an_arm_has_the_interval_of_its_clusters():
    frame = noisy(40, 3, 0.2).with_columns(group=pl.col("task").str.slice(1).cast(pl.Int64) // 4)
    alone, grouped = (arm_means(compare(frame, cluster=c)) for c in (None, "group"))
    used = compare(frame, cluster="group").table
    t = clustered_se(used["treatment_mean"], used["cluster"]).t
    assert grouped["estimate"].to_list() == alone["estimate"].to_list()
    assert grouped["low"][1] <= t.low + 1e-12 < t.high <= grouped["high"][1] + 1e-12
