"""Citations: where they lead, and what a claim needs of them."""

from __future__ import annotations

import polars as pl

from expcomp.environments.config import PackageConfig
from expcomp.environments.records import Frames
from expcomp.environments.static import FINDINGS
from expcomp.io.wording import worded

ANCHOR = pl.col("episode_id").is_not_null() & pl.col("event_id").is_not_null()
"""A citation that names an event."""


OWNERS = {
    "evidence": ("evidence", "evidence_id"),
    "action": ("action_schema", "action"),
    "state": ("state_schema", "path"),
    "rule": ("rules", "rule_id"),
    "invariant": ("invariants", "invariant_id"),
    "renderer": ("renderers", "renderer_id"),
    "demonstration": ("demonstrations", "demo_id"),
    "note": ("notes", "note_id"),
}
"""Table and key of what cites, by `refs.owner_kind`."""


def ownerless(frames: Frames) -> pl.Expr:
    """Of `refs`: what cites is not there."""
    return pl.any_horizontal(
        (pl.col("owner_kind") == kind) & ~pl.col("owner_id").is_in(frames[table][key].implode())
        for kind, (table, key) in OWNERS.items()
    )


def provenance(frames: Frames, config: PackageConfig) -> pl.DataFrame:
    """Citations of what is not there, and claims of a reconstruction that nothing carries."""
    parts = [pl.DataFrame(schema=dict(FINDINGS)), *_broken(frames)]
    if config.construction_kind != "authored":
        parts += [_unanchored(frames), _unused(frames)]
    return pl.concat(parts)


def _finding(frame: pl.DataFrame, detail: str | pl.Expr) -> pl.DataFrame:
    text = pl.lit(detail) if isinstance(detail, str) else detail
    return frame.select(kind=pl.col("owner_kind").cast(pl.String), id="owner_id", detail=text)


def _broken(frames: Frames) -> list[pl.DataFrame]:
    refs = frames["refs"]
    episodes = frames["episodes"].select("episode_id", _source="source_id")
    events = frames["events"].select("event_id", _episode="episode_id")
    placed = refs.join(episodes, on="episode_id", how="left", maintain_order="left").join(
        events, on="event_id", how="left", maintain_order="left"
    )
    unknown = refs.join(frames["sources"], on="source_id", how="anti", maintain_order="left")
    return [
        _finding(unknown, worded("cites source {}, which is not there", "source_id")),
        _finding(
            placed.filter(pl.col("episode_id").is_not_null() & pl.col("_source").is_null()),
            worded("cites episode {}, which is not there", "episode_id"),
        ),
        _finding(
            placed.filter(pl.col("_source") != pl.col("source_id")),
            worded("cites episode {} under another source", "episode_id"),
        ),
        _finding(
            placed.filter(pl.col("event_id").is_not_null() & pl.col("_episode").is_null()),
            worded("cites event {}, which is not there", "event_id"),
        ),
        _finding(
            placed.filter((pl.col("_episode") != pl.col("episode_id")).fill_null(value=False)),
            worded("cites event {} under another episode", "event_id"),
        ),
    ]


def claims(frames: Frames) -> pl.DataFrame:
    """What needs an anchor: `owner_kind, owner_id` of supported rules, all invariants, supported notes; nothing authored by hand."""
    supported = pl.col("status") == "supported"
    return pl.concat(
        [
            frames["rules"].filter(supported & (pl.col("origin") != "authored")).select(owner_kind=pl.lit("rule"), owner_id="rule_id"),
            frames["invariants"].select(owner_kind=pl.lit("invariant"), owner_id="invariant_id"),
            frames["notes"].filter(supported).select(owner_kind=pl.lit("note"), owner_id="note_id"),
        ]
    )  # fmt: skip


def _supporting(frames: Frames) -> pl.DataFrame:
    refs = frames["refs"].filter((pl.col("role") == "support") & ANCHOR)
    return refs.with_columns(pl.col("owner_kind").cast(pl.String))


def unanchored(frames: Frames) -> pl.DataFrame:
    """Claims without a supporting citation of an event."""
    return claims(frames).join(_supporting(frames), on=["owner_kind", "owner_id"], how="anti", maintain_order="left")


def _unanchored(frames: Frames) -> pl.DataFrame:
    return _finding(unanchored(frames), "no supporting citation names an event")


def unused(frames: Frames) -> pl.DataFrame:
    """Supported rules none of whose citations touches the observation of a usable transition of their own action."""
    seen = (
        frames["transitions"]
        .filter("usable")
        .select(
            pl.col("action_type").replace(frames["action_aliases"]["alias"], frames["action_aliases"]["action"]),
            event_id="observation_event_ids",
        )
        .explode("event_id", empty_as_null=False)
        .unique(maintain_order=True)
    )
    rules = frames["rules"].filter((pl.col("status") == "supported") & (pl.col("origin") != "authored"))
    cited = (
        _supporting(frames)
        .filter(pl.col("owner_kind") == "rule")
        .select(rule_id="owner_id", event_id="event_id")
        .join(rules.select("rule_id", "action_type"), on="rule_id", how="inner", maintain_order="left")
        .join(seen, on=["action_type", "event_id"], how="semi", maintain_order="left")
    )
    return rules.join(cited, on="rule_id", how="anti", maintain_order="left").select(
        owner_kind=pl.lit("rule"), owner_id="rule_id"
    )


def _unused(frames: Frames) -> pl.DataFrame:
    return _finding(unused(frames), "no citation touches the answer of a usable transition of its action")
