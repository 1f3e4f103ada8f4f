"""The interactive terminal session of `expcomp env play`."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, TextIO

from expcomp.errors import RevisionConflictError, SessionError, UsageError

if TYPE_CHECKING:
    from expcomp.environments.session import Session


def loop(session: Session, lines: TextIO, *, as_json: bool) -> None:
    """Read actions until the input or `:quit` ends it; a refused action is told, and the session goes on.

    Raises:
        RevisionConflictError: Another session plays on from the same state: every further step would be refused.
    """
    prompt = lines.isatty() and not as_json
    while True:
        if prompt:
            print("> ", end="", flush=True)
        line = lines.readline()
        if not line or line.strip() == ":quit":
            return
        if line.strip():
            _take(session, line.strip(), as_json=as_json)


def _take(session: Session, line: str, *, as_json: bool) -> None:
    try:
        if line.startswith(":"):
            _tell(_look(session, line), as_json)
            return
        action, arguments = parse(line)
        done = session.step(action, arguments)
    except (SessionError, UsageError) as error:
        if as_json:
            print(json.dumps({"error": type(error).__name__, "message": str(error)}, ensure_ascii=False), flush=True)
        if isinstance(error, RevisionConflictError):
            msg = f"another session plays on from the same state; start again to take it up there ({error})"
            raise RevisionConflictError(msg) from error
        if not as_json:
            print(f"refused: {error}", flush=True)
        return
    if as_json:
        told = {
            "observation": done.observation,
            "outcome": done.outcome,
            "route": done.route,
            "rule_ids": done.rule_ids,
        }
        print(json.dumps(told | {"issues": done.issues}, ensure_ascii=False), flush=True)
        return
    print(done.observation, flush=True)
    for issue in done.issues:
        print(f"warning: {issue}", file=sys.stderr)


def _look(session: Session, line: str) -> Any:
    if line == ":state":
        return session.state
    if line == ":audit":
        return session.audit()
    if line == ":actions":
        return {a: {n: s.type for n, s in args.items()} for a, args in sorted(session.engine.actions.items())}
    msg = f"{line}: expected :actions, :state, :audit or :quit"
    raise UsageError(msg)


def _tell(value: Any, as_json: bool) -> None:
    print(json.dumps(value, ensure_ascii=False, indent=None if as_json else 2), flush=True)


def parse(line: str) -> tuple[str, dict[str, Any]]:
    """Action and arguments of a line: `name {"json": 1}`, or `name key=value ...` where a value is JSON, else text.

    Raises:
        UsageError: Neither of the two.
    """
    name, _, rest = line.partition(" ")
    rest = rest.strip()
    if not rest:
        return name, {}
    if rest.startswith("{"):
        try:
            value = json.loads(rest)
        except ValueError as error:
            msg = f"{rest[:60]!r} is no JSON object ({error})"
            raise UsageError(msg) from None
        return name, value
    import shlex

    try:
        pairs = [p.partition("=") for p in shlex.split(rest)]
    except ValueError as error:
        msg = f"{rest[:60]!r}: {error}"
        raise UsageError(msg) from None
    if bad := ["".join(p) for p in pairs if not (p[0] and p[1])]:
        msg = f"{bad[0]!r}: expected key=value, or one JSON object"
        raise UsageError(msg)
    return name, {key: _value(text) for key, _, text in pairs}


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
