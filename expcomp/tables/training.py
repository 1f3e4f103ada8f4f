"""Training: rows of a dataset with their tasks, what its checks found, which tasks a lineage has seen, and which of them are held out."""

from __future__ import annotations

import polars as pl

from expcomp.tables._spec import Table, flag, integer, json, not_negative, one_of, real, text, texts, unit_interval

FORMAT = pl.Enum(["sft", "dpo", "grpo"])
PARTITION = pl.Enum(["train", "validation"])
SEVERITY = pl.Enum(["error", "warning"])
KIND = pl.Enum(["content", "name", "near"])
CALL_STATE = pl.Enum(["pending", "known", "unknown"])
ARM = pl.Enum(["baseline", "candidate"])
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
_AMOUNTS = (
    "maximum_nanos cost_nanos input_tokens output_tokens reasoning_tokens cached_tokens cache_write_tokens".split()
)
COST_CALLS = Table(
    "cost_calls",
    "One paid call of a cost ledger. Amounts are billionths of a US dollar.",
    {
        "call": text("id of the call; used once", nullable=False),
        "channel": text("who calls: agent, judge, verifier, analyst, driver, other", nullable=False),
        "phase": text("preparation (to make a candidate) or measurement", nullable=False),
        "model": text("what was called", nullable=False),
        "state": one_of(CALL_STATE, "pending until it is settled; known or unknown by its cost", nullable=False),
        "maximum_nanos": integer("what it may cost at the most; null when nobody said"),
        "cost_nanos": integer("what it cost; null is not 0"),
        "provenance": text("observed, estimated (tokens and rates) or uncaptured; null while pending"),
        "input_tokens": integer("tokens read, the cached ones counted"),
        "output_tokens": integer("tokens written, the reasoning ones counted"),
        "reasoning_tokens": integer("of the output"),
        "cached_tokens": integer("of the input, read from the cache"),
        "cache_write_tokens": integer("of the input, written to the cache"),
        "failure": text("why it failed; null when it did not"),
        "owner": text("writer that let it through", nullable=False),
        "revision": integer("0-based line of the admission", nullable=False),
    },
    rules={f"{c}|not_negative": not_negative(c) for c in _AMOUNTS},
    keys=("call",),
)
EXPERIMENT_CELLS = Table(
    "experiment_cells",
    "One cell of a sealed experiment: one run of one arm on one task with one seed.",
    {
        "arm": one_of(ARM, "which state runs", nullable=False),
        "state_digest": text("profile of the arm", nullable=False),
        "task_index": integer("0-based position of the task in the suite", nullable=False),
        "task": text("scenario id of the task", nullable=False),
        "task_digest": text("task document", nullable=False),
        "repetition": integer("0-based", nullable=False),
        "seed": integer("seed of the run; both arms share it", nullable=False),
        "attempt": integer("1; evidence of later attempts is not taken", nullable=False),
    },
    keys=("arm", "task_index", "repetition"),
)
RUN_RECEIPTS = Table(
    "run_receipts",
    "One run of an experiment, as its receipt says.",
    {
        "receipt_digest": text("the receipt", nullable=False),
        "execution_id": text("the run; unique", nullable=False),
        "execution_ref": text("what pins executors and adapters", nullable=False),
        "experiment_digest": text("experiment it belongs to", nullable=False),
        "arm": one_of(ARM, "which state ran", nullable=False),
        "state_digest": text("profile that ran", nullable=False),
        "suite_digest": text("suite", nullable=False),
        "task_digest": text("task document", nullable=False),
        "task_index": integer("position of the task in the suite", nullable=False),
        "repetition": integer("0-based", nullable=False),
        "seed": integer("seed of the run", nullable=False),
        "attempt": integer("1-based", nullable=False),
        "billing": texts("calls of the cost ledger it paid", nullable=False),
        "model": text("model that answered", nullable=False),
        "grader_digest": text("artifact of the grader; null for a failed run"),
        "succeeded": flag("it ran to its end and was graded", nullable=False),
        "failure": text("code of the failure; null when there is none"),
        "score": real("null for a failed run"),
        "passed": flag("verdict of the grader; null for a failed run"),
        "dimensions": json("scores of named dimensions"),
        "cost_nanos": integer("what it cost; null when the receipt does not say"),
        "duration_ms": integer("wall time; outside of the digest"),
    },
)
POPULATION = Table(
    "population_candidates",
    "One candidate of a search and one of its parents.",
    {
        "candidate_digest": text("the candidate", nullable=False),
        "parent_digest": text("one parent; null where none is named"),
        "status": text("materialized, failed or unavailable", nullable=False),
        "error": text("what failed; null when nothing did"),
        "profile_digest": text("profile it became; null when it failed"),
        "n_diffs": integer("steps from the baseline; null when it failed"),
    },
)
TRAINING_TABLES = {
    t.name: t
    for t in (
        TRAINING_ROWS, TRAINING_TASKS, TRAINING_FINDINGS, EXPOSURE, EXPOSURE_HITS, COST_CALLS, EXPERIMENT_CELLS, RUN_RECEIPTS, POPULATION
    )
}  # fmt: skip
