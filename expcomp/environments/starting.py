"""What is known before the first step: snapshots that somebody gives, and first views of entities."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.environments.flatten import canonical, members
from expcomp.environments.paths import NAMESPACES
from expcomp.environments.recordings import Recordings
from expcomp.errors import UsageError
from expcomp.evidence.redact import redact
from expcomp.io.digest import sha256_expr
from expcomp.io.wording import worded
from expcomp.tables.environment import EVENTS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from expcomp.environments.induction.prepared import Prepared

GIVEN: Mapping[str, pl.DataType] = {"episode": pl.String(), "state_json": pl.String()}
"""States that somebody gives. `episode` is an episode id, the id of the run in its source, the name of its file, or a task (of all its
episodes); null is every episode."""

_EVENT = "state"


def read_states(path: Path) -> pl.DataFrame:
    """States of a file, with the columns GIVEN.

    Args:
        path: One state `{"world": {...}}` for all episodes, or records `{"episode": name, "state": {"world": {...}}}`.

    Raises:
        SourceError: It cannot be read.
        UsageError: A record is neither.
    """
    from expcomp.io.record_files import read_records

    found = read_records(path)
    rows: list[tuple[str | None, str]] = []
    for number, record in enumerate(found if isinstance(found, list) else [found], 1):
        name, state = None, record
        if isinstance(record, dict) and "state" in record:
            name, state = record.get("episode"), record["state"]
            if set(record) != {"episode", "state"} or not isinstance(name, str):
                raise UsageError(
                    f"{path}, record {number}: expected the text episode and the object state, nothing else"
                )
        _state(state, f"{path}, record {number}")
        rows.append((name, json.dumps(state, ensure_ascii=False)))
    return pl.DataFrame(rows, schema=dict(GIVEN), orient="row")


def _state(value: Any, where: str) -> None:
    wrong = not isinstance(value, dict) or any(k not in NAMESPACES or not isinstance(v, dict) for k, v in value.items())
    if wrong:
        raise UsageError(
            f"{where}: {value!r:.80} is no state; expected an object of {', '.join(NAMESPACES)}, each an object"
        )


def with_states(recorded: Recordings, states: pl.DataFrame, *, pii: bool = False) -> Recordings:
    """The recordings with an event of kind `state` at the start of every episode that has one.

    Args:
        recorded: Recordings.
        states: Columns GIVEN.
        pii: Also replace e-mail addresses, phone numbers and IP addresses.

    Raises:
        UsageError: A state of an episode that is not there, or two for one.
    """
    clean, counts = redact(states, ["state_json"], pii=pii)
    named = _named(recorded, clean)
    texts = canonical(named["state_json"])
    begun = (
        named.join(texts, left_on="state_json", right_on="text", how="left", maintain_order="left")
        .select(
            "episode_id",
            event_id=pl.lit("ev_") + sha256_expr(pl.col("episode_id") + "\nstate").str.slice(0, 24),
            ordinal=pl.lit(-1, pl.Int32),
            actor=pl.lit("environment"),
            kind=pl.lit(_EVENT),
            content="value",
            content_is_json=pl.lit(value=True),
            batch_size=pl.lit(1),
        )
        .with_columns(pl.lit(None, d).alias(n) for n, d in EVENTS.schema.items() if n not in _MADE)
        .select(list(EVENTS.columns))
        .cast(EVENTS.schema)
    )
    # Places are counted from 0 again: the state comes before what was the first event.
    events = (
        pl.concat([begun, recorded.events])
        .sort("episode_id", "ordinal")
        .with_columns(ordinal=pl.int_range(pl.len(), dtype=pl.Int32).over("episode_id"))
    )
    more = pl.col("episode_id").is_in(begun["episode_id"].implode()).cast(pl.Int32)
    total = {k: recorded.redactions.get(k, 0) + counts.get(k, 0) for k in sorted({*recorded.redactions, *counts})}
    episodes = recorded.episodes.with_columns(n_events=pl.col("n_events") + more)
    return Recordings(recorded.sources, episodes, events, total, recorded.copies)


_MADE = ("episode_id", "event_id", "ordinal", "actor", "kind", "content", "content_is_json", "batch_size")


def _named(recorded: Recordings, states: pl.DataFrame) -> pl.DataFrame:
    """`episode_id`, `state_json` of the episodes that the states name."""
    places = recorded.episodes.join(
        recorded.sources.select("source_id", "label"), on="source_id", how="left", maintain_order="left"
    )
    names = pl.concat(
        places.select("episode_id", episode=n) for n in ("episode_id", "original_id", "label", "task_id")
    ).drop_nulls().unique(maintain_order=True)  # fmt: skip
    every = recorded.episodes.select("episode_id").join(
        states.filter(pl.col("episode").is_null()).select("state_json"), how="cross", maintain_order="left"
    )
    lost = states.drop_nulls("episode").join(names, on="episode", how="anti", maintain_order="left")
    if lost.height:
        raise UsageError(
            f"initial states: there is no episode {lost['episode'][0]!r}; expected an episode id, the id of the run, "
            "the name of its file, or a task"
        )
    found = names.join(states.drop_nulls("episode"), on="episode", how="inner", maintain_order="left")
    both = pl.concat([every, found.select("episode_id", "state_json")]).unique(maintain_order=True)
    twice = both.filter(pl.col("episode_id").is_duplicated())
    if twice.height:
        raise UsageError(f"initial states: two for episode {twice['episode_id'][0]}")
    return both.sort("episode_id")


def snapshots(events: pl.DataFrame) -> pl.DataFrame:
    """States before the first step: `episode_id`, `state_json`, `world_json` (null: the state has no world)."""
    first = events.filter(
        (pl.col("kind") == _EVENT) & (pl.col("ordinal") == 0) & pl.col("content_is_json") & pl.col("content").str.starts_with("{")
    ).select("episode_id", content="content")  # fmt: skip
    texts = canonical(first["content"]).rename({"text": "content", "value": "state_json"})
    worlds = members(texts["state_json"]).filter(pl.col("key") == "world").select(state_json="doc", world_json="value")
    return (
        first.join(texts, on="content", how="left", maintain_order="left")
        .join(worlds, on="state_json", how="left", maintain_order="left")
        .select("episode_id", "state_json", "world_json")
    )


def states_around(events: pl.DataFrame) -> pl.DataFrame:
    """Worlds that are told around calls: `episode_id`, `turn`, `state_before_json`, `state_after_json` (null: not told).

    Before is the last event of kind state between the call before and this one, after is the first between this one and the next.
    """
    told = (
        events.sort("episode_id", "ordinal")
        .with_columns(turn=(pl.col("kind") == "action").cum_sum().over("episode_id").cast(pl.Int32))
        .filter((pl.col("kind") == _EVENT) & pl.col("content_is_json") & pl.col("content").str.starts_with("{"))
    )
    texts = canonical(told["content"])
    worlds = members(texts["value"]).filter(pl.col("key") == "world").select(value="doc", world="value")
    content = texts.join(worlds, on="value", how="inner", maintain_order="left").select(content="text", world="world")
    per = (
        told.join(content, on="content", how="inner", maintain_order="left")
        .group_by("episode_id", "turn", maintain_order=True)
        .agg(state_after_json=pl.col("world").first(), state_before_json=pl.col("world").last())
    )
    before = per.select("episode_id", pl.col("turn") + 1, "state_before_json")
    after = per.filter(pl.col("turn") > 0).select("episode_id", "turn", "state_after_json")
    return before.join(after, on=["episode_id", "turn"], how="full", coalesce=True, maintain_order="left_right")


def states_after(transitions: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """What is recorded of the world after calls: `transition_id`, `state_json` (object of path to value, one path a member of the
    world).

    Args:
        transitions: `TRANSITIONS`.
        events: `EVENTS` of the same episodes.
    """
    told = transitions.join(states_around(events), on=["episode_id", "turn"], how="inner", maintain_order="left")
    split = members(told["state_after_json"]).filter(pl.col("key").str.contains(r"^[A-Za-z_]\w*$"))
    paths = (
        split.rename({"value": "member"})
        .with_columns(key=worded('"world.{}"', "key"))
        .group_by("doc", maintain_order=True)
        .agg(_object("key", "member"))
    )
    return told.join(paths, left_on="state_after_json", right_on="doc", how="inner", maintain_order="left").select(
        "transition_id", state_json="text"
    )


def first_views(p: Prepared) -> pl.DataFrame:
    """The union of what was first seen of each entity: `episode_id`, `state_json`.

    A field counts when it was shown before any call that changes entities named this one: later it need not be what it was at the
    start.

    Args:
        p: Prepared transitions.
    """
    by = ["episode_id", "cls", "key"]
    changing = p.rows.filter(pl.col("action_type").is_in(p.writers)).select("t", "episode_id", changed="turn")
    touched = (
        p.asked.join(changing, on="t", how="inner", maintain_order="left")
        .group_by(by, maintain_order=True)
        .agg(pl.col("changed").min())
    )
    first = (
        p.facts.filter((pl.col("cls") != "") & (pl.col("turn") > 0))
        .join(touched, on=by, how="left", maintain_order="left")
        .filter(pl.col("changed").is_null() | (pl.col("turn") < pl.col("changed")))
        .unique([*by, "field"], keep="first", maintain_order=True)
        .sort(*by, "field")
    )
    # Canonical keys are JSON: a text has quotes, a number needs them.
    quoted = pl.when(pl.col("key").str.starts_with('"')).then("key").otherwise(worded('"{}"', "key"))
    names = {c: pl.struct(pl.col(c)).struct.json_encode().str.slice(len(c) + 4).str.head(-1) for c in ("cls", "field")}
    fields = first.with_columns(key=quoted, **names)
    entities = fields.group_by(by, maintain_order=True).agg(_object("field", "value"))
    classes = entities.group_by("episode_id", "cls", maintain_order=True).agg(_object("key", "text"))
    whole = classes.group_by("episode_id", maintain_order=True).agg(_object("cls", "text"))
    return whole.select("episode_id", state_json=pl.concat_str(pl.lit('{"world": '), "text", pl.lit("}")))


def _object(key: str, value: str) -> pl.Expr:
    """A JSON object of members whose keys and values are JSON."""
    return pl.concat_str(
        pl.lit("{"), pl.concat_str(pl.col(key), pl.lit(": "), pl.col(value)).str.join(", "), pl.lit("}")
    ).alias("text")
