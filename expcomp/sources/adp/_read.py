"""Entries of an ADP trajectory as dialogue: actions of the agent, and observations that answer them or stand alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from expcomp.sources._chat import Row, Transcript, call, flat
from expcomp.sources._dialogue import Dialogue
from expcomp.sources._json import dump_json
from expcomp.sources._values import amount, items, obj, text
from expcomp.sources.verifiers._chat import decode_image

if TYPE_CHECKING:
    from collections.abc import Sequence

_MESSAGE = "message_action"
_ACTIONS = frozenset({"api_action", "code_action", _MESSAGE})
_MAPPED = frozenset(
    "class_ content description reasoning_content function kwargs language tool_call_id reward name source".split()
)
_OWN = "adp:"


def entry_class(entry: Any) -> str | None:
    """The class of an entry if it is an action or an observation, else null."""
    name = text(obj(entry).get("class_"))
    return name if name is not None and name.endswith(("_action", "_observation")) else None


def read_entries(content: Any) -> tuple[Transcript, list[Row], list[str]]:
    """Transcript, images as rows of `artifacts` without the attempt, and what of the content was left out."""
    reader = _Reader()
    if not isinstance(content, list):
        detail = f"expected a list of actions and observations, found {type(content).__name__}; read as empty"
        reader.dialogue.note("bad_transcript", detail)
    entries = items(content)
    good = [(pos, e) for pos, e in enumerate(entries) if entry_class(e) is not None]
    left_out = [f"content[{pos}]" for pos, e in enumerate(entries) if entry_class(e) is None]
    answers = _pair([e for _, e in good])
    for index, (pos, entry) in enumerate(good):
        reader.entry(index, pos, entry, answers)
    return reader.finish(), reader.images, left_out


def _pair(entries: Sequence[Row]) -> dict[int, int]:
    """Observation -> action it answers, where no ids say it: what follows a run of calls belongs to the last of them.

    Beyond one result a call, what comes from the environment belongs to the last call, and what a user says is a turn.
    """
    out: dict[int, int] = {}
    waiting: list[int] = []
    results: list[int] = []

    def settle() -> None:
        if waiting and results:
            matched = waiting[-len(results) :]
            out.update(zip(results, matched, strict=False))
            more = results[len(matched) :]
            out.update((index, waiting[-1]) for index in more if entries[index].get("source") != "user")
        waiting.clear()
        results.clear()

    for index, entry in enumerate(entries):
        kind = entry_class(entry) or ""
        if kind.endswith("_observation"):
            if text(entry.get("tool_call_id")) is None and not _is_system(entry):
                results.append(index)
            continue
        if results or kind == _MESSAGE:
            settle()
        if kind != _MESSAGE and text(entry.get("tool_call_id")) is None:
            waiting.append(index)
    settle()
    return out


def _is_system(entry: Row) -> bool:
    return entry.get("source") == "system" or (entry.get("source") != "user" and entry.get("name") == "system")


class _Reader:
    """The walk over the entries of one trajectory."""

    def __init__(self) -> None:
        self.dialogue = Dialogue()
        self.images: list[Row] = []
        self._step: Row | None = None
        self._by_position = 0

    def entry(self, index: int, pos: int, entry: Row, answers: dict[int, int]) -> None:
        """Write one entry."""
        kind = entry_class(entry) or ""
        if kind in _ACTIONS:
            self._action(kind, index, entry)
        elif kind.endswith("_action"):
            # A kind of action this reader does not know is kept as what it says.
            self.dialogue.note("unknown_class", f"content[{pos}] is {kind[:40]}; kept as a call of that name", pos=pos)
            self._action(kind, index, entry)
        else:
            self._observation(kind, index, entry, answers)

    def _action(self, kind: str, index: int, entry: Row) -> None:
        thought, reasoning = text(entry.get("description")), text(entry.get("reasoning_content"))
        native = text(entry.get("tool_call_id"))
        rest = {k: v for k, v in entry.items() if k not in _MAPPED and v is not None}
        calls: list[Row] = []
        parts = None
        if kind == _MESSAGE:
            content, parts = flat(entry.get("content"))
            if reasoning is None and thought:
                reasoning = thought
            elif thought:
                rest["description"] = thought
        else:
            content = thought
            ident = native or f"{_OWN}{index}"
            if kind == "api_action":
                calls.append(call(ident, entry.get("function"), entry.get("kwargs")))
            elif kind == "code_action":
                calls.append(call(ident, entry.get("language"), entry.get("content"), "custom"))
            else:
                arguments = {k: v for k, v in entry.items() if k not in ("class_", "description", "tool_call_id")}
                calls.append(call(ident, kind, arguments))
                rest = {}
        self._step = self.dialogue.act(
            content,
            calls=calls,
            reasoning=reasoning,
            parts=parts,
            local_reward=_number(entry.get("reward")),
            detail=dump_json(rest) if rest else None,
        )

    def _observation(self, kind: str, index: int, entry: Row, answers: dict[int, int]) -> None:
        content, parts = self._content(kind, entry)
        name, native = text(entry.get("name")), text(entry.get("tool_call_id"))
        reward = _number(entry.get("reward"))
        if reward is not None and self._step is not None and self._step.get("local_reward") is None:
            self._step["local_reward"] = reward
        if native is not None:
            self.dialogue.result(native, content, name=name, parts=parts)
        elif index in answers:
            self._by_position += 1
            self.dialogue.result(f"{_OWN}{answers[index]}", content, name=name, parts=parts)
        elif _is_system(entry):
            self.dialogue.say("system", content, parts=parts)
        else:
            # What an environment shows before the agent acts was asked by nobody.
            origin = "human" if entry.get("source") == "user" else "harness"
            self.dialogue.say("user", content, origin=origin, parts=parts, name=name)

    def _content(self, kind: str, entry: Row) -> tuple[str | None, str | None]:
        if kind == "text_observation":
            return flat(entry.get("content"))
        kept = {
            k: v for k, v in entry.items() if k not in ("source", "name", "tool_call_id", "reward") and v is not None
        }
        if kind == "image_observation":
            return None, dump_json([self._image(kept)])
        if isinstance(kept.get("image_observation"), dict):
            kept["image_observation"] = self._image(kept["image_observation"])
        content = text(kept.get("axtree")) if kind == "web_observation" else flat(kept.get("content"))[0]
        return content, dump_json([kept])

    def _image(self, raw: Row) -> Row:
        """An image entry with its bytes, if it holds any, replaced by a reference."""
        shown = text(raw.get("content"))
        image = decode_image(shown) if shown is not None and shown.startswith("data:") else None
        if image is None:
            return raw
        self.images.append(image)
        rest = {k: v for k, v in raw.items() if k not in ("content", "class_")}
        return {"type": "image", "artifact": image["digest"], "mime": image["mime"]} | rest

    def finish(self) -> Transcript:
        """The transcript; ids that only served to match are taken out again."""
        out = self.dialogue.finish()
        for step in out.steps:
            for made in step["tool_calls"]:
                made["id"] = _native(made["id"])
            for seen in step["observations"]:
                seen["call_id"] = _native(seen["call_id"])
        for message in out.messages:
            if "tool_call_id" in message:
                message["tool_call_id"] = _native(message["tool_call_id"])
        for note in out.notes:
            if note.code == "orphan_result" and _OWN in note.detail:
                note.detail = f"{note.detail.partition(' (')[0]}; kept with the call before them"
        if self._by_position:
            self.dialogue.note(
                "matched_by_position", f"{self._by_position} results carry no call id; matched with calls by position"
            )
        return out


def _native(ident: str | None) -> str | None:
    return None if ident is None or ident.startswith(_OWN) else ident


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    size = amount(abs(value))
    return None if size is None else size if value >= 0 else -size
