"""OpenInference: spans as OTLP/JSON with flattened attributes, as Phoenix and its instrumentations write them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expcomp.sources._contract import Found, Frames, ReadOptions, Unit
from expcomp.sources._units import file_unit
from expcomp.sources.telemetry.otel import folder_group, is_openinference, is_otlp, read_otlp

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from expcomp.sources._look import Look


class OpenInference:
    """Reader of OTLP files with OpenInference spans."""

    name = "openinference"
    summary = "OpenInference spans (Phoenix): OTLP/JSON, flattened llm.* attributes"
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
        """An OTLP export request with OpenInference attributes."""
        return is_otlp(look) and is_openinference(look)

    def units(self, path: Path, root: Path, found: Found) -> None:
        """One unit a file; files of a folder are one group, since spans of a trace may be in several."""
        file_unit(self.name, path, root, found, folder_group(self.name, path, root))

    def read(self, units: Sequence[Unit], options: ReadOptions) -> Frames:
        """Read exports; spans of a trace are joined over all units."""
        return read_otlp(self.name, units, options)


SOURCE = OpenInference()
