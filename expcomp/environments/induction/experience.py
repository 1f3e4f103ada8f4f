"""The frame that reconstruction reads: one row a transition, canonical JSON, an integer row id."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from expcomp.environments.flatten import as_document, canonical
from expcomp.environments.starting import states_around
from expcomp.errors import TableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["EXPERIENCE", "experience", "prepare", "whole_families"]

EXPERIENCE: Mapping[str, pl.DataType] = {
    "transition_id": pl.String(),
    "episode_id": pl.String(),
    "group": pl.String(),
    "turn": pl.Int32(),
    "action_type": pl.String(),
    "arguments_json": pl.String(),
    "observation": pl.String(),
    "is_error": pl.Boolean(),
    "counterfactual": pl.Boolean(),
    "state_before_json": pl.String(),
    "state_after_json": pl.String(),
}
"""Columns of the input. `is_error` null: the source has no flag. `counterfactual`: the call was tried on a copy and never
changed the episode. `state_before_json` null: the state is not given; at the first turn only: a snapshot."""

_OPTIONAL = ("is_error", "counterfactual", "state_before_json", "state_after_json")


def prepare(transitions: pl.DataFrame) -> pl.DataFrame:
    """Rows with `t` (row id), `args`, `before`, `after` (canonical JSON), `answer` (canonical JSON) and `is_json`.

    Raises:
        TableError: A column is missing.
    """
    missing = [c for c in EXPERIENCE if c not in transitions.columns and c not in _OPTIONAL]
    if missing:
        msg = f"transitions: columns {', '.join(missing)} are missing; expected {', '.join(EXPERIENCE)}"
        raise TableError(msg)
    absent = [pl.lit(None, dtype=EXPERIENCE[c]).alias(c) for c in _OPTIONAL if c not in transitions.columns]
    frame = (
        transitions.lazy()
        .with_columns(absent)
        .select(pl.col(c).cast(d) for c, d in EXPERIENCE.items())
        .with_columns(counterfactual=pl.col("counterfactual").fill_null(value=False))
        .sort("episode_id", "turn", "counterfactual", "transition_id", maintain_order=True)
        .with_row_index("t")
        .collect(engine="in-memory")
    )
    wide = frame.lazy()
    for column, target in (("arguments_json", "args"), ("state_before_json", "before"), ("state_after_json", "after")):
        pairs = canonical(frame[column]).lazy().rename({"text": column, "value": target})
        wide = wide.join(pairs, on=column, how="left", maintain_order="left")
    answers = as_document(frame["observation"]).lazy().rename({"text": "observation", "value": "answer"})
    wide = wide.join(answers, on="observation", how="left", maintain_order="left")
    return wide.with_columns(
        args=pl.col("args").fill_null("{}"), is_json=pl.col("is_json").fill_null(value=False)
    ).collect(engine="in-memory")


def experience(
    transitions: pl.DataFrame, episodes: pl.DataFrame, events: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Aligned transitions as EXPERIENCE, and `transition_id`, `reason` of those that cannot be learned from.

    Args:
        transitions: `TRANSITIONS`.
        episodes: `EPISODES`, for the family.
        events: `EVENTS`; an answer is an error when its event is flagged or of kind error, and those of kind state tell the
            worlds before and after calls.
    """
    usable = pl.col("usable") & pl.col("observation").is_not_null() & pl.col("arguments_json").str.starts_with("{")
    left = transitions.filter(~usable).select(
        "transition_id",
        reason=pl.when(pl.col("observation").is_null()).then(pl.lit("no certain answer"))
        .when(~pl.col("arguments_json").str.starts_with("{")).then(pl.lit("the arguments are no JSON object"))
        .otherwise(pl.lit("another call was open at the same time")),
    )  # fmt: skip
    flagged = events.select(
        observation_event_ids="event_id",
        flag=pl.when(pl.col("kind") == "error").then(pl.lit(value=True)).otherwise(pl.col("is_error")),
    )
    errors = (
        transitions.select("transition_id", "observation_event_ids")
        .explode("observation_event_ids")
        .join(flagged, on="observation_event_ids", how="left", maintain_order="left")
        .group_by("transition_id", maintain_order=True)
        .agg(is_error=pl.when(pl.col("flag").is_not_null().any()).then(pl.col("flag").any()))
    )
    families = episodes.select(
        "episode_id",
        group="trajectory_group",
        counterfactual=pl.col("metadata_json").str.json_path_match("$.counterfactual") == "true",
    )
    found = (
        transitions.filter(usable)
        .join(families, on="episode_id", how="left", maintain_order="left")
        .join(errors, on="transition_id", how="left", maintain_order="left")
    )
    found = found.join(states_around(events), on=["episode_id", "turn"], how="left", maintain_order="left")
    absent = [pl.lit(None, dtype=d).alias(c) for c, d in EXPERIENCE.items() if c not in found.columns]
    return found.with_columns(absent).select(pl.col(c).cast(d) for c, d in EXPERIENCE.items()), left


def whole_families(transitions: pl.DataFrame, size: int) -> Iterator[pl.DataFrame]:
    """The transitions in parts of about `size`, each of whole families that are neighbours by name."""
    sizes = transitions.group_by("group", maintain_order=True).agg(n=pl.len()).sort("group")
    placed = sizes.select("group", part=(pl.col("n").cum_sum() - 1) // size)
    rows = transitions.join(placed, on="group", how="inner", maintain_order="left")
    yield from rows.partition_by("part", maintain_order=True, include_key=False)
