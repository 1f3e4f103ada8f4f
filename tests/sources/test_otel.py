from __future__ import annotations

import base64
import copy
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from expcomp.sources._contract import ReadOptions
from expcomp.sources._look import Look
from expcomp.sources.load import read_frames
from expcomp.sources.registry import SOURCES
from expcomp.tables.core import CORE

TRACE = "0af7651916cd43dd8448eb211c80319c"
ASK = {"role": "user", "parts": [{"type": "text", "content": "What is in the drawer?"}]}
RULES = {"role": "system", "parts": [{"type": "text", "content": "Be short."}]}
LOOK = {
    "role": "assistant",
    "parts": [{"type": "tool_call", "id": "c1", "name": "open_drawer", "arguments": {"n": 1}}],
    "finish_reason": "tool_calls",
}
FOUND = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "a pen"}]}
SAY = {"role": "assistant", "parts": [{"type": "text", "content": "A pen."}], "finish_reason": "stop"}


def value(raw):
    if isinstance(raw, bool):
        return {"boolValue": raw}
    if isinstance(raw, int):
        return {"intValue": str(raw)}
    if isinstance(raw, float):
        return {"doubleValue": raw}
    if isinstance(raw, list):
        return {"arrayValue": {"values": [value(v) for v in raw]}}
    if isinstance(raw, dict):
        return {"kvlistValue": {"values": pairs(raw)}}
    return {"stringValue": raw}


def pairs(attrs):
    return [{"key": k, "value": value(v)} for k, v in attrs.items()]


def span(ident, parent=None, start=0, name="span", trace=TRACE, status=None, events=(), **attrs):
    out = {
        "traceId": trace,
        "spanId": f"{ident:016x}",
        "name": name,
        "startTimeUnixNano": str(1_800_000_000_000_000_000 + start * 10**9),
        "endTimeUnixNano": str(1_800_000_000_500_000_000 + start * 10**9),
        "attributes": pairs({k.replace("__", "."): v for k, v in attrs.items()}),
        "events": [{"name": n, "timeUnixNano": "1800000009000000000", "attributes": pairs(a)} for n, a in events],
        "status": status or {},
    }
    return out | ({"parentSpanId": f"{parent:016x}"} if parent is not None else {})


def chat(ident, given, made, parent=1, start=1, **more):
    attrs = {"gen_ai__operation__name": "chat", "gen_ai__request__model": "m", "gen_ai__response__model": "m-1"}
    if given is not None:
        attrs["gen_ai__input__messages"] = json.dumps(given)
    if made is not None:
        attrs["gen_ai__output__messages"] = json.dumps(made)
    return span(ident, parent, start, "chat m", **attrs, **more)


def agent(ident=1, parent=None, start=0, name="helper", **more):
    return span(
        ident,
        parent,
        start,
        f"invoke_agent {name}",
        gen_ai__operation__name="invoke_agent",
        gen_ai__agent__name=name,
        **more,
    )


def tool(ident, parent=1, start=2, call="c1", result="a pen", **more):
    attrs = {"gen_ai__operation__name": "execute_tool", "gen_ai__tool__name": "open_drawer"}
    attrs |= {"gen_ai__tool__call__arguments": '{"n": 1}', "gen_ai__tool__call__result": result}
    return span(
        ident,
        parent,
        start,
        "execute_tool open_drawer",
        **attrs,
        **({"gen_ai__tool__call__id": call} if call else {}),
        **more,
    )


def export(*spans, resource=None):
    scope = {"scope": {"name": "test"}, "spans": list(spans)}
    return {
        "resourceSpans": [
            {"resource": {"attributes": pairs(resource or {"service.name": "shop"})}, "scopeSpans": [scope]}
        ]
    }


def logs(*records):
    return {"resourceLogs": [{"resource": {}, "scopeLogs": [{"scope": {}, "logRecords": list(records)}]}]}


def log(ident, name, body, trace=TRACE):
    return {
        "traceId": trace,
        "spanId": f"{ident:016x}",
        "eventName": name,
        "body": value(body),
        "observedTimeUnixNano": "5",
    }


def save(folder: Path, *records, name="spans.jsonl"):
    path = folder / name
    path.write_text("\n".join(json.dumps(r) for r in records))
    return path


def load(folder: Path, *spans, options=None):
    return read_frames([save(folder, *(export(s) for s in spans))], options=options)


def dialogue():
    return [
        agent(),
        chat(2, [RULES, ASK], [LOOK], start=1),
        tool(3, start=2),
        chat(4, [RULES, ASK, LOOK, FOUND], [SAY], start=3),
    ]


def codes(frames):
    return set(frames["diagnostics"]["code"])


def said(frames, attempt=None):
    rows = frames["messages"] if attempt is None else frames["messages"].filter(attempt_id=attempt)
    return [(m["role"], m["content"]) for m in rows.sort("attempt_id", "message_index").to_dicts()]


def test_the_last_input_and_output_are_the_messages_and_every_model_call_a_step(tmp_path):
    frames = load(tmp_path, *dialogue())
    assert said(frames) == [
        ("system", "Be short."),
        ("user", "What is in the drawer?"),
        ("assistant", None),
        ("tool", "a pen"),
        ("assistant", "A pen."),
    ]
    steps = frames["steps"].to_dicts()
    assert [s["source"] for s in steps] == ["user", "agent", "agent"]
    assert steps[1]["tool_calls"] == [
        {"id": "c1", "name": "open_drawer", "arguments": '{"n":1}', "arguments_ok": True, "kind": "function"}
    ]
    assert [(o["call_id"], o["content"]) for o in steps[1]["observations"]] == [("c1", "a pen")]
    assert set(frames["messages"]["context_id"]) == {0}
    (attempt,) = frames["attempts"].to_dicts()
    assert (attempt["agent"], attempt["model"], attempt["trace_id"]) == ("helper", "m-1", TRACE)
    assert json.loads(attempt["params"])["model"] == "m"
    assert attempt["source_format"] == "otel"
    assert codes(frames) == set()


def test_spans_may_come_in_any_order_and_in_several_files(tmp_path):
    one, two, three, four = dialogue()
    save(tmp_path, export(four, three), name="b.jsonl")
    save(tmp_path, export(two), export(one), name="a.jsonl")
    frames = read_frames([tmp_path])
    assert frames["attempts"].height == 1
    assert [c for _, c in said(frames)][-1] == "A pen."


def test_ids_may_be_base64_and_names_in_snake_case(tmp_path):
    def coded(one):
        out = {"trace_id": base64.b64encode(bytes.fromhex(one["traceId"])).decode()}
        out["span_id"] = base64.b64encode(bytes.fromhex(one["spanId"])).decode()
        if "parentSpanId" in one:
            out["parent_span_id"] = base64.b64encode(bytes.fromhex(one["parentSpanId"])).decode()
        names = {"startTimeUnixNano": "start_time_unix_nano", "endTimeUnixNano": "end_time_unix_nano"}
        rest = {names.get(k, k): v for k, v in one.items() if k not in ("traceId", "spanId", "parentSpanId")}
        return out | rest

    doc = {"resource_spans": [{"resource": {}, "scope_spans": [{"spans": [coded(s) for s in dialogue()]}]}]}
    frames = read_frames([save(tmp_path, doc, name="spans.json")])
    assert frames["attempts"]["trace_id"].to_list() == [TRACE]
    assert len(said(frames)) == 5


def test_usage_is_summed_over_model_spans_though_one_response_id_is_used_twice(tmp_path):
    more = {"gen_ai__response__id": "chatcmpl-0", "gen_ai__usage__input_tokens": 10, "gen_ai__usage__output_tokens": 2}
    more["gen_ai__usage__cache_read__input_tokens"] = 4
    frames = load(
        tmp_path, agent(), chat(2, [ASK], [LOOK], **more), chat(3, [ASK, LOOK, FOUND], [SAY], start=2, **more)
    )
    (attempt,) = frames["attempts"].to_dicts()
    assert (attempt["input_tokens"], attempt["cached_input_tokens"], attempt["output_tokens"]) == (20, 8, 4)
    assert attempt["cost_usd"] is None
    assert attempt["usage_basis"] == "summed"


def test_cached_tokens_that_are_counted_apart_are_added_to_the_input(tmp_path):
    more = {"gen_ai__usage__input_tokens": 3, "gen_ai__usage__cache_read__input_tokens": 100}
    frames = load(tmp_path, agent(), chat(2, [ASK], [SAY], **more))
    assert frames["steps"].filter(source="agent")["input_tokens"].to_list() == [103]


def test_an_evaluation_event_with_a_label_is_a_verdict(tmp_path):
    event = {
        "gen_ai.evaluation.name": "reward",
        "gen_ai.evaluation.score.value": 0.0,
        "gen_ai.evaluation.score.label": "fail",
    }
    frames = load(tmp_path, agent(events=[("gen_ai.evaluation.result", event)]), chat(2, [ASK], [SAY]))
    (attempt,) = frames["attempts"].to_dicts()
    assert (attempt["score"], attempt["passed"], attempt["score_valid"]) == (0.0, False, True)
    (grade,) = frames["grades"].to_dicts()
    assert (grade["name"], grade["value"], grade["label"], grade["is_primary"]) == ("reward", 0.0, "fail", True)


def test_a_bare_number_is_a_score_without_a_verdict(tmp_path):
    event = {"gen_ai.evaluation.name": "reward", "gen_ai.evaluation.score.value": 1.0}
    frames = load(tmp_path, agent(events=[("gen_ai.evaluation.result", event)]), chat(2, [ASK], [SAY]))
    (attempt,) = frames["attempts"].to_dicts()
    assert (attempt["score"], attempt["passed"], attempt["score_valid"]) == (1.0, None, True)


def test_without_any_evaluation_no_verdict_was_asked_for(tmp_path):
    frames = load(tmp_path, *dialogue())
    assert frames["attempts"].select("score", "passed", "score_valid").row(0) == (None, None, None)


def test_several_scores_of_which_none_is_the_verdict_leave_the_score_open(tmp_path):
    events = [
        ("gen_ai.evaluation.result", {"gen_ai.evaluation.name": n, "gen_ai.evaluation.score.value": 0.5})
        for n in ("style", "tone")
    ]
    frames = load(tmp_path, agent(events=events), chat(2, [ASK], [SAY]))
    assert frames["attempts"]["score"].to_list() == [None]
    assert frames["grades"]["is_primary"].to_list() == [False, False]
    assert "no_primary_grade" in codes(frames)


def test_an_evaluation_of_one_call_is_a_grade_of_its_step(tmp_path):
    event = {"gen_ai.evaluation.name": "style", "gen_ai.evaluation.score.value": 0.5}
    frames = load(tmp_path, agent(), chat(2, [ASK], [SAY], events=[("gen_ai.evaluation.result", event)]))
    assert frames["grades"].select("step_index", "is_primary").rows() == [(1, False)]
    assert frames["attempts"]["score_valid"].to_list() == [None]


def test_spans_without_content_keep_their_numbers_and_are_reported(tmp_path):
    frames = load(tmp_path, agent(), chat(2, None, None), tool(3), chat(4, None, None, start=3))
    assert "no_content" in codes(frames)
    assert frames["messages"].is_empty()
    (attempt,) = frames["attempts"].to_dicts()
    assert (attempt["n_steps"], attempt["has_transcript"], attempt["n_tool_calls"]) == (2, False, 1)
    first = frames["steps"].to_dicts()[0]
    assert [(o["call_id"], o["content"]) for o in first["observations"]] == [("c1", "a pen")]


def legacy_logs():
    call = {"id": "c1", "type": "function", "function": {"name": "open_drawer", "arguments": '{"n": 1}'}}
    asked = [
        ("gen_ai.system.message", {"content": "Be short."}),
        ("gen_ai.user.message", {"content": "What is in the drawer?"}),
    ]
    back = [
        ("gen_ai.assistant.message", {"tool_calls": [call]}),
        ("gen_ai.tool.message", {"content": "a pen", "id": "c1"}),
    ]
    first = (
        "gen_ai.choice",
        {"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant", "tool_calls": [call]}},
    )
    last = (
        "gen_ai.choice",
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "A pen."}},
    )
    return [log(2, n, b) for n, b in (*asked, first)] + [log(4, n, b) for n, b in (*asked, *back, last)]


def test_log_records_of_another_file_give_the_spans_their_messages(tmp_path):
    save(tmp_path, *(export(s) for s in (agent(), chat(2, None, None), tool(3), chat(4, None, None, start=3))))
    save(tmp_path, *(logs(r) for r in legacy_logs()), name="logs.jsonl")
    frames = read_frames([tmp_path])
    assert [r for r, _ in said(frames)] == ["system", "user", "assistant", "tool", "assistant"]
    assert frames["steps"].filter(source="agent")["stop_reason"].to_list() == ["tool_calls", "stop"]
    assert frames["steps"].to_dicts()[1]["tool_calls"][0]["arguments"] == '{"n": 1}'
    assert codes(frames) == set()


def test_log_records_without_their_spans_are_reported(tmp_path):
    frames = read_frames([save(tmp_path, *(logs(r) for r in legacy_logs()), name="logs.jsonl")])
    assert frames["attempts"].is_empty()
    assert {"log_without_span", "no_attempt"} <= codes(frames)


def test_log_records_without_text_are_no_content(tmp_path):
    records = [
        log(2, "gen_ai.user.message", {}),
        log(2, "gen_ai.choice", {"index": 0, "message": {"role": "assistant"}}),
    ]
    frames = read_frames([save(tmp_path, export(agent(), chat(2, None, None)), logs(*records))])
    assert "no_content" in codes(frames)
    assert frames["messages"].is_empty()


def test_span_events_of_older_instrumentations_hold_the_messages(tmp_path):
    events = [
        ("gen_ai.user.message", {"gen_ai.system": "openai", "content": "Hi"}),
        (
            "gen_ai.choice",
            {"index": 0, "finish_reason": "stop", "message": '{"role": "assistant", "content": "Hello"}'},
        ),
    ]
    frames = load(tmp_path, agent(), chat(2, None, None, events=events))
    assert said(frames) == [("user", "Hi"), ("assistant", "Hello")]


def test_flattened_prompts_are_messages(tmp_path):
    flat = {
        "gen_ai__prompt__0__role": "user",
        "gen_ai__prompt__0__content": "Hi",
        "gen_ai__completion__0__role": "assistant",
    }
    flat |= {"gen_ai__completion__0__tool_calls__0__name": "f", "gen_ai__completion__0__tool_calls__0__arguments": "{}"}
    flat |= {"llm__request__type": "chat", "gen_ai__usage__prompt_tokens": 5}
    frames = load(tmp_path, span(1, traceloop__span__kind="agent", name="run"), span(2, 1, 1, **flat))
    assert [r for r, _ in said(frames)] == ["user", "assistant"]
    assert frames["steps"].to_dicts()[1]["tool_calls"][0]["name"] == "f"
    assert frames["attempts"]["input_tokens"].to_list() == [5]


def test_another_history_is_another_context_and_what_is_replayed_in_it_is_copied(tmp_path):
    summary = {"role": "user", "parts": [{"type": "text", "content": "Summary: the drawer holds a pen."}]}
    frames = load(tmp_path, agent(), chat(2, [RULES, ASK], [SAY]), chat(3, [RULES, summary], [SAY], start=2))
    assert frames["messages"]["context_id"].to_list() == [0, 0, 0, 1, 1, 1]
    assert frames["steps"].filter(source="agent", is_copied_context=False).height == 2
    assert frames["attempts"]["has_compaction"].to_list() == [True]


def test_a_result_in_a_new_context_reaches_the_step_that_called(tmp_path):
    other = {"role": "system", "parts": [{"type": "text", "content": "Be short. It is noon."}]}
    frames = load(tmp_path, agent(), chat(2, [RULES, ASK], [LOOK]), chat(3, [other, ASK, LOOK, FOUND], [SAY], start=2))
    own = frames["steps"].filter(source="agent", is_copied_context=False).to_dicts()
    assert [len(s["observations"]) for s in own] == [1, 0]
    copied = frames["steps"].filter(source="agent", is_copied_context=True)
    assert copied["trainable"].to_list() == [False]
    assert "unanswered_call" not in codes(frames)


def test_side_calls_do_not_tear_the_conversation_apart(tmp_path):
    title = {"role": "user", "parts": [{"type": "text", "content": "Give it a title."}]}
    frames = load(
        tmp_path,
        agent(),
        chat(2, [RULES, ASK], [LOOK], start=1),
        chat(3, [title], [SAY], start=2),
        chat(4, [RULES, ASK, LOOK, FOUND], [SAY], start=3),
    )
    assert frames["messages"]["context_id"].to_list() == [0, 0, 0, 1, 1, 0, 0]


def test_retries_are_steps_and_the_answer_that_was_not_kept_is_no_message(tmp_path):
    bad = {"role": "assistant", "parts": [{"type": "text", "content": "garbled"}], "finish_reason": "stop"}
    frames = load(tmp_path, agent(), chat(2, [ASK], [bad]), chat(3, [ASK], [SAY], start=2))
    assert said(frames) == [("user", "What is in the drawer?"), ("assistant", "A pen.")]
    assert frames["messages"]["message_index"].to_list() == [0, 1]
    assert frames["steps"].filter(source="agent")["content"].to_list() == ["garbled", "A pen."]
    assert "answer_not_kept" in codes(frames)


def test_a_failed_call_before_a_good_one_does_not_fail_the_attempt(tmp_path):
    failed = chat(2, [ASK], None, status={"code": 2, "message": "slow down"}, error__type="RateLimitError")
    frames = load(tmp_path, agent(), failed, chat(3, [ASK], [SAY], start=2))
    assert frames["attempts"]["status"].to_list() == ["unknown"]
    step = frames["steps"].filter(source="agent").to_dicts()[0]
    assert (step["error_type"], step["error_message"]) == ("RateLimitError", "slow down")
    assert len(said(frames)) == 2


def test_a_failed_last_call_decides_when_the_root_says_nothing(tmp_path):
    failed = chat(3, [ASK], None, start=2, status={"code": "STATUS_CODE_ERROR"}, error__type="RateLimitError")
    frames = load(tmp_path, agent(), chat(2, [ASK], None), failed)
    assert frames["attempts"].select("status", "error_type").row(0) == ("infra_error", "RateLimitError")


def test_a_verdict_next_to_an_infrastructure_error_is_void(tmp_path):
    event = {
        "gen_ai.evaluation.name": "r",
        "gen_ai.evaluation.score.value": 0.0,
        "gen_ai.evaluation.score.label": "fail",
    }
    root = agent(events=[("gen_ai.evaluation.result", event)], status={"code": 2}, error__type="APIConnectionError")
    frames = load(tmp_path, root, chat(2, [ASK], [SAY]))
    (attempt,) = frames["attempts"].to_dicts()
    assert (attempt["status"], attempt["passed"], attempt["score_valid"]) == ("infra_error", None, False)
    assert frames["grades"]["valid"].to_list() == [False]


def test_the_status_words_of_a_root(tmp_path):
    frames = load(tmp_path, agent(status={"code": 1}), chat(2, [ASK], [SAY]))
    assert frames["attempts"]["status"].to_list() == ["completed"]


def test_a_tool_span_that_failed_flags_its_result(tmp_path):
    spans = dialogue()
    spans[2]["status"] = {"code": 2, "message": "stuck"}
    frames = load(tmp_path, *spans)
    assert frames["attempts"]["n_tool_errors"].to_list() == [1]
    assert frames["steps"].to_dicts()[1]["observations"][0]["is_error"] is True


def test_a_tool_span_without_a_call_id_is_matched_by_name_and_arguments(tmp_path):
    two = copy.deepcopy(LOOK)
    two["parts"] = [LOOK["parts"][0] | {"id": "c0", "arguments": {"n": 9}}, LOOK["parts"][0]]
    frames = load(tmp_path, agent(), chat(2, [ASK], [two]), tool(3, call=None))
    seen = frames["steps"].to_dicts()[1]["observations"]
    assert [(o["call_id"], o["content"]) for o in seen] == [("c1", "a pen")]
    assert {"matched_by_name", "unanswered_call"} <= codes(frames)


def test_a_tool_span_that_no_call_asked_for_is_a_step_of_the_environment(tmp_path):
    frames = load(tmp_path, agent(), chat(2, [ASK], [SAY]), tool(3))
    step = frames["steps"].to_dicts()[-1]
    assert (step["source"], step["tool_calls"][0]["name"]) == ("environment", "open_drawer")
    assert len(step["observations"]) == 1
    assert "tool_without_call" in codes(frames)


def test_an_agent_inside_an_agent_is_an_attempt_of_its_own(tmp_path):
    frames = load(
        tmp_path,
        agent(),
        chat(2, [ASK], [LOOK], start=1),
        tool(3, start=2),
        agent(5, 3, 2, "finder"),
        chat(6, [RULES], [SAY], parent=5, start=2),
        chat(4, [ASK, LOOK, FOUND], [SAY], start=3),
    )
    rows = {r["agent"]: r for r in frames["attempts"].to_dicts()}
    assert rows["helper"]["relation"] == "root"
    assert rows["finder"]["relation"] == "subagent"
    assert rows["finder"]["parent_attempt_id"] == rows["helper"]["attempt_id"]
    assert rows["finder"]["parent_call_id"] == "c1"
    assert (rows["helper"]["n_steps"], rows["finder"]["n_steps"]) == (2, 1)


def test_a_wrapper_around_one_agent_is_that_agent(tmp_path):
    frames = load(tmp_path, span(9, name="POST /run"), agent(1, 9), chat(2, [ASK], [SAY]))
    assert frames["attempts"].select("relation", "agent", "n_steps").rows() == [("root", "helper", 1)]


def test_runs_of_one_agent_that_continue_each_other_are_one_attempt(tmp_path):
    more = {"role": "user", "parts": [{"type": "text", "content": "And now?"}]}
    frames = load(
        tmp_path,
        span(9, name="loop"),
        agent(1, 9, 1),
        chat(2, [RULES, ASK], [SAY], parent=1, start=1),
        agent(3, 9, 2),
        chat(4, [RULES, ASK, SAY, more], [SAY], parent=3, start=2),
    )
    assert frames["attempts"].select("relation", "n_steps").rows() == [("root", 2)]
    assert frames["messages"].height == 5


def test_a_model_span_inside_a_model_span_is_one_call(tmp_path):
    inner = chat(3, [ASK], [SAY], parent=2, start=1, gen_ai__usage__input_tokens=7)
    frames = load(tmp_path, agent(), chat(2, [ASK], [SAY]), inner)
    assert frames["attempts"].select("n_steps", "input_tokens").row(0) == (1, 7)
    assert "nested_model_span" in codes(frames)


def test_a_missing_root_and_several_roots_are_reported(tmp_path):
    frames = load(tmp_path, *dialogue()[1:])
    assert "missing_root" in codes(frames)
    assert frames["attempts"].select("status", "is_truncated").row(0) == ("unknown", True)
    frames = load(
        tmp_path, agent(), agent(7, None, 5), chat(2, [ASK], [SAY]), chat(8, [ASK, SAY, ASK], [SAY], parent=7, start=6)
    )
    assert "several_roots" in codes(frames)
    assert frames["attempts"].height == 1


def test_spans_that_are_each_others_parents_are_kept(tmp_path):
    frames = load(tmp_path, chat(2, [ASK], [SAY], parent=3), chat(3, [ASK], [SAY], parent=2, start=2))
    assert frames["attempts"]["n_steps"].to_list() == [2]


def test_a_span_that_comes_twice_counts_once(tmp_path):
    frames = load(tmp_path, *dialogue(), dialogue()[3])
    assert frames["attempts"]["n_steps"].to_list() == [2]
    assert "duplicate_span" in codes(frames)


def test_text_that_a_limit_cut_is_no_message(tmp_path):
    spans = dialogue()
    text = spans[3]["attributes"][3]["value"]
    text["stringValue"] = text["stringValue"][:90]
    frames = load(tmp_path, *spans)
    assert frames["attempts"]["is_truncated"].to_list() == [True]
    assert {"cut_by_source", "lost_input"} <= codes(frames)
    assert [c for _, c in said(frames)] == ["Be short.", "What is in the drawer?", None, "a pen", "A pen."]


def test_dropped_attributes_mark_the_attempt(tmp_path):
    spans = dialogue()
    spans[1]["droppedAttributesCount"] = 3
    frames = load(tmp_path, *spans)
    assert frames["attempts"]["is_truncated"].to_list() == [True]


def test_system_instructions_and_tool_definitions_are_columns(tmp_path):
    schema = [{"type": "function", "name": "f", "parameters": {}}]
    more = {"gen_ai__system_instructions": json.dumps([{"type": "text", "content": "Be kind."}])}
    frames = load(tmp_path, agent(), chat(2, [ASK], [SAY], gen_ai__tool__definitions=json.dumps(schema), **more))
    (attempt,) = frames["attempts"].to_dicts()
    assert attempt["system_prompt"] == "Be kind."
    assert json.loads(attempt["tools"]) == schema
    assert (attempt["has_system_prompt"], attempt["has_tools"]) == (True, True)
    assert said(frames)[0][0] == "user"


def test_reasoning_parts_are_reasoning(tmp_path):
    made = {"role": "assistant", "parts": [{"type": "reasoning", "content": "Hm."}, *SAY["parts"]]}
    frames = load(tmp_path, agent(), chat(2, [ASK], [made]))
    assert frames["messages"].select("content", "reasoning").row(1) == ("A pen.", "Hm.")


def test_images_become_references(tmp_path):
    blob = base64.b64encode(b"\x89PNG" + bytes(600)).decode()
    shown = {"role": "user", "parts": [{"type": "blob", "mime_type": "image/png", "content": blob}]}
    frames = load(tmp_path, agent(), chat(2, [shown], [SAY]))
    (artifact,) = frames["artifacts"].to_dicts()
    assert (artifact["kind"], artifact["mime"], artifact["bytes"]) == ("image", "image/png", 604)
    assert frames["messages"]["content"].to_list()[0] is None
    assert blob not in frames["messages"].write_ndjson()
    assert artifact["digest"] in frames["messages"]["parts"].to_list()[0]


def test_the_task_is_the_test_case_and_the_run_the_test_suite_run(tmp_path):
    frames = load(tmp_path, agent(test__case__id="shop/7", test__suite__run__id="night-1"), chat(2, [ASK], [SAY]))
    assert frames["attempts"].select("task_id", "run_id").row(0) == ("shop/7", "night-1")
    assert frames["tasks"].select("task_id", "instruction").rows() == [("shop/7", "What is in the drawer?")]


def test_options_are_names_of_attributes_metadata_keys_and_tags(tmp_path):
    options = ReadOptions(task_id="my.task", arm="deploy", trial="attempt")
    spans = [agent(my__task="t-1"), chat(2, [ASK], [SAY], attempt="2")]
    path = save(tmp_path, export(*spans, resource={"deploy": "blue"}))
    frames = read_frames([path], options=options)
    assert frames["attempts"].select("task_id", "arm", "trial", "trial_source").row(0) == ("t-1", "blue", 2, "native")
    assert "option_taken_as_value" not in codes(frames)


def test_an_option_that_names_nothing_is_the_value(tmp_path):
    frames = load(tmp_path, *dialogue(), options=ReadOptions(task_id="t-9", arm="blue", trial=3))
    assert frames["attempts"].select("task_id", "arm", "trial").row(0) == ("t-9", "blue", 3)
    assert frames["diagnostics"].filter(code="option_taken_as_value")["field"].to_list() == ["task_id", "arm", "trial"]


def test_a_trace_that_lacks_what_others_have_is_reported(tmp_path):
    other = "1" * 32
    spans = [agent(my__task="t-1"), chat(2, [ASK], [SAY]), agent(trace=other), chat(2, [ASK], [SAY], trace=other)]
    frames = load(tmp_path, *spans, options=ReadOptions(task_id="my.task"))
    assert set(frames["attempts"]["task_id"]) == {"t-1", None}
    assert "option_not_found" in codes(frames)


def test_a_trial_that_is_no_number_is_left_open(tmp_path):
    frames = load(tmp_path, agent(n="second"), chat(2, [ASK], [SAY]), options=ReadOptions(trial="n"))
    assert frames["attempts"]["trial"].to_list() == [None]
    assert "bad_trial" in codes(frames)


def test_the_history_before_the_trace_is_copied_context(tmp_path):
    frames = load(tmp_path, agent(), chat(2, [RULES, SAY, ASK], [SAY]))
    steps = frames["steps"].filter(source="agent").to_dicts()
    assert [(s["is_copied_context"], s["trainable"]) for s in steps] == [(True, False), (False, True)]
    assert frames["attempts"]["n_steps"].to_list() == [1]
    assert frames["messages"].height == 4


def test_spans_of_other_things_are_no_attempts(tmp_path):
    frames = load(tmp_path, span(1, name="GET /", http__method="GET"))
    assert frames["attempts"].is_empty()
    assert "not_an_agent_trace" in codes(frames)


def test_a_trace_without_a_model_call_is_an_attempt_without_steps(tmp_path):
    frames = load(tmp_path, agent())
    assert frames["attempts"]["n_steps"].to_list() == [0]
    assert "no_model_call" in codes(frames)


def test_secrets_headers_and_the_environment_stay_out(tmp_path):
    root = agent(http__request__header__x="hush-1", api_key="hush-2", note="kept")
    frames = load(tmp_path, root, chat(2, [ASK], [SAY], gen_ai__request__api_key="hush-3"))
    text = frames["attempts"].write_ndjson()
    assert "hush" not in text
    assert "kept" in text


@pytest.mark.parametrize("shape", ["lines", "array", "document", "glued", "bom", "tempo"])
def test_shapes_of_a_file(tmp_path, shape):
    records = [export(s) for s in dialogue()]
    whole = export(*dialogue())
    data = {
        "lines": "\n".join(map(json.dumps, records)),
        "array": json.dumps(records),
        "document": json.dumps(whole, indent=1),
        "glued": "".join(map(json.dumps, records)),
        "bom": "\ufeff" + "\n".join(map(json.dumps, records)),
        "tempo": json.dumps({"batches": whole["resourceSpans"]}),
    }[shape]
    path = tmp_path / "spans.json"
    path.write_text(data, "utf-8")
    frames = read_frames([path])
    assert frames["attempts"]["n_steps"].to_list() == [2]


def test_a_cut_file_loses_the_last_span_only(tmp_path):
    path = save(tmp_path, *(export(s) for s in dialogue()))
    path.write_bytes(path.read_bytes()[:-40])
    frames = read_frames([path])
    assert frames["attempts"]["n_steps"].to_list() == [1]
    assert frames["diagnostics"].filter(severity="error").height == 1


def test_records_that_are_no_export_are_reported(tmp_path):
    records = [export(*dialogue()), {"resourceMetrics": []}, {"x": 1}, [1], export({"name": "no ids"})]
    frames = read_frames([save(tmp_path, *records)])
    assert frames["attempts"].height == 1
    found = frames["diagnostics"]["code"].to_list()
    assert found.count("bad_record") == 2
    assert {"metrics_skipped", "bad_span"} <= set(found)


@pytest.mark.parametrize(
    ("scope", "code"),
    [
        ({"scope": {}, "spans": True}, "bad_record"),
        ({"scope": {}, "spans": {"a": 1}}, "bad_record"),
        ({"type": "text"}, "bad_record"),
        ({"scope": {"name": "n"}, "spans": []}, "no_spans"),
    ],
    ids=["flag", "object", "something else", "none"],
)
def test_a_file_without_spans_is_named_beside_others(tmp_path, scope, code):
    export = {"resourceSpans": [{"resource": {"attributes": []}, "scopeSpans": [scope]}]}
    good = {"resourceSpans": [{"scopeSpans": [{"spans": [span(1, gen_ai__operation__name="chat")]}]}]}
    (tmp_path / "bad.json").write_text(json.dumps(export))
    (tmp_path / "good.json").write_text(json.dumps(good))
    frames = read_frames([tmp_path], format="otel")
    assert frames["attempts"].height == 1
    told = frames["diagnostics"].filter(frames["diagnostics"]["source_uri"] == "bad.json")
    assert told["code"].to_list() == [code]


def test_what_is_claimed(tmp_path):
    def asks(record):
        return SOURCES["otel"].claims_file(Look(tmp_path / "x", json.dumps(record).encode()))

    assert asks(export(*dialogue()))
    assert asks(logs(*legacy_logs()))
    assert not asks(export(span(1, openinference__span__kind="LLM")))
    assert not asks({"messages": []})
    assert not asks({"info": {"trace_id": "x"}, "data": {"spans": []}})


def test_two_loads_are_the_same_and_hold_no_machine_path(tmp_path):
    path = save(tmp_path, *(export(s) for s in dialogue()))
    first, second = read_frames([path]), read_frames([path])
    for name, frame in first.items():
        assert frame.equals(second[name]), name
        assert frame.schema == CORE[name].schema
        assert str(tmp_path) not in frame.write_ndjson()


ATOMS = st.sampled_from([None, 0, -1, 2**70, 1.5, True, "", "x", "[{", [], {}, [[]], [{}], {"a": []}, float("nan")])


def places(node, path=()):
    yield path
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, child in children:
        yield from places(child, (*path, key))


def changed(record, data):
    """The record with one place replaced by another value, also inside JSON text."""
    out = copy.deepcopy(record)
    path = data.draw(st.sampled_from(list(places(out))))
    if not path:
        return data.draw(ATOMS)
    holder = out
    for key in path[:-1]:
        holder = holder[key]
    old = holder[path[-1]]
    if isinstance(old, str) and old[:1] in "[{" and old and data.draw(st.booleans()):
        holder[path[-1]] = json.dumps(changed(json.loads(old), data))
    else:
        holder[path[-1]] = data.draw(ATOMS)
    return out


@settings(max_examples=75, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_change_of_a_record_gives_no_exception_and_no_silence(tmp_path, data):
    event = {"gen_ai.evaluation.name": "r", "gen_ai.evaluation.score.value": 0.5}
    record = export(*dialogue()[1:], agent(events=[("gen_ai.evaluation.result", event)]))
    path = save(tmp_path, changed(record, data), logs(*legacy_logs()))
    frames = read_frames([path], format="otel", options=ReadOptions(task_id="test.case.id", trial="n"))
    assert frames["attempts"].height + frames["diagnostics"].height > 0
    for name, frame in frames.items():
        assert frame.schema == CORE[name].schema
