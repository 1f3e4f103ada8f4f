"""Part files become the published files of one table or family; runs in a worker."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.io.digest import sha256_file
from expcomp.io.sinks import join_lines, join_parquet, write_parquet
from expcomp.tables import models
from expcomp.tables.digests import rules_digest, schema_digest
from expcomp.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

    from expcomp.tables._spec import Table

SAMPLE = 500
"""Rows of each later part that are validated."""

IN_MEMORY = 32 << 20
"""Files whose parts are no larger than this together are written from memory."""


@dataclass(frozen=True, slots=True)
class MergeJob:
    """All files of one table or family: path in the output -> its parts in order."""

    table: str
    files: dict[str, tuple[str, ...]]
    staging: str
    folder: str
    check: str


def merge(job: MergeJob) -> list[dict[str, Any]]:
    """Validate the parts, write the files and say what the manifest says of them.

    Raises:
        TableError: A frame does not hold to its contract; nothing is published then.
    """
    table = models.table(job.table)
    parts = {target: [Path(job.folder, p) for p in names] for target, names in job.files.items()}
    digests = {"schema_digest": schema_digest(table), "rules_digest": rules_digest(table)}
    meta = {f"expcomp.{k}": v for k, v in digests.items()} | {
        "expcomp.table": job.table,
        "expcomp.version": __version__,
    }
    frames = _frames(table, {t: own for t, own in parts.items() if t.endswith(".parquet")})
    # One pandera run for all of a small table, since its cost is by column; one for each part of a large one, to keep memory flat.
    for frame in [pl.concat(frames.values())] if frames is not None else _samples(parts, job.check):
        _validate(job.table, frame, job.check)
    entries: list[dict[str, Any]] = []
    for target, own in parts.items():
        out = Path(job.staging, target)
        if target.endswith(".jsonl"):
            rows, digest = join_lines(own, out)
            entry: dict[str, Any] = {"path": target}
        else:
            if frames is not None or not own:
                rows = write_parquet(frames[target] if frames is not None else table.empty(), out, meta)
            else:
                rows = join_parquet(own, out, meta)
            digest = sha256_file(out)
            entry = {"path": target, **digests}
        entries.append(entry | {"rows": rows, "bytes": out.stat().st_size, "sha256": digest})
        for part in own:
            part.unlink()
    return entries


def _frames(table: Table, files: dict[str, list[Path]]) -> dict[str, pl.DataFrame] | None:
    """The frames of all files when they are small together, else None: they are streamed then."""
    if sum(p.stat().st_size for parts in files.values() for p in parts) > IN_MEMORY:
        return None
    return {t: pl.concat([table.empty(), *(pl.read_ipc(p) for p in parts)]) for t, parts in files.items()}


def _samples(files: dict[str, list[Path]], check: str) -> Iterator[pl.DataFrame]:
    """The first part of each file in full, of later ones a seeded sample; all in full under check=full."""
    for target, parts in files.items():
        for number, part in enumerate(parts if target.endswith(".parquet") else []):
            frame = pl.read_ipc(part)
            whole = number == 0 or check == "full"
            yield frame if whole else frame.sample(min(SAMPLE, frame.height), seed=number)


def _validate(name: str, frame: pl.DataFrame, check: str) -> None:
    if check == "off" or not frame.height:
        models.check_schema(name, frame)
    else:
        models.validate(name, frame)
