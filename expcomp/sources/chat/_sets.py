"""Files of many records: cut into parts when they are large, and read part by part (JSON, JSON lines, Parquet)."""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import orjson
import polars as pl

from expcomp.io.digest import PREFIX, sha256_file
from expcomp.sources._bytes import open_plain
from expcomp.sources._contract import Batch, Found, ReadOptions, Unit
from expcomp.sources._json import load_json, load_rows
from expcomp.sources._units import add_evidence, file_unit, open_unit, relative, report
from expcomp.sources._values import obj
from expcomp.sources.chat._parquet import Record, parquet_rows, parquet_spans
from expcomp.sources.chat._parts import parsed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PARQUET = b"PAR1"
WHOLE = 32 << 20
"""Files up to this size are read as a whole."""
PART = 16 << 20
"""Size of a part of a larger file."""
CHUNK = 4 << 20
_FIRST_LINES = 3
_LONGEST_LINE = 256 << 20
_BOM = b"\xef\xbb\xbf"


def add_units(
    name: str, path: Path, root: Path, found: Found, is_one: Callable[[list[Any]], bool] = lambda _: False
) -> None:
    """Add a unit for a file, or one for each part of a large one.

    A plain file of JSON lines is cut at newlines, a Parquet file between row groups. Compressed files and JSON documents are
    not cut, nor are files whose records make up one conversation or a few, which `is_one` tells from the first of them.
    """
    if isinstance(path, Path):
        if _magic(path) == PARQUET:
            spans = parquet_spans(path, WHOLE, PART)
            digest = sha256_file(path) if spans else None
        else:
            spans, digest = _line_spans(path, is_one)
        if spans:
            for span, size in spans:
                found.units.append(Unit(name, path, relative(path, root), size, None, span, digest))
            return
    file_unit(name, path, root, found)


def first_records(path: Path, wanted: int = 32) -> list[Any]:
    """The first records of a plain file of lines or of a Parquet file; none if it is neither."""
    if _magic(path) == PARQUET:
        return [r for _, _, r in parquet_rows(path, None, wanted)]
    out: list[Any] = []
    with open_plain(path) as handle:
        # As many as one chunk holds: lines may be long.
        while len(out) < wanted and handle.tell() < CHUNK:
            line = handle.readline(_LONGEST_LINE)
            if not line:
                break
            value, _ = load_json(line.removeprefix(_BOM))
            if value is not None:
                out.append(value)
    return out


@lru_cache(maxsize=64)
def witnesses(path: Path, names: tuple[str, ...]) -> list[dict[str, Any]]:
    """For each name the first record of a file of lines or of Parquet that has it as a column, or in its `metadata`; none where none has.

    For parts of a file, which have to agree on what a name means. The file is read once a process.
    """
    left, out = dict.fromkeys(names), []
    for row in _bearers(path, names):
        inner = row.get("metadata")
        beside = obj(parsed(inner) if isinstance(inner, str) else inner)
        here = [n for n in left if n in row or n in beside]
        if here:
            out.append(row)
            left = {n: None for n in left if n not in here}
        if not left:
            break
    return out


def _bearers(path: Path, names: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """Records that may have one of the names: of lines those that hold one in quotes, which are found without reading the others."""
    if _magic(path) == PARQUET:
        yield from (r for _, _, r in parquet_rows(path, None, None) if isinstance(r, dict))
        return
    with open_plain(path) as handle, mmap(handle.fileno(), 0, access=ACCESS_READ) as data:
        for name in names:
            mark, at = orjson.dumps(name)[1:-1], 0
            while (at := data.find(mark, at)) >= 0:
                begin, end = data.rfind(b"\n", 0, at) + 1, data.find(b"\n", at)
                at = end if end >= 0 else len(data)
                yield from (r for _, r in load_rows(data[begin:at]).rows if isinstance(r, dict))


def records(batch: Batch, unit: Unit, options: ReadOptions) -> tuple[Iterator[Record], str | None]:
    """The records of a unit, parsed one by one, and the digest of the file; what cannot be read is reported in `batch`."""
    magic = _magic(unit.path)
    if magic is None:
        batch.diagnose(
            "unreadable",
            "cannot read the file",
            package_id=unit.package_id,
            source_uri=unit.package_id,
            severity="error",
        )
        return iter(()), None
    if magic == PARQUET:
        digest = _evidence(batch, unit)
        return _parquet(batch, unit), digest
    if unit.span is not None:
        digest = _evidence(batch, unit)
        begin, end, first = unit.span
        with open_plain(unit.path) as handle:
            handle.seek(begin)
            data = handle.read(end - begin)
        if begin == 0 and data.startswith(_BOM):
            data, begin = data.removeprefix(_BOM), len(_BOM)
        return _lines(batch, unit, data, first, begin), digest
    found = open_unit(batch, unit, options.max_file_bytes)
    if found is None:
        return iter(()), None
    data = found[0].removeprefix(_BOM)
    if _is_lines(data):
        return _lines(batch, unit, data, 0, len(found[0]) - len(data)), found[1]
    rows = load_rows(data)
    report(batch, unit, rows.problems)
    return ((pos, str(pos), value) for pos, value in rows.rows), found[1]


def _evidence(batch: Batch, unit: Unit) -> str:
    """The digest of the file, which is cited once: with its first part."""
    digest = unit.digest or sha256_file(unit.path)
    if unit.span is None or unit.span[0] == 0:
        size = unit.path.stat().st_size
        add_evidence(batch, unit.package_id, unit.path.name, "trace", size=size, digest=digest)
    return digest


def _magic(path: Path) -> bytes | None:
    try:
        with open_plain(path) as handle:
            return handle.read(len(PARQUET))
    except OSError:
        return None


def _is_lines(data: bytes) -> bool:
    """Whether a text is JSON lines: one of the first lines is a whole record, and the text is no array of them."""
    at = 0
    for _ in range(_FIRST_LINES):
        end = data.find(b"\n", at)
        line = data[at : end if end >= 0 else len(data)].strip()
        if line[:1] in (b"{", b"["):
            try:
                orjson.loads(line)
            except orjson.JSONDecodeError:
                pass
            else:
                return end >= 0 or line[:1] == b"{"
        if end < 0:
            break
        at = end + 1
    return False


def _lines(batch: Batch, unit: Unit, data: bytes, first: int, offset: int) -> Iterator[Record]:
    """Records of lines. A line that does not parse is read tolerantly; one with two records is split (R13)."""
    loads, dumps = orjson.loads, orjson.dumps
    at = 0
    for number, line in enumerate(data.split(b"\n"), first):
        try:
            record = loads(line)
            # The writer stops at a depth that every later walk over the record can take.
            dumps(record)
        except (orjson.JSONDecodeError, TypeError):
            if line.strip():
                yield from _tolerant(batch, unit, line, number, offset + at)
        else:
            yield number, str(number), record
        at += len(line) + 1


def _tolerant(batch: Batch, unit: Unit, line: bytes, number: int, offset: int) -> Iterator[Record]:
    rows = load_rows(line)
    if len(rows.rows) > 1 and not any(p.severity == "error" for p in rows.problems):
        detail = f"line {number + 1} holds {len(rows.rows)} records; read each"
        batch.diagnose("glued_lines", detail, package_id=unit.package_id, source_uri=unit.package_id, source_pos=number)
    for problem in rows.problems:
        problem.detail = f"line {number + 1}: {problem.detail}"
        problem.pos = number
        problem.byte_offset = offset + (problem.byte_offset or 0)
    report(batch, unit, rows.problems)
    for pos, value in rows.rows:
        yield number, f"{number}.{pos}" if pos else str(number), value


Spans = list[tuple[tuple[int, int, int], int]]
"""First byte, end byte and number of the first record of each part, with its size."""


def _line_spans(path: Path, is_one: Callable[[list[Any]], bool]) -> tuple[Spans, str | None]:
    """Parts of a file of lines and the digest of the file; nothing where it is not to be cut."""
    size = path.stat().st_size
    if size <= WHOLE:
        return [], None
    with open_plain(path) as handle:
        if not _is_lines(_opening(handle)) or is_one(first_records(path)):
            return [], None
        handle.seek(0)
        return _cut(handle, size)


def _opening(handle: IO[bytes]) -> bytes:
    """The first lines of a file, as far as they are not longer than any record should be."""
    data = handle.read(len(_BOM))
    if data == _BOM:
        data = b""
    for _ in range(_FIRST_LINES):
        data += handle.readline(_LONGEST_LINE)
    return data


def _cut(handle: IO[bytes], size: int) -> tuple[Spans, str]:
    """Parts of a file that end with a line, the number of the first line of each, and the digest of all, in one pass over the bytes."""
    spans: Spans = []
    digest = sha256()
    begin = at = lines = first = 0
    while chunk := handle.read(CHUNK):
        cut = 0
        while True:
            # A part is long enough at `begin + PART`; it ends with the line that is there.
            end = chunk.find(b"\n", max(cut, begin + PART - at))
            if end < 0:
                break
            lines += chunk.count(b"\n", cut, end + 1)
            cut = end + 1
            spans.append(((begin, at + cut, first), at + cut - begin))
            begin, first = at + cut, lines
        lines += chunk.count(b"\n", cut)
        at += len(chunk)
        digest.update(chunk)
    if begin < size:
        spans.append(((begin, size, first), size - begin))
    return spans, PREFIX + digest.hexdigest()


def _parquet(batch: Batch, unit: Unit) -> Iterator[Record]:
    import pyarrow as pa

    done = unit.span[2] if unit.span else 0
    try:
        for done, key, record in parquet_rows(unit.path, unit.span, None):
            yield done, key, record
    except (OSError, ValueError, pa.ArrowException, pl.exceptions.PolarsError) as error:
        detail = f"the Parquet file cannot be read from row {done} on: {(str(error).splitlines() or ['no reason given'])[0][:200]}"
        batch.diagnose(
            "bad_parquet",
            detail,
            package_id=unit.package_id,
            source_uri=unit.package_id,
            source_pos=done,
            severity="error",
        )
