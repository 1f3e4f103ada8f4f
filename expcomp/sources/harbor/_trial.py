"""One Harbor trial folder to rows: the result decides, trajectories and files are what it points at."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from expcomp.io.digest import PREFIX, sha256_hex
from expcomp.sources._bytes import UnreadableError, read_bytes
from expcomp.sources._chat import Row, Transcript
from expcomp.sources._dialogue import USAGE
from expcomp.sources._json import load_json
from expcomp.sources._units import add_evidence, entries
from expcomp.sources._values import items, obj, text
from expcomp.sources.atif._read import Trajectory, read_trajectory

if TYPE_CHECKING:
    from pathlib import Path

    from expcomp.sources._contract import Batch, ReadOptions, Unit

RESULT = "result.json"
TRAJECTORY = "agent/trajectory.json"
_GRADERS = ("verifier/reward.json", "verifier/reward.txt", "verifier/reward-details.json", "verifier/ctrf.json")
_LOGS = {".log": "log", ".txt": "log", ".cast": "recording", ".patch": "patch", ".diff": "patch", ".png": "image"}
# Agents of Harbor that are no model.
SCRIPTED = frozenset({"oracle", "nop"})


@dataclass(slots=True)
class Trial:
    """What a trial folder holds."""

    unit: Unit
    attempt_id: str
    result: Row
    digest: str
    refs: list[str] = field(default_factory=list)
    transcript: Transcript = field(default_factory=Transcript)
    trajectories: list[tuple[str, Row, Trajectory]] = field(default_factory=list)
    ctrf: list[tuple[str, Row]] = field(default_factory=list)
    alone: bool = False
    """Whether the unit is a result file and not a folder."""

    def diagnose(self, batch: Batch, code: str, detail: str, ref: str = RESULT, severity: str = "warning") -> None:
        """Add a diagnostic that names the trial and a file in it."""
        batch.diagnose(
            code,
            detail,
            package_id=self.unit.package_id,
            source_uri=self.uri(ref),
            attempt_id=self.attempt_id,
            severity=severity,
        )

    def uri(self, ref: str) -> str:
        """Path of a file of the trial relative to the load root."""
        return self.unit.package_id if self.alone else f"{self.unit.package_id}/{ref}"

    def reward_ref(self) -> str:
        """The file that holds the reward."""
        written = [r for r in self.refs if posixpath.basename(r) in ("reward.json", "reward.txt")]
        return written[0] if len(written) == 1 else self.result_ref()

    def result_ref(self) -> str:
        """The result, as a ref: a unit that is a file is its own ref."""
        return self.unit.path.name if self.alone else RESULT

    def usage(self) -> Row:
        """Sums over the steps of all trajectories."""
        out: Row = {}
        for name in USAGE:
            values = [t.usage[name] for _, _, t in self.trajectories if t.usage.get(name) is not None]
            out[name] = sum(values) if values else None
        return out

    def step_results(self) -> list[Row]:
        """Results of a multi-step task."""
        return [obj(s) for s in items(self.result.get("step_results"))]


def fill(batch: Batch, trial: Trial, options: ReadOptions) -> None:
    """Read the files of a trial folder: evidence, artifacts, trajectories, test reports."""
    if trial.alone:
        add_evidence(
            batch, trial.unit.package_id, trial.result_ref(), "grader", size=trial.unit.size, digest=trial.digest
        )
        return
    found = {ref: path for ref, path in _files(trial.unit.path, "") if _is_wanted(ref)}
    bases = ["", *(f"steps/{s}/" for s in _step_names(trial, found))]
    graders = {base + ref for base in bases for ref in _GRADERS}
    traces = {base + TRAJECTORY for base in bases}
    trial.refs = [r for r in found if r in graders or r in traces]
    primary = trial.reward_ref()
    for ref, path in found.items():
        try:
            data, raw = read_bytes(path, options.max_file_bytes)
        except UnreadableError as error:
            trial.diagnose(batch, error.code, error.detail, ref, "error")
            continue
        digest = PREFIX + sha256_hex(raw)
        if ref == RESULT or ref in graders or ref in traces:
            kind = "trace" if ref in traces else "grader" if ref in graders or ref == primary else "package_file"
            add_evidence(batch, trial.unit.package_id, ref, kind, size=len(raw), digest=digest)
        else:
            _artifact(batch, trial, ref, len(raw), digest)
        if ref in traces:
            _trajectory(batch, trial, ref, data)
        elif posixpath.basename(ref) == "ctrf.json":
            _report(batch, trial, ref, data)
    for ref in found:
        if (
            ref.startswith("agent/trajectory.")
            and ref not in traces
            and ref not in {r for r, _, _ in trial.trajectories}
        ):
            detail = "a trajectory beside the trial's own (summariser or sub-agent) was not read as an attempt"
            trial.diagnose(batch, "trajectory_not_read", detail, ref, "info")


def _files(folder: Path, prefix: str) -> list[tuple[str, Path]]:
    """Regular files below a folder in stable order; symlinks are never followed."""
    out: list[tuple[str, Path]] = []
    for name, kind in entries(folder):
        if kind == "folder":
            out += _files(folder / name, f"{prefix}{name}/")
        elif kind == "file":
            out.append((prefix + name, folder / name))
    return out


def _is_wanted(ref: str) -> bool:
    """Whether a file is read at all: native sessions and set-up files inside a trial are not."""
    parts = ref.split("/")
    where = parts[2:] if parts[0] == "steps" and len(parts) > 3 else parts
    name = where[-1]
    if ref in (RESULT, "exception.txt", "trial.log"):
        return True
    if where[0] == "artifacts":
        return name != "manifest.json"
    if where[0] == "verifier":
        return True
    return (
        where[0] == "agent"
        and len(where) == 2
        and ("." + name.rpartition(".")[2] in _LOGS or name.startswith("trajectory"))
    )


def _step_names(trial: Trial, found: dict[str, Path]) -> list[str]:
    named = [text(s.get("step_name")) or text(s.get("name")) for s in trial.step_results()]
    on_disk = [ref.split("/")[1] for ref in found if ref.startswith("steps/") and ref.count("/") > 1]
    return list(dict.fromkeys([n for n in named if n] + on_disk))


def _artifact(batch: Batch, trial: Trial, ref: str, size: int, digest: str) -> None:
    suffix = posixpath.splitext(ref)[1].lower()
    kind = "test_report" if "verifier/" in ref else _LOGS.get(suffix, "file")
    if "artifacts/" in ref and kind == "log":
        kind = "file"
    batch.add(
        "artifacts",
        attempt_id=trial.attempt_id,
        kind=kind,
        name=posixpath.basename(ref),
        uri=ref,
        bytes=size,
        digest=digest,
    )


def _trajectory(batch: Batch, trial: Trial, ref: str, data: bytes) -> None:
    doc = _document(batch, trial, ref, data)
    if doc is None:
        return
    if not isinstance(doc.get("steps"), list):
        trial.diagnose(batch, "bad_trajectory", "expected an ATIF object with steps; read without transcript", ref)
        return
    _append(trial, ref, doc)
    nxt, here, seen = text(doc.get("continued_trajectory_ref")), posixpath.dirname(ref), {ref}
    while nxt is not None:
        ref = posixpath.normpath(posixpath.join(here, nxt))
        path = trial.unit.path / ref
        inside = not ref.startswith(("..", "/")) and path.is_file() and not path.is_symlink()
        if not inside or ref in seen:
            trial.diagnose(batch, "dangling_reference", f"the continuation {nxt} is not in the trial", ref)
            return
        seen.add(ref)
        raw = path.read_bytes()
        add_evidence(batch, trial.unit.package_id, ref, "trace", size=len(raw), digest=PREFIX + sha256_hex(raw))
        part = _document(batch, trial, ref, raw)
        if part is None:
            return
        _append(trial, ref, part, relation="continuation")
        nxt = text(part.get("continued_trajectory_ref"))


def _document(batch: Batch, trial: Trial, ref: str, data: bytes) -> Row | None:
    doc, problems = load_json(data)
    for problem in problems:
        trial.diagnose(batch, problem.code, problem.detail, ref, problem.severity)
    if doc is not None and not isinstance(doc, dict):
        trial.diagnose(batch, "bad_json", f"expected an object, found {type(doc).__name__}", ref, "error")
    return doc if isinstance(doc, dict) else None


def _report(batch: Batch, trial: Trial, ref: str, data: bytes) -> None:
    doc = _document(batch, trial, ref, data)
    if doc is not None:
        trial.ctrf.append((ref, doc))


def _append(trial: Trial, ref: str, doc: Row, relation: str = "root") -> None:
    """Put the steps of a document behind those of the trial; every document is a context of its own."""
    scripted = text(obj(trial.result.get("agent_info")).get("name")) in SCRIPTED
    part = read_trajectory(doc, trainable=not scripted, relation=relation)
    whole = trial.transcript
    steps = max((s["step_index"] for s in whole.steps), default=-1) + 1
    messages = len(whole.messages)
    context = max((m["context_id"] for m in whole.messages), default=-1) + 1
    for step in part.transcript.steps:
        step["step_index"] += steps
        step["context_id"] += context
    for message in part.transcript.messages:
        message["message_index"] += messages
        message["context_id"] += context
        message["step_index"] += steps
    whole.steps += part.transcript.steps
    whole.messages += part.transcript.messages
    whole.notes += part.transcript.notes
    trial.trajectories.append((ref, doc, part))
