"""Families over several attempts at one task: preference pairs and rollout groups. Never across tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from expcomp.rows.family import RowFamily
from expcomp.tables.families import BY_NAME
from expcomp.tables.family import CHAT

if TYPE_CHECKING:
    from expcomp.rows.context import Context


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
    """Attempt pairs within a task, better first, and step pairs where a retry worked after a failure."""
    return pl.concat([_attempt_pairs(c), _step_pairs(c)], how="diagonal")


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
    both = side.join(side, on=["task_id", "scope"], how="inner", suffix="_b", maintain_order="left_right").filter(
        pl.col("place") < pl.col("place_b")
    )
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
        _discriminator=pl.format("{}>{}", "good", "bad"),
    )


def grpo(c: Context) -> pl.DataFrame:
    """One group for each task with a graded attempt: all attempts with a usable score, rewards and advantages."""
    graded = c.attempts.filter(pl.col("is_root") & pl.col("task_id").is_not_null() & pl.col("grade_kind").is_not_null())
    # An attempt without a transcript has no completion. A scripted one (an oracle) is counted and left out; where the record of
    # a model's attempt is lost, what is left would be a biased sample of the task: such a group has no target.
    spoke = c.transcripts.filter("by_model").select("attempt_id")
    usable = graded.filter("usable").join(spoke, on="attempt_id", how="semi", maintain_order="left")
    silent = graded.filter("usable").join(spoke, on="attempt_id", how="anti", maintain_order="left")
    by_model = pl.col("model").is_not_null() | (pl.col("source_format") == "packages")
    left_out = silent.group_by("task_id", maintain_order=True).agg(
        n_without_transcript=pl.len().cast(pl.Int32), lost=by_model.any()
    )
    prefix = shared_prefix(c, usable.select("attempt_id", group="task_id"))
    talk = (
        usable.join(c.transcripts, on="attempt_id", how="left", maintain_order="left")
        .join(prefix, left_on="task_id", right_on="group", how="left", maintain_order="left")
        .with_columns(n=pl.min_horizontal(pl.col("n_shared").fill_null(0), pl.col("n_prompt")))
        .with_columns(n=pl.col("n").min().over("task_id"))
        .with_columns(
            before=pl.col("messages").list.head("n"),
            after=pl.when("by_model").then(pl.col("messages").list.slice("n")).cast(CHAT),
        )
    )
    std = pl.col("score_norm").std(ddof=0)
    first_package = pl.col("package_id") == pl.col("package_id").first()
    groups = talk.group_by("task_id", maintain_order=True).agg(
        package_id=pl.col("package_id").first(),
        prompt=pl.col("before").first(),
        completions=pl.col("after"),
        rewards=pl.col("score_norm"),
        advantages=(pl.col("score_norm") - pl.col("score_norm").mean()) / std,
        attempt_ids=pl.col("attempt_id"),
        group_size=pl.len().cast(pl.Int32),
        reward_mean=pl.col("score_norm").mean(),
        reward_std=std,
        pass_rate=pl.col("passed").mean(),
        solver_gap=pl.col("score_norm").max() - pl.col("score_norm").min(),
        tools=pl.col("task_tools").drop_nulls().first(),
        traces=pl.col("trace_ref").filter(first_package),
        grades=pl.col("grade_ref").filter(first_package),
        _label_strength=pl.col("label_strength").min(),
        _contexts=pl.col("n_contexts").max().cast(pl.Int64),
    )
    # Tasks whose attempts have no usable score at all are candidates too: rejected, and counted.
    rest = (
        graded.filter(~pl.col("task_id").is_in(usable["task_id"].implode()))
        .group_by("task_id", maintain_order=True)
        .agg(
            package_id=pl.col("package_id").first(),
            _issue=pl.col("issue").first(),
            group_size=pl.lit(0, dtype=pl.Int32),
            traces=pl.col("trace_ref").filter(first_package),
            grades=pl.col("grade_ref").filter(first_package),
        )
    )
    flat = pl.col("reward_std").fill_null(0) < 1e-12
    together = pl.concat([groups, rest], how="diagonal").join(left_out, on="task_id", how="left", maintain_order="left")
    return together.select(
        pl.exclude("traces", "grades", "advantages", "completions", "n_without_transcript", "lost"),
        completions=pl.when(~pl.col("lost").fill_null(value=False)).then("completions"),
        advantages=pl.when(~flat).then("advantages"),
        _refs=pl.concat_list("traces", "grades").list.drop_nulls(),
        n_without_transcript=pl.col("n_without_transcript").fill_null(0),
        # A file of traces holds many tasks, and a group without completions nothing else that tells it from the next.
        _discriminator="task_id",
        _group_n=pl.col("group_size").cast(pl.Int64),
        _group_std=pl.when(pl.col("group_size") > 1).then(pl.when(flat).then(0.0).otherwise("reward_std")),
    )


PAIR_FAMILIES: tuple[RowFamily, ...] = (
    RowFamily(BY_NAME["preference_pair"], ("attempts", "messages", "steps"), preference),
    RowFamily(BY_NAME["grpo_rollout_group"], ("attempts", "messages"), grpo),
)
