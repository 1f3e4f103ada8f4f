"""Lines of a Claude Code session file: read one by one, told apart by what they hold, and given to the thread they belong to."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import orjson

from expcomp.sources._json import Problem, load_json, load_rows
from expcomp.sources._values import text

Row = dict[str, Any]
Line = tuple[int, Row]

TURNS = ("user", "assistant")
"""Types of lines that hold a message; a tuple, since a type may be any value."""

BOOKKEEPING = frozenset(
    "progress system file-history-snapshot file-history-delta queue-operation summary pr-link attachment last-prompt mode "
    "permission-mode custom-title ai-title agent-name agent-color agent-setting tag worktree-state content-replacement "
    "attribution-snapshot task-summary tool_use_summary result stream_event tool_progress auth_status rate_limit_event "
    "control_request control_response prompt_suggestion keep_alive bridge-session started".split()
)
"""Types of lines that are known to hold no message."""

_BOM = b"\xef\xbb\xbf"
_DEEP = 200
_TWINS = 64
_STARTS = (b'{"parentUuid"', b'{"type"', b'{"isSidechain"', b'{"sessionId"')


@dataclass(slots=True)
class Thread:
    """Messages of one agent, in the order of the file.

    Attributes:
        key: Id of the sub-agent; empty for the agent the file is about.
        nodes: Lines with their numbers: messages, and whatever else stands in the chain of `parentUuid`.
        call_id: Call that started it, where the lines say so.
        agent_id: Id the program gave the sub-agent.
        place: How the sub-agent was recorded: progress lines, sidechain lines, a stream.
    """

    key: str
    nodes: list[Line] = field(default_factory=list)
    call_id: str | None = None
    agent_id: str | None = None
    place: str = ""

    def turns(self) -> int:
        """Number of lines that hold a message."""
        return sum(rec.get("type") in TURNS for _, rec in self.nodes)


@dataclass(slots=True)
class Session:
    """What the lines of one file are.

    Attributes:
        main: Thread the file is about.
        subs: Threads of sub-agents, by key.
        others: Lines without a message, in order.
        aliases: Id of a repeated line -> id of its first copy.
        problems: What was wrong with lines.
        repeated: Number of the first line that repeats an earlier one, and how many do.
        cut: Whether the last line is broken.
        is_child: Whether the file is that of a sub-agent.
    """

    main: Thread = field(default_factory=lambda: Thread(""))
    subs: dict[str, Thread] = field(default_factory=dict)
    others: list[Line] = field(default_factory=list)
    aliases: dict[str, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    repeated: tuple[int, int] = (0, 0)
    cut: bool = False
    is_child: bool = False

    def kinds(self) -> dict[str, tuple[int, int]]:
        """Types of lines without a message: how many, and the number of the first."""
        counts = Counter(_kind(rec) for _, rec in self.others)
        first: dict[str, int] = {}
        for pos, rec in self.others:
            first.setdefault(_kind(rec), pos)
        return {kind: (n, first[kind]) for kind, n in sorted(counts.items())}


def _kind(rec: Row) -> str:
    return text(rec.get("type")) or "(no type)"


def read_session(data: bytes, *, child: bool) -> Session:
    """Sort the lines of a file.

    Args:
        data: The file.
        child: Whether its place says that it is a sub-agent's; else it is one if all its messages are sidechain messages.
    """
    out = Session()
    lines = _lines(data, out)
    turns = [rec for _, rec in lines if rec.get("type") in TURNS]
    aside = [rec for rec in turns if rec.get("isSidechain") is True]
    out.is_child = bool(aside) and (child or len(aside) == len(turns))
    if out.is_child:
        out.main.agent_id = next((i for i in (text(rec.get("agentId")) for rec in aside) if i is not None), None)
    _Sorter(out).run(lines)
    return out


# -- bytes to records --------------------------------------------------------------------------------------------------------


def _lines(data: bytes, out: Session) -> list[Line]:
    """Objects with 1-based line numbers; a broken line costs itself, a glued line is split, one document is taken apart."""
    body = data.removeprefix(_BOM)
    if len(body) != len(data):
        out.problems.append(Problem("bom", "starts with a byte order mark; skipped", 1, 0, "info"))
    if _is_document(body):
        rows = load_rows(body)
        out.problems += rows.problems
        return _objects([(pos + 1, value) for pos, value in rows.rows], out)
    found: list[tuple[int, Any]] = []
    last = 0
    for number, line in enumerate(body.split(b"\n"), 1):
        try:
            value = orjson.loads(line)
        except orjson.JSONDecodeError:
            if line.strip():
                last = number
                found += _broken(line, number, out)
            continue
        last = number
        if line.count(b"{") + line.count(b"[") > _DEEP:
            # The reader goes deeper than any later walk can follow; `load_json` knows where to stop.
            value, problems = load_json(line)
            out.problems += _placed(problems, number)
            if problems and value is None:
                continue
        found.append((number, value))
    if not last:
        out.problems.append(Problem("empty_file", "the file holds no line"))
    out.cut = any(p.code == "bad_json" and p.pos == last for p in out.problems)
    return _objects(found, out)


def _is_document(body: bytes) -> bool:
    """Whether the text is one document, an array or a pretty-printed object: its first line is no record by itself."""
    start = body[:4096].lstrip()
    if not start.startswith(b"[") and start.partition(b"\n")[0].strip() != b"{":
        return False
    return not any(p.code == "bad_json" for p in load_json(body)[1])


def _broken(line: bytes, number: int, out: Session) -> list[tuple[int, Any]]:
    """Records of a line that is not one: several glued together, the rest of one before another, or one that is cut."""
    rows = load_rows(line)
    values = [value for _, value in rows.rows]
    broken = any(p.code == "bad_json" for p in rows.problems)
    if broken:
        # A write that was interrupted leaves a stump; the next record starts behind it on the same line.
        start = max(line.rfind(mark, 1) for mark in _STARTS)
        behind = load_rows(line[start:]) if start > 0 else None
        if behind is not None and behind.rows and not behind.problems and behind.rows[-1][1] not in values:
            values += [value for _, value in behind.rows]
    if len(values) > 1 or (values and broken):
        detail = f"line {number} held {len(values)} records; split"
        out.problems.append(Problem("glued_line", detail, number, severity="warning"))
    out.problems += _placed(rows.problems, number)
    return [(number, value) for value in values]


def _placed(problems: list[Problem], number: int) -> list[Problem]:
    for problem in problems:
        problem.pos = number
        problem.detail = f"line {number}: {problem.detail}"
    return problems


def _objects(found: list[tuple[int, Any]], out: Session) -> list[Line]:
    good: list[Line] = []
    for pos, value in found:
        if isinstance(value, dict):
            good.append((pos, value))
        else:
            detail = f"line {pos} is {type(value).__name__}, expected an object; left out"
            out.problems.append(Problem("bad_line", detail, pos))
    return good


# -- records to threads ------------------------------------------------------------------------------------------------------


class _Sorter:
    """Gives each line to its thread."""

    def __init__(self, out: Session) -> None:
        self.out = out
        self._seen: set[str] = set()
        self._at: dict[tuple[Any, str], list[Row]] = {}
        self._chains: dict[str, str] = {}

    def run(self, lines: list[Line]) -> None:
        """Sort all lines."""
        out = self.out
        for pos, rec in lines:
            kind = rec.get("type")
            if kind not in TURNS:
                self._other(pos, rec)
                continue
            if not isinstance(rec.get("message"), dict):
                found = type(rec.get("message")).__name__
                detail = f"line {pos} is of type {kind} and its message is {found}, expected an object; left out"
                out.problems.append(Problem("bad_message", detail, pos, severity="warning"))
                continue
            thread = self._thread(rec)
            if not self._again(pos, rec, thread):
                thread.nodes.append((pos, rec))

    def _other(self, pos: int, rec: Row) -> None:
        data = rec.get("data")
        if rec.get("type") == "progress" and isinstance(data, dict) and data.get("type") == "agent_progress":
            inner = data.get("message")
            if isinstance(inner, dict) and inner.get("type") in TURNS and isinstance(inner.get("message"), dict):
                call_id, agent_id = text(rec.get("parentToolUseID")), text(data.get("agentId"))
                thread = self._sub(agent_id or call_id or "progress", "progress lines")
                thread.call_id, thread.agent_id = thread.call_id or call_id, agent_id
                if not self._again(pos, inner, thread):
                    thread.nodes.append((pos, inner))
                self._link(pos, rec)
                return
            if not isinstance(inner, dict) or not isinstance(inner.get("type"), str) or inner["type"] in TURNS:
                detail = f"line {pos} tells of a turn of a sub-agent and holds no message of one; left out"
                self.out.problems.append(Problem("bad_message", detail, pos, severity="warning"))
        self.out.others.append((pos, rec))
        self._link(pos, rec)

    def _link(self, pos: int, rec: Row) -> None:
        """Keep a line without a message where messages hang on it."""
        uuid = rec.get("uuid")
        if not isinstance(uuid, str):
            return
        if uuid not in self._seen and (rec.get("isSidechain") is not True or self.out.is_child):
            self._seen.add(uuid)
            self.out.main.nodes.append((pos, rec))
        else:
            parent = text(rec.get("parentUuid"))
            if parent in self._chains:
                self._chains.setdefault(uuid, self._chains[parent])

    def _thread(self, rec: Row) -> Thread:
        out = self.out
        agent_id = text(rec.get("agentId"))
        caller = text(rec.get("parent_tool_use_id"))
        if caller is not None:
            thread = self._sub(caller, "stream")
            thread.call_id = caller
            return thread
        if rec.get("isSidechain") is not True:
            return out.main
        if out.is_child and (agent_id is None or agent_id == out.main.agent_id):
            return out.main
        if agent_id is not None:
            thread = self._sub(agent_id, "sidechain lines")
            thread.agent_id = agent_id
            return thread
        uuid, parent = text(rec.get("uuid")), text(rec.get("parentUuid"))
        key = self._chains.get(parent or "") or f"chain {len(out.subs)}"
        if uuid is not None:
            self._chains[uuid] = key
        return self._sub(key, "sidechain lines")

    def _sub(self, key: str, place: str) -> Thread:
        thread = self.out.subs.get(key)
        if thread is None:
            thread = self.out.subs[key] = Thread(key, place=place)
        return thread

    def _again(self, pos: int, rec: Row, thread: Thread) -> bool:
        """Whether the line repeats one of its thread: the same id, or the same message at the same time under a new id."""
        uuid = rec.get("uuid")
        if isinstance(uuid, str):
            if uuid in self._seen:
                return self._count(pos)
            self._seen.add(uuid)
        time = rec.get("timestamp")
        if not isinstance(time, str):
            return False
        twins = self._at.setdefault((time, thread.key), [])
        for twin in twins:
            if twin["type"] == rec["type"] and twin["message"] == rec["message"]:
                if isinstance(uuid, str) and isinstance(twin.get("uuid"), str):
                    self.out.aliases[uuid] = twin["uuid"]
                return self._count(pos)
        if len(twins) < _TWINS:
            twins.append(rec)
        return False

    def _count(self, pos: int) -> bool:
        first, n = self.out.repeated
        self.out.repeated = (first or pos, n + 1)
        return True
