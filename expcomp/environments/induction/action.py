"""What is learned of one action: which class of answer a call gets, and how each class is computed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from expcomp.environments.flatten import dump
from expcomp.environments.induction.answers import WHOLE, Answers, Shape, shape_of
from expcomp.environments.induction.compose import Cases, Object, Slot, Text
from expcomp.environments.induction.contrast import Case, decide
from expcomp.environments.induction.effects import Effect, fit_effects
from expcomp.environments.induction.explain import explain
from expcomp.environments.induction.items import Mapping
from expcomp.environments.induction.predicates import comparisons, predicates
from expcomp.environments.induction.skeleton import SLOT, styled
from expcomp.environments.induction.terms import Const, Linear, Term

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from expcomp.environments.induction.matrix import Matrix
    from expcomp.environments.induction.predicates import Tests
    from expcomp.environments.induction.skeleton import SLOT, styled

__all__ = ["ActionModel", "fit_action"]

MAX_COMPUTED = 8
CITED = 5
SAME = 1e-9


@dataclass(slots=True)
class ActionModel:
    """What is known of one action.

    Attributes:
        action: Its name.
        classes: Chooses a shape.
        documents: Computes the answer of a shape, where it could be explained.
        support: Rows of each shape.
        cited: Rows that each case of `classes` decided rightly, at most CITED.
        sharp: Whether a row showed the boundary of the case's comparison itself, so that `<` is told from `<=`.
        effects: Changes of given states.
        mappings: How elements of array arguments come back.
    """

    action: str
    classes: Cases
    documents: dict[str, Term]
    support: dict[str, int]
    cited: list[list[int]] = field(default_factory=list)
    sharp: list[bool] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    mappings: list[Mapping] = field(default_factory=list)

    def reads(self) -> list[str]:
        """Operands that any part reads."""
        parts: tuple[Term | Effect, ...] = (self.classes, *self.documents.values(), *self.effects)
        return sorted({n for part in parts for n in part.reads()})


def fit_action(
    action: str, m: Matrix, answers: Answers, rows: np.ndarray, t: np.ndarray, ops: pl.DataFrame | None
) -> ActionModel:
    """Learn one action from some of its rows.

    Args:
        action: Its name.
        m: Operands of all its rows.
        answers: Classes and fields of all its rows.
        rows: Positions to learn from.
        t: Row ids of all its rows.
        ops: Changes of state of the action; None where there are none.
    """
    sub = m.take(rows)
    tests = predicates(sub)
    shapes = np.array([answers.shape[i] for i in rows])
    names, codes = np.unique(shapes, return_inverse=True)
    hits = codes[:, None] == np.arange(len(names))[None, :]
    documents, support = {}, {}
    for place, name in enumerate(names):
        inside = np.flatnonzero(codes == place)
        support[str(name)] = len(inside)
        own = tests.at(inside)
        term = _document(shape_of(str(name)), sub.take(inside), answers, rows[inside], own)
        if term is not None:
            documents[str(name)] = term
    computed = sorted({t for d in documents.values() for t in _computed(d)}, key=repr)[:MAX_COMPUTED]
    wider = comparisons(sub, computed, tests) if computed and len(names) > 1 else tests
    cases = decide(wider.truth, wider.cost, hits, np.ones_like(hits), [0.0] * len(names), sub.groups)
    classes = Cases(tuple((wider.predicates[c.predicate], Const(str(names[c.term])), c.n, c.hits) for c in cases))
    cited, sharp = _evidence(sub, cases, wider, hits, t[rows])
    if ops is None:
        return ActionModel(action, classes, documents, support, cited, sharp)
    failed = np.array([shape_of(str(n)).failed for n in names])[codes]
    effects = fit_effects(sub, pl.DataFrame({"t": t[rows], "failed": failed}), ops, tests)
    return ActionModel(action, classes, documents, support, cited, sharp, effects)


def _evidence(
    m: Matrix, cases: Sequence[Case], tests: Tests, hits: np.ndarray, t: np.ndarray
) -> tuple[list[list[int]], list[bool]]:
    left = np.ones(len(t), bool)
    cited, sharp = [], []
    for case in cases:
        here = left & tests.truth[:, case.predicate]
        cited.append([int(x) for x in t[here & hits[:, case.term]][:CITED]])
        gap = tests.predicates[case.predicate].gap()
        told = m.select({"near": gap <= SAME}, tests.predicates[case.predicate].reads())[0] if gap is not None else None
        sharp.append(told is None or bool(told.any()))
        left &= ~here
    return cited, sharp


def _computed(term: Term) -> Iterator[Linear]:
    if isinstance(term, Linear) and len(term.reads()) > 1:
        yield term
    for inner in term.inner():
        yield from _computed(inner)


def _document(
    shape: Shape,
    m: Matrix,
    answers: Answers,
    rows: np.ndarray,
    tests: Tests,
) -> Term | None:
    items: list[tuple[str, Term]] = []
    for key in shape.keys if shape.keys is not None else (WHOLE,):
        if key in shape.texts:
            term = _text(shape.texts[key], key, m, answers, rows, tests)
        else:
            column = pl.Series([answers.fields[key][i] for i in rows], dtype=pl.String)
            term = explain(m, column, tests, label=key)
        if term is None:
            return None
        items.append((key, term))
    if shape.keys is None:
        return items[0][1]
    return Object(tuple((dump(k), t) for k, t in items))


def _text(
    skeleton: str,
    key: str,
    m: Matrix,
    answers: Answers,
    rows: np.ndarray,
    tests: Tests,
) -> Term | None:
    constants = skeleton.split(SLOT)
    if len(constants) == 1:
        return Const(dump(skeleton))
    parts: list[str | Term] = [_escaped(constants[0])]
    for place, after in enumerate(constants[1:]):
        name = f"{key}#{place}"
        column = pl.Series([answers.fields[name][i] for i in rows], dtype=pl.String)
        term = explain(m, column, tests)
        if term is None:
            return None
        parts += [Slot(term, styled([answers.raw[name][i] for i in rows])), _escaped(after)]
    return Text(tuple(parts))


def _escaped(text: str) -> str:
    return dump(text)[1:-1]
