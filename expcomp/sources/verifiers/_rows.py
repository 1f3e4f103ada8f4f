"""Rows of `results.jsonl`: one rollout each, with one column per reward function (verifiers before its trace graph)."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from expcomp.io.digest import PREFIX, sha256_hex
from expcomp.sources._contract import attempt_id
from expcomp.sources._dialogue import Dialogue
from expcomp.sources._emit import add_attempt, add_grade, voided
from expcomp.sources._json import canonical, dump_json
from expcomp.sources._values import Score, amount, count, items, obj, redact, score_of, text
from expcomp.sources.verifiers._chat import Writer, add_images, as_messages, class_names, spans, tool_schemas

if TYPE_CHECKING:
    from expcomp.sources._chat import Row
    from expcomp.sources._contract import Batch, ReadOptions, Unit
    from expcomp.sources.errors_map import ErrorClass
    from expcomp.sources.verifiers._run import Run

FORMAT = "verifiers"
_FIXED = frozenset(
    "id example_id prompt completion task answer info reward generation_ms scoring_ms total_ms timing metrics error "
    "error_chain long_error_chain is_completed is_truncated stop_condition tool_defs oai_tools token_usage trajectory".split()
)
_TOOLS = ("oai_tools", "tool_defs")


@dataclass(slots=True)
class Ids:
    """Which ids of a file stand for which tasks: an id is trusted only where the two go together."""

    tasks: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    ids: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def add(self, native: str, task: str) -> None:
        """Note a row."""
        self.tasks[native].add(task)
        self.ids[task].add(native)

    def trusted(self, native: str) -> bool:
        """Whether the id stands for one task and that task has no other id."""
        tasks = self.tasks.get(native, set())
        return len(tasks) == 1 and len(self.ids[next(iter(tasks))]) == 1


def read_row(
    batch: Batch, unit: Unit, pos: int, raw: Row, run: Run, digest: str, options: ReadOptions, ids: Ids
) -> Row:
    """Add the attempt of a row; give its task."""
    ident = attempt_id(FORMAT, unit.package_id, pos)
    dialogue = Dialogue(user_origin="simulator")
    writer = Writer(dialogue)
    writer.list(raw.get("prompt"), prompt=True, place="prompt")
    n_prompt = len(dialogue.out.messages)
    writer.list(raw.get("completion"), prompt=False, place="completion")
    _token_ids(dialogue, raw.get("trajectory"), n_prompt)
    transcript = dialogue.finish()
    for note in transcript.notes:
        note.pos = pos
    add_images(batch, ident, writer.images)
    info, tools = _info(raw, run)
    task = _task(unit, raw, run, info)
    native = next((str(raw[k]) for k in ("example_id", "id") if isinstance(raw.get(k), int | str)), None)
    if native is not None:
        ids.add(native, task["task_id"])
        task["native_id"] = native
    score, meaning, error = _score(raw, options)
    named = functions(raw, run)
    _grades(batch, unit, ident, named, score, error, meaning)
    if score.issue is not None:
        detail = f"the reward of row {pos} is not used: {score.issue}; it is {str(raw.get('reward'))[:60]}"
        batch.diagnose(
            score.issue,
            detail,
            package_id=unit.package_id,
            source_uri=unit.package_id,
            source_pos=pos,
            attempt_id=ident,
            field="reward",
        )
    word = text(raw.get("stop_condition"))
    timing = obj(raw.get("timing"))
    start, end = spans(timing)
    took = amount(timing.get("total_ms", raw.get("total_ms"))) or None
    if end is None and start is not None and took is not None:
        try:
            end = start + timedelta(milliseconds=took)
        except OverflowError:
            end = None
    last = transcript.messages[-1] if len(transcript.messages) > n_prompt else {}
    add_attempt(
        batch,
        unit,
        ident,
        transcript,
        score=score,
        usage=_usage(raw),
        native_attempt_id=None if native is None else f"{native}/{pos}",
        task_id=task["task_id"],
        run_id=run.run_id,
        model=run.model,
        params=run.params,
        status=_status(raw, word, meaning, options),
        stop_reason=word,
        error_type=error[0] if error else None,
        error_message=error[1] if error else None,
        started_at=start,
        ended_at=end,
        duration_s=took / 1000 if took is not None else None,
        grade_kind="verifier",
        grade_ref=unit.path.name,
        tools=tools,
        is_truncated=raw.get("is_truncated") is True or bool(last.get("tool_calls")),
        source_version="0",
        source_digest=digest,
        source_pos=pos,
        metadata=_metadata(raw, named, info, run),
    )
    return task


def _info(raw: Row, run: Run) -> tuple[Any, str | None]:
    """The `info` column without the tool schemas, and those as JSON text."""
    info = raw.get("info")
    schemas = next((s for k in _TOOLS for v in (raw.get(k), obj(info).get(k)) if (s := tool_schemas(v))), None)
    if isinstance(info, dict):
        info = {k: v for k, v in info.items() if k not in _TOOLS}
    return info or None, schemas or run.tools


def _task(unit: Unit, raw: Row, run: Run, info: Any) -> Row:
    """The task of a row: prompt and answer decide, since ids need not follow them.

    What else tells tasks apart counts only where those say nothing: `info` without an answer, the id without a prompt.
    """
    prompt = [m for m in as_messages(raw.get("prompt"), "user") if isinstance(m, dict)]
    said = [[m.get("role"), m.get("content"), m.get("tool_calls") or None] for m in prompt]
    answer = raw.get("answer")
    asked: dict[str, Any] = {"prompt": said, "answer": None if answer == "" else answer}
    if asked["answer"] is None and info:
        asked["info"] = info
    if not any(m.get("content") for m in prompt):
        asked["id"] = raw.get("example_id", raw.get("id"))
    digest = sha256_hex(canonical(asked))
    domain = text(raw.get("task")) or "default"
    humans = [m.get("content") for m in prompt if m.get("role") == "user"]
    system = next((text(m.get("content")) for m in prompt if m.get("role") == "system"), None)
    return {
        "task_id": f"{run.dataset}/{domain}/{digest[:12]}",
        "dataset": run.dataset,
        "domain": domain,
        "instruction": text(humans[-1]) if humans else None,
        "system_prompt": system,
        "target": None if asked["answer"] is None else dump_json(answer),
        "task_digest": PREFIX + digest,
        "source_ref": unit.path.name,
    }


def _score(raw: Row, options: ReadOptions) -> tuple[Score, ErrorClass | None, tuple[str | None, str] | None]:
    """The reward, what the error of the row means, and its class and message; infrastructure voids a reward (R1)."""
    score = score_of(raw.get("reward"), None, verdict=False)
    error = raw.get("error")
    if error in (None, "", {}, []):
        return score, None, None
    names = [*class_names(error), *class_names(raw.get("error_chain"))]
    meaning = error_meaning(names, options, graded=score.value is not None)
    if score.issue is None and meaning.voids_reward:
        score = voided(score, "infrastructure")
    message = text(obj(error).get("error_chain_repr")) or (error if isinstance(error, str) else dump_json(error))
    return score, meaning, (names[0] if names else None, message)


def error_meaning(names: list[str], options: ReadOptions, *, graded: bool) -> ErrorClass:
    """Meaning of the first class in a chain that a table knows."""
    own = options.rules.statuses.get(FORMAT, {})
    for name in names:
        known = own.get(name) or options.rules.errors.get(name)
        if known is not None:
            return known
    return options.rules.error(names[0] if names else None, graded=graded)


def _status(raw: Row, word: str | None, meaning: ErrorClass | None, options: ReadOptions) -> str:
    """Stop conditions are names of methods of an environment: an unknown one leaves it to the flags."""
    if meaning is not None:
        return meaning.status
    said, known = options.rules.status(FORMAT, word)
    if word is not None and known:
        return said.status
    if raw.get("is_truncated") is True:
        return "limit"
    return "completed" if raw.get("is_completed") is True else "unknown"


def functions(raw: Row, run: Run) -> dict[str, Any]:
    """Values of the reward functions and metrics of a row, by name: `metrics`, or every column of numbers that is no known one."""
    metrics = obj(raw.get("metrics"))
    if metrics:
        return {k: v for k, v in metrics.items() if v is not None and k != "reward"}
    return {
        k: v
        for k, v in raw.items()
        if k not in _FIXED and k not in run.columns and isinstance(v, int | float) and not isinstance(v, bool)
    }


def _grades(
    batch: Batch,
    unit: Unit,
    ident: str,
    named: dict[str, Any],
    score: Score,
    error: tuple[str | None, str] | None,
    meaning: ErrorClass | None,
) -> None:
    common: dict[str, Any] = {"kind": "verifier", "grader": FORMAT, "source_ref": unit.path.name}
    add_grade(batch, ident, "reward", score, primary=True, **common)
    for name, value in named.items():
        seen = score_of(value, None, verdict=False)
        if error is not None and meaning is not None and meaning.voids_reward and seen.issue is None:
            seen = voided(seen, "infrastructure")
        add_grade(batch, ident, name, seen, primary=False, **common)


def _usage(raw: Row) -> Row | None:
    said = obj(raw.get("token_usage"))
    seen, made = count(said.get("input_tokens")), count(said.get("output_tokens"))
    return {"input_tokens": seen, "output_tokens": made} if seen or made else None


def _token_ids(dialogue: Dialogue, trajectory: Any, n_prompt: int) -> None:
    """Token ids of a kept `trajectory`, where it has one entry for each assistant message of the completion."""
    if not isinstance(trajectory, list) or not trajectory:
        return
    first = {m.get("step_index") for m in dialogue.out.messages[n_prompt:]}
    steps = [s for s in dialogue.out.steps if s["source"] == "agent" and s["step_index"] in first]
    if len(steps) != len(trajectory):
        detail = (
            f"trajectory has {len(trajectory)} entries for {len(steps)} assistant messages; its token ids are left out"
        )
        dialogue.note("trajectory_not_used", detail, "info")
        return
    for step, entry in zip(steps, trajectory, strict=True):
        tokens = obj(obj(entry).get("tokens"))
        for column, key in (("prompt_token_ids", "prompt_ids"), ("completion_token_ids", "completion_ids")):
            step[column] = token_list(tokens.get(key))
        step["logprobs"] = float_list(tokens.get("completion_logprobs"))


def token_list(value: Any) -> list[int] | None:
    """Token ids that fit their column, else null."""
    ids = items(value)
    if not ids or any(type(i) is not int for i in ids) or min(ids) < 0 or max(ids) >= 2**31:
        return None
    return ids


def float_list(value: Any) -> list[float] | None:
    """Numbers of a list, else null."""
    numbers = items(value)
    if not numbers or any(type(n) is not float and type(n) is not int for n in numbers):
        return None
    try:
        return [float(n) for n in numbers]
    except OverflowError:
        return None


def _metadata(raw: Row, named: dict[str, Any], info: Any, run: Run) -> str | None:
    rest = {k: v for k, v in raw.items() if k not in _FIXED and k not in named and v is not None}
    rest |= {k: raw[k] for k in ("example_id", "id", "timing", "generation_ms", "scoring_ms") if raw.get(k) is not None}
    rest |= {k: v for k, v in (("info", info), ("run", run.metadata)) if v}
    kept = redact(rest)
    return dump_json(kept) if kept else None
