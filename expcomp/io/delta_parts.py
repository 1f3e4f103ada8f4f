"""Parts of a Delta table: Parquet files, complete and on disk before a log names them."""

from __future__ import annotations

import json
import os
import secrets
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from expcomp.errors import OutputError
from expcomp.io.delta_snapshot import bounds, is_local
from expcomp.io.whole import disk_error

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import polars as pl

PART_ROWS = 250_000
_COMPRESSION_LEVEL = 3


class Parts:
    """Writes the parts of a table at a folder or an object store."""

    def __init__(self, uri: str, options: Mapping[str, str] | None) -> None:
        self.uri, self._options = uri, options

    def write(self, rows: pl.DataFrame, stats: Sequence[str], *, same: bool) -> list[Any]:
        """Parquet files on disk that no log names yet, as actions that would add them.

        Raises:
            OutputError: They cannot be written; none is left.
        """
        from deltalake.transaction import AddAction

        parts: list[Any] = []
        for frame in rows.iter_slices(PART_ROWS):
            name = f"part-{secrets.token_hex(16)}.zstd.parquet"
            held = frame.select(s.name for s in frame if s.null_count() < frame.height)  # what is absent is null
            try:
                size = self._put(held, name)
            except BaseException as error:
                self.drop(parts)
                if (said := disk_error(error)) is None:
                    raise
                msg = f"{self.uri} cannot be written: {said}; nothing was changed"
                raise OutputError(msg) from error
            parts.append(AddAction(name, size, {}, now(), not same, json.dumps(bounds(held, stats))))
        return parts

    def _put(self, frame: pl.DataFrame, name: str) -> int:
        if is_local(self.uri):
            path = Path(self.uri) / name
            try:
                with path.open("xb") as handle:
                    frame.write_parquet(handle, compression="zstd", compression_level=_COMPRESSION_LEVEL)
                    handle.flush()
                    os.fsync(handle.fileno())
                    return handle.tell()
            except BaseException:
                path.unlink(missing_ok=True)
                raise
        options = dict(self._options) if self._options else None
        frame.write_parquet(
            f"{self.uri}/{name}", compression="zstd", compression_level=_COMPRESSION_LEVEL, storage_options=options
        )
        return int(self._store().get_file_info(name).size)

    def _store(self) -> Any:
        from deltalake.fs import DeltaStorageHandler
        from pyarrow.fs import PyFileSystem

        return PyFileSystem(DeltaStorageHandler(self.uri, dict(self._options) if self._options else None))

    def drop(self, parts: list[Any]) -> None:
        """Take away files that no log names."""
        for part in parts:
            if is_local(self.uri):
                (Path(self.uri) / part.path).unlink(missing_ok=True)
            else:
                self._store().delete_file(part.path)


def now() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000
