"""Options of the verbs that look at arms, and the runs they are about."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    import polars as pl

Paths = Annotated[
    list[str],
    typer.Argument(
        help="A ledger, the output of a compile, a file of trials (task, arm, score or passed), or trace files and folders.",
        show_default=False,
    ),
]
Metric = Annotated[str, typer.Option(help="passed, score, or auto: verdicts where every trial has one.")]
Confidence = Annotated[float, typer.Option(help="Of intervals and decisions.")]
Seed = Annotated[int, typer.Option(min=0, help="Of the bootstrap.")]
Resamples = Annotated[int, typer.Option(min=1, help="Of the bootstrap.")]
Scale = Annotated[
    str | None, typer.Option("--score-scale", help="Ends of scores whose scale is not known, as LOW,HIGH.")
]


def opened(paths: list[str]) -> Any:
    """What the paths hold: Ledger, Compilation, frame of trials, or TraceSet.

    Raises:
        SourceError: A path cannot be read.
        UsageError: A ledger, a compile or a file of trials beside other paths.
    """
    from expcomp.reports.given import opened as of_paths

    return of_paths(paths)


def end(what: Any) -> None:
    """Tell, at the end of a verb, what of its traces could not be read.

    Raises:
        Exit: With `PARTIAL`, when there is something.
    """
    from expcomp.cli.options import PARTIAL, errors_of
    from expcomp.sources.traceset import TraceSet

    errors = errors_of(what.skipped(), lines="lines") if isinstance(what, TraceSet) else {}
    if errors:
        told = ", ".join(f"{code} {n:,}" for code, n in errors.items())
        print(f"expcomp: could not be read and was left out: {told}; `expcomp read` says where", file=sys.stderr)
        raise typer.Exit(PARTIAL)


def with_arm(frame: pl.DataFrame, name: str, arm: str) -> pl.DataFrame:
    """A frame with the name of an arm in front."""
    import polars as pl

    return frame.select(pl.lit(arm).alias(name), pl.exclude(name))


def rows_of(value: Any) -> Any:
    """A value for JSON: frames as lists of rows."""
    import polars as pl

    from expcomp.cli.frames import plain

    if isinstance(value, pl.DataFrame):
        return [plain(row) for row in value.to_dicts()]
    if isinstance(value, dict):
        return {k: rows_of(v) for k, v in value.items()}
    if isinstance(value, tuple | list):
        return [rows_of(v) for v in value]
    return value
