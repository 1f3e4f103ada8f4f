"""Links from the sub-agents of Claude Code sessions to the calls that started them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from expcomp.sources._chat import Note, flat
from expcomp.sources._json import dump_json
from expcomp.sources._values import redact, text

if TYPE_CHECKING:
    from expcomp.sources._chat import Row
    from expcomp.sources._contract import Batch, ReadOptions, Unit
    from expcomp.sources.claude_code._told import Told


@dataclass(slots=True)
class Reading:
    """One attempt that was read.

    Attributes:
        unit: File it is from.
        row: Its row of `attempts`, still to be linked.
        told: What its messages say.
        metadata: What goes into the column of that name.
        home: Path of the session the attempt belongs to, relative to the load root; sub-agent ids are unique only inside it.
        agent_id: Id of the sub-agent.
        deep: Whether another sub-agent may have started it.
    """

    unit: Unit
    row: Row
    told: Told
    metadata: Row = field(default_factory=dict)
    home: str = ""
    agent_id: str | None = None
    deep: bool = True


def unknown_status(word: str | None) -> Note:
    """The line of the load report for a word that the table lacks."""
    return Note("unknown_status", f"the word {word!r} for how the attempt ended is not in the table; status unknown")


def link(batch: Batch, readings: list[Reading], options: ReadOptions) -> None:
    """Tie sub-agents to the calls that started them: by id, by what the result says, for the oldest files by the prompt."""
    callers: dict[tuple[str, str], Reading] = {}
    spawned: dict[tuple[str, str], Row] = {}
    prompts: dict[tuple[str, str], list[str]] = defaultdict(list)
    taken: set[tuple[str, str]] = set()
    subs = [r for r in readings if r.row["relation"] == "subagent"]
    for reading in readings:
        for call_id in reading.told.calls:
            callers.setdefault((reading.home, call_id), reading)
        for key, info in reading.told.spawned.items():
            spawned.setdefault((reading.home, key), info)
        for call_id, prompt in reading.told.prompts.items():
            prompts[reading.home, prompt].append(call_id)
    for sub in subs:
        by = spawned.get((sub.home, sub.agent_id or ""))
        if sub.row.get("parent_call_id") is None and by is not None:
            sub.row["parent_call_id"] = by["call_id"]
        if sub.row.get("parent_call_id") is not None:
            taken.add((sub.home, sub.row["parent_call_id"]))
    for sub in subs:
        if sub.row.get("parent_call_id") is None and sub.told.first_text is not None:
            free = (c for c in prompts[sub.home, sub.told.first_text] if (sub.home, c) not in taken)
            started_by = next((c for c in free if callers[sub.home, c] is not sub), None)
            if started_by is not None:
                sub.row["parent_call_id"] = started_by
                taken.add((sub.home, started_by))
        _settle(batch, sub, callers, spawned, options)
    for reading in readings:
        kept = redact(reading.metadata)
        reading.row["metadata"] = dump_json(kept) if kept else None


def _settle(
    batch: Batch,
    sub: Reading,
    callers: dict[tuple[str, str], Reading],
    spawned: dict[tuple[str, str], Row],
    options: ReadOptions,
) -> None:
    """Parent and outcome of a sub-agent, as far as the session that started it tells."""
    row = sub.row
    call_id = row.get("parent_call_id")
    caller = callers.get((sub.home, call_id)) if call_id is not None else None
    if caller is not None and caller is not sub:
        row["parent_attempt_id"] = caller.row["attempt_id"]
    elif sub.deep and sub.agent_id is not None and sub.unit.package_id != sub.home:
        # Deeper sub-agents lie in the same folder: without the file that made the call, only the root is known.
        row["parent_attempt_id"] = None
    info = spawned.get((sub.home, sub.agent_id or "")) or spawned.get((sub.home, call_id or ""))
    if info is None or (info["call_id"] is not None and info["call_id"] != call_id):
        return
    native = info["native"]
    shown, _ = flat(native.get("content"))
    row["output_summary"] = row.get("output_summary") or shown
    kept = ("status", "agentType", "totalDurationMs", "totalTokens", "totalToolUseCount", "resolvedModel")
    sub.metadata["spawn"] = {k: native[k] for k in kept if isinstance(native.get(k), str | int | float)}
    word = text(native.get("status"))
    if row["status"] == "unknown" and word is not None:
        status, known = options.rules.status(sub.unit.format, word)
        row["status"] = status.status
        if not known:
            note = unknown_status(word)
            batch.diagnose(
                note.code,
                note.detail,
                package_id=sub.unit.package_id,
                source_uri=sub.unit.package_id,
                attempt_id=row["attempt_id"],
            )
