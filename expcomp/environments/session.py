"""Session: one running episode on top of a package."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from expcomp.environments.effects import State
from expcomp.environments.package import EnvironmentPackage
from expcomp.environments.playing import Responder, Turn, advance, initial_state
from expcomp.environments.records import lines
from expcomp.environments.values import as_json
from expcomp.errors import InvalidActionError, SessionError, VerificationFailedError
from expcomp.io.session_store import SessionStore
from expcomp.io.staging import subfolder

FILE = "session.sqlite"


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a step gave.

    Attributes:
        observation: The answer.
        outcome: success, failure, partial or unknown.
        state: Committed state.
        route: What answered; word of `ROUTE`.
        confidence: Of the answer; None when unmeasured.
        rule_ids: Rules that answered.
        citations: Recorded events that these rules rest on.
        issues: What was broken before the step and still is, and what a reply says of the world that the schema does not admit.
    """

    observation: str
    outcome: str
    state: Mapping[str, Any]
    route: str
    confidence: float | None
    rule_ids: tuple[str, ...]
    citations: tuple[str, ...]
    issues: tuple[str, ...]


@dataclass
class Session:
    """One episode. Open it with `open_session`."""

    package: EnvironmentPackage
    store: SessionStore
    state: State
    revision: int
    responder: Responder | None = None
    strict: bool = False
    turns: list[Turn] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.engine = self.package.engine(strict=self.strict)
        refs = self.package["refs"].filter((pl.col("owner_kind") == "rule") & (pl.col("role") == "support"))
        self._cited: dict[str, list[str]] = {}
        for owner, event in lines(refs.drop_nulls("event_id"), "owner_id", "event_id"):
            self._cited.setdefault(owner, []).append(event)

    def step(self, action: str, arguments: Mapping[str, Any] | None = None) -> StepResult:
        """Play one action and commit it; a failure of the environment is a step too.

        Raises:
            SessionError: The step is refused: invalid action, no rule, two rules that differ, effects that break something, or
                another step was committed in between. Nothing is committed; the audit says why.
        """
        given = self._given(action, arguments)
        asked = {"action": action, "arguments": given}
        try:
            answer = advance(self.engine, self.state, action, given, turns=self.turns, responder=self.responder)
            record = {
                "kind": "step",
                **asked,
                "observation": answer.observation,
                "outcome": answer.outcome,
                "route": answer.route,
                "rule_id": answer.rule_id,
                "confidence": answer.confidence,
                "changes": list(answer.changes),
                "issues": [i.message for i in answer.issues],
            }
            self._commit(answer.state, record)
        except SessionError as error:
            self.store.note(_text({"kind": "refused", **asked, "error": type(error).__name__, "message": str(error)}))
            raise
        self.turns.append(Turn(action, given, answer.observation, answer.outcome))
        rules = () if answer.rule_id is None else (answer.rule_id,)
        return StepResult(
            answer.observation or "",
            answer.outcome,
            self.state,
            answer.route,
            answer.confidence,
            rules,
            tuple(e for r in rules for e in self._cited.get(r, ())) or answer.citations,
            tuple(i.message for i in answer.issues),
        )

    def _given(self, action: Any, arguments: Any) -> dict[str, Any]:
        """The arguments as JSON, a copy of what was given; what is none is refused, and the audit says so without them."""
        try:
            if not isinstance(arguments, Mapping | None):
                msg = f"{type(arguments).__name__}, expected an object"
                raise ValueError(msg)
            if not isinstance(as_json(action), str):
                msg = f"{type(action).__name__}, expected the name of an action"
                raise ValueError(msg)
            return {k: _argument(k, v) for k, v in (arguments or {}).items()}
        except ValueError as error:
            what = action if isinstance(action, str) and action.isascii() else "?"
            refused = InvalidActionError(f"action {what}: {error}")
            note = {"kind": "refused", "action": what, "arguments": None, "error": type(refused).__name__}
            self.store.note(_text({**note, "message": str(refused)}))
            raise refused from None

    def observe(self, turns: Sequence[Turn]) -> list[bool]:
        """Follow turns that were observed elsewhere: says of each whether a rule explains it.

        A rule whose text equals the observed one, whitespace aside, has its effects applied; otherwise the state stays as it is, for
        a rule never overrides what was observed.
        """
        explained = []
        for turn in turns:
            state, rule = self.state, None
            try:
                answer = advance(self.engine, self.state, turn.action, turn.arguments)
                if _folded(answer.observation) == _folded(turn.observation):
                    state, rule = answer.state, answer.rule_id
            except SessionError:
                pass  # nothing explains the turn; the record below says so
            asked = {"action": turn.action, "arguments": dict(turn.arguments), "observation": turn.observation}
            self._commit(state, {"kind": "observed", **asked, "rule_id": rule})
            self.turns.append(turn)
            explained.append(rule is not None)
        return explained

    def _commit(self, state: State, record: Mapping[str, Any]) -> None:
        try:
            texts = _text({**state, "revision": self.revision + 1}), _text(record)
        except (ValueError, TypeError, RecursionError) as error:
            raise VerificationFailedError(f"what the step makes is no JSON ({error}); nothing was committed") from None
        self.revision = self.store.commit(self.revision, *texts)
        self.state = {**state, "revision": self.revision}

    def audit(self) -> list[dict[str, Any]]:
        """Every step, also those that were refused, in order."""
        return [json.loads(r) for r in self.store.audit()]

    def close(self) -> None:
        """Close the session; one with a folder can be taken up again."""
        self.store.close()


def _text(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _argument(name: Any, value: Any) -> Any:
    try:
        as_json({name: value})
        return as_json(value)
    except ValueError as error:
        msg = f"{name!r:.40}: {error}; an argument is a JSON value"
        raise ValueError(msg) from None


def _folded(text: str | None) -> str | None:
    return None if text is None else " ".join(text.split())


def _start(given: Any) -> Any:
    """The state to begin with, a copy as JSON has it."""
    if not isinstance(given, Mapping | None):
        raise SessionError(f"initial state: {type(given).__name__}, expected an object")
    if given is None:
        return None
    found = {}
    for key, value in given.items():
        try:
            found[key] = as_json(value)
        except ValueError as error:
            raise SessionError(f"initial state, {key}: {error}") from None
    return found


def open_session(
    package: EnvironmentPackage,
    folder: str | Path | None = None,
    *,
    start: Mapping[str, Any] | None = None,
    responder: Responder | None = None,
    allow_unvalidated: bool = False,
    strict: bool = False,
) -> Session:
    """Begin a session, or take up the one of a folder.

    Args:
        package: What to play.
        folder: Where state and audit are kept, never inside the package; None keeps them in memory.
        start: State before the first step, `{"world": {...}}`; an authored package has defaults.
        responder: Who answers when no rule applies.
        allow_unvalidated: Play a candidate that has not passed a replay.
        strict: Older semantics of the engine.

    Raises:
        SessionError: The package is an unvalidated candidate, there is no initial state, or the folder holds another session.
    """
    if package.status == "candidate" and not allow_unvalidated:
        raise SessionError(
            f"package {package.config.environment_id} is a candidate that no replay has validated; "
            "promote it, or allow unvalidated packages"
        )
    path = None
    if folder is not None:
        root = Path(folder)
        if package.folder is not None and package.folder.resolve() in (root.resolve(), *root.resolve().parents):
            raise SessionError(f"{folder} lies inside the package; a session has a folder of its own")
        try:
            path = subfolder(root) / FILE
        except OSError as error:
            raise SessionError(f"{folder}: no session can be made here ({error.strerror})") from None
    meta = _text({"environment_id": package.config.environment_id, "artifact_digest": package.artifact_digest})
    store = None if path is None or not path.exists() else SessionStore(path)
    if store is None or not store.begun():
        engine = package.engine(strict=strict)
        state = initial_state(engine, _start(start), defaults=package.config.construction_kind == "authored")
        store = store or SessionStore(path)
        store.create(_text({**state, "revision": 0}), meta)
        return Session(package, store, {**state, "revision": 0}, 0, responder, strict)
    revision, text, about = store.load()
    if about != meta:
        raise SessionError(f"{folder}: the session belongs to another package or version: {about}")
    session = Session(package, store, json.loads(text), revision, responder, strict)
    session.turns = [
        Turn(r["action"], r["arguments"], r.get("observation"), r.get("outcome"))
        for r in session.audit()
        if r["kind"] != "refused"
    ]
    return session
