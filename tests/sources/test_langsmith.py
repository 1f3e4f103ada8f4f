from __future__ import annotations

import copy
import json
from datetime import datetime
from pathlib import Path

import polars as pl
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from expcomp.sources._contract import ReadOptions
from expcomp.sources._look import Look
from expcomp.sources.load import read_frames
from expcomp.sources.registry import SOURCES
from expcomp.tables.core import CORE

ROOT, FIRST, TOOL, LAST = (f"00000000-0000-0000-0000-00000000000{n}" for n in range(4))
ASK = {"role": "user", "content": "What is in the drawer?"}
CALL = {"id": "c1", "type": "function", "function": {"name": "open_drawer", "arguments": '{"n": 1}'}}
LOOK = {"role": "assistant", "content": None, "tool_calls": [CALL]}
FOUND = {"role": "tool", "tool_call_id": "c1", "content": "a pen"}
SAY = {"role": "assistant", "content": "A pen."}
SCHEMA = {"type": "function", "function": {"name": "open_drawer", "parameters": {}}}


def run(ident, kind, parent=ROOT, start=1, given=None, made=None, **more):
    out = {
        "id": ident,
        "trace_id": ROOT,
        "dotted_order": f"20260101T0000{start:02d}000000Z{ident}",
        "name": {"tool": "open_drawer", "llm": "ChatModel"}.get(kind, "helper"),
        "run_type": kind,
        "session_name": "project",
        "start_time": f"2026-01-01T00:00:{start:02d}+00:00",
        "end_time": f"2026-01-01T00:00:{start:02d}.500+00:00",
        "inputs": given or {},
        "outputs": made or {},
        "extra": {"metadata": {"task": "t-1", "LANGSMITH_PROJECT": "secret-project", "revision_id": "r-9"}},
    }
    return out | ({"parent_run_id": parent} if ident != ROOT else {}) | more


def model(ident, messages, made, start=1, **more):
    usage = {"input_tokens": 10, "output_tokens": 2, "input_token_details": {"cache_read": 4}}
    outputs = {
        "id": "r-0",
        "model": "m-1",
        "choices": [{"finish_reason": "stop", "message": made}],
        "usage_metadata": usage,
    }
    inputs = {"messages": messages, "model": "m", "temperature": 0, "tools": [SCHEMA]}
    return run(ident, "llm", start=start, given=inputs, made=outputs, **more)


def dialogue():
    return [
        run(ROOT, "chain", start=0),
        model(FIRST, [ASK], LOOK),
        run(TOOL, "tool", start=2, given={"n": 1}, made={"output": "a pen"}),
        model(LAST, [ASK, LOOK, FOUND], SAY, start=3),
    ]


def feedback(run_id=ROOT, key="reward", score=1.0, **more):
    return {
        "id": "f1",
        "run_id": run_id,
        "trace_id": ROOT,
        "key": key,
        "score": score,
        "comment": "checked",
        "created_at": "2026-01-02T00:00:00+00:00",
        "feedback_source": {"type": "api"},
    } | more


def save(folder: Path, *records, name="runs.jsonl"):
    path = folder / name
    path.write_text("\n".join(json.dumps(r) for r in records))
    return path


def load(folder: Path, *records, options=None):
    return read_frames([save(folder, *records)], options=options)


def codes(frames):
    return set(frames["diagnostics"]["code"])


def said(frames):
    return frames["messages"].select("role", "content").rows()


def test_runs_of_a_trace_are_an_attempt(tmp_path):
    frames = load(tmp_path, *dialogue())
    assert [r for r, _ in said(frames)] == ["user", "assistant", "tool", "assistant"]
    (attempt,) = frames["attempts"].to_dicts()
    assert (attempt["agent"], attempt["model"], attempt["run_id"], attempt["status"]) == (
        "helper",
        "m-1",
        "project",
        "completed",
    )
    assert (attempt["input_tokens"], attempt["cached_input_tokens"], attempt["cost_usd"]) == (20, 8, None)
    assert json.loads(attempt["params"]) == {"model": "m", "temperature": 0}
    assert json.loads(attempt["tools"]) == [SCHEMA]
    assert attempt["n_tool_calls"] == 1
    assert codes(frames) == set()


def test_feedback_of_a_second_file_grades_the_root_run(tmp_path):
    save(tmp_path, feedback(), name="feedback.jsonl")
    save(tmp_path, *dialogue())
    frames = read_frames([tmp_path])
    assert frames["attempts"].select("score", "passed", "score_valid", "grade_ref").row(0) == (
        1.0,
        None,
        True,
        "feedback.jsonl",
    )
    (grade,) = frames["grades"].to_dicts()
    assert (grade["name"], grade["rationale"], grade["kind"], grade["is_primary"]) == (
        "reward",
        "checked",
        "verifier",
        True,
    )


def test_feedback_on_a_model_run_grades_its_step_and_feedback_on_nothing_is_reported(tmp_path):
    rows = [feedback(LAST, "style", 0.5), feedback("gone", trace_id="gone")]
    frames = load(tmp_path, *dialogue(), *rows)
    assert frames["grades"].select("name", "step_index", "is_primary").rows() == [("style", 2, False)]
    assert "feedback_without_run" in codes(frames)


def test_a_category_in_feedback_is_a_label(tmp_path):
    frames = load(tmp_path, *dialogue(), feedback(key="correctness", score=None, value="correct"))
    assert frames["grades"].select("label", "value", "passed").row(0) == ("correct", 1.0, True)
    assert frames["attempts"]["passed"].to_list() == [True]


def test_feedback_alone_gives_no_attempt(tmp_path):
    frames = load(tmp_path, feedback())
    assert frames["attempts"].is_empty()
    assert {"feedback_without_run", "no_attempt"} <= codes(frames)


def test_environment_and_secrets_in_metadata_stay_out(tmp_path):
    rows = dialogue()
    rows[0]["extra"]["metadata"] |= {"OPENAI_API_KEY": "sk-1", "api_key": "sk-2"}
    frames = load(tmp_path, *rows)
    metadata = frames["attempts"]["metadata"][0]
    assert "secret-project" not in metadata
    assert "sk-" not in metadata
    assert json.loads(metadata)["task"] == "t-1"


def test_a_run_that_is_sent_twice_is_one_run(tmp_path):
    rows = dialogue()
    begun = {k: v for k, v in rows[1].items() if k not in ("outputs", "end_time")}
    ended = {k: rows[1][k] for k in ("id", "trace_id", "outputs", "end_time")} | {"error": None}
    frames = load(tmp_path, rows[0], begun, ended, *rows[2:])
    assert frames["attempts"]["n_steps"].to_list() == [2]
    assert len(said(frames)) == 4
    assert codes(frames) == set()


def test_batches_of_posts_and_patches(tmp_path):
    rows = dialogue()
    frames = load(tmp_path, {"post": rows[:2], "patch": []}, {"post": rows[2:], "patch": []})
    assert frames["attempts"]["n_steps"].to_list() == [2]


def test_serialised_langchain_messages(tmp_path):
    def lc(name, **kwargs):
        return {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", name], "kwargs": kwargs}

    asked = [lc("SystemMessage", content="Be short."), lc("HumanMessage", content="Hi")]
    call = {"name": "open_drawer", "args": {"n": 1}, "id": "c1", "type": "tool_call"}
    made = lc("AIMessage", content="", tool_calls=[call], response_metadata={"finish_reason": "tool_calls"})
    usage = {"token_usage": {"prompt_tokens": 7, "completion_tokens": 3}, "model_name": "m-2"}
    outputs = {"generations": [[{"text": "", "message": made}]], "llm_output": usage}
    back = {"type": "tool", "content": "a pen", "tool_call_id": "c1", "status": "success"}
    rows = [
        run(ROOT, "chain", start=0),
        run(FIRST, "llm", given={"messages": [asked]}, made=outputs),
        run(TOOL, "tool", start=2, given={"input": "{'n': 1}"}, made={"output": back}),
    ]
    frames = load(tmp_path, *rows)
    assert said(frames) == [("system", "Be short."), ("user", "Hi"), ("assistant", "")]
    step = frames["steps"].to_dicts()[1]
    assert (step["model"], step["input_tokens"], step["stop_reason"]) == ("m-2", 7, "tool_calls")
    assert [(o["call_id"], o["content"], o["is_error"]) for o in step["observations"]] == [("c1", "a pen", False)]


def test_errors_name_their_class(tmp_path):
    rows = dialogue()
    rows[0] |= {"error": "RateLimitError('slow down')Traceback (most recent call last): ..."}
    frames = load(tmp_path, *rows, feedback())
    assert frames["attempts"].select("status", "error_type", "score_valid").row(0) == (
        "infra_error",
        "RateLimitError",
        False,
    )


def test_a_run_without_an_end_is_running(tmp_path):
    rows = dialogue()
    del rows[0]["end_time"]
    frames = load(tmp_path, *rows)
    assert frames["attempts"]["status"].to_list() == ["running"]


def test_the_dataset_example_is_the_task_and_a_name_in_the_metadata_wins(tmp_path):
    rows = dialogue()
    rows[0]["reference_example_id"] = "e-1"
    assert load(tmp_path, *rows)["attempts"]["task_id"].to_list() == ["e-1"]
    assert load(tmp_path, *rows, options=ReadOptions(task_id="task"))["attempts"]["task_id"].to_list() == ["t-1"]


def test_times_without_a_zone_are_reported_once(tmp_path):
    rows = [r | {"start_time": "2026-01-01T00:00:00", "end_time": "2026-01-01T00:00:01"} for r in dialogue()]
    frames = load(tmp_path, *rows)
    assert frames["diagnostics"]["code"].to_list().count("naive_time") == 1


def test_rows_that_are_no_runs_are_reported(tmp_path):
    frames = load(tmp_path, *dialogue(), {"hello": 1}, [])
    assert frames["diagnostics"].filter(code="bad_record")["source_pos"].to_list() == [4, 5]


def test_a_cut_line_costs_one_run(tmp_path):
    path = save(tmp_path, *dialogue())
    path.write_bytes(path.read_bytes()[:-30])
    frames = read_frames([path])
    assert frames["attempts"]["n_steps"].to_list() == [1]
    assert frames["diagnostics"].filter(severity="error").height == 1


def test_what_is_claimed(tmp_path):
    def asks(record):
        return SOURCES["langsmith"].claims_file(Look(tmp_path / "x", json.dumps(record).encode()))

    assert asks(dialogue()[1])
    assert asks(feedback())
    assert asks({"post": dialogue()})
    assert not asks({"run_id": "x", "messages": []})
    assert not asks({"type": "GENERATION", "traceId": "x"})


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


def exported(records):
    """Runs as rows of the bulk export: objects as JSON text, times as times, and every column in every row."""
    rows = [
        {"parent_run_id": None, "error": None, "status": None, "tags": ["arm:blue"], "is_root": False} | r
        for r in records
    ]
    texts = ("inputs", "outputs", "extra", "tags")
    rows = [{k: json.dumps(v) if k in texts else v for k, v in r.items()} for r in rows]
    return pl.DataFrame(rows, infer_schema_length=None).with_columns(
        pl.Series("start_time", [datetime.fromisoformat(r["start_time"]) for r in rows]),
        pl.Series("end_time", [datetime.fromisoformat(r["end_time"]) for r in rows]),
    )


def test_the_bulk_export_says_what_the_runs_say(tmp_path):
    runs = [r | {"status": "success", "tags": ["arm:blue"]} for r in dialogue()]
    runs[1] |= {"total_tokens": 12, "prompt_tokens": 10, "completion_tokens": 2, "total_cost": 0.25}
    rows = load(tmp_path, *runs, options=ReadOptions(task_id="task", arm="arm"))
    table = exported(runs)
    table.write_parquet(tmp_path / "export.parquet")
    table.with_columns(pl.col("start_time", "end_time").dt.to_string("iso")).write_csv(tmp_path / "export.csv")
    for name in ("export.parquet", "export.csv"):
        frames = read_frames([tmp_path / name], options=ReadOptions(task_id="task", arm="arm"))
        same(frames, rows)
        assert frames["attempts"].select("source_format", "task_id", "arm", "run_id", "cost_usd").row(0) == (
            "langsmith", "t-1", "blue", "project", 0.25,
        )  # fmt: skip
        assert codes(frames) == codes(rows)


def test_feedback_in_lines_grades_runs_of_the_bulk_export(tmp_path):
    save(tmp_path, feedback(), name="feedback.jsonl")
    exported(dialogue()).write_parquet(tmp_path / "export.parquet")
    frames = read_frames([tmp_path])
    assert frames["attempts"].select("score", "grade_ref").rows() == [(1.0, "feedback.jsonl")]


def test_which_tables_are_claimed(tmp_path):
    def asks(table):
        path = tmp_path / "x.parquet"
        table.write_parquet(path)
        return SOURCES["langsmith"].claims_file(Look(path, path.read_bytes()))

    assert asks(exported(dialogue()))
    assert not asks(pl.DataFrame({"run_id": ["x"], "key": ["y"], "score": [1.0], "messages": ["[]"]}))


def test_text_in_a_table_that_is_not_utf8_is_reported(tmp_path):
    path = tmp_path / "export.parquet"
    exported([r | {"name": "HELPERHELPER"} for r in dialogue()]).write_parquet(
        path, compression="uncompressed", statistics=False
    )
    path.write_bytes(path.read_bytes().replace(b"HELPERHELPER", b"HELPER\xffELPER"))
    frames = read_frames([path])
    assert frames["attempts"].is_empty()
    assert "bad_parquet" in codes(frames)


def test_a_table_without_rows_is_reported(tmp_path):
    exported(dialogue()).clear().write_parquet(tmp_path / "export.parquet")
    frames = read_frames([tmp_path / "export.parquet"])
    assert "empty_file" in codes(frames)


ATOMS = st.sampled_from([None, 0, -1, 2**70, 1.5, True, "", "x", "[{", "{}", [], {}, [[]], [{}], {"a": []}])


def places(node, path=()):
    yield path
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, child in children:
        yield from places(child, (*path, key))


@settings(max_examples=75, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_change_of_a_record_gives_no_exception_and_no_silence(tmp_path, data):
    records = copy.deepcopy([*dialogue(), feedback()])
    path = data.draw(st.sampled_from([p for p in places(records) if p]))
    holder = records
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = data.draw(ATOMS)
    frames = read_frames([save(tmp_path, *records)], format="langsmith", options=ReadOptions(task_id="task", trial="n"))
    assert frames["attempts"].height + frames["diagnostics"].height > 0
    for name, frame in frames.items():
        assert frame.schema == CORE[name].schema
