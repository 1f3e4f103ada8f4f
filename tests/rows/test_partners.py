"""Which attempts of a task are pairs: all of few, and of many no more than grow with their number."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

import expcomp as xc
from expcomp.rows.pairs import ALL_PAIRS


def pairs(tmp_path: Path, n: int) -> pl.DataFrame:
    lines = [
        {
            "instance_id": "t",
            "resolved": i % 2 == 0,
            "messages": [{"role": "user", "content": "Go."}, {"role": "assistant", "content": f"Way {i}."}],
        }
        for i in range(n)
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(r) + "\n" for r in lines), encoding="utf-8")
    c = xc.compile(xc.read_traces(tmp_path / "a.jsonl"))
    both = [c.rows["preference_pair"], c.rejected["preference_pair"]]
    return pl.concat(b.select("chosen_attempt_id", "rejected_attempt_id", "accepted") for b in both)


@pytest.mark.parametrize(
    ("n", "expected"), [(2, 1), (ALL_PAIRS, 496), (ALL_PAIRS + 1, 33 * 15), (100, 100 * 4), (600, 600)]
)
def test_pairs_grow_with_the_attempts_not_with_their_square(tmp_path: Path, n: int, expected: int) -> None:
    made = pairs(tmp_path, n)
    sides = made.select(pl.concat_list("chosen_attempt_id", "rejected_attempt_id").list.sort()).to_series()
    assert made.height == expected == sides.n_unique()
    assert sides.explode().n_unique() == n
    assert sides.list.n_unique().eq(2).all()
    assert made["accepted"].any()


def test_the_dictionary_says_so() -> None:
    from expcomp.tables.families import BY_NAME

    assert f"more than {ALL_PAIRS} attempts" in BY_NAME["preference_pair"].description
    assert f"next {ALL_PAIRS * (ALL_PAIRS - 1) // 2} / n" in BY_NAME["preference_pair"].description
