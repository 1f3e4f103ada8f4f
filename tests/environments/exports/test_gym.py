"""The Gymnasium environment, checked by the library itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from expcomp.environments.core import Environment
from expcomp.environments.exports.case_lines import case_text
from expcomp.environments.frames import frames
from expcomp.environments.package import EnvironmentPackage, compile_package
from expcomp.errors import SessionError, UsageError
from tests.environments.test_replay import GOOD
from tests.environments.worlds import AUTHORED, LEDGER

gymnasium = pytest.importorskip("gymnasium")

from gymnasium.utils.env_checker import check_env  # noqa: E402

from expcomp.environments.gym import ID, ReplayEnv  # noqa: E402

Frames = tuple[pl.DataFrame, pl.DataFrame]


def test_the_checker_of_the_library_has_nothing_to_say(folder: Path) -> None:
    env = gymnasium.make(f"expcomp.environments.gym:{ID}", package=folder)
    check_env(env.unwrapped)  # warnings are errors in this suite


def test_an_authored_package_needs_no_case() -> None:
    env = ReplayEnv(Environment(compile_package(frames(LEDGER), AUTHORED)), max_steps=2)
    _, info = env.reset(seed=1)
    assert info["case_id"] is None
    told = [env.step({"tool": 0, "arguments": "{}"}) for _ in range(2)]
    assert [(r, t, c) for _, r, t, c, _ in told] == [(0.0, False, False), (0.0, False, True)]


def test_a_recorded_case_is_walked_to_its_end(folder: Path) -> None:
    env = ReplayEnv(folder, render_mode="ansi")
    first, info = env.reset(options={"case_id": "c1"})
    assert (first, info["case_id"], [t["function"]["name"] for t in info["tools"]]) == ("", "c1", env.tool_names)
    done = [env.step({"tool": a, "arguments": args}) for a, args, *_ in GOOD[:3]]
    assert [(text, reward, ended) for text, reward, ended, _, _ in done] == [
        ("Balance: 100.0", 0.0, False),
        ("Deposited 5. Balance: 105.0", 0.0, False),
        ("Withdrew 25. Balance: 80.0", 1.0, True),
    ]
    assert done[-1][4] == {
        "route": "rule",
        "rule_ids": ["r_withdraw"],
        "confidence": 1.0,
        "outcome": "success",
        "abstained": False,
        "issues": [],
    }
    assert env.render() == "Withdrew 25. Balance: 80.0"


def test_what_cannot_be_answered_is_an_observation(folder: Path) -> None:
    env = ReplayEnv(folder, max_steps=4)
    env.reset(options={"initial_state": {"world": {}}})
    told: list[tuple[Any, ...]] = [
        env.step({"tool": "withdraw", "arguments": given}) for given in ("[1]", "{", '{"amount": "x"}', {"amount": 1})
    ]
    assert [t[0].startswith("Error: ") for t in told] == [True] * 4
    assert [(t[4]["route"], t[4]["abstained"]) for t in told] == [("error", False)] * 3 + [("abstain", True)]
    assert [t[3] for t in told] == [False, False, False, True]
    assert all(env.observation_space.contains(t[0]) for t in told)


def test_the_seed_draws_the_case(package: EnvironmentPackage, folder: Path, two: Frames, tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_text(case_text(*two))
    env = ReplayEnv(folder, cases=path)
    drawn = [env.reset(seed=s)[1]["case_id"] for s in range(8)]
    assert set(drawn) == {"c1", "Two words/2"}
    assert drawn == [env.reset(seed=s)[1]["case_id"] for s in range(8)]


def test_a_reward_may_be_plugged_in(folder: Path) -> None:
    env = ReplayEnv(folder, reward=lambda env, step, ended: 0.5 * (step.outcome == "success") + ended)
    env.reset()
    assert [env.step({"tool": a, "arguments": args})[1] for a, args, *_ in GOOD[:3]] == [0.5, 0.5, 1.5]


def test_wrong_use_is_said(folder: Path) -> None:
    with pytest.raises(UsageError, match="max_steps 0"):
        ReplayEnv(folder, max_steps=0)
    env = ReplayEnv(folder)
    with pytest.raises(UsageError, match="option case: expected case_id or initial_state"):
        env.reset(options={"case": 1})
    with pytest.raises(UsageError, match="call reset"):
        env.step({"tool": 0, "arguments": "{}"})
    with pytest.raises(SessionError, match="initial state"):
        ReplayEnv(
            Environment(
                env.environment.package, cases=env.environment.cases.clear(), steps=env.environment.case_steps.clear()
            )
        ).reset()
