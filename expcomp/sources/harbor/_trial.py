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
from expcomp.sources._units import add_evidence, place
from expcomp.sources._values import items, obj, text
from expcomp.sources.atif._read import Trajectory, read_trajectory
from expcomp.sources.harbor._files import LOGS, RESULT, wanted

if TYPE_CHECKING:
    from pathlib import Path

    from expcomp.sources._bytes import Place
    from expcomp.sources._contract import Batch, ReadOptions, Unit

TRAJECTORY = "agent/trajectory.json"
_GRADERS = ("verifier/reward.json", "verifier/reward.txt", "verifier/reward-details.json", "verifier/ctrf.json")
_REWARDS = ("/reward.json", "/reward.txt")
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
    size: int = 0
    """Bytes of the result, as they lie on disk."""
    reward: str | None = None
    """The one file beside the result that holds the reward."""
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
        return self.reward or self.result_ref()

    def result_ref(self) -> str:
        """The result, as a ref: a unit that is a file is its own ref."""
        return self.unit.path.name if self.alone else RESULT

    def usage(self) -> Row:
        """Sums over the steps of all trajectories."""
        if len(self.trajectories) == 1:
            return self.trajectories[0][2].usage
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
    try:
        found = dict(wanted(place(trial.unit.path)))
    except OSError as error:
        trial.diagnose(batch, "unreadable", f"cannot list the folder: {error.strerror}", severity="error")
        return
    bases = ["", *(f"steps/{s}/" for s in _step_names(trial, found))]
    graders = {base + ref for base in bases for ref in _GRADERS}
    traces = {base + TRAJECTORY for base in bases}
    trial.refs = [r for r in found if r in graders or r in traces]
    written = [r for r in trial.refs if r.endswith(_REWARDS)]
    trial.reward = written[0] if len(written) == 1 else None
    for ref, path in found.items():
        _file(batch, trial, ref, path, options, is_trace=ref in traces, is_grader=ref in graders)
    for ref in found:
        if (
            ref.startswith("agent/trajectory.")
            and ref not in traces
            and ref not in {r for r, _, _ in trial.trajectories}
        ):
            detail = "a trajectory beside the trial's own (summariser or sub-agent) was not read as an attempt"
            trial.diagnose(batch, "trajectory_not_read", detail, ref, "info")


def _file(
    batch: Batch, trial: Trial, ref: str, path: Place, options: ReadOptions, *, is_trace: bool, is_grader: bool
) -> None:
    """One file of a trial: what it is goes to evidence or artifacts, what it says to the trial."""
    if ref == RESULT:
        # It was read to get here.
        kind = "package_file" if trial.reward else "grader"
        add_evidence(batch, trial.unit.package_id, ref, kind, size=trial.size, digest=trial.digest)
        return
    try:
        data, raw = read_bytes(path, options.max_file_bytes)
    except UnreadableError as error:
        trial.diagnose(batch, error.code, error.detail, ref, "error")
        return
    digest = PREFIX + sha256_hex(raw)
    if is_trace or is_grader:
        add_evidence(batch, trial.unit.package_id, ref, "trace" if is_trace else "grader", size=len(raw), digest=digest)
    else:
        _artifact(batch, trial, ref, len(raw), digest)
    if is_trace:
        _trajectory(batch, trial, ref, data, options)
    elif ref.rpartition("/")[2] == "ctrf.json":
        _report(batch, trial, ref, data)


def _step_names(trial: Trial, found: dict[str, Place]) -> list[str]:
    named = [text(s.get("step_name")) or text(s.get("name")) for s in trial.step_results()]
    on_disk = [ref.split("/")[1] for ref in found if ref.startswith("steps/") and ref.count("/") > 1]
    return list(dict.fromkeys([n for n in named if n] + on_disk))


def _artifact(batch: Batch, trial: Trial, ref: str, size: int, digest: str) -> None:
    suffix = posixpath.splitext(ref)[1].lower()
    kind = "test_report" if "verifier/" in ref else LOGS.get(suffix, "file")
    if "artifacts/" in ref and kind == "log":
        kind = "file"
    batch.add(
        "artifacts",
        attempt_id=trial.attempt_id,
        kind=kind,
        name=ref.rpartition("/")[2],
        uri=ref,
        bytes=size,
        digest=digest,
    )


def _trajectory(batch: Batch, trial: Trial, ref: str, data: bytes, options: ReadOptions) -> None:
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
        path = _inside(trial, ref)
        if path is None or ref in seen:
            trial.diagnose(batch, "dangling_reference", f"the continuation {nxt} is not in the trial", ref)
            return
        seen.add(ref)
        try:
            more, raw = read_bytes(path, options.max_file_bytes)
        except UnreadableError as error:
            trial.diagnose(batch, error.code, error.detail, ref, "error")
            return
        add_evidence(batch, trial.unit.package_id, ref, "trace", size=len(raw), digest=PREFIX + sha256_hex(raw))
        part = _document(batch, trial, ref, more)
        if part is None:
            return
        _append(trial, ref, part, relation="continuation")
        nxt = text(part.get("continued_trajectory_ref"))


def _inside(trial: Trial, ref: str) -> Path | None:
    """The file of the trial that a ref names; none when a link lies on the way, or where no file can have such a name."""
    if ref.startswith(("..", "/")):
        return None
    path = trial.unit.path
    try:
        for part in ref.split("/"):
            path /= part
            if path.is_symlink():
                return None
        return path if path.is_file() else None
    except (OSError, ValueError):
        return None


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
    part = read_trajectory(doc, trial.attempt_id, trainable=not scripted, relation=relation)
    trial.trajectories.append((ref, doc, part))
    whole = trial.transcript
    if not whole.steps and not whole.messages:
        part.transcript.notes[:0] = whole.notes
        trial.transcript = part.transcript
        return
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
