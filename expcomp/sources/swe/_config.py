"""What a SWE-agent file says of its set-up: `replay_config`, or, in 0.x files, the name of the run."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import orjson

from expcomp.sources._values import items, obj, redact, text

_ARGUMENT = re.compile(
    r"    - (?P<name>[A-Za-z_][\w-]*) \((?P<type>[\w-]+)\) \[(?P<need>required|optional)\]: ?(?P<text>.*)"
)
_COMMAND = re.compile(r"(?P<name>[A-Za-z_][\w.-]*):")
_OLD_RUN = re.compile(r"(?P<model>.+?)__.+__t-(?P<temperature>[\d.]+)__p-(?P<top_p>[\d.]+)__c-(?P<limit>[\d.]+)__")
_NO_PARAMS = frozenset({"name", "api_base", "api_key", "api_version", "retry", "fallbacks", "choose_api_key_by_thread"})
_NO_MODELS = frozenset({"replay", "human", "human_thought", "instant_empty_submit"})
_KEEP_ALL = frozenset({"default", "cache_control", "tag_tool_call_observations", "image_parsing"})
_LONG = frozenset({"templates", "command_docs", "filter", "model"})


@dataclass(slots=True)
class Config:
    """Set-up of an attempt.

    Attributes:
        instance: Id of the problem.
        problem: Its text, as the harness put it into the prompt.
        model: Model that was asked for; the files do not tell what was served.
        params: Parameters of the model and of the agent that shape the prompt.
        tools: Function schemas, rebuilt from the documentation of the commands; null without function calling.
        environment: Image, or repository and commit.
        scripted: Whether a script or a person stood in for the model (R6).
        elides: Whether history processors may have kept parts of the history from the model.
        rest: The set-up without templates, which the history holds filled in.
    """

    instance: str | None = None
    problem: str | None = None
    model: str | None = None
    params: dict[str, Any] = field(default_factory=dict)
    tools: list[dict[str, Any]] | None = None
    environment: str | None = None
    scripted: bool = False
    elides: bool = False
    rest: dict[str, Any] = field(default_factory=dict)

    def name_parts(self, run: str | None) -> None:
        """Take model and parameters from the name of a 0.x run, where there is no `replay_config`."""
        found = _OLD_RUN.match(run) if run is not None and self.model is None else None
        if found is None:
            return
        self.model = found["model"]
        names = {"temperature": "temperature", "top_p": "top_p", "limit": "per_instance_cost_limit"}
        for part, name in names.items():
            try:
                self.params.setdefault(name, float(found[part]))
            except ValueError:
                continue


def read_config(raw: Any) -> Config:
    """Read `replay_config`: an object, or an object inside a string."""
    if isinstance(raw, str):
        try:
            raw = orjson.loads(raw)
        except orjson.JSONDecodeError:
            raw = None
    whole = obj(raw)
    agent = obj(whole.get("agent"))
    # A retry agent lists the set-ups of its tries; the first stands for all.
    agent = agent if "model" in agent else obj(next(iter(items(agent.get("agent_configs"))), None)) or agent
    problem, tools, model = obj(whole.get("problem_statement")), obj(agent.get("tools")), obj(agent.get("model"))
    calling = text(obj(tools.get("parse_function")).get("type"))
    params = {k: v for k, v in model.items() if k not in _NO_PARAMS and v not in (None, [], {})}
    if calling is not None:
        params["parse_function"] = calling
    processors = agent.get("history_processors") or agent.get("history_processor")
    if processors:
        params["history_processors"] = processors
    name = text(model.get("name"))
    if name in _NO_MODELS:
        params["actor"] = name
    kinds = {text(obj(p).get("type")) for p in (processors if isinstance(processors, list) else [processors])}
    return Config(
        instance=text(problem.get("id")),
        problem=text(problem.get("text")),
        model=None if name in _NO_MODELS else name,
        scripted=name in _NO_MODELS,
        elides=bool(kinds - _KEEP_ALL - {None}),
        params=redact(params),
        tools=_schemas(text(tools.get("command_docs"))) if calling == "function_calling" else None,
        environment=_environment(obj(whole.get("env"))),
        rest=_short(whole),
    )


def _environment(env: dict[str, Any]) -> str | None:
    image = text(obj(env.get("deployment")).get("image"))
    repo = obj(env.get("repo"))
    name = text(repo.get("github_url")) or text(repo.get("repo_name"))
    commit = text(repo.get("base_commit"))
    return image or (f"{name}@{commit}" if name and commit else name)


def _short(whole: dict[str, Any]) -> dict[str, Any]:
    """The set-up without what is long and told elsewhere, and without the dump of the environment (R14)."""
    rest = {k: v for k, v in whole.items() if k not in ("problem_statement", "output_dir", "env_var_path")}
    agent = obj(rest.get("agent"))
    if agent:
        tools = {k: v for k, v in obj(agent.get("tools")).items() if k not in _LONG and not k.endswith("_template")}
        rest["agent"] = {k: v for k, v in agent.items() if k not in _LONG} | ({"tools": tools} if tools else {})
    problem = {k: v for k, v in obj(whole.get("problem_statement")).items() if k not in ("text", "id")}
    return rest | ({"problem_statement": problem} if problem else {})


@lru_cache(maxsize=16)
def _schemas(docs: str | None) -> list[dict[str, Any]] | None:
    """Function schemas from the text that documents the commands; null where a line is not of its form.

    The text is written from the same commands as the schemas; allowed values of an argument are the one thing that it leaves out.
    """
    out: list[dict[str, Any]] = []
    place = ""
    described: dict[str, Any] = {}
    for line in (docs or "").split("\n"):
        command = _COMMAND.fullmatch(line) if place != "docstring" or not line.startswith(" ") else None
        if command is not None:
            out.append(
                {
                    "type": "function",
                    "function": {"name": command["name"], "description": "", "parameters": {"type": "object"}},
                }
            )
            place, described = "command", out[-1]["function"]
        elif not out:
            if line.strip():
                return None
        elif line.startswith("  docstring: "):
            place, described["description"] = "docstring", line[13:]
        elif line.startswith("  signature:"):
            place = "signature"
            out[-1]["function"]["description"] = out[-1]["function"]["description"].strip()
        elif line == "  arguments:":
            place = "arguments"
        elif place == "arguments" and (argument := _ARGUMENT.fullmatch(line)):
            schema = out[-1]["function"]["parameters"]
            described = {"type": argument["type"], "description": argument["text"]}
            schema.setdefault("properties", {})[argument["name"]] = described
            schema.setdefault("required", [])
            if argument["need"] == "required":
                schema["required"].append(argument["name"])
        elif place in ("docstring", "arguments") and line.strip():
            described["description"] = f"{described['description']}\n{line}"
    return out or None
