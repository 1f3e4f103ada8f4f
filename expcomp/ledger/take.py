"""What `Ledger.add` takes: TraceSets, frames, records, and files of any of them, as runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.errors import SourceError, UsageError
from expcomp.io.record_files import LINES, beside, not_finite, read_records
from expcomp.ledger.inputs import PROFILE, REFUSED, Inputs, conform, from_attempts
from expcomp.ledger.lm_eval import from_results, is_results
from expcomp.ledger.pack import Pack, read_pack
from expcomp.ledger.recompute import recompute
from expcomp.ledger.written import score_of_record, with_whole_scores
from expcomp.sources.traceset import TraceSet

if TYPE_CHECKING:
    from datetime import datetime

ANCESTOR = "loopx"
_DOCUMENT = "benchmark_run_ledger_v0"
_EXPECTED = "expected a TraceSet, a frame of attempts or runs, records, or paths"


def take(
    what: Any, pack: Pack, *, arm: str | None, group: str | None, benchmark: str | None, at: str | datetime
) -> Inputs:
    """Runs of what was handed in, and the records that were refused.

    Raises:
        SourceError: A file cannot be read.
        UsageError: It is none of these.
    """
    named = {"arm": arm, "group": group}
    given = _take(what, pack, benchmark, named, at)
    if given.stored:
        return given if pack.profile != PROFILE else given._replace(runs=recompute(given.runs, pack))
    foreign = (given.runs["profile"] != pack.profile).any()
    if foreign and pack.profile != PROFILE:
        raise UsageError(
            f"a ledger of profile {pack.profile} takes run records and ledger documents; attempts need one of profile {PROFILE}"
        )
    return given._replace(runs=recompute(given.runs, pack)) if pack.profile == PROFILE else given


def _take(what: Any, pack: Pack, benchmark: str | None, named: Mapping[str, Any], at: str | datetime) -> Inputs:
    if isinstance(what, TraceSet):
        return from_attempts(_collected(what["attempts"]), _collected(what["tasks"]), benchmark=benchmark, **named)
    if isinstance(what, pl.DataFrame | pl.LazyFrame):
        return _frame(_collected(what), benchmark, named)
    if isinstance(what, str | Path):
        return _path(Path(what), pack, benchmark, named, at)
    if isinstance(what, Mapping):
        return _records([what], pack, named, at)
    if isinstance(what, Iterable):
        items = list(what)
        if items and all(isinstance(i, str | Path) for i in items):
            return _joined([_path(Path(i), pack, benchmark, named, at) for i in items])
        return _records(items, pack, named, at)
    raise UsageError(f"{type(what).__name__} cannot be added; {_EXPECTED}")


def _frame(frame: pl.DataFrame, benchmark: str | None, named: Mapping[str, Any]) -> Inputs:
    if "filed_case" in frame.columns:
        runs = conform(frame)
        said = {"arm_id": named["arm"], "run_group_id": named["group"]}
        runs = runs.with_columns(pl.lit(v).alias(c) for c, v in said.items() if v)
        return Inputs(runs, pl.DataFrame(schema=REFUSED))
    if {"attempt_id", "task_id", "status"} <= set(frame.columns):
        return from_attempts(frame, benchmark=benchmark, **named)
    raise UsageError(
        f"a frame without filed_case, or without attempt_id, task_id and status, cannot be added; {_EXPECTED}"
    )


def _path(path: Path, pack: Pack, benchmark: str | None, named: Mapping[str, Any], at: str | datetime) -> Inputs:
    if not path.exists():
        raise SourceError(f"{path} does not exist")
    if path.is_file() and path.suffix.lower() in (".json", *LINES):
        found = read_records(path)
        if is_results(found):
            return from_results(found, _samples(path, found), **named)
        if isinstance(found, dict) and found.get("schema_version") == _DOCUMENT:
            return _document(found, pack)
        records = found if isinstance(found, list) else [found]
        if records and all(_is_record(r, pack) for r in records):
            return _records(records, pack, named, at)
    from expcomp.sources.load import read_traces

    ts = read_traces(path)
    return from_attempts(_collected(ts["attempts"]), _collected(ts["tasks"]), benchmark=benchmark, **named)


def _document(document: Mapping[str, Any], pack: Pack) -> Inputs:
    """The runs of the ancestor's ledger, whatever the profile: the ancestor's own rules read it."""
    from expcomp.ledger.document import read_ledger_document

    compatible = bool(pack.settings.get("compatible"))
    found = read_ledger_document(document, pack if compatible else read_pack(ANCESTOR), as_written=compatible)
    about = {"updated_at": found.updated_at, "benchmarks": list(found.benchmarks), "header": dict(found.header)}
    return Inputs(found.runs, pl.DataFrame(schema=REFUSED), stored=True, about=about)


def _is_record(record: Any, pack: Pack) -> bool:
    schemas = pack.settings.get("record_schemas", ("benchmark_run_v0", "terminal_bench_post_launch_materialization_v0"))
    return isinstance(record, dict) and record.get("schema_version") in schemas


def _samples(path: Path, document: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Samples beside a file of results, by task: those with the same time stamp in their names."""
    stamp = path.stem.removeprefix("results").lstrip("_")
    found = {}
    for task in document["results"]:
        end = f"_{stamp}.jsonl" if stamp else ".jsonl"
        for file in beside(path, f"samples_*{end}"):
            if file.name == f"samples_{task}{end}":
                found[task] = read_records(file)
    if not found and not document.get("samples"):
        raise SourceError(
            f"{path}: results without samples; run the harness with --log_samples, and keep samples_*.jsonl beside it"
        )
    return found


def _records(records: list[Any], pack: Pack, named: Mapping[str, Any], at: str | datetime) -> Inputs:
    refused = []
    kept = []
    for number, record in enumerate(records):
        why = ("", f"{type(record).__name__} is no record") if not isinstance(record, Mapping) else None
        bad = None if why else not_finite(dict(record))
        if bad is not None:
            why = (bad, "not a finite number")
        if why is None:
            kept.append(record)
        else:
            name = record.get("case_id") if isinstance(record, Mapping) else None
            refused.append((number, None if name is None else str(name), *why))
    from expcomp.ledger.entries import entries

    runs = entries(kept, pack, arm=named["arm"], group=named["group"], recorded_at=at)
    if pack.settings.get("compatible"):
        # To the ancestor `1` and `1.0` are two texts.
        runs = with_whole_scores(runs, [score_of_record(r) for r in kept])
    return Inputs(conform(runs), pl.DataFrame(refused, schema=REFUSED, orient="row"))


def _joined(parts: list[Inputs]) -> Inputs:
    return Inputs(pl.concat([p.runs for p in parts]), pl.concat([p.refused for p in parts]))


def _collected(frame: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
    return frame.lazy().collect()
