"""From recordings to all tables of a package: aligned, learned, with evidence and references."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.environments.align import HISTORY, align
from expcomp.environments.frames import complete
from expcomp.environments.induction.experience import experience
from expcomp.environments.induction.reconstruct import Reconstruction, reconstruct
from expcomp.io.wording import worded
from expcomp.tables.environment import EVIDENCE, REFS, UNRESOLVED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from expcomp.environments.recordings import Recordings

__all__ = ["package_tables"]


def package_tables(
    recorded: Recordings, *, tools: Sequence[Mapping[str, Any]] = (), history: int = HISTORY
) -> tuple[dict[str, pl.DataFrame], Reconstruction]:
    """All tables of a package, and what they were made from.

    Args:
        recorded: Sources, episodes and events to learn from; all of the train split.
        tools: Tool definitions.
        history: Earlier events that a transition names.

    Raises:
        SourceError: No transition has a certain answer.
    """
    aligned = align(recorded.events, history=history)
    usable, left = experience(aligned, recorded.episodes, recorded.events)
    found = reconstruct(usable, tools=tools)
    learned = found.rows.join(
        aligned.select("transition_id", "action_event_ids", "observation_event_ids"),
        on="transition_id", how="left", maintain_order="left",
    )  # fmt: skip
    cited = pl.concat(
        [
            found.tables["cited"].select(owner_kind=pl.lit("rule"), owner_id="rule_id", t="t"),
            found.tables["carried"].with_columns(pl.col("t").cast(found.tables["cited"].schema["t"])),
        ]
    )
    tables = {k: v for k, v in found.tables.items() if k not in ("cited", "carried")} | {
        "sources": recorded.sources,
        "episodes": recorded.episodes,
        "events": recorded.events,
        "transitions": aligned,
        "evidence": _evidence(learned),
        "refs": _refs(cited, learned, recorded.episodes),
    }
    tables["unresolved"] = _told(tables["unresolved"], left)
    return complete(tables), found


def _evidence(learned: pl.DataFrame) -> pl.DataFrame:
    return learned.select(
        evidence_id=pl.lit("evi_") + pl.col("transition_id"),
        transition_id="transition_id",
        action_type="action_type",
        arguments_json="args",
        outcome=pl.when("failed").then(pl.lit("failure")).otherwise(pl.lit("success")),
        confidence=pl.lit(None, dtype=pl.Float64),
        rationale=pl.col("marker").fill_null("no marker of failure"),
        observation_text="observation",
        latent_variables=pl.lit([], dtype=pl.List(pl.String)),
        ambiguities=pl.lit([], dtype=pl.List(pl.String)),
        origin=pl.lit("deterministic"),
    ).cast(EVIDENCE.schema)


def _refs(cited: pl.DataFrame, learned: pl.DataFrame, episodes: pl.DataFrame) -> pl.DataFrame:
    """For every rule the answers of the transitions it explains, for invariants and notes those that show them."""
    return (
        cited.join(
            learned.select("t", "episode_id", "observation_event_ids"), on="t", how="inner", maintain_order="left"
        )
        .explode("observation_event_ids")
        .join(episodes.select("episode_id", "source_id"), on="episode_id", how="left", maintain_order="left")
        .select(
            owner_kind="owner_kind",
            owner_id="owner_id",
            role=pl.lit("support"),
            source_id="source_id",
            episode_id="episode_id",
            event_id="observation_event_ids",
            locator=pl.lit(None, dtype=pl.String),
            excerpt=pl.lit(None, dtype=pl.String),
        )
        .cast(REFS.schema)
    )


def _told(unresolved: pl.DataFrame, left: pl.DataFrame) -> pl.DataFrame:
    more = left.select(
        ordinal=pl.int_range(pl.len(), dtype=pl.Int32) + unresolved.height,
        stage=pl.lit("align"),
        owner_id="transition_id",
        message=worded("not learned from: {}", "reason"),
    ).cast(UNRESOLVED.schema)
    return pl.concat([unresolved, more])
