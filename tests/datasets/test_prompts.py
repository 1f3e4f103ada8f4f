"""Prompts for rollouts: which tasks are worth sampling, and what is known of them."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expcomp.datasets.contract import LEFT, LOGICAL, Lookups, Made
from expcomp.datasets.options import DatasetOptions
from expcomp.datasets.prompts import PROMPT, wilson
from expcomp.tables.families import BY_NAME

ASK = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Make the test pass."}]


def family(*rows: dict[str, Any]) -> pl.DataFrame:
    table = BY_NAME["grpo_rollout_group"].table
    base = {"prompt": ASK, "pass_rate": 0.5, "group_size": 8}
    lines = [
        {"row_id": f"row_{i}", "task_id": f"t{i}", "attempt_ids": [f"t{i}.{k}" for k in range(8)], **base, **r}
        for i, r in enumerate(rows)
    ]
    return pl.DataFrame(lines, schema={n: c.dtype for n, c in table.columns.items()}, strict=False)


def lookups(verdicts: dict[str, bool | None] | None = None, **task: str | None) -> Lookups:
    text = pl.String()
    tasks = {"task_id": "t0", "target": None, "verifier": None, "benchmark": None, **task}
    known = verdicts or {}
    return Lookups(
        pl.DataFrame(
            {"attempt_id": list(known), "passed": list(known.values())},
            schema={"attempt_id": text, "passed": pl.Boolean},
        ),
        pl.DataFrame([tasks], schema=dict.fromkeys(tasks, text)),
        {},
    )


def build(*rows: dict[str, Any], look: Lookups | None = None, **options: Any) -> Made:
    return PROMPT.build(family(*rows), look or lookups(), DatasetOptions(**options))


def reasons(*rows: dict[str, Any], **options: Any) -> dict[str, str]:
    made = build(*rows, **options)
    assert made.rows.height + made.left.height == len(rows)
    assert made.left["detail"].null_count() == 0
    return dict(made.left.select("row_id", "reason").iter_rows())


def test_a_task_gives_its_prompt_and_what_is_known_of_it() -> None:
    look = lookups(target='{"exit_code": 0}', verifier="pytest", benchmark="code")
    made = build({"tools": "[1]", "evidence_ids": ["e"]}, look=look)
    assert made.rows.schema == LOGICAL["prompt"]
    assert made.left.schema == LEFT
    row = made.rows.row(0, named=True)
    assert [m["content"] for m in row["prompt"]] == ["Be kind.", "Make the test pass."]
    assert (row["ground_truth"], row["verifier"], row["benchmark"]) == ('{"exit_code": 0}', "pytest", "code")
    assert (row["task_id"], row["tools"], row["pass_rate"], row["n_attempts"]) == ("t0", "[1]", 0.5, 8)
    assert (round(row["pass_rate_low"], 6), round(row["pass_rate_high"], 6)) == (0.215216, 0.784784)
    assert row["_chars"] == sum(len(m["content"]) for m in ASK)


def test_a_target_that_is_a_text_stays_json() -> None:
    assert build({}, look=lookups(target='"Oldboy"')).rows["ground_truth"].to_list() == ['"Oldboy"']


def test_what_is_unknown_stays_null() -> None:
    row = build({"task_id": "elsewhere"}).rows.row(0, named=True)
    assert (row["ground_truth"], row["verifier"], row["benchmark"], row["tools"]) == (None, None, None, None)


def test_reasons_to_leave_a_task_out() -> None:
    rows = [
        {"pass_rate": None},
        {"pass_rate": 0.09},
        {"pass_rate": 0.1},
        {"pass_rate": 0.9},
        {"pass_rate": 1.0},
        {"group_size": 1, "attempt_ids": ["x"]},
        {"prompt": ASK[:1]},
        {"prompt": [*ASK, {"role": "assistant", "content": "Hi."}]},
        {"prompt": []},
        {"prompt": [*ASK, {"role": "tool", "content": "x", "tool_call_id": "c"}]},
    ]
    assert reasons(*rows) == {
        "row_0": "pass_rate_unknown",
        "row_1": "pass_rate_band",
        "row_4": "pass_rate_band",
        "row_5": "few_attempts",
        "row_6": "prompt_end",
        "row_7": "prompt_end",
        "row_8": "no_messages",
        "row_9": "result_without_call",
    }
    assert reasons(*rows[:5], pass_rate=(0.0, 1.0), min_attempts=1) == {"row_0": "pass_rate_unknown"}


def test_a_simulated_user_opens_for_the_prompt_and_its_openings_are_counted() -> None:
    def opened(*words: str) -> list[dict[str, Any]]:
        said = [{"role": "user", "content": w} for w in words]
        return [*said, {"role": "assistant", "content": "Sure."}, {"role": "user", "content": "Thanks."}]

    system = ASK[:1]
    made = build(
        {"prompt": system, "completions": [opened("Hi."), opened("Hello."), opened("Hi.")]},
        {"prompt": system, "completions": [opened("Hi.", "Well?"), opened("Hi.", "Well?")]},
        {"completions": [opened(), opened()]},
        {"prompt": system, "completions": [[], [{"role": "user", "content": "Nobody answers."}]]},
    )
    texts = made.rows["prompt"].list.eval(pl.element().struct.field("content")).to_list()
    assert texts == [["Be kind.", "Hi."], ["Be kind.", "Hi.", "Well?"], [m["content"] for m in ASK]]
    assert made.rows["n_openings"].to_list() == [2, 1, 1]
    assert made.left.select("row_id", "reason").rows() == [("row_3", "prompt_end")]


def test_a_prompt_may_end_with_a_tool() -> None:
    call = {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "name": "look", "arguments": "{}"}]}
    assert reasons({"prompt": [*ASK, call, {"role": "tool", "content": "x", "tool_call_id": "c"}]}) == {}


def test_the_rate_rests_on_attempts_with_a_verdict() -> None:
    verdicts = {"t0.0": True, "t0.1": False, "t0.2": None, "t1.0": True}
    made = build({}, {}, look=lookups(verdicts))
    assert made.rows["n_attempts"].to_list() == [2]
    assert made.left.select("row_id", "reason").rows() == [("row_1", "few_attempts")]


def test_equal_prompts_have_equal_hashes() -> None:
    other = [ASK[0], {"role": "user", "content": "Make it fail."}]
    hashes = build({}, {}, {"prompt": other}).rows["_hash"].to_list()
    assert hashes[0] == hashes[1] != hashes[2]


def test_cuts_of_the_family_do_not_show_in_the_rows() -> None:
    rows = [{"pass_rate": (i % 5) / 4, "prompt": ASK[: 1 + i % 2]} for i in range(12)]
    frame, look, options = family(*rows), lookups(), DatasetOptions()
    whole = PROMPT.build(frame, look, options)
    parts = [PROMPT.build(frame[i : i + 5], look, options) for i in range(0, 12, 5)]
    assert pl.concat(p.rows for p in parts).equals(whole.rows)
    assert pl.concat(p.left for p in parts).equals(whole.left)
    assert PROMPT.build(frame.clear(), look, options).rows.schema == LOGICAL["prompt"]


def interval(k: int, n: int) -> tuple[float, float]:
    low, high = wilson(pl.lit(k / n if n else 0.0), pl.lit(n))
    return pl.select(low=low, high=high).row(0)


@pytest.mark.parametrize(
    ("k", "n", "want"), [(0, 10, (0.0, 0.277533)), (0, 4, (0.0, 0.489891)), (1, 2, (0.094531, 0.905469))]
)
def test_intervals_with_known_ends(k: int, n: int, want: tuple[float, float]) -> None:
    low, high = interval(k, n)
    assert (round(low, 6), round(high, 6)) == want


@settings(deadline=None)
@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_an_interval_holds_its_rate_and_mirrors_that_of_failures(kn: tuple[int, int]) -> None:
    k, n = kn
    low, high = interval(k, n)
    assert 0 <= low <= k / n <= high <= 1
    other = interval(n - k, n)
    assert abs(low + other[1] - 1) < 1e-9 > abs(high + other[0] - 1)


def test_without_attempts_there_is_no_interval() -> None:
    assert interval(0, 0) == (None, None)
