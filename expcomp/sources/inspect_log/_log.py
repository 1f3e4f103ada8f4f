"""What the header of an inspect log says about all of its samples."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from expcomp.sources._json import dump_json
from expcomp.sources._values import items, obj, redact, text
from expcomp.sources.inspect_log._zip import dataset_of

_LIMITS = (
    "message_limit token_limit time_limit working_limit cost_limit turn_limit max_messages max_tokens temperature "
    "fail_on_error score_on_error"
).split()
_NO_MODEL = frozenset({"none", "none/none"})
_ARM_TEXT = 60


@dataclass(slots=True)
class Log:
    """The header, read once.

    Attributes:
        dataset: Name of the dataset.
        model: The model under study as asked for; null where the log names none.
        agent: Solver, or the chain of solvers.
        arm: `<solver>/<model>` with the arguments that were passed.
        run_id: Id of this evaluation.
        version: Version of the format.
        params: Generation settings, limits and arguments as JSON.
        about: What goes into the metadata of every attempt.
        system_prompt: Prompt that the generation settings put before every input.
        sandbox: Sandbox of the task.
        order: Scorers in the order of the results, the headline first.
        parts: Scorer -> the value of a map that its headline is.
        asked: Whether scoring was ever asked for.
    """

    header: dict[str, Any]
    dataset: str
    model: str | None
    agent: str | None
    arm: str | None
    run_id: str | None
    version: str | None
    params: dict[str, Any]
    about: dict[str, Any]
    system_prompt: str | None
    sandbox: Any
    order: list[str] = field(default_factory=list)
    parts: dict[str, str] = field(default_factory=dict)
    asked: bool = False


def read_log(header: dict[str, Any]) -> Log:
    """Read a header."""
    spec, plan = obj(header.get("eval")), obj(header.get("plan"))
    config = obj(plan.get("config")) | _set(spec.get("model_generate_config"))
    model = text(spec.get("model"))
    model = None if model in _NO_MODEL else model
    agent = _agent(spec, plan)
    order, parts, asked = _scorers(header, spec)
    version = header.get("version")
    return Log(
        header=header,
        dataset=dataset_of(header),
        model=model,
        agent=agent,
        arm=_arm(agent, model, spec, config),
        run_id=next((t for t in map(text, (spec.get("eval_id"), spec.get("run_id"), spec.get("task_id"))) if t), None),
        version=str(version) if isinstance(version, int | str) and not isinstance(version, bool) else None,
        params=_params(spec, config),
        about=_about(spec),
        system_prompt=text(config.get("system_message")),
        sandbox=spec.get("sandbox"),
        order=order,
        parts=parts,
        asked=asked,
    )


def _set(value: Any) -> dict[str, Any]:
    return {k: v for k, v in obj(value).items() if v is not None}


def short(name: str) -> str:
    """A registered name without its package."""
    return name.rpartition("/")[2]


def _agent(spec: dict[str, Any], plan: dict[str, Any]) -> str | None:
    solver = text(spec.get("solver"))
    if solver:
        return short(solver)
    names = [text(obj(step).get("solver")) for step in items(plan.get("steps"))]
    return "+".join(short(n) for n in names if n) or None


def _arm(agent: str | None, model: str | None, spec: dict[str, Any], config: dict[str, Any]) -> str | None:
    """Solver, model, and the arguments by which two runs of them differ."""
    given = _set(spec.get("task_args_passed")) | _set(spec.get("solver_args_passed")) | _set(spec.get("solver_args"))
    given |= _set(spec.get("model_args")) | {
        k: v for k, v in _set(config).items() if k in ("temperature", "reasoning_effort")
    }
    said = ",".join(f"{k}={_brief(v)}" for k, v in sorted(obj(redact(given)).items()))
    named = "/".join(part for part in (agent, short(model) if model else None) if part)
    return f"{named}[{said}]" if named and said else named or None


def _brief(value: Any) -> str:
    said = value if isinstance(value, str) else dump_json(value)
    return said if len(said) <= _ARM_TEXT else f"{said[: _ARM_TEXT - 1]}…"


def _params(spec: dict[str, Any], config: dict[str, Any]) -> dict[str, Any]:
    run = obj(spec.get("config"))
    more = {k: _set(spec.get(k)) for k in ("model_args", "task_args", "solver_args")}
    limits = {k: run[k] for k in _LIMITS if run.get(k) is not None}
    kept = {k: v for k, v in config.items() if k != "system_message"}
    return {k: v for k, v in obj(redact(kept | limits | more)).items() if v not in (None, {})}


def _about(spec: dict[str, Any]) -> dict[str, Any]:
    packages, revision = obj(spec.get("packages")), obj(spec.get("revision"))
    out = {
        "task": spec.get("task"),
        "task_version": spec.get("task_version") or None,
        "inspect_ai": packages.get("inspect_ai"),
        "commit": revision.get("commit"),
        "run_id": spec.get("run_id"),
        "eval_set_id": spec.get("eval_set_id"),
        "tags": spec.get("tags") or None,
        "model_roles": {k: obj(v).get("model") for k, v in obj(spec.get("model_roles")).items()} or None,
    }
    return {k: v for k, v in out.items() if v is not None}


def _scorers(header: dict[str, Any], spec: dict[str, Any]) -> tuple[list[str], dict[str, str], bool]:
    """Scorers in the order of the results, which value of a map counts, and whether scoring was ever asked for."""
    results = obj(header.get("results"))
    listed = [obj(s) for s in items(results.get("scores"))]
    if not listed and isinstance(results.get("scorer"), dict):
        listed = [results["scorer"]]
    head = obj(results.get("headline"))
    if text(head.get("scorer")):
        listed = [{"scorer": head["scorer"], "name": head.get("score") or head["scorer"]}, *listed]
    order: list[str] = []
    parts: dict[str, str] = {}
    for score in listed:
        name = text(score.get("scorer")) or text(score.get("name"))
        if name is None:
            continue
        order.append(short(name))
        part = text(score.get("name"))
        if part is not None and part != name:
            parts.setdefault(short(name), part)
    declared = [text(obj(s).get("name")) for s in items(spec.get("scorers"))]
    order += [short(n) for n in declared if n]
    return list(dict.fromkeys(order)), parts, bool(order)
