"""How results look on a terminal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl


def show_report(report: dict[str, Any], out: Path) -> None:
    """A compile at a glance: what was read, rows by family, why rows were rejected, what was found on the way."""
    from rich.console import Console
    from rich.table import Table

    from expcomp.io.counts import Count

    console = Console()
    total, tables, run = report["total"], report["tables"], report["run"]
    attempts = f"{Count(sum(report['attempts'].values())):attempt|attempts}"
    formats = ", ".join(f"{name} {n:,}" for name, n in report["attempts"].items())
    console.print(
        f"Read {Count(len(report['packages'])):package or file|packages or files}: {attempts}{f' ({formats})' if formats else ''}; "
        f"{tables.get('steps', 0):,} steps, {tables.get('evidence', 0):,} referenced files."
    )
    table = Table(box=None, pad_edge=False)
    for name, right in (("family", False), ("accepted", True), ("rejected", True), ("rejected because", False)):
        table.add_column(name, justify="right" if right else "left", no_wrap=not name.endswith("because"))
    silent: dict[str, list[str]] = {}
    for name, f in report["families"].items():
        if not f["generated"]:
            silent.setdefault(report["empty"][name], []).append(name)
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
    for why, names in silent.items():
        console.print(f"Empty, since {why}: {', '.join(names)}.")
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


def show_traces(summary: pl.DataFrame, skipped: pl.DataFrame, units: int, out: Path | None) -> None:
    """A load at a glance: attempts by format, model and arm, and what was reported."""
    from rich.console import Console
    from rich.table import Table

    from expcomp.io.counts import Count

    console = Console()
    total = int(summary["attempts"].sum())
    console.print(f"Read {Count(units):file or folder|files and folders}: {Count(total):attempt|attempts}.")
    table = Table(box=None, pad_edge=False)
    table.add_column("format", no_wrap=True, min_width=10)
    table.add_column("arm", overflow="fold", min_width=12)
    shown = [c for c in _COLUMNS if console.width >= _WIDE or c[1] not in _ONLY_WIDE]
    for title, _ in shown:
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("ended otherwise", overflow="fold", min_width=10)
    for row in summary.to_dicts():
        ends = ", ".join(f"{word} {row[word]}" for word in _ENDS if row[word])
        numbers = (_cell(row[name]) for _, name in shown)
        table.add_row(row["source_format"], row["arm"] or row["model"] or "-", *numbers, ends)
    console.print(table)
    for found in skipped.to_dicts():
        where = f" {found['first_file']}:" if found["first_file"] else ""
        told = f"{found['severity']} {found['code']} {found['lines']:,}:{where} {found['first_detail']}"
        console.print(told, markup=False)
    if out is not None:
        console.print(
            f"Wrote {out}. Take it up again: expcomp.scan_traces({str(out)!r}), or expcomp compile {out} --out rows."
        )


def show_datasets(manifest: dict[str, Any], out: Path) -> None:
    """Datasets at a glance: rows by config and split, why candidates were left out, what held-out sets were touched."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    table = Table(box=None, pad_edge=False)
    for name, right in (("config", False), ("rows", True), ("splits", False), ("left out", True), ("because", False)):
        table.add_column(name, justify="right" if right else "left", no_wrap=name in ("config", "rows", "left out"))
    for config in manifest["configs"]:
        why = ", ".join(f"{r} {n:,}" for r, n in sorted(config["left"].items(), key=lambda x: (-x[1], x[0])))
        splits = ", ".join(f"{s} {n:,}" for s, n in config["splits"].items())
        gone = f"{sum(config['left'].values()):,}"
        table.add_row(config["config"], f"{config['rows']:,}", splits, gone, why)
    console.print(table)
    for config in manifest["configs"]:
        tokens = config["statistics"].get("tokens")
        if tokens:
            keep = ", ".join(f"{share} % with {limit:,}" for share, limit in tokens.get("keep", {}).items())
            console.print(f"{config['config']}: longest row {tokens['max']:,} tokens; max_length keeps {keep}.")
    empty = [c["config"] for c in manifest["configs"] if not c["rows"]]
    if empty:
        console.print(f"Without rows, so not written: {', '.join(empty)}.")
    held = manifest["decontamination"]
    if held is not None:
        told = ", ".join(f"{n:,} {what}" for what, n in held["reports"].items())
        console.print(f"Held against {held['heldout_tasks']:,} tasks: {told}.")
    console.print(
        f"Wrote {out}. Settings for each trainer stand in {out / 'README.md'}; reasons in {out / 'left_out.parquet'}.",
        markup=False,
    )


def show_formats(formats: dict[str, tuple[str, dict[str, str]]]) -> None:
    """One block a format: what it is and what a file of it holds for training."""
    from rich.console import Console

    console = Console()
    for name, (summary, carries) in formats.items():
        console.print(f"[bold]{name}[/bold]: ", end="")
        console.print(summary, markup=False)
        told = "; ".join(f"{k.replace('_', ' ')}: {v}" for k, v in carries.items())
        same = set(carries.values())
        console.print(f"    {same.pop() if len(same) == 1 else told}", markup=False)


_ENDS = ("limit", "agent_error", "infra_error", "cancelled", "running", "unknown")
_COLUMNS = (
    ("attempts", "attempts"),
    ("tasks", "tasks"),
    ("passed", "passed"),
    ("failed", "failed"),
    ("no verdict", "ungraded"),
    ("steps", "n_steps"),
    ("calls", "n_tool_calls"),
    ("tokens in", "input_tokens"),
    ("out", "output_tokens"),
    ("USD", "cost_usd"),
)
_ONLY_WIDE = ("tasks", "n_steps", "n_tool_calls", "input_tokens", "output_tokens", "cost_usd")
_WIDE = 120


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:,.4f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
