"""One row for human eyes: the loss mask is told, text stays text."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from expcomp.datasets.view import conversation_html, conversation_text


def turn(role: str, content: str, **more: Any) -> dict[str, Any]:
    blank = dict.fromkeys(("reasoning", "tool_calls", "tool_call_id", "name", "trainable", "failed", "media"))
    return blank | {"role": role, "content": content} | more


CALL = {"id": "call_1", "name": "search", "arguments": '{"q": "kettle"}'}
CONVERSATION = {
    "row_id": "r1",
    "task_id": "t1",
    "evidence_ids": ["e1", "e2"],
    "messages": [
        turn("user", "Find it."),
        turn("assistant", "", tool_calls=[CALL], trainable=False, failed=True),
        turn("tool", "nothing", tool_call_id="call_1"),
        turn("assistant", "Sorry.", reasoning="hm", trainable=True),
    ],
    "tools": None,
}


def test_text_tells_what_carries_loss() -> None:
    text = conversation_text(CONVERSATION)
    assert text.startswith("1 of 2 agent turns carry loss: 8 of 38 characters (21%)")
    assert "┃ assistant [loss]" in text
    assert "┃   Sorry." in text
    assert "  assistant (failed)\n" in text
    assert "(call search call_1)" in text
    assert "evidence: e1, e2" in text


def test_a_history_never_carries_loss_and_an_answer_does() -> None:
    row = {"prompt": [turn("assistant", "old", trainable=True)], "completion": [turn("assistant", "new")]}
    # The flag of a logical message is open: its place in the completion decides.
    text = conversation_text(row)
    assert text.startswith("1 of 2 agent turns carry loss: 3 of 6")
    assert "┃   new" in text


def test_wire_rows_are_shown_as_well() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    wire = {"messages": [{"role": "user", "content": "u"}, {"role": "assistant", "content": "a", "tool_calls": [call]}]}
    assert conversation_text(wire).startswith("1 of 1 agent turns")
    flagged = {"messages": [{"role": "assistant", "content": "a", "training": False}]}
    assert conversation_text(flagged).startswith("0 of 1 agent turns")
    shared = {"conversations": [{"from": "human", "value": "u"}, {"from": "gpt", "value": "a"}]}
    assert "┃   a" in conversation_text(shared)
    pair = {
        "conversations": [],
        "chosen": {"from": "gpt", "value": "good"},
        "rejected": {"from": "gpt", "value": "bad"},
    }
    assert "== rejected" in conversation_text(pair)


def test_steps_show_labels_and_sources() -> None:
    row = {"prompt": "task", "completions": ["a", "b"], "labels": [True, None], "label_sources": ["verified", None]}
    text = conversation_text(row)
    assert "step 1: good, by verified [loss]" in text
    assert "step 2: no label\n" in text


def test_ranked_completions() -> None:
    row = {"context": [turn("user", "u")], "completions": [{"rank": 0, "completion": [turn("assistant", "best")]}]}
    assert "== completion of rank 0" in conversation_text(row)


def test_an_empty_row() -> None:
    assert conversation_text({"messages": []}) == "0 of 0 agent turns carry loss: 0 of 0 characters\n"
    assert "xc-row" in conversation_html({"messages": None})


def test_a_prompt_alone_says_that_the_agent_answers_in_training() -> None:
    text = conversation_text({"task_id": "t1", "prompt": [turn("system", "Be brief."), turn("user", "Find it.")]})
    assert text.startswith("a prompt of 2 turns, 17 characters; the agent answers in training\n")
    assert "loss" not in text
    # ms-swift keeps the prompt under another name.
    assert conversation_text({"messages": [{"role": "user", "content": "u"}]}).startswith(
        "a prompt of 1 turn, 1 character;"
    )
    assert "a prompt of 1 turn" in conversation_html({"prompt": "task"})


def test_control_characters_are_made_visible() -> None:
    text = conversation_text({"messages": [turn("user", "\x1b[31mred\r\x07\u202e")]})
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "␛[31mred␍␇" in text


def test_html_escapes_and_marks_loss_in_words() -> None:
    row = CONVERSATION | {
        "messages": [turn("assistant", "<script>alert(1)</script>", trainable=True, name='"><img src=x>')]
    }
    html = conversation_html(row)
    assert "<script" not in html
    assert "<img" not in html
    assert "· loss" in html
    assert "e1, e2" in html


@given(st.text(), st.text(), st.text())
def test_no_text_of_a_row_becomes_markup(role: str, content: str, name: str) -> None:
    call = {"id": name, "name": content, "arguments": role}
    row = {
        "row_id": name,
        "tools": content,
        "evidence_ids": [role],
        "messages": [turn(role, content, tool_calls=[call], name=name)],
    }
    tags = set(re.findall(r"<[^>]*>", conversation_html(row).split("</style>")[1]))
    assert all(re.fullmatch(r'</?(div|pre|b|h4)( class="[a-z -]+")?>', t) for t in tags)
