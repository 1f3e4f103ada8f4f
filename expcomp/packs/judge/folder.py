"""The published folder of verdicts: the table, a report, and a manifest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.io.digest import sha256_file
from expcomp.io.documents import write_json
from expcomp.io.publish import publish
from expcomp.io.sinks import write_parquet
from expcomp.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def verdict_report(verdicts: pl.DataFrame) -> dict[str, Any]:
    """Counts of table `judge_verdicts`: rows, verdicts, errors, label sources; the scores that were given, and their mean."""
    return {
        "rows": verdicts.height,
        "verdicts": _counts(verdicts, "verdict"),
        "errors": _counts(verdicts, "error"),
        "label_sources": _counts(verdicts, "label_source"),
        "scored": int(verdicts["score"].count()),
        "score_mean": verdicts["score"].mean(),
    }


def write_verdicts(
    verdicts: pl.DataFrame,
    out: Path,
    *,
    about: Mapping[str, Any],
    run: Mapping[str, Any] | None = None,
    force: bool = False,
) -> dict[str, Any]:
    """Publish verdicts (table `judge_verdicts`) and return the report.

    `cached` speaks of the run, not of a row, and is left out of the file: a run whose answers are all kept writes the same bytes.

    Args:
        verdicts: The table.
        out: Folder to publish.
        about: What was judged and by whom, for the manifest.
        run: What the run used; stands in the report only, which no digest covers.
        force: Replace an earlier output in one step.

    Raises:
        OutputError: `out` exists or cannot be written.
    """
    report = verdict_report(verdicts)
    with publish(out, force=force) as staging:
        path = staging / "verdicts.parquet"
        rows = write_parquet(verdicts.drop("cached").rechunk(), path, {})
        entry = {"path": path.name, "rows": rows, "bytes": path.stat().st_size, "sha256": sha256_file(path)}
        write_json(staging / "manifest.json", {"expcomp": __version__, "kind": "verdicts", **about, "files": [entry]})
        write_json(staging / "report.json", report | {"run": {"cached": int(verdicts["cached"].sum()), **(run or {})}})
    return report


def _counts(frame: pl.DataFrame, column: str) -> dict[str, int]:
    found = frame.select(pl.col(column).cast(pl.String).drop_nulls()).to_series().value_counts().sort(column)
    return dict(zip(found[column].to_list(), found["count"].to_list(), strict=True))
