"""Options that several verbs share, and what they become."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from expcomp.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    import polars as pl

    from expcomp.io.engine import Engine
    from expcomp.sources._contract import ReadOptions

Json = Annotated[bool, typer.Option("--json", help="Print the result as one JSON document on stdout, nothing else.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
Out = Annotated[Path, typer.Option("--out", "-o", help="Folder to publish; must not exist, unless --force.")]
Force = Annotated[bool, typer.Option("--force", help="Replace an earlier output in one step.")]
Workers = Annotated[int | None, typer.Option("--workers", min=1, help="Worker processes; default: the processors.")]
Memory = Annotated[
    str | None,
    typer.Option(
        "--memory", help="Memory for all processes together, as 4GB: how many run at once; outputs do not depend on it."
    ),
]
EngineName = Annotated[
    str,
    typer.Option(
        "--engine",
        help="Where the work runs: local processes, or ray (extra: ray) for many machines, which all see inputs and output under one path; "
        "outputs do not depend on it.",
    ),
]
RayAddress = Annotated[
    str | None,
    typer.Option("--ray-address", help="Address of a running Ray cluster, or auto; default: Ray is started here."),
]
Cache = Annotated[
    Path | None,
    typer.Option(
        "--cache",
        help="Folder in which copies of addresses stay: the next run with it fetches only what the store shows to have changed.",
    ),
]
FormatName = Annotated[
    str | None, typer.Option("--format", help="Read everything as this format; default: by content.")
]
Tools = Annotated[
    str | None, typer.Option(help="Tool schemas, a JSON array or @FILE, for attempts whose file has none.")
]
System = Annotated[str | None, typer.Option(help="System prompt, text or @FILE, for attempts whose file has none.")]
Arm = Annotated[
    str | None, typer.Option(help="Arm of all attempts; for chat sets and telemetry also the column or attribute.")
]
TaskId = Annotated[
    str | None,
    typer.Option("--task-id", help="Task of attempts without one, or the column or attribute that holds it."),
]
Trial = Annotated[
    str | None, typer.Option(help="0-based trial of attempts without one, or the column or attribute that holds it.")
]
ScoreScale = Annotated[
    str | None, typer.Option("--score-scale", help="Ends of the primary grade, as LOW,HIGH, where the format has none.")
]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config", help="TOML file with error classes, status words, score scales; default: expcomp.toml, if there."
    ),
]


PARTIAL = 4
"""Exit code: something could not be read and was left out."""

CONFIG = Path("expcomp.toml")
"""Read when it is there and --config names no other."""


def read_options(
    *,
    tools: str | None,
    system: str | None,
    arm: str | None,
    task_id: str | None,
    trial: str | None,
    score_scale: str | None,
    config: Path | None,
) -> ReadOptions:
    """Options of a reading verb.

    Raises:
        UsageError: An option that cannot be read.
        ConfigError: The TOML file cannot be read.
    """
    from expcomp.sources._contract import ReadOptions
    from expcomp.sources.rules import Rules, read_rules

    rules = read_rules(config) if config is not None else read_rules(CONFIG) if CONFIG.is_file() else Rules()
    return ReadOptions(
        tools=text_option(tools, "--tools"),
        system=text_option(system, "--system"),
        arm=arm,
        task_id=task_id,
        trial=int(trial) if trial is not None and trial.isdecimal() else trial,
        score_scale=scale_option(score_scale),
        rules=rules,
    )


def text_option(value: str | None, name: str) -> str | None:
    """The value of an option, or of the file it names with `@`."""
    if value is None or not value.startswith("@"):
        return value
    from expcomp.io.documents import read_text

    return read_text(Path(value[1:]), name)


def memory_option(value: str | None) -> int | None:
    """Bytes that --memory gives."""
    from expcomp.io.memory import memory_bytes

    return None if value is None else memory_bytes(value)


def engine_option(name: str, address: str | None, workers: int | None) -> Engine:
    """The engine that --engine, --ray-address and --workers give."""
    from expcomp.io.engine import Engine

    return Engine(name, address, workers)


def scale_option(value: str | None) -> tuple[float, float] | None:
    """The ends that --score-scale gives.

    Raises:
        UsageError: It is not LOW,HIGH with LOW below HIGH.
    """
    if value is None:
        return None
    try:
        low, high = (float(part) for part in value.split(","))
    except ValueError:
        low, high = 1.0, 0.0
    if not 0 < high - low < math.inf:
        msg = f"--score-scale {value}: expected LOW,HIGH with LOW below HIGH, as in 0,1"
        raise UsageError(msg)
    return low, high


def column_names(given: list[str]) -> dict[str, str]:
    """PART=NAME options as a mapping.

    Raises:
        UsageError: One that is not of this form.
    """
    return pairs(given, "--column", "PART=NAME, as in prompt=problem")


def pairs(given: Iterable[str], option: str, expected: str) -> dict[str, str]:
    """Values of an option that are a name, `=` and a text, as a mapping.

    Raises:
        UsageError: One that is not; the message names the option, and says what is expected.
    """
    found = {}
    for text in given:
        name, _, value = text.partition("=")
        if not (name and value):
            raise UsageError(f"{option} {text}: expected {expected}")
        found[name] = value
    return found


def errors_of(diagnostics: pl.DataFrame, *, lines: str | None = None) -> dict[str, int]:
    """What could not be read and was left out, as numbers by code: the errors among what a load reports.

    Args:
        diagnostics: The table of it, or a summary.
        lines: Column of a summary that counts the lines of the table.
    """
    import polars as pl

    count = pl.len() if lines is None else pl.col(lines).sum()
    errors = diagnostics.filter(pl.col("severity") == "error")
    found = errors.group_by("code", maintain_order=True).agg(count.alias("n")).sort("code", maintain_order=True)
    return dict(zip(found["code"].to_list(), found["n"].to_list(), strict=True))
