"""Outcome of a transition, by the first marker that speaks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["MARKERS", "outcomes"]

_ERROR_TEXT = r"^(?:[A-Za-z_.]*(?:Error|Exception)\b|Traceback \()"

_NO_ERROR = ("false", "", "[]", "{}")
_STATUS = pl.coalesce(
    pl.col("answer").str.json_path_match(f"$.{key}") for key in ("status_code", "statusCode", "http_status", "status")
)
_HTTP = r"^HTTP/[\d.]+ ([1-5]\d\d)\b"

MARKERS: Mapping[str, tuple[pl.Expr, pl.Expr]] = {
    "flag": (pl.col("is_error").is_not_null(), pl.col("is_error")),
    "error_key": (
        pl.col("answer").str.contains(r'^\{.*"error":') & pl.col("is_json"),
        # `"error": false` says that there was none.
        ~pl.col("answer").str.json_path_match("$.error").is_in(_NO_ERROR).fill_null(value=True),
    ),
    "success_key": (
        pl.col("answer").str.contains(r'^\{.*"success":(?:true|false)') & pl.col("is_json"),
        pl.col("answer").str.json_path_match("$.success") == "false",
    ),
    "error_text": (~pl.col("is_json") & pl.col("observation").str.contains(_ERROR_TEXT), pl.lit(value=True)),
    "http_status": (
        pl.col("answer").str.contains(r'^\{.*"(?:status|status_code|statusCode|http_status)":[1-5]\d\d[,}]')
        & pl.col("is_json")
        & _STATUS.str.contains(r"^[1-5]\d\d$"),
        _STATUS.str.contains("^[45]"),
    ),
    "http_line": (
        ~pl.col("is_json") & pl.col("observation").str.contains(_HTTP),
        pl.col("observation").str.extract(_HTTP).str.contains("^[45]"),
    ),
}
"""Marker name to (does it speak, does it say failure), in order of precedence."""


def outcomes(rows: pl.DataFrame) -> pl.DataFrame:
    """Prepared transitions with `failed` and `marker` (null: nothing speaks, and a success is assumed)."""
    failed, marker = pl.lit(value=False), pl.lit(None, dtype=pl.String)
    for name, (speaks, says) in reversed(list(MARKERS.items())):
        failed = pl.when(speaks).then(says).otherwise(failed)
        marker = pl.when(speaks).then(pl.lit(name)).otherwise(marker)
    return rows.with_columns(failed=failed.fill_null(value=False), marker=marker)
