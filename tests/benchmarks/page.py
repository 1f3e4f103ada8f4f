"""The benchmarks page: Markdown tables of what runs of the benchmarks measured, a section a run."""

from __future__ import annotations

import math
import os
import platform
import re
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

HEAD = ("stage", "size", "unit", "ours", "floor", "ours/floor", "peer", "ours/peer", "peak", "growth")
ORDER = (
    "read", "compile", "verify", "dataset", "decontaminate", "near duplicates", "scale", "engine", "pack", "ledger", "compare",
    "environment", "training", "secrets", "redact",
)  # fmt: skip
"""Stages in the order of the table; others come after them."""
PACKAGES = ("polars", "pyarrow", "pandera", "numpy", "duckdb", "datasets", "datasketch", "deltalake", "ray")
TITLE = "# Benchmarks"
ABOUT = """
What each stage costs, beside the least that the work takes and beside another tool. A section is one run on one machine; a ratio is of
two figures of that run, so compare ratios, not seconds. Made with `python -m pytest tests/benchmarks -m benchmark --page FILE`; sizes are
in `tests/benchmarks/sizes.py`.

* **unit**: `CPU` is user and system time of all threads and processes, `wall` the clock. Verbs (`expcomp read` and so on) are measured with
  the start of Python and of their workers, about which a line of its own says; functions without it, and warm.
* **floor**: the least that any program does with the same bytes (open, hash and parse them; or read and write them).
* **peer**: another tool in the same run. It does the same work where the line says no more, and the part of it that is named otherwise; of
  several peers that are installed, the cheapest. Where **ours/peer** is below 1 we are cheaper.
* **peak**: memory of all processes together (PSS), or of the process of the function, what was made for it included.
* **growth**: cost of one unit (file, step, row) at this size over that at a smaller one, mostly a fifth or a tenth; 1 is linear. The start
  of a verb is taken out of both.
* An empty cell was not measured.
""".strip()


@dataclass
class Page:
    """Lines of the table, by stage, and notes below it."""

    lines: list[tuple[str, ...]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(
        self,
        stage: str,
        size: str,
        ours: float,
        *,
        unit: str = "s wall",
        floor: tuple[str, float] | float | None = None,
        peer: tuple[str, float] | None = None,
        memory_mib: float | None = None,
        growth: float | None = None,
    ) -> None:
        """One line; what was not measured stays empty. A floor that needs no name is a number."""
        least = ("", floor) if isinstance(floor, float | int) else floor
        self.lines.append(
            (
                stage,
                size,
                unit,
                _figure(ours),
                _named(least),
                _ratio(ours, least),
                _named(peer),
                _ratio(ours, peer),
                "" if memory_mib is None else f"{memory_mib:,.0f} MiB",
                "" if growth is None else f"{growth:.2f}",
            )
        )

    def note(self, markdown: str) -> None:
        """A table or a sentence of its own below the table."""
        self.notes.append(markdown.strip())

    def section(self, title: str, about: str = "") -> str:
        """The table and the notes below a heading."""
        rows = "\n".join(f"| {' | '.join(line)} |" for line in sorted(self.lines, key=_place))
        head = f"| {' | '.join(HEAD)} |\n|{' --- |' * 3}{' ---: |' * (len(HEAD) - 3)}"
        return "\n\n".join([f"## {title}", f"{machine()} {about}".strip(), f"{head}\n{rows}", *self.notes])

    def written(self, before: str, title: str, about: str = "") -> str:
        """The page with this section, in the place of one with the same title, else last; other sections of it stay."""
        _, *kept = re.split(r"^(?=## )", before, flags=re.MULTILINE)
        sections = {part.split("\n", 1)[0][3:]: part.strip() for part in kept} | {title: self.section(title, about)}
        return "\n\n".join([TITLE, ABOUT, *sections.values()]) + "\n"

    def write(self, path: Path, title: str, about: str = "") -> None:
        """Write the page, keeping other sections that the file has."""
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        path.write_text(self.written(before, title, about), encoding="utf-8")


def machine() -> str:
    """Where a section was measured: processors, memory and versions."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    found = []
    for name in PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return f"{os.cpu_count()} processors, {memory:.0f} GiB, Python {platform.python_version()}, {', '.join(found)}."


def _figure(value: float) -> str:
    """Three digits, and all before the point."""
    return f"{value:,.{max(0, 2 - math.floor(math.log10(value)))}f}" if 1e-3 <= value < 100 else f"{value:,.0f}"


def _named(figure: tuple[str, float] | None) -> str:
    if figure is None:
        return ""
    name, value = figure
    return f"{_figure(value)} {name}".strip()


def _ratio(ours: float, figure: tuple[str, float] | None) -> str:
    return f"{ours / figure[1]:.2f}" if figure is not None and figure[1] else ""


def _place(line: tuple[str, ...]) -> int:
    return next((n for n, stage in enumerate(ORDER) if line[0].startswith(stage)), len(ORDER))
