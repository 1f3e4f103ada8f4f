"""Small tables of a package as Python objects, for the engine: it plays one step at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import polars as pl

from expcomp.environments import paths
from expcomp.environments.conditions import Condition, operand
from expcomp.environments.config import SCOPE_NAMES
from expcomp.environments.effects import Effect, compile_effect
from expcomp.environments.scope import LanguageError
from expcomp.environments.templates import Template, Token, template, token
from expcomp.environments.values import TYPES, as_text, dump, strict_json
from expcomp.errors import RuleInvalidError

Frames = Mapping[str, pl.DataFrame]


def lines(frame: pl.DataFrame, *columns: str) -> Iterator[tuple[Any, ...]]:
    """Values of some columns, row by row."""
    return zip(*(frame[c].to_list() for c in columns), strict=True)


@dataclass(frozen=True, slots=True)
class Rule:
    """One compiled rule; `groups` are alternatives of conditions."""

    rule_id: str
    action: str
    priority: int
    confidence: float | None
    status: str
    outcome: str
    scope: Mapping[str, str]
    groups: tuple[tuple[Condition, ...], ...]
    effects: tuple[Effect, ...]
    template: Template | None
    required: tuple[Token, ...]


@dataclass(frozen=True, slots=True)
class Invariant:
    """One compiled invariant."""

    invariant_id: str
    severity: str
    groups: tuple[tuple[Condition, ...], ...]


class Argument(NamedTuple):
    """One declared argument."""

    type: str
    required: bool
    enum: list[Any] | None


class StateField(NamedTuple):
    """One declared state path."""

    path: str
    type: str
    mutable: bool
    default: tuple[bool, Any]


def grouped_conditions(frame: pl.DataFrame) -> dict[str, tuple[tuple[Condition, ...], ...]]:
    """Compiled conditions by owner, in groups.

    Raises:
        RuleInvalidError: One cannot be compiled.
    """
    found: dict[str, dict[int, list[Condition]]] = {}
    ordered = frame.sort("owner_id", "group", "ordinal")
    names = ("owner_id", "group", "left_kind", "left", "op", "right_kind", "right")
    for owner, group, left_kind, left, op, right_kind, right in lines(ordered, *names):
        try:
            compiled = Condition(
                operand(left_kind, left),
                op,
                None if right_kind is None or right is None else operand(right_kind, right),
            )
        except LanguageError as error:
            raise RuleInvalidError(f"conditions of {owner}: {error}") from None
        found.setdefault(owner, {}).setdefault(group, []).append(compiled)
    return {o: tuple(tuple(c) for _, c in sorted(groups.items())) for o, groups in found.items()}


def grouped_effects(frame: pl.DataFrame) -> dict[str, tuple[Effect, ...]]:
    """Compiled effects by rule, in order.

    Raises:
        RuleInvalidError: One cannot be compiled.
    """
    queues: dict[str, list[Effect]] = {}
    found: dict[str, list[Effect]] = {}
    names = ("owner_kind", "owner_id", "op", "path", "value_ref", "value_json", "delay_steps")
    # Pending mutations first: schedules name them.
    first = pl.col("owner_kind") != "pending"
    ordered = frame.filter(pl.col("owner_kind").is_in(["rule", "pending"])).sort(first, "owner_id", "ordinal")
    for kind, owner, op, path, ref, value, delay in lines(ordered, *names):
        try:
            effect = compile_effect(op, path, ref, value, delay, queues)
        except LanguageError as error:
            raise RuleInvalidError(f"effects of {kind} {owner}: {error}") from None
        (queues if kind == "pending" else found).setdefault(owner, []).append(effect)
    return {owner: tuple(effects) for owner, effects in found.items()}


def json_field(text: str, kind: str, where: str) -> Any:
    """The value of a JSON column.

    Raises:
        RuleInvalidError: It is no JSON, or of another type.
    """
    try:
        value = strict_json(text)
    except ValueError as error:
        raise RuleInvalidError(f"{where}: {text!r:.60} is no JSON ({error})") from None
    if not TYPES[kind](value):
        raise RuleInvalidError(f"{where}: {text!r:.60}, expected {kind}")
    return value


def scope_of(rule_id: str, text: str) -> dict[str, str]:
    """Scope of a rule, older names of keys read as today's.

    Raises:
        RuleInvalidError: It is no JSON object of texts and other plain values.
    """
    found = json_field(text, "object", f"rule {rule_id}, scope_json")
    if odd := [k for k, v in found.items() if isinstance(v, dict | list)]:
        raise RuleInvalidError(f"rule {rule_id}, scope_json: {odd[0]} is {dump(found[odd[0]])[:60]}, expected a text")
    return {SCOPE_NAMES.get(k, k): as_text(v) for k, v in found.items()}


def compiled_rules(frames: Frames) -> list[Rule]:
    """Every rule of a package, compiled.

    Raises:
        RuleInvalidError: One cannot be compiled, or names a renderer that is not there.
    """
    conditions, effects = grouped_conditions(frames["conditions"]), grouped_effects(frames["mutations"])
    renderers = {
        r: (content, text, tuple(required))
        for r, content, text, required in lines(
            frames["renderers"], "renderer_id", "content_type", "template", "required_fields"
        )
    }
    names = ("rule_id", "action_type", "priority", "confidence", "status", "outcome", "scope_json", "renderer")
    rules = []
    for rule_id, action, priority, confidence, status, outcome, scope, renderer, own in lines(
        frames["rules"].sort("rule_id"), *names, "observation_template"
    ):
        if renderer not in renderers:
            raise RuleInvalidError(f"rule {rule_id}: there is no renderer {renderer}")
        content, text, required = renderers[renderer]
        try:
            made = template(own or text, content) if (own or text) is not None else None
            needed = tuple(token(r) for r in required)
        except LanguageError as error:
            raise RuleInvalidError(f"rule {rule_id}, renderer {renderer}: {error}") from None
        rules.append(
            Rule(
                rule_id,
                action,
                priority,
                confidence,
                status,
                outcome,
                scope_of(rule_id, scope),
                conditions.get(rule_id, ()),
                effects.get(rule_id, ()),
                made,
                needed,
            )
        )
    return rules


def compiled_invariants(frames: Frames) -> list[Invariant]:
    """Every invariant of a package, compiled."""
    if frames["invariants"].is_empty():
        return []
    conditions = grouped_conditions(frames["conditions"])
    named = lines(frames["invariants"].sort("invariant_id"), "invariant_id", "severity")
    return [Invariant(i, severity, conditions.get(i, ())) for i, severity in named]


def declared_actions(frames: Frames) -> dict[str, dict[str, Argument]]:
    """Declared arguments by action.

    Raises:
        RuleInvalidError: The values of one are no JSON array.
    """
    found: dict[str, dict[str, Argument]] = {a: {} for a in frames["action_schema"]["action"]}
    names = ("action", "arg", "type", "required", "enum_json")
    for action, arg, kind, required, enum in lines(frames["action_args"], *names):
        where = f"action {action}, argument {arg}, enum_json"
        values = None if enum is None else json_field(enum, "array", where)
        found.setdefault(action, {})[arg] = Argument(kind, required, values)
    return found


def declared_state(frames: Frames) -> list[StateField]:
    """Declared state paths.

    Raises:
        RuleInvalidError: One is no path, or its default is no JSON of its type.
    """
    found = []
    for path, kind, mutable, text in lines(frames["state_schema"], "path", "type", "mutable", "default_json"):
        where = f"state path {path}"
        try:
            paths.split(path)
        except paths.PathError as error:
            raise RuleInvalidError(f"{where}: {error}") from None
        default = None if text is None else json_field(text, kind, f"{where}, default_json")
        found.append(StateField(path, kind, mutable, (text is not None, default)))
    return found
