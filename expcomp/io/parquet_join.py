"""Row groups of several Parquet files as one file: pages are copied as they are, only offsets are written anew.

No Python library does this (https://github.com/apache/arrow/issues/42896), and encoding rows again costs as much as the first time.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from expcomp.io.hashing import Hashing, Written
from expcomp.io.parquet_footer import (
    COLUMN_INDEX,
    COLUMN_INDEX_SIZE,
    MAGIC,
    OFFSET_INDEX,
    OFFSET_INDEX_SIZE,
    ORDINAL,
    PAGE,
    Footer,
    RowGroup,
    footer_text,
    moved_index,
    read_footer,
    signed,
)
from expcomp.io.whole import whole

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from typing import BinaryIO

_BLOCK = 1 << 20
_FEW = 32
"""Stretches of a file that are read one by one: each reads the whole footer again, in a thirtieth of the time that a join takes for it."""


class Span(NamedTuple):
    """Row groups `first` to `last` (not counted in) of a file."""

    path: Path
    first: int
    last: int

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self.path.stat().st_size


def join_row_groups(spans: Sequence[Span], out: Path) -> Written:
    """Write the row groups of the spans, end to end, as one file with the schema and the metadata of the first.

    The files must have been written with one schema by one writer. The bytes depend on the row groups only, not on the files they came
    in, or where in them they lay.

    Raises:
        ValueError: A file is no Parquet, has another schema or other metadata, or a feature that cannot be moved.
    """
    with ExitStack() as stack:
        handle = stack.enter_context(stack.enter_context(whole(out)).open("wb"))
        target = Hashing(handle)
        target.write(MAGIC)
        files = {path: stack.enter_context(path.open("rb")) for path in dict.fromkeys(span.path for span in spans)}
        footers = {path: read_footer(path) for path in files}
        first = footers[spans[0].path]
        moved: list[tuple[RowGroup, int]] = []
        indexes: list[tuple[list[bytes], list[bytes]]] = []
        for span in spans:
            footer = footers[span.path]
            if (footer.head, footer.tail) != (first.head, first.tail):
                msg = f"{span.path.name} has another schema or other metadata than {spans[0].path.name}"
                raise ValueError(msg)
            for group in footer.groups[span.first : span.last]:
                delta = target.tell() - group.start
                _copy(files[span.path], group, target)
                moved.append((group, delta))
                indexes.append(_indexes(files[span.path], group, delta))
        _write_footer(target, first, moved, indexes)
        return Written(sum(group.rows for group, _ in moved), target.size, target.sha256)


def read_stretches(spans: Sequence[Span], stretches: Sequence[tuple[int, int]], held: Path) -> pl.DataFrame:
    """Some rows of one file.

    Args:
        spans: Its row groups that hold them.
        stretches: The same rows as first row in the file and number of rows.
        held: A place for a file that is gone afterwards.
    """
    if len(stretches) <= _FEW:
        scans = [pl.scan_parquet(spans[0].path, glob=False).slice(first, rows) for first, rows in stretches]
        return pl.concat(pl.collect_all(scans))
    join_row_groups(spans, held)
    frame = pl.read_parquet(held, glob=False)
    held.unlink()
    return frame


def _copy(source: BinaryIO, group: RowGroup, target: Hashing) -> None:
    source.seek(group.start)
    left = group.end - group.start
    while left:
        data = source.read(min(left, _BLOCK))
        if not data:
            msg = "a Parquet file ends within a row group"
            raise ValueError(msg)
        target.write(data)
        left -= len(data)


def _indexes(source: BinaryIO, group: RowGroup, delta: int) -> tuple[list[bytes], list[bytes]]:
    """Column indexes and, moved, offset indexes of a row group."""
    found: tuple[list[bytes], list[bytes]] = ([], [])
    start = 0
    for mark in group.marks:
        if mark.kind in (COLUMN_INDEX, OFFSET_INDEX):
            start = mark.value
        elif mark.kind in (COLUMN_INDEX_SIZE, OFFSET_INDEX_SIZE):
            source.seek(start)
            text = source.read(mark.value)
            if mark.kind == COLUMN_INDEX_SIZE:
                found[0].append(text)
            else:
                found[1].append(moved_index(text, delta))
    return found


def _write_footer(
    target: Hashing,
    first: Footer,
    moved: Sequence[tuple[RowGroup, int]],
    indexes: Sequence[tuple[list[bytes], list[bytes]]],
) -> None:
    """The indexes of all row groups, column indexes first, then the footer that says where everything lies."""
    places: tuple[list[int], list[int]] = ([], [])
    sizes: tuple[list[int], list[int]] = ([], [])
    for which in (0, 1):
        for own in indexes:
            for text in own[which]:
                places[which].append(target.tell())
                sizes[which].append(len(text))
                target.write(text)
    take: dict[int, Callable[[], int]] = {
        COLUMN_INDEX: iter(places[0]).__next__,
        COLUMN_INDEX_SIZE: iter(sizes[0]).__next__,
        OFFSET_INDEX: iter(places[1]).__next__,
        OFFSET_INDEX_SIZE: iter(sizes[1]).__next__,
    }
    texts = []
    for number, (group, delta) in enumerate(moved):
        parts, kept = [], 0
        for start, end, value, kind in group.marks:
            if kind == PAGE:
                new = value + delta if value else 0
            elif kind == ORDINAL:
                new = number
            else:
                new = take[kind]()
            parts += [group.text[kept:start], signed(new)]
            kept = end
        parts.append(group.text[kept:])
        texts.append(b"".join(parts))
    footer = footer_text(first, texts, sum(group.rows for group, _ in moved))
    target.write(footer)
    target.write(len(footer).to_bytes(4, "little"))
    target.write(MAGIC)
