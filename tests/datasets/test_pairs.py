"""Pairs: where they are cut, what leaves them out, and what both sides share."""

from __future__ import annotations

import json
from typing import Any

import polars as pl
import pytest

from expcomp.datasets.contract import LEFT, LOGICAL, Lookups, Made
from expcomp.datasets.options import DatasetOptions
from expcomp.datasets.pairs import PAIR
from expcomp.tables.families import BY_NAME

Message = dict[str, Any]
NOTHING = Lookups(pl.DataFrame(), pl.DataFrame(), {})


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def agent(text: str | None, *calls: tuple[str | None, str, str], **more: Any) -> Message:
    made = [{"id": i, "name": n, "arguments": a} for i, n, a in calls]
    return {"role": "assistant", "content": text, "tool_calls": made or None, "trainable": True, **more}


def tool(text: str, call: str | None = None) -> Message:
    return {"role": "tool", "content": text, "tool_call_id": call}


ASK = [user("Refund order A-1009.")]
GOOD = [agent("I look it up first, before any money moves.")]
BAD = [agent("Refunded it in full, have a nice day now.")]


def family(*rows: dict[str, Any]) -> pl.DataFrame:
    table = BY_NAME["preference_pair"].table
    base = {
        "task_id": "t",
        "pair_level": "attempt",
        "chosen_attempt_id": "a",
        "rejected_attempt_id": "b",
        "margin": 1.0,
    }
    lines = [
        {"row_id": f"row_{i}", "prompt": ASK, "chosen": GOOD, "rejected": BAD, **base, **r} for i, r in enumerate(rows)
    ]
    # Keys that a message does not name are null.
    return pl.DataFrame(lines, schema={n: c.dtype for n, c in table.columns.items()}, strict=False)


def build(*rows: dict[str, Any], **options: Any) -> Made:
    return PAIR.build(family(*rows), NOTHING, DatasetOptions(**{"length_ratio": None, **options}))


def reasons(*rows: dict[str, Any], **options: Any) -> dict[str, str]:
    made = build(*rows, **options)
    assert made.rows.height + made.left.height == len(rows)
    assert made.left["detail"].null_count() == 0
    return dict(made.left.select("row_id", "reason").iter_rows())


def texts(made: Made, column: str) -> list[list[str]]:
    return made.rows[column].list.eval(pl.element().struct.field("content")).to_list()


def test_a_pair_keeps_the_shared_history_and_the_first_turn_of_each_side() -> None:
    later = [tool("39.9", "c1"), agent("Done.")]
    made = build({
        "chosen": [agent("", ("c1", "look", "{}")), *later],
        "rejected": BAD,
        "tools": '[{"type":"function"}]',
    })  # fmt: skip
    assert made.rows.schema == LOGICAL["pair"]
    assert made.left.schema == LEFT
    row = made.rows.row(0, named=True)
    assert [m["content"] for m in row["prompt"]] == ["Refund order A-1009."]
    assert [len(row["chosen"]), len(row["rejected"])] == [1, 1]
    assert row["chosen"][0]["tool_calls"] == [{"id": "c1", "name": "look", "arguments": "{}"}]
    assert row["rejected"][0]["content"] == BAD[0]["content"]
    assert (row["task_id"], row["chosen_attempt_id"], row["rejected_attempt_id"]) == ("t", "a", "b")
    assert (row["margin"], row["tools"]) == (1.0, '[{"type":"function"}]')
    assert (row["_chosen_chars"], row["_rejected_chars"]) == (len("look{}"), len(BAD[0]["content"]))
    assert row["_chars"] == row["_chosen_chars"] + row["_rejected_chars"]


@pytest.mark.parametrize(
    "row",
    [
        {"chosen": [user("Hello?"), *GOOD]},
        {"rejected": [user("Hello?"), *BAD]},
        {"rejected": [tool("x"), *BAD]},
        {"prompt": [*ASK, agent("Hi.")]},
        {"prompt": [{"role": "system", "content": "Be kind."}]},
        {"prompt": []},
        {"prompt": None},
        {"chosen": None},
        {"rejected": []},
    ],
)
def test_sides_that_part_in_what_the_agent_did_not_write_are_no_pair(row: dict[str, Any]) -> None:
    assert reasons(row) == {"row_0": "no_shared_prompt"}


def test_sides_that_part_in_the_answer_to_one_turn_are_no_pair() -> None:
    look = agent("", ("c1", "look", '{"id": 1}'))
    again = agent("", ("c9", "look", '{"id": 1}'))
    row = {"chosen": [look, tool("found", "c1"), *GOOD], "rejected": [again, tool("timeout", "c9"), *BAD]}
    assert reasons(row) == {"row_0": "no_shared_prompt"}


def test_small_and_unknown_margins_are_left_out_and_step_pairs_stay() -> None:
    rows = [
        {"margin": 0.49},
        {"margin": 0.5},
        {"margin": None},
        {"margin": None, "pair_level": "step"},
    ]
    assert reasons(*rows) == {"row_0": "margin_below", "row_2": "margin_unknown"}
    assert reasons(rows[0], min_margin=0.2) == {}


LOOK = '{"city": "Oslo", "unit": {"a": 1, "b": [1, 2]}}'


@pytest.mark.parametrize(
    ("one", "two", "equal"),
    [
        (agent("It is  12 C.\n"), agent(" It is 12 C."), True),
        (agent(None, ("c1", "w", LOOK)), agent("", ("c2", "w", LOOK)), True),
        (agent("", ("c1", "w", LOOK)), agent("", ("c1", "w", json.dumps(json.loads(LOOK), indent=2))), True),
        (agent("", ("c1", "w", LOOK)), agent("", ("c1", "w", '{"unit":{"b":[1,2],"a":1},"city":"Oslo"}')), True),
        (agent("", ("c1", "w", LOOK)), agent("", ("c1", "w", '{"unit":{"b":[2,1],"a":1},"city":"Oslo"}')), False),
        (agent("", ("c1", "w", LOOK)), agent("", ("c1", "v", LOOK)), False),
        (agent("", ("c1", "w", '{"a":1,"b":2}')), agent("", ("c1", "w", '{"a":2,"b":1}')), False),
        (agent("", ("c1", "w", '{"t":"a b"}')), agent("", ("c1", "w", '{"t":"ab "}')), False),
        (agent("", ("c1", "w", "{}"), ("c2", "w", "{}")), agent("", ("c1", "w", "{}")), False),
        (agent("It is 12 C.", reasoning="one"), agent("It is 12 C.", reasoning="two"), False),
        (agent("It is 12 C."), agent("It is 13 C."), False),
    ],
)
def test_sides_equal_up_to_ids_space_and_key_order_are_no_pair(one: Message, two: Message, equal: bool) -> None:
    assert reasons({"chosen": [one], "rejected": [two]}) == ({"row_0": "equal_sides"} if equal else {})


def test_the_ratio_of_lengths_is_bounded_on_both_ends() -> None:
    rows = [{"chosen": [agent("x" * n)], "rejected": [agent("y" * 20)]} for n in (9, 10, 40, 41)]
    assert reasons(*rows, length_ratio=(0.5, 2.0)) == {"row_0": "length_ratio", "row_3": "length_ratio"}
    assert reasons(*rows) == {}


def test_lengths_count_reasoning_names_and_arguments() -> None:
    made = build({"chosen": [agent("ab", ("c", "look", '{"a":1}'), reasoning="hmm")]})
    assert made.rows["_chosen_chars"].to_list() == [len('ablook{"a":1}hmm')]


def test_a_side_without_text_and_call_is_no_pair() -> None:
    assert reasons({"rejected": [agent("  ", reasoning="I give up.")]}) == {"row_0": "empty_turn"}


@pytest.mark.parametrize("side", ["chosen", "rejected"])
def test_a_side_that_another_wrote_is_no_pair(side: str) -> None:
    assert reasons({side: [agent("Copied from the prompt.", trainable=False)]}) == {"row_0": "not_trainable"}


@pytest.mark.parametrize("side", ["chosen", "rejected"])
def test_an_unsound_side_or_history_is_left_out_with_its_own_reason(side: str) -> None:
    assert reasons({side: [agent("", ("c", "look", "[1]"))]}) == {"row_0": "arguments_not_object"}
    open_call = [*ASK, agent("", ("c1", "look", "{}"), ("c2", "look", "{}")), tool("1", "c1")]
    assert reasons({"prompt": open_call}) == {"row_0": "call_unanswered"}


def ids(chat: list[Message]) -> list[str | None]:
    return [c["id"] for m in chat for c in m["tool_calls"] or ()] + [
        m["tool_call_id"] for m in chat if m["role"] == "tool"
    ]


@pytest.mark.parametrize("broken", ["chosen", "rejected", "both", "prompt", "none"])
def test_call_ids_of_the_history_are_the_same_for_both_sides_and_unique(broken: str) -> None:
    first = "c1" if broken != "prompt" else None
    history = [*ASK, agent("", (first, "look", '{"n": 1}')), tool("39.9", first)]
    repeats = {"chosen": ("c1", "c2"), "rejected": ("c2", "c1"), "both": ("c1", None)}.get(broken, ("c2", "c3"))
    made = build({
        "prompt": history,
        "chosen": [agent("", (repeats[0], "pay", "{}"))],
        "rejected": [agent("", (repeats[1], "void", "{}"))],
    })  # fmt: skip
    row = made.rows.row(0, named=True)
    prompt, chosen, rejected = (ids(row[c]) for c in ("prompt", "chosen", "rejected"))
    assert prompt[0] == prompt[1] is not None
    for side in (chosen, rejected):
        assert side[0] not in {None, prompt[0]}
    if broken == "none":
        assert (prompt, chosen, rejected) == (["c1", "c1"], ["c2"], ["c3"])
    else:
        assert (prompt, chosen, rejected) == (["call_0001"] * 2, ["call_0002"], ["call_0002"])


def test_equal_content_has_equal_hashes_whatever_the_ids() -> None:
    def row(call: str) -> dict[str, Any]:
        return {"prompt": [*ASK, agent("", (call, "look", "{}")), tool("1", call)]}

    made = build(row("c1"), row("c2"), {**row("c1"), "rejected": GOOD, "chosen": BAD}, {**row("c1"), "tools": "[1]"})
    hashes = made.rows["_hash"].to_list()
    assert hashes[0] == hashes[1]
    assert len(set(hashes)) == 3


def test_a_system_prompt_and_tools_are_supplied_where_there_are_none() -> None:
    own = {"prompt": [{"role": "system", "content": "Own."}, *ASK], "tools": "[7]"}
    given = '[{"type":"function","function":{"name":"given"}}]'
    made = build({}, own, system="Given.", tools=given)
    assert [p[0] for p in texts(made, "prompt")] == ["Given.", "Own."]
    assert made.rows["tools"].to_list() == [given, "[7]"]


def test_a_step_pair_without_a_task_is_named_after_its_prompt() -> None:
    made = build({"task_id": None, "margin": None, "pair_level": "step"})
    assert made.rows["task_id"].str.starts_with("prompt/").to_list() == [True]


def test_cuts_of_the_family_do_not_show_in_the_rows() -> None:
    rows = [
        {"margin": (i % 3) / 2, "chosen": [agent(f"Answer {i}.")], "rejected": BAD if i % 4 else GOOD}
        for i in range(12)
    ]
    frame, options = family(*rows), DatasetOptions(length_ratio=None)
    whole = PAIR.build(frame, NOTHING, options)
    parts = [PAIR.build(frame[i : i + 5], NOTHING, options) for i in range(0, 12, 5)]
    assert pl.concat(p.rows for p in parts).equals(whole.rows)
    assert pl.concat(p.left for p in parts).equals(whole.left)


def test_no_rows_give_no_rows() -> None:
    made = build()
    assert (made.rows.schema, made.left.schema) == (LOGICAL["pair"], LEFT)
    assert made.rows.is_empty()
