"""Harbor: job folders, trial folders, task folders. One attempt for each trial; rewards come from the trials (R15)."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from expcomp.io.digest import PREFIX, sha256_hex
from expcomp.sources._bytes import UnreadableError, read_bytes, read_head
from expcomp.sources._contract import Batch, Found, Frames, ReadOptions, Unit, attempt_id
from expcomp.sources._json import dump_json, load_json
from expcomp.sources._look import Look
from expcomp.sources._units import add_evidence, add_tasks, entries, file_unit, names_in, relative, report
from expcomp.sources._values import count, obj, redact, text
from expcomp.sources.harbor._rows import attempt, task_name
from expcomp.sources.harbor._trial import RESULT, Trial, fill

if TYPE_CHECKING:
    from collections.abc import Sequence

_TASK = frozenset({"task.toml", "instruction.md"})
_SEPARATOR = "__"
_NAME_LENGTH = 32
_FAR = datetime.max.replace(tzinfo=UTC)


class Harbor:
    """Reader of Harbor jobs, trials and task folders."""

    name = "harbor"
    summary = "Harbor job, trial and task folders (Terminal-Bench 2 and others)"
    carries = {  # noqa: RUF012 - read only, by contract of the protocol
        "system_prompt": "as system step of the trajectory, if the adapter has it",
        "tools": "few adapters; kept in attempts.metadata.tools",
        "reasoning": "text",
        "verdict": "yes",
        "trial": "no; numbered by start time",
        "tokens": "yes",
        "cost": "yes",
        "times": "yes",
        "token_ids": "steps of the trajectory only",
    }

    def claims_folder(self, folder: Path, names: frozenset[str]) -> bool:
        """A trial (its result names it), a job (its result counts trials, or trials are below), or a task folder."""
        return names >= _TASK or _is_trial(folder, names) or _is_job(folder, names)

    def claims_file(self, look: Look) -> bool:
        """The result of a trial that is given alone."""
        return look.kind == "object" and {"trial_name", "task_name"} <= look.keys

    def units(self, path: Path, root: Path, found: Found) -> None:
        """A unit for each trial or task folder; a job adds its trials and what is missing of them."""
        if path.is_file():
            file_unit(self.name, path, root, found, self.name)
            return
        names = names_in(path)
        if names >= _TASK:
            size = (path / "instruction.md").stat().st_size
            found.units.append(Unit(self.name, path, relative(path, root), size, _group(path.name)))
        elif _is_trial(path, names):
            found.units.append(_trial_unit(path, root))
        else:
            _job(path, root, found)

    def read(self, units: Sequence[Unit], options: ReadOptions) -> Frames:
        """Read trials, and the task folders beside them."""
        batch = Batch()
        tasks: list[dict[str, Any]] = []
        attempts: list[dict[str, Any]] = []
        folders = [(unit.path / "task.toml").is_file() for unit in units]
        for unit, is_task in zip(units, folders, strict=True):
            if is_task:
                tasks += _task_folder(batch, unit, options)
        for unit, is_task in zip(units, folders, strict=True):
            if not is_task:
                found = _trial(batch, unit, options)
                if found is not None:
                    row = attempt(batch, found, options)
                    task = _task_of(found, options)
                    attempts.append(row | {"_task_digest": task.get("task_digest")})
                    tasks.append(task)
        add_tasks(batch, tasks, attempts)
        for row in attempts:
            row.pop("_task_digest")
            batch.add("attempts", **row)
        return batch.frames()


def _head(path: Path) -> frozenset[str]:
    if path.is_symlink() or not path.is_file():
        return frozenset()
    try:
        return Look(path, read_head(path)).keys
    except UnreadableError:
        return frozenset()


def _is_trial(folder: Path, names: frozenset[str]) -> bool:
    return RESULT in names and "trial_name" in _head(folder / RESULT)


def _is_job(folder: Path, names: frozenset[str]) -> bool:
    if RESULT in names and "n_total_trials" in _head(folder / RESULT):
        return True
    return bool(names & {RESULT, "config.json", "lock.json", "job.log"}) and any(
        "trial_name" in _head(folder / name / RESULT) for name in sorted(names) if _SEPARATOR in name
    )


def _trial_unit(path: Path, root: Path) -> Unit:
    files = [path / RESULT, path / "agent" / "trajectory.json"]
    size = sum(f.stat().st_size for f in files if f.is_file() and not f.is_symlink())
    return Unit("harbor", path, relative(path, root), size, _group(path.name.rpartition(_SEPARATOR)[0] or path.name))


def _group(name: str) -> str:
    """Trials of a task, and its folder: trial folders carry the first characters of the task name only."""
    return f"harbor/{name[:_NAME_LENGTH]}"


def _job(path: Path, root: Path, found: Found) -> None:
    here = relative(path, root)
    trials: list[str] = []
    for name, kind in entries(path):
        child = path / name
        if kind == "link":
            _tell(found, "symlink_refused", "a symbolic link inside a job is not followed", f"{here}/{name}")
        elif kind == "folder":
            names = names_in(child)
            if _is_trial(child, names):
                found.units.append(_trial_unit(child, root))
                trials.append(child.name)
            elif RESULT in names:
                trials.append(child.name)
                detail = "expected a result.json that names its trial; the folder gives no attempt"
                _tell(found, "bad_result", detail, f"{here}/{child.name}/{RESULT}", "error")
            elif names & {"config.json", "trial.log", "agent"} and _SEPARATOR in child.name:
                detail = "a trial folder without result.json (still running, or stopped); it gives no attempt"
                _tell(found, "trial_without_result", detail, f"{here}/{child.name}")
    if not (path / RESULT).is_file() or (path / RESULT).is_symlink():
        _tell(found, "job_without_result", "the job has no result.json; its trials are read", here, "info")
        return
    try:
        result, _ = load_json(read_bytes(path / RESULT, 1 << 28)[0])
    except UnreadableError as error:
        _tell(found, error.code, error.detail, f"{here}/{RESULT}", "error")
        return
    total = count(obj(result).get("n_total_trials"))
    if total is not None and total > len(trials):
        detail = f"the job counts {total} trials, {len(trials)} have a result in their folder; the others are unknown"
        _tell(found, "missing_trial", detail, f"{here}/{RESULT}")
    elif not trials:
        _tell(found, "no_attempt", "the job holds no trial folder with a result", here)


def _tell(found: Found, code: str, detail: str, uri: str, severity: str = "warning") -> None:
    found.diagnostics.append(
        {"package_id": None, "source_uri": uri, "code": code, "severity": severity, "detail": detail}
    )


def _trial(batch: Batch, unit: Unit, options: ReadOptions) -> Trial | None:
    alone = unit.path.is_file()
    path = unit.path if alone else unit.path / RESULT
    uri = unit.package_id if alone else f"{unit.package_id}/{RESULT}"
    try:
        data, raw = read_bytes(path, options.max_file_bytes)
    except UnreadableError as error:
        batch.diagnose(error.code, error.detail, package_id=unit.package_id, source_uri=uri, severity="error")
        return None
    result, problems = load_json(data)
    report(batch, unit, problems, uri)
    if not isinstance(result, dict) or "trial_name" not in result:
        if not any(p.severity == "error" for p in problems):
            detail = "expected the result of a trial, an object with trial_name; no attempt"
            batch.diagnose("no_attempt", detail, package_id=unit.package_id, source_uri=uri)
        return None
    trial = Trial(unit, attempt_id("harbor", unit.package_id), result, PREFIX + sha256_hex(raw), alone=alone)
    fill(batch, trial, options)
    for note in trial.transcript.notes:
        trial.diagnose(batch, note.code, note.detail, trial.trajectories[0][0], note.severity)
    if obj(result.get("agent_result")).get("rollout_details"):
        detail = "agent_result.rollout_details holds token ids that are not read; those of the trajectory are"
        trial.diagnose(batch, "rollout_details_unused", detail, severity="info")
    for table, rows in (("steps", trial.transcript.steps), ("messages", trial.transcript.messages)):
        for row in rows:
            batch.add(table, attempt_id=trial.attempt_id, **row)
    return trial


def _task_of(trial: Trial, options: ReadOptions) -> dict[str, Any]:
    dataset, native, version = task_name(trial.result)
    checksum = text(trial.result.get("task_checksum"))
    said = (m["content"] for m in trial.transcript.messages if m["origin"] == "human")
    spec = obj(obj(trial.result.get("config")).get("task"))
    commit = text(spec.get("git_commit_id"))
    return {
        "task_id": f"{dataset}/{native}",
        "dataset": dataset,
        "dataset_version": version or commit,
        "native_id": native,
        "instruction": next(said, None),
        "system_prompt": options.system,
        "tools": options.tools,
        "task_digest": checksum,
    }


def _task_folder(batch: Batch, unit: Unit, options: ReadOptions) -> list[dict[str, Any]]:
    import tomllib

    texts: dict[str, str] = {}
    for ref in sorted(_TASK):
        path = unit.path / ref
        try:
            if path.is_symlink():
                raise UnreadableError("symlink_refused", "a symbolic link inside a task folder is not followed")
            raw = read_bytes(path, options.max_file_bytes)[1]
        except UnreadableError as error:
            batch.diagnose(error.code, error.detail, package_id=unit.package_id, source_uri=f"{unit.package_id}/{ref}")
            continue
        add_evidence(batch, unit.package_id, ref, "task_spec", size=len(raw), digest=PREFIX + sha256_hex(raw))
        texts[ref] = raw.decode("utf-8", "replace")
    spec: dict[str, Any] = {}
    try:
        spec = tomllib.loads(texts.get("task.toml", ""))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        detail = f"expected TOML: {error}; the task is known by its folder only"
        uri = f"{unit.package_id}/task.toml"
        batch.diagnose("bad_toml", detail, package_id=unit.package_id, source_uri=uri)
    meta = obj(spec.get("metadata"))
    native = text(obj(spec.get("task")).get("name")) or unit.path.name
    dataset = unit.path.resolve().parent.name or "harbor"
    return [
        {
            "task_id": f"{dataset}/{native}",
            "dataset": dataset,
            "domain": text(meta.get("category")),
            "native_id": native,
            "instruction": texts.get("instruction.md"),
            "environment": text(obj(spec.get("environment")).get("docker_image")),
            "source_ref": "instruction.md",
            "metadata": dump_json(_plain(redact(meta))) if meta else None,
        }
    ]


def _plain(value: Any) -> Any:
    """TOML has dates, JSON has not."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_plain(v) for v in value]
    return value if isinstance(value, str | int | float | bool) else str(value)


SOURCE = Harbor()
