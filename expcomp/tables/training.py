"""Training: rows of a dataset with their tasks, what its checks found, which tasks a lineage has seen, and which of them are held out."""

from __future__ import annotations

import polars as pl

from expcomp.tables._spec import Table, integer, json, one_of, real, text, unit_interval

FORMAT = pl.Enum(["sft", "dpo", "grpo"])
PARTITION = pl.Enum(["train", "validation"])
SEVERITY = pl.Enum(["error", "warning"])
KIND = pl.Enum(["content", "name", "near"])
_DIGEST = r"^sha256:[0-9a-f]{64}$"


def _digest(column: str) -> pl.Expr:
    return pl.col(column).str.contains(_DIGEST).fill_null(value=True)


TRAINING_ROWS = Table(
    "training_rows",
    "One row of a training dataset: payload, partition, and the task it was made from.",
    {
        "row": integer("0-based position in the dataset", nullable=False),
        "benchmark": text("benchmark of the task", nullable=False),
        "task": text("the task as its benchmark names it", nullable=False),
        "content_digest": text(
            "`sha256:` and hex digest of the task's content, as the benchmark owns it", nullable=False
        ),
        "partition": one_of(PARTITION, "what the trainer uses the row for", nullable=False),
        "format": one_of(FORMAT, "what `data` holds", nullable=False),
        "data": json("the payload in canonical form"),
        "row_digest": text("`sha256:` and hex digest of the canonical row", nullable=False),
    },
    rules={"content_digest|digest": _digest("content_digest"), "row_digest|digest": _digest("row_digest")},
    keys=("row",),
)
TRAINING_TASKS = Table(
    "training_tasks",
    "One task of a training dataset in one partition: its inventory, which a receipt may name by digest.",
    {
        "benchmark": text("benchmark of the task", nullable=False),
        "task": text("the task as its benchmark names it", nullable=False),
        "content_digest": text("`sha256:` and hex digest of the task's content", nullable=False),
        "partition": one_of(PARTITION, "where its rows are", nullable=False),
        "n_rows": integer("rows of the task in the partition", nullable=False),
    },
    rules={"content_digest|digest": _digest("content_digest")},
    keys=("benchmark", "task", "content_digest", "partition"),
)
TRAINING_FINDINGS = Table(
    "training_findings",
    "One thing that is wrong with a training dataset.",
    {
        "document": text("file name, or what the caller calls it", nullable=False),
        "row": integer("0-based row; null for what concerns the whole document"),
        "code": text("stable code of the check", nullable=False),
        "severity": one_of(SEVERITY, "errors refuse the dataset", nullable=False),
        "path": text("where in the document or row"),
        "found": text("what is there, cut to 200 characters"),
        "expected": text("what has to be there", nullable=False),
    },
)
EXPOSURE = Table(
    "exposure",
    "One task that one training run could see: an index of a lineage, against which held-out sets are joined.",
    {
        "content_digest": text("`sha256:` and hex digest of the task's content", nullable=False),
        "benchmark": text("benchmark of the task", nullable=False),
        "task": text("the task as its benchmark names it", nullable=False),
        "receipt_digest": text("receipt of the run", nullable=False),
        "depth": integer("0 for the current receipt, 1 for its parent, ...", nullable=False),
        "partition": one_of(PARTITION, "where the run saw it; null when the receipt lists tasks without partitions"),
    },
    rules={
        "content_digest|digest": _digest("content_digest"),
        "receipt_digest|digest": _digest("receipt_digest"),
        "depth|not_negative": pl.col("depth") >= 0,
    },
)
EXPOSURE_HITS = Table(
    "exposure_hits",
    "One held-out task that a training run could see. Names held-out tasks: for their owner, not for an optimiser.",
    {
        "kind": one_of(KIND, "equal content, equal name, or text of the task in a row", nullable=False),
        "severity": one_of(SEVERITY, "errors refuse the profile", nullable=False),
        "heldout": integer("position in the held-out set", nullable=False),
        "heldout_benchmark": text("benchmark of the held-out task"),
        "heldout_task": text("its name"),
        "heldout_digest": text("its content digest"),
        "receipt_digest": text("receipt of the run that saw it", nullable=False),
        "depth": integer("0 for the current receipt, 1 for its parent, ...", nullable=False),
        "partition": one_of(PARTITION, "where the run saw it; null when not known"),
        "benchmark": text("benchmark of the task that was seen", nullable=False),
        "task": text("its name", nullable=False),
        "content_digest": text("its content digest", nullable=False),
        "row": integer("near: row of the dataset"),
        "field": text("near: field of the held-out task"),
        "coverage": real("near: share of the field's words that are in the row"),
        "longest_run": integer("near: longest stretch of its words in the row"),
    },
    rules={"coverage|unit_interval": unit_interval("coverage")},
)
TRAINING_TABLES = {t.name: t for t in (TRAINING_ROWS, TRAINING_TASKS, TRAINING_FINDINGS, EXPOSURE, EXPOSURE_HITS)}
