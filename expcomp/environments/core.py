"""Environment: the small core that every export is a thin file around: tools, reset, step, state, score."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from expcomp.environments import paths
from expcomp.environments.folder import open_package, read_replay
from expcomp.environments.overview import tool_schemas
from expcomp.environments.package import EnvironmentPackage
from expcomp.environments.playing import Responder
from expcomp.environments.records import lines
from expcomp.environments.session import Session, StepResult, open_session
from expcomp.environments.values import equal
from expcomp.errors import NoApplicableRuleError, RevisionConflictError, SessionError, UsageError


@dataclass(frozen=True, slots=True)
class Score:
    """What an episode is worth against a recorded case.

    Attributes:
        state: Share of the state paths that the case recorded last which hold now; None when it recorded none.
        calls: Share of the recorded calls that changed or read something with success which were made, with equal arguments;
            None when there is none.
        reward: The product of those that are known; None when none is.
    """

    state: float | None
    calls: float | None
    reward: float | None


class Environment:
    """A package ready to be stepped through by an agent or a trainer.

    Args:
        package: What to play.
        cases: `REPLAY_CASES` to reset to; by default those a promotion left in the folder of the package.
        steps: Their steps.
        responder: Who answers when no rule applies.
        allow_unvalidated: Play a candidate that no replay has validated.
    """

    def __init__(
        self,
        package: EnvironmentPackage,
        *,
        cases: pl.DataFrame | None = None,
        steps: pl.DataFrame | None = None,
        responder: Responder | None = None,
        allow_unvalidated: bool = False,
    ) -> None:
        if (cases is None) is not (steps is None):
            msg = "cases and steps are given together or not at all"
            raise UsageError(msg)
        if cases is None or steps is None:
            cases, steps = read_replay(package)
        self.package, self.cases, self.case_steps = package, cases, steps
        self._responder, self._allow = responder, allow_unvalidated
        self._session: Session | None = None
        self.case_id: str | None = None

    def __repr__(self) -> str:
        config, cases = self.package.config, self.cases.height
        return f"Environment({config.environment_id}, {self.package.status}, {len(self.tools):,} tools, {cases:,} cases to reset to)"

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The actions as function schemas (JSON Schema)."""
        return tool_schemas(self.package.frames)

    @property
    def case_ids(self) -> list[str]:
        """Cases to reset to, sorted."""
        return sorted(self.cases["case_id"])

    def reset(
        self,
        case_id: str | None = None,
        *,
        initial_state: Mapping[str, Any] | None = None,
        folder: str | Path | None = None,
    ) -> dict[str, Any]:
        """Begin an episode; returns the state.

        Args:
            case_id: Take the initial state of this case, and score against it.
            initial_state: Or this one; an authored package has defaults when neither is given.
            folder: Keep state and audit here.

        Raises:
            UsageError: No such case, or both a case and a state.
            SessionError: There is no state to begin from, or the package is an unvalidated candidate.
        """
        if case_id is not None and initial_state is not None:
            msg = "give a case or an initial state, not both"
            raise UsageError(msg)
        start = initial_state
        if case_id is not None:
            start = case_state(self.cases, case_id)
        self.close()
        self._session = open_session(
            self.package, folder, start=start, responder=self._responder, allow_unvalidated=self._allow
        )
        self.case_id = case_id
        return self.state

    @property
    def session(self) -> Session:
        """The running episode.

        Raises:
            UsageError: `reset` was not called.
        """
        if self._session is None:
            msg = "call reset before the first step"
            raise UsageError(msg)
        return self._session

    @property
    def state(self) -> dict[str, Any]:
        """The state as it is."""
        return dict(self.session.state)

    def step(self, action: str, arguments: Mapping[str, Any] | None = None) -> StepResult:
        """Play an action. One that cannot be answered is no exception here: the route is `abstain` or `error`, the state stays.

        Raises:
            RevisionConflictError: Another step was committed in between.
        """
        session = self.session
        try:
            return session.step(action, arguments)
        except RevisionConflictError:
            raise
        except SessionError as error:
            route = "abstain" if isinstance(error, NoApplicableRuleError) else "error"
            return StepResult(f"Error: {error}", "unknown", session.state, route, None, (), (), (str(error),))

    def score(self) -> Score:
        """The episode so far against its case.

        Raises:
            UsageError: The episode was not reset to a case.
        """
        if self.case_id is None:
            msg = "only an episode that was reset to a case has a score"
            raise UsageError(msg)
        mine = self.case_steps.filter(pl.col("case_id") == self.case_id).sort("ordinal")
        wanted: dict[str, Any] = {}
        needed: list[tuple[str, Any]] = []
        names = ("action_type", "arguments_json", "expected_outcome", "expected_state_json")
        for action, arguments, outcome, state in lines(mine, *names):
            wanted |= json.loads(state)
            if outcome in (None, "success"):
                needed.append((self.session.engine.aliases.get(action, action), json.loads(arguments)))
        held = [equal(paths.get(self.session.state, paths.split(p)), v) for p, v in wanted.items()]
        state_share = sum(held) / len(held) if held else None
        calls = self._made(needed)
        known = [v for v in (state_share, calls) if v is not None]
        reward = None if not known else known[0] if len(known) == 1 else known[0] * known[1]
        return Score(state_share, calls, reward)

    def _made(self, needed: Sequence[tuple[str, Any]]) -> float | None:
        """Share of the needed calls that were made; a call that was made once counts for one of two equal ones."""
        aliases = self.session.engine.aliases
        left = [(aliases.get(t.action, t.action), dict(t.arguments)) for t in self.session.turns]
        hit = 0
        for action, arguments in needed:
            found = next((i for i, (a, args) in enumerate(left) if a == action and equal(args, arguments)), None)
            if found is not None:
                left.pop(found)
                hit += 1
        return hit / len(needed) if needed else None

    def close(self) -> None:
        """End the episode."""
        if self._session is not None:
            self._session.close()
            self._session = None


def case_state(cases: pl.DataFrame, case_id: str) -> dict[str, Any]:
    """The state a case begins with.

    Raises:
        UsageError: There is no such case; the message names some.
    """
    found = cases.filter(pl.col("case_id") == case_id)
    if found.is_empty():
        known = sorted(cases["case_id"])
        msg = f"there is no case {case_id!r}; there are {len(known)}, as {', '.join(known[:3])}"
        raise UsageError(msg)
    return dict(json.loads(found["initial_state_json"][0]))


def open_environment(
    folder: str | Path, *, responder: Responder | None = None, predict: bool = False, allow_unvalidated: bool = False
) -> Environment:
    """Open a package folder, checked file by file, as an environment.

    Args:
        folder: Folder of a package.
        responder: Who answers when no rule applies.
        predict: In place of a responder: what the recorded turns of the package teach, learned when it is first needed.
        allow_unvalidated: Play a candidate that no replay has validated.

    Raises:
        PackageIntegrityError: A file is missing, changed or unlisted.
        UsageError: Both a responder and `predict`.
    """
    if predict and responder is not None:
        msg = "give a responder or predict, not both"
        raise UsageError(msg)
    package = open_package(folder)
    if predict:
        from expcomp.environments.predictor import Recorded

        responder = Recorded(package)
    return Environment(package, responder=responder, allow_unvalidated=allow_unvalidated)
