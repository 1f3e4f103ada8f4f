"""The rule engine: which rule answers an action in a state, what it changes, how the answer reads. No I/O, no clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from expcomp.environments import paths
from expcomp.environments.conditions import Known, any_group
from expcomp.environments.config import PackageConfig
from expcomp.environments.effects import PENDING, Change, EffectError, State, apply, resolve, take_due
from expcomp.environments.paths import MISSING, NAMESPACES
from expcomp.environments.records import (
    Frames,
    Rule,
    compiled_invariants,
    compiled_rules,
    declared_actions,
    declared_state,
    lines,
)
from expcomp.environments.scope import Scope, Unresolved
from expcomp.environments.state_types import mistyped
from expcomp.environments.values import TYPES, as_text, dump, equal
from expcomp.errors import AmbiguousRuleError, InvalidActionError, NoApplicableRuleError, VerificationFailedError


@dataclass(frozen=True, slots=True)
class Action:
    """A canonical action; `faults` says where it does not hold to its schema."""

    type: str
    arguments: Mapping[str, Any]
    faults: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """What a rule does in a state: changes, outcome and text, nothing left to fill in."""

    rule_id: str
    confidence: float | None
    outcome: str
    changes: tuple[Change, ...]
    observation: str | None
    issue: str | None = None

    def same(self, other: Plan) -> bool:
        """Whether two plans do and say the same."""
        mine, theirs = ([p.outcome, p.observation, p.issue, [_told(c) for c in p.changes]] for p in (self, other))
        return equal(mine, theirs)


def _told(change: Change) -> dict[str, Any]:
    return change.document() | {"delay": change.delay, "queued": [_told(c) for c in change.queued]}


@dataclass(frozen=True, slots=True)
class Issue:
    """Something a step would break."""

    severity: str
    message: str


@dataclass(frozen=True, slots=True)
class Begun:
    """A state at the start of a step, and the paths that due effects changed."""

    state: State
    touched: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Stepped:
    """A step that may be committed."""

    plan: Plan
    state: State
    issues: tuple[Issue, ...] = field(default=())


class UndecidableError(NoApplicableRuleError):
    """Whether a rule applies rests on a state path that nobody has seen."""


class Engine:
    """Plays the rules of a package.

    Args:
        frames: Tables of a package by file stem.
        config: Its settings.
        strict: Values are written as Python writes them, and every path that any condition reads must be known: the older
            semantics, kept for comparison.
    """

    def __init__(self, frames: Frames, config: PackageConfig, *, strict: bool = False) -> None:
        self.config, self.strict = config, strict
        self.actions = declared_actions(frames)
        self.fields = [(paths.split(f.path), f) for f in declared_state(frames)]
        self.types = [(segments, f.type) for segments, f in self.fields if f.type != "any"]
        self.aliases = dict(lines(frames["action_aliases"], "alias", "action"))
        self.invariants = compiled_invariants(frames)
        self.rules: dict[str, list[Rule]] = {}
        for rule in compiled_rules(frames):
            self.rules.setdefault(rule.action, []).append(rule)

    def defaults(self) -> State:
        """An empty state with the defaults of the schema."""
        state = blank_state()
        for segments, declared in self.fields:
            there, value = declared.default
            if there:
                state = paths.put(state, segments, value)
        return state

    def canonical(self, action_type: str, arguments: Mapping[str, Any]) -> Action:
        """The action under its own name, its arguments checked; those that are not declared are let through.

        An action that lacks an argument, or has one of a wrong type or outside its values, has faults: only a rule for a failure may
        answer it, as environments refuse such calls in words of their own. Null stands for an argument that may be left out.

        Raises:
            InvalidActionError: It is not declared; for the strict engine also any fault, null included.
        """
        name = self.aliases.get(action_type, action_type)
        if name not in self.actions:
            raise InvalidActionError(
                f"there is no action {action_type!r:.80}; known are {', '.join(sorted(self.actions))}"
            )
        declared = self.actions[name]
        wrong = [f"{a} is missing" for a, d in declared.items() if d.required and a not in arguments]
        for arg, spec in declared.items():
            if arg not in arguments:
                continue
            value = arguments[arg]
            if value is None and not spec.required and not self.strict:
                continue
            if not TYPES[spec.type](value):
                wrong.append(f"{arg} is {dump(value)[:80]}, expected {spec.type}")
            elif spec.enum is not None and not any(equal(value, e) for e in spec.enum):
                wrong.append(f"{arg} is {dump(value)[:80]}, expected one of {dump(spec.enum)[:200]}")
        if wrong and self.strict:
            raise InvalidActionError(f"action {name}: {'; '.join(wrong)}")
        return Action(name, arguments, tuple(wrong))

    def eligible(self, rule: Rule, state: State) -> bool:
        """Whether a rule may run: supported, confident enough, in scope."""
        if rule.status != "supported" or rule.confidence is None or rule.confidence < self.config.min_rule_confidence:
            return False
        values = self.config.scope_values()
        return all(_in_scope(k, v, values, state) for k, v in rule.scope.items())

    def begin(self, state: State) -> Begun:
        """The state at the start of the next step: counted on, due effects applied.

        Raises:
            VerificationFailedError: A due effect does not fit.
        """
        step = int(state["step"]) + 1
        left, due = take_due(state, step)
        try:
            return Begun(_whole(apply({**left, "step": step}, due)), tuple(c.path for c in due))
        except EffectError as error:
            raise VerificationFailedError(f"an effect due by step {step}: {error}") from None

    def decide(self, state: State, action: Action, known: Known | None = None) -> Plan:
        """The plan of the rule that answers.

        Args:
            state: As `begin` gives it.
            action: As `canonical` gives it.
            known: Whether an absent state path is known to be absent; without it all are.

        Raises:
            NoApplicableRuleError: None does.
            InvalidActionError: None does, and the action has faults.
            AmbiguousRuleError: Two of the highest priority differ.
            UndecidableError: Which rule answers rests on a path that is not known.
        """
        plans: list[tuple[int, Plan]] = []
        unsure: list[Rule] = []
        for rule in self.rules.get(action.type, ()):
            if not self.eligible(rule, state) or (action.faults and rule.outcome != "failure"):
                continue
            s = Scope(action.type, action.arguments, state)
            holds = self._holds(rule, s, known)
            if holds is None:
                unsure.append(rule)
            if holds and (plan := self.plan(rule, state, action)) is not None:
                plans.append((rule.priority, plan))
        top = max((p for p, _ in plans), default=None)
        if blocking := [r.rule_id for r in unsure if top is None or r.priority >= top or self.strict]:
            raise UndecidableError(
                f"action {action.type}: whether {', '.join(blocking)} applies rests on a state path that was not observed"
            )
        if top is None and action.faults:
            raise InvalidActionError(f"action {action.type}: {'; '.join(action.faults)}")
        if top is None:
            raise NoApplicableRuleError(f"action {action.type}: no rule of the package applies in this state")
        first = [plan for priority, plan in plans if priority == top]
        if not all(first[0].same(p) for p in first[1:]):
            ids = ", ".join(p.rule_id for p in first)
            raise AmbiguousRuleError(f"action {action.type}: rules {ids} have priority {top} and answer differently")
        plan = max(first, key=lambda p: (p.confidence or 0.0, p.rule_id))
        if known is not None:
            _observed(plan, state, known)
        return plan

    def _holds(self, rule: Rule, s: Scope, known: Known | None) -> bool | None:
        if known is None or not self.strict:
            return any_group(rule.groups, s, known)
        every = [c.holds(s, known) for group in rule.groups for c in group]
        return None if None in every else any_group(rule.groups, s, known)

    def plan(self, rule: Rule, state: State, action: Action) -> Plan | None:
        """What a rule would do; None when an argument or value its effects need is not there."""
        s = Scope(action.type, action.arguments, state)
        issue: str | None = None
        changes: tuple[Change, ...] = ()
        try:
            changes = resolve(rule.effects, s)
            after = apply(state, changes)
        except Unresolved:
            return None
        except EffectError as error:
            return Plan(rule.rule_id, rule.confidence, rule.outcome, changes, None, f"rule {rule.rule_id}: {error}")
        s.after, s.outcome = after, rule.outcome
        try:
            for needed in rule.required:
                needed.value(s)
            observation = self._render(rule, s)
        except Unresolved:
            observation, issue = None, f"rule {rule.rule_id}: a token of its template has no value"
        return Plan(rule.rule_id, rule.confidence, rule.outcome, changes, observation, issue)

    def _render(self, rule: Rule, s: Scope) -> str:
        if rule.template is not None:
            return rule.template.render(s, as_host=self.strict)
        after = s.after or {}
        return dump({"outcome": rule.outcome, "state": {n: after.get(n, {}) for n in NAMESPACES}})

    def step(self, state: State, action: Action, known: Known | None = None) -> Stepped:
        """Begin, decide, apply, check; the state that was given is not changed.

        Raises:
            SessionError: Any of the reasons to refuse a step.
        """
        begun = self.begin(state)
        return self.checked(state, begun, self.decide(begun.state, action, known))

    def checked(self, state: State, begun: Begun, plan: Plan) -> Stepped:
        """Apply a plan and check the result against schema and invariants.

        Raises:
            VerificationFailedError: It breaks something that was whole before.
        """
        if plan.issue is not None:
            raise VerificationFailedError(plan.issue)
        after = _whole(apply(begun.state, plan.changes))
        found = self.issues(state, after, (*begun.touched, *(c.path for c in plan.changes)))
        if errors := [i.message for i in found if i.severity == "error"]:
            raise VerificationFailedError("; ".join(errors))
        return Stepped(plan, {**after, "revision": int(state["revision"]) + 1}, tuple(found))

    def issues(self, before: State, after: State, touched: Sequence[tuple[str, ...]]) -> list[Issue]:
        """What a state breaks at or near the paths that were changed; what was broken before is a warning."""
        now = self._broken(after, touched)
        old = set(self._broken(before, touched)) if now else set()
        return [Issue("warning" if found in old else found[0], found[1]) for found in now]

    def mistyped(self, state: State, touched: Sequence[tuple[str, ...]]) -> list[str]:
        """Values at or near some paths that are not of their declared type."""
        return mistyped(self.types, state, touched)

    def _broken(self, state: State, touched: Sequence[tuple[str, ...]]) -> list[tuple[str, str]]:
        s = Scope("", {}, state)
        return [("error", message) for message in self.mistyped(state, touched)] + [
            (i.severity, f"invariant {i.invariant_id} does not hold")
            for i in self.invariants
            if any_group(i.groups, s) is not True
        ]

    def supported(self, state: State, action: Action, changes: Sequence[Change], rule_ids: Sequence[str]) -> list[str]:
        """Why changes are not exactly those of the rules they cite; empty when they are."""
        if len(set(rule_ids)) < len(rule_ids):
            return ["a rule is cited twice"]
        by_id = {r.rule_id: r for r in self.rules.get(action.type, ())}
        if unknown := [r for r in rule_ids if r not in by_id]:
            return [f"rule {r} is no rule of {action.type}" for r in unknown]
        s = Scope(action.type, action.arguments, state)
        wrong = [r for r in rule_ids if not self.eligible(by_id[r], state) or any_group(by_id[r].groups, s) is not True]
        if wrong:
            return [f"rule {r} does not apply" for r in wrong]
        plans = [self.plan(by_id[r], state, action) for r in rule_ids]
        want = [_told(c) for p in plans if p is not None for c in p.changes]
        same = None not in plans and equal(want, [_told(c) for c in changes])
        return [] if same else ["the effects are not those of the cited rules, in order"]


def _whole(state: State) -> State:
    """The state, whose namespaces no effect may take away."""
    if gone := [n for n in NAMESPACES if not isinstance(state.get(n), dict)]:
        raise VerificationFailedError(
            f"{gone[0]} is {dump(state.get(gone[0]))[:80]} after the effects, expected an object"
        )
    return state


def blank_state() -> State:
    """A state in which nothing is known."""
    return {"revision": 0, "step": 0, **{n: {} for n in NAMESPACES}, PENDING: []}


NEEDS_OLD = frozenset({"increment", "decrement", "append"})
"""Operations whose result rests on what stood at the path."""


def _observed(plan: Plan, state: State, known: Known) -> None:
    """Refuse a plan that adds to a path nobody has seen."""
    for change in plan.changes:
        where = paths.join(change.path)
        if change.op in NEEDS_OLD and paths.get(state, change.path) is MISSING and not known(where):
            raise UndecidableError(f"rule {plan.rule_id}: {change.op} on {where}, which was not observed")


def _in_scope(key: str, value: str, values: Mapping[str, str], state: State) -> bool:
    if key in values:
        return values[key] == value
    try:
        found = paths.get(state, paths.split(key))
    except paths.PathError:
        return False
    return found is not MISSING and as_text(found) == value
