"""The core that exports stand on, and cases made of held-out episodes."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from expcomp.environments.assessment import assess
from expcomp.environments.core import Environment, Score, open_environment
from expcomp.environments.frames import frames
from expcomp.environments.heldout import held_out_cases
from expcomp.environments.package import EnvironmentPackage, compile_package
from expcomp.environments.replay import replay
from expcomp.errors import SessionError, TableError, UsageError
from tests.environments.reconstructed import CONFIG, package_frames
from tests.environments.test_replay import GOOD, case
from tests.environments.worlds import AUTHORED, LEDGER


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("core") / "pkg"
    assess(compile_package(package_frames(), CONFIG), *case()).promote(out)
    return out


def test_a_validated_package_is_stepped_through_its_cases(folder: Path) -> None:
    env = open_environment(folder)
    assert env.case_ids == ["c1"]
    assert [t["function"]["name"] for t in env.tools] == ["balance", "deposit", "withdraw"]
    assert env.reset("c1")["world"] == {"balance": 100.0}
    told = [env.step(action, arguments).observation for action, arguments, *_ in GOOD]
    assert told == [text for _, _, text, *_ in GOOD]
    assert env.score() == Score(1.0, 1.0, 1.0)


def test_a_score_says_what_is_missing(folder: Path) -> None:
    env = open_environment(folder)
    env.reset("c1")
    assert env.score() == Score(0.0, 0.0, 0.0)
    env.step("put", {"amount": 5})
    env.step("deposit", {"amount": 5})
    # One of three calls that succeeded, an alias counts; the balance is not the recorded last one.
    assert env.score() == Score(0.0, 1 / 3, 0.0)
    env.reset(initial_state={"world": {"balance": 1}})
    with pytest.raises(UsageError, match="reset to a case"):
        env.score()


def test_what_cannot_be_answered_is_told_and_changes_nothing(folder: Path) -> None:
    env = open_environment(folder)
    env.reset(initial_state={})
    unknown, invalid = env.step("withdraw", {"amount": 1}), env.step("withdraw", {})
    assert (unknown.route, invalid.route, env.state["revision"]) == ("abstain", "error", 0)
    assert invalid.observation.startswith("Error: action withdraw: amount is missing")


def test_episodes_begin_with_reset(folder: Path) -> None:
    env = open_environment(folder)
    with pytest.raises(UsageError, match="call reset"):
        env.step("balance")
    with pytest.raises(UsageError, match="no case 'c9'; there are 1, as c1"):
        env.reset("c9")
    with pytest.raises(UsageError, match="not both"):
        env.reset("c1", initial_state={})
    with pytest.raises(SessionError, match="initial state"):
        env.reset()
    with pytest.raises(UsageError, match="together"):
        Environment(env.package, cases=env.cases)
    assert Environment(compile_package(frames(LEDGER), AUTHORED)).reset()["world"] == {}


def held(**changes: object) -> tuple[EnvironmentPackage, pl.DataFrame, pl.DataFrame]:
    """A package, and its own episode as if it had been held out."""
    package = compile_package(package_frames(), CONFIG)
    episodes = package["episodes"].with_columns(
        split=pl.lit("validation", dtype=package["episodes"].schema["split"]), trajectory_group=pl.lit("other")
    )
    return package, episodes, package["transitions"]


def test_a_held_out_episode_is_a_case() -> None:
    package, episodes, transitions = held()
    states = pl.DataFrame({"episode_id": ["ep_1"], "state_json": ['{"world": {"balance": 10.0}}']})
    after = pl.DataFrame({"transition_id": ["tr_3"], "state_json": ['{"world.balance": 10.0}']})
    cases, steps, left = held_out_cases(
        episodes,
        transitions,
        outcomes=package["evidence"].select("transition_id", "outcome"),
        states=states,
        after=after,
    )
    done = replay(package, cases, steps)
    assert (done.cases["passed"].to_list(), left.height) == ([True], 0)
    assert done.steps["state_ok"].to_list() == [None, None, None, True]
    assert steps["match"].cast(pl.String).to_list() == ["exact"] * 4


def test_a_case_ends_before_the_first_step_without_a_certain_answer() -> None:
    _, episodes, transitions = held()
    unsure = transitions.with_columns(usable=pl.col("transition_id") != "tr_1")
    cases, steps, left = held_out_cases(episodes, unsure)
    assert (cases["initial_state_json"].to_list(), steps.height) == (["{}"], 1)
    assert left.rows() == [
        ("tr_1", "no certain answer"),
        ("tr_2", "after a step without a certain answer"),
        ("tr_3", "after a step without a certain answer"),
    ]


def test_training_episodes_give_no_case_and_json_is_compared_as_values() -> None:
    package, episodes, transitions = held()
    assert held_out_cases(package["episodes"], transitions)[0].is_empty()
    as_json = transitions.with_columns(observation=pl.lit('{"a": 1}'))
    assert held_out_cases(episodes, as_json)[1]["match"].cast(pl.String).unique().to_list() == ["json"]
    with pytest.raises(TableError, match="no JSON object"):
        held_out_cases(episodes, transitions, states=pl.DataFrame({"episode_id": ["ep_1"], "state_json": ["[]"]}))
