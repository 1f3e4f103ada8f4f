"""Held-out tasks from wherever they are kept, and the identity by which tasks are compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import polars as pl

from expcomp.compiler.canonical import json_lines
from expcomp.datasets.decontaminate.words import normalized
from expcomp.errors import SourceError, UsageError
from expcomp.io.digest import PREFIX, sha256_expr
from expcomp.io.heldout_files import read_tasks, task_file
from expcomp.tables.decontamination import HELD_OUT

Source: TypeAlias = "str | Path | pl.DataFrame | pl.LazyFrame | Sequence[str | Path | pl.DataFrame | pl.LazyFrame]"

WELL_KNOWN: dict[str, tuple[str, ...]] = {
    "benchmark": ("benchmark", "dataset", "data_source", "task_set"),
    # Of a compile's own table the full id: the native one may name a task in each domain of a benchmark.
    "task": ("task", "instance_id", "problem_id", "question_id", "task_id", "native_id", "id"),
    "content_digest": ("content_digest", "task_digest"),
    "prompt": ("problem_statement", "instruction", "prompt", "question", "problem", "task_description", "query", "input"),
    "answer": (
        "patch", "answer", "target", "solution", "canonical_solution", "reference_answer", "reference",
        "expected_answer", "ground_truth", "gold", "completion", "output",
    ),
    "tests": ("test_patch", "tests", "test", "hidden_tests", "test_list", "test_cases", "verifier"),
}  # fmt: skip
"""Columns under which sets keep each part; of several the first that holds something, row by row."""

DIGEST = r"^sha256:[0-9a-f]{64}$"
UNNAMED = ("", "unnamed", "unknown")  # what stands where a benchmark has no name
TEXTS = ("prompt", "answer", "tests")


def held_out(source: Source, *, columns: Mapping[str, str] | None = None) -> pl.DataFrame:
    """Held-out tasks (`tables.decontamination.HELD_OUT`), each once.

    Args:
        source: A frame; a Parquet, JSON lines, JSON or CSV file; a folder of ours (a dataset, a compile or a read); or
            several of them.
        columns: Where a part stands, by part (`prompt`, `answer`, `tests`, `task`, `benchmark`, `content_digest`), in
            place of the well-known names.

    Raises:
        SourceError: A source cannot be read, or has nothing that could be compared.
        UsageError: `columns` names a part that there is not.
    """
    wrong = sorted(set(columns or {}) - set(WELL_KNOWN))
    if wrong:
        msg = f"no part {', '.join(wrong)} of a held-out task; expected {', '.join(WELL_KNOWN)}"
        raise UsageError(msg)
    several = source if isinstance(source, Sequence) and not isinstance(source, str) else [source]
    if not several:
        msg = "no held-out source given"
        raise UsageError(msg)
    return pl.concat([_one(s, columns or {}) for s in several]).unique(maintain_order=True)


def _one(source: str | Path | pl.DataFrame | pl.LazyFrame, columns: Mapping[str, str]) -> pl.DataFrame:
    if isinstance(source, pl.LazyFrame):
        source = source.collect()
    if isinstance(source, pl.DataFrame):
        name, frame = "the held-out frame", source
    else:
        path = task_file(Path(source))
        name, frame = str(path), read_tasks(path)
    missing = [c for c in columns.values() if c not in frame.columns]
    if missing:
        msg = f"{name} has no column {', '.join(missing)}; it has {', '.join(frame.columns)}"
        raise SourceError(msg)
    parts = {}
    for part, names in WELL_KNOWN.items():
        found = [columns[part]] if part in columns else [n for n in names if n in frame.columns]
        taken = [_filled(_text(pl.col(n), frame.schema[n])) for n in found]
        parts[part] = pl.coalesce(taken) if taken else pl.lit(None, pl.String)
    held = frame.select(**parts)
    held = held.with_columns(
        pl.when(~pl.col("benchmark").is_in(UNNAMED)).then("benchmark"),
        pl.when(pl.col("content_digest").str.contains(DIGEST)).then("content_digest"),
    )
    if (
        frame.height
        and held.select(pl.all_horizontal(pl.col(p).is_null() for p in ("content_digest", "task", *TEXTS)).all()).item()
    ):
        expected = "; ".join(f"{p}: {', '.join(WELL_KNOWN[p])}" for p in ("task", *TEXTS))
        msg = f"{name} has no column that says what is held out; it has {', '.join(frame.columns)}; expected one of {expected}"
        raise SourceError(f"{msg}; or say which one, as in --column prompt=NAME")
    content = _content(held.select(instruction="prompt", target="answer"))
    held = held.with_columns(content_digest=pl.coalesce("content_digest", content))
    return held.select(HELD_OUT.columns.keys()).cast(HELD_OUT.schema)


def _filled(text: pl.Expr) -> pl.Expr:
    """The text without outer space; null where nothing is left."""
    return pl.when(text.str.contains(r"\S")).then(text.str.strip_chars())


def _text(value: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """Any column as text: lists of texts by lines, chats as what is said in them, the rest as JSON."""
    if isinstance(dtype, pl.List | pl.Array):
        value, inner = value.cast(pl.List(dtype.inner)), dtype.inner
        if inner == pl.String:
            return value.list.join("\n", ignore_nulls=True)
        said = inner.to_schema().get("content") if isinstance(inner, pl.Struct) else None
        if said == pl.String:
            return value.list.eval(pl.element().struct.field("content")).list.join("\n\n", ignore_nulls=True)
    if dtype.is_nested():
        encoded = pl.struct(value.alias("v")).struct.json_encode()
        return pl.when(value.is_not_null()).then(encoded.str.head(-1).str.slice(len('{"v":')))
    return value.cast(pl.String)


def _content(parts: pl.DataFrame) -> pl.Series:
    """Digest of the canonical JSON of `instruction` and `target`; null where there is neither."""
    lines = json_lines(parts, parts.columns)
    known = parts.select(pl.any_horizontal(pl.all().is_not_null()).alias("known"), lines.alias("json"))
    digest = pl.concat_str(pl.lit(PREFIX), sha256_expr("json"))
    return known.select(pl.when("known").then(digest)).to_series()


_IDENTITY = ("task_id", "benchmark", "task", "native_id", "content_digest", "text_digest")


def task_identity(tasks: pl.DataFrame) -> pl.DataFrame:
    """What tasks of a compile are compared by.

    Args:
        tasks: Table `tasks`; columns that are missing count as unknown. Or a frame with what this returned.

    Returns:
        task_id, benchmark, task (its name inside the benchmark: domain and native id), native_id, content_digest (the declared
        one, else that of instruction and target), text_digest (hex, of the normalised instruction). Null is unknown and equals
        nothing.
    """
    if set(_IDENTITY) <= set(tasks.columns):
        return tasks.select(_IDENTITY)  # made before: it takes seconds for many tasks
    names = ("dataset", "native_id", "instruction", "target", "task_digest")
    given = tasks.select(
        "task_id",
        *(
            _filled(pl.col(n).cast(pl.String)).alias(n) if n in tasks.columns else pl.lit(None, pl.String).alias(n)
            for n in names
        ),
    )
    computed = _content(given.select("instruction", "target"))
    declared = pl.when(pl.col("task_digest").str.contains(DIGEST)).then("task_digest")
    norm = normalized(pl.col("instruction"))
    inside = pl.concat_str("dataset", pl.lit("/"))
    return (
        given.with_columns(norm=pl.when(norm != "").then(norm))
        .with_columns(text_digest=sha256_expr("norm"))
        .select(
            "task_id",
            pl.when(~pl.col("dataset").is_in(UNNAMED)).then("dataset").alias("benchmark"),
            pl.when(pl.col("task_id").str.starts_with(inside))
            .then(pl.col("task_id").str.strip_prefix(inside))
            .otherwise("native_id")
            .alias("task"),
            "native_id",
            pl.coalesce(declared, computed).alias("content_digest"),
            "text_digest",
        )
    )
