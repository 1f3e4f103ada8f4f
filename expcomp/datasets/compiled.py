"""What a dataset takes from a compile: slices of its row families, and narrow key tables for the joins."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from expcomp.compiler.compilation import Compilation, open_compilation
from expcomp.datasets.contract import Lookups
from expcomp.datasets.decontaminate.heldout import task_identity
from expcomp.errors import SourceError
from expcomp.io.documents import read_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from expcomp.datasets.contract import Kind

_ATTEMPTS = (
    "attempt_id",
    "task_id",
    "package_id",
    "status",
    "is_truncated",
    "passed",
    "score_norm",
    "score_valid",
    "grade_kind",
    "arm",
    "model",
    "started_at",
)
_TASKS = ("task_id", "native_id", "instruction", "target", "cluster", "workflow_family", "split")


@dataclass(frozen=True)
class Compiled:
    """A compile as the source of datasets: a folder, or a Compilation in memory.

    Attributes:
        folder: The folder, null for what is in memory.
        compilation: The same, opened.
    """

    folder: Path | None
    compilation: Compilation

    @classmethod
    def of(cls, source: Compilation | str | Path) -> Compiled:
        """A Compilation, or the folder of one.

        Raises:
            SourceError: The folder is no output of a compile, or lacks a file of one.
        """
        if isinstance(source, Compilation):
            return cls(None, source)
        folder = Path(source)
        return cls(folder, open_compilation(folder))

    @property
    def fingerprint(self) -> str | None:
        """Digest of what was compiled; None for what is in memory."""
        if self.folder is None:
            return None
        value = read_json(self.folder / "manifest.json").get("input_fingerprint")
        return value if isinstance(value, str) else None

    def family(self, name: str) -> pl.LazyFrame:
        """Accepted rows of a family."""
        return self._scan(f"rows/{name}.parquet", lambda: self.compilation.rows[name])

    def table(self, name: str) -> pl.LazyFrame:
        """One of the tables that the rows were made from."""
        return self._scan(f"tables/{name}.parquet", lambda: self.compilation.tables[name])

    def path(self, family: str) -> Path | None:
        """File of a family; None for what is in memory."""
        return None if self.folder is None else self.folder / "rows" / f"{family}.parquet"

    def _scan(self, name: str, held: object) -> pl.LazyFrame:
        if self.folder is None:
            frame: pl.DataFrame = held()  # type: ignore[operator]
            return frame.lazy()
        path = self.folder / name
        if not path.is_file():
            msg = f"{self.folder}: {name} is missing; expected the output folder of a compile (`expcomp verify` says what is wrong)"
            raise SourceError(msg)
        return pl.scan_parquet(path)

    def lookups(self) -> Lookups:
        """The key tables, whole."""
        attempts = self.table("attempts").select(_ATTEMPTS).collect()
        tasks = self.table("tasks").collect()
        identity = task_identity(tasks).select("task_id", "benchmark", "task", "content_digest")
        graded = (
            self.table("grades")
            .filter(pl.col("is_primary"))
            .select("attempt_id", verifier=pl.coalesce("grader", pl.col("kind").cast(pl.String)))
            .join(
                self.table("attempts").select("attempt_id", "task_id"),
                on="attempt_id",
                how="inner",
                maintain_order="left",
            )
            .group_by("task_id", maintain_order=True)
            # The least name, so that the order of attempts does not matter.
            .agg(verifier=pl.col("verifier").min())
            .collect()
        )
        known = (
            tasks.select(_TASKS)
            .join(identity, on="task_id", how="left", maintain_order="left")
            .join(graded, on="task_id", how="left", maintain_order="left")
        )
        return Lookups(attempts, known, {})


def prepared(look: Lookups, source: Compiled, kinds: Mapping[str, Kind]) -> Lookups:
    """The lookups with what the kinds make once over their whole family."""
    extra = {k.name: k.prepare(source.family(k.family), look) for k in kinds.values() if k.prepare is not None}
    return Lookups(look.attempts, look.tasks, extra)


def narrowed(look: Lookups, rows: pl.DataFrame) -> Lookups:
    """The lookups for the tasks and attempts of a slice only: joins on them cost by the slice, not by the load."""
    attempts, tasks = look.attempts, look.tasks
    if "task_id" in rows.columns:
        tasks = tasks.join(rows.select("task_id"), on="task_id", how="semi", maintain_order="left")
        if rows["attempt_id"].null_count() < rows.height:
            attempts = attempts.join(rows.select("attempt_id"), on="attempt_id", how="semi", maintain_order="left")
    return Lookups(attempts, tasks, look.extra)
