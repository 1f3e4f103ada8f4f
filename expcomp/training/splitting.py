"""Partitions of a training dataset, assigned by group: what belongs together stays together, and adding rows moves no old group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from expcomp.datasets.identity import COLUMNS, KEY
from expcomp.datasets.options import DatasetOptions
from expcomp.datasets.split import group_key, moment, share_of
from expcomp.errors import ConfigError, SourceError
from expcomp.training.checks import Severity

TRAIN, VALIDATION = "train", "validation"
GROUPS = ("task", "repository", "benchmark")
"""Groups that the identity of a task names; any other is a field of the payload."""

PARTED: Mapping[str, Severity] = dict.fromkeys(
    ("partition_overlap_name", "partition_overlap_content", "no_training_rows"), "warning"
)
"""What a dataset that is to be split may have wrong: the checks of the partitions that it comes with."""


@dataclass(frozen=True, kw_only=True)
class SplitOptions:
    """How partitions are assigned.

    Attributes:
        group: `task`, `repository`, `benchmark`, or a field of the payload, as `repo` or `meta.user`.
        share: Of the groups in `validation`, by the hash of seed and group.
        seed: Of the hash.
        time: Field of the payload with an ISO time; with `before` in place of the hash.
        before: ISO date; groups whose first row is of that time or later go to `validation`.
        embargo_days: Groups that begin less than this before it are left out.
        stratify: The share holds within each benchmark; new groups may then move old ones.
        min_groups: Groups that each partition has at least.
    """

    group: str = "task"
    share: float = 0.1
    seed: str = "expcomp"
    time: str | None = None
    before: str | None = None
    embargo_days: float = 0.0
    stratify: bool = False
    min_groups: int = 1

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise ConfigError(f"share {self.share}: expected a number between 0 and 1")
        if (self.time is None) != (self.before is None):
            raise ConfigError(
                "a split by time needs both the field of the time and the date before which rows are trained on"
            )
        if self.embargo_days < 0 or (self.embargo_days and self.before is None):
            raise ConfigError("an embargo is a number of days before the date of a split by time")
        if self.stratify and self.before is not None:
            raise ConfigError("a split by time has no share that could hold within each benchmark")


@dataclass(frozen=True)
class Split:
    """A dataset with new partitions.

    Attributes:
        rows: As they came, with the new partition; rows under embargo are not there.
        groups: group, partition (null: under embargo), n_tasks, n_rows; one line a group.
        moved: Rows that are in another partition than before.
    """

    rows: pl.DataFrame
    groups: pl.DataFrame
    moved: int

    @property
    def counts(self) -> pl.DataFrame:
        """partition, n_groups, n_tasks, n_rows; groups under embargo last."""
        by = self.groups.group_by("partition", maintain_order=True)
        return by.agg(n_groups=pl.len(), n_tasks=pl.col("n_tasks").sum(), n_rows=pl.col("n_rows").sum()).sort(
            "partition", nulls_last=True
        )


def split_rows(rows: pl.DataFrame, options: SplitOptions) -> Split:
    """Assign partitions to rows (`validate.ROWS`) by group.

    Rows of one group, of one task name or of one content are never parted, so groups that share a task are one.

    Raises:
        ConfigError: An option that cannot be used.
        SourceError: A row has not the field that names its group or time; or a partition has fewer groups than it has to have.
    """
    keyed = rows.with_columns(_group=_group(rows, options.group))
    groups = _connected(keyed)
    keyed = keyed.drop("_group").join(groups, on=list(COLUMNS), how="left", maintain_order="left")
    placed = _by_time(keyed, options) if options.before is not None else _by_hash(keyed, options)
    joined = keyed.join(placed, on="group", how="left", maintain_order="left")
    table = (
        joined.group_by("group", maintain_order=True)
        .agg(pl.col("_partition").first(), n_tasks=pl.struct(COLUMNS).n_unique(), n_rows=pl.len())
        .rename({"_partition": "partition"})
        .sort("group")
    )
    for name in (TRAIN, VALIDATION):
        found = table.filter(partition=name).height
        if found < options.min_groups:
            raise SourceError(
                f"{found:,} of {table.height:,} groups by {options.group} come to {name}; expected at least {options.min_groups:,}: "
                "choose another share, date or group"
            )
    kept = joined.filter(pl.col("_partition").is_not_null())
    moved = int((kept["partition"] != kept["_partition"]).sum())
    kept = kept.select(*(c for c in rows.columns if c not in ("row", "partition")), partition="_partition")
    kept = kept.with_columns(row=pl.int_range(pl.len(), dtype=pl.Int64)).select(rows.columns)
    return Split(kept, table, moved)


def _group(rows: pl.DataFrame, by: str) -> pl.Series:
    """The group that each row names."""
    if by == "task":
        return rows.select(pl.concat_str(pl.lit("task:"), KEY)).to_series()
    if by == "benchmark":
        return rows.select(pl.concat_str(pl.lit("benchmark:"), "benchmark")).to_series()
    if by == "repository":
        named = rows.select("task", task_id=KEY)
        return named.select(group_key(DatasetOptions(group="repository"), named.columns)).to_series()
    return rows.select(pl.concat_str(pl.lit(f"{by}:"), _field(rows, by))).to_series()


def _field(rows: pl.DataFrame, name: str) -> pl.Series:
    """A field of the payloads as text.

    Raises:
        SourceError: A row has none.
    """
    try:
        found = rows["data"].str.json_path_match(f"$.{name}")
    except pl.exceptions.ComputeError as error:
        raise ConfigError(f"field {name}: expected the names of keys, as in repo or meta.repo") from error
    missing = rows.filter(found.is_null())
    if missing.height:
        raise SourceError(
            f"{missing.height:,} rows have no data.{name}, as row {missing['row'][0]}; expected a text or number in each"
        )
    return found


def _connected(rows: pl.DataFrame) -> pl.DataFrame:
    """benchmark, task, content_digest, group: the smallest name among all groups that shared names or contents connect."""
    links = rows.select(*COLUMNS, "_group").unique(maintain_order=True).with_columns(group="_group")
    together: Sequence[list[str]] = (["_group"], ["benchmark", "task"], ["content_digest"])
    while True:
        spread = links
        for by in together:
            spread = spread.with_columns(pl.col("group").min().over(by))
        if spread.equals(links):
            break
        links = spread
    return links.select(*COLUMNS, "group").unique(maintain_order=True)


def _by_hash(rows: pl.DataFrame, options: SplitOptions) -> pl.DataFrame:
    """group, _partition."""
    groups = rows.group_by("group", maintain_order=True).agg(benchmark=pl.col("benchmark").min())
    share = share_of("group", options.seed)
    if options.stratify:
        share = (share.rank("ordinal").over("benchmark") - 0.5) / pl.len().over("benchmark")
    return groups.select(
        "group", _partition=pl.when(share < options.share).then(pl.lit(VALIDATION)).otherwise(pl.lit(TRAIN))
    )


def _by_time(rows: pl.DataFrame, options: SplitOptions) -> pl.DataFrame:
    """group, _partition; null under embargo."""
    assert options.time is not None
    cut = pl.lit(moment(options.before))
    text = _field(rows, options.time)
    times = pl.select(_times(text)).to_series()
    unread = times.is_null()
    if unread.any():
        raise SourceError(
            f"row {rows['row'].filter(unread)[0]}: data.{options.time} is {text.filter(unread)[0]!r}, expected an ISO time"
        )
    began = rows.select("group", began=times).group_by("group", maintain_order=True).agg(pl.col("began").min())
    open_until = cut - pl.duration(seconds=options.embargo_days * 86_400)
    place = (
        pl.when(pl.col("began") >= cut).then(pl.lit(VALIDATION)).when(pl.col("began") < open_until).then(pl.lit(TRAIN))
    )
    return began.select("group", _partition=place)


def _times(text: pl.Series) -> pl.Expr:
    """ISO dates and times in UTC, where they name no zone, too; null for anything else."""
    given = pl.lit(text.str.replace(" ", "T", literal=True))
    zoned = given.str.to_datetime("%+", time_unit="us", time_zone="UTC", strict=False)
    naive = given.str.to_datetime("%Y-%m-%dT%H:%M:%S%.f", time_unit="us", strict=False).dt.replace_time_zone("UTC")
    day = given.str.to_date("%Y-%m-%d", strict=False).cast(pl.Datetime("us")).dt.replace_time_zone("UTC")
    return pl.coalesce(zoned, naive, day)
