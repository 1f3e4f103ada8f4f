"""Many comparisons at once give what each gives alone."""

from __future__ import annotations

import polars as pl
import pytest

import expcomp as xc
from expcomp.errors import UsageError
from tests.comparing.frames import noisy, singles, trials

QUICK = {"resamples": 2_000}


def jobs() -> pl.DataFrame:
    parts = {
        "many trials": noisy(30, 3, 0.2, seed=1),
        "single": singles(20, 12, 3, 10),
        "few": noisy(5, 3, 0.0, seed=2),
        "one arm": noisy(30, 2, 0.0, seed=3).filter(pl.col("arm") == "a"),
        "tie": trials({"a": [[True]] * 25, "b": [[True]] * 25}),
    }
    return pl.concat(f.with_columns(job=pl.lit(name)) for name, f in parts.items())


def test_each_row_is_the_comparison_of_its_group_alone():
    found = xc.compare_many(jobs(), "a", "b", by="job", **QUICK)
    assert found["job"].to_list() == sorted(found["job"])
    for row in found.filter(pl.col("job") != "one arm").to_dicts():
        alone = xc.compare(jobs().filter(pl.col("job") == row["job"]), "a", "b", **QUICK)
        names = (
            "estimate",
            "low",
            "high",
            "p_value",
            "n_units",
            "method",
            "metric",
            "decision",
            "reason",
            "better",
            "worse",
            "se",
            "mde",
        )
        assert {n: row[n] for n in names} == {n: getattr(alone, n) for n in names}


def test_a_group_without_one_arm_is_there():
    row = xc.compare_many(jobs(), "a", "b", by="job", **QUICK).filter(pl.col("job") == "one arm").row(0, named=True)
    assert (row["n_units"], row["estimate"], row["decision"]) == (0, None, "need_more_data")


def test_p_values_are_adjusted_over_all_rows():
    from statsmodels.stats.multitest import multipletests

    found = xc.compare_many(jobs(), "a", "b", by="job", **QUICK).drop_nulls("p_value")
    assert found["p_adjusted"].to_list() == pytest.approx(list(multipletests(found["p_value"], method="holm")[1]))


def test_groups_may_be_columns_of_the_table():
    frame = jobs().rename({"job": "benchmark"})
    one = xc.compare_many(frame, "a", "b", by=["benchmark"], **QUICK)
    other = xc.compare_many(jobs(), "a", "b", by="job", **QUICK)
    assert one["low"].equals(other["low"])


def test_several_treatments_and_groups():
    frame = pl.concat([noisy(20, 2, 0.1), noisy(20, 2, 0.1).filter(pl.col("arm") == "b").with_columns(arm=pl.lit("c"))])
    found = xc.compare_many(frame.with_columns(job=pl.lit(1)), "a", ["b", "c"], by="job", **QUICK)
    assert found.select("job", "treatment").rows() == [(1, "b"), (1, "c")]
    assert found["estimate"][0] == found["estimate"][1]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"by": "arm"}, "by is arm; expected columns that hold trials of both arms"),
        ({"by": "nothing"}, "no column nothing"),
        ({"by": "job", "missing": "bounds"}, "makes two comparisons of one"),
        ({"by": "job", "unit": "trial"}, "not independent"),
    ],
)
def test_what_is_refused(options, words):
    with pytest.raises(UsageError, match=words):
        xc.compare_many(jobs(), "a", "b", **options)
