"""Task, environment and domain of each pack as measured group-bys, each entry with its citations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from expcomp.packs.counting import gather
from expcomp.packs.statements import citations

if TYPE_CHECKING:
    from collections.abc import Sequence

    from expcomp.packs.facts import Facts

_VIEWS = {"surfaces": "surface", "environments": "environment", "operations": "operation", "programs": "program"}
_MEDIANS = {
    "steps_median": "n_steps",
    "tool_calls_median": "n_tool_calls",
    "seconds_median": "duration_s",
    "input_tokens_median": "input_tokens",
    "output_tokens_median": "output_tokens",
    "cost_usd_median": "cost_usd",
}


def task_specs(facts: Facts) -> pl.DataFrame:
    """(pack_id, tasks): the tasks of each pack, with attempts, verdicts and the mean score of those that have one."""
    tried = facts.attempts.group_by("pack_id", "task_id", maintain_order=True).agg(
        n_attempts=pl.len(),
        n_judged=pl.col("passed").count(),
        pass_rate=pl.col("passed").mean(),
        n_scored=pl.col("score").count(),
        score_mean=pl.col("score").mean(),
        grades=pl.col("grade").drop_nulls().unique().sort(),
    )
    tasks = (
        facts.tasks.unique(["pack_id", "task_id"], keep="first", maintain_order=True)
        .join(tried, on=["pack_id", "task_id"], how="left", maintain_order="left")
        .with_columns(
            cites=pl.concat_list(
                pl.concat_list("cite"), pl.col("grades").fill_null(pl.lit([], dtype=pl.List(pl.String)))
            )
        )
        .with_columns(citations=citations("cites"))
    )
    return _listed(
        tasks,
        "tasks",
        (
            "task_id",
            "title",
            "instruction",
            "domain",
            "subdomain",
            "workflow_family",
            "deliverables",
            "constraints",
            "n_attempts",
            "n_judged",
            "pass_rate",
            "n_scored",
            "score_mean",
            "citations",
        ),
    )


def environment_specs(facts: Facts) -> pl.DataFrame:
    """(pack_id, surfaces, environments, operations, programs): what the actions touched, with calls, failures and attempts."""
    out = facts.members.select("pack_id").unique(maintain_order=True)
    acted = facts.actions.with_columns(cites=pl.concat_list("trace"))
    for name, column in _VIEWS.items():
        seen = acted.filter(pl.col(column).is_not_null() & ~pl.col(column).cast(pl.String).is_in(["unknown", "other"]))
        found = gather(
            seen.with_columns(pl.col(column).cast(pl.String)),
            [column],
            more={"calls": pl.len(), "errors": pl.col("failed").sum()},
        ).sort("pack_id", "calls", column, descending=[False, True, False])
        found = found.with_columns(attempts="support", citations=citations("cites")).rename({column: "name"})
        listed = _listed(found, name, ("name", "calls", "errors", "attempts", "citations"))
        out = out.join(listed, on="pack_id", how="left", maintain_order="left")
    return out.filter(pl.any_horizontal(pl.col(n).is_not_null() for n in _VIEWS))


def domain_profiles(facts: Facts) -> pl.DataFrame:
    """(pack_id, models, medians, citations): who did the work, and what it took; null where nothing was recorded."""
    models = gather(
        facts.attempts.filter(pl.col("model").is_not_null()).with_columns(cites=pl.concat_list("trace")),
        ["model"],
        more={"n_judged": pl.col("passed").count(), "pass_rate": pl.col("passed").mean()},
    ).with_columns(attempts="support")
    medians = facts.attempts.group_by("pack_id", maintain_order=True).agg(
        *(pl.col(column).median().alias(name) for name, column in _MEDIANS.items()),
        cites=pl.col("trace").unique().sort(),
    )
    listed = _listed(models.sort("pack_id", "model"), "models", ("model", "attempts", "n_judged", "pass_rate"))
    return (
        medians.join(listed, on="pack_id", how="left", maintain_order="left")
        .with_columns(citations=citations("cites"))
        .drop("cites")
    )


def _listed(frame: pl.DataFrame, name: str, columns: Sequence[str]) -> pl.DataFrame:
    """One line a pack: its lines as a list of structs."""
    return frame.group_by("pack_id", maintain_order=True).agg(pl.struct(columns).alias(name))
