"""SHA-256 over bytes and over columns. Identity on disk is always SHA-256."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import polars as pl
import polars_hash as plh

if TYPE_CHECKING:
    from pathlib import Path

PREFIX = "sha256:"


def sha256_hex(data: bytes | bytearray | memoryview) -> str:
    """Hex digest of bytes."""
    return hashlib.sha256(data).hexdigest()


def sha256_file(path: Path) -> str:
    """`sha256:` and the hex digest of a file's bytes, streamed."""
    with path.open("rb") as handle:
        return PREFIX + hashlib.file_digest(handle, "sha256").hexdigest()


def sha256_expr(column: str) -> pl.Expr:
    """Hex digest of a String column's UTF-8 bytes, vectorised; null stays null."""
    expr: pl.Expr = plh.col(column).chash.sha2_256()
    return expr
