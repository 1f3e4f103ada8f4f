"""What the lines without a message say of a Claude Code session: titles, compactions, retries, and the frame of a stream."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from expcomp.sources._chat import Note, flat
from expcomp.sources._values import items, obj, text
from expcomp.sources.claude_code._files import shown_file
from expcomp.sources.claude_code._tree import is_boundary

if TYPE_CHECKING:
    from expcomp.sources._chat import Row
    from expcomp.sources.claude_code._lines import Session

_TITLES = {"summary": "summary", "custom-title": "customTitle", "ai-title": "aiTitle"}
_INIT = ("tools", "mcp_servers", "model", "permissionMode", "output_style", "agents", "apiKeySource")
_MANY = 100


@dataclass(slots=True)
class Said:
    """What was overheard.

    Attributes:
        metadata: For the column of that name.
        notes: For the load report.
        result: The last line of a stream.
        version: Program version in the first line of a stream.
        session_id: Session id in it.
        compactions: Number of compactions.
        artifacts: Attachments that the model was shown, without the attempt's id.
    """

    metadata: Row = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    result: Row = field(default_factory=dict)
    version: str | None = None
    session_id: str | None = None
    compactions: int = 0
    artifacts: list[Row] = field(default_factory=list)


def overheard(session: Session) -> Said:
    """Gather it."""
    out = Said()
    compactions: list[Row] = []
    queued: list[Row] = []
    retries: list[int] = []
    cleared: list[int] = []
    links: list[Row] = []
    shown_at: list[int] = []
    for pos, rec in session.others:
        kind = rec.get("type")
        if kind == "system":
            subtype = rec.get("subtype")
            if is_boundary(rec):
                about = obj(rec.get("compactMetadata")) or obj(rec.get("compact_metadata"))
                compactions.append({"line": pos, **about})
            elif subtype == "microcompact_boundary":
                cleared.append(pos)
            elif subtype == "api_error":
                retries.append(pos)
            elif subtype == "init":
                out.version = text(rec.get("claude_code_version")) or out.version
                out.session_id = text(rec.get("session_id")) or out.session_id
                out.metadata["init"] = {k: rec[k] for k in _INIT if rec.get(k) is not None}
        elif kind == "attachment":
            about = obj(rec.get("attachment"))
            if about.get("type") == "queued_command":
                shown, parts = flat(about.get("prompt"))
                queued.append({"line": pos, "prompt": shown if shown is not None else parts})
            elif (artifact := shown_file(about)) is not None:
                out.artifacts.append(artifact)
                shown_at.append(pos)
        elif kind == "result":
            out.result = rec
        elif kind == "pr-link":
            links.append({k: v for k, v in rec.items() if k.startswith("pr")})
        elif isinstance(kind, str) and kind in _TITLES and isinstance(rec.get(_TITLES[kind]), str):
            out.metadata["title"] = rec[_TITLES[kind]]
    out.compactions = len(compactions)
    for name, found in (("compactions", compactions), ("queued_commands", queued), ("pr_links", links)):
        if found:
            out.metadata[name] = found[:_MANY]
    if out.result:
        kept = ("result", "type", "uuid", "session_id")
        out.metadata["result"] = {k: v for k, v in out.result.items() if k not in kept}
    _note(out, cleared, "context_cleared", "times old results were cleared from the prompt; they are kept as they were")
    _note(out, retries, "api_retry", "requests failed and were tried again")
    _note(
        out,
        [q["line"] for q in queued],
        "queued_command",
        "messages were typed while the model worked; they are in metadata.queued_commands, not among the messages",
    )
    _note(
        out,
        shown_at,
        "attachment_shown",
        "attachments were shown to the model beside its messages; they are among the artifacts, not the messages",
    )
    preserved = [c["line"] for c in compactions if c.get("preservedSegment")]
    _note(
        out,
        preserved,
        "preserved_segment",
        "compactions kept some earlier messages in the prompt; see metadata.compactions",
    )
    denied = items(out.result.get("permission_denials"))
    if denied:
        out.notes.append(Note("permission_denied", f"{len(denied)} calls were denied; see metadata.result", "info"))
    return out


def _note(out: Said, found: list[int], code: str, detail: str) -> None:
    if found:
        out.notes.append(Note(code, f"{len(found)} {detail} (first on line {found[0]})", "info", found[0]))
