"""How large each benchmark is: EXPCOMP_BENCH names the column (quick, page, large), EXPCOMP_BENCH_<NAME> one size of its own."""

from __future__ import annotations

import os

PROFILES = ("quick", "page", "large")
SIZES = {
    # name: quick (all benchmarks run in a minute or two), page (in ten), large (hours, 60 GB of disk)
    "FILES": ("100", "3000", "20000"),  # of each format to read
    "MB": ("3", "200", "2000"),  # of chats in one file
    "PACKAGES": ("2", "100", "500"),  # to compile; the larger input is ten times that
    "STEPS": ("12", "40", "40"),  # of an attempt in a package
    "ATTEMPTS": ("400", "8000", "200000"),  # behind a dataset
    "TEXTS": ("2000", "20000", "1000000"),  # to compare with each other
    "SCALE": ("2000,10000", "50000,200000", "1000000,10000000"),  # steps through read, compile and dataset
    "ENGINE": ("1000,4000", "20000,60000", "200000,600000"),  # steps with and without Ray
    "PACKS": ("22", "1001", "10010"),
    "INDEXED": ("110", "10010", "100100"),  # packs to search
    "RUNS": ("3000", "200000", "1000000"),  # of a ledger
    "DECIDED": ("3000", "300000", "1000000"),  # runs to decide beside DuckDB
    "WRITERS": ("2", "8", "8"),  # processes that add to one ledger
    "EACH": ("3", "12", "200"),  # runs that each of them adds
    "COMPARISONS": ("20", "1000", "10000"),
    "TRANSITIONS": ("500,2000", "10000,50000", "100000,1000000"),  # of a recorded world
    "ROWS": ("3000", "100000", "1000000"),  # of a training dataset
}


def text(name: str) -> str:
    """The size of that name, as it was given."""
    profile = os.environ.get("EXPCOMP_BENCH", "page")
    return os.environ.get(f"EXPCOMP_BENCH_{name}") or SIZES[name][PROFILES.index(profile)]


def size(name: str) -> int:
    """The size of that name."""
    return int(text(name))


def sizes(name: str) -> tuple[int, ...]:
    """The sizes of that name, small to large."""
    return tuple(int(part) for part in text(name).split(","))
