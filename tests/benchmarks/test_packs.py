"""Packs of many packages, and search over many packs. No time is asserted.

Run with `python -m pytest tests/benchmarks/test_packs.py -m benchmark -s`.
"""

from __future__ import annotations

import shutil
import sqlite3
import statistics
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path

import polars as pl
import pytest

from expcomp.compiler.build import compile_paths
from expcomp.compiler.compilation import Compilation, Rows, open_compilation
from expcomp.packs.pack import build_packs
from expcomp.packs.render import cards
from expcomp.packs.search import INDEX, WEIGHTS, PackIndex, index_lines, words, write_index
from expcomp.rows.registry import ROW_FAMILIES
from expcomp.tables.core import CORE
from tests.benchmarks.cost import Spent, alone, best, spent
from tests.benchmarks.page import Page
from tests.benchmarks.sizes import size
from tests.helpers import ROOT

pytestmark = pytest.mark.benchmark
MADE, INDEXED = size("PACKS"), size("INDEXED")
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


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packs") / "compiled"
    compile_paths([ROOT / "data/packages"], folder, processes=1)
    return folder


def built(compiled: Path, times: int, out: Path) -> tuple[Spent, int]:
    big, packs = grown(open_compilation(compiled), times), []
    build_packs(open_compilation(compiled))

    def run() -> None:
        packs.append(build_packs(big))
        packs[0].write(out)

    return spent(run), packs[0].packs.height


def copied(folder: Path, out: Path) -> float:
    """The least that makes this folder: hash and write every file."""

    def run() -> None:
        for path in folder.rglob("*"):
            if path.is_file():
                data = path.read_bytes()
                sha256(data).digest()
                target = out / path.relative_to(folder)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(data)

    return spent(run).cpu


def test_a_thousand_packages(compiled: Path, tmp_path: Path, page: Page) -> None:
    each = len(open_compilation(compiled).report["packages"])
    times = max(2, MADE // each)
    few, fewer = alone(built, compiled, max(1, times // 5), tmp_path / "few")
    ours, packs = alone(built, compiled, times, tmp_path / "packs")
    page.add(
        "pack build",
        f"{packs:,} packs",
        ours.cpu,
        unit="s CPU",
        floor=("hash and write the files", alone(copied, tmp_path / "packs", tmp_path / "copied")),
        memory_mib=ours.peak_mib,
        growth=ours.cpu / packs / (few.cpu / fewer),
    )


def bm25s_search(texts: list[str]) -> float:
    import bm25s

    index = bm25s.BM25()
    index.index(bm25s.tokenize(texts, show_progress=False), show_progress=False)

    def run(query: str) -> None:
        index.retrieve(bm25s.tokenize([query], show_progress=False), k=10, show_progress=False)

    return 1000 * statistics.median(spent(lambda query=query: run(query)).cpu for query in QUERIES * 5)


def bare_search(path: Path) -> float:
    """SQLite's own index asked for the same words, and nothing of the packs looked at."""
    database = sqlite3.connect(path)
    asked = "SELECT rowid FROM lines WHERE lines MATCH ? ORDER BY rank LIMIT 10"

    def run(query: str) -> None:
        database.execute(asked, (" OR ".join(f'"{w}"' for w in words(query)),)).fetchall()

    return 1000 * statistics.median(spent(lambda query=query: run(query)).cpu for query in QUERIES * 5)


def test_search_over_ten_thousand_packs(compiled: Path, tmp_path: Path, page: Page) -> None:
    """The index holds every pack; the files of a pack are those of the copy it was made from."""
    packs = build_packs(compiled)
    medians, texts = [], []
    for times in (INDEXED // packs.packs.height // 10 or 1, INDEXED // packs.packs.height):

        def copies(frame: pl.DataFrame, times: int = times) -> pl.DataFrame:
            made = (
                frame.with_columns(pl.concat_str("pack_id", pl.lit(f"+{i}")).alias("pack_id")) for i in range(times)
            )
            return pl.concat(made)

        folder = tmp_path / f"packs{times}"
        packs.write(folder)
        (folder / INDEX).unlink()
        every = copies(cards(packs)), copies(packs.statements)
        write_index(*every, folder)
        index = PackIndex(folder)
        index.__dict__["pack_ids"] = index.pack_ids * times
        found = [spent(partial(index.search, query)).cpu for query in QUERIES * 5]
        assert all(index.search(query) for query in QUERIES)
        medians.append(1000 * statistics.median(found))
        texts = index_lines(*every).select(pl.concat_str(*WEIGHTS, separator="\n")).to_series().to_list()
    page.add(
        "pack search",
        f"{len(texts):,} packs, median of {len(QUERIES)} queries",
        medians[1],
        unit="ms CPU",
        floor=("SQLite's index, ids only", bare_search(folder / INDEX)),
        peer=best({"bm25s, ids only": lambda: bm25s_search(texts)}),
        growth=medians[1] / medians[0] * (INDEXED // packs.packs.height // 10 or 1) / times,
    )
    shutil.rmtree(tmp_path, ignore_errors=True)
