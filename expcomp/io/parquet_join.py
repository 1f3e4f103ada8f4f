"""Row groups of several Parquet files as one file: pages are copied as they are, only offsets are written anew.

No Python library does this (https://github.com/apache/arrow/issues/42896), and encoding rows again costs as much as the first time.
"""

from __future__ import annotations

from contextlib import ExitStack
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from expcomp.io.digest import PREFIX
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


class Span(NamedTuple):
    """Row groups `first` to `last` (not counted in) of a file."""

    path: Path
    first: int
    last: int


class Joined(NamedTuple):
    """What was written: rows, bytes and `sha256:` digest of the file."""

    rows: int
    size: int
    digest: str


class _Output:
    """A file with the digest of what was written."""

    def __init__(self, handle: BinaryIO) -> None:
        self._handle = handle
        self.digest = sha256()
        self.at = 0

    def write(self, data: bytes) -> None:
        self._handle.write(data)
        self.digest.update(data)
        self.at += len(data)


def join_row_groups(spans: Sequence[Span], out: Path) -> Joined:
    """Write the row groups of the spans, end to end, as one file with the schema and the metadata of the first.

    The files must have been written with one schema by one writer. The bytes depend on the row groups only, not on the files they came
    in, or where in them they lay.

    Raises:
        ValueError: A file is no Parquet, has another schema or other metadata, or a feature that cannot be moved.
    """
    with ExitStack() as stack:
        handle = stack.enter_context(stack.enter_context(whole(out)).open("wb"))
        target = _Output(handle)
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
                delta = target.at - group.start
                _copy(files[span.path], group, target)
                moved.append((group, delta))
                indexes.append(_indexes(files[span.path], group, delta))
        _write_footer(target, first, moved, indexes)
        return Joined(sum(group.rows for group, _ in moved), target.at, PREFIX + target.digest.hexdigest())


def _copy(source: BinaryIO, group: RowGroup, target: _Output) -> None:
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
    target: _Output,
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
                places[which].append(target.at)
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
