"""The tree of a Claude Code thread: which line continues which, what lies on the path to the last leaf, and in which context."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from expcomp.sources._harness import injected
from expcomp.sources._values import items, obj, text
from expcomp.sources.claude_code._lines import TURNS, Line, Row

if TYPE_CHECKING:
    from collections.abc import Mapping

_SUMMARY = "This session is being continued from a previous conversation that ran out of context"
_ABSENT: Any = object()


@dataclass(slots=True)
class Places:
    """Where each line of a thread stands.

    Attributes:
        branch: 0 on the path to the last leaf.
        context: Number of compactions on the way to the line.
        summary: Whether the line is the summary that took the place of earlier turns.
        lost: Lines whose parent is not in the file, after the first: they continue the line before them.
        first_lost: Position of the first of them.
    """

    branch: list[int] = field(default_factory=list)
    context: list[int] = field(default_factory=list)
    summary: list[bool] = field(default_factory=list)
    lost: int = 0
    first_lost: int | None = None


def is_boundary(rec: Row) -> bool:
    """Whether the line marks a compaction."""
    return rec.get("type") == "system" and rec.get("subtype") == "compact_boundary"


def wording(rec: Row) -> str:
    """Text of a message as far as it decides who wrote it: the text itself or that of the first text block."""
    content = obj(rec.get("message")).get("content")
    if isinstance(content, str):
        return content
    for block in items(content):
        if isinstance(block, dict) and block.get("type") == "text":
            return text(block.get("text")) or ""
    return ""


def has_result(rec: Row) -> bool:
    """Whether a user line holds the result of a call."""
    content = obj(rec.get("message")).get("content")
    return isinstance(content, list) and any(isinstance(b, dict) and b.get("type") == "tool_result" for b in content)


def is_said(rec: Row) -> bool:
    """Whether a user line is a turn of its own, neither a result nor text of the harness."""
    if rec.get("type") != "user" or rec.get("isMeta") is True or rec.get("isCompactSummary") is True:
        return False
    return not has_result(rec) and not injected(wording(rec))


def place(nodes: list[Line], aliases: Mapping[str, str]) -> Places:
    """Find branch and context of every line of a thread."""
    out = Places()
    parents = _parents(nodes, aliases, out)
    _branches(nodes, parents, out)
    _contexts(nodes, parents, out)
    return out


def _parents(nodes: list[Line], aliases: Mapping[str, str], out: Places) -> list[int]:
    """Index of the line that each line continues; -1 for a first line, also for a first prompt that was edited."""
    index: dict[str, int] = {}
    parents: list[int] = []
    said = False
    for i, (pos, rec) in enumerate(nodes):
        before = i - 1
        native = rec.get("parentUuid", _ABSENT)
        if isinstance(native, str):
            found = index.get(native)
            if found is None and native in aliases:
                found = index.get(aliases[native])
            if found is None and i:
                out.lost += 1
                out.first_lost = pos if out.first_lost is None else out.first_lost
            parent = before if found is None else found
        elif native is None:
            logical = rec.get("logicalParentUuid")
            parent = index.get(logical, before) if isinstance(logical, str) else before
            if said and not isinstance(logical, str) and is_said(rec):
                parent = -1
        else:
            parent = before
        parents.append(parent)
        uuid = rec.get("uuid")
        if isinstance(uuid, str):
            index[uuid] = i
        said = said or (rec.get("type") == "user" and is_said(rec))
    return parents


def _branches(nodes: list[Line], parents: list[int], out: Places) -> None:
    """Lines beside the main path belong to it if they only hold results or text that nothing was built on."""
    size = len(nodes)
    on = [False] * size
    i = next((i for i in range(size - 1, -1, -1) if nodes[i][1].get("type") in TURNS), -1)
    while i >= 0:
        on[i] = True
        i = parents[i]
    ids = {_message_id(rec) for (_, rec), main in zip(nodes, on, strict=True) if main} - {None}
    alive = [False] * size
    for i in range(size - 1, -1, -1):
        if on[i]:
            continue
        alive[i] = alive[i] or _own(nodes[i][1], ids)
        if alive[i] and parents[i] >= 0:
            alive[parents[i]] = True
    branch = out.branch = [0] * size
    continued: set[int] = set()
    newest = 0
    for i in range(size):
        if on[i]:
            continue
        parent, rec = parents[i], nodes[i][1]
        above = branch[parent] if parent >= 0 else 0
        branch[i] = above
        if has_result(rec) or not alive[i] or (above == 0 and _message_id(rec) in ids):
            continue
        if above == 0 or parent in continued:
            newest += 1
            branch[i] = newest
        else:
            continued.add(parent)


def _own(rec: Row, main: set[str | None]) -> bool:
    """Whether a line beside the main path is a turn that the main path does not hold."""
    kind = rec.get("type")
    if kind == "assistant":
        return _message_id(rec) not in main
    return kind == "user" and is_said(rec)


def _message_id(rec: Row) -> str | None:
    return text(obj(rec.get("message")).get("id")) if rec.get("type") == "assistant" else None


def _contexts(nodes: list[Line], parents: list[int], out: Places) -> None:
    size = len(nodes)
    context, said, pending = [0] * size, [False] * size, [False] * size
    out.context, out.summary = context, [False] * size
    for i, (_, rec) in enumerate(nodes):
        parent = parents[i]
        if parent >= 0:
            context[i], said[i], pending[i] = context[parent], said[parent], pending[parent]
        if rec.get("type") not in TURNS:
            # A marker that nothing follows opens no context: the model never saw it.
            pending[i] = pending[i] or is_boundary(rec)
            continue
        if rec["type"] == "user":
            marked = rec.get("isCompactSummary") is True or (pending[i] and rec.get("isSynthetic") is True)
            out.summary[i] = marked or (not has_result(rec) and wording(rec).startswith(_SUMMARY))
        if (pending[i] or out.summary[i]) and said[i]:
            context[i] += 1
        said[i], pending[i] = True, False
