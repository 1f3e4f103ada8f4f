from __future__ import annotations

import copy
import json
import zipfile
from datetime import UTC, datetime
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

TRACE = "0af7651916cd43dd8448eb211c80319c"
SCHEMA = {"type": "function", "function": {"name": "open_drawer", "parameters": {"type": "object"}}}
ASK = {"message.role": "user", "message.content": "What is in the drawer?"}
LOOK = {
    "message.role": "assistant",
    "message.tool_calls.0.tool_call.id": "c1",
    "message.tool_calls.0.tool_call.function.name": "open_drawer",
    "message.tool_calls.0.tool_call.function.arguments": '{"n": 1}',
}
FOUND = {"message.role": "tool", "message.tool_call_id": "c1", "message.content": "a pen"}
SAY = {"message.role": "assistant", "message.content": "A pen."}


def span(ident, parent, start, attrs, **more):
    def value(raw):
        if isinstance(raw, list):
            return {"arrayValue": {"values": [value(r) for r in raw]}}
        return (
            {"intValue": str(raw)}
            if isinstance(raw, int)
            else {"doubleValue": raw}
            if isinstance(raw, float)
            else {"stringValue": raw}
        )

    out = {
        "traceId": TRACE,
        "spanId": f"{ident:016x}",
        "name": "step",
        "startTimeUnixNano": str(1_800_000_000_000_000_000 + start * 10**9),
        "endTimeUnixNano": str(1_800_000_000_500_000_000 + start * 10**9),
        "attributes": [{"key": k, "value": value(v)} for k, v in attrs.items()],
        "status": {},
    }
    return out | ({"parentSpanId": f"{parent:016x}"} if parent else {}) | more


def agent(ident=1, parent=None, **attrs):
    return span(ident, parent, 0, {"openinference.span.kind": "AGENT"} | attrs, name="helper")


def flat(prefix, messages):
    return {f"{prefix}.{i}.{k}": v for i, m in enumerate(messages) for k, v in m.items()}


def model(ident, given, made, start=1, parent=1, cut=0, **attrs):
    usage = {"llm.token_count.prompt": 10, "llm.token_count.completion": 2, "llm.cost.total": 0.25}
    attrs = {"openinference.span.kind": "LLM", "llm.model_name": "m-1", "llm.provider": "acme"} | usage | attrs
    attrs |= flat("llm.input_messages", given) | flat("llm.output_messages", made)
    attrs |= {
        "llm.tools.0.tool.json_schema": json.dumps(SCHEMA),
        "llm.invocation_parameters": '{"model": "m", "temperature": 0}',
    }
    return span(ident, parent, start, attrs, **({"droppedAttributesCount": cut} if cut else {}))


def tool(ident, start=2, parent=1, **attrs):
    attrs = {
        "openinference.span.kind": "TOOL",
        "tool.name": "open_drawer",
        "input.value": '{"n": 1}',
        "output.value": "a pen",
    } | attrs
    return span(ident, parent, start, attrs)


def export(*spans):
    return {"resourceSpans": [{"resource": {"attributes": []}, "scopeSpans": [{"scope": {}, "spans": list(spans)}]}]}


def load(folder: Path, *spans, options=None):
    path = folder / "spans.jsonl"
    path.write_text("\n".join(json.dumps(export(s)) for s in spans))
    return read_frames([path], options=options)


def dialogue(**root):
    return [agent(**root), model(2, [ASK], [LOOK]), tool(3), model(4, [ASK, LOOK, FOUND], [SAY], start=3)]


def codes(frames):
    return set(frames["diagnostics"]["code"])


def test_flattened_messages_are_the_dialogue(tmp_path):
    frames = load(tmp_path, *dialogue())
    assert frames["messages"].select("role", "content").rows() == [
        ("user", "What is in the drawer?"),
        ("assistant", None),
        ("tool", "a pen"),
        ("assistant", "A pen."),
    ]
    step = frames["steps"].to_dicts()[1]
    assert step["tool_calls"][0] == {
        "id": "c1", "name": "open_drawer", "arguments": '{"n": 1}', "arguments_ok": True, "kind": "function",
    }  # fmt: skip
    assert [(o["call_id"], o["content"]) for o in step["observations"]] == [("c1", "a pen")]
    (attempt,) = frames["attempts"].to_dicts()
    assert (attempt["source_format"], attempt["agent"], attempt["model"]) == ("openinference", "helper", "m-1")
    assert (attempt["input_tokens"], attempt["output_tokens"], attempt["cost_usd"]) == (20, 4, 0.5)
    assert json.loads(attempt["tools"]) == [SCHEMA]
    assert json.loads(attempt["params"]) == {"model": "m", "temperature": 0}
    assert codes(frames) == set()


def test_names_are_found_in_the_metadata_of_the_root_and_in_tags(tmp_path):
    root = {"metadata": json.dumps({"task": "t-1", "n": 1}), "tag.tags": ["arm:blue", "shop"], "session.id": "s-1"}
    frames = load(tmp_path, *dialogue(**root), options=ReadOptions(task_id="task", arm="arm", trial="n"))
    assert frames["attempts"].select("task_id", "arm", "trial").row(0) == ("t-1", "blue", 1)
    metadata = json.loads(frames["attempts"]["metadata"][0])
    assert metadata["session"] == "s-1"
    assert metadata["tags"] == ["arm:blue", "shop"]


def test_a_list_of_contents_is_joined_and_images_are_references(tmp_path):
    image = "data:image/png;base64," + "QUJD" * 200
    asked = {
        "message.role": "user",
        "message.contents.0.message_content.type": "text",
        "message.contents.0.message_content.text": "Look",
        "message.contents.1.message_content.type": "image",
        "message.contents.1.message_content.image.image.url": image,
    }
    frames = load(tmp_path, agent(), model(2, [asked], [SAY]))
    assert frames["artifacts"].select("kind", "mime", "bytes").rows() == [("image", "image/png", 600)]
    assert image not in frames["messages"].write_ndjson()


def test_messages_that_the_attribute_limit_dropped_are_taken_from_the_raw_value(tmp_path):
    whole = {"messages": [{"role": "user", "content": "What is in the drawer?"}, {"role": "user", "content": "Well?"}]}
    one = model(2, [ASK, ASK], [SAY], cut=2, **{"input.value": json.dumps(whole)})
    one["attributes"] = [a for a in one["attributes"] if not a["key"].startswith("llm.input_messages.0")]
    frames = load(tmp_path, agent(), one)
    assert frames["messages"]["content"].to_list() == ["What is in the drawer?", "Well?", "A pen."]
    assert frames["attempts"]["is_truncated"].to_list() == [True]
    assert "cut_by_source" in codes(frames)


def test_input_and_output_values_serve_when_there_are_no_flattened_messages(tmp_path):
    given = {"messages": [{"role": "user", "content": "Hi"}], "model": "m"}
    made = {"id": "r-1", "choices": [{"finish_reason": "stop", "message": {"role": "assistant", "content": "Hello"}}]}
    attrs = {"openinference.span.kind": "LLM", "input.value": json.dumps(given), "output.value": json.dumps(made)}
    frames = load(tmp_path, agent(), span(2, 1, 1, attrs))
    assert frames["messages"]["content"].to_list() == ["Hi", "Hello"]
    assert frames["steps"]["stop_reason"].to_list() == [None, "stop"]


def test_a_prompt_of_plain_text_is_a_user_turn(tmp_path):
    attrs = {"openinference.span.kind": "LLM", "input.value": "Say hi", "output.value": '{"greeting": "hi"}'}
    frames = load(tmp_path, agent(), span(2, 1, 1, attrs))
    assert frames["messages"].select("role", "content").rows() == [
        ("user", "Say hi"),
        ("assistant", '{"greeting": "hi"}'),
    ]


def test_model_calls_of_an_evaluator_are_no_steps(tmp_path):
    judge = span(5, 1, 4, {"openinference.span.kind": "EVALUATOR"})
    frames = load(tmp_path, *dialogue(), judge, model(6, [ASK], [SAY], start=4, parent=5))
    assert frames["attempts"].select("n_steps", "input_tokens").row(0) == (2, 20)
    assert "evaluator_calls" in codes(frames)


def test_agents_that_are_nodes_of_one_loop_are_one_attempt(tmp_path):
    first, second = agent(5, 1, **{"agent.name": "node"}), agent(6, 1, **{"agent.name": "node"})
    second["startTimeUnixNano"] = "1800000003000000000"
    root = span(1, None, 0, {"openinference.span.kind": "CHAIN"})
    calls = [model(2, [ASK], [LOOK], parent=5), tool(3), model(4, [ASK, LOOK, FOUND], [SAY], start=3, parent=6)]
    frames = load(tmp_path, root, first, second, *calls)
    assert frames["attempts"].select("relation", "n_steps", "n_tool_calls").rows() == [("root", 2, 1)]


def test_both_dialects_may_share_a_file(tmp_path):
    other = span(
        2, 1, 1, {"gen_ai.operation.name": "chat", "gen_ai.output.messages": '[{"role": "assistant", "content": "Hi"}]'}
    )
    frames = load(tmp_path, agent(), other)
    assert frames["attempts"].select("source_format", "n_steps").row(0) == ("openinference", 1)


def test_what_is_claimed(tmp_path):
    def asks(record):
        return SOURCES["openinference"].claims_file(Look(tmp_path / "x", json.dumps(record).encode()))

    assert asks(export(*dialogue()))
    assert not asks(export(span(1, None, 0, {"gen_ai.operation.name": "chat"})))
    assert not asks({"attributes": {"openinference.span.kind": "LLM"}})


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


def nested(attrs):
    """Attributes as Phoenix keeps them: objects in objects, and lists where keys are numbers."""

    def lists(node):
        if not isinstance(node, dict):
            return node
        if node and all(k.isdigit() for k in node):
            return [lists(node[k]) for k in sorted(node, key=int)]
        return {k: lists(v) for k, v in node.items()}

    tree = {}
    for key, value in attrs.items():
        *path, last = key.split(".")
        node = tree
        for part in path:
            node = node.setdefault(part, {})
        node[last] = json.loads(value) if key == "metadata" else value
    return lists(tree)


def plain(one):
    """Attributes of an OTLP span."""

    def value(raw):
        ((kind, inner),) = raw.items()
        return (
            [value(v) for v in inner["values"]] if kind == "arrayValue" else int(inner) if kind == "intValue" else inner
        )

    return {a["key"]: value(a["value"]) for a in one["attributes"]}


def moment(nano):
    return datetime.fromtimestamp(int(nano) // 10**9, UTC).replace(microsecond=int(nano) % 10**9 // 1000)


def phoenix(one):
    """The span as Phoenix gives it out."""
    attrs = plain(one)
    status = one["status"]
    return {
        "id": "U3Bhbjox",
        "name": one["name"],
        "context": {"trace_id": one["traceId"], "span_id": one["spanId"]},
        "span_kind": attrs.pop("openinference.span.kind"),
        "parent_id": one.get("parentSpanId"),
        "start_time": moment(one["startTimeUnixNano"]).isoformat(),
        "end_time": moment(one["endTimeUnixNano"]).isoformat(),
        "status_code": {2: "ERROR", 1: "OK"}.get(status.get("code"), "UNSET"),
        "status_message": status.get("message", ""),
        "attributes": nested(attrs),
        "events": [
            {
                "name": e["name"],
                "timestamp": moment(one["endTimeUnixNano"]).isoformat(),
                "attributes": {a["key"]: a["value"]["stringValue"] for a in e["attributes"]},
            }
            for e in one.get("events", [])
        ],
    }


def row(one):
    """The span as a row of a frame: one column an attribute of the conventions, the keys of messages flat."""

    def flatten(node, path=""):
        inner = {f"{path}{k}": v for k, v in node.items()}
        out = {}
        for key, value in inner.items():
            if isinstance(value, dict) and not key.endswith("metadata"):
                out |= flatten(value, f"{key}.")
            elif isinstance(value, list) and value and isinstance(value[0], dict):
                out[key] = [flatten(v) for v in value]
            else:
                out[key] = value
        return out

    kept = {k: v for k, v in one.items() if k not in ("id", "context", "attributes")}
    kept |= {"context.span_id": one["context"]["span_id"], "context.trace_id": one["context"]["trace_id"]}
    return kept | {f"attributes.{k}": v for k, v in flatten(one["attributes"]).items()}


def frame(rows):
    columns = list(dict.fromkeys(k for r in rows for k in r))
    out = pl.DataFrame({c: [r.get(c) for r in rows] for c in columns}, strict=False)
    return out.with_columns(pl.col("start_time", "end_time").str.to_datetime(time_zone="UTC"))


def as_cells(rows, write):
    columns = list(dict.fromkeys(k for r in rows for k in r))
    held = {c: [write(v) if isinstance(v := r.get(c), list | dict) else v for r in rows] for c in columns}
    return pl.DataFrame({c: [None if v is None else str(v) for v in values] for c, values in held.items()})


ROOT = {"metadata": json.dumps({"task": "t-1", "n": 1}), "tag.tags": ["arm:blue", "shop"], "session.id": "s-1"}


def failed():
    spans = dialogue(**ROOT)
    attrs = [
        {"key": k, "value": {"stringValue": v}} for k, v in (("exception.type", "KeyError"), ("exception.message", "n"))
    ]
    spans[0] |= {
        "status": {"code": 2, "message": "KeyError: n"},
        "events": [{"name": "exception", "attributes": attrs}],
    }
    return spans


def test_span_json_of_phoenix_says_what_the_otlp_spans_say(tmp_path):
    otlp = load(tmp_path, *failed())
    spans = [phoenix(s) for s in failed()]
    (tmp_path / "spans.jsonl").unlink()
    for name, content in (
        ("list.json", json.dumps(spans)),
        ("lines.jsonl", "\n".join(map(json.dumps, spans))),
        ("answer.json", json.dumps({"data": spans, "next_cursor": None})),
        ("trace.json", json.dumps({"traceId": TRACE, "spans": spans})),
    ):
        path = tmp_path / name
        path.write_text(content)
        frames = read_frames([path], options=ReadOptions(task_id="task", arm="arm", trial="n"))
        same(frames, otlp)
        assert frames["attempts"].select("source_format", "task_id", "arm", "trial", "error_type").row(0) == (
            "openinference", "t-1", "blue", 1, "KeyError",
        )  # fmt: skip
        assert codes(frames) == codes(otlp)


def test_a_frame_of_phoenix_says_what_the_otlp_spans_say(tmp_path):
    otlp = load(tmp_path, *failed())
    rows = [row(phoenix(s)) for s in failed()]
    whole = frame(rows)
    whole.write_parquet(tmp_path / "frame.parquet")
    whole.with_columns(pl.col("start_time", "end_time").dt.epoch("ms")).write_ndjson(tmp_path / "frame.jsonl")
    as_cells(rows, json.dumps).write_csv(tmp_path / "json.csv")
    as_cells(rows, repr).write_csv(tmp_path / "python.csv")
    with zipfile.ZipFile(tmp_path / "frame.zip", "w") as archive:
        archive.write(tmp_path / "frame.parquet", "inner/frame.parquet")
    for name in ("frame.parquet", "frame.jsonl", "json.csv", "python.csv", "frame.zip"):
        frames = read_frames([tmp_path / name], options=ReadOptions(task_id="task", arm="arm", trial="n"))
        same(frames, otlp)
        assert frames["attempts"].select("source_format", "task_id", "arm", "trial").row(0) == (
            "openinference", "t-1", "blue", 1,
        )  # fmt: skip
        assert codes(frames) == codes(otlp), name


def test_a_frame_whose_attributes_were_dropped_has_no_content_and_the_report_says_what_helps(tmp_path):
    dropped = ("attributes.llm.input_messages", "attributes.llm.output_messages", "attributes.input.value")
    rows = [{k: v for k, v in row(phoenix(s)).items() if k not in dropped} for s in dialogue()]
    frame(rows).write_parquet(tmp_path / "frame.parquet")
    frames = read_frames([tmp_path / "frame.parquet"])
    assert frames["attempts"]["n_steps"].to_list() == [2]
    (said,) = frames["diagnostics"].filter(code="no_content")["detail"]
    assert "phoenix#10753" in said


def test_the_span_id_may_be_the_index_of_the_frame(tmp_path):
    rows = [row(phoenix(s)) for s in dialogue()]
    frame(rows).rename({"context.span_id": "__index_level_0__"}).write_parquet(tmp_path / "frame.parquet")
    assert read_frames([tmp_path / "frame.parquet"])["attempts"]["n_steps"].to_list() == [2]


def test_times_of_a_frame_without_a_zone_are_reported_once(tmp_path):
    rows = [row(phoenix(s)) for s in dialogue()]
    bare = frame(rows).with_columns(pl.col("start_time", "end_time").dt.replace_time_zone(None))
    bare.write_parquet(tmp_path / "frame.parquet")
    frames = read_frames([tmp_path / "frame.parquet"])
    assert frames["diagnostics"]["code"].to_list().count("naive_time") == 1


def test_spans_of_a_frame_without_ids_are_reported(tmp_path):
    rows = [row(phoenix(s)) for s in dialogue()]
    rows[2] |= {"context.span_id": None}
    rows[3] |= {"context.trace_id": None}
    frame(rows).write_parquet(tmp_path / "frame.parquet")
    frames = read_frames([tmp_path / "frame.parquet"])
    assert frames["attempts"]["n_steps"].to_list() == [1]
    assert frames["diagnostics"].filter(pl.col("code").is_in(["bad_span", "bad_record"]))["source_pos"].to_list() == [
        2,
        3,
    ]


@pytest.mark.parametrize("keep", [0.2, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("name", ["frame.parquet", "frame.csv"])
def test_a_table_that_is_cut_is_reported(tmp_path, name, keep):
    rows = [row(phoenix(s)) for s in dialogue()]
    path = tmp_path / name
    frame(rows).write_parquet(path) if name.endswith("parquet") else as_cells(rows, json.dumps).write_csv(path)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * keep)])
    frames = read_frames([path], format="openinference")
    assert frames["attempts"].height + frames["diagnostics"].height > 0
    assert name.endswith("csv") or "bad_parquet" in codes(frames)


def test_rows_of_a_broken_csv_that_are_whole_are_read(tmp_path):
    rows = [row(phoenix(s)) for s in dialogue()]
    path = tmp_path / "frame.csv"
    as_cells(rows, json.dumps).write_csv(path)
    path.write_text(path.read_text() + 'one,two\n"thr')
    frames = read_frames([path])
    assert frames["attempts"]["n_steps"].to_list() == [2]
    assert frames["diagnostics"].filter(code="bad_row")["source_pos"].to_list() == [4, 5]


def test_which_tables_are_claimed(tmp_path):
    def asks(table, name="x.parquet"):
        path = tmp_path / name
        table.write_parquet(path) if name.endswith("parquet") else table.write_csv(path)
        return SOURCES["openinference"].claims_file(Look(path, path.read_bytes()))

    rows = [row(phoenix(s)) for s in dialogue()]
    assert asks(frame(rows))
    assert asks(as_cells(rows, json.dumps), "x.csv")
    assert not asks(pl.DataFrame({"trace_id": ["x"], "messages": ["[]"]}))
    assert not asks(pl.DataFrame({"trace_id": ["x"], "span_kind": ["LLM"]}), "x.csv")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and nothing else")
    assert not SOURCES["openinference"].claims_file(Look(tmp_path / "broken.parquet", b"PAR1 and nothing else"))


ATOMS = st.sampled_from([None, 0, -1, 2**70, 1.5, True, "", "x", "[{", "{}", [], {}, [[]], [{}], {"a": []}])


def places(node, path=()):
    yield path
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, child in children:
        yield from places(child, (*path, key))


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_change_of_a_record_gives_no_exception_and_no_silence(tmp_path, data):
    record = copy.deepcopy(export(*dialogue(metadata='{"a": 1}')))
    path = data.draw(st.sampled_from([p for p in places(record) if p]))
    holder = record
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = data.draw(ATOMS)
    file = tmp_path / "spans.jsonl"
    file.write_text(json.dumps(record))
    frames = read_frames([file], format="openinference", options=ReadOptions(task_id="a"))
    assert frames["attempts"].height + frames["diagnostics"].height > 0
    for name, frame in frames.items():
        assert frame.schema == CORE[name].schema


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_change_of_a_span_of_phoenix_gives_no_exception_and_no_silence(tmp_path, data):
    kind = data.draw(st.sampled_from([phoenix, lambda s: row(phoenix(s))]))
    records = copy.deepcopy([kind(s) for s in failed()])
    path = data.draw(st.sampled_from([p for p in places(records) if p]))
    holder = records
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = data.draw(ATOMS)
    file = tmp_path / "spans.jsonl"
    file.write_text("\n".join(map(json.dumps, records)))
    frames = read_frames([file], format="openinference", options=ReadOptions(task_id="task"))
    assert frames["attempts"].height + frames["diagnostics"].height > 0
    for name, table in frames.items():
        assert table.schema == CORE[name].schema
