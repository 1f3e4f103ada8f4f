"""SHA-256 over bytes and over columns. Identity on disk is always SHA-256."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import polars as pl
import polars_hash  # noqa: F401 - registers the namespace `chash`

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PREFIX = "sha256:"


def sha256_hex(data: bytes | bytearray | memoryview) -> str:
    """Hex digest of bytes."""
    return hashlib.sha256(data).hexdigest()


def sha256_file(path: Path) -> str:
    """`sha256:` and the hex digest of a file's bytes, streamed."""
    with path.open("rb") as handle:
        return PREFIX + hashlib.file_digest(handle, "sha256").hexdigest()


def sha256_expr(text: str | pl.Expr) -> pl.Expr:
    """Hex digest of the UTF-8 bytes of a String column or expression, vectorised; null stays null."""
    value: Any = pl.col(text) if isinstance(text, str) else text
    expr: pl.Expr = value.chash.sha2_256()
    return expr


def xxh3_expr(text: str | pl.Expr) -> pl.Expr:
    """64 bits of xxh3 of a String column or expression, vectorised; null stays null. For buckets and joins, never for identity."""
    value: Any = pl.col(text) if isinstance(text, str) else text
    expr: pl.Expr = value.nchash.xxh3_64()
    return expr


def frames_digest(frames: Mapping[str, pl.DataFrame]) -> str:
    """Hex digest of the names and rows of frames, to compare them with those of another run of the same version; "" of no rows."""
    digest = hashlib.sha256()
    for name in sorted(frames):
        digest.update(f"{name}\n{frames[name].write_ndjson()}".encode())
    return digest.hexdigest() if any(frame.height for frame in frames.values()) else ""
