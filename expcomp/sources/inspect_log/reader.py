"""inspect_ai logs: `.eval` archives and `.json` documents; one sample in one epoch is one attempt."""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import groupby
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.io.digest import sha256_file
from expcomp.sources._bytes import UnreadableError, read_head
from expcomp.sources._contract import Batch, Found, Frames, ReadOptions, Unit
from expcomp.sources._json import load_json
from expcomp.sources._units import add_evidence, add_tasks, open_unit, relative, report
from expcomp.sources._values import items, obj, text, whole
from expcomp.sources.inspect_log._log import Log, read_log
from expcomp.sources.inspect_log._rows import Rows, add_sample
from expcomp.sources.inspect_log._zip import EvalZip, dataset_of, sample_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from expcomp.sources._look import Look

PART = 500
"""Samples above which an archive is read in parts, and the size of a part."""

_FLUSH = 500
_LARGE = ("steps", "messages", "grades", "artifacts", "diagnostics")
_FIRST_NAMES = (b"_journal/", b"samples/", b"header.json", b"summaries.json", b"reductions.json")
_LOCAL_NAME = 30
_SPEC = {"task", "model", "run_id", "dataset"}
_DATASET = re.compile(rb'"dataset"\s*:\s*\{\s*"name"\s*:\s*"([^"\\]{1,200})"')
_TASK = re.compile(rb'"task"\s*:\s*"([^"\\]{1,200})"')
_HEADER_BYTES = 1 << 24


class InspectLog:
    """Reader of inspect_ai logs."""

    name = "inspect"
    summary = "inspect_ai logs: .eval archives (deflate or zstd, also unfinished ones) and .json documents"
    carries = {  # noqa: RUF012 - read only, by contract of the protocol
        "system_prompt": "yes, as a message",
        "tools": "in model events",
        "reasoning": "yes",
        "verdict": "yes, with explanation; the judges' own dialogues are left out",
        "trial": "epoch",
        "tokens": "per model call",
        "cost": "some",
        "times": "yes",
        "token_ids": "log probabilities if asked for",
    }

    def claims_folder(self, folder: Path, names: frozenset[str]) -> bool:
        """Never: logs are files."""
        return False

    def claims_file(self, look: Look) -> bool:
        """A zip archive with the entries of a log, or an object with `version` and an `eval` that names task and model."""
        if look.kind != "zip":
            return {"version", "eval"} <= look.keys and len(look.at("eval") & _SPEC) > 1
        if not look.body[_LOCAL_NAME:].startswith(_FIRST_NAMES):
            return False
        try:
            with EvalZip(look.path) as archive:
                return archive.is_log
        except UnreadableError:
            # A damaged archive that begins like a log is one: its reader says what is wrong with it.
            return look.body[_LOCAL_NAME:].startswith(b"_journal/start.json")

    def units(self, path: Path, root: Path, found: Found) -> None:
        """One unit a log; a large archive is cut into parts, between samples.

        Logs of one dataset are one group; so are parts of theirs that hold the same samples.
        """
        package, size = relative(path, root), path.stat().st_size
        try:
            with EvalZip(path) as archive:
                dataset = dataset_of(archive.header(_HEADER_BYTES)[0])
                spans = list(_spans(archive.samples)) if len(archive.samples) > PART else []
                sizes = [sum(archive.members[n].file_size for n in archive.samples[a:b]) for a, b in spans]
                ends = [(sample_of(archive.samples[a]), sample_of(archive.samples[b - 1])) for a, b in spans]
        except UnreadableError:
            found.units.append(Unit(self.name, path, package, size, f"{self.name}/{_named(path)}"))
            return
        if len(spans) < 2:
            found.units.append(Unit(self.name, path, package, size, f"{self.name}/{dataset}"))
            return
        for (start, end), weight, (first, last) in zip(spans, sizes, ends, strict=True):
            group = f"{self.name}/{dataset}/{first}..{last}"
            found.units.append(Unit(self.name, path, package, weight, group, (start, end, start)))

    def read(self, units: Sequence[Unit], options: ReadOptions) -> Frames:
        """Read logs, sample by sample."""
        batch, rows = Batch(), Rows()
        parts: dict[str, list[pl.DataFrame]] = defaultdict(list)
        for unit in units:
            for done, _ in enumerate(_samples(batch, rows, unit, options), 1):
                if done % _FLUSH == 0:
                    _flush(batch, parts)
        add_tasks(batch, rows.tasks, batch.rows["attempts"])
        for row in batch.rows["attempts"]:
            row.pop("_task_digest", None)
        frames = batch.frames()
        return frames | {name: pl.concat([*found, frames[name]]) for name, found in parts.items()}


def _flush(batch: Batch, parts: dict[str, list[pl.DataFrame]]) -> None:
    """Turn the rows of the large tables into frames: they take a tenth of the memory."""
    done = Batch()
    for name in _LARGE:
        done.rows[name] = batch.rows.pop(name, [])
    frames = done.frames()
    for name in _LARGE:
        if frames[name].height:
            parts[name].append(frames[name])


def _named(path: Path) -> str:
    """Dataset, else task, as the first bytes of a `.json` log name it."""
    try:
        head = read_head(path)
    except UnreadableError:
        return ""
    found = _DATASET.search(head) or _TASK.search(head)
    return found.group(1).decode("utf-8", "replace") if found else ""


def _spans(names: list[str]) -> Iterator[tuple[int, int]]:
    """Parts of a list of samples: the cut depends on the samples only, so that logs of the same samples are cut alike."""
    start = end = tasks = 0
    for _, epochs in groupby(names, key=sample_of):
        end += sum(1 for _ in epochs)
        tasks += 1
        if tasks == PART:
            yield start, end
            start, tasks = end, 0
    if end > start:
        yield start, end


def _samples(batch: Batch, rows: Rows, unit: Unit, options: ReadOptions) -> Iterator[None]:
    """Add the samples of a unit, one at a time."""
    try:
        archive = EvalZip(unit.path)
    except UnreadableError as error:
        if error.code == "bad_archive" and not _is_zip(unit.path):
            yield from _document(batch, rows, unit, options)
            return
        batch.diagnose(
            error.code, error.detail, package_id=unit.package_id, source_uri=unit.package_id, severity="error"
        )
        return
    with archive:
        yield from _archive(batch, rows, unit, archive, options)


def _is_zip(path: Path) -> bool:
    try:
        return read_head(path).startswith(b"PK")
    except UnreadableError:
        return False


def _archive(batch: Batch, rows: Rows, unit: Unit, archive: EvalZip, options: ReadOptions) -> Iterator[None]:
    header, finished, problems = archive.header(options.max_file_bytes)
    names = archive.samples
    start, end, _ = unit.span or (0, len(names), 0)
    digest = None
    if start == 0:
        # What concerns the log as a whole is said once, by its first part.
        whole_file = sha256_file(unit.path)
        digest = whole_file if unit.span is None else None
        add_evidence(batch, unit.package_id, unit.path.name, "trace", size=unit.path.stat().st_size, digest=whole_file)
        report(batch, unit, problems)
        _about_archive(batch, unit, archive, finished=finished)
        _about_log(batch, unit, header, len(names) + len(archive.chunked), options, finished=finished)
    log = read_log(header)
    rows.begin(unit, log, digest)
    for pos in range(start, min(end, len(names))):
        sample, found = archive.json(names[pos], options.max_file_bytes)
        for problem in found:
            problem.pos = pos
            problem.detail = f"{names[pos]}: {problem.detail}"
            if problem.code == "not_strict_json":
                # The format itself writes NaN for a score that could not be given.
                problem.severity = "info"
        report(batch, unit, found)
        if isinstance(sample, dict):
            add_sample(batch, rows, sample, pos, names[pos], options)
        elif not found:
            _tell(batch, unit, "bad_row", f"{names[pos]} holds {type(sample).__name__}, expected a sample", pos)
        yield
    rows.end(batch)


def _document(batch: Batch, rows: Rows, unit: Unit, options: ReadOptions) -> Iterator[None]:
    opened = open_unit(batch, unit, options.max_file_bytes)
    if opened is None:
        return
    document, problems = load_json(opened[0])
    report(batch, unit, problems)
    if not isinstance(document, dict):
        if not any(p.severity == "error" for p in problems):
            _tell(batch, unit, "no_attempt", f"expected a log, found {type(document).__name__}; no attempt")
        return
    samples = document.pop("samples", None)
    if not isinstance(samples, list | None):
        _tell(batch, unit, "bad_row", f"samples is {type(samples).__name__}, expected a list; read as empty")
    _about_log(batch, unit, document, len(items(samples)), options, finished=document.get("status") != "started")
    rows.begin(unit, read_log(document), opened[1])
    for pos, sample in enumerate(items(samples)):
        if isinstance(sample, dict):
            add_sample(batch, rows, sample, pos, None, options)
        else:
            detail = f"sample {pos} is {type(sample).__name__}, expected an object; left out"
            _tell(batch, unit, "bad_row", detail, pos)
        yield
    rows.end(batch)


def _about_archive(batch: Batch, unit: Unit, archive: EvalZip, *, finished: bool) -> None:
    if archive.doubles:
        detail = f"{archive.doubles} entries are there twice; the last of each counts"
        _tell(batch, unit, "duplicate_member", detail, severity="info")
    if archive.chunked:
        detail = f"{len(archive.chunked)} samples are stored in several entries each, which is not read; left out"
        _tell(batch, unit, "chunked_sample", detail, severity="error")
    if not archive.is_log:
        _tell(batch, unit, "no_header", "neither header.json nor _journal/start.json; nothing is known of the run")
    elif not finished:
        detail = "no header.json: the log was not finished; what is in it was read, without results"
        _tell(batch, unit, "unfinished_log", detail)


def _about_log(
    batch: Batch, unit: Unit, header: dict[str, Any], count: int, options: ReadOptions, *, finished: bool
) -> None:
    word = text(header.get("status"))
    if not options.rules.status("inspect", word)[1]:
        _tell(batch, unit, "unknown_status", f"status of the log is {word!r}, which is in no table")
    error = obj(header.get("error"))
    if error:
        _tell(batch, unit, "run_error", f"the run ended with an error: {str(error.get('message'))[:200]}")
    expected = whole(obj(header.get("results")).get("total_samples"))
    if expected is not None and expected != count:
        detail = f"the header counts {expected} samples, the log holds {count}"
        _tell(batch, unit, "sample_count_differs", detail)
    if count == 0:
        detail = "no samples in the log, so no attempt" + ("" if finished else "; it was not finished")
        _tell(batch, unit, "no_attempt", detail)


def _tell(
    batch: Batch, unit: Unit, code: str, detail: str, pos: int | None = None, *, severity: str = "warning"
) -> None:
    batch.diagnose(
        code, detail, package_id=unit.package_id, source_uri=unit.package_id, source_pos=pos, severity=severity
    )


__all__ = ["PART", "SOURCE", "InspectLog", "Log"]
SOURCE = InspectLog()
