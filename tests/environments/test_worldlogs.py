"""Recorded worlds as JSON lines: calls with the states around them become episodes, probes episodes of their own."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from expcomp.environments.build import build_environment, evaluate_environment
from expcomp.environments.gathering import gather
from expcomp.environments.starting import states_around
from expcomp.errors import SourceError

Record = dict[str, Any]


def counter(number: int, *, steps: int = 6) -> list[Record]:
    """Calls of a counter that never goes above 9, with the state before and after each; every step is also probed."""
    draw = random.Random(number)
    value, found = draw.randint(0, 9), []
    for step in range(steps):
        for kind in ("step", "probe"):
            by = draw.randint(1, 9)
            full = value + by > 9
            after = value if full else value + by
            found.append(
                {
                    "id": f"t{number}/{step}/{kind}",
                    "record": kind,
                    "task_id": f"t{number}",
                    "step": step,
                    "action": "add",
                    "arguments": {"by": by},
                    "observation": json.dumps({"error": f"{value} and {by} is too much"} if full else {"value": after}),
                    "is_error": full,
                    "state_before": {"value": value},
                    "state_after": {"value": after},
                }
            )
            value = after if kind == "step" else value
    return found


def lines_of(path: Path, records: list[Record]) -> Path:
    text = "".join(json.dumps(r) + "\n" for r in records).encode()
    path.write_bytes(gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)
    return path


def test_calls_with_states_become_episodes_and_probes_their_own(tmp_path: Path) -> None:
    path = lines_of(tmp_path / "log.jsonl", counter(1, steps=2))
    found = gather([path])
    assert found.episodes.height == 3
    assert found.episodes["trajectory_group"].unique().to_list() == ["t1"]
    assert found.episodes["metadata_json"].drop_nulls().to_list() == ['{"counterfactual":true}'] * 2
    around = states_around(found.events)
    assert around.drop_nulls().height == 4
    one = found.episodes.filter(pl.col("metadata_json").is_null())["episode_id"][0]
    kinds = found.events.filter(pl.col("episode_id") == one)["kind"].cast(pl.String).to_list()
    assert kinds == ["state", "action", "observation", "state", "action", "observation", "state"]
    assert found.sources.select("label", pl.col("media").cast(pl.String)).rows() == [("log.jsonl", "jsonl")]


def test_episodes_with_states_become_episodes(tmp_path: Path) -> None:
    record = {
        "episode_id": "e1",
        "group": "g",
        "initial_state": {"balance": 5},
        "steps": [
            {
                "user": "Put 3 in.",
                "action": {"type": "deposit", "arguments": {"amount": 3}},
                "observation": "Balance: 8",
                "outcome": "success",
                "balance_after": 8,
            },
            {"action": "close", "observation": {"closed": True}, "is_error": False, "call_id": "c2"},
        ],
        "final_state": {"balance": 0},
    }
    found = gather([lines_of(tmp_path / "log.jsonl.gz", [record])])
    told = found.events.select(pl.col("kind").cast(pl.String), "content", "call_id", "is_error").rows()
    assert told == [
        ("state", '{"world": {"balance": 5}}', None, None),
        ("message", "Put 3 in.", None, None),
        ("action", 'deposit {"amount": 3}', None, None),
        ("observation", "Balance: 8", None, False),
        ("state", '{"world": {"balance": 8}}', None, None),
        ("action", "close {}", "c2", None),
        ("observation", '{"closed": true}', "c2", False),
        ("state", '{"world": {"balance": 0}}', None, None),
    ]
    assert found.episodes.select("original_id", "trajectory_group").rows() == [("e1", "g")]


def test_copies_are_read_once_and_order_does_not_matter(tmp_path: Path) -> None:
    paths = [lines_of(tmp_path / f"{n}.jsonl", counter(n, steps=1)) for n in (1, 2)]
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes(paths[0].read_bytes())
    once, again = gather(paths), gather([copy, *reversed(paths)])
    assert again.copies == 2
    assert again.events.equals(once.events)
    assert gather([tmp_path]).events.equals(once.events)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"arguments": [1]}, "line 2: field arguments: expected an object"),
        ({"action": None}, "line 2: field action: expected a name"),
        ({"state_before": 1}, "line 2: expected episode_id or task_id"),
        ({"state_after": {"value": float("nan")}}, "line 2: state_after.value is no finite number"),
    ],
)
def test_a_line_that_is_none_is_named(change: Record, words: str, tmp_path: Path) -> None:
    first, second = counter(1, steps=1)
    with pytest.raises(SourceError, match=words):
        gather([lines_of(tmp_path / "log.jsonl", [first, second | change])])


def test_states_are_learned_scored_and_played(tmp_path: Path) -> None:
    log = lines_of(tmp_path / "log.jsonl", [r for n in range(24) for r in counter(n, steps=4)])
    built = build_environment(log, environment_id="counter")
    overall = built.report["evaluation"]["overall"]
    assert overall["state"] > 0.95
    assert overall["outcome_mcc"] > 0.9
    assert overall["intervals"]["outcome_mcc"] == {"reason": "zero_width"}
    assert built.report["metrics"]["state"] is not None
    effects = built.package["mutations"].select("path", "value_json").unique().rows()
    assert ("world.value", '"(arg.by + world.value)"') in effects
    fresh = lines_of(tmp_path / "fresh.jsonl", [r for n in range(50, 53) for r in counter(n, steps=4)])
    found, _ = evaluate_environment(built.package, fresh)
    assert (found["leaky_steps"], found["steps"]) == (0, 24)
    assert found["free_running"]["episodes"] == 15


def episode(name: str = "e", **more: Any) -> Record:
    return {
        "episode_id": name,
        "initial_state": {"v": 1},
        "steps": [{"action": "a", "arguments": {"x": name}, "observation": f"o {name}"}],
        **more,
    }


@pytest.mark.parametrize(
    ("records", "told"),
    [
        ([episode(), episode()], "line 2: field episode_id: 'e' is that of line 1"),
        ([episode(steps=[{"action": "a", "observation": "o", "call_id": ["x"]}])], "line 1, step 0: field call_id"),
        ([{**counter(1)[0], "step": "1"}, counter(1)[2]], "line 1: field step: expected a number"),
        ([{**counter(1)[0], "step": None}], "line 1: field step: expected a number"),
    ],
)
def test_what_cannot_be_placed_is_refused_by_line_and_field(tmp_path: Path, records: list[Record], told: str) -> None:
    """Not by a gate of the package that is made of it."""
    with pytest.raises(SourceError, match=rf"log\.jsonl, {told}"):
        gather([lines_of(tmp_path / "log.jsonl", records)])


def test_a_family_of_null_is_none(tmp_path: Path) -> None:
    """Such episodes are families of their own, not one."""
    path = lines_of(tmp_path / "log.jsonl", [episode("a", group=None, task_id="t"), episode("b", group=None)])
    assert sorted(gather([path]).episodes["trajectory_group"]) == ["b", "t"]


@pytest.mark.parametrize("mark", ["\x00", "\ue000"])
def test_an_answer_may_hold_the_marks_of_the_induction(tmp_path: Path, mark: str) -> None:
    """They stand for themselves."""
    steps = [{"action": "say", "arguments": {"x": f"word{i}"}, "observation": f"{mark} said word{i}"} for i in range(3)]
    records = [episode(f"e{i}", steps=steps) for i in range(12)]
    built = build_environment([lines_of(tmp_path / "log.jsonl", records)], environment_id="marks")
    rules = built.package["rules"].filter(pl.col("status") == "supported")
    assert rules.height
    assert (rules["heldout_hit"] == rules["heldout_n"]).all()
