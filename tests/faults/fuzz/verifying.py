"""The other target: a published folder that was tampered with, with its manifest signed again or not."""

from __future__ import annotations

import hashlib
import json
import random
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from expcomp.errors import ExpcompError
from tests.faults.fuzz.harness import Finding, clear, held, lay, place, watched
from tests.faults.fuzz.mutate import Files, mutate
from tests.helpers import package

BATCH = 500


@cache
def published() -> Files:
    """The output of a compile of one package."""
    from expcomp.compiler.build import compile_paths

    with tempfile.TemporaryDirectory() as folder:
        package(Path(folder) / "in", "pkg_a")
        out = Path(folder) / "out"
        compile_paths([Path(folder) / "in"], out, processes=1)
        return {p.relative_to(out).as_posix(): p.read_bytes() for p in sorted(out.rglob("*")) if p.is_file()}


def mutated(rng: random.Random) -> Files:
    """The folder with one or two files changed; in half of the cases the manifest is made to agree."""
    whole = published()
    names = list(whole)
    picked = rng.sample(names, 2) if rng.random() < 0.3 else [rng.choice(names)]
    if rng.random() < 0.5:
        picked = [rng.choice(("manifest.json", "report.json"))]
    part = {name: whole[name] for name in picked}
    out = whole | mutate(part, [part, {"manifest.json": whole["manifest.json"]}], rng)
    if rng.random() < 0.1:
        out.pop(rng.choice(names), None)
    return signed(out) if rng.random() < 0.5 else out


def signed(files: Files) -> Files:
    """The same files with sizes and digests that agree, where the manifest can be read."""
    try:
        manifest = json.loads(files["manifest.json"])
        for entry in manifest["files"]:
            data = files[entry["path"]]
            entry.update(sha256="sha256:" + hashlib.sha256(data).hexdigest(), bytes=len(data))
        return files | {"manifest.json": json.dumps(manifest).encode()}
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        return files


def problem(inputs: Sequence[Files]) -> Finding | None:
    """Verify every folder: a report or an error of ours; a file that is not what the manifest says never passes, and nothing is written.

    The folder as it was published is laid once; of every input the files that differ are put in their places, and back afterwards.
    """
    whole = published()
    root = place()
    try:
        lay([whole], root)
        for files in inputs:
            changed = {name: files.get(name) for name in whole if files.get(name) != whole[name]}
            _put(root / "u0", changed)
            with _remembered(frozenset(changed)), watched() as writes:
                ok = held(partial(_passes, root / "u0"), 30.0)
            _put(root / "u0", {name: whole[name] for name in changed})
            if isinstance(ok, Finding):
                return ok
            if writes:
                return Finding("writes", "; ".join(writes[:5]))
            if ok and (unlike := _unlike_manifest(files)):
                return Finding("passed", ", ".join(unlike))
    finally:
        clear(root)
    return None


def _put(folder: Path, files: Mapping[str, bytes | None]) -> None:
    for name, data in files.items():
        if data is None:
            (folder / name).unlink()
        else:
            (folder / name).write_bytes(data)


_answers: dict[tuple[str, ...], tuple[list[str], int, int, Any]] = {}
"""What verify found in files as they were published, by the part of it that asked and what the manifest says of them."""
ANSWERS = 5000  # that are kept


@contextmanager
def _remembered(changed: frozenset[str]) -> Iterator[None]:
    """The two parts of verify that look into files answer from memory where those are as they were published: they look at nothing
    else, and take 0.2 s for a folder."""
    from expcomp.compiler import verify as module

    real_file, real_family = module._file, module._family

    def answer(key: tuple[str, ...], files: set[str], found: Any, ask: Callable[[Any], Any]) -> Any:
        own = None if files & changed else _answers.get(key)
        if own is None:
            fresh = module.Verification()
            given = ask(fresh)
            own = (fresh.problems, fresh.files, fresh.rows, given)
            if not files & changed and len(_answers) < ANSWERS:
                _answers[key] = own
        found.problems += own[0]
        found.files += own[1]
        found.rows += own[2]
        return own[3]

    def file(root: Path, name: str, entry: Any, found: Any) -> None:
        answer(("file", name, repr(entry)), {name}, found, lambda fresh: real_file(root, name, entry, fresh))

    def family(root: Path, name: str, exclude: set[Any], listed: dict[str, Any], found: Any) -> Any:
        twin = f"rows/{name}.jsonl"
        key = ("family", name, repr(sorted(map(repr, exclude))), repr(listed.get(twin)))
        looked = {twin, f"rows/{name}.parquet", f"rejected/{name}.parquet"}
        return answer(key, looked, found, lambda fresh: real_family(root, name, exclude, listed, fresh))

    with patch.multiple(module, _file=file, _family=family):
        yield


def _unlike_manifest(files: Files) -> list[str]:
    """Files whose digest the manifest as it was published does not hold; none where the manifest itself was changed."""
    whole = published()
    if files.get("manifest.json") != whole["manifest.json"]:
        return []
    listed = (entry["path"] for entry in json.loads(whole["manifest.json"])["files"])
    return [name for name in listed if files.get(name) != whole[name]]


def _passes(folder: Path) -> bool:
    from expcomp.compiler.verify import verify

    try:
        return verify(folder).ok
    except ExpcompError:
        return False
