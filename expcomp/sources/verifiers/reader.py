"""verifiers and prime-rl: `results.jsonl` with its metadata, and the message graphs of `traces.jsonl`."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from expcomp.sources._bytes import UnreadableError, read_head
from expcomp.sources._contract import Batch, Found, Frames, ReadOptions, Unit
from expcomp.sources._json import load_rows
from expcomp.sources._look import Look
from expcomp.sources._units import file_unit, open_unit, relative, report
from expcomp.sources._values import score_of
from expcomp.sources.verifiers._graph import is_graph
from expcomp.sources.verifiers._rows import Ids, functions, read_row
from expcomp.sources.verifiers._run import METADATA, Run, check_header, read_run
from expcomp.sources.verifiers._traces import read_line

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from expcomp.sources._chat import Row

_RESULTS = "results.jsonl"
_TRACES = "traces.jsonl"


class Verifiers:
    """Reader of verifiers evaluation runs and rollouts."""

    name = "verifiers"
    summary = "verifiers results.jsonl with metadata.json, and traces.jsonl (a graph of messages with token ids)"
    carries = {  # noqa: RUF012 - read only, by contract of the protocol
        "system_prompt": "yes",
        "tools": "in info or tool_defs (some); traces: yes",
        "reasoning": "rarely",
        "verdict": "rewards, no threshold",
        "trial": "no, by order",
        "tokens": "totals in newer files; traces: per call",
        "cost": "traces, where the provider tells",
        "times": "durations; traces: yes",
        "token_ids": "traces, or a kept trajectory column",
    }

    def claims_folder(self, folder: Path, names: frozenset[str]) -> bool:
        """Never: runs are files with companions."""
        return False

    def claims_file(self, look: Look) -> bool:
        """Rows with prompt, completion and reward, rows with message nodes, or the metadata of a run."""
        if look.kind not in ("object", "array"):
            return False
        return _is_rows(look) or is_graph(look, likely=look.name.startswith(_TRACES)) or _is_metadata(look)

    def units(self, path: Path, root: Path, found: Found) -> None:
        """One unit a file. Metadata is read with the rows beside it."""
        if path.name == METADATA:
            if not path.with_name(_RESULTS).is_file():
                detail = f"the metadata of a run without {_RESULTS} beside it; no attempt"
                row = {
                    "source_uri": relative(path, root),
                    "code": "no_attempt",
                    "severity": "warning",
                    "detail": detail,
                }
                found.diagnostics.append(row)
            return
        file_unit(self.name, path, root, found, self.name)

    def read(self, units: Sequence[Unit], options: ReadOptions) -> Frames:
        """Read runs."""
        batch, tasks = Batch(), []
        for unit in units:
            opened = open_unit(batch, unit, options.max_file_bytes)
            if opened is None:
                continue
            data, digest = opened
            loaded = load_rows(data)
            report(batch, unit, loaded.problems)
            run = read_run(batch, unit)
            tasks += _read(batch, unit, loaded.rows, run, digest, options)
        seen: dict[str, Row] = {}
        for task in tasks:
            row = seen.setdefault(task["task_id"], task)
            for key, value in task.items():
                if row.get(key) is None:
                    row[key] = value
        for row in seen.values():
            batch.add("tasks", **row)
        return batch.frames()


def _is_rows(look: Look) -> bool:
    keys = look.keys
    if not {"prompt", "completion"} <= keys or not keys & {"example_id", "id"}:
        return False
    if keys & {"reward", "generation_ms", "timing"}:
        return "task" in keys or "example_id" in keys or _beside_metadata(look)
    # The first row is longer than the look: only what stands before the completion is seen.
    return not look.rows and ("example_id" in keys or _beside_metadata(look))


def _beside_metadata(look: Look) -> bool:
    path = look.path.with_name(METADATA)
    try:
        return path.is_file() and _is_metadata(Look(path, read_head(path)))
    except (OSError, UnreadableError):
        return False


def _is_metadata(look: Look) -> bool:
    keys = look.keys
    return {"model", "num_examples", "rollouts_per_example"} <= keys and bool(keys & {"env", "env_id"})


def _read(
    batch: Batch, unit: Unit, rows: list[tuple[int, Any]], run: Run, digest: str, options: ReadOptions
) -> list[Row]:
    tasks: list[Row] = []
    ids, rewards, n_rows = Ids(), list[float](), 0
    metrics: dict[str, list[float]] = defaultdict(list)
    for pos, raw in rows:
        if isinstance(raw, dict) and ("nodes" in raw or "traces" in raw):
            tasks += read_line(batch, unit, pos, raw, run, digest, options)
        elif isinstance(raw, dict) and ("completion" in raw or ("prompt" in raw and "reward" in raw)):
            n_rows += 1
            tasks.append(read_row(batch, unit, pos, raw, run, digest, options, ids))
            for name, value in (functions(raw, run) | {"reward": raw.get("reward")}).items():
                number = score_of(value, None, verdict=False).value
                if number is not None:
                    (rewards if name == "reward" else metrics[name]).append(number)
        else:
            found = f"an object with {', '.join(sorted(raw)[:5])}" if isinstance(raw, dict) else type(raw).__name__
            detail = f"row {pos} is {found}, expected prompt, completion and reward, or nodes; left out"
            batch.diagnose("bad_row", detail, package_id=unit.package_id, source_uri=unit.package_id, source_pos=pos)
    _check_ids(batch, unit, ids, tasks)
    if n_rows and run.header:
        check_header(batch, unit, run, n_rows, rewards, metrics)
    return tasks


def _check_ids(batch: Batch, unit: Unit, ids: Ids, tasks: list[Row]) -> None:
    """Keep the ids that follow the tasks; the others say nothing of a task."""
    mixed = [native for native in ids.tasks if not ids.trusted(native)]
    if not mixed:
        return
    for task in tasks:
        if task.get("native_id") is not None and not ids.trusted(task["native_id"]):
            task["native_id"] = None
    detail = (
        f"{len(mixed)} of {len(ids.tasks)} ids do not follow prompt and answer ({', '.join(mixed[:3])}); "
        "tasks are told apart by prompt and answer"
    )
    batch.diagnose(
        "id_mismatch", detail, package_id=unit.package_id, source_uri=unit.package_id, field="id", severity="info"
    )


SOURCE = Verifiers()
