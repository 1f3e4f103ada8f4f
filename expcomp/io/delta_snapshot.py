"""Where a Delta table is, and one version of it: a list of files that never changes."""

from __future__ import annotations

import os
import re
import stat
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import polars as pl

from expcomp.errors import ConfigError, OutputError, SourceError, UsageError
from expcomp.io.addresses import home_told

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from deltalake import DeltaTable

NOTE = "expcomp"
_STATS_BYTES = 256
_MAGIC = b"PAR1"
_COLOUR = re.compile(r"\x1b\[\d+m")
_UNFIT = re.compile(
    r"[#?\\]|%[0-9A-Fa-f]{2}"
)  # delta-rs takes it for a part of an address, and loses the table or its history


class Snapshot:
    """One version of a table: its files never change."""

    def __init__(self, uri: str, table: DeltaTable, options: Mapping[str, str] | None) -> None:
        self._uri, self._options = uri, options
        self.version: int = table.version()
        self.schema = pl.DataFrame(table.schema().to_arrow(as_large_types=False).empty_table()).schema
        protocol = table.protocol()
        self.plain = protocol.min_writer_version <= 2 and protocol.min_reader_version <= 1
        self.files = pl.DataFrame(table.get_add_actions(flatten=True)).sort("path")

    def scan(self, paths: Sequence[str] | None = None, *, source: str | None = None) -> pl.LazyFrame:
        """All rows, or those of some files; `source` names a column for the file a row is in.

        Raises:
            SourceError: A file the log names is gone, cut or no regular file.
        """
        files = self.files if paths is None else self.files.filter(pl.col("path").is_in(list(paths)))
        if not files.height:
            empty = pl.LazyFrame(schema=self.schema)
            return empty if source is None else empty.with_columns(pl.lit(None, pl.String).alias(source))
        self.check(files)
        self._check_magic(files)
        return pl.scan_parquet(
            [f"{self._uri}/{unquote(p)}" for p in files["path"]],
            schema=self.schema,
            missing_columns="insert",
            extra_columns="ignore",
            glob=False,
            include_file_paths=source,
            storage_options=dict(self._options) if self._options else None,
        )

    def holding(self, column: str, values: pl.Series, *, head: int | None = None) -> list[str]:
        """Files that may hold one of some texts in a column, by the bounds in the log; with `head`, by their first characters."""
        bounds = [f"{side}.{column}" for side in ("min", "max")]
        if not set(bounds) <= set(self.files.columns):
            return self.files["path"].to_list()
        low, high = (self.files[b].str.slice(0, head) if head else self.files[b] for b in bounds)
        wanted = values.drop_nulls().unique().sort()
        unknown = low.is_null() | high.is_null()
        first = wanted.search_sorted(low.fill_null(""), side="left")
        last = wanted.search_sorted(high.fill_null(""), side="right")
        return self.files["path"].filter(unknown | (last > first)).to_list()

    def name_of(self, path: str) -> str:
        """Name in the log of a file as `scan` gives it."""
        return path.removeprefix(f"{self._uri}/")

    def readable(self, name: str) -> bool:
        """Whether a part, by its name in the log, can be read to its end."""
        try:
            self.scan([name]).collect()
        except (pl.exceptions.ComputeError, OSError, SourceError):
            return False
        return True

    def check(self, files: pl.DataFrame | None = None) -> None:
        """Refuse a table whose files are not all there; a look at their sizes, of a local table.

        Raises:
            SourceError: Naming the first that is gone, cut or no regular file.
        """
        files = self.files if files is None else files
        if not is_local(self._uri):
            return
        for name, size in zip(files["path"], files["size_bytes"], strict=True):
            path = Path(self._uri) / unquote(name)
            try:
                found = path.lstat()
            except OSError as error:
                msg = f"{self._uri}: the part {name} of version {self.version} is gone ({error.strerror}); restore it"
                raise SourceError(msg) from error
            if not stat.S_ISREG(found.st_mode):
                msg = f"{self._uri}: the part {name} is no regular file; not read"
                raise SourceError(msg)
            if found.st_size != size:
                msg = f"{self._uri}: the part {name} has {found.st_size:,} bytes, the log says {size:,}: damaged"
                raise SourceError(msg)

    def _check_magic(self, files: pl.DataFrame) -> None:
        """What is read must begin and end as Parquet does: a power cut may leave a file of the right size without its bytes."""
        if not is_local(self._uri):
            return
        for name in files["path"]:
            with (Path(self._uri) / unquote(name)).open("rb", buffering=0) as handle:
                ends = handle.read(len(_MAGIC))
                handle.seek(-len(_MAGIC), os.SEEK_END)
                ends += handle.read(len(_MAGIC))
            if ends != _MAGIC * 2:
                msg = f"{self._uri}: the part {name} is no Parquet file: damaged; restore it"
                raise SourceError(msg)


def commits(table: DeltaTable) -> pl.DataFrame:
    """Commits, newest first: version, time, operation, and the note of its writer as JSON text."""
    found = table.history()
    return pl.DataFrame(
        {
            "version": [c["version"] for c in found],
            "committed_at": [c.get("timestamp") for c in found],
            "operation": [c.get("operation") for c in found],
            "note": [c.get(NOTE) for c in found],
        },
        schema={"version": pl.Int64, "committed_at": pl.Int64, "operation": pl.String, "note": pl.String},
    ).with_columns(pl.from_epoch("committed_at", time_unit="ms").dt.cast_time_unit("us").dt.replace_time_zone("UTC"))


def arrow_schema(schema: pl.Schema) -> Any:
    """The Arrow schema of a frame."""
    return pl.DataFrame(schema=schema).to_arrow().schema


def bounds(frame: pl.DataFrame, columns: Sequence[str]) -> dict[str, Any]:
    """Rows, and the first and last value of some text columns, as the log has them; of long texts there are none."""
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    for name in columns:
        ends = (frame[name].min(), frame[name].max()) if name in frame.columns else (None, None)
        if all(isinstance(e, str) and len(e.encode()) <= _STATS_BYTES for e in ends):
            low[name], high[name] = ends
    nulls = {name: frame[name].null_count() for name in columns if name in frame.columns}
    return {"numRecords": frame.height, "minValues": low, "maxValues": high, "nullCount": nulls}


def uri_of(path: str | Path) -> str:
    """Absolute folder, or the address of an object store.

    Raises:
        UsageError: A link, or a name Delta cannot open.
    """
    if find_spec("deltalake") is None:
        msg = "a ledger needs the extra ledger: pip install 'expcomp[ledger]'"
        raise ConfigError(msg)
    text = os.fspath(path).rstrip("/")
    if text.startswith("file://"):
        text = text.removeprefix("file://")
    if not is_local(text):
        return text
    if told := home_told(text):
        raise UsageError(told)
    where = Path(text or "/").absolute()
    try:
        linked = where.is_symlink() or (where / "_delta_log").is_symlink()
    except OSError as error:
        msg = f"{path} cannot be opened: {error.strerror}"
        raise SourceError(msg) from error
    if linked:
        msg = f"{path} is, or holds, a symbolic link; give the folder itself"
        raise UsageError(msg)
    if _UNFIT.search(str(where)):
        msg = f"{path}: Delta tables cannot stand below a name with ?, #, \\ or a percent escape in it, as %20; choose another folder"
        raise UsageError(msg)
    return str(where)


def address(uri: str) -> str:
    """The same as delta-rs takes it."""
    return Path(uri).as_uri() if is_local(uri) else uri


def check_free(where: Path) -> None:
    """Refuse a place that holds something else.

    Raises:
        OutputError: It does.
    """
    if where.exists() and not where.is_dir():
        msg = f"{where} exists and is no folder"
        raise OutputError(msg)
    # Looked into before the log is looked for: another run may make a table meanwhile.
    if where.is_dir() and any(where.iterdir()) and not (where / "_delta_log").is_dir():
        msg = f"{where} holds something else than a table; choose another folder"
        raise OutputError(msg)


def is_table(uri: str, options: Mapping[str, str] | None) -> bool:
    """Whether there is a table."""
    from deltalake import DeltaTable

    return DeltaTable.is_deltatable(address(uri), dict(options) if options else None)


def load(uri: str, options: Mapping[str, str] | None, version: int | None) -> DeltaTable:
    """Read the log of a table.

    Raises:
        SourceError: There is none, it is damaged, or it has no such version.
    """
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError, TableNotFoundError

    try:
        _check_log(uri)
        return DeltaTable(address(uri), version=version, storage_options=dict(options) if options else None)
    except TableNotFoundError as error:
        msg = f"{uri} holds no table; create it first, or check the path"
        raise SourceError(msg) from error
    except (DeltaError, OSError, ValueError) as error:
        if version is not None and (last := load(uri, options, None).version()) < version:
            raise SourceError(f"{uri} has no version {version}; the last one is {last}") from error
        what = "cannot be read" if version is None else f"has no version {version} that can be read"
        raise SourceError(f"{uri} {what}: {first_line(error)}") from error


def _check_log(uri: str) -> None:
    """Refuse a log with an empty commit, which a power cut may leave: delta-rs reads it as one that changes nothing."""
    log = Path(uri) / "_delta_log"
    if not is_local(uri) or not log.is_dir():
        return
    with os.scandir(log) as entries:
        empty = sorted(e.name for e in entries if e.name.endswith(".json") and not e.stat().st_size)
    if empty:
        msg = f"the commit {empty[0]} of the log is empty: damaged; restore it"
        raise ValueError(msg)


def is_local(uri: str) -> bool:
    """Whether it is a folder, not an object store."""
    return "://" not in uri


def first_line(error: Exception) -> str:
    """The first line of an error, and the innermost cause that delta-rs draws below it; not its help for programmers."""
    first, *more = _COLOUR.sub("", str(error)).splitlines() or [type(error).__name__]
    causes = [line.strip().removeprefix("↳").strip() for line in more if line.strip().startswith("↳")]
    return f"{first}: {causes[-1]}" if causes else first
