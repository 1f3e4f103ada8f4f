"""Search over packs: BM25 over their cards and statements (SQLite FTS5), so that a runtime can choose what to load."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.errors import SourceError
from expcomp.io.documents import read_json
from expcomp.io.text_files import read_text_file
from expcomp.io.text_index import TextIndex

if TYPE_CHECKING:
    from collections.abc import Sequence

INDEX = "search.sqlite"
WEIGHTS = {"title": 4.0, "about": 2.0, "tools": 2.0, "lessons": 1.0}
"""Weight of each field in BM25: what a pack is called counts most, what it holds least."""

_WORD = re.compile(r"\w[\w'./-]*\w|\w")
_INSIDE = r"[_'./-]+"
_SAID = 3
_LINE = re.compile(r"^- (.*) \[(evidence_[^\]]*)\]$", re.MULTILINE)


@dataclass(frozen=True)
class Found:
    """One pack that a query found.

    Attributes:
        pack_id: The pack.
        score: BM25 with field weights, above 0; only comparable inside one query.
        card: Its retrieval card.
        statements: Its statements that hold most words of the query, with their citations.
    """

    pack_id: str
    score: float
    card: dict[str, Any]
    statements: Sequence[dict[str, Any]]


def words(query: str) -> list[str]:
    """The words of a query as the index holds them: names and paths whole, and their parts."""
    found = [w.lower() for w in _WORD.findall(query)]
    return list(dict.fromkeys([*found, *(part for w in found for part in re.split(_INSIDE, w) if part)]))


def said(skill: str, package: str) -> list[dict[str, Any]]:
    """The statements of a SKILL.md: text, the citations that its line shows, and how many more there are."""
    found = []
    for text, cites in _LINE.findall(skill):
        parts = cites.split(", ")
        more = int(parts.pop()[1:]) if parts[-1].startswith("+") else 0
        pairs = [p.partition("@") for p in parts]
        shown = [{"package_id": at or package, "evidence_id": one} for one, _, at in pairs]
        found.append({"text": text, "citations": shown, "more_citations": more})
    return found


def index_lines(cards: pl.DataFrame, statements: pl.DataFrame) -> pl.DataFrame:
    """One line for each card, in order: the texts of the fields of `WEIGHTS`."""
    said = statements.group_by("pack_id", maintain_order=True).agg(lessons=pl.col("text").str.join("\n"))
    lists = ("tasks", "inputs", "deliverables", "criteria", "tools", "programs")
    flat = cards.with_columns(pl.col(c).list.join("\n") for c in lists).join(
        said, on="pack_id", how="left", maintain_order="left"
    )
    about = ("description", "domain", "subdomain", "workflow_family", "tasks", "inputs", "deliverables", "criteria")
    text = {
        "title": pl.concat_str("title", "source", "pack_id", separator="\n", ignore_nulls=True),
        "about": pl.concat_str(*about, separator="\n", ignore_nulls=True),
        "tools": pl.concat_str("tools", "programs", separator="\n", ignore_nulls=True),
        "lessons": pl.col("lessons"),
    }
    return flat.select(_indexed(expr.fill_null("")).alias(name) for name, expr in text.items())


def write_index(cards: pl.DataFrame, statements: pl.DataFrame, folder: Path) -> Path:
    """Write the index beside the cards it is over; returns its path."""
    lines = index_lines(cards, statements)
    path = folder / INDEX
    index = TextIndex(path, list(WEIGHTS))
    index.fill(zip(*(lines[c].to_list() for c in WEIGHTS), strict=True))
    index.close()
    return path


class PackIndex:
    """The packs of a published folder, opened for search.

    Args:
        folder: What `expcomp pack build` wrote.

    Raises:
        SourceError: The folder holds no packs.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if not (self.folder / INDEX).is_file():
            msg = f"{folder} holds no packs to search (no {INDEX}); make some with `expcomp pack build COMPILED --out {folder}`"
            raise SourceError(msg)
        self._index = TextIndex.open(self.folder / INDEX)

    @cached_property
    def pack_ids(self) -> list[str]:
        """The packs, in the order of the index."""
        return pl.read_parquet(self.folder / "packs.parquet", columns=["pack_id"], glob=False)["pack_id"].to_list()

    def search(self, query: str, *, limit: int = 10) -> list[Found]:
        """The best packs for a query, best first; a pack needs one telling word of it at least.

        Words that more than half of the packs hold tell nothing: their weight in BM25 is 0. Where a query has no other, its
        rarest one counts.
        """
        wanted = words(query)
        hits = self._index.search(self._telling(wanted), list(WEIGHTS.values()), limit)
        return [self._found(self.pack_ids[at], score, wanted) for at, score in hits]

    def _telling(self, wanted: Sequence[str]) -> list[str]:
        known = self._index.holding(wanted)
        if not known:
            return list(wanted)
        rare = [w for w in wanted if known.get(w, 0) <= len(self.pack_ids) / 2]
        return rare if any(w in known for w in rare) else [min(known, key=lambda w: (known[w], w))]

    def _found(self, pack_id: str, score: float, wanted: Sequence[str]) -> Found:
        root = self.folder / "packs" / pack_id
        card = read_json(root / "card.json")
        told = said(read_text_file(root / "SKILL.md"), card["source"])
        held = [len(set(wanted) & set(words(s["text"]))) for s in told]
        best = sorted((n for n, count in enumerate(held) if count), key=lambda n: (-held[n], n))
        return Found(pack_id, round(score, 6), card, [told[n] for n in best[:_SAID]])

    def close(self) -> None:
        """Close the index."""
        self._index.close()


def _indexed(text: pl.Expr) -> pl.Expr:
    """A text for the index: marks at the ends of words taken off, and names also in their parts."""
    bare = text.str.replace_all(r"[^\w'./-]+|[./'-]+(?:\s|$)|(?:^|\s)[./'-]+", " ")
    parts = bare.str.extract_all(r"\w+(?:[_'./-]+\w+)+").list.join(" ").str.replace_all(_INSIDE, " ")
    return pl.concat_str(bare, parts, separator="\n")
