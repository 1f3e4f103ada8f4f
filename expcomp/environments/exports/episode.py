"""One episode as trainers want it: begun, stepped, rewarded, ended. What Gymnasium, OpenEnv and the others wrap."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from expcomp.environments.core import Environment
from expcomp.environments.session import StepResult
from expcomp.errors import UsageError

MAX_STEPS = 100

Reward: TypeAlias = Callable[[Environment, StepResult, bool], float]
"""Reward of a step, from the environment, what the step gave, and whether the episode ends with it."""


class Taken(NamedTuple):
    """What a step gave, and what it means for the episode."""

    result: StepResult
    reward: float
    terminated: bool
    truncated: bool


def score_at_end(env: Environment, step: StepResult, ended: bool) -> float:  # noqa: FBT001 - the signature of `Reward`
    """The score of the episode against its case when it ends, else 0; 0 too when there is nothing to score."""
    del step
    found = env.score().reward if ended and env.case_id is not None else None
    return found if found is not None else 0.0


class Episode:
    """An environment with an end: it terminates when its case is reached (score 1), and is truncated after `max_steps`.

    Args:
        environment: What is played.
        reward: Reward of a step.
        max_steps: Steps after which it is truncated.

    Raises:
        UsageError: The package has no action, or `max_steps` is not positive.
    """

    def __init__(self, environment: Environment, *, reward: Reward = score_at_end, max_steps: int = MAX_STEPS) -> None:
        if max_steps < 1:
            raise UsageError(f"max_steps {max_steps}: expected 1 or more")
        if not environment.tools:
            raise UsageError(f"package {environment.package.config.environment_id} has no action to take")
        self.environment, self.steps = environment, 0
        self._reward, self._max_steps = reward, max_steps

    def begin(
        self,
        case_id: str | None = None,
        *,
        initial_state: Mapping[str, Any] | None = None,
        draw: Callable[[int], int] = lambda n: 0,
    ) -> dict[str, Any]:
        """Begin, and return the state; without a case and a state, at the case that `draw` picks of so many, if there are any.

        Raises:
            UsageError: No such case.
            SessionError: There is no state to begin from.
        """
        ids = self.environment.case_ids
        if case_id is None and initial_state is None and ids:
            case_id = ids[draw(len(ids))]
        self.steps = 0
        return self.environment.reset(case_id, initial_state=initial_state)

    def step(self, tool: str, arguments: Any) -> Taken:
        """Call a tool; arguments are an object or the JSON text of one. What cannot be read or answered changes nothing.

        Raises:
            UsageError: The episode was not begun.
        """
        environment, given = self.environment, read_arguments(arguments)
        if isinstance(given, dict):
            result = environment.step(tool, given)
        else:
            result = StepResult(f"Error: {given}", "unknown", environment.state, "error", None, (), (), (given,))
        self.steps += 1
        terminated = environment.case_id is not None and environment.score().reward == 1.0
        truncated = not terminated and self.steps >= self._max_steps
        reward = float(self._reward(environment, result, terminated or truncated))
        return Taken(result, reward, terminated, truncated)


def read_arguments(given: Any) -> dict[str, Any] | str:
    """Arguments as an object, or what is wrong with them."""
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError as error:
            return f"arguments are no JSON ({error})"
    return given if isinstance(given, dict) else f"arguments are {type(given).__name__}, expected a JSON object"


def about(result: StepResult) -> dict[str, Any]:
    """How a step was answered."""
    return {
        "route": result.route,
        "rule_ids": list(result.rule_ids),
        "confidence": result.confidence,
        "outcome": result.outcome,
        "abstained": result.route == "abstain",
        "issues": list(result.issues),
    }
