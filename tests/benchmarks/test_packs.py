"""Packs of many packages, and search over many packs. Run with `pytest -m benchmark -s tests/benchmarks/test_packs.py`."""

from __future__ import annotations

import statistics
import time
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from expcomp.compiler.build import compile_paths
from expcomp.compiler.compilation import Compilation, Rows, open_compilation
from expcomp.packs.pack import build_packs
from expcomp.packs.render import cards
from expcomp.packs.search import INDEX, PackIndex, write_index
from expcomp.rows.registry import ROW_FAMILIES
from expcomp.tables.core import CORE
from tests.benchmarks.page import Page
from tests.helpers import ROOT

pytestmark = pytest.mark.benchmark
QUERIES = (
    "count seed packets by shelf",
    "letter for a herbarium loan",
    "totals.csv with a shelf column",
    "unknown column in a sql query",
    "rota for the plant sale",
    "water level of the pond",
)


def grown(compilation: Compilation, times: int) -> Compilation:
    """The compilation so many times side by side, each copy with ids of its own."""

    def copies(frame: pl.DataFrame) -> pl.DataFrame:
        ids = [c for c in frame.columns if c.endswith(("package_id", "task_id", "attempt_id")) or c == "row_id"]
        made = (
            frame.with_columns(pl.concat_str(pl.col(c), pl.lit(f"_{i}")) for c in ids if c != "native_attempt_id")
            for i in range(times)
        )
        return pl.concat(made)

    return replace(
        compilation,
        tables={n: copies(compilation.tables[n]) for n in CORE},
        rows=Rows({n: copies(compilation.rows[n]) for n in ROW_FAMILIES}),
        report={"packages": {f"{p}_{i}": {} for p in compilation.report["packages"] for i in range(times)}},
    )


def test_a_thousand_packages(tmp_path: Path, page: Page) -> None:
    compile_paths([ROOT / "data/packages"], tmp_path / "compiled", processes=1)
    big = grown(open_compilation(tmp_path / "compiled"), 91)
    cpu = time.process_time()
    packs = build_packs(big)
    packs.write(tmp_path / "packs")
    page.add("pack", f"{packs.packs.height:,} packs", time.process_time() - cpu, unit="s CPU")


def test_search_over_ten_thousand_packs(tmp_path: Path, page: Page) -> None:
    """The index holds every pack; the files of a pack are those of the copy it was made from."""
    compile_paths([ROOT / "data/packages"], tmp_path / "compiled", processes=1)
    packs = build_packs(tmp_path / "compiled")
    packs.write(tmp_path / "packs")
    times = 10_000 // packs.packs.height + 1

    def copies(frame: pl.DataFrame) -> pl.DataFrame:
        made = (frame.with_columns(pl.concat_str("pack_id", pl.lit(f"+{i}")).alias("pack_id")) for i in range(times))
        return pl.concat(made)

    (tmp_path / "packs" / INDEX).unlink()
    write_index(copies(cards(packs)), copies(packs.statements), tmp_path / "packs")
    index = PackIndex(tmp_path / "packs")
    index.__dict__["pack_ids"] = index.pack_ids * times
    spent = []
    for query in QUERIES * 5:
        cpu = time.process_time()
        assert index.search(query)
        spent.append(1000 * (time.process_time() - cpu))
    page.add("pack search, median", f"{len(index.pack_ids):,} packs", statistics.median(spent), unit="ms CPU")
