from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import ceil, comb

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from expcomp.errors import StatsError
from expcomp.stats.passk import (
    best_of_k,
    best_of_k_by_proxy,
    best_of_k_expr,
    g_pass_at_k,
    pass_at_k,
    pass_at_k_expr,
    pass_hat_k,
    pass_hat_k_expr,
    subset_weights,
)


@st.composite
def counts(draw, most=60):
    n = draw(st.integers(1, most))
    return n, draw(st.integers(0, n)), draw(st.integers(1, n))


def close(got, exact):
    assert got == pytest.approx(float(exact), rel=1e-12, abs=1e-300)


@given(counts())
def test_pass_at_k_is_the_share_of_subsets_with_a_pass(case) -> None:
    n, c, k = case
    close(pass_at_k(n, c, k), 1 - Fraction(comb(n - c, k), comb(n, k)))


@given(counts())
def test_pass_hat_k_is_the_share_of_subsets_of_passes_only(case) -> None:
    n, c, k = case
    close(pass_hat_k(n, c, k), Fraction(comb(c, k), comb(n, k)))


@given(counts(), st.integers(1, 20))
def test_g_pass_at_k_is_a_hypergeometric_tail(case, twentieths) -> None:
    n, c, k = case
    needed = ceil(Fraction(twentieths, 20) * k)
    tail = sum(Fraction(comb(c, j) * comb(n - c, k - j), comb(n, k)) for j in range(needed, k + 1))
    assert g_pass_at_k(n, c, k, twentieths / 20) == pytest.approx(float(tail), rel=1e-10, abs=1e-15)


@given(counts())
def test_g_pass_runs_from_pass_at_k_to_pass_hat_k(case) -> None:
    n, c, k = case
    assert g_pass_at_k(n, c, k, 1e-6) == pytest.approx(pass_at_k(n, c, k), rel=1e-9, abs=1e-12)
    assert g_pass_at_k(n, c, k, 1) == pytest.approx(pass_hat_k(n, c, k), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(
    ("c", "k"), [(1, 1), (3, 50_000), (50_000, 3), (20_000, 7), (5, 90_000), (99_999, 1), (99_990, 9)]
)
def test_a_hundred_thousand_trials_lose_no_digits(c, k) -> None:
    n = 100_000
    close(pass_at_k(n, c, k), 1 - Fraction(comb(n - c, k), comb(n, k)))
    close(pass_hat_k(n, c, k), Fraction(comb(c, k), comb(n, k)))


def test_counts_broadcast_and_stay_what_they_are_alone(monkeypatch) -> None:
    n, c, k = np.array([5, 10, 40, 7]), np.array([0, 3, 39, 7]), np.arange(1, 6)[:, None]
    whole = pass_at_k(n, c, k)
    assert whole.shape == (5, 4)
    assert whole.tolist() == [[pass_at_k(int(a), int(b), int(j)) for a, b in zip(n, c, strict=True)] for j in k.ravel()]
    monkeypatch.setattr("expcomp.stats.passk.CELLS", 1)
    np.testing.assert_allclose(pass_at_k(n, c, k), whole, rtol=1e-14)
    assert isinstance(pass_at_k(4, 2, 2), float)


@pytest.mark.parametrize(
    ("n", "c", "k", "what"),
    [
        (4, 5, 1, "c is 5 passed of 4 trials"),
        (4, 2, 5, "k is 5 draws out of 4 trials"),
        (4, 2, 0, r"k is 0; use whole numbers of at least 1"),
        ([4, 0], 0, 1, r"n\[1\] is 0"),
        (4, [1, 2.5], 1, r"c\[1\] is 2.5"),
        (4, float("nan"), 1, "c is nan"),
        (4, "x", 1, "no number"),
        ([4, 4], [1, 1, 1], 1, "shapes"),
        (4, -1, 1, "c is -1"),
    ],
)
def test_impossible_counts_are_refused_by_name(n, c, k, what) -> None:
    for function in (pass_at_k, pass_hat_k):
        with pytest.raises(StatsError, match=what):
            function(n, c, k)


@pytest.mark.parametrize("tau", [0, -0.1, 1.01, float("nan")])
def test_a_share_outside_its_range_is_refused(tau) -> None:
    with pytest.raises(StatsError, match="tau"):
        g_pass_at_k(4, 2, 2, tau)


rewards = st.lists(st.floats(-1, 1).map(lambda x: round(x, 2)), min_size=1, max_size=7)


@given(rewards, st.data())
def test_best_and_worst_of_k_are_means_over_all_subsets(values, data) -> None:
    k = data.draw(st.integers(1, len(values)))
    subsets = list(combinations(values, k))
    got = best_of_k(values, k)
    assert got.best == pytest.approx(np.mean([max(s) for s in subsets]), abs=1e-12)
    assert got.worst == pytest.approx(np.mean([min(s) for s in subsets]), abs=1e-12)
    assert got.mean == pytest.approx(np.mean(values), abs=1e-12)


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0, 1)), min_size=1, max_size=7), st.data())
def test_the_choice_of_a_proxy_settles_ties_by_lot(trials, data) -> None:
    k = data.draw(st.integers(1, len(trials)))

    def chosen(subset):
        top = max(p for p, _ in subset)
        return np.mean([r for p, r in subset if p == top])

    exact = np.mean([chosen(s) for s in combinations(trials, k)])
    got = best_of_k_by_proxy([p for p, _ in trials], [r for _, r in trials], k)
    assert got == pytest.approx(exact, abs=1e-12)


@given(rewards, st.data())
def test_a_proxy_that_is_the_reward_gives_the_best(values, data) -> None:
    k = data.draw(st.integers(1, len(values)))
    assert best_of_k_by_proxy(values, values, k) == pytest.approx(best_of_k(values, k).best, abs=1e-12)


@given(st.integers(1, 400), st.data())
def test_subset_weights_are_chances(n, data) -> None:
    k = data.draw(st.integers(1, n))
    weights = subset_weights(n, k)
    assert weights.sum() == pytest.approx(1, rel=1e-12)
    exact = [float(Fraction(comb(i, k - 1), comb(n, k))) for i in range(n)]
    np.testing.assert_allclose(weights, exact, rtol=1e-11, atol=1e-300)


def test_best_of_k_refuses_what_it_cannot_rank() -> None:
    for bad in ([], [1.0, float("nan")], [[1.0, 2.0]]):
        with pytest.raises(StatsError, match="rewards"):
            best_of_k(bad, 1)
    with pytest.raises(StatsError, match="k is 3 draws out of 2"):
        best_of_k([1, 2], 3)
    with pytest.raises(StatsError, match="true_reward"):
        best_of_k_by_proxy([1, 2], [1], 1)


@given(
    st.lists(st.lists(st.sampled_from([0.0, 0.25, 1.0, None]), max_size=8), min_size=1, max_size=6), st.integers(1, 4)
)
def test_expressions_of_a_group_say_what_the_functions_say(tasks, k) -> None:
    frame = pl.DataFrame(
        {"task": [t for t, task in enumerate(tasks) for _ in task], "reward": [r for task in tasks for r in task]},
        schema={"task": pl.Int64, "reward": pl.Float64},
    )
    passed = (pl.col("reward") > 0.5).sum()
    got = frame.group_by("task", maintain_order=True).agg(
        pl.col("reward").count().alias("n"),
        at=pass_at_k_expr(pl.col("reward").count(), passed, k),
        hat=pass_hat_k_expr(pl.col("reward").count(), passed, k),
        best=best_of_k_expr(pl.col("reward"), k),
    )
    for task, n, at, hat, best in got.iter_rows():
        known = [r for r in tasks[task] if r is not None]
        if n < k:
            assert (at, hat, best) == (None, None, None)
        else:
            c = sum(r > 0.5 for r in known)
            assert at == pytest.approx(pass_at_k(n, c, k), abs=1e-12)
            assert hat == pytest.approx(pass_hat_k(n, c, k), abs=1e-12)
            assert best == pytest.approx(best_of_k(known, k).best, abs=1e-12)
