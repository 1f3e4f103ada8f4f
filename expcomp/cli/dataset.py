"""`expcomp dataset`: rows of a compile as the files that trainers load."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from expcomp.cli.options import (
    EngineName,
    Force,
    Json,
    Memory,
    Out,
    Quiet,
    RayAddress,
    Workers,
    column_names,
    engine_option,
    memory_option,
    text_option,
)
from expcomp.errors import UsageError


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("dataset")(dataset)


def dataset(
    compiled: Annotated[Path, typer.Argument(help="Output folder of a compile.")],
    out: Out,
    to: Annotated[
        list[str],
        typer.Option(
            "--to",
            help="Targets, comma-separated: trl-sft, verl-rl, ...; a trainer's name for all of its targets.",
        ),
    ],
    against: Annotated[
        list[str] | None, typer.Option(help="Held-out set: file, compile output, or dataset folder. Repeatable.")
    ] = None,
    column: Annotated[
        list[str] | None, typer.Option(help="Column of held-out files, as prompt=problem. Repeatable.")
    ] = None,
    split: Annotated[str, typer.Option(help="Splits and shares, as train=0.9,test=0.1.")] = "train=1",
    seed: Annotated[str, typer.Option(help="Seed of splits and order.")] = "expcomp",
    group: Annotated[str, typer.Option(help="Unit of the split: task, repository, template or user.")] = "task",
    before: Annotated[str | None, typer.Option(help="ISO date: tasks first tried later go to the last split.")] = None,
    max_attempts: Annotated[int, typer.Option(min=1, help="SFT: attempts of a task at the most.")] = 3,
    min_words: Annotated[int, typer.Option(min=0, help="SFT: words of the agent in a row without calls.")] = 16,
    train_failed: Annotated[
        bool, typer.Option("--train-failed", help="SFT: failed turns carry loss, too, though later turns go on.")
    ] = False,
    keep_truncated: Annotated[
        bool, typer.Option("--keep-truncated", help="SFT: keep passed attempts that hit a limit or are cut.")
    ] = False,
    keep_unasked: Annotated[
        bool, typer.Option("--keep-unasked", help="Keep conversations without a user turn.")
    ] = False,
    min_margin: Annotated[float, typer.Option(min=0, max=1, help="Pairs: least difference of scores.")] = 0.5,
    max_pairs: Annotated[int, typer.Option(min=1, help="Pairs: pairs of a task at the most.")] = 4,
    length_ratio: Annotated[
        str, typer.Option(help="Pairs: bounds of the ratio of lengths, as 0.5,2; `any` keeps all.")
    ] = "0.5,2",
    longer_share: Annotated[
        str, typer.Option(help="Pairs: bounds of the share of longer chosen sides, as 0.45,0.55; `any` keeps all.")
    ] = "0.45,0.55",
    pass_rate: Annotated[str, typer.Option(help="GRPO: band of pass rates, as 0.1,0.9.")] = "0.1,0.9",  # noqa: S107
    min_attempts: Annotated[int, typer.Option(min=1, help="GRPO: attempts behind a pass rate.")] = 2,
    class_ratio: Annotated[float, typer.Option(min=1, help="KTO: largest ratio of the classes.")] = 4.0,
    near: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Leave out near duplicates from this similarity on (extra: dedup)."),
    ] = None,
    tokenizer: Annotated[
        str | None, typer.Option(help="Folder or file of a tokenizer: tokens are counted (extra: tokenizers).")
    ] = None,
    max_tokens: Annotated[int | None, typer.Option(min=1, help="Leave out rows with more tokens.")] = None,
    templates: Annotated[
        str | None, typer.Option(help="Folder of chat templates (.jinja) that have to render every row.")
    ] = None,
    system: Annotated[str | None, typer.Option(help="System prompt, text or @FILE, for rows without one.")] = None,
    tools: Annotated[
        str | None, typer.Option(help="Tool schemas, a JSON array or @FILE, for rows without any.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name on the card.")] = None,
    license_: Annotated[str | None, typer.Option("--license", help="Licence on the card.")] = None,
    url: Annotated[str | None, typer.Option(help="Address on the card.")] = None,
    date: Annotated[str | None, typer.Option(help="Date of publication, ISO.")] = None,
    force: Force = False,
    workers: Workers = None,
    memory: Memory = None,
    engine: EngineName = "local",
    ray_address: RayAddress = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Build datasets that trainers load as they are.

    Example: expcomp dataset out --to trl-sft,trl-dpo --against heldout.jsonl --out ds
    """
    from expcomp.io.pool import prepare

    where = engine_option(engine, ray_address, workers)
    if workers != 1 and not where.remote:
        prepare(("expcomp.datasets.stage", "expcomp.datasets.shards", "pyarrow.parquet"))
    from expcomp.datasets.build import write_datasets
    from expcomp.datasets.options import DatasetOptions
    from expcomp.io.documents import json_document
    from expcomp.io.progress import Progress

    options = DatasetOptions(
        splits=_splits(split),
        seed=seed,
        group=group,
        before=before,
        max_attempts=max_attempts,
        min_words=min_words,
        mask_failed=not train_failed,
        keep_truncated=keep_truncated,
        keep_unasked=keep_unasked,
        min_margin=min_margin,
        max_pairs=max_pairs,
        length_ratio=_bounds(length_ratio, "--length-ratio"),
        longer_share=_bounds(longer_share, "--longer-share"),
        pass_rate=_bounds(pass_rate, "--pass-rate") or (0.0, 1.0),
        min_attempts=min_attempts,
        class_ratio=class_ratio,
        near=near,
        tokenizer=tokenizer,
        max_tokens=max_tokens,
        templates=templates,
        system=text_option(system, "--system"),
        tools=text_option(tools, "--tools"),
    )
    manifest = write_datasets(
        compiled,
        [t.strip() for part in to for t in part.split(",") if t.strip()],
        out,
        against=against or (),
        columns=column_names(column or []),
        options=options,
        about={"name": name, "license": license_, "url": url, "date": date},
        force=force,
        processes=workers,
        memory=memory_option(memory),
        progress=Progress(show=not quiet),
        engine=where,
    )
    if as_json:
        print(json_document(manifest), end="")
    elif not quiet:
        from expcomp.cli.show import show_datasets

        show_datasets(manifest, out)
    if not any(c["rows"] for c in manifest["configs"]):
        raise typer.Exit(4)


def _splits(value: str) -> tuple[tuple[str, float], ...]:
    try:
        pairs = [part.split("=") for part in value.split(",")]
        return tuple((name.strip(), float(share)) for name, share in pairs)
    except ValueError as error:
        msg = f"--split {value}: expected names and shares, as in train=0.9,test=0.1"
        raise UsageError(msg) from error


def _bounds(value: str, name: str) -> tuple[float, float] | None:
    if value == "any":
        return None
    try:
        low, high = (float(part) for part in value.split(","))
    except ValueError:
        low, high = 1.0, 0.0
    if not low <= high:
        msg = f"{name} {value}: expected LOW,HIGH, or any"
        raise UsageError(msg)
    return low, high
