"""Small SQLite files that are written once, for other programs to read: the same statements and rows give the same bytes."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any


def write_database(
    path: Path,
    schema: Sequence[str],
    rows: Iterable[tuple[str, Sequence[tuple[Any, ...]]]],
    finish: Sequence[str] = (),
) -> None:
    """Write a database.

    Args:
        path: File; must not exist.
        schema: Statements that make the tables.
        rows: Insert statements, each with its rows.
        finish: Statements after the rows.
    """
    with closing(sqlite3.connect(path)) as database, database:
        for statement in schema:
            database.execute(statement)
        for statement, values in rows:
            database.executemany(statement, values)
        for statement in finish:
            database.execute(statement)
