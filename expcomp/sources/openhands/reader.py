"""OpenHands: V1 conversation folders, V0 event lists and feedback exports, evaluation `output.jsonl` rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expcomp.sources._bytes import UnreadableError, read_head
from expcomp.sources._contract import Batch, Found, Frames, ReadOptions, Unit, attempt_id
from expcomp.sources._json import load_rows
from expcomp.sources._look import Look
from expcomp.sources._units import add_tasks, file_unit, open_unit, relative, report
from expcomp.sources._values import obj, text
from expcomp.sources.openhands._emit import emit
from expcomp.sources.openhands._folder import EVENTS, STATE, Folder, event_files, is_store, read_folder
from expcomp.sources.openhands._rows import LISTS, conversation, evaluation, feedback
from expcomp.sources.openhands._v0 import V0
from expcomp.sources.openhands._v1 import KINDS, V1, off_path
from expcomp.sources.swe._common import GROUP

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from expcomp.sources._chat import Row

_SOURCES = frozenset({"agent", "user", "environment"})


class OpenHands:
    """Reader of OpenHands conversations."""

    name = "openhands"
    summary = "OpenHands: V1 conversation folders, V0 event lists, feedback exports, evaluation output.jsonl"
    carries = {  # noqa: RUF012 - read only, by contract of the protocol
        "system_prompt": "yes",
        "tools": "yes",
        "reasoning": "yes, with blocks",
        "verdict": "evaluation rows with a report; feedback of users",
        "trial": "no",
        "tokens": "per call, totals per usage id",
        "cost": "yes",
        "times": "yes, naive",
        "token_ids": "V1, when asked for",
    }

    def claims_folder(self, folder: Path, names: frozenset[str]) -> bool:
        """A folder with the state and the events of a V1 conversation, or a V0 store of one file an event."""
        if {STATE, EVENTS} <= names:
            return (folder / EVENTS).is_dir()
        return is_store(names) and _first_is_event(folder)

    def claims_file(self, look: Look) -> bool:
        """Events with a source, or records that hold a list of such events."""
        keys = look.keys
        if look.kind not in ("object", "array"):
            return False
        if "trajectory" in keys and "feedback" in keys:
            return True
        if keys & set(LISTS) and "instance_id" in keys:
            return any(_events(look.at(place)) for place in LISTS) or any(_holds_events(r) for r in look.rows[:2])
        if not look.rows and {"instance_id", "test_result", "instruction"} <= keys and "messages" not in keys:
            return b'"git_patch"' in look.head
        if look.rows:
            # One event alone is a file of a store, and no conversation.
            return (look.kind == "array" or len(look.rows) > 1) and any(_event(row) for row in look.rows[:8])
        return _events(keys) and ("kind" not in keys or any(f'"{kind}"'.encode() in look.head for kind in KINDS))

    def units(self, path: Path, root: Path, found: Found) -> None:
        """One unit a conversation folder or file; evaluation rows may share tasks with other files, conversations do not."""
        if path.is_dir():
            files = [file for _, file in (*event_files(path), *event_files(path / EVENTS))]
            size = sum(file.stat().st_size for file in (*files, path / STATE) if file.is_file())
            found.units.append(Unit(self.name, path, relative(path, root), size))
            return
        rows = "instance_id" in Look(path, read_head(path)).keys
        file_unit(self.name, path, root, found, GROUP if rows else None)

    def read(self, units: Sequence[Unit], options: ReadOptions) -> Frames:
        """Read conversations."""
        batch = Batch()
        tasks: list[Row] = []
        attempts: list[Row] = []
        for unit in units:
            if unit.path.is_dir():
                _folder(batch, unit, options)
            else:
                _file(batch, unit, options, tasks, attempts)
        add_tasks(batch, tasks, attempts)
        return batch.frames()


# -- what is an event --------------------------------------------------------------------------------------------------


def _event(row: Row) -> bool:
    if text(row.get("source")) not in _SOURCES:
        return False
    return any(isinstance(row.get(k), str) for k in ("action", "observation")) or text(row.get("kind")) in KINDS


def _first_is_event(folder: Path) -> bool:
    files = event_files(folder)
    try:
        return bool(files) and any(_event(row) for row in Look(files[0][1], read_head(files[0][1])).rows[:1])
    except UnreadableError:
        return False


def _events(keys: frozenset[str]) -> bool:
    """Whether these are keys of events, when the values are out of sight."""
    if "source" not in keys:
        return False
    return {"action", "args"} <= keys or {"observation", "content"} <= keys or {"kind", "timestamp", "id"} <= keys


def _holds_events(row: Row) -> bool:
    for name in LISTS:
        inner = row.get(name)
        if isinstance(inner, list):
            flat = [e for one in inner[:8] for e in (one if isinstance(one, list) else [one])]
            if any(isinstance(e, dict) and _event(e) for e in flat):
                return True
    return False


# -- units --------------------------------------------------------------------------------------------------------------


def _folder(batch: Batch, unit: Unit, options: ReadOptions) -> None:
    folder: Folder = read_folder(batch, unit, options.max_file_bytes)
    if folder.store:
        found = V0().read(folder.events)
    else:
        found = V1(folder.state).read(folder.events, off_path(folder.events, folder.state.get("leaf_event_id")))
    found.gaps = folder.gaps
    inner = obj(folder.state.get("agent"))
    state = {
        k: v
        for k, v in folder.state.items()
        if k not in ("stats", "id", "execution_status", "max_iterations", "leaf_event_id", "head_is_empty")
        and v not in (None, [], {}, "")
    }
    if "llm" in inner:
        # Told of in the parameters.
        state["agent"] = {k: v for k, v in inner.items() if k != "llm"}
    emit(
        batch,
        unit,
        found,
        attempt_id("openhands", unit.package_id),
        options,
        native=text(folder.state.get("id")),
        digest=folder.digest,
        version="V0" if folder.store else "V1",
        more={"state": state} if state else {},
        trace_ref=folder.first or STATE,
    )


def _file(batch: Batch, unit: Unit, options: ReadOptions, tasks: list[Row], attempts: list[Row]) -> None:
    opened = open_unit(batch, unit, options.max_file_bytes)
    if opened is None:
        return
    loaded = load_rows(opened[0])
    report(batch, unit, loaded.problems)
    rows = [row for _, row in loaded.rows]
    if any(isinstance(r, dict) and any(isinstance(r.get(k), list) for k in LISTS) for r in rows):
        for pos, row in loaded.rows:
            events = (
                next((row[k] for k in LISTS if isinstance(row.get(k), list)), None) if isinstance(row, dict) else None
            )
            if events is None:
                what = f"an object with {', '.join(list(row)[:4])}" if isinstance(row, dict) else type(row).__name__
                _skip(batch, unit, pos, f"record {pos} is {what}, expected an object with a list of events; left out")
            elif "feedback" in row:
                feedback(batch, unit, options, pos, row, events, opened[1])
            else:
                evaluation(batch, unit, options, pos, row, events, opened[1], tasks, attempts)
        return
    if not any(isinstance(e, dict) and _event(e) for one in rows for e in (one if isinstance(one, list) else [one])):
        if not any(p.severity == "error" for p in loaded.problems):
            _skip(batch, unit, None, f"{len(rows)} records and no event among them; no attempt", "no_attempt")
        return
    found, version = conversation(rows)
    ident = attempt_id("openhands", unit.package_id, 0)
    emit(batch, unit, found, ident, options, digest=opened[1], version=version)


def _skip(batch: Batch, unit: Unit, pos: int | None, detail: str, code: str = "bad_row") -> None:
    batch.diagnose(code, detail, package_id=unit.package_id, source_uri=unit.package_id, source_pos=pos)


SOURCE = OpenHands()
