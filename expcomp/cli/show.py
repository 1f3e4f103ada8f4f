"""How results look on a terminal."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from expcomp.cli.terminal import fits, say, table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import polars as pl


def show_report(report: dict[str, Any], out: Path, left_out: Mapping[str, int]) -> None:
    """A compile at a glance: what was read, rows by family, why rows were rejected, what was found on the way and left out."""
    from rich.console import Console

    from expcomp.io.counts import Count

    console = Console()
    total, tables, run = report["total"], report["tables"], report["run"]
    attempts = f"{Count(sum(report['attempts'].values())):attempt|attempts}"
    formats = ", ".join(f"{name} {n:,}" for name, n in report["attempts"].items())
    say(
        console,
        f"Read {Count(len(report['packages'])):package or file|packages or files}: {attempts}{f' ({formats})' if formats else ''}; "
        f"{tables.get('steps', 0):,} steps, {tables.get('evidence', 0):,} referenced files.",
    )
    lines = []
    silent: dict[str, list[str]] = {}
    for name, f in report["families"].items():
        if not f["generated"]:
            silent.setdefault(report["empty"][name], []).append(name)
            continue
        why = ", ".join(f"{reason} {n}" for reason, n in sorted(f["reasons"].items(), key=lambda x: -x[1]))
        lines.append((name, f"{f['accepted']:,}", f"{f['rejected']:,}", why))
    all_of_it = f"generated {total['generated']:,} = accepted + rejected"
    lines.append(("all", f"{total['accepted']:,}", f"{total['rejected']:,}", all_of_it))
    table(console, (("family", False), ("accepted", True), ("rejected", True), ("rejected because", False)), lines)
    for why, names in silent.items():
        say(console, f"Empty, since {why}: {', '.join(names)}.")
    if report["redactions"]:
        say(console, "Redacted: " + ", ".join(f"{rule} {n}" for rule, n in report["redactions"].items()) + ".")
    if report["diagnostics"]:
        told = ", ".join(f"{code} {n}" for code, n in report["diagnostics"].items())
        say(console, f"Found while reading: {told} (diagnostics.parquet).")
    if left_out:
        told = ", ".join(f"{code} {n}" for code, n in left_out.items())
        say(console, f"Could not be read and was left out: {told}; each is an error in diagnostics.parquet.")
    at = shlex.quote(str(out))
    say(
        console,
        f"Wrote {out} in {run['seconds']:.1f} s. Look at rows: expcomp rows {at} preference_pair. Check it: expcomp verify {at}.",
    )


def show_traces(summary: pl.DataFrame, skipped: pl.DataFrame, units: int, out: Path | None) -> None:
    """A load at a glance: attempts by format, model and arm, and what was reported."""
    from rich.console import Console

    from expcomp.io.counts import Count

    console = Console()
    total = int(summary["attempts"].sum())
    say(console, f"Read {Count(units):file or folder|files and folders}: {Count(total):attempt|attempts}.")
    shown, lines = _attempts(summary, _COLUMNS)
    if not fits(console, shown, lines):
        shown, lines = _attempts(summary, [c for c in _COLUMNS if c[1] not in _ONLY_WIDE])
    table(console, shown, lines)
    for found in skipped.to_dicts():
        where = f" {found['first_file']}:" if found["first_file"] else ""
        say(console, f"{found['severity']} {found['code']} {found['lines']:,}:{where} {found['first_detail']}")
    if out is not None:
        at = shlex.quote(str(out))
        say(
            console,
            f"Wrote {out}. Take it up again: expcomp.scan_traces({str(out)!r}), or expcomp compile {at} --out rows.",
        )


def _attempts(
    summary: pl.DataFrame, numbers: Sequence[tuple[str, str]]
) -> tuple[list[tuple[str, bool]], list[tuple[str, ...]]]:
    """Columns and cells of a summary, with these of its numbers."""
    lines = []
    for row in summary.to_dicts():
        ends = ", ".join(f"{word} {row[word]}" for word in _ENDS if row[word])
        counts = (_cell(row[name]) for _, name in numbers)
        lines.append((row["source_format"], row["arm"] or row["model"] or "-", *counts, ends))
    return [("format", False), ("arm", False), *((t, True) for t, _ in numbers), ("ended otherwise", False)], lines


def show_datasets(manifest: dict[str, Any], out: Path) -> None:
    """Datasets at a glance: rows by config and split, why candidates were left out, what held-out sets were touched."""
    from rich.console import Console

    console = Console()
    lines = []
    for config in manifest["configs"]:
        why = ", ".join(f"{r} {n:,}" for r, n in sorted(config["left"].items(), key=lambda x: (-x[1], x[0])))
        splits = ", ".join(f"{s} {n:,}" for s, n in config["splits"].items())
        gone = f"{sum(config['left'].values()):,}"
        lines.append((config["config"], f"{config['rows']:,}", splits, gone, why))
    columns = (("config", False), ("rows", True), ("splits", False), ("left out", True), ("because", False))
    table(console, columns, lines)
    for config in manifest["configs"]:
        tokens = config["statistics"].get("tokens")
        if tokens:
            keep = ", ".join(f"{share} % with {limit:,}" for share, limit in tokens.get("keep", {}).items())
            say(console, f"{config['config']}: longest row {tokens['max']:,} tokens; max_length keeps {keep}.")
    empty = [c["config"] for c in manifest["configs"] if not c["rows"]]
    if empty:
        say(console, f"Without rows, so not written: {', '.join(empty)}.")
    held = manifest["decontamination"]
    if held is not None:
        told = ", ".join(f"{n:,} {what}" for what, n in held["reports"].items())
        say(console, f"Held against {held['heldout_tasks']:,} tasks: {told}.")
    say(
        console,
        f"Wrote {out}. Settings for each trainer stand in {out / 'README.md'}; reasons in {out / 'left_out.parquet'}.",
    )


def show_formats(formats: dict[str, tuple[str, dict[str, str]]]) -> None:
    """One block a format: what it is and what a file of it holds for training."""
    from rich.console import Console

    console = Console()
    for name, (summary, carries) in formats.items():
        say(console, f"{name}: {summary}")
        told = "; ".join(f"{k.replace('_', ' ')}: {v}" for k, v in carries.items())
        same = set(carries.values())
        say(console, f"    {same.pop() if len(same) == 1 else told}")


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


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:,.4f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
