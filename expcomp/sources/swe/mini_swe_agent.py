"""mini-swe-agent trajectories: one `.traj.json` file an attempt, of format 1 (shell blocks), 1.1 (tool calls), or a bare message list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from expcomp.sources._contract import Batch, Found, Frames, ReadOptions, Unit, attempt_id
from expcomp.sources._emit import add_attempt, default_arm, sum_usage
from expcomp.sources._json import dump_json, load_json
from expcomp.sources._units import add_tasks, file_unit, open_unit, report
from expcomp.sources._values import count, items, obj, redact, text
from expcomp.sources.status_map import UNKNOWN
from expcomp.sources.swe._common import GROUP, add_patch, cost, instance_of, instance_task, run_of, ungraded
from expcomp.sources.swe._mini_walk import Walk

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from expcomp.sources._look import Look
    from expcomp.sources.errors_map import ErrorClass

_FORMAT = "mini-swe-agent"
_PARTS = {"agent", "agent_type", "model", "model_type"}
_MAPPED_INFO = {"exit_status", "submission", "mini_version", "model_stats", "config", "exception_str", "traceback"}
_LIMITS = ("step_limit", "cost_limit", "wall_time_limit_seconds")
_COST_TOLERANCE = 1e-6


class MiniSweAgent:
    """Reader of mini-swe-agent trajectories."""

    name = "mini_swe_agent"
    summary = (
        "mini-swe-agent .traj.json files: {info, messages}; the verdict comes from SWE-bench reports in the same load"
    )
    carries = {  # noqa: RUF012 - read only, by contract of the protocol
        "system_prompt": "yes",
        "tools": "no (built in: one bash tool)",
        "reasoning": "yes",
        "verdict": "no (SWE-bench report)",
        "trial": "no (the run)",
        "tokens": "per call, from the raw response",
        "cost": "yes",
        "times": "yes",
        "token_ids": "no",
    }

    def claims_folder(self, folder: Path, names: frozenset[str]) -> bool:
        """Never: each trajectory is a file."""
        return False

    def claims_file(self, look: Look) -> bool:
        """An object that names the format, or whose `info` has what only this agent writes; a bare message list has to be forced."""
        if look.kind != "object" or "trajectory" in look.keys:
            return False
        form = look.rows[0].get("trajectory_format") if look.rows else None
        if isinstance(form, str) and form.startswith(_FORMAT):
            return True
        info = look.at("info")
        if "mini_version" in info or look.at("info/config") >= _PARTS:
            return True
        return (
            {"exit_status", "submission", "model_stats"} <= info
            and "messages" in look.keys
            and "history" not in look.keys
        )

    def units(self, path: Path, root: Path, found: Found) -> None:
        """One unit a file; trajectories and reports are one group."""
        file_unit(self.name, path, root, found, GROUP)

    def read(self, units: Sequence[Unit], options: ReadOptions) -> Frames:
        """Read trajectories."""
        batch = Batch()
        tasks: list[dict[str, Any]] = []
        attempts: list[dict[str, Any]] = []
        for unit in units:
            opened = open_unit(batch, unit, options.max_file_bytes)
            if opened is None:
                continue
            document, problems = load_json(opened[0])
            report(batch, unit, problems)
            if isinstance(document, list):
                document = {"messages": document}
            if isinstance(document, dict) and isinstance(document.get("messages"), list):
                _attempt(batch, unit, document, opened[1], options, attempts, tasks)
            elif not any(p.severity == "error" for p in problems):
                found = (
                    f"messages is {type(document.get('messages')).__name__}" if isinstance(document, dict) else "none"
                )
                detail = f"expected an object with a list of messages, found {found}; no attempt"
                batch.diagnose(
                    "no_attempt", detail, package_id=unit.package_id, source_uri=unit.package_id, severity="error"
                )
        add_tasks(batch, tasks, attempts)
        return batch.frames()


def _attempt(
    batch: Batch,
    unit: Unit,
    document: dict[str, Any],
    digest: str,
    options: ReadOptions,
    attempts: list[dict[str, Any]],
    tasks: list[dict[str, Any]],
) -> None:
    ident = attempt_id("mini_swe_agent", unit.package_id)
    info = obj(document.get("info"))
    config = obj(info.get("config"))
    instance = text(document.get("instance_id")) or instance_of(unit.path)
    walk = Walk(items(document.get("messages")), config, ended="exit_status" in info)
    transcript = walk.read()
    for artifact in walk.pictures:
        batch.add("artifacts", attempt_id=ident, **artifact)
    word = text(info.get("exit_status")) or text(walk.end.get("exit_status"))
    submission = text(info.get("submission"))
    submission = text(walk.end.get("submission")) if submission is None else submission
    meaning = _meaning(batch, unit, ident, word, submission, options)
    failed = meaning.status in ("agent_error", "infra_error")
    asked = text(obj(config.get("model")).get("model_name"))
    served = walk.model or asked
    version = text(info.get("mini_version"))
    row = add_attempt(
        batch,
        unit,
        ident,
        transcript,
        score=ungraded(meaning),
        usage=_usage(batch, unit, ident, info, transcript.steps),
        native_attempt_id=instance,
        run_id=run_of(unit.path, instance),
        arm=default_arm("mini-swe-agent", version, asked or served),
        agent="mini-swe-agent",
        agent_version=version,
        model=served,
        model_provider=asked.partition("/")[0] if asked and "/" in asked else None,
        params=_params(config, asked),
        status=meaning.status,
        stop_reason=word,
        error_type=word if failed else None,
        error_message=_message(info, walk.end) if failed else None,
        started_at=walk.start,
        ended_at=walk.stop,
        tools=_tools(config),
        is_truncated=bool(info) and word is None,
        source_version=text(document.get("trajectory_format")),
        source_digest=digest,
        metadata=_metadata(document, info, config),
    )
    row["usage_basis"] = (
        "summed" if any(row[n] is not None for n in ("input_tokens", "output_tokens")) else row["usage_basis"]
    )
    add_patch(batch, ident, "submission", submission)
    if instance is not None:
        image = text(obj(config.get("environment")).get("image"))
        task = instance_task(instance, instruction=walk.instruction, environment=image, source_ref=unit.path.name)
        row["task_id"] = task["task_id"]
        tasks.append(task)
    attempts.append(row)


def _meaning(
    batch: Batch, unit: Unit, ident: str, word: str | None, submission: str | None, options: ReadOptions
) -> ErrorClass:
    """What the last word means: a word of the agent, else the class of the error that stopped it (R1)."""
    meaning, known = options.rules.status("mini_swe_agent", word)
    if known:
        return meaning
    handed_over = bool(submission and submission.strip())
    # Any exception's class name may stand here; with a submission an unknown one did not stop the agent from finishing.
    if word is not None and (not handed_over or word.rsplit(".", 1)[-1] in options.rules.errors):
        return options.rules.error(word, graded=handed_over)
    detail = f"exit_status {word!r} is in no table; status unknown"
    uri = unit.package_id
    batch.diagnose("unknown_status", detail, package_id=uri, source_uri=uri, attempt_id=ident, field="info.exit_status")
    return UNKNOWN


def _usage(batch: Batch, unit: Unit, ident: str, info: dict[str, Any], steps: list[dict[str, Any]]) -> dict[str, Any]:
    """Tokens summed over calls; the cost is the run's own total, checked against the calls (R15)."""
    usage = sum_usage(steps)
    total = cost(obj(info.get("model_stats")).get("instance_cost"))
    if total is None:
        return usage
    if usage["cost_usd"] is not None and abs(usage["cost_usd"] - total) > _COST_TOLERANCE * max(1.0, total):
        detail = f"info.model_stats says {total} USD, the calls sum to {usage['cost_usd']}; the total is kept, it counts lost calls"
        uri = unit.package_id
        batch.diagnose(
            "cost_differs", detail, package_id=uri, source_uri=uri, attempt_id=ident, severity="info", field="cost_usd"
        )
    return usage | {"cost_usd": total}


def _params(config: dict[str, Any], asked: str | None) -> str | None:
    model, agent = obj(config.get("model")), obj(config.get("agent"))
    params = {k: v for k, v in obj(model.get("model_kwargs")).items() if v is not None and k != "tools"}
    params |= {k: agent[k] for k in _LIMITS if agent.get(k)}
    if asked is not None:
        params["requested_model"] = asked
    out = redact(params)
    return dump_json(out) if out else None


def _tools(config: dict[str, Any]) -> str | None:
    tools = obj(obj(config.get("model")).get("model_kwargs")).get("tools")
    return dump_json(tools) if isinstance(tools, list) and tools else None


def _message(info: dict[str, Any], end: dict[str, Any]) -> str | None:
    said = text(info.get("exception_str")) or text(end.get("exception_str"))
    lines = (text(info.get("traceback")) or text(end.get("traceback")) or "").strip().splitlines()
    return said or (lines[-1] if lines else None)


def _metadata(document: dict[str, Any], info: dict[str, Any], config: dict[str, Any]) -> str | None:
    rest = {k: v for k, v in document.items() if k not in ("info", "messages", "trajectory_format", "instance_id")}
    inner = {k: v for k, v in info.items() if k not in _MAPPED_INFO}
    calls = count(obj(info.get("model_stats")).get("api_calls"))
    if calls is not None:
        inner["api_calls"] = calls
    if text(info.get("traceback")):
        inner["traceback"] = info["traceback"]
    # Templates stand filled in in the messages; the environment's variables are a dump of a machine (R14).
    parts = {k: v for k, v in config.items() if k.endswith("_type")}
    room = {k: v for k, v in obj(config.get("environment")).items() if k not in ("env", "forward_env")}
    inner |= {"config": parts | ({"environment": room} if room else {})} if parts or room else {}
    out = redact(rest | ({"info": inner} if inner else {}))
    return dump_json(out) if out else None


SOURCE = MiniSweAgent()
