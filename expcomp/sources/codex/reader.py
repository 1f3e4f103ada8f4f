"""Codex CLI rollouts: `sessions/YYYY/MM/DD/rollout-<time>-<thread>.jsonl`, plain or compressed, of every layout so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from expcomp.sources._chat import Note
from expcomp.sources._contract import Batch, Found, Frames, ReadOptions, Unit, attempt_id
from expcomp.sources._emit import add_attempt
from expcomp.sources._json import dump_json
from expcomp.sources._units import file_unit, open_unit, relative, report
from expcomp.sources._values import count, moment, obj, redact, text
from expcomp.sources.codex._lines import ENVELOPES, ITEMS, Rollout, load, read_rollout
from expcomp.sources.codex._turns import Turns

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from expcomp.sources._chat import Row
    from expcomp.sources._look import Look

_HEADER = frozenset({"id", "timestamp", "instructions", "git"})
_MAPPED = frozenset(
    "id timestamp cli_version model_provider base_instructions instructions parent_thread_id forked_from_id".split()
)
_DEEPEST = 8


class Codex:
    """Reader of Codex rollouts."""

    name = "codex"
    summary = "Codex CLI rollouts: JSON lines of session_meta, turn_context, response_item, event_msg; older ones without envelope"
    carries = {  # noqa: RUF012 - read only, by contract of the protocol
        "system_prompt": "base instructions (0.60 on)",
        "tools": "no",
        "reasoning": "summary + ciphertext",
        "verdict": "no",
        "trial": "no",
        "tokens": "yes",
        "cost": "no",
        "times": "0.40 on",
        "token_ids": "no",
    }

    def claims_folder(self, folder: Path, names: frozenset[str]) -> bool:
        """Never: a rollout is a file."""
        return False

    def claims_file(self, look: Look) -> bool:
        """Lines in the envelope of a rollout, or a header without type before bare items."""
        if look.kind != "object":
            return False
        rows = look.rows
        if {"type", "payload"} <= look.keys:
            if rows:
                return any(text(r.get("type")) in ENVELOPES and isinstance(r.get("payload"), dict) for r in rows[:4])
            return b'"session_meta"' in look.body[:400]
        if not rows or not {"id", "timestamp"} <= look.keys or not look.keys <= _HEADER:
            return False
        if len(rows) == 1:
            return "instructions" in look.keys
        return any("record_type" in r or text(r.get("type")) in ITEMS for r in rows[1:])

    def units(self, path: Path, root: Path, found: Found) -> None:
        """One unit a file; the rollouts of a folder are one group, since threads start each other."""
        file_unit(self.name, path, root, found, f"{self.name}/{relative(path.parent, root)}")

    def read(self, units: Sequence[Unit], options: ReadOptions) -> Frames:
        """Read rollouts and tie the threads of a folder together."""
        batch = Batch()
        beside: dict[str | None, list[tuple[str, Unit]]] = {}
        for unit in units:
            beside.setdefault(unit.group, []).append((unit.path.name, unit))
        loaded = [one for unit in units for one in _load(batch, unit, beside[unit.group], options)]
        calls = {(one.unit.group, thread): call for one in loaded for thread, call in one.spawned.items()}
        for one in loaded:
            if one.row["relation"] in ("subagent", "summariser"):
                one.row["parent_call_id"] = calls.get((one.unit.group, one.thread or ""))
        return batch.frames()


@dataclass(frozen=True, slots=True)
class _Loaded:
    unit: Unit
    thread: str | None
    spawned: dict[str, str]
    row: Row


def _load(batch: Batch, unit: Unit, beside: Sequence[tuple[str, Unit]], options: ReadOptions) -> list[_Loaded]:
    opened = open_unit(batch, unit, options.max_file_bytes)
    if opened is None:
        return []
    notes: list[Note] = []
    lines, problems = load(opened[0])
    report(batch, unit, problems)
    rollout = read_rollout(lines, notes, Note)
    if not rollout.records:
        for note in notes:
            batch.diagnose(
                note.code, note.detail, package_id=unit.package_id, source_uri=unit.package_id, source_pos=note.pos
            )
        batch.diagnose(
            "no_attempt", "no line of a rollout; no attempt", package_id=unit.package_id, source_uri=unit.package_id
        )
        return []
    elsewhere = _complete(rollout, unit, beside, options)
    if elsewhere:
        notes.append(Note("history_elsewhere", elsewhere))
    if not rollout.sessions:
        notes.append(Note("no_session_meta", "no session_meta line; version, time and thread id are not known"))
    relation = rollout.relation()
    turns = Turns(rollout, trainable=relation != "summariser")
    dialogue = turns.read()
    dialogue.out.notes[:0] = notes
    transcript = dialogue.finish()
    ident = attempt_id("codex", rollout.thread or unit.package_id)
    parent = rollout.parent() if relation != "root" else None
    row = add_attempt(
        batch,
        unit,
        ident,
        transcript,
        **_who(rollout, turns),
        **_how(turns, options),
        **_when(rollout, turns),
        native_attempt_id=rollout.thread,
        trace_id=rollout.thread,
        parent_attempt_id=attempt_id("codex", parent) if parent else None,
        relation=relation,
        is_truncated=bool(elsewhere) or turns.ending == "task_started" or _cut(problems, lines),
        has_compaction=dialogue.context > 0,
        source_digest=opened[1],
        metadata=_metadata(rollout, turns),
    )
    if turns.cumulative and row["usage_basis"] == "summed":
        row["usage_basis"] = "cumulative"
    batch.pack("steps", "messages")
    for artifact in turns.steps.pictures:
        batch.add("artifacts", attempt_id=ident, **artifact)
    return [_Loaded(unit, rollout.thread, turns.steps.spawned, row)]


def _cut(problems: list[Any], lines: list[tuple[int, Any]]) -> bool:
    """Whether the last line of the file is broken."""
    last = lines[-1][0] if lines else 0
    return any(p.severity == "error" and (p.pos or 0) > last for p in problems)


def _complete(rollout: Rollout, unit: Unit, beside: Sequence[tuple[str, Unit]], options: ReadOptions) -> str | None:
    """Put the history that a fork took over before its own records, if its file is among those `beside` it, by their names.

    Gives what is missing otherwise.
    """
    seen = {rollout.thread}
    base = rollout.base()
    while base:
        thread = text(base.get("thread_id"))
        limit = next((count(base[k]) for k in base if k.startswith("ordinal")), None)
        if thread is None or thread in seen or len(seen) > _DEEPEST:
            return f"the history before this file is said to be in {thread!r}; not resolved, this file is incomplete"
        seen.add(thread)
        found = next((u for name, u in beside if thread in name and u is not unit), None)
        opened = open_unit(Batch(), found, options.max_file_bytes) if found is not None else None
        if opened is None or limit is None:
            return f"the history before this file is in thread {thread}, which is not in the same folder of this load; incomplete"
        above = read_rollout(load(opened[0])[0], [], Note)
        prefix = [
            r for r in above.records if (at := r.ordinal()) is not None and at < limit and r.kind != "session_meta"
        ]
        rollout.records[:0] = prefix
        rollout.marked |= any(r.kind == "state" for r in prefix)
        rollout.replayed += len(prefix)
        base = above.base()
    return None


def _who(rollout: Rollout, turns: Turns) -> Row:
    meta = rollout.meta
    instructions = meta.get("base_instructions")
    prompt = text(instructions) or text(obj(instructions).get("text")) or text(meta.get("instructions"))
    most = max(turns.steps.models.values(), default=0)
    params = redact(turns.params)
    return {
        "agent": "codex",
        "agent_version": text(meta.get("cli_version")),
        "model": next((m for m, n in turns.steps.models.items() if n == most), turns.steps.model),
        "model_provider": text(meta.get("model_provider")),
        "params": dump_json(params) if params else None,
        "system_prompt": prompt,
        "source_version": text(meta.get("cli_version")),
    }


def _how(turns: Turns, options: ReadOptions) -> Row:
    """How the thread ended; a turn that is open at the end of the file leaves it unknown."""
    word = turns.ending
    if word is None or word == "task_started":
        return {"status": "unknown", "stop_reason": word}
    meaning = options.rules.status("codex", word)[0]
    out: Row = {"stop_reason": word}
    if word in ("error", "stream_error"):
        info = turns.error.get("codex_error_info")
        kind = text(info) or next(iter(obj(info)), None)
        known = options.rules.errors.get("".join(p.capitalize() for p in kind.split("_")) + "Error") if kind else None
        meaning = known or meaning
        out |= {"error_type": kind, "error_message": text(turns.error.get("message"))}
    return out | {"status": meaning.status}


def _when(rollout: Rollout, turns: Turns) -> Row:
    start = moment(rollout.meta.get("timestamp"))[0] or turns.first
    end = turns.last
    return {"started_at": start, "ended_at": end if end is None or start is None or end >= start else None}


def _metadata(rollout: Rollout, turns: Turns) -> str | None:
    kept = {k: v for k, v in rollout.meta.items() if k not in _MAPPED and v is not None}
    if rollout.sessions > 1:
        kept["sessions"] = rollout.sessions
    if rollout.replayed:
        kept["replayed_records"] = rollout.replayed
    forked = rollout.meta.get("forked_from_id")
    if forked is not None:
        kept["forked_from_id"] = forked
    out = redact(kept)
    return dump_json(out) if out else None


SOURCE = Codex()
