"""Which files of an attempt a contract speaks of: what it handed over, and never traces, lists of outputs, inputs or hidden files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from expcomp.errors import SourceError
from expcomp.evidence.refs import HIDDEN, evidence_id_expr, visibility_of
from expcomp.io.deliverables import look
from expcomp.io.files import walk
from expcomp.packs.contracts.listing import listed, read_listing
from expcomp.packs.contracts.places import find
from expcomp.rows.labels import strength
from expcomp.sources.load import find as find_units
from expcomp.sources.load import read_units
from expcomp.sources.packages.layout import entry_names, is_package, subfolders

if TYPE_CHECKING:
    from collections.abc import Sequence

    from expcomp.sources._contract import Unit

EXCLUDED: tuple[tuple[str, str], ...] = (
    ("hidden", HIDDEN),
    ("trace", r"(?:^|/)agent_trace(?:\.[a-z]+)?\.json$"),
    ("list of outputs", r"(?:^|/)actual_outputs(?:\.[a-z]+)?\.json$"),
    ("input", r"^(?:input|task)/|^attempts/[^/]+/input/"),
    ("judgement", r"^(?:rubric|grading|feedback|signals|loops)/"),
    (
        "record of the harness",
        r"^(?:attempts/[^/]+/)?(?:attempt_manifest|trace_normalization_report|actual_outputs_normalization_report|contract_diagnostics)\.json$",
    ),
    ("log", r"^(?:attempts/[^/]+/)?(?:prompt\.md|stdout\.txt|stderr\.txt|final_message\.txt)$"),
)
"""What is never a deliverable, by path in the package; the first that fits is the reason."""

ENOUGH = 0.5
"""An attempt passed when a label of this strength says so: structural checks and stand-ins are weaker."""

HANDED = pl.Schema(
    {
        "package_id": pl.String(),
        "task_id": pl.String(),
        "attempt_id": pl.String(),
        "attempt_kind": pl.String(),
        "ref": pl.String(),
        "evidence_id": pl.String(),
        "path": pl.String(),
        "reason": pl.String(),
    }
)
"""One line a file handed over; `reason` says why it is not looked at, null where it is."""


@dataclass(frozen=True)
class Handed:
    """What passing attempts handed over.

    Attributes:
        files: `HANDED`.
        roots: Folder of each package.
        attempts: Passing attempts: `package_id`, `task_id`, `attempt_id`, `attempt_kind`, `has_listing`.
        packages: All packages that were read, with their tasks.
    """

    files: pl.DataFrame
    roots: dict[str, Path]
    attempts: pl.DataFrame
    packages: pl.DataFrame


def of_packages(path: str | Path) -> Handed:
    """What the passing attempts of the packages below a path handed over.

    Raises:
        SourceError: There are no packages.
    """
    units: Sequence[Unit] = [u for u in find_units([path]).units if u.format == "packages" and u.path.is_dir()]
    if not units:
        msg = f"{path}: no workflow package; expected a package folder, a run folder with packages/, or the folder of an attempt"
        raise SourceError(msg)
    frames = read_units(units)
    roots = {u.package_id: u.path for u in units}
    passed = pl.col("passed").fill_null(value=False) & pl.col("score_valid").fill_null(value=True)
    attempts = (
        frames["attempts"]
        .filter(passed & (strength() >= ENOUGH))
        .select("package_id", "task_id", "attempt_id", "attempt_kind", has_listing=pl.col("outputs_ref").is_not_null())
    )
    produced = frames["artifacts"].select("attempt_id", ref="uri").drop_nulls().unique(maintain_order=True)
    files = attempts.drop("has_listing").join(produced, on="attempt_id", how="inner", maintain_order="left_right")
    packages = frames["attempts"].select("package_id", "task_id").unique(maintain_order=True)
    return Handed(_placed(files, roots), roots, attempts, packages)


def of_folder(folder: str | Path) -> Handed:
    """What stands in the folder of one attempt: the files its list names, or all when it has none.

    Raises:
        SourceError: The folder is none.
    """
    root = Path(folder)
    if not root.is_dir():
        msg = f"{folder}: no folder; expected a package, a run folder or the folder of an attempt"
        raise SourceError(msg)
    listing = read_listing(root)
    there = [ref for ref, entry in walk(root).items() if not entry.is_symlink]
    named = listed(listing, there) if listing.refs else set(there)
    who = {"package_id": None, "task_id": None, "attempt_id": None, "attempt_kind": None}
    attempts = pl.DataFrame(
        {**{k: [v] for k, v in who.items()}, "has_listing": [listing.problem is None]}, schema_overrides=_TEXT
    )
    files = pl.DataFrame({"ref": [r for r in there if r in named]}, schema={"ref": pl.String()}).select(
        *(pl.lit(None, dtype=pl.String).alias(n) for n in who), "ref"
    )
    return Handed(_placed(files, {}, root), {}, attempts, attempts.select("package_id", "task_id"))


def looks_like_packages(path: Path) -> bool:
    """Whether a folder is a package or holds packages."""
    names = entry_names(path)
    return is_package(names) or "packages" in names or any(is_package(entry_names(f)) for f in subfolders(path))


_TEXT = {n: pl.String() for n in ("package_id", "task_id", "attempt_id", "attempt_kind")}
_INSIDE = r"^attempts/[^/]+/(.+)$"
_TAIL = r"^(?:artifacts|output)/(.+)$"


def _placed(files: pl.DataFrame, roots: dict[str, Path], only: Path | None = None) -> pl.DataFrame:
    """Evidence id, path in the contract, and the reason why a file is left out."""
    reasons = [pl.when(pl.col("ref").str.contains(pattern)).then(pl.lit(name)) for name, pattern in EXCLUDED]
    inside = pl.col("ref") if only is not None else pl.col("ref").str.extract(_INSIDE)
    placed = files.with_columns(
        evidence_id=evidence_id_expr("ref"),
        inside=inside,
        reason=pl.coalesce(
            *reasons,
            pl.when(visibility_of("ref") != "visible").then(pl.lit("hidden")),
            pl.when(inside.is_null()).then(pl.lit("outside the folder of its attempt")),
        ),
    ).with_columns(path=pl.coalesce(pl.col("inside").str.extract(_TAIL), "inside"))
    homes = [
        None if p is None and only is None else (only or roots[p] / "attempts" / str(kind))
        for p, kind in zip(placed["package_id"], placed["attempt_kind"], strict=True)
    ]
    paths, reasons_of = [], []
    for home, path, inner, reason in zip(homes, placed["path"], placed["inside"], placed["reason"], strict=True):
        if reason is not None or home is None or path is None:
            paths.append(path)
            reasons_of.append(reason)
            continue
        # A path that the verifier would find elsewhere first is written out in full.
        short = find(home, path)
        place = short if short.path == inner else look(home, inner)
        paths.append(path if short.path == inner else inner)
        reasons_of.append(None if place.state == "file" else f"no regular file of the attempt ({place.state})")
    placed = placed.with_columns(path=pl.Series(paths, dtype=pl.String), reason=pl.Series(reasons_of, dtype=pl.String))
    again = pl.struct("attempt_id", "path").is_first_distinct().not_()
    return (
        placed.with_columns(
            reason=pl.coalesce("reason", pl.when(again).then(pl.lit("another file of this attempt has its path")))
        )
        .select(HANDED.names())
        .cast(HANDED)
    )
