"""Which cases can be a task, and what it asks for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from expcomp.environments.exports.oracle import oracle_scores
from expcomp.environments.records import lines

if TYPE_CHECKING:
    from expcomp.environments.exports.bundle import Bundle, LeftOut


class Tasks(NamedTuple):
    """What agents are asked to do, by case, in order; and why the other cases are no tasks."""

    asked: dict[str, str]
    left: LeftOut


def tasks_of(made: Bundle) -> Tasks:
    """The cases that their recorded calls solve in this package, each with its instruction, else with the state recorded last."""
    scores = oracle_scores(made.package, made.cases, made.steps)
    left = dict(lines(scores.drop_nulls("reason"), "case_id", "reason"))
    asked: dict[str, str] = {}
    for case in scores["case_id"]:
        if case in left:
            continue
        text = made.instructions.get(case) or _wanted(made.of(case)[1])
        if text is None:
            left[case] = "no instruction, and no recorded state to ask for"
        else:
            asked[case] = text
    return Tasks(asked, left)


def last_state(steps: pl.DataFrame) -> dict[str, Any]:
    """The value of every state path of a case that was recorded last."""
    wanted: dict[str, Any] = {}
    for (text,) in lines(steps.sort("ordinal"), "expected_state_json"):
        wanted |= json.loads(text)
    return wanted


def _wanted(steps: pl.DataFrame) -> str | None:
    wanted = last_state(steps)
    if not wanted:
        return None
    return "Bring the world into this state:\n\n" + "\n".join(
        f"- `{path}` is `{json.dumps(value, ensure_ascii=False)}`" for path, value in sorted(wanted.items())
    )
