"""`expcomp trainset pack` and `split`: a training dataset in another form, or with other partitions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from expcomp.cli.options import Force, Json, Quiet
from expcomp.cli.trainset_options import Dataset, Digest, MaxBytes, MaxRows, limits_of, show_described
from expcomp.errors import UsageError

if TYPE_CHECKING:
    from expcomp.training.packing import Shards

_Out = Annotated[
    Path,
    typer.Option("--out", "-o", help="NAME.json for a document, any other name for a bundle.", show_default=False),
]
_Shards = Annotated[str, typer.Option(help="Shards of a bundle: parquet or jsonl.")]
_ShardRows = Annotated[int | None, typer.Option(min=1, help="Rows of a shard; default 100,000.")]


def pack(
    dataset: Dataset,
    out: _Out,
    digest: Digest = None,
    shards: _Shards = "parquet",
    shard_rows: _ShardRows = None,
    max_bytes: MaxBytes = None,
    max_rows: MaxRows = None,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a dataset in its other form, or in other shards: rows, tasks and document digest stay the same.

    Example: expcomp trainset pack rows.json --out bundle
    """
    from expcomp.training.dataset import read_dataset
    from expcomp.training.packing import write_dataset

    kind = _shards(shards)
    made = read_dataset(dataset, expected_digest=digest, limits=limits_of(max_bytes, max_rows))
    written = write_dataset(made.rows, made.kind, out, shards=kind, shard_rows=shard_rows, force=force)
    _tell(written.to_dict() | {"source_digest": made.digest}, out, as_json=as_json, quiet=quiet)


def split(
    dataset: Dataset,
    out: _Out,
    group: Annotated[
        str,
        typer.Option(help="What stays together: task, repository, benchmark, or a field of the payload, as meta.user."),
    ] = "task",
    share: Annotated[float, typer.Option(min=0, max=1, help="Share of the groups in validation.")] = 0.1,
    seed: Annotated[str, typer.Option(help="Seed of the hash that places the groups.")] = "expcomp",
    time: Annotated[
        str | None, typer.Option(help="Field of the payload with an ISO time; with --before, in place of the hash.")
    ] = None,
    before: Annotated[
        str | None, typer.Option(help="ISO date: groups that begin then or later go to validation.")
    ] = None,
    embargo_days: Annotated[
        float, typer.Option(min=0, help="Leave out groups that begin less than this before it.")
    ] = 0.0,
    stratify: Annotated[
        bool, typer.Option("--stratify", help="Hold the share within each benchmark; new rows may then move old ones.")
    ] = False,
    min_groups: Annotated[int, typer.Option(min=1, help="Groups that each partition needs.")] = 1,
    digest: Digest = None,
    shards: _Shards = "parquet",
    shard_rows: _ShardRows = None,
    max_bytes: MaxBytes = None,
    max_rows: MaxRows = None,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Assign the partitions of a dataset anew: rows of a group, of a task or of one content are never parted.

    A group's place rests on seed and group alone, so that adding rows moves no old group.

    Example: expcomp trainset split rows.json --group repository --share 0.1 --seed v1 --out split.json
    """
    from expcomp.training.dataset import read_dataset
    from expcomp.training.packing import write_dataset
    from expcomp.training.splitting import PARTED, SplitOptions, split_rows

    kind = _shards(shards)
    options = SplitOptions(
        group=group,
        share=share,
        seed=seed,
        time=time,
        before=before,
        embargo_days=embargo_days,
        stratify=stratify,
        min_groups=min_groups,
    )
    made = read_dataset(dataset, expected_digest=digest, limits=limits_of(max_bytes, max_rows), severities=PARTED)
    parts = split_rows(made.rows, options)
    written = write_dataset(parts.rows, made.kind, out, shards=kind, shard_rows=shard_rows, force=force)
    told = written.to_dict() | {"source_digest": made.digest, "moved_rows": parts.moved}
    _tell(told | {"partitions": parts.counts.to_dicts()}, out, as_json=as_json, quiet=quiet)


def _shards(name: str) -> Shards:
    if name not in ("parquet", "jsonl"):
        raise UsageError(f"--shards {name}: expected parquet or jsonl")
    return name  # type: ignore[return-value]


def _tell(told: dict[str, Any], out: Path, *, as_json: bool, quiet: bool) -> None:
    from expcomp.io.documents import json_document

    if as_json:
        print(json_document({"out": str(out)} | told), end="")
    elif not quiet:
        print(f"Wrote {out}.")
        show_described(told)
        for part in told.get("partitions", []):
            name = part["partition"] or "left out"
            print(f"  {name:16}{part['n_rows']:,} rows of {part['n_tasks']:,} tasks in {part['n_groups']:,} groups")
