"""tau2-bench results: one JSON file a run, or the folder layout of 2026; one simulation an attempt."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from expcomp.sources._chat import Note, Transcript
from expcomp.sources._contract import Batch, Found, Frames, ReadOptions, Unit, attempt_id
from expcomp.sources._emit import add_attempt, sum_usage
from expcomp.sources._json import dump_json
from expcomp.sources._units import add_tasks, relative
from expcomp.sources._values import amount, items, moment, obj, redact, small, text, whole
from expcomp.sources.tau2_bench._dialogue import read_dialogue
from expcomp.sources.tau2_bench._files import (
    FOLDER,
    HEADER,
    Document,
    Simulation,
    claims,
    claims_folder,
    domain_of,
    native_id,
    read_document,
    task_digest,
)
from expcomp.sources.tau2_bench._grades import add_grades

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from expcomp.sources._look import Look

_STOP = re.compile(r"###(STOP|TRANSFER|OUT-OF-SCOPE)###\s*$")
_MAPPED = frozenset(
    "id task_id trial seed start_time end_time duration termination_reason agent_cost reward_info messages ticks timestamp policy "
    "reward effect_timeline".split()
)
_LIMITS = ("max_steps", "max_errors")
_RUN = ("git_commit", "num_trials", "retrieval_config", "speech_complexity")


class Tau2Bench:
    """Reader of tau2-bench results."""

    name = "tau2_bench"
    summary = "tau2-bench results: {info, tasks, simulations} in one JSON file, or results.json + simulations/<id>.json"
    carries = {  # noqa: RUF012 - read only, by contract of the protocol
        "system_prompt": "policy in the header",
        "tools": "null in most files",
        "reasoning": "newer files",
        "verdict": "yes; the basis of the reward decides, checks outside it are extra grades",
        "trial": "yes",
        "tokens": "per step, of the agent",
        "cost": "of the agent; the simulated user's is kept in metadata",
        "times": "yes, without zone",
        "token_ids": "no",
    }

    def claims_folder(self, folder: Path, names: frozenset[str]) -> bool:
        """A folder with a results header beside a folder of simulations."""
        return claims_folder(folder, names)

    def claims_file(self, look: Look) -> bool:
        """An object with `simulations`, or with an `info` that names agent, user and environment; or one simulation."""
        return claims(look)

    def units(self, path: Path, root: Path, found: Found) -> None:
        """One unit a run; runs of one domain are one group, since they may try the same tasks."""
        header, size = path, path.stat().st_size
        if path.is_dir():
            header = path / HEADER
            size = header.stat().st_size + sum(f.lstat().st_size for f in (path / FOLDER).iterdir())
        domain = domain_of(header)
        found.units.append(Unit(self.name, path, relative(path, root), size, f"{self.name}/{domain or ''}"))

    def read(self, units: Sequence[Unit], options: ReadOptions) -> Frames:
        """Read runs."""
        batch = Batch()
        attempts: list[dict[str, Any]] = []
        tasks: list[dict[str, Any]] = []
        for unit in units:
            opened = read_document(batch, unit, options)
            if opened is None:
                continue
            document, simulations = opened
            tasks += [_task(document, native, task) for native, task in document.tasks.items()]
            dropped = 0
            for simulation in simulations:
                row, raw_data = _attempt(batch, document, simulation, options)
                dropped += raw_data
                attempts.append(row)
            if dropped:
                detail = f"raw_data of {dropped} messages (the provider's responses) was left out"
                batch.diagnose(
                    "raw_data_dropped", detail, package_id=unit.package_id, source_uri=unit.package_id, severity="info"
                )
            if not simulations:
                detail = "no simulation in the file, so no attempt"
                batch.diagnose("no_attempt", detail, package_id=unit.package_id, source_uri=unit.package_id)
        add_tasks(batch, tasks, attempts)
        for row in attempts:
            row.pop("_task_digest", None)
        return batch.frames()


def _attempt(
    batch: Batch, document: Document, simulation: Simulation, options: ReadOptions
) -> tuple[dict[str, Any], int]:
    """Add a simulation; give its attempt and the number of raw responses left out."""
    raw, info, unit = simulation.raw, document.info, document.unit
    ident = attempt_id("tau2_bench", unit.package_id, simulation.key)
    agent, world = obj(info.get("agent_info")), obj(info.get("environment_info"))
    model = text(agent.get("llm"))
    chat, dropped = read_dialogue(raw, model)
    native = native_id(raw.get("task_id"))
    if native is None:
        found = type(raw.get("task_id")).__name__
        chat.notes.append(Note("missing_task_id", f"no task_id (found {found}); the attempt belongs to no task"))
    elif document.tasks and native not in document.tasks:
        chat.notes.append(Note("undeclared_task", f"task {native!r} is not among the tasks of the file", "info"))
    word = text(raw.get("termination_reason"))
    word = word.rpartition(".")[2].lower() if word is not None else None
    meaning, known = options.rules.status("tau2_bench", word)
    if not known:
        chat.notes.append(Note("unknown_status", f"termination_reason {word!r} is in no table; status unknown"))
    score = add_grades(
        batch, ident, simulation, options.score_scale, void=word or "void" if meaning.voids_reward else None
    )
    if score.issue and not meaning.voids_reward:
        reward = str(obj(raw.get("reward_info")).get("reward"))[:80]
        chat.notes.append(Note(score.issue, f"reward is {reward}: {score.issue}"))
    (start, assumed), (end, _) = (moment(raw.get(k)) for k in ("start_time", "end_time"))
    if assumed and not any(note.code == "naive_time" for note in chat.notes):
        chat.notes.append(Note("naive_time", "times without a zone were read as UTC", "info"))
    policy = text(raw.get("policy")) or text(world.get("policy"))
    tools = _tools(document)
    usage = sum_usage(chat.steps)
    cost = amount(raw.get("agent_cost"))
    # 0 next to tokens is a model without a price, not a free one.
    usage["cost_usd"] = cost if cost else usage["cost_usd"]
    for step in chat.agent_steps():
        served = step["model"]
        if served is not None and served != model:
            model = served if model is None or served.startswith(model.rpartition("/")[2]) else model
            break
    row = add_attempt(
        batch,
        unit,
        ident,
        chat,
        score=score,
        uri=simulation.uri,
        native_attempt_id=text(raw.get("id")),
        trace_id=text(raw.get("id")),
        task_id=document.task_id(native) if native is not None else None,
        run_id=unit.package_id,
        trial=_trial(raw),
        trial_source="native" if _trial(raw) is not None else "unknown",
        seed=whole(raw.get("seed")),
        agent=text(agent.get("implementation")),
        model=model,
        model_provider=model.partition("/")[0] if model and "/" in model else None,
        params=_params(info, agent),
        status=meaning.status,
        stop_reason=text(raw.get("termination_reason")),
        grade_kind="environment",
        started_at=start,
        ended_at=end,
        duration_s=amount(raw.get("duration")),
        cost_usd=usage["cost_usd"],
        system_prompt=policy,
        tools=tools,
        trace_ref=simulation.ref if chat.messages else None,
        grade_ref=simulation.ref if score.value is not None else None,
        source_uri=simulation.uri,
        source_digest=simulation.digest,
        source_pos=simulation.pos,
        metadata=_metadata(document, simulation, chat),
    )
    row["_task_digest"] = task_digest(document.tasks[native]) if native in document.tasks else None
    return row, dropped


def _trial(raw: dict[str, Any]) -> int | None:
    trial = small(raw.get("trial"))
    return trial if trial is not None and trial >= 0 else None


def _tools(document: Document) -> str | None:
    found = obj(document.info.get("environment_info")).get("tool_defs")
    if isinstance(found, dict):
        found = list(found.values())
    return dump_json(found) if items(found) else None


def _params(info: dict[str, Any], agent: dict[str, Any]) -> str | None:
    kept = obj(redact(agent.get("llm_args"))) | {k: info[k] for k in _LIMITS if info.get(k) is not None}
    return dump_json(kept) if kept else None


def _metadata(document: Document, simulation: Simulation, chat: Transcript) -> str | None:
    user = obj(document.info.get("user_info"))
    run = {k: document.info[k] for k in _RUN if document.info.get(k) is not None}
    if user:
        run["user"] = {k: user.get(k) for k in ("implementation", "llm", "llm_args")}
    rest = {k: v for k, v in simulation.raw.items() if k not in _MAPPED and v not in (None, {}, [])}
    last = chat.messages[-1]["content"] if chat.messages else None
    mark = _STOP.search(last or "")
    out = obj(redact(run | rest)) | ({"stop_mark": mark.group().strip()} if mark else {})
    return dump_json(out) if out else None


def _task(document: Document, native: str, task: dict[str, Any]) -> dict[str, Any]:
    info = document.info
    world, unit = obj(info.get("environment_info")), document.unit
    target = {k: v for k, v in obj(task.get("evaluation_criteria")).items() if v not in (None, [])}
    rest = {k: v for k, v in task.items() if k not in ("id", "evaluation_criteria") and v is not None}
    return {
        "task_id": document.task_id(native),
        "dataset": "tau2_bench",
        "dataset_version": text(info.get("git_commit")),
        "domain": document.domain,
        "native_id": native,
        "instruction": _instruction(info, task),
        "system_prompt": text(world.get("policy")),
        "tools": _tools(document),
        "target": dump_json(target) if target else None,
        "cluster": document.domain,
        "task_digest": task_digest(task),
        "source_ref": HEADER if unit.path.is_dir() else unit.path.name,
        "metadata": dump_json(redact(rest)) if rest else None,
    }


def _instruction(info: dict[str, Any], task: dict[str, Any]) -> str | None:
    """The ticket where the agent works alone, else what the simulated user is to ask for."""
    sides = (obj(info.get(k)).get("implementation") for k in ("agent_info", "user_info"))
    solo = any("solo" in side or "dummy" in side for side in sides if isinstance(side, str))
    ticket = text(task.get("ticket"))
    if solo and ticket is not None:
        return ticket
    asked = obj(task.get("user_scenario")).get("instructions")
    return text(asked) or text(obj(asked).get("reason_for_call")) or ticket


SOURCE = Tau2Bench()
