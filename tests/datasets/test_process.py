"""Labels of steps: each hand-worked case, and what holds of any attempts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import expcomp as xc
from expcomp.datasets.contract import LEFT, LOGICAL, Lookups, Made
from expcomp.datasets.options import DatasetOptions
from expcomp.datasets.process import PROCESS, RULES, build, prepare

STEP = {
    "row_id": pl.String,
    "task_id": pl.String,
    "attempt_id": pl.String,
    "step_index": pl.Int32,
    "evidence_ids": pl.List(pl.String),
    "agent_action": pl.String,
    "observed_result": pl.String,
    "label": pl.Int32,
    "label_source": pl.String,
    "outcome": pl.String,
    "success": pl.Boolean,
    "retry_of_step_index": pl.Int32,
    "truncated": pl.Boolean,
}
ERROR = {"success": False}


def attempt(name: str, *steps: str | tuple[str, dict[str, Any]], task: str | None = "t") -> list[dict[str, Any]]:
    """Steps given by their action, with what differs from an unlabelled step; every second place is a user's."""
    made = []
    for i, step in enumerate(steps):
        action, fields = step if isinstance(step, tuple) else (step, {})
        made.append(
            {
                "row_id": f"{name}.{i}",
                "task_id": task,
                "attempt_id": name,
                "step_index": 2 * i + 1,
                "evidence_ids": [f"e_{name}", f"e_{action}"],
                "agent_action": action,
                "observed_result": f"saw {action}",
                "truncated": False,
                **fields,
            }
        )
    return made


def run(*attempts: list[dict[str, Any]], verdicts: dict[str, Any] | None = None) -> Made:
    """Build from attempts; a verdict is passed or not by a verifier, or (passed, kind of grader)."""
    frame = pl.DataFrame([s for a in attempts for s in a], schema=STEP)
    graded = {n: v if isinstance(v, tuple) else (v, "verifier") for n, v in (verdicts or {}).items()}
    lookups = Lookups(
        pl.DataFrame(
            [
                {
                    "attempt_id": a[0]["attempt_id"],
                    "task_id": a[0]["task_id"],
                    "passed": graded.get(a[0]["attempt_id"], (None, None))[0],
                    "score_norm": None if a[0]["attempt_id"] not in graded else 0.5,
                    "score_valid": True if a[0]["attempt_id"] in graded else None,
                    "grade_kind": graded.get(a[0]["attempt_id"], (None, None))[1],
                }
                for a in attempts
            ],
            schema={
                "attempt_id": pl.String,
                "task_id": pl.String,
                "passed": pl.Boolean,
                "score_norm": pl.Float64,
                "score_valid": pl.Boolean,
                "grade_kind": pl.String,
            },
        ),
        pl.DataFrame({"task_id": ["t", "u", "mute"], "instruction": ["Do it.", "Do that.", " "]}),
        {},
    )
    lookups = replace(lookups, extra={"process": prepare(frame.lazy(), lookups)})
    return build(frame, lookups, DatasetOptions())


def labels(made: Made, name: str) -> list[tuple[bool, str]]:
    row = made.rows.filter(pl.col("attempt_id") == name).select("labels", "label_sources").explode(pl.all())
    return row.rows()


def test_a_success_shares_all_its_steps_with_itself() -> None:
    made = run(attempt("a", "x", "y"), verdicts={"a": True})
    assert labels(made, "a") == [(True, "shared_with_success")] * 2
    assert made.rows.schema == LOGICAL["process"]
    assert made.rows.drop("_hash", "labels", "label_sources").rows() == [
        ("a.0", "t", ["e_a", "e_x", "e_y"], 20, "a", "Do it.", ["x -> saw x", "y -> saw y"])
    ]


def test_a_failed_attempt_is_true_as_far_as_a_success_went_the_same_way() -> None:
    made = run(
        attempt("good", "x", "y", "z"), attempt("bad", "x", "y", "w", "v"), verdicts={"good": True, "bad": False}
    )
    assert labels(made, "bad") == [(True, "shared_with_success")] * 2


@pytest.mark.parametrize(
    "other",
    [
        attempt("bad", "y", "x", "z"),  # other order
        attempt("bad", ("x", {"observed_result": "else"}), "y"),
        attempt("bad", ("x", {"observed_result": None}), "y"),
        attempt("bad", ("x", {"truncated": True}), "y"),  # what was cut off may differ
        attempt("bad", "x", "y", task="u"),
    ],
)
def test_no_prefix_is_shared_with(other: list[dict[str, Any]]) -> None:
    made = run(
        attempt("good", "x", "y", "z"), other, attempt("f", "q"), verdicts={"good": True, "bad": False, "f": False}
    )
    assert made.left.filter(pl.col("row_id") == "bad.0")["reason"].to_list() == ["no_step_label"]


@pytest.mark.parametrize("kind", ["model_judge", "heuristic", "simulated", "human", "unstated"])
def test_a_verdict_that_nothing_verified_makes_no_label(kind: str) -> None:
    made = run(attempt("a", "x"), attempt("b", "x", "y"), verdicts={"a": (True, kind), "b": (False, kind)})
    assert made.left["reason"].to_list() == ["no_step_label"] * 2


def test_an_error_that_a_retry_made_good_is_false_and_what_follows_is_judged_by_itself() -> None:
    steps = [
        ("x", ERROR),
        ("x again", {"retry_of_step_index": 1, "success": False}),
        ("x at last", {"retry_of_step_index": 3, "success": True, "outcome": "corrected"}),
        ("y", {"success": True, "outcome": "progress"}),
    ]
    made = run(attempt("a", *steps), verdicts={"a": (False, "model_judge")})
    assert labels(made, "a") == [
        (False, "execution_error"),
        (False, "execution_error"),
        (True, "recorded_outcome"),
        (True, "recorded_outcome"),
    ]


def test_all_is_false_after_an_error_that_nothing_made_good() -> None:
    fine = {"success": True, "outcome": "progress"}
    steps = [("x", fine), ("y", ERROR), ("y2", {"retry_of_step_index": 3, "success": False}), ("z", fine), "q"]
    made = run(attempt("a", *steps), verdicts={"a": False})
    assert labels(made, "a") == [
        (True, "recorded_outcome"),
        (False, "execution_error"),
        (False, "execution_error"),
        (False, "after_unrecovered_error"),
        (False, "after_unrecovered_error"),
    ]


def test_a_success_recovered_from_all_its_errors() -> None:
    made = run(attempt("a", "x", ("y", ERROR), "z"), verdicts={"a": True})
    assert labels(made, "a") == [
        (True, "shared_with_success"),
        (False, "execution_error"),
        (True, "shared_with_success"),
    ]


def test_the_same_steps_have_the_same_labels_in_a_success_and_in_a_failure() -> None:
    steps = ["x", ("y", ERROR), "z"]
    made = run(attempt("a", *steps), attempt("b", *steps, "w"), verdicts={"a": True, "b": False})
    assert labels(made, "b") == [*labels(made, "a"), (False, "after_unrecovered_error")]


def test_a_row_ends_before_the_first_step_that_nothing_speaks_for() -> None:
    fine = {"outcome": "progress"}
    made = run(attempt("a", ("x", fine), ("y", {"outcome": "neutral"}), ("z", fine)))
    assert labels(made, "a") == [(True, "recorded_outcome")]
    assert made.rows["evidence_ids"].to_list() == [["e_a", "e_x"]]


def test_the_verdict_is_the_label_of_the_last_step() -> None:
    fine = {"outcome": "progress"}
    assert labels(run(attempt("a", "x"), verdicts={"a": False}), "a") == [(False, "verified_final_state")]
    made = run(attempt("a", ("x", fine), ("y", fine)), verdicts={"a": (False, "environment")})
    assert labels(made, "a") == [(True, "recorded_outcome"), (False, "verified_final_state")]


def test_a_judgement_of_the_step_itself_comes_first() -> None:
    judged = {"label_source": "verifier"}
    steps = [("x", {**judged, "label": -1}), ("y", {**judged, **ERROR, "label": 1}), ("z", {**judged, "label": 0}), "q"]
    made = run(attempt("a", *steps), verdicts={"a": True})
    assert labels(made, "a") == [(False, "step_label:verifier"), (True, "step_label:verifier")]


@pytest.mark.parametrize("source", ["heuristic", "outcome", "none", "human_future", None])
def test_a_label_that_nobody_gave_is_none(source: str | None) -> None:
    made = run(attempt("a", ("x", {"label": 1, "label_source": source})))
    assert made.left["reason"].to_list() == ["no_step_label"]


def test_the_flag_of_a_failed_call_is_an_error_where_the_column_is_there() -> None:
    frame = pl.DataFrame(attempt("a", "x", "y"), schema=STEP).with_columns(failed=pl.Series([None, True]))
    lookups = Lookups(
        pl.DataFrame(
            {"attempt_id": ["a"], "task_id": ["t"], "passed": [True], "score_norm": [1.0], "score_valid": [True]}
        ).with_columns(grade_kind=pl.lit("test")),
        pl.DataFrame({"task_id": ["t"], "instruction": ["Do it."]}),
        {"process": pl.DataFrame(schema={"prefix": pl.UInt64})},
    )
    assert build(frame, lookups, DatasetOptions()).rows["labels"].to_list() == [[True, False]]


def test_a_step_is_one_text_that_ends_in_no_separator() -> None:
    steps = [
        ("  x\n", {"observed_result": "\nseen\n\n"}),
        ("y\n", {"observed_result": None}),
        ("z\n", {"observed_result": " \n"}),
        (" ", {"observed_result": "nothing was done"}),
        "w",
    ]
    made = run(attempt("a", *steps), verdicts={"a": True})
    assert made.rows["completions"].to_list() == [["  x -> \nseen", "y", "z"]]


def test_what_is_left_out_says_why() -> None:
    made = run(
        attempt("a", "x", task=None),
        attempt("b", "x", task="mute"),
        attempt("c", "x", task="elsewhere"),
        attempt("d", "x"),
        verdicts=dict.fromkeys("abc", True),
    )
    assert made.rows.is_empty()
    assert made.left.schema == LEFT
    assert made.left.select("row_id", "reason").rows() == [
        ("a.0", "no_task"),
        ("b.0", "no_instruction"),
        ("c.0", "no_instruction"),
        ("d.0", "no_step_label"),
    ]
    assert made.left["detail"].null_count() == 0


def test_equal_content_has_one_hash_and_a_label_is_content() -> None:
    made = run(attempt("a", "x"), attempt("b", "x"), attempt("c", ("x", ERROR)), verdicts=dict.fromkeys("abc", True))
    a, b, c = made.rows["_hash"]
    assert a == b != c


def test_no_rows_make_no_rows() -> None:
    made = run()
    assert (made.rows.height, made.left.height) == (0, 0)
    assert PROCESS.whole == "attempt_id"


# -- any attempts ------------------------------------------------------------------------------------------------------------
steps_ = st.lists(
    st.tuples(
        st.sampled_from("xy"),
        st.fixed_dictionaries(
            {},
            optional={
                "success": st.booleans(),
                "outcome": st.sampled_from(["progress", "failed", "neutral"]),
                "label": st.sampled_from([-1, 0, 1]),
                "label_source": st.sampled_from(["verifier", "heuristic"]),
                "retry_of_step_index": st.sampled_from([1, 3, 5, 40]),
            },
        ),
    ),
    min_size=1,
    max_size=5,
)
many = st.lists(st.tuples(steps_, st.sampled_from([True, False, None])), min_size=1, max_size=5)


@given(many)
@settings(max_examples=60, deadline=None)
def test_every_attempt_is_a_row_or_left_out_and_a_row_is_the_start_of_it(drawn: list[Any]) -> None:
    attempts = [attempt(f"a{i}", *s) for i, (s, _) in enumerate(drawn)]
    verdicts = {f"a{i}": v for i, (_, v) in enumerate(drawn) if v is not None}
    made = run(*attempts, verdicts=verdicts)
    assert sorted([*made.rows["row_id"], *made.left["row_id"]]) == sorted(a[0]["row_id"] for a in attempts)
    for name, texts, marks, sources in made.rows.select("attempt_id", "completions", "labels", "label_sources").rows():
        whole = [f"{s['agent_action']} -> saw {s['agent_action']}" for s in attempts[int(name[1:])]]
        assert texts == whole[: len(texts)]
        assert len(texts) == len(marks) == len(sources) > 0
        assert None not in marks
        assert None not in sources


@given(many)
@settings(max_examples=60, deadline=None)
def test_sharing_is_what_a_search_for_equal_starts_finds(drawn: list[Any]) -> None:
    # Plain steps: the only reason for a label is the prefix, or the last step's verdict.
    plain = [[a for a, _ in s] for s, _ in drawn]
    verdicts = {f"a{i}": v for i, (_, v) in enumerate(drawn) if v is not None}
    made = run(*(attempt(f"a{i}", *s) for i, s in enumerate(plain)), verdicts=verdicts)
    for i, steps in enumerate(plain):
        starts = [
            n
            for n in range(1, len(steps) + 1)
            for j, s in enumerate(plain)
            if verdicts.get(f"a{j}") and s[:n] == steps[:n]
        ]
        shared = max(starts, default=0)
        found = labels(made, f"a{i}")
        assert [m for m, why in found if why == "shared_with_success"] == [True] * shared
        assert [m for m, why in found if why != "shared_with_success"] == (
            [False] if shared == len(steps) - 1 and verdicts.get(f"a{i}") is False else []
        )


@given(many, st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_the_order_of_rows_within_attempts_changes_nothing(drawn: list[Any], random: Any) -> None:
    attempts = [attempt(f"a{i}", *s) for i, (s, _) in enumerate(drawn)]
    verdicts = {f"a{i}": v for i, (_, v) in enumerate(drawn) if v is not None}
    mixed = [random.sample(a, len(a)) for a in attempts]
    # The row is named after the first step in order, not the first line.
    assert run(*mixed, verdicts=verdicts).rows.equals(run(*attempts, verdicts=verdicts).rows)


def test_every_rule_can_apply() -> None:
    seen = {"step_label:verifier", "execution_error", "shared_with_success", "after_unrecovered_error"}
    assert len(RULES) == len(seen) + 3  # no_action, verified_final_state, recorded_outcome


def test_a_simulated_user_begins_with_its_own_words_not_with_its_script(tmp_path: Path) -> None:
    """The agent never saw the script; a process reward model that reads it would judge by what nobody knows."""
    talk = [
        {"role": "system", "content": "Policy."},
        {"role": "user", "content": "Hello."},
        {"role": "assistant", "content": "Hello, who are you?"},
        {"role": "user", "content": "Ana."},
        {"role": "assistant", "content": "Done."},
    ]
    info = {"task": {"user_id": "ana", "actions": [], "instruction": "You are Ana. Lie about it.", "outputs": []}}
    run = [{"task_id": 0, "reward": 1.0, "info": info, "traj": talk, "trial": 0}]
    (tmp_path / "gpt-4o-airline.json").write_text(json.dumps(run), encoding="utf-8")
    rows = xc.dataset(xc.compile(xc.read_traces(tmp_path)), "trl-prm").frame
    assert rows["prompt"].to_list() == ["Hello."]
    assert rows["completions"].to_list() == [["Hello, who are you? -> Ana.", "Done."]]
