"""Recorded events: JSON lines, one episode or one event a line.

Event: `kind` and `actor` (words of the tables), `content` (a text, or any JSON), and what is known of `call_id`, `timestamp` and
`is_error`; the content of an action names its tool as in a transcript. Episode a line: `events`, with `episode_id` or
`trajectory_id`. Event a line: the same id beside the event; the lines of an id are one episode, in the order of the file. A family is
a `group`, else a `task_id`, else the episode. Whatever else an event says is kept in its metadata.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.environments.recorded_files import read_files
from expcomp.environments.recordings import Recordings, finish_events
from expcomp.environments.transcripts import with_tools
from expcomp.environments.worldlogs import EPISODE, check_numbers, episode_name, episode_table, source_table
from expcomp.errors import SourceError
from expcomp.evidence.redact import redact
from expcomp.io.record_files import LINES, first_record, kind_of_file, read_records
from expcomp.tables.environment import ACTOR, EVENT_KIND, EVENTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

__all__ = ["event_logs", "is_event_log"]

Record = dict[str, Any]
_COLUMNS = ("episode_id", "actor", "kind", "content", "call_id", "timestamp", "_flag", "metadata_json")
_EVENT = {c: EVENTS.schema.get(c, pl.Boolean()) for c in _COLUMNS}
_ACTORS, _KINDS = (frozenset(e.categories.to_list()) for e in (ACTOR, EVENT_KIND))
_FAMILY = ("group", "task_id")
_IDS = ("episode_id", "trajectory_id")
_MAPPED = frozenset({"actor", "kind", "content", "call_id", "timestamp", "is_error", *_FAMILY, *_IDS})


def is_event_log(path: Path) -> bool:
    """Whether the first line of a file is an episode of events or an event; what cannot be read is none."""
    return kind_of_file(path) in LINES and _layout(first_record(path)) is not None


def _layout(record: Any) -> str | None:
    if not isinstance(record, dict):
        return None
    events = record.get("events")
    if isinstance(events, list) and events:
        return "episodes" if _is_event(events[0]) else None
    return "events" if _is_event(record) and _id(record) is not None else None


def _is_event(value: Any) -> bool:
    if not isinstance(value, dict) or "content" not in value:
        return False
    kind, actor = value.get("kind"), value.get("actor", "unknown")
    return isinstance(kind, str) and kind in _KINDS and isinstance(actor, str) and actor in _ACTORS


def _id(record: Record) -> str | None:
    return next((v for name in _IDS if isinstance(v := record.get(name), str)), None)


def event_logs(paths: Sequence[Path], *, holdout: float = 0.2, seed: int = 0, pii: bool = False) -> Recordings:
    """Episodes of recorded events.

    Args:
        paths: Files, in any order; copies of a file are read once.
        holdout: Share of the families that become validation.
        seed: Of the split.
        pii: Also replace e-mail addresses, phone numbers and IP addresses.

    Raises:
        SourceError: A line that cannot be read; the message names file, line and field.
    """
    files, episodes, events, copies = read_files(paths, _read)
    frame = pl.DataFrame(events, schema=_EVENT, orient="row").with_columns(
        pl.col("actor", "kind").cast(pl.String), episode_id=episode_name()
    )
    whole = with_tools(frame).with_columns(is_error=pl.coalesce("_flag", "is_error")).drop("_flag")
    clean, redactions = redact(whole, ["content", "arguments", "metadata_json"], pii=pii)
    done = finish_events(clean)
    known, more = redact(pl.DataFrame(episodes, schema=EPISODE, orient="row"), ["metadata_json"], pii=pii)
    redactions = {rule: redactions.get(rule, 0) + more.get(rule, 0) for rule in sorted({*redactions, *more})}
    table = episode_table(known, done, holdout=holdout, seed=seed)
    return Recordings(source_table(files, table), table, done, redactions, copies)


def _read(path: Path, source: str) -> Iterator[tuple[tuple[Any, ...], list[tuple[Any, ...]]]]:
    """Of each episode its row and the rows of its events."""
    records = read_records(path)
    layout = _layout(records[0]) if records else None
    runs: dict[str, list[tuple[str, Record]]] = {}
    heads: dict[str, Record] = {}
    for number, record in enumerate(records, 1):
        where = f"{path.name}, line {number}"
        if layout is None or _layout(record) != layout:
            kinds = ", ".join(EVENT_KIND.categories)
            raise SourceError(f"{where}: expected {layout or 'episodes'} with actor, content and a kind of {kinds}")
        check_numbers(record, where)
        name = _id(record) or str(number)
        if layout == "events":
            runs.setdefault(name, []).append((where, record))
        elif name in runs:
            raise SourceError(f"{where}: episode {name!r} was on a line before; give each episode its own id")
        else:
            runs[name] = [(f"{where}, event {i}", e) for i, e in enumerate(record["events"])]
        heads.setdefault(name, record)
    for name, told in runs.items():
        head = heads[name]
        key = f"{source}\n{name}"
        family = next((head[n] for n in _FAMILY if head.get(n) is not None), name)
        task = head.get("task_id")
        rest = {k: v for k, v in head.items() if k not in _MAPPED and k != "events"} if layout == "episodes" else {}
        metadata = json.dumps(rest, ensure_ascii=False) if rest else None
        row = (key, source, name, str(family), None if task is None else str(task), metadata)
        yield row, [_event(key, event, where) for where, event in told]


def _event(key: str, event: Any, where: str) -> tuple[Any, ...]:
    if not _is_event(event):
        raise SourceError(f"{where}: expected actor, kind and content, found {event!r:.80}")
    call_id, flag, content = event.get("call_id"), event.get("is_error"), event["content"]
    if call_id is not None and not isinstance(call_id, str | int):
        raise SourceError(f"{where}: field call_id: expected a text, found {call_id!r:.60}")
    rest = {k: v for k, v in event.items() if k not in _MAPPED}
    stamp = _moment(event.get("timestamp"))
    if stamp is None and event.get("timestamp") is not None:
        rest["timestamp"] = event["timestamp"]
    return (
        key,
        event.get("actor", "unknown"),
        event["kind"],
        content if isinstance(content, str) else json.dumps(content, ensure_ascii=False),
        None if call_id is None else str(call_id),
        stamp,
        flag if isinstance(flag, bool) else None,
        json.dumps(rest, ensure_ascii=False) if rest else None,
    )


def _moment(value: Any) -> datetime | None:
    """A time in UTC; one without a zone is taken for UTC."""
    try:
        stamp = datetime.fromisoformat(value)
        return stamp.replace(tzinfo=UTC) if stamp.tzinfo is None else stamp.astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        return None
