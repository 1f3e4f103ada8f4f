"""OpenInference: spans as OTLP/JSON with flattened attributes, as JSON of Phoenix, or as its span frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expcomp.sources._contract import Found, Frames, ReadOptions, Unit
from expcomp.sources._units import file_unit
from expcomp.sources.telemetry._phoenix import is_phoenix
from expcomp.sources.telemetry.otel import folder_group, is_openinference, is_otlp, read_otlp

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from expcomp.sources._look import Look


class OpenInference:
    """Reader of OTLP files with OpenInference spans, and of what Phoenix gives out."""

    name = "openinference"
    summary = "OpenInference spans (Phoenix): OTLP/JSON with flattened llm.* attributes, span JSON, span frames (Parquet, CSV)"
    carries = {  # noqa: RUF012 - read only, by contract of the protocol
        "system_prompt": "yes",
        "tools": "yes",
        "reasoning": "some",
        "verdict": "annotations",
        "trial": "metadata",
        "tokens": "yes",
        "cost": "some",
        "times": "yes",
        "token_ids": "no",
    }

    def claims_folder(self, folder: Path, names: frozenset[str]) -> bool:
        """Never: exports are files."""
        return False

    def claims_file(self, look: Look) -> bool:
        """An OTLP export request with OpenInference attributes, or spans of Phoenix, as JSON or as a table."""
        return (is_otlp(look) and is_openinference(look)) or is_phoenix(look)

    def units(self, path: Path, root: Path, found: Found) -> None:
        """One unit a file; files of a folder are one group, since spans of a trace may be in several."""
        file_unit(self.name, path, root, found, folder_group(self.name, path, root))

    def read(self, units: Sequence[Unit], options: ReadOptions) -> Frames:
        """Read exports; spans of a trace are joined over all units."""
        return read_otlp(self.name, units, options)


SOURCE = OpenInference()
