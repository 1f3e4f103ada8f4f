"""Croissant metadata of a dataset directory: files with digests, and the scalar columns of each config."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from expcomp.tables.targets import TARGETS

_TERMS = (
    "arrayShape citeAs column conformsTo equivalentProperty extract field fileObject fileProperty fileSet format includes "
    "isArray jsonPath key md5 parentField path recordSet references regex repeated replace samplingRate separator source "
    "subField transform"
).split()
CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "dct": "http://purl.org/dc/terms/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "sc": "https://schema.org/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "isLiveDataset": "cr:isLiveDataset",
    **{term: f"cr:{term}" for term in _TERMS},
    "conformsTo": "dct:conformsTo",
}
_FORMATS = {"parquet": "application/x-parquet", "jsonl": "application/jsonlines"}
_TYPES: dict[pl.DataType, str] = {
    pl.String(): "sc:Text",
    pl.Boolean(): "sc:Boolean",
    pl.Int64(): "sc:Integer",
    pl.Float64(): "sc:Float",
}


def croissant(manifest: Mapping[str, Any], *, date: str | None = None) -> dict[str, Any]:
    """Croissant 1.1 document of a manifest (see `card.card` for its shape).

    Chat columns and other structs are left out of the record sets: their nested paths are read wrongly by tools.

    Args:
        manifest: What the dataset directory holds.
        date: ISO date of publication; the caller's, because nothing here asks a clock.
    """
    about = {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.1",
        "name": manifest.get("name") or "expcomp-dataset",
        "description": manifest.get("description") or "Training rows compiled from recorded agent attempts.",
        "license": manifest.get("license") or "other",
        "url": manifest.get("url"),
        "datePublished": date,
        "version": manifest.get("dataset_version") or "1.0.0",
        "citeAs": manifest.get("digest") or manifest.get("name") or "expcomp-dataset",
    }
    configs = manifest["configs"]
    return {k: v for k, v in about.items() if v is not None} | {
        "distribution": [_file(f) for c in configs for f in c["files"]] + [_set(c) for c in configs if c["files"]],
        "recordSet": [_records(c) for c in configs if c["files"]],
    }


def _format(path: str) -> str:
    return "parquet" if path.endswith(".parquet") else "jsonl"


def _file(file: Mapping[str, Any]) -> dict[str, Any]:
    path = file["path"]
    return {
        "@type": "cr:FileObject",
        "@id": path,
        "name": path,
        "contentUrl": path,
        "contentSize": f"{file['bytes']} B",
        "encodingFormat": _FORMATS[_format(path)],
        "sha256": file["sha256"].removeprefix("sha256:"),
    }


def _kind(config: Mapping[str, Any]) -> str:
    """Parquet where there is any; else the JSON lines."""
    return "parquet" if any(_format(f["path"]) == "parquet" for f in config["files"]) else "jsonl"


def _set(config: Mapping[str, Any]) -> dict[str, Any]:
    kind = _kind(config)
    name = f"{config['config']}-files"
    return {
        "@type": "cr:FileSet",
        "@id": name,
        "name": name,
        "encodingFormat": _FORMATS[kind],
        "includes": f"data/{config['config']}/*.{kind}",
    }


def _records(config: Mapping[str, Any]) -> dict[str, Any]:
    name = config["config"]
    columns = TARGETS[config["target"]].columns
    return {
        "@type": "cr:RecordSet",
        "@id": name,
        "name": name,
        "description": TARGETS[config["target"]].description,
        "field": [
            field
            for column in config.get("columns") or columns
            if (field := _field(name, column, columns[column].dtype, columns[column].description))
        ],
    }


def _field(config: str, column: str, dtype: pl.DataType, description: str) -> dict[str, Any] | None:
    inner = dtype.inner if isinstance(dtype, pl.List) else dtype
    kind = _TYPES.get(inner)  # type: ignore[arg-type]
    if kind is None:
        return None
    name = f"{config}/{column}"
    many = {"isArray": True, "arrayShape": "-1"} if isinstance(dtype, pl.List) else {}
    return {
        "@type": "cr:Field",
        "@id": name,
        "name": name,
        "description": description,
        "dataType": kind,
        **many,
        "source": {"fileSet": {"@id": f"{config}-files"}, "extract": {"column": column}},
    }
