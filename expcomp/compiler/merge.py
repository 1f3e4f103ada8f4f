"""Part files become the published files of one table or family; runs in a worker."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from expcomp import __version__
from expcomp.io.digest import sha256_file
from expcomp.io.sinks import join_lines, join_parquet
from expcomp.tables import models
from expcomp.tables.digests import rules_digest, schema_digest

SAMPLE = 500
"""Rows of each later part that are validated."""


@dataclass(frozen=True, slots=True)
class MergeJob:
    """One file to publish: its path in the output, the table it holds, its parts in order."""

    target: str
    table: str
    parts: tuple[str, ...]
    staging: str
    folder: str
    check: str


def merge(job: MergeJob) -> dict[str, Any]:
    """Write the file and say what the manifest says of it."""
    out = Path(job.staging, job.target)
    parts = [Path(job.folder, p) for p in job.parts]
    entry: dict[str, Any] = {"path": job.target}
    if job.target.endswith(".jsonl"):
        rows = join_lines(parts, out)
    else:
        table = models.table(job.table)
        _validate(job.table, parts, job.check)
        digests = {"schema_digest": schema_digest(table), "rules_digest": rules_digest(table)}
        meta = {f"expcomp.{k}": v for k, v in digests.items()} | {
            "expcomp.table": job.table,
            "expcomp.version": __version__,
        }
        rows = join_parquet(parts, out, table.schema, meta)
        entry |= digests
    for part in parts:
        part.unlink()
    return entry | {"rows": rows, "bytes": out.stat().st_size, "sha256": sha256_file(out)}


def _validate(name: str, parts: list[Path], check: str) -> None:
    """Pandera in full on the first part and under check=full, on a seeded sample of later parts.

    Raises:
        TableError: A frame does not hold to its contract; nothing is published then.
    """
    if check == "off":
        return
    for number, part in enumerate(parts):
        frame = pl.read_ipc(part)
        if number and check != "full":
            frame = frame.sample(min(SAMPLE, frame.height), seed=number)
        models.validate(name, frame)
