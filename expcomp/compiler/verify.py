"""`verify`: recompute every digest, count and row hash of a published folder."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from expcomp.compiler.assemble import row_lines
from expcomp.compiler.canonical import json_lines
from expcomp.errors import ExpcompError, SourceError
from expcomp.io.digest import PREFIX, sha256_expr, sha256_file
from expcomp.io.documents import read_json
from expcomp.io.files import listing
from expcomp.io.parquet_check import read_checked
from expcomp.io.sinks import lines_digest, parquet_height
from expcomp.tables import models
from expcomp.tables.digests import rules_digest, schema_digest
from expcomp.tables.families import BY_NAME

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
    manifest = _document(root, "manifest.json")
    found = Verification()
    try:
        listed = {str(e["path"]): e for e in manifest["files"]}
        exclude = set(manifest["hash_rule"]["exclude"])
    except (KeyError, TypeError) as error:
        msg = f"{folder}: manifest.json has no usable 'files' and 'hash_rule' ({error!r})"
        raise SourceError(msg) from error
    there = set(listing(root))
    for name in sorted(set(listed) - there):
        found.problems.append(f"{name}: listed in manifest.json, but not there")
    for name in sorted(there - set(listed) - set(OWN)):
        found.problems.append(f"{name}: not listed in manifest.json")
    for name in sorted(set(listed) & there):
        _file(root, name, listed[name], found)
    counts = {f: _family(root, f, exclude, listed, found) for f in BY_NAME}
    try:
        _books(_document(root, "report.json"), counts, found)
    except SourceError as error:
        found.problems.append(f"report.json: {error}")
    return found


def _document(root: Path, name: str) -> dict[str, Any]:
    value = read_json(root / name)
    if not isinstance(value, dict):
        msg = f"{root}: {name} holds no JSON object"
        raise SourceError(msg)
    return value


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
    try:
        table = models.table(Path(name).stem)
        rows = parquet_height(path)
    except (ExpcompError, KeyError, OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        found.problems.append(f"{name}: {_unread(error)}")
        return
    for key, want in (("schema_digest", schema_digest(table)), ("rules_digest", rules_digest(table))):
        if entry.get(key) != want:
            found.problems.append(f"{name}: {key} is {entry.get(key)}, this version of expcomp has {want}")
    if rows != entry.get("rows"):
        found.problems.append(f"{name}: {rows} rows, manifest.json says {entry.get('rows')}")


def _unread(error: BaseException) -> str:
    first = (str(error).splitlines() or [""])[0]
    return f"cannot be read ({error.__class__.__name__}: {first[:160]})"


def _family(
    root: Path, family: str, exclude: set[str], listed: dict[str, dict[str, Any]], found: Verification
) -> dict[str, Counter[str]]:
    """Row hashes and ids of one family; returns rows by verdict and package."""
    counts = {"accepted": Counter[str](), "rejected": Counter[str](), "reasons": Counter[str]()}
    ids: list[pl.Series] = []
    for where, verdict in (("rows", "accepted"), ("rejected", "rejected")):
        path = root / where / f"{family}.parquet"
        try:
            rows = read_checked(path)
            models.check_schema(family, rows)
        except (Exception, pl.exceptions.PanicException) as error:
            found.problems.append(f"{where}/{family}.parquet: {_unread(error)}")
            continue
        content = [c for c in rows.columns if c not in exclude and c != "content_hash"]
        text = json_lines(rows, content)
        wrong = _wrong_hashes(rows, text)
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
            _twin(root, family, rows, text, listed.get(f"rows/{family}.jsonl", {}), found)
        else:
            seen = rows.select(pl.col("reject_reasons").list.explode(keep_nulls=False, empty_as_null=False)).to_series()
            counts["reasons"].update(seen.to_list())
    every = pl.concat(ids) if ids else pl.Series([], dtype=pl.String)
    if every.n_unique() != every.len():
        found.problems.append(f"{family}: {every.len() - every.n_unique()} row_ids occur twice")
    return counts


def _wrong_hashes(rows: pl.DataFrame, text: pl.Series) -> list[int]:
    want = text.alias("_text").to_frame().select(pl.concat_str(pl.lit(PREFIX), sha256_expr("_text")).alias("h"))["h"]
    return (want != rows["content_hash"]).arg_true().to_list()


def _twin(
    root: Path, family: str, rows: pl.DataFrame, text: pl.Series, entry: dict[str, Any], found: Verification
) -> None:
    """The JSON lines are what the Parquet rows give, byte for byte."""
    name = f"rows/{family}.jsonl"
    path = root / name
    if not path.is_file():
        return
    want = hashlib.sha256()
    for line in row_lines(rows.with_columns(text.alias("_text"))):
        want.update(line.encode() + b"\n")
    count, digest = lines_digest(path)
    if digest != PREFIX + want.hexdigest():
        found.problems.append(f"{name}: {count} lines, not the {rows.height} rows of the Parquet twin")
    if count != entry.get("rows"):
        found.problems.append(f"{name}: {count} lines, manifest.json says {entry.get('rows')}")


def _books(report: dict[str, Any], counts: dict[str, dict[str, Counter[str]]], found: Verification) -> None:
    """Every count of the report against the files: families with reasons, packages, the total."""
    want: dict[str, dict[str, Any]] = {"families": {}, "packages": {}, "total": {}}
    said = {part: report.get(part, {}) for part in ("families", "packages")}
    for part in [part for part, value in said.items() if not isinstance(value, dict)]:
        found.problems.append(f"report.json: {part} is no object")
        said[part] = {}
    packages: dict[str, Counter[str]] = {p: Counter() for p in said["packages"]}
    for family, c in counts.items():
        yes, no = c["accepted"].total(), c["rejected"].total()
        want["families"][family] = {
            "generated": yes + no,
            "accepted": yes,
            "rejected": no,
            "reasons": dict(sorted(c["reasons"].items())),
        }
        for verdict in ("accepted", "rejected"):
            for package, n in c[verdict].items():
                packages.setdefault(package, Counter())[verdict] += n
    for package, sums in packages.items():
        yes, no = sums["accepted"], sums["rejected"]
        want["packages"][package] = {"generated": yes + no, "accepted": yes, "rejected": no}
    for key in ("generated", "accepted", "rejected"):
        want["total"][key] = sum(f[key] for f in want["families"].values())
    if report.get("total") != want["total"]:
        found.problems.append(f"report.json: total says {report.get('total')}, files hold {want['total']}")
    for part in ("families", "packages"):
        have = said[part]
        for name in sorted(set(have) | set(want[part])):
            told, real = have.get(name), want[part].get(name)
            if told != real:
                found.problems.append(f"report.json: {part} {name} says {told}, files hold {real}")
