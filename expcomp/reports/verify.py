"""`verify`: check whatever folder of ours this is by the kind its manifest names."""

from __future__ import annotations

from pathlib import Path

from expcomp.compiler.verify import Verification
from expcomp.compiler.verify import verify as verify_compile
from expcomp.datasets.verify import is_dataset, verify_dataset
from expcomp.errors import SourceError
from expcomp.io.digest import sha256_file
from expcomp.io.documents import read_json
from expcomp.io.files import listing


def verify(folder: str | Path) -> Verification:
    """Recompute what the manifest of a folder says: of a compile, a dataset or a report.

    Of a compile also row hashes, ids and books, of a dataset also its digests and books; of a report bytes and digests of its files.

    Raises:
        SourceError: The folder has no readable manifest.
    """
    root = Path(folder)
    if is_dataset(root):
        return verify_dataset(root)
    return verify_report(root) if is_report(root) else verify_compile(root)


def is_report(folder: Path) -> bool:
    """Whether a folder is a report of ours."""
    path = folder / "manifest.json"
    value = read_json(path) if path.is_file() else None
    return isinstance(value, dict) and value.get("kind") == "report"


def verify_report(folder: str | Path) -> Verification:
    """Check a report folder against its manifest: every file with its bytes and digest, and no other file.

    Raises:
        SourceError: The folder has no readable manifest of a report.
    """
    root = Path(folder)
    manifest = read_json(root / "manifest.json")
    try:
        listed = {str(e["path"]): (e["bytes"], e["sha256"]) for e in manifest["files"]}
    except (KeyError, TypeError) as error:
        msg = f"{folder}: manifest.json has no usable 'files' ({error!r})"
        raise SourceError(msg) from error
    found = Verification()
    there = set(listing(root))
    found.problems += [f"{n}: listed in manifest.json, but not there" for n in sorted(set(listed) - there)]
    found.problems += [f"{n}: not listed in manifest.json" for n in sorted(there - set(listed) - {"manifest.json"})]
    for name in sorted(set(listed) & there):
        found.files += 1
        path, (size, digest) = root / name, listed[name]
        if path.is_symlink() or not path.is_file():
            found.problems.append(f"{name}: not a regular file")
        elif path.stat().st_size != size:
            found.problems.append(f"{name}: {path.stat().st_size} bytes, manifest.json says {size}")
        elif sha256_file(path) != digest:
            found.problems.append(f"{name}: its bytes are not those that were written")
    return found
