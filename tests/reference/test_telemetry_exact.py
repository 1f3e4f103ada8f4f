"""Every dialogue in the telemetry samples, read a second time with nothing but the json module, equals what was loaded."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from pathlib import Path

import pytest

from expcomp.sources.load import read_frames

REFERENCE = os.environ.get("EXPCOMP_REFERENCE")
if REFERENCE is None:
    if os.environ.get("CI") == "true":
        pytest.fail("EXPCOMP_REFERENCE is not set; CI has to run the reference traces", pytrace=False)
    pytest.skip("EXPCOMP_REFERENCE is not set; it names the folder with the reference traces", allow_module_level=True)

pytestmark = pytest.mark.reference
ROOT = Path(REFERENCE) / "traces"


def plain(raw):
    """Arguments as a value: text that is JSON and the value itself are the same."""
    if not isinstance(raw, str):
        return raw
    try:
        return json.loads(raw)
    except ValueError:
        return raw


def lines(path):
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line.strip()]


def decoded(value):
    """An OTLP value."""
    ((kind, inner),) = value.items()
    if kind == "kvlistValue":
        return {p["key"]: decoded(p["value"]) for p in inner.get("values", [])}
    if kind == "arrayValue":
        return [decoded(v) for v in inner.get("values", [])]
    return int(inner) if kind == "intValue" else inner


def otlp(path, holder, scopes, records):
    for request in lines(path):
        for group in request.get(holder, []):
            for scope in group[scopes]:
                for record in scope[records]:
                    yield record | {"attrs": {a["key"]: decoded(a["value"]) for a in record.get("attributes", [])}}


def turn(role, content=None, calls=(), call_id=None):
    return role, content or None, [(i, n, plain(a)) for i, n, a in calls], call_id


def chat_turn(message):
    """A message of OpenAI chat."""
    calls = [(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in message.get("tool_calls") or ()]
    return turn(message["role"], message.get("content"), calls, message.get("tool_call_id"))


def part_turns(message):
    """A message made of parts."""
    parts = message["parts"]
    texts = [p["content"] for p in parts if p["type"] == "text"]
    calls = [(p["id"], p["name"], p["arguments"]) for p in parts if p["type"] == "tool_call"]
    out = []
    for part in parts:
        if part["type"] == "tool_call_response":
            result = part["response"] if "response" in part else part["result"]
            out.append(turn("tool", result, (), part["id"]))
    return out or [turn(message["role"], "".join(texts), calls)]


def last_model_spans(spans):
    """The model span of each trace that began last."""
    out = {}
    for span in sorted(spans, key=lambda s: int(s["startTimeUnixNano"])):
        out[span["traceId"]] = span
    return out


def genai(path):
    spans = [s for s in otlp(path, "resourceSpans", "scopeSpans", "spans") if "gen_ai.output.messages" in s["attrs"]]
    for trace, span in last_model_spans(spans).items():
        told = json.loads(span["attrs"]["gen_ai.input.messages"]) + json.loads(span["attrs"]["gen_ai.output.messages"])
        yield trace, [t for m in told for t in part_turns(m)]


def genai_logs(folder):
    spans, records = [], defaultdict(list)
    for path in sorted(folder.glob("*.jsonl")):
        spans += [
            s
            for s in otlp(path, "resourceSpans", "scopeSpans", "spans")
            if s["attrs"].get("gen_ai.operation.name") == "chat" and "gen_ai.output.messages" not in s["attrs"]
        ]
        for record in otlp(path, "resourceLogs", "scopeLogs", "logRecords"):
            records[record["traceId"], record["spanId"]].append((record["eventName"], decoded(record["body"])))
    for trace, span in last_model_spans(spans).items():
        turns = []
        for name, body in records[trace, span["spanId"]]:
            if name == "gen_ai.choice":
                turns.append(chat_turn(body["message"]))
            else:
                role = name.split(".")[1]
                turns.append(
                    chat_turn({"role": role} | body | ({"tool_call_id": body["id"]} if role == "tool" else {}))
                )
        yield trace, turns


def openinference(path):
    spans = [
        s for s in otlp(path, "resourceSpans", "scopeSpans", "spans") if s["attrs"]["openinference.span.kind"] == "LLM"
    ]
    for trace, span in last_model_spans(spans).items():
        attrs = span["attrs"]
        turns = []
        for side in ("llm.input_messages", "llm.output_messages"):
            number = 0
            while f"{side}.{number}.message.role" in attrs:
                base = f"{side}.{number}.message."
                calls, c = [], 0
                while f"{base}tool_calls.{c}.tool_call.id" in attrs:
                    one = f"{base}tool_calls.{c}.tool_call."
                    calls.append((attrs[one + "id"], attrs[one + "function.name"], attrs[one + "function.arguments"]))
                    c += 1
                turns.append(
                    turn(attrs[base + "role"], attrs.get(base + "content"), calls, attrs.get(base + "tool_call_id"))
                )
                number += 1
        yield trace, turns


def langsmith(path):
    last = {}
    for run in sorted((r for r in lines(path) if r.get("run_type") == "llm"), key=lambda r: r["start_time"]):
        last[run["trace_id"]] = run
    for trace, run in last.items():
        yield trace, [chat_turn(m) for m in (*run["inputs"]["messages"], run["outputs"]["choices"][0]["message"])]


def mlflow(path):
    for record in lines(path):
        models = [s for s in record["data"]["spans"] if json.loads(s["attributes"]["mlflow.spanType"]) == "CHAT_MODEL"]
        span = max(models, key=lambda s: s["start_time_unix_nano"])["attributes"]
        given, made = json.loads(span["mlflow.spanInputs"]), json.loads(span["mlflow.spanOutputs"])
        yield record["info"]["trace_id"], [chat_turn(m) for m in (*given["messages"], made["choices"][0]["message"])]


def loaded(frames, ident):
    rows = frames["messages"].filter(attempt_id=ident).sort("message_index").to_dicts()
    return [
        turn(
            m["role"],
            m["content"],
            [(c["id"], c["name"], c["arguments"]) for c in m["tool_calls"] or ()],
            m["tool_call_id"],
        )
        for m in rows
    ]


def find(folder, mark):
    return [p for p in sorted((ROOT / folder).glob("*.jsonl")) if mark in p.read_bytes()]


SAMPLES = (
    [(p, genai) for p in find("otel", b"gen_ai.output.messages")]
    + [(p.parent, genai_logs) for p in find("otel", b"resourceLogs")]
    + [(p, openinference) for p in find("openinference", b"resourceSpans")]
    + [(p, langsmith) for p in find("langsmith", b'"run_type"')]
    + [(p, mlflow) for p in find("mlflow", b"mlflow.spanType")]
)


@pytest.mark.parametrize(("path", "reader"), SAMPLES, ids=[f"{p.stem}-{r.__name__}" for p, r in SAMPLES])
def test_dialogues_equal_the_file(path, reader):
    frames = read_frames([path])
    attempts = dict(frames["attempts"].filter(relation="root").select("trace_id", "attempt_id").rows())
    found = dict(reader(path))
    assert found
    for trace, turns in found.items():
        assert loaded(frames, attempts[trace]) == turns, trace


def unfold(value):
    while isinstance(value, str) and value[:1] in ("{", "[", '"'):
        value = json.loads(value)
    return value


def langfuse_turns(value):
    """Turns of an input or output in one of the shapes that frameworks write."""
    value = unfold(value)
    if isinstance(value, dict) and value.get("object") == "response":
        value = value["output"]
    out = []
    for message in value if isinstance(value, list) else [value]:
        kind, content = message.get("type"), message.get("content")
        if "parts" in message:
            out += part_turns(message)
        elif kind == "function_call":
            out.append(turn("assistant", None, [(message["call_id"], message["name"], message["arguments"])]))
        elif kind == "function_call_output":
            out.append(turn("tool", message["output"], (), message["call_id"]))
        elif message.get("role") == "tool" and isinstance(content, dict):
            assert content["type"] == "function"
        elif message.get("role") == "tool":
            out.append(
                turn(
                    "tool",
                    content if isinstance(content, str) else json.dumps(content, separators=(",", ":")),
                    (),
                    message["tool_call_id"],
                )
            )
        elif isinstance(content, list):
            texts = [b["text"] for b in content if b["type"] in ("text", "output_text")]
            calls = [(b["id"], b["name"], b["input"]) for b in content if b["type"] == "tool_use"]
            out.append(turn(message["role"], "".join(texts), calls))
        elif "role" in message:
            made = message.get("tool_calls") or message.get("additional_kwargs", {}).get("tool_calls")
            out.append(chat_turn(message | {"tool_calls": made}))
    return out


def holds(whole, part):
    return any(whole[i : i + len(part)] == part for i in range(len(whole) - len(part) + 1))


LANGFUSE = sorted((ROOT / "langfuse").glob("*.json"))


@pytest.mark.parametrize("path", LANGFUSE, ids=[p.stem for p in LANGFUSE])
def test_generations_of_langfuse_equal_the_file(path):
    frames = read_frames([path])
    raw = json.loads(path.read_text("utf-8"))
    dialogues = [loaded(frames, a) for a in frames["attempts"]["attempt_id"]]
    generations = sorted((o for o in raw["observations"] if o["type"] == "GENERATION"), key=lambda o: o["startTime"])
    assert generations
    for one in generations:
        given = langfuse_turns(one["input"])
        assert any(holds(d, given + langfuse_turns(one["output"])) for d in dialogues), one["id"]
    steps = (
        frames["steps"]
        .filter(source="agent", is_copied_context=False)
        .sort("started_at", maintain_order=True)
        .to_dicts()
    )
    made = [langfuse_turns(o["output"])[0] for o in generations]
    assert [
        turn("assistant", s["content"], [(c["id"], c["name"], c["arguments"]) for c in s["tool_calls"]]) for s in steps
    ] == made
    seen = sorted(str(o["content"]) for s in steps for o in s["observations"])
    tools = [unfold(o["output"]) for o in raw["observations"] if o["type"] == "TOOL"]
    texts = sorted(t if isinstance(t, str) else "".join(b["text"] for b in t["content"]) for t in tools)
    assert not tools or seen == texts
