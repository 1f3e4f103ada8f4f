"""Seeds of each target. JSON seeds lie in `corpus`; packages, archives and Parquet are built from them."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import tempfile
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl

from expcomp.sources.registry import SOURCES
from tests.faults.fuzz.mutate import Files, parsed
from tests.helpers import STEPS, package

CORPUS = Path(__file__).parent / "corpus"
CRASHERS = Path(__file__).parent / "crashers"
SMALL = 1200
"""Bytes of a small seed."""
FEW = 3
"""Items of its lists, and lines that stay in any case."""


@cache
def seeds(name: str) -> tuple[Files, ...]:
    """Seeds of a format."""
    out = _stored(CORPUS / f"{name}.json")
    if name == "packages":
        out += (_package(),)
    if name == "inspect":
        out += tuple(_archive(files) for files in out[:2])
    if name in ("openai_chat", "hf_trajectories", "sharegpt"):
        out += tuple(p for files in out for p in _parquet(files))[:2]
    if name == "stored":
        out += (_tables(),)
    return out


@cache
def small(name: str) -> tuple[Files, ...]:
    """The seeds with fewer lines, list items and files, as far as an attempt is left; most executions are of these."""
    if name == "packages":
        with tempfile.TemporaryDirectory() as folder:
            package(Path(folder), "pkg_a", scores={"baseline": 0.4}, steps=STEPS[:2], loops=False)
            few = _read(Path(folder))
        return (few, _fewer_files(few, name))
    thin = ({n: _thin(data) for n, data in files.items()} for files in (*seeds(name), *crashers(name)))
    kept = {json.dumps(encoded(files)): files for files in thin if files not in seeds(name)}
    return tuple(files for files in kept.values() if sum(map(len, files.values())) < SMALL and _attempts(files, name))


def _fewer_files(files: Files, name: str) -> Files:
    for one in sorted(files):
        left = {n: data for n, data in files.items() if n != one}
        if _attempts(left, name):
            files = left
    return files


def _attempts(files: Files, name: str) -> int:
    from expcomp.sources.load import read_frames

    with tempfile.TemporaryDirectory() as folder:
        for n, data in files.items():
            put = Path(folder) / "u0" / n
            put.parent.mkdir(parents=True, exist_ok=True)
            put.write_bytes(data)
        return read_frames([Path(folder)], format=name)["attempts"].height


def _thin(data: bytes) -> bytes:
    documents, lines = parsed(data)
    if documents is None:
        return data
    few = [_shorter(d) for d in documents]
    texts = [json.dumps(d, separators=(",", ":")).encode() for d in few]
    while len(texts) > FEW and sum(map(len, texts)) > SMALL // 2:
        texts.pop()
    return b"\n".join(texts) + (b"\n" if lines else b"")


def _shorter(value: Any) -> Any:
    if isinstance(value, list):
        return [_shorter(v) for v in value[:FEW]]
    return {k: _shorter(v) for k, v in value.items()} if isinstance(value, dict) else value


def formats() -> list[str]:
    """Every format of the registry; each must have seeds."""
    return list(SOURCES)


def encoded(files: Files) -> dict[str, str]:
    """JSON form of an input: text, or base64 after `base64:`."""
    out = {}
    for name, data in files.items():
        try:
            out[name] = data.decode()
        except UnicodeDecodeError:
            out[name] = "base64:" + base64.b64encode(data).decode()
    return out


def decoded(stored: dict[str, str]) -> Files:
    """The inverse of `encoded`."""
    mark = "base64:"
    return {
        n: base64.b64decode(t.removeprefix(mark)) if t.startswith(mark) else t.encode("utf-8", "surrogatepass")
        for n, t in stored.items()
    }


def crashers(name: str) -> list[Files]:
    """Inputs that once broke a property."""
    return list(_stored(CRASHERS / f"{name}.json"))


def signed_tables(files: Files) -> Files:
    """The files of a written TraceSet with digests that agree, where the manifest can be read."""
    try:
        manifest = json.loads(files["t/manifest.json"])
        for table in manifest["tables"].values():
            for entry in table["files"]:
                entry["sha256"] = "sha256:" + hashlib.sha256(files["t/" + entry["path"]]).hexdigest()
        return files | {"t/manifest.json": json.dumps(manifest).encode()}
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        return files


def _stored(path: Path) -> tuple[Files, ...]:
    return tuple(decoded(files) for files in json.loads(path.read_text("utf-8"))) if path.is_file() else ()


def _read(root: Path) -> Files:
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


def _package() -> Files:
    with tempfile.TemporaryDirectory() as folder:
        package(Path(folder), "pkg_a", private_item=True)
        return _read(Path(folder))


def _archive(files: Files) -> Files:
    """The same log as the zip archive that Inspect writes."""
    (data,) = files.values()
    log = json.loads(data)
    samples = log.pop("samples", None) or []
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        members = {"header.json": log} | {f"samples/{s.get('id')}_epoch_{s.get('epoch', 1)}.json": s for s in samples}
        for name, value in members.items():
            archive.writestr(zipfile.ZipInfo(name), json.dumps(value))
    return {"log.eval": out.getvalue()}


def _parquet(files: Files) -> list[Files]:
    out = []
    for data in files.values():
        try:
            frame = pl.read_ndjson(data)
            sink = io.BytesIO()
            frame.write_parquet(sink, compression="uncompressed")
        except pl.exceptions.PolarsError:
            continue  # no table, or one that Parquet does not hold
        out.append({"rows.parquet": sink.getvalue()})
    return out


def _tables() -> Files:
    from expcomp.sources.load import read_traces

    with tempfile.TemporaryDirectory() as folder:
        package(Path(folder) / "in", "pkg_a")
        read_traces(Path(folder) / "in", processes=1).write(Path(folder) / "out")
        return {f"t/{name}": data for name, data in _read(Path(folder) / "out").items()}
