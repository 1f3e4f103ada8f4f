"""A model in a folder of this machine; nothing is fetched."""

from __future__ import annotations

from pathlib import Path

from expcomp.errors import UsageError
from expcomp.io.job_files import hash_tree

MAX_BYTES = 1 << 50


def model_digest(folder: Path) -> str:
    """Digest of a folder of model and tokenizer, as `hash_tree` gives it.

    Raises:
        UsageError: It is no folder.
        PinnedFileError: It cannot be hashed.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder}: is no folder; give one that holds a model and its tokenizer")
    return hash_tree(folder, MAX_BYTES).digest
