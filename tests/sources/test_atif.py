from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expcomp.sources._contract import Found, ReadOptions
from expcomp.sources._look import Look
from expcomp.sources.atif.reader import SOURCE
from expcomp.sources.load import read_frames
from expcomp.tables.core import CORE

METRICS = {"prompt_tokens": 10, "cached_tokens": 4, "completion_tokens": 3, "cost_usd": 0.5}


def agent(pos, message="m", calls=(), results=(), **more):
    out = {"step_id": pos, "source": "agent", "message": message, "metrics": METRICS}
    if calls:
        out["tool_calls"] = [{"tool_call_id": c, "function_name": f"f_{c}", "arguments": {"x": 1}} for c in calls]
    if results:
        out["observation"] = {"results": [{"source_call_id": i, "content": t} for i, t in results]}
    return out | more


def user(pos, message="do it", **more):
    return {"step_id": pos, "source": "user", "message": message} | more


def doc(*steps, session="s1", **more):
    head = {"schema_version": "ATIF-v1.7", "session_id": session}
    return head | {"agent": {"name": "a", "version": "1", "model_name": "p/m"}, "steps": list(steps)} | more


def write(folder, name, value):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())


def load(tmp_path, value, options=None):
    write(tmp_path, "trajectory.json", value)
    return read_frames([tmp_path / "trajectory.json"], options=options)


def codes(frames):
    return set(frames["diagnostics"]["code"])


def test_a_document_becomes_an_attempt(tmp_path):
    system = {"step_id": 1, "source": "system", "message": "policy"}
    frames = load(tmp_path, doc(system, user(2), agent(3, calls=["c"], results=[("c", "out")]), agent(4, "end")))
    (attempt,) = frames["attempts"].to_dicts()
    assert (attempt["arm"], attempt["model"], attempt["model_provider"]) == ("a@1/m", "p/m", "p")
    assert (attempt["passed"], attempt["score_valid"], attempt["relation"]) == (None, None, "root")
    assert (attempt["input_tokens"], attempt["cached_input_tokens"], attempt["cost_usd"]) == (20, 8, 1.0)
    assert (attempt["usage_basis"], attempt["n_steps"], attempt["n_messages"]) == ("summed", 2, 5)
    assert attempt["has_system_prompt"]
    assert frames["messages"]["origin"].to_list() == ["harness", "human", "model", "tool", "model"]
    assert frames["messages"]["name"].to_list()[3] == "f_c"
    assert frames["steps"]["trainable"].to_list() == [False, False, True, True]
    for name, table in CORE.items():
        for rule, expr in table.all_rules().items():
            assert frames[name].filter(~expr).is_empty(), rule


def test_injected_text_is_no_instruction(tmp_path):
    frames = load(
        tmp_path,
        doc(user(1, "<environment_context>\n<cwd>/app</cwd>"), user(2, "fix"), agent(3)),
        ReadOptions(task_id="t"),
    )
    assert frames["messages"]["origin"].to_list() == ["harness", "human", "model"]
    assert frames["messages"]["role"].to_list() == ["user", "user", "assistant"]
    assert frames["tasks"]["instruction"].to_list() == ["fix"]


def test_results_without_ids_go_by_position(tmp_path):
    frames = load(tmp_path, doc(user(1), agent(2, calls=["a", "b"], results=[(None, "1"), (None, "2")])))
    seen = frames["steps"]["observations"][1].to_list()
    assert [(o["call_id"], o["content"]) for o in seen] == [("a", "1"), ("b", "2")]
    assert "matched_by_position" in codes(frames)


def test_a_result_of_a_turn_without_calls_stays(tmp_path):
    frames = load(tmp_path, doc(user(1), agent(2, results=[(None, "screen")])))
    assert frames["steps"]["observations"][1].to_list()[0]["call_id"] is None
    assert frames["messages"].row(-1, named=True)["role"] == "user"
    assert frames["messages"].row(-1, named=True)["origin"] == "tool"
    assert "result_without_call" in codes(frames)


def test_an_orphan_and_an_unanswered_call(tmp_path):
    frames = load(tmp_path, doc(user(1), agent(2, calls=["a"], results=[("zzz", "1")])))
    assert {"orphan_result", "unanswered_call"} <= codes(frames)


def test_copied_steps_carry_neither_usage_nor_loss(tmp_path):
    frames = load(tmp_path, doc(user(1, is_copied_context=True), agent(2, is_copied_context=True), agent(3)))
    (attempt,) = frames["attempts"].to_dicts()
    assert (attempt["n_steps"], attempt["input_tokens"]) == (1, 10)
    assert frames["steps"]["trainable"].to_list() == [False, False, True]
    assert frames["steps"]["input_tokens"].to_list() == [None, None, 10]


def test_scripted_steps_are_not_trainable(tmp_path):
    frames = load(tmp_path, doc(user(1), agent(2, llm_call_count=0)))
    assert not frames["steps"]["trainable"].any()


def test_header_counts_where_no_step_does(tmp_path):
    step = agent(2)
    del step["metrics"]
    frames = load(tmp_path, doc(user(1), step, final_metrics={"total_prompt_tokens": 7}))
    (attempt,) = frames["attempts"].to_dicts()
    assert (attempt["input_tokens"], attempt["output_tokens"], attempt["usage_basis"]) == (7, None, "reported")


def test_header_that_differs_is_reported(tmp_path):
    assert "usage_mismatch" in codes(load(tmp_path, doc(agent(1), final_metrics={"total_prompt_tokens": 99})))


def summarised(session="main"):
    refs = [{"session_id": f"{session}-summarization-1", "trajectory_path": "trajectory.summarization-1.json"}]
    marker = {
        "step_id": 3,
        "source": "system",
        "message": "Performed context summarization",
        "observation": {"results": [{"subagent_trajectory_ref": refs}]},
    }
    return doc(user(1), agent(2), marker, user(4, "the summary"), agent(5), session=session)


def test_a_summary_opens_a_context(tmp_path):
    write(tmp_path, "trajectory.json", summarised())
    write(tmp_path, "trajectory.summarization-1.json", doc(user(1), agent(2), session="main-summarization-1"))
    frames = read_frames([tmp_path])
    assert frames["attempts"]["relation"].to_list() == ["root", "summariser"]
    root, child = frames["attempts"].to_dicts()
    assert child["parent_attempt_id"] == child["root_attempt_id"] == root["attempt_id"]
    assert root["has_compaction"]
    main = frames["messages"].filter(attempt_id=root["attempt_id"])
    assert main["context_id"].to_list() == [0, 0, 0, 1, 1]
    assert main["origin"].to_list() == ["human", "model", "harness", "summary", "model"]
    other = frames["steps"].filter(attempt_id=child["attempt_id"])
    assert not other["trainable"].any()


def test_a_marker_at_the_end_opens_none(tmp_path):
    value = summarised()
    value["steps"] = value["steps"][:3]
    frames = load(tmp_path, value)
    assert frames["messages"]["context_id"].max() == 0
    assert "dangling_reference" in codes(frames)


def test_continuations_are_linked_by_path_with_the_prefix_of_the_file(tmp_path):
    write(tmp_path, "x.trajectory.json", doc(user(1), agent(2), continued_trajectory_ref="trajectory.cont-1.json"))
    write(tmp_path, "x.trajectory.cont-1.json", doc(user(1, is_copied_context=True), agent(2)))
    attempts = read_frames([tmp_path])["attempts"].sort("relation")
    by = {r["relation"]: r for r in attempts.to_dicts()}
    assert by["continuation"]["parent_attempt_id"] == by["root"]["attempt_id"]


def test_a_shared_session_id_links_nothing(tmp_path):
    write(tmp_path, "a.json", doc(agent(1)))
    write(tmp_path, "b.json", doc(agent(1)))
    frames = read_frames([tmp_path])
    assert frames["attempts"]["relation"].to_list() == ["root", "root"]
    assert "duplicate_id" in codes(frames)


def test_embedded_sub_agents_are_attempts(tmp_path):
    inner = doc(agent(1), session="in")
    frames = load(tmp_path, doc(user(1), agent(2), subagent_trajectories=[inner]))
    root, child = frames["attempts"].to_dicts()
    assert (child["relation"], child["parent_attempt_id"]) == ("subagent", root["attempt_id"])
    assert root["attempt_id"] != child["attempt_id"]


@pytest.mark.parametrize("odd", [7, [7], ["inner"], {"steps": []}])
def test_embedded_sub_agents_that_cannot_be_read_are_told(tmp_path, odd):
    frames = load(tmp_path, doc(user(1), subagent_trajectories=odd))
    assert frames["attempts"].height == 1
    assert "bad_transcript" in codes(frames)


def test_a_trial_that_is_the_name_of_a_column_is_none_here(tmp_path):
    assert load(tmp_path, doc(user(1)), ReadOptions(trial="epoch"))["attempts"]["trial"].to_list() == [None]
    assert load(tmp_path, doc(user(1)), ReadOptions(trial="3"))["attempts"]["trial"].to_list() == [3]


def test_parts_broken_arguments_and_odd_steps(tmp_path):
    parts = [{"type": "text", "text": "see"}, {"type": "image", "source": {"path": "a.png"}}]
    broken = agent(2, tool_calls=[{"tool_call_id": "c", "function_name": "f", "arguments": "{oops"}])
    frames = load(tmp_path, doc(user(1, parts), broken, 5, {"step_id": 4, "source": "alien", "message": "hi"}))
    first = frames["messages"].row(0, named=True)
    assert first["content"] is None
    assert json.loads(first["parts"]) == parts
    assert frames["steps"]["tool_calls"][1].to_list()[0]["arguments_ok"] is False
    assert {"bad_step", "unknown_source"} <= codes(frames)


def test_tools_are_kept_with_the_attempt(tmp_path):
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"api_key": 1}}}]
    value = doc(agent(1))
    value["agent"] |= {"tool_definitions": tools, "extra": {"temperature": 0.7, "api_key": "sk"}}
    (attempt,) = load(tmp_path, value)["attempts"].to_dicts()
    assert attempt["has_tools"]
    assert json.loads(attempt["tools"]) == tools
    assert json.loads(attempt["params"]) == {"temperature": 0.7}


def test_token_ids_and_naive_times(tmp_path):
    metrics = METRICS | {"prompt_token_ids": [1, 2], "completion_token_ids": [3], "logprobs": [-0.5]}
    frames = load(tmp_path, doc(agent(1, metrics=metrics, timestamp="2026-01-01T00:00:00")))
    step = frames["steps"].row(0, named=True)
    assert (step["prompt_token_ids"], step["completion_token_ids"], step["logprobs"]) == ([1, 2], [3], [-0.5])
    assert "naive_time" in codes(frames)


def test_the_text_the_model_wrote_is_kept(tmp_path):
    details = {"tool_call_details": {"c": {"raw_arguments": '{"x":  1}', "item_type": "function_call"}}}
    frames = load(tmp_path, doc(agent(1, calls=["c"], extra=details)))
    assert frames["steps"]["tool_calls"][0].to_list()[0]["arguments"] == '{"x":  1}'


def test_fields_that_the_format_does_not_have_are_told_and_extras_kept(tmp_path):
    odd = agent(2, calls=["c"], cost=1, reasoning_effort="high", extra={"api_call_id": "a", "turn": 7, "api_key": "sk"})
    frames = load(tmp_path, doc(user(1, foo=1), odd, user(3, foo=2), surprise={"a": 1}))
    (told,) = [r["detail"] for r in frames["diagnostics"].to_dicts() if r["code"] == "unknown_field"]
    assert told == "3 fields are not of the format and were not read: surprise (1), steps.foo (2), steps.cost (1)"
    assert frames["steps"]["detail"].to_list() == [None, '{"extra":{"turn":7},"reasoning_effort":"high"}', None]
    assert "unknown_field" not in codes(load(tmp_path, doc(user(1), agent(2, calls=["c"]))))


@pytest.mark.parametrize("value", [b"{", b"[1]", b'{"steps": 3, "agent": {}}', b"", b"\x00\x01"])
def test_forced_on_something_else_is_a_diagnostic(tmp_path, value):
    write(tmp_path, "x.json", value)
    frames = read_frames([tmp_path], format="atif")
    assert frames["attempts"].height <= 1
    assert frames["diagnostics"].height >= 1


def test_claims_by_content():
    assert SOURCE.claims_file(Look(Path("x"), json.dumps(doc(agent(1))).encode()))
    assert SOURCE.claims_file(Look(Path("x"), json.dumps(doc(agent(1), schema_version="1.4")).encode()))
    assert not SOURCE.claims_file(Look(Path("x"), json.dumps({"schema_version": 1, "steps": []}).encode()))


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_damage_never_raises(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("atif") / "trajectory.json"
    blob = bytearray(json.dumps(summarised()).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(blob) - 2))
        blob[at : at + data.draw(st.integers(0, 8))] = data.draw(st.binary(max_size=3))
    path.write_bytes(bytes(blob))
    found = Found()
    SOURCE.units(path, path.parent, found)
    frames = SOURCE.read(found.units, ReadOptions())
    assert frames["attempts"].height + frames["diagnostics"].height > 0


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_values_of_any_type_never_raise(tmp_path_factory, data):
    value = summarised()
    places = [value, value["agent"], *value["steps"], *(s["metrics"] for s in value["steps"] if "metrics" in s)]
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.sampled_from(places))
        place[data.draw(st.sampled_from(sorted(place)))] = data.draw(JSON)
    path = tmp_path_factory.mktemp("atif") / "trajectory.json"
    path.write_text(json.dumps(value))
    found = Found()
    SOURCE.units(path, path.parent, found)
    frames = SOURCE.read(found.units, ReadOptions())
    assert frames["attempts"].height + frames["diagnostics"].height > 0
