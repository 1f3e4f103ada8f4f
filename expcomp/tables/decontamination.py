"""Held-out tasks, and what was found of them: by task and by row."""

from __future__ import annotations

import polars as pl

from expcomp.tables._spec import Table, integer, one_of, real, text, texts, unit_interval

FIELD = pl.Enum(["prompt", "answer", "tests"])
VERDICT = pl.Enum(["review", "drop"])
LEVEL = pl.Enum(["exact_content", "exact_name", "normalized_text", "minhash", "ngram"])

HELD_OUT = Table(
    "held_out",
    "One held-out task: what a dataset is kept clear of.",
    {
        "benchmark": text("benchmark or task set"),
        "task": text("the task as its benchmark names it"),
        "content_digest": text("`sha256:` and hex digest of the task's content"),
        "prompt": text("what is asked"),
        "answer": text("reference answer, patch or gold actions"),
        "tests": text("hidden tests"),
    },
)
DECONTAMINATION_TASKS = Table(
    "decontamination_tasks",
    "One held-out task, with all that was found of it; tasks of which nothing was found are there too.",
    {
        "heldout": integer("position in the held-out set", nullable=False),
        "benchmark": text("benchmark or task set"),
        "task": text("the task as its benchmark names it"),
        "content_digest": text("digest of the task's content"),
        "levels": texts("steps of the chain that found it", nullable=False),
        "n_tasks": integer("tasks that are this one by content, name or text", nullable=False),
        "rows_dropped": integer("rows that hold too much of its text", nullable=False),
        "rows_review": integer("rows that hold some of its text and stay", nullable=False),
        "max_coverage": real("largest share of one of its fields in one row; null when nothing was found"),
        "longest_run": integer("longest stretch of its words in one row"),
    },
    rules={"max_coverage|unit_interval": unit_interval("max_coverage")},
    keys=("heldout",),
)
DECONTAMINATION_ROWS = Table(
    "decontamination_rows",
    "One row in which something was found, with the worst of it.",
    {
        "kind": text("kind or file of the row"),
        "row_id": text("row", nullable=False),
        "task_id": text("task of the row"),
        "verdict": one_of(VERDICT, "`drop`: left out; `review`: kept, to be looked at", nullable=False),
        "level": one_of(LEVEL, "step of the chain that found it", nullable=False),
        "heldout": integer("position of the worst task in the held-out set", nullable=False),
        "benchmark": text("benchmark of that task"),
        "task": text("name of that task"),
        "field": one_of(FIELD, "its field that was found; null when the task itself is the held-out one"),
        "coverage": real("share of the field's words that are in the row"),
        "longest_run": integer("longest stretch of its words in the row"),
        "n_heldout": integer("held-out tasks found in the row", nullable=False),
    },
    rules={"coverage|unit_interval": unit_interval("coverage")},
)
DECONTAMINATION_TABLES = {t.name: t for t in (HELD_OUT, DECONTAMINATION_TASKS, DECONTAMINATION_ROWS)}
