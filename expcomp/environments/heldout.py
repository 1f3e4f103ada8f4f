"""Replay cases from held-out episodes: one case an episode, one step a usable transition."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from expcomp.environments.flatten import canonical
from expcomp.errors import TableError
from expcomp.tables.environment import REPLAY_CASES, REPLAY_STEPS

if TYPE_CHECKING:
    from collections.abc import Mapping

STATES: Mapping[str, pl.DataType] = {"episode_id": pl.String(), "state_json": pl.String()}
"""States before the first step: a snapshot, or the union of what was first seen of each entity."""


def held_out_cases(
    episodes: pl.DataFrame,
    transitions: pl.DataFrame,
    *,
    outcomes: pl.DataFrame | None = None,
    states: pl.DataFrame | None = None,
    after: pl.DataFrame | None = None,
    complete: bool = False,
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Cases, steps, and what was left out.

    A transition that is not usable, or has no answer, cannot be a step; as the steps after it would then begin from a state that
    is not the recorded one, the case ends before it.

    Args:
        episodes: `EPISODES`; those of the train split give no case.
        transitions: `TRANSITIONS` of the episodes.
        outcomes: Columns transition_id, outcome; without a line the outcome is not scored.
        states: `STATES`; without a line nothing is known before the first step.
        after: Columns transition_id, state_json: an object of path to value that holds after the step.
        complete: What `states` does not hold is absent.

    Returns:
        `REPLAY_CASES`, `REPLAY_STEPS`, and a frame transition_id, reason of the transitions that are in no case.

    Raises:
        TableError: A state that is no JSON object.
    """
    held = episodes.filter(pl.col("split") != "train").sort("episode_id")
    mine = transitions.join(held.select("episode_id"), on="episode_id", how="semi", maintain_order="left").sort(
        "episode_id", "turn"
    )
    bad = ~pl.col("usable") | pl.col("observation").is_null()
    marked = mine.with_columns(_cut=bad.cum_sum().over("episode_id"), _bad=bad)
    kept = marked.filter(pl.col("_cut") == 0)
    reason = (
        pl.when("_bad").then(pl.lit("no certain answer")).otherwise(pl.lit("after a step without a certain answer"))
    )
    left = marked.filter(pl.col("_cut") > 0).select("transition_id", reason=reason)
    steps = _steps(kept, outcomes, after)
    cases = held.join(kept.select("episode_id"), on="episode_id", how="semi", maintain_order="left")
    return _cases(cases, states, complete=complete), steps, left


def _cases(episodes: pl.DataFrame, states: pl.DataFrame | None, *, complete: bool) -> pl.DataFrame:
    known = pl.DataFrame(schema=dict(STATES)) if states is None else states.select(list(STATES))
    wrong = known.filter(~pl.col("state_json").str.starts_with("{"))
    if wrong.height:
        msg = f"state of episode {wrong['episode_id'][0]}: {wrong['state_json'][0]!r:.60} is no JSON object"
        raise TableError(msg)
    return (
        episodes.join(known, on="episode_id", how="left", maintain_order="left")
        .select(
            case_id="episode_id",
            trajectory_group="trajectory_group",
            source_ids=pl.concat_list("source_id"),
            split="split",
            initial_state_json=pl.col("state_json").fill_null("{}"),
            initial_state_complete=pl.lit(complete) & pl.col("state_json").is_not_null(),
            known_absent_paths=pl.lit([], pl.List(pl.String)),
        )
        .cast(REPLAY_CASES.schema)
    )


def _steps(kept: pl.DataFrame, outcomes: pl.DataFrame | None, after: pl.DataFrame | None) -> pl.DataFrame:
    said = pl.DataFrame(schema={"transition_id": pl.String, "outcome": pl.String}) if outcomes is None else outcomes
    seen = pl.DataFrame(schema={"transition_id": pl.String, "state_json": pl.String}) if after is None else after
    documents = canonical(kept["observation"])
    is_json = pl.col("value").is_not_null()
    return (
        kept.join(said.select("transition_id", "outcome"), on="transition_id", how="left", maintain_order="left")
        .join(seen.select("transition_id", "state_json"), on="transition_id", how="left", maintain_order="left")
        .join(documents, left_on="observation", right_on="text", how="left", maintain_order="left")
        .select(
            case_id="episode_id",
            ordinal=pl.int_range(pl.len(), dtype=pl.Int32).over("episode_id"),
            action_type="action_type",
            arguments_json="arguments_json",
            expected_observation="observation",
            # JSON is compared as values: spaces, the order of keys and the .0 of a number are nobody's promise.
            match=pl.when(is_json).then(pl.lit("json")).otherwise(pl.lit("exact")),
            expected_outcome=pl.col("outcome").cast(pl.String),
            expected_state_json=pl.col("state_json").fill_null("{}"),
        )
        .cast(REPLAY_STEPS.schema)
    )
