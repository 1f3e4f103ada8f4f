"""Figures are drawn from counts, on the axes given or on new ones."""

from __future__ import annotations

import polars as pl
import pytest

from expcomp.datasets import figures
from expcomp.errors import UsageError

pytest.importorskip("matplotlib")


def test_lengths_counts_every_row_by_split() -> None:
    frame = pl.DataFrame({"tokens": [100, 5000, 5001, 40000], "split": ["train", "train", "test", "train"]})
    axes = figures.lengths(frame)
    assert axes.get_title(loc="left") == "Length of 4 rows"
    assert axes.get_xlabel() == "tokens"
    assert [t.get_text() for t in axes.get_legend().get_texts()] == ["train (3)", "test (1)"]
    assert sum(p.get_height() for c in axes.containers[:1] for p in c) == 3
    assert {t.get_text().strip() for t in axes.texts} == {"4k", "8k", "16k", "32k"}


def test_lengths_of_one_value_and_of_none() -> None:
    assert figures.lengths(pl.DataFrame({"_chars": [64]})).get_xlabel() == "characters that carry loss"
    assert (
        figures.lengths(
            pl.DataFrame({"tokens": [], "split": []}, schema={"tokens": pl.UInt32, "split": pl.String})
        ).get_title(loc="left")
        == "Length of 0 rows"
    )


def test_labels_of_rows_and_of_steps() -> None:
    axes = figures.labels(pl.DataFrame({"label": [True, False, False]}))
    assert [t.get_text() for t in axes.get_yticklabels()] == ["good", "bad"]
    assert [t.get_text() for t in axes.texts] == ["1 (33%)", "2 (67%)"]
    steps = pl.DataFrame(
        {"labels": [[True, None], []], "label_sources": [["final", None], []]},
        schema_overrides={"labels": pl.List(pl.Boolean)},
    )
    axes = figures.labels(steps)
    assert axes.get_title(loc="left") == "Labels of 2 steps"
    assert [t.get_text() for t in axes.get_yticklabels()] == ["final: good", "unknown: none"]


def test_margins_and_pass_rates_are_drawn_from_0_to_1() -> None:
    axes = figures.shares(pl.DataFrame({"margin": [0.5, 1.0, None, 0.52]}))
    assert (axes.get_title(loc="left"), axes.get_xlim()) == ("3 of 4 rows", (0, 1))
    assert [p.get_height() for p in axes.patches if p.get_height()] == [2, 1]
    assert figures.shares(pl.DataFrame({"pass_rate": [0.5]})).get_xlabel() == "share of attempts that passed"
    with pytest.raises(UsageError, match="margin or pass_rate"):
        figures.shares(pl.DataFrame({"x": [1]}))


def test_axes_are_used_and_returned() -> None:
    from matplotlib.figure import Figure

    given = Figure().subplots()
    assert figures.labels(pl.DataFrame({"kto_tag": [True]}), given) is given
    assert figures.lengths(pl.DataFrame({"n": [3]}), given, column="n") is given


def test_a_frame_without_the_column_is_told() -> None:
    with pytest.raises(UsageError, match="tokens"):
        figures.lengths(pl.DataFrame({"x": [1]}))
    with pytest.raises(UsageError, match="label"):
        figures.labels(pl.DataFrame({"x": [1]}))


def test_colours_and_hatches_tell_groups_apart() -> None:
    axes = figures.labels(pl.DataFrame({"label": [True, False, None]}))
    drawn = {(p.get_facecolor(), p.get_hatch()) for p in axes.patches}
    assert len(drawn) == len({h for _, h in drawn}) == 3
