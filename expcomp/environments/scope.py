"""What an expression can see, and what becomes of it when it has no value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from expcomp.environments import paths
from expcomp.environments.paths import MISSING
from expcomp.errors import TooMuchWorkError

MOST = 1_000_000
"""Elements that the expressions of one rule may look at in a step; loops in loops would not end."""


class LanguageError(ValueError):
    """A text that is no expression of the language."""


class Unresolved(LookupError):  # noqa: N818 - control flow, never shown
    """An expression without a value here."""


@dataclass(slots=True)
class Scope:
    """What an expression can see.

    Attributes:
        action: Name of the action.
        arguments: Its arguments.
        before: State when the step began, due effects applied.
        after: State with the effects so far.
        outcome: Outcome of the step, for templates.
        missed: State paths that were read and are not there.
        looked: Elements that were looked at; one number.
    """

    action: str
    arguments: Mapping[str, Any]
    before: dict[str, Any]
    after: dict[str, Any] | None = None
    outcome: str | None = None
    missed: set[str] = field(default_factory=set)
    looked: list[int] = field(default_factory=lambda: [0])

    def look(self, n: int) -> None:
        """Count elements that are looked at.

        Raises:
            TooMuchWorkError: They are more than a rule may look at.
        """
        self.looked[0] += n
        if self.looked[0] > MOST:
            msg = f"a rule of {self.action or 'the state'} looks at more than {MOST:,} elements; loop over fewer"
            raise TooMuchWorkError(msg)

    def read(self, segments: tuple[str, ...], *, after: bool = False) -> Any:
        """A value of the state, or MISSING; a miss is remembered."""
        value = paths.get(self.after if after and self.after is not None else self.before, segments)
        if value is MISSING:
            self.missed.add(paths.join(segments))
        return value


@dataclass(slots=True)
class Inner(Scope):
    """A scope inside another one: the element that is looked at, and names that stand for elements."""

    item: Any = MISSING
    names: Mapping[str, Any] = field(default_factory=dict)


def inside(scope: Scope, *, item: Any = MISSING, name: str | None = None) -> Inner:
    """The scope of one element, or of one that has a name; the names around it are kept."""
    known = scope.names if isinstance(scope, Inner) else {}
    if name is not None:
        known, item = {**known, name: item}, MISSING
    return Inner(
        scope.action,
        scope.arguments,
        scope.before,
        scope.after,
        scope.outcome,
        scope.missed,
        scope.looked,
        item=item,
        names=known,
    )


def carried(scope: Scope) -> Any:
    """The element that is looked at."""
    return scope.item if isinstance(scope, Inner) else MISSING
