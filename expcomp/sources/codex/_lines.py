"""Lines of a Codex rollout, whatever the version of the program, as records of one shape."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from expcomp.sources._harness import injected
from expcomp.sources._json import Problem, load_lines, load_rows
from expcomp.sources._values import count, items, moment, obj, text

if TYPE_CHECKING:
    from datetime import datetime

    from expcomp.sources._chat import Note

ENVELOPES = frozenset({"session_meta", "response_item", "event_msg", "turn_context", "compacted"})
"""Types that a line in an envelope had in every version."""
ITEMS = frozenset(
    "message reasoning function_call function_call_output custom_tool_call custom_tool_call_output local_shell_call "
    "web_search_call tool_search_call tool_search_output image_generation_call ghost_snapshot compaction "
    "compaction_summary context_compaction".split()
)
"""Types of Responses items that occur in rollouts."""
_QUIET = timedelta(milliseconds=250)
_V7 = "7"
_STARTS = (b'{"timestamp":', b'{"ordinal":')


class Record(NamedTuple):
    """One line. A tuple, since there is one for each line: loops over all records unpack it.

    Attributes:
        pos: 1-based line number.
        kind: Type of the envelope; `state` for the marks of the oldest layout.
        item: Type of the response item or event.
        payload: What it holds.
        time: Time as written.
        line: The envelope; null where there is none.
    """

    pos: int
    kind: str
    item: str | None
    payload: dict[str, Any]
    time: str | None = None
    line: dict[str, Any] | None = None

    def key(self) -> int | None:
        """Part of the history that the model had seen, where the line says it: equal for the items of one response."""
        if self.line is None or "metadata" not in self.line:
            return None
        return count(obj(self.line["metadata"]).get("sampled_through_sequence"))

    def ordinal(self) -> int | None:
        """Number of the line in the rollout, where it has one."""
        return count(self.line.get("ordinal")) if self.line is not None else None


@dataclass(slots=True)
class Rollout:
    """Records of a file.

    Attributes:
        records: In the order of the file.
        meta: Payload of the first session_meta that is the thread's own.
        thread: Id of the thread.
        replayed: Number of records at the start that were copied from another thread.
        sessions: Number of session_meta lines of the thread itself.
        marked: Whether lines mark where a response ends, as in the oldest layout.
    """

    records: list[Record] = field(default_factory=list)
    meta: dict[str, Any] = field(default_factory=dict)
    thread: str | None = None
    replayed: int = 0
    sessions: int = 0
    marked: bool = False

    def parent(self) -> str | None:
        """Thread that started this one or that it was forked from."""
        spawned = obj(obj(obj(self.meta.get("source")).get("subagent")).get("thread_spawn"))
        for value in (
            self.meta.get("parent_thread_id"),
            spawned.get("parent_thread_id"),
            self.meta.get("forked_from_id"),
        ):
            if isinstance(value, str) and value and value != self.thread:
                return value
        return None

    def base(self) -> dict[str, Any]:
        """Where the history before the first record is, when it is in another file."""
        return obj(self.meta.get("history_base"))

    def relation(self) -> str:
        """How the thread relates to its parent."""
        source = obj(self.meta.get("source"))
        if "subagent" in source:
            return "summariser" if source["subagent"] == "compact" else "subagent"
        if self.meta.get("thread_source") == "subagent" or text(self.meta.get("parent_thread_id")):
            return "subagent"
        return "fork" if text(self.meta.get("forked_from_id")) else "root"


def load(data: bytes) -> tuple[list[tuple[int, Any]], list[Problem]]:
    """Values with their 1-based line numbers, and what was wrong.

    As `load_lines`, and where a line begins with the rest of a broken record, the whole one after it is read (R13).
    """
    lines, problems = load_lines(data)
    if not problems:
        return lines, problems
    lost = {p.pos for p in problems if p.code == "bad_json" and p.pos is not None} - {pos for pos, _ in lines}
    if not lost:
        return lines, problems
    texts = data.split(b"\n")
    for pos in sorted(lost):
        line = texts[pos - 1]
        at = max(line.rfind(start) for start in _STARTS)
        values = [v for _, v in load_rows(line[at:]).rows if isinstance(v, dict)] if at > 0 else []
        if values:
            detail = f"line {pos} begins with {at} bytes of a broken record, which was left out; the record after them was read"
            problems = [p for p in problems if p.pos != pos]
            problems.append(Problem("glued_line", detail, pos, byte_offset=0))
            lines += [(pos, value) for value in values]
    lines.sort(key=lambda line: line[0])
    return lines, problems


def read_rollout(lines: list[tuple[int, Any]], notes: list[Note], note: type[Note]) -> Rollout:
    """Records of the lines; what is none is noted and left out."""
    out = Rollout()
    unknown: dict[str, list[int]] = {}
    add, new = out.records.append, tuple.__new__
    for pos, value in lines:
        if type(value) is dict:
            kind, payload = value.get("type"), value.get("payload")
            if type(kind) is str and type(payload) is dict:
                item, time = payload.get("type"), value.get("timestamp")
                item = item if type(item) is str else None
                # Past the constructor of named tuples, which takes as long as all the rest.
                record = new(Record, (pos, kind, item, payload, time if type(time) is str else None, value))
                if kind == "session_meta":
                    _meet(out, record)
                elif kind == "state":
                    out.marked = True
                add(record)
                continue
        bare = _bare(pos, value)
        if bare is None:
            found = (
                type(value).__name__ if not isinstance(value, dict) else f"an object with {', '.join(list(value)[:4])}"
            )
            unknown.setdefault(f"{found}, expected a line of a rollout", []).append(pos)
            continue
        if bare.kind == "session_meta":
            _meet(out, bare)
        elif bare.kind == "state":
            out.marked = True
        add(bare)
    for found, where in unknown.items():
        detail = f"{len(where)} lines, the first line {where[0]}: found {found}; left out"
        notes.append(note("unknown_record", detail, pos=where[0]))
    out.replayed = _replayed(out)
    return out


def _bare(pos: int, value: Any) -> Record | None:
    """A line without envelope, as in the oldest layout."""
    if not isinstance(value, dict) or "payload" in value:
        return None
    kind, time = value.get("type"), text(value.get("timestamp"))
    if isinstance(value.get("record_type"), str):
        return Record(pos, "state", text(kind), value)
    if isinstance(kind, str) and kind in ITEMS:
        return Record(pos, "response_item", kind, value, time)
    if kind is None and isinstance(value.get("id"), str) and ("instructions" in value or "timestamp" in value):
        return Record(pos, "session_meta", None, value, time)
    return None


def _meet(out: Rollout, record: Record) -> None:
    ident = text(record.payload.get("id"))
    if out.sessions == 0:
        out.meta, out.thread = record.payload, ident
    if ident == out.thread:
        out.sessions += 1


def _replayed(out: Rollout) -> int:
    """Number of records at the start that replay another thread's history (R4).

    A replay is there when the header of another thread, a turn that began before this thread or a record that names
    another thread comes before anything of the thread itself. It ends at the first turn that is younger than the
    thread or the first record that names it; in versions without such ids at the first pause in the lines, which a
    replay writes in one go.
    """
    own = out.thread
    if own is None:
        return 0
    forked = text(out.meta.get("forked_from_id")) is not None and not out.base()
    born, foreign, spoke = _born(own), forked, False
    for index, record in enumerate(out.records):
        _, kind, _, payload, _, _ = record
        if kind == "session_meta":
            if payload.get("id") != own and not spoke:
                foreign = True
            continue
        # Whether the record is of the thread itself; null when it does not say.
        whose = None
        thread = payload.get("thread_id")
        if type(thread) is str:
            whose = thread == own
        elif born is not None and kind in ("event_msg", "turn_context"):
            turn = payload.get("turn_id")
            began = _born(turn) if type(turn) is str else None
            if began is not None:
                whose = began >= born
        if whose:
            return _with_context(out.records, index) if foreign else 0
        if whose is False:
            foreign = True
        elif not (spoke or foreign) and kind == "response_item":
            # An item before any sign of a replay; the initial context of a root thread looks like this too.
            spoke = _is_turn(record)
    return _pause(out.records) if foreign else 0


def _born(ident: str) -> int | None:
    """Milliseconds of a version 7 UUID."""
    parts = ident.split("-")
    if len(parts) != 5 or len(parts[0]) != 8 or len(parts[1]) != 4 or parts[2][:1] != _V7:
        return None
    try:
        return int(parts[0] + parts[1], 16)
    except ValueError:
        return None


def _is_turn(record: Record) -> bool:
    return record.item != "message" or record.payload.get("role") == "assistant"


def _with_context(records: list[Record], index: int) -> int:
    """Start of the thread's own part: the context that was written before its first turn belongs to it."""
    while index > 0:
        before = records[index - 1]
        if before.kind != "response_item" or _is_turn(before) or not is_context(before.payload):
            break
        index -= 1
    return index


def is_context(payload: dict[str, Any]) -> bool:
    """Whether a message is one that the harness wrote: system, developer, or injected under the user's name (R7)."""
    if payload.get("role") in ("system", "developer"):
        return True
    passed = obj(payload.get("internal_chat_message_metadata_passthrough"))
    kinds = [k for k in items(passed.get("content_item_kinds")) if isinstance(k, str)]
    if kinds and all("." in k for k in kinds):
        return not any(k.startswith("user.") for k in kinds)
    content = payload.get("content")
    parts = [content] if isinstance(content, str) else [obj(p).get("text") for p in items(content)]
    texts = [p for p in parts if isinstance(p, str)]
    return bool(texts) and len(texts) == len(parts) and all(injected(t) for t in texts)


def _pause(records: list[Record]) -> int:
    """Where a replay without ids ends: before the first pause; a person's words right before it are already the thread's own."""
    last: datetime | None = None
    for index, record in enumerate(records):
        now = moment(record.time)[0]
        if now is None:
            continue
        if last is not None and now - last >= _QUIET and index > 1:
            return _with_prompt(records, index)
        last = now
    return len(records)


def _with_prompt(records: list[Record], index: int) -> int:
    at = index
    for back in range(index - 1, 0, -1):
        record = records[back]
        if record.kind == "response_item":
            if _is_turn(record):
                break
            at = back
    return at
