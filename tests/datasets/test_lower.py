from __future__ import annotations

import json
import re
from typing import Any

import polars as pl
import pytest

from expcomp.datasets.contract import LEFT
from expcomp.datasets.lower import DETAILS, lower
from expcomp.tables.targets import TARGETS
from tests.datasets.logical import (
    ANSWER,
    ASKED,
    BARE,
    BESIDE,
    CHATS,
    LIST,
    ODD,
    OPENING,
    PARALLEL,
    TOOLS,
    call,
    conversations,
    message,
    pairs,
    prompts,
    result,
    rows_of,
    turns,
)

MASKED = [
    *BARE[:1],
    message("assistant", "Four.", trainable=False),
    message("user", "No."),
    message("assistant", "Three."),
]


def lowered(name: str, rows: pl.DataFrame) -> list[dict[str, Any]]:
    low = lower(TARGETS[name], rows)
    assert low.left.is_empty()
    return low.frame.to_dicts()


def reasons(name: str, rows: pl.DataFrame) -> dict[str, str]:
    left = lower(TARGETS[name], rows).left
    return dict(zip(left["row_id"].str.strip_prefix("row-"), left["reason"], strict=True))


def chat(name: str, messages: list[Any], column: str = "messages") -> list[dict[str, Any]]:
    return lowered(name, conversations({"parallel": messages}))[0][column]


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_gets_its_columns_and_every_row_is_in_one_part(name: str) -> None:
    target, rows = TARGETS[name], rows_of(TARGETS[name].kind)
    low = lower(target, rows)
    assert dict(low.frame.schema) == {n: c.dtype for n, c in target.columns.items()}
    assert dict(low.left.schema) == LEFT
    assert low.frame.height + low.left.height == rows.height
    if low.frame.height:
        required = [n for n, c in target.columns.items() if not c.nullable]
        assert low.frame.select(pl.col(required).is_null().any()).row(0) == (False,) * len(required)
    assert set(low.left["reason"]) <= set(DETAILS)
    assert low.left["detail"].null_count() == 0


@pytest.mark.parametrize("name", TARGETS)
def test_no_rows_give_an_empty_frame_of_the_same_columns(name: str) -> None:
    low = lower(TARGETS[name], rows_of(TARGETS[name].kind).head(0))
    assert low.frame.is_empty()
    assert list(low.frame.columns) == list(TARGETS[name].columns)


@pytest.mark.parametrize("name", TARGETS)
def test_a_row_is_lowered_alike_whatever_stands_beside_it(name: str) -> None:
    rows = rows_of(TARGETS[name].kind)
    whole = lower(TARGETS[name], rows)
    alone = [lower(TARGETS[name], rows.slice(at, 1), start=at) for at in range(rows.height)]
    assert pl.concat([a.frame for a in alone]).equals(whole.frame)
    assert pl.concat([a.left for a in alone]).equals(whole.left)


def test_no_column_has_a_name_the_trainer_reserves() -> None:
    assert [t.name for t in TARGETS.values() if t.reserved & set(t.columns)] == []


def test_typed_messages_have_the_shape_of_openai() -> None:
    asked, answered = chat("trl-sft", CHATS["parallel"])[2:4]
    assert asked["content"] == ""
    assert asked["reasoning_content"] == f"Two calls at once. {ODD}"
    assert asked["tool_calls"] == [
        {"id": c["id"], "type": "function", "function": {"name": c["name"], "arguments": c["arguments"]}}
        for c in PARALLEL
    ]
    assert (answered["tool_call_id"], answered["name"]) == ("call_1", "find_gauge")
    assert (answered["tool_calls"], answered["reasoning_content"]) == (None, None)


def test_what_is_empty_is_absent_in_typed_messages() -> None:
    said = chat("trl-sft", [BARE[0], message("assistant", "Three.", reasoning="", tool_calls=[])])[-1]
    assert (said["reasoning_content"], said["tool_calls"]) == (None, None)


@pytest.mark.parametrize(("name", "field"), [("axolotl", "training"), ("ms-swift", "loss")])
def test_a_flag_says_which_assistant_turns_carry_loss(name: str, field: str) -> None:
    assert [m[field] for m in chat(name, MASKED)] == [None, False, None, True]


@pytest.mark.parametrize("name", ["trl-sft", "verl-sft", "llama-factory", "openrlhf", "nemo-rl", "prime-rl"])
def test_a_turn_without_loss_keeps_a_row_from_trainers_without_a_mask(name: str) -> None:
    rows = conversations({"masked": MASKED, "bare": BARE})
    assert reasons(name, rows) == {"masked": "turn_without_loss"}
    assert lower(TARGETS[name], rows).frame["row_id"].to_list() == ["row-bare"]


def test_a_trainer_that_drops_reasoning_gets_it_in_the_content() -> None:
    said = chat("ms-swift", CHATS["beside"])
    assert said[-1]["content"] == "<think>\nTwelve is more than three.\n</think>\n\nGauge 12."
    assert [m["reasoning_content"] for m in said] == [None] * len(said)
    assert json.loads(said[2]["tool_calls"][0]["function"]["arguments"])["site"] is None


def test_pairs_of_ms_swift_are_whole_conversations() -> None:
    row = lowered("ms-swift-dpo", pairs({"parallel": CHATS["parallel"]}))[0]
    assert row["messages"][:-1] == row["rejected_messages"][:-1]
    assert [row[c][-1]["content"] for c in ("messages", "rejected_messages")] == [ANSWER["content"], "One more look."]


def test_text_messages_hold_calls_and_results_in_tags() -> None:
    said = chat("verl-sft", CHATS["beside"])
    assert [m["role"] for m in said] == ["system", "user", "assistant", "user", "assistant", "user", "assistant"]
    found = re.findall(r"<tool_call>\n(.*)\n</tool_call>", said[2]["content"])
    assert [json.loads(f) for f in found] == [
        {"name": c["name"], "arguments": json.loads(c["arguments"])} for c in PARALLEL
    ]
    assert said[2]["content"].startswith(f"<think>\nTwo calls at once. {ODD}\n</think>\n\n<tool_call>")
    assert said[3]["content"] == (
        '<tool_response>\n{"level": 12}\n</tool_response>\n<tool_response>\n2026-01-02\n</tool_response>'
    )
    assert said[4]["content"].startswith("One more look.\n<tool_call>\n")


def test_results_of_two_turns_are_two_user_turns() -> None:
    more = [
        message("assistant", "", tool_calls=[call("call_9", "list_sites", {})]),
        result("call_9", "list_sites", "[]"),
    ]
    assert [m["role"] for m in chat("openrlhf", [*BARE[:1], *more, *more, ANSWER])] == [
        "system",
        "user",
        *["assistant", "user"] * 2,
        "assistant",
    ]


@pytest.mark.parametrize("name", ["verl-sft", "openrlhf"])
def test_tools_stand_in_the_system_text(name: str) -> None:
    told = chat(name, CHATS["parallel"])[0]["content"]
    assert told.startswith(OPENING[0]["content"] + "\n\n")
    assert json.loads(re.findall(r"<tools>\n(.*)\n</tools>", told)[0]) == json.loads(TOOLS)
    assert [m["role"] for m in chat(name, BARE)] == ["system", "user", "assistant"]
    assert [m["role"] for m in lowered(name, conversations({"bare": BARE}))[0]["messages"]] == ["user", "assistant"]


def test_tools_stand_in_the_system_text_of_typed_pairs() -> None:
    rows = lowered("openrlhf-dpo", pairs({"parallel": CHATS["parallel"], "two_users": CHATS["two_users"]}))
    assert [m["role"] for m in rows[0]["prompt"]] == ["system", "user", "assistant", "tool", "tool"]
    assert f"<tools>\n{TOOLS}\n</tools>" in rows[0]["prompt"][0]["content"]
    assert [m["role"] for m in rows[1]["prompt"]] == ["user", "user"]


def test_questions_in_a_row_stay_apart_in_text() -> None:
    assert [m["content"] for m in lowered("openrlhf", conversations({"u": CHATS["two_users"]}))[0]["messages"]] == [
        "First.",
        "Second.",
        "Both.",
    ]


def test_verl_prompts_carry_their_place_and_leave_tools_to_the_trainer() -> None:
    low = lower(TARGETS["verl-rl"], prompts(), split="test", start=7)
    first, second = low.frame.to_dicts()
    assert first["data_source"] == "expcomp/rivers"
    assert first["reward_model"] == {"style": "rule", "ground_truth": '{"gauge": 12}'}
    assert [m["content"] for m in first["prompt"]] == [m["content"] for m in OPENING]
    assert [(r["extra_info"]["split"], r["extra_info"]["index"]) for r in (first, second)] == [("test", 7), ("test", 8)]


@pytest.mark.parametrize("name", ["verl-rl", "openrlhf-rl", "nemo-rl-grpo"])
def test_a_prompt_needs_a_ground_truth_where_the_trainer_does(name: str) -> None:
    assert reasons(name, prompts()) == {"open": "no_ground_truth"}


@pytest.mark.parametrize("name", ["trl-grpo", "ms-swift-grpo"])
def test_a_prompt_needs_no_ground_truth_elsewhere(name: str) -> None:
    assert reasons(name, prompts()) == {}


@pytest.mark.parametrize("name", ["trl-reward", "openrlhf-dpo"])
def test_a_pair_without_a_margin_is_left_out_where_the_column_must_be_whole(name: str) -> None:
    assert reasons(name, pairs(CHATS)) == {"bare": "no_margin"}
    assert reasons("trl-dpo", pairs(CHATS)) == {}


def test_a_nemo_prompt_is_one_text() -> None:
    rows = lower(TARGETS["nemo-rl-grpo"], prompts()).frame
    assert rows["input"][1] == "How many gauges?"
    assert rows["input"][0].endswith(OPENING[1]["content"])
    assert TOOLS in rows["input"][0]


def test_nemo_pairs_rank_the_better_completion_first() -> None:
    row = lowered("nemo-rl-dpo", pairs({"parallel": CHATS["parallel"]}))[0]
    assert [(c["rank"], c["completion"][0]["content"]) for c in row["completions"]] == [
        (0, ANSWER["content"]),
        (1, "One more look."),
    ]
    assert len(row["context"]) == len(ASKED)


def calls_of(value: str) -> tuple[str, Any]:
    """What LLaMA-Factory's function formatter (0.9.5) finds in a value: the words before the calls, and the calls."""
    if found := re.search(r"<tool_call>(.*?)</tool_call>", value, re.DOTALL):
        return value.replace(found.group(0), ""), json.loads(found.group(1))
    found = re.search(r"<think>\n(.*?)\n</think>\n\n", value, re.DOTALL)
    words = found.group(0) if found else ""
    return words, json.loads(value.replace(words, "") if words else value)


def test_sharegpt_turns_stand_in_turn() -> None:
    row = lowered("llama-factory", conversations({"beside": CHATS["beside"]}))[0]
    speakers = [m["from"] for m in row["conversations"]]
    assert speakers == ["human", "function_call", "observation", "function_call", "observation", "gpt"]
    assert (row["system"], row["tools"]) == (OPENING[0]["content"], TOOLS)
    assert json.loads(row["conversations"][2]["value"]) == ['{"level": 12}', "2026-01-02"]
    assert row["conversations"][4]["value"] == "42"
    assert row["conversations"][5]["value"] == "<think>\nTwelve is more than three.\n</think>\n\nGauge 12."


def test_sharegpt_calls_are_found_by_the_trainer_with_the_words_beside_them() -> None:
    said = chat("llama-factory", CHATS["beside"], "conversations")
    words, calls = calls_of(said[1]["value"])
    assert words == f"<think>\nTwo calls at once. {ODD}\n</think>\n\n"
    assert calls == [{"name": c["name"], "arguments": json.loads(c["arguments"])} for c in PARALLEL]
    words, calls = calls_of(said[3]["value"])
    assert words == "One more look.\n"
    assert calls == [{"name": "find_gauge", "arguments": {"site": ODD, "limit": 2**53 + 1}}]


@pytest.mark.parametrize("text", ["", "Look."])
@pytest.mark.parametrize("mark", ["<tool_call>{}</tool_call>", "<think>\nno\n</think>\n\n"])
def test_marks_in_arguments_do_not_mislead_the_trainer(text: str, mark: str) -> None:
    asked = message("assistant", text, tool_calls=[call("c", "write", {"text": mark})])
    said = chat("llama-factory", [BARE[0], asked, result("c", "write", "ok"), ANSWER], "conversations")
    assert calls_of(said[1]["value"])[1] == [{"name": "write", "arguments": {"text": mark}}]


@pytest.mark.parametrize("field", ["content", "reasoning"])
def test_marks_in_the_words_of_a_call_keep_the_row_out(field: str) -> None:
    asked = {**message("assistant", "", tool_calls=[call("c", "list_sites", {})]), field: "I write <tool_call> next."}
    rows = conversations({"mark": [BARE[0], asked, result("c", "list_sites", "[]"), ANSWER], "bare": BARE})
    assert reasons("llama-factory", rows) == {"mark": "marker_in_text"}


def test_sharegpt_joins_questions_and_knows_empty_system_and_tools() -> None:
    row = lowered("llama-factory", conversations({"two_users": CHATS["two_users"]}))[0]
    assert row["conversations"] == [{"from": "human", "value": "First.\n\nSecond."}, {"from": "gpt", "value": "Both."}]
    assert (row["system"], row["tools"]) == ("", "")


@pytest.mark.parametrize(
    "messages",
    [
        [BARE[0], BARE[1], BARE[1]],
        [BARE[1]],
        [*ASKED, message("user", "And?"), ANSWER],
        [OPENING[0], BARE[1], *BARE],
    ],
)
def test_rows_that_do_not_alternate_are_left_out_of_sharegpt(messages: list[Any]) -> None:
    assert reasons("llama-factory", conversations({"odd": messages, "bare": BARE})) == {"odd": "role_order"}


def test_sharegpt_pairs_end_with_a_question_and_hold_one_message_a_side() -> None:
    row = lowered("llama-factory-dpo", pairs({"parallel": CHATS["parallel"]}))[0]
    assert [m["from"] for m in row["conversations"]] == ["human", "function_call", "observation"]
    assert row["chosen"] == {"from": "gpt", "value": ANSWER["content"]}
    assert calls_of(row["rejected"]["value"]) == (
        "One more look.\n",
        [{"name": "find_gauge", "arguments": json.loads(BESIDE["tool_calls"][0]["arguments"])}],
    )


def test_a_verdict_on_an_empty_answer_is_left_out_of_sharegpt() -> None:
    rows = turns("judged", {"none": [BARE[0], message("assistant", "")], "bare": BARE})
    assert reasons("llama-factory-kto", rows) == {"none": "empty_answer"}
    assert lower(TARGETS["llama-factory-kto"], rows).frame["kto_tag"].to_list() == [False]


def test_names_of_functions_are_escaped_in_text() -> None:
    asked = message("assistant", "", tool_calls=[call("c", 'a"b', LIST)])
    said = chat("verl-sft", [BARE[0], asked, result("c", 'a"b', "ok"), ANSWER])[2]["content"]
    assert json.loads(said.split("\n")[1]) == {"name": 'a"b', "arguments": LIST}
