from __future__ import annotations

import base64
import io
import json
import zipfile
import zlib

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expcomp.sources._contract import Found, ReadOptions
from expcomp.sources._look import Look
from expcomp.sources.inspect_log import reader as inspect_log
from expcomp.sources.inspect_log._dialogue import usage_of
from expcomp.sources.inspect_log.reader import SOURCE
from expcomp.sources.load import read_frames, read_units

USAGE = {
    "input_tokens": 10,
    "output_tokens": 4,
    "total_tokens": 21,
    "input_tokens_cache_read": 7,
    "reasoning_tokens": 2,
}
TOOLS = [{"name": "bash", "description": "attachment://d1", "parameters": {"type": "object", "properties": {}}}]


def call(ident="c1", name="bash", **more):
    return {
        "id": ident,
        "function": name,
        "arguments": {"cmd": "ls"},
        "type": "function",
        "view": {"content": "v"},
    } | more


def said(ident, content, **more):
    return {"id": ident, "role": "assistant", "content": content, "source": "generate"} | more


def messages():
    return [
        {"id": "m0", "role": "system", "content": "Be brief."},
        {"id": "m1", "role": "user", "content": "List files.", "source": "input"},
        said("m2", "I look.", tool_calls=[call()]),
        {"id": "m3", "role": "tool", "content": "a b", "tool_call_id": "c1", "function": "bash"},
        said("m4", "a and b."),
    ]


def model(message, at="2025-10-06T10:15:45+00:00", span="solver", usage=USAGE, **more):
    output = {
        "model": "gpt-4o-mini-2024-07-18",
        "choices": [{"message": message, "stop_reason": "stop"}],
        "usage": usage,
    }
    event = {"event": "model", "timestamp": at, "span_id": span, "model": "openai/gpt-4o-mini", "input": []}
    return event | {"tools": TOOLS, "config": {"temperature": 0.5}, "output": output} | more


def events():
    return [
        {
            "event": "span_begin",
            "id": "solvers",
            "type": "solvers",
            "name": "solvers",
            "timestamp": "2025-10-06T10:15:43+00:00",
        },
        {"event": "span_begin", "id": "solver", "parent_id": "solvers", "type": "solver", "name": "generate"},
        model(messages()[2], completed="2025-10-06T10:15:46+00:00"),
        {"event": "tool", "id": "c1", "function": "bash", "result": "a b", "span_id": "solver"},
        model(messages()[4]),
        {"event": "span_begin", "id": "scorers", "type": "scorers", "name": "scorers"},
        {"event": "span_begin", "id": "sc", "parent_id": "scorers", "type": "scorer", "name": "judged"},
        model(said("g1", "GRADE: C"), span="sc", model="openai/judge"),
        {"event": "score", "span_id": "sc", "score": {"value": "C"}, "timestamp": "2025-10-06T10:15:50+00:00"},
    ]


def sample(ident=1, epoch=1, **more):
    return {
        "id": ident,
        "epoch": epoch,
        "input": "List files.",
        "target": "a b",
        "messages": messages(),
        "output": {"model": "gpt-4o-mini-2024-07-18", "choices": []},
        "scores": {"judged": {"value": "C", "answer": "a and b.", "explanation": "It says so."}},
        "metadata": {"level": 2},
        "store": {},
        "events": events(),
        "model_usage": {"openai/gpt-4o-mini": USAGE},
        "attachments": {"d1": "Runs bash."},
        "total_time": 3.5,
        "uuid": f"u-{ident}-{epoch}",
    } | more


def header(samples=1, scorers=("judged",), **more):
    scores = [{"name": n.partition("/")[2] or n, "scorer": n.partition("/")[0], "metrics": {}} for n in scorers]
    return {
        "version": 2,
        "status": "success",
        "eval": {
            "eval_id": "e1",
            "run_id": "r1",
            "task": "files",
            "task_id": "t1",
            "model": "openai/gpt-4o-mini",
            "model_args": {"api_key": "sk-live-1"},
            "task_args_passed": {"k": 2},
            "dataset": {"name": "files_set", "samples": samples},
            "config": {"epochs": 1, "message_limit": 9},
            "packages": {"inspect_ai": "0.3.1"},
        },
        "plan": {"steps": [{"solver": "system_message"}, {"solver": "generate"}], "config": {}},
        "results": {"total_samples": samples, "completed_samples": samples, "scores": scores},
        "stats": {},
    } | more


def document(*samples, **more):
    return header(len(samples), **more) | {"samples": list(samples)}


def archive(path, samples, head=True, method=zipfile.ZIP_DEFLATED, **more):
    """An `.eval` file; `head` false leaves it unfinished."""
    top = header(len(samples), **more)
    with zipfile.ZipFile(path, "w", method) as out:
        start = {k: top[k] for k in ("version", "eval", "plan")}
        out.writestr("_journal/start.json", json.dumps(start))
        for row in samples:
            out.writestr(f"samples/{row['id']}_epoch_{row['epoch']}.json", json.dumps(row))
        out.writestr("_journal/summaries/1.json", "[]")
        if head:
            out.writestr("header.json", json.dumps(top))
    return path


def load(tmp_path, value, name="log.json"):
    path = tmp_path / name
    path.write_text(value if isinstance(value, str) else json.dumps(value), "utf-8")
    return read_frames([path])


def one(frames, table="attempts"):
    assert frames[table].height == 1
    return frames[table].to_dicts()[0]


def codes(frames):
    return set(frames["diagnostics"]["code"])


def test_an_attempt_has_what_log_and_sample_say(tmp_path):
    frames = load(tmp_path, document(sample(epoch=2)))
    row = one(frames)
    assert row["task_id"] == "files_set/1"
    assert (row["trial"], row["trial_source"]) == (1, "native")
    assert (row["run_id"], row["trace_id"], row["native_attempt_id"]) == ("e1", "u-1-2", "1/2")
    assert (row["model"], row["model_provider"]) == ("openai/gpt-4o-mini", "openai")
    assert row["agent"] == "system_message+generate"
    assert row["arm"] == "system_message+generate/gpt-4o-mini[k=2]"
    assert (row["status"], row["passed"], row["score"], row["grade_kind"]) == ("completed", True, 1.0, "model_judge")
    assert row["duration_s"] == 3.5
    assert json.loads(row["params"]) == {"message_limit": 9, "temperature": 0.5}
    assert "sk-live" not in frames["attempts"].write_ndjson()
    task = one(frames, "tasks")
    assert (task["instruction"], task["target"], task["native_id"]) == ("List files.", '"a b"', "1")
    assert json.loads(task["metadata"]) == {"metadata": {"level": 2}}


def test_steps_are_the_model_calls_before_scoring(tmp_path):
    frames = load(tmp_path, document(sample()))
    steps = frames["steps"].to_dicts()
    assert [s["source"] for s in steps] == ["user", "agent", "agent"]
    assert [s["content"] for s in steps] == ["List files.", "I look.", "a and b."]
    assert steps[1]["model"] == "openai/gpt-4o-mini"
    assert json.loads(steps[1]["detail"]) == {"served_model": "gpt-4o-mini-2024-07-18"}
    assert [(c["id"], c["name"], c["arguments"]) for c in steps[1]["tool_calls"]] == [("c1", "bash", '{"cmd":"ls"}')]
    assert [(o["call_id"], o["content"], o["is_error"]) for o in steps[1]["observations"]] == [("c1", "a b", False)]
    assert [m["role"] for m in frames["messages"].to_dicts()] == ["system", "user", "assistant", "tool", "assistant"]
    row = one(frames)
    assert (row["input_tokens"], row["cached_input_tokens"], row["output_tokens"]) == (34, 14, 8)
    assert (row["n_steps"], row["n_messages"], row["n_tool_calls"]) == (2, 5, 1)


def test_attachments_are_put_back(tmp_path):
    log = sample()
    log["messages"][1]["content"] = "attachment://q"
    log["attachments"]["q"] = "List files."
    frames = load(tmp_path, document(log))
    assert frames["messages"]["content"][1] == "List files."
    assert json.loads(one(frames)["tools"])[0]["description"] == "Runs bash."
    log["messages"][1]["content"] = "tc://gone"
    frames = load(tmp_path, document(log))
    assert frames["messages"]["content"][1] == "tc://gone"
    assert "missing_attachment" in codes(frames)


def test_calls_without_message_ids_are_matched_by_what_they_say(tmp_path):
    log = sample()
    for entry in log["messages"]:
        del entry["id"]
    for event in log["events"]:
        if event["event"] == "model":
            event["output"]["choices"][0]["message"] = dict(event["output"]["choices"][0]["message"])
            event["output"]["choices"][0]["message"].pop("id", None)
    log["events"][2]["output"]["choices"][0]["message"]["content"] = "attachment://t"
    log["attachments"]["t"] = "I look."
    frames = load(tmp_path, document(log))
    assert frames["steps"]["input_tokens"].to_list() == [None, 17, 17]


def test_calls_that_left_no_message_are_steps_where_they_happened(tmp_path):
    log = sample()
    begin = {"event": "span_begin", "id": "ag", "parent_id": "solver", "type": "agent", "name": "helper"}
    inner = model(said("x1", "sub", tool_calls=[call("c9")]), span="ag")
    log["events"][3:3] = [begin, inner, {"event": "tool", "id": "c9", "result": "inner result", "span_id": "ag"}]
    frames = load(tmp_path, document(log))
    steps = frames["steps"].to_dicts()
    assert [s["content"] for s in steps] == ["List files.", "I look.", "sub", "a and b."]
    assert steps[2]["actor"] == "helper"
    assert [o["content"] for o in steps[2]["observations"]] == ["inner result"]
    assert frames["messages"].height == 5
    assert frames["messages"]["message_index"].to_list() == list(range(5))


def test_other_roles_and_models_make_no_steps(tmp_path):
    log = sample()
    log["events"][3:3] = [
        model(said("r1", "critique"), role="critic"),
        model(said("r2", "user says"), model="openai/simulator"),
        model(said("r3", ""), error="boom"),
        model(said("r4", "half"), pending=True),
    ]
    frames = load(tmp_path, document(log))
    assert one(frames)["n_steps"] == 2
    assert {"other_model_calls", "failed_model_calls"} <= codes(frames)


def test_old_step_events_tell_scoring_too(tmp_path):
    log = sample()
    kept = [e for e in log["events"] if e["event"] in ("model", "tool")]
    for event in kept:
        event.pop("span_id")
    begin = {"event": "step", "action": "begin", "type": "scorer", "name": "judged"}
    log["events"] = [*kept[:3], begin, kept[3], {"event": "step", "action": "end", "type": "scorer", "name": "judged"}]
    frames = load(tmp_path, document(log))
    assert one(frames)["n_steps"] == 2
    assert json.loads(one(frames, "grades")["metadata"])["judge"] == "openai/judge"


def test_roles_and_sources_of_any_type(tmp_path):
    odd = [*messages(), {"id": "m5", "role": "user", "content": "more", "source": ["input"]}]
    calls = [model(messages()[2], role=["grader"]), model(messages()[4], role={"name": "grader"})]
    frames = load(tmp_path, document(sample(messages=odd, events=calls)))
    assert one(frames)["n_messages"] == len(odd)


def test_the_oldest_layout_has_a_transcript_and_one_score(tmp_path):
    log = sample()
    log["transcript"] = {"events": log.pop("events"), "content": log.pop("attachments")}
    log["score"] = log.pop("scores")["judged"]
    frames = load(tmp_path, document(log))
    assert one(frames)["n_steps"] == 2
    assert one(frames, "grades")["name"] == "judged"
    assert json.loads(one(frames)["tools"])[0]["description"] == "Runs bash."


def test_without_events_the_messages_are_the_steps_and_the_total_is_the_usage(tmp_path):
    frames = load(tmp_path, document(sample(events=[], scores={"match": {"value": "I"}}), scorers=("match",)))
    row = one(frames)
    assert (row["n_steps"], row["input_tokens"], row["usage_basis"]) == (2, 17, "reported")
    assert row["passed"] is False
    judged = load(tmp_path, document(sample(events=[], role_usage={"grader": USAGE})))
    assert one(judged)["input_tokens"] is None


def test_messages_of_the_input_are_demos(tmp_path):
    log = sample()
    log["messages"][1:1] = [
        {"id": "d1", "role": "user", "content": "For example", "source": "input"},
        {"id": "d2", "role": "assistant", "content": "like so", "source": "input"},
    ]
    frames = load(tmp_path, document(log))
    demo = frames["steps"].filter(pl.col("content") == "like so").to_dicts()[0]
    assert (demo["is_copied_context"], demo["trainable"]) == (True, False)
    assert one(frames)["n_steps"] == 2
    assert frames["messages"].filter(pl.col("origin") == "demo").height == 1


def test_what_a_solver_writes_is_not_the_models(tmp_path):
    log = sample()
    log["messages"] += [{"role": "user", "content": "Go on."}, {"role": "assistant", "content": "put in"}]
    frames = load(tmp_path, document(log))
    assert frames["messages"]["origin"].to_list()[-2:] == ["harness", "synthetic"]
    assert one(frames)["n_steps"] == 2
    typed = sample(events=[{"event": "input", "input": "Go on."}, *events()])
    typed["messages"].append({"role": "user", "content": "Go on."})
    assert load(tmp_path, document(typed))["messages"]["origin"].to_list()[-1] == "human"


def test_a_summary_begins_another_context(tmp_path):
    log = sample()
    summary = {"id": "s", "role": "user", "content": "So far: nothing.", "metadata": {"summary": True}}
    log["messages"].insert(4, summary)
    frames = load(tmp_path, document(log))
    assert frames["messages"]["context_id"].to_list() == [0, 0, 0, 0, 1, 1]
    assert frames["messages"]["origin"].to_list()[4] == "summary"
    assert one(frames)["has_compaction"]


def test_reasoning_images_and_server_tools(tmp_path):
    image = "data:image/png;base64," + base64.b64encode(bytes(range(256)) * 2).decode()
    log = sample()
    log["messages"][1]["content"] = [{"type": "text", "text": "See"}, {"type": "image", "image": "attachment://i"}]
    log["attachments"]["i"] = image
    log["messages"][2]["content"] = [
        {"type": "reasoning", "reasoning": "hm", "signature": None},
        {"type": "text", "text": "I look."},
    ]
    log["messages"][4]["content"] = [
        {"type": "reasoning", "reasoning": "gAAAA", "summary": "short", "redacted": True},
        {"type": "tool_use", "id": "w1", "name": "web_search", "arguments": '{"q":"x"}', "result": "found"},
        {"type": "text", "text": "a and b."},
    ]
    frames = load(tmp_path, document(log))
    asked, first, last = (frames["messages"].to_dicts()[i] for i in (1, 2, 4))
    art = one(frames, "artifacts")
    assert (art["kind"], art["mime"], art["bytes"]) == ("image", "image/png", 512)
    assert json.loads(asked["parts"])[1] == {"type": "image", "artifact": art["digest"]}
    assert "base64" not in frames["messages"].write_ndjson()
    assert (first["content"], first["reasoning"], first["parts"]) == ("I look.", "hm", None)
    assert (last["content"], last["reasoning"]) == (None, "short")
    step = frames["steps"].to_dicts()[2]
    assert (step["content"], step["reasoning_opaque"]) == ("a and b.", True)
    assert [(c["name"], c["kind"]) for c in step["tool_calls"]] == [("web_search", "server")]
    assert [o["content"] for o in step["observations"]] == ["found"]


def test_tool_errors(tmp_path):
    log = sample()
    log["messages"][3] |= {"content": "", "error": {"type": "timeout", "message": "took too long"}}
    log["messages"].append({"role": "tool", "content": "cut", "tool_call_id": "c7", "error": {"type": "output_limit"}})
    frames = load(tmp_path, document(log))
    step = frames["steps"].to_dicts()[1]
    assert (step["error_type"], step["error_message"]) == ("timeout", "took too long")
    assert [(o["is_error"], o["content"]) for o in step["observations"]] == [(True, "took too long")]
    assert "orphan_result" in codes(frames)
    assert frames["steps"].to_dicts()[2]["observations"][0]["truncated"] is True


def test_a_call_that_could_not_be_parsed_is_kept_as_it_is(tmp_path):
    log = sample()
    log["messages"][2]["tool_calls"] = [call(arguments='{"cmd": "l', parse_error="no JSON")]
    made = load(tmp_path, document(log))["steps"]["tool_calls"][1].to_list()[0]
    assert (made["arguments"], made["arguments_ok"]) == ('{"cmd": "l', False)


@pytest.mark.parametrize(
    ("value", "score", "passed", "label", "valid"),
    [
        ("C", 1.0, True, "C", True),
        ("I", 0.0, False, "I", True),
        ("P", 0.5, None, "P", True),
        ("N", 0.0, False, "N", True),
        (True, 1.0, True, None, True),
        (False, 0.0, False, None, True),
        (1, 1.0, None, None, True),
        (0.25, 0.25, None, None, True),
        (-3.5, -3.5, None, None, True),
        ("refused", None, None, "refused", True),
        ([1, 0], None, None, "[1,0]", True),
        ({"a": 0.5, "b": "C"}, 0.5, None, '{"a":0.5,"b":"C"}', True),
        (float("nan"), None, None, "nan", False),
        (None, None, None, None, False),
    ],
)
def test_score_values(tmp_path, value, score, passed, label, valid):
    frames = load(tmp_path, document(sample(scores={"judged": {"value": value}})))
    row, grade = one(frames), one(frames, "grades")
    assert (row["score"], row["passed"], row["score_valid"]) == (score, passed, valid)
    assert (grade["value"], grade["passed"], grade["label"], grade["valid"]) == (score, passed, label, valid)


def test_the_headline_is_the_first_of_the_results(tmp_path):
    scores = {"b": {"value": 0.5}, "a": {"value": "C"}, "m": {"value": {"x": 1, "y": 0.25}}}
    frames = load(tmp_path, document(sample(scores=scores), scorers=("pkg/a", "b")))
    assert one(frames)["score"] == 0.5  # `pkg/a` is the score "a" of the scorer "pkg", which the sample does not have
    frames = load(tmp_path, document(sample(scores=scores), scorers=("m/y", "a")))
    assert one(frames)["score"] == 0.25
    assert frames["grades"].filter("is_primary")["name"].to_list() == ["m"]
    assert frames["grades"].height == 3
    head = document(sample(scores=scores), scorers=("m/y", "a"))
    head["results"]["headline"] = {"scorer": "a", "metric": "accuracy"}
    assert one(load(tmp_path, head))["passed"] is True


def test_a_judges_dialogue_is_left_out_once_told(tmp_path):
    grading = [{"role": "user", "content": "Judge: secret-word"}]
    score = {"value": "C", "metadata": {"grading": grading, "n": 1}, "explanation": "yes"}
    frames = load(tmp_path, document(*(sample(i, scores={"model_graded_fact": score}, events=[]) for i in (1, 2))))
    assert frames["diagnostics"].filter(pl.col("code") == "judge_transcript_dropped").height == 1
    assert "secret-word" not in frames["grades"].write_ndjson()
    assert frames["grades"]["kind"].to_list() == ["model_judge"] * 2
    assert json.loads(frames["grades"]["metadata"][0])["metadata"] == {"n": 1}


@pytest.mark.parametrize(
    ("scorers", "declared", "valid"), [(("judged",), None, False), ((), [{"name": "match"}], False), ((), None, None)]
)
def test_unscored_is_not_failed(tmp_path, scorers, declared, valid):
    log = document(sample(scores=None), scorers=scorers)
    log["eval"]["scorers"] = declared
    frames = load(tmp_path, log)
    assert (one(frames)["passed"], one(frames)["score"], one(frames)["score_valid"]) == (None, None, valid)
    assert frames["grades"].is_empty()


def test_an_error_is_infrastructure_unless_it_was_scored_or_the_rules_say_otherwise(tmp_path):
    error = {
        "message": "RuntimeError('x')",
        "traceback": 'Traceback (most recent call last):\n  File "a"\nRuntimeError: x\n',
    }
    frames = load(tmp_path, document(sample(scores=None, error=error)))
    row = one(frames)
    assert (row["status"], row["error_type"], row["score_valid"]) == ("infra_error", "RuntimeError", False)
    scored = one(load(tmp_path, document(sample(error=error))))
    assert (scored["status"], scored["score_valid"], scored["passed"]) == ("agent_error", True, True)
    known = {"message": "RateLimitError('slow')", "traceback": ""}
    row = one(load(tmp_path, document(sample(error=known))))
    assert (row["status"], row["error_type"]) == ("infra_error", "RateLimitError")
    assert (row["score"], row["passed"], row["score_valid"], row["score_issue"]) == (1.0, None, False, "crashed")


def test_a_limit_is_no_error(tmp_path):
    row = one(load(tmp_path, document(sample(limit={"type": "message", "limit": 9}))))
    assert (row["status"], row["stop_reason"], row["passed"]) == ("limit", "message", True)


def test_invalidated_samples_have_no_verdict(tmp_path):
    row = one(load(tmp_path, document(sample(invalidation={"author": "me"}))))
    assert (row["passed"], row["score_valid"], row["score_issue"]) == (None, False, "invalidated")


def test_failed_tries_are_told_of(tmp_path):
    frames = load(tmp_path, document(sample(error_retries=[{"message": "first try", "traceback": "t", "events": []}])))
    (told,) = frames["diagnostics"].filter(pl.col("code") == "error_retries")["detail"].to_list()
    assert "first try" in told
    assert json.loads(one(frames)["metadata"])["error_retries"] == ["first try"]


def test_a_generation_prompt_is_the_system_prompt(tmp_path):
    log = document(sample())
    log["plan"]["config"]["system_message"] = "Always rhyme."
    assert one(load(tmp_path, log))["system_prompt"] == "Always rhyme."


def test_a_header_that_counts_otherwise_is_told_of(tmp_path):
    log = document(sample())
    log["results"]["total_samples"] = 4
    assert "sample_count_differs" in codes(load(tmp_path, log))


def test_usage_is_the_whole_prompt_whatever_the_provider_counts():
    assert usage_of({"input_tokens": 10, "output_tokens": 4, "total_tokens": 21, "input_tokens_cache_read": 7})[
        "input_tokens"
    ] == 17  # fmt: skip
    inside = {"input_tokens": 17, "output_tokens": 4, "total_tokens": 21, "input_tokens_cache_read": 7}
    assert usage_of(inside)["input_tokens"] == 17
    assert usage_of({"input_tokens": 3, "output_tokens": 1, "total_tokens": 4})["cached_input_tokens"] is None
    assert usage_of({"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}) == {}


def test_an_archive_reads_as_the_document_does(tmp_path):
    rows = [sample(i, e) for i in ("b/c", 2, 10) for e in (2, 1)]
    frames = read_frames([archive(tmp_path / "x.eval", rows)])
    attempts = frames["attempts"]
    assert attempts["native_attempt_id"].to_list() == ["2/1", "2/2", "10/1", "10/2", "b/c/1", "b/c/2"]
    assert attempts["source_pos"].to_list() == list(range(6))
    assert attempts["source_digest"].n_unique() == 1
    assert frames["tasks"].height == 3
    assert frames["evidence"].height == 1
    plain = load(tmp_path, document(*rows))
    both = [f["messages"].drop("attempt_id").sort(pl.all()) for f in (frames, plain)]
    assert both[0].equals(both[1])


def zstd_member(path):
    """The archive with its entries compressed by method 93, as newer versions write them."""
    source = zipfile.ZipFile(path)
    out, entries = io.BytesIO(), []
    for info in source.infolist():
        data = source.read(info)
        packed = pa.compress(data, "zstd", asbytes=True)
        name = info.filename.encode()
        numbers = (
            (zlib.crc32(data)).to_bytes(4, "little")
            + len(packed).to_bytes(4, "little")
            + len(data).to_bytes(4, "little")
        )
        fixed = b"\x3f\x00\x00\x00" + (93).to_bytes(2, "little") + b"\x00\x00\x21\x00" + numbers
        entries.append((fixed, name, out.tell()))
        out.write(b"PK\x03\x04" + fixed + len(name).to_bytes(2, "little") + b"\x00\x00" + name + packed)
    start = out.tell()
    for fixed, name, offset in entries:
        tail = len(name).to_bytes(2, "little") + b"\x00" * 12 + offset.to_bytes(4, "little")
        out.write(b"PK\x01\x02\x3f\x00" + fixed + tail + name)
    size = out.tell() - start
    count = len(entries).to_bytes(2, "little")
    out.write(
        b"PK\x05\x06\x00\x00\x00\x00"
        + count * 2
        + size.to_bytes(4, "little")
        + start.to_bytes(4, "little")
        + b"\x00\x00"
    )
    path.write_bytes(out.getvalue())
    return path


def test_zstd_entries(tmp_path):
    plain = read_frames([archive(tmp_path / "x.eval", [sample(1), sample(2)])])
    packed = read_frames([zstd_member(tmp_path / "x.eval")])
    assert {i.compress_type for i in zipfile.ZipFile(tmp_path / "x.eval").infolist()} == {93}
    assert packed["messages"].equals(plain["messages"])
    assert packed["diagnostics"].equals(plain["diagnostics"])


def test_an_unfinished_log_has_its_journal_only(tmp_path):
    frames = read_frames([archive(tmp_path / "x.eval", [sample(1), sample(2)], head=False)])
    assert frames["attempts"].height == 2
    assert frames["attempts"]["task_id"].to_list() == ["files_set/1", "files_set/2"]
    assert frames["attempts"]["passed"].to_list() == [True, True]
    assert "unfinished_log" in codes(frames)


def test_a_log_without_samples_says_so(tmp_path):
    frames = read_frames([archive(tmp_path / "x.eval", [], head=False)])
    assert frames["attempts"].is_empty()
    assert {"unfinished_log", "no_attempt"} <= codes(frames)
    assert "no_attempt" in codes(load(tmp_path, document()))


def test_a_broken_entry_costs_only_itself(tmp_path):
    path = archive(tmp_path / "x.eval", [sample(1), sample(2), sample(3)], method=zipfile.ZIP_STORED)
    blob = bytearray(path.read_bytes())
    at = blob.index(b"u-2-1")
    blob[at : at + 5] = b"u-9-1"
    path.write_bytes(bytes(blob))
    frames = read_frames([path])
    assert frames["attempts"]["native_attempt_id"].to_list() == ["1/1", "3/1"]
    (told,) = frames["diagnostics"].filter(pl.col("code") == "bad_archive").to_dicts()
    assert "samples/2_epoch_1.json is damaged" in told["detail"]
    assert told["source_pos"] == 1


def test_entries_that_come_twice_and_samples_in_pieces(tmp_path):
    path = archive(tmp_path / "x.eval", [sample(1)])
    with zipfile.ZipFile(path, "a") as out:
        with pytest.warns(UserWarning, match="Duplicate name"):
            out.writestr("samples/1_epoch_1.json", json.dumps(sample(1, uuid="second")))
        out.writestr("samples/7_epoch_1/sample.json", "{}")
    frames = read_frames([path])
    assert one(frames)["trace_id"] == "second"
    assert {"duplicate_member", "chunked_sample", "sample_count_differs"} <= codes(frames)


def test_an_entry_larger_than_the_limit_is_refused(tmp_path):
    path = archive(tmp_path / "x.eval", [sample(1), sample(2, store={"big": "x" * 90_000})])
    frames = read_frames([path], options=ReadOptions(max_file_bytes=50_000))
    assert frames["attempts"].height == 1
    assert "too_large" in codes(frames)


@pytest.mark.parametrize("blob", [b"", b"PK\x03\x04", b"PK\x03\x04" + b"\0" * 26 + b"_journal/start.json", b"{", b"[]"])
def test_a_file_that_is_no_log_gives_a_diagnostic(tmp_path, blob):
    path = tmp_path / "x.eval"
    path.write_bytes(blob)
    frames = read_frames([path], format="inspect")
    assert frames["attempts"].is_empty()
    assert frames["diagnostics"].height > 0


def test_a_large_archive_is_read_in_parts_that_make_the_whole(tmp_path, monkeypatch):
    rows = [sample(i, e) for i in range(7) for e in (1, 2)]
    path = archive(tmp_path / "x.eval", rows)
    whole = read_frames([path])
    monkeypatch.setattr(inspect_log, "PART", 3)
    found = Found()
    SOURCE.units(path, tmp_path, found)
    # Epochs of a sample stay together: three samples of two epochs a part.
    assert [u.span for u in found.units] == [(0, 6, 0), (6, 12, 6), (12, 14, 12)]
    assert [u.group for u in found.units] == [f"inspect/files_set/{a}..{b}" for a, b in ((0, 2), (3, 5), (6, 6))]
    parts = [SOURCE.read([u], ReadOptions()) for u in found.units]
    assert [p["evidence"].height for p in parts] == [1, 0, 0]
    together = read_units(found.units)
    for name in ("steps", "messages", "grades", "tasks", "evidence"):
        assert together[name].equals(whole[name]), name
    assert together["attempts"]["source_digest"].null_count() == 14
    assert together["attempts"].drop("source_digest").equals(whole["attempts"].drop("source_digest"))
    assert read_frames([path])["attempts"].equals(together["attempts"])


def test_rows_are_turned_into_frames_on_the_way(tmp_path, monkeypatch):
    path = archive(tmp_path / "x.eval", [sample(i) for i in range(7)])
    whole = read_frames([path])
    monkeypatch.setattr(inspect_log, "_FLUSH", 2)
    for name, frame in read_frames([path]).items():
        assert frame.equals(whole[name]), name


def test_recognition_is_by_content(tmp_path):
    def claims(blob, name="x"):
        path = tmp_path / name
        path.write_bytes(blob)
        return SOURCE.claims_file(Look(path, blob[: 64 * 1024]))

    assert claims(json.dumps(document(sample())).encode())
    assert claims(archive(tmp_path / "a.eval", [sample()]).read_bytes())
    other = io.BytesIO()
    with zipfile.ZipFile(other, "w") as out:
        out.writestr("samples/a.json", "{}")
    assert not claims(other.getvalue())
    assert not claims(json.dumps({"version": 1, "eval": {"accuracy": 1}}).encode())
    assert not claims(b"[1]")


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def places_in(value):
    if isinstance(value, dict):
        if value:
            yield value
        for inner in value.values():
            yield from places_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from places_in(inner)


@settings(max_examples=75, deadline=None)
@given(st.data())
def test_values_of_any_type_never_raise(tmp_path_factory, data):
    value = json.loads(json.dumps(document(sample(1), sample(2, limit={"type": "time"}, error={"message": "m"}))))
    places = list(places_in(value))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.sampled_from(places))
        place[data.draw(st.sampled_from(sorted(place)))] = data.draw(JSON)
    path = tmp_path_factory.mktemp("inspect") / "log.json"
    path.write_text(json.dumps(value))
    found = Found()
    SOURCE.units(path, path.parent, found)
    frames = SOURCE.read(found.units, ReadOptions())
    rows = value.get("samples")
    loaded = frames["attempts"].height
    told = frames["diagnostics"].filter(pl.col("code").is_in(["bad_row", "no_attempt"])).height
    assert loaded == (sum(isinstance(r, dict) for r in rows) if isinstance(rows, list) else 0)
    assert loaded == 2 or told > 0


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_an_archive_cut_or_damaged_anywhere_never_raises(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("inspect") / "x.eval"
    archive(path, [sample(1), sample(2)])
    blob = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(blob) - 1))
        blob[at : at + data.draw(st.integers(1, 6))] = data.draw(st.binary(max_size=4))
    path.write_bytes(bytes(blob[: data.draw(st.integers(1, len(blob)))]))
    frames = read_frames([path], format="inspect")
    assert frames["attempts"].height + frames["diagnostics"].height > 0


def test_a_key_that_an_entry_holds_twice_is_told_of(tmp_path):
    path = tmp_path / "x.eval"
    with zipfile.ZipFile(path, "w") as out:
        out.writestr("header.json", json.dumps(header()))
        out.writestr("samples/1_epoch_1.json", json.dumps(sample(1))[:-1] + ', "epoch": 2}')
    frames = read_frames([path])
    assert one(frames)["trial"] == 1
    assert "duplicate_key" in codes(frames)
