"""The folder of a dataset: shards under their names, side tables, card, Croissant, manifest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from expcomp.datasets import identity
from expcomp.datasets.card import card, twin_card
from expcomp.datasets.contract import Lookups
from expcomp.datasets.croissant import croissant
from expcomp.datasets.decontaminate.report import row_report, task_report
from expcomp.datasets.guard import Checked
from expcomp.datasets.options import DatasetOptions
from expcomp.datasets.recipes import dataset_info
from expcomp.datasets.select import length_report
from expcomp.datasets.shards import ShardDone
from expcomp.datasets.tokens import advice
from expcomp.io.digest import sha256_file
from expcomp.io.documents import write_json, write_text
from expcomp.io.sinks import write_parquet
from expcomp.tables.datasets import INVENTORY, LEFT_OUT, ROW_INDEX
from expcomp.tables.targets import Target
from expcomp.version import __version__


@dataclass(frozen=True)
class Built:
    """What the two passes of a build gave, by target where it is a mapping."""

    targets: Sequence[Target]
    keys: Mapping[str, pl.DataFrame]
    left: Mapping[str, pl.DataFrame]
    done: Sequence[ShardDone]
    hits: pl.DataFrame
    look: Lookups
    places: pl.DataFrame
    checked: Checked
    options: DatasetOptions


def finish(built: Built, staging: Path, input_digest: str | None, about: Mapping[str, str | None]) -> dict[str, Any]:
    """Name the shards, write what stands beside them, and return the manifest."""
    configs, index, left = [], [], []
    for target in built.targets:
        done = [d for d in built.done if d.target == target.name]
        files = _named(target, done, staging)
        keys = built.keys[target.name]
        taken = _taken(keys, done)
        gone = pl.concat([built.left[target.name], *(d.left for d in done)])
        left.append(gone.select(pl.lit(target.config).alias("config"), pl.all()))
        index.append(_index(target, taken))
        config = config_of(target, taken, files, gone)
        templates: Counter[str] = Counter()
        for shard in done:
            templates.update(shard.templates)
        config["statistics"]["templates"] = dict(sorted(templates.items()))
        configs.append(config)
    side = {
        "inventory": _inventory(built, pl.concat(index)),
        "left_out": pl.concat(left).cast(LEFT_OUT.schema).sort(pl.all()),
        "row_index": pl.concat(index),
    }
    side |= _reports(built)
    tables = []
    for name, frame in side.items():
        path = staging / f"{name}.parquet"
        rows = write_parquet(frame, path, {})
        tables.append({"path": path.name, "rows": rows, "bytes": path.stat().st_size, "sha256": sha256_file(path)})
    manifest: dict[str, Any] = {
        "expcomp_version": __version__,
        "name": about.get("name"),
        "license": about.get("license"),
        "url": about.get("url"),
        "input_digest": input_digest,
        "options": built.options.to_dict(),
        "decontamination": _decontamination(built),
        "configs": configs,
        "tables": tables,
    }
    known = side["inventory"].filter(pl.col("content_digest").is_not_null())
    manifest["task_set_digest"] = identity.task_set_digest(known)
    manifest["digest"] = identity.dataset_digest(manifest)
    _documents(manifest, staging, about.get("date"))
    return manifest


def _named(target: Target, done: Sequence[ShardDone], staging: Path) -> list[dict[str, Any]]:
    """Rename the shards that hold rows to `<split>-0000N-of-000NN`, and list them."""
    files = []
    folder = staging / "data" / target.config
    for split in dict.fromkeys(d.split for d in done):
        full = sorted((d for d in done if d.split == split and d.files), key=lambda d: d.number)
        for place, shard in enumerate(full):
            for ending, written in shard.files.items():
                path = folder / f"{split}-{place:05}-of-{len(full):05}.{ending}"
                (folder / f"{split}-{shard.number:05}.{ending}").rename(path)
                name = path.relative_to(staging).as_posix()
                files.append({"path": name, "split": split} | written._asdict())
    if folder.is_dir() and not files:
        folder.rmdir()
    return sorted(files, key=lambda f: str(f["path"]))


def _taken(keys: pl.DataFrame, done: Sequence[ShardDone]) -> pl.DataFrame:
    """Keys of the rows that are in the files."""
    if not done:
        return keys.clear()
    order = {(d.split, d.number): d.taken for d in done}
    parts = [
        part.filter(order[part["split"][0], int(part["_shard"][0])])
        for part in keys.partition_by("split", "_shard", maintain_order=True)
    ]
    return pl.concat(parts)


def _index(target: Target, taken: pl.DataFrame) -> pl.DataFrame:
    """Where each row stands, and what a curriculum sorts by."""
    columns = {
        "config": pl.lit(target.config),
        "position": pl.int_range(pl.len()).over("split"),
        "bytes": pl.col("_size"),
        "loss_chars": pl.col("_chars"),
        "tokens": pl.col("_tokens") if "_tokens" in taken.columns else pl.lit(None),
    }
    exprs = [
        columns[n].alias(n) if n in columns else pl.col(n) if n in taken.columns else pl.lit(None).alias(n)
        for n in ROW_INDEX.columns
    ]
    return taken.select(exprs).cast(ROW_INDEX.schema)


def config_of(target: Target, taken: pl.DataFrame, files: list[dict[str, Any]], left: pl.DataFrame) -> dict[str, Any]:
    """One config of the manifest."""
    splits = taken["split"].value_counts().sort("split")
    reasons = left["reason"].value_counts().sort("reason")
    return {
        "config": target.config,
        "target": target.name,
        "rows": taken.height,
        "columns": list(target.columns),
        "splits": dict(zip(splits["split"], splits["count"], strict=True)),
        "files": files,
        "candidates": taken.height + left.height,
        "left": dict(zip(reasons["reason"], reasons["count"], strict=True)),
        "statistics": _statistics(target, taken),
    }


def _statistics(target: Target, taken: pl.DataFrame) -> dict[str, Any]:
    found: dict[str, Any] = {"tasks": taken["task_id"].n_unique()}
    if "attempt_id" in taken.columns:
        found["attempts"] = taken["attempt_id"].n_unique()
    if target.kind not in ("process", "world"):
        found["system"] = int(taken["_has_system"].sum())
        found["tools"] = int(taken["_has_tools"].sum())
    if "_tokens" in taken.columns and taken.height:
        found["tokens"] = advice(taken["_tokens"])
    if target.kind == "judged":
        good = int(taken["label"].sum())
        found["labels"] = {"true": good, "false": taken.height - good}
    if target.kind == "pair" and taken.height:
        lengths = length_report(taken)
        found["chosen_longer"] = lengths["share_longer"]
        found["length_correlation"] = lengths["length_margin_correlation"]
        levels = taken["pair_level"].value_counts().sort("pair_level")
        found["pair_levels"] = dict(zip(levels["pair_level"], levels["count"], strict=True))
    return found


def _inventory(built: Built, index: pl.DataFrame) -> pl.DataFrame:
    """Every task in any config, with its identity, its texts and its split: the next dataset's held-out set."""
    rows = index.group_by("task_id", "split", maintain_order=True).agg(n_rows=pl.len().cast(pl.Int64))
    facts = built.look.tasks.select("task_id", "benchmark", "task", "content_digest", "instruction", "target")
    return (
        rows.join(facts, on="task_id", how="left", maintain_order="left")
        .join(built.places.select("task_id", "group"), on="task_id", how="left", maintain_order="left")
        .with_columns(
            benchmark=pl.col("benchmark").fill_null("unnamed"), task=pl.coalesce("task", "task_id").str.strip_chars()
        )
        .select(list(INVENTORY.columns))
        .cast(INVENTORY.schema)
        .sort("task_id", "split")
    )


def _reports(built: Built) -> dict[str, pl.DataFrame]:
    if built.checked.held is None:
        return {}
    return {
        "decontamination_tasks": task_report(built.checked.held, built.checked.hits, built.hits),
        "decontamination_rows": row_report(built.checked.held, built.hits),
    }


def _decontamination(built: Built) -> dict[str, Any] | None:
    held = built.checked.held
    if held is None:
        return None
    counts = Counter(reason for gone in built.left.values() for reason in gone["reason"])
    review = built.hits.filter(pl.col("verdict") == "review")["row_id"].n_unique()
    index = built.checked.index
    return {
        "heldout_tasks": held.height,
        "tasks_found": built.checked.banned.height,
        "reports": {
            "candidates of held-out tasks left out": counts["held_out_task"],
            "candidates with held-out text left out": counts["contaminated"],
            "rows to review": review,
        },
        "index": {} if index is None else dict(index.counts),
    }


def _documents(manifest: dict[str, Any], staging: Path, date: str | None) -> None:
    write_text(staging / "README.md", card(manifest))
    twin = twin_card(manifest)
    if twin is not None:
        write_text(staging / "data" / "README.md", twin)
    write_json(staging / "croissant.json", croissant(manifest, date=date))
    info = dataset_info(manifest["configs"])
    if info:
        write_json(staging / "dataset_info.json", info)
    write_json(staging / "manifest.json", manifest)
