"""Entries of records: one row of the table of runs for each, classified by the rules of a profile."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from expcomp.ledger.pack import Pack

OPTIONS = (
    "artifact_ref",
    "result_ref",
    "compact_artifact_ref",
    "run_group_id",
    "arm_id",
    "notes",
    "recorded_at",
    "cwd",
)

CHUNK = 100_000  # records read at once: what bounds the memory


def entries(
    records: Sequence[Mapping[str, Any]],
    pack: Pack,
    options: Sequence[Mapping[str, Any]] | None = None,
    *,
    arm: str | None = None,
    group: str | None = None,
    recorded_at: str | datetime | None = None,
) -> pl.DataFrame:
    """Entries of records, in order, in the columns of the table of runs.

    Args:
        records: Run records; any mapping is one.
        pack: Rules of the profile.
        options: What the caller says of each record, by the names in `OPTIONS`; nothing by default.
        arm: Arm of every record whose options name none.
        group: The same for the group.
        recorded_at: When they are recorded, for those whose options do not say; a time without zone is UTC.

    Raises:
        UsageError: Another number of options than of records, or an option that does not exist.
    """
    said = [{}] * len(records) if options is None else list(options)
    if len(said) != len(records):
        raise UsageError(f"{len(records)} records and {len(said)} options; expected one for each")
    if unknown := {k for o in said for k in o} - set(OPTIONS):
        raise UsageError(f"unknown option {min(unknown)!r}; known are {', '.join(OPTIONS)}")
    common = {k: v for k, v in (("arm_id", arm), ("run_group_id", group)) if v is not None}
    if common:
        said = [{**common, **o} for o in said]
    at = _utc(recorded_at)
    text = recorded_at if isinstance(recorded_at, str) else _text(at)

    def part(start: int) -> pl.DataFrame:
        these, given = records[start : start + CHUNK], said[start : start + CHUNK]
        if pack.settings.get("compatible"):
            from expcomp.ledger.ancestor import ancestor_entries

            return ancestor_entries(these, given, pack, now=text)
        from expcomp.ledger.standard import standard_entries

        return standard_entries(these, given, pack, now=at)

    return pl.concat([part(s) for s in range(0, max(len(records), 1), CHUNK)])


def _text(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat(timespec="seconds")


def _utc(at: str | datetime | None) -> datetime | None:
    if at is None:
        return None
    try:
        found = datetime.fromisoformat(at) if isinstance(at, str) else at
    except ValueError as error:
        raise UsageError(
            f"recorded_at is {at!r}; expected a date and time such as 2026-01-31T12:00:00+00:00"
        ) from error
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
