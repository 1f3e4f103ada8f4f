"""Comparisons of any length laid end to end: one array of units, and how many of them each comparison has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from expcomp.stats.inputs import Floats, Ints, Labels, Numbers, label_series, refuse

Lists = pl.Series | np.ndarray | Sequence[Numbers]
LabelLists = pl.Series | np.ndarray | Sequence[Labels]

REFUSALS = pl.Enum(["non_finite", "too_few_units", "too_few_clusters", "zero_width"])


@dataclass(frozen=True)
class Units:
    """What is resampled: single units or whole clusters.

    Attributes:
        sums: Sum of each, those of one comparison after those of another.
        sizes: Units in each; 1 for single units.
        count: How many of them each comparison has, shape (m,).
        values: How many values each comparison has, shape (m,).
        reason: Why a comparison is refused (`REFUSALS`), null when it is not.
    """

    sums: Floats
    sizes: Floats
    count: Ints
    values: Ints
    reason: pl.Series


def single_units(differences: Lists) -> Units:
    """Each difference a unit of its own."""
    values, count = _values(differences)
    return Units(values, np.ones_like(values), count, count, _reason(values, count, np.zeros(values.size, dtype=bool)))


def whole_clusters(differences: Lists, clusters: LabelLists) -> Units:
    """The differences of each cluster of a comparison summed, clusters in the order of their labels.

    Raises:
        StatsError: A comparison has not one label for each difference, or labels are of several types.
    """
    values, count = _values(differences)
    labels, label_count = _end_to_end(
        clusters if isinstance(clusters, pl.Series) else [label_series(v) for v in clusters]
    )
    if count.size != label_count.size:
        raise refuse("lengths_differ", f"{count.size} comparisons, clusters for {label_count.size}")
    if (wrong := np.flatnonzero(count != label_count)).size:
        i = wrong[0]
        raise refuse("lengths_differ", f"comparison {i} has {count[i]} differences and {label_count[i]} cluster labels")
    row = np.repeat(np.arange(count.size), count)
    code = labels.rank("dense").fill_null(0).to_numpy().astype(np.int64)
    key = pl.Series(row * (int(code.max(initial=0)) + 1) + code).rank("dense").to_numpy().astype(np.int64) - 1
    # Summed by numpy in the order of the units: a parallel group-by may add in another order in another batch.
    sums, sizes = np.bincount(key, values), np.bincount(key)
    owner = np.zeros(sizes.size, dtype=np.int64)
    owner[key] = row
    clusters_of = np.bincount(owner, minlength=count.size).astype(np.int64)
    reason = _reason(values, count, labels.is_null().to_numpy(), few_clusters=clusters_of < 2)
    return Units(sums.astype(np.float64), sizes.astype(np.float64), clusters_of, count, reason)


def _reason(values: Floats, count: Ints, missing: np.ndarray, *, few_clusters: np.ndarray | bool = False) -> pl.Series:
    """Why a comparison is refused before anything is computed; null when it is not."""
    row = np.repeat(np.arange(count.size), count)
    broken = np.bincount(row, ~np.isfinite(values) | missing, minlength=count.size) > 0
    found = np.select([broken, count < 2, few_clusters], [0, 1, 2], default=-1)
    names = dict(enumerate(REFUSALS.categories))
    return pl.Series(found, dtype=pl.Int64).replace_strict(names, default=None, return_dtype=REFUSALS)


def _values(lists: Lists) -> tuple[Floats, Ints]:
    """Values of all comparisons one after the other, null and what is no number as NaN, and how many each has."""
    values, count = _end_to_end(
        lists if isinstance(lists, pl.Series) else [pl.Series(values=v, dtype=pl.Float64, strict=False) for v in lists]
    )
    return values.cast(pl.Float64, strict=False).fill_null(float("nan")).to_numpy(), count


def _end_to_end(lists: pl.Series | Sequence[pl.Series]) -> tuple[pl.Series, Ints]:
    """Units of all comparisons one after the other, and how many each has."""
    if not isinstance(lists, pl.Series):
        filled = [s for s in lists if len(s)]
        count = np.array([len(s) for s in lists], dtype=np.int64)
        try:
            return pl.concat(filled) if filled else pl.Series([], dtype=pl.Null), count
        except pl.exceptions.PolarsError as error:
            raise refuse("bad_labels", f"comparisons do not label alike: {error}") from error
    if isinstance(lists.dtype, pl.Array):
        lists = lists.arr.to_list()
    if not isinstance(lists.dtype, pl.List):
        raise refuse("lengths_differ", f"got {lists.dtype} values; give a list of units for each comparison")
    count = lists.list.len().fill_null(0).to_numpy().astype(np.int64)
    return lists.filter(pl.Series(count > 0, dtype=pl.Boolean)).explode(), count
