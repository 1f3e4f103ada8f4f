"""Infer output contracts from whole files that passing attempts handed over.

A contract asks for what all passing attempts of its package (or task) share: files, columns and keys, types, no nulls, headings, rows. It
rests on nothing else: without a passing attempt it asks for nothing and says so.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.errors import UsageError
from expcomp.io.canon import digest
from expcomp.io.deliverables import LIMIT, UnreadableFileError, read_whole
from expcomp.io.digest import PREFIX, sha256_hex
from expcomp.io.wording import worded
from expcomp.packs.contracts.deliverables import Handed, looks_like_packages, of_folder, of_packages
from expcomp.packs.contracts.formats import FORMATS, format_of
from expcomp.packs.contracts.items import PRIVATE, items_of, private
from expcomp.packs.contracts.kinds import FACTS
from expcomp.packs.contracts.measure import measure
from expcomp.packs.contracts.measured import Measured, failed
from expcomp.packs.contracts.tabular import separator_of

if TYPE_CHECKING:
    from collections.abc import Mapping

SCHEMA = "expcomp.output_contract.1"
ROWS = ("exact", "range", "any")
"""How rows are asked for: as many as seen when all attempts agree, else between least and most; always between; not at all."""
GROUPS = ("package_id", "task_id")

FILES = pl.Schema(
    {
        "group": pl.String(),
        "attempt_id": pl.String(),
        "attempt_kind": pl.String(),
        "file": pl.Int32(),
        "path": pl.String(),
        "ref": pl.String(),
        "evidence_id": pl.String(),
        "format": pl.String(),
        "delimiter": pl.String(),
        "bytes": pl.Int64(),
        "sha256": pl.String(),
        "sheet": pl.String(),
        "rows": pl.Int64(),
        "shape": pl.String(),
        "problem": pl.String(),
        "detail": pl.String(),
    }
)
"""One line a file, for a workbook one a sheet, as it was measured."""


def infer_contracts(
    path: str | Path, *, by: str = "package_id", rows: str = "exact", max_bytes: int = LIMIT
) -> dict[str, dict[str, Any]]:
    """Contracts of the packages below a path, by package id (or task id); or the one of the folder of an attempt, under "".

    The attempt of a bare folder counts as passing: whoever asks says so.

    Args:
        path: A package folder, a run folder with packages, or the folder of one attempt.
        by: `package_id`, or `task_id` to merge the packages of a task.
        rows: One of `ROWS`.
        max_bytes: Larger files are not read; the contract says so under `not_covered`.

    Raises:
        SourceError: There is nothing of the kind.
        UsageError: An option that makes no sense.
    """
    for name, value, known in (("by", by, GROUPS), ("rows", rows, ROWS)):
        if value not in known:
            msg = f"{name} is {value!r}, expected one of {', '.join(known)}"
            raise UsageError(msg)
    root = Path(path)
    handed = of_packages(root) if not root.is_dir() or looks_like_packages(root) else of_folder(root)
    return contracts_of(handed, root, by=by, rows=rows, max_bytes=max_bytes)


def contracts_of(handed: Handed, root: Path, *, by: str, rows: str, max_bytes: int) -> dict[str, dict[str, Any]]:
    """Contracts of what was handed over, by group."""
    key = pl.col(by).fill_null("")
    attempts = handed.attempts.group_by(key.alias("group"), maintain_order=True).agg(
        "attempt_id", "attempt_kind", attempts=pl.len(), listing=pl.col("has_listing").all()
    )
    names = (
        handed.packages.group_by(key.alias("group"), maintain_order=True)
        .agg(pl.col("package_id", "task_id").drop_nulls().unique(maintain_order=True))
        .join(attempts, on="group", how="left", maintain_order="left")
        .sort("group", maintain_order=True)
    )
    files, facts = _measured(handed, root, by, max_bytes)
    counted = files.join(
        attempts.select("group", "attempts"), on="group", how="left", maintain_order="left"
    ).with_columns(private(files, "path"))
    left_out = _left_out(handed, key, counted.filter("private"))
    asked: dict[str, tuple[list[Any], list[Any], list[Any]]] = {group: ([], [], []) for group in names["group"]}
    for item in items_of(counted.filter(~pl.col("private")), facts, rows):
        outputs, optional, notes = asked[item.group]
        (outputs if item.required else optional).append(item.document)
        notes += [{"path": item.document["path"], "reason": note} for note in item.notes]
    for group, path, reason in zip(*(left_out[c] for c in ("group", "path", "reason")), strict=True):
        asked[group][2].append({"path": path, "reason": reason} if path else {"reason": reason})
    contracts = {}
    for line in names.select(pl.struct(pl.all()).alias("line"))["line"].to_list():
        outputs, optional, notes = asked[line["group"]]
        if not line["attempts"]:
            notes.insert(0, {"reason": "no attempt passed, by a label that is strong enough; nothing is asked for"})
        contract = {
            "schema": SCHEMA,
            "package_ids": line["package_id"],
            "task_ids": line["task_id"],
            "attempts": [
                {"attempt_id": a, "attempt_kind": k}
                for a, k in zip(line["attempt_id"] or (), line["attempt_kind"] or (), strict=True)
                if a is not None
            ],
            "actual_outputs_required": bool(line["listing"]),
            "outputs": outputs,
            "optional_outputs": optional,
            "not_covered": notes,
        }
        number = digest(contract).removeprefix(PREFIX)[:20]
        contracts[line["group"]] = {"contract_id": f"contract_{number}", **contract}
    return contracts


def _left_out(handed: Handed, key: pl.Expr, secret: pl.DataFrame) -> pl.DataFrame:
    """Files that are not asked for, and why; of hidden files and private paths nothing but that is said."""
    lines = handed.files.filter(pl.col("reason").is_not_null() & (pl.col("reason") != "hidden")).select(
        group=key, path=pl.coalesce("path", "ref"), reason="reason"
    )
    counted = secret.group_by("group", maintain_order=True).agg(
        path=pl.lit(None, dtype=pl.String),
        reason=worded("{} paths hold {}", pl.col("path").n_unique(), pl.lit(PRIVATE)),
    )
    named = lines.with_columns(path=pl.when(~private(lines, "path")).then("path"))
    return pl.concat([named, counted]).unique(maintain_order=True)


def _measured(handed: Handed, root: Path, by: str, limit: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Every file that counts, measured once."""
    taken = handed.files.filter(pl.col("reason").is_null())
    files: list[tuple[Any, ...]] = []
    facts: list[pl.DataFrame] = [pl.DataFrame(schema={**FACTS, "file": pl.Int32(), "group": pl.String()})]
    columns = ("package_id", by, "attempt_id", "attempt_kind", "path", "ref", "evidence_id")
    for package, key, attempt, kind, path, ref, evidence in zip(*(taken[c] for c in columns), strict=True):
        home = handed.roots[package] if package is not None else root
        name, group = format_of(path), key or ""
        size, sha256, separator, parts = _file(home, ref, name, limit)
        for part in parts:
            number = len(files)
            files.append(
                (
                    *(group, attempt, kind, number, path, ref, evidence, name, separator, size, sha256),
                    *(part.sheet, part.rows, part.shape, part.problem, part.detail),
                )
            )
            facts.append(part.facts.with_columns(file=pl.lit(number, dtype=pl.Int32), group=pl.lit(group)))
    return pl.DataFrame(files, schema=FILES, orient="row"), pl.concat(facts)


def _file(home: Path, ref: str, name: str, limit: int) -> tuple[int | None, str | None, str | None, list[Measured]]:
    try:
        data = read_whole(home, ref, limit=limit)
    except UnreadableFileError as error:
        return None, None, None, [failed("unreadable_file", str(error))]
    usual = FORMATS[name].separator
    separator = separator_of(data, usual) if FORMATS[name].family == "csv" else usual
    found = measure(data, name, limit=limit, separator=separator) if data else [Measured()]
    return len(data), PREFIX + sha256_hex(data), None if separator == usual else separator, found


def evidence_of(contract: Mapping[str, Any]) -> list[str]:
    """Every evidence id that a contract cites, each once, sorted."""
    items = [*contract.get("outputs", ()), *contract.get("optional_outputs", ())]
    return sorted({e["evidence_id"] for item in items for e in item["evidence"]})
