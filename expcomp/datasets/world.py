"""What an environment answered, as conversations: actions are user turns, observations assistant turns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from expcomp.datasets.contract import LEFT, LOGICAL, Kind, Lookups, Made
from expcomp.datasets.flat import (
    FIELDS,
    chat_digest,
    combined_digest,
    filled,
    implode_chat,
    message_lines,
    policy_chars,
)
from expcomp.tables.family import MESSAGE

if TYPE_CHECKING:
    from expcomp.datasets.options import DatasetOptions

LEFT_OUT = {
    "no_task": "the source names no task",
    "no_whole_observation": "no step has an answer of the environment that is neither empty nor cut",
}
# How an answer that is not only text names a picture or a file in it.
_ARTIFACT = r'"artifact":\s*"sha256:[0-9a-f]{64}"'
_COLUMNS = (
    "row_id",
    "task_id",
    "attempt_id",
    "step_index",
    "evidence_ids",
    "agent_action",
    "observed_environment_response",
    "response_source",
    "state_before",
    "truncated",
)


def targets(frame: pl.DataFrame) -> pl.DataFrame:
    """Steps in order of their attempts, `_code` numbers those, with `_target`: the answer is one to learn.

    It is the environment's, whole and not empty. Another's words are so only in attempts in which the environment speaks as
    the user; an answer of unknown origin never is.
    """
    tool = (pl.col("response_source") == "tool").fill_null(value=False)
    user = (pl.col("response_source") == "user").fill_null(value=False)
    answer = pl.col("observed_environment_response")
    # The digest of a picture can be named by nobody who has not seen it.
    whole = (
        ~pl.col("truncated").fill_null(value=False)
        & filled("observed_environment_response").is_not_null()
        & ~answer.str.contains(_ARTIFACT).fill_null(value=False)
    )
    return (
        frame.select(_COLUMNS)
        .with_row_index("_at")
        .sort(pl.col("_at").min().over("attempt_id"), "step_index", maintain_order=True)
        .with_columns(_code=pl.col("attempt_id").rle_id())
        .with_columns(_target=whole & pl.when(tool.any().over("_code")).then(tool).otherwise(user))
    )


def _turn(role: str, content: str, place: int, *, trainable: pl.Expr) -> list[pl.Expr]:
    known = {"role": pl.lit(role), "content": pl.col(content).fill_null(""), "trainable": trainable}
    fields = [known.get(f.name, pl.lit(None)).cast(f.dtype).alias(f.name) for f in MESSAGE.fields]
    return [pl.col("row"), (pl.col("_step") * 3 + place).alias("_place"), *fields]


def _messages(steps: pl.DataFrame) -> pl.DataFrame:
    """A line a message: the state before the first step where it is recorded, then action and observation of each."""
    never = pl.lit(value=False)
    state = steps.filter((pl.col("_step") == 0) & filled("state_before").is_not_null())
    told = pl.concat(
        [
            state.select(_turn("system", "state_before", 0, trainable=never)),
            steps.select(_turn("user", "agent_action", 1, trainable=never)),
            steps.select(_turn("assistant", "observed_environment_response", 2, trainable=pl.col("_target"))),
        ]
    ).sort("row", "_place", maintain_order=True)
    # No trainer here masks a single turn: what is no target is told with the next action instead of being answered.
    answer = (pl.col("role") == "assistant") & pl.col("trainable")
    told = told.with_columns(
        role=pl.when(pl.col("role") == "system").then("role").when(answer).then("role").otherwise(pl.lit("user"))
    )
    spoken = pl.col("content").filter(pl.col("content") != "").str.join("\n\n")
    return (
        told.with_columns(_run=pl.struct("row", "role").rle_id())
        .group_by("_run", maintain_order=True)
        .agg(pl.exclude("_run", "_place", "content").first(), content=spoken)
        .select("row", *FIELDS)
    )


def build(frame: pl.DataFrame, lookups: Lookups, options: DatasetOptions) -> Made:
    """One row an attempt, passed or not, up to the last answer to learn; what comes after it is context of nothing."""
    steps = targets(frame)
    attempts = (
        steps.group_by("_code", maintain_order=True)
        .agg(pl.col("row_id", "task_id", "attempt_id").first(), _any=pl.col("_target").any())
        .with_columns(
            reason=pl.when(pl.col("task_id").is_null())
            .then(pl.lit("no_task"))
            .when(~pl.col("_any"))
            .then(pl.lit("no_whole_observation"))
        )
        .with_columns(detail=pl.col("reason").replace_strict(LEFT_OUT, return_dtype=pl.String))
    )
    taken = attempts.filter(pl.col("reason").is_null()).with_columns(row=pl.int_range(pl.len(), dtype=pl.UInt32))
    kept = (
        steps.filter(pl.col("_target").cum_sum(reverse=True).over("_code") > 0)
        .join(taken.select("_code", "row"), on="_code", how="inner", maintain_order="left")
        .with_columns(_step=pl.int_range(pl.len()).over("row"))
    )
    flat = _messages(kept)
    evidence = kept.group_by("row", maintain_order=True).agg(
        pl.col("evidence_ids").explode(empty_as_null=False, keep_nulls=False)
    )
    digest = chat_digest(flat.select("row", line=message_lines(flat)), taken.height).alias("messages")
    chars = (
        flat.select("row", _chars=policy_chars(flat)).group_by("row", maintain_order=True).agg(pl.col("_chars").sum())
    )
    rows = taken.with_columns(
        evidence["evidence_ids"].list.unique(maintain_order=True),
        implode_chat(flat, taken.height).alias("messages"),
        combined_digest(pl.DataFrame([digest])),
        chars["_chars"],
        # No family of steps records schemas; what the user hands in stands for the whole set.
        tools=pl.lit(options.tools, dtype=pl.String),
    )
    return Made(
        rows.select(pl.col(n).cast(t) for n, t in LOGICAL["world"].items()),
        attempts.filter(pl.col("reason").is_not_null()).select(pl.col(n).cast(t) for n, t in LEFT.items()),
    )


WORLD = Kind("world", "environment_response_pair", build, chats=("messages",), whole="attempt_id")
