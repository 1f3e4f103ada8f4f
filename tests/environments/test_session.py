"""Sessions: opening, stepping, refusing, audit, following what was observed."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from expcomp.environments.folder import open_package
from expcomp.environments.frames import frames
from expcomp.environments.package import EnvironmentPackage, compile_package
from expcomp.environments.playing import Reply, Turn
from expcomp.environments.session import open_session
from expcomp.errors import (
    InvalidActionError,
    NoApplicableRuleError,
    RevisionConflictError,
    SessionError,
    VerificationFailedError,
)
from tests.environments.reconstructed import CONFIG, package_frames
from tests.environments.worlds import AUTHORED, LEDGER, change, world

START = {"world": {"balance": 100.0}}


@pytest.fixture(scope="module")
def authored() -> EnvironmentPackage:
    return compile_package(frames(LEDGER), AUTHORED)


@pytest.fixture(scope="module")
def candidate() -> EnvironmentPackage:
    return compile_package(package_frames(), CONFIG)


def test_a_step_gives_answer_state_rule_and_citations(candidate: EnvironmentPackage) -> None:
    session = open_session(candidate, start=START, allow_unvalidated=True)
    done = session.step("put", {"amount": 5})
    assert (done.observation, done.outcome, done.route, done.rule_ids) == (
        "Deposited 5. Balance: 105.0",
        "success",
        "rule",
        ("r_deposit",),
    )
    assert (done.citations, done.state["world"], done.state["revision"], done.state["step"]) == (
        ("ev_11",),
        {"balance": 105.0},
        1,
        1,
    )


def test_a_failure_is_committed_and_a_refusal_is_not(authored: EnvironmentPackage) -> None:
    session = open_session(authored, start=START)
    assert session.step("withdraw", {"amount": 1000}).outcome == "failure"
    with pytest.raises(InvalidActionError):
        session.step("withdraw", {})
    assert (session.revision, session.state["step"]) == (1, 1)
    assert [r["kind"] for r in session.audit()] == ["step", "refused"]
    assert session.audit()[1]["error"] == "InvalidActionError"


def test_a_candidate_needs_leave_and_a_reconstruction_a_state(
    candidate: EnvironmentPackage, authored: EnvironmentPackage
) -> None:
    with pytest.raises(SessionError, match="no replay has validated"):
        open_session(candidate, start=START)
    with pytest.raises(SessionError, match="needs an initial state"):
        open_session(candidate, allow_unvalidated=True)
    with pytest.raises(NoApplicableRuleError):
        open_session(authored).step("withdraw", {"amount": 1})
    ready = world(
        state_schema=[{"path": "world.balance", "type": "number", "visibility": "world", "default_json": "7"}]
    )
    assert open_session(compile_package(frames(ready), AUTHORED)).step("balance").observation == "Balance: 7"


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"wrld": {}}, "unknown key wrld"),
        ({"world": []}, "world is no object"),
        ({"world": {"balance": "x"}}, "expected number"),
        ({"pending_events": [{"due_step": 1}]}, "pending event"),
        ({"pending_events": [{"due_step": 1, "effects": [{"op": "sing", "path": "world.x"}]}]}, "pending event"),
    ],
)
def test_a_state_that_cannot_be(authored: EnvironmentPackage, state: dict[str, Any], message: str) -> None:
    with pytest.raises(SessionError, match=message):
        open_session(authored, start=state)


def test_a_session_is_taken_up_again(
    authored: EnvironmentPackage, candidate: EnvironmentPackage, tmp_path: Path
) -> None:
    first = open_session(authored, tmp_path / "s", start=START)
    first.step("deposit", {"amount": 1})
    first.close()
    again = open_session(authored, tmp_path / "s")
    assert again.step("balance").observation == "Balance: 101.0"
    assert [t.action for t in again.turns] == ["deposit", "balance"]
    with pytest.raises(SessionError, match="belongs to another package"):
        open_session(candidate, tmp_path / "s", allow_unvalidated=True)


def test_of_two_steps_from_one_revision_the_second_is_refused(authored: EnvironmentPackage, tmp_path: Path) -> None:
    one = open_session(authored, tmp_path / "s", start=START)
    two = open_session(authored, tmp_path / "s")
    one.step("deposit", {"amount": 1})
    with pytest.raises(RevisionConflictError, match="began at revision 0, now it is 1"):
        two.step("deposit", {"amount": 2})
    again = open_session(authored, tmp_path / "s")
    assert again.state["world"] == {"balance": 101.0}
    assert [(r["kind"], r.get("error")) for r in again.audit()] == [
        ("step", None),
        ("refused", "RevisionConflictError"),
    ]


def test_a_session_never_lies_inside_the_package(authored: EnvironmentPackage, tmp_path: Path) -> None:
    authored.write(tmp_path / "pkg")
    with pytest.raises(SessionError, match="inside the package"):
        open_session(open_package(tmp_path / "pkg"), tmp_path / "pkg" / "s", start=START)


def test_what_was_observed_is_followed_where_a_rule_explains_it(authored: EnvironmentPackage) -> None:
    session = open_session(authored, start=START)
    explained = session.observe(
        [
            Turn("deposit", {"amount": 5}, "Deposited 5.\n Balance:  105.0", None),
            Turn("deposit", {"amount": 5}, "Closed on Sundays.", None),
            Turn("fly", {}, "Up.", None),
        ]
    )
    assert (explained, session.state["world"], session.revision) == ([True, False, False], {"balance": 105.0}, 3)
    assert [r["rule_id"] for r in session.audit()] == ["r_deposit", None, None]


class Guess:
    """Answers what no rule answers."""

    def reply(self, action: str, arguments: Any, state: Any, turns: Any) -> Reply | None:
        if arguments.get("amount") == 0:
            return None
        return Reply(f"{action} #{len(turns)}", "unknown", "retrieval", None, {"seen": True})


def test_a_responder_answers_when_no_rule_does() -> None:
    made = compile_package(
        frames(
            world(rules=LEDGER["rules"][:2], conditions=[LEDGER["conditions"][2]], mutations=LEDGER["mutations"][:1])
        ),
        AUTHORED,
    )
    session = open_session(made, start=START, responder=Guess())
    assert session.step("deposit", {"amount": 1}).route == "rule"
    done = session.step("withdraw", {"amount": 1})
    assert (done.observation, done.route, done.confidence, done.rule_ids) == ("withdraw #1", "retrieval", None, ())
    assert session.state["world"] == {"balance": 101.0, "seen": True}
    with pytest.raises(NoApplicableRuleError):
        session.step("withdraw", {"amount": 0})


class Told:
    """Says of every withdrawal what the world is afterwards."""

    def __init__(self, world: dict[str, Any]) -> None:
        self.world = world

    def reply(self, action: str, arguments: Any, state: Any, turns: Any) -> Reply | None:
        return Reply("done", "success", "memo", 0.9, self.world)


@pytest.mark.parametrize(
    ("told", "after", "issue"),
    [
        ({"balance": 90.0}, {"balance": 90.0}, None),
        ({"balance": "little", "seen": 1}, {"balance": 100.0}, 'world.balance is "little", expected number'),
        ({"balance": -5}, {"balance": 100.0}, "invariant i_positive does not hold"),
    ],
)
def test_what_a_reply_says_of_the_world_must_hold_to_schema_and_invariants(
    told: dict[str, Any], after: dict[str, Any], issue: str | None
) -> None:
    tables = world(rules=LEDGER["rules"][:2], conditions=[LEDGER["conditions"][2]], mutations=LEDGER["mutations"][:1])
    session = open_session(compile_package(frames(tables), AUTHORED), start=START, responder=Told(told))
    done = session.step("withdraw", {"amount": 1})
    assert (done.observation, done.issues[:1]) == ("done", () if issue is None else (issue,))
    assert session.state["world"] == after
    assert session.audit()[0]["issues"] == list(done.issues)


LEVELS: Any = json.loads("[" * 300 + "]" * 300)


@pytest.mark.parametrize(
    "value",
    [math.nan, math.inf, 10**400, "\ud800", {"a": math.nan}, LEVELS, {1: 2}, {1, 2}, b"x", object()],
    ids=lambda v: type(v).__name__,
)
def test_an_argument_that_is_no_json_is_refused_and_noted(authored: EnvironmentPackage, value: Any) -> None:
    """The audit says why; the session goes on."""
    session = open_session(authored, start=START)
    with pytest.raises(InvalidActionError, match=r"action deposit: 'amount': .*JSON"):
        session.step("deposit", {"amount": value})
    (note,) = session.audit()
    assert (note["kind"], note["error"], note["arguments"]) == ("refused", "InvalidActionError", None)
    assert session.step("deposit", {"amount": 1}).observation == "Deposited 1. Balance: 101.0"


@pytest.mark.parametrize(("action", "arguments"), [(None, {}), ("deposit", "amount"), ("deposit", [1]), ("\ud800", {})])
def test_an_action_is_a_name_and_an_object(authored: EnvironmentPackage, action: Any, arguments: Any) -> None:
    """Whatever a model hands over."""
    with pytest.raises(InvalidActionError):
        open_session(authored, start=START).step(action, arguments)


@pytest.mark.parametrize(
    "start",
    [
        {"world": {"balance": math.nan}},
        {"world": {"balance": 1, "x": LEVELS}},
        {"world": {1: 2}},
        {"world": {"balance": 1}, "pending_events": [{"due_step": 1, "effects": [{"op": "delete", "path": ""}]}]},
        {"world": {"balance": 1}, "pending_events": [{"due_step": 1, "effects": [{"op": "set", "path": "step"}]}]},
        [],
        "world",
    ],
    ids=repr,
)
def test_a_state_that_is_none_is_refused(authored: EnvironmentPackage, start: Any) -> None:
    """Before the first step, not in it."""
    with pytest.raises(SessionError, match="initial state"):
        open_session(authored, start=start)


def test_what_was_given_is_copied(authored: EnvironmentPackage) -> None:
    """A caller that goes on with its objects changes no session."""
    start = {"world": {"balance": 1, "xs": [1]}}
    session = open_session(authored, start=start)
    start["world"]["xs"].append(2)  # type: ignore[attr-defined]
    assert session.state["world"]["xs"] == [1]


@pytest.mark.parametrize("queued", [False, True])
def test_a_sum_past_the_range_of_a_float_is_refused(authored: EnvironmentPackage, queued: bool) -> None:
    """Nothing is committed that JSON cannot say."""
    amount = {"op": "increment", "path": "world.balance", "value": 1.7e308}
    pending = [{"due_step": 1, "effects": [amount]}] if queued else []
    session = open_session(authored, start={"world": {"balance": 1.7e308}, "pending_events": pending})
    with pytest.raises(VerificationFailedError, match="past the range of a float"):
        session.step("deposit", {"amount": 1.7e308})
    assert session.revision == 0


@pytest.mark.parametrize("op", ["delete", "set"])
def test_no_effect_takes_a_namespace_away(op: str) -> None:
    """The rest of a session rests on it."""
    made = [change("r_deposit", op, "world", 5)]
    session = open_session(compile_package(frames(world(mutations=made)), AUTHORED), start=START)
    with pytest.raises(VerificationFailedError, match=r"world .*expected an object|no value"):
        session.step("deposit", {"amount": 1})


def test_a_reply_that_is_no_json_is_refused(authored: EnvironmentPackage) -> None:
    """Responders are code of others."""

    class Odd:
        def reply(self, *_: Any) -> Reply:
            return Reply("?", "unknown", "memo", world={"x": math.nan})

    session = open_session(authored, start={"world": {}}, responder=Odd())
    with pytest.raises(VerificationFailedError, match="no JSON"):
        session.step("withdraw", {"amount": 1})
