"""What an update compiles again, and what a run leaves for the next one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from expcomp.compiler.counts import COUNTS
from expcomp.compiler.plan import cells, home
from expcomp.compiler.previous import CELLS
from expcomp.compiler.stats import stat_cells

if TYPE_CHECKING:
    from collections.abc import Sequence

    from expcomp.compiler.previous import Previous
    from expcomp.compiler.shard import ShardResult
    from expcomp.io.pool import Workers
    from expcomp.sources._contract import Unit

PORTIONS = 4
"""Jobs a worker gets for the look at the files: folders differ in size."""


def unchanged_cells(pool: Workers, units: Sequence[Unit], previous: Previous | None) -> list[str]:
    """Cells of the earlier output whose sources the file system shows to be what they were."""
    if previous is None:
        return []
    by_cell = list(cells(units).values())
    count = min(len(by_cell), pool.size * PORTIONS)
    portions = [[unit for own in by_cell[i::count] for unit in own] for i in range(count)]
    found = pool.map(stat_cells, portions, lambda _: None)
    now = {cell: stat for part in found for cell, stat in part.items() if stat}
    known = zip(previous.cells["cell"].to_list(), previous.cells["stat"].to_list(), strict=True)
    return [cell for cell, stat in known if stat and now.get(home(cell)) == stat]


def state_of(
    results: Sequence[ShardResult], stats: dict[str, str], previous: Previous | None, kept: Sequence[str]
) -> dict[str, pl.DataFrame]:
    """Counts and sources of all cells: of the kept ones as in the earlier output, and of those compiled now.

    Args:
        results: What was compiled now.
        stats: What the file system said of sources that were read now, before they were, by home of the cell.
        previous: The earlier output.
        kept: Cells taken from there.
    """
    prints = {cell: digest for r in results for cell, digest in r.fingerprints.items()}
    borrowed = {cell: digest for r in results for cell, digest in r.borrowed.items()}
    rows = {
        "cell": list(prints),
        "fingerprint": list(prints.values()),
        "borrowed": [borrowed.get(c, "") for c in prints],
        "stat": [stats.get(home(c), "") for c in prints],
    }
    sources = [pl.DataFrame(rows, schema=CELLS)]
    counts = [pl.DataFrame(schema=COUNTS), *(r.counts for r in results)]
    if previous is not None:
        mine = pl.col("cell").is_in(list(kept))
        known = previous.cells.filter(mine)
        seen = [stats.get(home(cell), stat) for cell, stat in zip(known["cell"], known["stat"], strict=True)]
        sources.append(known.with_columns(pl.Series("stat", seen, dtype=pl.String)))
        counts.append(previous.counts.filter(mine))
    return {"cells": pl.concat(sources).sort("cell"), "counts": pl.concat(counts)}
