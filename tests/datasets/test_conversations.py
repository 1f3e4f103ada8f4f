"""Conversations, single turns and judged turns: what is taken, what is left out and why, and that nothing vanishes."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expcomp.datasets.contract import LEFT, LOGICAL, Kind, Lookups, Made
from expcomp.datasets.conversations import CONVERSATION, TURN
from expcomp.datasets.flat import content_hash
from expcomp.datasets.judged import JUDGED
from expcomp.datasets.options import DatasetOptions
from expcomp.tables.family import CHAT
from tests.datasets.test_normal import CHATS, Message, agent, call, message, problems, result

NOTHING = pl.DataFrame()
WORDS = " ".join(["word"] * 16)
GIVEN = '[{"type":"function","function":{"name":"given"}}]'
Chat = list[Message] | None


def attempts(n: int, status: str = "completed", *, truncated: bool | None = False) -> Lookups:
    table = pl.DataFrame(
        {"attempt_id": [f"a{i}" for i in range(n)], "status": [status] * n, "is_truncated": [truncated] * n},
        schema={"attempt_id": pl.String, "status": pl.Enum(["completed", "limit"]), "is_truncated": pl.Boolean},
    )
    return Lookups(table, NOTHING, {})


def rows(*chats: Chat, **columns: Any) -> pl.DataFrame:
    n = len(chats)
    given_columns: dict[str, Any] = {"task_id": "t", "tools": None, "passed": True, **columns}
    return pl.DataFrame(
        {
            "row_id": [f"row_{i}" for i in range(n)],
            "attempt_id": [f"a{i}" for i in range(n)],
            "evidence_ids": [["e"]] * n,
            "messages": list(chats),
        },
        schema={"row_id": pl.String, "attempt_id": pl.String, "evidence_ids": pl.List(pl.String), "messages": CHAT},
    ).with_columns(
        prompt="messages",
        completion=pl.lit([], CHAT),
        **{
            k: v if isinstance(v, pl.Series) else pl.lit(v, pl.Boolean if k == "passed" else pl.String)
            for k, v in given_columns.items()
        },
    )


def made(kind: Kind, *chats: Chat, options: dict[str, Any] | None = None, **columns: Any) -> Made:
    return kind.build(rows(*chats, **columns), attempts(len(chats)), DatasetOptions(**options or {}))


def reasons(of: Made) -> list[tuple[str, str]]:
    return of.left.select("row_id", "reason").rows()


SOUND: list[Message] = [
    message("system", "s"),
    message("user", "do"),
    agent(call("a")),
    result("a"),
    agent(content="done"),
    message("user", "thanks"),
]


@settings(deadline=None, max_examples=60)
@given(CHATS, st.sampled_from([None, "s"]))
def test_every_conversation_is_taken_or_left_out(chats: list[Chat], system: str | None) -> None:
    of = made(CONVERSATION, *chats, options={"system": system, "min_words": 1})
    assert sorted([*of.rows["row_id"], *of.left["row_id"]]) == sorted(rows(*chats)["row_id"])
    assert [p for chat in of.rows["messages"].to_list() for p in problems(chat)] == []
    for chat, whole in of.rows.select("messages", "_all_trainable").rows():
        turns = [m for m in chat if m["role"] == "assistant"]
        assert chat[-1] is turns[-1]
        assert any(m["trainable"] for m in turns)
        assert whole == all(m["trainable"] for m in turns)
        assert not any(m["trainable"] for m in chat if m["role"] != "assistant")


@settings(deadline=None, max_examples=60)
@given(CHATS)
def test_every_trainable_turn_is_taken_or_left_out(chats: list[Chat]) -> None:
    of = made(TURN, *chats, options={"min_words": 1})
    # Trailing messages without another assistant turn are cut, which loses no turn.
    turns = [
        f"row_{i}#{p}"
        for i, chat in enumerate(chats)
        for p, m in enumerate(chat or [])
        if m["role"] == "assistant" and m["trainable"]
    ]
    bare = [f"row_{i}" for i in range(len(chats)) if not any(t.startswith(f"row_{i}#") for t in turns)]
    assert sorted([*of.rows["row_id"], *of.left["row_id"]]) == sorted([*turns, *bare])
    for prompt, completion in of.rows.select("prompt", "completion").rows():
        assert problems([*prompt, *completion]) == []
        assert prompt[-1]["role"] in ("user", "tool")
        assert [m["role"] for m in completion] == ["assistant"]
        assert completion[0]["trainable"]


@settings(deadline=None, max_examples=60)
@given(CHATS)
def test_every_judged_attempt_is_taken_or_left_out(chats: list[Chat]) -> None:
    of = made(JUDGED, *chats)
    assert sorted([*of.rows["row_id"], *of.left["row_id"]]) == sorted(rows(*chats)["row_id"])
    for prompt, completion in of.rows.select("prompt", "completion").rows():
        assert problems([*prompt, *completion]) == []
        assert prompt[-1]["role"] in ("user", "tool")
        assert [m["role"] for m in completion] == ["assistant"]


@pytest.mark.parametrize("kind", [CONVERSATION, TURN, JUDGED])
def test_a_kind_gives_its_declared_columns_and_the_hash_of_their_content(kind: Kind) -> None:
    for chats in ([SOUND, None, SOUND], []):
        of = made(kind, *chats)
        assert dict(of.rows.schema) == LOGICAL[kind.name]
        assert dict(of.left.schema) == LEFT
        assert of.rows["_hash"].to_list() == content_hash(of.rows, kind.chats, ["tools"]).to_list()
        assert of.rows.height == (0 if not chats else 4 if kind is TURN else 2)


def test_what_follows_the_last_turn_is_cut() -> None:
    of = made(CONVERSATION, SOUND, [*SOUND, message("system", "late")])
    assert of.left.is_empty()
    assert of.rows["messages"].list.len().to_list() == [5, 5]
    assert of.rows.select("_all_trainable", "_n_turns", "_chars").row(0) == (
        True,
        2,
        len("y") + len("f{}") + len("done"),
    )


def test_a_turn_has_the_history_before_it() -> None:
    of = made(TURN, SOUND)
    assert of.rows["row_id"].to_list() == ["row_0#2", "row_0#4"]
    assert [[m["content"] for m in p] for p in of.rows["prompt"].to_list()] == [["s", "do"], ["s", "do", "y", "r"]]
    assert [[m["content"] for m in p] for p in of.rows["completion"].to_list()] == [["y"], ["done"]]
    assert of.rows["evidence_ids"].to_list() == [["e"], ["e"]]


def test_an_unsound_message_costs_a_conversation_but_not_the_turns_before_it() -> None:
    chat = [*SOUND, agent(call("b", "oops")), result("b"), agent()]
    assert reasons(made(CONVERSATION, chat)) == [("row_0", "arguments_not_object")]
    of = made(TURN, chat)
    assert of.rows["row_id"].to_list() == ["row_0#2", "row_0#4"]
    assert reasons(of) == [("row_0#6", "arguments_not_object"), ("row_0#8", "arguments_not_object")]
    assert of.left["detail"].unique().to_list() == ["message 6: the arguments of a call are no JSON object"]


def test_a_turn_without_a_prompt_is_history_only() -> None:
    of = made(TURN, [message("system"), agent(content="hello"), message("user"), agent(call("a")), agent()])
    assert of.rows["row_id"].to_list() == ["row_0#3"]
    assert reasons(of) == [("row_0#1", "no_prompt"), ("row_0#4", "call_unanswered")]


def test_a_failed_turn_carries_no_loss_once_a_later_turn_carries_on() -> None:
    chat = [message("user"), agent(call("a"), failed=True), result("a"), agent(call("b"), failed=True), result("b")]
    flags = [True, False, None]
    masked = made(CONVERSATION, chat).rows
    assert [m["trainable"] for m in masked["messages"].to_list()[0]] == [False, False, False, True]
    assert masked["_all_trainable"].to_list() == flags[1:2]
    kept = made(CONVERSATION, chat, options={"mask_failed": False}).rows
    assert kept["_all_trainable"].to_list() == flags[:1]
    assert reasons(made(TURN, chat)) == [("row_0#1", "failed_turn")]
    assert made(TURN, chat, options={"mask_failed": False}).left.is_empty()


def test_an_empty_turn_never_carries_loss() -> None:
    chat = [message("user"), agent(content=WORDS), message("user"), agent(content=" ", reasoning="hm")]
    of = made(CONVERSATION, chat)
    assert [m["trainable"] for m in of.rows["messages"].to_list()[0]] == [False, True, False, False]
    assert reasons(made(TURN, chat)) == [("row_0#3", "empty_turn")]
    assert reasons(made(JUDGED, chat)) == [("row_0", "empty_turn")]


def test_a_turn_that_others_wrote_carries_no_loss() -> None:
    chat = [message("user"), agent(call("a"), trainable=False), result("a"), agent(call("b"))]
    assert made(CONVERSATION, chat).rows["_all_trainable"].to_list() == [False]
    assert made(TURN, chat).rows["row_id"].to_list() == ["row_0#3"]
    assert reasons(made(JUDGED, chat[:2])) == [("row_0", "not_trainable")]


@pytest.mark.parametrize(
    ("chat", "reason"),
    [
        (None, "no_messages"),
        ([message("user"), message("user")], "no_agent_turn"),
        ([message("user"), agent(content=WORDS, trainable=False)], "nothing_trainable"),
        ([message("user"), agent(content="too short")], "too_little_to_learn"),
    ],
)
def test_a_row_that_teaches_nothing_is_left_out(chat: Chat, reason: str) -> None:
    assert reasons(made(CONVERSATION, chat)) == [("row_0", reason)]
    assert [r for _, r in reasons(made(TURN, chat))] == [reason]


def test_words_or_one_call_are_enough() -> None:
    assert made(CONVERSATION, [message("user"), agent(content=WORDS)]).left.is_empty()
    assert made(CONVERSATION, [message("user"), agent(call("a"), content="")]).left.is_empty()


@pytest.mark.parametrize("text", ["a b c", "a, b", "3 \u2713 4", "字 a b", "d_e - f"])
def test_words_and_signs_are_counted(text: str) -> None:
    chat = [message("user"), agent(content=text)]
    assert reasons(made(CONVERSATION, chat, options={"min_words": 4})) == [("row_0", "too_little_to_learn")]
    assert made(CONVERSATION, chat, options={"min_words": 3}).left.is_empty()


@pytest.mark.parametrize("kind", [CONVERSATION, TURN])
@pytest.mark.parametrize(("status", "truncated"), [("limit", None), ("completed", True)])
def test_attempts_that_were_cut_are_left_out_unless_told(kind: Kind, status: str, truncated: bool | None) -> None:
    lookups = attempts(1, status, truncated=truncated)
    of = kind.build(rows(SOUND), lookups, DatasetOptions())
    assert set(of.left["reason"]) == {"attempt_truncated"}
    assert of.rows.is_empty()
    assert kind.build(rows(SOUND), lookups, DatasetOptions(keep_truncated=True)).left.is_empty()


def test_rows_without_a_task_share_one_when_they_begin_alike() -> None:
    chats = [
        [message("user", words), agent(content=WORDS), message("user", "x"), agent()]
        for words in ("Fix  the\nbug", " fix the bug ", "Another")
    ]
    first, second, third = made(CONVERSATION, *chats, task_id=None).rows["task_id"].to_list()
    assert first == second != third
    assert first.startswith("prompt/")
    assert len(first) == len("prompt/") + 16
    assert reasons(made(CONVERSATION, [message("system"), agent(call("a"))], task_id=None)) == [("row_0", "no_task")]


@pytest.mark.parametrize("kind", [CONVERSATION, TURN, JUDGED])
def test_tools_and_system_are_supplied_where_a_row_has_none(kind: Kind) -> None:
    chats = [[message("user"), agent(call("a"))]] * 3
    tools = pl.Series(["[]", None, '[{"own": 1}]'])
    own = made(kind, *chats, tools=tools).rows
    assert own["tools"].to_list() == [None, None, '[{"own": 1}]']
    given_ = made(kind, *chats, tools=tools, options={"tools": GIVEN, "system": "be brief"}).rows
    assert given_["tools"].to_list() == [GIVEN, GIVEN, '[{"own": 1}]']
    assert {chat[0]["content"] for chat in given_[kind.chats[0]].to_list()} == {"be brief"}
    # What is added does not move the turns that rows are named for.
    assert given_["row_id"].to_list() == own["row_id"].to_list()


def test_the_verdict_is_of_the_last_turn_with_all_before_it_as_prompt() -> None:
    of = made(JUDGED, SOUND, SOUND, SOUND, passed=pl.Series([True, False, None]))
    assert of.rows["label"].to_list() == [True, False]
    assert [[m["content"] for m in p] for p in of.rows["prompt"].to_list()] == [["s", "do", "y", "r"]] * 2
    assert [[m["content"] for m in p] for p in of.rows["completion"].to_list()] == [["done"]] * 2
    assert reasons(of) == [("row_2", "no_verdict")]


def test_a_completion_of_several_messages_goes_on_where_the_prompt_ends() -> None:
    table = rows(None).with_columns(
        prompt=pl.Series([SOUND[:2]], dtype=CHAT), completion=pl.Series([SOUND[2:]], dtype=CHAT)
    )
    of = JUDGED.build(table, attempts(1), DatasetOptions())
    assert [m["content"] for m in of.rows["prompt"].to_list()[0]] == ["s", "do", "y", "r"]


def test_judged_turns_need_something_to_answer() -> None:
    assert reasons(made(JUDGED, [message("system"), agent()])) == [("row_0", "no_prompt")]
    assert reasons(made(JUDGED, [message("user"), agent(call("a", "oops"))])) == [("row_0", "arguments_not_object")]
    assert reasons(made(JUDGED, None, [message("user")])) == [("row_0", "no_messages"), ("row_1", "no_agent_turn")]
