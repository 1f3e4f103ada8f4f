"""Predictor: the responder that was learned from the recorded turns; it answers where no rule does, or abstains."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.environments.flatten import dump as canonical_text
from expcomp.environments.induction.crossfit import UNTRIED, highest
from expcomp.environments.induction.experience import EXPERIENCE, experience
from expcomp.environments.playing import Question, Reply, Turn
from expcomp.environments.records import lines
from expcomp.environments.values import dump

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

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
        memories = highest(learned.learned, routes=("memo",))
        self._memories = dict(lines(memories, "action", "confidence"))
        # Of episodes that told the state before every call the whole state is an operand; else it is a snapshot to read facts from.
        told = learned.rows.group_by("episode_id", maintain_order=True).agg(pl.col("before").count())["before"]
        self._stateful = bool((told > 1).any())

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
        return self.replies([Question(action, arguments, state, turns)])[0]

    def replies(self, asked: Sequence[Question]) -> list[Reply | None]:
        """An answer to each question, or None to abstain."""
        # Nothing that was learned of other actions can reach the gate.
        able = {i: q for i, q in enumerate(asked) if self._highest.get(q.action, UNTRIED) >= self.gate}
        replies: list[Reply | None] = [None] * len(asked)
        if not able:
            return replies
        rows = [row for i, q in able.items() for row in self._rows(str(i), q)]
        frame = pl.DataFrame(rows, schema=_SCHEMA, orient="row").with_columns(
            group=pl.lit("\x00played"), counterfactual=pl.lit(value=False), state_after_json=pl.lit(None, pl.String)
        )
        found = self.learned.predict(frame.select(list(EXPERIENCE)), only=[str(i) for i in able])
        names = ("transition_id", "answer", "failed", "route", "confidence", "state")
        said = [told for told in lines(found, *names) if told[1] is not None and told[4] >= self.gate]
        cited = self._citations([able[int(place)] for place, *_ in said])
        for (place, answer, failed, route, confidence, state), events in zip(said, cited, strict=True):
            q, value = able[int(place)], json.loads(answer)
            outcome = "unknown" if failed is None else "failure" if failed else "success"
            shown = None if outcome == "failure" else value
            replies[int(place)] = Reply(
                value if isinstance(value, str) else dump(value),
                outcome,
                route,
                confidence,
                self._after(state, q.arguments, shown, q.state["world"]),
                events,
            )
        return replies

    def _rows(self, place: str, q: Question) -> Iterator[tuple[Any, ...]]:
        """The call under its place, after the turns that were answered."""
        world = q.state["world"]
        known = dump(world) if world else None
        # The states before earlier calls are not read; that there is one says that they are told before every call.
        stated = self._stateful
        for i, t in enumerate(q.turns, 1):
            if t.observation is not None:
                given = (
                    t.action,
                    dump(dict(t.arguments)),
                    t.observation,
                    _failed(t.outcome),
                    known if stated else None,
                )
                yield (f"{place}:{i}", place, i, *given)
                stated = False
        yield (place, place, len(q.turns) + 1, q.action, dump(dict(q.arguments)), "", None, known)

    def doubts(self, action: str, arguments: Mapping[str, Any], confidence: float) -> bool:
        """Whether the call is remembered, and such memories were right more often than a rule of this confidence."""
        remembered = self._memories.get(action, UNTRIED)
        if remembered <= confidence or remembered < self.gate:
            return False
        same = (pl.col("action_type") == action) & (pl.col("args") == canonical_text(dict(arguments)))
        return not self.learned.learned.world.memory.filter(same).is_empty()

    def _after(
        self, state: str | None, arguments: Mapping[str, Any], value: Any, world: Mapping[str, Any]
    ) -> dict[str, Any] | None:
        """The next world, where states were learned from; else what the answer shows of the entities that the call named."""
        if self._stateful:
            return None if state is None else dict(json.loads(state))
        return self._shown(arguments, value, world)

    def _citations(self, asked: Sequence[Question]) -> list[tuple[str, ...]]:
        """Of each question the answering events of recorded turns of the same call, the first in the order of their ids."""
        calls = [(q.action, canonical_text(dict(q.arguments))) for q in asked]
        if self._transitions is None or not calls:
            return [()] * len(calls)
        by = ("action_type", "arguments_json")
        wanted = pl.DataFrame(calls, schema=dict.fromkeys(by, pl.String), orient="row").unique(maintain_order=True)
        same = self._transitions.join(wanted, on=by, how="semi", maintain_order="left").sort("transition_id")
        events = same.group_by(by, maintain_order=True).agg(pl.col("observation_event_ids").head(CITED).explode())
        told = {tuple(call): tuple(e) for *call, e in lines(events, *by, "observation_event_ids")}
        return [told.get(call, ()) for call in calls]

    def _shown(self, arguments: Mapping[str, Any], value: Any, world: Mapping[str, Any]) -> dict[str, Any] | None:
        """Entities that the call named, with the fields that the answer shows of them."""
        if not isinstance(value, dict):
            return None
        found = {}
        for cls in self.learned.classes:
            key = arguments.get(cls)
            home = self.learned.homes.get(cls, cls)
            known = world.get(home, {})
            if isinstance(key, str | int) and not isinstance(key, bool) and isinstance(known, dict):
                before = known.get(str(key))
                found[home] = {**known, str(key): {**(before if isinstance(before, dict) else {}), **value}}
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
        return self.replies([Question(action, arguments, state, turns)])[0]

    def replies(self, asked: Sequence[Question]) -> list[Reply | None]:
        """An answer to each question, or None to abstain."""
        made = self._predictor()
        return [None] * len(asked) if made is None else made.replies(asked)

    def doubts(self, action: str, arguments: Mapping[str, Any], confidence: float) -> bool:
        """Whether to ask although a rule of this confidence applies."""
        made = self._predictor()
        return made is not None and made.doubts(action, arguments, confidence)

    def _predictor(self) -> Predictor | None:
        if self._made is None and not self._package["transitions"].is_empty():
            self._made = Predictor.of(self._package, gate=gate_of(self._package))
        return self._made


_SCHEMA = {
    "transition_id": pl.String, "episode_id": pl.String, "turn": pl.Int32, "action_type": pl.String, "arguments_json": pl.String,
    "observation": pl.String, "is_error": pl.Boolean, "state_before_json": pl.String,
}  # fmt: skip


def _failed(outcome: str | None) -> bool | None:
    return {"failure": True, "success": False}.get(outcome or "")
