"""Single turns with the verdict of a verifier."""

from __future__ import annotations

import polars as pl

from expcomp.datasets.contract import Kind, Lookups, Made
from expcomp.datasets.conversations import left_of, logical, named, read_chats, with_histories
from expcomp.datasets.normal import Reason, first_reason
from expcomp.datasets.options import DatasetOptions
from expcomp.tables.family import CHAT

REASONS = (
    Reason("no_verdict", "no verifier says whether the attempt passed", pl.col("passed").is_null()),
    Reason("no_messages", "the row has no messages", pl.col("n") == 0),
    Reason("no_task", "no task is named and no user text stands for one", pl.col("task_id").is_null()),
    Reason("no_agent_turn", "the agent says nothing", pl.col("last").is_null()),
    Reason("unsound", "a message breaks the rules", pl.col("good") <= pl.col("last")),
    Reason("not_trainable", "the last turn is not of the agent under judgement", ~pl.col("wanted")),
    Reason("empty_turn", "the turn has neither text nor a call", pl.col("empty")),
    Reason("no_prompt", "nothing from a user or a tool stands before the turn", ~pl.col("prompted")),
)
"""In the order in which they apply. For `unsound` the reason of the first unsound message is given."""


def judged(frame: pl.DataFrame, _lookups: Lookups, options: DatasetOptions) -> Made:
    """Rows of reward_model_row as the last turn of each attempt, with all before it as prompt, and the verdict as label.

    The last turn, because the verdict speaks of where the attempt ended: an earlier turn of a failed attempt may have been right, and
    one of a passed attempt wrong and mended later. And one message, because trainers score every token of a longer completion as the
    agent's, results of tools too.
    """
    whole = pl.concat_list(
        pl.col("prompt").fill_null(pl.lit([], CHAT)), pl.col("completion").fill_null(pl.lit([], CHAT))
    )
    chats = read_chats(frame.with_columns(messages=whole), "messages", options)
    turn = chats.flat.select("row", "line", "wanted", "empty", "prompted", last="pos")
    rows = (
        chats.rows.with_columns(frame["passed"])
        .join(turn, on=["row", "last"], how="left", maintain_order="left")
        .with_columns(pos="last", reason=first_reason(REASONS))
    )
    kept = rows.filter(pl.col("reason").is_null())
    made = with_histories(chats.flat, kept.with_columns(label="passed"))
    left = rows.filter(pl.col("reason").is_not_null())
    return Made(logical("judged", made), left_of(named(left), REASONS))


JUDGED = Kind("judged", "reward_model_row", judged, chats=("prompt", "completion"))
