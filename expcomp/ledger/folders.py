"""Which files of a folder are run records, so that a folder of them is added as one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from expcomp.errors import SourceError
from expcomp.io.files import walk
from expcomp.io.record_files import LINES, mentions, read_records
from expcomp.ledger.inputs import REFUSED
from expcomp.ledger.lm_eval import is_results

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

DOCUMENT = "benchmark_run_ledger_v0"
_DATA = (".json", *LINES, ".gz", ".zst", ".zip", ".parquet", ".csv", ".eval")
_RESULTS, _SAMPLES = "results", "samples_"


class Inside(NamedTuple):
    """Files of run records below a folder, sorted, and the other data files, as refusals."""

    files: list[Path]
    passed: pl.DataFrame


def runs_inside(folder: Path, schemas: Sequence[str]) -> Inside:
    """Files below a folder that hold run records, results of lm-evaluation-harness, or a ledger document.

    A folder without any is one of traces. In a folder with some, every other file that may hold data is named as left out; samples
    are read with the results they belong to.

    Args:
        folder: Where to look; links are not followed.
        schemas: Schemas of run records.
    """
    files: list[Path] = []
    samples: list[Path] = []
    passed: list[tuple[Any, ...]] = []
    for name, entry in walk(folder).items():
        path = folder / name
        if path.suffix.lower() not in _DATA:
            continue
        if entry.is_symlink:
            passed.append((None, None, "file", "a link; not followed", str(path)))
        elif _ours(path, schemas):
            files.append(path)
        elif path.name.startswith(_SAMPLES):
            samples.append(path)
        else:
            passed.append((None, None, "file", "no run record: add it on its own", str(path)))
    read = {f.parent for f in files if f.name.startswith(_RESULTS)}
    passed += [(None, None, "file", "samples without results", str(s)) for s in samples if s.parent not in read]
    return Inside(files, pl.DataFrame(passed, schema=REFUSED, orient="row"))


def _ours(path: Path, schemas: Sequence[str]) -> bool:
    if path.suffix.lower() not in (".json", *LINES):
        return False
    if mentions(path, [*schemas, DOCUMENT]):
        found = read_records(path)
        first = found[0] if isinstance(found, list) and found else found
        return isinstance(first, dict) and first.get("schema_version") in (*schemas, DOCUMENT)
    return path.name.startswith(_RESULTS) and path.suffix.lower() == ".json" and is_results(read_records(path))


def read_history(paths: Sequence[Path], schemas: Sequence[str]) -> list[Any]:
    """The values of files of a history, in order: a document that is a list gives its items; of a folder, its files of run records.

    Raises:
        SourceError: A file does not exist, cannot be read, or a folder holds no run record.
    """
    found: list[Any] = []
    for path in paths:
        if path.is_dir():
            inside = runs_inside(path, schemas).files
            if not inside:
                raise SourceError(f"{path} holds no file of run records ({', '.join(schemas)})")
            found += read_history(inside, schemas)
        else:
            value = read_records(path)
            found += value if isinstance(value, list) else [value]
    return found
