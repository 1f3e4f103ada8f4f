"""Fit and predict over all actions: one model an action, remembered answers, what other families have shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from expcomp.environments.induction.action import ActionModel, fit_action
from expcomp.environments.induction.answers import shape_of
from expcomp.environments.induction.effects import next_states
from expcomp.environments.induction.items import fit_mapping, mapped
from expcomp.environments.induction.nearest import counted, most_frequent, nearest
from expcomp.environments.induction.prepared import Prepared, wide
from expcomp.environments.induction.slices import Slice, extended, slices
from expcomp.environments.induction.terms import Call, Const, Term
from expcomp.environments.induction.views import element_operands, first_two, record_views, view_operands, views
from expcomp.io.wording import worded

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

__all__ = ["World", "fit", "predict", "states", "widened"]


@dataclass(slots=True)
class World:
    """What was learned.

    Attributes:
        actions: A model an action.
        memory: The most frequent answer of each call.
        modal: The most frequent answer of each action and outcome.
        near: The most frequent answer by value of an argument.
        views: First views of entities.
        records: First records of elements.
    """

    actions: dict[str, ActionModel]
    memory: pl.DataFrame
    modal: pl.DataFrame
    near: pl.DataFrame
    views: pl.DataFrame
    records: pl.DataFrame


def fit(
    p: Prepared, learn: pl.DataFrame, ready: Mapping[str, Slice] | None = None, *, only: Container[str] | None = None
) -> World:
    """Learn from some rows of prepared transitions.

    Args:
        p: Prepared transitions.
        learn: Rows to learn from.
        ready: `slices` of these or more rows, which are costly to make.
        only: Actions that will be asked for: the others are not learned. None: all.
    """
    ready = ready if ready is not None else slices(p, learn)
    keep = learn["t"].to_numpy()
    actions = {}
    ops = p.ops.partition_by("action_type", as_dict=True, maintain_order=True)
    for action, part in ready.items():
        if only is not None and action not in only:
            continue
        rows = np.flatnonzero(np.isin(part.t, keep))
        if not len(rows):
            continue
        m, mappings = part.m, []
        if part.items.height:
            mappings = fit_mapping(part.items, part.long, part.rows[rows])
            m = extended(part, mapped(mappings, part.items, part.long))
        model = fit_action(action, m, part.answers, rows, part.t, ops.get((action,)))
        model.mappings = mappings
        actions[action] = model
    groups = learn["group"].unique(maintain_order=True)
    near = most_frequent(counted(p, learn))
    return World(actions, *_best(_answers(learn)), near, views(p, groups), record_views(p, groups))


def _answers(rows: pl.DataFrame) -> pl.DataFrame:
    """How often each call was answered how."""
    return rows.group_by("action_type", "args", "answer", maintain_order=True).agg(
        n=pl.len().cast(pl.Int64), failed=pl.col("failed").first()
    )


def _best(counts: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The most frequent answer of each call, and of each action and outcome; of equals the first in the order of its text."""
    by_call = counts.sort(["n", "answer"], descending=[True, False], maintain_order=True)
    memory = by_call.unique(["action_type", "args"], keep="first", maintain_order=True)
    modal = (
        counts.group_by("action_type", "failed", "answer", maintain_order=True)
        .agg(pl.col("n").sum())
        .sort(["n", "answer"], descending=[True, False], maintain_order=True)
        .unique(["action_type", "failed"], keep="first", maintain_order=True)
    )
    return memory, modal


def widened(world: World, parts: Iterable[Prepared]) -> World:
    """The same rules with the memory and the first views of more transitions.

    Args:
        world: Learned from some families.
        parts: All families, some at a time, the ones learned from included.
    """
    counts, near, entities, elements = [], [], [], []
    for p in parts:
        groups = p.rows["group"].unique(maintain_order=True)
        counts.append(_answers(p.rows))
        near.append(most_frequent(counted(p, p.rows)))
        entities.append(views(p, groups))
        elements.append(record_views(p, groups))
    total = pl.concat(counts).group_by("action_type", "args", "answer", maintain_order=True).agg(
        pl.col("n").sum(), pl.col("failed").first()
    )  # fmt: skip
    return World(
        world.actions,
        *_best(total),
        most_frequent(pl.concat(near)),
        first_two(pl.concat(entities), ("cls", "key", "field")),
        first_two(pl.concat(elements), ("fields", "ident", "field")),
    )


def predict(world: World, p: Prepared, rows: pl.DataFrame) -> pl.DataFrame:
    """Candidates for every row: `t`, `route`, `key` (what confidence is counted by), `answer`, `failed`, `case` (condition that chose
    the class of a rule's answer)."""
    typed = rows.lazy().select("t", "action_type")
    long = pl.concat([p.operands.lazy(), view_operands(p, rows, world.views).lazy()]).join(
        typed, on="t", how="inner", maintain_order="left"
    ).collect(engine="in-memory")  # fmt: skip
    parts = dict(long.partition_by("action_type", as_dict=True, maintain_order=True).items())
    found = []
    mapping = any(m.mappings for m in world.actions.values())
    element = element_operands(p, rows, world.records) if mapping else None
    for (action,), own in rows.partition_by("action_type", as_dict=True, maintain_order=True).items():
        model = world.actions.get(str(action))
        if model is not None:
            part = parts.get((action,), long.clear()).drop("action_type")
            if model.mappings and element is not None:
                inside = element.join(own.select("t"), on="t", how="semi", maintain_order="left")
                part = pl.concat([part, mapped(model.mappings, inside, part)])
            found.append(_ruled(model, own, part))
    ruled = pl.concat(found) if found else None
    memo = (
        rows.lazy()
        .join(world.memory.lazy(), on=["action_type", "args"], how="inner", maintain_order="left")
        .select(
            "t",
            route=pl.lit("memo"),
            key=worded("{}|memo", "action_type"),
            answer="answer_right",
            failed="failed_right",
        )
    )
    again = (
        p.operands.lazy()
        .filter(pl.col("name") == "memory.answer")
        .join(typed, on="t", how="inner", maintain_order="left")
        .select(
            "t",
            route=pl.lit("memo"),
            key=worded("{}|again", "action_type"),
            answer="value",
            failed=pl.lit(None, dtype=pl.Boolean),
        )
    )
    outcome = (ruled if ruled is not None else rows.select("t", failed=pl.lit(value=False))).lazy()
    asked = typed.join(
        outcome.select("t", wanted="failed"), on="t", how="left", maintain_order="left"
    ).with_columns(wanted=pl.col("wanted").fill_null(value=False))  # fmt: skip
    modal = asked.join(
        world.modal.lazy(), left_on=["action_type", "wanted"], right_on=["action_type", "failed"],
        how="inner", maintain_order="left",
    ).select("t", route=pl.lit("retrieval"), key=worded("{}|modal", "action_type"), answer="answer", failed="wanted")  # fmt: skip
    near = nearest(world.near, p, asked).join(typed, on="t", how="inner", maintain_order="left").select(
        "t", route=pl.lit("retrieval"), key=worded("{}|near", "action_type"), answer="answer", failed="failed"
    )  # fmt: skip
    loose = (
        pl.concat([memo, again, modal, near])
        .with_columns(case=pl.lit(None, dtype=pl.String))
        .collect(engine="in-memory")
    )
    return pl.concat([*([ruled] if ruled is not None else []), loose])


def _ruled(model: ActionModel, rows: pl.DataFrame, long: pl.DataFrame) -> pl.DataFrame:
    frame = _frame(model, rows, long)
    case = pl.coalesce([pl.when(c.expr()).then(pl.lit(str(c))) for c, *_ in model.classes.cases])
    frame = frame.with_columns(model.classes.expr().alias("\x01shape"), case.alias("\x01case"))
    pieces = []
    for (shape,), part in frame.partition_by("\x01shape", as_dict=True, maintain_order=True).items():
        term = model.documents.get(shape) if shape is not None else None
        answer = term.expr() if term is not None else pl.lit(None, dtype=pl.String)
        failed = shape_of(shape).failed if shape is not None else None
        route, names = _route(term)
        via = [n for n in names if n.startswith(("seen[", "kb["))]
        shown = pl.any_horizontal(
            [pl.col(n).is_not_null() for n in via if n.startswith("seen[")] or [pl.lit(value=False)]
        )
        label = pl.when(shown).then(pl.lit("entity_episode")).otherwise(pl.lit("entity_kb")) if via else pl.lit(route)
        if route == "effect" and via:
            label = pl.lit("effect")
        pieces.append(
            part.select(
                "t",
                route=label,
                key=pl.concat_str(pl.lit(f"{model.action}|{shape}|"), label, shown.cast(pl.String)),
                answer=answer,
                failed=pl.lit(failed, dtype=pl.Boolean),
                case="\x01case",
            )
        )
    return pl.concat(pieces)


def states(world: World, p: Prepared, rows: pl.DataFrame) -> pl.DataFrame:
    """Next states of rows whose state is given: `t`, `after` (canonical JSON; null: not known).

    Args:
        world: What was learned.
        p: Prepared transitions.
        rows: Some of them, with `outcome`: the predicted failure flag.
    """
    given = rows.filter(pl.col("before").is_not_null())
    parts = p.operands.join(given.select("t", "action_type"), on="t", how="inner", maintain_order="left").partition_by(
        "action_type", as_dict=True, maintain_order=True
    )
    found = [pl.DataFrame(schema={"t": pl.UInt32, "after": pl.String})]
    for (action,), own in given.partition_by("action_type", as_dict=True, maintain_order=True).items():
        model = world.actions.get(str(action))
        if model is None or not model.effects:
            found.append(own.select("t", after="before"))
            continue
        frame = _frame(model, own, parts.get((action,), p.operands.clear()).select("t", "name", "value"))
        asked = own.select("t", "before", failed="outcome")
        found.append(next_states(model.effects, frame, asked, p.places))
    return pl.concat(found)


def _frame(model: ActionModel, rows: pl.DataFrame, long: pl.DataFrame) -> pl.DataFrame:
    reads = model.reads()
    return wide(long.filter(pl.col("name").is_in(reads)), rows, reads)


def _route(term: Term | None) -> tuple[str, tuple[str, ...]]:
    if term is None:
        return "abstain", ()
    names = term.reads()
    if isinstance(term, Const) or not names:
        return "const", ()
    if isinstance(term, Call):
        return "function", names
    entity = [n for n in names if n.startswith(("seen[", "kb["))]
    return ("entity", names) if len(entity) > 0.5 * len(set(names)) else ("effect", names)
