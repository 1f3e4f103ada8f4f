"""`expcomp decontaminate`: rows against held-out tasks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from expcomp.cli.options import (
    EngineName,
    Force,
    Json,
    Memory,
    Quiet,
    RayAddress,
    Workers,
    column_names,
    engine_option,
    memory_option,
)
from expcomp.errors import UsageError

if TYPE_CHECKING:
    from expcomp.datasets.decontaminate.check import Checked

SHOWN = 20


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(decontaminate)


def decontaminate(
    rows: Annotated[
        Path, typer.Argument(help="Dataset folder, compile output, .parquet or .jsonl file.", show_default=False)
    ],
    against: Annotated[
        list[Path],
        typer.Option(help="Held-out set: file, compile output, or dataset folder. Repeatable.", show_default=False),
    ],
    level: Annotated[
        list[str] | None,
        typer.Option(help="Only these steps: exact_content, exact_name, normalized_text, ngram, minhash. Repeatable."),
    ] = None,
    column: Annotated[
        list[str] | None, typer.Option(help="Column of held-out files, as prompt=problem. Repeatable.")
    ] = None,
    coverage: Annotated[
        float, typer.Option(min=0, max=1, help="Share of a field in one row that drops the row.")
    ] = 0.5,
    run: Annotated[int, typer.Option(min=1, help="Words in one stretch that drop the row.")] = 50,
    report: Annotated[Path | None, typer.Option(help="Write what was found in each row, as Parquet.")] = None,
    drop: Annotated[bool, typer.Option("--drop", help="Write the rows that pass to --out.")] = False,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="With --drop: file or folder for the rows.")] = None,
    force: Force = False,
    workers: Workers = None,
    memory: Memory = None,
    engine: EngineName = "local",
    ray_address: RayAddress = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Look for held-out tasks in rows; exit 1 when some are there.

    Example: expcomp decontaminate ds --against heldout.jsonl --report found.parquet
    """
    if drop != (out is not None):
        msg = "--drop and --out go together: the rows that pass are written to --out"
        raise UsageError(msg)
    from dataclasses import replace

    from expcomp.datasets.decontaminate.check import check_rows, held_out, scanners, write_clean, write_report
    from expcomp.datasets.options import Policy
    from expcomp.io.documents import json_document
    from expcomp.io.progress import Progress

    policy = replace(Policy(), coverage=coverage, run=run)
    if level:
        policy = replace(policy, levels=tuple(dict.fromkeys(level)))
    held = held_out(against, columns=column_names(column or []))
    where = engine_option(engine, ray_address, workers)
    with scanners(rows, processes=workers, memory=memory_option(memory), engine=where) as pool:
        checked = check_rows(rows, held, policy, pool=pool, progress=Progress(show=not quiet))
        if report is not None:
            write_report(checked.rows, report, force=force)
        kept = write_clean(rows, checked, out, force=force, pool=pool) if out is not None else None
    if as_json:
        print(json_document(_result(checked, kept, out)), end="")
    elif not quiet:
        _show(checked, kept, out)
    if checked.n_dropped or checked.rows.height:
        raise typer.Exit(1)


def _result(checked: Checked, kept: int | None, out: Path | None) -> dict[str, Any]:
    import polars as pl

    found = checked.tasks.filter(pl.col("levels").list.len() > 0)
    return checked.manifest | {
        "heldout_tasks": checked.tasks.height,
        "rows_dropped": checked.n_dropped,
        "rows_review": checked.rows.height - checked.n_dropped,
        "rows_kept": kept,
        "out": None if out is None else str(out),
        "tasks": found.to_dicts(),
        "found": checked.rows.to_dicts(),
    }


def _show(checked: Checked, kept: int | None, out: Path | None) -> None:
    import polars as pl
    from rich.console import Console

    from expcomp.cli.terminal import say, table

    console = Console()
    review = checked.rows.height - checked.n_dropped
    say(
        console,
        f"{checked.n_rows:,} rows against {checked.tasks.height:,} held-out tasks: "
        f"{checked.n_dropped:,} hold one, {review:,} to review.",
    )
    found = checked.tasks.filter(pl.col("levels").list.len() > 0)
    if found.height:
        lines = []
        worst = found.sort("rows_dropped", "rows_review", descending=True, maintain_order=True)
        for row in worst.head(SHOWN).to_dicts():
            name = "/".join(p for p in (row["benchmark"], row["task"]) if p) or f"number {row['heldout']}"
            share = "" if row["max_coverage"] is None else f"{row['max_coverage']:.2f}"
            lines.append((name, ", ".join(row["levels"]), f"{row['rows_dropped']:,}", f"{row['rows_review']:,}", share))
        texts = [("held-out task", False), ("found by", False)]
        table(console, [*texts, *((title, True) for title in ("rows dropped", "to review", "max coverage"))], lines)
        if found.height > SHOWN:
            say(console, f"and {found.height - SHOWN:,} more; all are in --json.")
    if out is not None:
        say(console, f"Wrote {kept:,} rows to {out}.")
