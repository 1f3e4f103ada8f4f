"""Harbor: job folders, trial folders, task folders. One attempt for each trial; rewards come from the trials (R15)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from expcomp.io.digest import PREFIX, sha256_hex
from expcomp.sources._bytes import UnreadableError, read_bytes
from expcomp.sources._contract import Batch, Found, Frames, ReadOptions, Unit, attempt_id
from expcomp.sources._json import dump_json, load_json
from expcomp.sources._units import add_evidence, add_tasks, below, file_unit, is_file, names_in, place, relative, report
from expcomp.sources._values import obj, redact, text
from expcomp.sources.harbor._files import RESULT
from expcomp.sources.harbor._find import TRIAL_KEY, find_trials, group, is_trial_or_job, keys_of, trial_unit
from expcomp.sources.harbor._rollout import read_rollout
from expcomp.sources.harbor._rows import attempt, task_name
from expcomp.sources.harbor._trial import Trial, fill

if TYPE_CHECKING:
    from collections.abc import Sequence

    from expcomp.sources._look import Look

_TASK = frozenset({"task.toml", "instruction.md"})


class Harbor:
    """Reader of Harbor jobs, trials and task folders."""

    name = "harbor"
    summary = "Harbor job, trial and task folders (Terminal-Bench 2 and others)"
    carries = {  # noqa: RUF012 - read only, by contract of the protocol
        "system_prompt": "as system step of the trajectory, if the adapter has it",
        "tools": "few adapters",
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
        return names >= _TASK or is_trial_or_job(place(folder), names)

    def claims_file(self, look: Look) -> bool:
        """The result of a trial that is given alone."""
        return look.kind == "object" and {"trial_name", "task_name"} <= look.keys

    def units(self, path: Path, root: Path, found: Found) -> None:
        """A unit for each trial or task folder; a job adds its trials and what is missing of them."""
        if path.is_file():
            file_unit(self.name, path, root, found, self.name)
            return
        here = place(path)
        names = names_in(here)
        if names >= _TASK:
            size = (path / "instruction.md").stat().st_size
            found.units.append(Unit(self.name, path, relative(path, root), size, group(path.name)))
            return
        keys, size = keys_of(below(here, RESULT))
        if TRIAL_KEY in keys:
            found.units.append(trial_unit(path, root, size))
        else:
            find_trials(path, root, found)

    def read(self, units: Sequence[Unit], options: ReadOptions) -> Frames:
        """Read trials, and the task folders beside them."""
        batch = Batch()
        tasks: list[dict[str, Any]] = []
        attempts: list[dict[str, Any]] = []
        folders = [is_file(below(place(unit.path), "task.toml")) for unit in units]
        for unit, is_task in zip(units, folders, strict=True):
            if is_task:
                tasks += _task_folder(batch, unit, options)
        for unit, is_task in zip(units, folders, strict=True):
            if not is_task:
                found = _trial(batch, unit, options)
                if found is not None:
                    row = attempt(batch, found, options)
                    task = _task_of(found, options)
                    row["_task_digest"] = task["task_digest"]
                    attempts.append(row)
                    tasks.append(task)
        add_tasks(batch, tasks, attempts)
        for row in attempts:
            del row["_task_digest"]
        batch.rows["attempts"] += attempts
        return batch.frames()


def _trial(batch: Batch, unit: Unit, options: ReadOptions) -> Trial | None:
    here = place(unit.path)
    alone = is_file(here)
    path = here if alone else below(here, RESULT)
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
    ident, digest = attempt_id("harbor", unit.package_id), PREFIX + sha256_hex(raw)
    trial = Trial(unit, ident, result, digest, size=len(raw), alone=alone)
    fill(batch, trial, options)
    for note in trial.transcript.notes:
        trial.diagnose(batch, note.code, note.detail, trial.trajectories[0][0], note.severity)
    if unread := read_rollout(result, trial.transcript.steps):
        trial.diagnose(batch, "rollout_details_unused", unread, severity="info")
    batch.rows["steps"] += trial.transcript.steps
    batch.rows["messages"] += trial.transcript.messages
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
    # Inside an archive there is nothing to resolve.
    dataset = (unit.path.resolve() if isinstance(unit.path, Path) else unit.path).parent.name or "harbor"
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
