"""Rows of `attempts` for the threads of Claude Code sessions, and the links from sub-agents to the calls that started them."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from expcomp.io.digest import PREFIX, sha256_hex
from expcomp.sources._bytes import UnreadableError, read_bytes
from expcomp.sources._chat import Note
from expcomp.sources._contract import attempt_id
from expcomp.sources._emit import add_attempt, sum_usage
from expcomp.sources._json import dump_json, load_json
from expcomp.sources._units import add_evidence, open_unit, report
from expcomp.sources._values import amount, count, obj, redact, text
from expcomp.sources.claude_code._lines import BOOKKEEPING, Session, Thread, read_session
from expcomp.sources.claude_code._links import Reading, unknown_status
from expcomp.sources.claude_code._meta import Said, overheard
from expcomp.sources.claude_code._turns import read_thread

if TYPE_CHECKING:
    from collections.abc import Iterator

    from expcomp.sources._chat import Row
    from expcomp.sources._contract import Batch, ReadOptions, Unit
    from expcomp.sources.claude_code._told import Told

_AGENT = "claude-code"


def read_unit(batch: Batch, unit: Unit, options: ReadOptions, own_files: set[str]) -> Iterator[Reading]:
    """Read one file: the attempt it is about and those of the sub-agents recorded in it."""
    opened = open_unit(batch, unit, options.max_file_bytes)
    if opened is None:
        return
    data, digest = opened
    place = PurePosixPath(unit.package_id)
    session = read_session(data, child=place.name.startswith("agent-") or "subagents" in place.parts)
    report(batch, unit, session.problems)
    _report_lines(batch, unit, session)
    said = overheard(session)
    main: Reading | None = None
    if session.main.turns():
        main = _main(batch, unit, digest, session, said, options)
        yield main
    else:
        detail = "no line of the file holds a message of the session itself; no attempt for it"
        batch.diagnose("no_messages", detail, package_id=unit.package_id, source_uri=unit.package_id)
    for thread in session.subs.values():
        if not thread.nodes:
            continue
        if thread.agent_id is not None and _own_file(unit.package_id, thread.agent_id) & own_files:
            detail = f"sub-agent {thread.agent_id} has a file of its own in the load, which is read instead"
            pos = thread.nodes[0][0]
            batch.diagnose(
                "recorded_twice",
                f"{len(thread.nodes)} {thread.place}: {detail}",
                package_id=unit.package_id,
                source_uri=unit.package_id,
                source_pos=pos,
                severity="info",
            )
            continue
        yield _sub(batch, unit, digest, session, thread, options, main)


def _own_file(session: str, agent_id: str) -> set[str]:
    """Where the file of a sub-agent of a session may lie."""
    place = PurePosixPath(session)
    stem, _, end = place.name.partition(".")
    name = f"agent-{agent_id}.{end}".replace("/", "_")
    here = {str(place.with_name(name)), str(place.with_name(stem) / "subagents" / name)}
    return here - {session}


def _report_lines(batch: Batch, unit: Unit, session: Session) -> None:
    """One line for all lines without a message, one for each type that is not known, one for repeated lines."""
    kinds = session.kinds()
    known = {k: v for k, v in kinds.items() if k in BOOKKEEPING}
    told: list[tuple[str, str, int, str]] = []
    if known:
        shown = ", ".join(f"{n} {kind}" for kind, (n, _) in known.items())
        detail = f"lines that hold no message, not loaded as such: {shown}"
        told.append(("lines_without_message", detail, min(pos for _, pos in known.values()), "info"))
    for kind, (n, pos) in kinds.items():
        if kind not in known:
            told.append(
                ("unknown_line_type", f"{n} lines of the unknown type {kind[:80]!r}; not loaded", pos, "warning")
            )
    first, n = session.repeated
    if n:
        detail = f"{n} lines repeat earlier ones (same id, or same message at the same time); left out"
        told.append(("duplicate_line", detail, first, "info"))
    for code, detail, pos, severity in told:
        batch.diagnose(
            code, detail, package_id=unit.package_id, source_uri=unit.package_id, source_pos=pos, severity=severity
        )


# -- attempts ----------------------------------------------------------------------------------------------------------------


def _main(batch: Batch, unit: Unit, digest: str, session: Session, said: Said, options: ReadOptions) -> Reading:
    """The attempt a file is about."""
    told = read_thread(session.main, session, delegated=session.is_child)
    ident = attempt_id(unit.format, unit.package_id)
    trace = next(reversed(told.sessions), None) or said.session_id
    metadata = said.metadata | _common(told)
    columns: Row = {"native_attempt_id": trace, "trace_id": trace}
    home, agent_id, deep = unit.package_id, None, False
    if session.is_child:
        agent_id = session.main.agent_id
        side = _side_file(batch, unit, options)
        if side:
            metadata["agent"] = side
        parent = _parent_file(unit.package_id, trace)
        home = parent or unit.package_id
        above = attempt_id(unit.format, parent) if parent is not None else None
        deep = (count(side.get("spawnDepth")) or 1) > 1
        columns |= {
            "native_attempt_id": agent_id,
            "relation": "subagent",
            "parent_attempt_id": above,
            "root_attempt_id": above or ident,
            "parent_call_id": text(side.get("toolUseId")),
        }
    elif told.forked_from is not None:
        place = PurePosixPath(unit.package_id)
        origin = str(place.with_name(f"{told.forked_from}.{place.name.partition('.')[2]}".replace("/", "_")))
        columns |= {"relation": "fork", "parent_attempt_id": attempt_id(unit.format, origin)}
    if said.compactions:
        columns["has_compaction"] = True
    columns |= _result_columns(said, told)
    word = _word(said.result, told)
    usage = sum_usage(told.transcript.steps)
    total = amount(said.result.get("total_cost_usd"))
    if total is not None:
        usage["cost_usd"] = total
        _check(told, usage, said)
    if session.cut:
        columns["is_truncated"] = True
    told.transcript.notes.extend(said.notes)
    told.artifacts.extend(said.artifacts)
    row = _add(batch, unit, ident, digest, told, word, options, usage, **columns)
    return Reading(unit, row, told, metadata, home, agent_id, deep)


def _sub(
    batch: Batch,
    unit: Unit,
    digest: str,
    session: Session,
    thread: Thread,
    options: ReadOptions,
    main: Reading | None,
) -> Reading:
    """The attempt of a sub-agent that is recorded in the file of another."""
    told = read_thread(thread, session, delegated=True)
    ident = attempt_id(unit.format, unit.package_id, "agent", thread.key)
    parent = main.row["attempt_id"] if main is not None else None
    columns: Row = {
        "native_attempt_id": thread.agent_id,
        "agent_version": main.row["agent_version"] if main is not None else None,
        "trace_id": next(reversed(told.sessions), None) or (main.row["trace_id"] if main is not None else None),
        "relation": "subagent",
        "parent_attempt_id": parent,
        "root_attempt_id": parent or ident,
        "parent_call_id": thread.call_id,
        "source_pos": thread.nodes[0][0],
    }
    metadata = {"recorded_as": thread.place} | _common(told)
    usage = sum_usage(told.transcript.steps)
    row = _add(batch, unit, ident, digest, told, _word({}, told), options, usage, **columns)
    return Reading(unit, row, told, metadata, main.home if main is not None else unit.package_id, thread.agent_id)


def _add(
    batch: Batch,
    unit: Unit,
    ident: str,
    digest: str,
    told: Told,
    word: str | None,
    options: ReadOptions,
    usage: Row,
    **columns: Any,
) -> Row:
    """Add the rows of an attempt and give the stored row of `attempts`."""
    version = next(reversed(told.versions), None) or columns.pop("agent_version", None)
    columns.pop("agent_version", None)
    status, known = options.rules.status(unit.format, word)
    if not known:
        told.transcript.notes.append(unknown_status(word))
    error = told.error
    columns = {
        "agent": _AGENT,
        "agent_version": version,
        "model": told.last_model,
        "params": _params(told),
        "status": status.status,
        "stop_reason": word or told.stop_reason,
        "error_type": error[0] if error else None,
        "error_message": error[1] if error else None,
        "started_at": told.started_at,
        "ended_at": told.ended_at,
        "usage_basis": "summed" if any(value is not None for value in usage.values()) else "missing",
        "is_truncated": _is_open(told),
        "has_compaction": told.has_summary or any(m["context_id"] for m in told.transcript.messages),
        "source_version": version,
        "source_digest": digest,
        **columns,
    }
    add_attempt(batch, unit, ident, told.transcript, usage=usage, **columns)
    for artifact in told.artifacts:
        batch.add("artifacts", attempt_id=ident, **artifact)
    return batch.rows["attempts"][-1]


def _common(told: Told) -> Row:
    """What message lines say beyond the columns."""
    first = told.first
    out: Row = {
        "cwd": text(first.get("cwd")),
        "git_branch": text(first.get("gitBranch")),
        "slug": text(first.get("slug")),
        "entrypoint": text(first.get("entrypoint")),
        "permission_mode": text(first.get("permissionMode")),
    }
    for name, values in (("session_ids", told.sessions), ("versions", told.versions), ("models", told.models)):
        if len(values) > 1:
            out[name] = list(values)
    return {k: v for k, v in out.items() if v is not None}


def _params(told: Told) -> str | None:
    thinking = redact(told.thinking)
    return dump_json({"thinking": thinking}) if thinking else None


def _result_columns(said: Said, told: Told) -> Row:
    """Columns from the last line of a stream, which sums it up."""
    out: Row = {"agent_version": said.version}
    result = said.result
    if not result:
        return out
    took = amount(result.get("duration_ms"))
    if took is not None:
        out["duration_s"] = took / 1000
    out["output_summary"] = text(result.get("result"))
    if result.get("is_error") is True and told.error is None:
        errors = result.get("errors")
        out["error_type"] = text(result.get("subtype"))
        out["error_message"] = dump_json(errors) if errors else text(result.get("result"))
    return out


def _word(result: Row, told: Told) -> str | None:
    """The word for how an attempt ended, if the lines have one."""
    word = text(result.get("subtype"))
    if word is None:
        return told.ending
    return "is_error" if word == "success" and result.get("is_error") is True else word


def _is_open(told: Told) -> bool:
    """Whether the record stops before the model had its say: after a result, or after a call."""
    if told.last == "result":
        return True
    step = next((s for s in reversed(told.transcript.steps) if s["source"] == "agent"), None)
    return told.last == "assistant" and step is not None and len(step["observations"]) < len(step["tool_calls"])


def _check(told: Told, usage: Row, said: Said) -> None:
    """Compare the stream's own sum with the messages (R15)."""
    summed = count(obj(said.result.get("usage")).get("output_tokens"))
    if summed is not None and usage["output_tokens"] is not None and summed != usage["output_tokens"]:
        detail = f"the result line counts {summed} output tokens, the messages {usage['output_tokens']}; the messages are used"
        told.transcript.notes.append(Note("usage_mismatch", detail, "info"))


# -- sub-agents --------------------------------------------------------------------------------------------------------------


def _parent_file(package_id: str, session_id: str | None) -> str | None:
    """Path of the session that a sub-agent's file belongs to; none if it lies above the load root."""
    place = PurePosixPath(package_id)
    end = place.name.partition(".")[2]
    parts = place.parts
    if "subagents" in parts[:-1]:
        at = parts.index("subagents")
        return "/".join((*parts[: at - 1], f"{parts[at - 1]}.{end}")) if at else None
    if session_id is None or "/" in session_id:
        return None
    parent = str(place.with_name(f"{session_id}.{end}"))
    return parent if parent != package_id else None


def _side_file(batch: Batch, unit: Unit, options: ReadOptions) -> Row:
    """What the side file of a sub-agent says; it is evidence too."""
    path = unit.path.parent / (unit.path.name.partition(".")[0] + ".meta.json")
    if not path.is_file():
        return {}
    try:
        data, raw = read_bytes(path, options.max_file_bytes)
    except UnreadableError as error:
        batch.diagnose(
            error.code, f"{path.name}: {error.detail}", package_id=unit.package_id, source_uri=unit.package_id
        )
        return {}
    add_evidence(batch, unit.package_id, path.name, "package_file", size=len(raw), digest=PREFIX + sha256_hex(raw))
    value, problems = load_json(data)
    uri = str(PurePosixPath(unit.package_id).with_name(path.name))
    report(batch, unit, problems, uri)
    return obj(value)
