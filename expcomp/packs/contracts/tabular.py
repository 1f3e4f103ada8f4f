"""Measure CSV, TSV, Parquet and sheets of workbooks: kinds of values by column, over all rows."""

from __future__ import annotations

import io
import re
import zipfile
from typing import TYPE_CHECKING

import polars as pl

from expcomp.packs.contracts.kinds import FACTS, kind_of_cell, kind_of_typed
from expcomp.packs.contracts.measured import MAX_FIELDS, MAX_VALUES, Measured, failed

if TYPE_CHECKING:
    from collections.abc import Mapping

SEPARATORS = (",", ";", "\t", "|")
"""Tried on a header, in this order, where nobody says which one is used."""
_BOM = b"\xef\xbb\xbf"
_DUPLICATED = re.compile(r"(.*)_duplicated_[0-9]+\Z", re.DOTALL)


def separator_of(data: bytes, default: str) -> str:
    """The separator that occurs most often in the header line; the default on a tie or when none occurs."""
    header = data.removeprefix(_BOM).partition(b"\n")[0].decode(errors="replace")
    order = (default, *(s for s in SEPARATORS if s != default))
    return max(order, key=header.count)


def measure_csv(data: bytes, separator: str) -> Measured:
    """Measure delimited text with a header line; cells are texts, and their kind is what they say."""
    if (bad := _not_utf8(data)) is not None:
        return bad
    body = data.removeprefix(_BOM)
    try:
        lazy = pl.scan_csv(io.BytesIO(body), separator=separator, infer_schema=False, has_header=True)
        names = lazy.collect_schema().names()
        twice = sorted({m[1] for n in names if (m := _DUPLICATED.match(n)) and m[1] in names})
        if twice:
            return failed("invalid_csv", f"the header names {', '.join(map(repr, twice[:5]))} more than once")
        return _table(lazy, {n: kind_of_cell(n) for n in names})
    except pl.exceptions.PolarsError as error:
        return failed("invalid_csv", _first_sentence(error))


def measure_parquet(data: bytes) -> Measured:
    """Measure a Parquet file by its column types."""
    try:
        lazy = pl.scan_parquet(io.BytesIO(data))
        schema = lazy.collect_schema()
        return _table(lazy, {n: kind_of_typed(n, t) for n, t in schema.items()}, _lists(schema))
    except (pl.exceptions.PolarsError, OSError) as error:
        return failed("invalid_parquet", _first_sentence(error))


def measure_xlsx(data: bytes, *, limit: int, sheet: str | None = None) -> list[Measured]:
    """Measure the sheets of a workbook, or one of them; cells are taken as texts, as in a CSV."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        return [failed("invalid_xlsx", str(error), sheet)]
    if size > 8 * limit:
        return [failed("file_too_large", f"unpacks to {size:,} bytes, more than {8 * limit:,}", sheet)]
    try:
        import fastexcel
    except ImportError:
        return [failed("not_checked", "workbooks need the extra: pip install 'expcomp[xlsx]'", sheet)]
    try:
        book = fastexcel.read_excel(data)
        names = book.sheet_names
        if sheet is not None and sheet not in names:
            return [failed("missing_sheet", f"the workbook holds {', '.join(map(repr, names[:10]))}", sheet)]
        return [_sheet(book, name) for name in names if sheet in (None, name)]
    except (fastexcel.FastExcelError, pl.exceptions.PolarsError, ValueError) as error:
        return [failed("invalid_xlsx", str(error), sheet)]


def _sheet(book: object, name: str) -> Measured:
    from fastexcel import ExcelReader

    assert isinstance(book, ExcelReader)
    loaded = book.load_sheet(name, dtypes="string")
    if loaded.width == 0:
        return Measured(rows=0, shape="table", sheet=name)
    frame = (
        pl.DataFrame(loaded.to_arrow())
        if loaded.height
        else pl.DataFrame(schema=[c.name for c in loaded.available_columns()])
    )
    frame = frame.cast(pl.String)
    found = _table(frame.lazy(), {n: kind_of_cell(n) for n in frame.columns})
    return Measured(found.rows, found.shape, found.facts, found.problem, found.detail, name)


def _lists(schema: Mapping[str, pl.DataType]) -> dict[str, pl.DataType]:
    return {n: t.inner for n, t in schema.items() if isinstance(t, pl.List) and isinstance(t.inner, pl.DataType)}


def _table(
    lazy: pl.LazyFrame, kinds: Mapping[str, pl.Expr], lists: Mapping[str, pl.DataType] | None = None
) -> Measured:
    rows = int(lazy.select(pl.len()).collect().item())
    if len(kinds) > MAX_FIELDS or rows * len(kinds) > MAX_VALUES:
        return failed(
            "file_too_large",
            f"holds {rows:,} rows of {len(kinds):,} columns; {MAX_VALUES:,} values are checked at the most",
        )
    positions = pl.DataFrame(
        {"field": list(kinds), "position": range(len(kinds))}, schema_overrides={"position": pl.Int32()}
    )
    # The kinds of a column take a byte a value, so that what is turned on its side is small.
    flat = lazy.select(kind.alias(f"{i}") for i, kind in enumerate(kinds.values())).with_row_index("row")
    values = (
        flat.unpivot(index="row", variable_name="column", value_name="kind")
        .group_by("column", "kind", maintain_order=True)
        .agg(pl.len().alias("count"), pl.col("row").min())
        .with_columns(level=pl.lit("value", dtype=FACTS["level"]), item=pl.lit(None, dtype=pl.Int64))
    )
    numbers = {n: i for i, n in enumerate(kinds)}
    parts = [values, *(_items(lazy, name, numbers[name], inner) for name, inner in (lists or {}).items())]
    facts = pl.concat(
        [p.select("column", "level", "kind", "count", "row", "item").cast(_CASTS) for p in parts]
    ).collect()
    # A table without rows has its columns all the same: a fact that counts nothing.
    named = (
        positions.with_columns(column=pl.col("position"))
        .join(facts.with_columns(pl.col("column").cast(pl.Int32)), on="column", how="left", maintain_order="left")
        .with_columns(
            pl.col("level").fill_null(pl.lit("value", dtype=FACTS["level"])),
            pl.col("kind").fill_null(pl.lit("null", dtype=FACTS["kind"])),
            pl.col("count").fill_null(0),
        )
    )
    return Measured(rows, "table", named.select(FACTS.names()).cast(FACTS))


_CASTS = pl.Schema({"count": pl.Int64(), "row": pl.Int64(), "item": pl.Int64()})


def _items(lazy: pl.LazyFrame, name: str, column: int, inner: pl.DataType) -> pl.LazyFrame:
    """Kinds of the items of a column of lists."""
    filled = lazy.select(pl.col(name).alias("list")).with_row_index("row").filter(pl.col("list").list.len() > 0)
    return (
        filled.with_columns(item=pl.int_ranges(pl.col("list").list.len()))
        .explode("list", "item")
        .select("row", "item", kind=kind_of_typed("list", inner))
        .group_by("kind", maintain_order=True)
        .agg(pl.len().alias("count"), pl.col("row").first(), pl.col("item").first())
        .with_columns(column=pl.lit(f"{column}"), level=pl.lit("item", dtype=FACTS["level"]))
    )


def _not_utf8(data: bytes) -> Measured | None:
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return failed("invalid_encoding", f"byte {error.start} is 0x{data[error.start]:02x}, which is not UTF-8")
    return None


def _first_sentence(error: Exception) -> str:
    return str(error).partition("\n\n")[0]
