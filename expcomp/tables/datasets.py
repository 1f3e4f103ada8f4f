"""Side tables of a dataset folder: which tasks are in it, where each row stands, what was left out and why."""

from __future__ import annotations

from expcomp.tables._spec import Table, integer, real, text

INVENTORY = Table(
    "inventory",
    "One task of a dataset, with its identity; the held-out set of the next dataset.",
    {
        "benchmark": text("benchmark or task set; `unnamed` when the source names none", nullable=False),
        "task": text("the task as its benchmark names it", nullable=False),
        "task_id": text("task", nullable=False),
        "content_digest": text("`sha256:` and hex digest of the task's content; null when nothing of it is known"),
        "instruction": text("what the agent was asked"),
        "target": text("reference answer, gold actions or tests (JSON text)"),
        "group": text("group of the split; null for tasks that no table names"),
        "split": text("split of the task", nullable=False),
        "n_rows": integer("rows of the task over all configs", nullable=False),
    },
    keys=("task_id", "split"),
)
ROW_INDEX = Table(
    "row_index",
    "One row of a dataset: where it stands, where it comes from, and what a curriculum sorts by.",
    {
        "config": text("config", nullable=False),
        "split": text("split", nullable=False),
        "position": integer("0-based place in the split", nullable=False),
        "row_id": text("row of the compile", nullable=False),
        "task_id": text("task", nullable=False),
        "attempt_id": text("attempt"),
        "bytes": integer("UTF-8 bytes of all texts", nullable=False),
        "loss_chars": integer("characters of what carries loss"),
        "tokens": integer("tokens; null when no tokenizer was named"),
        "n_turns": integer("assistant turns of a conversation"),
        "pass_rate": real("share of the task's recorded attempts that passed; null without a verdict"),
        "n_attempts": integer("attempts behind pass_rate"),
        "margin": real("pairs: difference of the normalised scores"),
    },
)
LEFT_OUT = Table(
    "left_out",
    "One candidate that is in no file of a config, and why.",
    {
        "config": text("config", nullable=False),
        "row_id": text("row of the compile", nullable=False),
        "task_id": text("task"),
        "reason": text("stable code", nullable=False),
        "detail": text("in words"),
    },
)
DATASET_TABLES = {t.name: t for t in (INVENTORY, ROW_INDEX, LEFT_OUT)}
