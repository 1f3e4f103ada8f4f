"""The folder of a dataset: shards under their names, side tables, card, Croissant, manifest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
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
from expcomp.io.hashing import written
from expcomp.io.sinks import join_ranges, write_parquet
from expcomp.io.staging import discard, drop_empty, move
from expcomp.tables.datasets import INVENTORY, LEFT_OUT, ROW_INDEX
from expcomp.tables.targets import Target
from expcomp.version import __version__

# NeMo-RL opens one file a set.
_ONE_FILE = frozenset({"nemo-rl", "nemo-rl-dpo", "nemo-rl-grpo"})


@dataclass(frozen=True)
class Built:
    """What the two passes of a build gave, by target where it is a mapping; `rejected`: reasons of the compile, by kind."""

    targets: Sequence[Target]
    keys: Mapping[str, pl.DataFrame]
    left: Mapping[str, pl.DataFrame]
    done: Sequence[ShardDone]
    hits: pl.DataFrame
    look: Lookups
    places: pl.DataFrame
    checked: Checked
    options: DatasetOptions
    rejected: Mapping[str, Mapping[str, int]]


def finish(built: Built, staging: Path, input_digest: str | None, about: Mapping[str, str | None]) -> dict[str, Any]:
    """Name the shards, write what stands beside them, and return the manifest."""
    configs, index, left = [], [], []
    rates = _rates(built.look.attempts)
    for target in built.targets:
        done = [d for d in built.done if d.target == target.name]
        files = _named(target, done, staging)
        keys = built.keys[target.name]
        taken = _taken(keys, done)
        gone = pl.concat([built.left[target.name], *(d.left for d in done)])
        left.append(gone.select(pl.lit(target.config).alias("config"), pl.all()))
        index.append(_index(target, taken, rates))
        config = config_of(target, taken, files, gone)
        config["statistics"] |= _tallied(done) | _origins(built, target, taken)
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
        tables.append({"path": path.name} | written(path, rows)._asdict())
    manifest: dict[str, Any] = {
        "expcomp_version": __version__,
        "name": about.get("name"),
        "license": about.get("license"),
        "url": about.get("url"),
        "input_digest": input_digest,
        "options": _options(built.options),
        "decontamination": _decontamination(built),
        "configs": configs,
        "tables": tables,
    }
    known = side["inventory"].filter(pl.col("content_digest").is_not_null())
    manifest["task_set_digest"] = identity.task_set_digest(known)
    manifest["digest"] = identity.dataset_digest(manifest)
    _documents(manifest, staging, about.get("date"))
    return manifest


def _options(options: DatasetOptions) -> dict[str, Any]:
    """The options without places of one machine: of a tokenizer or a folder of templates, the name."""
    value = options.to_dict()
    return value | {n: PurePath(value[n]).name for n in ("tokenizer", "templates") if value[n] is not None}


def _tallied(done: Sequence[ShardDone]) -> dict[str, dict[str, int]]:
    """Counts of the shards, added up."""
    sums: dict[str, Counter[str]] = {}
    for shard in done:
        for name, found in shard.counts.items():
            sums.setdefault(name, Counter()).update(found)
    return {name: dict(sorted(found.items())) for name, found in sums.items()}


def _origins(built: Built, target: Target, taken: pl.DataFrame) -> dict[str, Any]:
    """Where the rows come from: splits that their benchmarks publish, and what the compile had turned away before."""
    splits = built.look.tasks.select("task_id", _published="split").drop_nulls()
    published = taken.select("task_id").join(splits, on="task_id", how="inner", maintain_order="left")
    counts = published["_published"].value_counts().sort("_published")
    found = {
        "published_splits": dict(zip(counts["_published"], counts["count"], strict=True)),
        "compile_rejected": dict(built.rejected.get(target.kind, {})),
    }
    return {name: value for name, value in found.items() if value}


def _named(target: Target, done: Sequence[ShardDone], staging: Path) -> list[dict[str, Any]]:
    """Rename the shards that hold rows to `<split>-0000N-of-000NN`, and list them."""
    files = []
    folder = staging / "data" / target.config
    for split in dict.fromkeys(d.split for d in done):
        full = sorted((d for d in done if d.split == split and d.files), key=lambda d: d.number)
        if target.name in _ONE_FILE and len(full) > 1:
            full = [_joined(folder, full)]
        for place, shard in enumerate(full):
            for ending, made in shard.files.items():
                path = folder / f"{split}-{place:05}-of-{len(full):05}.{ending}"
                move(folder / f"{split}-{shard.number:05}.{ending}", path)
                name = path.relative_to(staging).as_posix()
                files.append({"path": name, "split": split} | made._asdict())
    if not files:
        drop_empty(folder)
    return sorted(files, key=lambda f: str(f["path"]))


def _joined(folder: Path, shards: Sequence[ShardDone]) -> ShardDone:
    """The lines of several shards in the file of the first."""
    first, *rest = (folder / f"{s.split}-{s.number:05}.jsonl" for s in shards)
    sizes = [s.files["jsonl"].bytes for s in shards]
    joined = join_ranges([(path, 0, size) for path, size in zip((first, *rest), sizes, strict=True)], first)
    discard(rest)
    return replace(shards[0], files={"jsonl": joined})


def _taken(keys: pl.DataFrame, done: Sequence[ShardDone]) -> pl.DataFrame:
    """Keys of the rows that are in the files."""
    if not done:
        return keys.clear()
    # Keys are in the order of splits and places; so are the shards here, however many of them share a file.
    return keys.filter(pl.concat(d.taken for d in sorted(done, key=lambda d: (d.split, d.number))))


def _rates(attempts: pl.DataFrame) -> pl.DataFrame:
    """Pass rate of each task over the attempts with a verdict, and their number; all of them count, not only those in the files."""
    rated = attempts.filter(pl.col("passed").is_not_null() & pl.col("task_id").is_not_null())
    return rated.group_by("task_id", maintain_order=True).agg(
        pass_rate=pl.col("passed").mean(), n_attempts=pl.len().cast(pl.Int64)
    )


def _index(target: Target, taken: pl.DataFrame, rates: pl.DataFrame) -> pl.DataFrame:
    """Where each row stands, and what a curriculum sorts by."""
    columns = {
        "config": pl.lit(target.config),
        "position": pl.int_range(pl.len()).over("split"),
        "bytes": pl.col("_size"),
        "loss_chars": pl.col("_chars"),
        "n_turns": pl.col("_n_turns") if "_n_turns" in taken.columns else pl.lit(None),
        "tokens": pl.col("_tokens") if "_tokens" in taken.columns else pl.lit(None),
    }
    taken = taken.drop("pass_rate", "n_attempts", strict=False).join(
        rates, on="task_id", how="left", maintain_order="left"
    )
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
    names = ("README.md", "data/README.md", "croissant.json", "dataset_info.json")
    # They name the digest of the manifest, so they are listed beside it.
    manifest["documents"] = [{"path": n, "sha256": sha256_file(staging / n)} for n in names if (staging / n).is_file()]
    write_json(staging / "manifest.json", manifest)
