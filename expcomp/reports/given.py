"""What a report is about: a ledger, a compile or traces, from the object or the paths, with its trials."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from expcomp.comparing.given import from_user
from expcomp.comparing.trials import read_trials
from expcomp.compiler.compilation import Compilation, open_compilation
from expcomp.errors import TableError, UsageError
from expcomp.ledger.cases import active, terminal
from expcomp.ledger.store import Ledger
from expcomp.sources.traceset import TraceSet

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_LEDGER, _COMPILE, _TRIALS = "a ledger", "the output of a compile", "a file of trials"
_CONVERSATION = {"messages", "conversation", "conversations", "trajectory"}
"""Columns that a file of trials does not have; one of traces may well name the arm."""
_PROBLEMS = {"severity": pl.String, "code": pl.String, "lines": pl.Int64, "files": pl.Int64, "first_file": pl.String}


class Given(NamedTuple):
    """One source of a report.

    Attributes:
        kind: `ledger`, `compile`, `traces` or `frame`.
        what: What comparisons take.
        trials: Table `trials`.
        left_out: `reason`, `attempts`: what is no trial.
        counts: What was read, in words and numbers: `what`, `n`.
        problems: What was reported while reading: `severity`, `code`, `lines`, `files`, `first_file`.
        compiled: Report of a compile.
    """

    kind: str
    what: Any
    trials: pl.DataFrame
    left_out: pl.DataFrame
    counts: pl.DataFrame
    problems: pl.DataFrame
    compiled: Mapping[str, Any] | None = None


def given_of(what: Any, score_scale: tuple[float, float] | None = None) -> Given:
    """The source of a report: a Ledger, TraceSet, Compilation, frame of trials, or paths.

    Raises:
        UsageError: It is none of these.
        SourceError: A path cannot be read.
    """
    if isinstance(what, str | Path):
        what = opened([what])
    elif isinstance(what, list | tuple):
        what = opened(what)
    trials = read_trials(what, score_scale=score_scale)
    kind, counts, problems, compiled = _about(what)
    return Given(kind, what, trials.collect(trials.frame), trials.left_out, counts, problems, compiled)


def opened(paths: Sequence[str | Path]) -> Ledger | Compilation | TraceSet | pl.DataFrame:
    """The ledger, the compile or the file of trials (rows with `arm`) that one path is, or the traces below all of them.

    Raises:
        UsageError: No path, a ledger, a compile or a file of trials beside other paths, or such a file without a column it needs.
        TableError: A file of trials holds a value that is none; the message names file, row and column.
        SourceError: A path cannot be read.
    """
    from expcomp.io.frame_files import read_frame
    from expcomp.sources.load import read_traces

    if not paths:
        raise UsageError("no path; give a ledger, the output of a compile, a file of trials, or traces")
    special = [(p, kind) for p in paths if (kind := _kind(p))]
    if not special:
        return read_traces(*paths)
    path, kind = special[0]
    if len(paths) > 1:
        msg = f"{path} is {kind} and is taken alone; give one path, or only traces"
        raise UsageError(msg)
    if kind == _LEDGER:
        return Ledger(path)
    if kind == _COMPILE:
        return open_compilation(path)
    frame = read_frame(Path(path))
    try:
        from_user(frame, ())
    except (TableError, UsageError) as error:
        raise type(error)(f"{path}: {error}") from error
    return frame


def _kind(path: str | Path) -> str | None:
    from expcomp.io.frame_files import columns_of

    if "://" in str(path) or (Path(path) / "_delta_log").is_dir():
        return _LEDGER
    if all((Path(path) / n).is_file() for n in ("manifest.json", "report.json")) and (Path(path) / "rows").is_dir():
        return _COMPILE
    columns = columns_of(Path(path))
    return _TRIALS if "arm" in columns and not _CONVERSATION & set(columns) else None


def _about(what: Any) -> tuple[str, pl.DataFrame, pl.DataFrame, Mapping[str, Any] | None]:
    if isinstance(what, Ledger):
        runs = what.runs.select(
            runs=pl.len(),
            active=active().sum(),
            archived=(~active()).sum(),
            running=(active() & ~terminal()).sum(),
            cases=pl.struct("filed_benchmark", "filed_case").n_unique(),
            benchmarks=pl.col("filed_benchmark").n_unique(),
        ).collect()
        return "ledger", _counts(runs), pl.DataFrame(schema=_PROBLEMS), None
    if isinstance(what, Compilation):
        tables = {n: k for n, k in what.report["tables"].items() if k and n != "diagnostics"}
        counts = pl.DataFrame(
            {
                "what": ["packages or files", *(n.replace("_", " ") for n in tables)],
                "n": [len(what.report["packages"]), *tables.values()],
            }
        )
        return "compile", counts, _problems(what.tables["diagnostics"].lazy()), what.report
    if isinstance(what, TraceSet):
        names = ("tasks", "attempts", "steps", "messages", "grades", "artifacts")
        sizes = {n: what[n].lazy().select(pl.len()).collect().item() for n in names}
        counts = pl.DataFrame({"what": ["files and folders", *names], "n": [len(what.packages), *sizes.values()]})
        return "traces", counts.filter(pl.col("n") > 0), _problems(what["diagnostics"].lazy()), None
    return "frame", pl.DataFrame(schema={"what": pl.String, "n": pl.Int64}), pl.DataFrame(schema=_PROBLEMS), None


def _counts(wide: pl.DataFrame) -> pl.DataFrame:
    return wide.cast(pl.Int64).unpivot(variable_name="what", value_name="n").filter(pl.col("n") > 0)


def _problems(diagnostics: pl.LazyFrame) -> pl.DataFrame:
    """By severity and code; the detail stays where it is, since it quotes the data."""
    return (
        diagnostics.group_by("severity", "code", maintain_order=True)
        .agg(
            lines=pl.len().cast(pl.Int64),
            files=pl.col("source_uri").drop_nulls().n_unique().cast(pl.Int64),
            first_file=pl.col("source_uri").drop_nulls().min(),
        )
        .sort(pl.col("severity").to_physical(), "lines", "code", descending=[True, True, False])
        .with_columns(pl.col("severity").cast(pl.String))
        .collect()
    )
