"""Replay cases as JSON lines: read into frames, with the older layout's names understood."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from expcomp.environments import paths
from expcomp.environments.frames import frame
from expcomp.environments.values import parse_json
from expcomp.errors import PackageSchemaError
from expcomp.io.record_files import read_records

CASE = frozenset(
    "id case_id trajectory_group source_ids split initial_state initial_state_complete known_absent_paths steps".split()
)
STEP = frozenset("action expected_observation observation_match match expected_outcome expected_state".split())


def read_cases(path: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Cases and their steps from a file of one JSON object a line.

    Raises:
        PackageSchemaError: Naming line and field.
        SourceError: The file cannot be read.
    """
    cases, steps = [], []
    records = read_records(path)
    for number, record in enumerate(records if isinstance(records, list) else [records], 1):
        where = f"{path.name}, case {number}"
        if not isinstance(record, Mapping):
            raise PackageSchemaError(f"{where}: expected an object")
        _known(record, CASE, where)
        case_id = record.get("case_id", record.get("id"))
        if not isinstance(case_id, str):
            raise PackageSchemaError(f"{where}: field id is missing")
        cases.append(
            {k: v for k, v in record.items() if k not in ("id", "initial_state", "steps")}
            | {"case_id": case_id, "initial_state_json": _dump(record.get("initial_state", {}))}
        )
        for ordinal, step in enumerate(record.get("steps") or []):
            steps.append(_step(step, case_id, ordinal, f"{where}, step {ordinal}"))
    made = frame("replay_cases", cases), frame("replay_steps", steps)
    check_cases(*made)
    return made


def _step(step: Any, case_id: str, ordinal: int, where: str) -> dict[str, Any]:
    if not isinstance(step, Mapping):
        raise PackageSchemaError(f"{where}: expected an object")
    _known(step, STEP, where)
    action = step.get("action")
    if not isinstance(action, Mapping) or not isinstance(action.get("type"), str):
        raise PackageSchemaError(f"{where}: field action needs a type")
    return {
        "case_id": case_id,
        "ordinal": ordinal,
        "action_type": action["type"],
        "arguments_json": _dump(action.get("arguments") or {}),
        "expected_observation": step.get("expected_observation"),
        "match": step.get("match", step.get("observation_match")),
        "expected_outcome": step.get("expected_outcome"),
        "expected_state_json": _dump(step.get("expected_state") or {}),
    }


def _known(record: Mapping[str, Any], names: frozenset[str], where: str) -> None:
    if unknown := sorted(set(record) - names):
        raise PackageSchemaError(f"{where}: unknown field {', '.join(unknown)}; known are {', '.join(sorted(names))}")


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)


def check_cases(cases: pl.DataFrame, steps: pl.DataFrame) -> None:
    """Refuse cases whose states are no objects, or that expect something at what is no state path.

    Raises:
        PackageSchemaError: Naming case and field.
    """
    for frame_, column in ((cases, "initial_state_json"), (steps, "arguments_json"), (steps, "expected_state_json")):
        distinct = frame_.unique(column, keep="first", maintain_order=True)
        for case_id, text in zip(distinct["case_id"], distinct[column], strict=True):
            there, value = parse_json(text)
            where = f"case {case_id}, {column}"
            if not there or (column != "arguments_json" and not isinstance(value, dict)):
                raise PackageSchemaError(f"{where}: {text!r:.80} is no JSON object")
            if column == "expected_state_json":
                _paths(value, where)
    for case_id, absent in zip(cases["case_id"], cases["known_absent_paths"], strict=True):
        _paths(absent, f"case {case_id}, known_absent_paths")


def _paths(value: Iterable[str], where: str) -> None:
    for path in value:
        try:
            paths.split(path)
        except paths.PathError as error:
            raise PackageSchemaError(f"{where}: {error}") from None
