"""Seeds of each target. JSON seeds lie in `corpus`; packages, archives and Parquet are built from them."""

from __future__ import annotations

import base64
import io
import json
import tempfile
import zipfile
from functools import cache
from pathlib import Path

import polars as pl

from expcomp.sources.registry import SOURCES
from tests.faults.fuzz.mutate import Files
from tests.helpers import package

CORPUS = Path(__file__).parent / "corpus"
CRASHERS = Path(__file__).parent / "crashers"


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
