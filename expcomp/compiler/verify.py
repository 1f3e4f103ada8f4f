"""`verify`: recompute every digest, count and row hash of a published folder."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.compiler.canonical import json_lines
from expcomp.errors import SourceError
from expcomp.io.digest import PREFIX, sha256_expr, sha256_file
from expcomp.tables import models
from expcomp.tables.digests import rules_digest, schema_digest
from expcomp.tables.families import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator

OWN = ("manifest.json", "report.json")


@dataclass(slots=True)
class Verification:
    """What a verification found.

    Attributes:
        problems: One line each: file, what was found, what was expected.
        files: Files recomputed.
        rows: Row hashes recomputed.
    """

    problems: list[str] = field(default_factory=list)
    files: int = 0
    rows: int = 0

    @property
    def ok(self) -> bool:
        """Nothing is wrong."""
        return not self.problems


def verify(folder: str | Path) -> Verification:
    """Check a published folder against its manifest and itself: files, digests, schemas, row hashes, ids, books.

    Raises:
        SourceError: The folder has no readable manifest.
    """
    root = Path(folder)
    manifest, report = _document(root, "manifest.json"), _document(root, "report.json")
    found = Verification()
    try:
        listed = {str(e["path"]): e for e in manifest["files"]}
        exclude = set(manifest["hash_rule"]["exclude"])
    except (KeyError, TypeError) as error:
        msg = f"{folder}: manifest.json has no usable 'files' and 'hash_rule' ({error!r})"
        raise SourceError(msg) from error
    there = set(_files(root))
    for name in sorted(set(listed) - there):
        found.problems.append(f"{name}: listed in manifest.json, but not there")
    for name in sorted(there - set(listed) - set(OWN)):
        found.problems.append(f"{name}: not listed in manifest.json")
    for name in sorted(set(listed) & there):
        _file(root, name, listed[name], found)
    counts = {f: _family(root, f, exclude, found) for f in BY_NAME}
    _books(report, counts, found)
    return found


def _document(root: Path, name: str) -> dict[str, Any]:
    try:
        value = json.loads((root / name).read_bytes())
    except FileNotFoundError:
        msg = f"{root}: no {name}; expected the output folder of a compile"
        raise SourceError(msg) from None
    except (OSError, ValueError) as error:
        msg = f"{root}: {name} cannot be read ({error})"
        raise SourceError(msg) from error
    if not isinstance(value, dict):
        msg = f"{root}: {name} holds no JSON object"
        raise SourceError(msg)
    return value


def _files(root: Path) -> Iterator[str]:
    for folder, _, names in os.walk(root):
        for name in names:
            yield (Path(folder) / name).relative_to(root).as_posix()


def _file(root: Path, name: str, entry: dict[str, Any], found: Verification) -> None:
    path = root / name
    found.files += 1
    if path.is_symlink() or not path.is_file():
        found.problems.append(f"{name}: not a regular file")
        return
    size, digest = path.stat().st_size, sha256_file(path)
    if size != entry.get("bytes"):
        found.problems.append(f"{name}: {size} bytes, manifest.json says {entry.get('bytes')}")
    if digest != entry.get("sha256"):
        found.problems.append(f"{name}: sha256 is {digest}, manifest.json says {entry.get('sha256')}")
        return
    if not name.endswith(".parquet"):
        return
    table = models.table(Path(name).stem)
    for key, want in (("schema_digest", schema_digest(table)), ("rules_digest", rules_digest(table))):
        if entry.get(key) != want:
            found.problems.append(f"{name}: {key} is {entry.get(key)}, this version of expcomp has {want}")
    rows = pl.scan_parquet(path).select(pl.len()).collect().item()
    if rows != entry.get("rows"):
        found.problems.append(f"{name}: {rows} rows, manifest.json says {entry.get('rows')}")


def _family(root: Path, family: str, exclude: set[str], found: Verification) -> dict[str, Counter[str]]:
    """Row hashes and ids of one family; returns rows by verdict and package."""
    counts = {"accepted": Counter[str](), "rejected": Counter[str]()}
    ids: list[pl.Series] = []
    for where, verdict in (("rows", "accepted"), ("rejected", "rejected")):
        path = root / where / f"{family}.parquet"
        try:
            rows = pl.read_parquet(path)
            models.check_schema(family, rows)
        except Exception as error:
            found.problems.append(
                f"{where}/{family}.parquet: cannot be read ({error.__class__.__name__}: {str(error).splitlines()[0][:160]})"
            )
            continue
        content = [c for c in rows.columns if c not in exclude and c != "content_hash"]
        wrong = _wrong_hashes(rows, content)
        found.problems += [
            f"{where}/{family}.parquet: content_hash of row {i} is not the digest of its content" for i in wrong[:3]
        ]
        bad = rows.filter(pl.col("accepted") != (verdict == "accepted")).height
        if bad:
            found.problems.append(f"{where}/{family}.parquet: {bad} rows with another verdict")
        found.rows += rows.height
        counts[verdict].update(dict(zip(*rows["package_id"].value_counts(sort=False), strict=True)))
        ids.append(rows["row_id"])
        if where == "rows":
            _twin(root, family, rows, found)
    every = pl.concat(ids) if ids else pl.Series([], dtype=pl.String)
    if every.n_unique() != every.len():
        found.problems.append(f"{family}: {every.len() - every.n_unique()} row_ids occur twice")
    return counts


def _wrong_hashes(rows: pl.DataFrame, content: list[str]) -> list[int]:
    frame = rows.with_columns(json_lines(rows, content).alias("_text"))
    want = frame.select(pl.concat_str(pl.lit(PREFIX), sha256_expr("_text")).alias("h"))["h"]
    return (want != rows["content_hash"]).arg_true().to_list()


def _twin(root: Path, family: str, rows: pl.DataFrame, found: Verification) -> None:
    """The JSON lines hold the same rows: as many, with the same ids and hashes, in the same order."""
    path = root / "rows" / f"{family}.jsonl"
    if not path.is_file():
        return
    number, h = 0, hashlib.sha256()
    with path.open("rb") as handle:
        for number, line in enumerate(handle, 1):
            try:
                row = json.loads(line)
                h.update(f"{row['row_id']}{row['content_hash']}".encode())
            except (ValueError, KeyError, TypeError):
                found.problems.append(f"rows/{family}.jsonl: line {number} is no row")
                return
    want = hashlib.sha256("".join(rows.select(pl.concat_str("row_id", "content_hash")).to_series().to_list()).encode())
    if number != rows.height or h.digest() != want.digest():
        found.problems.append(f"rows/{family}.jsonl: {number} lines, not the {rows.height} rows of the Parquet twin")


def _books(report: dict[str, Any], counts: dict[str, dict[str, Counter[str]]], found: Verification) -> None:
    families, packages = report.get("families", {}), report.get("packages", {})
    for family, c in counts.items():
        want = {k: c[k].total() for k in ("accepted", "rejected")}
        have = families.get(family, {})
        if {k: have.get(k) for k in want} != want or have.get("generated") != sum(want.values()):
            said = f"{have.get('generated')} = {have.get('accepted')} + {have.get('rejected')}"
            found.problems.append(f"report.json: family {family} says {said}, files hold {want}")
    for verdict in ("accepted", "rejected"):
        total: Counter[str] = Counter()
        for c in counts.values():
            total.update(c[verdict])
        for package in sorted(set(total) | set(packages)):
            if packages.get(package, {}).get(verdict) != total[package]:
                found.problems.append(
                    f"report.json: package {package} says {packages.get(package, {}).get(verdict)} {verdict}, files hold {total[package]}"
                )
