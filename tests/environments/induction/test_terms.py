"""Terms, conditions and searches on small tables."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from expcomp.environments.flatten import as_document, canonical, dump, load, members
from expcomp.environments.induction.contrast import decide
from expcomp.environments.induction.deltas import changed, deltas
from expcomp.environments.induction.experience import prepare
from expcomp.environments.induction.explain import explain
from expcomp.environments.induction.matching import leaf_shares, same_shape
from expcomp.environments.induction.matrix import Matrix, matrix
from expcomp.environments.induction.outcome import outcomes
from expcomp.environments.induction.predicates import predicates
from expcomp.environments.induction.schema import action_schema
from expcomp.environments.induction.status import status_of, wilson_low
from expcomp.environments.induction.terms import Copy, Linear, Predicate
from expcomp.environments.induction.translate import Inexpressible, condition, expression, reference

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**50), 2**50) | st.text(max_size=4),
    lambda x: st.lists(x, max_size=3) | st.dictionaries(st.text(max_size=3), x, max_size=3),
    max_leaves=8,
)


def table(**columns: list[str | None]) -> Matrix:
    frame = pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.String))
    return matrix(frame, list(columns), pl.Series([f"g{i}" for i in range(frame.height)]))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda a, b: a + b, "arg.a + arg.b"),
        (lambda a, b: a - b, "arg.a - arg.b"),
        (lambda a, b: a * b, "arg.a * arg.b"),
        (lambda a, b: round(a * b * 1.2, 2), "round(arg.a * arg.b * 1.2, 1)"),
        (lambda a, b: a + 7, "arg.a + 7"),
    ],
)
def test_arithmetic_is_found(make, words: str) -> None:
    pairs = [(3, 5), (8, 2), (10, 7), (1, 9), (4, 4), (12, 3), (7, 11)]
    m = table(**{"arg.a": [str(a) for a, _ in pairs], "arg.b": [str(b) for _, b in pairs]})
    found = explain(m, pl.Series([dump(make(a, b)) for a, b in pairs]), predicates(m))
    assert found is not None
    assert m.compute([found])[0].to_list() == [dump(make(a, b)) for a, b in pairs]
    assert expression(found).strip("()") == words.strip("()")


def test_a_copy_is_preferred_to_its_values() -> None:
    m = table(**{"arg.a": ['"x"', '"y"', '"x"', '"z"'], "state.a": ['"x"', '"y"', '"x"', '"z"']})
    assert explain(m, pl.Series(['"x"', '"y"', '"x"', '"z"']), predicates(m)) == Copy("arg.a")


def test_a_missing_operand_gives_no_value() -> None:
    frame = pl.DataFrame({"arg.a": ["1", None]}, schema={"arg.a": pl.String})
    assert frame.select(Linear(((2.0, ("arg.a",)),)).expr()).to_series().to_list() == ["2", None]


@pytest.mark.parametrize(("equal", "op"), [(True, "lte"), (False, None)])
def test_the_boundary_is_told_only_by_an_equal_pair(equal: bool, op: str | None) -> None:
    a = [1, 2, 3, 9, 8, 7, *([5, 5] if equal else [])]
    b = [5, 6, 7, 4, 3, 2, *([5, 5] if equal else [])]
    m = table(**{"arg.a": list(map(str, a)), "state.b": list(map(str, b))})
    tests = predicates(m)
    good = np.array([x <= y for x, y in zip(a, b, strict=True)])
    hits = np.column_stack([good, ~good])
    cases = decide(tests.truth, tests.cost, hits, np.ones_like(hits), [0.0, 0.0], m.groups)
    first = tests.predicates[cases[0].predicate]
    gap = m.select({"gap": first.gap()}, first.reads())[0].min()
    assert (gap == 0) is equal
    if op:
        assert condition(first)[1] in (op, "gt")


def test_conditions_are_never_null() -> None:
    frame = pl.DataFrame({"arg.a": [None, "1"], "arg.b": ["1", None]}, schema={"arg.a": pl.String, "arg.b": pl.String})
    kinds = ("present", "absent", "same", "other", "below", "most", "over", "least", "equal", "unequal")
    for kind in kinds:
        assert frame.select(Predicate(kind, "arg.a", "arg.b").expr()).to_series().null_count() == 0


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("arg.a", "arg.a"),
        ("arg.a.b", "arg.a.b"),
        ("state.a.b", "world.a.b"),
        ("state.a.b-c", 'world.a["b-c"]'),
        ("state.a[arg.x].f", "world.a[arg.x].f"),
        ("state.a[state.b.c]", "world.a[world.b.c]"),
        ("seen[arg.user_id].name", "world.user_id[arg.user_id].name"),
        ("seen[seen[arg.job_id].user_id].name", "world.user_id[world.job_id[arg.job_id].user_id].name"),
        ("last.balance", "world.balance"),
        ("len(arg.items)", "len(arg.items)"),
        ("sum(seen[arg.a].list[].x)", "sum(world.a[arg.a].list[].x)"),
    ],
)
def test_operands_in_the_rule_language(name: str, words: str) -> None:
    assert reference(name) == words


@pytest.mark.parametrize("name", ["mapped.flights", "state.a@b", "state.q[].id[arg.x]", "arg.not-a-name"])
def test_what_the_language_cannot_say_is_refused(name: str) -> None:
    with pytest.raises(Inexpressible):
        reference(name)


@given(JSON, JSON)
def test_changes_lead_from_one_state_to_the_other(a, b) -> None:
    before, after = dump({"s": a}), dump({"s": b})
    found = deltas(pl.DataFrame({"before": [before], "after": [after]}))
    ops = list(zip(found["where"], found["op"], found["key"], found["value"], strict=True))
    assert changed(before, ops) == after


@given(JSON)
def test_canonical_text_is_a_fixed_point(value) -> None:
    text = dump(value)
    assert canonical(pl.Series([text]))["value"].to_list() == [text]
    assert load(text) == value


def test_texts_that_are_no_json_are_told_apart() -> None:
    found = as_document(pl.Series(["1.0", "None", '"a"', "a"]))
    assert found["value"].to_list() == ["1", '"None"', '"a"', '"a"']
    assert found["is_json"].to_list() == [True, False, True, False]


def test_members_of_equal_documents_are_listed_once() -> None:
    assert members(pl.Series(['{"a":1}', '{"a":1}', "[1]"])).height == 1


def test_generated_values_match_by_shape_one_to_one() -> None:
    one, two = "12345678-1234-1234-1234-123456789012", "22345678-1234-1234-1234-123456789012"
    pairs = [
        ({"id": one, "ref": one}, {"id": two, "ref": two}, "{}", True),
        ({"id": one, "ref": two}, {"id": two, "ref": two}, "{}", False),
        ({"id": one}, {"id": two}, dump({"id": two}), False),
        ({"id": one}, {"id": 3}, "{}", False),
        ({"at": "2024-01-02"}, {"at": "2025-03-04"}, "{}", True),
        ({"at": "2024-01-02"}, {"at": "2024-09-09"}, "{}", False),
    ]
    frame = pl.DataFrame(
        {
            "t": range(len(pairs)),
            "answer": [dump(p[0]) for p in pairs],
            "truth": [dump(p[1]) for p in pairs],
            "args": [p[2] for p in pairs],
            "before": [None] * len(pairs),
            "episode_id": ["e"] * len(pairs),
            "turn": [2] * len(pairs),
        },
        schema_overrides={"before": pl.String},
    )
    shown = pl.DataFrame({"episode_id": ["e", "e"], "turn": [1, 2], "answer": ['"2024-09-09"', '"2025-03-04"']})
    assert same_shape(frame, shown)["shape"].to_list() == [p[3] for p in pairs]


def test_leaves_are_counted_over_both_answers() -> None:
    frame = pl.DataFrame({"answer": ['{"a":1,"b":true}', None], "truth": ['{"a":1,"b":1,"c":2}', "1"]})
    assert leaf_shares(frame)["leaf"].to_list() == [pytest.approx(1 / 3), None]


def test_wilson_agrees_with_a_table() -> None:
    assert wilson_low(10, 10) == pytest.approx(0.7225, abs=1e-4)
    assert wilson_low(0, 5) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(
    ("n", "hits", "tried", "sharp", "status"),
    [
        (10, 10, (10, 10, 3), True, "supported"),
        (10, 10, (10, 10, 3), False, "tentative"),
        (10, 10, (10, 10, 1), True, "tentative"),
        (10, 10, (2, 2, 2), True, "tentative"),
        (10, 7, (10, 10, 3), True, "conflicted"),
        (10, 10, (0, 0, 0), True, "tentative"),
    ],
)
def test_status(n: int, hits: int, tried: tuple[int, int, int], sharp: bool, status: str) -> None:
    assert status_of(n, hits, tried, sharp=sharp)[0] == status


def test_a_declared_schema_wins_and_the_difference_is_told() -> None:
    rows = pl.DataFrame({"t": [0, 1], "action_type": ["f", "f"], "group": ["a", "b"], "failed": [False, False]})
    args = pl.DataFrame({"t": [0, 1, 1], "key": ["x", "x", "y"], "value": ["1", "2.5", '"s"']})
    tools = [
        {"name": "f", "description": "does f", "parameters": {"properties": {"x": {"type": "string"}}, "required": []}}
    ]
    _, measured, none = action_schema(rows, args)
    assert measured.select("arg", "type", "required").rows() == [("x", "number", True), ("y", "string", False)]
    assert none == []
    actions, stated, told = action_schema(rows, args, tools)
    assert actions.select("action", "description", "declared").rows() == [("f", "does f", True)]
    assert stated.filter(pl.col("arg") == "x")["type"].to_list() == ["string"]
    assert told == ["f.x: declared string, called with number", "f.y: not declared, 1 calls give it"]


def test_calls_that_leave_out_what_is_required_or_give_other_values_are_told() -> None:
    rows = pl.DataFrame(
        {"t": [0, 1, 2], "action_type": ["f"] * 3, "group": ["a", "b", "c"], "failed": [False, False, True]}
    )
    args = pl.DataFrame({"t": [0, 1, 2], "key": ["x", "x", "x"], "value": ['"a"', "null", '"z"']})
    parameters = {
        "properties": {"x": {"type": "string", "enum": ["a", "b"]}, "y": {"type": "integer"}, "z": {"type": "integer"}},
        "required": ["x", "y"],
    }
    _, stated, told = action_schema(rows, args, [{"name": "f", "parameters": parameters}, {"name": "g"}])
    assert stated.filter(pl.col("required"))["arg"].to_list() == ["x", "y"]
    assert told == [
        "f.y: declared as required, 2 of 2 successful calls leave it out",
        'f.x: 1 calls give a value that is not declared, as "z"',
    ]


@pytest.mark.parametrize(
    ("answer", "flag", "failed", "marker"),
    [
        ('{"error": "no such user"}', None, True, "error_key"),
        ('{"error": false, "id": 1}', None, False, "error_key"),
        ('{"error": ""}', None, False, "error_key"),
        ('{"error": "busy"}', False, False, "flag"),
        ('{"success": false}', None, True, "success_key"),
        ("Error: no such user", None, True, "error_text"),
        ('{"status": 404, "detail": "x"}', None, True, "http_status"),
        ('{"detail": "x", "status_code": 201}', None, False, "http_status"),
        ('{"status": "open"}', None, False, None),
        ('{"order": {"status": 404}}', None, False, None),
        ("HTTP/1.1 503 Service Unavailable", None, True, "http_line"),
        ("HTTP/2 200", None, False, "http_line"),
        ("All 404 rooms are free", None, False, None),
    ],
)
def test_the_first_marker_that_speaks_gives_the_outcome(
    answer: str, flag: bool | None, failed: bool, marker: str | None
) -> None:
    row = {"transition_id": "t", "episode_id": "e", "group": "g", "turn": 1, "action_type": "f", "arguments_json": "{}"}
    frame = pl.DataFrame([{**row, "observation": answer, "is_error": flag}], schema_overrides={"is_error": pl.Boolean})
    assert outcomes(prepare(frame)).select("failed", "marker").row(0) == (failed, marker)
