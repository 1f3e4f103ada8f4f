"""One call from transitions to tables and predictions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.environments.induction.assemble import assemble
from expcomp.environments.induction.crossfit import FOLDS, Learned, answer, fold_of, learn
from expcomp.environments.induction.experience import whole_families
from expcomp.environments.induction.homes import homes, moved
from expcomp.environments.induction.invariants import FAMILIES, SUPPORT, invariants
from expcomp.environments.induction.known import facts_table
from expcomp.environments.induction.notes import notes
from expcomp.environments.induction.prepared import Prepared, operands, remembered
from expcomp.environments.induction.schema import action_schema
from expcomp.environments.induction.world import states, widened
from expcomp.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["Reconstruction", "reconstruct"]

MOST = 10_000
"""Transitions that rules are learned from. Of more, whole families are drawn by the hash of their name; what is remembered (answers,
first views of entities) is taken from all."""
PART = 50_000
"""Transitions that are looked through at a time for what is remembered."""


@dataclass(slots=True)
class Reconstruction:
    """A world learned from transitions.

    Attributes:
        tables: Tables of a package by name; `cited` names the transitions that each rule explains, `carried` those that show an
            invariant or a note.
        learned: Models with held-out counts.
        classes: Entity classes.
        own: Fields that entities show of themselves.
        rows: The transitions that rules were learned from, with `t`, `failed` and `marker` (what gave the outcome).
        n_learned: Transitions that rules were learned from.
        n_given: Transitions that were given.
        homes: Where snapshots keep entities and labels, by class or label.
    """

    tables: dict[str, pl.DataFrame]
    learned: Learned
    classes: list[str]
    own: pl.DataFrame
    rows: pl.DataFrame
    n_learned: int
    n_given: int
    homes: Mapping[str, str] = field(default_factory=dict)

    def predict(
        self, transitions: pl.DataFrame, *, only: Sequence[str] | None = None, prepared: Prepared | None = None
    ) -> pl.DataFrame:
        """Answers to calls, each from what its episode has shown before it.

        Args:
            transitions: Columns of EXPERIENCE; the answer of a call is never read for that call, only for later ones.
            only: Which calls to answer, by `transition_id`; the others are what came before. None: all.
            prepared: `operands` of the transitions, when they were made before.

        Returns:
            `transition_id`, `route`, `answer` (canonical JSON; a text is a JSON string), `failed`, `confidence`, `state` (canonical JSON
            of the next state, where a state is given).
        """
        p = prepared if prepared is not None else operands(transitions, classes=self.classes, own=self.own)
        rows = p.rows if only is None else p.rows.filter(pl.col("transition_id").is_in(only))
        got = answer(self.learned, p, rows)
        asked = rows.join(got.select("t", outcome="failed"), on="t", how="left", maintain_order="left")
        after = states(self.learned.world, p, asked).rename({"after": "state"})
        return (
            rows.select("t", "transition_id")
            .join(got, on="t", how="left", maintain_order="left")
            .join(after, on="t", how="left", maintain_order="left")
            .select("transition_id", "route", "answer", "failed", "confidence", "state")
        )


def reconstruct(
    transitions: pl.DataFrame, *, tools: Sequence[Mapping[str, Any]] = (), folds: int = FOLDS, most: int = MOST
) -> Reconstruction:
    """Learn a world.

    Args:
        transitions: Columns of EXPERIENCE, all of them for learning.
        tools: Tool definitions; what they declare wins over what was seen.
        folds: Inner folds by family that give held-out counts.
        most: Transitions to learn rules from, see MOST.

    Raises:
        SourceError: There is no transition.
        TableError: A column is missing.
    """
    if transitions.is_empty():
        msg = "there is no transition with a certain answer to learn from"
        raise SourceError(msg)
    p = operands(_sample(transitions, most))
    learned = learn(p, p.rows, folds=folds)
    if p.rows.height < transitions.height:
        learned.world = widened(learned.world, _parts(transitions, p))
    tables = assemble(learned, p.classes, p.rows)
    actions, args, differences = action_schema(p.rows, p.args, tools)
    tables |= {"action_schema": actions, "action_args": args}
    at = homes(p)
    tables = moved(_with_knowledge(tables, p, learned), at)
    tables["unresolved"] = _noted(tables["unresolved"], "schema", differences)
    empty = [words for name, words in _EMPTY.items() if tables[name].is_empty()]
    tables["unresolved"] = _noted(tables["unresolved"], "knowledge", empty)
    return Reconstruction(tables, learned, p.classes, p.own, p.rows, p.rows.height, transitions.height, at)


_EMPTY = {
    "facts": "no fact: no answer shows a field of an entity or a label",
    "invariants": "no invariant: of what rules read and calls change nothing kept a bound, an order or a few values in "
    f"{SUPPORT} observations of {FAMILIES} families",
    "notes": "no note: no text argument has one shape and no failure recurs in several families",
}
"""Why a table of knowledge is empty."""


def _with_knowledge(tables: dict[str, pl.DataFrame], p: Prepared, learned: Learned) -> dict[str, pl.DataFrame]:
    """Facts, invariants and notes, and what carries them (`carried`)."""
    reads = {n for model in learned.world.actions.values() for n in model.reads()}
    held, shown = invariants(p, tables["state_schema"]["path"])
    told, carried = notes(p)
    return tables | {
        "facts": facts_table(p, reads),
        "invariants": held["invariants"],
        "conditions": pl.concat([tables["conditions"], held["conditions"]]),
        "notes": told,
        "carried": pl.concat([shown, carried]),
    }


def _sample(transitions: pl.DataFrame, most: int) -> pl.DataFrame:
    if transitions.height <= most:
        return transitions
    sizes = transitions.group_by("group", maintain_order=True).agg(n=pl.len())
    order = sizes.join(fold_of(sizes["group"], 2**32, "sample"), on="group", how="left", maintain_order="left")
    kept = order.sort("fold", "group").filter(pl.col("n").cum_sum() <= most).select("group")
    return transitions.join(kept, on="group", how="semi", maintain_order="left")


def _parts(transitions: pl.DataFrame, learned: Prepared) -> Iterator[Prepared]:
    """All transitions, whole families at a time, with the entity classes that were learned."""
    for part in whole_families(transitions, PART):
        found = remembered(part, classes=learned.classes, own=learned.own)
        found.writers = learned.writers
        yield found


def _noted(unresolved: pl.DataFrame, stage: str, words: Sequence[str]) -> pl.DataFrame:
    start = unresolved.height
    more = pl.DataFrame(
        {
            "ordinal": range(start, start + len(words)),
            "stage": [stage] * len(words),
            "owner_id": [None] * len(words),
            "message": list(words),
        },
        schema=unresolved.schema,
    )
    return pl.concat([unresolved, more])
