"""The benchmarks page: one Markdown table of what a run of the benchmarks measured."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass, field
from importlib.metadata import version

HEAD = ("stage", "size", "ours", "floor", "x floor", "peer", "x peer", "peak memory", "growth")


@dataclass
class Page:
    """Lines of the table, in the order in which they were measured.

    A floor is the least any program has to do (read, hash and parse the bytes); a peer is another tool at the same work in the same run.
    Seconds of CPU where the line says so, else wall clock; growth is the time for one unit at the large size over that at the small one.
    """

    lines: list[tuple[str, ...]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(
        self,
        stage: str,
        size: str,
        ours: float,
        *,
        unit: str = "s",
        floor: float | None = None,
        peer: tuple[str, float] | None = None,
        memory_mib: float | None = None,
        growth: float | None = None,
    ) -> None:
        """One line; what was not measured stays empty."""
        self.lines.append(
            (
                stage,
                size,
                f"{ours:.2f} {unit}",
                "" if floor is None else f"{floor:.2f} {unit}",
                "" if floor is None else f"{ours / floor:.2f}",
                "" if peer is None else f"{peer[0]}: {peer[1]:.2f} {unit}",
                "" if peer is None else f"{ours / peer[1]:.2f}",
                "" if memory_mib is None else f"{memory_mib:,.0f} MiB",
                "" if growth is None else f"{growth:.2f}",
            )
        )

    def note(self, markdown: str) -> None:
        """A table or a sentence of its own below the table."""
        self.notes.append(markdown.strip())

    def markdown(self) -> str:
        """The page."""
        packages = ", ".join(f"{name} {version(name)}" for name in ("polars", "pyarrow", "pandera"))
        rows = "\n".join(f"| {' | '.join(line)} |" for line in self.lines)
        head = f"| {' | '.join(HEAD)} |\n|{' --- |' * len(HEAD)}"
        about = f"Measured on {os.cpu_count()} cores, Python {platform.python_version()}, {packages}; a ratio is of two figures of one run."
        return "\n\n".join(["# Benchmarks", about, f"{head}\n{rows}", *self.notes]) + "\n"
