"""A full-text index in one SQLite file: FTS5 with field weights, or plain matching where a build of SQLite lacks it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path

from expcomp.errors import InternalError, SourceError

TOKENIZER = "unicode61 tokenchars '_-./'"
"""A name, a path or an id is one word."""


class TextIndex:
    """An index over lines of named text fields; each line is known by its position.

    Args:
        path: File, or None for one in memory.
        fields: Names of the text fields.
        fts: Use FTS5; by default where this build has it.
    """

    def __init__(self, path: Path | None, fields: Sequence[str], *, fts: bool | None = None) -> None:
        self.fields = tuple(fields)
        if any(not f.isidentifier() for f in self.fields):
            raise InternalError(f"fields {self.fields} are no names")
        self._db = sqlite3.connect(":memory:" if path is None else path)
        self.fts = has_fts() if fts is None else fts

    @classmethod
    def open(cls, path: Path) -> TextIndex:
        """Open an index for reading.

        Raises:
            SourceError: It cannot be read.
        """
        found = cls.__new__(cls)
        try:
            found._db = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
            made = found._db.execute("SELECT sql FROM sqlite_master WHERE name = 'lines'").fetchone()
            found.fields = tuple(r[1] for r in found._db.execute("PRAGMA table_info(lines)"))
        except sqlite3.Error as error:
            raise SourceError(f"{path} cannot be read as an index ({error})") from None
        if not made or not found.fields:
            raise SourceError(f"{path} is no index of texts")
        found.fts = "fts5" in made[0].lower()
        return found

    def fill(self, lines: Iterable[Sequence[str]]) -> None:
        """Add lines, in the order of the fields."""
        columns = ", ".join(self.fields)
        table = (
            f'VIRTUAL TABLE lines USING fts5({columns}, tokenize = "{TOKENIZER}")'
            if self.fts
            else f"TABLE lines ({columns})"
        )
        marks = ", ".join("?" * len(self.fields))
        with self._db:
            self._db.execute(f"CREATE {table}")
            self._db.executemany(f"INSERT INTO lines ({columns}) VALUES ({marks})", lines)  # noqa: S608 - names are checked
        if self.fts:
            with self._db:
                self._db.execute("INSERT INTO lines (lines) VALUES ('optimize')")

    def search(self, words: Sequence[str], weights: Sequence[float], limit: int) -> list[tuple[int, float]]:
        """Positions (0-based) of the best lines for any of the words, each with a score above 0, best first.

        With FTS5 the score is BM25 with field weights (Robertson; SQLite's `bm25()`, negated), else the weighted number of
        words that a field holds.
        """
        if not words or limit < 1:
            return []
        if self.fts:
            query = " OR ".join('"' + w.replace('"', '""') + '"' for w in words)
            scale = ", ".join("?" * len(weights))
            rank = f"SELECT rowid - 1, -bm25(lines, {scale}) AS s FROM lines WHERE lines MATCH ? ORDER BY s DESC, rowid LIMIT ?"  # noqa: S608
            return self._db.execute(rank, (*weights, query, limit)).fetchall()
        terms = " + ".join(f"? * (instr(lower({f}), ?) > 0)" for f in self.fields for _ in words)
        values = [v for f, weight in zip(self.fields, weights, strict=True) for w in words for v in (weight, w.lower())]
        plain = f"SELECT rowid - 1, s FROM (SELECT rowid, {terms} AS s FROM lines) WHERE s > 0 ORDER BY s DESC, rowid LIMIT ?"  # noqa: S608
        return self._db.execute(plain, (*values, limit)).fetchall()

    def holding(self, words: Sequence[str]) -> dict[str, int]:
        """How many lines hold each word, as the index spells it; only words that FTS5 knows."""
        if not self.fts or not words:
            return {}
        self._db.execute("CREATE VIRTUAL TABLE IF NOT EXISTS temp.known USING fts5vocab('main', 'lines', 'row')")
        marks = ", ".join("?" * len(words))
        return dict(self._db.execute(f"SELECT term, doc FROM temp.known WHERE term IN ({marks})", tuple(words)))  # noqa: S608

    def close(self) -> None:
        """Close the file."""
        self._db.close()


def has_fts() -> bool:
    """Whether this build of SQLite has FTS5."""
    with closing(sqlite3.connect(":memory:")) as db:
        try:
            db.execute("CREATE VIRTUAL TABLE t USING fts5(x)")
        except sqlite3.OperationalError:
            return False
    return True
