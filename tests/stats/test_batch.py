"""Many comparisons at once equal each of them alone, exactly; and scipy as far as chance allows."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from scipy import stats

from expcomp.errors import StatsError
from expcomp.stats import batch
from expcomp.stats.bootstrap import bootstrap_exhaustive_clusters, bootstrap_exhaustive_mean
from expcomp.stats.clusters import clustered_se

LIST = st.lists(st.integers(-20, 20).map(lambda i: i / 20), max_size=12)
FEW = {"resamples": 400}


def mixed(seed=0, rows=30):
    """Comparisons of several sizes, among them skewed and tied ones."""
    rng = np.random.default_rng(seed)
    return [rng.choice([-0.8, 0.2, 0.0, 1 / 3], int(rng.integers(2, 60))) + 0.1 * rng.normal() for _ in range(rows)]


@settings(max_examples=40)
@given(st.lists(LIST, min_size=1, max_size=8), st.data())
def test_a_comparison_alone_equals_itself_in_a_batch_to_the_bit(lists, data):
    together = batch.paired_means(lists, **FEW)
    i = data.draw(st.integers(0, len(lists) - 1))
    shuffled = data.draw(st.permutations(lists[i]))
    assert_frame_equal(batch.paired_means([lists[i]], **FEW), together[i], check_exact=True)
    assert_frame_equal(batch.paired_means([shuffled], **FEW), together[i], check_exact=True)


def test_many_sizes_and_more_than_one_chunk_change_no_bit():
    lists = mixed(rows=700)
    together = batch.paired_means(lists, resamples=200)
    alone = pl.concat([batch.paired_means([d], resamples=200) for d in lists[::50]])
    assert_frame_equal(together[::50], alone, check_exact=True)


@settings(max_examples=40)
@given(LIST)
def test_swapping_the_arms_mirrors_the_interval_to_the_bit(d):
    there, back = batch.paired_means([d], **FEW), batch.paired_means([[-x for x in d]], **FEW)
    for low, high in (("low_t", "high_t"), ("low_bca", "high_bca"), ("low", "high")):
        if not there[low].is_null()[0] and there["mean"][0] != 0:
            assert (back[low][0], back[high][0]) == (-there[high][0], -there[low][0])
    assert back["reason"].equals(there["reason"])


@settings(max_examples=40)
@given(LIST, st.sampled_from([0.5, 4.0, 1024.0]))
def test_another_unit_of_the_score_scales_the_interval(d, factor):
    one, other = batch.paired_means([d], **FEW), batch.paired_means([[x * factor for x in d]], **FEW)
    for name in ("mean", "se", "low", "high", "low_bca"):
        assert one[name].is_null().equals(other[name].is_null())
        if not one[name].is_null()[0]:
            assert other[name][0] == one[name][0] * factor
    assert other["p_two_sided"].equals(one["p_two_sided"])


def test_t_is_the_t_of_scipy_and_the_envelope_takes_the_wider_side():
    lists = [d for d in mixed() if np.ptp(d) > 0]
    frame = batch.paired_means(lists, confidence=0.9, resamples=1000)
    for i, d in enumerate(lists):
        test = stats.ttest_1samp(d, 0)
        row = frame[i]
        assert (row["t"][0], row["p_two_sided"][0]) == pytest.approx((test.statistic, test.pvalue))
        assert (row["low_t"][0], row["high_t"][0]) == pytest.approx(tuple(test.confidence_interval(0.9)))
        assert (row["n"][0], row["df"][0], row["sd"][0]) == (len(d), len(d) - 1, pytest.approx(d.std(ddof=1)))
    assert frame["low"].equals(frame.select(pl.min_horizontal("low_t", "low_bca")).to_series().alias("low"))
    assert frame["high"].equals(frame.select(pl.max_horizontal("high_t", "high_bca")).to_series().alias("high"))


@pytest.mark.parametrize("skew", ["right", "left", "none"])
def test_bca_is_the_bca_of_scipy_within_chance(skew):
    rng = np.random.default_rng(3)
    d = {"right": rng.exponential(size=40), "left": -rng.exponential(size=40), "none": rng.normal(size=40)}[skew]
    row = batch.paired_means([d], resamples=50_000)
    run = stats.bootstrap((d,), np.mean, n_resamples=50_000, method="BCa", rng=np.random.default_rng(0))
    assert (row["low_bca"][0], row["high_bca"][0]) == pytest.approx(tuple(run.confidence_interval), abs=0.02)


@pytest.mark.parametrize(
    "d", [[0.1, 0.3, -0.05, 0.2, 0.4], [0.05, 0.6, 0.1, 0.02, 0.08, 0.15], [0, 0, 0, 1, -1, 1, 0, 1]]
)
def test_bca_comes_close_to_the_one_over_all_resamples(d):
    row, every = batch.paired_means([d], resamples=100_000), bootstrap_exhaustive_mean(d)
    assert (row["low_bca"][0], row["high_bca"][0]) == pytest.approx(tuple(every.bca), abs=0.006)


def test_equal_means_of_resamples_are_equal_whatever_the_rounding():
    # Thirds summed in another order differ in the last bit; with whole numbers there is nothing to round.
    thirds = np.array([1, 2, 2, 3, 0, -1, 0, 2, 1, 3, -1, 0, 0, 0, 1])
    fine, whole = batch.paired_means([thirds / 3], **FEW), batch.paired_means([thirds], **FEW)
    for name in ("low_bca", "high_bca"):
        assert fine[name][0] == pytest.approx(whole[name][0] / 3, rel=1e-12)


def test_what_cannot_be_compared_has_a_reason_and_no_numbers():
    lists = [[0.1, 0.2, 0.4], [0.2, 0.2], [], [None, 0.1], [0.5], [float("inf"), 0.1], ["x", 1.0], [0.1 + 0.2, 0.3]]
    frame = batch.paired_means(lists, **FEW)
    reasons = [
        None,
        "zero_width",
        "too_few_units",
        "non_finite",
        "too_few_units",
        "non_finite",
        "non_finite",
        "zero_width",
    ]
    assert frame["reason"].to_list() == reasons
    assert frame["degenerate"].to_list() == [r is not None for r in reasons]
    refused = frame.filter("degenerate").select("se", "t", "df", "p_two_sided", "low", "high", "low_t", "low_bca")
    assert refused.null_count().row(0) == (refused.height,) * refused.width
    assert frame["n"].to_list() == [3, 2, 0, 2, 1, 2, 2, 2]


def test_differences_within_the_rounding_of_their_scores_are_equal():
    d = [1e-17, 5e-17, 0.0]
    assert batch.paired_means([d], **FEW)["reason"][0] is None
    assert batch.paired_means([d], scale=1.0, **FEW)["reason"][0] == "zero_width"


def test_no_comparison_is_an_empty_frame_of_the_same_schema():
    schema = batch.paired_means([[1.0, 2.0]], **FEW).schema
    for empty in ([], pl.Series([], dtype=pl.List(pl.Float64)), np.empty((0, 5))):
        assert batch.paired_means(empty, **FEW).schema == schema
        assert batch.paired_means(empty, **FEW).height == 0
    assert batch.clustered_means([], [], **FEW).height == 0


def test_lists_arrays_and_series_are_one_input():
    values = [[0.1, 0.5, -0.2], [0.3, 0.0, 0.9]]
    expected = batch.paired_means(values, **FEW)
    for same in (np.array(values), pl.Series(values), pl.Series(values, dtype=pl.Array(pl.Float64, 3))):
        assert_frame_equal(batch.paired_means(same, **FEW), expected, check_exact=True)
    with pytest.raises(StatsError, match="list of units"):
        batch.paired_means(pl.Series([0.1, 0.2]), **FEW)


def test_a_null_list_is_a_comparison_without_units():
    frame = batch.paired_means(pl.Series([[0.1, 0.2], None, [0.3, 0.5]]), **FEW)
    assert frame["reason"].to_list() == [None, "too_few_units", None]
    assert frame["mean"][2] == pytest.approx(0.4)


@settings(max_examples=40)
@given(st.lists(st.lists(st.tuples(st.integers(-20, 20), st.integers(0, 4)), max_size=15), min_size=1, max_size=6))
def test_clustered_means_are_clustered_se_one_by_one(comparisons):
    d, labels = ([[x[k] for x in rows] for rows in comparisons] for k in (0, 1))
    frame = batch.clustered_means(d, labels, **FEW)
    for i, rows in enumerate(comparisons):
        assert_frame_equal(batch.clustered_means([d[i]], [labels[i]], **FEW), frame[i], check_exact=True)
        if frame["degenerate"][i]:
            with pytest.raises(StatsError):
                clustered_se(d[i], labels[i])
            continue
        one = clustered_se(d[i], labels[i])
        assert (frame["n"][i], frame["clusters"][i], frame["df"][i]) == (len(rows), one.clusters, one.df)
        assert (frame["se"][i], frame["low_t"][i], frame["high_t"][i]) == pytest.approx((one.se_cr1, *one.t), abs=1e-12)


def test_clusters_of_one_unit_are_units_and_unequal_ones_weigh():
    d = [0.1, 0.4, -0.2, 0.9, 0.3]
    units = batch.paired_means([d], **FEW).drop("n", "sd")
    assert_frame_equal(
        batch.clustered_means([d], [list("abcde")], **FEW).drop("n", "clusters"), units, check_exact=True
    )
    labels = ["a", "a", "b", "c", "d", "d", "d"]
    d = [0.2, 0.4, -0.1, 0.5, 0.0, 0.3, 0.6]
    row = batch.clustered_means([d], [labels], resamples=100_000)
    every = bootstrap_exhaustive_clusters([0.6, -0.1, 0.5, 0.9], [2, 1, 1, 3])
    assert (row["low_bca"][0], row["high_bca"][0]) == pytest.approx(tuple(every.bca), abs=0.01)


def test_clusters_have_to_match_the_differences():
    with pytest.raises(StatsError, match="comparison 1 has 2 differences and 1 cluster labels"):
        batch.clustered_means([[1.0, 2.0], [1.0, 3.0]], [["a", "b"], ["a"]], **FEW)
    with pytest.raises(StatsError, match="2 comparisons"):
        batch.clustered_means([[1.0, 2.0], [1.0, 3.0]], [["a", "b"]], **FEW)
    with pytest.raises(StatsError) as refused:
        batch.clustered_means([[1.0, 2.0], [1.0, 3.0]], [["a", "b"], [1, 2]], **FEW)
    assert refused.value.reason == "bad_labels"


def test_a_missing_label_and_a_single_cluster_have_their_reasons():
    frame = batch.clustered_means(
        [[1.0, 2.0], [1.0, 2.0], [1.0, 2.0, 5.0]], [["a", None], ["a", "a"], ["a", "b", "b"]], **FEW
    )
    assert frame["reason"].to_list() == ["non_finite", "too_few_clusters", None]


def test_the_seed_and_the_options_decide_the_interval():
    d = [mixed()[0]]
    assert not batch.paired_means(d, seed=1, **FEW).equals(batch.paired_means(d, seed=2, **FEW))
    for wrong in ({"seed": -1}, {"resamples": 30}, {"confidence": 1.0}):
        with pytest.raises(StatsError) as refused:
            batch.paired_means(d, **wrong)
        assert refused.value.reason == "bad_option"


@pytest.mark.parametrize("power", [-1000, -560, 500, 560, 1000])
def test_squares_that_no_float_holds_leave_the_figures_as_they_are(power):
    d, labels = [1.0, 2.0, 3.0, -1.0, 0.5, 0.25], [0, 0, 1, 1, 2, 3]
    far = [float(np.ldexp(x, power)) for x in d]
    for one, other in (
        (batch.paired_means([d], **FEW), batch.paired_means([far], **FEW)),
        (batch.clustered_means([d], [labels], **FEW), batch.clustered_means([far], [labels], **FEW)),
    ):
        assert other.select("t", "p_two_sided").rows() == one.select("t", "p_two_sided").rows()
        for name in ("mean", "se", "low", "high", "low_bca", "high_bca"):
            assert other[name][0] == np.ldexp(one[name][0], power)


def test_each_comparison_may_have_a_scale_of_its_own():
    base = np.random.default_rng(0).random(30)
    d = (base + 1e-5) - base  # one number on paper
    told = batch.paired_means([d, d], scale=np.array([1.0, 1e-5]), **FEW)
    assert told["reason"].to_list() == ["zero_width", None]
    assert batch.paired_means([d], scale=1.0, **FEW)["reason"].to_list() == ["zero_width"]
    with pytest.raises(StatsError, match="2 values, scale 1"):
        batch.paired_means([d, d], scale=np.array([1.0]), **FEW)
