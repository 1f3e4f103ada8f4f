"""`verify`: check whatever folder of ours this is by what its manifest says it is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from expcomp.compiler.verify import Verification
from expcomp.compiler.verify import verify as verify_compile
from expcomp.datasets.verify import verify_dataset
from expcomp.environments.folder import verify_package
from expcomp.errors import ExpcompError, SourceError
from expcomp.io.digest import sha256_file
from expcomp.io.documents import read_json
from expcomp.io.files import listing
from expcomp.packs.folder import report_problems
from expcomp.sources.store import KIND as TRACES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MANIFEST = "manifest.json"
UNLISTED = {"packs": ("report.json",), "verdicts": ("report.json",)}
"""Files that a manifest of this kind does not list: they are written beside it."""


def verify(folder: str | Path) -> Verification:
    """Recompute what the manifest of a folder says, whatever verb wrote it.

    Of a compile also row hashes, ids and books; of a dataset its digests and books; of an environment package the digests of its rows and
    its gates; of packs the counts of the report. Of all others the files: bytes and digests, none missing, none added.

    Raises:
        SourceError: The folder has no readable manifest, or one of a kind that is not known.
    """
    root = Path(folder)
    manifest = _manifest(root)
    kind = manifest.get("kind")
    check = _KINDS.get(str(kind))
    if check is not None:
        return check(root, manifest)
    if "configs" in manifest:
        return verify_dataset(root)
    if "hash_rule" in manifest:
        return verify_compile(root)
    if "files" in manifest:
        return _files(root, manifest)
    raise SourceError(f"{folder}: {MANIFEST} is none of an output of expcomp (kind {kind!r}, without 'files')")


def _manifest(root: Path) -> dict[str, Any]:
    if not root.is_dir():
        told = "is no folder" if root.exists() else "there is no such folder"
        raise SourceError(f"{root}: {told}; expected an output folder of expcomp")
    if not (root / MANIFEST).is_file():
        more = "`expcomp train verify` checks a job, `expcomp decide --check` a decision"
        raise SourceError(f"{root}: no {MANIFEST}; expected an output folder of expcomp ({more})")
    value = read_json(root / MANIFEST)
    if not isinstance(value, dict):
        raise SourceError(f"{root}: {MANIFEST} holds no JSON object")
    return value


def _files(root: Path, manifest: dict[str, Any]) -> Verification:
    """Every file with its bytes and digest, and no other file.

    Raises:
        SourceError: The manifest has no usable list of files.
    """
    try:
        listed = {str(e["path"]): (e.get("bytes"), e["sha256"]) for e in manifest["files"]}
    except (AttributeError, KeyError, TypeError) as error:
        raise SourceError(f"{root}: {MANIFEST} has no usable 'files' ({error!r})") from error
    return _check(root, listed, UNLISTED.get(str(manifest.get("kind")), ()))


def _traces(root: Path, manifest: dict[str, Any]) -> Verification:
    """The files of tables that `expcomp read` wrote."""
    try:
        parts = [e for table in manifest["tables"].values() for e in table["files"]]
        listed = {str(e["path"]): (None, e["sha256"]) for e in parts}
    except (AttributeError, KeyError, TypeError) as error:
        raise SourceError(f"{root}: {MANIFEST} has no usable 'tables' ({error!r})") from error
    return _check(root, listed, ())


def _packs(root: Path, manifest: dict[str, Any]) -> Verification:
    found = _files(root, manifest)
    if found.ok:
        found.problems += report_problems(root, manifest)
    return found


def _environment(root: Path, manifest: dict[str, Any]) -> Verification:
    try:
        found = verify_package(root)
    except ExpcompError as error:
        found = [str(error)]
    return Verification(found, len(manifest.get("tables") or ()) + len(manifest.get("documents") or ()))


def _check(root: Path, listed: Mapping[str, tuple[int | None, str]], beside: tuple[str, ...]) -> Verification:
    found = Verification()
    there = set(listing(root)) - {MANIFEST, *beside}
    found.problems += [f"{n}: listed in {MANIFEST}, but not there" for n in sorted(set(listed) - there)]
    found.problems += [f"{n}: not listed in {MANIFEST}" for n in sorted(there - set(listed))]
    for name in sorted(set(listed) & there):
        found.files += 1
        path, (size, digest) = root / name, listed[name]
        if path.is_symlink() or not path.is_file():
            found.problems.append(f"{name}: not a regular file")
        elif size is not None and path.stat().st_size != size:
            found.problems.append(f"{name}: {path.stat().st_size} bytes, {MANIFEST} says {size}")
        elif sha256_file(path) != digest:
            found.problems.append(f"{name}: its bytes are not those that were written")
    return found


_KINDS: dict[str, Callable[[Path, dict[str, Any]], Verification]] = {
    "packs": _packs,
    "environment_package": _environment,
    TRACES: _traces,
}
