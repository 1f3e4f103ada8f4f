"""A tau2 domain. The library is in no index: its documented interface is stood in for by a few lines."""

from __future__ import annotations

import importlib
import inspect
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import polars as pl
import pytest

from expcomp.environments.exports.targets import export_environment
from expcomp.environments.frames import frames
from expcomp.environments.package import EnvironmentPackage, compile_package
from expcomp.errors import UsageError
from tests.environments.exports.conftest import Export, Frames
from tests.environments.test_replay import GOOD, case
from tests.environments.worlds import AUTHORED, rule, world

pydantic = pytest.importorskip("pydantic")


class _Kind(type):
    def __init__(cls, name: str, bases: Any, attrs: dict[str, Any]) -> None:
        super().__init__(name, bases, attrs)
        cls.marked = {k for k, v in attrs.items() if hasattr(v, "__tool__")}


def library(data: Path) -> dict[str, ModuleType]:
    """Modules of the interface."""

    class DB(pydantic.BaseModel):
        @classmethod
        def load(cls, path: Path) -> Any:
            return cls.model_validate_json(Path(path).read_text())

    class ToolKitBase(metaclass=_Kind):
        def __init__(self, db: Any = None) -> None:
            self.db = db

    def is_tool(kind: str) -> Any:
        def mark(function: Any) -> Any:
            function.__tool__ = kind
            return function

        return mark

    class Environment:
        def __init__(self, domain_name: str, policy: str, tools: Any, solo_mode: bool) -> None:
            self.domain_name, self.policy, self.tools = domain_name, policy, tools

    class Task(pydantic.BaseModel):
        id: str
        user_scenario: dict[str, Any]
        initial_state: dict[str, Any]
        evaluation_criteria: dict[str, Any]

    content = {
        "tau2": {},
        "tau2.data_model.tasks": {"Task": Task},
        "tau2.environment.db": {"DB": DB},
        "tau2.environment.environment": {"Environment": Environment},
        "tau2.environment.toolkit": {
            "ToolKitBase": ToolKitBase,
            "ToolType": SimpleNamespace(READ="read", WRITE="write"),
            "is_tool": is_tool,
        },
        "tau2.utils.utils": {"DATA_DIR": data},
    }
    made = {}
    for name, values in content.items():
        made[name] = ModuleType(name)
        vars(made[name]).update(values)
    return made


@pytest.fixture
def domain(export: Export, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    assert list(export("tau2")) == ["Two words/2"]
    for name, module in library(tmp_path / "out/data").items():
        monkeypatch.setitem(sys.modules, name, module)
    _forget()
    monkeypatch.syspath_prepend(tmp_path / "out/src/tau2/domains")
    yield importlib.import_module("ledger.environment")
    _forget()


def _forget() -> None:
    """Modules that stand on what other tests made."""
    for name in [n for n in sys.modules if n.partition(".")[0] == "ledger" or n.endswith("tau2_domain")]:
        del sys.modules[name]


def started(domain: ModuleType) -> Any:
    """The environment with the initial state of its task, as the library sets it."""
    env, task = domain.get_environment(), domain.get_tasks()[0]
    data = task.initial_state["initialization_data"]["agent_data"]
    env.tools.db = type(env.tools.db).model_validate(env.tools.db.model_dump() | data)
    return env


def test_the_reference_actions_reach_one_state_by_every_way(domain: ModuleType) -> None:
    env, task = started(domain), domain.get_tasks()[0]
    actions = task.evaluation_criteria["actions"]
    assert [getattr(env.tools, a["name"])(**a["arguments"]) for a in actions] == [text for _, _, text, *_ in GOOD]
    other = started(domain)
    other.tools.withdraw(amount=20)
    assert other.tools.db == env.tools.db  # steps are not part of the state
    assert task.evaluation_criteria["reward_basis"] == ["DB"]


def test_tools_have_signatures_kinds_and_errors(domain: ModuleType) -> None:
    tools = started(domain).tools
    assert tools.marked == {"balance", "deposit", "withdraw"}
    assert {n: getattr(tools, n).__tool__ for n in tools.marked} == {
        "balance": "read",
        "deposit": "write",
        "withdraw": "write",
    }
    assert str(inspect.signature(tools.deposit)) == "(*, amount: int | float) -> str"
    assert "amount: amount" in inspect.getdoc(tools.deposit)
    with pytest.raises(ValueError, match="amount"):
        tools.deposit()
    assert tools.db.world == {"balance": 100.0}


def test_the_data_is_that_of_a_domain(domain: ModuleType, tmp_path: Path) -> None:
    data = tmp_path / "out/data/tau2/domains/ledger"
    assert json.loads((data / "split_tasks.json").read_text()) == {"base": ["c1"]}
    assert json.loads((data / "db.json").read_text())["world"] == {}
    assert "Balances are shown with one decimal." in domain.get_environment().policy
    assert domain.get_tasks(None)[0].user_scenario["instructions"].startswith("Bring the world into this state")


def test_a_case_that_only_reads_is_judged_by_its_calls(package: EnvironmentPackage, tmp_path: Path) -> None:
    export_environment(package, tmp_path / "a", to="tau2", cases=case("r", GOOD[:1]))
    told = json.loads((tmp_path / "a/data/tau2/domains/ledger/tasks.json").read_text())
    assert told[0]["evaluation_criteria"]["reward_basis"] == ["ACTION"]


def test_names_that_are_no_functions_are_refused(tmp_path: Path) -> None:
    none: list[dict[str, Any]] = []
    records = world(
        action_schema=[{"action": "go-on"}],
        rules=[rule("r", "go-on", template="x")],
        **dict.fromkeys(("action_args", "action_aliases", "conditions", "mutations", "invariants"), none),
    )
    with pytest.raises(UsageError, match="'go-on' cannot be named"):
        export_environment(compile_package(frames(records), AUTHORED), tmp_path / "a", to="tau2")


def test_a_state_with_pending_events_is_left_out(package: EnvironmentPackage, two: Frames, tmp_path: Path) -> None:
    queued = {"world": {"balance": 100.0}, "pending_events": [{"due_step": 9, "effects": []}]}
    cases = two[0].with_columns(
        initial_state_json=pl.when(pl.col("case_id") == "c1")
        .then(pl.lit(json.dumps(queued)))
        .otherwise("initial_state_json")
    )
    left = export_environment(package, tmp_path / "a", to="tau2", cases=(cases, two[1]))
    assert left["c1"] == "its initial state has pending_events, which the database of a domain cannot hold"
