from __future__ import annotations

import copy
import json
from pathlib import Path

import polars as pl
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from expcomp.sources._contract import ReadOptions
from expcomp.sources._look import Look
from expcomp.sources.load import read_frames
from expcomp.sources.registry import SOURCES
from expcomp.tables.core import CORE

ASK = {"role": "user", "content": "What is in the drawer?"}
SAY = {"role": "assistant", "content": "A pen."}
CALL = {"id": "c1", "type": "function", "function": {"name": "open_drawer", "arguments": '{"n": 1}'}}
LOOK = {"role": "assistant", "content": "", "tool_calls": [CALL]}
FOUND = {"role": "tool", "tool_call_id": "c1", "content": "a pen"}


def observation(ident, kind, parent=None, start=0, given=None, made=None, **more):
    return {
        "id": ident,
        "traceId": "t1",
        "type": kind,
        "name": ident,
        "parentObservationId": parent,
        "startTime": f"2026-01-01T00:00:{start:02d}.000Z",
        "endTime": f"2026-01-01T00:00:{start:02d}.500Z",
        "level": "DEFAULT",
        "input": given,
        "output": made,
        "metadata": {},
    } | more


def generation(ident, given, made, parent="root", start=1, **more):
    usage = {"usageDetails": {"input": 10, "output": 2, "total": 12}, "costDetails": {"total": 0.5}, "model": "m-1"}
    return observation(
        ident, "GENERATION", parent, start, given, made, **(usage | {"modelParameters": {"temperature": 0}} | more)
    )


def dialogue():
    return [
        observation("root", "SPAN"),
        generation("g1", [ASK], LOOK),
        observation("open_drawer", "TOOL", "root", 2, {"n": 1}, "a pen"),
        generation("g2", [ASK, LOOK, FOUND], SAY, start=3),
    ]


def score(name="quality", value=0.5, **more):
    kept = {"id": f"s-{name}", "traceId": "t1", "name": name, "value": value, "dataType": "NUMERIC", "source": "EVAL"}
    return kept | {"comment": "because", "timestamp": "2026-01-02T00:00:00.000Z", "observationId": None} | more


def document(observations=None, scores=(), **header):
    trace = {
        "id": "t1",
        "name": "run",
        "timestamp": "2026-01-01T00:00:00.000Z",
        "projectId": "p",
        "scores": list(scores),
    } | header
    return {"trace": trace, "observations": dialogue() if observations is None else observations}


def load(folder: Path, *records, options=None, name="trace.json"):
    path = folder / name
    path.write_text("\n".join(json.dumps(r) for r in records))
    return read_frames([path], options=options)


def codes(frames):
    return set(frames["diagnostics"]["code"])


def said(frames):
    return frames["messages"].select("role", "content").rows()


def test_a_trace_is_an_attempt_and_generations_are_steps(tmp_path):
    frames = load(tmp_path, document(sessionId="s-1", tags=["a"]))
    assert [r for r, _ in said(frames)] == ["user", "assistant", "tool", "assistant"]
    (attempt,) = frames["attempts"].to_dicts()
    assert (attempt["n_steps"], attempt["n_tool_calls"], attempt["model"]) == (2, 1, "m-1")
    assert (attempt["input_tokens"], attempt["output_tokens"], attempt["cost_usd"]) == (20, 4, 1.0)
    assert json.loads(attempt["params"]) == {"temperature": 0}
    assert json.loads(attempt["metadata"])["session"] == "s-1"
    assert attempt["trace_id"] == "t1"
    assert codes(frames) == set()


def test_json_inside_text_is_read(tmp_path):
    texts = [o | {"input": json.dumps(o["input"]), "output": json.dumps(json.dumps(o["output"]))} for o in dialogue()]
    frames = load(tmp_path, document(texts))
    assert [r for r, _ in said(frames)] == ["user", "assistant", "tool", "assistant"]


def test_observations_that_are_listed_twice_count_once_with_what_either_says(tmp_path):
    bare = [o | {"input": None, "output": None} for o in dialogue()]
    frames = load(tmp_path, document(observations=dialogue()) | {"trace": document()["trace"] | {"observations": bare}})
    assert frames["attempts"]["n_steps"].to_list() == [2]
    assert len(said(frames)) == 4


def test_scores_are_grades_by_source_and_no_verdict(tmp_path):
    scores = [score(), score("style", 1, source="ANNOTATION"), score("user-feedback", 1, source="API")]
    frames = load(tmp_path, document(scores=scores))
    assert frames["grades"].select("name", "value", "kind", "passed").rows() == [
        ("quality", 0.5, "model_judge", None),
        ("style", 1.0, "human", None),
        ("user-feedback", 1.0, "user_feedback", None),
    ]
    assert frames["attempts"].select("score", "passed", "score_valid").row(0) == (None, None, None)
    assert "no_primary_grade" in codes(frames)


def test_the_only_score_is_the_attempts_score(tmp_path):
    frames = load(tmp_path, document(scores=[score()]))
    assert frames["attempts"].select("score", "passed", "score_valid", "grade_kind").row(0) == (
        0.5,
        None,
        True,
        "model_judge",
    )
    assert frames["grades"]["rationale"].to_list() == ["because"]


def test_a_boolean_named_as_a_verdict_is_one_and_another_is_not(tmp_path):
    right = score("success", 1, dataType="BOOLEAN", stringValue="True")
    frames = load(tmp_path, document(scores=[right]))
    assert frames["attempts"].select("passed", "score").row(0) == (True, 1.0)
    bad = score("toxicity", 1, dataType="BOOLEAN", stringValue="True")
    frames = load(tmp_path, document(scores=[bad]))
    assert frames["attempts"]["passed"].to_list() == [None]
    assert frames["grades"]["label"].to_list() == ["True"]


def test_a_category_is_a_label(tmp_path):
    frames = load(tmp_path, document(scores=[score("tone", 0, dataType="CATEGORICAL", stringValue="dry")]))
    assert frames["grades"].select("value", "label", "valid").row(0) == (None, "dry", True)


def test_a_score_on_an_observation_is_a_grade_of_its_step(tmp_path):
    frames = load(tmp_path, document(scores=[score(observationId="g2")]))
    assert frames["grades"].select("step_index", "is_primary").row(0) == (2, False)


def test_an_input_that_the_exporter_lost_is_put_together_from_answers_and_tools(tmp_path):
    lost = json.dumps({"content": "role"})
    spans = [
        observation("root", "SPAN", given=json.dumps({"prompt": "What?", "system": "Be short."})),
        generation(
            "g1", json.dumps(ASK), json.dumps({"role": "assistant", "content": [{"type": "text", "text": "I look."}]})
        ),
        generation(
            "g2",
            lost,
            {"content": [{"type": "tool_use", "id": "c1", "name": "open_drawer", "input": {"n": 1}}]},
            start=2,
        ),
        observation(
            "open_drawer", "TOOL", "root", 3, {"input": {"n": 1}}, {"content": [{"type": "text", "text": "a pen"}]}
        ),
        generation("g3", lost, {"role": "assistant", "content": [{"type": "text", "text": "A pen."}]}, start=4),
    ]
    frames = load(tmp_path, document(spans))
    assert [c for _, c in said(frames)] == ["What is in the drawer?", "I look.", None, "a pen", "A pen."]
    assert frames["attempts"].select("system_prompt", "is_truncated").row(0) == ("Be short.", True)
    assert {"lost_input", "matched_by_name"} <= codes(frames)


def test_langgraph_schemas_are_no_messages_and_calls_sit_in_additional_kwargs(tmp_path):
    schema = {"type": "function", "function": {"name": "open_drawer", "parameters": {}}}
    posing = {"role": "tool", "content": schema}
    made = {"role": "assistant", "content": "", "additional_kwargs": {"tool_calls": [CALL], "refusal": None}}
    back = {"type": "tool", "name": "open_drawer", "content": "a pen", "tool_call_id": "c1", "status": "error"}
    spans = [
        observation("root", "SPAN"),
        generation("g1", [ASK, posing], made),
        observation("open_drawer", "SPAN", "root", 2, "{'n': 1}", back),
        generation("g2", [ASK, made, FOUND, posing], SAY, start=3),
    ]
    frames = load(tmp_path, document(spans))
    assert [r for r, _ in said(frames)] == ["user", "assistant", "tool", "assistant"]
    assert json.loads(frames["attempts"]["tools"][0]) == [schema]
    assert frames["attempts"].select("n_tool_calls", "n_tool_errors").row(0) == (1, 1)


def test_responses_objects_are_turns_and_their_instructions_a_column(tmp_path):
    asked = [
        {"role": "user", "content": "Hi"},
        {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "Look."}]},
        {"type": "function_call", "call_id": "c1", "id": "fc", "name": "open_drawer", "arguments": '{"n": 1}'},
        {"type": "function_call_output", "call_id": "c1", "output": "a pen"},
    ]
    first = {
        "object": "response",
        "id": "r1",
        "instructions": "Be short.",
        "output": asked[1:3],
        "status": "completed",
        "tools": [],
    }
    text = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "A pen."}]}
    last = first | {"id": "r2", "output": [text]}
    frames = load(
        tmp_path,
        document(
            [observation("root", "AGENT"), generation("g1", asked[:1], first), generation("g2", asked, last, start=2)]
        ),
    )
    assert said(frames) == [("user", "Hi"), ("assistant", None), ("tool", "a pen"), ("assistant", "A pen.")]
    assert frames["messages"]["reasoning"].to_list()[1] == "Look."
    assert frames["attempts"].select("system_prompt", "agent", "relation").row(0) == ("Be short.", "root", "root")
    assert set(frames["messages"]["context_id"]) == {0}


def test_agents_of_pydantic_ai_are_told_by_their_attributes(tmp_path):
    def run(ident, name, start):
        meta = {"attributes": {"agent_name": name, "gen_ai.agent.name": name}}
        return observation(ident, "SPAN", "root", start, metadata=json.dumps(meta))

    tools = {
        "model_request_parameters": {"function_tools": [{"name": "f", "parameters_json_schema": {"type": "object"}}]}
    }
    asked = [{"role": "user", "parts": [{"type": "text", "content": "Joke?"}]}]
    called = {"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "f", "arguments": {}}]}
    back = {"role": "user", "parts": [{"type": "tool_call_response", "id": "c1", "name": "f", "result": "pun"}]}
    made = {"role": "assistant", "parts": [{"type": "text", "content": "Ha."}], "finish_reason": "stop"}
    spans = [
        observation("root", "SPAN"),
        run("a1", "joker", 1),
        generation("g1", asked, [called], "a1", 1, metadata={"attributes": tools}),
        generation("g2", [*asked, called, back], [made], "a1", 2),
        run("a2", "critic", 3),
        generation("g3", [{"role": "user", "parts": [{"type": "text", "content": "Rate."}]}], [made], "a2", 3),
    ]
    frames = load(tmp_path, document(spans))
    rows = {r["agent"]: r for r in frames["attempts"].to_dicts()}
    assert {k: r["relation"] for k, r in rows.items()} == {None: "root", "joker": "subagent", "critic": "subagent"}
    assert json.loads(rows["joker"]["tools"]) == [
        {"type": "function", "function": {"name": "f", "description": None, "parameters": {"type": "object"}}}
    ]
    joker = frames["messages"].filter(attempt_id=rows["joker"]["attempt_id"])
    assert joker.select("role", "content").rows() == [
        ("user", "Joke?"),
        ("assistant", None),
        ("tool", "pun"),
        ("assistant", "Ha."),
    ]


def test_cached_tokens_that_the_handler_took_off_the_input_are_added_again(tmp_path):
    usage = {"usageDetails": {"input": 10, "input_cache_read": 30, "output": 2, "total": 42}}
    frames = load(tmp_path, document([observation("root", "SPAN"), generation("g1", [ASK], SAY, **usage)]))
    assert frames["attempts"].select("input_tokens", "cached_input_tokens").row(0) == (40, 30)
    usage["usageDetails"]["total"] = 12
    frames = load(tmp_path, document([observation("root", "SPAN"), generation("g1", [ASK], SAY, **usage)]))
    assert frames["attempts"]["input_tokens"].to_list() == [40]
    usage = {"usageDetails": {"input": 40, "input_cache_read": 30, "output": 2, "total": 42}}
    frames = load(tmp_path, document([observation("root", "SPAN"), generation("g1", [ASK], SAY, **usage)]))
    assert frames["attempts"]["input_tokens"].to_list() == [40]


def test_zeros_of_a_call_without_usage_are_unknown(tmp_path):
    none = {"usageDetails": {}, "costDetails": {}, "promptTokens": 0, "completionTokens": 0, "totalCost": 0}
    frames = load(tmp_path, document([observation("root", "SPAN"), generation("g1", [ASK], SAY, **none)]))
    assert frames["attempts"].select("input_tokens", "cost_usd", "usage_basis").row(0) == (None, None, "missing")


def test_rows_of_a_batch_export_are_joined_by_trace(tmp_path):
    def snake(one):
        names = {
            "traceId": "trace_id",
            "parentObservationId": "parent_observation_id",
            "startTime": "start_time",
            "endTime": "end_time",
        }
        names |= {"usageDetails": "usage_details", "costDetails": "cost_details"}
        return {names.get(k, k): v for k, v in one.items()}

    for name, rows in (("camel", dialogue()), ("snake", [snake(o) for o in dialogue()])):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "observations.jsonl").write_text("\n".join(map(json.dumps, rows)))
        frames = read_frames([folder])
        assert frames["attempts"].select("n_steps", "input_tokens", "source_format").rows() == [(2, 20, "langfuse")]


def test_failed_observations(tmp_path):
    spans = dialogue()
    spans[0] |= {"level": "ERROR", "statusMessage": "boom"}
    frames = load(tmp_path, document(spans))
    assert frames["attempts"].select("status", "error_message").row(0) == ("agent_error", "boom")


def test_options_are_looked_up_in_metadata_and_tags(tmp_path):
    record = document(metadata=json.dumps({"task": "t-1"}), tags=["arm:blue"])
    frames = load(tmp_path, record, options=ReadOptions(task_id="task", arm="arm"))
    assert frames["attempts"].select("task_id", "arm").row(0) == ("t-1", "blue")


def test_public_keys_do_not_reach_the_tables(tmp_path):
    meta = {"scope": {"attributes": {"public_key": "pk-lf-123"}}}
    frames = load(tmp_path, document(metadata=json.dumps(meta)))
    assert "pk-lf-123" not in frames["attempts"].write_ndjson()


def test_traces_without_observations_and_strange_rows_are_reported(tmp_path):
    frames = load(tmp_path, document([]), {"what": 1}, document(), name="traces.jsonl")
    assert "bad_record" in codes(frames)
    frames = load(tmp_path, document([{"type": "SPAN"}]))
    assert frames["attempts"].is_empty()
    assert "no_observations" in codes(frames)


def test_what_is_claimed(tmp_path):
    def asks(record):
        return SOURCES["langfuse"].claims_file(Look(tmp_path / "x", json.dumps(record).encode()))

    assert asks(document())
    assert asks(dialogue()[1])
    assert asks({"id": "t1", "projectId": "p", "timestamp": "x", "observations": dialogue()})
    assert not asks({"type": "user", "traceId": "x", "startTime": "y"})
    assert not asks({"trace": {}, "messages": []})
    assert not asks({"run_type": "llm", "trace_id": "x", "dotted_order": "y"})


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


def cells(rows):
    """Rows as the batch export writes them: JSON text for what is no text, and nothing for null."""

    def cell(value):
        return "" if value is None else value if isinstance(value, str) else json.dumps(value)

    columns = list(dict.fromkeys(k for r in rows for k in r))
    return pl.DataFrame({c: [cell(r.get(c)) for r in rows] for c in columns})


def graded(rows):
    kept = (
        "id",
        "traceId",
        "name",
        "value",
        "dataType",
        "stringValue",
        "source",
        "comment",
        "timestamp",
        "observationId",
    )
    return [{k: r.get(k) for k in kept} for r in rows]


def test_observations_in_csv_say_what_the_trace_says(tmp_path):
    extra = {"traceName": "run", "userId": "u-1", "traceTags": ["arm:blue"], "toolDefinitions": [], "totalCost": 0.5}
    rows = [o | extra | {"metadata": {"task": "t-1"}} for o in dialogue()]
    scores = [score(), score("success", 1, dataType="BOOLEAN", stringValue="True", observationId="g2")]
    (tmp_path / "json").mkdir()
    options = ReadOptions(task_id="task", arm="arm")
    record = document(rows, scores, tags=["arm:blue"], userId="u-1")
    whole = load(tmp_path / "json", record, options=options)
    folder = tmp_path / "csv"
    folder.mkdir()
    cells(rows).write_csv(folder / "observations.csv", quote_style="always")
    cells(graded(scores)).write_csv(folder / "scores.csv")
    frames = read_frames([folder], options=options)
    same(frames, whole)
    assert frames["attempts"].select("source_format", "task_id", "arm", "score").row(0) == (
        "langfuse",
        "t-1",
        "blue",
        0.5,
    )
    metadata = json.loads(frames["attempts"]["metadata"][0])
    assert (metadata["user"], metadata["name"]) == ("u-1", "run")
    assert codes(frames) == codes(whole)


def test_usage_in_cells_of_older_exports_is_numbers(tmp_path):
    old = {"usageDetails": None, "costDetails": None, "promptTokens": 10, "completionTokens": 2, "totalCost": 0.5}
    cells([observation("root", "SPAN"), generation("g1", [ASK], SAY, **old)]).write_csv(tmp_path / "x.csv")
    frames = read_frames([tmp_path / "x.csv"])
    assert frames["attempts"].select("input_tokens", "output_tokens", "cost_usd").rows() == [(10, 2, 0.5)]


def test_tools_in_the_metadata_count_when_the_column_of_tools_is_empty(tmp_path):
    schema = {"type": "function", "function": {"name": "f", "parameters": {}}}
    meta = {"attributes": {"gen_ai.tool.definitions": json.dumps([schema])}}
    rows = [observation("root", "SPAN"), generation("g1", [ASK], SAY, metadata=meta, toolDefinitions={})]
    cells(rows).write_csv(tmp_path / "x.csv")
    assert json.loads(read_frames([tmp_path / "x.csv"])["attempts"]["tools"][0]) == [schema]


def test_which_tables_are_claimed(tmp_path):
    def asks(table):
        path = tmp_path / "x.csv"
        table.write_csv(path)
        return SOURCES["langfuse"].claims_file(Look(path, path.read_bytes()))

    assert asks(cells(dialogue()))
    assert asks(cells(graded([score()])))
    assert not asks(pl.DataFrame({"traceId": ["x"], "type": ["SPAN"]}))
    assert not asks(pl.DataFrame({"id": ["x"], "text": ["traceId,type,startTime"]}))


ATOMS = st.sampled_from([None, 0, -1, 2**70, 1.5, True, "", "x", "[{", "{}", [], {}, [[]], [{}], {"a": []}])


def places(node, path=()):
    yield path
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, child in children:
        yield from places(child, (*path, key))


@settings(max_examples=75, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_change_of_a_record_gives_no_exception_and_no_silence(tmp_path, data):
    record = copy.deepcopy(document(scores=[score()], metadata={"attributes": {"a": 1}}))
    path = data.draw(st.sampled_from([p for p in places(record) if p]))
    holder = record
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = data.draw(ATOMS)
    file = tmp_path / "trace.json"
    file.write_text(json.dumps(record))
    frames = read_frames([file], format="langfuse", options=ReadOptions(task_id="a", trial="n"))
    assert frames["attempts"].height + frames["diagnostics"].height > 0
    for name, frame in frames.items():
        assert frame.schema == CORE[name].schema
