"""Who answers: the rules, or a responder that knows better than a rule of little confidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from expcomp.environments.effects import State
from expcomp.environments.engine import Engine
from expcomp.environments.frames import frames
from expcomp.environments.playing import Answer, Reply, Turn, advance, initial_state
from tests.environments.worlds import AUTHORED, LEDGER


class Other:
    """A responder with one answer."""

    def __init__(self, said: str | None) -> None:
        self.said = said

    def reply(self, action: str, arguments: Mapping[str, Any], state: State, turns: Sequence[Turn]) -> Reply | None:
        return None if self.said is None else Reply(self.said, "success", "memo", 0.9)


class Doubter(Other):
    """The same, which also doubts rules."""

    def doubts(self, action: str, arguments: Mapping[str, Any], confidence: float) -> bool:
        return confidence < 0.8


def answered(responder: Other, confidence: float) -> Answer:
    rules = [{**r, "confidence": confidence} for r in LEDGER["rules"]]
    engine = Engine(frames({**LEDGER, "rules": rules}), AUTHORED)
    state = initial_state(engine, {"world": {"balance": 100.0}}, defaults=False)
    return advance(engine, state, "deposit", {"amount": 5}, responder=responder)


@pytest.mark.parametrize(
    ("responder", "confidence", "route"),
    [
        (Other("something else"), 0.6, "rule"),
        (Doubter("something else"), 0.9, "rule"),
        (Doubter("something else"), 0.6, "memo"),
        (Doubter(None), 0.6, "rule"),
        (Doubter("Deposited 5. Balance: 105.0"), 0.6, "rule"),
    ],
)
def test_a_doubted_rule_answers_only_if_nobody_knows_better(responder: Other, confidence: float, route: str) -> None:
    found = answered(responder, confidence)
    assert found.route == route
    # A rule also changes the state; what another says changes nothing here.
    assert found.state["world"]["balance"] == (105.0 if route == "rule" else 100.0)
