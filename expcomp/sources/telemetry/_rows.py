"""From traces to attempts, tasks and grades: what is the same for every telemetry dialect."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from expcomp.sources._chat import Note, Row
from expcomp.sources._contract import attempt_id
from expcomp.sources._emit import add_attempt, add_grade, default_arm, voided
from expcomp.sources._json import dump_json
from expcomp.sources._units import add_tasks
from expcomp.sources._values import small, text
from expcomp.sources.telemetry._chat import Memo, read_input, read_output
from expcomp.sources.telemetry._grades import Scored, primary, read_score
from expcomp.sources.telemetry._media import Media
from expcomp.sources.telemetry._names import OPTIONS, Names, resolve
from expcomp.sources.telemetry._notes import talk_notes, trace_notes
from expcomp.sources.telemetry._spans import (
    AGENT,
    EVALUATOR,
    LLM,
    OTHER,
    TOOL,
    Group,
    Trace,
    Tree,
    absorb,
    arrange,
    clean,
    integer,
)
from expcomp.sources.telemetry._talk import Talk, Talker
from expcomp.sources.telemetry._turns import unwrap

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from expcomp.sources._contract import Batch, ReadOptions
    from expcomp.sources.errors_map import ErrorClass

_QUIET = frozenset({None, "UNSET", "DEFAULT"})
_LONG = 16_384


def write(
    batch: Batch,
    format_name: str,
    traces: Sequence[Trace],
    options: ReadOptions,
    *,
    defaults: Mapping[str, str] | None = None,
) -> None:
    """Add everything that the traces hold.

    Args:
        batch: Where rows go.
        format_name: Registry name, for the table of status words.
        traces: In the order of the load.
        options: `task_id`, `arm` and `trial` are names that are looked up in each trace.
        defaults: Names that are looked up when the user gives none.
    """
    known = [t for t in traces if _speaks_of_an_agent(batch, t)]
    names = resolve(batch, known, options, defaults or {})
    tasks: list[Row] = []
    attempts: list[Row] = []
    for trace in known:
        attempts += _Writer(batch, format_name, trace, options, names, tasks).run()
    add_tasks(batch, tasks, attempts)


def _speaks_of_an_agent(batch: Batch, trace: Trace) -> bool:
    if trace.grades or any(s.kind in (AGENT, LLM, TOOL, EVALUATOR) or s.grades for s in trace.spans) or not trace.spans:
        return bool(trace.spans)
    first = trace.spans[0]
    detail = f"trace {trace.ident} has {len(trace.spans)} spans and none of an agent, a model or a tool; left out"
    batch.diagnose(
        "not_an_agent_trace",
        detail,
        package_id=first.unit.package_id,
        source_uri=first.unit.package_id,
        source_pos=first.pos,
        severity="info",
    )
    return False


class _Writer:
    """Writes one trace."""

    def __init__(
        self, batch: Batch, format_name: str, trace: Trace, options: ReadOptions, names: Names, tasks: list[Row]
    ) -> None:
        self.batch = batch
        self.format = format_name
        self.trace = trace
        self.options = options
        self.names = names
        self.tasks = tasks
        self.tree: Tree = arrange(trace)

    def run(self) -> list[Row]:
        """Add the attempts of the trace; gives their rows."""
        top = self.tree.top
        _chain(top)
        absorb(top)
        rows: list[Row] = []
        stack: list[tuple[Group, Row | None]] = [(top, None)]
        while stack:
            group, parent = stack.pop()
            row = self._attempt(group, parent, rows[0] if rows else None)
            rows.append(row)
            _chain(group)
            stack += [(child, row) for child in reversed(group.children)]
        self._check(rows)
        return rows

    def _attempt(self, group: Group, parent: Row | None, root: Row | None) -> Row:
        trace, head = self.trace, group.heads[0]
        ident = attempt_id(self.format, head.unit.package_id, trace.ident, *(() if parent is None else (head.ident,)))
        talker = Talker(group)
        talk = talker.run()
        transcript = talker.dialogue.finish()
        is_root = parent is None
        if is_root:
            transcript.notes += trace_notes(trace, self.tree)
        transcript.notes += talk_notes(trace, group, talk)
        task, arm, trial = (self._named(option, transcript.notes, is_root=is_root) for option in OPTIONS)
        chosen = self._grades(ident, group, talk, is_root=is_root)
        status, error_type, error_message = self._status(
            group, transcript.notes, is_root=is_root, graded=chosen is not None
        )
        if chosen is not None:
            if status.voids_reward:
                chosen.score = voided(chosen.score, status.status)
            self._write_grade(ident, chosen, is_primary=True)
        columns = self._identity(group, talk)
        number = small(integer(trial))
        if trial is not None and number is None:
            transcript.notes.append(Note("bad_trial", f"the trial is {trial!r}, expected a whole number; left unknown"))
        own = number if is_root else None
        start, end = _times(group)
        row = add_attempt(
            self.batch,
            head.unit,
            ident,
            transcript,
            score=chosen.score if chosen is not None else None,
            native_attempt_id=trace.ident if is_root else head.ident,
            task_id=str(task) if task is not None and is_root else None,
            run_id=self._text("run", group),
            arm=str(arm)
            if arm is not None
            else default_arm(columns["agent"], columns["agent_version"], columns["model"]),
            trial=own,
            trial_source="native" if own is not None else "unknown",
            **columns,
            status=status.status,
            stop_reason=talk.stop,
            error_type=error_type,
            error_message=error_message,
            grade_kind=chosen.grade.kind if chosen is not None else None,
            grade_ref=(chosen.grade.ref or head.unit.path.name) if chosen is not None else None,
            started_at=start,
            ended_at=end,
            trace_id=trace.ident,
            root_attempt_id=root["attempt_id"] if root else ident,
            parent_attempt_id=parent["attempt_id"] if parent else None,
            parent_call_id=text(group.call.data.get("call_id")) if group.call is not None else None,
            relation="root" if is_root else "subagent",
            is_truncated=bool(talk.lost) or any(s.truncated for s in group.spans) or (is_root and not self.tree.roots),
            source_version=self._text("version", group),
            source_digest=head.digest,
            source_pos=head.pos,
            metadata=self._metadata(group, is_root=is_root),
        )
        for file in talk.media.files.values():
            self.batch.add("artifacts", attempt_id=ident, **file)
        if row["task_id"] is not None:
            spoken = next((m["content"] for m in transcript.messages if m["origin"] == "human"), None)
            target = self.trace.header.get("target")
            task_row = {"task_id": row["task_id"], "native_id": row["task_id"], "instruction": spoken}
            task_row |= {"target": dump_json(target) if target else None, "source_ref": head.unit.path.name}
            self.tasks.append(task_row)
        return row

    def _named(self, option: str, notes: list[Note], *, is_root: bool) -> Any:
        values = self.names.values.get(option)
        if values is None:
            return None
        value = values.get(self.trace.ident)
        if value is None and option in self.names.asked and is_root:
            name = getattr(self.options, option)
            notes.append(
                Note("option_not_found", f"this trace has nothing called {name!r}; its {option} is left unknown")
            )
        return value

    def _identity(self, group: Group, talk: Talk) -> dict[str, Any]:
        calls = group.of(LLM)
        models = [m for m in (text(s.data.get("model")) or text(s.data.get("request_model")) for s in calls) if m]
        served = [m for m in (text(s.data.get("model")) for s in calls) if m]
        provider = next((p for p in (text(s.data.get("provider")) for s in (*calls, *group.heads)) if p), None)
        agent = group.name or text(self.trace.header.get("agent"))
        version = next((v for v in (text(h.data.get("agent_version")) for h in reversed(group.heads)) if v), None)
        resource = group.heads[0].resource
        if version is None and agent is not None and resource.get("service.name") == agent:
            version = text(resource.get("service.version"))
        params = clean(talk.params)
        return {
            "agent": agent,
            "agent_version": version,
            "model": next(iter(served or models), None),
            "model_provider": provider,
            "params": dump_json(params) if params else None,
            "system_prompt": talk.system,
            "tools": dump_json(list(talk.tools.values())) if talk.tools else None,
        }

    def _text(self, name: str, group: Group) -> str | None:
        value = self.trace.header.get(name)
        for head in group.heads:
            value = value if value is not None else head.data.get(name)
        return value if isinstance(value, str) else None if value is None else str(value)

    def _status(
        self, group: Group, notes: list[Note], *, is_root: bool, graded: bool
    ) -> tuple[ErrorClass, str | None, str | None]:
        rules = self.options.rules
        heads = group.heads if not is_root or self.tree.roots else []
        word = text(self.trace.header.get("word")) if is_root else None
        said = next((h for h in heads if h.word not in _QUIET), None)
        word = word or (said.word if said is not None else heads[0].word if heads else None)
        source = said
        last = next(reversed(group.of(LLM)), None)
        if word in _QUIET and last is not None and last.word in ("ERROR", "error"):
            # Retries are siblings: only the last call counts, and it failed.
            word, source = last.word, last
        if heads and all(h.end is None for h in heads) and word in _QUIET:
            return rules.status(self.format, _running(self.format))[0], None, None
        failed = word in ("ERROR", "error")
        kind = source.error_type if source is not None and failed else None
        message = source.error_message if source is not None and failed else None
        if failed and kind is not None and kind.rsplit(".", 1)[-1] in rules.errors:
            return rules.error(kind, graded=graded), kind, message
        status, is_known = rules.status(self.format, word)
        if not is_known:
            notes.append(Note("unknown_status", f"the status is {word!r}, which no table knows; left unknown"))
        return status, kind, message

    def _grades(self, ident: str, group: Group, talk: Talk, *, is_root: bool) -> Scored | None:
        """Add all grades but the primary one, which is given back."""
        heads = {h.ident for h in group.heads}
        top = list(self.trace.grades) if is_root else []
        for span in group.spans:
            if span.ident in heads and (span.kind != LLM or len(group.spans) == 1):
                top += span.grades
                continue
            for grade in span.grades:
                if span.kind not in (LLM, TOOL):
                    grade.metadata = grade.metadata | {"span": span.name}
                self._write_grade(ident, Scored(grade, read_score(grade), talk.steps.get(span.ident)))
        scored = [Scored(g, read_score(g)) for g in top]
        chosen = primary(scored)
        for entry in scored:
            if entry is not chosen:
                self._write_grade(ident, entry)
        if chosen is None and scored:
            names = ", ".join(sorted({e.grade.name for e in scored}))
            detail = (
                f"{len(scored)} grades ({names}) and none of them is the verdict; score and passed are left unknown"
            )
            self.batch.diagnose(
                "no_primary_grade", detail, attempt_id=ident, field="score", severity="info", **self._where(group)
            )
        return chosen

    def _write_grade(self, ident: str, entry: Scored, *, is_primary: bool = False) -> None:
        grade = entry.grade
        add_grade(
            self.batch,
            ident,
            grade.name,
            entry.score,
            kind=grade.kind,
            primary=is_primary,
            step_index=entry.step,
            grader=grade.grader,
            rationale=grade.rationale,
            created_at=grade.created_at,
            source_ref=grade.ref,
            metadata=dump_json(clean(grade.metadata)) if grade.metadata else None,
        )

    def _where(self, group: Group) -> dict[str, Any]:
        unit = group.heads[0].unit.package_id
        return {"package_id": unit, "source_uri": unit, "source_pos": group.heads[0].pos}

    def _metadata(self, group: Group, *, is_root: bool) -> str | None:
        head = group.heads[0]
        out: Row = {}
        if is_root:
            out = {k: self.trace.header.get(k) for k in ("session", "user", "name")}
            out["tags"] = self.trace.tags or None
            out["expectations"] = self.trace.header.get("target")
            for label in self.trace.labels:
                out |= {k: v for k, v in label.items() if k not in out}
            out["resource"] = head.resource or None
        out["session"] = out.get("session") or head.data.get("session")
        for name in ("input", "output"):
            value = self.trace.header.get(name) if is_root else None
            if head.kind != LLM:
                out[name] = value if value is not None else head.data.get(name)
        for one in reversed(group.heads):
            out |= {k: v for k, v in one.rest.items() if k not in out}
        others = Counter(s.name for s in group.spans if s.kind == OTHER and s not in group.heads)
        out["other_spans"] = dict(others) if others else None
        # JSON text is read before secrets are taken out, so that none hides in it.
        read = clean({k: unwrap(v) for k, v in out.items()})
        kept = {k: _short(v) for k, v in read.items() if v not in (None, {}, [], "")}
        return dump_json(kept) if kept else None

    def _check(self, rows: list[Row]) -> None:
        """Sums in a header are checked against the spans, not trusted (R15); they count where no span tells anything."""
        sums = {name: said for name, said in (self.trace.header.get("sums") or {}).items() if said is not None}
        if sums and all(r["usage_basis"] == "missing" for r in rows):
            rows[0].update(sums, usage_basis="reported")
            return
        for name, said in sums.items():
            found = [r[name] for r in rows if r[name] is not None]
            if not found or abs(sum(found) - said) <= 1e-6 * max(1.0, abs(said)):
                continue
            detail = f"the header says {name} {said}, the spans sum to {round(sum(found), 9)}; the spans count"
            self.batch.diagnose(
                "header_differs", detail, attempt_id=rows[0]["attempt_id"], field=name, **self._where(self.tree.top)
            )


def _chain(group: Group) -> None:
    """Runs of one agent after each other that continue one conversation are one attempt."""
    out: list[Group] = []
    for child in group.children:
        before = next((g for g in reversed(out) if g.name == child.name and child.name is not None), None)
        if before is not None and not before.children and not child.children and _continues(before, child):
            before.spans += child.spans
            before.heads = [*before.heads, *child.heads]
        else:
            out.append(child)
    group.children = out


def _continues(first: Group, second: Group) -> bool:
    calls, more = first.of(LLM), second.of(LLM)
    if not calls or not more:
        return False
    media = Media()
    opening = read_input(more[0].data.get("input"), Memo(), media)
    history = read_input(calls[-1].data.get("input"), Memo(), media)
    answer = read_output(calls[-1].data.get("output"), media)
    if opening is None or history is None or answer is None:
        return False
    keys = [t.key for t in (*history.turns, *answer.turns)]
    return [t.key for t in opening.turns[: len(keys)]] == keys


def _running(format_name: str) -> str:
    return {"langsmith": "pending", "mlflow": "IN_PROGRESS"}.get(format_name, "RUNNING")


def _times(group: Group) -> tuple[Any, Any]:
    starts = [s.start for s in (*group.heads, *group.spans) if s.start is not None]
    ends = [s.end for s in (*group.heads, *group.spans) if s.end is not None]
    return min(starts, default=None), max(ends, default=None)


def _short(value: Any) -> Any:
    """The value, or how long it is when it is too long for metadata."""
    size = len(value) if isinstance(value, str) else len(dump_json(value)) if isinstance(value, dict | list) else 0
    return {"omitted_chars": size} if size > _LONG else value
