"""Which packs there are, and what belongs to each: one pack a package, one more a family of two or more packages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from expcomp.io.digest import sha256_expr

if TYPE_CHECKING:
    from collections.abc import Sequence

NAME = 64
"""Characters of a skill name at the most (Agent Skills specification)."""

_HEX = 8


def pack_name(source: pl.Expr, prefix: str = "") -> pl.Expr:
    """A name by the rules of Agent Skills: lower case letters, digits and single hyphens, 64 characters at the most.

    A source that is such a name keeps it; any other gets the first hex digits of its digest, so that two never share one.
    """
    whole = pl.concat_str(pl.lit(prefix), source)
    slug = whole.str.to_lowercase().str.replace_all(r"[^a-z0-9]+", "-").str.strip_chars("-")
    short = slug.str.slice(0, NAME - _HEX - 1).str.strip_chars("-")
    digest = sha256_expr(whole).str.slice(0, _HEX)
    marked = pl.concat_str(pl.when(short == "").then(pl.lit("pack")).otherwise(short), pl.lit("-"), digest)
    return pl.when((slug == source) & (slug.str.len_chars() <= NAME) & (slug != "")).then(slug).otherwise(marked)


def family() -> pl.Expr:
    """The family of a task: as it declares it, else data set and domain; null when it names neither."""
    return pl.coalesce("workflow_family", pl.concat_str("dataset", "domain", separator="/"), "dataset")


def packs_of(packages: Sequence[str], attempts: pl.DataFrame) -> pl.DataFrame:
    """(pack_id, pack_kind, source, package_id, family), a line for each pack and package; `family` is null for packages.

    Args:
        packages: All packages of the compile, also those without an attempt.
        attempts: package_id and family, a line for each attempt.
    """
    own = pl.DataFrame({"package_id": packages}, schema={"package_id": pl.String}).select(
        pack_id=pack_name(pl.col("package_id")),
        pack_kind=pl.lit("package"),
        source="package_id",
        package_id="package_id",
        family=pl.lit(None, dtype=pl.String),
    )
    merged = (
        attempts.filter(pl.col("family").is_not_null())
        .unique(["family", "package_id"], maintain_order=True)
        .filter(pl.len().over("family") > 1)
        .select(
            pack_id=pack_name(pl.col("family"), "family "),
            pack_kind=pl.lit("family"),
            source="family",
            package_id="package_id",
            family="family",
        )
    )
    return pl.concat([own, merged]).sort("pack_id", "package_id")
