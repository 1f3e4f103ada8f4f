"""One frame of trials with a bit of everything, and the report on it."""

from __future__ import annotations

import random

import polars as pl
import pytest

from expcomp.reports.report import Report, report

HOSTILE = "</td><script>alert(1)</script> | `x` **b** [l](javascript:1) \u202e\x07"


def made(tasks: int = 24, trials: int = 3, *, seed: int = 7) -> pl.DataFrame:
    """Trials of two arms at tasks of two benchmarks, one task with a hostile name; verdicts, costs, failures, some lost."""
    chance = random.Random(seed)
    rows = []
    for arm, better in (("plain", 0.0), ("with-skills", 0.25)):
        for t in range(tasks):
            for k in range(trials):
                infra = chance.random() < 0.05
                passed = None if infra else chance.random() < min(1.0, t / tasks + better)
                rows.append(
                    {
                        "benchmark": ("counts", "desk")[t % 2],
                        "task": HOSTILE if t == 0 else f"task-{t:03}",
                        "arm": arm,
                        "attempt": k,
                        "passed": passed,
                        "score": None if passed is None else float(passed),
                        "scale_known": True,
                        "infra": infra,
                        "failure_class": "sandbox_lost" if infra else None if passed else "wrong_answer",
                        "cost_usd": None if infra else round(chance.uniform(0.1, 0.5), 3),
                        "duration_s": round(chance.uniform(10, 90), 1),
                    }
                )
    return pl.DataFrame(rows, infer_schema_length=None)


@pytest.fixture(scope="session")
def trials() -> pl.DataFrame:
    """The frame; only to be read."""
    return made()


@pytest.fixture(scope="session")
def compared(trials: pl.DataFrame) -> Report:
    """The report on it, with a comparison; only to be read."""
    return report(trials, baseline="plain", treatment="with-skills", title="Two arms")
