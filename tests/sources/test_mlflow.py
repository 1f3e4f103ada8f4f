from __future__ import annotations

import base64
import copy
import json
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from expcomp.sources._contract import ReadOptions
from expcomp.sources._look import Look
from expcomp.sources.load import read_frames
from expcomp.sources.registry import SOURCES
from expcomp.tables.core import CORE

ASK = {"role": "user", "content": "What is in the drawer?"}
CALL = {"id": "c1", "type": "function", "function": {"name": "open_drawer", "arguments": '{"n": 1}'}}
LOOK = {"role": "assistant", "content": None, "tool_calls": [CALL]}
FOUND = {"role": "tool", "tool_call_id": "c1", "content": "a pen"}
SAY = {"role": "assistant", "content": "A pen."}
SCHEMA = {"type": "function", "function": {"name": "open_drawer", "parameters": {}}}


def coded(number, size=8):
    return base64.b64encode(number.to_bytes(size, "big")).decode()


def span(ident, kind, parent=1, start=1, given=None, made=None, name="helper", code="STATUS_CODE_OK", **attrs):
    attrs = {"mlflow.spanType": kind, "mlflow.spanInputs": given, "mlflow.spanOutputs": made} | {
        k.replace("__", "."): v for k, v in attrs.items()
    }
    return {
        "trace_id": coded(7, 16),
        "span_id": coded(ident),
        "parent_span_id": coded(parent) if ident != 1 else None,
        "name": name,
        "start_time_unix_nano": 1_800_000_000_000_000_000 + start * 10**9,
        "end_time_unix_nano": 1_800_000_000_500_000_000 + start * 10**9,
        "events": [],
        "status": {"code": code, "message": ""},
        "attributes": {k: json.dumps(v) for k, v in attrs.items() if v is not None},
    }


def model(ident, messages, made, start=1, cost=0.5, **more):
    given = {"model": "m", "messages": messages, "temperature": 0}
    outputs = {"id": "r-0", "choices": [{"finish_reason": "stop", "message": made}]}
    attrs = {
        "mlflow__llm__model": "m-1",
        "mlflow__chat__tools": [SCHEMA],
        "model": "m",
        "mlflow__llm__cost": {"total_cost": cost},
    }
    attrs["mlflow__chat__tokenUsage"] = {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12}
    return span(ident, "CHAT_MODEL", start=start, given=given, made=outputs, **attrs, **more)


def dialogue():
    return [
        span(1, "AGENT", start=0, given={"task": "t-1"}),
        model(2, [ASK], LOOK),
        span(3, "TOOL", start=2, given={"n": 1}, made="a pen", name="open_drawer"),
        model(4, [ASK, LOOK, FOUND], SAY, start=3),
    ]


def assessment(name="reward", value=1.0, kind="CODE", **more):
    source = {"source_type": kind, "source_id": "checker"}
    return {
        "assessment_id": "a1", "assessment_name": name, "source": source, "create_time": "2026-01-01T00:00:00Z",
        "feedback": {"value": value}, "rationale": "checked", "valid": True,
    } | more  # fmt: skip


def trace(spans=None, assessments=(), tags=None, **info):
    info = {
        "trace_id": "tr-1",
        "state": "OK",
        "request_time": "2026-01-01T00:00:00Z",
        "trace_metadata": {"mlflow.trace.session": "s-1", "mlflow.trace.cost": json.dumps({"total_cost": 1.0})},
        "assessments": list(assessments),
        "tags": tags or {"task": "t-1", "arm": "blue", "n": "2"},
    } | info
    return {"info": info, "data": {"spans": dialogue() if spans is None else spans}}


def load(folder: Path, *records, options=None, name="traces.jsonl"):
    path = folder / name
    path.write_text("\n".join(json.dumps(r) for r in records))
    return read_frames([path], options=options)


def codes(frames):
    return set(frames["diagnostics"]["code"])


def test_a_trace_is_an_attempt(tmp_path):
    frames = load(tmp_path, trace())
    assert frames["messages"]["role"].to_list() == ["user", "assistant", "tool", "assistant"]
    (attempt,) = frames["attempts"].to_dicts()
    assert (attempt["agent"], attempt["model"], attempt["status"], attempt["trace_id"]) == (
        "helper",
        "m-1",
        "completed",
        "tr-1",
    )
    assert (attempt["input_tokens"], attempt["cached_input_tokens"], attempt["cost_usd"]) == (20, None, 1.0)
    assert json.loads(attempt["params"]) == {"model": "m", "temperature": 0}
    assert json.loads(attempt["tools"]) == [SCHEMA]
    step = frames["steps"].to_dicts()[1]
    assert step["llm_call_id"] == f"{2:016x}"
    assert step["tool_calls"][0]["arguments"] == '{"n": 1}'
    assert [(o["call_id"], o["is_error"]) for o in step["observations"]] == [("c1", False)]
    assert codes(frames) == set()


def test_spans_are_summed_and_a_header_that_says_otherwise_is_reported(tmp_path):
    spans = dialogue()
    spans[1] = model(2, [ASK], LOOK, cost=0.25)
    frames = load(tmp_path, trace(spans))
    assert frames["attempts"]["cost_usd"].to_list() == [0.75]
    assert frames["diagnostics"].filter(code="header_differs")["field"].to_list() == ["cost_usd"]


def test_assessments_are_grades_and_a_number_is_no_verdict(tmp_path):
    frames = load(tmp_path, trace(assessments=[assessment()]))
    assert frames["attempts"].select("score", "passed", "score_valid").row(0) == (1.0, None, True)
    assert frames["grades"].select("name", "kind", "grader", "rationale").row(0) == (
        "reward",
        "verifier",
        "checker",
        "checked",
    )


def test_words_and_booleans_of_judges(tmp_path):
    frames = load(tmp_path, trace(assessments=[assessment("correctness", "yes", "LLM_JUDGE")]))
    assert frames["attempts"].select("passed", "grade_kind").row(0) == (True, "model_judge")
    frames = load(tmp_path, trace(assessments=[assessment("success", False, "HUMAN")]))
    assert frames["attempts"].select("passed", "score", "grade_kind").row(0) == (False, 0.0, "human")
    frames = load(tmp_path, trace(assessments=[assessment("is_toxic", True, "LLM_JUDGE")]))
    assert frames["attempts"].select("passed", "score").row(0) == (None, 1.0)


def test_an_overridden_assessment_and_one_whose_judge_failed_are_not_valid(tmp_path):
    old = assessment(value=0.0, valid=False)
    frames = load(tmp_path, trace(assessments=[old, assessment(create_time="2026-01-02T00:00:00Z")]))
    assert frames["attempts"]["score"].to_list() == [1.0]
    assert sorted(frames["grades"].select("valid", "is_primary").rows()) == [(False, False), (True, True)]
    broken = assessment(feedback={"value": None, "error": {"error_code": "TIMEOUT"}})
    frames = load(tmp_path, trace(assessments=[broken]))
    assert frames["attempts"].select("score", "passed", "score_valid", "score_issue").row(0) == (
        None,
        None,
        False,
        "judge_error",
    )


def test_the_header_tells_the_usage_where_no_span_does(tmp_path):
    bare = [
        span(1, "AGENT", start=0),
        span(2, "CHAT_MODEL", given={"messages": [ASK]}, made={"choices": [{"message": SAY}]}),
    ]
    told = {"mlflow.trace.tokenUsage": '{"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}'}
    (attempt,) = load(tmp_path, trace(bare, trace_metadata=told))["attempts"].to_dicts()
    usage = ("input_tokens", "output_tokens", "cost_usd", "usage_basis")
    assert [attempt[n] for n in usage] == [5, 2, None, "reported"]
    (attempt,) = load(tmp_path, trace(bare, trace_metadata={}))["attempts"].to_dicts()
    assert [attempt[n] for n in usage] == [None, None, None, "missing"]


def test_an_expectation_belongs_to_the_task(tmp_path):
    wanted = {"assessment_name": "expected_answer", "expectation": {"value": "A pen."}}
    frames = load(tmp_path, trace(assessments=[wanted]), options=ReadOptions(task_id="task"))
    assert frames["grades"].is_empty()
    assert json.loads(frames["tasks"]["target"][0]) == {"expected_answer": "A pen."}


def test_an_assessment_of_a_span_grades_its_step(tmp_path):
    frames = load(tmp_path, trace(assessments=[assessment("style", 0.5, span_id=coded(4))]))
    assert frames["grades"].select("step_index", "is_primary").row(0) == (2, False)


def test_options_are_names_of_tags(tmp_path):
    frames = load(tmp_path, trace(), options=ReadOptions(task_id="task", arm="arm", trial="n"))
    assert frames["attempts"].select("task_id", "arm", "trial", "trial_source").row(0) == ("t-1", "blue", 2, "native")


def test_the_second_version_of_the_layout(tmp_path):
    def old(one):
        ids = {"trace_id": one["trace_id"], "span_id": one["span_id"]}
        out = {"name": one["name"], "context": ids, "parent_id": one["parent_span_id"], "status_code": "OK"}
        out |= {"start_time": one["start_time_unix_nano"], "end_time": one["end_time_unix_nano"]}
        return out | {"attributes": one["attributes"]}

    info = {
        "request_id": "tr-2",
        "status": "OK",
        "request_metadata": [{"key": "a", "value": "b"}],
        "tags": [{"key": "task", "value": "t-2"}],
    }
    frames = load(
        tmp_path, {"info": info, "data": {"spans": [old(s) for s in dialogue()]}}, options=ReadOptions(task_id="task")
    )
    assert frames["attempts"].select("task_id", "n_steps", "status").row(0) == ("t-2", 2, "completed")


def test_the_artifact_of_spans_alone(tmp_path):
    frames = load(tmp_path, {"spans": dialogue()}, name="traces.json")
    assert frames["attempts"].select("source_format", "n_steps", "trace_id").row(0) == ("mlflow", 2, f"{7:032x}")


def test_failed_and_running_traces(tmp_path):
    spans = dialogue()
    spans[0] |= {"status": {"code": "STATUS_CODE_ERROR", "message": "boom"}}
    attrs = {"exception.type": "RateLimitError", "exception.message": "slow"}
    spans[0]["events"] = [{"name": "exception", "attributes": attrs}]
    frames = load(tmp_path, trace(spans, state="ERROR"))
    assert frames["attempts"].select("status", "error_type").row(0) == ("infra_error", "RateLimitError")
    frames = load(tmp_path, trace(state="IN_PROGRESS"))
    assert frames["attempts"]["status"].to_list() == ["running"]


def test_repeated_and_strange_records_are_reported(tmp_path):
    frames = load(tmp_path, trace(), trace(), {"info": {"trace_id": "x"}, "data": {"spans": []}}, [1])
    assert frames["attempts"].height == 1
    found = frames["diagnostics"]["code"].to_list()
    assert (found.count("duplicate_trace"), found.count("bad_record")) == (1, 2)


def test_what_is_claimed(tmp_path):
    def asks(record):
        return SOURCES["mlflow"].claims_file(Look(tmp_path / "x", json.dumps(record).encode()))

    assert asks(trace())
    assert asks({"spans": dialogue()})
    assert not asks({"info": {"mini_version": "1"}, "data": {}})
    assert not asks({"spans": [{"span_id": "x", "attributes": {}}]})
    assert not asks({"trace": {"id": "x"}, "observations": []})


def same(frames, other):
    """What is said and graded is equal, wherever it stood."""
    assert frames["attempts"].height == other["attempts"].height > 0
    for name in ("messages", "steps", "grades"):
        mine, others = (f[name].drop("attempt_id", "source_ref", strict=False) for f in (frames, other))
        assert mine.to_dicts() == others.to_dicts(), name
    kept = [
        "n_steps",
        "input_tokens",
        "output_tokens",
        "cost_usd",
        "model",
        "agent",
        "tools",
        "params",
        "status",
        "started_at",
    ]
    assert frames["attempts"].select(kept).equals(other["attempts"].select(kept))


def row(record, *, nested):
    """A trace as a row of `search_traces`; nested spans are what pandas holds, the trace as text what Spark can hold."""
    info, spans = record["info"], record["data"]["spans"]
    kept = {k: info[k] for k in ("trace_id", "state", "trace_metadata", "tags", "assessments")}
    kept |= {"request": {"task": "t-1"}, "response": "A pen.", "execution_duration": 12, "spans": spans}
    if nested:
        return kept
    return {k: json.dumps(v) if isinstance(v, dict | list) else v for k, v in kept.items()} | {
        "trace": json.dumps(record)
    }


@pytest.mark.parametrize("nested", [True, False])
@pytest.mark.parametrize("name", ["frame.parquet", "frame.jsonl"])
def test_a_frame_says_what_the_traces_say(tmp_path, name, nested):
    records = [trace(assessments=[assessment(), assessment("style", 0.5, span_id=coded(4))])]
    records.append(copy.deepcopy(records[0]))
    records[1]["info"] |= {"trace_id": "tr-2", "tags": {"task": "t-1", "arm": "blue", "n": "3"}}
    options = ReadOptions(task_id="task", arm="arm", trial="n")
    whole = load(tmp_path, *records, options=options)
    rows = [row(r, nested=nested) for r in records]
    path = tmp_path / name
    if name.endswith("parquet"):
        pl.DataFrame(rows, infer_schema_length=None).write_parquet(path)
    else:
        path.write_text("\n".join(map(json.dumps, rows)))
    frames = read_frames([path], options=options)
    same(frames, whole)
    assert frames["attempts"].select("source_format", "trace_id", "task_id", "arm", "trial", "score").rows() == [
        ("mlflow", "tr-1", "t-1", "blue", 2, 1.0),
        ("mlflow", "tr-2", "t-1", "blue", 3, 1.0),
    ]
    assert codes(frames) == codes(whole)


def test_a_frame_of_the_second_version_and_spans_as_texts(tmp_path):
    old = {"request_id": "tr-1", "status": "TraceStatus.OK", "execution_time_ms": 5, "request_metadata": {"a": "b"}}
    pl.DataFrame([old | {"spans": list(map(json.dumps, dialogue()))}]).write_parquet(tmp_path / "frame.parquet")
    frames = read_frames([tmp_path / "frame.parquet"])
    assert frames["attempts"].select("trace_id", "status", "n_steps").rows() == [("tr-1", "completed", 2)]


def test_a_frame_without_spans_gives_no_attempt_and_says_so(tmp_path):
    bare = row(trace(), nested=True) | {"spans": []}
    (tmp_path / "frame.jsonl").write_text(json.dumps(bare))
    frames = read_frames([tmp_path / "frame.jsonl"])
    assert frames["attempts"].is_empty()
    assert "bad_record" in codes(frames)


def test_which_tables_are_claimed(tmp_path):
    def asks(table):
        path = tmp_path / "x.parquet"
        table.write_parquet(path)
        return SOURCES["mlflow"].claims_file(Look(path, path.read_bytes()))

    assert asks(pl.DataFrame([row(trace(), nested=False)]))
    assert not asks(pl.DataFrame({"trace_id": ["x"], "trace": ["[]"], "messages": ["[]"]}))


ATOMS = st.sampled_from([None, 0, -1, 2**70, 1.5, True, "", "x", "[{", "{}", [], {}, [[]], [{}], {"a": []}])


def places(node, path=()):
    yield path
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, child in children:
        yield from places(child, (*path, key))


@settings(max_examples=75, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_change_of_a_record_gives_no_exception_and_no_silence(tmp_path, data):
    record = copy.deepcopy(trace(assessments=[assessment()]))
    path = data.draw(st.sampled_from([p for p in places(record) if p]))
    holder = record
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = data.draw(ATOMS)
    file = tmp_path / "traces.jsonl"
    file.write_text(json.dumps(record))
    frames = read_frames([file], format="mlflow", options=ReadOptions(task_id="task", trial="n"))
    assert frames["attempts"].height + frames["diagnostics"].height > 0
    for name, frame in frames.items():
        assert frame.schema == CORE[name].schema


def test_a_file_of_one_odd_blank_is_named(tmp_path):
    (tmp_path / "x.json").write_bytes(b"\x1f")
    frames = read_frames([tmp_path], format="mlflow")
    assert ("empty_file", "x.json") in frames["diagnostics"].select("code", "source_uri").rows()
