"""A Terminal-Bench run: `results.json`, and what `run_metadata.json` and `tb.lock` beside it say of agent, model and dataset."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from expcomp.io.digest import PREFIX, sha256_hex
from expcomp.sources._bytes import UnreadableError, read_bytes
from expcomp.sources._json import dump_json, load_json, load_rows
from expcomp.sources._units import add_evidence, report
from expcomp.sources._values import count, items, moment, obj, redact, text

if TYPE_CHECKING:
    from datetime import datetime

    from expcomp.sources._chat import Row
    from expcomp.sources._contract import Batch, Unit
    from expcomp.sources._json import Problem

COMPANIONS = ("run_metadata.json", "tb.lock")
DATASET = "terminal-bench"
_NAME = re.compile(r"^(?P<task>.+?)\.(?P<number>\d{1,6})-of-(?P<of>\d{1,6})(?:\.(?P<run>.+))?$", re.DOTALL)
_LIMIT = 1 << 24
_SPANS = ("agent", "test")
# Where the run was made and by whom; and lists that repeat what the rows say.
_LEFT_OUT = frozenset("username output_path s3_bucket task_ids exclude_task_ids dataset_path pass_at_k".split())
_MAPPED_RUN = frozenset("run_id dataset_name dataset_version agent_name model_name agent_kwargs".split()) | _LEFT_OUT
MAPPED = frozenset(
    "id trial_name task_id instruction is_resolved failure_mode parser_results recording_path total_input_tokens "
    "total_output_tokens trial_started_at trial_ended_at agent_started_at agent_ended_at test_started_at test_ended_at".split()
)
"""Keys of a row that become columns."""


@dataclass(slots=True)
class Run:
    """What is known of the run as a whole; null where no file says it."""

    run_id: str | None = None
    dataset: str | None = None
    version: str | None = None
    agent: str | None = None
    model: str | None = None
    params: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)


def read_run(batch: Batch, unit: Unit) -> Run:
    """Read the companions of a results file, with an evidence row for each that is there."""
    meta, lock = (_companion(batch, unit, name) for name in COMPANIONS)
    agent, dataset = obj(lock.get("agent")), obj(lock.get("dataset"))
    settings = obj(lock.get("run_config"))
    kwargs = redact(obj(meta.get("agent_kwargs")) or obj(agent.get("extra_kwargs")))
    params = {k: v for k, v in settings.items() if k.startswith("global_") and v is not None}
    rest = {k: v for k, v in meta.items() if k not in _MAPPED_RUN and v not in (None, {}, [])}
    return Run(
        run_id=text(meta.get("run_id")) or text(obj(lock.get("local_config")).get("run_id")),
        dataset=text(meta.get("dataset_name")) or text(dataset.get("name")),
        version=text(meta.get("dataset_version")) or text(dataset.get("version")),
        agent=text(meta.get("agent_name")) or text(agent.get("name")),
        model=text(meta.get("model_name")) or text(agent.get("model_name")),
        params=params | kwargs,
        metadata=redact(rest),
    )


def _companion(batch: Batch, unit: Unit, name: str) -> Row:
    path = unit.path.with_name(name)
    if not path.is_file() or path.is_symlink():
        return {}
    try:
        data, raw = read_bytes(path, _LIMIT)
    except UnreadableError as error:
        batch.diagnose(error.code, f"{name}: {error.detail}", package_id=unit.package_id, source_uri=name)
        return {}
    add_evidence(batch, unit.package_id, name, "trace", size=len(raw), digest=PREFIX + sha256_hex(raw))
    document, problems = load_json(data)
    report(batch, unit, problems, name)
    if isinstance(document, dict):
        return document
    if not problems:
        detail = f"{name} is {type(document).__name__}, expected an object; not used"
        batch.diagnose("bad_companion", detail, package_id=unit.package_id, source_uri=name)
    return {}


def read_results(data: bytes) -> tuple[Row, list[tuple[int, Any]] | None, list[Problem]]:
    """Header, rows with their positions, and problems; rows are None where there are none at all.

    A document that is cut or broken gives the rows before the break.
    """
    document, problems = load_json(data)
    if isinstance(document, dict) and isinstance(document.get("results"), list):
        return document, list(enumerate(document["results"])), problems
    if isinstance(document, dict) and is_row(document):
        return {}, [(0, document)], problems
    if isinstance(document, list):
        return {}, list(enumerate(document)), problems
    start = data.find(b"[", data.find(b'"results"') + 1) if b'"results"' in data else -1
    if document is None and start >= 0:
        salvaged = load_rows(data[start:])
        return {}, salvaged.rows, problems + salvaged.problems
    return {}, None, problems


def is_row(value: Any) -> bool:
    """Whether a value is the result of a trial."""
    return isinstance(value, dict) and "is_resolved" in value and ("task_id" in value or "trial_name" in value)


def name_parts(raw: Row) -> tuple[str | None, int | None, str | None]:
    """Task, 0-based trial and run as the trial's name has them: `<task>.<n>-of-<m>.<run>`."""
    found = _NAME.match(text(raw.get("trial_name")) or "")
    if found is None:
        return None, None, None
    number = int(found["number"])
    return found["task"], number - 1 if number else None, found["run"]


def tokens(raw: Row) -> Row:
    """Usage of a row; where both counters are 0 the agent did not count."""
    seen, made = count(raw.get("total_input_tokens")), count(raw.get("total_output_tokens"))
    return {} if not seen and not made else {"input_tokens": seen, "output_tokens": made}


def times(raw: Row) -> tuple[datetime | None, datetime | None, dict[str, float], bool]:
    """Start and end of the trial, seconds the agent and the tests took, and whether a zone was assumed."""
    stamps = {
        key: moment(raw.get(f"{key}_at")) for span in ("trial", *_SPANS) for key in (f"{span}_started", f"{span}_ended")
    }
    took = {}
    for span in _SPANS:
        start, end = stamps[f"{span}_started"][0], stamps[f"{span}_ended"][0]
        if start is not None and end is not None and end >= start:
            took[f"{span}_s"] = (end - start).total_seconds()
    return stamps["trial_started"][0], stamps["trial_ended"][0], took, any(naive for _, naive in stamps.values())


def task_row(task_id: str, native: str, instruction: str | None, run: Run, ref: str) -> Row:
    """The task of a row; variants (`name.easy`, `name.hard`) are one cluster."""
    return {
        "task_id": task_id,
        "dataset": run.dataset or DATASET,
        "dataset_version": run.version,
        "native_id": native,
        "instruction": instruction,
        "cluster": native.partition(".")[0] or None,
        "task_digest": PREFIX + sha256_hex(instruction.encode()) if instruction else None,
        "source_ref": ref,
    }


def recording(ident: str, raw: Row) -> Row | None:
    """The recording of the terminal as an artifact; of an absolute path only the name is kept."""
    path = text(raw.get("recording_path"))
    if not path:
        return None
    parts = PurePosixPath(path.replace("\\", "/"))
    absolute = parts.is_absolute() or ":" in parts.parts[0] or ".." in parts.parts
    return {
        "attempt_id": ident,
        "kind": "recording",
        "name": parts.name,
        "uri": None if absolute else parts.as_posix(),
        "mime": "application/x-asciicast" if parts.suffix == ".cast" else None,
    }


def check_header(batch: Batch, unit: Unit, header: Row, rows: list[Row]) -> None:
    """Compare the counts of the header with the rows; the rows decide (R15)."""
    resolved = sum(row.get("is_resolved") is True for row in rows)
    void = sum(not isinstance(row.get("is_resolved"), bool) for row in rows)
    # The harness counts a trial without a verdict as not resolved.
    said = (count(header.get("n_resolved")), count(header.get("n_unresolved")))
    listed = (header.get("resolved_ids"), header.get("unresolved_ids"))
    listed_counts = tuple(len(items(ids)) if isinstance(ids, list) else None for ids in listed)
    real = (resolved, len(rows) - resolved)
    if any(a is not None and a != b for pair in (said, listed_counts) for a, b in zip(pair, real, strict=True)):
        detail = (
            f"the header counts {said[0]} resolved and {said[1]} unresolved, the rows are {resolved} resolved, "
            f"{len(rows) - resolved - void} not and {void} without verdict; the rows decide"
        )
        batch.diagnose("header_mismatch", detail, package_id=unit.package_id, source_uri=unit.package_id)


def metadata(raw: Row, run: Run, took: dict[str, float]) -> str | None:
    """Everything that no column holds."""
    rest = {k: v for k, v in raw.items() if k not in MAPPED and v is not None}
    out = redact(rest) | took | ({"run": run.metadata} if run.metadata else {})
    return dump_json(out) if out else None
