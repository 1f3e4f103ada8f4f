"""Message rules: what comes out obeys them by a checker in plain Python, nothing is lost on the way, and twice is once."""

from __future__ import annotations

import json
import math
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expcomp.datasets.flat import content_hash, explode_chat, implode_chat, policy_chars, texts_of
from expcomp.datasets.normal import DESCRIPTIONS, normalise
from expcomp.tables.family import CHAT

Message = dict[str, Any]
FIELDS = ("role", "content", "reasoning", "tool_calls", "tool_call_id", "name", "trainable", "failed", "media")


def message(role: str | None, content: str | None = "x", **more: Any) -> Message:
    return {**dict.fromkeys(FIELDS), "role": role, "content": content, "trainable": role == "assistant", **more}


def call(identity: str | None, arguments: str | None = "{}", name: str | None = "f") -> Message:
    return {"id": identity, "name": name, "arguments": arguments}


def agent(*calls: Message, content: str | None = "y", **more: Any) -> Message:
    return message("assistant", content, tool_calls=list(calls) or None, **more)


def result(identity: str | None, content: str = "r", **more: Any) -> Message:
    return message("tool", content, tool_call_id=identity, **more)


def frame(*chats: list[Message] | None) -> pl.DataFrame:
    ids = [f"row_{i}" for i in range(len(chats))]
    return pl.DataFrame(
        {"row_id": ids, "task_id": ["t"] * len(chats), "messages": list(chats)},
        schema={"row_id": pl.String, "task_id": pl.String, "messages": CHAT},
    )


def normal(chat: list[Message], **more: Any) -> list[Message]:
    kept, left = normalise(frame(chat), "messages", **more)
    assert left.is_empty(), left
    return kept["messages"].to_list()[0]


def reason(chat: list[Message]) -> tuple[str, int]:
    """The reason a chat is left out for, and how many messages are sound."""
    kept, left = normalise(frame(chat), "messages")
    assert kept.is_empty()
    good = normalise(frame(chat), "messages", whole=False)[0]["_good"].item()
    return left["reason"].item(), good


def numbers(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [n for v in value.values() for n in numbers(v)]
    if isinstance(value, list):
        return [n for v in value for n in numbers(v)]
    return [value]


def problems(chat: list[Message]) -> list[str]:
    """What is wrong with a chat by M1 to M4 and M7, one message after the other."""
    found: list[str] = []
    pending: list[Message] = []
    seen: set[str] = set()
    for i, m in enumerate(chat):
        if m["role"] not in ("system", "user", "assistant", "tool"):
            found.append(f"{i}: role")
        if m["role"] == "system" and i:
            found.append(f"{i}: system not first")
        if not isinstance(m["content"], str):
            found.append(f"{i}: content")
        if m["role"] == "tool":
            # Results in the order of the calls: each answers the next call that waits, or a later one.
            ids = [c["id"] for c in pending]
            if m["tool_call_id"] not in ids:
                found.append(f"{i}: answers nothing, or stands out of order")
                continue
            place = ids.index(m["tool_call_id"])
            if m["name"] is None or m["name"].strip() == "":
                found.append(f"{i}: no name")
            pending = pending[:place] + pending[place + 1 :]
            if i + 1 < len(chat) and chat[i + 1]["role"] == "tool":
                pending_later = pending[place:]
                if chat[i + 1]["tool_call_id"] not in [c["id"] for c in pending_later]:
                    found.append(f"{i + 1}: results out of order")
            continue
        if pending:
            found.append(f"{i}: calls without result before")
        calls = m["tool_calls"] or []
        if m["tool_calls"] == []:
            found.append(f"{i}: empty list of calls")
        if calls and m["role"] != "assistant":
            found.append(f"{i}: calls by {m['role']}")
        if m["tool_call_id"] is not None:
            found.append(f"{i}: answers as {m['role']}")
        pending = list(calls)
        for c in calls:
            if not c["id"] or c["id"] in seen:
                found.append(f"{i}: id {c['id']}")
            seen.add(c["id"])
            if not c["name"] or not c["name"].strip():
                found.append(f"{i}: call without name")
            try:
                value = json.loads(c["arguments"])
            except ValueError:
                found.append(f"{i}: arguments are no JSON")
                continue
            if not isinstance(value, dict):
                found.append(f"{i}: arguments are {type(value).__name__}")
            for n in numbers(value):
                if isinstance(n, float) and not math.isfinite(n):
                    found.append(f"{i}: {n}")
                if isinstance(n, int) and not -(2**63) <= n < 2**64:
                    found.append(f"{i}: {n}")
                if isinstance(n, str) and any("\ud800" <= ch <= "\udfff" for ch in n):
                    found.append(f"{i}: lone surrogate")
    return found


IDS = st.sampled_from([None, "a", "b", "c", "", "call_0001"])
ARGUMENTS = st.one_of(
    st.sampled_from(
        [
            *("{}", '{"x": 1}', ' {"x": null}', '{"x": {"y": [1, "Ü"]}}', None, "", " null "),
            *(
                "[1]",
                "null x",
                "{'x': 1}",
                '{"x": NaN}',
                '{"x": 1e999}',
                '{"x": "\\ud800"}',
                '{"x": 18446744073709551616}',
            ),
        ]
    ),
    st.dictionaries(st.text("ab", max_size=2), st.integers(-(2**65), 2**65) | st.floats(), max_size=2).map(json.dumps),
)
CALLS = st.lists(st.builds(call, IDS, ARGUMENTS, st.sampled_from(["f", "g", "f", "g", None, " "])), max_size=3)
TEXT = st.sampled_from([None, "", " ", "x", "two words", "zeile\n"])
WILD = st.builds(
    message,
    st.sampled_from(["system", "developer", "user", "assistant", "assistant", "tool", "tool", "function", None]),
    TEXT,
    reasoning=TEXT,
    tool_calls=st.none() | CALLS,
    tool_call_id=IDS,
    name=st.sampled_from([None, "f", ""]),
    trainable=st.none() | st.booleans(),
    failed=st.none() | st.booleans(),
)
GOOD_CALLS = st.lists(st.builds(call, IDS, st.sampled_from(["{}", '{"x": 1}', None])), max_size=3)


@st.composite
def tame(draw: st.DrawFn) -> list[Message]:
    """Chats that only need repair: turns of user or agent, results by id or by place in any order."""
    chat = [message(draw(st.sampled_from(["system", "developer"])), t) for t in draw(st.lists(TEXT, max_size=2))]
    for _ in range(draw(st.integers(0, 4))):
        if draw(st.booleans()):
            chat.append(message("user", draw(TEXT)))
            continue
        calls = draw(GOOD_CALLS)
        chat.append(agent(*calls, content=draw(TEXT)))
        ids = [c["id"] for c in calls]
        whole = all(ids) and len(set(ids)) == len(ids)
        chat += [result(i, f"of {i}") for i in (draw(st.permutations(ids)) if whole else ids)]
    return chat


CHATS = st.lists(st.none() | st.lists(WILD, max_size=6) | tame(), max_size=4)


@settings(deadline=None, max_examples=60)
@given(CHATS)
def test_what_is_kept_obeys_the_rules(chats: list[list[Message] | None]) -> None:
    kept, left = normalise(frame(*chats), "messages")
    assert [p for chat in kept["messages"].to_list() for p in problems(chat)] == []
    assert sorted([*kept["row_id"], *left["row_id"]]) == sorted(frame(*chats)["row_id"])
    assert set(left["reason"]) <= set(DESCRIPTIONS)


@settings(deadline=None, max_examples=60)
@given(CHATS)
def test_the_messages_before_the_first_unsound_one_obey_the_rules(chats: list[list[Message] | None]) -> None:
    kept, left = normalise(frame(*chats), "messages", whole=False)
    assert left.is_empty()
    assert [p for chat in kept["messages"].to_list() for p in problems(chat)] == []
    assert kept["messages"].list.len().to_list() == kept["_good"].to_list()


@settings(deadline=None, max_examples=60)
@given(CHATS)
def test_normal_chats_stay_as_they_are(chats: list[list[Message] | None]) -> None:
    once, _ = normalise(frame(*chats), "messages", whole=False)
    twice, left = normalise(once.drop("_good"), "messages")
    assert left.is_empty()
    assert twice.equals(once)


@settings(deadline=None, max_examples=60)
@given(tame())
def test_a_repair_loses_no_word_and_no_call(chat: list[Message]) -> None:
    repaired = normal(chat)
    words = [m["content"] or "" for m in chat if m["role"] not in ("system", "developer")]
    assert sorted(m["content"] for m in repaired if m["role"] != "system") == sorted(words)
    system = [m["content"] for m in chat if m["role"] in ("system", "developer") and (m["content"] or "").strip()]
    assert "".join(m["content"] for m in repaired if m["role"] == "system").split() == "\n\n".join(system).split()
    calls = [(c["name"], c["arguments"] or "{}") for m in chat for c in m["tool_calls"] or []]
    assert [(c["name"], c["arguments"]) for m in repaired for c in m["tool_calls"] or []] == calls


@settings(deadline=None, max_examples=60)
@given(tame())
def test_a_result_stays_with_its_call(chat: list[Message]) -> None:
    by_content = {}
    for m in chat:
        for i, c in enumerate(m["tool_calls"] or []):
            c["name"] = f"tool {c['id']} {i}" if c["id"] else "nameless"
            by_content[c["name"]] = f"of {c['id']}"
    for m in normal(chat):
        if m["role"] == "tool" and m["name"] != "nameless":
            assert m["content"] == by_content[m["name"]]


def test_absent_ids_are_numbered_and_results_follow_by_place() -> None:
    chat = [
        message("user"),
        agent(call(None), call("")),
        result(None, "1"),
        result(None, "2"),
        agent(call("k")),
        result("k"),
    ]
    repaired = normal(chat)
    assert [c["id"] for m in repaired for c in m["tool_calls"] or []] == ["call_0001", "call_0002", "call_0003"]
    assert [(m["tool_call_id"], m["content"]) for m in repaired if m["role"] == "tool"] == [
        ("call_0001", "1"),
        ("call_0002", "2"),
        ("call_0003", "r"),
    ]


def test_repeated_ids_are_numbered_and_results_follow_by_id() -> None:
    chat = [agent(call("a"), call("b")), result("b", "2"), result("a", "1"), agent(call("a")), result("a", "3")]
    repaired = normal(chat)
    assert [m["content"] for m in repaired] == ["y", "1", "2", "y", "3"]
    assert [m["tool_call_id"] for m in repaired if m["role"] == "tool"] == ["call_0001", "call_0002", "call_0003"]


def test_good_ids_are_kept() -> None:
    assert [m["tool_call_id"] for m in normal([agent(call("a")), result("a"), agent(call("b")), result("b")])] == [
        None,
        "a",
        None,
        "b",
    ]


def test_leading_system_messages_become_one() -> None:
    repaired = normal(
        [message("system", "a"), message("developer", "b"), message("system", None), message("user", "c")]
    )
    assert [(m["role"], m["content"]) for m in repaired] == [("system", "a\n\nb"), ("user", "c")]


def test_a_system_message_is_added_where_there_is_none() -> None:
    assert [m["content"] for m in normal([message("user")], system="s")] == ["s", "x"]
    assert [m["content"] for m in normal([message("system", "own"), message("user")], system="s")] == ["own", "x"]


def test_the_name_of_a_result_comes_from_its_call() -> None:
    named = [
        m["name"]
        for m in normal([agent(call("a", name="f"), call("b", name="g")), result("b"), result("a", name="own")])
    ]
    assert named == [None, "own", "g"]


def test_a_call_at_the_end_needs_no_result() -> None:
    assert len(normal([message("user"), agent(call("a"), call("b"))])) == 2
    assert len(normal([message("user"), agent(call("a"), call("b")), result("b")])) == 3


@pytest.mark.parametrize(
    ("chat", "expected"),
    [
        ([message("user"), message("system"), agent()], ("system_not_first", 1)),
        ([result("a"), agent()], ("result_without_call", 0)),
        ([message("user"), agent(call("a")), result("a"), result("a")], ("result_without_call", 3)),
        ([message("user"), agent(call("a")), result("z"), agent()], ("result_without_call", 2)),
        ([agent(call("a")), message("user"), result("a")], ("call_unanswered", 1)),
        ([agent(call("a"), call("b")), result("b"), agent()], ("call_unanswered", 2)),
        ([message("user"), agent(call("a", name=None)), result("a")], ("call_without_name", 1)),
        ([message("user"), agent(call("a", "{'x': 1}")), result("a")], ("arguments_not_object", 1)),
        ([message("user"), agent(call("a", "[]")), result("a")], ("arguments_not_object", 1)),
        ([message("user"), agent(call("a", '{"x": -Infinity}'))], ("arguments_not_object", 1)),
        ([message("user"), agent(call("a", '{"x": "\\udc00"}'))], ("arguments_not_object", 1)),
        ([message("user"), agent(call("a", '{"x": 1e999}'))], ("number_out_of_range", 1)),
        ([message("user", tool_calls=[call("a")])], ("call_not_by_agent", 0)),
        ([message("user"), message("critic"), agent()], ("unknown_role", 1)),
        ([message("user", media=True), agent()], ("not_only_text", 0)),
        ([message("user"), agent(call("a")), result("a", media=True), agent()], ("not_only_text", 2)),
    ],
)
def test_a_chat_that_cannot_be_repaired_is_left_out_with_its_reason(
    chat: list[Message], expected: tuple[str, int]
) -> None:
    assert reason(chat) == expected


@pytest.mark.parametrize(
    "number", [2**63, 2**64 - 1, -(2**63), 1e308, 12345678901234567890.5, "12345678901234567890123"]
)
def test_numbers_within_64_bits_are_kept(number: Any) -> None:
    arguments = json.dumps({"x": [{"y": number}]})
    assert normal([agent(call("a", arguments))])[0]["tool_calls"][0]["arguments"] == arguments


@pytest.mark.parametrize("number", ["18446744073709551616", "-9223372036854775809", "9" * 5000, "1e309", "-1E+0400"])
def test_numbers_past_64_bits_are_not(number: str) -> None:
    assert reason([agent(call("a", f'{{"x": [{number}]}}'))]) == ("number_out_of_range", 0)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.none() | st.lists(WILD, max_size=4), max_size=5))
def test_a_chat_survives_the_flat_form(chats: list[list[Message] | None]) -> None:
    flat = explode_chat(frame(*chats), "messages")
    assert flat["pos"].to_list() == [i for chat in chats for i in range(len(chat or []))]
    assert implode_chat(flat, len(chats)).to_list() == [chat or [] for chat in chats]


def test_the_content_hash_is_blind_to_ids_and_sees_all_else() -> None:
    def digest(*chat: Message, tools: str | None = None) -> str:
        table = frame(list(chat)).with_columns(tools=pl.lit(tools, pl.String))
        return str(content_hash(table, ["messages"], ["tools"]).item())

    base = digest(message("user"), agent(call("a")), result("a"))
    assert digest(message("user"), agent(call("b")), result("b")) == base
    others = [
        digest(message("user"), agent(call("a")), result("a"), tools="[1]"),
        digest(message("user"), agent(call("a", '{"x":1}')), result("a")),
        digest(message("user"), agent(call("a", name="g")), result("a")),
        digest(message("user"), agent(call("a"), call("b")), result("a")),
        digest(message("user"), agent(call("a"), reasoning="why"), result("a")),
        digest(message("user"), agent(call("a")), result("a", "other")),
        digest(message("user"), agent(call("a"))),
        digest(),
    ]
    assert len({base, *others}) == len(others) + 1


def test_texts_are_all_that_a_model_sees_with_escapes_undone() -> None:
    table = frame(
        [message("user", "ask"), agent(call("i", '{"p":"a\\nb \\u00fc"}'), reasoning="why", content="")], None
    )
    assert sorted(texts_of(table, ["messages"]).rows()) == [(0, "ask"), (0, 'f {"p":"a b ü"}'), (0, "why")]


def test_texts_of_plain_columns() -> None:
    table = pl.DataFrame({"prompt": ["p", None], "steps": [["a", "b"], []]})
    assert texts_of(table, ["prompt", "steps"]).rows() == [(0, "p"), (0, "a"), (0, "b")]


def test_policy_chars_count_what_carries_loss() -> None:
    flat = explode_chat(
        frame([message("user"), agent(call("id", "{}", "fü"), content="abc", reasoning="d")]), "messages"
    )
    assert policy_chars(flat).to_list() == [0, 3 + 1 + 2 + 2]
    assert policy_chars(flat.with_columns(trainable=False)).to_list() == [0, 0]
