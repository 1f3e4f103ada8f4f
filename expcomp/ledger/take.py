"""What `Ledger.add` takes: TraceSets, frames, records, and files of any of them, as runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.errors import SourceError, UsageError
from expcomp.io.record_files import LINES, beside, kind_of_file, not_finite, read_records
from expcomp.ledger.adding import checked
from expcomp.ledger.folders import DOCUMENT, runs_inside
from expcomp.ledger.inputs import PROFILE, REFUSED, Inputs, check_types, conform, from_attempts
from expcomp.ledger.lm_eval import from_results, is_results
from expcomp.ledger.pack import Pack, read_pack
from expcomp.ledger.recompute import recompute
from expcomp.ledger.written import score_of_record, with_whole_scores
from expcomp.sources.traceset import TraceSet
from expcomp.tables.ledger import RUNS

if TYPE_CHECKING:
    from datetime import datetime

ANCESTOR = "loopx"
_RECORDS = ("benchmark_run_v0", "terminal_bench_post_launch_materialization_v0")
_EXPECTED = "expected a TraceSet, a frame of attempts or runs, records, or paths"


def take(
    what: Any, pack: Pack, *, arm: str | None, group: str | None, benchmark: str | None, at: str | datetime
) -> Inputs:
    """Runs of what was handed in, and the records that were refused.

    Raises:
        SourceError: A file cannot be read.
        UsageError: It is none of these.
    """
    if isinstance(what, Inputs):
        return what  # taken before, as when the ledger was yet to be made
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
        check_types(frame, RUNS.schema)
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
    if not (path.is_file() or path.is_dir()):
        raise SourceError(f"{path} is no file and no folder; not read")  # a pipe would block for ever
    strange = None
    if path.is_dir():
        inside = runs_inside(path, _schemas(pack))
        if inside.files:
            parts = [_path(p, pack, benchmark, named, at) for p in inside.files]
            return _joined([*parts, Inputs(conform(pl.DataFrame()), inside.passed)])
    elif kind_of_file(path) in (".json", *LINES):
        found = read_records(path)
        if is_results(found):
            return _filed(from_results(found, _samples(path, found), **named), path, pack)
        if isinstance(found, dict) and found.get("schema_version") == DOCUMENT:
            return _document(found, path, pack)
        records = found if isinstance(found, list) else [found]
        if any(_is_record(r, pack) for r in records):
            return _filed(_records(records, pack, named, at, _schemas(pack)), path, pack)
        strange = next((r["schema_version"] for r in records if isinstance(r, dict) and "schema_version" in r), None)
    from expcomp.sources.load import read_traces

    try:
        ts = read_traces(path)
    except SourceError as error:
        if strange is None:
            raise
        known = ", ".join((*_schemas(pack), DOCUMENT))
        raise SourceError(f"{path}: schema_version is {strange!r}; a ledger takes {known}, or traces") from error
    given = from_attempts(_collected(ts["attempts"]), _collected(ts["tasks"]), benchmark=benchmark, **named)
    unread = Inputs(given.runs.clear(), _unread(_collected(ts["diagnostics"]), path))
    return _joined([_filed(given, path, pack), unread])


def _filed(given: Inputs, path: Path, pack: Pack) -> Inputs:
    """What a file gave, with its name in what was refused; a run that breaks a rule is refused here, where its record is known."""
    if pack.profile != PROFILE:
        return given._replace(refused=given.refused.with_columns(file=pl.lit(str(path))))
    runs, broken = checked(given.runs, stored=given.stored)
    every = pl.int_range(given.runs.height + given.refused.height, eager=True)
    taken = every.filter(~every.is_in(given.refused["record"].implode()))
    broken = broken.with_columns(record=taken.gather(broken["record"]))
    refused = pl.concat([given.refused, broken]).sort("record", maintain_order=True)
    return Inputs(runs, refused.with_columns(file=pl.lit(str(path))))


def _unread(diagnostics: pl.DataFrame, path: Path) -> pl.DataFrame:
    """Errors of a load as refusals: what could not be read is no run."""
    where = pl.concat_str(pl.lit(str(path)), "source_uri", separator=": ", ignore_nulls=True)
    return diagnostics.filter(pl.col("severity") == "error").select(
        record=pl.col("source_pos").cast(pl.Int64),
        name="attempt_id",
        field=pl.coalesce("field", "code"),
        reason="detail",
        file=where,
    )


def _document(document: Mapping[str, Any], path: Path, pack: Pack) -> Inputs:
    """The runs of the ancestor's ledger, whatever the profile: the ancestor's own rules read it."""
    from expcomp.ledger.document import read_ledger_document

    compatible = bool(pack.settings.get("compatible"))
    found = read_ledger_document(document, pack if compatible else read_pack(ANCESTOR), as_written=compatible)
    about = {"updated_at": found.updated_at, "benchmarks": list(found.benchmarks), "header": dict(found.header)}
    refused = [(None, *why, str(path)) for why in found.refused]
    return Inputs(found.runs, pl.DataFrame(refused, schema=REFUSED, orient="row"), stored=True, about=about)


def _schemas(pack: Pack) -> Sequence[str]:
    found: Sequence[str] = pack.settings.get("record_schemas", _RECORDS)
    return found


def _is_record(record: Any, pack: Pack) -> bool:
    return isinstance(record, dict) and record.get("schema_version") in _schemas(pack)


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


def _why_not(record: Any, schemas: Sequence[str] | None) -> tuple[str, str] | None:
    """Field and reason for which a record is not taken."""
    if not isinstance(record, Mapping):
        return "", f"{type(record).__name__} is no record"
    said = record.get("schema_version")
    if schemas is not None and said not in schemas:
        return "schema_version", f"{said!r}; expected {' or '.join(schemas)}"
    try:
        bad = not_finite(dict(record))
    except RecursionError:
        return "", "nested too deep"
    return None if bad is None else (bad, "not a finite number")


def _records(
    records: list[Any],
    pack: Pack,
    named: Mapping[str, Any],
    at: str | datetime,
    schemas: Sequence[str] | None = None,
) -> Inputs:
    refused = []
    kept = []
    for number, record in enumerate(records):
        why = _why_not(record, schemas)
        if why is None:
            kept.append(record)
        else:
            name = record.get("case_id") if isinstance(record, Mapping) else None
            refused.append((number, None if name is None else str(name), *why, None))
    from expcomp.ledger.entries import entries

    runs = entries(kept, pack, arm=named["arm"], group=named["group"], recorded_at=at)
    if pack.settings.get("compatible"):
        # To the ancestor `1` and `1.0` are two texts.
        runs = with_whole_scores(runs, [score_of_record(r) for r in kept])
    return Inputs(conform(runs), pl.DataFrame(refused, schema=REFUSED, orient="row"))


def _joined(parts: list[Inputs]) -> Inputs:
    """The runs of several files as one batch.

    Raises:
        UsageError: Ledger documents among other files: those are put in as they are, the others by the rules.
    """
    full = [p for p in parts if p.stored or p.runs.height]
    if len({p.stored for p in full}) > 1:
        raise UsageError("ledger documents and run records cannot be added in one call; add them one after the other")
    refused = pl.concat([p.refused for p in parts])
    if not full:
        return parts[0]._replace(refused=refused)
    return full[-1]._replace(runs=pl.concat([p.runs for p in full]), refused=refused)


def _collected(frame: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
    return frame.lazy().collect()
