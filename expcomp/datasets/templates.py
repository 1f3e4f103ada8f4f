"""Which rows a chat template cannot take: known structural facts, and rendering under templates the user names."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import polars as pl

from expcomp.datasets.tokens import chat_columns, conversations, messages, render, toolsets
from expcomp.errors import ConfigError
from expcomp.io.files import listing, read_bytes

FAILED: dict[str, pl.DataType] = {"template": pl.String(), "row": pl.UInt32(), "error": pl.String()}
_LIMIT = 1 << 20
# What a template may ask for besides the conversation; any text will do to see whether a row renders.
_SPECIAL = {name: f"<{name}>" for name in ("bos_token", "eos_token", "pad_token", "unk_token")}


class Fact(NamedTuple):
    """What a template does with rows of a shape: `refused` raises, `lost` drops the named part without a word."""

    template: str
    shape: str
    effect: str


_ANY = pl.element()
_CALLS = pl.element().struct.field("calls")
# Shapes as expressions over one message of the narrow form (role, calls, text, reasoned); a row has it when any message does.
SHAPES: dict[str, pl.Expr] = {
    "calls": _CALLS > 0,
    "parallel calls": _CALLS > 1,
    "text beside a call": (_CALLS > 0) & _ANY.struct.field("text"),
    "reasoning beside a call": (_CALLS > 0) & _ANY.struct.field("reasoned"),
    "reasoning": _ANY.struct.field("reasoned"),
    "system prompt": _ANY.struct.field("role") == "system",
    # User turns at even places, counted after the system prompt, and nothing else there.
    "role order": (_ANY.struct.field("role") == "user")
    != ((pl.int_range(pl.len()) - (_ANY.struct.field("role").first() == "system").cast(pl.Int64)) % 2 == 0),
}
# Each line was seen with the templates that TRL 1.16 ships, rendered by transformers 5.24.
FACTS: tuple[Fact, ...] = (
    *(
        Fact(name, shape, effect)
        for name in ("Llama 3.1", "Llama 3.2")
        for shape, effect in (("parallel calls", "refused"), ("text beside a call", "lost"), ("reasoning", "lost"))
    ),
    Fact("gpt-oss", "parallel calls", "lost"),
    Fact("gpt-oss", "text beside a call", "lost"),
    Fact("gpt-oss", "reasoning beside a call", "lost"),
    Fact("Muse Glimmer", "text beside a call", "lost"),
    Fact("Gemma 3", "role order", "refused"),
    Fact("Cohere 2", "role order", "refused"),
    Fact("Gemma", "role order", "refused"),
    Fact("Gemma", "system prompt", "refused"),
    Fact("DeepSeek-V3", "calls", "refused"),
    Fact("DeepSeek-R1 distill", "calls", "lost"),
    Fact("Phi-3", "calls", "lost"),
    Fact("Llama 3", "calls", "lost"),
    Fact("LFM2", "calls", "lost"),
    Fact("Qwen2.5", "reasoning", "lost"),
    Fact("Qwen3-2507 instruct", "reasoning", "lost"),
)


def shapes(rows: pl.DataFrame) -> pl.DataFrame:
    """One Boolean column a shape, for each row. Only roles, counts and flags are kept of the messages, never their texts."""
    narrow = rows.select(_narrow(pl.col(c), rows.schema[c]).alias(c) for c in chat_columns(rows))
    sides = [pl.concat_list(s) if len(s) > 1 else pl.col(s[0]) for s in _sides(narrow)]
    made = {
        # A system prompt counts for the role order only as the first message, so its own place is let through.
        name: pl.any_horizontal(
            s.list.eval((rule & ((_ANY.struct.field("role") != "system") | (name != "role order"))).any()).list.first()
            for s in sides
        ).fill_null(value=False)
        for name, rule in SHAPES.items()
    }
    return narrow.select(**made)


def known(rows: pl.DataFrame) -> pl.DataFrame:
    """What the known templates do with these rows: template, shape, effect, rows."""
    counts = {c: int(n) for c, n in zip(SHAPES, shapes(rows).sum().row(0), strict=True)}
    return pl.DataFrame(
        [(f.template, f.shape, f.effect, counts[f.shape]) for f in FACTS],
        schema={"template": pl.String, "shape": pl.String, "effect": pl.String, "rows": pl.Int64},
        orient="row",
    )


def counts(rows: pl.DataFrame) -> dict[str, int]:
    """Rows that each known template refuses or takes with loss, by template; templates that take all are left out."""
    found = shapes(rows)
    names = dict.fromkeys(f.template for f in FACTS)
    sums = found.select(pl.any_horizontal(f.shape for f in FACTS if f.template == n).sum().alias(n) for n in names)
    return {n: int(sums[n][0]) for n in names if sums[n][0]}


def render_all(rows: pl.DataFrame, folder: str | Path) -> pl.DataFrame:
    """Render every row under every `.jinja` of a folder: template, position of the row, and the error of those that fail.

    Raises:
        ConfigError: The folder holds no template, or the extra `tokenizers` is not installed.
    """
    root = Path(folder)
    names = [n for n in listing(root) if n.endswith(".jinja")] if root.is_dir() else []
    if not names:
        raise ConfigError(f"no .jinja in {root}; expected a folder of chat templates")
    texts = {n.removesuffix(".jinja"): read_bytes(root, n, limit=_LIMIT).decode() for n in sorted(names)}
    schemas = toolsets(rows)
    failed: dict[tuple[str, int], str] = {}
    for side in conversations(rows):
        for i, (chat, tools) in enumerate(zip(messages(rows, side), schemas, strict=True)):
            for name, text in texts.items():
                try:
                    render(chat, tools, text, _SPECIAL)
                except ConfigError:
                    raise
                except Exception as error:  # templates raise what they like
                    failed.setdefault((name, i), f"{type(error).__name__}: {error}"[:300])
    found = [(name, row, error) for (name, row), error in failed.items()]
    return pl.DataFrame(found, schema=FAILED, orient="row").sort("template", "row")


def _narrow(chat: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    fields = {f.name for f in dtype.inner.fields}  # type: ignore[attr-defined]
    reasoning = "reasoning_content" if "reasoning_content" in fields else "reasoning"

    def said(name: str) -> pl.Expr:
        if name not in fields:
            return pl.lit(value=False)
        return (_ANY.struct.field(name).str.len_bytes() > 0).fill_null(value=False)

    calls = _ANY.struct.field("tool_calls").list.len().fill_null(0) if "tool_calls" in fields else pl.lit(0, pl.UInt32)
    return chat.list.eval(
        pl.struct(role=_ANY.struct.field("role"), calls=calls, text=said("content"), reasoned=said(reasoning))
    )


def _sides(narrow: pl.DataFrame) -> list[list[str]]:
    names = set(narrow.columns)
    if "messages" in names:
        return [["messages"]]
    ends = [c for c in ("completion", "chosen", "rejected") if c in names]
    return [["prompt", e] for e in ends] or [["prompt"]]
