"""Plain transcripts: lines that begin with a role open a block, the lines after it continue it."""

from __future__ import annotations

import polars as pl

from expcomp.environments.flatten import canonical, members
from expcomp.environments.recordings import Recordings, finish_events
from expcomp.environments.splits import split_of
from expcomp.errors import SourceError
from expcomp.evidence.redact import redact
from expcomp.io.digest import sha256_expr
from expcomp.tables.environment import EPISODES, SOURCES

ROLES: dict[str, tuple[str, str]] = {
    "user": ("user", "message"),
    "human": ("user", "message"),
    "system": ("system", "message"),
    "assistant": ("agent", "message"),
    "agent": ("agent", "message"),
    "thought": ("agent", "message"),
    "action": ("agent", "action"),
    "tool call": ("agent", "action"),
    "observation": ("environment", "observation"),
    "environment": ("environment", "observation"),
    "output": ("environment", "observation"),
    "tool": ("tool", "observation"),
    "tool result": ("tool", "observation"),
    "state": ("environment", "state"),
    "error": ("environment", "error"),
}
"""Actor and kind by the word before the colon."""

_WORDS = "|".join(sorted((w.replace(" ", "[ _]") for w in ROLES), key=len, reverse=True))
_HEAD = rf"(?i)^({_WORDS})\s*:[ \t]?"
_NAMES, _ARGUMENTS = ("type", "name", "tool", "action"), ("arguments", "args", "parameters", "input")


def transcripts(texts: pl.DataFrame, *, holdout: float = 0.0, seed: int = 0, pii: bool = False) -> Recordings:
    """Episodes of plain transcripts, one a text.

    An action that is a JSON object names its tool under `type`, `name`, `tool` or `action`; another one is its first word, and what
    follows is the argument `input`.

    Args:
        texts: Columns label (file name) and text.
        holdout: Share of the transcripts that become validation.
        seed: Of the split.
        pii: Also replace e-mail addresses, phone numbers and IP addresses.

    Raises:
        SourceError: A text in which no line begins with a role.
    """
    sources = texts.with_columns(source_id=pl.lit("src_") + sha256_expr("text")).unique(
        "source_id", keep="first", maintain_order=True
    )
    sources = sources.with_columns(
        trajectory_group="source_id",
        episode_id=pl.lit("ep_") + sha256_expr(pl.col("source_id") + "\n0\ntranscript").str.slice(0, 24),
    )
    blocks = _blocks(sources)
    silent = sources.join(
        blocks.filter(pl.col("_role").is_not_null()), on="episode_id", how="anti", maintain_order="left"
    )
    if silent.height:
        msg = f"{silent['label'][0]}: no line begins with a role; expected User:, Action:, Observation: and the like"
        raise SourceError(msg)
    events, redactions = redact(_actions(blocks), ["content", "arguments"], pii=pii)
    kept, more = redact(sources, ["text"], pii=pii)
    split = split_of(pl.col("trajectory_group"), holdout=holdout, seed=seed)
    done = finish_events(events)
    counts = done.group_by("episode_id", maintain_order=True).agg(n_events=pl.len().cast(pl.Int32))
    tokens = {rule: max(redactions.get(rule, 0), more.get(rule, 0)) for rule in sorted({*redactions, *more})}
    copies = texts.height - sources.height
    return Recordings(_sources(sources, kept, split), _episodes(sources, counts, split), done, tokens, copies)


def _blocks(sources: pl.DataFrame) -> pl.DataFrame:
    """One row a block: `_role` (null before the first role), content, characters it takes in the text."""
    lines = (
        sources.select("episode_id", line=pl.col("text").str.split("\n"))
        .explode("line", empty_as_null=False)
        .with_columns(_role=pl.col("line").str.extract(_HEAD).str.to_lowercase().str.replace("_", " "))
        .with_columns(
            _block=pl.col("_role").is_not_null().cum_sum().over("episode_id"),
            _end=(pl.col("line").str.len_chars() + 1).cum_sum().over("episode_id").cast(pl.Int32),
            _start=(pl.col("line").str.len_chars() + 1).cum_sum().over("episode_id").cast(pl.Int32)
            - pl.col("line").str.len_chars().cast(pl.Int32)
            - 1,
        )
    )
    body = pl.col("line").str.replace(_HEAD, "")
    return (
        lines.group_by("episode_id", "_block", maintain_order=True)
        .agg(
            pl.col("_role").first(),
            content=pl.when(pl.col("_role").is_not_null()).then(body).otherwise("line").str.join("\n"),
            char_start=pl.col("_start").first(),
            char_end=pl.col("_end").last() - 1,
        )
        .with_columns(pl.col("content").str.strip_chars_end())
        .filter(pl.col("_role").is_not_null() | (pl.col("content") != ""))
    )


def _actions(blocks: pl.DataFrame) -> pl.DataFrame:
    """Blocks as events."""
    role = pl.col("_role")
    events = blocks.with_columns(
        actor=role.replace_strict({k: a for k, (a, _) in ROLES.items()}, default="unknown"),
        kind=role.replace_strict({k: k_ for k, (_, k_) in ROLES.items()}, default="meta"),
    )
    return with_tools(events)


def with_tools(events: pl.DataFrame) -> pl.DataFrame:
    """Events (`kind`, `content`) with `action_name` and `arguments` of actions, and `is_error` of errors, read from the content."""
    documents = canonical(events.filter(pl.col("kind") == "action")["content"])
    parts = members(documents["value"])
    named = _first(parts, _NAMES, "action_name")
    found = (
        documents.rename({"text": "content", "value": "doc"})
        .join(named, on="doc", how="left", maintain_order="left")
        .join(_first(parts, _ARGUMENTS, "arguments"), on="doc", how="left", maintain_order="left")
    )
    events = events.join(
        found.select("content", "action_name", "arguments"), on="content", how="left", maintain_order="left"
    )
    is_action, words = pl.col("kind") == "action", pl.col("content").str.splitn(" ", 2)
    rest = words.struct.field("field_1").str.strip_chars()
    spoken = pl.when(rest.fill_null("") == "").then(pl.lit("{}")).otherwise(pl.struct(input=rest).struct.json_encode())
    bare = is_action & pl.col("action_name").is_null()
    return events.with_columns(
        action_name=pl.when(bare)
        .then(words.struct.field("field_0"))
        .when(is_action)
        .then(pl.col("action_name").str.strip_chars('"')),
        arguments=pl.when(bare).then(spoken).when(is_action).then(pl.col("arguments").fill_null("{}")),
        is_error=pl.when(pl.col("kind") == "error").then(pl.lit(value=True)),
    )


def _first(parts: pl.DataFrame, keys: tuple[str, ...], name: str) -> pl.DataFrame:
    """Of each document the member under the first of some keys that it has."""
    order = pl.col("key").replace_strict({k: i for i, k in enumerate(keys)}, default=None, return_dtype=pl.Int32)
    return (
        parts.with_columns(_order=order)
        .drop_nulls("_order")
        .sort("doc", "_order")
        .unique("doc", keep="first", maintain_order=True)
        .select("doc", pl.col("value").alias(name))
    )


def _sources(sources: pl.DataFrame, kept: pl.DataFrame, split: pl.Expr) -> pl.DataFrame:
    verbatim = sources["text"] == kept["text"]
    return kept.select(
        "source_id",
        n_bytes=sources["text"].str.len_bytes().cast(pl.Int64),
        media=pl.lit("text"),
        label=pl.col("label").str.extract(r"([^/\\]+)$"),
        text="text",
        text_verbatim=verbatim,
        split=split,
        trajectory_group="trajectory_group",
    ).cast(SOURCES.schema)


def _episodes(sources: pl.DataFrame, counts: pl.DataFrame, split: pl.Expr) -> pl.DataFrame:
    none = {n: pl.lit(None, d).alias(n) for n, d in EPISODES.schema.items()}
    whole = sources.join(counts, on="episode_id", how="left", maintain_order="left").with_columns(split=split)
    return whole.select(pl.col(n) if n in whole.columns else e for n, e in none.items()).cast(EPISODES.schema)
