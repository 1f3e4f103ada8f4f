"""Calls and their answers: events to transitions. Nothing is guessed; what is not certain is called ambiguous.

With a call id a call is answered by all results that carry the id, up to the next call with that id. Real files repeat ids inside
an episode; a repeated id is ambiguous only where two calls with it are open at once. Without an id a call is answered by the
observations before the next call that carry no id either; a message of several calls without ids stays unanswered.
"""

from __future__ import annotations

import polars as pl

from expcomp.environments.flatten import as_document
from expcomp.io.digest import sha256_expr
from expcomp.tables.environment import TRANSITIONS

__all__ = ["HISTORY", "align"]

HISTORY = 20
"""Most earlier events a transition keeps."""

REASONS = {
    "twice": "two calls with this id are open at once",
    "batch": "several calls of one message carry no id",
    "unanswered": "no answer was found",
    "arguments": "the arguments are no JSON object",
}
"""Ambiguity to its words, in order."""

_OBSERVED = ("observation", "error")


def align(events: pl.DataFrame, *, history: int = HISTORY) -> pl.DataFrame:
    """Transitions of events (`EVENTS`), one for each action, in order of episode and turn: `TRANSITIONS`.

    Args:
        events: In any order; episodes are told by `episode_id`, order by `ordinal`.
        history: Earlier events to keep.
    """
    ordered = events.sort("episode_id", "ordinal", maintain_order=True)
    calls = _calls(ordered)
    answers = _answers(ordered, calls)
    found = (
        calls.join(answers, on="event_id", how="left", maintain_order="left")
        .join(_concurrent(calls, answers), on="event_id", how="left", maintain_order="left")
        .join(_history(ordered, history), on="event_id", how="left", maintain_order="left")
        .with_columns(pl.col(c).fill_null([]) for c in ("observed", "late", "beside", "history"))
    )
    unanswered = pl.col("observed").list.len() == 0
    found = _canonical(found)
    flags = {
        "twice": pl.col("twice"),
        "batch": pl.col("batch"),
        "unanswered": unanswered & ~pl.col("batch"),
        "arguments": pl.col("bad"),
    }
    reasons = pl.concat_list(pl.when(flags[k]).then(pl.lit(v)) for k, v in REASONS.items()).list.drop_nulls()
    alignment = pl.when(pl.any_horizontal(*flags.values())).then(pl.lit("ambiguous")).when(
        pl.col("call_id").is_not_null()
    ).then(pl.lit("correlated")).otherwise(pl.lit("sequential"))  # fmt: skip
    identity = pl.concat_str("episode_id", "event_id", pl.col("observed").list.join("\n"), separator="\n")
    arguments = pl.col("arguments")
    return found.select(
        transition_id=pl.lit("trn_") + sha256_expr(identity),
        episode_id="episode_id",
        turn="turn",
        action_event_ids=pl.concat_list("event_id"),
        observation_event_ids="observed",
        delayed_observation_event_ids="late",
        concurrent_action_event_ids="beside",
        history_event_ids="history",
        alignment=alignment.cast(TRANSITIONS.schema["alignment"]),
        ambiguities=reasons,
        usable=(alignment != "ambiguous") & (pl.col("beside").list.len() == 0),
        action_type=pl.col("action_name").fill_null(pl.col("content")),
        arguments_json=arguments,
        args_key=sha256_expr(arguments).str.slice(0, 16),
        observation="text",
    ).cast(TRANSITIONS.schema)


def _canonical(calls: pl.DataFrame) -> pl.DataFrame:
    """Arguments as canonical JSON, with `bad`: they were no JSON object; a text that is no JSON becomes a JSON string."""
    given = calls.with_columns(pl.col("arguments").fill_null("{}"))
    pairs = as_document(given["arguments"]).rename({"text": "arguments", "value": "written"})
    return (
        given.join(pairs, on="arguments", how="left", maintain_order="left")
        .with_columns(arguments="written", bad=~pl.col("written").str.starts_with("{"))
        .drop("written", "is_json")
    )


def _calls(ordered: pl.DataFrame) -> pl.DataFrame:
    """Actions with `turn`, `next` (ordinal of the next action) and `nth` (of the calls with their id)."""
    acts = ordered.filter(pl.col("kind") == "action")
    bare = pl.col("call_id").is_null()
    together = pl.len().over("episode_id", "parent_event_id") > 1
    return acts.with_columns(
        turn=pl.int_range(1, pl.len() + 1, dtype=pl.Int32).over("episode_id"),
        next=pl.col("ordinal").shift(-1).over("episode_id"),
        nth=pl.int_range(1, pl.len() + 1, dtype=pl.Int64).over("episode_id", "call_id"),
        batch=bare & ((pl.col("batch_size") > 1) | (pl.col("parent_event_id").is_not_null() & together)),
    )


def _answers(ordered: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """What answers each action: `event_id`, `observed`, `late`, `text`, `first` (ordinal of the first answer), `twice`."""
    seen = pl.col("kind").is_in(_OBSERVED)
    marked = ordered.with_columns(
        act=(pl.col("kind") == "action"),
        before=(pl.col("kind") == "action").cum_sum().over("episode_id").cast(pl.Int32),
        opened=(pl.col("kind") == "action").cum_sum().over("episode_id", "call_id").cast(pl.Int64),
    ).filter(seen)
    by_id = calls.filter(pl.col("call_id").is_not_null()).select("event_id", "episode_id", "call_id", "nth", "next")
    by_turn = calls.filter(pl.col("call_id").is_null() & ~pl.col("batch")).select(
        "event_id", "episode_id", "turn", "next"
    )
    told = marked.select("episode_id", "call_id", "ordinal", "content", "before", "opened", answer="event_id")
    pairs = pl.concat(
        [
            by_id.join(
                told, left_on=["episode_id", "call_id", "nth"], right_on=["episode_id", "call_id", "opened"],
                how="inner", maintain_order="left_right",
            ).select("event_id", "answer", "ordinal", "content", "next"),
            by_turn.join(
                told.filter(pl.col("call_id").is_null()), left_on=["episode_id", "turn"], right_on=["episode_id", "before"],
                how="inner", maintain_order="left_right",
            ).select("event_id", "answer", "ordinal", "content", "next"),
        ]
    )  # fmt: skip
    late = (pl.col("ordinal") > pl.col("next")).fill_null(value=False)
    got = pairs.group_by("event_id", maintain_order=True).agg(
        observed=pl.col("answer"),
        late=pl.col("answer").filter(late),
        text=pl.col("content").str.join("\n"),
        first=pl.col("ordinal").min(),
    )
    # A call is still open when the next call with its id comes: none of the two answers can be told.
    with_id = calls.filter(pl.col("call_id").is_not_null()).join(
        got.select("event_id", "first"), on="event_id", how="left", maintain_order="left"
    )
    same = ["episode_id", "call_id"]
    open_at_next = pl.col("first").is_null() & (pl.col("nth") < pl.len().over(same))
    twice = with_id.with_columns(o=open_at_next).select(
        "event_id", twice=pl.col("o") | pl.col("o").shift(1, fill_value=False).over(same)
    )
    known = calls.select("event_id").join(got, on="event_id", how="left", maintain_order="left").join(
        twice, on="event_id", how="left", maintain_order="left"
    ).with_columns(pl.col("twice").fill_null(value=False))  # fmt: skip
    clear = pl.when(~pl.col("twice"))
    return known.with_columns(clear.then("observed"), clear.then("late"), clear.then("text"), clear.then("first"))


def _concurrent(calls: pl.DataFrame, answers: pl.DataFrame) -> pl.DataFrame:
    """Other actions of the same message, and actions that started while one was unanswered: `event_id`, `beside`."""
    spans = calls.select("episode_id", "event_id", "ordinal", "parent_event_id", "next").join(
        answers.select("event_id", "first"), on="event_id", how="left", maintain_order="left"
    )
    open_ = spans.filter(pl.col("first") > pl.col("next"))
    started = spans.select("episode_id", other="event_id", at="ordinal")
    over = open_.join_where(
        started,
        pl.col("episode_id") == pl.col("episode_id_right"),
        pl.col("at") > pl.col("ordinal"),
        pl.col("at") < pl.col("first"),
    ).select("event_id", "other")
    shared = spans.filter(pl.col("parent_event_id").is_not_null())
    beside = shared.join(
        shared.select("episode_id", "parent_event_id", other="event_id"), on=["episode_id", "parent_event_id"],
        how="inner", maintain_order="left_right",
    ).filter(pl.col("event_id") != pl.col("other")).select("event_id", "other")  # fmt: skip
    pairs = pl.concat([over, over.select(event_id="other", other="event_id"), beside])
    place = calls.select(other="event_id", at="ordinal")
    return (
        pairs.unique(maintain_order=True)
        .join(place, on="other", how="left", maintain_order="left")
        .sort("event_id", "at", maintain_order=True)
        .group_by("event_id", maintain_order=True)
        .agg(beside="other")
    )


def _history(ordered: pl.DataFrame, history: int) -> pl.DataFrame:
    """Earlier events of each action: `event_id`, `history`, the oldest first."""
    back = [pl.col("event_id").shift(k).over("episode_id") for k in range(history, 0, -1)]
    earlier = pl.concat_list(back).list.drop_nulls() if back else pl.lit([], dtype=pl.List(pl.String))
    return ordered.select("event_id", "kind", history=earlier).filter(pl.col("kind") == "action").drop("kind")
