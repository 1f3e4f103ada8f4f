"""Values that must follow from other files of the folder: aggregates of a column, differences of the means of two groups."""

from __future__ import annotations

import io
import math
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.errors import ConfigError
from expcomp.io.deliverables import UnreadableFileError, read_whole
from expcomp.packs.contracts.measured import Measured
from expcomp.packs.contracts.places import find
from expcomp.packs.contracts.records import look_up, parse

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

TOLERANCE = 1e-3
"""Absolute difference that is taken for rounding where a check states none."""

_NUMBER = pl.col("value").cast(pl.Float64, strict=False)
_FINITE = _NUMBER.filter(_NUMBER.is_finite())
AGGREGATES: Mapping[str, pl.Expr] = {
    "count": pl.col("value").len(),
    "count_non_empty": pl.col("value").filter(pl.col("value").fill_null("") != "").len(),
    "n_unique": pl.col("value").drop_nulls().n_unique(),
    "sum": _FINITE.sum(),
    "mean": _FINITE.mean(),
    "min": _FINITE.min(),
    "max": _FINITE.max(),
}
"""Operations on a column of a CSV, compared with a field of a JSON document; cells that are no finite number do not count."""
GROUP = "group_mean_difference"
"""Per key of a wide CSV: mean over the samples of two groups, and b - a, compared with the rows of the checked CSV."""
OPERATIONS = (*AGGREGATES, GROUP)
_COLUMNS = {
    "input": ("input_csv", "input_expression_matrix"),
    "metadata": ("metadata_csv", "input_metadata"),
    "sample": ("sample_column",),
    "group": ("group_column",),
    "a": ("group_a", "normal_group"),
    "b": ("group_b", "tumor_group"),
    "key": ("key_column", "gene_column"),
    "out_key": ("output_key_column", "key_column", "gene_column"),
    "out_a": ("output_group_a_mean_column", "normal_mean_column"),
    "out_b": ("output_group_b_mean_column", "tumor_mean_column"),
    "out_delta": ("output_delta_column", "target_column"),
}
_DEFAULTS = {
    "sample": "sample",
    "group": "group",
    "a": "normal",
    "b": "tumor",
    "key": "gene",
    "out_key": "gene",
    "out_a": "mean_normal",
    "out_b": "mean_tumor",
    "out_delta": "log2FC",
}


class Finding:
    """Rows of failures of derived values, in the columns of `FINDING`."""

    def __init__(self) -> None:
        self.rows: list[tuple[Any, ...]] = []

    def add(
        self, item: int, code: str, field: str | None, expectation: str, found: str, hint: str, count: int = 1
    ) -> None:
        """Add one failure."""
        self.rows.append((item, code, field, expectation, found, count, hint))

    def frame(self) -> pl.DataFrame:
        """All failures."""
        return pl.DataFrame(self.rows, schema=FINDING, orient="row")


FINDING = pl.Schema(
    {
        "item": pl.Int32(),
        "code": pl.String(),
        "field": pl.String(),
        "expectation": pl.String(),
        "found": pl.String(),
        "count": pl.Int64(),
        "repair_hint": pl.String(),
    }
)


def check_derived(
    root: Path, item: int, path: str, data: bytes, check: Mapping[str, Any], limit: int, out: Finding
) -> None:
    """Run one check on the bytes of an item and add what is wrong.

    Raises:
        ConfigError: A tolerance that is no number from 0 on, or an operation without its column.
    """
    operation = str(check.get("operation") or "").lower()
    label = str(check.get("check_id") or operation)
    given = check.get("tolerance")
    tolerance = TOLERANCE if given is None else given
    if isinstance(tolerance, bool) or not isinstance(tolerance, int | float) or not 0 <= tolerance < math.inf:
        msg = f"contract: tolerance of {label} is {given!r}, expected a number from 0 on"
        raise ConfigError(msg)
    names = {
        n: str(next((check[k] for k in keys if check.get(k)), _DEFAULTS.get(n, ""))) for n, keys in _COLUMNS.items()
    }
    sources = ("input", "metadata") if operation == GROUP else ("input",)
    frames: dict[str, pl.DataFrame] = {}
    for source in sources:
        found = _csv(root, names[source], limit)
        if isinstance(found, str):
            code = "forbidden_or_hidden_reference" if found == "refused" else "derived_check_inputs_missing"
            hint = f"Put {names[source] or 'the ' + source + ' of the check'} below the folder as CSV; {label} is computed from it."
            out.add(item, code, label, f"{names[source] or source} as CSV", found, hint)
        else:
            frames[source] = found
    if len(frames) < len(sources):
        return
    if operation == GROUP:
        _groups(item, path, data, frames, names, float(tolerance), out)
    else:
        _aggregate(item, path, data, frames["input"], check, operation, float(tolerance), out)


def _csv(root: Path, path: str, limit: int) -> pl.DataFrame | str:
    place = find(root, path) if path else None
    if place is None or place.path is None or place.state != "file":
        return "nothing" if place is None or place.state in ("absent", "other") else "refused"
    try:
        return _read(read_whole(root, place.path, limit=limit), "\t" if path.endswith((".tsv", ".tab")) else ",")
    except (UnreadableFileError, pl.exceptions.PolarsError) as error:
        return str(error).partition("\n\n")[0]


def _read(data: bytes, separator: str = ",") -> pl.DataFrame:
    return pl.read_csv(io.BytesIO(data.removeprefix(b"\xef\xbb\xbf")), infer_schema=False, separator=separator)


def _aggregate(
    item: int,
    path: str,
    data: bytes,
    source: pl.DataFrame,
    check: Mapping[str, Any],
    operation: str,
    tolerance: float,
    out: Finding,
) -> None:
    column, field = check.get("column"), check.get("field")
    if not isinstance(field, str) or (operation != "count" and not isinstance(column, str)):
        msg = f"contract: a derived value of {path} needs the field it checks and the column it is computed from"
        raise ConfigError(msg)
    if column is not None and column not in source.columns:
        out.add(
            item,
            "derived_check_inputs_missing",
            field,
            f"a column {column}",
            ", ".join(source.columns[:10]),
            f"Add {column} to the input.",
        )
        return
    values = source.select(value=pl.lit("") if column is None else pl.col(column))
    expected = source.height if column is None else values.select(AGGREGATES[operation]).item()
    document = parse(data)
    there, observed = (False, None) if isinstance(document, Measured) else look_up(document[0], field)
    number = observed if isinstance(observed, int | float) and not isinstance(observed, bool) else None
    if not there or number is None or expected is None or abs(number - expected) > tolerance:
        shown = "nothing" if not there else "no number" if number is None else f"{number:g}"
        wanted = "no value: the column has no number" if expected is None else f"{expected:g} within {tolerance:g}"
        out.add(
            item,
            "derived_value_mismatch",
            field,
            wanted,
            shown,
            f"Compute {field} in {path} again as {operation} of its input.",
        )


def _groups(
    item: int,
    path: str,
    data: bytes,
    frames: Mapping[str, pl.DataFrame],
    names: Mapping[str, str],
    tolerance: float,
    out: Finding,
) -> None:
    try:
        output = _read(data, "\t" if path.endswith((".tsv", ".tab")) else ",")
    except pl.exceptions.PolarsError:
        return  # its own failure names it
    for frame, columns, what in (
        (frames["metadata"], ("sample", "group"), "metadata"),
        (frames["input"], ("key",), "input"),
    ):
        lacking = [names[c] for c in columns if names[c] not in frame.columns]
        if lacking:
            out.add(
                item,
                "derived_check_inputs_missing",
                what,
                f"columns {', '.join(lacking)}",
                ", ".join(frame.columns[:10]),
                f"Add them to the {what}.",
            )
            return
    if names["out_key"] not in output.columns:
        out.add(
            item,
            "derived_value_mismatch",
            names["out_key"],
            "a column of keys",
            "nothing",
            f"Add {names['out_key']} to {path}.",
        )
        return
    group = pl.col(names["group"]).str.to_lowercase()
    side = {
        s: frames["metadata"].filter(group == names[s].lower())[names["sample"]].drop_nulls().to_list() for s in "ab"
    }
    means = {
        s: pl.mean_horizontal(*(_number(c) for c in samples if c in frames["input"].columns))
        for s, samples in side.items()
        if any(c in frames["input"].columns for c in samples)
    }
    if len(means) < 2:
        out.add(
            item,
            "derived_check_inputs_missing",
            "samples",
            f"samples of {names['a']} and {names['b']}",
            "none",
            "Add them to the input.",
        )
        return
    expected = (
        frames["input"]
        .select(pl.col(names["key"]).alias("_key"), _a=means["a"], _b=means["b"])
        .drop_nulls()
        .with_columns(_delta=pl.col("_b") - pl.col("_a"))
    )
    joined = output.with_columns(_key=pl.col(names["out_key"])).join(
        expected, on="_key", how="inner", maintain_order="left"
    )
    for column, value in ((names["out_a"], "_a"), (names["out_b"], "_b"), (names["out_delta"], "_delta")):
        if column not in output.columns and column in _DEFAULTS.values():
            continue  # nobody asked for it
        observed = _number(column) if column in output.columns else pl.lit(None, dtype=pl.Float64)
        off = joined.filter(((observed - pl.col(value)).abs() > tolerance) | observed.is_null())
        if off.height:
            key, wanted = off["_key"][0], off[value][0]
            shown = off.select(observed.alias("o"))["o"][0]
            text = "nothing" if shown is None else f"{shown:g}"
            hint = f"Compute {column} in {path} again from the groups of its input."
            out.add(
                item,
                "derived_value_mismatch",
                column,
                f"{wanted:g} within {tolerance:g} for {key}",
                text,
                hint,
                off.height,
            )


def _number(column: str) -> pl.Expr:
    value = pl.col(column).cast(pl.Float64, strict=False)
    return pl.when(value.is_finite()).then(value)
