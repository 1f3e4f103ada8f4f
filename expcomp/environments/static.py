"""Static checks of rules, invariants and renderers: what can never run as written, found without running it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import polars as pl

from expcomp.environments import paths
from expcomp.environments.conditions import Operand, operand
from expcomp.environments.effects import Effect, compile_effect
from expcomp.environments.paths import COUNTERS
from expcomp.environments.records import Frames, declared_actions, declared_state, lines, scope_of
from expcomp.environments.scope import LanguageError
from expcomp.environments.templates import Token, template, token
from expcomp.environments.values import TYPES, is_number, strict_json
from expcomp.errors import RuleInvalidError

FINDINGS: dict[str, pl.DataType] = {"kind": pl.String(), "id": pl.String(), "detail": pl.String()}
_NEEDS = {
    "increment": ("number", "integer", "any"),
    "decrement": ("number", "integer", "any"),
    "append": ("array", "any"),
    "merge": ("object", "any"),
    "remove": ("object", "array", "any"),
}
"""Declared types that an operation can work on."""
_READS_STATE = ("{state_before.", "{state_after.", "{=")


@dataclass(frozen=True, slots=True)
class Declared:
    """What a package declares: arguments by action, and state paths with type and mutability."""

    arguments: Mapping[str, frozenset[str]]
    state: tuple[tuple[tuple[str, ...], str, bool], ...]

    @classmethod
    def of(cls, frames: Frames) -> Declared:
        """Read the declarations."""
        found: dict[str, set[str]] = {a: set() for a in frames["action_schema"]["action"]}
        for action, arg in lines(frames["action_args"], "action", "arg"):
            found.setdefault(action, set()).add(arg)
        fields = lines(frames["state_schema"], "path", "type", "mutable")
        state = tuple((paths.split(p), t, m) for p, t, m in fields)
        return cls({a: frozenset(names) for a, names in found.items()}, state)

    def covering(self, path: tuple[str, ...]) -> list[tuple[tuple[str, ...], str, bool]]:
        """Declarations of a path or of what it lies in; a computed tail is covered by what declares its beginning."""
        return [d for d in self.state if paths.covers(d[0], path)]

    def knows(self, path: tuple[str, ...]) -> bool:
        """Whether a path, or something above or below it, is declared."""
        return path[0] in COUNTERS or any(paths.meets(d, path) for d, _, _ in self.state)


def static_findings(frames: Frames) -> pl.DataFrame:
    """One line a fault: kind (rule, invariant, renderer), id, what is wrong."""
    if wrong := list(_declarations(frames)):  # what rests on them cannot be looked at
        return pl.DataFrame(wrong, schema=dict(FINDINGS), orient="row")
    declared = Declared.of(frames)
    actions = dict(lines(frames["rules"], "rule_id", "action_type"))
    found = [
        *_scopes(frames),
        *_conditions(frames, declared, actions),
        *_effects(frames, declared, actions),
        *_renderers(frames, declared),
        *_templates(frames, declared),
    ]
    return pl.DataFrame(found, schema=dict(FINDINGS), orient="row").unique(maintain_order=True)


Fault = tuple[str, str, str]


def _declarations(frames: Frames) -> Iterator[Fault]:
    """The first declaration of a table that cannot be read."""
    for table, read in (("action_args", declared_actions), ("state_schema", declared_state)):
        try:
            read(frames)
        except RuleInvalidError as error:
            yield table, "", str(error)


def _scopes(frames: Frames) -> Iterator[Fault]:
    for rule, scope in lines(frames["rules"], "rule_id", "scope_json"):
        try:
            scope_of(rule, scope)
        except RuleInvalidError as error:
            yield "rule", rule, str(error)


def _conditions(frames: Frames, declared: Declared, actions: Mapping[str, str]) -> Iterator[Fault]:
    names = ("owner_id", "left_kind", "left", "op", "right_kind", "right")
    for owner, left_kind, left, op, right_kind, right in lines(frames["conditions"], *names):
        kind = "rule" if owner in actions else "invariant"
        alone = op in ("exists", "not_exists")
        if alone and right is not None:
            yield kind, owner, f"{op} takes one side, found {right!r}"
        if not alone and (right is None or right_kind is None):
            yield kind, owner, f"{op} needs a right side"
        for side_kind, side in ((left_kind, left), (right_kind, right)):
            if side is None or side_kind is None:
                continue
            try:
                made = operand(side_kind, side)
            except LanguageError as error:
                yield kind, owner, str(error)
                continue
            yield from ((kind, owner, why) for why in _unknown(made, declared, actions.get(owner)))


def _unknown(made: Operand | Effect | Token, declared: Declared, action: str | None) -> Iterator[str]:
    """Arguments and state paths that are read and not declared; an invariant (no action) may read no argument."""
    legal = frozenset() if action is None else declared.arguments.get(action, frozenset())
    for name in sorted(made.arguments):
        if name.partition(".")[0] not in legal and name not in legal:
            yield f"argument {name} is not declared" + ("" if action else "; an invariant reads state only")
    for path in sorted(made.state):
        if path and not declared.knows(path):
            yield f"state path {paths.join(path)} is not declared"


def _effects(frames: Frames, declared: Declared, actions: Mapping[str, str]) -> Iterator[Fault]:
    names = ("owner_kind", "owner_id", "op", "path", "value_ref", "value_json", "delay_steps")
    first = pl.col("owner_kind") != "pending"
    queues: dict[str, list[Effect]] = {}
    owners = _queued_by(frames)
    for owner_kind, owner, op, path, ref, value, delay in lines(
        frames["mutations"].filter(pl.col("owner_kind") != "evidence").sort(first, "owner_id", "ordinal"), *names
    ):
        rules = [owner] if owner_kind == "rule" else owners.get(owner, [])
        try:
            effect = compile_effect(op, path, ref, value, delay, queues)
        except LanguageError as error:
            yield from (("rule", r, str(error)) for r in rules)
            continue
        if owner_kind == "pending":
            queues.setdefault(owner, []).append(effect)
        for r in rules:
            for why in _effect(effect, ref, value, declared, actions.get(r)):
                yield "rule", r, why


def _queued_by(frames: Frames) -> dict[str, list[str]]:
    """Rules that schedule, by the id of the pending mutations."""
    found: dict[str, list[str]] = {}
    scheduled = frames["mutations"].filter(pl.col("op") == "schedule")
    for owner, value in lines(scheduled, "owner_id", "value_json"):
        try:
            named = strict_json(value) if value else ""
        except ValueError:
            continue  # compiling the effect says so
        if isinstance(named, str):
            found.setdefault(named, []).append(owner)
    return found


def _effect(effect: Effect, ref: str, value: str | None, declared: Declared, action: str | None) -> Iterator[str]:
    where = f"{effect.op} {effect.path.text}"
    yield from (f"{where}: {why}" for why in _unknown(effect, declared, action))
    if effect.op == "schedule":
        if not effect.delay or effect.delay < 1:
            yield f"{where}: a schedule needs a delay of 1 or more steps"
        return
    if effect.path.fixed[0] in COUNTERS:
        yield f"{where}: the path is counted by the session"
    elif not declared.covering(effect.path.fixed) and not declared.knows(effect.path.fixed):
        yield f"{where}: the path is not declared"
    if any(paths.meets(d, effect.path.fixed) and not mutable for d, _, mutable in declared.state):
        yield f"{where}: the path, one above or one below is immutable"
    if effect.op != "delete" and value is None:
        yield f"{where}: a value is missing"
    if ref == "literal" and value is not None and any(mark in value for mark in _READS_STATE):
        yield f"{where}: a literal may not read the state; say value_ref expr"
    if len(effect.path.fixed) == len(effect.path.segments):
        yield from (f"{where}: {why}" for why in _clash(effect, ref, value, declared))


def _clash(effect: Effect, ref: str, value: str | None, declared: Declared) -> Iterator[str]:
    """An operation or a literal that the declared type of exactly this path does not admit."""
    kind = next((t for d, t, _ in declared.state if d == effect.path.fixed), None)
    if kind is None:
        return
    if effect.op in _NEEDS and kind not in _NEEDS[effect.op]:
        yield f"the path is declared {kind}, expected {' or '.join(_NEEDS[effect.op])}"
    plain = ref == "literal" and value is not None and "{action." not in value and "$action_arg" not in value
    if plain and value is not None:
        literal = strict_json(value)
        if effect.op in ("set", "create") and not TYPES[kind](literal):
            yield f"value {value} is not of the declared type {kind}"
        if effect.op in ("increment", "decrement") and not is_number(literal):
            yield f"value {value} is no number"
        if effect.op == "merge" and not isinstance(literal, dict):
            yield f"value {value} is no object"


def _renderers(frames: Frames, declared: Declared) -> Iterator[Fault]:
    names = ("renderer_id", "action_types", "content_type", "template", "required_fields")
    for renderer, actions, content, text, required in lines(frames["renderers"], *names):
        # A renderer for some actions may read what any of them declares; for all actions, none.
        legal = [declared.arguments.get(a, frozenset()) for a in actions]
        common = frozenset.intersection(*legal) if legal else None
        try:
            tokens = [*(template(text, content).tokens if text is not None else ()), *map(token, required)]
        except LanguageError as error:
            yield "renderer", renderer, str(error)
            continue
        for why in _illegal(tokens, declared, common):
            yield "renderer", renderer, why


def _templates(frames: Frames, declared: Declared) -> Iterator[Fault]:
    own = frames["rules"].filter(pl.col("observation_template").is_not_null())
    for rule, action, text in lines(own, "rule_id", "action_type", "observation_template"):
        try:
            tokens = template(text).tokens
        except LanguageError as error:
            yield "rule", rule, f"template: {error}"
            continue
        for why in _illegal(tokens, declared, declared.arguments.get(action, frozenset())):
            yield "rule", rule, f"template: {why}"


def _illegal(tokens: Iterable[Token], declared: Declared, arguments: frozenset[str] | None) -> Iterator[str]:
    for t in tokens:
        for name in sorted(t.arguments):
            if arguments is not None and name not in arguments and name.partition(".")[0] not in arguments:
                yield f"reference {{{t.text}}}: argument {name} is not declared"
        for path in sorted(t.state):
            if path and not declared.knows(path):
                yield f"reference {{{t.text}}}: state path {paths.join(path)} is not declared"
