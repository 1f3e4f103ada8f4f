"""Processes that write to and read from one ledger: `python -m tests.faults.ledger_processes ROLE FOLDER ...`."""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl

from expcomp.ledger.store import Ledger
from tests.ledger.attempts import many

CASES = 20


def write(folder: str, seed: str, runs: str) -> None:
    """Add runs one by one, as many calls; say when the first stands."""
    ledger = Ledger(folder)
    batch = many(int(runs), cases=CASES, seed=int(seed))
    for i in range(batch.height):
        ledger.add(batch[i : i + 1])
        if i == 0:
            sys.stdout.write("writing\n")
            sys.stdout.flush()


def correct(folder: str, hour: str, runs: str) -> None:
    """Add newer records of the same attempts one by one: each rewrites the file its attempt is in."""
    ledger = Ledger(folder)
    batch = many(int(runs), cases=CASES).with_columns(
        started_at=pl.col("started_at") + pl.duration(hours=int(hour)), score=pl.lit(int(hour) / 100)
    )
    for i in range(batch.height):
        ledger.add(batch[i : i + 1])


def compact(folder: str, rounds: str) -> None:
    """Compact again and again, beside the writers."""
    ledger = Ledger(folder)
    for _ in range(int(rounds)):
        ledger.compact()


def read(folder: str, until: str) -> None:
    """Read until a file is there: each look has every run once, and at least those of the look before."""
    ledger, seen, looks = Ledger(folder), 0, 0
    while not Path(until).exists():
        found = ledger.runs.select("run_key", "filed_case", "score", "content_hash").collect()
        assert found.null_count().sum_horizontal().item() == 0
        assert found["run_key"].is_duplicated().sum() == 0
        assert found.height >= seen
        seen, looks = found.height, looks + 1
    sys.stdout.write(f"{looks}\n")


def lost(ledger: Ledger, writers: int, runs: int) -> pl.DataFrame:
    """Runs that were added and are not there, or are there twice."""
    wanted = pl.concat([many(runs, cases=CASES, seed=s) for s in range(writers)])
    found = ledger.runs.select("attempt_id").collect().group_by("attempt_id", maintain_order=True).len()
    joined = wanted.join(found, on="attempt_id", how="full", coalesce=True, maintain_order="left")
    return joined.filter(pl.col("len").fill_null(0) != 1)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
