from __future__ import annotations

import base64
import copy
import gzip
import json

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expcomp.sources._look import Look
from expcomp.sources.load import read_frames
from expcomp.sources.registry import SOURCES

ROOT_ID = "01a22730-a805-7942-a9dc-9392b8d86774"
ROOT_TURN = "01a22730-a80c-7623-9ff0-43a3198a70bc"
CHILD_ID = "01a22740-0000-7b91-9cdf-9f0aef977006"
CHILD_TURN = "01a22740-0010-7a41-bba2-22b269965cbb"


class Clock:
    """Gives each line of a rollout a time one second later."""

    def __init__(self, start=0, step_ms=1000):
        self.now = start
        self.step = step_ms

    def __call__(self):
        self.now += self.step
        return f"2026-11-29T{12 + self.now // 3_600_000:02}:{self.now // 60_000 % 60:02}:{self.now // 1000 % 60:02}.{self.now % 1000:03}Z"


class Rollout:
    """Lines of a rollout in the making."""

    def __init__(self, clock=None, **meta):
        self.clock = clock or Clock()
        self.lines = []
        self.total = [0, 0, 0]
        self.add(
            "session_meta", {"id": ROOT_ID, "timestamp": self.clock(), "cli_version": "0.104.0", "cwd": "/w"} | meta
        )

    def add(self, kind, payload, **more):
        self.lines.append({"timestamp": self.clock(), "type": kind, "payload": payload, **more})
        return self

    def item(self, **item):
        return self.add("response_item", item)

    def event(self, kind, **event):
        return self.add("event_msg", {"type": kind, **event})

    def turn(self, model="gpt-5-codex", **more):
        return self.add("turn_context", {"model": model, "approval_policy": "never", "cwd": "/w", **more})

    def user(self, text, role="user"):
        return self.item(type="message", role=role, content=[{"type": "input_text", "text": text}])

    def say(self, text):
        return self.item(type="message", role="assistant", content=[{"type": "output_text", "text": text}])

    def think(self, text="thinking", sealed="gAAA"):
        summary = [{"type": "summary_text", "text": text}] if text else []
        return self.item(type="reasoning", summary=summary, content=None, encrypted_content=sealed)

    def call(self, call_id, name="exec_command", arguments='{"cmd": "ls"}'):
        return self.item(type="function_call", name=name, arguments=arguments, call_id=call_id)

    def out(self, call_id, output="ok"):
        return self.item(type="function_call_output", call_id=call_id, output=output)

    def tokens(self, put, cached, got, *, moves=True):
        last = [put, cached, got]
        if moves:
            self.total = [a + b for a, b in zip(self.total, last, strict=True)]
        names = ("input_tokens", "cached_input_tokens", "output_tokens")
        return self.event(
            "token_count",
            info={
                "total_token_usage": dict(zip(names, self.total, strict=True)),
                "last_token_usage": dict(zip(names, last, strict=True)),
            },
        )

    def text(self):
        return "".join(json.dumps(line) + "\n" for line in self.lines)

    def write(self, folder, name=None):
        ident = self.lines[0]["payload"].get("id")
        path = folder / (name or f"rollout-2026-11-29T12-00-00-{ident}.jsonl")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.text(), "utf-8")
        return path


def session():
    """A whole short session of the kind that counts after the items."""
    r = Rollout(base_instructions={"text": "You are Codex."}, model_provider="openai", git={"branch": "main"})
    r.user("<permissions instructions>\nall", role="developer")
    r.user("# AGENTS.md instructions for /w\n\n<INSTRUCTIONS>x</INSTRUCTIONS>").user(
        "<environment_context>/w</environment_context>"
    )
    r.event("task_started", turn_id=ROOT_TURN).user("Fix it.").event("user_message", message="Fix it.")
    r.turn(effort="high", turn_id=ROOT_TURN)
    r.event("agent_reasoning", text="thinking").think().call("c1").tokens(100, 0, 10)
    r.out("c1", "Chunk ID: 1\nProcess exited with code 2\nOutput:\nProcess exited with code 9")
    r.tokens(100, 0, 10, moves=False)
    r.call("c2").call("c3").tokens(200, 90, 20).out("c3", "b").out("c2", "a")
    r.event("agent_message", message="Done.").say("Done.").tokens(300, 190, 30)
    return r.event("task_complete", last_agent_message="Done.")


def read(path, **more):
    return read_frames([path], **more)


def one(frames, table="attempts"):
    (row,) = frames[table].to_dicts()
    return row


def agent(frames):
    return frames["steps"].filter(pl.col("source") == "agent").sort("step_index").to_dicts()


def roles(frames):
    return frames["messages"].sort("message_index").select("role", "origin").rows()


def codes(frames):
    return frames["diagnostics"]["code"].to_list()


def test_a_session(tmp_path):
    frames = read(session().write(tmp_path))
    attempt = one(frames)
    assert (attempt["agent"], attempt["agent_version"], attempt["model"]) == ("codex", "0.104.0", "gpt-5-codex")
    assert attempt["arm"] == "codex@0.104.0/gpt-5-codex"
    assert (attempt["status"], attempt["stop_reason"]) == ("completed", "task_complete")
    assert attempt["system_prompt"] == "You are Codex."
    assert attempt["tools"] is None
    assert attempt["task_id"] is None
    assert attempt["passed"] is None
    assert attempt["score_valid"] is None
    assert attempt["cost_usd"] is None
    assert (attempt["input_tokens"], attempt["cached_input_tokens"], attempt["output_tokens"]) == (600, 280, 60)
    assert attempt["usage_basis"] == "cumulative"
    assert json.loads(attempt["params"]) == {"effort": "high", "approval_policy": "never"}
    assert json.loads(attempt["metadata"])["git"] == {"branch": "main"}
    assert roles(frames) == [
        ("developer", "harness"),
        ("user", "harness"),
        ("user", "harness"),
        ("user", "human"),
        ("assistant", "model"),
        ("tool", "tool"),
        ("assistant", "model"),
        ("tool", "tool"),
        ("tool", "tool"),
        ("assistant", "model"),
    ]
    steps = agent(frames)
    assert [(s["input_tokens"], len(s["tool_calls"])) for s in steps] == [(100, 1), (200, 2), (300, 0)]
    assert (steps[0]["reasoning"], steps[0]["reasoning_opaque"]) == ("thinking", True)
    assert steps[0]["observations"][0]["exit_code"] == 2
    assert steps[1]["observations"][0]["call_id"] == "c3"
    assert codes(frames) == []


def test_versions_that_count_before_the_items(tmp_path):
    r = Rollout(cli_version="0.44.0")
    r.user("go").turn().event("token_count", info=None).event("agent_reasoning", text="t")
    r.tokens(100, 0, 10).think("t").call("a").out("a").turn().tokens(100, 0, 10, moves=False)
    # Parallel calls, each written with its output.
    r.tokens(200, 0, 20).call("b").out("b").call("c").out("c").turn().tokens(200, 0, 20, moves=False)
    r.event("agent_message", message="end").tokens(300, 0, 30).say("end")
    frames = read(r.write(tmp_path))
    steps = agent(frames)
    assert [(s["input_tokens"], [c["id"] for c in s["tool_calls"]]) for s in steps] == [
        (100, ["a"]),
        (200, ["b", "c"]),
        (300, []),
    ]
    assert [len(s["observations"]) for s in steps] == [1, 2, 0]
    assert one(frames)["status"] == "unknown"


def test_a_count_that_comes_after_the_outputs(tmp_path):
    r = Rollout(cli_version="0.150.0")
    r.user("go").turn().call("a").out("a").tokens(100, 0, 10).call("b").call("c").out("b").out("c").tokens(200, 0, 20)
    r.say("end").tokens(300, 0, 30)
    steps = agent(read(r.write(tmp_path)))
    assert [(s["input_tokens"], len(s["tool_calls"])) for s in steps] == [(100, 1), (200, 2), (300, 0)]


def test_a_record_for_each_response(tmp_path):
    r = Rollout(cli_version="0.171.0")
    r.user("go").turn()
    for number, call_id in enumerate(("a", "b"), 1):
        r.add("response_item", {"type": "function_call", "name": "x", "arguments": "{}", "call_id": call_id})
        used = {"input_tokens": 100 * number, "cached_input_tokens": 0, "output_tokens": 5}
        r.total = [r.total[0] + 100 * number, 0, r.total[2] + 5]
        total = {"input_tokens": r.total[0], "cached_input_tokens": 0, "output_tokens": r.total[2]}
        r.add(
            "token_usage_record",
            {"thread_id": ROOT_ID, "response_id": f"resp_{call_id}", "usage": used, "thread_token_usage": total},
        )
        r.out(call_id)
        r.event("token_count", info={"total_token_usage": total, "last_token_usage": used})
    frames = read(r.write(tmp_path))
    steps = agent(frames)
    assert one(frames)["usage_basis"] == "summed"
    assert [(s["llm_call_id"], s["input_tokens"]) for s in steps] == [("resp_a", 100), ("resp_b", 200)]


def test_without_counters_a_run_between_outputs_is_a_response(tmp_path):
    r = Rollout().user("go").turn().think().call("a").out("a").say("x").call("b").out("b").say("y")
    frames = read(r.write(tmp_path))
    assert [(s["content"], len(s["tool_calls"])) for s in agent(frames)] == [(None, 1), ("x", 1), ("y", 0)]
    attempt = one(frames)
    assert (attempt["input_tokens"], attempt["usage_basis"]) == (None, "missing")


def test_the_oldest_layout(tmp_path):
    lines = [
        {
            "id": "6477c632-2b30-42e8-bc17-82679bd516aa",
            "timestamp": "2025-08-01T10:00:00Z",
            "instructions": "Be kind.",
            "git": {},
        },
        {"record_type": "state"},
        {"type": "message", "id": None, "role": "user", "content": [{"type": "input_text", "text": "go"}]},
        {"record_type": "state"},
        {"type": "function_call", "name": "shell", "arguments": '{"command": ["ls"]}', "call_id": "a"},
        {
            "type": "function_call_output",
            "call_id": "a",
            "output": '{"output":"x","metadata":{"exit_code":1,"duration_seconds":0.1}}',
        },
        {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": "b"},
        {"type": "function_call_output", "call_id": "b", "output": "x"},
        {"record_type": "state"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "end"}]},
    ]
    path = tmp_path / "r.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    frames = read(path)
    assert [len(s["tool_calls"]) for s in agent(frames)] == [2, 0]
    attempt = one(frames)
    assert attempt["system_prompt"] == "Be kind."
    assert (attempt["agent_version"], attempt["model"], attempt["input_tokens"]) == (None, None, None)
    assert attempt["started_at"] is not None
    assert attempt["ended_at"] is None
    assert agent(frames)[0]["observations"][0]["exit_code"] == 1


@pytest.mark.parametrize("squeeze", [gzip.compress, lambda raw: pa.compress(raw, codec="zstd", asbytes=True)])
def test_compressed_files(tmp_path, squeeze):
    (tmp_path / "rollout.jsonl.zst").write_bytes(squeeze(session().text().encode()))
    assert one(read(tmp_path))["input_tokens"] == 600


def test_kinds_of_calls(tmp_path):
    r = Rollout().user("go").turn()
    r.item(type="custom_tool_call", call_id="p", name="apply_patch", input="*** Begin Patch", status="completed")
    r.item(type="custom_tool_call_output", call_id="p", output='{"output":"ok","metadata":{"exit_code":0}}')
    r.item(type="local_shell_call", call_id="l", status="completed", action={"type": "exec", "command": ["ls"]}).out(
        "l"
    )
    r.item(type="web_search_call", status="completed", action={"type": "search", "query": "q"})
    r.item(type="ghost_snapshot", ghost_commit={"id": "x"}).say("end")
    frames = read(r.write(tmp_path))
    calls = [c for s in agent(frames) for c in s["tool_calls"]]
    assert [(c["name"], c["kind"]) for c in calls] == [
        ("apply_patch", "custom"),
        ("local_shell", "function"),
        ("web_search", "server"),
    ]
    assert calls[0]["arguments"] == "*** Begin Patch"
    assert json.loads(calls[2]["arguments"]) == {"type": "search", "query": "q"}
    assert codes(frames) == []


@pytest.mark.parametrize(
    ("output", "code"),
    [
        ("Exit code: 3\nWall time: 0.1 seconds\nOutput:\nExit code: 5", 3),
        ("Wall time: 1 s\nProcess exited with code -1\nOutput:\n", -1),
        ('{"output": "x", "metadata": {"exit_code": 7}}', 7),
        ("the text says Exit code: 4 somewhere", None),
        ('{"metadata": broken', None),
        ("Exit code: 99999999999\nOutput:\n", None),
    ],
)
def test_exit_codes(tmp_path, output, code):
    frames = read(Rollout().user("go").turn().call("a").out("a", output).write(tmp_path))
    assert agent(frames)[0]["observations"][0]["exit_code"] == code


def test_results_that_are_no_plain_text(tmp_path):
    picture = base64.b64encode(b"\x89PNG....").decode()
    r = Rollout().user("go").turn().call("a").call("b").call("c", "spawn")
    r.out(
        "a",
        [
            {"type": "input_text", "text": "see"},
            {"type": "input_image", "image_url": f"data:image/png;base64,{picture}"},
        ],
    )
    r.out("b", {"content": "no", "success": False}).out("c", "head …5 tokens truncated… tail")
    frames = read(r.write(tmp_path))
    (step,) = agent(frames)
    assert [(o["content"], o["is_error"], o["truncated"]) for o in step["observations"]] == [
        ("see", None, None),
        ("no", True, None),
        ("head …5 tokens truncated… tail", None, True),
    ]
    artifact = one(frames, "artifacts")
    assert (artifact["kind"], artifact["mime"], artifact["bytes"]) == ("image", "image/png", 8)
    assert picture not in frames["messages"].write_ndjson()
    assert artifact["digest"] in frames["messages"].write_ndjson()


def test_a_resumed_session_is_one_attempt(tmp_path):
    r = session()
    meta = r.lines[0]["payload"]
    r.add("session_meta", meta).event("task_started").user("More.").turn("gpt-6").say("Yes.").tokens(400, 0, 40)
    r.event("task_complete", last_agent_message="Yes.")
    frames = read(r.write(tmp_path))
    attempt = one(frames)
    assert attempt["input_tokens"] == 1000
    assert json.loads(attempt["metadata"])["sessions"] == 2
    assert [s["turn"] for s in agent(frames)] == [0, 0, 0, 1]
    assert [s["model"] for s in agent(frames)][-1] == "gpt-6"
    assert not any(s["is_copied_context"] for s in agent(frames))


def forked(parent, ids, pause=2000):
    """A fork that replays the parent's lines with new times, and goes on."""
    clock = Clock(3_600_000, 1)
    r = Rollout(clock, id=CHILD_ID, forked_from_id=ROOT_ID, cli_version="0.104.0" if ids else "0.74.0")
    for line in parent.lines[: -1 if ids else None]:
        payload = {k: v for k, v in line["payload"].items() if ids or k != "turn_id"}
        r.add(line["type"], payload)
    r.total = list(parent.total)
    r.user("<environment_context>/w</environment_context>")
    clock.now += pause
    if ids:
        r.event("task_started", turn_id=CHILD_TURN)
    clock.step = 1000
    r.user("Other way.").turn(**({"turn_id": CHILD_TURN} if ids else {}))
    r.call("c9").tokens(500, 300, 50).out("c9").say("Done again.").tokens(600, 500, 60)
    return r


@pytest.mark.parametrize("ids", [True, False])
def test_a_fork_replays_and_does_not_count(tmp_path, ids):
    parent = session()
    parent.write(tmp_path)
    child = forked(parent, ids).write(tmp_path)
    frames = read(tmp_path)
    attempts = frames["attempts"].sort("started_at").to_dicts()
    assert [a["relation"] for a in attempts] == ["root", "fork"]
    assert attempts[1]["parent_attempt_id"] == attempts[0]["attempt_id"]
    assert [a["input_tokens"] for a in attempts] == [600, 1100]
    own = frames["steps"].filter((pl.col("attempt_id") == attempts[1]["attempt_id"]) & ~pl.col("is_copied_context"))
    assert own.filter(pl.col("source") == "agent").height == 2
    assert own.filter(pl.col("source") == "user")["content"].to_list() == ["Other way."]
    copied = frames["steps"].filter("is_copied_context")
    assert copied.filter(pl.col("source") == "agent").height == 3
    assert not copied["trainable"].any()
    assert copied["input_tokens"].null_count() == copied.height
    alone = read(child)
    assert one(alone)["input_tokens"] == 1100
    assert "parent_not_loaded" in codes(alone)


def test_a_counter_that_starts_anew_after_a_replay(tmp_path):
    parent = session()
    r = forked(parent, ids=True)
    cut = next(i for i, line in enumerate(r.lines) if line["payload"].get("turn_id") == CHILD_TURN)
    del r.lines[cut:]
    r.total = [0, 0, 0]
    r.event("task_started", turn_id=CHILD_TURN).user("x").say("a").tokens(700, 0, 70).user("y").say("b").tokens(
        800, 0, 80
    )
    assert one(read(r.write(tmp_path)))["input_tokens"] == 1500


def test_a_sub_agent_knows_its_parent_and_the_call(tmp_path):
    parent = Rollout().user("delegate").turn().call("s1", "spawn_agent", '{"message": "review"}')
    parent.tokens(100, 0, 10).out("s1", json.dumps({"agent_id": CHILD_ID})).say("ok").tokens(50, 0, 5)
    parent.user('<subagent_notification>{"x": 1}</subagent_notification>')
    parent.write(tmp_path)
    spawn = {"subagent": {"thread_spawn": {"parent_thread_id": ROOT_ID, "depth": 1}}}
    child = Rollout(id=CHILD_ID, parent_thread_id=ROOT_ID, source=spawn)
    child.user("review").turn().say("fine").tokens(70, 0, 7).write(tmp_path)
    frames = read(tmp_path)
    attempts = {a["relation"]: a for a in frames["attempts"].to_dicts()}
    assert attempts["subagent"]["parent_attempt_id"] == attempts["root"]["attempt_id"]
    assert attempts["subagent"]["parent_call_id"] == "s1"
    assert attempts["subagent"]["input_tokens"] == 70
    assert attempts["root"]["input_tokens"] == 150
    notices = frames["messages"].filter(pl.col("content").str.contains("subagent_notification"))
    assert notices["origin"].to_list() == ["harness"]


def paged(with_parent, tmp_path):
    parent = session()
    for number, line in enumerate(parent.lines):
        line["ordinal"] = number
    limit = len(parent.lines) - 1
    base = {"thread_id": ROOT_ID, "ordinal_exclusive": limit}
    child = Rollout(Clock(3_600_000), id=CHILD_ID, forked_from_id=ROOT_ID, history_base=base)
    child.total = list(parent.total)
    child.user("Go on.").turn().say("Well.").tokens(500, 0, 50)
    if with_parent:
        parent.write(tmp_path)
    return child.write(tmp_path)


def test_a_fork_whose_history_is_in_the_parents_file(tmp_path):
    paged(True, tmp_path)
    frames = read(tmp_path)
    (fork,) = frames["attempts"].filter(pl.col("relation") == "fork").to_dicts()
    assert fork["input_tokens"] == 500
    assert fork["is_truncated"] is False
    own = frames["messages"].filter(pl.col("attempt_id") == fork["attempt_id"])
    assert own.filter(pl.col("role") == "assistant")["content"].to_list() == [None, None, "Done.", "Well."]
    steps = frames["steps"].filter(pl.col("attempt_id") == fork["attempt_id"])
    assert steps.filter(pl.col("source") == "agent")["is_copied_context"].to_list() == [True, True, True, False]


def test_a_fork_without_the_parents_file_is_incomplete(tmp_path):
    frames = read(paged(False, tmp_path))
    assert one(frames)["is_truncated"] is True
    assert one(frames)["input_tokens"] == 500
    assert {"history_elsewhere", "counter_starts_late"} <= set(codes(frames))


def test_compaction_with_the_history_that_replaced_the_old_one(tmp_path):
    r = Rollout().user("<environment_context>a</environment_context>").user("Fix it.").turn()
    r.call("a").tokens(100, 0, 10).out("a").tokens(900, 0, 90)
    history = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Fix it."}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "SUMMARY so far"}]},
        {"type": "compaction", "encrypted_content": "gAAA"},
    ]
    r.add("compacted", {"message": "SUMMARY so far", "replacement_history": history})
    r.turn().say("end").tokens(200, 0, 20)
    frames = read(r.write(tmp_path))
    attempt = one(frames)
    assert attempt["has_compaction"] is True
    # The call that wrote the summary is paid for, and is no turn.
    assert (attempt["input_tokens"], attempt["n_steps"]) == (1200, 3)
    later = frames["messages"].filter(pl.col("context_id") == 1)
    assert later.select("role", "origin", "content").rows() == [
        ("user", "human", "Fix it."),
        ("user", "summary", "SUMMARY so far"),
        ("user", "summary", None),
        ("assistant", "model", "end"),
    ]
    assert "gAAA" not in frames["messages"].write_ndjson()
    assert frames["steps"].filter(pl.col("source") == "user").height == 1
    assert [s["trainable"] for s in agent(frames)] == [True, False, True]


def test_compaction_with_a_summary_only(tmp_path):
    r = (
        Rollout()
        .user("go")
        .turn()
        .say("a")
        .tokens(10, 0, 1)
        .add("compacted", {"message": "sum"})
        .say("b")
        .tokens(10, 0, 1)
    )
    frames = read(r.write(tmp_path))
    assert frames["messages"].select("origin", "context_id").rows() == [
        ("human", 0),
        ("model", 0),
        ("summary", 1),
        ("model", 1),
    ]


def test_turns_that_were_taken_back_leave_the_main_path(tmp_path):
    r = (
        Rollout()
        .user("one")
        .say("a")
        .user("two")
        .say("b")
        .event("thread_rolled_back", num_turns=1)
        .user("three")
        .say("c")
    )
    frames = read(r.write(tmp_path))
    assert frames["messages"].sort("message_index")["branch"].to_list() == [0, 0, 1, 1, 0, 0]


@pytest.mark.parametrize(
    ("events", "status", "error"),
    [
        ([("task_started", {}), ("turn_aborted", {"reason": "interrupted"})], "cancelled", None),
        ([("task_started", {})], "unknown", None),
        (
            [("task_started", {}), ("error", {"message": "no", "codex_error_info": "unauthorized"})],
            "infra_error",
            "unauthorized",
        ),
        (
            [
                ("task_started", {}),
                ("error", {"message": "full", "codex_error_info": "context_window_exceeded"}),
                ("task_complete", {"last_agent_message": None}),
            ],
            "limit",
            "context_window_exceeded",
        ),
        (
            [("error", {"message": "x", "codex_error_info": {"http_connection_failed": {"http_status_code": 502}}})],
            "infra_error",
            "http_connection_failed",
        ),
        ([("stream_error", {"message": "again"}), ("task_complete", {"last_agent_message": "ok"})], "completed", None),
    ],
)
def test_how_a_session_ends(tmp_path, events, status, error):
    r = Rollout().user("go").turn().say("a")
    for kind, payload in events:
        r.event(kind, **payload)
    attempt = one(read(r.write(tmp_path)))
    assert (attempt["status"], attempt["error_type"]) == (status, error)
    assert attempt["is_truncated"] is (events[-1][0] == "task_started")


def test_a_stream_that_came_back_is_no_error(tmp_path):
    r = Rollout().user("go").turn().event("stream_error", message="reconnecting").say("a")
    assert one(read(r.write(tmp_path)))["status"] == "unknown"


def test_secrets_stay_out(tmp_path):
    r = Rollout(env={"OPENAI_API_KEY": "sk-secret"}).user("go").turn(sandbox_policy={"token": "sk-secret"})
    r.add("world_state", {"state": {"environment": "sk-secret"}})
    assert "sk-secret" not in read(r.write(tmp_path))["attempts"].write_ndjson()


def test_glued_and_broken_lines(tmp_path):
    r = session()
    lines = r.text().splitlines()
    path = tmp_path / "r.jsonl"
    # Two records on one line; half a record before a whole one; the last line cut.
    path.write_text(
        "\n".join([*lines[:5], lines[5] + lines[6], lines[7][:30] + lines[8], *lines[9:-1], lines[-1][:40]])
    )
    frames = read(path)
    assert codes(frames).count("glued_line") == 2
    assert codes(frames).count("bad_json") == 1
    assert one(frames)["input_tokens"] == 600
    assert one(frames)["is_truncated"] is True


def test_a_file_without_its_first_line(tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_text("".join(session().text().splitlines(keepends=True)[1:]))
    frames = read(path)
    assert one(frames)["native_attempt_id"] is None
    assert "no_session_meta" in codes(frames)


def test_what_is_not_known_is_told(tmp_path):
    r = Rollout().user("go").add("new_thing", {"a": 1}).item(type="new_item", a=1).say("x")
    r.lines += [{"foreign": 1}, [1], {"type": "response_item", "payload": 3}]
    frames = read(r.write(tmp_path))
    told = frames["diagnostics"].filter(pl.col("code") == "unknown_record")["detail"].str.join(" ").item()
    assert all(word in told for word in ("new_thing", "response_item/new_item", "foreign", "list", "type, payload"))


def test_bare_items_are_another_format(tmp_path):
    items = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]},
        {"type": "function_call", "name": "x", "arguments": "{}", "call_id": "a"},
    ]
    look = Look(tmp_path / "x.jsonl", "\n".join(map(json.dumps, items)).encode())
    assert not SOURCES["codex"].claims_file(look)


@pytest.mark.parametrize(
    "row",
    [
        {"id": "1", "timestamp": "t", "messages": []},
        {"type": "session_meta"},
        {"type": "x", "payload": {}},
        {"id": "1", "timestamp": "t", "question": "q"},
    ],
)
def test_what_is_not_claimed(tmp_path, row):
    assert not SOURCES["codex"].claims_file(Look(tmp_path / "rollout-x.jsonl", json.dumps(row).encode()))


@pytest.mark.parametrize("kind", [{}, ["session_meta"]])
def test_a_type_of_another_type_is_not_claimed(tmp_path, kind):
    row = {"timestamp": "2026-01-01T00:00:00Z", "type": kind, "payload": {}}
    assert not SOURCES["codex"].claims_file(Look(tmp_path / "x.jsonl", json.dumps(row).encode()))


def test_a_header_that_is_longer_than_the_look(tmp_path):
    r = Rollout(base_instructions={"text": "x" * 100_000}).user("go").say("a")
    assert one(read(r.write(tmp_path)))["has_system_prompt"] is True


def test_forced_on_another_file(tmp_path):
    path = tmp_path / "x.txt"
    path.write_text("words\n")
    frames = read(path, format="codex")
    assert frames["attempts"].is_empty()
    assert {"bad_json", "no_attempt"} <= set(codes(frames))


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=5)
    | st.just({})
    | st.just([]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["type", "id", "text", "total_token_usage"]), inner, max_size=2)
    ),
    max_leaves=4,
)


def places(node, path=()):
    if path:
        yield path
    inner = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in inner:
        yield from places(value, (*path, key))


def whole():
    r = session()
    r.total = [600, 280, 60]
    r.add(
        "compacted", {"message": "sum", "replacement_history": [{"type": "message", "role": "user", "content": "sum"}]}
    )
    r.add(
        "token_usage_record",
        {"thread_id": ROOT_ID, "response_id": "r", "usage": {"input_tokens": 5}, "thread_token_usage": {}},
    )
    r.event("item_completed", item={"type": "CommandExecution", "id": "c1", "exit_code": 1}).event(
        "thread_rolled_back", num_turns=1
    )
    r.item(type="web_search_call", action={"type": "search"}).event("error", message="x", codex_error_info={"a": 1})
    return r.lines


LINES = whole()
PLACES = [p for p in places(LINES) if len(p) > 1]


@settings(deadline=None, max_examples=75)
@given(st.lists(st.tuples(st.sampled_from(PLACES), VALUES), min_size=1, max_size=4))
def test_any_value_anywhere(tmp_path_factory, changes):
    lines = copy.deepcopy(LINES)
    for path, value in changes:
        node = lines
        try:
            for key in path[:-1]:
                node = node[key]
            node[path[-1]] = value
        except (KeyError, IndexError, TypeError):
            continue
    path = tmp_path_factory.mktemp("codex") / "r.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in lines))
    frames = read(path, format="codex")
    assert frames["attempts"].height == 1


@settings(deadline=None, max_examples=30)
@given(st.integers(0, len("\n".join(json.dumps(line) for line in LINES))), st.binary(max_size=3))
def test_cut_anywhere(tmp_path_factory, at, noise):
    raw = "\n".join(json.dumps(line) for line in LINES).encode()
    path = tmp_path_factory.mktemp("codex") / "r.jsonl"
    path.write_bytes(raw[:at] + noise)
    frames = read(path, format="codex")
    assert frames["attempts"].height + frames["diagnostics"].height >= 1


def test_rows_that_are_taken_apart_early_give_the_same_frames(tmp_path, monkeypatch):
    for name in "abcdef":
        session().write(tmp_path, f"{name}/rollout-x.jsonl")
    whole = read(tmp_path)
    monkeypatch.setattr("expcomp.sources._columns.CHUNK", 3)
    monkeypatch.setattr("expcomp.sources._contract.CHUNK", 3)
    monkeypatch.setattr("expcomp.sources._columns._MOST", 7)
    cut = read(tmp_path)
    assert all(cut[name].equals(frame) for name, frame in whole.items())


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_a_key_that_stands_twice_in_one_of_several_lines_is_told(tmp_path, separators):
    lines = [json.dumps(line, separators=separators) for line in session().lines]
    lines[2] = lines[2][:-1] + ', "timestamp": "2026-11-29T12:00:03Z"}'
    path = tmp_path / "rollout-x.jsonl"
    path.write_text("\n".join(lines) + "\n")
    told = read(path)["diagnostics"].filter(pl.col("code") == "duplicate_key")
    assert told["source_pos"].to_list() == [3]


@pytest.mark.parametrize("role", [["user"], {}, 7, None])
def test_a_role_of_another_type_is_kept_as_a_user(tmp_path, role):
    frames = read(Rollout().item(type="message", role=role, content="hi").say("a").write(tmp_path))
    assert "unknown_role" in codes(frames)
    assert roles(frames)[0] == ("user", "human")
