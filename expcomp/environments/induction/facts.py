"""What an episode has shown so far: fields of entities, and the last value of every label.

An entity class is the name of an argument that keys answers. An object that holds a field of that name, or that answers a call
keyed by that argument, tells the fields of that entity. Labels are scalar fields of answers, and `Label: number` in texts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from expcomp.environments.flatten import members, nodes
from expcomp.environments.flatten import objects as inner_objects

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["FACTS", "entity_classes", "objects", "observed", "own_fields", "requests", "writers"]

FACTS = pl.Schema(
    {
        "t": pl.UInt32,
        "episode_id": pl.String,
        "group": pl.String,
        "turn": pl.Int32,
        "cls": pl.String,
        "key": pl.String,
        "field": pl.String,
        "value": pl.String,
    }
)
_ROW = ("t", "episode_id", "group", "turn")
LEVELS = 4
_LABEL = r"([A-Za-z][A-Za-z_ ]{0,30}): *(-?\d+(?:\.\d+)?)"


def entity_classes(rows: pl.DataFrame, args: pl.DataFrame) -> list[str]:
    """Names of arguments that key an entity: in some action most successful answers repeat the value in the field of that name.

    Args:
        rows: Prepared transitions.
        args: Their arguments: `t`, `key`, `value`.
    """
    answers = members(rows["answer"])
    repeated = (
        args.filter(pl.col("value").str.contains(r'^("|-?\d)'))
        .join(rows.select("t", "action_type", "answer"), on="t", how="inner", maintain_order="left")
        .join(
            answers.rename({"doc": "answer", "value": "shown"}),
            on=["answer", "key"],
            how="inner",
            maintain_order="left",
        )
    )
    per = repeated.group_by("action_type", "key", maintain_order=True).agg(
        same=(pl.col("value") == pl.col("shown")).sum(), distinct=pl.col("value").n_unique(), n=pl.len()
    )
    lone = (
        args.join(rows.select("t", "action_type", "answer"), on="t", how="inner", maintain_order="left")
        .with_columns(n_args=pl.len().over("t"), opened=pl.col("answer").str.starts_with("{"))
        .group_by("action_type", "key", maintain_order=True)
        .agg(
            lone=(pl.col("n_args") == 1).all() & pl.col("value").str.starts_with('"').all(),
            opened=pl.col("opened").mean(),
            short=pl.col("value").str.len_chars().mean() < 40,
            distinct=pl.col("value").n_unique(),
        )
    )
    keyed = per.filter(pl.col("same") == pl.col("n"), pl.col("distinct") > 1, pl.col("key").str.ends_with("id"))
    alone = lone.filter("lone", "short", pl.col("opened") > 0.5, pl.col("distinct") > 2)
    return sorted({*keyed["key"], *alone["key"]})


def writers(rows: pl.DataFrame, asked: pl.DataFrame, facts: pl.DataFrame) -> list[str]:
    """Actions whose answers mostly show an entity otherwise than the episode has shown it before: they change it."""
    by = ["episode_id", "cls", "key", "field"]
    moved = (
        facts.filter(pl.col("cls") != "", pl.col("turn") > 0)
        .join(asked.select("t", "cls", "key"), on=["t", "cls", "key"], how="semi", maintain_order="left")
        .join(rows.select("t", "action_type"), on="t", how="inner", maintain_order="left")
        .with_columns(earlier=pl.col("value").shift().over(by), at=pl.col("t").shift().over(by))
        .filter(pl.col("earlier").is_not_null(), pl.col("at") != pl.col("t"))
        .group_by("t", "action_type", "cls", maintain_order=True)
        .agg(moved=(pl.col("value") != pl.col("earlier")).any())
        .group_by("action_type", maintain_order=True)
        .agg(share=pl.col("moved").mean())
    )
    return sorted(moved.filter(pl.col("share") > 0.5)["action_type"])


def requests(args: pl.DataFrame, classes: Sequence[str]) -> pl.DataFrame:
    """Entities that calls name: `t`, `via` (argument), `cls`, `key`."""
    named = args.lazy().filter(pl.col("key").is_in(classes), pl.col("value").str.contains(r'^("|-?\d)'))
    return named.select("t", via=pl.lit("arg.") + pl.col("key"), cls=pl.col("key"), key=pl.col("value")).collect(
        engine="in-memory"
    )


def own_fields(rows: pl.DataFrame, asked: pl.DataFrame) -> pl.DataFrame:
    """`cls`, `field`: fields that answers to calls that name an entity show."""
    real = rows.filter(~pl.col("counterfactual") & ~pl.col("failed"))
    told = real.lazy().join(asked.lazy(), on="t", how="inner", maintain_order="left")
    shown = _fields(real, "answer").lazy().select("t", "field")
    pairs = told.join(shown, on="t", how="inner", maintain_order="left").select("cls", "field")
    return pairs.unique(maintain_order=True).sort("cls", "field").collect(engine="in-memory")


def observed(rows: pl.DataFrame, asked: pl.DataFrame, classes: Sequence[str], own: pl.DataFrame) -> pl.DataFrame:
    """Facts of all answers and of the snapshots at first turns, with the schema FACTS, in order of time.

    Args:
        rows: Prepared transitions; counterfactual ones tell nothing.
        asked: `requests` of the rows.
        classes: Entity classes.
        own: `own_fields` of what is learned from: a few turns do not tell them.
    """
    real = rows.filter(~pl.col("counterfactual") & ~pl.col("failed"))
    top = _fields(real, "answer")
    by_argument = (
        real.lazy()
        .join(asked.lazy(), on="t", how="inner", maintain_order="left")
        .join(top.lazy(), on="t", how="inner", maintain_order="left", suffix="_f")
        .select(*_ROW, "cls", "key", "field", "value")
        .collect(engine="in-memory")
    )
    told = _snapshots(rows)
    inner = _objects(real, "answer", turn=0)
    inner = pl.concat([inner, _objects(told, "before", turn=-1)]) if told.height else inner
    ids = (
        inner.lazy()
        .filter(pl.col("field").is_in(classes), pl.col("value").str.contains(r'^("|-?\d)'))
        .select("t", "object", cls="field", key="value")
    )
    # An id inside an object may be that of another entity: only fields that the entity shows of itself are told by it.
    by_field = (
        ids.join(inner.lazy(), on=["t", "object"], how="inner", maintain_order="left")
        .select(*_ROW, "cls", "key", "field", "value")
        .join(own.lazy(), on=["cls", "field"], how="semi", maintain_order="left")
    )
    parts = [by_field, by_argument.lazy(), _labels(real, top)]
    if told.height:
        start = nodes(told["before"], depth=2, width=12).lazy().filter(~pl.col("kind").is_in(["dict", "list"]))
        given = told.lazy().join(start, left_on="before", right_on="doc", how="inner", maintain_order="left").select(
            *_ROW[:3], turn=pl.col("turn") - 1, cls=pl.lit(""), key=pl.lit(""),
            field=pl.col("path").str.split(".").list.last(), value="value",
        )  # fmt: skip
        parts.append(given)
    return (
        pl.concat([p.select(FACTS.names()) for p in parts])
        .sort("turn", maintain_order=True)
        .collect(engine="in-memory")
    )


def objects(rows: pl.DataFrame) -> pl.DataFrame:
    """Fields of the objects inside the answers of successful, real calls: row columns, `object`, `field`, `value`."""
    return _objects(rows.filter(~pl.col("counterfactual") & ~pl.col("failed")), "answer", turn=0)


def _snapshots(rows: pl.DataFrame) -> pl.DataFrame:
    if rows["before"].null_count() == rows.height:
        return rows.clear()
    first = rows.lazy().filter(~pl.col("counterfactual")).with_columns(n=pl.col("before").count().over("episode_id"))
    return first.filter(pl.col("before").is_not_null(), pl.col("n") == 1).drop("n").collect(engine="in-memory")


def _fields(rows: pl.DataFrame, column: str) -> pl.DataFrame:
    split = members(rows[column]).rename({"doc": column, "key": "field"})
    found = rows.lazy().select(*_ROW, column).join(split.lazy(), on=column, how="inner", maintain_order="left")
    return found.drop(column).collect(engine="in-memory")


def _objects(rows: pl.DataFrame, column: str, *, turn: int) -> pl.DataFrame:
    """Fields of every object inside documents, three levels deep: row columns, `object` (its text)."""
    split = inner_objects(rows[column], depth=LEVELS).lazy()
    found = (
        rows.lazy()
        .select(*_ROW, doc=column)
        .join(split, on="doc", how="inner", maintain_order="left")
        .sort("level", maintain_order=True)
    )
    return found.select(*_ROW[:3], pl.col("turn") + turn, "object", field="key", value="value").collect(
        engine="in-memory"
    )


def _labels(rows: pl.DataFrame, top: pl.DataFrame) -> pl.LazyFrame:
    scalars = (
        top.lazy()
        .filter(~pl.col("value").str.contains(r"^[\[{]"))
        .select(*_ROW, cls=pl.lit(""), key=pl.lit(""), field="field", value="value")
    )
    texts = (
        rows.lazy()
        .filter(~pl.col("is_json"))
        .select(*_ROW, found=pl.col("observation").str.extract_all(_LABEL))
        .explode("found")
        .drop_nulls("found")
        .select(
            *_ROW,
            cls=pl.lit(""),
            key=pl.lit(""),
            field=pl.col("found").str.extract(_LABEL, 1).str.to_lowercase().str.strip_chars(),
            value=pl.col("found").str.extract(_LABEL, 2).str.replace(r"\.0+$", ""),
        )
    )
    return pl.concat([scalars, texts])
