"""The packages source: units in, frames of the common model out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from expcomp.errors import SourceError
from expcomp.sources._contract import Batch, Frames, ReadOptions, Unit
from expcomp.sources.packages import _records, _shape, layout
from expcomp.sources.packages._attempt import AttemptReader, StepRows
from expcomp.sources.packages._package import Package
from expcomp.sources.packages._release import is_bundle, is_release, record_packages
from expcomp.tables.core import DIAGNOSTICS, STEPS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from expcomp.sources._contract import Found
    from expcomp.sources._look import Look
    from expcomp.sources.packages._records import Label


class Packages:
    """Package folders and run folders of them."""

    name = "packages"
    summary = "workflow packages (folders, runs, releases, bundles): task, rubric, attempts, grades, feedback, loops"
    carries = {  # noqa: RUF012 - read only, by contract of the protocol
        "system_prompt": "in the trace",
        "tools": "no",
        "reasoning": "per step",
        "verdict": "grader and verifier",
        "trial": "attempt kinds",
        "tokens": "no",
        "cost": "no",
        "times": "some",
        "token_ids": "no",
    }

    def claims_folder(self, folder: Path, names: frozenset[str]) -> bool:
        """A package, a run folder whose `packages/` holds at least one, a release or a bundle."""
        if layout.is_package(names) or is_release(names) or is_bundle(names):
            return True
        inner = folder / "packages"
        return (
            "packages" in names
            and not inner.is_symlink()
            and inner.is_dir()
            and any(layout.is_package(layout.entry_names(p)) for p in layout.subfolders(inner))
        )

    def claims_file(self, look: Look) -> bool:
        """Never: a package is a folder."""
        del look
        return False

    def units(self, path: Path, root: Path, found: Found) -> None:
        """One unit for each package; a release or a bundle is one."""
        names = layout.entry_names(path)
        if not layout.is_package(names) and (is_release(names) or is_bundle(names)):
            found.units.append(Unit(self.name, path, path.name, size=layout.folder_size(path)))
            return
        layout.package_units(path, root, found, self.name)

    def read(self, units: Sequence[Unit], options: ReadOptions) -> Frames:
        """Read packages; columns are built once, over all of them."""
        batch, rows = Batch(), StepRows()
        labels: dict[tuple[str, int], Label] = {}
        for unit in units:
            mark = {name: len(kept) for name, kept in batch.rows.items()}, len(rows.rows)
            try:
                labels |= _read_one(unit, batch, rows, options)
            except Exception as error:
                for name, kept in batch.rows.items():
                    del kept[mark[0].get(name, 0) :]
                del rows.rows[mark[1] :]
                why = (
                    "vanished or not permitted"
                    if isinstance(error, OSError | SourceError)
                    else f"not understood: {error}"
                )
                batch.diagnose(
                    "unreadable_package",
                    f"{unit.package_id}: cannot be read ({error.__class__.__name__}, {why}); left out",
                    package_id=unit.package_id,
                    source_uri=unit.package_id,
                    severity="error",
                )
        return _frames(batch, rows, labels)


def _read_one(unit: Unit, batch: Batch, rows: StepRows, options: ReadOptions) -> dict[tuple[str, int], Label]:
    names = layout.entry_names(unit.path)
    if layout.is_package(names):
        return _read_package(Package(unit, batch, options), rows)
    labels: dict[tuple[str, int], Label] = {}
    for package in record_packages(unit, batch, options):
        labels |= _read_package(package, rows)
    return labels


def _read_package(package: Package, rows: StepRows) -> dict[tuple[str, int], Label]:
    task_id = _records.read_task(package)
    _records.read_rubric(package, task_id)
    kinds = sorted({ref.split("/")[1] for ref in package.below("attempts") if ref.count("/") > 1})
    if not kinds:
        package.note("no_attempts", "attempts", "holds no attempt folder; the package gives no attempt")
    readers = {kind: AttemptReader(package, kind, task_id, rows) for kind in kinds}
    for reader in readers.values():
        reader.read()
    _records.read_loops(package, readers)
    _records.read_lessons(package, readers)
    labels = _records.read_labels(package, readers)
    rows.evidence += package.evidence()
    return labels


def _frames(batch: Batch, rows: StepRows, labels: dict[tuple[str, int], Label]) -> Frames:
    for row in batch.rows["attempts"]:
        row["has_transcript"] = False
        row["source_format"] = Packages.name
    texts = {
        "started_at": [r.pop("started_at", None) for r in batch.rows["attempts"]],
        "ended_at": [r.pop("ended_at", None) for r in batch.rows["attempts"]],
    }
    frames = batch.frames()
    steps = _shape.steps_frame(rows, labels)
    times = pl.DataFrame(texts, schema={"started_at": pl.String, "ended_at": pl.String}).select(
        _shape.utc("started_at"), _shape.utc("ended_at")
    )
    raw = frames["attempts"].drop("started_at", "ended_at").hstack(times)
    frames["messages"] = _shape.messages_frame(steps, rows.systems)
    frames["attempts"] = _shape.attempts_frame(raw, steps, frames["messages"])
    frames["diagnostics"] = pl.concat(
        [frames["diagnostics"], _shape.conform(_shape.step_problems(steps, frames["attempts"]), DIAGNOSTICS.schema)]
    )
    frames["steps"] = _shape.conform(steps, STEPS.schema)
    frames["evidence"] = _shape.evidence_frame(rows.evidence)
    return frames


SOURCE = Packages()
