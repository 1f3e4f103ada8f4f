"""How a client opens a dataset folder."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any


@cache
def configs(folder: Path) -> list[str]:
    """Configs that the card names."""
    import yaml

    card = yaml.safe_load((folder / "README.md").read_text(encoding="utf-8").split("---")[1])
    return [c["config_name"] for c in card["configs"]]


def paths(folder: Path, config: str, end: str) -> list[str]:
    """Files of a config, in order, all splits."""
    return sorted(str(p) for p in (folder / "data" / config).glob(f"*.{end}"))


def split(folder: Path, config: str, end: str) -> list[str]:
    """Files of the first split, `train` when there is one."""
    found = paths(folder, config, end)
    return [p for p in found if Path(p).name.startswith("train-")] or found


@cache
def load(folder: Path, config: str):
    """As the Hub loads it: card, Parquet."""
    from datasets import load_dataset

    return load_dataset(str(folder), config, split="train")


@cache
def features(folder: Path, config: str):
    """Types that the card declares."""
    from datasets import load_dataset_builder

    return load_dataset_builder(str(folder), config).info.features


def load_jsonl(folder: Path, config: str):
    """The JSONL twin, by its own card; `datasets` takes one file format a card, and without a card it guesses types."""
    return load(folder / "data", config)


def lines(folder: Path, config: str) -> list[dict[str, Any]]:
    """Rows of the JSONL twin, as plain JSON."""
    return [json.loads(x) for p in split(folder, config, "jsonl") for x in Path(p).read_text("utf-8").splitlines()]


def bare(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Messages without the nulls that a column format adds beside real keys; arguments are left alone."""
    out = []
    for message in messages:
        kept = {k: v for k, v in message.items() if v is not None}
        if "tool_calls" in kept:
            kept["tool_calls"] = [{k: v for k, v in c.items() if v is not None} for c in kept["tool_calls"]]
        out.append(kept)
    return out


def ten(value: Any) -> Any:
    """A value with its floats cut to ten decimals, which is what the JSON reader of `datasets` keeps of them."""
    if isinstance(value, float):
        return round(value, 10)
    if isinstance(value, list):
        return [ten(v) for v in value]
    return {k: ten(v) for k, v in value.items()} if isinstance(value, dict) else value
