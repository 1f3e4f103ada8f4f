"""Chats on their way to a trainer: messages in OpenAI's shape, calls and results as text, tools in the system text.

Profiles of `Target`:

* typed: messages in OpenAI's shape; `arguments` is `arrow.json` in Parquet and an object in JSON lines.
* plain: the same shape; `arguments` is a string.
* native: JSON lines only; `arguments` and `tools` are objects.
* text: role and content alone; calls, results and tools stand in the content.
* sharegpt: from and value alone, for LLaMA-Factory.

A column of chats is a list of structs. What looks at one message at a time is an expression inside `list.eval`, which
works on the flat values; what looks at neighbours works on one line a message (`spread`, then `gather`).
"""

from __future__ import annotations

import polars as pl

from expcomp.tables.targets import WIRE_CALL

TEXT_MESSAGE = pl.Struct({"role": pl.String(), "content": pl.String()})
_TOOLS_HEAD = "Functions you may call, as a JSON array of their schemas:\n<tools>\n"
_TOOLS_TAIL = "\n</tools>"
_CALL_FORM = (
    "\nWrite a call as one JSON object between tags, several calls one after the other:\n"
    '<tool_call>\n{"name": "<function>", "arguments": {"<argument>": "<value>"}}\n</tool_call>\n'
    "Each result comes back between <tool_response> and </tool_response>."
)


def json_text(value: pl.Expr) -> pl.Expr:
    """A value as JSON; null gives `null`."""
    return pl.struct(value.alias("v")).struct.json_encode().str.strip_prefix('{"v":').str.strip_suffix("}")


def filled(text: pl.Expr) -> pl.Expr:
    """A text, null when it is empty."""
    return pl.when(text.str.len_bytes() > 0).then(text)


def thought(reasoning: pl.Expr) -> pl.Expr:
    """Reasoning as it stands before an answer; null when there is none."""
    return pl.concat_str(pl.lit("<think>\n"), filled(reasoning), pl.lit("\n</think>\n\n"))


def call_texts(calls: pl.Expr) -> pl.Expr:
    """Each call of a list as a JSON object with `name` and an object of `arguments`."""
    call = pl.element().struct
    return calls.list.eval(
        pl.concat_str(
            pl.lit('{"name": '),
            json_text(call.field("name")),
            pl.lit(', "arguments": '),
            call.field("arguments"),
            pl.lit("}"),
        )
    )


def wire_chat(chat: pl.Expr, *, flag: str | None = None, inline: bool = False) -> pl.Expr:
    """Messages in OpenAI's shape.

    Args:
        chat: A list of messages of the row families.
        flag: Field that says whether an assistant turn carries loss; null on every other message.
        inline: Reasoning stands in the content, because the trainer drops its own field.
    """
    message, call = pl.element().struct, pl.element().struct
    reasoning, content = filled(message.field("reasoning")), message.field("content")
    if inline:
        content = pl.concat_str(thought(reasoning), content, ignore_nulls=True)
        reasoning = pl.lit(None, pl.String())
    calls = message.field("tool_calls")
    wired = calls.list.eval(
        pl.struct(
            call.field("id"),
            pl.lit("function").alias("type"),
            pl.struct(call.field("name"), call.field("arguments")).alias("function"),
        )
    ).cast(pl.List(WIRE_CALL))
    fields = [
        message.field("role"),
        content.alias("content"),
        reasoning.alias("reasoning_content"),
        pl.when(calls.list.len() > 0).then(wired).alias("tool_calls"),
        message.field("tool_call_id"),
        message.field("name"),
    ]
    if flag:
        trained = message.field("trainable").fill_null(False)
        fields.append(pl.when(message.field("role") == "assistant").then(trained).alias(flag))
    return chat.list.eval(pl.struct(fields))


def tools_text(tools: pl.Expr, *, form: bool) -> pl.Expr:
    """Tool schemas as system text, with the form of a call when no chat template gives one; null when there are none."""
    return pl.concat_str(pl.lit(_TOOLS_HEAD), tools, pl.lit(_TOOLS_TAIL + (_CALL_FORM if form else "")))


def system_text(chat: pl.Expr) -> pl.Expr:
    """Content of the system message, which is first when there is one."""
    first = chat.list.first().struct
    return pl.when(first.field("role") == "system").then(first.field("content"))


def without_system(chat: pl.Expr) -> pl.Expr:
    """The messages after the system message."""
    leads = chat.list.first().struct.field("role") == "system"
    return chat.list.slice(leads.fill_null(False).cast(pl.Int64))


def paragraphs(*texts: pl.Expr) -> pl.Expr:
    """The texts that are there, with blank lines between; null when none is."""
    held = [filled(t) for t in texts]
    return filled(pl.concat_str(held, separator="\n\n", ignore_nulls=True))


def spread(chats: pl.Series) -> pl.DataFrame:
    """One line a message, with the position of its chat as `line`."""
    flat = chats.rename("m").to_frame().with_row_index("line").explode("m", empty_as_null=False, keep_nulls=False)
    return flat.unnest("m")


def gather(flat: pl.DataFrame, message: pl.Expr, height: int) -> pl.Series:
    """Messages back in chats, by `line`; a chat without messages is an empty list."""
    lists = flat.select("line", m=message).group_by("line", maintain_order=True).agg("m")
    every = pl.DataFrame({"line": pl.int_range(height, dtype=pl.UInt32(), eager=True)})
    joined = every.join(lists, on="line", how="left", maintain_order="left")
    return joined.select(pl.col("m").fill_null(pl.lit([], lists.schema["m"]))).to_series()


def runs(*roles: str) -> pl.Expr:
    """A number for each stretch of messages of one chat and one of these roles; any other message stands alone."""
    line, role = pl.col("line"), pl.col("role")
    goes_on = (line == line.shift()) & (role == role.shift()) & role.is_in(roles)
    return (~goes_on.fill_null(False)).cum_sum().alias("run")
