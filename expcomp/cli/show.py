"""How results look on a terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def show_report(report: dict[str, Any], out: Path) -> None:
    """A compile at a glance: what was read, rows by family, why rows were rejected, what was found on the way."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    total, tables, run = report["total"], report["tables"], report["run"]
    formats = ", ".join(f"{n} {name}" for name, n in report["attempts"].items()) or "no attempts"
    console.print(
        f"Read {len(report['packages'])} packages or files: attempts {formats}; "
        f"{tables.get('steps', 0):,} steps, {tables.get('evidence', 0):,} referenced files."
    )
    table = Table(box=None, pad_edge=False)
    for name, right in (("family", False), ("accepted", True), ("rejected", True), ("rejected because", False)):
        table.add_column(name, justify="right" if right else "left", no_wrap=not name.endswith("because"))
    silent = []
    for name, f in report["families"].items():
        if not f["generated"]:
            silent.append(name)
            continue
        why = ", ".join(f"{reason} {n}" for reason, n in sorted(f["reasons"].items(), key=lambda x: -x[1]))
        table.add_row(name, f"{f['accepted']:,}", f"{f['rejected']:,}", why)
    table.add_section()
    table.add_row(
        "all",
        f"{total['accepted']:,}",
        f"{total['rejected']:,}",
        f"generated {total['generated']:,} = accepted + rejected",
    )
    console.print(table)
    if silent:
        console.print(f"No source for: {', '.join(silent)}.")
    if report["redactions"]:
        console.print("Redacted: " + ", ".join(f"{rule} {n}" for rule, n in report["redactions"].items()) + ".")
    if report["diagnostics"]:
        console.print(
            "Found while reading: "
            + ", ".join(f"{code} {n}" for code, n in report["diagnostics"].items())
            + " (diagnostics.parquet)."
        )
    console.print(
        f"Wrote {out} in {run['seconds']:.1f} s. Look at rows: expcomp rows {out} preference_pair. Check it: expcomp verify {out}."
    )
