"""Replay cases as JSON lines, as `expcomp.environments.cases` reads them."""

from __future__ import annotations

import json
from typing import Any

import polars as pl

from expcomp.environments.records import lines

CASE = ("case_id", "trajectory_group", "source_ids", "split", "initial_state_complete", "known_absent_paths")
STEP = ("action_type", "arguments_json", "expected_observation", "match", "expected_outcome", "expected_state_json")


def case_records(cases: pl.DataFrame, steps: pl.DataFrame) -> list[dict[str, Any]]:
    """One record a case, in order of its id."""
    done: dict[str, list[dict[str, Any]]] = {}
    for case, action, arguments, observation, match, outcome, state in lines(
        steps.sort("case_id", "ordinal"), "case_id", *STEP
    ):
        step = {
            "action": {"type": action, "arguments": json.loads(arguments)},
            "expected_observation": observation,
            "match": match,
            "expected_outcome": outcome,
            "expected_state": json.loads(state),
        }
        done.setdefault(case, []).append({k: v for k, v in step.items() if v is not None})
    ordered = cases.sort("case_id")
    return [
        {**dict(zip(CASE, told, strict=True)), "initial_state": json.loads(state), "steps": done.get(told[0], [])}
        for *told, state in lines(ordered, *CASE, "initial_state_json")
    ]


def case_text(cases: pl.DataFrame, steps: pl.DataFrame) -> str:
    """The records as JSON lines."""
    return json_lines(case_records(cases, steps))


def json_lines(records: list[dict[str, Any]]) -> str:
    """Records as JSON lines, no NaN."""
    return "".join(f"{json.dumps(r, ensure_ascii=False, allow_nan=False)}\n" for r in records)
