"""One step of play, as sessions and replays both take it: the rules first, then whoever else may answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from expcomp.environments.conditions import Known
from expcomp.environments.effects import OPERATIONS, PENDING, State
from expcomp.environments.engine import Engine, Issue, blank_state
from expcomp.environments.paths import COUNTERS, NAMESPACES
from expcomp.environments.values import TYPES
from expcomp.errors import NoApplicableRuleError, SessionError


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn that was played or observed."""

    action: str
    arguments: Mapping[str, Any]
    observation: str | None
    outcome: str | None


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer that no rule gave.

    Attributes:
        observation: Text.
        outcome: Outcome it stands for.
        route: Word of `ROUTE`.
        confidence: Measured; None when unmeasured.
        world: New values of `world`, by key, that the answer reveals.
        citations: Events of the package that it rests on.
    """

    observation: str
    outcome: str
    route: str
    confidence: float | None = None
    world: Mapping[str, Any] | None = None
    citations: tuple[str, ...] = ()


class Responder(Protocol):
    """Who answers when no rule applies: a predictor, or a model."""

    def reply(self, action: str, arguments: Mapping[str, Any], state: State, turns: Sequence[Turn]) -> Reply | None:
        """An answer, or None to abstain."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A step that may be committed."""

    observation: str | None
    outcome: str
    route: str
    rule_id: str | None
    confidence: float | None
    state: State
    issues: tuple[Issue, ...]
    changes: tuple[Mapping[str, Any], ...]
    citations: tuple[str, ...] = ()


def advance(
    engine: Engine,
    state: State,
    action_type: str,
    arguments: Mapping[str, Any],
    *,
    turns: Sequence[Turn] = (),
    known: Known | None = None,
    responder: Responder | None = None,
) -> Answer:
    """Play one action; the state that was given is not changed.

    Raises:
        SessionError: The step is refused.
    """
    action = engine.canonical(action_type, arguments)
    try:
        done = engine.step(state, action, known)
    except NoApplicableRuleError:
        reply = None
        if responder is not None:
            begun = engine.begin(state)
            reply = responder.reply(action.type, action.arguments, begun.state, turns)
        if reply is None:
            raise
        after = {**begun.state, "revision": int(state["revision"]) + 1}
        if reply.world:
            after["world"] = {**begun.state["world"], **reply.world}
        return Answer(
            reply.observation, reply.outcome, reply.route, None, reply.confidence, after, (), (), reply.citations
        )
    plan = done.plan
    changes = tuple(c.document() for c in plan.changes)
    return Answer(
        plan.observation, plan.outcome, "rule", plan.rule_id, plan.confidence, done.state, done.issues, changes
    )


def initial_state(engine: Engine, given: Mapping[str, Any] | None, *, defaults: bool) -> State:
    """A whole state from what is given: namespaces, and the counters of a state that was saved.

    Args:
        engine: Its schema is checked.
        given: `{"world": {...}, ...}`; None takes the defaults of the schema.
        defaults: The defaults count: the package is authored.

    Raises:
        SessionError: Nothing is given and defaults do not count, an unknown key, or a value of a wrong type.
    """
    if given is None:
        if not defaults:
            msg = "a reconstructed package needs an initial state; its schema has no defaults that were observed"
            raise SessionError(msg)
        return engine.defaults()
    known = (*NAMESPACES, *COUNTERS, PENDING)
    if unknown := sorted(set(given) - set(known)):
        raise SessionError(f"initial state: unknown key {', '.join(unknown)}; known are {', '.join(known)}")
    want = {**dict.fromkeys(NAMESPACES, "object"), **dict.fromkeys(COUNTERS, "integer"), PENDING: "array"}
    if wrong := [f"{k} is no {want[k]}" for k, v in given.items() if not TYPES[want[k]](v)]:
        raise SessionError(f"initial state: {'; '.join(wrong)}")
    state = {**blank_state(), **given}
    if odd := [q for q in state[PENDING] if not _is_queued(q)]:
        raise SessionError(
            f"initial state: pending event {odd[0]!r:.80}, expected due_step and effects of op, path and value"
        )
    if broken := engine.mistyped(state, [(n,) for n in NAMESPACES]):
        raise SessionError(f"initial state: {'; '.join(broken[:5])}")
    return state


def _is_queued(value: Any) -> bool:
    """Whether a pending event is one that a schedule queues."""
    if (
        not isinstance(value, dict)
        or not TYPES["integer"](value.get("due_step"))
        or not isinstance(value.get("effects"), list)
    ):
        return False
    return all(
        isinstance(e, dict)
        and isinstance(e.get("path"), str)
        and (e.get("op") == "delete" or e.get("op") in OPERATIONS)
        for e in value["effects"]
    )
