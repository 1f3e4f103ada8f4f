"""What a row family declares, and the nested types that families share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import polars as pl

from expcomp.tables._spec import Column, Table
from expcomp.tables.envelope import row_table

CALL = pl.Struct({"id": pl.String(), "name": pl.String(), "arguments": pl.String()})
MESSAGE = pl.Struct(
    {
        "role": pl.String(),
        "content": pl.String(),
        "reasoning": pl.String(),
        "tool_calls": pl.List(CALL),
        "tool_call_id": pl.String(),
        "name": pl.String(),
        "trainable": pl.Boolean(),
        # True where what the turn did failed, by the source's own flags; null elsewhere.
        "failed": pl.Boolean(),
        # True where the message holds a picture, a sound or a file beside its text; null elsewhere.
        "media": pl.Boolean(),
    }
)
CHAT = pl.List(MESSAGE)
TRANSITION = pl.Struct(
    {
        "step_index": pl.Int32(),
        "observation": pl.String(),
        "action": pl.String(),
        "response": pl.String(),
        "reward": pl.Float64(),
        "success": pl.Boolean(),
    }
)
CRITERION_REWARD = pl.Struct({"rubric_item_id": pl.String(), "reward": pl.Float64(), "passed": pl.Boolean()})


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """The declared side of a row family.

    Attributes:
        name: Family name; the stem of its files.
        grain: What one row stands for.
        description: One line for the dictionary.
        columns: Content columns.
        core: What counts for completeness: a column, or columns of which one is enough.
        uses: What trainers use it for.
        input: Columns of which at least one must hold something, else `missing_input`.
        target: The same for the target, else `missing_target`.
        texts: Text columns that are cut when overlong.
        judged: Columns with words of graders and reviewers: what only a verifier may see is masked there.
        labelled: Whether label strength is measured on it.
        gated_label: Whether a weak label keeps the row out.
        dedupe: Whether a second row of equal content in one package is a duplicate.
    """

    name: str
    grain: str
    description: str
    columns: dict[str, Column]
    core: tuple[str | tuple[str, ...], ...] = ()
    uses: tuple[str, ...] = ()
    input: tuple[str, ...] = ()
    target: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    judged: tuple[str, ...] = ()
    labelled: bool = False
    gated_label: bool = False
    dedupe: bool = False

    @property
    def table(self) -> Table:
        """Envelope and content as one table."""
        return _table(self)


@cache
def _table(family: Family) -> Table:
    return row_table(family.name, family.description, family.columns)


def chat(description: str) -> Column:
    """A list of chat messages."""
    return Column(CHAT, description)
