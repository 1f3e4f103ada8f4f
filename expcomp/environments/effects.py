"""Effects: resolved against a step, then applied in order. A state is never changed in place."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from expcomp.environments import paths
from expcomp.environments.expressions import expression
from expcomp.environments.paths import MISSING
from expcomp.environments.scope import LanguageError, Scope, Unresolved
from expcomp.environments.templates import StatePath, fill, filled_arguments, state_path
from expcomp.environments.values import equal, finite, is_number, strict_json

State = dict[str, Any]
PENDING = "pending_events"


class EffectError(ValueError):
    """An effect that cannot be applied to the state."""


@dataclass(frozen=True, slots=True)
class Effect:
    """One compiled effect.

    Attributes:
        op: Word of `MUTATION_OP`.
        path: Where.
        value: The value in a scope; None when the operation takes none.
        late: The value reads the state after the effects before this one.
        delay: Steps until queued effects are due.
        queued: Effects that a schedule queues.
        arguments: Arguments it reads.
        state: State paths it reads, besides its own.
    """

    op: str
    path: StatePath
    value: Callable[[Scope], Any] | None
    late: bool
    delay: int | None
    queued: tuple[Effect, ...]
    arguments: frozenset[str]
    state: frozenset[tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Change:
    """One effect of a step, nothing left to fill in."""

    op: str
    path: tuple[str, ...]
    value: Any = None
    delay: int | None = None
    queued: tuple[Change, ...] = ()

    def document(self) -> dict[str, Any]:
        """As the audit and the queue of a state hold it."""
        found: dict[str, Any] = {"op": self.op, "path": paths.join(self.path)}
        if self.op not in ("delete", "schedule"):
            found["value"] = self.value
        return found


def compile_effect(
    op: str,
    path: str,
    value_ref: str,
    value_json: str | None,
    delay: int | None,
    queues: Mapping[str, Sequence[Effect]],
) -> Effect:
    """Compile one line of `mutations`.

    Raises:
        LanguageError: A path, value or expression that is none.
    """
    where = state_path(path)
    value: Any = None
    if value_json is not None:
        try:
            value = strict_json(value_json)
        except ValueError as error:
            msg = f"value_json {value_json!r} is no JSON ({error})"
            raise LanguageError(msg) from None
    if op == "schedule":
        if not isinstance(value, str) or value not in queues:
            msg = f"schedule names {value!r}, expected the id of pending mutations"
            raise LanguageError(msg)
        queued = tuple(queues[value])
        arguments = frozenset(a for e in queued for a in e.arguments)
        return Effect(op, where, None, late=False, delay=delay, queued=queued, arguments=arguments, state=frozenset())
    if op == "delete":
        return Effect(op, where, None, False, delay, (), where.arguments, where.state)
    made, late, arguments, state = _value(value_ref, value)
    return Effect(op, where, made, late, delay, (), where.arguments | arguments, where.state | state)


def _value(ref: str, value: Any) -> tuple[Callable[[Scope], Any], bool, frozenset[str], frozenset[tuple[str, ...]]]:
    if ref == "literal":
        return (lambda s: fill(value, s)), False, filled_arguments(value), frozenset()
    if not isinstance(value, str):
        msg = f"value {value!r} of a mutation by {ref} is no JSON string"
        raise LanguageError(msg)
    if ref == "arg":
        made = expression(f"action.arguments[{json.dumps(value, ensure_ascii=False)}]")
        return made.value, False, frozenset([value]), frozenset()
    if ref == "expr":
        made = expression(value)
        return made.value, made.after, made.arguments, made.state
    path, after = state_path(value), ref == "after"
    return (lambda s: path.read(s, after=after)), after, path.arguments, path.state | {path.fixed}


def resolve(effects: Sequence[Effect], s: Scope) -> tuple[Change, ...]:
    """Fill in paths and values; late values see the effects before them.

    Raises:
        Unresolved: An argument or a value that is read is not there.
        EffectError: Effects that late values rest on cannot be applied.
    """
    seen: State = s.before
    changes: list[Change] = []
    looks_back = any(e.late for e in effects)
    for effect in effects:
        if looks_back:
            s.after = seen
        change = Change(
            effect.op,
            effect.path.at(s),
            None if effect.value is None else effect.value(s),
            effect.delay,
            resolve(effect.queued, s) if effect.queued else (),
        )
        changes.append(change)
        if looks_back and effect.op != "schedule":
            seen = apply_one(seen, change)
    s.after = None
    return tuple(changes)


def apply(state: State, changes: Sequence[Change]) -> State:
    """The state after changes, in order; a schedule is due `delay` steps after the step of the state.

    Raises:
        EffectError: One does not fit the state.
    """
    for change in changes:
        state = apply_one(state, change)
    return state


def apply_one(state: State, change: Change) -> State:
    """The state after one change."""
    if change.op == "schedule":
        queued = {
            "due_step": int(state.get("step", 0)) + int(change.delay or 0),
            "effects": [c.document() for c in change.queued],
        }
        return {**state, PENDING: [*state.get(PENDING, []), queued]}
    try:
        if change.op == "delete":
            return _state(paths.drop(state, change.path))
        now = paths.get(state, change.path)
        if change.op == "remove" and now is MISSING:
            return state
        return _state(paths.put(state, change.path, OPERATIONS[change.op](now, change.value)))
    except (KeyError, EffectError) as error:
        why = error if isinstance(error, EffectError) else "there is no place for it"
        msg = f"{change.op} {paths.join(change.path)}: {why}"
        raise EffectError(msg) from None


def _state(value: Any) -> State:
    assert isinstance(value, dict)
    return value


def take_due(state: State, step: int) -> tuple[State, tuple[Change, ...]]:
    """The state without the effects due by a step, and those effects, by due step, then in the order they were queued."""
    queue = state.get(PENDING) or []
    due = sorted((q for q in queue if q["due_step"] <= step), key=lambda q: int(q["due_step"]))
    if not due:
        return state, ()
    left = [q for q in queue if q["due_step"] > step]
    changes = [Change(e["op"], paths.split(e["path"]), e.get("value")) for q in due for e in q["effects"]]
    return {**state, PENDING: left}, tuple(changes)


def _added(now: Any, value: Any, sign: int) -> Any:
    if not is_number(now):
        msg = "nothing is there" if now is MISSING else f"{now!r} is no number"
        raise EffectError(msg)
    if not is_number(value):
        msg = f"{value!r} is no number"
        raise EffectError(msg)
    if not (finite(now) and finite(value) and finite(made := now + sign * value)):
        msg = "the sum is past the range of a float"
        raise EffectError(msg)
    return made


def _append(now: Any, value: Any) -> Any:
    if now is MISSING:
        return [value]
    if not isinstance(now, list):
        msg = f"{now!r} is no array"
        raise EffectError(msg)
    return [*now, value]


def _merge(now: Any, value: Any) -> Any:
    if not isinstance(value, dict) or not (now is MISSING or isinstance(now, dict)):
        msg = f"{value!r} cannot be merged into {'nothing' if now is MISSING else repr(now)}; expected objects"
        raise EffectError(msg)
    return value if now is MISSING else {**now, **value}


def _remove(now: Any, value: Any) -> Any:
    gone = value if isinstance(value, list) else [value]
    if isinstance(now, dict):
        return {k: v for k, v in now.items() if k not in gone}
    if isinstance(now, list):
        return [v for v in now if not any(equal(v, g) for g in gone)]
    msg = f"{now!r} is no object or array"
    raise EffectError(msg)


OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "set": lambda now, value: value,
    "create": lambda now, value: value,
    "increment": lambda now, value: _added(now, value, 1),
    "decrement": lambda now, value: _added(now, value, -1),
    "append": _append,
    "merge": _merge,
    "remove": _remove,
}
"""New value of a path by operation, from the value there (MISSING when there is none) and the value of the effect."""

__all__ = ["Change", "Effect", "EffectError", "Unresolved", "apply", "compile_effect", "resolve", "take_due"]
