"""Rollout groups: all usable attempts at one task."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from expcomp.rows.family import RowFamily
from expcomp.rows.pairs import shared_prefix
from expcomp.tables.families import BY_NAME
from expcomp.tables.family import CHAT

if TYPE_CHECKING:
    from expcomp.rows.context import Context


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


GROUP_FAMILIES: tuple[RowFamily, ...] = (RowFamily(BY_NAME["grpo_rollout_group"], ("attempts", "messages"), grpo),)
