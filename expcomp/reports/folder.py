"""A report as a folder, published in one step."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from expcomp.io.digest import sha256_file
from expcomp.io.documents import write_json, write_text
from expcomp.io.files import listing
from expcomp.io.publish import publish
from expcomp.reports.report import FIGURES, SCHEMA_VERSION
from expcomp.version import __version__

if TYPE_CHECKING:
    from expcomp.reports.report import Report


def write(report: Report, out: str | Path, *, force: bool) -> None:
    """Write all documents and figures.

    Raises:
        OutputError: `out` exists or cannot be written.
    """
    with publish(Path(out), force=force) as staging:
        drawn = [f for s in report.sections for f in s.figures]
        if drawn:
            (staging / FIGURES).mkdir()
        for figure in drawn:
            write_text(staging / FIGURES / f"{figure.id}.svg", figure.svg.decode())
        write_text(staging / "report.md", report.to_markdown(figures=FIGURES))
        write_text(staging / "report.html", report.to_html())
        write_text(staging / "report.json", report.to_json())
        files = [
            {"path": p, "bytes": (staging / p).stat().st_size, "sha256": sha256_file(staging / p)}
            for p in listing(staging)
        ]
        write_json(
            staging / "manifest.json",
            {"schema_version": SCHEMA_VERSION, "generator": f"expcomp {__version__}", "kind": "report", "files": files},
        )
