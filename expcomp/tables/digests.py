"""Digests of contracts: of a table's schema and of its rules. They go into Parquet metadata, so that a reader can check both."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from expcomp.tables._spec import Table


def schema_digest(table: Table) -> str:
    """`sha256:` digest of column names, dtypes and nullability, in order."""
    text = "\n".join(f"{n}\x1f{c.dtype}\x1f{c.nullable}" for n, c in table.columns.items())
    return "sha256:" + hashlib.sha256(f"{table.name}\n{text}".encode()).hexdigest()


def rules_digest(table: Table) -> str:
    """`sha256:` digest of the rule names and what they say."""
    text = "\n".join(f"{name}\x1f{expr}" for name, expr in sorted(table.all_rules().items()))
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()
