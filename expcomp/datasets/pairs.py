"""Preference pairs: two next turns after one history, the better one and the worse one."""

from __future__ import annotations

import json

import polars as pl

from expcomp.datasets.contract import LEFT, Kind, Lookups, Made
from expcomp.datasets.conversations import chats_at, histories, left_of, logical, named, read_chats
from expcomp.datasets.flat import (
    chat_digest,
    combined_digest,
    explode_calls,
    explode_chat,
    filled,
    message_lines,
    per_message,
    policy_chars,
)
from expcomp.datasets.normal import Reason, first_reason
from expcomp.datasets.options import DatasetOptions
from expcomp.io.digest import sha256_expr
from expcomp.tables.family import CHAT

_LINE = pl.int_range(pl.len(), dtype=pl.UInt32)
_SIDES = ("chosen", "rejected")
_PARTED = "the sides part in what the agent did not write, such as a tool's answer to one and the same turn, or after its own words"

CUT_REASONS = (
    Reason("no_shared_prompt", _PARTED, ~pl.col("parted")),
    Reason(
        "margin_unknown",
        "attempts without a difference of scores",
        pl.col("margin").is_null() & (pl.col("pair_level") != "step").fill_null(value=True),
    ),
    Reason("margin_below", "the scores differ by less than min_margin", pl.col("margin") < pl.col("min_margin")),
)
SIDE_REASONS = (
    Reason("no_task", "no task is named and no user text stands for one", pl.col("task_id").is_null()),
    Reason("unsound", "a message breaks the rules", pl.col("unsound").is_not_null()),
    Reason("no_shared_prompt", _PARTED, ~pl.col("prompted") | pl.col("one_turn")),
    Reason("not_trainable", "a side was not written by the model under study", ~pl.col("own")),
    Reason("empty_turn", "a side has neither text nor a call", pl.col("empty")),
    Reason("equal_sides", "the sides differ in call ids, white space or the order of keys only", pl.col("equal")),
    Reason(
        "length_ratio",
        "one side is longer than length_ratio allows",
        pl.col("ratio").is_between("low", "high").not_(),
    ),
)
"""In the order in which they apply. For `unsound` the reason of the first unsound message is given."""


def pairs(frame: pl.DataFrame, _lookups: Lookups, options: DatasetOptions) -> Made:
    """Rows of preference_pair, cut at the first assistant turn that differs: the shared history, and one message a side.

    One message, because no trainer masks inside a completion: of a longer one, results of tools would be scored as the agent's. Pairs
    that part elsewhere give no pair; their attempts are rows of `judged`. Step pairs have no scores and thus no margin to fall short of.
    """
    heads = [pl.col(c).list.first().struct.field("role") == "assistant" for c in _SIDES]
    end = pl.col("prompt").list.last().struct.field("role").is_in(["user", "tool"])
    cut = frame.select(
        "row_id", "task_id", "attempt_id", "evidence_ids", "tools", "pair_level", "margin", "prompt", *_SIDES,
        "chosen_attempt_id", "rejected_attempt_id",
        parted=pl.all_horizontal(end, *heads).fill_null(value=False),
        go_on=pl.all_horizontal(pl.col(c).list.len() > 1 for c in _SIDES),
        min_margin=options.min_margin,
        place=_LINE,
    ).with_columns(reason=first_reason(CUT_REASONS))  # fmt: skip
    early = cut.filter(pl.col("reason").is_not_null()).with_columns(detail=pl.lit(None, pl.String))
    made, late = _sides(cut.filter(pl.col("reason").is_null()).drop("reason"), options)
    left = [
        left_of(early, CUT_REASONS).hstack(early.select("place")),
        left_of(named(late), SIDE_REASONS).hstack(late.select("place")),
    ]
    return Made(made, pl.concat(left).sort("place", maintain_order=True).select(*LEFT))


def _sides(cut: pl.DataFrame, options: DatasetOptions) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Logical rows, and rows left out with `reason`, `detail` and `place`, from pairs that part in turns of the agent."""
    n = cut.height
    chats = pl.concat(cut.with_columns(messages=pl.concat_list("prompt", pl.col(c).list.head(1))) for c in _SIDES)
    read = read_chats(_same_ids(chats.drop("prompt", *_SIDES), n), "messages", options)
    turn = read.flat.select("row", "line", "empty", "prompted", last="pos")
    ends = read.rows.join(turn, on=["row", "last"], how="left", maintain_order="left")
    good, bad = ends.head(n), ends.tail(n)
    sides = [read.flat[e["line"]] for e in (good, bad)]
    chars = [policy_chars(s.with_columns(trainable=pl.lit(value=True))) for s in sides]
    # The history is taken, and hashed, once: from the chosen chats, with the rejected turns below.
    flat = pl.concat([read.flat.filter(pl.col("row") < n), sides[1]])
    other = pl.int_range(flat.height - n, flat.height, eager=True)
    words = message_lines(flat)
    one_turn = words.gather(good["line"]) == words.gather(other)
    low, high = options.length_ratio or (0.0, float("inf"))
    rows = cut.drop("prompt", *_SIDES).with_columns(
        good["task_id"],
        good["tools"],
        unsound=good["unsound"].zip_with(good["unsound"].is_not_null(), bad["unsound"]),
        detail=good["detail"].zip_with(good["unsound"].is_not_null(), bad["detail"]),
        prompted=good["prompted"],
        empty=good["empty"] | bad["empty"],
        own=sides[0]["wanted"].fill_null(value=False) & sides[1]["wanted"].fill_null(value=False),
        equal=_equal(*sides),
        # The turn is shared and what came back was not: the attempts part there, and the compile cut before it.
        one_turn=one_turn & cut["go_on"],
        ratio=chars[0] / chars[1],
        low=low,
        high=high,
        line=good["line"],
        other=other,
        pos=good["last"],
        _chosen_chars=chars[0],
        _rejected_chars=chars[1],
        _chars=chars[0] + chars[1],
    )
    rows = rows.with_columns(reason=first_reason(SIDE_REASONS))
    kept = rows.filter(pl.col("reason").is_null())
    parts = {
        "prompt": histories(kept),
        "chosen": kept.select("line", row=_LINE),
        "rejected": kept.select(row=_LINE, line="other"),
    }
    digests = [
        chat_digest(p.select("row", line=words.gather(p["line"])), kept.height).alias(c) for c, p in parts.items()
    ]
    made = kept.with_columns(
        *(chats_at(flat, p, kept.height).alias(c) for c, p in parts.items()),
        combined_digest(pl.DataFrame([*digests, kept.select(sha256_expr("tools"))["tools"]])),
    )
    return logical("pair", made), rows.filter(pl.col("reason").is_not_null())


def _same_ids(chats: pl.DataFrame, n: int) -> pl.DataFrame:
    """Chats of both sides, chosen above rejected, of which both or neither will have their call ids numbered anew.

    That is done where ids of a chat are absent or repeated. Where one side alone would be, its shared history would no longer be
    that of the other; there the last turn of both loses its ids, which asks for new ones.
    """
    calls = explode_calls(explode_chat(chats, "messages")).with_columns(filled("id"))
    broken = calls.filter(pl.col("id").is_null() | pl.struct("row", "id").is_duplicated())["row"]
    hit = chats.select(hit=_LINE.is_in(broken.unique(maintain_order=True).implode()))["hit"]
    apart = hit.head(n) != hit.tail(n)
    if not apart.any():
        return chats
    bare = pl.element().struct.with_fields(
        tool_calls=pl.element()
        .struct.field("tool_calls")
        .list.eval(pl.element().struct.with_fields(id=pl.lit(None, pl.String)))
    )
    last = pl.col("messages").list.tail(1).list.eval(bare).cast(CHAT)
    whole = pl.concat_list(pl.col("messages").list.head(pl.col("messages").list.len() - 1), last)
    return chats.with_columns(messages=pl.when(pl.concat([apart, apart])).then(whole).otherwise("messages"))


def _equal(one: pl.DataFrame, two: pl.DataFrame) -> pl.Series:
    """Whether messages are equal up to ids, white space in texts and around JSON, and the order of keys of arguments."""
    keys = [_loose(m) for m in (one, two)]
    alike = (keys[0]["text"] == keys[1]["text"]).fill_null(value=False)
    at = alike.arg_true()
    if not len(at):
        return alike
    # Few pairs come this far, and order of keys has no vectorised form.
    same = _arguments(one[at]) == _arguments(two[at])
    return alike.scatter(at, same.fill_null(value=False))


def _loose(messages: pl.DataFrame) -> pl.DataFrame:
    """`text`: what equal messages have in common; arguments by their size, which the order of keys leaves alone."""
    calls = (
        explode_calls(messages)
        .group_by("message", maintain_order=True)
        .agg(
            call=pl.concat_str(
                pl.col("name").fill_null(""),
                pl.col("arguments").str.replace_all(r"\s", "").str.len_bytes().fill_null(0).cast(pl.String),
                separator=":",
            ).str.join(",")
        )
    )
    texts = (pl.col(c).fill_null("").str.replace_all(r"\s+", " ").str.strip_chars() for c in ("content", "reasoning"))
    return messages.select(
        text=pl.concat_str(*texts, per_message(messages, calls, "call").fill_null(""), separator="\x1f")
    )


def _arguments(messages: pl.DataFrame) -> pl.Series:
    """Arguments of a message's calls as JSON with sorted keys, one text a message."""
    calls = explode_calls(messages)
    distinct = calls["arguments"].unique(maintain_order=True)
    table = pl.DataFrame(
        {"arguments": distinct, "plain": [None if t is None else _sorted(t) for t in distinct]},
        schema={"arguments": pl.String, "plain": pl.String},
    )
    joined = (
        calls.join(table, on="arguments", how="left", maintain_order="left")
        .group_by("message", maintain_order=True)
        .agg(pl.col("plain").fill_null("").str.join("\n"))
    )
    return per_message(messages, joined, "plain").fill_null("")


def _sorted(text: str) -> str:
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except (ValueError, RecursionError):
        return text


PAIR = Kind("pair", "preference_pair", pairs, chats=("prompt", "chosen", "rejected"))
