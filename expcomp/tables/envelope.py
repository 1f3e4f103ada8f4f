"""What every row carries beside its content: identity, place, evidence, measured quality, verdict of the gates."""

from __future__ import annotations

import polars as pl

from expcomp.tables._spec import Column, Table, flag, small, text, texts

QUALITY = pl.Struct(
    {
        "quality_score": pl.Float64(),
        "fidelity": pl.Float64(),
        "completeness": pl.Float64(),
        "label_strength": pl.Float64(),
        "difficulty": pl.Float64(),
        "learnability": pl.Float64(),
        "novelty": pl.Float64(),
        "redactions": pl.Int32(),
    }
)
QUALITY_PARTS = tuple(f.name for f in QUALITY.fields)

ENVELOPE: dict[str, Column] = {
    "schema_version": text("version of this contract", nullable=False),
    "row_type": text("family", nullable=False),
    "row_id": text("digest of version, family, package, attempt, step, discriminator and content", nullable=False),
    "content_hash": text("sha256 of the content columns, see hash_rule in manifest.json", nullable=False),
    "package_id": text("package folder, results file or trial folder", nullable=False),
    "task_id": text("task"),
    "attempt_id": text("attempt; null for rows above attempts"),
    "attempt_kind": text("baseline, revised, ... for packages"),
    "trace_id": text("native trace or session"),
    "step_index": small("0-based position of the step in the source list"),
    "domain": text("domain of the task as declared"),
    "subdomain": text("second level of domain"),
    "workflow_family": text("family of workflows"),
    "split": text("as published by the source"),
    "evidence_ids": texts("files the row was made from, see tables/evidence", nullable=False),
    "quality": Column(QUALITY, "measured parts only; null where nothing was measured", nullable=False),
    "accepted": flag("no gate objects", nullable=False),
    "reject_reasons": texts("all gates that object", nullable=False),
}
HASH_EXCLUDE = tuple(n for n in ENVELOPE if n not in ("row_type", "schema_version", "content_hash"))
"""Keys of a row's JSON object that its content hash leaves out, beside content_hash itself."""


def row_table(name: str, description: str, columns: dict[str, Column]) -> Table:
    """The table of a row family: envelope, then content."""
    return Table(
        name,
        description,
        {**ENVELOPE, **columns},
        {
            "content_hash|form": pl.col("content_hash").str.contains(r"^sha256:[0-9a-f]{64}$").fill_null(value=False),
            "accepted|reasons": (pl.col("accepted") == (pl.col("reject_reasons").list.len() == 0)).fill_null(
                value=False
            ),
            "row_type|family": (pl.col("row_type") == name).fill_null(value=False),
        },
        keys=("row_id",),
    )
