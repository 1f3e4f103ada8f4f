"""What a dataset takes from a compile: slices of its row families, and narrow key tables for the joins."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from expcomp.compiler.compilation import Compilation, open_compilation
from expcomp.datasets.contract import OPENINGS, Lookups
from expcomp.datasets.decontaminate.heldout import task_identity
from expcomp.datasets.flat import filled, prompt_task
from expcomp.errors import SourceError
from expcomp.io.documents import read_json
from expcomp.io.memory import processors
from expcomp.tables.catalogue import TABLES
from expcomp.tables.digests import schema_digest

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
_TASKS = ("task_id", "instruction", "target", "cluster", "workflow_family", "split")
_READ = frozenset({*_TASKS, "dataset", "native_id", "task_digest"})
_USER_PATHS = ("$.user_id", "$.customer_id", "$.end_user_id", "$.user.id")
_NAMES = ("attempt_id", "attempt_ids")  # of a row, and of a group
_SLICE = 8_192  # tasks whose texts are normalised at a time


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
            SourceError: The folder is no output of a compile, lacks a file of one, or was made by a version with other columns.
        """
        if isinstance(source, Compilation):
            return cls(None, source)
        folder = Path(source)
        opened = open_compilation(folder)
        _same_columns(folder)
        return cls(folder, opened)

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
        return pl.scan_parquet(path, glob=False)

    def rejections(self, kinds: Mapping[str, Kind]) -> dict[str, dict[str, int]]:
        """Reasons for which the compile rejected rows of the families behind the kinds, with their numbers, by kind."""
        families = self.compilation.report["families"]
        return {k.name: dict(families.get(k.family, {}).get("reasons", {})) for k in kinds.values()}

    def lookups(self, *, users: bool = False) -> Lookups:
        """The key tables, whole; with `users`, attempts say whose task theirs is, where the source does."""
        attempts = self._named(self.table("attempts").select(_ATTEMPTS).collect())
        if users:
            attempts = attempts.join(self._users(), on="attempt_id", how="left", maintain_order="left")
        table = self.table("tasks")
        tasks = table.select(c for c in table.collect_schema() if c in _READ).collect()
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
            .hstack(identified(tasks).drop("task_id"))
            .join(graded, on="task_id", how="left", maintain_order="left")
        )
        return Lookups(attempts, known, {})

    def _users(self) -> pl.DataFrame:
        """attempt_id, user: from what sources say beside the common model."""
        told = pl.coalesce(
            pl.col(column).str.json_path_match(path) for column in ("metadata", "_task") for path in _USER_PATHS
        )
        tasks = self.table("tasks").select("task_id", _task="metadata")
        return (
            self.table("attempts")
            .select("attempt_id", "task_id", "metadata")
            .join(tasks, on="task_id", how="left", maintain_order="left")
            .select("attempt_id", user=told)
            .collect()
        )

    def openings(self) -> pl.DataFrame:
        """attempt_id, opening: first words of the user in attempts in which one was simulated.

        The agent saw them; the instruction of such a task is the script of that user, which it never did.
        """
        said = (pl.col("role") == "user") & (pl.col("branch").fill_null(0) == 0) & (pl.col("origin") != "harness")
        keys = ["attempt_id", "message_index"]
        table = self.table("messages")
        # First without the texts: those of all attempts are never in memory.
        first = (
            table.filter(said)
            .select(*keys, simulated=pl.col("origin") == "simulator")
            .collect()
            .sort(keys)
            .unique("attempt_id", keep="first", maintain_order=True)
            .filter("simulated")
        )
        return (
            table.select(*keys, opening="content")
            .join(first.lazy(), on=keys, how="semi", maintain_order="left")
            .select("attempt_id", "opening")
            .collect(engine="streaming")
        )

    def _named(self, attempts: pl.DataFrame) -> pl.DataFrame:
        """Attempts with a task: those of sessions and chat sets, which name none, by the words that their user began with."""
        nameless = attempts.filter(pl.col("task_id").is_null()).select("attempt_id")
        if nameless.is_empty():
            return attempts
        first = (pl.col("role") == "user") & (pl.col("branch").fill_null(0) == 0)
        asked = (
            self.table("messages")
            # A filter of the scan, without a look at the texts: those of all attempts are never in memory.
            .filter(first & pl.col("attempt_id").is_in(nameless["attempt_id"].implode()))
            .select("attempt_id", "message_index", "content")
            .collect()
            .filter(filled("content").is_not_null())
            .sort("attempt_id", "message_index")
            .unique("attempt_id", keep="first", maintain_order=True)
            .select("attempt_id", _asked=prompt_task("content"))
        )
        return (
            attempts.join(asked, on="attempt_id", how="left", maintain_order="left")
            .with_columns(pl.coalesce("task_id", "_asked").alias("task_id"))
            .drop("_asked")
        )


def _same_columns(folder: Path) -> None:
    files = read_json(folder / "manifest.json").get("files")
    for entry in files if isinstance(files, list) else []:
        name = Path(str(entry.get("path"))).stem
        if name in TABLES and entry.get("schema_digest", want := schema_digest(TABLES[name])) != want:
            msg = f"{folder}: {entry['path']} has other columns than this version of expcomp makes; compile again"
            raise SourceError(msg)


def with_tasks(rows: pl.DataFrame, look: Lookups) -> pl.DataFrame:
    """Rows of a family that name no task, with that of their attempt."""
    if "attempt_id" not in rows.columns or not rows["task_id"].null_count():
        return rows
    known = look.attempts.select("attempt_id", _task="task_id")
    return (
        rows.join(known, on="attempt_id", how="left", maintain_order="left")
        .with_columns(task_id=pl.coalesce("task_id", "_task"))
        .drop("_task")
    )


def prepared(look: Lookups, source: Compiled, kinds: Mapping[str, Kind]) -> Lookups:
    """The lookups with what the kinds make once over their whole family."""
    extra = {k.name: k.prepare(source.family(k.family), look) for k in kinds.values() if k.prepare is not None}
    if any(k.opened for k in kinds.values()):
        extra[OPENINGS] = source.openings()
    return Lookups(look.attempts, look.tasks, extra)


def identified(tasks: pl.DataFrame) -> pl.DataFrame:
    """`task_identity` of a table, slice by slice on all processors: it reads every text, and needs several times its size."""
    slices = [tasks.slice(start, _SLICE) for start in range(0, max(1, tasks.height), _SLICE)]
    with ThreadPoolExecutor(processors()) as threads:
        return pl.concat(threads.map(task_identity, slices))


def narrowed(look: Lookups, rows: pl.DataFrame) -> Lookups:
    """The lookups for the tasks and attempts of a slice only: joins on them cost by the slice, not by the load."""
    attempts, tasks = look.attempts, look.tasks
    if "task_id" in rows.columns:
        tasks = lines_of(tasks, "task_id", rows["task_id"])
    named = [rows[c].explode() if c == "attempt_ids" else rows[c] for c in _NAMES if c in rows.columns]
    if any(n.null_count() < n.len() for n in named):
        attempts = lines_of(attempts, "attempt_id", pl.concat(named))
    return Lookups(attempts, tasks, look.extra)


def lines_of(frame: pl.DataFrame, column: str, wanted: pl.Series) -> pl.DataFrame:
    """Lines of a frame whose column holds a wanted value, in their order.

    In a column marked as sorted they are searched for, which costs by what is wanted, not by the frame.
    """
    if not frame[column].flags["SORTED_ASC"]:
        return frame.join(wanted.to_frame(column), on=column, how="semi", maintain_order="left")
    wanted = wanted.drop_nulls().unique().sort()
    low, high = (frame[column].search_sorted(wanted, side) for side in ("left", "right"))
    spans = pl.DataFrame({"low": low, "high": high})
    return frame[spans.select(at=pl.int_ranges("low", "high")).explode("at").drop_nulls()["at"]]
