"""The other target: a published folder that was tampered with, with its manifest signed again or not."""

from __future__ import annotations

import hashlib
import json
import random
import tempfile
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path

from expcomp.errors import ExpcompError
from tests.faults.fuzz.harness import Finding, clear, held, lay, place
from tests.faults.fuzz.mutate import Files, mutate
from tests.helpers import package

BATCH = 10


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
    """Verify every folder: a report or an error of ours; a file that is not what the manifest says never passes."""

    root = place()
    try:
        lay(inputs, root)
        for n, files in enumerate(inputs):
            ok = held(partial(_passes, root / f"u{n}"), 30.0)
            if isinstance(ok, Finding):
                return ok
            if ok and (changed := _unlike_manifest(files)):
                return Finding("passed", ", ".join(changed))
    finally:
        clear(root)
    return None


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
