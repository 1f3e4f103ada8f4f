"""Rows of one inspect sample: its attempt and its task."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from expcomp.io.digest import PREFIX, sha256_hex
from expcomp.sources._chat import Note
from expcomp.sources._contract import attempt_id
from expcomp.sources._dialogue import USAGE
from expcomp.sources._emit import add_attempt
from expcomp.sources._json import canonical, dump_json
from expcomp.sources._values import Score, amount, items, moment, obj, redact, text, whole
from expcomp.sources.errors_map import class_in_traceback
from expcomp.sources.inspect_log._content import Reader, said_by
from expcomp.sources.inspect_log._dialogue import read_sample, usage_of
from expcomp.sources.inspect_log._events import Events, scan
from expcomp.sources.inspect_log._grades import add_grades, scores_of
from expcomp.sources.inspect_log._log import Log, short

if TYPE_CHECKING:
    from expcomp.sources._chat import Transcript
    from expcomp.sources._contract import Batch, ReadOptions, Unit

_STORE_LARGEST = 1 << 14
_TRACE_LARGEST = 4000
_TEXT_LARGEST = 500
_SAMPLE_FACTS = (
    "working_time",
    "model_fallbacks",
    "role_usage",
    "turn_count",
    "token_limit_usage",
    "invalidation",
    "limit",
)


@dataclass(slots=True)
class Rows:
    """What the samples of a read have in common while they are added.

    Attributes:
        tasks: Task rows, the first of each content.
    """

    tasks: list[dict[str, Any]] = field(default_factory=list)
    unit: Any = None
    log: Any = None
    digest: str | None = None
    judged: int = 0
    stores: int = 0
    _known: set[tuple[str, str]] = field(default_factory=set)
    _idents: Counter[str] = field(default_factory=Counter)
    _shared: dict[str, str] = field(default_factory=dict)

    def begin(self, unit: Unit, log: Log, digest: str | None) -> None:
        """Start with the samples of a log."""
        self.unit, self.log, self.digest = unit, log, digest
        self.judged = self.stores = 0
        self._idents.clear()

    def end(self, batch: Batch) -> None:
        """Say once what was left out of every sample of the log."""
        told = {
            "judge_transcript_dropped": (
                self.judged,
                "dialogues of judges were left out; their verdicts are in grades",
            ),
            "store_dropped": (self.stores, f"stores of more than {_STORE_LARGEST} bytes were left out"),
        }
        for code, (count, what) in told.items():
            if count:
                uri = self.unit.package_id
                batch.diagnose(code, f"{count} {what}", package_id=uri, source_uri=uri, severity="info")

    def ident(self, key: str) -> str:
        """Id of an attempt; a key that comes again is told apart by its count."""
        self._idents[key] += 1
        again = self._idents[key]
        return attempt_id("inspect", self.unit.package_id, key if again == 1 else f"{key}#{again}")

    def shared(self, written: str | None) -> str | None:
        """The one copy of a text that many samples repeat."""
        return None if written is None else self._shared.setdefault(written, written)

    def task(self, row: dict[str, Any]) -> None:
        """Remember a task unless the same content is known under its id."""
        key = (row["task_id"], row["task_digest"])
        if key not in self._known:
            self._known.add(key)
            self.tasks.append(row)


def add_sample(
    batch: Batch, rows: Rows, sample: dict[str, Any], pos: int, member: str | None, options: ReadOptions
) -> None:
    """Add a sample: attempt, transcript, grades, task."""
    log, unit = rows.log, rows.unit
    native, epoch = sample.get("id"), whole(sample.get("epoch"))
    ident = rows.ident(member or f"{dump_json(native)}/{epoch}")
    events = scan(sample, log.model)
    reader = Reader(sample.get("attachments") or obj(sample.get("transcript")).get("content"))
    talk, naive = read_sample(sample, events, reader)
    status, void, error_type = _ending(sample, log, talk, options)
    score, kind, judged = add_grades(batch, ident, sample, log, events, void=void, ref=unit.path.name)
    rows.judged += judged
    _notes(talk, sample, events, score, naive=naive)
    start, _ = moment(sample.get("started_at") or events.first)
    end, _ = moment(sample.get("completed_at") or events.last)
    own = next((c.event for c in events.calls if c.own), {})
    asked = obj(own.get("config"))
    trial = epoch - 1 if epoch is not None and 1 <= epoch < 2**31 else None
    task_id = f"{log.dataset}/{native}" if isinstance(native, int | str) and not isinstance(native, bool) else None
    if task_id is None:
        talk.notes.append(
            Note("missing_task_id", f"sample has no id (found {type(native).__name__}); it belongs to no task")
        )
    tools = next((t for c in events.calls if c.own and (t := items(c.event.get("tools")))), None)
    error, limit = obj(sample.get("error")), obj(sample.get("limit"))
    params = log.params | obj(redact({k: v for k, v in asked.items() if v is not None and k != "system_message"}))
    row = add_attempt(
        batch,
        unit,
        ident,
        talk,
        score=score,
        usage=_usage(talk, sample, log, events),
        native_attempt_id=f"{native}/{epoch}",
        task_id=task_id,
        run_id=log.run_id,
        arm=log.arm,
        trial=trial,
        trial_source="native" if trial is not None else "unknown",
        seed=whole(asked.get("seed")),
        agent=log.agent,
        model=log.model or text(own.get("model")),
        model_provider=log.model.partition("/")[0] if log.model and "/" in log.model else None,
        params=rows.shared(dump_json(params)) if params else None,
        status=status,
        stop_reason=text(limit.get("type")) or text(obj(sample.get("output")).get("stop_reason")) or _stop(talk),
        error_type=error_type,
        error_message=text(error.get("message")),
        grade_kind=kind,
        started_at=start,
        ended_at=end,
        duration_s=amount(sample.get("total_time")),
        trace_id=text(sample.get("uuid")),
        system_prompt=rows.shared(text(asked.get("system_message")) or log.system_prompt),
        tools=rows.shared(dump_json(reader.resolve(tools))) if tools else None,
        is_truncated=bool(limit) or bool(error),
        grade_ref=unit.path.name if kind is not None else None,
        source_version=log.version,
        source_digest=rows.digest,
        source_pos=pos,
        metadata=dump_json(_metadata(rows, sample, error)),
    )
    for found in reader.artifacts.values():
        batch.add("artifacts", attempt_id=ident, **found)
    if task_id is not None:
        task = _task(task_id, sample, log, reader, unit)
        row["_task_digest"] = task["task_digest"]
        rows.task(task)


def _ending(
    sample: dict[str, Any], log: Log, talk: Transcript, options: ReadOptions
) -> tuple[str, str | None, str | None]:
    """Status, why a score is not to be trusted, and class of the error. A limit is no error (R2)."""
    void = None
    if sample.get("invalidation"):
        void = "invalidated"
    error = sample.get("error")
    if error is not None:
        found = class_in_traceback(text(obj(error).get("traceback")))
        if found is None:
            found = class_in_traceback((text(obj(error).get("message")) or "").partition("(")[0] + ":")
        meaning = options.rules.error(found, graded=bool(scores_of(sample, log)))
        return meaning.status, "crashed" if meaning.voids_reward else void, found
    limit = sample.get("limit")
    if limit is not None:
        return "limit", void, None
    if not talk.messages and not sample.get("output"):
        return "unknown", void, None
    return "completed", void, None


def _stop(talk: Transcript) -> str | None:
    steps = talk.agent_steps()
    return steps[-1].get("stop_reason") if steps else None


def _notes(talk: Transcript, sample: dict[str, Any], events: Events, score: Score | None, *, naive: bool) -> None:
    retries = items(sample.get("error_retries"))
    if retries:
        last = str(obj(retries[-1]).get("message"))[:200]
        detail = f"{len(retries)} tries of this sample failed before and are not loaded; the last: {last}"
        talk.notes.append(Note("error_retries", detail, "info"))
    if events.intermediate:
        detail = f"{events.intermediate} scores were taken on the way; only the final ones are loaded"
        talk.notes.append(Note("intermediate_scores", detail, "info"))
    if naive:
        talk.notes.append(Note("naive_time", "times without a zone were read as UTC", "info"))
    if score is not None and score.issue is not None and score.issue != "crashed":
        talk.notes.append(Note(score.issue, f"the sample's score cannot be used: {score.issue}", "info"))


def _usage(talk: Transcript, sample: dict[str, Any], log: Log, events: Events) -> dict[str, Any] | None:
    """Null when model calls say what they used; else the sample's total, where no judge or other role is in it."""
    if any(step.get(name) is not None for step in talk.agent_steps() for name in USAGE):
        return None
    used = obj(sample.get("model_usage"))
    others = set(obj(sample.get("role_usage"))) - {"", "default"}
    if len(used) != 1 or others or events.judges or events.foreign or any("model_graded" in n for n in log.order):
        return None
    model, found = next(iter(used.items()))
    if log.model is not None and short(model) != short(log.model):
        return None
    return dict.fromkeys(USAGE) | usage_of(found)


def _metadata(rows: Rows, sample: dict[str, Any], error: dict[str, Any]) -> dict[str, Any]:
    out = dict(rows.log.about)
    out |= {k: sample[k] for k in _SAMPLE_FACTS if sample.get(k)}
    trace = text(error.get("traceback"))
    if trace:
        out["traceback"] = trace[-_TRACE_LARGEST:]
    retries = [str(obj(r).get("message"))[:_TEXT_LARGEST] for r in items(sample.get("error_retries"))]
    if retries:
        out["error_retries"] = retries
    store = redact(obj(sample.get("store")))
    if store:
        if len(dump_json(store)) <= _STORE_LARGEST:
            out["store"] = store
        else:
            rows.stores += 1
    return obj(redact(out))


def _task(task_id: str, sample: dict[str, Any], log: Log, reader: Reader, unit: Unit) -> dict[str, Any]:
    asked = reader.resolve(sample.get("input"))
    target, choices = sample.get("target"), [c for c in items(sample.get("choices")) if isinstance(c, str)]
    sandbox = sample.get("sandbox") if sample.get("sandbox") is not None else log.sandbox
    about = {k: sample[k] for k in ("metadata", "files", "setup", "description") if sample.get(k)}
    content = {"input": asked, "choices": choices, "target": target}
    return {
        "task_id": task_id,
        "dataset": log.dataset,
        "native_id": str(sample.get("id")),
        "instruction": said_by(asked),
        "target": dump_json(target) if target not in (None, "", []) else None,
        "choices": choices or None,
        "environment": _sandbox(sandbox),
        "task_digest": PREFIX + sha256_hex(canonical(content)),
        "source_ref": unit.path.name,
        "metadata": dump_json(redact(about)) if about else None,
    }


def _sandbox(raw: Any) -> str | None:
    if isinstance(raw, str):
        return raw
    kind, config = text(obj(raw).get("type")), obj(raw).get("config")
    return ":".join(p for p in (kind, config if isinstance(config, str) else None) if p) or None
