"""Rule sets: ordered rules as data, the first that matches wins, compiled into one expression for the value and one for its rule."""

from __future__ import annotations

import functools
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.errors import ConfigError
from expcomp.ledger.operators import GROUPS, OPERATORS, kind_of, some

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

OUTPUTS = ("then", "take", "first_of", "nothing")
KEYS = {"id", "when", "note", *OUTPUTS}


@dataclass(frozen=True, slots=True)
class RuleSet:
    """Ordered rules; each a mapping with `id`, `when` and one output."""

    name: str
    rules: tuple[Mapping[str, Any], ...]

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the parts of the value when rules give tables; empty when they give one value."""
        names = {k: None for r in self.rules if isinstance(r.get("then"), dict) for k in r["then"]}
        return tuple(names)

    def produced(self) -> set[str]:
        """Texts the rules give as literals."""
        return {r["then"] for r in self.rules if isinstance(r.get("then"), str)}

    def mentioned(self, column: str) -> dict[str, set[str]]:
        """Texts that rules compare a column with exactly, by rule."""
        return {
            r["id"]: {
                v for c, op, arg in leaves(r.get("when", {})) if c == column and op in ("eq", "in") for v in some(arg)
            }
            for r in self.rules
        }


def leaves(when: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Every (column, operator, argument) of a condition, groups opened."""
    for key, value in when.items():
        if key in GROUPS:
            for part in some(value):
                yield from leaves(part)
        elif isinstance(value, dict):
            yield from ((key, op, arg) for op, arg in value.items())
        else:
            yield key, "eq", value


def compile_when(when: Mapping[str, Any], schema: Mapping[str, Any], where: str) -> pl.Expr:
    """One boolean expression without nulls; everything in `when` must hold.

    Raises:
        ConfigError: An unknown column or operator, or an operator that does not fit the column.
    """
    parts = [_part(key, value, schema, where) for key, value in when.items()]
    return functools.reduce(operator.and_, parts) if parts else pl.lit(value=True)


def _part(key: str, value: Any, schema: Mapping[str, Any], where: str) -> pl.Expr:
    if key in GROUPS:
        inner = [compile_when(w, schema, where) for w in some(value)]
        if key == "any":
            return functools.reduce(operator.or_, inner, pl.lit(value=False))
        every = functools.reduce(operator.and_, inner, pl.lit(value=True))
        return ~every if key == "not" else every
    if key not in schema:
        raise ConfigError(f"{where}: unknown column {key!r}; known are {', '.join(sorted(schema))}")
    tests = value if isinstance(value, dict) else {"eq": value}
    kind = kind_of(schema[key])
    parts = []
    for op, arg in tests.items():
        if op not in OPERATORS:
            raise ConfigError(f"{where}: unknown operator {op!r} on {key!r}; known are {', '.join(OPERATORS)}")
        if kind not in OPERATORS[op].on:
            fit = ", ".join(o for o, x in OPERATORS.items() if kind in x.on)
            raise ConfigError(f"{where}: {op!r} does not work on {key!r}, which is {kind}; what does: {fit}")
        parts.append(OPERATORS[op].build(pl.col(key), arg))
    return functools.reduce(operator.and_, parts, pl.lit(value=True))


def compile_rules(rules: RuleSet, schema: Mapping[str, Any]) -> tuple[pl.Expr, pl.Expr]:
    """(value, id of the rule that gave it), each one when/then chain.

    The value is a struct where the rules give tables, else a text, number or flag.

    Raises:
        ConfigError: See `check_rules` and `compile_when`.
    """
    check_rules(rules)
    return _chains(rules, schema)


def check_rules(rules: RuleSet) -> None:
    """Refuse a rule set that cannot mean what it says.

    Raises:
        ConfigError: No rules, a rule without id or output, an id twice, a rule that can never fire, no catch-all.
    """
    if not rules.rules:
        raise ConfigError(f"{rules.name}: no rules")
    seen: dict[str, Mapping[str, Any]] = {}
    closed = ""
    for number, rule in enumerate(rules.rules, 1):
        name = rule.get("id")
        if not isinstance(name, str) or not name:
            raise ConfigError(f"{rules.name}: rule {number} has no id")
        where = f"{rules.name}/{name}"
        if name in seen:
            raise ConfigError(f"{where}: the id is used twice")
        if unknown := set(rule) - KEYS:
            raise ConfigError(f"{where}: unknown key {min(unknown)!r}; known are {', '.join(sorted(KEYS))}")
        if len([k for k in OUTPUTS if k in rule]) != 1:
            raise ConfigError(f"{where}: exactly one of {', '.join(OUTPUTS)} must say what the rule gives")
        when = rule.get("when", {})
        if not isinstance(when, dict):
            raise ConfigError(f"{where}: `when` must be a table of conditions")
        if closed:
            raise ConfigError(f"{where}: can never fire, {closed} takes everything")
        for earlier, other in seen.items():
            if covers(other.get("when", {}), when):
                raise ConfigError(f"{where}: can never fire, {earlier} takes all it would match")
        seen[name] = rule
        closed = "" if when else name
    if not closed:
        raise ConfigError(f"{rules.name}: no catch-all; the last rule must have no `when`")


def covers(earlier: Mapping[str, Any], later: Mapping[str, Any]) -> bool:
    """Whether all that the later condition matches is matched by the earlier one; False when it cannot be told."""
    return all(_implied(key, value, later) for key, value in earlier.items())


def _implied(key: str, value: Any, later: Mapping[str, Any]) -> bool:
    if later.get(key) == value:
        return True
    if key == "any":
        return any(covers(w, later) for w in some(value))
    if key == "all":
        return all(covers(w, later) for w in some(value))
    if key in GROUPS or key not in later:
        return False
    have = later[key] if isinstance(later[key], dict) else {"eq": later[key]}
    want = value if isinstance(value, dict) else {"eq": value}
    exact = have.get("eq", have.get("in"))
    if exact is None:
        return all(have.get(op) == arg for op, arg in want.items())
    return all(
        (test := OPERATORS[op].holds) is not None and all(test(x, arg) for x in some(exact))
        if op in OPERATORS
        else False
        for op, arg in want.items()
    )


def _chains(rules: RuleSet, schema: Mapping[str, Any]) -> tuple[pl.Expr, pl.Expr]:
    *cases, last = rules.rules
    value, name = _output(last, rules, schema), pl.lit(last["id"])
    for rule in reversed(cases):
        test = compile_when(rule.get("when", {}), schema, f"{rules.name}/{rule['id']}")
        value = pl.when(test).then(_output(rule, rules, schema)).otherwise(value)
        name = pl.when(test).then(pl.lit(rule["id"])).otherwise(name)
    return value, name


def _output(rule: Mapping[str, Any], rules: RuleSet, schema: Mapping[str, Any]) -> pl.Expr:
    where = f"{rules.name}/{rule['id']}"
    parts = rules.fields
    if not parts:
        return _single(rule, schema, where)
    given = rule.get("then", {})
    if not isinstance(given, dict):
        raise ConfigError(f"{where}: must give a table, as other rules of the set do")
    types = _types(rules, schema)
    return pl.struct(
        [
            (_single({"then": given[p]}, schema, where) if p in given else pl.lit(None, dtype=types[p])).alias(p)
            for p in parts
        ]
    )


def _types(rules: RuleSet, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Dtype of each part, from the first rule that gives it."""
    kinds: dict[str, Any] = {}
    for rule in rules.rules:
        then = rule.get("then")
        for part, value in then.items() if isinstance(then, dict) else ():
            column = value.get("take") if isinstance(value, dict) else None
            kinds.setdefault(part, schema.get(column, pl.String) if column else _dtype(value))
    return kinds


def _dtype(value: Any) -> Any:
    return {bool: pl.Boolean, int: pl.Int64, float: pl.Float64}.get(type(value), pl.String)


def _single(rule: Mapping[str, Any], schema: Mapping[str, Any], where: str) -> pl.Expr:
    if "nothing" in rule:
        return pl.lit(None)
    for key in ("take", "first_of"):
        if key not in rule:
            continue
        column = rule[key]
        if column not in schema:
            raise ConfigError(f"{where}: unknown column {column!r}; known are {', '.join(sorted(schema))}")
        if key == "take":
            return pl.col(column)
        if kind_of(schema[column]) != "list":
            raise ConfigError(f"{where}: `first_of` needs a list column, {column!r} is none")
        return pl.col(column).list.first()
    then = rule["then"]
    if isinstance(then, dict) and set(then) & set(OUTPUTS):
        return _single(then, schema, where)
    if isinstance(then, (dict, list)):
        raise ConfigError(f"{where}: a value must be a text, a number or a flag")
    return pl.lit(then)
