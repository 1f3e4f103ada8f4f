"""README.md of a dataset directory: front matter that types the files, and what a reader has to know. No clock, no host."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, TypedDict

import polars as pl

from expcomp.datasets.card_text import body
from expcomp.io.digest import sha256_hex
from expcomp.tables.targets import TARGETS, Target

_SHARD = re.compile(r"-\d{5}-of-\d{5}(?=\.)")
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./*+-]*")
_WORDS = frozenset("true false null yes no on off y n".split())
_JSON = frozenset({"arguments"})  # the one field that is JSON; all else is text as it stands
_SIZES = ((10**3, "n<1K"), (10**4, "1K<n<10K"), (10**5, "10K<n<100K"), (10**6, "100K<n<1M"), (10**7, "1M<n<10M"))
_DTYPES: dict[pl.DataType, str] = {
    pl.String(): "string",
    pl.Boolean(): "bool",
    pl.Int32(): "int32",
    pl.Int64(): "int64",
    pl.Float64(): "float64",
}


class FileInfo(TypedDict):
    """One file: path relative to the directory, split, rows, bytes, and `sha256:` with the hex digest."""

    path: str
    split: str
    rows: int
    bytes: int
    sha256: str


class ConfigInfo(TypedDict, total=False):
    """One config of a manifest.

    `left` counts by reason what was left out. `statistics` may hold: `labels` ({"true", "false"}), `label_sources`, `verifiers`,
    `pair_levels` (counts), `system`, `tools` (rows that have one), `chosen_longer` (share), `length_correlation`,
    `tokens` (see `tokens.advice`), `templates` (rows a template cannot take), `turns` ({"trained", "context"}), `tasks`, `attempts`.
    """

    config: str
    target: str
    rows: int
    columns: list[str]
    splits: dict[str, int]
    files: list[FileInfo]
    left: dict[str, int]
    statistics: dict[str, Any]


def card(manifest: Mapping[str, Any]) -> str:
    """README.md as text.

    Args:
        manifest: `configs` (ConfigInfo each), and where known `name`, `description`, `license`, `expcomp_version`, `digest`,
            `task_set_digest`, `input_digest`, `options` (DatasetOptions.to_dict), `decontamination` ({"heldout_tasks": n, "reports":
            {outcome: rows}}).
    """
    return f"---\n{_yaml(front_matter(manifest))}---\n\n{body(manifest)}"


def twin_card(manifest: Mapping[str, Any]) -> str | None:
    """`data/README.md`, by which `load_dataset("DIR/data", config)` reads the JSONL twins with the types of the Parquet files.

    It is a file of its own because `datasets` takes the format of a README's first config for all of them. None when there is no
    JSONL, or when README.md itself is about JSONL.
    """
    kinds = {_kind(f) for c in manifest["configs"] for f in c["files"]}
    if kinds != {"parquet", "jsonl"}:
        return None
    return f"---\n{_yaml(_typing(manifest, 'jsonl', 'data/'))}---\n\nThe JSONL twins of the files in ../README.md, row for row.\n"


def front_matter(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What `datasets` and the Hub read: files of each config by split, and their types. Of one format: Parquet where there is any."""
    kinds = {_kind(f) for c in manifest["configs"] for f in c["files"]}
    total = sum(c["rows"] for c in manifest["configs"])
    return {
        "license": manifest.get("license") or "other",
        "tags": ["agent-traces", "tool-use", "expcomp"],
        "task_categories": ["text-generation"],
        "size_categories": [next((name for limit, name in _SIZES if total < limit), "n>10M")],
        **_typing(manifest, "parquet" if "parquet" in kinds else "jsonl"),
    }


def _kind(file: Mapping[str, Any]) -> str:
    return "parquet" if file["path"].endswith(".parquet") else "jsonl"


def _typing(manifest: Mapping[str, Any], kind: str, root: str = "") -> dict[str, Any]:
    """Configs that have files of a format, and their features."""
    configs: list[dict[str, Any]] = []
    types: list[dict[str, Any]] = []
    for config in manifest["configs"]:
        paths = {
            f["split"]: _SHARD.sub("-*", f["path"]).removeprefix(root) for f in config["files"] if _kind(f) == kind
        }
        if paths:
            target = TARGETS[config["target"]]
            files = [{"split": s, "path": p} for s, p in paths.items()]
            configs.append({"config_name": config["config"], "data_files": files})
            features = _features(target, config.get("columns") or list(target.columns))
            told = [f for f in config["files"] if _kind(f) == kind]
            types.append(
                {
                    "config_name": config["config"],
                    # `datasets` caches by the name of the directory and by this text, not by the files: it has to change with them.
                    "description": sha256_hex("\n".join(f["sha256"] for f in told).encode()),
                    "features": features,
                    "splits": [_split(s, [f for f in told if f["split"] == s]) for s in paths],
                }
            )
    return {"configs": configs, "dataset_info": types}


def _split(name: str, files: list[FileInfo]) -> dict[str, Any]:
    sizes = {"num_bytes": sum(f["bytes"] for f in files), "num_examples": sum(f["rows"] for f in files)}
    return {"name": name} | sizes


def _features(target: Target, columns: list[str]) -> list[dict[str, Any]]:
    """Features of a config, in the YAML form of `datasets`."""
    typed = _JSON if target.profile in ("typed", "native") else frozenset()
    made = [_feature(name, target.columns[name].dtype, typed) for name in columns]
    if target.profile == "native":
        # NeMo-RL wants tools as objects; each has its own keys, so each is JSON.
        made = [{"name": "tools", "list": "json"} if f["name"] == "tools" else f for f in made]
    return made


def _feature(name: str, dtype: pl.DataType, typed: frozenset[str]) -> dict[str, Any]:
    return {"name": name, **({"dtype": "json"} if name in typed else _type(dtype, typed))}


def _type(dtype: Any, typed: frozenset[str]) -> dict[str, Any]:
    if isinstance(dtype, pl.Struct):
        return {"struct": [_feature(f.name, f.dtype, typed) for f in dtype.fields]}  # type: ignore[arg-type]
    if isinstance(dtype, pl.List):
        inner = _type(dtype.inner, typed)
        return {"list": inner.get("struct") or inner["dtype"]}
    return {"dtype": _DTYPES[dtype]}


def _yaml(value: Any, indent: str = "") -> str:
    """YAML in block style; texts are quoted as JSON unless they are plain beyond doubt."""
    if isinstance(value, dict):
        return "".join(f"{indent}{k}:{_below(v, indent)}" for k, v in value.items())
    lines = [_yaml(item, indent + "  ") if isinstance(item, dict) else f"{indent}  {_scalar(item)}\n" for item in value]
    return "".join(f"{indent}- {line[len(indent) + 2 :]}" for line in lines)


def _below(value: Any, indent: str) -> str:
    if isinstance(value, dict):
        return "\n" + _yaml(value, indent + "  ")
    if isinstance(value, list):
        return "\n" + _yaml(value, indent) if value else " []\n"
    return f" {_scalar(value)}\n"


def _scalar(value: Any) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    return json.dumps(value, ensure_ascii=False)
