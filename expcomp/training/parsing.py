"""A dataset document, or lines of rows, as a frame: strict JSON, each key once, every bad row named."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec
import polars as pl

from expcomp.io.canonical_rows import canonical_texts, parse_exactly
from expcomp.training.checks import FORMATS, ROW_KEYS, TASK_KEYS, Refused, findings
from expcomp.training.validate import ROWS

_KEYS = {"version", "format", "rows"}
_SMALL = 1 << 20
_BATCH = 32_768
_BAD: dict[str, pl.DataType] = {
    "row": pl.Int64(),
    "code": pl.String(),
    "path": pl.String(),
    "found": pl.String(),
    "expected": pl.String(),
}


class _Task(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", gc=False):
    benchmark: str
    task: str
    content_digest: str


class _Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    data: msgspec.Raw
    partition: str
    task: _Task


def split_document(content: bytes) -> tuple[str, list[msgspec.Raw]]:
    """Format and rows of a dataset document, the rows still as bytes.

    Raises:
        Refused: It is no UTF-8, no JSON, or of another shape.
    """
    try:
        if not content.isascii():
            content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Refused("dataset_not_utf8", f"byte {content[error.start]:#04x} at {error.start:,}") from error
    top = _top(content)
    if not isinstance(top, dict):
        raise Refused("dataset_bad_shape", type(top).__name__)
    if set(top) != _KEYS:
        wrong = sorted(_KEYS ^ set(top))
        raise Refused("dataset_bad_shape", f"{'unknown' if wrong[0] in top else 'no'} {wrong[0]}", path=wrong[0])
    version, kind = (json.loads(bytes(top[key])) for key in ("version", "format"))
    for key, value, fits in (
        ("version", version, type(version) is int and version == 1),
        ("format", kind, isinstance(kind, str) and kind in FORMATS),
    ):
        if not fits:
            raise Refused("dataset_bad_shape", json.dumps(value), path=key)
    try:
        rows = msgspec.json.decode(top["rows"], type=list[msgspec.Raw])
    except msgspec.ValidationError as error:
        raise Refused("dataset_bad_shape", str(error), path="rows") from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise Refused("dataset_not_json", str(error), path="rows") from error
    return str(kind), rows


def _top(content: bytes) -> Any:
    """The outermost object, its values as bytes."""
    try:
        if len(content) <= _SMALL:
            parse_exactly(content)
        top = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
        if len(content) > _SMALL and "rows" in top:
            # Parsing all of a large document a second time costs more than all else; without its rows nothing is left of it.
            rows = bytes(top["rows"])
            at = content.find(rows[:_SMALL])  # to search for all of it is slow
            while not content.startswith(rows, at):
                at = content.find(rows[:_SMALL], at + 1)
            parse_exactly(content[:at] + b"[]" + content[at + len(rows) :])
    except msgspec.ValidationError:
        try:
            return parse_exactly(content)
        except (ValueError, RecursionError) as error:
            raise Refused("dataset_not_json", str(error)) from error
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise Refused("dataset_not_json", str(error)) from error
    return top


def parse_rows(
    raw: Sequence[bytes | msgspec.Raw], document: str, *, first: int = 0
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rows (`ROWS`) and what is wrong with those that are none (`TRAINING_FINDINGS`).

    Args:
        raw: JSON text of each row.
        document: What findings call the dataset.
        first: Number of the first row.
    """
    frames, bad = [pl.DataFrame(schema=ROWS)], []
    for start in range(0, len(raw), _BATCH):
        batch = pl.Series([bytes(r) for r in raw[start : start + _BATCH]], dtype=pl.Binary).cast(pl.String)
        made = canonical_texts(batch).with_columns(row=pl.int_range(pl.len()) + first + start)
        fine = made.drop_nulls("text")
        bad.append(refused_texts(made))
        rows, wrong = _rows(fine)
        frames.append(rows)
        bad.append(wrong)
    return pl.concat(frames), _findings(pl.concat([pl.DataFrame(schema=_BAD), *bad]), document)


def refused_texts(made: pl.DataFrame, path: str | None = None) -> pl.DataFrame:
    """Texts without canonical form (`canonical_texts`, with `row`) as what is wrong with their rows."""
    return made.filter(pl.col("text").is_null()).select(
        "row",
        pl.concat_str(pl.lit("dataset_"), "code").alias("code"),
        pl.lit(path, pl.String).alias("path"),
        pl.col("problem").alias("found"),
        pl.lit(None, pl.String).alias("expected"),
    )


def refused_findings(bad: pl.DataFrame, document: str) -> pl.DataFrame:
    """`refused_texts` as findings."""
    return _findings(bad, document)


def _findings(bad: pl.DataFrame, document: str) -> pl.DataFrame:
    codes = bad["code"].unique(maintain_order=True)
    parts = [findings(code, document, bad.filter(pl.col("code") == code)) for code in codes]
    return pl.concat([findings("row_bad_shape", document, bad.clear()), *parts])


def _rows(texts: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Canonical rows (row, text) by their parts, and those that have not these parts."""
    try:
        parsed = msgspec.json.decode(f"[{texts['text'].str.join(',').fill_null('').item()}]", type=list[_Row])
        wrong = pl.DataFrame(schema=_BAD)
    except msgspec.MsgspecError:
        parsed, told = _one_by_one(texts["text"])
        wrong = pl.DataFrame(told, schema=_BAD | {"row": pl.Int64()}, orient="row")
        wrong = wrong.with_columns(row=texts["row"].gather(wrong["row"]))
        texts = texts.join(wrong.select("row"), on="row", how="anti", maintain_order="left")
    rows = {
        "row": texts["row"],
        "benchmark": [r.task.benchmark for r in parsed],
        "task": [r.task.task for r in parsed],
        "content_digest": [r.task.content_digest for r in parsed],
        "partition": [r.partition for r in parsed],
        "data": pl.Series([bytes(r.data) for r in parsed], dtype=pl.Binary).cast(pl.String),
    }
    return pl.DataFrame(rows, schema=ROWS), wrong


def _one_by_one(texts: pl.Series) -> tuple[list[_Row], list[tuple[int, str, str, str, str | None]]]:
    decoder = msgspec.json.Decoder(_Row)
    rows, wrong = [], []
    for at, text in enumerate(texts):
        try:
            rows.append(decoder.decode(text))
        except msgspec.MsgspecError:
            wrong.append((at, *_wrong(json.loads(text))))
    return rows, wrong


def _wrong(value: Any) -> tuple[str, str, str, str | None]:
    """code, path, found, expected of a row that has not the right parts."""
    if not isinstance(value, dict):
        return "row_bad_shape", "", type(value).__name__, None
    odd = sorted(set(ROW_KEYS) ^ set(value))
    if odd:
        return "row_bad_shape", odd[0], "an unknown key" if odd[0] in value else "nothing", None
    task = value["task"]
    if isinstance(value["partition"], str):
        if not isinstance(task, dict):
            return "row_bad_task", "task", type(task).__name__, None
        odd = sorted(set(TASK_KEYS) ^ set(task))
        if odd:
            return "row_bad_task", f"task.{odd[0]}", "an unknown key" if odd[0] in task else "nothing", None
        key = next(k for k in TASK_KEYS if not isinstance(task[k], str))
        return "row_bad_task", f"task.{key}", json.dumps(task[key]), None
    return "row_bad_partition", "partition", json.dumps(value["partition"]), None
