"""From the turns of a chat and the row around them to rows of the tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from expcomp.io.digest import PREFIX, sha256_hex
from expcomp.sources._contract import attempt_id
from expcomp.sources._emit import add_grade, default_arm, score_columns, voided
from expcomp.sources._json import dump_json
from expcomp.sources._values import moment, redact, whole
from expcomp.sources.chat import _responses
from expcomp.sources.chat import _turns as _chat_turns
from expcomp.sources.chat._columns import TASK_MEANINGS, Columns, number, run_number
from expcomp.sources.chat._rows import ChatRows
from expcomp.sources.chat._tasks import task_of
from expcomp.sources.chat._values import system_prompt, taken, tool_schemas, usage_columns, word

if TYPE_CHECKING:
    from datetime import datetime

    from expcomp.sources._contract import Batch, Frames, ReadOptions, Unit
    from expcomp.sources._values import Score
    from expcomp.sources.chat._labels import Graded
    from expcomp.sources.chat._rows import Talk
    from expcomp.sources.chat._shape import Chat

ENDING_CALLS = frozenset("finish submit final_answer attempt_completion complete_task".split())
"""Calls by which an agent says that it is done; nothing comes back, and nothing is missing."""
CUT = frozenset({"length", "max_tokens", "max_output_tokens", "incomplete", "model_context_window_exceeded"})
"""Stop reasons of a last turn whose text was cut."""
FILES = {"patch": ("patch", "text/x-diff"), "log": ("test_report", "text/plain")}
"""Meaning of a column whose text becomes an artifact -> kind and media type."""
_LARGE_TEXT = 1 << 20


class Attempts:
    """The attempts of one read, over its units."""

    def __init__(self, name: str, batch: Batch, options: ReadOptions) -> None:
        self.name = name
        self.batch = batch
        self.options = options
        self.columns = Columns()
        self.digest: str | None = None
        self.unit: Unit
        self._rows = ChatRows()
        self._tasks: dict[str, dict[str, Any]] = {}

    def begin(self, unit: Unit) -> None:
        """A unit begins."""
        self.unit = unit
        self.columns = Columns()
        self.digest = None
        self._thinks = 0
        self._before = len(self.batch.rows["attempts"]), len(self.batch.rows["diagnostics"])

    def end(self) -> None:
        """A unit ends: what only all of its attempts together show."""
        if self._thinks:
            detail = "turns open with <think>; their text is kept whole, what is inside is copied to reasoning"
            self.tell("reasoning_in_content", detail, None, "info")
        attempts, told = self._before
        # A part of a file may well hold none.
        if (
            self.unit.span is None
            and len(self.batch.rows["attempts"]) == attempts
            and len(self.batch.rows["diagnostics"]) == told
        ):
            self.tell("no_attempt", "no record holds messages; no attempt", None)

    def frames(self) -> Frames:
        """The frames of all tables."""
        self.batch.rows["tasks"] += self._tasks.values()
        return self.batch.frames() | self._rows.frames()

    def tell(self, code: str, detail: str, pos: int | None, severity: str = "warning", **more: Any) -> None:
        """Add a line about the unit to the load report."""
        ident = self.unit.package_id
        self.batch.diagnose(code, detail, package_id=ident, source_uri=ident, source_pos=pos, severity=severity, **more)

    def add(self, chat: Chat, row: dict[str, Any], pos: int, key: str, graded: Graded) -> None:
        """Add an attempt with everything that belongs to it."""
        columns, unit = self.columns, self.unit
        ident = attempt_id(self.name, unit.package_id, key, *([chat.mark] if chat.mark else []))
        talk = self._write(ident, chat, pos)
        get = columns.texts
        model = get("model", row) or (talk.models[0] if talk.models else chat.asked)
        agent, version = get("agent", row), get("agent_version", row)
        task = task_of(columns, chat, row, talk, unit)
        if task is not None:
            known = self._tasks.setdefault(task["task_id"], task)
            if known is not task:
                known |= {key: value for key, value in task.items() if value is not None and known[key] is None}
        task_id = None if task is None else task["task_id"]
        system, system_parts = system_prompt(columns, row)
        tools = tool_schemas(columns.get("tools", row))
        status, stop, score = self._status(row, talk, graded, pos, ident)
        usage, basis = usage_columns(columns, row, talk)
        started, ended = self._times(row, pos, ident)
        run, trial = self._trial(row)
        arm = columns.values.get("arm")
        if arm is None and "arm" in columns.paths:
            arm = word(columns.get("arm", row))
        params = {k: v for k, v in chat.params.items() if k not in columns.mapped}
        if chat.asked is not None and chat.asked != model:
            params["model"] = chat.asked
        rest = self._rest(chat, row, graded, has_task=task is not None)
        if system_parts is not None:
            rest["system"] = system_parts
        if talk.extras:
            rest["message_extras"] = talk.extras
        missing = any(c not in ENDING_CALLS for c in talk.open_calls)
        attempt = {
            "attempt_id": ident,
            "package_id": unit.package_id,
            "native_attempt_id": word(columns.get("native", row)),
            "task_id": task_id,
            "run_id": run,
            "arm": arm or default_arm(agent, version, model),
            "trial": trial,
            "trial_source": "unknown" if trial is None else "native",
            "seed": whole(columns.get("seed", row)),
            "agent": agent,
            "agent_version": version,
            "model": model,
            "model_provider": get("provider", row),
            "params": dump_json(redact(params)) if params else None,
            "status": status,
            "stop_reason": stop,
            "error_type": graded.error_type,
            "error_message": get("error", row),
            **score_columns(score),
            "grade_kind": next((k for n, _, k, _ in graded.grades if n == graded.primary_name), None),
            "started_at": started,
            "ended_at": ended,
            "duration_s": (ended - started).total_seconds() if started and ended and ended >= started else None,
            **usage,
            "usage_basis": basis,
            "n_steps": talk.n_steps,
            "n_messages": talk.n_messages,
            "n_tool_calls": talk.n_tool_calls,
            "n_tool_errors": talk.n_tool_errors,
            "trace_id": word(columns.get("trace", row)),
            "root_attempt_id": ident,
            "relation": "root",
            "system_prompt": system,
            "tools": tools,
            "is_truncated": talk.last == "person" or missing or talk.stop_reason in CUT,
            "has_compaction": False,
            "has_transcript": talk.n_messages > 0,
            "has_system_prompt": talk.system or system is not None,
            "has_tools": tools is not None,
            "trace_ref": unit.path.name if talk.n_messages else None,
            "grade_ref": unit.path.name if graded.grades else None,
            "source_format": self.name,
            "source_uri": unit.package_id,
            "source_digest": self.digest,
            "source_pos": pos,
            "metadata": dump_json(redact(rest)) if rest else None,
        }
        self.batch.rows["attempts"].append(attempt)
        self._grades(ident, graded, score)
        self._artifacts(ident, row, talk)

    def _write(self, ident: str, chat: Chat, pos: int) -> Talk:
        """Write the turns, and what is known of the model calls that made them."""
        rows = self._rows
        talk = rows.begin(ident)
        if any(map(_responses.is_item, chat.turns)):
            _responses.write(rows, chat.turns)
        else:
            _chat_turns.write(rows, chat.turns)
        for at, about in chat.calls.items():
            if at >= len(talk.agent_rows):
                continue
            step = talk.agent_rows[at]
            rows.set(step, model=about["model"], stop_reason=about["stop_reason"], llm_call_id=about["id"])
            if about["usage"]:
                rows.used(step, about["usage"], about["id"])
            if about["model"] is not None and about["model"] not in talk.models:
                talk.models.append(about["model"])
            if at == len(talk.agent_rows) - 1:
                talk.stop_reason = about["stop_reason"]
        rows.end()
        self._thinks += talk.thinks
        for note in talk.notes:
            self.tell(note.code, note.detail, pos, note.severity, attempt_id=ident)
        return talk

    def _trial(self, row: dict[str, Any]) -> tuple[str | None, int | None]:
        """Run and trial; the number of a repetition may stand at the end of the run's name."""
        columns = self.columns
        run = columns.get("run", row)
        if "trial" in columns.values:
            return word(run), number(columns.values["trial"])
        base = int(columns.one_based)
        if columns.run_trials:
            name, found = run_number(run)
            return (name, found - base) if found is not None and found >= base else (word(run), None)
        found = number(columns.get("trial", row))
        return word(run), found - base if found is not None and found >= base else None

    def _status(
        self, row: dict[str, Any], talk: Talk, graded: Graded, pos: int, ident: str
    ) -> tuple[str, str | None, Score | None]:
        """Status, native word and primary score; a crash that is the infrastructure's voids the score (R1)."""
        stop = self.columns.texts("status", row) or talk.stop_reason
        score = graded.primary
        if graded.error_type is not None:
            kind = self.options.rules.error(graded.error_type, graded=False)
        else:
            kind, known = self.options.rules.status(self.name, stop)
            if not known:
                detail = f"status {str(stop)[:80]!r} is not in the table; status unknown"
                self.tell("unknown_status", detail, pos, attempt_id=ident, field="status")
        if kind.voids_reward and score is not None and score.valid:
            score = voided(score, kind.status)
        return kind.status, stop, score

    def _times(self, row: dict[str, Any], pos: int, ident: str) -> tuple[datetime | None, datetime | None]:
        columns = self.columns
        if "started" not in columns.paths and "ended" not in columns.paths:
            return None, None
        start, naive = moment(columns.get("started", row))
        end, naive_end = moment(columns.get("ended", row))
        if naive or naive_end:
            self.tell("naive_time", "times without a zone were read as UTC", pos, "info", attempt_id=ident)
        return start, end

    def _rest(self, chat: Chat, row: dict[str, Any], graded: Graded, *, has_task: bool) -> dict[str, Any]:
        """The columns that went nowhere else."""
        mapped, used, params = self.columns.mapped, chat.used, chat.params
        rest: dict[str, Any] = {}
        for key, value in row.items():
            if value is None or key in used:
                continue
            meaning = mapped.get(key)
            if meaning is None:
                if key not in params:
                    rest[key] = value
            elif (meaning in TASK_MEANINGS and not has_task) or not taken(meaning, value):
                rest[key] = value
        for key, inner in self.columns.nested.items():
            if isinstance(rest.get(key), dict):
                rest[key] = {k: v for k, v in rest[key].items() if k not in inner or not isinstance(v, str)}
        rest |= graded.left
        if chat.mark:
            labels = ("verdict", "score", "judge")
            rest |= {k: row[k] for k, m in mapped.items() if m in labels and row.get(k) is not None}
        if self.columns.run_trials:
            path = self.columns.paths["run"][0]
            if row.get(path[0]) is not None:
                rest[path[0]] = row[path[0]]
        return rest

    def _grades(self, ident: str, graded: Graded, primary: Score | None) -> None:
        for name, found, kind, more in graded.grades:
            score = primary if found is graded.primary and primary is not None else found
            about = {"source_ref": self.unit.path.name} | more
            add_grade(self.batch, ident, name, score, kind=kind, primary=found is graded.primary, **about)

    def _artifacts(self, ident: str, row: dict[str, Any], talk: Talk) -> None:
        """What was taken out of the messages, and the patch and the log of the row."""
        out = self.batch.rows["artifacts"]
        out += [{"attempt_id": ident, **a} for a in talk.artifacts]
        for meaning, (kind, mime) in FILES.items():
            path = self.columns.paths.get(meaning, (None,))[0]
            content = self.columns.texts(meaning, row) if path is not None else None
            if path is None or content is None:
                continue
            data = content.encode("utf-8", "replace")
            out.append(
                {
                    "attempt_id": ident,
                    "kind": kind,
                    "name": path[-1],
                    "mime": mime,
                    "bytes": len(data),
                    "digest": PREFIX + sha256_hex(data),
                    "content": content if len(data) <= _LARGE_TEXT else None,
                }
            )
