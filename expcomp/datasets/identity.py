"""Identity of a dataset: the tasks it was made from, and the manifest that names its files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from expcomp.errors import TableError
from expcomp.io.canon import digest, digest_bytes
from expcomp.io.canonical_rows import json_text, utf16_order

COLUMNS = ("benchmark", "task", "content_digest")
DIGEST = r"^sha256:[0-9a-f]{64}$"
LONGEST = 512
# The separators of ASCII are space to Python, which checks documents, and none to Polars.
_OUTER_SPACE = r"^[\s\x1c-\x1f]|[\s\x1c-\x1f]$"


def _name(column: str) -> pl.Expr:
    return (
        pl.col(column).is_not_null()
        & pl.col(column).str.len_chars().is_between(1, LONGEST)
        & ~pl.col(column).str.contains(_OUTER_SPACE)
    ).fill_null(value=False)


EXPECTED = {
    **dict.fromkeys(("benchmark", "task"), f"1 to {LONGEST} characters without outer space"),
    "content_digest": "sha256:<hex>",
}
"""What a part of a task identity has to be, in words."""

RULES: Mapping[str, pl.Expr] = {
    "benchmark": _name("benchmark"),
    "task": _name("task"),
    "content_digest": pl.col("content_digest").str.contains(DIGEST).fill_null(value=False),
}
"""The same as total expressions."""

KEY = pl.concat_str(
    pl.lit("["), pl.concat_str([json_text(pl.col(c)) for c in COLUMNS], separator=","), pl.lit("]")
).alias("key")
"""Canonical JSON list of the three parts: stable, and the order of an inventory."""

TASK = pl.concat_str(
    pl.lit('{"benchmark":'), json_text(pl.col("benchmark")),
    pl.lit(',"contentDigest":'), json_text(pl.col("content_digest")),
    pl.lit(',"task":'), json_text(pl.col("task")), pl.lit("}"),
)  # fmt: skip
"""Canonical JSON object of a task identity: what is digested."""


def inventory(frame: pl.DataFrame) -> pl.DataFrame:
    """Distinct task identities, in the order of the UTF-16 code units of their keys.

    Args:
        frame: Columns `benchmark`, `task`, `content_digest`; one line a task or one a row.

    Raises:
        TableError: A name is null, empty, too long or has outer space, or a digest is none.
    """
    tasks = frame.select(COLUMNS).unique(maintain_order=True)
    _check(tasks)
    return tasks.sort(utf16_order(KEY))


def task_set_digest(frame: pl.DataFrame) -> str:
    """Digest of the canonical form of the sorted list of distinct task identities."""
    return digest_bytes(b"[" + inventory(frame).select(TASK.str.join(",").fill_null("")).item().encode() + b"]")


def dataset_digest(manifest: Mapping[str, Any]) -> str:
    """Digest of the canonical manifest without its own `digest` and without `documents`, which name it."""
    return digest({k: v for k, v in manifest.items() if k not in ("digest", "documents")})


def _check(tasks: pl.DataFrame) -> None:
    for name, rule in RULES.items():
        bad = tasks.filter(~rule)
        if bad.height:
            shown = {c: bad[c][0] for c in COLUMNS}
            raise TableError(
                f"{bad.height} task identities have no usable {name}, as in {shown}; expected {EXPECTED[name]}"
            )
