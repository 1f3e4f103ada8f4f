"""Recorded events as JSON lines: one episode or one event a line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from expcomp.environments.align import align
from expcomp.environments.gathering import gather
from expcomp.errors import SourceError

Record = dict[str, Any]

KEY = "sk-" + "a1B2" * 12
EVENTS: list[Record] = [
    {"actor": "user", "kind": "message", "content": "Take 5 out."},
    {"actor": "agent", "kind": "action", "content": {"type": "withdraw", "arguments": {"amount": 5}}, "call_id": "c"},
    {"actor": "tool", "kind": "observation", "content": {"balance": 5}, "call_id": "c", "timestamp": "2026-01-01T00:00:00Z"},
    {"actor": "agent", "kind": "action", "content": "withdraw 9"},
    {"kind": "error", "content": "Error: too much", "timestamp": "soon", "note": f"key {KEY}"},
]  # fmt: skip


def lines_of(path: Path, records: list[Record]) -> Path:
    path.write_text("".join(json.dumps(r) + "\n" for r in records))
    return path


def test_an_event_a_line_and_an_episode_a_line_are_the_same_turns(tmp_path: Path) -> None:
    apart = lines_of(tmp_path / "a.jsonl", [{"trajectory_id": "e1", "task_id": 7, **e} for e in EVENTS])
    whole = lines_of(tmp_path / "b.jsonl", [{"episode_id": "e1", "task_id": 7, "events": EVENTS}])
    first, second = gather([apart]), gather([whole])
    wanted = (
        "actor",
        "kind",
        "action_name",
        "arguments",
        "content",
        "content_is_json",
        "is_error",
        "call_id",
        "timestamp",
    )
    assert first.events.select(wanted).equals(second.events.select(wanted))
    assert first.episodes.select("original_id", "trajectory_group", "task_id").rows() == [("e1", "7", "7")]
    turns = align(first.events)
    assert turns.select("action_type", "arguments_json", "observation", "alignment").rows() == [
        ("withdraw", '{"amount":5}', '{"balance": 5}', "correlated"),
        ("withdraw", '{"input":"9"}', "Error: too much", "sequential"),
    ]
    assert first.events["is_error"].to_list() == [None, None, None, None, True]


def test_a_time_that_cannot_be_read_and_what_is_not_mapped_stay_in_the_metadata(tmp_path: Path) -> None:
    found = gather([lines_of(tmp_path / "a.jsonl", [{"events": EVENTS}])])
    last = found.events.to_dicts()[-1]
    assert (last["timestamp"], last["actor"]) == (None, "unknown")
    assert json.loads(last["metadata_json"])["timestamp"] == "soon"
    assert KEY not in last["metadata_json"]
    assert sum(found.redactions.values()) == 1
    assert found.events["timestamp"].null_count() == len(EVENTS) - 1


def test_events_of_several_episodes_may_be_mixed_and_copies_are_read_once(tmp_path: Path) -> None:
    mixed = [{"episode_id": i, **e} for e in EVENTS for i in ("a", "b")]
    found = gather([lines_of(tmp_path / "x.jsonl", mixed), lines_of(tmp_path / "y.jsonl", mixed)])
    assert found.episodes["original_id"].sort().to_list() == ["a", "b"]
    assert found.episodes["n_events"].to_list() == [len(EVENTS)] * 2
    assert found.copies == 2


@pytest.mark.parametrize(
    ("second", "told"),
    [
        ({"episode_id": "a", "kind": "guess", "content": ""}, "line 2: expected events with actor"),
        ({"kind": "message", "content": ""}, "line 2: expected events"),
        ({"episode_id": "a", "kind": "action", "content": "x", "call_id": {}}, "line 2: field call_id"),
    ],
)
def test_a_line_that_is_no_event_is_named(tmp_path: Path, second: Record, told: str) -> None:
    path = lines_of(tmp_path / "a.jsonl", [{"episode_id": "a", **EVENTS[0]}, second])
    with pytest.raises(SourceError, match=told):
        gather([path])


def test_an_id_stands_for_one_episode(tmp_path: Path) -> None:
    path = lines_of(tmp_path / "a.jsonl", [{"episode_id": "a", "events": EVENTS}] * 2)
    with pytest.raises(SourceError, match="line 2: episode 'a' was on a line before"):
        gather([path])
