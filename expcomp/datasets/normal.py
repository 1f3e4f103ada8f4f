"""Chats by the message rules M1 to M8: what can be repaired is repaired, what cannot makes a message unsound, with a reason.

A message with a picture, a sound or a file is unsound: what follows it cannot be learned from its text alone.

Repairs, none of which loses a word: role developer becomes system; leading system messages become one; null content becomes "";
blank reasoning, names and ids become null; null or blank arguments become {}; an empty list of calls becomes null; call ids that are absent
or repeated in a chat are numbered anew; results follow their calls, stand in the order of the calls and bear their names.

Whether a message is sound rests on it and what comes before it alone: the messages before the first unsound one are a sound chat.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import polars as pl

from expcomp.datasets.answers import LINE, answered_calls
from expcomp.datasets.contract import LEFT
from expcomp.datasets.flat import FIELDS, explode_calls, explode_chat, filled, implode_chat, per_message
from expcomp.io.wording import worded
from expcomp.tables.family import CALL, MESSAGE

ROLES = ("system", "user", "assistant", "tool")


@dataclass(frozen=True, slots=True, eq=False)
class Reason:
    """Why a message, or a row, is left out.

    Attributes:
        name: Goes into `left.reason`.
        description: Goes into `left.detail`.
        rule: True where it applies.
    """

    name: str
    description: str
    rule: pl.Expr


# Over calls: id, name, arguments as repaired, with `out_of_range`.
CALL_REASONS = (
    Reason("call_without_name", "a call names no tool", pl.col("name").is_null()),
    Reason("number_out_of_range", "a number in the arguments is not finite or past 64 bits", pl.col("out_of_range")),
    Reason(
        "arguments_not_object",
        "the arguments of a call are no JSON object",
        ~pl.col("arguments").str.contains(r"^\s*\{") | pl.col("arguments").str.json_path_match("$").is_null(),
    ),
)
# Over messages: the fields of MESSAGE as repaired, with `first` (of its chat), `n_calls`, `call` (line of the call that a result
# answers) and `open` (calls of the turn before are without result).
MESSAGE_REASONS = (
    Reason("unknown_role", "role is none of system, user, assistant, tool", ~pl.col("role").is_in(ROLES)),
    Reason(
        "system_not_first",
        "a system message after the conversation began",
        (pl.col("role") == "system") & ~pl.col("first"),
    ),
    Reason(
        "not_only_text",
        "a picture, a sound or a file in a message, without which what follows is no answer",
        pl.col("media").fill_null(value=False),
    ),
    Reason(
        "call_not_by_agent",
        "a call in a message that is not the agent's",
        (pl.col("role") != "assistant") & (pl.col("n_calls") > 0),
    ),
    Reason(
        "result_without_call",
        "a tool result that answers no call of the turn before",
        (pl.col("role") == "tool") & pl.col("call").is_null(),
    ),
    Reason("call_unanswered", "the conversation went on before every call had its result", pl.col("open")),
)
DESCRIPTIONS = {r.name: r.description for r in (*CALL_REASONS, *MESSAGE_REASONS)}

_NOTHING = r"^\s*(null\s*)?$"
# Numbers that may be out of range: 19 digits in a row, or an exponent of three digits. Few, and looked at exactly.
_LONG_NUMBER = r"[0-9]{19}|[eE][+-]?[0-9]{3}"


class _OutOfRangeError(Exception):
    pass


def first_reason(reasons: tuple[Reason, ...]) -> pl.Expr:
    """Name of the first reason that applies, null where none does."""
    return pl.coalesce(pl.when(r.rule).then(pl.lit(r.name)) for r in reasons)


def normalise_flat(flat: pl.DataFrame, system: str | None = None) -> pl.DataFrame:
    """Messages of chats, one a line, as the rules want them.

    Args:
        flat: From `explode_chat`.
        system: System message for chats that begin with another one.

    Returns:
        row, pos, the fields of MESSAGE; `source_pos` (position before repair, null for the added system message); `reason` why the
        message is unsound, null for sound ones.
    """
    flat = _lines(_one_system(_plain(flat), system))
    calls = _calls(flat)
    flat = answered_calls(flat, calls)
    ids = calls["new_id"]
    flat = flat.with_columns(
        tool_call_id=pl.coalesce(ids.gather(flat["call"]), "tool_call_id"),
        name=pl.coalesce("name", calls["name"].gather(flat["call"])),
        tool_calls=_rebuilt(flat, calls),
    )
    unsound = calls.select("message", reason=first_reason(CALL_REASONS)).filter(pl.col("reason").is_not_null())
    by_call = per_message(flat, unsound.unique("message", keep="first", maintain_order=True), "reason")
    answered = pl.col("call").is_not_null().cum_sum().cast(pl.Int64)
    before = pl.col("head").shift(1)  # of a message that is no result: the last such message before it
    missing = pl.col("n_calls").gather(before) - (answered.shift(1) - answered.gather(before))
    flat = flat.with_columns(open=(pl.col("role") != "tool") & ~pl.col("first") & (missing > 0))
    return flat.select(
        "row",
        (pl.col("line") - pl.col("start")).alias("pos"),
        *FIELDS,
        "source_pos",
        reason=pl.coalesce(first_reason(MESSAGE_REASONS), by_call),
    )


def first_unsound(flat: pl.DataFrame) -> pl.DataFrame:
    """The first unsound message of each chat that has one: row, good (messages before it), reason, detail."""
    return (
        flat.filter(pl.col("reason").is_not_null())
        .unique("row", keep="first", maintain_order=True)
        .select(
            "row",
            "reason",
            good="pos",
            detail=worded("message {}: {}", pl.coalesce("source_pos", "pos"), pl.col("reason").replace(DESCRIPTIONS)),
        )
    )


def normalise(
    frame: pl.DataFrame, column: str, *, system: str | None = None, whole: bool = True
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Frame with the chats of `column` by the rules, and what was left out.

    Args:
        frame: With `row_id` and `task_id`.
        column: A chat column.
        system: System message for chats without one.
        whole: Leave rows out whose chat has an unsound message. Else their chats end before it.

    Returns:
        The frame with `_good`, the number of messages before the first unsound one; and LEFT.
    """
    flat = normalise_flat(explode_chat(frame, column), system)
    unsound = first_unsound(flat)
    rows = (
        frame.with_columns(implode_chat(flat, frame.height).alias(column), row=pl.int_range(pl.len(), dtype=pl.UInt32))
        .join(unsound, on="row", how="left", maintain_order="left")
        .with_columns(_good=pl.coalesce("good", pl.col(column).list.len()))
    )
    bad = pl.col("reason").is_not_null() if whole else pl.lit(value=False)
    left = rows.filter(bad).select(pl.col(c).cast(t) for c, t in LEFT.items())
    kept = rows.filter(~bad).with_columns(pl.col(column).list.head("_good"))
    return kept.drop("row", "good", "reason", "detail"), left


def _plain(flat: pl.DataFrame) -> pl.DataFrame:
    """Repairs within a message."""
    role = pl.col("role").replace("developer", "system").fill_null("")
    return flat.select(
        "row",
        source_pos=pl.col("pos"),
        role=role,
        content=pl.col("content").fill_null(""),
        reasoning=filled("reasoning"),
        tool_calls=pl.when(pl.col("tool_calls").list.len() > 0).then("tool_calls"),
        tool_call_id=pl.when(role == "tool").then(filled("tool_call_id")),
        name=filled("name"),
        trainable=(role == "assistant") & pl.col("trainable").fill_null(value=False),
        failed=pl.when(role == "assistant").then("failed"),
        media="media",
    )


def _first() -> pl.Expr:
    return pl.col("row").ne_missing(pl.col("row").shift(1))


def _one_system(flat: pl.DataFrame, system: str | None) -> pl.DataFrame:
    """At most one leading system message a chat."""
    other = (pl.col("role") != "system").cast(pl.UInt32)
    before = other.cum_sum() - other
    leading = (pl.col("role") == "system") & (before == pl.when(_first()).then(before).forward_fill())
    more = flat.select(more=leading & ~_first())["more"]
    if more.any():
        merged = (
            flat.filter(leading)
            .group_by("row", maintain_order=True)
            .agg(merged=pl.col("content").filter(pl.col("content").str.contains(r"\S")).str.join("\n\n"), n=pl.len())
            .filter(pl.col("n") > 1)
        )
        flat = (
            flat.filter(~more)
            .join(merged, on="row", how="left", maintain_order="left")
            .with_columns(content=pl.when(_first()).then(pl.coalesce("merged", "content")).otherwise("content"))
            .drop("merged", "n")
        )
    if system is not None:
        added = flat.filter(_first() & (pl.col("role") != "system")).select(
            "row",
            source_pos=pl.lit(None, pl.UInt32),
            role=pl.lit("system"),
            content=pl.lit(system),
            **{f.name: pl.lit(False if f.name == "trainable" else None, f.dtype) for f in MESSAGE.fields[2:]},
        )
        flat = pl.concat([added, flat]).sort("row", maintain_order=True)
    return flat


def _lines(flat: pl.DataFrame) -> pl.DataFrame:
    """Adds `line`, `first`, `start` (line of the chat's first message), `n_calls`, `head` (line of the last message that is no result)."""
    flat = flat.with_columns(line=LINE, first=_first()).with_columns(
        start=pl.when("first").then("line").forward_fill(),
        n_calls=pl.col("tool_calls").list.len().fill_null(0).cast(pl.Int64),
    )
    head = pl.when(pl.col("role") != "tool").then("line").forward_fill()
    return flat.with_columns(head=pl.max_horizontal("start", head))


def _calls(flat: pl.DataFrame) -> pl.DataFrame:
    """Calls as repaired, with `new_id`, `out_of_range`, and `changed` against the source."""
    calls = explode_calls(flat).with_columns(
        id=filled("id"),
        name=filled("name"),
        arguments=pl.when(~pl.col("arguments").str.contains(_NOTHING)).then("arguments").otherwise(pl.lit("{}")),
        was=pl.struct("id", "name", "arguments"),
    )
    broken = pl.col("id").is_null() | pl.struct("row", "id").is_duplicated()
    rows = calls.filter(broken)["row"].unique(maintain_order=True)
    place = LINE - pl.when(_first()).then(LINE).forward_fill() + 1
    number = place.cast(pl.String).str.zfill(4)
    calls = calls.with_columns(
        new_id=pl.when(pl.col("row").is_in(rows.implode())).then(worded("call_{}", number)).otherwise("id"),
        out_of_range=_out_of_range(calls["arguments"]),
    )
    return calls.with_columns(
        changed=pl.col("new_id").ne_missing(pl.col("was").struct.field("id"))
        | pl.col("name").ne_missing(pl.col("was").struct.field("name"))
        | pl.col("arguments").ne_missing(pl.col("was").struct.field("arguments"))
    ).drop("was")


def _rebuilt(flat: pl.DataFrame, calls: pl.DataFrame) -> pl.Expr:
    """`tool_calls` with the calls as repaired, in the messages where that changes something."""
    changed = calls.filter("changed")["message"].unique(maintain_order=True)
    if not len(changed):
        return pl.col("tool_calls")
    rebuilt = (
        calls.filter(pl.col("message").is_in(changed.implode()))
        .group_by("message", maintain_order=True)
        .agg(rebuilt=pl.struct(id="new_id", name="name", arguments="arguments").cast(CALL))
    )
    return pl.coalesce(per_message(flat, rebuilt, "rebuilt"), "tool_calls")


def _out_of_range(arguments: pl.Series) -> pl.Series:
    """Whether JSON text holds a number that is not finite or past 64 bits."""
    suspects = arguments.filter(arguments.str.contains(_LONG_NUMBER)).unique(maintain_order=True)
    bad = [text for text in suspects if _has_bad_number(text)]
    return arguments.is_in(bad)


def _has_bad_number(text: str) -> bool:
    def integer(digits: str) -> None:
        if len(digits) > 20 or not -(2**63) <= int(digits) < 2**64:
            raise _OutOfRangeError

    def real(digits: str) -> None:
        if float(digits) in (float("inf"), float("-inf")):
            raise _OutOfRangeError

    try:
        json.loads(text, parse_int=integer, parse_float=real)
    except _OutOfRangeError:
        return True
    except (ValueError, RecursionError):
        return False  # no JSON: another reason says so
    return False
