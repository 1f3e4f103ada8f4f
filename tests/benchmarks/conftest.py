"""`pytest -m benchmark tests/benchmarks --page FILE` writes what was measured as a Markdown table; without the option it is printed."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import pytest

from tests.benchmarks.cost import cost
from tests.benchmarks.page import Page
from tests.benchmarks.shop import write_shop
from tests.benchmarks.test_scale import one_file
from tests.helpers import RUN_CLI

PAGE = Page()
BEGUN = time.monotonic(), os.getloadavg()[0]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--page", type=Path, help="Markdown file for the table of all benchmarks of the run")
    parser.addoption("--section", default="All stages", help="heading of the table; sections of other headings stay")


@pytest.fixture(scope="session")
def page() -> Page:
    """Where a benchmark says what it measured."""
    return PAGE


@pytest.fixture(scope="session")
def starts(tmp_path_factory: pytest.TempPathFactory, page: Page) -> Callable[[str], float]:
    """CPU of a verb on a task or two: its start, which growth leaves out."""
    folder = tmp_path_factory.mktemp("starts")
    one_file(folder / "in", 4)
    held = folder / "held.jsonl"
    held.write_text(
        json.dumps({"benchmark": "held", "id": "h", "prompt": "no words of the attempts are held out"}) + "\n"
    )
    write_shop(folder / "shop.jsonl", 200)
    world, unseen = folder / "world", folder / "unseen.jsonl"
    write_shop(unseen, 20, first=200)
    cost(*RUN_CLI, "compile", folder / "in", "--out", folder / "out", "--quiet")
    cost(*RUN_CLI, "env", "build", folder / "shop.jsonl", "--env-id", "e", "--out", world, codes=(0, 3))
    commands = {
        "read": ("read", folder / "in", "--out", folder / "read", "--quiet"),
        "compile": ("compile", folder / "in", "--out", folder / "out", "--force", "--quiet"),
        "verify": ("verify", folder / "out"),
        "dataset": ("dataset", folder / "out", "--to", "trl-sft", "--out", folder / "ds", "--quiet"),
        "decontaminate": ("decontaminate", folder / "out", "--against", held, "--quiet"),
        "env build": ("env", "build", folder / "shop.jsonl", "--env-id", "e", "--out", folder / "again"),
        "env evaluate": ("env", "evaluate", world, unseen, "--json"),
    }

    @cache
    def start(verb: str) -> float:
        ours = cost(*RUN_CLI, *commands[verb], codes=(0, 3))
        stage = verb.replace("env ", "environment, ")
        page.add(stage, "the start alone", ours.cpu, unit="s CPU", memory_mib=ours.sum_mib)
        return ours.cpu

    return start


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With `--page` only those run that have something to say on it."""
    if config.getoption("--page", None) is None:
        return
    mute = [i for i in items if i.get_closest_marker("benchmark") and "page" not in getattr(i, "fixturenames", ())]
    config.hook.pytest_deselected(items=mute)
    items[:] = [i for i in items if i not in mute]


def pytest_sessionfinish(session: pytest.Session) -> None:
    if not PAGE.lines and not PAGE.notes:
        return
    title, target = session.config.getoption("--section", "All stages"), session.config.getoption("--page", None)
    begun, load = BEGUN
    minutes = (time.monotonic() - begun) / 60
    about = f"{datetime.now(UTC):%Y-%m-%d}, {minutes:.0f} minutes, load {load:.1f} when it began."
    if target is None:
        print("\n" + PAGE.section(title, about))
    else:
        PAGE.write(target, title, about)
