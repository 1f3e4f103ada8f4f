"""What the language of the trace2env layout cannot say: expressions, alternatives, effects and answers that read the state."""

from __future__ import annotations

import polars as pl

from expcomp.environments.records import Frames


def inexpressible(frames: Frames) -> dict[str, list[str]]:
    """Why rules and invariants cannot be said in the layout, by id."""
    conditions, mutations = frames["conditions"], frames["mutations"]
    expr = (pl.col("left_kind") == "expr") | (pl.col("right_kind") == "expr").fill_null(value=False)
    computed = pl.any_horizontal(
        pl.col(c).str.contains(r"\{=|\[[^\"']").fill_null(value=False) & (pl.col(f"{c}_kind") == "path")
        for c in ("left", "right")
    )
    reads = pl.col("value_ref").is_in(["before", "after", "expr"])
    own = mutations.filter(pl.col("owner_kind").is_in(["rule", "pending"]))
    named = pl.col("value_json").str.strip_chars('"')
    queues = own.filter((pl.col("owner_kind") == "rule") & (pl.col("op") == "schedule")).select(
        rule=pl.col("owner_id"), owner_id=named
    )
    reading = own.filter(reads | pl.col("path").str.contains(r"\{=|\[[^\"']"))
    pending = queues.join(
        reading.filter(pl.col("owner_kind") == "pending"), on="owner_id", how="semi", maintain_order="left"
    )
    rules = frames["rules"]
    templates = rules.join(
        frames["renderers"].select(renderer="renderer_id", _template="template"),
        on="renderer",
        how="left",
        maintain_order="left",
    ).with_columns(_template=pl.coalesce("observation_template", "_template"))
    many = conditions.join(
        frames["invariants"].select(owner_id="invariant_id"), on="owner_id", how="semi", maintain_order="left"
    )
    found = [
        (conditions.filter(expr)["owner_id"], "a condition is an expression"),
        (conditions.filter(computed)["owner_id"], "a condition has a computed path"),
        (conditions.filter(pl.col("group") > 0)["owner_id"], "its conditions are alternatives"),
        (many.filter(pl.len().over("owner_id") > 1)["owner_id"], "it has several conditions"),
        (reading.filter(pl.col("owner_kind") == "rule")["owner_id"], "an effect reads the state"),
        (pending["rule"], "a scheduled effect reads the state"),
        (templates.filter(pl.col("_template").str.contains("{=", literal=True))["rule_id"], "its answer is computed"),
    ]
    told: dict[str, list[str]] = {}
    for owners, why in found:
        for owner in owners.unique(maintain_order=True):
            told.setdefault(owner, []).append(f"{why}, which the layout cannot say")
    return told
