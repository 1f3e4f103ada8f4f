"""World-model rows: what the environment answered, for training a model of it; the columns of the dataset target `world-model`.

An episode is a row: the recorded state before its first call as the system turn, where there is one; then call and answer in turn,
`{"name": ..., "arguments": ...}` (arguments as JSON text, as in the row family environment_response_pair) as the user, the answer
verbatim as the assistant. A call without a certain answer stands with the next call. `train.jsonl` is made of the transitions that the
package was learned from, `heldout.jsonl` of the cases.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.environments.exports.case_lines import json_lines
from expcomp.environments.overview import tool_schemas
from expcomp.environments.records import lines
from expcomp.environments.starting import states_around
from expcomp.io.digest import sha256_expr
from expcomp.io.text_files import write_texts

if TYPE_CHECKING:
    from pathlib import Path

    from expcomp.environments.exports.bundle import Bundle, LeftOut

__all__ = ["TRAIN", "write_world_model"]

TRAIN, HELD_OUT = "train.jsonl", "heldout.jsonl"


def write_world_model(made: Bundle, staging: Path) -> LeftOut:
    """Write both files; every case is in one."""
    p = made.package
    families = p["episodes"].select("episode_id", task_id="trajectory_group")
    start = states_around(p["events"]).filter(pl.col("turn") == 1).select("episode_id", state="state_before_json")
    learned = p["transitions"].sort("episode_id", "turn").select(
        "episode_id", "action_type", "arguments_json", answer=pl.when("usable").then("observation")
    )  # fmt: skip
    # Where no state was recorded, that of a case is made of what its answers show first: it would tell them.
    told = pl.lit(value=not start.is_empty())
    world = pl.col("initial_state_json").str.json_path_match("$.world")
    cases = made.cases.select(
        episode_id="case_id", task_id="trajectory_group", state=pl.when(told & (world != "{}")).then(world)
    )
    asked = made.steps.sort("case_id", "ordinal").select(
        "action_type", "arguments_json", episode_id="case_id", answer="expected_observation"
    )
    tools = json.dumps(tool_schemas(p.frames), ensure_ascii=False, sort_keys=True)
    files = (
        (TRAIN, _rows(learned, families.join(start, on="episode_id", how="left", maintain_order="left"), tools)),
        (HELD_OUT, _rows(asked, cases, tools)),
    )
    write_texts(staging, [(name, json_lines(rows)) for name, rows in files])
    return {}


def _rows(turns: pl.DataFrame, episodes: pl.DataFrame, tools: str) -> list[dict[str, Any]]:
    last = pl.col("answer").is_not_null().cum_sum(reverse=True).over("episode_id") > 0
    call = pl.struct(name="action_type", arguments="arguments_json").struct.json_encode()
    told = turns.filter(last).with_columns(
        call=call, _round=pl.col("answer").is_not_null().shift(1, fill_value=False).cum_sum().over("episode_id")
    )
    rounds = told.group_by("episode_id", "_round", maintain_order=True).agg(
        user=pl.col("call").str.join("\n\n"), assistant=pl.col("answer").drop_nulls().first()
    )
    whole = (
        rounds.group_by("episode_id", maintain_order=True)
        .agg("user", "assistant")
        .join(episodes, on="episode_id", how="inner", maintain_order="left")
        .sort("episode_id")
        .with_columns(
            row_id=pl.lit("wm_")
            + sha256_expr(pl.concat_str("episode_id", pl.col("user").list.join("\n"), separator="\n")).str.slice(0, 24)
        )
    )
    names = ("episode_id", "task_id", "row_id", "state", "user", "assistant")
    return [
        {
            "messages": _messages(state, users, answers),
            "tools": tools,
            "task_id": task,
            "attempt_id": episode,
            "row_id": row,
        }
        for episode, task, row, state, users, answers in lines(whole, *names)
    ]


def _messages(state: str | None, users: list[str], answers: list[str]) -> list[dict[str, str]]:
    system = [] if state is None else [{"role": "system", "content": state}]
    turns = zip(users, answers, strict=True)
    return system + [m for u, a in turns for m in ({"role": "user", "content": u}, {"role": "assistant", "content": a})]
