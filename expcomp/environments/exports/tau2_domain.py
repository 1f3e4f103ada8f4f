"""The code of a tau2 domain export: tools that the package answers, the database that is its state, tasks. Needs tau2-bench.

The database holds the four namespaces of the state and nothing that counts steps, so that two ways to one state have one hash.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import Field
from tau2.data_model.tasks import Task
from tau2.environment.db import DB
from tau2.environment.environment import Environment
from tau2.environment.toolkit import ToolKitBase, ToolType, is_tool

from expcomp.environments.effects import PENDING
from expcomp.environments.exports.opening import PACKAGE
from expcomp.environments.exports.tau2 import DATABASE, POLICY, SPLITS, TASKS, mutating
from expcomp.environments.folder import open_package
from expcomp.environments.overview import tool_schemas
from expcomp.environments.package import EnvironmentPackage
from expcomp.environments.paths import COUNTERS, NAMESPACES
from expcomp.environments.playing import advance
from expcomp.errors import SessionError
from expcomp.io.documents import read_json
from expcomp.io.text_files import read_text_file

TYPES: Mapping[str, Any] = {
    "string": str,
    "integer": int,
    "number": int | float,
    "boolean": bool,
    "object": dict[str, Any],
    "array": list[Any],
}
"""Type of an argument by its JSON Schema type; what is not here is Any."""


class WorldDB(DB):  # type: ignore[misc]
    """The state of the world."""

    world: dict[str, Any] = Field(default_factory=dict)
    session: dict[str, Any] = Field(default_factory=dict)
    surface: dict[str, Any] = Field(default_factory=dict)
    epistemic: dict[str, Any] = Field(default_factory=dict)


class Domain(NamedTuple):
    """What the registry of tau2 asks for."""

    get_environment: Callable[..., Any]
    get_tasks: Callable[..., Any]
    get_tasks_split: Callable[[], Any]


def domain(folder: Path, name: str) -> Domain:
    """The domain of a data folder."""

    def get_environment(db: Any = None, solo_mode: bool = False) -> Any:  # noqa: FBT001 - the signature that is called
        package = open_package(folder / PACKAGE)
        tools = toolkit(package)(WorldDB.load(folder / DATABASE) if db is None else db)
        return Environment(domain_name=name, policy=read_text_file(folder / POLICY), tools=tools, solo_mode=solo_mode)

    def get_tasks(task_split_name: str | None = "base") -> list[Any]:
        tasks = [Task.model_validate(t) for t in read_json(folder / TASKS)]
        wanted = None if task_split_name is None else set(get_tasks_split()[task_split_name])
        return [t for t in tasks if wanted is None or t.id in wanted]

    def get_tasks_split() -> dict[str, list[str]]:
        found: dict[str, list[str]] = read_json(folder / SPLITS)
        return found

    return Domain(get_environment, get_tasks, get_tasks_split)


def toolkit(package: EnvironmentPackage) -> type[Any]:
    """The toolkit of a package: one method an action. A call that cannot be answered is a ValueError and changes nothing."""
    engine = package.engine()
    writes = mutating(package)

    def start(self: Any, db: Any = None) -> None:
        ToolKitBase.__init__(self, db)
        self._counted = {**dict.fromkeys(COUNTERS, 0), PENDING: []}

    def play(self: Any, action: str, arguments: dict[str, Any]) -> str:
        state = {n: getattr(self.db, n) for n in NAMESPACES} | self._counted
        try:
            answer = advance(engine, state, action, arguments)
        except SessionError as error:
            raise ValueError(str(error)) from error
        for name in NAMESPACES:
            setattr(self.db, name, answer.state[name])
        self._counted = {n: answer.state[n] for n in (*COUNTERS, PENDING)}
        return answer.observation or ""

    methods = {t["function"]["name"]: _method(t["function"], play, writes) for t in tool_schemas(package.frames)}
    made: type[Any] = type(ToolKitBase)("WorldTools", (ToolKitBase,), {"__init__": start, **methods})
    return made


def _method(tool: Mapping[str, Any], play: Callable[..., str], writes: frozenset[str]) -> Callable[..., str]:
    name, schema = str(tool["name"]), tool["parameters"]
    required = set(schema["required"])

    def method(self: Any, **given: Any) -> str:
        # The library fills what was not given with the default, which is None.
        return play(self, name, {k: v for k, v in given.items() if v is not None or k in required})

    parameters = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    order = sorted(schema["properties"], key=lambda a: (a not in required, a))
    parameters += [_parameter(arg, schema["properties"][arg], required=arg in required) for arg in order]
    told = "\n".join(f"    {a}: {schema['properties'][a].get('description', a)}" for a in order)
    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"{tool.get('description', name)}\n" + (f"\nArgs:\n{told}\n" if order else "")
    method.__signature__ = inspect.Signature(parameters, return_annotation=str)  # type: ignore[attr-defined]
    decorated: Callable[..., str] = is_tool(ToolType.WRITE if name in writes else ToolType.READ)(method)
    return decorated


def _parameter(name: str, spec: Mapping[str, Any], *, required: bool) -> inspect.Parameter:
    kind = TYPES.get(str(spec.get("type")), Any)
    values = spec.get("enum")
    if values and all(isinstance(v, str) for v in values):
        kind = Literal[tuple(values)]
    kind, default = (kind, inspect.Parameter.empty) if required else (kind | None if kind is not Any else Any, None)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default)
