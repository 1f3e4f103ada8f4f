"""Interaction surfaces that a source does not declare: by the name of the tool, on word boundaries, and said to be so.

Rules are data. A step keeps what its source declares; a tool whose name is in no rule leaves the surface unknown.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from expcomp.tables import vocab as v

BY_TOOL: Mapping[str, str] = {
    "bash": "cli",
    "shell": "cli",
    "terminal": "cli",
    "exec": "cli",
    "execute": "cli",
    "sql": "database",
    "sqlite": "database",
    "postgres": "database",
    "http": "api",
    "curl": "api",
    "mcp": "mcp_tool",
    "browser": "browser",
    "grep": "search",
    "search": "search",
    "file": "file",
    "editor": "file",
    "git": "codebase",
    "pytest": "codebase",
    "email": "email",
    "mail": "email",
    "sheet": "spreadsheet",
    "pdf": "pdf",
}
"""Word of a tool name -> surface; the first that fits counts."""

DOMAIN: Mapping[str, str] = {
    "cli": "terminal",
    "file": "file",
    "codebase": "codebase",
    "api": "api",
    "database": "database",
    "spreadsheet": "spreadsheet",
    "table": "spreadsheet",
    "search": "search",
    "browser": "browser",
    "computer_use": "computer_use",
    "mcp_tool": "mcp",
    "mcp_resource": "mcp",
    "mcp_prompt": "mcp",
    "document": "multimodal",
    "pdf": "multimodal",
    "multimodal": "multimodal",
    "device": "device",
    "industrial": "industrial",
    "physical": "physical",
    "mixed": "mixed",
}
"""Surface -> environment domain."""

ARGUMENTS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "cli": {"command": ("cmd", "command", "script", "keystrokes")},
    "file": {"file_path": ("path", "file_path", "filename"), "file_operation": ("command", "operation")},
    "search": {"query": ("query", "pattern", "q")},
    "database": {"query": ("query", "sql", "statement")},
    "api": {"api_endpoint": ("url", "endpoint"), "api_method": ("method",)},
}
"""Surface -> field of a step -> arguments of the call that hold it; the first that is there counts."""


def by_tool(column: str) -> pl.Expr:
    """Surface by a word of the tool name; null when no rule fits."""
    name = pl.col(column)
    return pl.coalesce(
        *(
            pl.when(name.str.contains(rf"(?i)(?:^|[^a-z0-9]){word}(?:$|[^a-z0-9])")).then(pl.lit(surface))
            for word, surface in BY_TOOL.items()
        )
    )


def domain_of(surface: pl.Expr) -> pl.Expr:
    """Environment domain of a surface; null when it has none of its own."""
    return surface.cast(pl.String).replace_strict(DOMAIN, default=None).cast(v.DOMAIN)


def with_surfaces(steps: pl.DataFrame) -> pl.DataFrame:
    """Fill tool, surface, domain and the fields of a single tool call where a source left them null."""
    open_ = pl.col("surface").is_null() & (pl.col("source") == "agent") & (pl.col("tool_calls").list.len() == 1)
    if not steps.height or not steps.select(open_.any()).item():
        return steps
    call = pl.col("tool_calls").list.first()
    steps = steps.with_columns(
        _tool=pl.when(open_).then(call.struct.field("name")),
        _arguments=pl.when(open_ & call.struct.field("arguments_ok")).then(call.struct.field("arguments")),
    )
    # Tools are few and steps are many: the rules run over each name once.
    names = steps.select("_tool").drop_nulls().unique(maintain_order=True).with_columns(_surface=by_tool("_tool"))
    steps = steps.join(names, on="_tool", how="left", maintain_order="left")
    found = pl.col("_surface").is_not_null()
    detail = pl.coalesce(*(pl.when(pl.col("_surface") == s).then(_fields(s, f)) for s, f in ARGUMENTS.items()))
    return steps.with_columns(
        tool=pl.coalesce("tool", "_tool"),
        surface=pl.coalesce("surface", pl.col("_surface").cast(v.SURFACE)),
        surface_source=pl.when(found).then(pl.lit("tool").cast(v.SURFACE_SOURCE)).otherwise("surface_source"),
        domain=pl.coalesce("domain", domain_of(pl.col("_surface"))),
        detail=pl.coalesce("detail", pl.when(detail != "{}").then(detail)),
    ).drop("_tool", "_arguments", "_surface")


def _value(arguments: pl.Expr, key: str) -> pl.Expr:
    """Value of a key as text; only what holds the word is parsed at all. A key spelled with escapes is not found."""
    return pl.when(arguments.str.contains(f'"{key}"', literal=True)).then(arguments).str.json_path_match(f"$.{key}")


def _fields(surface: str, fields: Mapping[str, tuple[str, ...]]) -> pl.Expr:
    """JSON text of the fields that the arguments of a call on this surface hold; absent ones are left out."""
    # Every branch of a condition is evaluated for every row; a null costs nothing to look into.
    arguments = pl.when(pl.col("_surface") == surface).then("_arguments")
    values = {name: pl.coalesce(*(_value(arguments, key) for key in keys)) for name, keys in fields.items()}
    parts = [
        pl.when(value.is_not_null()).then(pl.struct(value.alias(name)).struct.json_encode().str.slice(1).str.head(-1))
        for name, value in values.items()
    ]
    return pl.concat_str(
        pl.lit("{"), pl.concat_str(*parts, separator=",", ignore_nulls=True), pl.lit("}"), ignore_nulls=True
    )
