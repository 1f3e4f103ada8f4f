"""Lines of `traces.jsonl`: a trace, or an episode with the traces of all its agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from expcomp.io.digest import PREFIX, sha256_hex
from expcomp.sources._chat import Note, Transcript
from expcomp.sources._contract import attempt_id
from expcomp.sources._dialogue import USAGE
from expcomp.sources._emit import add_attempt, add_grade, default_arm, voided
from expcomp.sources._json import canonical, dump_json
from expcomp.sources._values import Score, count, items, obj, redact, score_of, text
from expcomp.sources.verifiers._chat import add_images, as_messages, class_names, spans, tool_schemas
from expcomp.sources.verifiers._graph import Graph, call_usage, read_graph
from expcomp.sources.verifiers._rows import FORMAT, error_meaning

if TYPE_CHECKING:
    from expcomp.sources._chat import Row
    from expcomp.sources._contract import Batch, ReadOptions, Unit
    from expcomp.sources.errors_map import ErrorClass
    from expcomp.sources.verifiers._run import Run

_LIMITS = ("max_turns", "max_input_tokens", "max_output_tokens", "max_total_tokens")
_TARGETS = ("answer", "target", "solution", "reference", "ground_truth")
_TASK_MAPPED = frozenset({"id", "name", "prompt", "system_prompt", "image", *_TARGETS})
_TRACE_MAPPED = frozenset(
    "id version task agent nodes calls tools rewards metrics is_completed ok stop_condition errors mm_token_type_id_map".split()
)
_EPISODE_MAPPED = frozenset({"id", "env", "task", "run", "traces", "errors", "ok"})


def read_line(batch: Batch, unit: Unit, pos: int, raw: Row, run: Run, digest: str, options: ReadOptions) -> list[Row]:
    """Add an attempt for each trace of a line; give the tasks. An episode that failed before any trace is an attempt too."""
    if "nodes" in raw:
        return [_read(batch, unit, pos, 0, raw, {}, run, digest, options)]
    traces = raw.get("traces")
    tasks: list[Row] = []
    for index, trace in enumerate(items(traces)):
        if isinstance(trace, dict):
            tasks.append(_read(batch, unit, pos, index, trace, raw, run, digest, options))
            continue
        detail = f"traces[{index}] of line {pos} is {type(trace).__name__}, expected an object; left out"
        batch.diagnose("bad_row", detail, package_id=unit.package_id, source_uri=unit.package_id, source_pos=pos)
    if not items(traces):
        detail = f"episode {pos} has no trace: it ended before an agent began, or holds none; kept as an attempt without transcript"
        batch.diagnose(
            "episode_without_trace", detail, package_id=unit.package_id, source_uri=unit.package_id, source_pos=pos
        )
        tasks.append(
            _read(batch, unit, pos, 0, {k: raw.get(k) for k in ("task", "errors", "ok")}, raw, run, digest, options)
        )
    return tasks


def _read(
    batch: Batch,
    unit: Unit,
    pos: int,
    index: int,
    trace: Row,
    episode: Row,
    run: Run,
    digest: str,
    options: ReadOptions,
) -> Row:
    native = text(trace.get("id"))
    ident = attempt_id(FORMAT, unit.package_id, native) if native else attempt_id(FORMAT, unit.package_id, pos, index)
    agent = obj(trace.get("agent"))
    config = obj(agent.get("config"))
    calls = [obj(c) for c in items(trace.get("calls"))]
    asked = text(config.get("model")) or run.model
    model = next((m for c in calls if (m := text(c.get("model")))), None) or asked
    graph = read_graph(trace, trainable=agent.get("trainable") is not False, model=model)
    add_images(batch, ident, graph.images)
    meaning, error = _error(trace, options)
    score = _grades(batch, unit, ident, trace, meaning, graph)
    for note in graph.transcript.notes:
        note.pos = pos
    start, end = spans(obj(trace.get("timing")))
    word = text(trace.get("stop_condition"))
    harness, seat = text(obj(config.get("harness")).get("id")) or run.harness, text(agent.get("name"))
    arm = default_arm(harness, text(obj(config.get("harness")).get("version")), model)
    task = _task(unit, obj(trace.get("task")) or obj(episode.get("task")), episode, run)
    said, known = options.rules.status(FORMAT, word)
    limit = word is not None and known and said.status == "limit"
    ran = obj(episode.get("run")) or obj(trace.get("run"))
    add_attempt(
        batch,
        unit,
        ident,
        graph.transcript,
        score=score,
        usage=_usage(calls),
        usage_basis=_basis(calls, graph.transcript),
        native_attempt_id=native,
        task_id=task["task_id"],
        run_id=text(ran.get("name")) or text(ran.get("id")) or run.run_id,
        arm=f"{seat}:{arm}" if seat not in (None, "agent") and arm else arm or seat,
        agent=harness or seat,
        model=model,
        params=_params(config, run, asked if asked != model else None),
        status=_status(trace, word, meaning, options),
        stop_reason=word,
        error_type=error[0] if error else None,
        error_message=error[1] if error else None,
        started_at=start,
        ended_at=end,
        grade_kind="verifier",
        grade_ref=unit.path.name,
        trace_id=native,
        tools=tool_schemas(trace.get("tools")) or tool_schemas(graph.tools),
        is_truncated=limit or any(c.get("finish_reason") == "length" for c in calls[-1:]),
        source_version=str(trace["version"]) if isinstance(trace.get("version"), int | str) else "1",
        source_digest=digest,
        source_pos=pos,
        metadata=_metadata(trace, episode, agent),
    )
    return task


def _task(unit: Unit, recorded: Row, episode: Row, run: Run) -> Row:
    """The task as the trace records it; older traces hold its data without type."""
    data = obj(recorded.get("data")) or {k: v for k, v in recorded.items() if k not in ("type", "key", "hash")}
    kind = text(recorded.get("type")) or "task"
    dataset = text(obj(episode.get("env")).get("id")) or run.dataset
    content = {k: v for k, v in data.items() if k != "idx"}
    digest = sha256_hex(canonical(content))
    native = next((str(data[k]) for k in ("id", "name") if isinstance(data.get(k), int | str) and data[k] != ""), None)
    prompt = data.get("prompt")
    asked = [
        text(m.get("content")) for m in as_messages(prompt, "user") if isinstance(m, dict) and m.get("role") == "user"
    ]
    target = {k: data[k] for k in _TARGETS if data.get(k) is not None}
    rest = {k: v for k, v in data.items() if k not in _TASK_MAPPED and v not in (None, [], {})}
    # Without a name of its own, or with one that several contents share, the content tells tasks apart.
    shown = f"{native}@{digest[:8]}" if native else digest[:12]
    return {
        "task_id": f"{dataset}/{kind}/{shown}",
        "dataset": dataset,
        "domain": kind,
        "native_id": native or text(recorded.get("key")),
        "instruction": asked[-1] if asked else None,
        "system_prompt": text(data.get("system_prompt")),
        "target": dump_json(target) if target else None,
        "environment": text(data.get("image")),
        "task_digest": PREFIX + digest,
        "source_ref": unit.path.name,
        "metadata": dump_json(redact(rest)) if rest else None,
    }


def _error(trace: Row, options: ReadOptions) -> tuple[ErrorClass | None, tuple[str | None, str | None] | None]:
    """The error that ended a trace. Errors of earlier tries of a trace that succeeded are none."""
    errors = [obj(e) for e in items(trace.get("errors"))]
    ok = trace.get("ok")
    word = text(trace.get("stop_condition"))
    failed = ok is False if isinstance(ok, bool) else word in (None, "error")
    if not errors or not failed:
        return None, None
    last = errors[-1]
    names = list(class_names(last))
    return error_meaning(names, options, graded=bool(_values(trace))), (
        text(last.get("type")),
        text(last.get("message")),
    )


def _status(trace: Row, word: str | None, meaning: ErrorClass | None, options: ReadOptions) -> str:
    if meaning is not None:
        return meaning.status
    said, known = options.rules.status(FORMAT, word)
    if word is not None and known:
        return said.status
    if trace.get("ok") is True or (trace.get("is_completed") is True and "ok" not in trace):
        return "completed"
    return "unknown"


def _values(trace: Row) -> dict[str, tuple[Any, float]]:
    """Rewards by name as value and weight; older traces hold the weighted number."""
    out: dict[str, tuple[Any, float]] = {}
    for name, reward in obj(trace.get("rewards")).items():
        if isinstance(reward, dict):
            weight = score_of(reward.get("weight", 1.0), None, verdict=False).value
            out[name] = (reward.get("score"), 1.0 if weight is None else weight)
        elif reward is not None:
            out[name] = (reward, 1.0)
    return out


def _grades(batch: Batch, unit: Unit, ident: str, trace: Row, meaning: ErrorClass | None, graph: Graph) -> Score:
    """Add a grade for the sum, each reward and each metric; give the sum, which is the source's own reward."""
    values = _values(trace)
    asked = obj(trace.get("rewards"))
    seen = {name: score_of(raw, None, verdict=False) for name, (raw, _) in values.items()}
    total: Score
    if values and len(values) == len(asked) and all(s.value is not None for s in seen.values()):
        total = score_of(sum((s.value or 0.0) * values[n][1] for n, s in seen.items()), None, verdict=False)
    elif values:
        broken = sorted(set(asked) - {n for n, s in seen.items() if s.value is not None})
        graph.transcript.notes.append(
            Note("reward_incomplete", f"no usable reward under {', '.join(broken)[:200]}; no sum")
        )
        total = Score(None, None, None, None, valid=False, issue="reward_incomplete")
    else:
        total = score_of(trace.get("reward"), None, verdict=False)
        if total.issue is not None:
            graph.transcript.notes.append(Note(total.issue, "the trace holds no reward: it was not scored"))
    void = meaning is not None and meaning.voids_reward
    if void and total.issue is None:
        total = voided(total, "infrastructure")
    common: dict[str, Any] = {
        "kind": "verifier",
        "grader": FORMAT,
        "source_ref": unit.path.name,
    }
    add_grade(batch, ident, "reward", total, primary=True, **common)
    parts = {("rewards/reward" if n == "reward" else n): (s, {"weight": values[n][1]}) for n, s in seen.items()}
    if list(parts) == ["rewards/reward"]:
        parts = {}
    for name, raw in obj(trace.get("metrics")).items():
        if raw is not None:
            parts[f"metrics/{name}" if name in parts or name == "reward" else name] = (
                score_of(raw, None, verdict=False),
                {},
            )
    for name, (score, more) in parts.items():
        kept = voided(score, "infrastructure") if void and score.issue is None else score
        add_grade(batch, ident, name, kept, primary=False, metadata=dump_json(more) if more else None, **common)
    return total


def _usage(calls: list[Row]) -> Row | None:
    """Usage summed over all calls, also those whose message was thrown away; None leaves it to the steps."""
    told = [call_usage(c.get("usage")) for c in calls if isinstance(c.get("usage"), dict)]
    if not told:
        return None
    out: Row = {}
    for name in USAGE:
        values = [u[name] for u in told if u.get(name) is not None]
        out[name] = sum(values) if values else None
    for name in ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_tokens"):
        out[name] = count(out[name])
    return out


def _basis(calls: list[Row], transcript: Transcript) -> str:
    known = any(isinstance(c.get("usage"), dict) for c in calls)
    return "summed" if known or any(s.get(n) is not None for s in transcript.steps for n in USAGE) else "missing"


def _params(config: Row, run: Run, alias: str | None) -> str | None:
    sampling = {k: v for k, v in obj(config.get("sampling")).items() if v is not None}
    limits = {k: config[k] for k in _LIMITS if config.get(k) is not None}
    kept = redact(sampling | limits | ({"model_asked_for": alias} if alias else {}))
    return dump_json(kept) if kept else run.params


def _metadata(trace: Row, episode: Row, agent: Row) -> str | None:
    rest = {k: v for k, v in trace.items() if k not in _TRACE_MAPPED and v not in (None, [], {})}
    errors = [{k: v for k, v in obj(e).items() if k != "traceback"} for e in items(trace.get("errors"))]
    around = {
        k: v for k, v in episode.items() if k not in _EPISODE_MAPPED and not k.startswith("num_") and v is not None
    }
    if text(episode.get("id")):
        around["id"] = episode["id"]
    rest |= {k: v for k, v in (("errors", errors), ("episode", around)) if v}
    for name in ("name", "trainable"):
        if agent.get(name) is not None:
            rest[f"agent_{name}"] = agent[name]
    kept = redact(rest)
    return dump_json(kept) if kept else None
