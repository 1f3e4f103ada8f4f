"""One step of play, as sessions and replays both take it: the rules first, then whoever else may answer."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from expcomp.environments import paths
from expcomp.environments.conditions import Known
from expcomp.environments.effects import OPERATIONS, PENDING, State
from expcomp.environments.engine import Action, Engine, Issue, blank_state
from expcomp.environments.paths import COUNTERS, NAMESPACES
from expcomp.environments.values import TYPES, equal
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
        world: New values of `world`, by key, that the answer reveals; left out, with an issue, where schema or invariants forbid them.
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
class Question:
    """What a responder is asked: an action, the state before it, and the turns before it."""

    action: str
    arguments: Mapping[str, Any]
    state: State
    turns: Sequence[Turn]


@runtime_checkable
class Batched(Responder, Protocol):
    """A responder that answers many questions for little more than the cost of one."""

    def replies(self, asked: Sequence[Question]) -> Sequence[Reply | SessionError | None]:
        """An answer to each question, of sessions that know nothing of each other; an error refuses one of them."""


@runtime_checkable
class Rival(Responder, Protocol):
    """A responder that may know better than a rule."""

    def doubts(self, action: str, arguments: Mapping[str, Any], confidence: float) -> bool:
        """Whether it is to be asked although a rule of this confidence applies; if it abstains the rule answers."""


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
    responder: Responder | None = None,
) -> Answer:
    """Play one action; the state that was given is not changed.

    Raises:
        SessionError: The step is refused.
    """
    play = asking(engine, state, action_type, arguments, turns=turns, responder=responder)
    try:
        asked = next(play)
        while responder is not None:
            asked = play.send(responder.reply(asked.action, asked.arguments, asked.state, asked.turns))
    except StopIteration as end:
        answer: Answer = end.value
        return answer
    raise AssertionError(asked)


def asking(
    engine: Engine,
    state: State,
    action_type: str,
    arguments: Mapping[str, Any],
    *,
    turns: Sequence[Turn] = (),
    known: Known | None = None,
    responder: Responder | None = None,
) -> Generator[Question, Reply | None, Answer]:
    """`advance` that hands its questions to the caller, who sends the replies; the responder only says what it doubts.

    Raises:
        SessionError: The step is refused.
    """
    action = engine.canonical(action_type, arguments)
    try:
        done = engine.step(state, action, known)
    except NoApplicableRuleError:
        reply = None if responder is None else (yield from _reply(engine, state, action, turns))
        if reply is None:
            raise
        return reply
    if _doubted(responder, action, done.plan.confidence):
        reply = yield from _reply(engine, state, action, turns)
        # Where both say the same the rule goes on, as it also knows what the action changes.
        if reply is not None and reply.observation != done.plan.observation:
            return reply
    plan = done.plan
    changes = tuple(c.document() for c in plan.changes)
    return Answer(
        plan.observation, plan.outcome, "rule", plan.rule_id, plan.confidence, done.state, done.issues, changes
    )


def _doubted(responder: Responder | None, action: Action, confidence: float | None) -> bool:
    if confidence is None or not isinstance(responder, Rival):
        return False
    return responder.doubts(action.type, action.arguments, confidence)


def _reply(
    engine: Engine, state: State, action: Action, turns: Sequence[Turn]
) -> Generator[Question, Reply | None, Answer | None]:
    begun = engine.begin(state)
    reply = yield Question(action.type, action.arguments, begun.state, turns)
    if reply is None:
        return None
    after = {**begun.state, "revision": int(state["revision"]) + 1}
    issues: tuple[Issue, ...] = ()
    if reply.world:
        world = begun.state["world"]
        told = {**after, "world": {**world, **reply.world}}
        new = [k for k, v in reply.world.items() if k not in world or not equal(world[k], v)]
        issues = tuple(engine.issues(state, told, [("world", paths.Key(k)) for k in new]))
        # The answer stands; what it says of the world is taken only if the schema and the invariants admit it.
        if not any(i.severity == "error" for i in issues):
            after = told
    return Answer(
        reply.observation, reply.outcome, reply.route, None, reply.confidence, after, issues, (), reply.citations
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
            msg = "a reconstructed package needs an initial state, its schema has no defaults: give a state or a recorded case"
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


def _is_place(path: Any) -> bool:
    try:
        return isinstance(path, str) and paths.split(path)[0] in NAMESPACES
    except paths.PathError:
        return False


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
        and _is_place(e.get("path"))
        and isinstance(e.get("op"), str)
        and (e["op"] == "delete" or e["op"] in OPERATIONS)
        for e in value["effects"]
    )
