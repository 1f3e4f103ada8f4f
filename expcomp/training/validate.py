"""Rows of a training dataset against its checks, all at once: every finding of every row."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from expcomp.datasets.identity import COLUMNS, EXPECTED, RULES
from expcomp.io.wording import worded
from expcomp.tables.training import PARTITION
from expcomp.training.checks import Severity, finding, findings, joined
from expcomp.training.payloads import bad_payloads

ROWS: dict[str, pl.DataType] = {
    "row": pl.Int64(),
    "benchmark": pl.String(),
    "task": pl.String(),
    "content_digest": pl.String(),
    "partition": pl.String(),
    "data": pl.String(),
}
"""Rows as they are read: of the right shape, not yet checked. `data` is canonical JSON."""

_WIRE = {"benchmark": "task.benchmark", "task": "task.task", "content_digest": "task.contentDigest"}
_OVERLAPS = {"partition_overlap_name": ("benchmark", "task"), "partition_overlap_content": ("content_digest",)}


def validate_rows(
    rows: pl.DataFrame | pl.LazyFrame,
    kind: str,
    *,
    document: str = "dataset",
    severities: Mapping[str, Severity] | None = None,
) -> pl.DataFrame:
    """Every finding about rows (`TRAINING_FINDINGS`): partitions, tasks, payloads, overlaps of the partitions.

    Args:
        rows: Columns of `ROWS`.
        kind: Format of the payloads: `sft`, `dpo` or `grpo`.
        document: What findings call the dataset.
        severities: By code, in place of those of `CHECKS`.
    """
    frame = rows.collect() if isinstance(rows, pl.LazyFrame) else rows
    partition_fits = pl.col("partition").is_in(PARTITION.categories.to_list()).fill_null(value=False)
    made = [
        findings(
            "row_bad_partition",
            document,
            frame.filter(~partition_fits).select("row", path=pl.lit("partition"), found=pl.col("partition")),
            severities,
        )
    ]
    for column, holds in RULES.items():
        bad = frame.filter(~holds).select(
            "row", path=pl.lit(_WIRE[column]), found=pl.col(column), expected=pl.lit(EXPECTED[column])
        )
        made.append(findings("row_bad_task", document, bad, severities))
    payloads = bad_payloads(frame["data"], kind)
    payloads = payloads.with_columns(row=frame["row"].gather(payloads["at"]))
    made.append(findings("row_bad_data", document, payloads, severities))
    sound = frame.lazy().filter(partition_fits)
    made += [_overlap(sound, code, list(by), document, severities) for code, by in _OVERLAPS.items()]
    made.append(_conflict(sound, document, severities))
    if not (frame["partition"] == "train").any():
        made.append(finding("no_training_rows", document, "no row in train", severities=severities))
    return joined(made)


def _overlap(
    rows: pl.LazyFrame, code: str, by: list[str], document: str, severities: Mapping[str, Severity] | None
) -> pl.DataFrame:
    """Each row whose key is in the other partition, too."""
    train = pl.col("partition") == "train"
    both = rows.group_by(by, maintain_order=True).agg(_train=train.any(), _validation=(~train).any())
    both = both.filter("_train", "_validation")
    hit = rows.join(both, on=by, how="semi", maintain_order="left").with_columns(
        _train=pl.col("row").filter(train).min().over(by), _validation=pl.col("row").filter(~train).min().over(by)
    )
    other = (
        pl.when(train)
        .then(worded("row {} of validation", "_validation"))
        .otherwise(worded("row {} of train", "_train"))
    )
    name = pl.concat_str(*by, separator="/", ignore_nulls=True)
    where = hit.select(
        "row",
        path=pl.lit("task" if len(by) > 1 else "task.contentDigest"),
        found=worded("{}, as {}", name, other),
    )
    return findings(code, document, where.collect(), severities)


def _conflict(rows: pl.LazyFrame, document: str, severities: Mapping[str, Severity] | None) -> pl.DataFrame:
    """The first row of each further content of a task."""
    firsts = rows.group_by(COLUMNS, maintain_order=True).agg(pl.col("row").min())
    names = ["benchmark", "task"]
    several = firsts.filter(pl.len().over(names) > 1).with_columns(_first=pl.col("row").min().over(names))
    where = several.filter(pl.col("row") != pl.col("_first")).select(
        "row",
        path=pl.lit("task.contentDigest"),
        found=worded("{}, and another one in row {}", "content_digest", "_first"),
    )
    return findings("task_content_conflict", document, where.collect(), severities)
