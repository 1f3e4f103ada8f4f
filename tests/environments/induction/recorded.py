"""Recorded worlds of the reference data as transitions, told by their layout, never by their name."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl

from expcomp.environments.induction.experience import EXPERIENCE

Row = dict[str, Any]


def _chats(document: list[Row]) -> Iterator[Row]:
    """Runs of chat messages: each call is answered by the very next message."""
    for e, run in enumerate(document):
        turn = 0
        for i, message in enumerate(run["traj"]):
            for call in message.get("tool_calls") or ():
                turn += 1
                yield {
                    "transition_id": f"{e:05}-{turn:04}",
                    "episode_id": f"{e:05}",
                    "group": str(run["task_id"]),
                    "turn": turn,
                    "action_type": call["function"]["name"],
                    "arguments_json": call["function"]["arguments"],
                    "observation": run["traj"][i + 1]["content"],
                }


def _oracle(lines: list[Row]) -> Iterator[Row]:
    """Steps and probes with the whole state before and after."""
    for r in lines:
        yield {
            "transition_id": r["id"],
            "episode_id": r["task_id"],
            "group": r["task_id"],
            "turn": r["step"] + 1,
            "action_type": r["action"],
            "arguments_json": json.dumps(r["arguments"]),
            "observation": r["observation"],
            "is_error": r["is_error"],
            "counterfactual": r["record"] == "probe",
            "state_before_json": json.dumps(r["state_before"]),
            "state_after_json": json.dumps(r["state_after"]),
        }


def _episodes(lines: list[Row]) -> Iterator[Row]:
    """Episodes with a snapshot before the first step."""
    for r in lines:
        for i, s in enumerate(r["steps"]):
            action = (
                s["action"] if isinstance(s["action"], dict) else {"type": s["action"], "arguments": s["arguments"]}
            )
            yield {
                "transition_id": f"{r['episode_id']}-{i:04}",
                "episode_id": r["episode_id"],
                "group": r["group"],
                "turn": i + 1,
                "action_type": action["type"],
                "arguments_json": json.dumps(action["arguments"]),
                "observation": s["observation"],
                "is_error": s["is_error"] if "is_error" in s else s["outcome"] == "failure",
                "state_before_json": json.dumps(r["initial_state"]) if i == 0 else None,
            }


LAYOUTS: dict[str, Callable[[Any], Iterator[Row]]] = {
    "chats": _chats, "oracle": _oracle, "ledger": _episodes, "workshop": _episodes
}  # fmt: skip


def layout(document: Any) -> str | None:
    """Which layout a parsed file has."""
    first = document[0] if isinstance(document, list) and document else None
    if not isinstance(first, dict):
        return None
    if "traj" in first:
        return "chats"
    if "state_before" in first:
        return "oracle"
    if "transcript" in first:
        return "ledger"
    return "workshop" if "steps" in first and "final_state" in first else None


def documents(path: Path) -> list[Any]:
    """The records of a file."""
    text = gzip.decompress(path.read_bytes()).decode()
    return json.loads(text) if ".jsonl" not in path.name else [json.loads(line) for line in text.splitlines()]


def paths_of(folder: Path, wanted: str) -> list[Path]:
    """Every file of a layout; the first record tells it."""
    return [p for p in sorted(folder.glob("*.json*.gz")) if layout(documents(p)) == wanted]


def recorded(folder: Path, wanted: str) -> dict[str, pl.DataFrame]:
    """Transitions of every file of a layout, by file name."""
    return {
        path.name: pl.DataFrame(list(LAYOUTS[wanted](documents(path))), schema=dict(EXPERIENCE))
        for path in paths_of(folder, wanted)
    }
