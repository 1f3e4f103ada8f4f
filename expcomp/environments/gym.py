"""ReplayEnv: an environment package as a Gymnasium environment. Needs the extra `gym`.

Importing this module registers it: `gymnasium.make("expcomp.environments.gym:expcomp/Replay-v0", package="world")`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
from gymnasium import spaces

from expcomp.environments.core import Environment
from expcomp.environments.exports.episode import MAX_STEPS, Episode, Reward, about, score_at_end
from expcomp.environments.exports.opening import opened
from expcomp.environments.playing import Responder
from expcomp.errors import UsageError

ID = "expcomp/Replay-v0"
LONGEST = 1 << 24
"""Characters of an observation or of the arguments of a call, at most."""


class AnyText(spaces.Text):
    """Every text up to a length: the library's own space knows only texts over a small alphabet.

    Args:
        sampled: What `sample` gives; None: up to 16 letters and digits.
    """

    def __init__(self, sampled: str | None = None) -> None:
        super().__init__(LONGEST, min_length=0)
        self._sampled = sampled

    def contains(self, x: Any) -> bool:
        """Whether `x` is a text that is not too long."""
        return isinstance(x, str) and len(x) <= self.max_length

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """A text."""
        if self._sampled is not None:
            return self._sampled
        if mask is None and probability is None:
            mask = (int(self.np_random.integers(17)), None)
        return super().sample(mask, probability)


class ReplayEnv(gymnasium.Env[str, dict[str, Any]]):
    """A package as an environment: an action is a tool and its arguments, an observation is what comes back.

    Action space: Dict(tool: Discrete index into `tool_names`, arguments: Text of a JSON object); `step` also takes the tool's name
    and an object of arguments. Observation space: Text; that of `reset` is empty. An episode terminates when its case is
    reached (`Environment.score`: reward 1) and is truncated after `max_steps`. `info` of a step has route, rule_ids,
    confidence, outcome, abstained and issues; `info` of `reset` has case_id and tools.

    Args:
        package: Folder of a package, or an `Environment`.
        cases: File of replay cases, JSON lines; by default those that a promotion left in the package.
        reward: Reward of a step.
        max_steps: Steps after which an episode is truncated.
        responder: Who answers when no rule applies; with a folder only.
        predict: In place of a responder: what the recorded turns of the package teach; with a folder only.
        allow_unvalidated: Play a candidate that no replay has validated; with a folder only.
        render_mode: `ansi` or None.

    Raises:
        UsageError: The package has no action, or `max_steps` is not positive.
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012 - declared so by the library

    def __init__(
        self,
        package: str | Path | Environment,
        *,
        cases: str | Path | None = None,
        reward: Reward = score_at_end,
        max_steps: int = MAX_STEPS,
        responder: Responder | None = None,
        predict: bool = False,
        allow_unvalidated: bool = False,
        render_mode: str | None = None,
    ) -> None:
        self.environment = (
            package
            if isinstance(package, Environment)
            else opened(package, cases, responder=responder, predict=predict, allow_unvalidated=allow_unvalidated)
        )
        self.episode = Episode(self.environment, reward=reward, max_steps=max_steps)
        self.tools = self.environment.tools
        self.tool_names = [str(t["function"]["name"]) for t in self.tools]
        self.action_space = spaces.Dict({"tool": spaces.Discrete(len(self.tools)), "arguments": AnyText("{}")})
        self.observation_space = AnyText()
        self.render_mode = render_mode
        self._last = ""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin an episode.

        Args:
            seed: Draws the case when `options` names none.
            options: `case_id` or `initial_state`.

        Raises:
            UsageError: An unknown option or case.
            SessionError: There is no state to begin from.
        """
        super().reset(seed=seed)
        given = dict(options or {})
        if unknown := sorted(set(given) - {"case_id", "initial_state"}):
            raise UsageError(f"option {', '.join(unknown)}: expected case_id or initial_state")
        self.episode.begin(**given, draw=lambda n: int(self.np_random.integers(n)))
        self._last = ""
        return "", {"case_id": self.environment.case_id, "tools": self.tools}

    def step(self, action: dict[str, Any]) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Take an action; one that cannot be read or answered is told in the observation and changes nothing.

        Raises:
            UsageError: `reset` was not called.
        """
        tool = action["tool"]
        name = tool if isinstance(tool, str) else self.tool_names[int(tool)]
        taken = self.episode.step(name, action["arguments"])
        self._last = taken.result.observation
        return self._last, taken.reward, taken.terminated, taken.truncated, about(taken.result)

    def render(self) -> str | None:
        """The last observation, in the mode `ansi`."""
        return self._last if self.render_mode == "ansi" else None

    def close(self) -> None:
        """End the episode."""
        self.environment.close()


gymnasium.register(id=ID, entry_point="expcomp.environments.gym:ReplayEnv")
