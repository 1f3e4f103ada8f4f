"""Checks of what goes into a statistic: finite numbers, enough units, some spread. A refusal names its reason."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from expcomp.errors import StatsError

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Numbers: TypeAlias = "pl.Series | NDArray[np.generic] | Sequence[float]"
Scale: TypeAlias = "float | pl.Series | NDArray[np.float64] | None"
Labels: TypeAlias = "pl.Series | NDArray[np.generic] | Sequence[object]"

REASONS = {
    "non_finite": "a value is missing, NaN or infinite",
    "too_few_units": "fewer units than the statistic needs",
    "too_few_clusters": "fewer clusters than the statistic needs",
    "too_many_units": "more units than an exact enumeration can visit",
    "zero_width": "the values do not differ beyond rounding, so nothing measures their spread",
    "lengths_differ": "columns of one sample differ in length",
    "bad_labels": "cluster labels of more than one type",
    "bad_counts": "counts that no sample can have",
    "outside": "a value outside the range that its meaning allows",
    "no_success": "nothing succeeded, so a figure per success does not exist",
    "bad_option": "a confidence, margin or number of resamples outside its range",
}

# Values that differ by less are one value: a difference of two scores is exact to 2^-53 of the scores, a mean of n of them to n times that.
ROUNDING = 64 * float(np.finfo(np.float64).eps)

# Beyond these the square of a number is 0 or infinite in binary, and so is a variance.
SQUARED = 1e-150, 1e150


def refuse(reason: str, message: str) -> StatsError:
    """The error of a refusal; `reason` is one of `REASONS`."""
    if reason not in REASONS:
        raise KeyError(reason)
    return StatsError(f"{message} ({REASONS[reason]})", reason=reason)


def finite(values: Numbers, name: str, *, at_least: int = 1) -> Floats:
    """One column as a float array of shape (n,).

    Raises:
        StatsError: It is not one-dimensional or numeric, holds a missing or non-finite value, or has fewer than `at_least` values.
    """
    raw = values.to_numpy() if isinstance(values, pl.Series) else values
    try:
        array = np.asarray(raw, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise refuse("non_finite", f"{name} holds something that is no number: {error}") from error
    if array.ndim != 1:
        raise refuse("lengths_differ", f"{name} has {array.ndim} dimensions; give one column")
    bad = np.flatnonzero(~np.isfinite(array))
    if bad.size:
        raise refuse("non_finite", f"{name}[{bad[0]}] is {array[bad[0]]}; leave such units out first and say so")
    if array.size < at_least:
        raise refuse("too_few_units", f"{name} has {array.size} values, at least {at_least} are needed")
    return array


def pair(baseline: Numbers, candidate: Numbers, *, at_least: int = 2) -> tuple[Floats, Floats]:
    """Both arms of a paired sample, each of shape (n,).

    Raises:
        StatsError: As `finite`, or the arms differ in length.
    """
    a = finite(baseline, "baseline", at_least=at_least)
    b = finite(candidate, "candidate", at_least=at_least)
    same_length(a.size, b.size, "baseline", "candidate")
    return a, b


def same_length(n: int, other: int, name: str, other_name: str) -> None:
    """Refuse two columns of one sample that differ in length."""
    if n != other:
        raise refuse("lengths_differ", f"{name} has {n} values, {other_name} {other}; pair them by unit first")


def spread(values: Floats, name: str, *, scale: float | None = None) -> Floats:
    """The same values, when they differ by more than rounding.

    Args:
        values: Shape (n,).
        name: What the refusal calls them.
        scale: Magnitude of the numbers they were computed from; the largest absolute value when not given.

    Raises:
        StatsError: All values are the same number: a standard error of zero would make any claim certain. Or they are so small or so
            large that their squares are 0 or infinite.
    """
    reference = float(np.max(np.abs(values))) if scale is None else scale
    if np.ptp(values) <= ROUNDING * reference:
        raise refuse("zero_width", f"all {values.size} values of {name} are {values[0]:g}")
    if np.ptp(values) < SQUARED[0] or np.max(np.abs(values)) > SQUARED[1]:
        raise refuse(
            "outside", f"{name} spans {np.ptp(values):g}, which cannot be squared; use another unit of the score"
        )
    return values


def codes(labels: Labels, n: int, *, at_least: int = 2) -> tuple[Ints, int]:
    """Cluster labels as codes 0..G-1 in the labels' order, and G.

    Raises:
        StatsError: A label is missing, there are not `n` of them, or they name fewer than `at_least` clusters.
    """
    series = label_series(labels)
    same_length(n, len(series), "the sample", "clusters")
    if series.null_count():
        raise refuse("non_finite", "a cluster label is missing; give such units clusters of their own")
    ranks = series.rank("dense").to_numpy().astype(np.int64) - 1
    count = int(ranks.max(initial=-1)) + 1
    if count < at_least:
        raise refuse("too_few_clusters", f"{count} clusters, at least {at_least} are needed")
    return ranks, count


def label_series(labels: Labels) -> pl.Series:
    """Cluster labels as a Series of one type.

    Raises:
        StatsError: They are of several types, so that 1 and "1" could be one cluster or two.
    """
    if isinstance(labels, pl.Series):
        return labels
    try:
        return pl.Series(values=labels)
    except TypeError as error:
        raise refuse("bad_labels", f"clusters cannot be told apart: {error}") from error


def level(confidence: float) -> float:
    """The same confidence, when it is above 0 and below 1.

    Raises:
        StatsError: It is not.
    """
    if not 0 < confidence < 1:
        raise refuse("bad_option", f"confidence is {confidence}; use a number between 0 and 1, such as 0.95")
    return float(confidence)


def counts(name: str = "count", /, **cells: int) -> tuple[int, ...]:
    """Cells of a table as whole numbers of at least 0, at least one of them positive.

    Raises:
        StatsError: A cell is negative or no whole number, or the table is empty.
    """
    bad = {k: v for k, v in cells.items() if not (np.isfinite(v) and v >= 0 and float(v).is_integer())}
    if bad:
        raise refuse("bad_counts", f"{name} {bad}: use whole numbers of at least 0")
    if sum(cells.values()) == 0:
        raise refuse("too_few_units", f"{name} {cells}: the table is empty")
    return tuple(int(v) for v in cells.values())
