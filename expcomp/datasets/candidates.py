"""One slice of a family as candidates of a kind: logical rows, their keys, what held-out tasks they touch, what was left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from expcomp.datasets.compiled import lines_of, narrowed, with_tasks
from expcomp.datasets.contract import LEFT, LOGICAL, Made
from expcomp.datasets.decontaminate.report import ROW_HITS, row_hits
from expcomp.datasets.flat import texts_of
from expcomp.datasets.measures import MEASURES, measured
from expcomp.datasets.order import shuffle_key
from expcomp.datasets.split import unlisted
from expcomp.datasets.tools import with_tools
from expcomp.io.wording import worded
from expcomp.tables.family import CHAT

if TYPE_CHECKING:
    from expcomp.datasets.contract import Kind, Lookups
    from expcomp.datasets.decontaminate.index import Index
    from expcomp.datasets.options import DatasetOptions


@dataclass(frozen=True)
class Candidates:
    """Rows of a slice.

    Attributes:
        rows: Logical rows, with `split`.
        keys: One line a row, in the same order: what the selection looks at.
        left: What was left out, with reasons.
        hits: Held-out fields found in the rows.
    """

    rows: pl.DataFrame
    keys: pl.DataFrame
    left: pl.DataFrame
    hits: pl.DataFrame


@dataclass(frozen=True)
class Guard:
    """What rows are held against.

    Attributes:
        index: Of the held-out texts; None when there are none.
        hits: task_id, level, heldout: tasks that are held-out ones by content, name or text.
        banned: task_id, detail: the same, a line a task, in words.
    """

    index: Index | None
    hits: pl.DataFrame
    banned: pl.DataFrame


def candidates(
    kind: Kind, rows: pl.DataFrame, look: Lookups, places: pl.DataFrame, guard: Guard, options: DatasetOptions
) -> Candidates:
    """Candidates of a kind from a slice of its family; pure, and the same however the family is cut.

    Args:
        kind: What to make.
        rows: Accepted rows of the family.
        look: Key tables.
        places: task_id, group, split.
        guard: Held-out tasks and texts.
        options: Of the dataset.
    """
    near = narrowed(look, rows)
    made = kind.build(with_tools(with_tasks(rows, near)), near, options)
    # Readers of JSON lines keep ten decimals; what the Parquet says must be what they read.
    made = Made(made.rows.with_columns(pl.col(pl.Float64).round(10)), made.left)
    if not options.keep_unasked:
        made = _asked(made)
    texts = texts_of(made.rows, kind.chats)
    kept, left, hits = _guarded(kind, _sized(made, texts), texts, guard)
    kept, refused = measured(kind, kept, options)
    kept = _placed(kept, places, options)
    keys = _keys(kind, kept, options)
    return Candidates(kept.drop("_size", *MEASURES, strict=False), keys, pl.concat([left, refused]), hits)


def _asked(made: Made) -> Made:
    """Without conversations in which no user says anything: templates as strict as Qwen3.5's refuse them."""
    chat = next((c for c in ("messages", "prompt") if made.rows.schema.get(c) == CHAT), None)
    if chat is None:
        return made
    asked = pl.col(chat).list.eval(pl.element().struct.field("role") == "user").list.any()
    gone = made.rows.filter(~asked).select(
        "row_id",
        "task_id",
        reason=pl.lit("no_user_turn"),
        detail=pl.lit("nobody asks anything; strict chat templates refuse that"),
    )
    return Made(made.rows.filter(asked), pl.concat([made.left.cast(pl.Schema(LEFT)), gone.cast(pl.Schema(LEFT))]))


def _sized(made: Made, texts: pl.DataFrame) -> Made:
    """The rows with the bytes of their texts: what shards are cut by, whatever the slices were."""
    sizes = texts.group_by("row", maintain_order=True).agg(_size=pl.col("text").str.len_bytes().sum().cast(pl.Int64))
    rows = made.rows.with_columns(row=pl.int_range(pl.len(), dtype=pl.UInt32)).join(
        sizes, on="row", how="left", maintain_order="left"
    )
    tools = pl.col("tools").str.len_bytes().fill_null(0) if "tools" in rows.columns else pl.lit(0)
    return Made(rows.with_columns(pl.col("_size").fill_null(0) + tools), made.left)


def _guarded(
    kind: Kind, made: Made, texts: pl.DataFrame, guard: Guard
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Rows without those of held-out tasks and those that hold too much of one."""
    rows, left = made.rows, made.left.cast(pl.Schema(LEFT))
    hits = pl.DataFrame(schema=ROW_HITS)
    banned = rows.select("row_id", "task_id").join(guard.banned, on="task_id", how="inner", maintain_order="left")
    if banned.height:
        out = banned.select("row_id", "task_id", reason=pl.lit("held_out_task"), detail="detail").cast(pl.Schema(LEFT))
        rows = rows.join(guard.banned, on="task_id", how="anti", maintain_order="left")
        left = pl.concat([left, out])
        hits = row_hits(banned.select("row_id", "task_id", kind=pl.lit(kind.name)), guard.hits)
    found = None if guard.index is None or rows.is_empty() else guard.index.scan(texts)
    if found is None or found.is_empty():
        return rows.drop("row"), left, hits
    # Rows of banned tasks are gone already and need no second reason.
    named = found.join(rows.select("row", "row_id", "task_id"), on="row", how="inner", maintain_order="left")
    own = named.select(
        pl.lit({"kind": kind.name, "level": "ngram"}.get(n)).alias(n) if n in ("kind", "level") else pl.col(n)
        for n in ROW_HITS
    ).cast(pl.Schema(ROW_HITS))
    worst = (
        own.filter(pl.col("verdict") == "drop")
        .sort("coverage", "longest_run", "heldout", descending=[True, True, False])
        .unique("row_id", keep="first", maintain_order=True)
    )
    out = worst.select(
        "row_id",
        "task_id",
        reason=pl.lit("contaminated"),
        detail=worded(
            "held-out {} {}: coverage {}, longest run {} words",
            "heldout",
            "field",
            pl.col("coverage").round(3),
            "longest_run",
        ),
    ).cast(pl.Schema(LEFT))
    rows = rows.join(out, on="row_id", how="anti", maintain_order="left")
    return rows.drop("row"), pl.concat([left, out]), pl.concat([hits, own])


def _placed(rows: pl.DataFrame, places: pl.DataFrame, options: DatasetOptions) -> pl.DataFrame:
    """Rows with the group and split of their task."""
    group, split = unlisted(options)
    alone = rows.select("task_id").with_columns(group.alias("_group")).with_columns(group).with_columns(split)
    near = lines_of(places, "task_id", rows["task_id"])
    known = rows.select("task_id").join(near, on="task_id", how="left", maintain_order="left")
    return rows.with_columns(
        group=pl.coalesce(known["group"], alone["group"]),
        split=pl.coalesce(known["split"], alone["split"]),
    )


def _keys(kind: Kind, rows: pl.DataFrame, options: DatasetOptions) -> pl.DataFrame:
    """What the selection, the order and the index look at; no text."""
    schema = LOGICAL[kind.name]
    long = ("tools", "ground_truth", "prompt")
    narrow = [n for n, t in schema.items() if not t.is_nested() and n not in long]
    return rows.select(
        *narrow,
        "group",
        "split",
        "_size",
        *(n for n in MEASURES if n in rows.columns),
        _rich=_rich(schema),
        _has_tools=pl.col("tools").is_not_null() if "tools" in schema else pl.lit(value=False),
        _has_system=_has_system(schema),
        _truth=pl.col("ground_truth").is_not_null() if "ground_truth" in schema else pl.lit(value=True),
        _order=shuffle_key(options.seed),
    )


def _has_system(schema: dict[str, pl.DataType]) -> pl.Expr:
    first = next((n for n, t in schema.items() if t == CHAT), None)
    if first is None:
        return pl.lit(value=False)
    return (pl.col(first).list.first().struct.field("role") == "system").fill_null(value=False)


def _rich(schema: dict[str, pl.DataType]) -> pl.Expr:
    """How many of the optional keys a row shows: a reader that guesses types from the first lines has to meet all of them."""
    chats = [n for n, t in schema.items() if t == CHAT]
    parts = [pl.col("tools").is_not_null()] if "tools" in schema else []
    parts += [
        pl.col(chat).list.eval(pl.element().struct.field(key).is_not_null()).list.any()
        for key in ("tool_calls", "reasoning")
        for chat in chats
    ]
    return pl.sum_horizontal(p.fill_null(value=False).cast(pl.Int32) for p in (*parts, pl.lit(value=False)))
