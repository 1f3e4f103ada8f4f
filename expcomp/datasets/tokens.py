"""Token counts of rows under a tokenizer of the user's, and what they mean for `max_length` (extra `tokenizers`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import orjson
import polars as pl

from expcomp.errors import ConfigError, ExpcompError
from expcomp.tables.targets import Target

LIMITS = (4096, 8192, 16384, 32768)
_BATCH = 256


class RenderError(ExpcompError):
    """A row that a chat template does not take."""

    exit_code = 1


class Counter:
    """Counts tokens with a tokenizer from a folder or a `tokenizer.json`; never from the network.

    Attributes:
        templated: Whether the tokenizer has a chat template. Without one the texts of a row are counted, not the markup of turns.
    """

    def __init__(self, path: str | Path) -> None:
        """Load the tokenizer.

        Raises:
            ConfigError: The extra is not installed, or there is no tokenizer at the path.
        """
        transformers = need("transformers")
        place = Path(path)
        try:
            if place.is_file():
                self._tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(place))
            elif place.is_dir():
                self._tokenizer = transformers.AutoTokenizer.from_pretrained(str(place), local_files_only=True)
            else:
                raise ConfigError(f"no tokenizer at {place}; expected a folder or a tokenizer.json on this machine")
        except (OSError, ValueError, KeyError) as error:
            raise ConfigError(f"no tokenizer could be read from {place}: {error}") from error
        except Exception as error:  # the Rust loader raises plain Exception
            if isinstance(error, ExpcompError):
                raise
            raise ConfigError(f"{place} is no tokenizer: {error}") from error
        self.templated = bool(self._tokenizer.chat_template)

    def count(self, rows: pl.DataFrame, target: Target | None = None) -> pl.Series:
        """Tokens of each row as it is trained; of a pair, those of its longer side.

        Args:
            rows: Logical or wire rows.
            target: Where the rows go; text and sharegpt profiles are counted without tool schemas.

        Raises:
            RenderError: The tokenizer's template does not take a row.
        """
        tools = target is None or target.profile in ("typed", "plain", "native")
        longest = [0] * rows.height
        for texts in conversations(rows):
            for start in range(0, rows.height, _BATCH):
                part = rows.slice(start, _BATCH)
                made = self._render(part, texts, tools=tools)
                ids = self._tokenizer(made, add_special_tokens=not self.templated, return_attention_mask=False)[
                    "input_ids"
                ]
                longest[start : start + _BATCH] = map(max, longest[start : start + _BATCH], map(len, ids))
        return pl.Series("tokens", longest, dtype=pl.UInt32)

    def _render(self, part: pl.DataFrame, texts: pl.Expr, *, tools: bool) -> list[str]:
        if not self.templated:
            return [plain(m) for m in messages(part, texts)]
        template, special = self._tokenizer.chat_template, self._tokenizer.special_tokens_map
        if isinstance(template, Mapping):
            template = template.get("tool_use") or template["default"]
        made = []
        for i, (chat, schemas) in enumerate(zip(messages(part, texts), toolsets(part, used=tools), strict=True)):
            try:
                made.append(render(chat, schemas, template, special))
            except Exception as error:  # templates raise what they like
                name = part["row_id"][i] if "row_id" in part.columns else i
                raise RenderError(f"row {name}: the tokenizer's chat template does not take it: {error}") from error
        return made


def advice(counts: pl.Series) -> dict[str, Any]:
    """Quantiles, shares over the usual limits, and the `max_length` that keeps 95, 99 and 100 % of the rows whole."""
    if counts.is_empty():
        return {"rows": 0}
    at = {q: int(counts.quantile(q, "higher") or 0) for q in (0.05, 0.25, 0.5, 0.75, 0.95, 0.99)}
    most = int(counts.cast(pl.Int64).max())  # type: ignore[arg-type]
    return {
        "rows": counts.len(),
        "min": int(counts.cast(pl.Int64).min()),  # type: ignore[arg-type]
        "median": at[0.5],
        "mean": round(float(counts.mean()), 1),  # type: ignore[arg-type]
        "max": most,
        "quantiles": {f"{q:.2f}": n for q, n in at.items()},
        "over": {str(n): round(int((counts > n).sum()) / counts.len(), 6) for n in LIMITS},
        "keep": {"95": at[0.95], "99": at[0.99], "100": most},
    }


def need(module: str) -> Any:
    """A module of the extra `tokenizers`, imported when it is needed."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ConfigError(f"this needs {module}: pip install 'expcomp[tokenizers]'") from error


def chat_columns(rows: pl.DataFrame) -> list[str]:
    """Columns that hold messages with roles."""
    return [
        c
        for c, t in rows.schema.items()
        if isinstance(t, pl.List) and isinstance(t.inner, pl.Struct) and _has_role(t.inner)
    ]


def _has_role(message: pl.Struct) -> bool:
    return any(f.name == "role" for f in message.fields)


def conversations(rows: pl.DataFrame) -> list[pl.Expr]:
    """Expressions for what is rendered of a row, by its columns: one, or two of a pair."""
    names = set(rows.columns)
    if {"messages", "rejected_messages"} <= names:
        return [pl.col("messages"), pl.col("rejected_messages")]
    if "messages" in names:
        return [pl.col("messages")]
    if {"chosen", "rejected"} <= names and isinstance(rows.schema["chosen"], pl.List):
        start = "prompt" if "prompt" in names else "conversations"
        return [pl.concat_list(start, "chosen"), pl.concat_list(start, "rejected")]
    if {"chosen", "rejected"} <= names:
        return [pl.concat_list("conversations", pl.concat_list(side)) for side in ("chosen", "rejected")]
    if {"prompt", "completion"} <= names:
        return [pl.concat_list("prompt", "completion")]
    if {"prompt", "completions"} <= names:
        return [pl.concat_str("prompt", pl.col("completions").list.join("\n"), separator="\n")]
    if {"context", "completions"} <= names:
        sides = pl.col("completions")
        return [pl.concat_list("context", sides.list.get(i).struct.field("completion")) for i in (0, 1)]
    for name in ("conversations", "prompt", "input"):
        if name in names:
            return [pl.col(name)]
    raise ConfigError(f"no column of messages among {', '.join(rows.columns)}")


def messages(rows: pl.DataFrame, texts: pl.Expr) -> Iterator[list[dict[str, Any]]]:
    """Each row's conversation as a chat template sees it: no nulls, arguments as objects."""
    for chat in rows.select(texts.alias("texts"))["texts"].to_list():
        yield [{"role": "user", "content": chat}] if isinstance(chat, str) else [_message(m) for m in chat or ()]


def toolsets(rows: pl.DataFrame, *, used: bool = True) -> list[list[Any] | None]:
    """Each row's tool schemas; equal texts are parsed once."""
    if not used or "tools" not in rows.columns or rows.schema["tools"] != pl.String():
        return [None] * rows.height
    made: dict[str, list[Any] | None] = {}
    for text in rows["tools"].unique(maintain_order=True).drop_nulls().to_list():
        made[text] = orjson.loads(text) if text else None
    return [made[t] if t is not None else None for t in rows["tools"].to_list()]


def render(
    chat: list[dict[str, Any]], tools: list[Any] | None, template: str, special: Mapping[str, Any] | None = None
) -> str:
    """One conversation under a chat template, with the renderer of transformers."""
    module = need("transformers.utils.chat_template_utils")
    made, _ = module.render_jinja_template(conversations=[chat], tools=tools, chat_template=template, **(special or {}))
    return str(made[0])


def plain(chat: list[dict[str, Any]]) -> str:
    """The texts of a conversation, without any markup of turns."""
    parts = [m.get(k) for m in chat for k in ("reasoning_content", "content")]
    calls = [c["function"] for m in chat for c in m.get("tool_calls", ())]
    return "\n".join([p for p in parts if p] + [f"{c['name']} {orjson.dumps(c['arguments']).decode()}" for c in calls])


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    made = {
        "role": message.get("role") or message.get("from"),
        "content": message.get("content") or message.get("value") or "",
        "reasoning_content": message.get("reasoning_content") or message.get("reasoning"),
        "tool_call_id": message.get("tool_call_id"),
        "name": message.get("name"),
        "tool_calls": [_call(c) for c in message.get("tool_calls") or ()] or None,
    }
    return {k: v for k, v in made.items() if v is not None}


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    inner = call.get("function") or call
    arguments = inner["arguments"]
    if isinstance(arguments, str):
        # Text that is no JSON stays text: a template that needs an object says so.
        with suppress(orjson.JSONDecodeError):
            arguments = orjson.loads(arguments)
    return {"id": call.get("id"), "type": "function", "function": {"name": inner["name"], "arguments": arguments}}
