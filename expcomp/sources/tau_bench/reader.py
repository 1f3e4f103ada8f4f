"""tau-bench v1 results: a list of `{task_id, reward, info, traj, trial}`, one row an attempt."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from expcomp.io.digest import PREFIX, sha256_hex
from expcomp.sources._chat import Transcript, read_chat
from expcomp.sources._contract import Batch, Found, Frames, ReadOptions, Unit
from expcomp.sources._json import canonical, dump_json
from expcomp.sources._units import add_tasks, file_unit
from expcomp.sources._values import UNIT, Score, items, obj, redact, score_of, text
from expcomp.sources.errors_map import class_in_traceback
from expcomp.sources.tau_bench._rows import Row, number, read_rows

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from expcomp.sources._look import Look

_STOP = re.compile(r"###(STOP|TRANSFER|OUT-OF-SCOPE)###\s*$")
_TRANSFER = "transfer_to_human_agents"
_MAPPED = {"task_id", "reward", "info", "traj", "trial"}
_MAPPED_INFO = {"task", "source", "error"}


class TauBench:
    """Reader of tau-bench v1 results files."""

    name = "tau_bench"
    summary = "tau-bench v1 results files: JSON list or lines of {task_id, reward, info, traj, trial}"
    carries = {  # noqa: RUF012 - read only, by contract of the protocol
        "system_prompt": "yes (policy)",
        "tools": "no",
        "reasoning": "no",
        "verdict": "yes",
        "trial": "yes",
        "tokens": "no",
        "cost": "simulated user only, not used",
        "times": "no",
        "token_ids": "no",
    }

    def claims_folder(self, folder: Path, names: frozenset[str]) -> bool:
        """Never: results are files."""
        return False

    def claims_file(self, look: Look) -> bool:
        """An object, or an array whose first object has a reward and a `traj`."""
        if {"reward", "traj"} <= look.keys:
            return True
        return not look.rows and {"task_id", "reward", "info"} <= look.keys

    def units(self, path: Path, root: Path, found: Found) -> None:
        """One unit a file. All are one group: any two files may hold attempts at the same task."""
        file_unit(self.name, path, root, found, self.name)

    def read(self, units: Sequence[Unit], options: ReadOptions) -> Frames:
        """Read results files."""
        batch = Batch()
        rows = [row for unit in units for row in read_rows(batch, unit, options)]
        number(batch, rows)
        attempts: list[dict[str, Any]] = []
        tasks: list[dict[str, Any]] = []
        for row in rows:
            attempts.append(_attempt(batch, row, options))
            task = _task(row, options)
            if task:
                attempts[-1]["_task_digest"] = task.get("task_digest")
                tasks.append(task)
        add_tasks(batch, tasks, attempts)
        for attempt in attempts:
            attempt.pop("_task_digest", None)
            batch.add("attempts", **attempt)
        return batch.frames()


def _attempt(batch: Batch, row: Row, options: ReadOptions) -> dict[str, Any]:
    """Add steps, messages, grades and diagnostics of a row; give its attempt."""
    info = obj(row.raw.get("info"))
    native_id = row.raw.get("task_id")
    ident, ref = row.attempt_id, row.unit.path.name
    chat = read_chat(row.raw.get("traj"), user_origin="simulator", user_source="simulator")
    for table, found in (("steps", chat.steps), ("messages", chat.messages)):
        for entry in found:
            batch.add(table, attempt_id=ident, **entry)
    for note in chat.notes:
        batch.diagnose(
            note.code,
            note.detail,
            package_id=row.unit.package_id,
            source_uri=row.unit.package_id,
            source_pos=row.pos,
            attempt_id=ident,
            severity=note.severity,
        )
    score, crash = _grade(batch, row, options)
    if score.issue and not crash:
        detail = f"reward of row {row.pos} is {str(row.raw.get('reward'))[:80]}: {score.issue}"
        batch.diagnose(
            score.issue,
            detail,
            package_id=row.unit.package_id,
            source_uri=row.unit.package_id,
            source_pos=row.pos,
            attempt_id=ident,
            field="reward",
        )
    error = text(info.get("error"))
    error_type = class_in_traceback(text(info.get("traceback"))) if error is not None else None
    mark = _stop_mark(chat)
    return {
        "attempt_id": ident,
        "package_id": row.unit.package_id,
        "native_attempt_id": None if native_id is None else f"{native_id}/{row.raw.get('trial')}",
        "task_id": row.task_id,
        "run_id": row.name.run,
        "arm": options.arm or row.name.arm,
        "trial": row.trial,
        "trial_source": row.trial_source,
        "agent": row.name.agent,
        "model": row.name.model,
        "params": dump_json(row.name.params) if row.name.params else None,
        "status": _status(row, chat, error, error_type, options, crash=crash, stopped=mark is not None),
        "stop_reason": text(info.get("source")),
        "error_type": error_type,
        "error_message": error,
        "score": score.value,
        "score_min": score.scale[0] if score.scale else None,
        "score_max": score.scale[1] if score.scale else None,
        "score_norm": None if crash else score.norm,
        "passed": None if crash else score.passed,
        "score_valid": score.valid and not crash,
        "score_issue": "crashed" if crash else score.issue,
        "grade_kind": "environment",
        "usage_basis": "missing",
        **chat.counts(),
        "root_attempt_id": ident,
        "relation": "root",
        "is_truncated": False,
        "has_compaction": False,
        "has_transcript": bool(chat.messages),
        "has_system_prompt": chat.has_system_prompt() or options.system is not None,
        "has_tools": options.tools is not None,
        "trace_ref": ref if chat.messages else None,
        "grade_ref": ref,
        "source_format": "tau_bench",
        "source_version": "1",
        "source_uri": row.unit.package_id,
        "source_digest": row.digest,
        "source_pos": row.pos,
        "metadata": _metadata(row, mark),
    }


def _grade(batch: Batch, row: Row, options: ReadOptions) -> tuple[Score, bool]:
    """Add the grades of a row; give the reward and whether it is what the harness writes for a crash (R1)."""
    info = obj(row.raw.get("info"))
    graded = isinstance(info.get("reward_info"), dict)
    crash = info.get("error") is not None and not graded
    score = score_of(row.raw.get("reward"), options.score_scale or UNIT, verdict=True)
    common = {
        "attempt_id": row.attempt_id,
        "kind": "environment",
        "grader": "tau_bench",
        "source_ref": row.unit.path.name,
    }
    batch.add(
        "grades",
        **common,
        name="reward",
        value=score.value,
        label=score.label,
        passed=None if crash else score.passed,
        is_primary=True,
        valid=score.valid and not crash,
        invalid_reason="crashed" if crash else score.issue,
        score_min=score.scale[0] if score.scale else None,
        score_max=score.scale[1] if score.scale else None,
        refs=[row.unit.path.name],
    )
    checks = obj(obj(info.get("reward_info")).get("info"))
    for name in ("r_actions", "r_outputs"):
        if name not in checks:
            continue
        check = score_of(checks[name], UNIT, verdict=False)
        batch.add(
            "grades",
            **common,
            name=name,
            value=check.value,
            label=check.label,
            is_primary=False,
            valid=check.valid,
            invalid_reason=check.issue,
            score_min=0.0,
            score_max=1.0,
            metadata=dump_json({k: v for k, v in checks.items() if not k.startswith("r_")}),
        )
    return score, crash


def _stop_mark(chat: Transcript) -> str | None:
    last = chat.messages[-1] if chat.messages else None
    found = _STOP.search((last or {}).get("content") or "")
    return found.group().strip() if found else None


def _status(
    row: Row,
    chat: Transcript,
    error: str | None,
    error_type: str | None,
    options: ReadOptions,
    *,
    crash: bool,
    stopped: bool,
) -> str:
    if error is not None:
        return options.rules.error(error_type, graded=not crash).status
    transferred = any(c["name"] == _TRANSFER for s in chat.steps[-1:] for c in s["tool_calls"])
    info = obj(row.raw.get("info"))
    if stopped or transferred or isinstance(info.get("reward_info"), dict):
        return "completed"
    # The harness sets reward_info when the dialogue is over; an explicit null means that the steps ran out first.
    return "limit" if "reward_info" in info else "unknown"


def _metadata(row: Row, mark: str | None) -> str | None:
    info = obj(row.raw.get("info"))
    rest = {k: v for k, v in row.raw.items() if k not in _MAPPED and v not in ({}, None)}
    rest |= {k: v for k, v in info.items() if k not in _MAPPED_INFO}
    native: dict[str, Any] = {}
    if row.trial_source != "native" and row.raw.get("trial") is not None:
        native["native_trial"] = row.raw["trial"]
    if mark:
        native["stop_mark"] = mark
    out = redact(rest | native)
    return dump_json(out) if out else None


def _task(row: Row, options: ReadOptions) -> dict[str, Any] | None:
    if row.task_id is None:
        return None
    task = obj(obj(row.raw.get("info")).get("task"))
    first = obj(next(iter(items(row.raw.get("traj"))), None))
    prompt = text(first.get("content")) if first.get("role") == "system" else None
    rest = {k: v for k, v in task.items() if k not in ("actions", "outputs", "instruction")}
    target = {k: task[k] for k in ("actions", "outputs") if k in task}
    return {
        "task_id": row.task_id,
        "dataset": "tau_bench",
        "domain": row.domain,
        "native_id": str(row.raw.get("task_id")),
        "instruction": text(task.get("instruction")),
        "system_prompt": prompt or options.system,
        "tools": options.tools,
        "target": dump_json(target) if target else None,
        "task_digest": PREFIX + sha256_hex(canonical(task)) if task else None,
        "source_ref": row.unit.path.name,
        "metadata": dump_json(redact(rest)) if rest else None,
    }


SOURCE = TauBench()
