"""`report`: what a ledger, a compile or traces show, as Markdown, HTML and JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from expcomp.reports.cells import plain
from expcomp.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from expcomp.reports.model import Section

SCHEMA_VERSION = "expcomp_report_v1"
FIGURES = "figures"


@dataclass(frozen=True)
class Report:
    """Sections with tables and figures; it holds no clock and no path, so equal input gives an equal report.

    Attributes:
        title: Title.
        kind: What it is about: `ledger`, `compile`, `traces` or `frame`.
        sections: Only those with data.
    """

    title: str
    kind: str
    sections: tuple[Section, ...]

    def to_markdown(self, *, figures: str | None = None) -> str:
        """GitHub Markdown. Figures are named in words, or shown from a folder `figures` beside the document."""
        from expcomp.reports.markdown import to_markdown

        return to_markdown(self.title, self.sections, figures)

    def to_html(self) -> str:
        """One page that needs nothing else: figures inside, tables that sort, no network."""
        from expcomp.reports.html import to_html

        return to_html(self.title, self.sections)

    def to_dict(self) -> dict[str, Any]:
        """Every table in full, rows as objects; what is unknown is null."""
        return {
            "schema_version": SCHEMA_VERSION,
            "generator": f"expcomp {__version__}",
            "title": self.title,
            "kind": self.kind,
            "sections": [_section(s) for s in self.sections],
        }

    def to_json(self) -> str:
        """`to_dict` as an indented document."""
        from expcomp.io.documents import json_document

        return json_document(self.to_dict())

    def write(self, out: str | Path, *, force: bool = False) -> None:
        """Publish a folder in one step: report.md, report.html, report.json, figures, and manifest.json with their digests.

        Raises:
            OutputError: `out` exists or cannot be written.
        """
        from expcomp.reports.folder import write

        write(self, out, force=force)

    def __repr__(self) -> str:
        return f"Report({self.title!r}: {', '.join(s.id for s in self.sections)})"

    def _repr_html_(self) -> str:
        from expcomp.reports.html import to_fragment

        return to_fragment(self.title, self.sections)


def report(
    what: Any,
    *,
    baseline: str | None = None,
    treatment: str | Sequence[str] | None = None,
    confidence: float = 0.95,
    score_scale: tuple[float, float] | None = None,
    title: str = "Report",
) -> Report:
    """Report on a Ledger, Compilation, TraceSet or frame of trials, or on what stands at a path.

    Args:
        what: Object, path, or paths of traces.
        baseline: Arm or role to compare with; by default the role `baseline`, where arms have roles.
        treatment: Arms or roles that are compared with it; by default the role `treatment`.
        confidence: Of all intervals.
        score_scale: Low and high end of scores whose scale is not known.
        title: Title.

    Raises:
        UsageError: Only one of the arms is named, or there is no such arm.
        SourceError: A path cannot be read.
        StatsError: `confidence` is not between 0 and 1.
    """
    from expcomp.reports.compared import arms_of, comparison_sections
    from expcomp.reports.compiled import compile_section, diagnostics_section
    from expcomp.reports.given import given_of
    from expcomp.reports.repeats import gap_sections, passk_section
    from expcomp.reports.runs import failures_section, read_section, runs_section
    from expcomp.stats.inputs import level

    level(confidence)
    given = given_of(what, score_scale)
    arms = arms_of(given, baseline, treatment)
    sections = (
        read_section(given),
        runs_section(given, confidence),
        *comparison_sections(given, arms, confidence, score_scale),
        *gap_sections(given, arms, confidence, score_scale),
        passk_section(given, confidence),
        failures_section(given, confidence),
        compile_section(given),
        diagnostics_section(given),
    )
    return Report(plain(title), given.kind, tuple(s for s in sections if s is not None))


def _section(section: Section) -> dict[str, Any]:
    return {
        "id": section.id,
        "title": section.title,
        "text": list(section.text),
        "tables": [
            {"id": t.id, "title": t.title, "note": t.note or None, "rows": json.loads(t.frame.write_json())}
            for t in section.tables
        ],
        "figures": [
            {"id": f.id, "title": f.title, "alt": f.alt, "file": f"{FIGURES}/{f.id}.svg"} for f in section.figures
        ],
    }
