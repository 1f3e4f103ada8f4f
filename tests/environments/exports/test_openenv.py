"""The OpenEnv folder: its files, and the server, asked by the clients of the library itself."""

from __future__ import annotations

import asyncio
import importlib
import json
import socket
import sys
import threading
import time
import tomllib
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from expcomp.environments.exports.openenv import action_schema
from expcomp.environments.package import EnvironmentPackage
from tests.environments.exports.conftest import Export
from tests.environments.test_replay import GOOD


@pytest.fixture
def out(export: Export, tmp_path: Path) -> Path:
    assert export("openenv") == {}
    return tmp_path / "out"


def test_the_folder_is_that_of_an_environment(out: Path) -> None:
    told = dict(line.split(": ") for line in (out / "openenv.yaml").read_text().splitlines())
    assert told == {
        "spec_version": "1",
        "name": "ledger",
        "type": "space",
        "runtime": "fastapi",
        "app": "server.app:app",
        "port": "8000",
    }
    project = tomllib.loads((out / "pyproject.toml").read_text())["project"]
    assert project["scripts"]["server"] == "ledger.server.app:main"
    assert [n.partition(">")[0] for n in project["dependencies"]][1] == "openenv-core[core]"
    assert (out / "server/Dockerfile").is_file()


def test_the_action_schema_takes_the_calls_of_the_package_and_no_others(out: Path, package: EnvironmentPackage) -> None:
    schema = json.loads((out / "action_schema.json").read_text())
    assert schema == action_schema(package.frames)
    check = jsonschema.Draft202012Validator(schema)
    for action, arguments, *_ in GOOD:
        assert check.is_valid({"tool_name": action, "arguments": arguments})
    assert check.is_valid({"type": "list_tools"})
    for wrong in (
        {"tool_name": "steal"},
        {"tool_name": "deposit"},
        {"tool_name": "deposit", "arguments": {"amount": "x"}},
        {},
    ):
        assert not check.is_valid(wrong)


@pytest.fixture
def url(out: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The server of the folder on the loopback."""
    pytest.importorskip("openenv", reason="openenv-core is not installed")
    uvicorn = pytest.importorskip("uvicorn")
    monkeypatch.syspath_prepend(out)
    for name in [n for n in sys.modules if n.partition(".")[0] == "server"]:
        del sys.modules[name]
    app = importlib.import_module("server.app").app
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_level="critical"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [free]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.02)
        yield f"http://127.0.0.1:{free.getsockname()[1]}"
        server.should_exit = True
        thread.join(10)


client = [pytest.mark.client, pytest.mark.filterwarnings("default")]


def marked(test: Any) -> Any:
    for mark in client:
        test = mark(test)
    return test


@marked
def test_the_schema_of_the_server_is_ours(url: str, package: EnvironmentPackage) -> None:
    with urllib.request.urlopen(f"{url}/schema") as response:
        assert json.load(response)["action"] == action_schema(package.frames)


@marked
def test_the_library_finds_the_server_sound(url: str) -> None:
    from openenv.cli._validation import validate_running_environment

    found = validate_running_environment(url)
    assert found["passed"], [c for c in found["criteria"] if not c["passed"]]


@marked
def test_the_clients_of_the_library_walk_a_case(url: str, package: EnvironmentPackage) -> None:
    from openenv.core.generic_client import GenericEnvClient
    from openenv.core.mcp_client import MCPToolClient

    async def walk() -> tuple[list[str], list[Any], list[str]]:
        async with MCPToolClient(base_url=url) as tools:
            await tools.reset(case_id="c1")
            listed = [t.name for t in await tools.list_tools()]
            told = [await tools.call_tool(action, **arguments) for action, arguments, *_ in GOOD]
        async with GenericEnvClient(base_url=url) as env:
            await env.reset(case_id="c1")
            steps = [
                await env.step({"tool_name": action, "arguments": arguments}) for action, arguments, *_ in GOOD[:3]
            ]
        return listed, [(s.reward, s.done) for s in steps], told

    listed, ends, told = asyncio.run(walk())
    assert listed == package["action_schema"]["action"].to_list()
    assert told == [text for _, _, text, *_ in GOOD]
    assert ends == [(0.0, False), (0.0, False), (1.0, True)]
