"""Rows of tau-bench files: which rows count, their task, and which trial each of them is (R11, R12)."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from expcomp.sources._contract import attempt_id
from expcomp.sources._json import load_rows
from expcomp.sources._units import open_unit, report
from expcomp.sources._values import small
from expcomp.sources.tau_bench._names import FileName, domains, read_name

if TYPE_CHECKING:
    from expcomp.sources._contract import Batch, ReadOptions, Unit


@dataclass(slots=True)
class Row:
    """One row of a results file."""

    unit: Unit
    digest: str
    name: FileName
    pos: int
    raw: dict[str, Any]
    domain: str
    task_id: str | None
    native: int | None
    trial: int | None = None
    trial_source: str = "unknown"

    @property
    def attempt_id(self) -> str:
        """Id of the attempt."""
        return attempt_id("tau_bench", self.unit.package_id, self.pos)

    @property
    def run(self) -> tuple[str, str]:
        """Folder and arm: the rows among which trials are counted."""
        return self.unit.package_id.rpartition("/")[0], self.name.arm


def read_rows(batch: Batch, unit: Unit, options: ReadOptions) -> list[Row]:
    """Rows of one file that hold a reward or a conversation; the others leave a diagnostic."""
    opened = open_unit(batch, unit, options.max_file_bytes)
    if opened is None:
        return []
    data, digest = opened
    loaded = load_rows(data)
    report(batch, unit, loaded.problems)
    good: list[tuple[int, dict[str, Any]]] = []
    for pos, raw in loaded.rows:
        if isinstance(raw, dict) and ("traj" in raw or "reward" in raw):
            good.append((pos, raw))
            continue
        found = f"an object with {', '.join(sorted(raw)[:5])}" if isinstance(raw, dict) else type(raw).__name__
        detail = f"row {pos} is {found}, expected an object with reward and traj; left out"
        batch.diagnose("bad_row", detail, package_id=unit.package_id, source_uri=unit.package_id, source_pos=pos)
    if not good:
        detail = "no row with reward and traj in the file, so no attempt"
        batch.diagnose("no_attempt", detail, package_id=unit.package_id, source_uri=unit.package_id)
    name = read_name(unit.path.name)
    out = []
    for (pos, raw), domain in zip(good, domains([raw for _, raw in good], name.run), strict=True):
        native_id = raw.get("task_id")
        task_id = None
        if isinstance(native_id, str | int) and not isinstance(native_id, bool):
            task_id = f"tau_bench/{domain}/{native_id}"
        else:
            detail = f"row {pos} has no task_id (found {type(native_id).__name__}); its attempt belongs to no task"
            batch.diagnose(
                "missing_task_id", detail, package_id=unit.package_id, source_uri=unit.package_id, source_pos=pos
            )
        trial = raw.get("trial")
        native = small(trial) if trial is not None else name.trial
        out.append(Row(unit, digest, name, pos, raw, domain, task_id, native))
    return out


def number(batch: Batch, rows: list[Row]) -> None:
    """Give every row a trial: the source's own number where it is one, else the position among its task (R12)."""
    runs: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        if row.task_id is not None:
            runs[row.run].append(row)
    for run in runs.values():
        numbered = [r for r in run if r.native is not None and r.native >= 0]
        pairs = Counter((r.task_id, r.native) for r in numbered)
        twice = {task for (task, _), n in pairs.items() if n > 1}
        _report_twice(batch, numbered, pairs)
        # What the name of a file says needs no proof.
        first = min((r.native or 0 for r in numbered if r.raw.get("trial") is not None), default=0)
        native = first in (0, 1) and _is_trial({(task, n) for task, n in pairs if n is not None})
        seen: Counter[str | None] = Counter()
        for row in run:
            unusable = row.native is None or row.native < 0 or row.task_id in twice
            if native and not unusable:
                row.trial, row.trial_source = row.native, "native"
            else:
                row.trial = seen[row.task_id]
            seen[row.task_id] += 1


def _is_trial(pairs: set[tuple[str | None, int]]) -> bool:
    """Whether numbers repeat over tasks, or count the attempts at a single task from 0 or 1."""
    tasks = {task for task, _ in pairs}
    numbers = Counter(n for _, n in pairs)
    if len(tasks) == 1:
        native_id = next(iter(tasks)) or ""
        alone = len(pairs) == 1 and native_id.endswith(f"/{next(iter(numbers))}") and next(iter(numbers)) != 0
        return min(numbers) in (0, 1) and not alone
    return any(n > 1 for n in numbers.values())


def _report_twice(batch: Batch, rows: list[Row], pairs: Counter[tuple[str | None, int | None]]) -> None:
    for row in rows:
        n = pairs[row.task_id, row.native]
        if n > 1:
            detail = (
                f"{n} rows of run {row.name.arm} have task {row.task_id} and trial {row.native}; numbered by position"
            )
            batch.diagnose(
                "duplicate_trial",
                detail,
                package_id=row.unit.package_id,
                source_uri=row.unit.package_id,
                source_pos=row.pos,
                attempt_id=row.attempt_id,
                field="trial",
            )
