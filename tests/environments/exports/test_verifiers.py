"""The verifiers package: its files, and the taskset under the library itself."""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.environments.exports.conftest import Export
from tests.environments.test_replay import GOOD


@pytest.fixture
def out(export: Export, tmp_path: Path) -> Path:
    assert list(export("verifiers")) == ["Two words/2"]
    return tmp_path / "out"


def test_a_task_is_a_case_that_its_calls_solve(out: Path) -> None:
    told = [json.loads(line) for line in (out / "ledger/tasks.jsonl").read_text().splitlines()]
    assert [(t["case_id"], t["prompt"][:11]) for t in told] == [("c1", "Bring the w")]
    assert [json.loads(line)["case_id"] for line in (out / "ledger/cases.jsonl").read_text().splitlines()] == ["c1"]


@pytest.fixture
def tasks(out: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    pytest.importorskip("verifiers.v1", reason="verifiers is not installed")
    from verifiers.v1.utils.loaders import load_taskset, taskset_config_type

    sys.modules.pop("ledger", None)
    monkeypatch.syspath_prepend(out)
    importlib.invalidate_caches()
    yield list(load_taskset(taskset_config_type("ledger")(id="ledger")))
    sys.modules.pop("ledger", None)


@pytest.mark.client
@pytest.mark.filterwarnings("default")
def test_the_library_loads_serves_and_scores_a_task(tasks: list[Any]) -> None:
    from mcp import Client
    from mcp.server.mcpserver import MCPServer

    (task,) = tasks
    assert task.data.case_id == "c1"

    async def roll() -> tuple[list[str], list[str], bool]:
        (tools,) = type(task).toolsets(task.config)
        await tools.setup_task(task.data)
        server = MCPServer("world")
        tools.register(server)
        async with Client(server) as client:
            names = [t.name for t in (await client.list_tools()).tools]
            told = [(await client.call_tool(action, arguments)).content[0].text for action, arguments, *_ in GOOD]
            refused = await client.call_tool("withdraw", {})
        return names, told, refused.is_error

    names, told, refused = asyncio.run(roll())
    assert (names, told, refused) == (["balance", "deposit", "withdraw"], [text for _, _, text, *_ in GOOD], True)

    found: dict[str, float] = {}
    calls = [{"tool": action, "arguments": arguments} for action, arguments, *_ in GOOD]
    trace = SimpleNamespace(state=SimpleNamespace(calls=calls), record_metrics=found.update)
    assert asyncio.run(task.solved(trace)) == 1.0
    assert found == {"state": 1.0, "calls": 1.0}
    trace.state.calls = calls[:2]
    assert asyncio.run(task.solved(trace)) == 0.0
    assert asyncio.run(task.validate(None)) is True
