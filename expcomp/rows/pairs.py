"""Preference pairs: attempts at one task, files they handed over, steps and their retries. Never across tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from expcomp.io.wording import worded
from expcomp.rows.attempt_rows import message
from expcomp.rows.family import RowFamily
from expcomp.tables.families import BY_NAME
from expcomp.tables.family import CHAT

if TYPE_CHECKING:
    from expcomp.rows.context import Context

_WORDS = 16
ALL_PAIRS = 32
"""Attempts of a task up to which every two of them are a pair."""
_MOST = ALL_PAIRS * (ALL_PAIRS - 1) // 2


def shared_prefix(c: Context, members: pl.DataFrame) -> pl.DataFrame:
    """Number of opening messages that all attempts of a group share and after which each goes on with a turn of its agent.

    Where the attempts part in an answer of the environment, the cut goes back to before the turn it answers, so that no
    continuation begins with what the agent did not write. Where no such turn exists, all shared messages count.

    Args:
        c: Context with the messages.
        members: Columns `group` and `attempt_id`.

    Returns:
        Columns `group` and `n_shared`, one line for each group that has messages.
    """
    size = members.group_by("group", maintain_order=True).agg(n=pl.len())
    lines = members.join(
        c.messages.select("attempt_id", "signature", "by_model"),
        on="attempt_id",
        how="inner",
        maintain_order="left_right",
    )
    all_there = pl.col("seen") == pl.col("n")
    at = (
        lines.with_columns(position=pl.int_range(pl.len(), dtype=pl.Int32).over("group", "attempt_id"))
        .group_by("group", "position", maintain_order=True)
        .agg(distinct=pl.col("signature").n_unique(), seen=pl.len(), spoken=pl.col("by_model").all())
        .join(size, on="group", how="left", maintain_order="left")
        .sort("group", "position")
        .with_columns(same=((pl.col("distinct") == 1) & all_there).cum_min().over("group"))
        .with_columns(reached=pl.col("same").shift(1, fill_value=True).over("group"))
    )
    turn = pl.col("position").filter(pl.col("reached") & pl.col("spoken") & all_there).max()
    return at.group_by("group", maintain_order=True).agg(
        n_shared=pl.coalesce(turn, pl.col("same").sum().cast(pl.Int32))
    )


def preference(c: Context) -> pl.DataFrame:
    """Attempt pairs within a task, better first; the same file as two attempts handed it over; a failed step and its retry."""
    return pl.concat([_attempt_pairs(c), _deliverable_pairs(c), _step_pairs(c)], how="diagonal")


def _attempt_pairs(c: Context) -> pl.DataFrame:
    talk = c.transcripts.select("attempt_id", "messages", "n_contexts")
    side = (
        c.attempts.filter(pl.col("is_root") & pl.col("task_id").is_not_null() & pl.col("grade_kind").is_not_null())
        .with_columns(place=pl.int_range(pl.len()))
        .join(talk, on="attempt_id", how="left", maintain_order="left")
        .select(
            "task_id",
            "package_id",
            "attempt_id",
            "place",
            "score_norm",
            "issue",
            "label_strength",
            "trace_ref",
            "grade_ref",
            "n_contexts",
            "task_tools",
            # A package is a closed world: its attempts are paired with each other, not with those of a copy of the package.
            scope=pl.when(pl.col("source_format") == "packages").then("package_id").otherwise(pl.lit("")),
        )
    )
    both = _partnered(side)
    swap = (pl.col("score_norm_b") > pl.col("score_norm")).fill_null(value=False)

    def pick(name: str, *, better: bool) -> pl.Expr:
        one, two = (f"{name}_b", name) if better else (name, f"{name}_b")
        return pl.when(swap).then(one).otherwise(two)

    issue = pl.coalesce("issue", "issue_b")
    pairs = both.select(
        "task_id",
        group=pl.int_range(pl.len()),
        win=pick("attempt_id", better=True),
        lose=pick("attempt_id", better=False),
        package_id=pick("package_id", better=True),
        other_package=pick("package_id", better=False),
        tools=pick("task_tools", better=True),
        chosen_score=pick("score_norm", better=True),
        rejected_score=pick("score_norm", better=False),
        win_refs=pl.concat_list(pick("trace_ref", better=True), pick("grade_ref", better=True)).list.drop_nulls(),
        lose_refs=pl.concat_list(pick("trace_ref", better=False), pick("grade_ref", better=False)).list.drop_nulls(),
        _issue=issue,
        _label_strength=pl.min_horizontal("label_strength", "label_strength_b"),
        _contexts=pl.max_horizontal("n_contexts", "n_contexts_b").cast(pl.Int64),
    )
    members = pl.concat([pairs.select("group", attempt_id="win"), pairs.select("group", attempt_id="lose")])
    prefix = shared_prefix(c, members)
    win = c.transcripts.select(win="attempt_id", win_messages="messages", win_spoke="by_model")
    lose = c.transcripts.select(lose="attempt_id", lose_messages="messages", lose_spoke="by_model")
    # Evidence ids are unique inside a package only; of two files or trials, the chosen side's is the row's package.
    cited = (
        pl.when(pl.col("package_id") == pl.col("other_package"))
        .then(pl.concat_list("win_refs", "lose_refs"))
        .otherwise("win_refs")
    )
    n = pl.col("n_shared").fill_null(0)
    return (
        pairs.join(prefix, on="group", how="left", maintain_order="left")
        .join(win, on="win", how="left", maintain_order="left")
        .join(lose, on="lose", how="left", maintain_order="left")
        .select(
            "package_id",
            "task_id",
            "chosen_score",
            "rejected_score",
            "tools",
            "_issue",
            "_label_strength",
            "_contexts",
            attempt_id="win",
            pair_level=pl.lit("attempt"),
            prompt=pl.col("win_messages").list.head(n),
            chosen=pl.when("win_spoke").then(pl.col("win_messages").list.slice(n)),
            rejected=pl.when("lose_spoke").then(pl.col("lose_messages").list.slice(n)),
            chosen_attempt_id="win",
            rejected_attempt_id="lose",
            margin=pl.col("chosen_score") - pl.col("rejected_score"),
            _refs=cited,
            _margin=pl.when(pl.col("_issue").is_null()).then(pl.col("chosen_score") - pl.col("rejected_score")),
            _discriminator=pl.concat_str("win", "lose", separator=">"),
        )
    )


def _partnered(side: pl.DataFrame) -> pl.DataFrame:
    """Every two attempts of a task, the earlier one first; of more than ALL_PAIRS, each with those that come next, in a ring.

    All pairs of a thousand attempts would be half a million rows, each with two transcripts.
    """
    group = ["task_id", "scope"]
    ranked = side.with_columns(
        rank=pl.int_range(pl.len(), dtype=pl.Int64).over(group), n=pl.len().cast(pl.Int64).over(group)
    )
    few = pl.col("n") <= ALL_PAIRS
    near = pl.max_horizontal(1, _MOST // pl.col("n"))
    last = pl.when(few).then(pl.col("n") - 1).otherwise(pl.col("rank") + near)
    ahead = ranked.with_columns(to=pl.int_ranges(pl.col("rank") + 1, last + 1)).explode(
        "to", empty_as_null=False, keep_nulls=False
    )
    pairs = ahead.with_columns(to=pl.col("to") % pl.col("n")).join(
        ranked.rename({"rank": "to"}), on=[*group, "to"], how="inner", suffix="_b", maintain_order="left"
    )
    # Past the end of the ring the later attempt stands first; which side is which is decided by the scores alone.
    return pairs.drop("rank", "to", "n", "n_b")


def _deliverable_pairs(c: Context) -> pl.DataFrame:
    """Texts of one name that two attempts of a package handed over: equal prompts, whatever the attempts were told on the way."""
    # A file of a few values says little about what made it better.
    wordy = pl.col("content").str.count_matches(r"\w+") >= _WORDS
    files = c.tables["artifacts"].filter((pl.col("kind") == "file") & wordy.fill_null(value=False))
    side = (
        c.attempts.filter(pl.col("is_root") & pl.col("instruction").is_not_null() & pl.col("score_norm").is_not_null())
        .with_columns(place=pl.int_range(pl.len()))
        .join(
            files.select("attempt_id", "uri", "content", name=pl.col("uri").str.split("/").list.last()),
            on="attempt_id",
            how="inner",
            maintain_order="left_right",
        )
        .select(
            "package_id",
            "task_id",
            "attempt_id",
            "name",
            "uri",
            "content",
            "place",
            "score_norm",
            "issue",
            "label_strength",
            "grade_ref",
            "task_source_ref",
            "instruction",
        )
        # Of several files of one name nobody can say which stands for which.
        .filter(pl.struct("attempt_id", "name").is_unique())
    )
    better = pl.col("score_norm") > pl.col("score_norm_b")
    pairs = side.join(
        side, on=["package_id", "task_id", "name"], how="inner", suffix="_b", maintain_order="left_right"
    ).filter(better & (pl.col("content") != pl.col("content_b")))
    asked = pl.concat_str("instruction", pl.lit("\n\n"), "name")
    return pairs.select(
        "package_id",
        "task_id",
        "attempt_id",
        pair_level=pl.lit("deliverable"),
        prompt=pl.concat_list(message("user", asked, trainable=False)).cast(CHAT),
        chosen=pl.concat_list(message("assistant", pl.col("content"), trainable=True)).cast(CHAT),
        rejected=pl.concat_list(message("assistant", pl.col("content_b"), trainable=True)).cast(CHAT),
        chosen_attempt_id="attempt_id",
        rejected_attempt_id="attempt_id_b",
        chosen_score="score_norm",
        rejected_score="score_norm_b",
        margin=pl.col("score_norm") - pl.col("score_norm_b"),
        _margin=pl.when(pl.col("issue").is_null() & pl.col("issue_b").is_null()).then(
            pl.col("score_norm") - pl.col("score_norm_b")
        ),
        _issue=pl.coalesce("issue", "issue_b"),
        _label_strength=pl.min_horizontal("label_strength", "label_strength_b"),
        _refs=pl.concat_list("task_source_ref", "uri", "uri_b", "grade_ref", "grade_ref_b").list.drop_nulls(),
        _discriminator=pl.concat_str("attempt_id", "attempt_id_b", "name", separator=">"),
    )


def _step_pairs(c: Context) -> pl.DataFrame:
    own = c.agent_steps.filter(pl.col("duplicate_of").is_null())
    retry = own.filter(pl.col("retry_of").is_not_null() & pl.col("success").fill_null(value=False))
    failed = own.filter(pl.col("is_error") | ~pl.col("success").fill_null(value=True)).unique(
        ["attempt_id", "step_number"], keep="last", maintain_order=True
    )
    given = c.attempts.select("attempt_id", tools="task_tools")
    both = retry.select("package_id", "task_id", "attempt_id", "retry_of", "trace_ref", good="step_index").join(
        failed.select("attempt_id", retry_of="step_number", bad="step_index"),
        on=["attempt_id", "retry_of"],
        how="inner",
        maintain_order="left",
    )
    said = c.messages.filter("by_model").unique(["attempt_id", "step_index"], keep="first", maintain_order=True)
    at = said.select("attempt_id", "message", "message_index", "context_id", step="step_index")
    pairs = both.join(
        at.select("attempt_id", "context_id", bad="step", bad_message="message", cut="message_index"),
        on=["attempt_id", "bad"],
        how="inner",
        maintain_order="left",
    ).join(
        at.select("attempt_id", good="step", good_message="message"),
        on=["attempt_id", "good"],
        how="inner",
        maintain_order="left",
    )
    chats = c.chats.select("attempt_id", "context_id", "messages").join(
        given, on="attempt_id", how="left", maintain_order="left"
    )
    return pairs.join(chats, on=["attempt_id", "context_id"], how="left", maintain_order="left").select(
        "package_id",
        "task_id",
        "attempt_id",
        "tools",
        step_index="good",
        pair_level=pl.lit("step"),
        prompt=pl.col("messages").list.head("cut").cast(CHAT),
        chosen=pl.concat_list("good_message").cast(CHAT),
        rejected=pl.concat_list("bad_message").cast(CHAT),
        chosen_attempt_id="attempt_id",
        rejected_attempt_id="attempt_id",
        chosen_step_index="good",
        rejected_step_index="bad",
        # The recorded outcome is the label: a heuristic one, told apart by pair_level.
        _label_strength=pl.lit(0.25),
        _refs=pl.concat_list("trace_ref").list.drop_nulls(),
        _discriminator=worded("{}>{}", "good", "bad"),
    )


PAIR_FAMILIES: tuple[RowFamily, ...] = (
    RowFamily(BY_NAME["preference_pair"], ("attempts", "messages", "steps"), preference),
)
