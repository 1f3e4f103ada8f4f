"""Traps of pandera's Polars back end that the package is built around; a release that mends one turns its test red."""

from __future__ import annotations

import os

import pandera.polars as pa
import polars as pl
import pytest
from pandera.config import ValidationDepth, config_context

POSITIVE = pa.Check(lambda d: d.lazyframe.select(pl.col(d.key) > 0), name="positive")


def schema(*checks: pa.Check, **options: object) -> pa.DataFrameSchema:
    return pa.DataFrameSchema({"x": pa.Column(pl.Int64, checks=list(checks))}, **options)


def counted(frame: pl.DataFrame) -> tuple[pl.LazyFrame, list[int]]:
    runs: list[int] = []

    def note(part: pl.DataFrame) -> pl.DataFrame:
        runs.append(part.height)
        return part

    return frame.lazy().map_batches(note, schema=frame.schema), runs


def test_1_a_lazy_frame_is_checked_at_schema_depth_only() -> None:
    bad = pl.DataFrame({"x": [1, -1]})
    assert schema(POSITIVE).validate(bad.lazy()).collect().equals(bad)
    with pytest.raises(pa.errors.SchemaError):
        schema(POSITIVE).validate(bad)


def test_2_full_depth_on_a_lazy_frame_runs_the_plan_again_and_again() -> None:
    lazy, runs = counted(pl.DataFrame({"x": [1, 2], "y": [1, 2], "z": [1, 2]}))
    wide = pa.DataFrameSchema({name: pa.Column(pl.Int64, checks=POSITIVE) for name in "xyz"})
    with config_context(validation_depth=ValidationDepth.SCHEMA_AND_DATA):
        wide.validate(lazy)
    assert len(runs) > 1


def test_3_a_plan_whose_order_changes_between_runs_names_wrong_rows() -> None:
    """The cause, made certain: results and data are collected apart, here from a plan that turns round each time."""
    frame = pl.DataFrame({"x": [-1, 1, 2, 3]})
    runs: list[int] = []

    def turn(part: pl.DataFrame) -> pl.DataFrame:
        runs.append(1)
        return part.reverse() if len(runs) % 2 else part

    with (
        config_context(validation_depth=ValidationDepth.SCHEMA_AND_DATA),
        pytest.raises(pa.errors.SchemaErrors) as caught,
    ):
        schema(POSITIVE).validate(frame.lazy().map_batches(turn, schema=frame.schema), lazy=True)
    assert caught.value.failure_cases["failure_case"].to_list() != ["-1"]


def test_4_dropping_invalid_rows_keeps_duplicates_of_a_frame_key() -> None:
    twice = pl.DataFrame({"x": [1, 1, 2]})
    out = schema(unique=["x"], drop_invalid_rows=True).validate(twice, lazy=True)
    assert out.equals(twice)


def test_5_dropping_invalid_rows_lets_a_wrong_type_pass() -> None:
    wrong = pl.DataFrame({"x": ["a"]})
    assert schema(drop_invalid_rows=True).validate(wrong, lazy=True).equals(wrong)


def test_6_dropping_invalid_rows_drops_all_for_a_scalar_check_and_both_copies_for_unique() -> None:
    small = pa.Check(lambda d: d.lazyframe.select(pl.col(d.key).sum() < 3))
    frame = pl.DataFrame({"x": [1, 2, 2]})
    assert schema(small, drop_invalid_rows=True).validate(frame, lazy=True).is_empty()
    unique = pa.DataFrameSchema({"x": pa.Column(pl.Int64, unique=True)}, drop_invalid_rows=True)
    assert unique.validate(frame, lazy=True)["x"].to_list() == [1]


def test_7_a_frame_check_reports_every_row_unless_told_how_many() -> None:
    frame = pl.DataFrame({"x": range(-1000, 0)})

    def cases(**options: int) -> int:
        rule = pa.Check(lambda d: d.lazyframe.select(pl.col("x") > 0), **options)
        with pytest.raises(pa.errors.SchemaErrors) as caught:
            pa.DataFrameSchema({"x": pa.Column(pl.Int64)}, checks=[rule]).validate(frame, lazy=True)
        return caught.value.failure_cases.height

    assert cases() == 1000
    assert cases(n_failure_cases=20) == 20


def test_8_the_narwhals_back_end_is_off() -> None:
    assert "PANDERA_USE_NARWHALS_BACKEND" not in os.environ
