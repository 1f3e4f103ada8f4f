"""Second pass of a build: selected rows, in their order, become the files of a config."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from expcomp.datasets.arrow import arrow_schema, to_arrow
from expcomp.datasets.contract import LEFT
from expcomp.datasets.lines import json_lines
from expcomp.datasets.lower import lower
from expcomp.datasets.templates import counts
from expcomp.datasets.tokens import chat_columns
from expcomp.io.dataset_files import Lines, Written, write_shard
from expcomp.io.parts import compact, read_batches
from expcomp.tables.targets import TARGETS

if TYPE_CHECKING:
    import pyarrow as pa

    from expcomp.tables.targets import Target

SHARD = 48 << 20
"""Bytes, of text and `ROW` for each row, after which a config's next file begins: below the 500 MB that viewers and readers like, and as
much as a worker holds several times."""

ROW = 600
"""Bytes of text that take as much memory as what a row takes beside its text (measured: 4 KB; text takes seven times its size)."""

_CHUNK = 24 << 20


@dataclass(frozen=True)
class ShardJob:
    """One shard of a split of a target. `rows`: part, batch, at (place in the batch), size; in the order of the file."""

    target: str
    split: str
    number: int
    start: int
    rows: pl.DataFrame
    parts: str
    out: str


@dataclass(frozen=True)
class ShardDone:
    """What was written, by ending of the file; the rows the target could not take; counts for the card."""

    target: str
    split: str
    number: int
    files: dict[str, Written]
    taken: pl.Series
    left: pl.DataFrame
    counts: dict[str, dict[str, int]]


def ranked(keys: pl.DataFrame) -> pl.DataFrame:
    """Selected keys in the order of their files, with `_rank` (place in the split) and `_shard`.

    The order is that of `_order`, begun at the first row that shows the most optional keys: readers that guess types from the
    first lines meet all of them. Turning the order keeps every neighbour but one; that one is kept apart, too.
    """
    parts = [_ranked(part) for part in keys.sort("split", "_order").partition_by("split", maintain_order=True)]
    return pl.concat(parts) if parts else keys.with_columns(_rank=pl.lit(0, pl.UInt32), _shard=pl.lit(0, pl.UInt32))


def _ranked(part: pl.DataFrame) -> pl.DataFrame:
    best = pl.col("_rich").max()
    joint = part["task_id"].first() == part["task_id"].last()
    first = part.select((pl.col("_rich") == best).arg_max()).item()
    if first and not joint:
        part = pl.concat([part.slice(first), part.slice(0, first)])
    weight = pl.col("_size") + ROW
    return part.with_columns(
        _rank=pl.int_range(pl.len(), dtype=pl.UInt32),
        _shard=((weight.cum_sum() - weight) // SHARD).rle_id(),
    )


def plan_shards(target: Target, keys: pl.DataFrame, parts: Path, out: Path) -> list[ShardJob]:
    """Jobs of a target for keys that went through `ranked`."""
    return [
        ShardJob(
            target.name,
            str(group["split"][0]),
            int(group["_shard"][0]),
            int(group["_rank"][0]),
            group.select("_part", "_batch", "_row", "_size"),
            os.fspath(parts),
            os.fspath(out),
        )
        for group in keys.partition_by("split", "_shard", maintain_order=True)
    ]


def run_shard(job: ShardJob) -> ShardDone:
    """Gather the rows of a shard, lower them, and write its files, a chunk at a time."""
    target = TARGETS[job.target]
    stem = Path(job.out) / f"{job.split}-{job.number:05}"
    found = _Found([], [pl.DataFrame(schema=dict(LEFT))], {})
    files: dict[str, Written] = {}
    with Lines(stem.with_name(f"{stem.name}.jsonl")) as lines:
        # One pass: what the rows become would take as much memory again, and as text a third time.
        tables = _tables(target, job, found, lines if "jsonl" in target.files else None)
        first = next(tables, None)
        if first is not None and "parquet" in target.files:
            path = stem.with_name(f"{stem.name}.parquet")
            files["parquet"] = write_shard(chain([first], tables), arrow_schema(target), path)
        for _ in tables:
            pass
        written = lines.close()
    if written is not None:
        files["jsonl"] = written
    counts = {name: dict(tally) for name, tally in found.tallies.items()}
    return ShardDone(job.target, job.split, job.number, files, pl.concat(found.taken), pl.concat(found.left), counts)


@dataclass(frozen=True)
class _Found:
    """What is known of a shard once its rows were lowered."""

    taken: list[pl.Series]
    left: list[pl.DataFrame]
    tallies: dict[str, Counter[str]]


def _tables(target: Target, job: ShardJob, found: _Found, lines: Lines | None) -> Iterator[pa.Table]:
    """The rows of a shard as the trainer reads them, chunk by chunk; lines are written on the way."""
    for start, rows in _chunks(_gathered(job), job.rows["_size"]):
        made = lower(target, rows, split=job.split, start=job.start + start)
        found.left.append(made.left)
        fine = rows.select(~pl.col("row_id").is_in(made.left["row_id"].implode())).to_series()
        found.taken.append(fine.alias("taken"))
        for name, tally in _tally(target, rows.filter(fine)).items():
            found.tallies.setdefault(name, Counter()).update(tally)
        if not made.frame.height:
            continue
        if lines is not None:
            lines.write(json_lines(target, made.frame))
        if "parquet" in target.files:
            yield to_arrow(target, made.frame)


def _tally(target: Target, rows: pl.DataFrame) -> dict[str, dict[str, int]]:
    """Rows that known templates refuse or take with loss; labels of steps and where they come from."""
    if target.kind == "process":
        lists = {"label_sources": pl.col("label_sources"), "labels": pl.col("labels").cast(pl.List(pl.String))}
        found = {n: rows.select(e.explode().alias("value"))["value"].value_counts() for n, e in lists.items()}
        return {n: dict(zip(f["value"], f["count"], strict=True)) for n, f in found.items()}
    if target.profile in ("typed", "native") and chat_columns(rows):
        return {"templates": counts(rows)}
    return {}


def _gathered(job: ShardJob) -> pl.DataFrame:
    """The logical rows of a shard in the order of the file."""
    lines = job.rows.with_row_index("rank").sort("_part", "_batch", "rank")
    batches = lines.group_by("_part", "_batch", maintain_order=True).agg(pl.len(), pl.col("_size").sum())
    # Many batches at once: to hand one over costs more than to read it.
    portions = (batches["_size"].cum_sum() // _CHUNK).rle().struct.field("len")
    found, start, at = [], 0, 0
    for portion in portions:
        some = batches.slice(at, portion)
        files = some.group_by("_part", maintain_order=True).agg("_batch")
        frame, heights = read_batches((Path(job.parts) / p, n.to_list()) for p, n in zip(*files, strict=True))
        before = pl.Series(heights).cum_sum() - pl.Series(heights)
        rows = lines.slice(start, int(some["len"].sum()))
        number = pl.struct("_part", "_batch").rle_id()
        place = rows.select(pl.lit(before).gather(number) + pl.col("_row")).to_series()
        # Copied, so that a worker holds what it took of the batches and not all it looked at.
        found.append(compact(frame[place]))
        start, at = start + rows.height, at + portion
    return pl.concat(found)[lines["rank"].arg_sort()]


def _chunks(rows: pl.DataFrame, sizes: pl.Series) -> Iterator[tuple[int, pl.DataFrame]]:
    """Rows in chunks of about `_CHUNK` bytes, so that what is made of them stays small."""
    weights = sizes + ROW
    lengths = ((weights.cum_sum() - weights) // _CHUNK).rle().struct.field("len")
    start = 0
    for length in lengths:
        yield start, rows.slice(start, length)
        start += length
