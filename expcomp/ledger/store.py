"""The ledger: benchmark runs in one Delta Lake table, added by many writers at once, read as frames."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.errors import UsageError
from expcomp.io.counts import Count
from expcomp.io.delta import Change, create_table, open_table
from expcomp.ledger import adding, changes
from expcomp.ledger.about import DEFAULT, NAME, about_of, known_profile
from expcomp.ledger.adding import AddReport
from expcomp.ledger.archive import Filter, archive, restore
from expcomp.ledger.cases import ARCHIVE_COLUMNS, RUN, active
from expcomp.ledger.changes import ORDER, STATS
from expcomp.ledger.identity import with_keys
from expcomp.ledger.inputs import REFUSED, Inputs, stamped
from expcomp.ledger.reading import Reading
from expcomp.ledger.recompute import recompute
from expcomp.ledger.views import instant, narrow
from expcomp.tables.ledger import RUNS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from expcomp.io.delta_snapshot import Snapshot


class Ledger(Reading):
    """A ledger at a folder or an object store.

    Args:
        path: Folder, or `s3://`, `gs://`, `az://` address.
        profile: Rules: `default`, or `loopx` for the ancestor's. A ledger keeps the one it was made with.
        create: Make the ledger when there is none.
        roles: Role (`baseline`, `treatment`, or another) by arm; kept by the ledger when it is made.
        rules: TOML files of the user over the profile.
        options: Credentials and settings of an object store.

    Raises:
        SourceError: There is no ledger, or it cannot be read.
        UsageError: It was made with another profile.
    """

    def __init__(
        self,
        path: str | Path,
        profile: str | None = None,
        *,
        create: bool = False,
        roles: Mapping[str, str] | None = None,
        rules: Path | str | None = None,
        options: Mapping[str, str] | None = None,
    ) -> None:
        if profile is not None:
            known_profile(profile)
        self.path, self._rules, self._version = path, rules, None
        self._widened = False
        if create:
            about = json.dumps({"profile": profile or DEFAULT, "roles": dict(roles or {})}, sort_keys=True)
            self._table = create_table(path, RUNS.schema, name=NAME, description=about, options=options)
        else:
            self._table = open_table(path, options)
        meta = about_of(self._table)
        self.profile = meta["profile"]
        self.roles = dict(roles) if roles else meta.get("roles", {})
        if profile is not None and profile != self.profile:
            msg = f"{path} is a ledger of profile {self.profile}, not {profile}"
            raise UsageError(msg)
        known_profile(self.profile)

    def add(
        self,
        what: Any,
        *,
        arm: str | None = None,
        group: str | None = None,
        benchmark: str | None = None,
        recorded_at: str | datetime | None = None,
        conflict: str = "newest",
        dry_run: bool = False,
    ) -> AddReport:
        """Add runs: a TraceSet, a frame of attempts or runs, records, or files of any of these.

        Args:
            what: What to add.
            arm: Arm of all of them; by default as each says.
            group: Run group of all of them.
            benchmark: Benchmark of attempts whose task has none.
            recorded_at: When the ledger took them; by default now. The time of a run is its own.
            conflict: For another record of an attempt that is there: keep the `newest`, `error`, or `keep_both`.
            dry_run: Tell what would become of them, write nothing.

        Raises:
            ConflictError: `conflict` is `error`, and there is one.
            SourceError: A file cannot be read.
            UsageError: It is nothing that can be added.
        """
        from expcomp.ledger.take import take

        self._to_write()
        if conflict not in adding.CONFLICTS:
            msg = f"conflict is {conflict!r}; expected one of {', '.join(adding.CONFLICTS)}"
            raise UsageError(msg)
        at = recorded_at or datetime.now(UTC)
        given = take(what, self.pack, arm=arm, group=group, benchmark=benchmark, at=at)
        return self._add(given, instant(at), conflict, "add", dry_run=dry_run)

    def merge(self, other: Ledger, *, conflict: str = "newest", dry_run: bool = False) -> AddReport:
        """Add all runs of another ledger; the other is only read."""
        self._to_write()
        runs = other.collect(other.stored)
        same = other.profile == self.profile
        if not same and self.profile != DEFAULT:
            msg = f"{other.path} has profile {other.profile}; it cannot be merged into one of {self.profile}"
            raise UsageError(msg)
        given = Inputs(
            runs if same else recompute(other.collect(other.runs), self.pack), pl.DataFrame(schema=REFUSED), stored=True
        )
        return self._add(given, None, conflict, "merge", dry_run=dry_run)

    def archive(
        self,
        which: Filter,
        *,
        reason: str,
        at: datetime | None = None,
        batch_id: str | None = None,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Hide runs without deleting them, with a reason; the report tells how many."""
        self._to_write()
        stamp = instant(at or datetime.now(UTC)).isoformat(timespec="seconds")
        found: dict[str, Any] = {}

        def plan(seen: Snapshot) -> Change | None:
            runs = narrow(self._read(seen), which)
            done, report = archive(runs, which, self.pack, reason=reason, at=stamp, batch_id=batch_id)
            found.update(report)
            changed = done.filter(which.matched() & runs.select(active()).to_series())
            return (
                None
                if dry_run
                else self._patch(seen, changed, "archive", archived=changed.height, reason=report["reason"])
            )

        self._table.transact(plan, stats=STATS)
        return found

    def unarchive(self, which: Filter, *, dry_run: bool = False) -> pl.DataFrame:
        """Bring archived runs back; returns which, with the reason they had."""
        self._to_write()
        found = []

        def plan(seen: Snapshot) -> Change | None:
            done, back = restore(narrow(self._read(seen), which), which)
            found.append(back)
            changed = done.join(back.select(RUN), on=RUN, how="semi", maintain_order="left")
            return None if dry_run else self._patch(seen, changed, "unarchive", restored=changed.height)

        self._table.transact(plan, stats=STATS)
        return found[-1]

    def compact(self, *, keep_hours: int = 168) -> tuple[int, int]:
        """Join small files, and delete those no version of the last hours needs; earlier versions are then gone.

        Returns:
            Files before and after.
        """
        self._to_write()
        return self._table.compact(stats=STATS, order=ORDER, keep_hours=keep_hours)

    def __repr__(self) -> str:
        seen = self._snapshot()
        rows, files = Count(seen.files["num_records"].sum()), Count(seen.files.height)
        return f"Ledger({str(self.path)!r}, profile {self.profile}: {rows:run|runs} in {files:file|files}, version {seen.version})"

    def _add(self, given: Inputs, at: datetime | None, conflict: str, action: str, *, dry_run: bool) -> AddReport:
        own = self.profile == DEFAULT
        runs = stamped(given.runs, at) if at is not None else given.runs
        runs = with_keys(adding.with_content(runs)) if own else runs
        runs, broken = adding.checked(runs, stored=given.stored) if own else (runs, given.refused.clear())
        refused = pl.concat([given.refused, broken]).sort("record", maintain_order=True)
        told: list[pl.DataFrame] = [runs.head(0).select(*RUN, action=pl.lit(""))]

        def plan(seen: Snapshot) -> Change | None:
            if own:
                change, actions = adding.by_identity(seen, runs, conflict)
            elif given.stored and action == "add":
                change, actions = adding.by_key(seen, runs)
            else:
                change, actions = adding.by_pack(seen, runs, self.pack)
            told.append(actions)
            if change is None or dry_run:
                return None
            said = changes.note(action, actions, refused.height, **given.about)
            return Change(change.rows, change.replaced, change.locks, said)

        if not runs.height:
            return AddReport(told[-1], refused, self.version, dry_run)
        if not (dry_run or self._widened):
            self._table.add_columns(RUNS.schema)
            self._widened = True
        version = self._table.transact(plan, stats=STATS)
        return AddReport(told[-1], refused, version, dry_run)

    def _patch(self, seen: Snapshot, changed: pl.DataFrame, action: str, **facts: Any) -> Change | None:
        if not changed.height:
            return None
        rows, replaced = changes.patched(seen, changed, ARCHIVE_COLUMNS)
        locks = changes.run_locks(changed, self.profile == DEFAULT)
        return Change(rows, replaced, locks, {"action": action, **facts})

    def _to_write(self) -> None:
        if self._version is not None:
            msg = f"this is version {self._version} of {self.path}, to read; open the ledger itself to change it"
            raise UsageError(msg)
