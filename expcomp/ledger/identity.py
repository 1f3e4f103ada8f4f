"""What a run is, under the default profile: two digests, one of the place of an attempt and one of its content.

The key of a run is `<slot>.<content>`: 32 hex digits of SHA-256 each. The slot is benchmark, case, arm, group, attempt and seed;
the content is the record. So a rerun is another run, the same record again is the same run, and two records that claim the same
attempt are found by the first half of their keys. No text is cut before it is hashed, and no two lists of values give one text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from expcomp.io.digest import PREFIX, sha256_expr

if TYPE_CHECKING:
    from collections.abc import Sequence

SLOT = ("filed_benchmark", "filed_case", "arm_id", "run_group_id", "attempt", "seed")
DIGITS = 32


def plain_text(columns: Sequence[str]) -> pl.Expr:
    """One text for the values of some columns: each with its length before it, `-` for null, so that none runs into the next."""
    parts = []
    for name in columns:
        text = pl.col(name).cast(pl.String)
        parts.append(
            pl.when(text.is_null()).then(pl.lit("-")).otherwise(pl.concat_str(text.str.len_bytes(), pl.lit(":"), text))
        )
    return pl.concat_str(parts, separator="|")


def content_hash(columns: Sequence[str]) -> pl.Expr:
    """`sha256:` and the digest of the values of some columns."""
    return pl.lit(PREFIX) + sha256_expr(plain_text(columns))


def with_keys(runs: pl.DataFrame) -> pl.DataFrame:
    """The runs with their keys, from the slot and `content_hash`."""
    slot = sha256_expr(plain_text(SLOT)).str.slice(0, DIGITS)
    content = sha256_expr("content_hash").str.slice(0, DIGITS)
    return runs.with_columns(run_key=pl.concat_str(slot, pl.lit("."), content))


def slot_of(key: str = "run_key") -> pl.Expr:
    """The place of a run, out of its key."""
    return pl.col(key).str.slice(0, DIGITS)
