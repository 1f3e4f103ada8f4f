"""Families at the grain of an attempt: supervised conversations and deliverables, rewards, rollouts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from expcomp.io.wording import worded
from expcomp.rows.family import RowFamily, refs
from expcomp.rows.private import by_id
from expcomp.tables.families import BY_NAME
from expcomp.tables.family import CHAT, CRITERION_REWARD, MESSAGE, TRANSITION

if TYPE_CHECKING:
    from expcomp.rows.context import Context

_SCORES = (
    pl.col("package_id"),
    pl.col("task_id"),
    pl.col("attempt_id"),
    pl.col("label_strength").alias("_label_strength"),
    pl.col("issue").alias("_issue"),
)


def message(role: str, content: pl.Expr, *, trainable: bool) -> pl.Expr:
    """One chat message as a struct."""
    return pl.struct(
        role=pl.lit(role),
        content=content,
        reasoning=pl.lit(None, dtype=pl.String),
        tool_calls=pl.lit(None, dtype=MESSAGE.fields[3].dtype),
        tool_call_id=pl.lit(None, dtype=pl.String),
        name=pl.lit(None, dtype=pl.String),
        trainable=pl.lit(trainable),
        failed=pl.lit(None, dtype=pl.Boolean),
        media=pl.lit(None, dtype=pl.Boolean),
    ).cast(MESSAGE)


def training_example(c: Context) -> pl.DataFrame:
    """Conversations of every root attempt and context, and one instruction-to-deliverable row for each text it handed over."""
    base = c.attempts.filter("is_root")
    talk = base.join(c.chats, on="attempt_id", how="inner", maintain_order="left").select(
        *_SCORES,
        refs("trace_ref", "grade_ref"),
        "messages",
        "passed",
        example_kind=pl.lit("conversation"),
        tools="task_tools",
        score=pl.when("usable").then("score_norm"),
        n_messages="n_messages",
        n_tool_calls=pl.col("n_calls").cast(pl.Int32),
        _passed="passed",
        _discriminator=worded("context_{}", "context_id"),
    )
    files = c.tables["artifacts"].filter(pl.col("content").is_not_null() & (pl.col("kind") == "file"))
    name = pl.col("uri").str.split("/").list.last()
    given = (
        base.join(
            files.select("attempt_id", "uri", "content"), on="attempt_id", how="inner", maintain_order="left_right"
        )
        .filter(pl.col("instruction").is_not_null())
        .select(
            *_SCORES,
            refs("task_source_ref", "grade_ref", "uri"),
            "passed",
            messages=pl.concat_list(
                message("user", pl.concat_str("instruction", pl.lit("\n\n"), name), trainable=False),
                message("assistant", pl.col("content"), trainable=True),
            ).cast(CHAT),
            example_kind=pl.lit("deliverable"),
            tools=pl.lit(None, dtype=pl.String),
            deliverable_ref="uri",
            score=pl.when("usable").then("score_norm"),
            n_messages=pl.lit(2, dtype=pl.Int32),
            n_tool_calls=pl.lit(0, dtype=pl.Int32),
            _passed="passed",
            _discriminator="uri",
        )
    )
    return pl.concat([talk, given], how="diagonal")


def reward_model(c: Context) -> pl.DataFrame:
    """One row for each graded attempt: prompt, completion, reward in 0..1 with the raw score and its scale."""
    grades = c.tables["grades"]
    primary = grades.filter(pl.col("is_primary")).select("attempt_id", "failed_criteria", grade_source="source_ref")
    place = c.attempts.select("attempt_id", "package_id")
    primary = primary.join(place, on="attempt_id", how="left", maintain_order="left").pipe(by_id, c.private)
    criterion = (
        grades.filter(~pl.col("is_primary") & pl.col("rubric_item_id").is_not_null())
        .with_columns(
            item=pl.struct(
                rubric_item_id="rubric_item_id",
                reward=pl.when(pl.col("valid") & (pl.col("score_max") > pl.col("score_min"))).then(
                    (pl.col("value") - pl.col("score_min")) / (pl.col("score_max") - pl.col("score_min"))
                ),
                passed="passed",
            ).cast(CRITERION_REWARD)
        )
        .group_by("attempt_id", maintain_order=True)
        .agg(criterion_rewards="item")
    )
    return (
        c.attempts.join(primary.drop("package_id"), on="attempt_id", how="inner", maintain_order="left")
        .join(c.transcripts, on="attempt_id", how="left", maintain_order="left")
        .join(criterion, on="attempt_id", how="left", maintain_order="left")
        .select(
            *_SCORES,
            refs("grade_source", "trace_ref"),
            "prompt",
            "completion",
            "passed",
            "failed_criteria",
            "criterion_rewards",
            tools="task_tools",
            reward=pl.when("usable").then("score_norm"),
            score_raw="score",
            score_min="score_min",
            score_max="score_max",
            _contexts="n_contexts",
        )
    )


def rollout(c: Context) -> pl.DataFrame:
    """One row for each root attempt: prompt, ordered transitions and the terminal reward."""
    transition = pl.struct(
        step_index="step_index",
        observation="state_before",
        action="action",
        response="response",
        reward="local_reward",
        success="success",
    ).cast(TRANSITION)
    walked = (
        c.agent_steps.filter(pl.col("duplicate_of").is_null())
        .group_by("attempt_id", maintain_order=True)
        .agg(transitions=transition, n_steps_done=pl.len().cast(pl.Int32))
    )
    return (
        c.attempts.filter("is_root")
        .join(walked, on="attempt_id", how="left", maintain_order="left")
        .join(c.transcripts.select("attempt_id", "prompt"), on="attempt_id", how="left", maintain_order="left")
        .select(
            *_SCORES,
            refs("trace_ref", "grade_ref", "source_uri"),
            "prompt",
            "transitions",
            "passed",
            terminal_reward=pl.when("usable").then("score_norm"),
            termination_reason="stop_reason",
            status=pl.col("status").cast(pl.String),
            n_steps="n_steps_done",
            _unreadable=pl.col("trace_ref").is_null() & (pl.col("source_format") == "packages"),
        )
    )


ATTEMPT_FAMILIES: tuple[RowFamily, ...] = (
    RowFamily(BY_NAME["training_example"], ("attempts", "messages", "artifacts"), training_example),
    RowFamily(BY_NAME["reward_model_row"], ("attempts", "grades", "messages"), reward_model),
    RowFamily(BY_NAME["agentic_rl_rollout"], ("attempts", "steps", "messages"), rollout),
)
