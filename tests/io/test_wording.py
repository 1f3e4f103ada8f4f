"""Sentences as expressions, also over frames in pieces."""

from __future__ import annotations

import polars as pl
import pytest

from expcomp.io.wording import worded
from expcomp.tables import vocab as v

WHOLE = pl.DataFrame(
    {"a": ["x", None, "é"], "n": [1, 2, None], "f": [0.5, 1.0, -2.0], "b": [True, False, None]}
).with_columns(s=pl.Series(["error", "info", None], dtype=v.SEVERITY))


@pytest.mark.parametrize("names", [["a"], ["n", "f"], ["a", "b", "s"], []])
def test_it_says_what_format_says(names: list[str]) -> None:
    template = "start" + " {} and" * len(names) + " end"
    ours, theirs = (WHOLE.select(made(template, *names)).to_series().to_list() for made in (worded, pl.format))
    assert ours == theirs


def test_a_frame_of_which_a_part_is_empty() -> None:
    """Where `pl.format` panics."""
    frame = pl.concat([WHOLE, WHOLE]).filter(pl.Series([False] * 3 + [True] * 3))
    assert frame.select(worded("<{}>", "a")).to_series().to_list() == ["<x>", None, "<é>"]


def test_places_and_values_must_agree() -> None:
    with pytest.raises(ValueError, match="1 places for 2 values"):
        worded("{}", "a", "b")
