"""Answers of a model, kept in one SQLite file by a key of what was asked: each is there as soon as it arrived, and stays."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from expcomp.errors import OutputError, SourceError

_KIND = 0x65786A31  # application_id: a file of another program is never written to
_TABLE = (
    "CREATE TABLE answers (key TEXT PRIMARY KEY, text TEXT, finish_reason TEXT, refused INTEGER NOT NULL, model TEXT, "
    "prompt_tokens INTEGER, completion_tokens INTEGER, attempts INTEGER NOT NULL) WITHOUT ROWID"
)
_CHUNK = 500


class Answer(NamedTuple):
    """One answer as it came: nothing is read into it here.

    Attributes:
        text: What the model wrote; None when the response holds no text.
        finish_reason: Why it stopped, as the endpoint words it.
        refused: The response carries a refusal in place of a text.
        model: Model that the endpoint names.
        prompt_tokens: Tokens read; None when the endpoint does not say.
        completion_tokens: Tokens written; None when the endpoint does not say.
        attempts: Requests it took.
    """

    text: str | None
    finish_reason: str | None
    refused: bool
    model: str | None
    prompt_tokens: int | None
    completion_tokens: int | None
    attempts: int


class AnswerStore:
    """A file of answers; several processes may share it.

    Args:
        path: File, made when it is absent; None keeps the answers in memory.

    Raises:
        SourceError: The file is something else.
        OutputError: It cannot be made or opened.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        try:
            if path is not None:
                path.absolute().parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(":memory:" if path is None else path, isolation_level=None, timeout=60)
            self._prepare()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise OutputError(f"{path} cannot be used as a store of answers ({error}); name another file") from None
            raise SourceError(f"{path} is no store of answers ({error}); name another file") from None
        except OSError as error:
            raise OutputError(f"{path} cannot be written: {error.strerror}") from error

    def _prepare(self) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            kind = int(self._db.execute("PRAGMA application_id").fetchone()[0])
            if kind != _KIND:
                if self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                    raise SourceError(f"{self.path} is no store of answers; name another file")
                self._db.execute(_TABLE)
                self._db.execute(f"PRAGMA application_id = {_KIND}")
            self._db.execute("COMMIT")
        except BaseException:
            self._db.execute("ROLLBACK")
            raise

    def known(self, keys: Sequence[str]) -> dict[str, Answer]:
        """The answers to these keys, as far as there are any."""
        found: dict[str, Answer] = {}
        for start in range(0, len(keys), _CHUNK):
            part = keys[start : start + _CHUNK]
            marks = ", ".join("?" * len(part))
            for line in self._db.execute(f"SELECT * FROM answers WHERE key IN ({marks})", part):  # noqa: S608
                key, text, finish_reason, refused, *rest = line
                found[key] = Answer(text, finish_reason, bool(refused), *rest)
        return found

    def put(self, key: str, answer: Answer, *, replace: bool = False) -> Answer:
        """Keep an answer; returns the one that stands: without `replace` another process's, when that was first.

        Raises:
            OutputError: The file cannot be written.
        """
        try:
            verb = "REPLACE" if replace else "IGNORE"
            self._db.execute(f"INSERT OR {verb} INTO answers VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (key, *answer))  # noqa: S608
        except sqlite3.Error as error:
            raise OutputError(f"{self.path} cannot be written ({error}); free the disk and run again") from error
        return self.known([key])[key]

    def close(self) -> None:
        """Close the file."""
        self._db.close()
