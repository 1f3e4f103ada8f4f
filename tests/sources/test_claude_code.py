from __future__ import annotations

import base64
import json
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from expcomp.sources._look import Look
from expcomp.sources.claude_code.reader import SOURCE
from expcomp.sources.load import read_frames

SESSION = "11111111-2222-4333-8444-555555555555"
MODEL = "claude-opus-4-5-20251101"


def clock(second):
    return f"2026-01-02T03:04:{second % 60:02}.000Z"


class Talk:
    """Lines of a session, each hung on the one before it."""

    def __init__(self, session=SESSION, **common):
        self.lines = []
        self.common = {"sessionId": session, "version": "2.1.0", "cwd": "/w", "gitBranch": "main"} | common
        self.last = None

    def add(self, kind, message=None, **more):
        uuid = f"u{len(self.lines)}"
        line = {"parentUuid": self.last, "type": kind, "uuid": uuid, "timestamp": clock(len(self.lines)), **self.common}
        if message is not None:
            line["message"] = message
        self.lines.append(line | more)
        self.last = self.lines[-1]["uuid"]
        return self.lines[-1]

    def user(self, content, **more):
        return self.add("user", {"role": "user", "content": content}, **more)

    def model(self, ident, *blocks, out=5, usage=None, **more):
        used = {
            "input_tokens": 3,
            "cache_read_input_tokens": 10,
            "cache_creation_input_tokens": 7,
            "output_tokens": out,
        }
        message = {"id": ident, "role": "assistant", "model": MODEL, "content": list(blocks), "usage": usage or used}
        return self.add("assistant", message | more.pop("message", {}), **more)

    def result(self, call_id, content="ok", native=None, is_error=None, **more):
        block = {"type": "tool_result", "tool_use_id": call_id, "content": content}
        if is_error is not None:
            block["is_error"] = is_error
        if native is not None:
            more["toolUseResult"] = native
        return self.user([block], **more)


def words(text):
    return {"type": "text", "text": text}


def use(ident, name="Bash", **arguments):
    return {"type": "tool_use", "id": ident, "name": name, "input": arguments}


def save(path, lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def load(tmp_path, talk):
    return read_frames([save(tmp_path / f"{SESSION}.jsonl", talk.lines)])


def one(frames, table="attempts"):
    (row,) = frames[table].to_dicts()
    return row


def codes(frames):
    return frames["diagnostics"]["code"].to_list()


def told(frames, code):
    return frames["diagnostics"].filter(pl.col("code") == code).to_dicts()


def agent_steps(frames):
    return frames["steps"].filter(pl.col("source") == "agent").to_dicts()


def column(frames, *names):
    return frames["messages"].select(names).rows()


# -- messages and usage ------------------------------------------------------------------------------------------------------


def test_the_lines_of_one_model_message_are_one_step_and_the_last_usage_counts(tmp_path):
    talk = Talk()
    talk.user("fix it")
    talk.model("m1", {"type": "thinking", "thinking": "hm", "signature": "s"}, out=1, requestId="r1")
    talk.model("m1", words("I look."), out=2)
    talk.model("m1", use("c1", command="ls"), out=40, requestId="r2", message={"stop_reason": "tool_use"})
    talk.result("c1", "files", {"stdout": "files", "stderr": ""})
    talk.model("m2", words("Done."), message={"stop_reason": "end_turn"})
    frames = load(tmp_path, talk)
    first, second = agent_steps(frames)
    assert (first["content"], first["reasoning"], first["reasoning_opaque"]) == ("I look.", "hm", False)
    assert (first["input_tokens"], first["cached_input_tokens"], first["cache_write_tokens"]) == (20, 10, 7)
    assert (first["output_tokens"], first["llm_call_id"], first["stop_reason"]) == (40, "m1", "tool_use")
    assert first["tool_calls"][0]["arguments"] == '{"command":"ls"}'
    assert [(o["call_id"], o["content"], o["is_error"], o["exit_code"]) for o in first["observations"]] == [
        ("c1", "files", None, None)
    ]
    assert second["trainable"]
    attempt = one(frames)
    assert (attempt["output_tokens"], attempt["input_tokens"], attempt["usage_basis"]) == (45, 40, "summed")
    assert (attempt["agent"], attempt["agent_version"], attempt["model"]) == ("claude-code", "2.1.0", MODEL)
    assert (attempt["trace_id"], attempt["status"], attempt["stop_reason"]) == (SESSION, "unknown", "end_turn")
    assert (attempt["passed"], attempt["score_valid"], attempt["has_tools"]) == (None, None, False)
    assert attempt["duration_s"] == 5
    assert column(frames, "role", "origin") == [
        ("user", "human"),
        ("assistant", "model"),
        ("tool", "tool"),
        ("assistant", "model"),
    ]


def test_blocks_that_come_after_the_first_result_still_belong_to_their_message(tmp_path):
    talk = Talk()
    talk.user("go")
    talk.model("m1", use("c1"))
    talk.result("c1", "one")
    talk.model("m1", use("c2"), out=9)
    talk.result("c2", "two")
    frames = load(tmp_path, talk)
    (step,) = agent_steps(frames)
    assert [c["id"] for c in step["tool_calls"]] == ["c1", "c2"]
    assert [o["content"] for o in step["observations"]] == ["one", "two"]
    assert step["output_tokens"] == 9
    assert one(frames)["is_truncated"]


def test_usage_that_counts_nothing_is_unknown(tmp_path):
    talk = Talk()
    talk.user("go")
    talk.model("m1", words("x"), usage={"input_tokens": 0, "output_tokens": 0})
    attempt = one(load(tmp_path, talk))
    assert (attempt["input_tokens"], attempt["output_tokens"], attempt["usage_basis"]) == (None, None, "missing")


def test_old_lines_carry_a_cost(tmp_path):
    talk = Talk(version="0.2.9")
    talk.user("go")
    talk.model("m1", words("x"), costUSD=0.25)
    assert one(load(tmp_path, talk))["cost_usd"] == 0.25


def test_a_message_without_id_is_a_call_of_its_own_and_reported(tmp_path):
    talk = Talk()
    talk.user("go")
    talk.model(None, words("a"), requestId="r")
    talk.model(None, words("b"), requestId="r")
    frames = load(tmp_path, talk)
    assert len(agent_steps(frames)) == 2
    assert told(frames, "no_message_id")[0]["source_pos"] == 2


def test_reasoning_of_which_only_a_signature_exists(tmp_path):
    talk = Talk()
    talk.user("go")
    talk.model("m1", {"type": "thinking", "thinking": "", "signature": "s"}, words("x"))
    (step,) = agent_steps(load(tmp_path, talk))
    assert (step["reasoning"], step["reasoning_opaque"]) == (None, True)


def test_tools_of_the_service_answer_inside_the_message(tmp_path):
    talk = Talk()
    talk.user("go")
    talk.model(
        "m1",
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "q"}},
        {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"type": "web_search_result", "url": "u"}]},
        words("found"),
    )
    frames = load(tmp_path, talk)
    (step,) = agent_steps(frames)
    assert step["tool_calls"][0]["kind"] == "server"
    assert [o["call_id"] for o in step["observations"]] == ["s1"]
    assert frames["messages"].height == 2


# -- who wrote it ------------------------------------------------------------------------------------------------------------


def test_text_of_the_harness_is_not_the_users(tmp_path):
    talk = Talk()
    talk.user("Caveat: anything", isMeta=True)
    talk.user("<command-name>/clear</command-name>")
    talk.user("<local-command-stdout></local-command-stdout>")
    talk.user([words("<system-reminder>be good</system-reminder>")])
    talk.user([words("what I want"), words("<system-reminder>be good</system-reminder>")])
    frames = load(tmp_path, talk)
    assert [r[0] for r in column(frames, "origin")] == ["harness"] * 4 + ["human"]
    assert frames["steps"]["source"].to_list() == ["user"]


def test_what_the_program_wrote_in_the_models_name_is_no_step(tmp_path):
    talk = Talk()
    talk.user("go")
    talk.model("m1", words("No response requested."), message={"model": "<synthetic>"})
    talk.user("again")
    talk.model(
        "m2", words("API Error: 529"), message={"model": "<synthetic>"}, isApiErrorMessage=True, error="rate_limit"
    )
    frames = load(tmp_path, talk)
    assert agent_steps(frames) == []
    assert [r[0] for r in column(frames, "origin")] == ["human", "synthetic", "human", "synthetic"]
    attempt = one(frames)
    assert (attempt["status"], attempt["error_type"], attempt["model"]) == ("infra_error", "rate_limit", None)
    assert attempt["error_message"] == "API Error: 529"
    assert told(frames, "api_error")[0]["source_pos"] == 4


@pytest.mark.parametrize(
    ("ending", "status"),
    [
        (lambda t: t.user([words("[Request interrupted by user for tool use]")]), "cancelled"),
        (lambda t: t.model("e", words("Prompt is too long"), isApiErrorMessage=True, error="invalid_request"), "limit"),
        (lambda t: t.model("e", words("oh"), isApiErrorMessage=True, error="a new word"), "unknown"),
        (lambda t: t.model("m9", words("fine")), "unknown"),
    ],
)
def test_status_is_what_the_lines_say(tmp_path, ending, status):
    talk = Talk()
    talk.user("go")
    ending(talk)
    frames = load(tmp_path, talk)
    assert one(frames)["status"] == status
    assert ("unknown_status" in codes(frames)) == (talk.lines[-1].get("error") == "a new word")


# -- results -----------------------------------------------------------------------------------------------------------------


def test_errors_are_flagged_by_the_source_only_and_guesses_are_reported(tmp_path):
    talk = Talk()
    talk.user("go")
    talk.model("m1", use("a"), use("b"), use("c"), use("d"))
    talk.result("a", "Exit code 2\nboom", "Error: Exit code 2\nboom", is_error=True)
    talk.result("b", "<tool_use_error>no such file</tool_use_error>")
    talk.result("c", "Exit code 1 is what it printed", is_error=False)
    talk.result("d", "<persisted-output>long", {"exitCode": 3, "stdout": ""})
    frames = load(tmp_path, talk)
    (step,) = agent_steps(frames)
    assert [(o["is_error"], o["exit_code"], o["truncated"]) for o in step["observations"]] == [
        (True, 2, None),
        (None, None, None),
        (False, None, None),
        (None, 3, True),
    ]
    assert one(frames)["n_tool_errors"] == 1
    assert told(frames, "exit_code_from_text")[0]["source_pos"] == 3
    assert told(frames, "error_not_flagged")[0]["source_pos"] == 4


def test_results_stand_before_the_text_that_came_with_them(tmp_path):
    talk = Talk()
    talk.user("go")
    talk.model("m1", use("a"))
    talk.user([{"type": "tool_result", "tool_use_id": "a", "content": [words("x"), words("y")]}, words("and stop")])
    assert column(load(tmp_path, talk), "role", "content", "tool_call_id")[2:] == [
        ("tool", "xy", "a"),
        ("user", "and stop", None),
    ]


def test_orphans_and_unanswered_calls_are_kept_and_told(tmp_path):
    talk = Talk()
    talk.user("go")
    talk.model("m1", use("a"))
    talk.result("zzz", "?")
    frames = load(tmp_path, talk)
    assert {"orphan_result", "unanswered_call"} <= set(codes(frames))
    assert frames["messages"].height == 3


def test_an_edit_leaves_a_patch(tmp_path):
    talk = Talk()
    talk.user("go")
    talk.model("m1", use("a", "Edit"))
    hunk = {"oldStart": 1, "oldLines": 1, "newStart": 1, "newLines": 1, "lines": ["-a", "+b"]}
    talk.result("a", "done", {"filePath": "x.py", "structuredPatch": [hunk], "originalFile": "a"})
    row = one(load(tmp_path, talk), "artifacts")
    assert (row["kind"], row["name"], row["step_index"]) == ("patch", "x.py", 1)
    assert row["content"] == "--- x.py\n+++ x.py\n@@ -1,1 +1,1 @@\n-a\n+b\n"


def test_an_image_becomes_an_artifact(tmp_path):
    talk = Talk()
    data = base64.b64encode(b"\x89PNG" * 1000).decode()
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
    talk.user([words("see"), image])
    talk.model("m1", use("a", "Read"))
    talk.result("a", [image])
    frames = load(tmp_path, talk)
    assert frames["artifacts"]["kind"].to_list() == ["image", "image"]
    assert frames["artifacts"]["bytes"].to_list() == [4000, 4000]
    digest = frames["artifacts"]["digest"][0]
    assert all(digest in p and len(p) < 300 for p in frames["messages"]["parts"].drop_nulls())
    assert data not in frames["steps"].write_ndjson() + frames["messages"].write_ndjson()


# -- branches and contexts ---------------------------------------------------------------------------------------------------


def test_parallel_results_are_no_fork(tmp_path):
    talk = Talk()
    talk.user("go")
    first = talk.model("m1", use("a"))
    talk.model("m1", use("b"))
    talk.result("a", "one", parentUuid=first["uuid"])
    talk.result("b", "two", parentUuid="u2")
    talk.model("m2", words("done"))
    frames = load(tmp_path, talk)
    assert set(frames["messages"]["branch"]) == {0}
    assert "branches" not in codes(frames)


def test_an_edited_prompt_is_a_branch_and_the_last_leaf_the_main_path(tmp_path):
    talk = Talk()
    talk.user("go")
    fork = talk.model("m1", words("what?"))
    talk.user("first wording")
    talk.model("m2", use("a"))
    talk.result("a", "x")
    talk.user("second wording", parentUuid=fork["uuid"])
    talk.model("m3", words("done"))
    frames = load(tmp_path, talk)
    assert [r[0] for r in column(frames, "branch")] == [0, 0, 1, 1, 1, 0, 0]
    assert len(agent_steps(frames)) == 3
    assert told(frames, "branches")


def test_an_edited_first_prompt_is_a_branch_too(tmp_path):
    talk = Talk()
    talk.user("one")
    talk.model("m1", words("a"))
    talk.user("two", parentUuid=None)
    talk.model("m2", words("b"))
    assert [r[0] for r in column(load(tmp_path, talk), "branch")] == [1, 1, 0, 0]


def test_a_compaction_opens_a_context_and_the_summary_is_no_humans(tmp_path):
    talk = Talk()
    talk.user("go")
    last = talk.model("m1", words("a"))
    talk.add(
        "system",
        subtype="compact_boundary",
        parentUuid=None,
        logicalParentUuid=last["uuid"],
        compactMetadata={"trigger": "auto", "preTokens": 9},
    )
    talk.user("summary of it", isCompactSummary=True)
    talk.model("m2", words("b"))
    frames = load(tmp_path, talk)
    assert column(frames, "origin", "context_id", "branch") == [
        ("human", 0, 0),
        ("model", 0, 0),
        ("summary", 1, 0),
        ("model", 1, 0),
    ]
    assert [s["context_id"] for s in agent_steps(frames)] == [0, 1]
    attempt = one(frames)
    assert attempt["has_compaction"]
    assert json.loads(attempt["metadata"])["compactions"] == [{"line": 3, "trigger": "auto", "preTokens": 9}]


def test_going_back_behind_a_compaction_goes_back_to_its_context(tmp_path):
    talk = Talk()
    talk.user("go")
    before = talk.model("m1", words("a"))
    talk.add("system", subtype="compact_boundary", parentUuid=None, logicalParentUuid=before["uuid"])
    talk.user("summary", isCompactSummary=True)
    talk.model("m2", words("b"))
    talk.user("rather this", parentUuid=before["uuid"])
    talk.model("m3", words("c"))
    assert column(load(tmp_path, talk), "context_id", "branch") == [(0, 0), (0, 0), (1, 1), (1, 1), (0, 0), (0, 0)]


def test_a_marker_that_nothing_follows_opens_no_context(tmp_path):
    talk = Talk()
    talk.user("go")
    talk.model("m1", words("a"))
    talk.add("system", subtype="compact_boundary", parentUuid=None)
    frames = load(tmp_path, talk)
    assert set(frames["messages"]["context_id"]) == {0}


# -- copies ------------------------------------------------------------------------------------------------------------------


def test_repeated_lines_count_once(tmp_path):
    talk = Talk()
    talk.user("go")
    talk.model("m1", use("a"))
    talk.result("a", "x")
    copies = [dict(line) for line in talk.lines]
    renamed = [line | {"uuid": f"v{i}", "parentUuid": f"v{i - 1}" if i else None} for i, line in enumerate(talk.lines)]
    talk.lines += copies + renamed
    talk.last = "v2"
    talk.model("m2", words("done"))
    frames = load(tmp_path, talk)
    assert column(frames, "role", "branch") == [("user", 0), ("assistant", 0), ("tool", 0), ("assistant", 0)]
    assert one(frames)["output_tokens"] == 10
    assert told(frames, "duplicate_line")[0]["detail"].startswith("6 lines")


def test_a_fork_holds_copied_history(tmp_path):
    parent = "99999999-2222-4333-8444-555555555555"
    origin = {"sessionId": parent, "messageUuid": "x"}
    talk = Talk(parent)
    talk.user("go")
    talk.model("m1", words("a"))
    save(tmp_path / "p" / f"{parent}.jsonl", talk.lines)
    fork = Talk()
    fork.user("go", forkedFrom=origin)
    fork.model("m1", words("a"), forkedFrom=origin)
    fork.user("another way")
    fork.model("m2", words("b"))
    save(tmp_path / "p" / f"{SESSION}.jsonl", fork.lines)
    frames = read_frames([tmp_path])
    rows = {r["native_attempt_id"]: r for r in frames["attempts"].to_dicts()}
    assert rows[SESSION]["relation"] == "fork"
    assert rows[SESSION]["parent_attempt_id"] == rows[parent]["attempt_id"]
    assert rows[SESSION]["output_tokens"] == 5
    steps = frames["steps"].filter(pl.col("attempt_id") == rows[SESSION]["attempt_id"])
    assert steps["is_copied_context"].to_list() == [True, True, False, False]


# -- sub-agents --------------------------------------------------------------------------------------------------------------


def delegating(native=None):
    talk = Talk()
    talk.user("go")
    talk.model("m1", use("t1", "Task", prompt="look at it"))
    answer = {"agentId": "a1", "status": "completed", "content": [words("all good")], "totalToolUseCount": 1}
    talk.result("t1", [words("all good")], native or answer)
    talk.model("m2", words("done"))
    return talk


def child(**common):
    talk = Talk(isSidechain=True, agentId="a1", **common)
    talk.user("look at it")
    talk.model("s1", use("r1", "Read"), out=2)
    talk.result("r1", "text")
    talk.model("s2", words("all good"), out=2)
    return talk


def check_family(frames):
    rows = {r["relation"]: r for r in frames["attempts"].to_dicts()}
    assert frames["attempts"].height == 2
    root, sub = rows["root"], rows["subagent"]
    assert sub["parent_attempt_id"] == sub["root_attempt_id"] == root["attempt_id"]
    assert sub["parent_call_id"] == "t1"
    assert (root["output_tokens"], sub["output_tokens"]) == (10, 4)
    own = frames["messages"].filter(pl.col("attempt_id") == sub["attempt_id"])
    assert own["content"].to_list() == ["look at it", None, "text", "all good"]
    assert own["origin"][0] == "model"
    assert root["n_messages"] == 4
    return root, sub


def test_a_sub_agent_in_a_file_of_its_own_with_a_side_file(tmp_path):
    save(tmp_path / "p" / f"{SESSION}.jsonl", delegating().lines)
    folder = tmp_path / "p" / SESSION / "subagents"
    save(folder / "agent-a1.jsonl", child().lines)
    (folder / "agent-a1.meta.json").write_text(json.dumps({"agentType": "Explore", "toolUseId": "t1"}))
    frames = read_frames([tmp_path])
    _, sub = check_family(frames)
    assert (sub["status"], sub["output_summary"], sub["native_attempt_id"]) == ("completed", "all good", "a1")
    assert json.loads(sub["metadata"])["agent"]["agentType"] == "Explore"
    refs = frames["evidence"].filter(pl.col("package_id") == sub["package_id"])["ref"].to_list()
    assert refs == ["agent-a1.jsonl", "agent-a1.meta.json"]
    assert "not_recognised" not in codes(frames)
    alone = one(read_frames([folder]))
    assert (alone["relation"], alone["parent_attempt_id"], alone["parent_call_id"]) == ("subagent", None, "t1")


def test_the_parent_of_a_sub_agent_can_be_told_from_its_path(tmp_path):
    save(tmp_path / "p" / f"{SESSION}.jsonl", delegating().lines)
    path = save(tmp_path / "p" / SESSION / "subagents" / "agent-a1.jsonl", child().lines)
    from expcomp.sources._contract import Found, ReadOptions, attempt_id

    found = Found()
    SOURCE.units(path, tmp_path, found)
    assert found.units[0].group == "claude_code/p"
    row = SOURCE.read(found.units, ReadOptions())["attempts"].to_dicts()[0]
    assert row["parent_attempt_id"] == attempt_id("claude_code", f"p/{SESSION}.jsonl")


def test_a_sub_agent_beside_the_session_without_a_side_file(tmp_path):
    save(tmp_path / f"{SESSION}.jsonl", delegating().lines)
    save(tmp_path / "agent-a1.jsonl", child().lines)
    check_family(read_frames([tmp_path]))


def test_a_sub_agent_in_progress_lines(tmp_path):
    talk = delegating()
    inner = child().lines
    progress = [
        {
            "type": "progress",
            "uuid": f"p{i}",
            "parentUuid": "u1",
            "sessionId": SESSION,
            "parentToolUseID": "t1",
            "data": {"type": "agent_progress", "agentId": "a1", "message": line | {"uuid": f"i{i}"}},
        }
        for i, line in enumerate(inner)
    ]
    talk.lines[2:2] = progress
    frames = load(tmp_path, talk)
    check_family(frames)
    save(tmp_path / SESSION / "subagents" / "agent-a1.jsonl", inner)
    both = read_frames([tmp_path])
    check_family(both)
    assert told(both, "recorded_twice")


@pytest.mark.parametrize("inner", [7, None, {"type": ["user"]}, {"type": "user", "message": 7}])
def test_progress_of_a_sub_agent_that_cannot_be_read_is_told(tmp_path, inner):
    talk = delegating()
    data = {"type": "agent_progress", "agentId": "a1", "message": inner}
    line = {"type": "progress", "uuid": "p0", "parentUuid": "u1", "sessionId": SESSION, "parentToolUseID": "t1"}
    talk.lines[2:2] = [line | {"data": data}]
    assert told(load(tmp_path, talk), "bad_message")


@pytest.mark.parametrize("named", [True, False])
def test_a_sub_agent_in_sidechain_lines_is_tied_by_its_prompt(tmp_path, named):
    talk = delegating({"totalToolUseCount": 1})
    inner = [line | {"uuid": f"i{i}", "parentUuid": f"i{i - 1}" if i else None} for i, line in enumerate(child().lines)]
    if not named:
        inner = [{k: v for k, v in line.items() if k != "agentId"} for line in inner]
    talk.lines[2:2] = inner
    check_family(load(tmp_path, talk))


def test_a_sub_agent_of_a_sub_agent(tmp_path):
    save(tmp_path / f"{SESSION}.jsonl", delegating().lines)
    folder = tmp_path / SESSION / "subagents"
    middle = child()
    middle.model("s3", use("t2", "Agent", prompt="deeper"))
    middle.result("t2", "deep")
    save(folder / "agent-a1.jsonl", middle.lines)
    deep = Talk(isSidechain=True, agentId="a2")
    deep.user("deeper")
    deep.model("d1", words("deep"))
    save(folder / "agent-a2.jsonl", deep.lines)
    (folder / "agent-a2.meta.json").write_text(json.dumps({"agentType": "x", "toolUseId": "t2", "spawnDepth": 2}))
    rows = {r["native_attempt_id"]: r for r in read_frames([tmp_path])["attempts"].to_dicts()}
    assert rows["a2"]["parent_attempt_id"] == rows["a1"]["attempt_id"]
    assert rows["a2"]["root_attempt_id"] == rows[SESSION]["attempt_id"]


def test_a_forked_sub_agent_replays_its_parent(tmp_path):
    parent = delegating()
    save(tmp_path / f"{SESSION}.jsonl", parent.lines)
    replay = [dict(line, isSidechain=False) for line in parent.lines[:2]]
    own = [line | {"uuid": f"i{i}"} for i, line in enumerate(child().lines)]
    save(tmp_path / SESSION / "subagents" / "agent-a1.jsonl", replay + own)
    frames = read_frames([tmp_path])
    (sub,) = frames["attempts"].filter(pl.col("relation") == "subagent").to_dicts()
    assert sub["output_tokens"] == 4
    steps = frames["steps"].filter(pl.col("attempt_id") == sub["attempt_id"])
    assert steps["is_copied_context"].to_list() == [True, True, False, False]


# -- streams -----------------------------------------------------------------------------------------------------------------


def stream(**result):
    return [
        {
            "type": "system",
            "subtype": "init",
            "session_id": "s",
            "tools": ["Bash", "Task"],
            "model": MODEL,
            "claude_code_version": "2.1.5",
            "uuid": "i",
        },
        {
            "type": "assistant",
            "session_id": "s",
            "parent_tool_use_id": None,
            "message": {
                "id": "m1",
                "model": MODEL,
                "content": [use("t1", "Task", prompt="p")],
                "usage": {"output_tokens": 2},
            },
        },
        {
            "type": "assistant",
            "session_id": "s",
            "parent_tool_use_id": "t1",
            "message": {"id": "k1", "model": MODEL, "content": [words("kid")], "usage": {"output_tokens": 3}},
        },
        {
            "type": "user",
            "session_id": "s",
            "parent_tool_use_id": None,
            "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "kid"}]},
        },
        {"type": "result", "subtype": "success", "is_error": False, "session_id": "s", "duration_ms": 1500} | result,
    ]


@pytest.mark.parametrize(
    ("result", "status"),
    [
        ({"result": "all done", "total_cost_usd": 0.5}, "completed"),
        ({"subtype": "error_max_turns"}, "limit"),
        ({"subtype": "error_during_execution", "is_error": True, "errors": ["x"]}, "infra_error"),
        ({"is_error": True, "result": "API Error: 500"}, "infra_error"),
    ],
)
def test_a_stream_says_how_it_ended_and_what_it_cost(tmp_path, result, status):
    frames = read_frames([save(tmp_path / "out.jsonl", stream(**result))])
    rows = {r["relation"]: r for r in frames["attempts"].to_dicts()}
    root, sub = rows["root"], rows["subagent"]
    assert (root["status"], root["cost_usd"], root["duration_s"]) == (status, result.get("total_cost_usd"), 1.5)
    assert (root["agent_version"], root["trace_id"], root["output_summary"]) == ("2.1.5", "s", result.get("result"))
    assert (sub["parent_attempt_id"], sub["parent_call_id"], sub["output_tokens"]) == (root["attempt_id"], "t1", 3)
    assert (root["tools"], root["has_tools"]) == (None, False)
    assert json.loads(root["metadata"])["init"]["tools"] == ["Bash", "Task"]


# -- files -------------------------------------------------------------------------------------------------------------------


def test_lines_without_a_message_are_counted_and_unknown_types_named(tmp_path):
    talk = Talk()
    talk.add("file-history-snapshot", messageId="x", snapshot={})
    talk.user("go")
    talk.add("attachment", attachment={"type": "queued_command", "prompt": "and this"})
    talk.add("novelty")
    talk.add("user", "no object")
    talk.lines.append({"type": "summary", "summary": "A title", "leafUuid": "u1"})
    frames = load(tmp_path, talk)
    assert "1 attachment, 1 file-history-snapshot, 1 summary" in told(frames, "lines_without_message")[0]["detail"]
    assert told(frames, "unknown_line_type")[0]["source_pos"] == 4
    assert told(frames, "bad_message")[0]["source_pos"] == 5
    said = json.loads(one(frames)["metadata"])
    assert said["title"] == "A title"
    assert said["queued_commands"] == [{"line": 3, "prompt": "and this"}]


def test_what_was_shown_beside_the_messages_is_kept(tmp_path):
    talk = Talk()
    talk.user("see @a.py")
    file = {"type": "file", "filename": "/x/a.py", "content": {"type": "text", "file": {"content": "x = 1\n"}}}
    talk.add("attachment", attachment=file)
    talk.add("attachment", attachment={"type": "task_reminder", "content": [], "itemCount": 0})
    talk.model("m1", words("a"))
    frames = load(tmp_path, talk)
    (kept,) = frames["artifacts"].to_dicts()
    assert (kept["kind"], kept["name"], json.loads(kept["content"])) == ("other", "file: /x/a.py", file)
    assert told(frames, "attachment_shown")[0]["detail"].startswith("1 attachments")
    assert column(frames, "role") == [("user",), ("assistant",)]


def test_a_session_of_which_only_titles_are_left_is_told(tmp_path):
    frames = read_frames([save(tmp_path / "x.jsonl", [{"type": "summary", "summary": "t", "leafUuid": "u"}])])
    assert frames["attempts"].is_empty()
    assert {"no_messages", "no_attempt"} <= set(codes(frames))
    assert told(frames, "no_attempt")[0]["detail"].startswith("1 unit of format ")


def test_broken_glued_and_cut_lines_cost_only_themselves(tmp_path):
    talk = Talk()
    for i in range(6):
        talk.user(f"turn {i}")
    text = [json.dumps(line) for line in talk.lines]
    body = "\n".join([text[0], text[1] + text[2], text[3][:40] + text[4], "{broken", text[5][:-9]])
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + body.encode())
    frames = read_frames([path])
    assert [r[0] for r in column(frames, "content")] == ["turn 0", "turn 1", "turn 2", "turn 4"]
    assert {d["source_pos"] for d in told(frames, "glued_line")} == {2, 3}
    assert {d["source_pos"] for d in told(frames, "bad_json")} == {3, 4, 5}
    assert "bom" in codes(frames)
    assert one(frames)["is_truncated"]


def test_a_line_before_which_lines_are_missing_goes_on(tmp_path):
    talk = Talk()
    talk.user("go")
    talk.model("m1", words("a"), parentUuid="gone")
    frames = load(tmp_path, talk)
    assert set(frames["messages"]["branch"]) == {0}
    assert told(frames, "parent_not_found")[0]["source_pos"] == 2


def test_one_document_with_all_lines(tmp_path):
    talk = Talk()
    talk.user("go")
    talk.model("m1", words("a"))
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps(talk.lines, indent=1))
    assert one(read_frames([path]))["n_messages"] == 2


def test_values_that_no_column_holds(tmp_path):
    talk = Talk()
    talk.user("go")
    talk.model("m1", use("a"), usage={"input_tokens": 2**70, "output_tokens": -1})
    deep = "x"
    for _ in range(900):
        deep = [deep]
    talk.user(deep)
    path = save(tmp_path / "x.jsonl", talk.lines)
    path.write_text(
        path.read_text() + '{"type":"user","uuid":"n","message":{"role":"user","content":"\\ud800 NaN"},"n":NaN}\n'
    )
    frames = read_frames([path])
    assert frames["messages"].height == 3
    assert {"bad_json", "bad_unicode"} <= set(codes(frames))


def test_folders_without_transcript_are_told(tmp_path):
    save(tmp_path / f"{SESSION}.jsonl", delegating().lines)
    (tmp_path / SESSION / "tool-results").mkdir(parents=True)
    (tmp_path / SESSION / "tool-results" / "t1.txt").write_text("long")
    (tmp_path / "99999999-2222-4333-8444-555555555555" / "subagents").mkdir(parents=True)
    lonely = tmp_path / SESSION / "subagents" / "agent-zz.meta.json"
    lonely.parent.mkdir()
    lonely.write_text(json.dumps({"agentType": "x", "toolUseId": "t"}))
    frames = read_frames([tmp_path])
    assert {"empty_session", "outputs_aside", "no_transcript"} <= set(codes(frames))
    assert "not_recognised" not in codes(frames)


@pytest.mark.parametrize(
    ("line", "claimed"),
    [
        ({"sessionId": "s", "uuid": "u", "type": "user", "message": {}}, True),
        ({"type": "summary", "summary": "x", "leafUuid": "u"}, True),
        ({"type": "system", "subtype": "init", "session_id": "s", "tools": []}, True),
        ({"timestamp": "t", "type": "session_meta", "payload": {}}, False),
        ({"role": "user", "content": "sessionId uuid type"}, False),
        ({"messages": [{"role": "user", "content": "x"}]}, False),
        ({"sessionId": "s", "messages": []}, False),
        ({"type": "user", "content": "x"}, False),
    ],
)
def test_content_decides(line, claimed):
    assert SOURCE.claims_file(Look(Path("a.jsonl"), json.dumps(line).encode() + b"\n")) is claimed


def test_a_first_line_longer_than_the_head_is_recognised():
    talk = Talk()
    talk.user("x" * 100_000)
    assert SOURCE.claims_file(Look(Path("a"), json.dumps(talk.lines[0]).encode()[:65536]))


@pytest.mark.parametrize("data", [b"", b"\x00\x01", b"[]", b"{", b'{"type"', b'[1, {"type": 3}]', b'"x"'])
def test_a_look_at_anything_never_fails(data):
    assert SOURCE.claims_file(Look(Path("a"), data)) is False


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "type", "content", "text"]), inner)
    ),
    max_leaves=6,
)


def mutate(value, path, new):
    """A copy of the value with another one at a place, found by going down keys and indices as far as they go."""
    if not path or not isinstance(value, dict | list) or not value:
        return new
    if isinstance(value, dict):
        key = sorted(value)[path[0] % len(value)]
        return value | {key: mutate(value[key], path[1:], new)}
    at = path[0] % len(value)
    return [*value[:at], mutate(value[at], path[1:], new), *value[at + 1 :]]


@settings(max_examples=75, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    changes=st.lists(st.tuples(st.lists(st.integers(0, 30), min_size=1, max_size=6), JSON), min_size=1, max_size=4),
    cut=st.integers(0, 4000),
)
def test_no_value_breaks_it_and_no_line_is_lost_in_silence(tmp_path, changes, cut):
    talk = delegating()
    talk.lines += [dict(line, uuid=f"i{i}") for i, line in enumerate(child().lines)] + stream()
    lines = talk.lines
    for path, new in changes:
        at = path[0] % len(lines)
        lines[at] = mutate(lines[at], path[1:], new)
    data = "\n".join(json.dumps(line) for line in lines).encode()
    target = tmp_path / "x.jsonl"
    target.write_bytes(data[: max(len(data) - cut, 1)])
    frames = read_frames([target], format="claude_code")
    assert frames["attempts"]["attempt_id"].is_unique().all()
    assert frames["attempts"].height or frames["diagnostics"].height
    turns = 0
    for line in filter(None, target.read_bytes().split(b"\n")):
        try:
            record = json.loads(line)
        except ValueError:
            assert "bad_json" in codes(frames) or "empty_file" in codes(frames)
            continue
        if isinstance(record, dict) and record.get("type") in ("user", "assistant"):
            turns += 1
        elif record is not None:
            assert {"lines_without_message", "unknown_line_type", "bad_line"} & set(codes(frames))
    if turns:
        assert frames["messages"].height or {"bad_message", "duplicate_line"} & set(codes(frames))


@pytest.mark.parametrize("key", ["agentId", "sessionId"])
def test_ids_that_are_no_file_names(tmp_path, key):
    talk = delegating()
    talk.lines += child().lines
    talk.lines = [line | {key: "/a/../"} if key in line else line for line in talk.lines]
    save(tmp_path / "agent-x.jsonl", child().lines and [line | {key: "/"} for line in child().lines])
    assert load(tmp_path, talk)["messages"].height
