"""Small files of chats, and what tests ask of what was read from them."""

from __future__ import annotations

import json

from expcomp.sources._contract import ReadOptions
from expcomp.sources.load import read_frames
from expcomp.sources.registry import discover

USER = {"role": "user", "content": "What is 2 + 2?"}
BOT = {"role": "assistant", "content": "4"}
SYSTEM = {"role": "system", "content": "Be brief."}


def call(ident, name="add", arguments='{"a": 2}'):
    """A tool call of an assistant message."""
    return {"id": ident, "type": "function", "function": {"name": name, "arguments": arguments}}


def lines(path, rows):
    """Write JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(r) + "\n" for r in rows), "utf-8")
    return path


def read(path, rows=None, format=None, **options):  # noqa: A002
    """Frames of a file, after writing the rows to it."""
    if rows is not None:
        lines(path, rows)
    return read_frames([path], format, ReadOptions(**options))


def formats(path):
    """Formats that the units of a path are of."""
    return [u.format for u in discover([path]).units]


def codes(frames):
    """Codes of the diagnostics, in order."""
    return frames["diagnostics"]["code"].to_list()


def attempt(frames):
    """The only attempt, as a dict."""
    (row,) = frames["attempts"].to_dicts()
    return row


def messages(frames):
    """Messages as dicts, in order."""
    return frames["messages"].sort("attempt_id", "message_index").to_dicts()


def steps(frames):
    """Steps as dicts, in order."""
    return frames["steps"].sort("attempt_id", "step_index").to_dicts()


def detail(row):
    """The detail of a step, or the metadata of an attempt."""
    return json.loads(row.get("detail") or row.get("metadata") or "{}")
