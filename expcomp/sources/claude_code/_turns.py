"""One thread of a Claude Code session to steps and messages: lines of a model message joined, results matched (R3, R7, R8)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from expcomp.sources._chat import call, flat
from expcomp.sources._dialogue import Dialogue
from expcomp.sources._json import dump_json
from expcomp.sources._values import moment, obj, small, text
from expcomp.sources.claude_code._blocks import (
    SERVER_CALLS,
    all_injected,
    call_kind,
    first_text,
    has_binary,
    last_word,
    native_ids,
    plain,
    union,
    usage_of,
)
from expcomp.sources.claude_code._files import inline_files, patch_text
from expcomp.sources.claude_code._lines import TURNS, Row, Session, Thread
from expcomp.sources.claude_code._told import Told
from expcomp.sources.claude_code._tree import Places, place

if TYPE_CHECKING:
    from datetime import datetime


SYNTHETIC = "<synthetic>"
_EXIT = re.compile(r"(?:Error: )?Exit code (-?\d{1,9})\b")
_CODES = ("exitCode", "exit_code", "returnCode")
_ERROR_MARK = "<tool_use_error>"
_CUT_MARK = "<persisted-output>"
_INTERRUPTED = "[Request interrupted by user"
_TOO_LONG = "Prompt is too long"


def read_thread(thread: Thread, session: Session, *, delegated: bool) -> Told:
    """Steps and messages of a thread.

    Args:
        thread: Its lines.
        session: The file they are in.
        delegated: Whether it is a sub-agent: its prompts were written by the model that started it, not by a person.
    """
    return _Reader(thread, session, delegated=delegated).run()


class _Reader:
    """The state that goes from line to line."""

    def __init__(self, thread: Thread, session: Session, *, delegated: bool) -> None:
        self.thread = thread
        self.talk = Dialogue()
        self.told = Told(self.talk.out)
        # In the file of a sub-agent, lines that are not a sidechain's are its parent's, replayed.
        self.replayed = session.is_child and thread is session.main
        self.places: Places = place(thread.nodes, session.aliases)
        self.delegated = delegated
        self.version: str | None = None
        self.session: str | None = None
        self.groups: dict[str, list[Row]] = {}
        self.done: set[str] = set()
        self.answers: dict[str, Any] = {}
        self.owners: dict[str, int] = {}
        self.guessed: list[int] = []
        self.unmarked: list[int] = []
        self.doubled: list[int] = []
        self.nameless: list[int] = []

    def run(self) -> Told:
        """Read the thread."""
        for _, rec in self.thread.nodes:
            if rec.get("type") == "assistant":
                ident = rec["message"].get("id")
                if isinstance(ident, str):
                    self.groups.setdefault(ident, []).append(rec)
        for i, (pos, rec) in enumerate(self.thread.nodes):
            kind = rec.get("type")
            if kind not in TURNS:
                continue
            self._place(i, rec)
            stamp = self._time(rec)
            if kind == "assistant":
                self._assistant(pos, rec, stamp)
            else:
                self._user(pos, rec, stamp, summary=self.places.summary[i])
        self.talk.finish()
        self._report()
        return self.told

    def _place(self, i: int, rec: Row) -> None:
        told, talk = self.told, self.talk
        if not told.first:
            told.first = rec
        talk.branch, talk.context = self.places.branch[i], self.places.context[i]
        origin = rec.get("forkedFrom")
        if isinstance(origin, dict):
            told.forked_from = told.forked_from or text(origin.get("sessionId"))
        talk.copied = isinstance(origin, dict) or (self.replayed and rec.get("isSidechain") is not True)
        if talk.copied:
            return
        version, session = rec.get("version"), rec.get("sessionId") or rec.get("session_id")
        if version != self.version and isinstance(version, str):
            self.version = version
            told.versions.pop(version, None)
            told.versions[version] = None
        if session != self.session and isinstance(session, str):
            self.session = session
            told.sessions.pop(session, None)
            told.sessions[session] = None

    def _time(self, rec: Row) -> datetime | None:
        stamp, naive = moment(rec.get("timestamp"))
        told = self.told
        told.naive = told.naive or naive
        if stamp is not None and not self.talk.copied:
            if told.started_at is None or stamp < told.started_at:
                told.started_at = stamp
            if told.ended_at is None or stamp > told.ended_at:
                told.ended_at = stamp
        return stamp

    def _ends(self, last: str, ending: str | None = None, error: tuple[str, str | None] | None = None) -> None:
        if self.talk.branch == 0:
            self.told.last, self.told.ending, self.told.error = last, ending, error

    # -- the model's turns -----------------------------------------------------------------------------------------------------

    def _assistant(self, pos: int, rec: Row, stamp: datetime | None) -> None:
        message = rec["message"]
        if message.get("model") == SYNTHETIC or rec.get("isApiErrorMessage") is True:
            self._synthetic(pos, rec, stamp)
            return
        ident = message.get("id")
        if not isinstance(ident, str):
            self.nameless.append(pos)
            self._call_of_model(pos, [rec], None, stamp)
        elif ident not in self.done:
            self.done.add(ident)
            self._call_of_model(pos, self.groups[ident], ident, stamp)
        else:
            self._ends("assistant")

    def _call_of_model(self, pos: int, lines: list[Row], ident: str | None, stamp: datetime | None) -> None:
        """One message of the model, which may be written as several lines: blocks joined, the last usage counts (R3)."""
        told = self.told
        blocks = union(lines)
        content, reasoning, opaque, calls, parts = self._blocks(blocks)
        model = last_word(lines, "model")
        ended, _ = moment(lines[-1].get("timestamp")) if len(lines) > 1 else (stamp, False)
        stop = last_word(lines, "stop_reason")
        step = self.talk.act(
            content,
            calls=calls,
            reasoning=reasoning,
            parts=parts,
            at=stamp,
            message={"native_id": text(lines[0].get("uuid")), "native_parent_id": text(lines[0].get("parentUuid"))},
            llm_call_id=ident,
            model=model,
            ended_at=ended,
            stop_reason=stop,
            reasoning_opaque=opaque,
            **usage_of(lines),
        )
        for made in calls:
            if made["id"] is not None:
                told.calls[made["id"]] = made["name"]
                self.owners[made["id"]] = step["step_index"]
        for block in blocks:
            kind = block.get("type")
            if isinstance(kind, str) and kind.endswith("_tool_result"):
                seen, more = flat(block.get("content"))
                failed = block.get("is_error")
                flags: Row = {"is_error": failed} if isinstance(failed, bool) else {}
                self.talk.result(
                    text(block.get("tool_use_id")), seen if seen is not None else more, said=False, **flags
                )
        if model is not None and not self.talk.copied:
            told.models[model] = None
            told.last_model = model
        if self.talk.branch == 0:
            told.stop_reason = stop or told.stop_reason
        self._ends("assistant")

    def _blocks(self, blocks: list[Row]) -> tuple[str | None, str | None, bool | None, list[Row], str | None]:
        """Text, reasoning, whether the reasoning is only a cipher, calls, and the blocks where that does not say it all."""
        texts: list[str] = []
        thoughts: list[str] = []
        calls: list[Row] = []
        hidden = other = False
        for block in blocks:
            kind = block.get("type")
            if kind == "text" and isinstance(block.get("text"), str):
                texts.append(block["text"])
            elif kind == "thinking":
                thought = block.get("thinking")
                hidden = hidden or not thought
                if isinstance(thought, str) and thought:
                    thoughts.append(thought)
            elif kind == "redacted_thinking":
                hidden = other = True
            elif kind == "tool_use" or kind in SERVER_CALLS:
                made = call(block.get("id"), block.get("name"), block.get("input"), call_kind(kind))
                calls.append(made)
                prompt = obj(block.get("input")).get("prompt")
                if isinstance(prompt, str) and made["id"] is not None:
                    self.told.prompts[made["id"]] = prompt
                other = other or kind in SERVER_CALLS
            else:
                other = True
        parts = None
        if other or len(texts) > 1:
            kept, files = inline_files(blocks)
            parts = dump_json(kept)
            self._files(files, None)
        opaque = (hidden and not thoughts) if hidden or thoughts else None
        return "".join(texts) if texts else None, "\n\n".join(thoughts) or None, opaque, calls, parts

    def _synthetic(self, pos: int, rec: Row, stamp: datetime | None) -> None:
        """What the program wrote in the model's name: errors of the service and stand-ins; no call of a model."""
        content, parts = plain(rec["message"].get("content"))
        self.talk.say("assistant", content, origin="synthetic", parts=parts, at=stamp, **native_ids(rec))
        failed = text(rec.get("error")) or ("api_error" if rec.get("isApiErrorMessage") is True else None)
        if failed is None:
            self._ends("assistant")
            return
        shown = (content or parts or "")[:200]
        self.talk.note("api_error", f"line {pos}: the service failed ({failed}): {shown}", "warning", pos)
        word = "prompt_too_long" if (content or "").startswith(_TOO_LONG) else failed
        self._ends("error", word, (failed, content))

    # -- results and the user's turns ----------------------------------------------------------------------------------------------

    def _user(self, pos: int, rec: Row, stamp: datetime | None, *, summary: bool) -> None:
        content = rec["message"].get("content")
        if not isinstance(content, list):
            self._said(rec, content, stamp, summary=summary)
            return
        results = [b for b in content if isinstance(b, dict) and b.get("type") == "tool_result"]
        if not results:
            self._said(rec, content, stamp, summary=summary)
            return
        rest = [b for b in content if not (isinstance(b, dict) and b.get("type") == "tool_result")]
        first = content[0] is not results[0]
        if rest and first:
            self._said(rec, rest, stamp, summary=summary)
        native = rec.get("toolUseResult", rec.get("tool_use_result"))
        for block in results:
            self._result(pos, rec, block, native if len(results) == 1 else None, stamp)
        if rest and not first:
            self._said(rec, rest, stamp, summary=summary)

    def _said(self, rec: Row, content: Any, stamp: datetime | None, *, summary: bool) -> None:
        if isinstance(content, list) and has_binary(content):
            content, files = inline_files(content)
            self._files(files, None)
        shown, parts = plain(content)
        told = self.told
        if not told.thinking:
            told.thinking = obj(rec.get("thinkingMetadata"))
        opening = shown if shown is not None else first_text(content)
        if summary:
            origin = "summary"
            told.has_summary = True
        elif rec.get("isMeta") is True or rec.get("isSynthetic") is True or all_injected(shown, content):
            origin = "harness"
        elif self.delegated and not self.talk.copied:
            origin = "model"
        else:
            origin = "human"
        if told.first_text is None and not self.talk.copied:
            told.first_text = opening
        self.talk.say("user", shown, origin=origin, parts=parts, at=stamp, **native_ids(rec))
        self._ends("user", "interrupted" if (opening or "").startswith(_INTERRUPTED) else None)

    def _result(self, pos: int, rec: Row, block: Row, native: Any, stamp: datetime | None) -> None:
        """A result. Its flags are those of the source; what is only read from its text is reported as such."""
        raw, call_id = block.get("content"), text(block.get("tool_use_id"))
        if call_id is not None:
            if call_id in self.answers and self.answers[call_id] == raw:
                self.doubled.append(pos)
                return
            self.answers[call_id] = raw
        owner = self.owners.get(call_id) if call_id is not None else None
        if isinstance(raw, list) and has_binary(raw):
            raw, files = inline_files(raw)
            self._files(files, owner)
        content, parts = plain(raw)
        failed = block.get("is_error")
        flags: Row = {"is_error": failed if isinstance(failed, bool) else None}
        flags["exit_code"] = self._exit_code(pos, native, content, failed=failed is True)
        whole = obj(native)
        if whole.get("truncated") is True or "persistedOutputPath" in whole or (content or "").startswith(_CUT_MARK):
            flags["truncated"] = True
        if failed is not True and (content or "").startswith(_ERROR_MARK):
            self.unmarked.append(pos)
        name = self.told.calls.get(call_id) if call_id is not None else None
        self.talk.result(
            call_id,
            content,
            name=name,
            parts=parts,
            at=stamp,
            message=native_ids(rec),
            **flags,
        )
        self._ends("result")
        if whole:
            self._structured(whole, call_id, owner)

    def _exit_code(self, pos: int, native: Any, content: str | None, *, failed: bool) -> int | None:
        if isinstance(native, dict):
            return next((code for code in (small(native.get(key)) for key in _CODES) if code is not None), None)
        for shown in (native, content):
            found = _EXIT.match(shown) if isinstance(shown, str) and failed else None
            if found:
                self.guessed.append(pos)
                return int(found.group(1))
        return None

    def _structured(self, native: Row, call_id: str | None, owner: int | None) -> None:
        """What the structured form of a result adds: the sub-agent that answered, the patch that was made."""
        agent_id = text(native.get("agentId"))
        if agent_id is not None:
            self.told.spawned.setdefault(agent_id, {"call_id": call_id, "native": native})
        elif call_id is not None and "totalToolUseCount" in native:
            self.told.spawned.setdefault(call_id, {"call_id": call_id, "native": native})
        patch = patch_text(native)
        if patch is not None and not self.talk.copied:
            self.told.artifacts.append({"step_index": owner, **patch})

    def _files(self, files: list[Row], owner: int | None) -> None:
        if not self.talk.copied:
            self.told.artifacts += [{"step_index": owner, **f} for f in files]

    # -- the report ----------------------------------------------------------------------------------------------------------------

    def _report(self) -> None:
        places, note = self.places, self.talk.note
        for found, code, detail, severity in (
            (
                self.guessed,
                "exit_code_from_text",
                "exit codes were read from the words 'Exit code' in the output, a heuristic: the source has no field for them",
                "info",
            ),
            (
                self.unmarked,
                "error_not_flagged",
                "results open with a tool error mark and carry no error flag; a heuristic, they stay unflagged",
                "info",
            ),
            (self.doubled, "duplicate_result", "results repeat one that was read; left out", "info"),
            (
                self.nameless,
                "no_message_id",
                "model messages carry no id; each line was read as a call of its own",
                "info",
            ),
        ):
            if found:
                note(code, f"{len(found)} {detail} (first on line {found[0]})", severity, found[0])
        if places.lost:
            detail = f"the parent of {places.lost} lines is not in the file; they continue the line before them"
            note("parent_not_found", detail, "info", places.first_lost)
        if any(places.branch):
            detail = f"{max(places.branch)} branches beside the path to the last message; kept with branch above 0"
            note("branches", detail, "info")
        if self.told.naive:
            note("naive_time", "times without a zone were read as UTC", "info")
