"""Claude Code sessions: JSON lines under `~/.claude/projects`, sub-agents in them or in files of their own, and Agent SDK streams."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from expcomp.sources._contract import Batch, Found, Frames, ReadOptions, Unit
from expcomp.sources._units import file_unit, relative
from expcomp.sources.claude_code._lines import TURNS
from expcomp.sources.claude_code._links import Reading, link
from expcomp.sources.claude_code._rows import read_unit

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from expcomp.sources._look import Look

_SESSION = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_LINES = {
    "summary": {"summary", "leafUuid"},
    "file-history-snapshot": {"messageId", "snapshot"},
    "queue-operation": {"operation", "sessionId"},
    "last-prompt": {"sessionId"},
    "mode": {"sessionId", "mode"},
    "permission-mode": {"sessionId", "permissionMode"},
    "custom-title": {"sessionId", "customTitle"},
}
"""Lines without a message that may stand first in a file, or alone: type -> keys they have."""
_OUTPUTS = "tool-results"
_MARKS = (b'"sessionId"', b'"parentUuid"', b'"session_id"', b'"leafUuid"', b'"messageId"', b'"agentType"')
"""One of these keys is near the head of every such file."""


class ClaudeCode:
    """Reader of Claude Code sessions."""

    name = "claude_code"
    summary = "Claude Code sessions and Agent SDK streams: JSON lines, one file a session, sub-agents in subagents/"
    carries = {  # noqa: RUF012 - read only, by contract of the protocol
        "system_prompt": "no",
        "tools": "no; names only, in streams (attempts.metadata.tools)",
        "reasoning": "text, or empty with a signature",
        "verdict": "no",
        "trial": "no",
        "tokens": "per model call",
        "cost": "no; the total in streams, per call before 1.0",
        "times": "yes",
        "token_ids": "no",
    }

    def claims_folder(self, folder: Path, names: frozenset[str]) -> bool:
        """Folders beside a session that hold no transcript: outputs kept aside, and sessions whose transcript is switched off."""
        if folder.name == _OUTPUTS:
            return _beside(folder.parent) and not any(n.endswith(".jsonl") for n in names)
        if not _SESSION.fullmatch(folder.name) or not names <= {_OUTPUTS, "subagents"}:
            return False
        return not _beside(folder) and not any(any(True for _ in (folder / n).iterdir()) for n in sorted(names))

    def claims_file(self, look: Look) -> bool:
        """Lines with `sessionId`, `uuid` and `type`, those of a stream, or the side file of a sub-agent."""
        # Every file of another format comes here: most are told apart without parsing a line.
        if not any(mark in look.head for mark in _MARKS):
            return False
        if look.kind != "object":
            return look.kind == "array" and any(map(_is_line, look.rows))
        if look.rows:
            return any(map(_is_line, look.rows)) or _is_side_file(look)
        # The first line is longer than the head, or broken: then whole keys that no other format has decide.
        if {"sessionId", "type"} <= look.keys or {"parentUuid", "isSidechain"} <= look.keys:
            return b'"parentUuid"' in look.head or b'"leafUuid"' in look.head
        return b'"parentUuid"' in look.head and b'"sessionId"' in look.head and b'\n{"' in look.head

    def units(self, path: Path, root: Path, found: Found) -> None:
        """One unit a file; the files of a project folder, with the sub-agents below it, are one group."""
        place = PurePosixPath(relative(path, root))
        if path.is_dir():
            found.diagnostics.append(_folder_row(path, place))
            return
        if path.name.endswith(".meta.json"):
            stem = path.name.removesuffix(".meta.json")
            if not any((path.parent / (stem + end)).exists() for end in (".jsonl", ".jsonl.gz", ".jsonl.zst")):
                detail = f"describes a sub-agent whose transcript {stem}.jsonl is not there; no attempt"
                found.diagnostics.append(_row("no_transcript", detail, place, "warning"))
            return
        parts = place.parent.parts
        folder = parts[: max(parts.index("subagents") - 1, 0)] if "subagents" in parts else parts
        file_unit(self.name, path, root, found, "/".join((self.name, *folder)))

    def read(self, units: Sequence[Unit], options: ReadOptions) -> Frames:
        """Read sessions; sub-agents are linked with the calls that started them where both are among the units."""
        batch = Batch()
        readings: list[Reading] = []
        own_files = {unit.package_id for unit in units}
        for unit in units:
            readings += read_unit(batch, unit, options, own_files)
        link(batch, readings, options)
        return batch.frames()


def _is_line(rec: dict[str, object]) -> bool:
    kind = rec.get("type")
    if not isinstance(kind, str):
        return False
    if "sessionId" in rec and "uuid" in rec:
        return True
    if kind in TURNS and isinstance(rec.get("message"), dict):
        # Streams; and lines of a checkpoint that were reduced to what hangs together.
        return ("session_id" in rec and "parent_tool_use_id" in rec) or ("uuid" in rec and "parentUuid" in rec)
    if kind == "system" and rec.get("subtype") == "init":
        return "session_id" in rec and "tools" in rec
    return kind in _LINES and rec.keys() >= _LINES[kind]


def _is_side_file(look: Look) -> bool:
    return look.name.endswith(".meta.json") and "agentType" in look.keys


def _beside(folder: Path) -> bool:
    """Whether the folder belongs to a session that lies beside it."""
    return any((folder.parent / (folder.name + end)).exists() for end in (".jsonl", ".jsonl.gz", ".jsonl.zst"))


def _folder_row(path: Path, place: PurePosixPath) -> dict[str, str]:
    if path.name == _OUTPUTS:
        n = sum(1 for _ in path.iterdir())
        detail = (
            f"{n} outputs of tools that were too long for the transcript; it holds what the model saw of them; not read"
        )
        return _row("outputs_aside", detail, place, "info")
    detail = "the folder of a session holds no transcript (a setting can switch transcripts off); no attempt"
    return _row("empty_session", detail, place, "warning")


def _row(code: str, detail: str, place: PurePosixPath, severity: str) -> dict[str, str]:
    return {"source_uri": str(place), "code": code, "severity": severity, "detail": detail}


SOURCE = ClaudeCode()
