"""The oracle: playing what a case recorded. A case that its own calls do not solve is no task."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import polars as pl

from expcomp.environments.core import Environment, Score
from expcomp.environments.records import lines

if TYPE_CHECKING:
    from expcomp.environments.package import EnvironmentPackage

SCHEMA = pl.Schema(
    {"case_id": pl.String, "state": pl.Float64, "calls": pl.Float64, "reward": pl.Float64, "reason": pl.String}
)


def oracle_scores(package: EnvironmentPackage, cases: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """What playing the recorded calls scores, by case.

    Returns:
        Columns case_id, state, calls, reward, and reason: why the case is no task; null when the reward is 1.
    """
    env = Environment(package, cases=cases, steps=steps, allow_unvalidated=True)
    calls: dict[str, list[tuple[str, str]]] = {}
    for case, action, arguments in lines(steps.sort("case_id", "ordinal"), "case_id", "action_type", "arguments_json"):
        calls.setdefault(case, []).append((action, arguments))
    found = []
    for case in env.case_ids:
        env.reset(case)
        for action, arguments in calls.get(case, []):
            env.step(action, json.loads(arguments))
        score = env.score()
        found.append((case, score.state, score.calls, score.reward, _reason(score)))
    env.close()
    return pl.DataFrame(found, schema=SCHEMA, orient="row")


def _reason(score: Score) -> str | None:
    if score.reward is None:
        return "nothing was recorded that could be scored"
    if score.reward == 1.0:
        return None
    parts = {"state": score.state, "calls": score.calls}
    told = ", ".join(f"{name} {value:.3f}" for name, value in parts.items() if value is not None)
    return f"its recorded calls do not solve it in this package: {told}"
