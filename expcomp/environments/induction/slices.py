"""The rows of one action, encoded for the searches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from expcomp.environments.induction.answers import Answers, describe
from expcomp.environments.induction.matrix import Matrix, kind_cost, matrix
from expcomp.environments.induction.prepared import Prepared, wide
from expcomp.environments.induction.views import element_operands, record_views, view_operands, views

__all__ = ["Slice", "extended", "slices"]

MAX_OPERANDS = 220
MIN_SHARE = 0.03


@dataclass(slots=True)
class Slice:
    """One action's rows.

    Attributes:
        rows: Prepared transitions.
        t: Their row ids.
        m: Encoded operands.
        answers: Classes and fields of the answers.
        long: Operands in long form.
        names: Operands in `m`.
        items: Element operands in long form.
    """

    rows: pl.DataFrame
    t: np.ndarray
    m: Matrix
    answers: Answers
    long: pl.DataFrame
    names: list[str]
    items: pl.DataFrame


def slices(p: Prepared, learn: pl.DataFrame) -> dict[str, Slice]:
    """Encoded rows of every action.

    Args:
        p: Prepared transitions.
        learn: Rows that may be learned from; their families give the first views.
    """
    known = views(p, learn["group"].unique(maintain_order=True))
    long = pl.concat([p.operands, view_operands(p, learn, known)]).join(
        learn.select("t", "action_type"), on="t", how="inner", maintain_order="left"
    )
    parts = dict(long.partition_by("action_type", as_dict=True, maintain_order=True).items())
    element = element_operands(p, learn, record_views(p, learn["group"].unique(maintain_order=True)))
    out = {}
    for (action,), rows in learn.partition_by("action_type", as_dict=True, maintain_order=True).items():
        own = parts.get((action,), long.clear()).drop("action_type")
        names = [n for n in _chosen(own, rows.height) if n != "memory.answer"]
        frame = wide(own.filter(pl.col("name").is_in(names)), rows)
        names = [n for n in names if n in frame.columns]
        m = matrix(frame, names, rows["group"])
        described = describe(rows["answer"], rows["failed"], rows["is_json"], m)
        out[str(action)] = Slice(
            rows,
            rows["t"].to_numpy(),
            m,
            described,
            own,
            names,
            element.join(rows.select("t"), on="t", how="semi", maintain_order="left") if element.height else element,
        )
    return out


def _chosen(long: pl.DataFrame, n: int) -> list[str]:
    counts = long.group_by("name", maintain_order=True).len().filter(pl.col("len") >= max(2, MIN_SHARE * n))
    names = counts.sort(["len", "name"], descending=[True, False])["name"].to_list()
    return sorted(names[: MAX_OPERANDS * 2], key=kind_cost)[:MAX_OPERANDS]


def extended(part: Slice, more: pl.DataFrame) -> Matrix:
    """The matrix of a slice with more operands."""
    if more.is_empty():
        return part.m
    return part.m.joined(wide(more, part.rows).select(sorted(more["name"].unique(maintain_order=True))))
