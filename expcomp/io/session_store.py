"""Committed state and audit of one session, in one SQLite file: both change in one transaction or not at all."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from expcomp.errors import OutputError, RevisionConflictError, SessionError

_TABLES = (
    "CREATE TABLE about (one INTEGER PRIMARY KEY CHECK (one = 1), revision INTEGER NOT NULL, state TEXT NOT NULL, meta TEXT NOT NULL)",
    "CREATE TABLE audit (at INTEGER PRIMARY KEY, revision INTEGER, record TEXT NOT NULL)",
)


class SessionStore:
    """The store of a session.

    Args:
        path: File; None keeps it in memory.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        try:
            # Transactions are begun by hand: the driver would begin them too late to hold the revision that was read.
            self._db = sqlite3.connect(":memory:" if path is None else path, isolation_level=None, timeout=10)
        except sqlite3.Error as error:
            raise SessionError(f"{path}: cannot be opened ({error})") from None

    def create(self, state: str, meta: str) -> None:
        """Begin a session at revision 0.

        Raises:
            SessionError: There is one already, or the file cannot be written.
        """
        try:
            self._db.execute("BEGIN IMMEDIATE")
            for table in _TABLES:
                self._db.execute(table)
            self._db.execute("INSERT INTO about VALUES (1, 0, ?, ?)", (state, meta))
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            raise SessionError(f"{self.path}: no session can be made here ({error})") from None

    def begun(self) -> bool:
        """Whether there is a session; a run that was killed while it made one leaves a file without.

        Raises:
            SessionError: The file is none of SQLite.
        """
        try:
            return self._db.execute("SELECT 1 FROM sqlite_master").fetchone() is not None
        except sqlite3.Error as error:
            raise SessionError(f"{self.path}: is no session ({error})") from None

    def load(self) -> tuple[int, str, str]:
        """Revision, state and meta as they were committed last.

        Raises:
            SessionError: The file is no session.
        """
        try:
            found = self._db.execute("SELECT revision, state, meta FROM about").fetchone()
        except sqlite3.Error as error:
            raise SessionError(f"{self.path}: is no session ({error})") from None
        if found is None:
            raise SessionError(f"{self.path}: is no session")
        return int(found[0]), str(found[1]), str(found[2])

    def commit(self, expected: int, state: str, record: str) -> int:
        """Commit a state and its audit record on top of a revision; returns the new one.

        Raises:
            RevisionConflictError: The revision is another by now; nothing was written.
            OutputError: It cannot be written.
        """
        try:
            self._db.execute("BEGIN IMMEDIATE")
            now = int(self._db.execute("SELECT revision FROM about").fetchone()[0])
            if now != expected:
                raise RevisionConflictError(
                    f"{self.path or 'session'}: the step began at revision {expected}, now it is {now}; load the state and step again"
                )
            self._db.execute("UPDATE about SET revision = ?, state = ?", (now + 1, state))
            self._db.execute("INSERT INTO audit (revision, record) VALUES (?, ?)", (now + 1, record))
            self._db.execute("COMMIT")
        except BaseException as error:
            if self._db.in_transaction:  # a full disk has ended it already
                self._db.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error):
                raise OutputError(f"{self.path or 'session'}: the step cannot be written ({error})") from None
            raise
        return now + 1

    def note(self, record: str) -> None:
        """Add an audit record of a step that was refused; the state stays.

        Raises:
            OutputError: It cannot be written.
        """
        try:
            self._db.execute("INSERT INTO audit (revision, record) VALUES (NULL, ?)", (record,))
        except sqlite3.Error as error:
            raise OutputError(f"{self.path or 'session'}: what was refused cannot be written ({error})") from None

    def audit(self) -> list[str]:
        """Audit records, in order."""
        return [r[0] for r in self._db.execute("SELECT record FROM audit ORDER BY at")]

    def close(self) -> None:
        """Close the file."""
        self._db.close()
