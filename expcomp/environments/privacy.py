"""Last pass before a package: no secret and no private path in any text that is copied from a recording."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from expcomp.evidence.redact import redact
from expcomp.tables.environment import UNRESOLVED

STAGE = "redaction"

COPIED: Mapping[str, tuple[str, ...]] = {
    "sources": ("label", "text"),
    "episodes": ("original_id", "task_id", "agent", "metadata_json"),
    "events": ("content", "arguments", "metadata_json"),
    "transitions": ("arguments_json", "observation"),
    "evidence": ("arguments_json", "observation_text", "rationale"),
    "facts": ("value_json",),
    "action_args": ("examples_json",),
    "renderers": ("examples",),
    "demonstrations": ("arguments_json", "state_before_json", "state_after_json", "observation"),
    "notes": ("statement",),
    "refs": ("locator", "excerpt"),
    "rejected": ("artifact_json",),
}
"""Columns with text of recordings: secrets and private paths are replaced."""

RUN: Mapping[str, tuple[str, ...]] = {
    "mutations": ("path", "value_json"),
    "action_args": ("enum_json",),
    "state_schema": ("default_json",),
    "rules": ("observation_template",),
    "conditions": ("left", "right"),
    "renderers": ("template",),
}
"""Columns that the engine runs: secrets are replaced, but a path may be a key of the world and stays."""


def redacted(frames: Mapping[str, pl.DataFrame], *, pii: bool = False) -> dict[str, pl.DataFrame]:
    """The tables without secrets; what was replaced is told in `unresolved`, by column and rule."""
    made = dict(frames)
    told: list[tuple[str, str]] = []
    for tables, paths in ((COPIED, True), (RUN, False)):
        for name, columns in tables.items():
            for column in columns:
                options = {} if paths else {"paths": ()}
                made[name], counts = redact(made[name], [column], pii=pii, **options)
                told += [(f"{name}.{column}", f"{n} tokens by {rule}") for rule, n in counts.items()]
    made["sources"] = _verbatim(frames["sources"], made["sources"])
    if told:
        start = made["unresolved"].height
        lines = pl.DataFrame(told, schema={"owner_id": pl.String, "message": pl.String}, orient="row").select(
            (pl.int_range(pl.len()) + start).cast(pl.Int32).alias("ordinal"), pl.lit(STAGE).alias("stage"), pl.all()
        )
        made["unresolved"] = pl.concat([made["unresolved"], lines.select(UNRESOLVED.schema.names())])
    return made


def _verbatim(before: pl.DataFrame, after: pl.DataFrame) -> pl.DataFrame:
    """A snapshot in which something was replaced is no longer the bytes of its id."""
    changed = (before["text"] != after["text"]).fill_null(value=False)
    return after.with_columns(text_verbatim=pl.when(changed).then(pl.lit(value=False)).otherwise("text_verbatim"))
