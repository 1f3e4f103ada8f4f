"""From loads and plain transcripts to sources, episodes and events."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import expcomp as xc
from expcomp.environments.recordings import recordings
from expcomp.environments.splits import place, split_of
from expcomp.environments.transcripts import transcripts
from expcomp.errors import SourceError, UsageError
from tests.helpers import package

TEXT = """Note to the reader.
User: Add twenty
dollars.
Action: {"type":"deposit","arguments":{"amount":20}}
Observation: Deposited 20.
Balance: 120.0
action: withdraw 25
ERROR: Closed: come back later
Tool call: {"name":"balance"}
"""


def spoken(text: str = TEXT, **options: Any) -> pl.DataFrame:
    return transcripts(pl.DataFrame({"label": ["a.txt"], "text": [text]}), **options).events


def test_a_transcript_becomes_events_in_order() -> None:
    events = spoken()
    assert events.select("actor", "kind", "content").rows() == [
        ("unknown", "meta", "Note to the reader."),
        ("user", "message", "Add twenty\ndollars."),
        ("agent", "action", '{"type":"deposit","arguments":{"amount":20}}'),
        ("environment", "observation", "Deposited 20.\nBalance: 120.0"),
        ("agent", "action", "withdraw 25"),
        ("environment", "error", "Closed: come back later"),
        ("agent", "action", '{"name":"balance"}'),
    ]
    assert events.filter(pl.col("kind") == "action").select("action_name", "arguments").rows() == [
        ("deposit", '{"amount":20}'),
        ("withdraw", '{"input":"25"}'),
        ("balance", "{}"),
    ]
    assert events["is_error"].to_list() == [None, None, None, None, None, True, None]
    assert events["content_is_json"].to_list() == [False, False, True, False, False, False, True]


def test_every_character_of_a_transcript_lies_in_one_event() -> None:
    events = spoken()
    cut = [TEXT[a:b].rstrip("\n") for a, b in events.select("char_start", "char_end").rows()]
    assert "\n".join(cut) == TEXT.rstrip("\n")


def test_a_source_is_its_bytes_whatever_it_is_called() -> None:
    both = pl.DataFrame({"label": ["a.txt", "x/b.txt"], "text": [TEXT, TEXT]})
    found = transcripts(both)
    assert (found.sources.height, found.episodes.height) == (1, 1)
    assert found.sources.select("label", "n_bytes", "text_verbatim").row(0) == ("a.txt", len(TEXT), True)
    other = transcripts(both.reverse())
    assert other.sources["label"].to_list() == ["b.txt"]
    assert other.events.equals(found.events)


def test_a_text_without_roles_is_an_error() -> None:
    with pytest.raises(SourceError, match=r"a\.txt: no line begins with a role"):
        spoken("Once upon a time\n")


def test_secrets_do_not_get_into_events_or_snapshots() -> None:
    key = "sk-" + "a1B2" * 12
    found = transcripts(pl.DataFrame({"label": ["a"], "text": [f"User: my key is {key}\nAction: go {key}\n"]}))
    assert (
        key
        not in "".join(found.events["content"])
        + "".join(found.events["arguments"].drop_nulls())
        + found.sources["text"][0]
    )
    assert found.sources["text_verbatim"].to_list() == [False]
    assert sum(found.redactions.values()) > 0


def chat(tmp_path: Path, messages: list[dict[str, Any]], name: str = "chat.jsonl") -> Any:
    path = tmp_path / name
    path.write_text(json.dumps({"messages": messages}) + "\n", encoding="utf-8")
    return xc.read_traces(path)


def call(ident: str, name: str, **arguments: Any) -> dict[str, Any]:
    return {"id": ident, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def test_calls_and_answers_of_a_chat(tmp_path: Path) -> None:
    ts = chat(
        tmp_path,
        [
            {"role": "user", "content": "Go."},
            {
                "role": "assistant",
                "content": "Two at once.",
                "tool_calls": [call("c1", "look", at="a"), call("c2", "look", at="b")],
            },
            {"role": "tool", "tool_call_id": "c2", "content": '{"b": 2}'},
            {"role": "tool", "tool_call_id": "c1", "content": "one"},
            {"role": "assistant", "content": "Done."},
        ],
    )
    events = recordings(ts).events
    assert events.select("actor", "kind", "call_id", "batch_size").rows()[:5] == [
        ("user", "message", None, 1),
        ("agent", "message", None, 1),
        ("agent", "action", "c1", 2),
        ("agent", "action", "c2", 2),
        ("tool", "observation", "c2", 1),
    ]
    assert events["ordinal"].to_list() == list(range(events.height))
    assert events["action_name"].drop_nulls().to_list() == ["look", "look"]
    assert events["parent_event_id"].to_list() == [
        None,
        None,
        events["event_id"][1],
        events["event_id"][1],
        None,
        None,
        None,
    ]


def test_calls_of_a_message_without_words_have_a_parent_in_common(tmp_path: Path) -> None:
    ts = chat(
        tmp_path,
        [
            {"role": "user", "content": "Go."},
            {"role": "assistant", "content": None, "tool_calls": [call("c1", "a"), call("c2", "b")]},
            {"role": "tool", "tool_call_id": "c1", "content": "1"},
            {"role": "tool", "tool_call_id": "c2", "content": "2"},
            {"role": "assistant", "tool_calls": [call("c3", "c")]},
            {"role": "tool", "tool_call_id": "c3", "content": "3"},
        ],
    )
    actions = recordings(ts).events.filter(pl.col("kind") == "action")
    first = actions["event_id"][0]
    assert actions["parent_event_id"].to_list() == [first, first, None]


def test_package_steps_are_actions_too(tmp_path: Path) -> None:
    found = recordings(xc.read_traces(package(tmp_path)))
    actions = found.events.filter(pl.col("kind") == "action")
    assert set(actions["action_name"]) == {"bash", "http"}
    assert actions["arguments"][0] == '{"input":"wc -l gauges.csv"}'
    errors = found.events.filter(pl.col("is_error"))
    assert set(errors["content"]) == {"no answer"}
    assert found.episodes["trajectory_group"].unique().to_list() == ["task_a"]


def test_ids_do_not_depend_on_where_a_file_lies(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Ho."}]
    for name in ("one", "two/three"):
        (tmp_path / name).mkdir(parents=True)
    one, two = (recordings(chat(tmp_path / n, messages)) for n in ("one", "two/three"))
    assert one.events.equals(two.events)
    assert os.fspath(tmp_path) not in str(one.sources.to_dicts()) + str(one.episodes.to_dicts())


def test_a_load_without_steps_is_an_error() -> None:
    with pytest.raises(SourceError, match="no step"):
        recordings(xc.TraceSet({}))


def test_a_split_is_by_family_and_stable() -> None:
    groups = pl.DataFrame({"g": [f"task-{i}" for i in range(2_000)]})
    whole = groups.select("g", s=split_of(pl.col("g"), holdout=0.2, seed=3))
    assert 0.17 < (whole["s"] == "validation").mean() < 0.23
    part = groups.sample(100, seed=1).select("g", s=split_of(pl.col("g"), holdout=0.2, seed=3))
    assert part.join(whole, on=["g", "s"], how="inner").height == 100
    assert whole["s"].equals(groups.select(s=split_of(pl.col("g"), holdout=0.2, seed=4))["s"]) is False
    assert groups.select(place(pl.col("g"))).to_series().is_between(0, 1, closed="left").all()
    with pytest.raises(UsageError, match="holdout 1"):
        split_of(pl.col("g"), holdout=1)
