"""ATIF: one `trajectory.json`, or such files beside each other, without a trial folder around them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from expcomp.sources._chat import Note
from expcomp.sources._contract import Batch, Found, Frames, ReadOptions, Unit, attempt_id
from expcomp.sources._emit import default_arm
from expcomp.sources._json import dump_json, load_json
from expcomp.sources._units import file_unit, open_unit, report
from expcomp.sources._values import obj, redact, text
from expcomp.sources.atif._links import Document, first_relation, link
from expcomp.sources.atif._read import is_atif, read_trajectory

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from expcomp.sources._look import Look


class Atif:
    """Reader of ATIF trajectories."""

    name = "atif"
    summary = "ATIF trajectories (Harbor adapters, Terminus, OpenHands): one JSON document"
    carries = {  # noqa: RUF012 - read only, by contract of the protocol
        "system_prompt": "as system step, if the adapter has it",
        "tools": "agent.tool_definitions, few adapters",
        "reasoning": "text",
        "verdict": "no",
        "trial": "no",
        "tokens": "per step",
        "cost": "per step",
        "times": "yes",
        "token_ids": "optional",
    }

    def claims_folder(self, folder: Path, names: frozenset[str]) -> bool:
        """Never: trajectories are files."""
        return False

    def claims_file(self, look: Look) -> bool:
        """An object with an ATIF `schema_version`, or with `agent` and `steps` that have a `source`."""
        return is_atif(look)

    def units(self, path: Path, root: Path, found: Found) -> None:
        """One unit a file; files of one folder are one group, since they may be parts of one run."""
        group = f"{self.name}/{path.parent.relative_to(root).as_posix()}" if path.is_relative_to(root) else self.name
        file_unit(self.name, path, root, found, group)

    def read(self, units: Sequence[Unit], options: ReadOptions) -> Frames:
        """Read trajectories and link those that belong together."""
        batch = Batch()
        documents = [d for unit in units for d in _documents(batch, unit, options)]
        for document, code, detail in link(documents):
            _diagnose(batch, document, Note(code, detail))
        for document in documents:
            _add(batch, document, options)
        if options.task_id is not None and documents:
            _task(batch, documents, options)
        return batch.frames()


def _documents(batch: Batch, unit: Unit, options: ReadOptions) -> Iterator[Document]:
    opened = open_unit(batch, unit, options.max_file_bytes)
    if opened is None:
        return
    doc, problems = load_json(opened[0])
    report(batch, unit, problems)
    if not isinstance(doc, dict) or "steps" not in doc:
        if not any(p.severity == "error" for p in problems):
            found = f"an object with {', '.join(sorted(doc)[:5])}" if isinstance(doc, dict) else type(doc).__name__
            detail = f"expected an object with steps, found {found}; no attempt"
            batch.diagnose("no_attempt", detail, package_id=unit.package_id, source_uri=unit.package_id)
        return
    yield from _flatten(unit, doc, opened[1], None, "")


def _flatten(unit: Unit, doc: dict[str, Any], digest: str, parent: Document | None, place: str) -> Iterator[Document]:
    relation, ident = first_relation(doc, embedded=parent is not None), attempt_id("atif", unit.package_id, place)
    trajectory = read_trajectory(doc, ident, trainable=relation != "summariser", relation=relation)
    document = Document(unit, doc, ident, digest, relation, trajectory, embedded_in=parent)
    yield document
    embedded = doc.get("subagent_trajectories")
    for pos, inner in enumerate(embedded if isinstance(embedded, list) else [] if embedded is None else [embedded]):
        if isinstance(inner, dict) and isinstance(embedded, list):
            yield from _flatten(unit, inner, digest, document, f"{place}/{pos}")
        else:
            detail = f"subagent_trajectories holds {type(inner).__name__}, expected a list of trajectories; left out"
            trajectory.transcript.notes.append(Note("bad_transcript", detail, pos=pos))


def _diagnose(batch: Batch, document: Document, note: Note) -> None:
    batch.diagnose(
        note.code,
        note.detail,
        package_id=document.unit.package_id,
        source_uri=document.unit.package_id,
        source_pos=note.pos,
        attempt_id=document.attempt_id,
        severity=note.severity,
    )


def _add(batch: Batch, document: Document, options: ReadOptions) -> None:
    doc, unit = document.doc, document.unit
    if document.relation == "summariser":
        # The relation may come from the parent's reference only, after the steps were read.
        for step in document.trajectory.transcript.steps:
            step["trainable"] = False
    transcript = document.trajectory.transcript
    if document.trajectory.naive:
        transcript.notes.append(Note("naive_time", "times without a zone were read as UTC", "info"))
    for note in transcript.notes:
        _diagnose(batch, document, note)
    batch.rows["steps"] += transcript.steps
    batch.rows["messages"] += transcript.messages
    agent = obj(doc.get("agent"))
    identity = agent_columns(agent, options.arm)
    parent = document.parent
    usage = document.trajectory.usage
    start, end = document.trajectory.started_at, document.trajectory.ended_at
    batch.add(
        "attempts",
        attempt_id=document.attempt_id,
        package_id=unit.package_id,
        native_attempt_id=next(iter(document.ids()), None),
        task_id=options.task_id,
        **identity,
        trial_source="unknown",
        params=params_text(agent.get("extra")),
        status="unknown",
        started_at=start,
        ended_at=end,
        duration_s=(end - start).total_seconds() if start is not None and end is not None else None,
        **usage,
        usage_basis=basis(usage, summed=document.trajectory.summed),
        **transcript.counts(),
        trace_id=next(iter(document.ids()), None),
        root_attempt_id=document.root().attempt_id,
        parent_attempt_id=parent.attempt_id if parent else None,
        parent_call_id=document.parent_call_id,
        relation=document.relation,
        is_truncated=False,
        has_compaction=document.trajectory.has_compaction,
        has_transcript=bool(transcript.messages),
        has_system_prompt=transcript.has_system_prompt() or options.system is not None,
        tools=dump_json(agent["tool_definitions"]) if agent.get("tool_definitions") else None,
        has_tools=bool(agent.get("tool_definitions")) or options.tools is not None,
        trace_ref=unit.path.name,
        source_format="atif",
        source_version=text(doc.get("schema_version")),
        source_uri=unit.package_id,
        source_digest=document.digest,
        metadata=dump_json(metadata(doc)),
    )


def agent_columns(agent: dict[str, Any], arm: str | None) -> dict[str, str | None]:
    """Columns of `attempts` that name the agent, with the default arm `agent@version/model`."""
    name, version, model = text(agent.get("name")), text(agent.get("version")), text(agent.get("model_name"))
    provider = model.partition("/")[0] if model and "/" in model else None
    return {
        "agent": name,
        "agent_version": version,
        "model": model,
        "model_provider": provider,
        "arm": arm or default_arm(name, version, model),
    }


def basis(usage: dict[str, Any], *, summed: bool) -> str:
    """Where token counts come from."""
    if all(value is None for value in usage.values()):
        return "missing"
    return "summed" if summed else "reported"


def params_text(extra: Any) -> str | None:
    """Agent settings as JSON text without secrets."""
    kept = redact(obj(extra))
    return dump_json(kept) if kept else None


def metadata(doc: dict[str, Any]) -> dict[str, Any]:
    """What a document says beyond the columns."""
    out = {
        "notes": doc.get("notes"),
        "final_metrics": doc.get("final_metrics"),
        "session_id": doc.get("session_id"),
        "extra": redact(doc.get("extra")),
    }
    return {k: v for k, v in out.items() if v is not None}


def _task(batch: Batch, documents: list[Document], options: ReadOptions) -> None:
    messages = (m for d in documents for m in d.trajectory.transcript.messages)
    batch.add(
        "tasks",
        task_id=options.task_id,
        native_id=options.task_id,
        instruction=next((m["content"] for m in messages if m["origin"] == "human"), None),
        system_prompt=options.system,
        tools=options.tools,
    )


SOURCE = Atif()
