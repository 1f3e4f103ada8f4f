"""Engine semantics: what a rule may read, which rule answers, what effects do, what is refused."""

from __future__ import annotations

import contextlib
import copy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from expcomp.environments.config import PackageConfig
from expcomp.environments.effects import Change, EffectError, apply
from expcomp.environments.engine import UndecidableError, blank_state
from expcomp.environments.frames import frames
from expcomp.environments.package import EnvironmentPackage
from expcomp.environments.reader import eligible_rules
from expcomp.errors import (
    AmbiguousRuleError,
    InvalidActionError,
    NoApplicableRuleError,
    RuleInvalidError,
    VerificationFailedError,
)
from tests.environments.worlds import AUTHORED, LEDGER, change, condition, engine, play, rule, state, tiny, world


def test_the_ledger_answers_as_its_reference() -> None:
    e, at = engine(), state(balance=100.0)
    told = []
    for action, arguments in (
        ("balance", {}),
        ("put", {"amount": 5}),
        ("withdraw", {"amount": 25}),
        ("withdraw", {"amount": 1000}),
    ):
        done = play(e, at, action, **arguments)
        told.append((done.plan.observation, done.plan.outcome))
        at = done.state
    assert told == [
        ("Balance: 100.0", "success"),
        ("Deposited 5. Balance: 105.0", "success"),
        ("Withdrew 25. Balance: 80.0", "success"),
        ("Insufficient funds. Balance: 80.0", "failure"),
    ]
    assert (at["step"], at["revision"], at["world"]) == (4, 4, {"balance": 80.0})


# Left value (MISSING: the path is not there), operator, right literal, whether it holds.
GONE = object()
TABLE = [
    (None, "exists", None, True), (GONE, "exists", None, False), (GONE, "not_exists", None, True), (None, "not_exists", None, False),
    (None, "eq", "null", True), (GONE, "eq", "null", False), (GONE, "ne", "1", False), (None, "ne", "1", True),
    (1, "eq", "true", False), (True, "eq", "true", True), (1, "eq", "1.0", True), ("1", "eq", "1", False),
    (2, "gt", "1", True), (1, "gt", "1", False), (1, "gte", "1", True), ("a", "gt", "1", False), (True, "gt", "0", False),
    ("b", "gt", '"a"', True), (None, "lt", "1", False), (1, "lte", "1", True),
    ([1, 2], "contains", "2", True), ("abc", "contains", '"b"', True), ({"k": 1}, "contains", '"k"', True), (5, "contains", "5", False),
    (2, "in", "[1, 2]", True), (3, "in", "[1, 2]", False), ("b", "in", '"abc"', True), (1, "in", "7", False),
]  # fmt: skip


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(("left", "op", "right", "holds"), TABLE)
def test_a_condition(left: Any, op: str, right: str | None, holds: bool, strict: bool) -> None:
    e = tiny(
        [rule("yes", "go", template="yes", priority=1), rule("no", "go", template="no")],
        [condition("yes", ("path", "world.v"), op, None if right is None else ("literal", right))],
        strict=strict,
    )
    at = state() if left is GONE else state(v=left)
    assert play(e, at, "go").plan.observation == ("yes" if holds else "no")


def test_an_operand_whose_argument_is_absent_makes_the_condition_false() -> None:
    e = tiny(
        [rule("yes", "go", template="yes", priority=1), rule("no", "go", template="no")],
        [condition("yes", ("path", "world.m.{action.arguments.x}"), "not_exists")],
    )
    assert play(e, state(m={}), "go", x="k").plan.observation == "yes"
    # Without x there is no path; `not_exists` tests presence, and nothing is present.
    assert play(e, state(m={"k": 1}), "go", x="k").plan.observation == "no"


def test_groups_are_alternatives() -> None:
    e = tiny(
        [rule("yes", "go", template="yes", priority=1), rule("no", "go", template="no")],
        [
            condition("yes", ("path", "world.a"), "eq", ("literal", "1"), ordinal=0, group=0),
            condition("yes", ("path", "world.b"), "eq", ("literal", "1"), ordinal=1, group=0),
            condition("yes", ("expr", "len(world.xs) > 2"), "eq", ("literal", "true"), ordinal=2, group=1),
        ],
    )
    assert play(e, state(a=1, b=1), "go").plan.observation == "yes"
    assert play(e, state(a=1, b=2, xs=[1, 2, 3]), "go").plan.observation == "yes"
    assert play(e, state(a=1, b=2), "go").plan.observation == "no"


def test_two_rules_that_differ_at_one_priority_are_refused() -> None:
    e = tiny([rule("a", "go", template="one"), rule("b", "go", template="two")])
    with pytest.raises(AmbiguousRuleError, match="a, b have priority 0"):
        play(e, state(), "go")


def test_two_rules_that_agree_leave_the_more_confident_then_the_larger_id() -> None:
    e = tiny([rule("a", "go", template="one", confidence=0.9), rule("b", "go", template="one", confidence=0.8)])
    assert play(e, state(), "go").plan.rule_id == "a"
    e = tiny([rule("a", "go", template="one"), rule("b", "go", template='{= "o" + "ne"}')])
    assert play(e, state(), "go").plan.rule_id == "b"


def test_a_rule_with_an_unknown_argument_in_its_effects_does_not_apply() -> None:
    e = tiny([rule("a", "go", template="one")], None, [change("a", "set", "world.v", "{action.arguments.x}")])
    with pytest.raises(NoApplicableRuleError):
        play(e, state(), "go")
    assert play(e, state(), "go", x=[1]).state["world"] == {"v": [1]}


@pytest.mark.parametrize(
    "more", [{"status": "tentative"}, {"confidence": 0.54}, {"confidence": None}, {"scope_json": '{"tenant": "t"}'}]
)
def test_what_is_not_eligible_does_not_run(more: dict[str, Any]) -> None:
    with pytest.raises(NoApplicableRuleError):
        play(tiny([rule("a", "go", template="one", **more)]), state(), "go")


def test_a_scope_may_name_a_state_path() -> None:
    e = tiny([rule("a", "go", template="one", scope_json='{"session.user": "ann", "environment_id": "ledger"}')])
    assert play(e, state() | {"session": {"user": "ann"}}, "go").plan.rule_id == "a"
    with pytest.raises(NoApplicableRuleError):
        play(e, state(), "go")


@pytest.mark.parametrize(
    ("config", "scope", "runs"),
    [
        (replace(AUTHORED, tenant="acme"), '{"tenant_scope": "acme"}', True),
        (replace(AUTHORED, scope={"tenant_scope": "acme"}), '{"tenant": "acme"}', True),
        (replace(AUTHORED, scope={"version": "2"}), '{"environment_version": "2"}', True),
        (replace(AUTHORED, tenant="acme"), '{"tenant_scope": "other"}', False),
        (AUTHORED, '{"tenant": "acme"}', False),
    ],
)
def test_older_names_of_scope_keys_mean_todays_for_engine_and_reader(
    config: PackageConfig, scope: str, runs: bool
) -> None:
    records = world(rules=[rule("a", "balance", template="one", scope_json=scope)], conditions=[], mutations=[])
    played = engine(records, config=config)
    with contextlib.nullcontext() if runs else pytest.raises(NoApplicableRuleError):
        assert play(played, state(balance=1), "balance").plan.rule_id == "a"
    assert eligible_rules(EnvironmentPackage(frames(records), config)).height == runs


def test_a_scope_compares_plain_values_as_text() -> None:
    e = tiny([rule("a", "go", template="one", scope_json='{"world.open": true, "world.n": 5}')])
    assert play(e, state(open=True, n=5), "go").plan.rule_id == "a"


EFFECTS = [
    ("set", "world.a.b", 1, {}, {"a": {"b": 1}}),
    ("create", "world.a", None, {"a": 3}, {"a": None}),
    ("delete", "world.a.b", None, {"a": {"b": 1}}, {"a": {}}),
    ("delete", "world.a.b", None, {}, {}),
    ("increment", "world.a", 2, {"a": 1}, {"a": 3}),
    ("decrement", "world.a", 0.5, {"a": 1}, {"a": 0.5}),
    ("append", "world.xs", 1, {}, {"xs": [1]}),
    ("append", "world.xs", {"k": 1}, {"xs": [0]}, {"xs": [0, {"k": 1}]}),
    ("merge", "world.o", {"b": 2}, {"o": {"a": 1}}, {"o": {"a": 1, "b": 2}}),
    ("merge", "world.o", {"b": 2}, {}, {"o": {"b": 2}}),
    ("remove", "world.o", ["a", "z"], {"o": {"a": 1, "b": 2}}, {"o": {"b": 2}}),
    ("remove", "world.o", "a", {}, {}),
    ("set", "world.files./tmp/a.txt.size", 2, {"files": {"/tmp/a.txt": {"size": 1}}}, {"files": {"/tmp/a.txt": {"size": 2}}}),
    ("set", 'world.files["a.b"].size', 2, {}, {"files": {"a.b": {"size": 2}}}),
    ("set", "world.xs[0]", 9, {"xs": [1, 2]}, {"xs": [9, 2]}),
]  # fmt: skip


@pytest.mark.parametrize(("op", "path", "value", "before", "after"), EFFECTS)
def test_an_effect(op: str, path: str, value: Any, before: dict[str, Any], after: dict[str, Any]) -> None:
    e = tiny([rule("a", "go", template="one")], None, [change("a", op, path, value)])
    at = state(**before)
    kept = copy.deepcopy(at)
    assert play(e, at, "go").state["world"] == after
    assert at == kept


@pytest.mark.parametrize(
    ("op", "value", "before"),
    [
        ("increment", 1, {}),
        ("increment", 1, {"a": "x"}),
        ("increment", 1, {"a": True}),
        ("increment", "1", {"a": 1}),
        ("append", 1, {"a": 1}),
        ("merge", 1, {"a": {}}),
        ("merge", {}, {"a": 1}),
    ],
)
def test_an_effect_that_does_not_fit_is_refused(op: str, value: Any, before: dict[str, Any]) -> None:
    e = tiny([rule("a", "go", template="one")], None, [change("a", op, "world.a", value)])
    with pytest.raises(VerificationFailedError, match=rf"rule a: {op} world\.a"):
        play(e, state(**before), "go")


def test_tokens_keep_the_type_only_when_they_are_the_whole_text() -> None:
    e = tiny(
        [rule("a", "go", template="one")],
        None,
        [
            change("a", "set", "world.v", {"whole": "{action.arguments.x}", "part": "n{action.arguments.x}", "arg": {"$action_arg": "x"}}),
            change("a", "set", "world.by.{action.arguments.x}", 1, ordinal=1),
        ],
    )  # fmt: skip
    assert play(e, state(), "go", x=5).state["world"] == {"v": {"whole": 5, "part": "n5", "arg": 5}, "by": {"5": 1}}


def test_a_key_from_an_argument_is_one_segment() -> None:
    e = tiny(
        [rule("a", "go", template="{state_after.world.by.{action.arguments.x}}")],
        None,
        [change("a", "set", "world.by.{action.arguments.x}", 1)],
    )
    assert play(e, state(), "go", x="a.b[0]").state["world"] == {"by": {"a.b[0]": 1}}


def test_values_may_come_from_the_state_before_or_after() -> None:
    e = tiny(
        [rule("a", "go", template="{state_before.world.n} {state_after.world.n}")],
        None,
        [
            change("a", "increment", "world.n", "x", ref="arg"),
            change("a", "set", "world.old", "world.n", ref="before", ordinal=1),
            change("a", "set", "world.new", "world.n", ref="after", ordinal=2),
            change("a", "set", "world.sum", "after.world.n + before.world.n * 10", ref="expr", ordinal=3),
        ],
    )
    done = play(e, state(n=1), "go", x=2)
    assert (done.plan.observation, done.state["world"]) == ("1 3", {"n": 3, "old": 1, "new": 3, "sum": 13})


def test_due_effects_come_before_conditions_in_the_order_they_were_queued() -> None:
    e = tiny(
        [rule("queue", "go", template="queued"), rule("ready", "go", template="{state_before.world.log}", priority=1)],
        [condition("ready", ("path", "world.log"), "exists"), condition("queue", ("path", "world.log"), "not_exists")],
        [
            change("queue", "schedule", "world.log", "first", delay=2),
            change("queue", "schedule", "world.log", "second", ordinal=1, delay=2),
            change("queue", "schedule", "world.log", "third", ordinal=2, delay=1),
            change("first", "append", "world.log", "{action.arguments.x}", kind="pending"),
            change("second", "append", "world.log", "two", kind="pending"),
            change("third", "set", "world.mark", True, kind="pending"),
        ],
    )
    one = play(e, state(), "go", x="one")
    assert one.state["world"] == {}
    assert [q["due_step"] for q in one.state["pending_events"]] == [3, 3, 2]
    two = e.begin(one.state).state
    assert two["world"] == {"mark": True}
    three = play(e, two, "go")
    assert (three.plan.observation, three.state["pending_events"]) == ('["one", "two"]', [])


def test_a_type_that_breaks_is_refused_and_one_that_was_broken_is_a_warning() -> None:
    e = tiny(
        [rule("a", "go", template="one")],
        None,
        [change("a", "set", "world.m.k.n", "{action.arguments.x}")],
        state_schema=[{"path": "world.m.*.n", "type": "integer", "visibility": "world"}],
    )
    assert play(e, state(), "go", x=1).issues == ()
    with pytest.raises(VerificationFailedError, match=r'world\.m\.k\.n is "s", expected integer'):
        play(e, state(m={"k": {"n": 1}}), "go", x="s")
    assert [i.severity for i in play(e, state(m={"k": {"n": "s"}}), "go", x="s").issues] == ["warning"]


def test_an_invariant() -> None:
    e = engine(
        world(
            conditions=[condition("i_positive", ("path", "world.balance"), "gte", ("literal", "0"))],
            rules=[rule("w", "withdraw", template="ok")],
            mutations=[change("w", "decrement", "world.balance", "amount", ref="arg")],
        )
    )
    with pytest.raises(VerificationFailedError, match="invariant i_positive does not hold"):
        play(e, state(balance=1), "withdraw", amount=2)
    assert [(i.severity, i.message) for i in play(e, state(balance=-1), "withdraw", amount=2).issues] == [
        ("warning", "invariant i_positive does not hold")
    ]


def test_effects_must_be_those_of_the_cited_rules() -> None:
    e, at = engine(), state(balance=10)
    action = e.canonical("withdraw", {"amount": 3})
    good = [Change("decrement", ("world", "balance"), 3)]
    assert e.supported(at, action, good, ["r_withdraw"]) == []
    assert e.supported(at, action, [*good, *good], ["r_withdraw"]) == [
        "the effects are not those of the cited rules, in order"
    ]
    assert e.supported(at, action, good * 2, ["r_withdraw", "r_withdraw"]) == ["a rule is cited twice"]
    assert e.supported(at, action, [], ["r_short"]) == ["rule r_short does not apply"]
    assert e.supported(at, action, [], ["r_deposit"]) == ["rule r_deposit is no rule of withdraw"]


def test_a_token_without_a_value_is_an_error() -> None:
    e = tiny([rule("a", "go", template="{state_after.world.v}")])
    with pytest.raises(VerificationFailedError, match="a token of its template has no value"):
        play(e, state(), "go")
    needy = tiny(
        [rule("a", "go", template="x", renderer="r")],
        renderers=[{"renderer_id": "r", "required_fields": ["state_after.world.v"]}],
    )
    with pytest.raises(VerificationFailedError, match="no value"):
        play(needy, state(), "go")


def test_json_templates_render_json_and_the_strict_engine_python() -> None:
    text = '{"part": {state_after.world.p}, "say": "got {action.arguments.x}", "ok": {= len(world.p.tags) == 2}}'
    made = {"renderers": [{"renderer_id": "r", "content_type": "application/json"}]}
    at = state(p={"tags": ["a", 'b"'], "n": None})
    e = tiny([rule("a", "go", renderer="r", template=text)], **made)
    assert (
        play(e, at, "go", x='q"').plan.observation
        == '{"part": {"tags": ["a", "b\\""], "n": null}, "say": "got q\\"", "ok": true}'
    )
    e = tiny([rule("a", "go", template="{state_after.world.p.n} {action.arguments.x}")])
    assert play(e, at, "go", x=True).plan.observation == "null true"
    e = tiny([rule("a", "go", template="{state_after.world.p.n} {action.arguments.x}")], strict=True)
    assert play(e, at, "go", x=True).plan.observation == "None True"


@pytest.mark.parametrize(
    ("action", "arguments", "message"),
    [
        ("fly", {}, "there is no action 'fly'"),
        ("deposit", {}, "amount is missing"),
        ("deposit", {"amount": True}, "amount is true, expected number"),
        ("deposit", {"amount": "5"}, 'amount is "5", expected number'),
    ],
)
def test_an_action_that_does_not_hold_to_its_schema(action: str, arguments: dict[str, Any], message: str) -> None:
    for strict in (False, True):
        with pytest.raises(InvalidActionError, match=message):
            play(engine(strict=strict), state(balance=1), action, **arguments)


def test_only_a_rule_for_a_failure_answers_an_action_that_breaks_its_schema() -> None:
    rules = [
        rule("any", "go", template="done", priority=9),
        rule("lacks", "go", outcome="failure", template="missing argument x"),
    ]
    missing = [condition("lacks", ("action_arg", "x"), "not_exists")]
    needed = [{"action": "go", "arg": "x", "type": "integer"}]
    e = tiny(rules, missing, action_args=needed)
    assert play(e, state(), "go").plan.observation == "missing argument x"
    assert play(e, state(), "go", x=1).plan.observation == "done"
    with pytest.raises(InvalidActionError, match='x is "s", expected integer'):
        play(e, state(), "go", x="s")
    with pytest.raises(InvalidActionError, match="x is missing"):
        play(tiny(rules, missing, action_args=needed, strict=True), state(), "go")


def test_arguments_that_are_not_declared_or_null_are_let_through() -> None:
    assert engine().canonical("balance", {"x": 1}).arguments == {"x": 1}
    e = tiny([rule("a", "go", template="x")], args={"x": "integer"})
    assert e.canonical("go", {"x": None}).arguments == {"x": None}
    with pytest.raises(InvalidActionError, match="x is null, expected integer"):
        tiny([rule("a", "go", template="x")], args={"x": "integer"}, strict=True).canonical("go", {"x": None})


def test_an_enum_is_type_strict() -> None:
    e = tiny(
        [rule("a", "go", template="x")],
        action_args=[{"action": "go", "arg": "x", "type": "any", "enum_json": "[1, null]"}],
    )
    assert e.canonical("go", {"x": 1.0}).faults == ()
    assert e.canonical("go", {"x": True}).faults == ("x is true, expected one of [1, null]",)


def test_what_rests_on_an_unseen_path_is_undecidable() -> None:
    e = engine()
    begun = e.begin(blank_state()).state
    action = e.canonical("withdraw", {"amount": 1})
    with pytest.raises(UndecidableError, match="r_short, r_withdraw applies rests on a state path"):
        e.decide(begun, action, lambda path: False)
    with pytest.raises(NoApplicableRuleError):
        e.decide(begun, action, lambda path: path == "world.balance")
    with pytest.raises(UndecidableError, match=r"increment on world\.balance"):
        tiny(
            [rule("a", "go", template="x")],
            None,
            [change("a", "append", "world.xs", 1), change("a", "increment", "world.balance", 1, ordinal=1)],
        ).decide(begun, tiny([]).canonical("go", {}), lambda path: path == "world.xs")


def test_a_false_condition_decides_whatever_is_unseen_but_not_for_the_strict_engine() -> None:
    rules = [rule("a", "go", template="x"), rule("b", "go", template="y", priority=1)]
    conditions = [
        condition("b", ("action_arg", "x"), "eq", ("literal", "1")),
        condition("b", ("path", "world.v"), "exists", ordinal=1),
    ]
    for strict in (False, True):
        e = tiny(rules, conditions, strict=strict)
        action, at = e.canonical("go", {"x": 2}), e.begin(state()).state
        if strict:
            with pytest.raises(UndecidableError):
                e.decide(at, action, lambda path: False)
        else:
            assert e.decide(at, action, lambda path: False).observation == "x"


@pytest.mark.parametrize("path", ["", "balance", "world..a", "world.a[", "other.x"])
def test_a_path_that_is_none_is_a_named_error(path: str) -> None:
    with pytest.raises(RuleInvalidError, match="effects of rule a"):
        tiny([rule("a", "go")], None, [change("a", "set", path, 1)])


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=3), v, max_size=3),
    max_leaves=8,
)


@given(VALUES, st.data())
def test_no_change_touches_the_state_it_starts_from(value: Any, data: st.DataObject) -> None:
    at = {"step": 0, "world": {"a": value, "b": [value]}}
    kept = copy.deepcopy(at)
    path = data.draw(
        st.sampled_from(
            [("world", "a"), ("world", "a", "k"), ("world", "b", "0"), ("world", "b", "1"), ("world", "a", "0", "x")]
        )
    )
    op = data.draw(st.sampled_from(["set", "delete", "append", "merge", "remove", "increment"]))
    with contextlib.suppress(EffectError):
        apply(at, [Change(op, path, data.draw(st.sampled_from([1, "k", {"k": 1}, [value]])))])
    assert at == kept


def test_the_ledger_is_not_changed_by_tests() -> None:
    assert len(LEDGER["rules"]) == 4
