from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expcomp.sources._contract import Found, ReadOptions, Unit
from expcomp.sources._look import Look
from expcomp.sources.adp.reader import SOURCE
from expcomp.sources.load import read_frames
from expcomp.tables.core import CORE


def seen(content, source="environment", **more):
    return {"class_": "text_observation", "content": content, "name": None, "source": source} | more


def api(name="f", description="think", **more):
    return {"class_": "api_action", "function": name, "kwargs": {"x": "1"}, "description": description} | more


def code(content="ls", description=None, **more):
    return {"class_": "code_action", "language": "bash", "content": content, "description": description} | more


def told(content, description=None, **more):
    return {"class_": "message_action", "content": content, "description": description} | more


def row(*entries, **more):
    return {"id": "t_1", "content": list(entries), "details": {}} | more


def load(tmp_path, *rows, data=None):
    path = tmp_path / "x.json"
    path.write_bytes(json.dumps(list(rows)).encode() if data is None else data)
    return read_frames([path])


def codes(frames):
    return set(frames["diagnostics"]["code"])


def turns(frames):
    return [(m["role"], m["origin"], m["content"]) for m in frames["messages"].to_dicts()]


def test_actions_are_steps_and_results_answer_them(tmp_path):
    frames = load(
        tmp_path, row(seen("fix it", "user"), api(), seen("out"), code(), seen("files"), told("done", "thought"))
    )
    (attempt,) = frames["attempts"].to_dicts()
    assert (attempt["native_attempt_id"], attempt["task_id"], attempt["status"]) == ("t_1", None, "unknown")
    assert (attempt["passed"], attempt["score"], attempt["score_valid"]) == (None, None, None)
    assert (attempt["n_steps"], attempt["n_messages"], attempt["n_tool_calls"]) == (3, 6, 2)
    assert turns(frames) == [
        ("user", "human", "fix it"),
        ("assistant", "model", "think"),
        ("tool", "tool", "out"),
        ("assistant", "model", None),
        ("tool", "tool", "files"),
        ("assistant", "model", "done"),
    ]
    steps = frames["steps"].filter(source="agent").to_dicts()
    calls = [[(c["id"], c["name"], c["arguments"], c["kind"]) for c in s["tool_calls"]] for s in steps]
    assert calls == [[(None, "f", '{"x":"1"}', "function")], [(None, "bash", "ls", "custom")], []]
    assert [[(o["call_id"], o["content"]) for o in s["observations"]] for s in steps] == [
        [(None, "out")],
        [(None, "files")],
        [],
    ]
    assert steps[2]["reasoning"] == "thought"
    assert codes(frames) == {"matched_by_position"}


def test_results_under_the_users_name_are_results(tmp_path):
    frames = load(tmp_path, row(seen("q", "user"), code(), seen("out", "user"), seen("and now?", "user"), told("ok")))
    assert [t[:2] for t in turns(frames)] == [
        ("user", "human"),
        ("assistant", "model"),
        ("tool", "tool"),
        ("user", "human"),
        ("assistant", "model"),
    ]


def test_a_run_of_calls_is_answered_in_order(tmp_path):
    frames = load(
        tmp_path, row(api("a"), api("b"), seen("1"), seen("2"), api("c"), api("d"), seen("3"), seen("4"), seen("5"))
    )
    steps = frames["steps"].to_dicts()
    assert [[o["content"] for o in s["observations"]] for s in steps] == [["1"], ["2"], ["3"], ["4", "5"]]
    frames = load(tmp_path, row(api("a"), api("b"), seen("2")))
    assert [[o["content"] for o in s["observations"]] for s in frames["steps"].to_dicts()] == [[], ["2"]]
    assert {"unanswered_call", "matched_by_position"} == codes(frames)
    assert "adp:" not in frames["diagnostics"].write_ndjson()


def test_ids_match_where_there_are_some(tmp_path):
    entries = [
        api("a", tool_call_id="1"),
        api("b", tool_call_id="2"),
        seen("two", tool_call_id="2"),
        seen("one", tool_call_id="1"),
    ]
    frames = load(tmp_path, row(*entries))
    steps = frames["steps"].to_dicts()
    assert [[(o["call_id"], o["content"]) for o in s["observations"]] for s in steps] == [
        [("1", "one")],
        [("2", "two")],
    ]
    assert frames["messages"]["tool_call_id"].to_list() == [None, None, "2", "1"]
    assert codes(frames) == set()


def test_what_an_environment_shows_first_is_no_instruction(tmp_path):
    frames = load(tmp_path, row(seen("tools", name="system"), seen("page"), seen("q", "user"), told("a")))
    assert turns(frames) == [
        ("system", "harness", "tools"),
        ("user", "harness", "page"),
        ("user", "human", "q"),
        ("assistant", "model", "a"),
    ]
    assert frames["attempts"]["has_system_prompt"].to_list() == [True]


def test_newer_fields(tmp_path):
    entries = [
        api(reasoning_content="deep", reward=0.5, odd=1),
        seen("r", reward=1.0),
        told("x", "why", reasoning_content="deep"),
    ]
    frames = load(tmp_path, row(*entries, schema_version="1.2.0", available_apis=["f"]))
    first, second = frames["steps"].to_dicts()
    assert (first["reasoning"], first["content"], first["local_reward"]) == ("deep", "think", 0.5)
    assert json.loads(first["detail"]) == {"odd": 1}
    assert (second["reasoning"], json.loads(second["detail"])) == ("deep", {"description": "why"})
    (attempt,) = frames["attempts"].to_dicts()
    assert attempt["source_version"] == "1.2.0"
    assert json.loads(attempt["metadata"]) == {"available_apis": ["f"]}


def test_the_reward_of_a_result_is_its_steps(tmp_path):
    frames = load(tmp_path, row(api(), seen("r", reward=-1)))
    assert frames["steps"]["local_reward"].to_list() == [-1.0]


def test_details_name_model_and_patch(tmp_path):
    details = {
        "model_name": "org/m",
        "exit_status": "submitted",
        "generated_patch": "diff",
        "eval_logs": "ok",
        "api_key": "sk-1",
    }
    frames = load(tmp_path, row(told("x"), details=details))
    (attempt,) = frames["attempts"].to_dicts()
    assert (attempt["model"], attempt["arm"], attempt["stop_reason"]) == ("org/m", "m", "submitted")
    assert json.loads(attempt["metadata"]) == {
        "details": {"model_name": "org/m", "exit_status": "submitted", "eval_logs": "ok"}
    }
    (artifact,) = frames["artifacts"].to_dicts()
    assert (artifact["kind"], artifact["content"], artifact["bytes"]) == ("patch", "diff", 4)


def test_pages_and_images(tmp_path):
    url = "data:image/png;base64," + base64.b64encode(b"pixels").decode()
    page = {
        "class_": "web_observation",
        "html": "<p>",
        "axtree": "[1] p",
        "url": "http://x",
        "viewport_size": [1, 2],
        "image_observation": {"class_": "image_observation", "content": url, "source": "environment"},
    }
    shot = {"class_": "image_observation", "content": "shots/1.png", "source": "user", "annotations": None}
    frames = load(tmp_path, row(shot, api(), page))
    first, _, third = frames["messages"].to_dicts()
    assert (first["content"], json.loads(first["parts"])[0]["content"]) == (None, "shots/1.png")
    assert third["content"] == "[1] p"
    (artifact,) = frames["artifacts"].to_dicts()
    (kept,) = json.loads(third["parts"])
    assert (kept["html"], kept["image_observation"]["artifact"]) == ("<p>", artifact["digest"])
    assert "base64" not in third["parts"]


def test_classes_nobody_knows_are_kept(tmp_path):
    frames = load(
        tmp_path, row({"class_": "gui_action", "at": [1, 2]}, {"class_": "sound_observation", "content": "beep"})
    )
    (step,) = frames["steps"].to_dicts()
    assert [(c["name"], json.loads(c["arguments"])) for c in step["tool_calls"]] == [("gui_action", {"at": [1, 2]})]
    assert [o["content"] for o in step["observations"]] == ["beep"]
    assert "unknown_class" in codes(frames)


def test_what_is_none_is_left_out(tmp_path):
    frames = load(tmp_path, row(told("x"), 5, {"class_": "thing"}, {"content": "y"}), 7, {"id": 1}, row("x"))
    assert frames["attempts"].height == 2
    assert frames["diagnostics"].filter(code="bad_row")["source_pos"].to_list() == [1, 2]
    assert frames["diagnostics"].filter(code="bad_message")["source_pos"].to_list() == [0, 3]


def test_lines_and_cut_lines(tmp_path):
    whole = json.dumps(row(told("x"))).encode()
    frames = load(tmp_path, data=whole + b"\n" + whole + whole + b"\n" + whole[:-9])
    assert frames["attempts"].height == 3
    assert frames["diagnostics"].filter(code="bad_json").height == 1


def claims(value, cut=None):
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return SOURCE.claims_file(Look(Path("x"), data[:cut]))


def test_claims_by_content(tmp_path):
    assert claims([row(told("x"))])
    assert claims(row(told("x")))
    assert claims([row(told("x" * 50))], cut=80)
    assert not claims([{"id": 1, "content": [{"class_": "something"}]}])
    assert not claims([{"id": 1, "content": "text"}])
    assert not claims({"messages": []})
    assert not claims(b"")
    assert not SOURCE.claims_folder(tmp_path, frozenset())


@pytest.mark.parametrize("value", [b"", b"[1]", b'{"content": 3}', b'{"x": {}}', b"a,b", b"\x00\x01", b"{"])
def test_forced_on_something_else_is_a_diagnostic(tmp_path, value):
    (tmp_path / "x").write_bytes(value)
    frames = read_frames([tmp_path / "x"], format="adp")
    assert frames["attempts"].height <= 1
    assert frames["diagnostics"].height >= 1


def test_an_empty_list_is_told(tmp_path):
    (tmp_path / "x").write_bytes(b"[]")
    frames = SOURCE.read([Unit(SOURCE.name, tmp_path / "x", "x")], ReadOptions())
    assert codes(frames) == {"empty_file"}


def test_read_of_nothing_gives_typed_frames(tmp_path):
    frames = SOURCE.read([], ReadOptions())
    assert all(frames[name].schema == t.schema for name, t in CORE.items())
    frames = SOURCE.read([Unit("adp", tmp_path / "gone", "gone")], ReadOptions())
    assert codes(frames) == {"unreadable"}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


def places(value, out):
    """All objects and lists in a value that hold something."""
    if value and isinstance(value, dict | list):
        out.append(value)
        for inner in value.values() if isinstance(value, dict) else value:
            places(inner, out)
    return out


def read(path):
    found = Found()
    SOURCE.units(path, path.parent, found)
    return SOURCE.read(found.units, ReadOptions())


@settings(max_examples=75, deadline=None)
@given(st.data())
def test_values_of_any_type_never_raise(tmp_path_factory, data):
    page = {"class_": "web_observation", "axtree": "a", "image_observation": {"content": "data:image/png;base64,AA=="}}
    entries = [seen("q", "user"), api(reward=1.0), seen("r"), code(), page, told("x", "y"), api(tool_call_id="1")]
    rows = [row(*entries, details={"model": "m", "patch": "p"}), row(seen("z", tool_call_id="1"))]
    for _ in range(data.draw(st.integers(1, 5))):
        place = data.draw(st.sampled_from(places(rows, [])))
        keys = sorted(place) if isinstance(place, dict) else range(len(place))
        place[data.draw(st.sampled_from(keys))] = data.draw(JSON)
    path = tmp_path_factory.mktemp("adp") / "x.json"
    path.write_text(json.dumps(rows))
    frames = read(path)
    left_out = frames["diagnostics"].filter(code="bad_row").height
    assert frames["attempts"].height + left_out == len(rows)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_damage_never_raises(tmp_path_factory, data):
    blob = bytearray(json.dumps([row(seen("q", "user"), api(), seen("r")), row(told("x"))]).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, max(len(blob) - 2, 0)))
        blob[at : at + data.draw(st.integers(0, 8))] = data.draw(st.binary(max_size=3))
    path = tmp_path_factory.mktemp("adp") / "x.json"
    path.write_bytes(bytes(blob))
    frames = read(path)
    assert frames["attempts"].height + frames["diagnostics"].height > 0
