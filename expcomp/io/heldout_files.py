"""Files of tasks that others wrote: Parquet, JSON lines, JSON, CSV, and folders of ours. Small sets, read whole."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import orjson
import polars as pl

from expcomp.errors import SourceError
from expcomp.io.files import UnreadableFileError, read_fast

LIMIT = 4 << 30
FOLDER = ("inventory.parquet", "tables/tasks.parquet", "tasks.parquet")
"""What a folder of ours keeps its tasks in, in the order in which it is looked for."""
SUFFIXES = (".parquet", ".jsonl", ".ndjson", ".json", ".csv")


def task_file(path: Path) -> Path:
    """The file that holds the tasks: the path itself, or a file of the folder.

    Raises:
        SourceError: There is none.
    """
    if not path.exists():
        msg = f"{path} does not exist; expected a file of held-out tasks or a folder of expcomp"
        raise SourceError(msg)
    if not path.is_dir():
        return path
    for name in FOLDER:
        if (path / name).is_file():
            return path / name
    msg = (
        f"{path} holds none of {', '.join(FOLDER)}; give a dataset, a compile output, a read folder, or the file itself"
    )
    raise SourceError(msg)


def read_tasks(path: Path) -> pl.DataFrame:
    """A file as a frame. JSON values that are no text become text; what is nested stays JSON.

    Raises:
        SourceError: The file cannot be read.
    """
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        msg = f"{path}: expected a name that ends in {', '.join(SUFFIXES)}"
        raise SourceError(msg)
    try:
        if suffix == ".parquet":
            return pl.read_parquet(path, glob=False)
        data = read_fast(str(path), limit=LIMIT)
        if suffix == ".csv":
            return pl.read_csv(BytesIO(data), infer_schema=False)
    except (pl.exceptions.PolarsError, OSError, UnreadableFileError) as error:
        msg = f"{path} cannot be read: {error}"
        raise SourceError(msg) from error
    records = _lines(path, data) if suffix != ".json" else _document(path, data)
    names = list(dict.fromkeys(name for record in records for name in record))
    return pl.DataFrame({n: [_text(r.get(n)) for r in records] for n in names}, schema=dict.fromkeys(names, pl.String))


def _lines(path: Path, data: bytes) -> list[dict[str, Any]]:
    records = []
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.strip():
            record = _value(path, line, f"line {number}")
            if not isinstance(record, dict):
                msg = f"{path}, line {number}: {type(record).__name__}, expected one JSON object a line"
                raise SourceError(msg)
            records.append(record)
    return records


def _document(path: Path, data: bytes) -> list[dict[str, Any]]:
    value = _value(path, data, "document")
    if isinstance(value, dict):
        lists = [v for v in value.values() if isinstance(v, list) and v and isinstance(v[0], dict)]
        if len(lists) == 1:
            value = lists[0]
        elif value and all(isinstance(v, dict) for v in value.values()):
            value = [{"id": key} | record for key, record in value.items()]
        else:
            value = [value]
    if not isinstance(value, list) or not all(isinstance(r, dict) for r in value):
        msg = f"{path}: expected a list of JSON objects, or an object of them by id"
        raise SourceError(msg)
    return value


def _value(path: Path, data: bytes, where: str) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        msg = f"{path}, {where}: no JSON ({error})"
        raise SourceError(msg) from error


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if (
        isinstance(value, list)
        and value
        and all(isinstance(m, dict) and isinstance(m.get("content"), str) for m in value)
    ):
        return "\n\n".join(m["content"] for m in value)  # a chat
    if isinstance(value, list) and value and all(isinstance(v, str) for v in value):
        return "\n".join(value)
    return orjson.dumps(value).decode()
