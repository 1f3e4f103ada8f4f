"""Whole conversations, and single turns with their history, from passed attempts."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from expcomp.datasets.contract import LEFT, LOGICAL, Kind, Lookups, Made
from expcomp.datasets.flat import (
    FIELDS,
    chat_digest,
    combined_digest,
    explode_calls,
    explode_chat,
    implode_chat,
    message_lines,
    policy_chars,
    prompt_task,
)
from expcomp.datasets.normal import Reason, first_reason, first_unsound, normalise_flat
from expcomp.datasets.options import DatasetOptions
from expcomp.io.digest import sha256_expr
from expcomp.io.wording import worded

_LINE = pl.int_range(pl.len(), dtype=pl.UInt32)
_IS_AGENT = pl.col("role") == "assistant"
_NO_TOOLS = r"^\s*(null|\[\s*\])?\s*$"

TOO_LITTLE = Reason(
    "too_little_to_learn",
    "no call, and fewer words of the agent than min_words",
    (pl.col("n_calls") == 0) & (pl.col("n_words") < pl.col("min_words")),
)
ROW_REASONS = (
    Reason("no_messages", "the row has no messages", pl.col("n") == 0),
    Reason("no_task", "no task is named and no user text stands for one", pl.col("task_id").is_null()),
    Reason("attempt_truncated", "the attempt hit a limit or its record is cut", pl.col("truncated")),
    Reason("no_agent_turn", "the agent says nothing", pl.col("last").is_null()),
    Reason(
        "unsound", "a message breaks the rules", pl.col("unsound").is_not_null() & (pl.col("good") <= pl.col("last"))
    ),
    Reason("nothing_trainable", "no turn of the agent carries loss", pl.col("n_trainable") == 0),
    TOO_LITTLE,
)
"""Over rows of `Chats`, in the order in which they apply. For `unsound` the reason of the first unsound message is given."""
TURN_REASONS = (
    Reason("empty_turn", "the turn has neither text nor a call", pl.col("empty")),
    Reason("failed_turn", "what the turn did failed, and a later turn carries on", pl.col("masked")),
    Reason("no_prompt", "nothing from a user or a tool stands before the turn", ~pl.col("prompted")),
)


@dataclass(frozen=True)
class Chats:
    """Chats of a slice by the rules.

    Attributes:
        flat: From `normalise_flat`, with `line`; `wanted` (`trainable` as the source has it); `empty` (an agent's turn without text or
            call); `prompted` (the message before is a user's or a result).
        rows: row, row_id, task_id, attempt_id, evidence_ids, tools; n (messages), last (position of the last assistant turn), good
            (messages before the first unsound one), unsound and detail (reason of that one).
    """

    flat: pl.DataFrame
    rows: pl.DataFrame


def read_chats(frame: pl.DataFrame, column: str, options: DatasetOptions) -> Chats:
    """Chats of `column` by the rules, with task and tools of every row."""
    flat = normalise_flat(explode_chat(frame, column), options.system)
    unsound = first_unsound(flat).rename({"reason": "unsound"})
    spoken = pl.col("content").str.contains(r"\S") | (pl.col("tool_calls").list.len() > 0)
    flat = flat.with_columns(
        line=_LINE,
        wanted="trainable",
        empty=_IS_AGENT & ~spoken.fill_null(value=False),
        prompted=pl.col("role").shift(1).is_in(["user", "tool"]) & (pl.col("pos") > 0),
    )
    nameless = frame["task_id"].is_null()
    asked = flat.filter(nameless.gather(flat["row"])).filter(
        (pl.col("role") == "user") & pl.col("content").str.contains(r"\S")
    )
    measured = flat.group_by("row", maintain_order=True).agg(
        n=pl.len(),
        last=pl.col("pos").filter(_IS_AGENT).last(),
    )
    rows = (
        frame.select("row_id", "task_id", "attempt_id", "evidence_ids", "tools", row=_LINE)
        .join(measured, on="row", how="left", maintain_order="left")
        .join(unsound, on="row", how="left", maintain_order="left")
        .join(_prompt_task(asked), on="row", how="left", maintain_order="left")
        .with_columns(
            pl.col("n").fill_null(0),
            task_id=pl.coalesce("task_id", "prompt_task"),
            good=pl.coalesce("good", "n").fill_null(0),
            tools=pl.coalesce(
                pl.when(~pl.col("tools").str.contains(_NO_TOOLS)).then("tools"),
                pl.lit(options.tools, pl.String),
            ),
        )
    )
    return Chats(flat, rows)


def _prompt_task(asked: pl.DataFrame) -> pl.DataFrame:
    """(row, prompt_task): a name for the task of rows that name none. Rows that begin with equal words of a user share it."""
    return asked.unique("row", keep="first", maintain_order=True).select("row", prompt_task=prompt_task("content"))


def lower_trainable(flat: pl.DataFrame, *, mask_failed: bool) -> pl.DataFrame:
    """`trainable` without empty turns, and without failed turns that a later trainable turn follows (`masked`)."""
    flat = flat.with_columns(trainable=pl.col("trainable") & ~pl.col("empty"))
    # Row of the next trainable message; the same row means that this one is followed by another.
    later = pl.when("trainable").then("row").shift(-1).backward_fill() == pl.col("row")
    failed = pl.col("failed").fill_null(value=False) & later.fill_null(value=False)
    masked = pl.col("wanted") & ~pl.col("empty") & failed if mask_failed else pl.lit(value=False)
    return flat.with_columns(masked=masked).with_columns(trainable=pl.col("trainable") & ~pl.col("masked"))


def _sft(
    frame: pl.DataFrame, lookups: Lookups, options: DatasetOptions
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Messages up to the last assistant turn and before the first unsound one; those past it; rows with their `reason`."""
    chats = read_chats(frame, "messages", options)
    place = chats.flat["pos"]
    within = (place <= chats.rows["last"].gather(chats.flat["row"])).fill_null(value=False)
    sound = place < chats.rows["good"].gather(chats.flat["row"])
    past = chats.flat.filter(within & ~sound)
    flat = chats.flat.filter(within & sound).with_columns(line=_LINE)
    flat = lower_trainable(flat, mask_failed=options.mask_failed)
    calls = explode_calls(flat.filter("trainable")).group_by("row", maintain_order=True).agg(n_calls=pl.len())
    measured = flat.with_columns(chars=policy_chars(flat)).group_by("row", maintain_order=True)
    agent = _IS_AGENT
    totals = measured.agg(
        n_turns=agent.sum(),
        n_trainable=pl.col("trainable").sum(),
        all_trainable=(pl.col("trainable") | ~agent).all(),
        chars=pl.col("chars").sum(),
    )
    counted = flat.join(calls, on="row", how="anti", maintain_order="left").filter("trainable")
    words = counted.group_by("row", maintain_order=True).agg(
        n_words=pl.col("content").str.count_matches(r"\w+|[^\w\s]").sum()
    )
    status = lookups.attempts.select(
        "attempt_id",
        truncated=(pl.col("status").cast(pl.String) == "limit").fill_null(value=False)
        | pl.col("is_truncated").fill_null(value=False),
    ).unique("attempt_id", keep="first", maintain_order=True)
    rows = chats.rows.join(status, on="attempt_id", how="left", maintain_order="left")
    for found in (totals, calls, words):
        rows = rows.join(found, on="row", how="left", maintain_order="left")
    rows = rows.with_columns(
        pl.col("n_turns", "n_trainable", "chars", "n_calls", "n_words").fill_null(0),
        truncated=pl.col("truncated").fill_null(value=False) & (not options.keep_truncated),
        min_words=options.min_words,
    )
    return flat, past, rows.with_columns(reason=first_reason(ROW_REASONS))


def left_of(rows: pl.DataFrame, *tables: tuple[Reason, ...]) -> pl.DataFrame:
    """LEFT from rows with row_id, task_id, reason, and detail where there is more to say than the reason's description."""
    words = {r.name: r.description for table in tables for r in table}
    detail = pl.coalesce("detail", pl.col("reason").replace_strict(words, default=None, return_dtype=pl.String))
    return rows.with_columns(detail=detail).select(pl.col(c).cast(t) for c, t in LEFT.items())


def named(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows left out as `unsound` with the reason of their first unsound message in place of that word."""
    unsound = pl.col("reason") == "unsound"
    return rows.with_columns(
        detail=pl.when(unsound).then("detail"), reason=pl.when(unsound).then("unsound").otherwise("reason")
    )


def logical(kind: str, frame: pl.DataFrame) -> pl.DataFrame:
    """The columns of a kind's logical rows, in order."""
    return frame.select(pl.col(c).cast(t) for c, t in LOGICAL[kind].items())


def chats_at(flat: pl.DataFrame, lines: pl.DataFrame, height: int) -> pl.Series:
    """Chats of the messages at (row, line)."""
    return implode_chat(lines.select("row").hstack(flat.select(FIELDS)[lines["line"]]), height)


def histories(turns: pl.DataFrame) -> pl.DataFrame:
    """(row, line) of the messages before each of `turns` (line, pos), in order."""
    ranges = pl.int_ranges(pl.col("line").cast(pl.Int64) - pl.col("pos"), pl.col("line").cast(pl.Int64))
    return turns.select(row=_LINE, line=ranges).explode("line", empty_as_null=False, keep_nulls=False)


def with_histories(flat: pl.DataFrame, turns: pl.DataFrame) -> pl.DataFrame:
    """Turns (line, pos, tools) with prompt, completion, `_hash` and `_chars`.

    Digests of messages are made once, not once for every turn whose history they are in.
    """
    before, here = histories(turns), turns.select("line", row=_LINE)
    line = message_lines(flat)
    digests = [
        chat_digest(lines.select("row", line=line.gather(lines["line"])), turns.height).alias(name)
        for name, lines in (("prompt", before), ("completion", here))
    ]
    tools = turns.select(sha256_expr("tools"))["tools"]
    return turns.with_columns(
        chats_at(flat, before, turns.height).alias("prompt"),
        chats_at(flat, here, turns.height).alias("completion"),
        combined_digest(pl.DataFrame([*digests, tools])),
        _chars=policy_chars(flat).gather(turns["line"]),
    )


def conversations(frame: pl.DataFrame, lookups: Lookups, options: DatasetOptions) -> Made:
    """Rows of training_example as conversations that end with an assistant turn. What follows the last one is cut, which is no loss."""
    flat, _, rows = _sft(frame, lookups, options)
    kept = rows.filter(pl.col("reason").is_null())
    place = rows.select(to=pl.when(pl.col("reason").is_null()).then(pl.col("reason").is_null().cum_sum() - 1))["to"]
    flat = flat.with_columns(row=place.gather(flat["row"]).cast(pl.UInt32)).filter(pl.col("row").is_not_null())
    digest = chat_digest(flat.select("row", line=message_lines(flat)), kept.height).alias("messages")
    tools = kept.select(sha256_expr("tools"))["tools"]
    made = kept.with_columns(
        implode_chat(flat, kept.height).alias("messages"),
        combined_digest(pl.DataFrame([digest, tools])),
        _chars="chars",
        _all_trainable="all_trainable",
        _n_turns="n_turns",
    )
    left = rows.filter(pl.col("reason").is_not_null())
    return Made(logical("conversation", made), left_of(named(left), ROW_REASONS))


def turns(frame: pl.DataFrame, lookups: Lookups, options: DatasetOptions) -> Made:
    """Rows of training_example as one row for each trainable turn. An unsound message ends what is taken, and leaves what is before it.

    Candidates are the turns that are trainable in the compile; a row without any is one candidate. Short turns are taken when the
    conversation has enough to learn: that an agent ends with few words is worth learning.
    """
    flat, past, rows = _sft(frame, lookups, options)
    of_row = tuple(r for r in ROW_REASONS if r.name not in ("unsound", "nothing_trainable", TOO_LITTLE.name))
    rows = rows.with_columns(reason=first_reason(of_row), little=first_reason((TOO_LITTLE,)))
    facts = rows.select(
        "row", "row_id", "task_id", "attempt_id", "evidence_ids", "tools", "reason", "little", "unsound", "detail"
    )
    row_id = worded("{}#{}", "row_id", "source_pos")
    turn = flat.filter("wanted").drop("reason").join(facts, on="row", how="left", maintain_order="left")
    turn = turn.with_columns(
        row_id=row_id,
        detail=pl.lit(None, pl.String),
        reason=pl.coalesce("reason", first_reason(TURN_REASONS), "little"),
    )
    lost = past.filter("wanted").drop("reason").join(facts, on="row", how="left", maintain_order="left")
    lost = lost.with_columns(
        row_id=row_id,
        detail=pl.when(pl.col("reason").is_null()).then("detail"),
        reason=pl.coalesce("reason", "unsound"),
    )
    bare = (
        rows.join(turn, on="row", how="anti", maintain_order="left")
        .join(lost, on="row", how="anti", maintain_order="left")
        .with_columns(detail=pl.lit(None, pl.String), reason=pl.coalesce("reason", pl.lit("nothing_trainable")))
    )
    kept = turn.filter(pl.col("reason").is_null())
    parts = (turn.filter(pl.col("reason").is_not_null()), lost, bare)
    left = pl.concat([left_of(p, ROW_REASONS, TURN_REASONS).hstack(p.select("row")) for p in parts])
    made = with_histories(flat, kept)
    return Made(logical("turn", made), left.sort("row", maintain_order=True).drop("row"))


CONVERSATION = Kind("conversation", "training_example", conversations, chats=("messages",))
TURN = Kind("turn", "training_example", turns, chats=("prompt", "completion"))
