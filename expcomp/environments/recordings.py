"""From a load of traces to sources, episodes and events: what the rest of this room starts from.

An attempt is an episode. A step gives, in order, its text (a message), its calls (actions) and what came back (observations);
a package step without calls gives its tool and input as the action and its output as the observation. Secrets and private
paths are replaced before anything else happens, so that no later copy holds them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from expcomp.environments.flatten import canonical
from expcomp.environments.splits import split_of
from expcomp.errors import SourceError
from expcomp.evidence.redact import redact
from expcomp.io.digest import sha256_expr
from expcomp.tables.environment import EPISODES, EVENTS, SOURCES

if TYPE_CHECKING:
    from expcomp.sources.traceset import TraceSet

ACTORS = {"agent": "agent", "user": "user", "system": "system", "simulator": "user", "environment": "environment"}
"""Actor of an event by `steps.source`: a simulated user is one."""

MEDIA = ((r"(?i)\.parquet$", "parquet"), (r"(?i)\.(jsonl|ndjson)(\.\w+)?$", "jsonl"), (r"(?i)\.(txt|log|md)$", "text"))
"""Media by file name; what none names is JSON."""

_TEXTS = ("content", "arguments")


@dataclass(frozen=True)
class Recordings:
    """Sources, episodes and events of a load, redacted.

    Attributes:
        sources: `SOURCES`.
        episodes: `EPISODES`.
        events: `EVENTS`, in order of episode and ordinal.
        redactions: Tokens that were put in, by rule.
        copies: Attempts that were left out as they stand in a copy of a source under another name.
    """

    sources: pl.DataFrame
    episodes: pl.DataFrame
    events: pl.DataFrame
    redactions: dict[str, int]
    copies: int = 0

    def of(self, split: str) -> Recordings:
        """The episodes of one split, with what belongs to them."""
        episodes = self.episodes.filter(pl.col("split") == split)
        return Recordings(
            self.sources.join(
                episodes.select("source_id"), on="source_id", how="semi", maintain_order="left"
            ).with_columns(split=pl.lit(split, dtype=SOURCES.schema["split"])),
            episodes,
            self.events.join(episodes.select("episode_id"), on="episode_id", how="semi", maintain_order="left"),
            self.redactions,
            self.copies,
        )


def recordings(ts: TraceSet, *, holdout: float = 0.2, seed: int = 0, pii: bool = False) -> Recordings:
    """Sources, episodes and events of a TraceSet.

    Args:
        ts: A load; copied context (history that a continuation repeats) is left out.
        holdout: Share of the families that become validation; a family is a task, else the outermost attempt.
        seed: Of the split, which is by hash and never moves a family when others come or go.
        pii: Also replace e-mail addresses, phone numbers and IP addresses.

    Raises:
        SourceError: There is no step.
    """
    found, steps = _attempts(ts), ts.steps.lazy().collect()
    attempts = _originals(found)
    steps = steps.filter(~pl.col("is_copied_context").fill_null(value=False))
    if steps.is_empty():
        msg = "the load has no step; an environment is learned from what calls were answered"
        raise SourceError(msg)
    events, redactions = redact(_events(steps, attempts), _TEXTS, pii=pii)
    episodes = _episodes(attempts, events, holdout=holdout, seed=seed)
    copies = found.height - attempts.height
    return Recordings(_sources(attempts, episodes), episodes, finish_events(events), redactions, copies)


def _attempts(ts: TraceSet) -> pl.DataFrame:
    """Attempts with the ids of source, episode and family."""
    known: pl.DataFrame = ts.attempts.lazy().collect()
    digest = pl.col("source_digest").str.strip_prefix("sha256:")
    # A source whose bytes nobody hashed is known by its place in the load.
    named = sha256_expr(pl.concat_str(pl.col("source_format"), pl.col("source_uri"), separator="\n"))
    return known.with_columns(
        source_id=pl.lit("src_") + pl.when(digest.str.contains(r"^[0-9a-f]{64}$")).then(digest).otherwise(named),
        trajectory_group=pl.coalesce("task_id", "root_attempt_id", "attempt_id"),
    ).with_columns(
        episode_id=pl.lit("ep_")
        + sha256_expr(
            pl.concat_str("source_id", pl.col("source_pos").fill_null(0), "attempt_id", separator="\n")
        ).str.slice(0, 24)
    )


def _originals(attempts: pl.DataFrame) -> pl.DataFrame:
    """Of copies of one source the attempts of the first by file name, then place."""
    name = pl.concat_str(pl.col("source_uri").str.extract(r"([^/\\]+)[/\\]*$"), "source_uri", separator="\n")
    return attempts.filter((name == name.min().over("source_id")).fill_null(value=True))


def _sources(attempts: pl.DataFrame, episodes: pl.DataFrame) -> pl.DataFrame:
    label = pl.col("source_uri").str.extract(r"([^/\\]+)[/\\]*$").fill_null("source")
    media = pl.lit("json")
    for pattern, word in reversed(MEDIA):
        media = pl.when(pl.col("source_uri").str.contains(pattern)).then(pl.lit(word)).otherwise(media)
    return (
        attempts.unique("source_id", keep="first", maintain_order=True)
        .select(
            "source_id",
            n_bytes=pl.lit(None, pl.Int64),
            media=media.cast(SOURCES.schema["media"]),
            label=label,
            text=pl.lit(None, pl.String),
            text_verbatim=pl.lit(None, pl.Boolean),
        )
        .join(of_one_family(episodes), on="source_id", how="inner", maintain_order="left")
        .sort("source_id")
    )


def of_one_family(episodes: pl.DataFrame) -> pl.DataFrame:
    """`source_id`, `split`, `trajectory_group` of every source; one with many families has no split of its own."""
    one = pl.col("trajectory_group").n_unique() == 1
    own = (pl.when(one).then(pl.col(c).first()).alias(c) for c in ("split", "trajectory_group"))
    return episodes.group_by("source_id", maintain_order=True).agg(own)


def _episodes(attempts: pl.DataFrame, events: pl.DataFrame, *, holdout: float, seed: int) -> pl.DataFrame:
    counts = events.group_by("episode_id", maintain_order=True).agg(n_events=pl.len().cast(pl.Int32))
    return (
        attempts.join(counts, on="episode_id", how="inner", maintain_order="left")
        .select(
            "episode_id",
            "source_id",
            original_id=pl.coalesce("native_attempt_id", "trace_id"),
            trajectory_group="trajectory_group",
            split=split_of(pl.col("trajectory_group"), holdout=holdout, seed=seed),
            environment_id=pl.lit(None, pl.String),
            tenant=pl.lit(None, pl.String),
            environment_version=pl.lit(None, pl.String),
            task_id="task_id",
            agent=pl.coalesce("arm", "agent"),
            reward="score",
            n_events="n_events",
            metadata_json=pl.lit(None, pl.String),
        )
        .cast(EPISODES.schema)
        .sort("episode_id")
    )


def _events(steps: pl.DataFrame, attempts: pl.DataFrame) -> pl.DataFrame:
    """Messages, calls and observations as rows: `_step`, `_part` (0 text, 1 call, 2 observation) and `_place` order them."""
    base = steps.join(
        attempts.select("attempt_id", "episode_id"), on="attempt_id", how="inner", maintain_order="left"
    ).with_columns(
        _actor=pl.col("source").cast(pl.String).replace(ACTORS), _calls=pl.col("tool_calls").list.len().fill_null(0)
    )
    at = [pl.col("episode_id"), pl.col("step_index").alias("_step"), pl.col("started_at").alias("timestamp")]
    said = base.filter(pl.col("content").is_not_null() & (pl.col("content") != ""))
    messages = said.select(*at, _part=0, _place=0, actor="_actor", kind=pl.lit("message"), content="content")
    calls = (
        base.filter(pl.col("_calls") > 0)
        .select(*at, "_actor", "_calls", call="tool_calls", _place=pl.int_ranges(0, pl.col("_calls")))
        .explode("call", "_place")
        .unnest("call")
        .select(
            "episode_id",
            "_step",
            "timestamp",
            _part=1,
            _place="_place",
            actor="_actor",
            kind=pl.lit("action"),
            content=pl.concat_str("name", pl.col("arguments").fill_null("{}"), separator=" "),
            call_id="id",
            action_name="name",
            arguments="arguments",
            batch_size="_calls",
        )
    )
    answers = (
        base.filter(pl.col("observations").list.len() > 0)
        .select(*at, "observations", _place=pl.int_ranges(0, pl.col("observations").list.len()))
        .explode("observations", "_place")
        .rename({"observations": "answer"})
        .unnest("answer")
        .select(
            "episode_id",
            "_step",
            "timestamp",
            _part=2,
            _place="_place",
            actor=pl.lit("tool"),
            kind=pl.lit("observation"),
            content=pl.col("content").fill_null(""),
            call_id="call_id",
            is_error="is_error",
        )
    )
    return pl.concat([messages, calls, answers, *_package_steps(base, at)], how="diagonal_relaxed").sort(
        "episode_id", "_step", "_part", "_place", maintain_order=True
    )


def _package_steps(base: pl.DataFrame, at: list[pl.Expr]) -> list[pl.DataFrame]:
    """Steps of packages: a tool, what it was given, what it gave back."""
    bare = base.filter((pl.col("_calls") == 0) & pl.col("tool").is_not_null() & pl.col("input").is_not_null())
    given = pl.struct(pl.col("input")).struct.json_encode()
    actions = bare.select(
        *at, _part=1, _place=0, actor="_actor", kind=pl.lit("action"), content=pl.concat_str("tool", given, separator=" "),
        action_name="tool", arguments=given, batch_size=1,
    )  # fmt: skip
    answers = bare.filter(pl.col("output").is_not_null()).select(
        *at, _part=2, _place=0, actor=pl.lit("tool"), kind=pl.lit("observation"), content="output",
        is_error=~pl.col("success"),
    )  # fmt: skip
    return [actions, answers]


def finish_events(events: pl.DataFrame) -> pl.DataFrame:
    """Number ordered events, name them, and say which are JSON; columns that are not there are unknown."""
    missing = [pl.lit(None, d).alias(n) for n, d in EVENTS.schema.items() if n not in events.columns]
    found = events.with_columns(missing).with_columns(
        ordinal=pl.int_range(pl.len(), dtype=pl.Int32).over("episode_id"), batch_size=pl.col("batch_size").fill_null(1)
    )
    found = found.with_columns(
        event_id=pl.lit("ev_") + sha256_expr(pl.concat_str("episode_id", "ordinal", separator="\n")).str.slice(0, 24)
    )
    if "_step" in found.columns:
        found = found.with_columns(parent_event_id=_parent())
    documents = canonical(found["content"]).select(content="text", _json=pl.col("value").is_not_null())
    found = found.join(documents, on="content", how="left", maintain_order="left").with_columns(
        content_is_json=pl.col("_json").fill_null(value=False)
    )
    return found.select(list(EVENTS.columns)).cast(EVENTS.schema)


def _parent() -> pl.Expr:
    """The message that holds a call; calls of one message without words have the first of them in common."""
    step = ("episode_id", "_step")
    said = pl.col("kind").first().over(step) == "message"
    held = (pl.col("kind") == "action") & (said | (pl.col("batch_size") > 1))
    return pl.when(held).then(pl.col("event_id").first().over(step))
