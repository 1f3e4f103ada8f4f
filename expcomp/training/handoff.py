"""From a dataset folder, as `expcomp dataset` writes it, to the dataset of a training run: each row with its task and partition."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import polars as pl

from expcomp.errors import SourceError, UsageError
from expcomp.io.canonical_rows import canonical_texts
from expcomp.io.files import listing
from expcomp.io.frame_files import read_frame
from expcomp.io.text_files import read_text_file
from expcomp.training.checks import DatasetError
from expcomp.training.parsing import refused_findings, refused_texts
from expcomp.training.validate import ROWS

KINDS = {"sft": "sft", "dpo": "dpo"}
"""Configs of a dataset folder that a training dataset takes, and its format; prompts for GRPO hold no completions to train on."""
INVENTORY = "inventory.parquet"
_NEEDED = ("task_id", "benchmark", "task", "content_digest", "split")


class Handoff(NamedTuple):
    """Rows for a training run, and the tasks that it is to be measured on.

    Attributes:
        rows: `validate.ROWS`.
        kind: `sft` or `dpo`.
        heldout: Lines of the inventory whose split is neither trained nor validated on.
    """

    rows: pl.DataFrame
    kind: str
    heldout: pl.DataFrame


def training_rows(folder: Path, config: str, *, train: str = "train", validation: str | None = None) -> Handoff:
    """The rows of a config with the identity of their tasks.

    Args:
        folder: As `expcomp dataset` writes it.
        config: `sft` or `dpo`.
        train: Split that is trained on.
        validation: Split that the trainer may look at; None: it looks at none.

    Raises:
        UsageError: Another config, or one split for both.
        SourceError: The folder lacks a file, or a row names a task that is not in its inventory.
        DatasetError: A row has no canonical form.
    """
    if config not in KINDS:
        raise UsageError(f"config {config}: expected {' or '.join(KINDS)}")
    partitions = {train: "train"} | ({} if validation is None else {validation: "validation"})
    if validation == train:
        raise UsageError(f"split {train} cannot be trained on and be the validation")
    tasks = read_frame(folder / INVENTORY)
    missing = [c for c in _NEEDED if c not in tasks.columns]
    if missing:
        raise SourceError(
            f"{folder / INVENTORY} has no column {', '.join(missing)}; give a folder of `expcomp dataset`"
        )
    named = tasks.select(*_NEEDED[:-1]).unique("task_id", keep="first", maintain_order=True)
    rows = pl.concat(_parts(folder / "data" / config, partitions)).with_row_index("row")
    rows = rows.with_columns(task_id=pl.col("data").str.json_path_match("$.task_id"))
    found = rows.join(named, on="task_id", how="left", maintain_order="left")
    lost = found.filter(pl.col("task").is_null())
    if lost.height:
        raise SourceError(
            f"{folder}: row {lost['row'][0]} of {config} is of task {lost['task_id'][0]}, which {INVENTORY} does not list"
        )
    heldout = tasks.filter(~pl.col("split").is_in(list(partitions)))
    return Handoff(found.select(ROWS.keys()).cast(ROWS), KINDS[config], heldout)  # type: ignore[arg-type]


def _parts(folder: Path, partitions: dict[str, str]) -> Iterator[pl.DataFrame]:
    """Rows of each file, canonical, the splits in the order given."""
    names = listing(folder) if folder.is_dir() else []
    for split, partition in partitions.items():
        files = sorted(n for n in names if n.startswith(f"{split}-") and n.endswith(".jsonl"))
        if not files:
            raise SourceError(
                f"{folder}: no {split}-*.jsonl; build it with `expcomp dataset`, with a split of this name"
            )
        for name in files:
            lines = pl.Series([read_text_file(folder / name)])
            texts = lines.str.strip_suffix("\n").str.split("\n").explode()
            made = canonical_texts(texts).with_row_index("row")
            if made["text"].null_count():
                raise DatasetError(refused_findings(refused_texts(made.cast({"row": pl.Int64}), "data"), name))
            yield made.select(data="text", partition=pl.lit(partition))
