"""Delta Lake tables: pinned snapshots, and transactions that are planned anew when another writer was quicker.

There is no lock file: a commit is one new file of the log, and two writers disagree only if they name the same lock. A lock is an
application transaction of the Delta protocol: the commit of the second is refused, it reads again and plans again. Parts are
Parquet files that are complete and on disk before the log names them; a writer that is killed leaves at most a part no one reads.
Enum columns are not for Delta; hand in String.
"""

from __future__ import annotations

import json
import random
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.errors import OutputError, SourceError
from expcomp.io.delta_parts import PART_ROWS, Parts, now
from expcomp.io.delta_snapshot import (
    NOTE,
    Snapshot,
    address,
    arrow_schema,
    check_free,
    commits,
    first_line,
    is_local,
    is_table,
    load,
    uri_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from deltalake import DeltaTable

CHECKPOINT_EVERY = "20"
"""Commits between checkpoints: each open reads the log since the last one, about 0.2 ms a commit with 145 columns."""

ORPHAN_HOURS = 24
FILES = "files"
"""The lock of every change that takes files away: Delta itself does not see a rewrite that meets a compaction."""

_RETRIES = 100
_DICE = random.SystemRandom()


@dataclass(frozen=True, slots=True)
class Change:
    """What a plan wants: rows to write, files they replace, locks that make writers exclude each other, a note for the history."""

    rows: pl.DataFrame
    replaced: tuple[str, ...] = ()
    locks: frozenset[str] = frozenset()
    note: Mapping[str, Any] = field(default_factory=dict)
    same_rows: bool = False


class DeltaFolder:
    """A Delta table at a folder or an object store, opened by `open_table` or `create_table`."""

    def __init__(self, uri: str, table: DeltaTable, options: Mapping[str, str] | None) -> None:
        self.uri, self._live, self._options = uri, table, options
        self._parts = Parts(uri, options)
        self._lock = threading.RLock()  # threads of one process take turns; processes need no lock
        meta = table.metadata()
        self.name, self.description = meta.name, meta.description

    def snapshot(self, version: int | None = None) -> Snapshot:
        """The newest version, or an earlier one.

        Raises:
            SourceError: The table, or that version, cannot be read.
        """
        if version is not None:
            return Snapshot(self.uri, load(self.uri, self._options, version), self._options)
        with self._lock:
            self._refresh()
            return Snapshot(self.uri, self._live, self._options)

    def transact(
        self, plan: Callable[[Snapshot], Change | None], *, stats: Sequence[str], patience: float = 120
    ) -> int:
        """Plan on a snapshot and commit in one step; plan again while others with a common lock are quicker.

        Args:
            plan: What to change; None for nothing. It may be called more than once.
            stats: Text columns whose bounds go into the log, for `Snapshot.holding`.
            patience: Seconds after which it gives up.

        Returns:
            A version that holds the change.

        Raises:
            OutputError: It cannot be written, or others were quicker for too long; nothing was changed.
        """
        end = time.monotonic() + patience
        for attempt in range(1 << 30):
            with self._lock:
                seen = self.snapshot()
                seen.check()
                change = self._planned(plan, seen)
                if change is None:
                    return seen.version
                if not seen.plain:
                    msg = f"{self.uri} needs features of Delta, by another engine, that expcomp does not write; nothing was changed"
                    raise OutputError(msg)
                parts = self._parts.write(change.rows, stats, same=change.same_rows)
                if self._committed(seen, change, parts):
                    self._refresh()
                    return int(self._live.version())
            if time.monotonic() > end:
                msg = f"{self.uri}: other writers were quicker for {patience:.0f} s; nothing was changed, try again"
                raise OutputError(msg)
            time.sleep(_DICE.uniform(0, min(0.5, 0.004 * 2 ** min(attempt, 8))))
        raise AssertionError

    def _planned(self, plan: Callable[[Snapshot], Change | None], seen: Snapshot) -> Change | None:
        from polars.exceptions import ComputeError

        try:
            return plan(seen)
        except (ComputeError, OSError) as error:
            msg = f"{self.uri} cannot be read: {first_line(error)}; nothing was changed"
            raise SourceError(msg) from error

    def add_columns(self, schema: pl.Schema) -> None:
        """Take in columns a newer version of the schema has; a column another writer just added is no error."""
        from deltalake import Schema
        from deltalake.exceptions import DeltaError

        for _ in range(8):
            seen = self.snapshot()
            new = {n: t for n, t in schema.items() if n not in seen.schema}
            if not new:
                return
            try:
                self._table_now().alter.add_columns(Schema.from_arrow(arrow_schema(pl.Schema(new))).fields)
            except DeltaError:
                time.sleep(_DICE.uniform(0, 0.05))
        msg = f"{self.uri}: the columns {', '.join(new)} cannot be added"
        raise OutputError(msg)

    def history(self) -> pl.DataFrame:
        """Commits, newest first: version, time, operation, and the note of its writer as JSON text."""
        return commits(self._table_now())

    def compact(self, *, stats: Sequence[str], order: Sequence[str], keep_hours: int = 168) -> tuple[int, int]:
        """Join small parts into large ones, then delete parts that no version of the last hours needs.

        Returns:
            Parts before and after.
        """
        before = self.snapshot().files.height

        def plan(seen: Snapshot) -> Change | None:
            small = seen.files.filter(pl.col("num_records").fill_null(0) < PART_ROWS // 2)["path"].to_list()
            if len(small) < 2:
                return None
            rows = seen.scan(small).collect().sort(*order, nulls_last=True, maintain_order=True)
            return Change(
                rows, tuple(small), frozenset({FILES}), {"action": "compact", "parts": len(small)}, same_rows=True
            )

        self.transact(plan, stats=stats)
        self._table_now().vacuum(keep_hours, dry_run=False, enforce_retention_duration=False)
        # A part the log does not name may be one that a writer is about to commit: only old ones are a dead writer's.
        old = max(keep_hours, ORPHAN_HOURS)
        self._table_now().vacuum(old, dry_run=False, enforce_retention_duration=False, full=True)
        return before, self.snapshot().files.height

    def _table_now(self) -> DeltaTable:
        return load(self.uri, self._options, None)

    def _refresh(self) -> None:
        from deltalake.exceptions import DeltaError

        try:
            self._live.update_incremental()
        except (DeltaError, OSError):
            self._live = load(self.uri, self._options, None)

    def _committed(self, seen: Snapshot, change: Change, parts: list[Any]) -> bool:
        """Commit on top of what was seen; False when another writer with a common lock was quicker."""
        from deltalake import CommitProperties, Transaction
        from deltalake.exceptions import CommitFailedError, DeltaError
        from deltalake.transaction import RemoveAction

        size = dict(zip(seen.files["path"], seen.files["size_bytes"], strict=True))
        gone = [RemoveAction(p, not change.same_rows, now(), size[p], {}) for p in change.replaced]
        locks = change.locks | ({FILES} if gone else set())
        properties = CommitProperties(
            custom_metadata={NOTE: json.dumps(dict(change.note))},
            max_commit_retries=_RETRIES,
            app_transactions=[Transaction(name, seen.version + 1) for name in sorted(locks)],
        )
        try:
            self._live.create_write_transaction(
                [*gone, *parts], "append", self._live.schema(), commit_properties=properties
            )
        except (DeltaError, OSError) as error:
            if self._has(parts):
                return True  # the commit stands; what failed came after it
            self._parts.drop(parts)
            if not isinstance(error, CommitFailedError):
                msg = f"{self.uri} cannot be written: {first_line(error)}; nothing was changed"
                raise OutputError(msg) from error
            return False
        return True

    def _has(self, parts: list[Any]) -> bool:
        return bool(parts) and parts[0].path in set(self.snapshot().files["path"])


def open_table(path: str | Path, options: Mapping[str, str] | None = None) -> DeltaFolder:
    """Open a table.

    Raises:
        SourceError: There is none, or it is damaged.
    """
    uri = uri_of(path)
    return DeltaFolder(uri, load(uri, options, None), options)


def create_table(
    path: str | Path, schema: pl.Schema, *, name: str, description: str, options: Mapping[str, str] | None = None
) -> DeltaFolder:
    """Open a table, and make it first when there is none; two that make it at once get the same one.

    Raises:
        OutputError: The place holds something else or cannot be written.
    """
    from deltalake import CommitProperties, DeltaTable
    from deltalake.exceptions import DeltaError

    uri = uri_of(path)
    if is_local(uri):
        check_free(Path(uri))
    if not is_table(uri, options):
        try:
            DeltaTable.create(
                address(uri),
                arrow_schema(schema),
                name=name,
                description=description,
                configuration={"delta.checkpointInterval": CHECKPOINT_EVERY},
                storage_options=dict(options) if options else None,
                # Tried again it would be committed after the one that was quicker, and put its description in place of that.
                commit_properties=CommitProperties(max_commit_retries=0),
            )
        except (DeltaError, OSError) as error:
            if not is_table(uri, options):
                if is_local(uri):
                    with suppress(OSError):  # they hold something
                        (Path(uri) / "_delta_log").rmdir()
                        Path(uri).rmdir()
                msg = f"{path} cannot be written: {first_line(error)}"
                raise OutputError(msg) from error
    return open_table(path, options)
