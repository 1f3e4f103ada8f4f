"""Folders with one file an event: an OpenHands V1 conversation with its `base_state.json`, or the store of a V0 one."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from expcomp.io.digest import PREFIX, sha256_hex
from expcomp.sources._bytes import UnreadableError, read_bytes
from expcomp.sources._json import load_json
from expcomp.sources._units import add_evidence, report

if TYPE_CHECKING:
    from pathlib import Path

    from expcomp.sources._chat import Row
    from expcomp.sources._contract import Batch, Unit

STATE = "base_state.json"
EVENTS = "events"
_EVENT = re.compile(r"(?:event-(?P<number>\d{1,12})-.*|(?P<plain>\d{1,12}))\.json(?:\.gz|\.zst)?", re.DOTALL)
_STORED = re.compile(r"\d{1,12}\.json(?:\.gz|\.zst)?")


@dataclass(slots=True)
class Folder:
    """What a conversation folder holds.

    Attributes:
        state: `base_state.json`.
        events: Events by the number of their file.
        digest: Digest over the digests of all files.
        first: Ref of the first event file.
        gaps: Whether a file of the sequence is missing or cannot be read.
        store: Whether it is a V0 store: events and nothing else.
    """

    state: Row = field(default_factory=dict)
    events: list[Row] = field(default_factory=list)
    digest: str = ""
    first: str | None = None
    gaps: bool = False
    store: bool = False


def is_store(names: frozenset[str]) -> bool:
    """Whether these names may be those of a V0 store: numbered files and nothing else."""
    return bool(names) and all(_STORED.fullmatch(name) for name in names)


def event_files(folder: Path) -> list[tuple[int, Path]]:
    """Event files of a folder by number."""
    found = []
    if folder.is_dir():
        for path in folder.iterdir():
            match = _EVENT.fullmatch(path.name)
            if match is not None and path.is_file() and not path.is_symlink():
                found.append((int(match["number"] or match["plain"]), path))
    return sorted(found, key=lambda one: (one[0], one[1].name))


def read_folder(batch: Batch, unit: Unit, limit: int) -> Folder:
    """Read the state and the events; what cannot be read is told and costs itself."""
    out = Folder()
    digests: list[str] = []
    out.store = not (unit.path / EVENTS).is_dir()
    home = unit.path if out.store else unit.path / EVENTS
    state = {} if out.store else _load(batch, unit, unit.path / STATE, STATE, limit, digests)
    if isinstance(state, dict):
        out.state = state
    elif state is not None:
        _tell(batch, unit, STATE, "bad_state", f"is {type(state).__name__}, expected an object; read as empty")
    expected = 0
    for number, path in event_files(home):
        ref = path.name if out.store else f"{EVENTS}/{path.name}"
        if number > expected and not out.store:
            # A store of V0 leaves numbers out.
            detail = f"event files {expected} to {number - 1} are missing; the conversation is incomplete"
            _tell(batch, unit, ref, "missing_event", detail)
            out.gaps = True
        expected = max(expected, number + 1)
        event = _load(batch, unit, path, ref, limit, digests)
        if isinstance(event, dict):
            out.first = out.first or ref
            out.events.append(event)
        else:
            out.gaps = True
            if event is not None:
                _tell(batch, unit, ref, "bad_event", f"is {type(event).__name__}, expected an object; left out")
    out.digest = PREFIX + sha256_hex("\n".join(digests).encode())
    return out


def _load(batch: Batch, unit: Unit, path: Path, ref: str, limit: int, digests: list[str]) -> Any:
    try:
        data, raw = read_bytes(path, limit)
    except UnreadableError as error:
        _tell(batch, unit, ref, error.code, error.detail, "error")
        return None
    digest = PREFIX + sha256_hex(raw)
    digests.append(f"{ref} {digest}")
    add_evidence(batch, unit.package_id, ref, "trace", size=len(raw), digest=digest)
    document, problems = load_json(data)
    report(batch, unit, problems, f"{unit.package_id}/{ref}")
    return document


def _tell(batch: Batch, unit: Unit, ref: str, code: str, detail: str, severity: str = "warning") -> None:
    batch.diagnose(code, detail, package_id=unit.package_id, source_uri=f"{unit.package_id}/{ref}", severity=severity)
