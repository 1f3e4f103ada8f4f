"""What a ledger says of itself: that it is one, its profile, its roles, the head of the document it was filled from."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.errors import SourceError, UsageError
from expcomp.ledger.pack import profiles

if TYPE_CHECKING:
    from expcomp.io.delta import DeltaFolder

NAME = "expcomp ledger"
DEFAULT = "default"


def head_of(commits: pl.DataFrame, version: int) -> dict[str, Any]:
    """What the newest document that was added up to a version said of itself."""
    told = commits.filter(pl.col("version") <= version, pl.col("note").str.contains('"header"', literal=True))["note"]
    found: dict[str, Any] = json.loads(told[0]) if told.len() else {}
    return found


def known_profile(profile: str) -> None:
    """Refuse a profile that is not packaged.

    Raises:
        UsageError: It is not.
    """
    if profile not in profiles():
        msg = f"unknown profile {profile!r}; known are {', '.join(profiles())}"
        raise UsageError(msg)


def about_of(table: DeltaFolder) -> dict[str, Any]:
    """Profile and roles of a ledger.

    Raises:
        SourceError: The table is no ledger.
    """
    try:
        meta: Any = json.loads(table.description or "")
    except ValueError:
        meta = None  # of another program
    if table.name != NAME or not isinstance(meta, dict) or not isinstance(meta.get("profile"), str):
        msg = f"{table.uri} is a Delta table, but no ledger of expcomp"
        raise SourceError(msg)
    return meta
