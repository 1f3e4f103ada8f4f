"""Tool schemas as trainers take them: one JSON text for one tool set, in the form of OpenAI functions, without padding."""

from __future__ import annotations

import json
from typing import Any

import polars as pl

# Where a null is a value of the schema, not a hole that a table left.
_OPEN = frozenset({"enum", "examples", "const", "default"})
# Where keys are names that the author chose, and not words of the schema.
_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})


def with_tools(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows with `tools` in that form; null where a text is no list of schemas, or an empty one.

    Each distinct text is read once: there are as many as tool sets, not as many as rows.
    """
    if "tools" not in rows.columns:
        return rows
    texts = rows.select("tools").drop_nulls().unique(maintain_order=True)["tools"]
    if texts.is_empty():
        return rows
    table = pl.DataFrame(
        {"tools": texts, "_clean": [tool_set(t) for t in texts]}, schema={"tools": pl.String, "_clean": pl.String}
    )
    return (
        rows.join(table, on="tools", how="left", maintain_order="left")
        .with_columns(tools="_clean")
        .select(rows.columns)
    )


def tool_set(text: str) -> str | None:
    """A JSON array of function schemas; None when the text holds none."""
    try:
        value = json.loads(text, parse_constant=_refuse)
        tools = [t for t in map(_function, value if isinstance(value, list) else [value]) if t is not None]
        made = json.dumps(tools, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except (ValueError, RecursionError):
        return None
    # Half a surrogate pair can be escaped in JSON and stands for no text at all.
    return made.encode("utf-8", "replace").decode() if tools else None


def _refuse(name: str) -> None:
    msg = f"{name} is no JSON"
    raise ValueError(msg)


def _function(value: Any) -> dict[str, Any] | None:
    """One schema as `{"type": "function", "function": {...}}`, whichever vendor wrote it."""
    if not isinstance(value, dict):
        return None
    inner = value.get("function") if isinstance(value.get("function"), dict) else value
    if not isinstance(inner, dict) or not isinstance(inner.get("name"), str):
        return None
    function = {k: v for k, v in inner.items() if k not in ("type", "input_schema", "inputSchema")}
    for name in ("input_schema", "inputSchema"):
        if isinstance(inner.get(name), dict):
            function.setdefault("parameters", inner[name])
    return {"type": "function", "function": _whole(function)}


def _whole(value: Any, *, named: bool = False) -> Any:
    """The value without nulls that no schema writes: tables pad every schema with the keys of all others."""
    if isinstance(value, dict):
        return {
            k: v if k in _OPEN and not named else _whole(v, named=k in _NAMED and not named)
            for k, v in value.items()
            if v is not None or (k in ("const", "default") and not named)
        }
    if isinstance(value, list):
        return [_whole(v) for v in value if v is not None]
    return value
