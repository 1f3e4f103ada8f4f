"""Checks of a contract as tables: when a file or a field is wrong, what was expected, what was found, what to do.

Failures of one file are named by cause: a check of the group `file` that fails ends the checks of that file, of the group `rows` the first
counts, and each wrong kind of value is put down to the first check that refuses it.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from expcomp.io.wording import worded

_FAMILY = pl.col("family")
_PREFIX = pl.when(_FAMILY == "json").then(pl.lit("json")).otherwise(_FAMILY)
_BYTES = worded("{} bytes", "bytes")
_ROWS = worded("{} rows", "rows")
_PATH = pl.col("path")
_SHEET = pl.when(pl.col("sheet").is_not_null()).then(worded(", sheet {}", "sheet")).otherwise(pl.lit(""))
_WHERE = pl.concat_str(_PATH, _SHEET)


@dataclass(frozen=True, slots=True)
class FileCheck:
    """A check of a file; texts are expressions over its line.

    Attributes:
        group: `file` or `rows`.
        code: Code of the failure.
        bad: Where it fails.
        expectation: What the contract asks for.
        found: What stands there.
        hint: What to do.
        field: The field of the failure, if it has one.
        count: How much is wrong, if it was counted.
    """

    group: str
    code: pl.Expr
    bad: pl.Expr
    expectation: pl.Expr
    found: pl.Expr
    hint: pl.Expr
    field: pl.Expr = pl.lit(None, dtype=pl.String)  # noqa: RUF009 - expressions are immutable
    count: pl.Expr = pl.lit(None, dtype=pl.Int64)  # noqa: RUF009


def _problem(name: str) -> pl.Expr:
    return pl.col("problem") == name


_STATES = {
    "link": "a symbolic link",
    "outside": "a path that leaves the folder",
    "hidden": "a hidden reference",
}
_MISFORMED = (pl.col("problem").str.starts_with("invalid_") & ~_problem("invalid_encoding")).fill_null(value=False)

FILE_CHECKS: tuple[FileCheck, ...] = (
    FileCheck(
        "file",
        pl.lit("forbidden_or_hidden_reference"),
        pl.col("state").is_in(list(_STATES)),
        pl.lit("a visible file below the folder, reached without a link"),
        pl.col("state").replace_strict(_STATES, default=None, return_dtype=pl.String),
        worded("Name a file of the folder itself in place of {}; hidden references are never read.", _PATH),
    ),
    FileCheck(
        "file",
        pl.lit("missing_file"),
        pl.col("state").is_in(["absent", "other"]) & pl.col("required"),
        pl.lit("a regular file"),
        pl.when(pl.col("state") == "other").then(pl.lit("no regular file")).otherwise(pl.lit("nothing")),
        worded("Create {}.", _PATH),
    ),
    FileCheck(
        "file",
        pl.lit("empty_file"),
        (pl.col("bytes") == 0) & (pl.col("min_bytes").fill_null(1) > 0),
        pl.lit("a file that is not empty"),
        _BYTES,
        worded("Write the content of {}; it is empty.", _PATH),
    ),
    FileCheck(
        "file",
        pl.lit("artifact_too_small_or_empty"),
        pl.col("bytes") < pl.col("min_bytes"),
        worded("{} bytes or more", "min_bytes"),
        _BYTES,
        worded("Complete {}; it is smaller than the contract allows.", _PATH),
        count=pl.col("min_bytes") - pl.col("bytes"),
    ),
    FileCheck(
        "file",
        pl.lit("file_too_large"),
        _problem("file_too_large"),
        pl.lit("a file that can be checked within the limits"),
        pl.col("detail"),
        worded("Make {} smaller, or raise the limit of the check.", _PATH),
    ),
    FileCheck(
        "file",
        pl.lit("unreadable_file"),
        _problem("unreadable_file"),
        pl.lit("a file that can be read"),
        pl.col("detail"),
        worded("Make {} readable.", _PATH),
    ),
    FileCheck(
        "file",
        pl.lit("format_mismatch"),
        _problem("format_mismatch"),
        pl.col("format"),
        pl.col("detail"),
        worded("Write {} as {}; its bytes are of another format.", _PATH, "format"),
    ),
    FileCheck(
        "file",
        pl.lit("invalid_encoding"),
        _problem("invalid_encoding"),
        pl.lit("UTF-8"),
        pl.col("detail"),
        worded("Write {} in UTF-8.", _PATH),
    ),
    FileCheck(
        "file",
        pl.col("problem"),
        _MISFORMED,
        worded("well-formed {}", "format"),
        pl.col("detail"),
        worded("Write {} again as well-formed {}.", _PATH, "format"),
    ),
    FileCheck(
        "file",
        pl.lit("missing_sheet"),
        _problem("missing_sheet"),
        worded("a sheet {}", "sheet"),
        pl.col("detail"),
        worded("Add the sheet {} to {}.", "sheet", _PATH),
        field=pl.col("sheet"),
    ),
    FileCheck(
        "file",
        pl.lit("json_root_type_mismatch"),
        pl.col("root_type") != pl.col("shape"),
        worded("a JSON document that is: {}", "root_type"),
        pl.col("shape"),
        worded("Write {} so that its outermost value is: {}.", _PATH, "root_type"),
    ),
    FileCheck(
        "rows",
        pl.concat_str(_PREFIX, pl.lit("_has_no_data_rows")),
        (pl.col("shape") == "table") & (pl.col("rows") == 0) & ~pl.col("rows_optional"),
        pl.lit("one or more data rows"),
        _ROWS,
        worded("Write the data rows of {}; it holds a header only.", _WHERE),
    ),
    FileCheck(
        "rows",
        pl.concat_str(_PREFIX, pl.lit("_row_count_mismatch")),
        pl.col("rows") != pl.col("row_count"),
        worded("{} rows", "row_count"),
        _ROWS,
        worded("Write exactly {} rows to {}.", "row_count", _WHERE),
        count=(pl.col("rows") - pl.col("row_count")).abs(),
    ),
    FileCheck(
        "rows",
        pl.concat_str(_PREFIX, pl.lit("_row_count_below_minimum")),
        pl.col("rows") < pl.col("min_rows"),
        worded("{} or more rows", "min_rows"),
        _ROWS,
        worded("Add the missing rows to {}.", _WHERE),
        count=pl.col("min_rows") - pl.col("rows"),
    ),
    FileCheck(
        "rows",
        pl.concat_str(_PREFIX, pl.lit("_row_count_above_maximum")),
        pl.col("rows") > pl.col("max_rows"),
        worded("{} or fewer rows", "max_rows"),
        _ROWS,
        worded("Remove the rows of {} that are too many.", _WHERE),
        count=pl.col("rows") - pl.col("max_rows"),
    ),
)


@dataclass(frozen=True, slots=True)
class FieldCheck:
    """A check of a field: its code (`{}` is the family of the format), and texts over `field`, `type`, `path`."""

    code: str
    expectation: str
    hint: str


FIELD_CHECKS: dict[str, FieldCheck] = {
    "section": FieldCheck("missing_section", "a heading {field}", "Add a section headed {field} to {path}."),
    "present": FieldCheck("missing_{}", "{field} in every record", "Write {field} in {path}."),
    "non_empty": FieldCheck("{}_field_empty", "a value", "Fill {field} in {path}."),
    "numeric": FieldCheck("{}_field_not_numeric", "finite numbers", "Write numbers for {field} in {path}."),
    "type": FieldCheck("{}_field_type_mismatch", "values of type {type}", "Write {field} in {path} as {type}."),
    "optional_type": FieldCheck(
        "{}_field_type_mismatch",
        "values of type {type}, or none",
        "Write {field} in {path} as {type}, or leave it out.",
    ),
    "list_item": FieldCheck(
        "{}_list_item_type_mismatch", "items of type {type}", "Write the items of {field} in {path} as {type}."
    ),
}
"""In the order in which a wrong kind is put down to them."""

MISSING = {"json": "json_field", "csv": "column", "parquet": "column", "xlsx": "column"}
"""What a field is called where it is missing."""
LISTING_FAMILY = "actual_outputs_json"
"""The family of actual_outputs.json where the items of its lists are wrong."""


def field_code(family: str | pl.Expr = "family") -> pl.Expr:
    """Code of a failed field check, over `check` and the family."""
    name = pl.col(family) if isinstance(family, str) else family
    missing = name.replace_strict(MISSING, default="field", return_dtype=pl.String)
    code = pl.col("check").replace_strict({c: f.code for c, f in FIELD_CHECKS.items()}, return_dtype=pl.String)
    word = pl.when(pl.col("check") == "present").then(missing).otherwise(name)
    before, after = code.str.split_exact("{}", 1).struct[0], code.str.split_exact("{}", 1).struct[1]
    return pl.when(code.str.contains("{}", literal=True)).then(pl.concat_str(before, word, after)).otherwise(code)


def field_text(part: str) -> pl.Expr:
    """The expectation or the hint of a failed field check."""
    table = {c: getattr(f, part) for c, f in FIELD_CHECKS.items()}
    text = pl.col("check").replace_strict(table, return_dtype=pl.String)
    for name in ("path", "type", "field"):
        shown = pl.col(name).fill_null("")
        text = text.str.replace("{" + name + "}", shown, literal=True)
    return text
