"""Messages of verifiers rollouts: calls that may be JSON in strings, results without ids, images, epoch times."""

from __future__ import annotations

import base64
import binascii
from datetime import datetime
from typing import TYPE_CHECKING, Any

import orjson

from expcomp.io.digest import PREFIX, sha256_hex
from expcomp.sources._chat import Row, call, flat
from expcomp.sources._json import dump_json
from expcomp.sources._values import epoch, items, obj, text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from expcomp.sources._contract import Batch
    from expcomp.sources._dialogue import Dialogue

_ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})
_MAPPED = frozenset("role content tool_calls function_call reasoning_content reasoning name tool_call_id".split())
_WRAPPED = frozenset({"name", "description", "parameters", "strict"})


class Writer:
    """Writes the messages of one rollout into a dialogue.

    Attributes:
        dialogue: Where messages and steps go.
        images: Images that were lifted out of the messages, as rows of `artifacts` without the attempt.
    """

    def __init__(self, dialogue: Dialogue) -> None:
        self.dialogue = dialogue
        self.images: list[Row] = []

    def list(self, value: Any, *, prompt: bool, place: str) -> None:
        """Write a message list, or a text that stands for one message.

        An assistant's turn in a prompt was not written in this attempt: it is kept as copied and as a demo (R6).
        """
        for pos, entry in enumerate(as_messages(value, "user" if prompt else "assistant")):
            if not isinstance(entry, dict):
                detail = f"{place}[{pos}] is {type(entry).__name__}, expected a message; left out"
                self.dialogue.note("bad_message", detail, pos=pos)
                continue
            role = self.role(entry)
            if role == "assistant":
                self.dialogue.copied = prompt
                self.agent(entry, origin="demo" if prompt else "model")
                self.dialogue.copied = False
            else:
                self.other(entry, role, user_origin="human" if prompt else "simulator")

    def role(self, entry: Row) -> str:
        """Role of a message; an unknown one is reported and read as user."""
        role = entry.get("role")
        if role == "function":
            return "tool"
        if isinstance(role, str) and role in _ROLES:
            return role
        self.dialogue.note("unknown_role", f"a message has role {str(role)[:40]!r}; kept as a user message")
        return "user"

    def agent(self, entry: Row, *, origin: str, **step: Any) -> Row:
        """Write an assistant message; gives the step."""
        content, parts = self.content(entry.get("content"))
        calls = [self._call(c) for c in items(entry.get("tool_calls"))]
        legacy = entry.get("function_call")
        if isinstance(legacy, dict) and not calls:
            calls = [call(None, legacy.get("name"), legacy.get("arguments"))]
        if not entry.keys() <= _MAPPED and "detail" not in step:
            rest = {k: v for k, v in entry.items() if k not in _MAPPED and v not in (None, "", [], {})}
            step["detail"] = dump_json(rest) if rest else None
        return self.dialogue.act(
            content,
            parts=parts,
            calls=calls,
            reasoning=text(entry.get("reasoning_content")) or text(entry.get("reasoning")),
            origin=origin,
            message=step.pop("message", None),
            **step,
        )

    def other(self, entry: Row, role: str, *, user_origin: str, **columns: Any) -> None:
        """Write a message that is no assistant's."""
        content, parts = self.content(entry.get("content"))
        name = text(entry.get("name"))
        if role == "tool":
            at = columns.pop("at", None)
            call_id = text(entry.get("tool_call_id"))
            self.dialogue.result(call_id, content, name=name, parts=parts, at=at, message=columns)
        else:
            origin = user_origin if role == "user" else None
            self.dialogue.say(role, content, origin=origin, parts=parts, name=name, **columns)

    def content(self, value: Any) -> tuple[str | None, str | None]:
        """Text and parts of a content field, with images replaced by references to artifacts."""
        if isinstance(value, list):
            value = [self._part(part) for part in value]
        return flat(value)

    def _part(self, part: Any) -> Any:
        url = obj(part).get("image_url")
        url = obj(url).get("url") if isinstance(url, dict) else url
        if not isinstance(url, str) or not url.startswith("data:"):
            return part
        image = decode_image(url)
        if image is None:
            return part
        self.images.append(image)
        return {"type": "image", "artifact": image["digest"], "mime": image["mime"]}

    def _call(self, raw: Any) -> Row:
        entry = raw
        if isinstance(raw, str):
            try:
                entry = orjson.loads(raw)
            except orjson.JSONDecodeError:
                entry = None
            if not isinstance(entry, dict):
                self.dialogue.note("bad_call", "a tool call is a text that is no JSON object; kept as its arguments")
                return call(None, None, raw)
        inner = obj(obj(entry).get("function")) or obj(entry)
        made = call(obj(entry).get("id"), inner.get("name"), inner.get("arguments"), obj(entry).get("type"))
        space = text(inner.get("namespace"))
        if space and made["name"]:
            made["name"] = f"{space}.{made['name']}"
        return made


def decode_image(url: str) -> Row | None:
    """The image in a data URL as a row of `artifacts`; None when it is no base64."""
    head, comma, body = url.partition(",")
    if not comma or ";base64" not in head:
        return None
    try:
        data = base64.b64decode(body, validate=False)
    except (binascii.Error, ValueError):
        return None
    mime = head.removeprefix("data:").partition(";")[0] or None
    digest = PREFIX + sha256_hex(data)
    return {"kind": "image", "name": None, "mime": mime, "bytes": len(data), "digest": digest}


def add_images(batch: Batch, ident: str, images: list[Row]) -> None:
    """Add artifact rows, each image once."""
    for image in {row["digest"]: row for row in images}.values():
        batch.add("artifacts", attempt_id=ident, **image)


def as_messages(value: Any, role: str) -> list[Any]:
    """Messages of a field that holds a list, one message, a text, or a list as JSON text."""
    if isinstance(value, str):
        if value.startswith("[{") and '"role"' in value[:4096]:
            try:
                parsed = orjson.loads(value)
            except orjson.JSONDecodeError:
                parsed = None
            if isinstance(parsed, list):
                return parsed
        return [{"role": role, "content": value}]
    return value if isinstance(value, list) else [] if value is None else [value]


def tool_schemas(value: Any) -> str | None:
    """Tool schemas as a JSON array in the chat form; null for none.

    A store of columns fills every `properties` with the names of all other tools and null; those are taken out.
    """
    if isinstance(value, str):
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError:
            return None
    found = [_schema(tool) for tool in items(value) if isinstance(tool, dict)]
    return dump_json(found) if found else None


def _schema(tool: Row) -> Row:
    if "function" not in tool and "name" in tool and tool.get("type", "function") == "function":
        inner = {k: v for k, v in tool.items() if k in _WRAPPED and v is not None}
        rest = {k: v for k, v in tool.items() if k not in _WRAPPED and k != "type" and v is not None}
        tool = {"type": "function", "function": inner} | rest
    inner = obj(tool.get("function"))
    parameters = obj(inner.get("parameters"))
    properties = obj(parameters.get("properties"))
    if any(v is None for v in properties.values()):
        kept = {k: v for k, v in properties.items() if v is not None}
        tool = tool | {"function": inner | {"parameters": parameters | {"properties": kept}}}
    return tool


def spans(timing: Row) -> tuple[datetime | None, datetime | None]:
    """Start, and the last end of a phase, of a `timing` object."""
    start = epoch(timing.get("start_time")) or epoch(timing.get("start"))
    ends = [end for phase in timing.values() if (end := epoch(obj(phase).get("end"))) is not None]
    return start, max(ends, default=None)


def class_names(error: Any) -> Iterator[str]:
    """Class names in an error as it is recorded: an object, or the text of an exception or a chain of them."""
    if isinstance(error, dict):
        for key in ("error", "type"):
            if isinstance(error.get(key), str):
                yield error[key]
        yield from class_names(error.get("error_chain_str"))
    elif isinstance(error, str):
        for part in error[:2000].split(" -> "):
            name = part.partition("(")[0].partition(":")[0].strip().rpartition(".")[2]
            if name.isidentifier():
                yield name
