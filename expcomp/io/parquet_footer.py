"""Footers of Parquet files as they stand on disk: where each row group keeps its offsets, so that it can move to another file.

A footer is one Thrift struct in the compact protocol. It is walked, never rebuilt: what is not an offset is copied byte for byte, and
so survives whatever its meaning (statistics, encodings, logical types). Field numbers are those of the Parquet format's `parquet.thrift`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

MAGIC = b"PAR1"
TAIL = 8
"""Bytes behind the footer: its length, and the magic number."""

PAGE, ORDINAL, OFFSET_INDEX, OFFSET_INDEX_SIZE, COLUMN_INDEX, COLUMN_INDEX_SIZE = range(6)
"""What a number in a row group says: a position among the pages, the number of the group, or where an index lies."""

_BYTES, _LIST, _SET, _MAP, _STRUCT = 8, 9, 10, 11, 12
_GROUP = {5: PAGE, 7: ORDINAL}
_CHUNK = {2: PAGE, 4: OFFSET_INDEX, 5: OFFSET_INDEX_SIZE, 6: COLUMN_INDEX, 7: COLUMN_INDEX_SIZE}
_META = {9: PAGE, 10: PAGE, 11: PAGE, 14: PAGE}
_COMPRESSED, _DATA, _DICTIONARY, _BLOOM = 7, 9, 11, 14


class Mark(NamedTuple):
    """A number inside the text of a row group: where it stands, its value, and what it says."""

    start: int
    end: int
    value: int
    kind: int


@dataclass(frozen=True, slots=True)
class RowGroup:
    """One row group.

    Attributes:
        text: Its Thrift struct.
        marks: The numbers in it that depend on where it lies, in order.
        rows: Number of rows.
        start: First byte of its pages in the file.
        end: The byte behind them.
    """

    text: bytes
    marks: tuple[Mark, ...]
    rows: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Footer:
    """A footer taken apart: before the number of rows, the row groups, behind the row groups.

    Attributes:
        head: Version and schema.
        groups: The row groups, in order.
        tail: Key-value metadata, writer, column orders.
        end: First byte of the footer in the file.
    """

    head: bytes
    groups: tuple[RowGroup, ...]
    tail: bytes
    end: int


def read_footer(path: Path) -> Footer:
    """The footer of a file.

    Raises:
        ValueError: It is no Parquet file, is cut, or has a feature that cannot be moved (encryption, pages in other files, Bloom filters).
    """
    try:
        with path.open("rb") as handle:
            size = handle.seek(0, os.SEEK_END)
            handle.seek(max(0, size - TAIL))
            tail = handle.read()
            length = int.from_bytes(tail[:4], "little")
            if tail[4:] != MAGIC or length + TAIL + len(MAGIC) > size:
                msg = f"{path.name} is no whole Parquet file"
                raise ValueError(msg)
            handle.seek(size - TAIL - length)
            return _footer(handle.read(length), size - TAIL - length)
    except (IndexError, KeyError, RecursionError, OverflowError):
        msg = f"{path.name} has a damaged footer"
        raise ValueError(msg) from None


def varint(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned number, and the position behind it."""
    value = data[at]
    at += 1
    if value < 128:
        return value, at
    value &= 127
    shift = 7
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7


def signed(value: int) -> bytes:
    """A number as the compact protocol writes i16, i32 and i64: zigzag, seven bits a byte."""
    return _unsigned(value << 1 if value >= 0 else ~(value << 1))


def moved_index(text: bytes, delta: int) -> bytes:
    """An OffsetIndex whose pages lie `delta` bytes further."""
    out, kept, at, field = [], 0, 0, 0
    while True:
        kind, field, at = _header(text, at, field)
        if not kind:
            break
        if field != 1:
            at = _skip(text, at, kind)
            continue
        count, at = _list(text, at)
        for _ in range(count):
            inner = 0
            while True:
                sort, inner, at = _header(text, at, inner)
                if not sort:
                    break
                if inner == 1:
                    value, end = varint(text, at)
                    out += [text[kept:at], signed(_number(value) + delta)]
                    at = kept = end
                else:
                    at = _skip(text, at, sort)
    out.append(text[kept:])
    return b"".join(out)


def footer_text(parts: Footer, groups: list[bytes], rows: int) -> bytes:
    """A footer with other row groups."""
    count = len(groups)
    head = bytes([count << 4 | _STRUCT]) if count < 15 else bytes([0xF0 | _STRUCT]) + _unsigned(count)
    # The two fields follow field 2 (schema): number of rows (3, i64), row groups (4, list).
    return b"".join([parts.head, b"\x16", signed(rows), b"\x19", head, *groups, parts.tail])


def _number(value: int) -> int:
    """A number of which `signed` wrote this unsigned one."""
    return value >> 1 ^ -(value & 1)


def _unsigned(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _header(data: bytes, at: int, field: int) -> tuple[int, int, int]:
    """Type and number of the next field, 0 at the end of the struct, and the position behind the header."""
    byte = data[at]
    at += 1
    if not byte:
        return 0, field, at
    step = byte >> 4
    if step:
        return byte & 15, field + step, at
    value, at = varint(data, at)
    return byte & 15, value >> 1, at


def _list(data: bytes, at: int) -> tuple[int, int]:
    count = data[at] >> 4
    at += 1
    return varint(data, at) if count == 15 else (count, at)


def _skip(data: bytes, at: int, kind: int) -> int:
    """The position behind a value."""
    if kind < 3:  # a boolean is in its header
        return at
    if kind == 3:
        return at + 1
    if kind < 7:
        while data[at] > 127:
            at += 1
        return at + 1
    if kind == 7:
        return at + 8
    if kind == _BYTES:
        size, at = varint(data, at)
        return at + size
    if kind == _STRUCT:
        while True:
            byte = data[at]
            at += 1
            if not byte:
                return at
            if not byte >> 4:
                _, at = varint(data, at)
            at = _skip(data, at, byte & 15)
    if kind in (_LIST, _SET):
        item = data[at] & 15
        count, at = _list(data, at)
        if item < 4:
            return at + count
        for _ in range(count):
            at = _skip(data, at, item)
        return at
    if kind == _MAP:
        count, at = varint(data, at)
        if count:
            pair = data[at]
            at += 1
            for _ in range(count):
                for item in (pair >> 4, pair & 15):
                    at = at + 1 if item < 4 else _skip(data, at, item)
        return at
    msg = f"a footer holds a value of unknown type {kind}"
    raise ValueError(msg)


def _footer(data: bytes, end: int) -> Footer:
    at, field = 0, 0
    head, groups = b"", list[RowGroup]()
    while True:
        start = at
        kind, field, at = _header(data, at, field)
        if field == 3 and kind:
            head = data[:start]
        if field == 4 and kind == _LIST:
            count, at = _list(data, at)
            for _ in range(count):
                group, at = _row_group(data, at)
                groups.append(group)
            break
        if not kind or field > 4:
            msg = "a footer has no list of row groups"
            raise ValueError(msg)
        at = _skip(data, at, kind)
    return Footer(head, tuple(groups), data[at:], end)


def _row_group(data: bytes, begin: int) -> tuple[RowGroup, int]:
    marks: list[Mark] = []
    spans: list[tuple[int, int]] = []
    at, field, rows = begin, 0, 0
    while True:
        kind, field, at = _header(data, at, field)
        if not kind:
            break
        if field == 1:
            count, at = _list(data, at)
            for _ in range(count):
                at = _column(data, at, begin, marks, spans)
        elif field in _GROUP:
            at = _mark(data, at, begin, _GROUP[field], marks)
        elif field == 3:
            value, at = varint(data, at)
            rows = value >> 1
        else:
            at = _skip(data, at, kind)
    first, last = min((s for s, _ in spans), default=0), max((e for _, e in spans), default=0)
    return RowGroup(data[begin:at], tuple(marks), rows, first, last), at


def _column(data: bytes, at: int, begin: int, marks: list[Mark], spans: list[tuple[int, int]]) -> int:
    field = 0
    while True:
        kind, field, at = _header(data, at, field)
        if not kind:
            return at
        if field == 3:
            at = _column_meta(data, at, begin, marks, spans)
        elif field in _CHUNK:
            at = _mark(data, at, begin, _CHUNK[field], marks)
        elif field in (1, 8, 9):
            msg = "a column lies in another file, or is encrypted; it cannot be moved"
            raise ValueError(msg)
        else:
            at = _skip(data, at, kind)


def _column_meta(data: bytes, at: int, begin: int, marks: list[Mark], spans: list[tuple[int, int]]) -> int:
    field = 0
    seen: dict[int, int] = {}
    while True:
        kind, field, at = _header(data, at, field)
        if not kind:
            break
        if field in _META:
            at = _mark(data, at, begin, PAGE, marks)
            seen[field] = marks[-1].value
        elif field == _COMPRESSED:
            value, at = varint(data, at)
            seen[field] = value >> 1
        else:
            at = _skip(data, at, kind)
    if _BLOOM in seen:
        msg = "a column has a Bloom filter; it cannot be moved"
        raise ValueError(msg)
    start = min(seen[_DATA], seen.get(_DICTIONARY) or seen[_DATA])
    spans.append((start, start + seen[_COMPRESSED]))
    return at


def _mark(data: bytes, at: int, begin: int, kind: int, marks: list[Mark]) -> int:
    value, end = varint(data, at)
    marks.append(Mark(at - begin, end - begin, _number(value), kind))
    return end
