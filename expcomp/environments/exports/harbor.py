"""Harbor tasks: one folder a case, whose oracle scores 1.

The agent's container holds the package without held-out cases, the state before the first step, and a command `world` that
plays it; the recorded case is in `tests/` only, which is brought in after the agent is done.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from expcomp.environments.exports.bundle import Bundle, LeftOut, put_package
from expcomp.environments.exports.case_lines import case_text
from expcomp.environments.exports.tasks import tasks_of
from expcomp.environments.exports.texts import IMAGE, WHEELS, requirement, slug, toml, unique_names
from expcomp.environments.records import lines
from expcomp.io.staging import subfolder
from expcomp.io.text_files import write_texts

SCHEMA_VERSION = "1.1"

COMMAND = """#!/bin/sh
# world NAME '{"argument": value}' plays one action, world :actions lists them; without arguments one action a line is read.
W="${WORLD:-/world}"
if [ $# -gt 0 ]; then printf '%s' "$*" | tr '\\n' ' '; else cat; fi |
  expcomp env play "$W/package" --state "$W/start.json" --session "${SESSION:-$W/session}" --allow-unvalidated
"""

PLAYED = (
    "\n\nThe world is played with the command `world`: `world NAME '{\"argument\": value}'` takes an action and prints what comes "
    "back, `world :actions` lists the actions with their arguments, `world :state` shows the state.\n"
)

TEST = """#!/bin/sh
# Scores the session against the recorded case.
W="${WORLD:-/world}"
LOGS="${LOGS:-/logs/verifier}"
HERE="$(cd "$(dirname "$0")" && pwd)"
mkdir -p "$LOGS"
expcomp env score "$W/package" --cases "$HERE/case.jsonl" --session "${SESSION:-$W/session}" \\
  --digest "$(cat "$HERE/digest.txt")" --logs "$LOGS" || echo 0 > "$LOGS/reward.txt"
"""

SOLVE = """#!/bin/sh
# Plays the recorded calls.
HERE="$(cd "$(dirname "$0")" && pwd)"
"${PLAY:-world}" < "$HERE/calls.txt"
"""

DOCKERFILE = f"""FROM {IMAGE}
COPY . /world
# A wheel of expcomp in environment/{WHEELS}/ is taken first.
RUN pip install --no-cache-dir --find-links /world/{WHEELS} "{requirement()}" \\
 && install -m 755 /world/world /usr/local/bin/world
WORKDIR /app
"""


def write_harbor(made: Bundle, staging: Path) -> LeftOut:
    """One task a case; a case whose recorded calls do not score 1, or that has nothing to ask for, is left out."""
    asked, left = tasks_of(made)
    untypable = {c: name for c in asked if (name := _untypable(made.of(c)[1])) is not None}
    left |= {c: f"call {name!r} cannot be typed" for c, name in untypable.items()}
    names = unique_names((c for c in asked if c not in left), slug)
    for case, name in names.items():
        environment = subfolder(staging / name / "environment")
        put_package(made, environment)
        write_texts(staging / name, _files(made, case, name, asked[case] + PLAYED))
    return left


def _files(made: Bundle, case_id: str, name: str, instruction: str) -> Iterator[tuple[str, str]]:
    cases, steps = made.of(case_id)
    calls = [
        f"{action} {json.dumps(json.loads(arguments), ensure_ascii=False)}\n"
        for action, arguments in lines(steps.sort("ordinal"), "action_type", "arguments_json")
    ]
    yield "task.toml", toml(_task(made, case_id, name, len(calls)))
    yield "instruction.md", instruction
    yield "environment/Dockerfile", DOCKERFILE
    yield "environment/world", COMMAND
    yield "environment/start.json", cases["initial_state_json"][0] + "\n"
    yield "tests/test.sh", TEST
    yield "tests/case.jsonl", case_text(cases, steps)
    yield "tests/digest.txt", made.package.artifact_digest + "\n"
    yield "solution/solve.sh", SOLVE
    yield "solution/calls.txt", "".join(calls)


def _task(made: Bundle, case_id: str, name: str, calls: int) -> Mapping[str, Mapping[str, Any]]:
    config = made.package.config
    return {
        "": {"schema_version": SCHEMA_VERSION},
        "task": {
            "name": f"{slug(config.environment_id)}/{name}",
            "description": config.description or config.environment_id,
        },
        "metadata": {
            "environment_id": config.environment_id,
            "artifact_digest": made.package.artifact_digest,
            "case_id": case_id,
            "recorded_calls": calls,
        },
        "verifier": {"timeout_sec": 300.0},
        "agent": {"timeout_sec": 1800.0},
        "environment": {"build_timeout_sec": 1200.0, "cpus": 1, "memory_mb": 2048, "storage_mb": 10240},
    }


def _untypable(steps: pl.DataFrame) -> str | None:
    """An action whose name is not one word."""
    found = steps.filter(~pl.col("action_type").str.contains(r"^[^\s:]\S*$"))
    return None if found.is_empty() else str(found["action_type"][0])
