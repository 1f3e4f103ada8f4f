"""Status and confidence of rules, from training and held-out counts."""

from __future__ import annotations

from statistics import NormalDist
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["heldout", "status_of", "wilson_low"]

MIN_TRIED, MIN_FAMILIES, MIN_CONFIDENCE, MAX_COUNTER = 3, 2, 0.55, 0.2


def heldout(counts: pl.DataFrame) -> Mapping[tuple[str, str, str], tuple[int, int, int]]:
    """Held-out tries, hits and families by action, shape and condition: another condition is another rule."""
    parts = pl.col("key").str.splitn("|", 2).struct.rename_fields(["action", "rest"])
    per = (
        counts.filter(pl.col("key").str.contains("|[", literal=True))
        .with_columns(parts.alias("p"))
        .unnest("p")
        .with_columns(shape=pl.col("rest").str.extract(r"(?s)^(.*)\|"))
        .group_by("action", "shape", "case", maintain_order=True)
        .agg(pl.col("n").sum(), pl.col("hits").sum(), pl.col("families").max())
    )
    columns = (per[c].to_list() for c in ("action", "shape", "case", "n", "hits", "families"))
    return {(a, s, c): (n, h, f) for a, s, c, n, h, f in zip(*columns, strict=True)}


def status_of(n: int, hits: int, tried: tuple[int, int, int], *, sharp: bool) -> tuple[str, float | None]:
    """Status, and the lower end of the 95 % Wilson interval of held-out precision (null when it was never tried).

    conflicted: more than a fifth of the training rows contradict; supported: tried on at least 3 held-out transitions of at least
    2 families, lower end at least 0.55, and the boundary of its comparison was seen; else tentative.

    Args:
        n: Training rows the rule decided.
        hits: Of them, those it got right.
        tried: Held-out tries, hits, families.
        sharp: The boundary of its comparison was seen.
    """
    times, right, families = tried
    lower = wilson_low(right, times) if times else None
    if n and (n - hits) / n > MAX_COUNTER:
        return "conflicted", lower
    enough = times >= MIN_TRIED and families >= MIN_FAMILIES and lower is not None and lower >= MIN_CONFIDENCE
    return ("supported" if enough and sharp else "tentative"), lower


def wilson_low(hits: int, n: int, *, level: float = 0.95) -> float:
    """Lower end of Wilson's interval: `(p + z^2/2n - z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n)` (Wilson 1927)."""
    z = NormalDist().inv_cdf(0.5 + level / 2)
    p = hits / n
    spread: float = z * (p * (1 - p) / n + z * z / (4 * n * n)) ** 0.5
    return max(0.0, (p + z * z / (2 * n) - spread) / (1 + z * z / n))
