"""The published folder of packs: one folder a pack, the tables over all of them, the search index, report and manifest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.errors import UsageError
from expcomp.io.digest import sha256_expr, sha256_file
from expcomp.io.documents import read_json, write_json
from expcomp.io.nearest import nearest
from expcomp.io.publish import publish
from expcomp.io.sinks import write_parquet
from expcomp.io.text_files import write_texts
from expcomp.packs.layout import apprenticeship_files
from expcomp.packs.pack import LAYOUTS
from expcomp.packs.render import cards, missing_files, pack_files
from expcomp.packs.search import write_index
from expcomp.tables.packs import PACK_TABLES
from expcomp.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from expcomp.packs.pack import Packs


def write_packs(packs: Packs, out: Path, *, layout: str, force: bool) -> dict[str, Any]:
    """Publish packs and return the report.

    Raises:
        OutputError: `out` exists or cannot be written.
        UsageError: There is no such layout.
    """
    if layout not in LAYOUTS:
        raise UsageError(f"there is no layout '{layout}'; known are {', '.join(LAYOUTS)}{nearest(layout, LAYOUTS)}")
    files, lacking = _tree(packs, layout)
    with publish(out, force=force) as staging:
        write_texts(staging, zip(files["path"].to_list(), files["text"].to_list(), strict=True))
        made = _tables(packs, staging) if layout == "packs" else []
        listed = files.select(
            "path",
            bytes=pl.col("text").str.len_bytes(),
            sha256=pl.concat_str(pl.lit("sha256:"), sha256_expr("text")),
        ).sort("path")
        entries = [
            {"path": path, "bytes": size, "sha256": digest}
            for path, size, digest in zip(*(listed[c].to_list() for c in listed.columns), strict=True)
        ]
        report = _report(packs, lacking, layout)
        write_json(staging / "report.json", report)
        manifest = {
            "expcomp": __version__,
            "kind": "packs",
            "layout": layout,
            "input_fingerprint": packs.fingerprint,
            "files": sorted(entries + made, key=_path),
        }
        write_json(staging / "manifest.json", manifest)
    return report


def report_problems(root: Path, manifest: Mapping[str, Any]) -> list[str]:
    """Counts of `report.json` that the tables of a published folder do not give; the ancestor's layout has no tables to count.

    Raises:
        SourceError: The report cannot be read.
    """
    report = read_json(root / "report.json")
    if not isinstance(report, dict):
        return ["report.json: holds no JSON object"]
    if manifest.get("layout") != "packs":
        return []
    counts = _told(*(pl.read_parquet(root / f"{name}.parquet", glob=False) for name in ("packs", "pack_statements")))
    return [f"report.json: {k} says {report.get(k)}, files hold {n}" for k, n in counts.items() if report.get(k) != n]


def _path(entry: dict[str, Any]) -> str:
    return str(entry["path"])


def _tree(packs: Packs, layout: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """(path, text) of all files, and (path, reason) of what is missing or empty, a line for each pack."""
    if layout == "apprenticeship":
        return apprenticeship_files(packs)
    files = pack_files(packs)
    placed = files.select("text", path=pl.concat_str(pl.lit("packs"), "pack_id", "path", separator="/"))
    return placed, missing_files(packs.packs, files)


def _tables(packs: Packs, staging: Path) -> list[dict[str, Any]]:
    """The tables over all packs, and the search index."""
    frames = {
        "packs": packs.packs.drop("description"),
        "pack_statements": packs.statements,
        "pack_tools": packs.tools,
        "pack_corrections": packs.corrections,
        "pack_artifacts": packs.artifacts,
    }
    assert set(frames) == set(PACK_TABLES)
    paths = []
    for name, frame in frames.items():
        write_parquet(frame, staging / f"{name}.parquet", {})
        paths.append(staging / f"{name}.parquet")
    paths.append(write_index(cards(packs), packs.statements, staging))
    return [{"path": p.name, "bytes": p.stat().st_size, "sha256": sha256_file(p)} for p in paths]


def _report(packs: Packs, lacking: pl.DataFrame, layout: str) -> dict[str, Any]:
    """What was made and what was not: counts by kind of pack and of statement, missing files by reason, lines withheld."""
    gone = lacking.group_by("path", "reason", maintain_order=True).agg(n=pl.len()).sort("path", "reason")
    return {
        "layout": layout,
        **_told(packs.packs, packs.statements),
        "withheld": dict(packs.withheld),
        "missing": [
            {"path": path, "reason": reason, "packs": n}
            for path, reason, n in zip(*(gone[c].to_list() for c in gone.columns), strict=True)
        ],
    }


def _told(packs: pl.DataFrame, statements: pl.DataFrame) -> dict[str, Any]:
    return {
        "packs": _counts(packs, "pack_kind"),
        "statements": _counts(statements, "kind"),
        "sections": _counts(statements, "section"),
        "packs_without_statements": packs.height - statements["pack_id"].n_unique(),
    }


def _counts(frame: pl.DataFrame, column: str) -> dict[str, int]:
    found = frame.select(pl.col(column).cast(pl.String)).to_series().value_counts().sort(column)
    return dict(zip(found[column].to_list(), found["count"].to_list(), strict=True))
