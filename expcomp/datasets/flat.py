"""Chat columns as flat frames of messages and back; what is read out of them: texts, hashes, sizes."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from expcomp.io.digest import sha256_expr
from expcomp.io.wording import worded
from expcomp.tables.family import CHAT, MESSAGE

FIELDS = tuple(f.name for f in MESSAGE.fields)
_WORD = r"\S"
# Escapes of JSON text that would glue words together, and what they stand for.
_ESCAPES = {"\\\\": "\\", "\\n": " ", "\\r": " ", "\\t": " ", '\\"': '"', "\\/": "/"}


def filled(column: str) -> pl.Expr:
    """A text column with null in place of blank text."""
    return pl.when(pl.col(column).str.contains(_WORD)).then(pl.col(column))


def prompt_task(column: str) -> pl.Expr:
    """A name for the task of what names none: equal words of a user, in whatever case and spacing, are one task."""
    words = pl.col(column).str.replace_all(r"\s+", " ").str.strip_chars().str.to_lowercase()
    return worded("prompt/{}", sha256_expr(words).str.head(16))


def explode_chat(frame: pl.DataFrame, column: str) -> pl.DataFrame:
    """Messages of a chat column, one a line: `row` (position in the frame), `pos` (in the chat), the fields of MESSAGE."""
    length = pl.col(column).list.len().fill_null(0).cast(pl.Int64)
    return (
        frame.select(row=pl.int_range(pl.len(), dtype=pl.UInt32), start=length.cum_sum() - length, message=column)
        .explode("message", empty_as_null=False, keep_nulls=False)
        .select(
            "row",
            (pl.int_range(pl.len()) - pl.col("start")).cast(pl.UInt32).alias("pos"),
            pl.col("message").struct.unnest(),
        )
    )


def implode_chat(flat: pl.DataFrame, height: int) -> pl.Series:
    """Chats of the rows 0 to `height`, from messages in the order of their rows. A row without messages gets an empty chat."""
    chats = flat.group_by("row", maintain_order=True).agg(chat=pl.struct(FIELDS))
    if chats.height < height:
        rows = pl.DataFrame({"row": pl.int_range(height, dtype=pl.UInt32, eager=True)})
        chats = rows.join(chats, on="row", how="left", maintain_order="left").with_columns(
            pl.col("chat").fill_null(pl.lit([], dtype=CHAT))
        )
    return chats["chat"]


def explode_calls(flat: pl.DataFrame) -> pl.DataFrame:
    """Calls of a flat frame, one a line: `message` (line in the frame), `row`, `id`, `name`, `arguments`."""
    return (
        flat.select("row", "tool_calls", message=pl.int_range(pl.len(), dtype=pl.UInt32))
        .filter(pl.col("tool_calls").list.len() > 0)
        .explode("tool_calls")
        .select("message", "row", pl.col("tool_calls").struct.unnest())
    )


def per_message(flat: pl.DataFrame, lines: pl.DataFrame, column: str) -> pl.Series:
    """`column` of `lines`, which has at most one line a `message`, as a column of `flat`; null for the other messages."""
    return flat.select(message=pl.int_range(pl.len(), dtype=pl.UInt32)).join(
        lines.select("message", column), on="message", how="left", maintain_order="left"
    )[column]


def texts_of(frame: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """Every text that a model sees or writes in the columns, as (row, text): contents, reasoning, names and arguments of calls.

    Columns are chats, texts or lists of texts. Escapes in arguments are undone, so that their words are the words meant.
    """
    found: list[pl.DataFrame] = []
    for column in columns:
        if frame.schema[column] != CHAT:
            texts = frame.select(pl.int_range(pl.len(), dtype=pl.UInt32).alias("row"), text=column)
            found.append(texts.explode("text") if isinstance(frame.schema[column], pl.List) else texts)
            continue
        flat = explode_chat(frame, column)
        escaped = pl.when(pl.col("arguments").str.contains("\\u", literal=True)).then("arguments")
        found += [
            flat.select("row", text="content"),
            flat.select("row", text="reasoning"),
            explode_calls(flat).select(
                "row",
                text=pl.concat_str(
                    "name",
                    pl.coalesce(escaped.str.json_path_match("$"), "arguments").str.replace_many(_ESCAPES),
                    separator=" ",
                    ignore_nulls=True,
                ),
            ),
        ]
    return pl.concat(found).filter(pl.col("text").str.contains(_WORD)).sort("row", maintain_order=True)


def message_lines(flat: pl.DataFrame) -> pl.Series:
    """One line a message that stands for its content: role and digests of content, reasoning and calls; ids are no content."""
    calls = (
        explode_calls(flat)
        .with_columns(
            # With the length of the name before it no two calls share one text.
            call=pl.concat_str(
                pl.col("name").str.len_bytes().fill_null(0).cast(pl.String),
                pl.col("name").fill_null(""),
                pl.col("arguments").fill_null(""),
                separator=":",
            )
        )
        .with_columns(call=sha256_expr("call"))
        .group_by("message", maintain_order=True)
        .agg(pl.col("call").str.join("+"))
    )
    return flat.select(
        line=pl.concat_str(
            pl.col("role").fill_null(""),
            sha256_expr("content").fill_null(""),
            sha256_expr("reasoning").fill_null(""),
            per_message(flat, calls, "call").fill_null(""),
            separator="|",
        )
    )["line"]


def chat_digest(lines: pl.DataFrame, height: int) -> pl.Series:
    """Digest of each chat from its lines (row, line), for the rows 0 to `height`."""
    rows = pl.DataFrame({"row": pl.int_range(height, dtype=pl.UInt32, eager=True)})
    joined = lines.group_by("row", maintain_order=True).agg(pl.col("line").str.join("\n"))
    return (
        rows.join(joined, on="row", how="left", maintain_order="left")
        .with_columns(pl.col("line").fill_null(""))
        .select(sha256_expr("line"))["line"]
    )


def combined_digest(parts: pl.DataFrame) -> pl.Series:
    """SHA-256 over the columns of `parts`, texts that are digests or null."""
    return (
        parts.select(digest=pl.concat_str(pl.all().fill_null("-"), separator=","))
        .select(sha256_expr("digest"))["digest"]
        .rename("_hash")
    )


def content_hash(frame: pl.DataFrame, chats: Sequence[str], others: Sequence[str] = ()) -> pl.Series:
    """SHA-256 of a row's content without ids: of its chats, and of other columns as text."""
    parts: list[pl.Series] = []
    for column in chats:
        flat = explode_chat(frame, column)
        lines = flat.select("row", line=message_lines(flat))
        parts.append(chat_digest(lines, frame.height).alias(column))
    texts = frame.select(pl.col(c).cast(pl.String) for c in others).select(sha256_expr(c) for c in others)
    return combined_digest(pl.DataFrame([*parts, *texts.get_columns()]))


def policy_chars(flat: pl.DataFrame) -> pl.Series:
    """Characters of each message that carry loss: content, reasoning, names and arguments of calls; 0 without `trainable`."""
    calls = (
        explode_calls(flat)
        .group_by("message", maintain_order=True)
        .agg(chars=(_chars("name") + _chars("arguments")).sum())
    )
    return flat.select(
        chars=pl.when(pl.col("trainable").fill_null(value=False))
        .then(_chars("content") + _chars("reasoning") + per_message(flat, calls, "chars").fill_null(0))
        .otherwise(0)
    )["chars"]


def _chars(column: str) -> pl.Expr:
    return pl.col(column).str.len_chars().cast(pl.Int64).fill_null(0)
