"""Predictor: the responder that was learned from the recorded turns; it answers where no rule does, or abstains."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.environments.flatten import dump as canonical_text
from expcomp.environments.induction.crossfit import UNTRIED, highest
from expcomp.environments.induction.experience import EXPERIENCE, experience
from expcomp.environments.playing import Reply, Turn
from expcomp.environments.records import lines
from expcomp.environments.values import dump

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from expcomp.environments.effects import State
    from expcomp.environments.induction.reconstruct import Reconstruction
    from expcomp.environments.package import EnvironmentPackage

GATE = 0.7
"""Confidence, `(hits + 1) / (n + 2)` over held-out families, from which on an answer is given."""


CITED = 4
"""Turns that an answer cites at most."""


class Predictor:
    """Answers from const, function, entity, effect and memory routes, each with its measured confidence.

    Args:
        learned: What was learned from the recorded turns.
        gate: Answers of less confidence are abstentions.
        transitions: `TRANSITIONS` that were learned from; answers cite those of the same call.
    """

    def __init__(self, learned: Reconstruction, *, gate: float = GATE, transitions: pl.DataFrame | None = None) -> None:
        self.learned, self.gate = learned, gate
        self._transitions = transitions
        self._highest = dict(lines(highest(learned.learned), "action", "confidence"))

    @classmethod
    def of(cls, package: EnvironmentPackage, *, gate: float = GATE) -> Predictor:
        """Learn from the recorded turns that a package holds.

        Raises:
            SourceError: It holds no turn with a certain answer, as an authored package.
        """
        from expcomp.environments.induction.reconstruct import reconstruct

        usable, _ = experience(package["transitions"], package["episodes"], package["events"])
        return cls(reconstruct(usable), gate=gate, transitions=package["transitions"])

    def reply(self, action: str, arguments: Mapping[str, Any], state: State, turns: Sequence[Turn]) -> Reply | None:
        """An answer, or None to abstain; the turns that were answered and the state as it is are what it may know."""
        if self._highest.get(action, UNTRIED) < self.gate:
            return None  # nothing that was learned of the action can reach the gate
        answered = [(i, t) for i, t in enumerate(turns, 1) if t.observation is not None]
        asked = len(turns) + 1
        world = state["world"]
        rows: list[tuple[Any, ...]] = [
            (str(i), i, t.action, dump(dict(t.arguments)), t.observation, _failed(t.outcome), None) for i, t in answered
        ]
        rows.append((str(asked), asked, action, dump(dict(arguments)), "", None, dump(world) if world else None))
        frame = pl.DataFrame(rows, schema=_SCHEMA, orient="row").with_columns(
            episode_id=pl.lit("played"), group=pl.lit("\x00played"), counterfactual=pl.lit(value=False),
            state_after_json=pl.lit(None, pl.String),
        ).select(list(EXPERIENCE))  # fmt: skip
        answer = self.learned.predict(frame).filter(pl.col("transition_id") == str(asked)).row(0, named=True)
        if answer["answer"] is None or answer["confidence"] < self.gate:
            return None
        value = json.loads(answer["answer"])
        failed = answer["failed"]
        outcome = "unknown" if failed is None else "failure" if failed else "success"
        return Reply(
            value if isinstance(value, str) else dump(value),
            outcome,
            answer["route"],
            answer["confidence"],
            None if failed else self._shown(arguments, value, world),
            self._citations(action, canonical_text(dict(arguments))),
        )

    def _citations(self, action: str, arguments: str) -> tuple[str, ...]:
        """Answering events of recorded turns of the same call, the first in the order of their ids."""
        if self._transitions is None:
            return ()
        same = (pl.col("action_type") == action) & (pl.col("arguments_json") == arguments)
        found = self._transitions.filter(same).sort("transition_id").head(CITED)
        return tuple(found["observation_event_ids"].explode(empty_as_null=False))

    def _shown(self, arguments: Mapping[str, Any], value: Any, world: Mapping[str, Any]) -> dict[str, Any] | None:
        """Entities that the call named, with the fields that the answer shows of them."""
        if not isinstance(value, dict):
            return None
        found = {}
        for cls in self.learned.classes:
            key = arguments.get(cls)
            known = world.get(cls, {})
            if isinstance(key, str | int) and not isinstance(key, bool) and isinstance(known, dict):
                before = known.get(str(key))
                found[cls] = {**known, str(key): {**(before if isinstance(before, dict) else {}), **value}}
        return found or None


def gate_of(package: EnvironmentPackage) -> float:
    """The gate that a package was validated with; GATE when it was not."""
    told = (package.validation or {}).get("evaluation") or {}
    return float(told.get("gate", GATE))


class Recorded:
    """The predictor of a package, learned when it is first asked: opening a package costs nothing.

    Args:
        package: Whose recorded turns are learned from; one without turns abstains always.
    """

    def __init__(self, package: EnvironmentPackage) -> None:
        self._package = package
        self._made: Predictor | None = None

    def reply(self, action: str, arguments: Mapping[str, Any], state: State, turns: Sequence[Turn]) -> Reply | None:
        """An answer, or None to abstain."""
        if self._package["transitions"].is_empty():
            return None
        if self._made is None:
            self._made = Predictor.of(self._package, gate=gate_of(self._package))
        return self._made.reply(action, arguments, state, turns)


_SCHEMA = {
    "transition_id": pl.String, "turn": pl.Int32, "action_type": pl.String, "arguments_json": pl.String,
    "observation": pl.String, "is_error": pl.Boolean, "state_before_json": pl.String,
}  # fmt: skip


def _failed(outcome: str | None) -> bool | None:
    return {"failure": True, "success": False}.get(outcome or "")
