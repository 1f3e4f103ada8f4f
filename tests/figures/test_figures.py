"""Each figure shows what its frame holds: counted in legends and headings, also when there is nothing or very much."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from itertools import pairwise
from typing import Any
from unittest.mock import MagicMock

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from expcomp.errors import UsageError
from expcomp.figures.canvas import SERIES, axes_of, interval, number, picture, short, unshown
from expcomp.figures.cost import cost_success
from expcomp.figures.curves import pass_curves
from expcomp.figures.flips import flip_matrix
from expcomp.figures.forest import cumulative, forest
from expcomp.figures.gap import gap_histogram, learnability_plane
from expcomp.figures.paired import dumbbells, slopes
from tests.test_house import modules_after

TASKS = pl.DataFrame(
    {
        "task": ["a", "b", "c", "d", "e"],
        "baseline_mean": [0.0, 0.5, 1.0, 0.0, None],
        "treatment_mean": [1.0, 0.5, 0.5, 1.0, 1.0],
        "baseline_n": [2, 2, 2, 2, 0],
        "treatment_n": [2, 4, 2, 2, 2],
        "baseline_outcome": ["fail", "mixed", "pass", "fail", None],
        "treatment_outcome": ["pass", "mixed", "mixed", "pass", "pass"],
    }
)
SLICES = pl.DataFrame(
    {
        "name": ["one", "two", "all"],
        "n": [5, 1, 6],
        "estimate": [0.1, None, 0.2],
        "low": [-0.1, None, 0.05],
        "high": [0.3, None, 0.35],
        "note": [None, "too few tasks", None],
    }
)
STEPS = pl.DataFrame({"n": [1, 2, 3], "estimate": [0.5, 0.4, 0.3], "low": [None, -0.2, 0.1], "high": [None, 1.0, 0.5]})
CURVES = pl.DataFrame(
    {
        "arm": ["x"] * 4,
        "measure": ["pass@k", "pass@k", "pass^k", "pass^k"],
        "k": [1, 2, 1, 2],
        "estimate": [0.5, 0.7, 0.5, 0.3],
        "low": [0.3, 0.5, 0.3, 0.1],
        "high": [0.7, 0.9, 0.7, 0.5],
        "tasks": [9, 8, 9, 8],
    }
)
GAPS = pl.DataFrame(
    {
        "gap": [0.5, 0.0, -0.25, None],
        "n_verdicts": [4, 4, 4, 0],
        "pass_rate": [0.5, 1.0, 0.0, None],
        "band": ["learnable", "too_easy", "unknown", "unknown"],
    }
)
COSTS = pl.DataFrame(
    {
        "arm": ["x", "y", "z"],
        "n": [3, 4, 5],
        "cost": [0.1, 0.2, None],
        "success": [0.5, 0.6, 0.7],
        "low": [0.2, 0.3, 0.4],
        "high": [0.8, 0.9, 1.0],
    }
)
FIGURES: dict[str, tuple[Any, pl.DataFrame]] = {
    "slopes": (slopes, TASKS),
    "dumbbells": (dumbbells, TASKS),
    "forest": (forest, SLICES),
    "cumulative": (cumulative, STEPS),
    "pass_curves": (pass_curves, CURVES),
    "gap_histogram": (gap_histogram, GAPS),
    "learnability_plane": (learnability_plane, GAPS),
    "flip_matrix": (flip_matrix, TASKS),
    "cost_success": (cost_success, COSTS),
}


def legend(axes: Any) -> list[str]:
    return [t.get_text() for t in axes.get_legend().get_texts()]


def texts(axes: Any) -> list[str]:
    return [t.get_text() for t in axes.texts]


@pytest.mark.parametrize("name", FIGURES)
def test_the_axes_that_are_given_are_drawn_on_and_returned(name: str) -> None:
    from matplotlib.figure import Figure

    draw, frame = FIGURES[name]
    axes = Figure().subplots()
    assert draw(frame, ax=axes) is axes
    assert axes.get_title(loc="left")


@pytest.mark.parametrize("name", FIGURES)
def test_equal_frames_give_equal_bytes_whatever_the_settings_of_the_user_are(name: str) -> None:
    import matplotlib

    draw, frame = FIGURES[name]
    first = [picture(draw(frame), kind) for kind in ("svg", "png")]
    with matplotlib.rc_context({"font.size": 30, "lines.linewidth": 9, "axes.facecolor": "red"}):
        assert [picture(draw(frame), kind) for kind in ("svg", "png")] == first
    assert first[0].startswith(b"<?xml")
    assert first[1].startswith(b"\x89PNG")


@pytest.mark.parametrize("name", FIGURES)
def test_a_frame_without_rows_says_why_nothing_is_drawn(name: str) -> None:
    draw, frame = FIGURES[name]
    axes = draw(frame.clear())
    assert any(t.startswith("no ") for t in texts(axes))
    assert picture(axes)


@pytest.mark.parametrize("name", FIGURES)
def test_a_missing_column_is_named(name: str) -> None:
    draw, frame = FIGURES[name]
    with pytest.raises(UsageError, match=rf"{name} needs .*has no .*only other"):
        draw(pl.DataFrame({"other": [1]}))
    assert draw(frame) is not None


def test_slopes_and_dumbbells_count_tasks_by_what_became_of_them() -> None:
    arms = pl.DataFrame({"arm": ["x", "y"], "estimate": [0.375, 0.75], "low": [0.1, None], "high": [0.6, None]})
    axes = slopes(TASKS, arms=arms, names=("x", "y"))
    assert legend(axes) == ["better: 2", "worse: 1", "same: 1"]
    assert axes.get_title(loc="left") == "4 tasks under both arms"
    assert {"1 more has no score under one of them", "2", "0.375\n[0.100, 0.600]", "0.750"} <= set(texts(axes))
    axes = dumbbells(TASKS, names=("x", "y"))
    assert legend(axes) == ["x", "y", "better: 2", "worse: 1", "same: 1"]
    assert [t.get_text() for t in axes.get_yticklabels()] == ["c", "b", "a", "d"]
    assert [t for t in texts(axes) if "," in t] == ["2, 2", "2, 4", "2, 2", "2, 2"]


def test_the_word_of_the_table_goes_before_the_sign() -> None:
    told = TASKS.with_columns(change=pl.lit("same"))
    assert legend(slopes(told)) == ["better: 0", "worse: 0", "same: 4"]


def test_a_thousand_tasks_are_all_drawn() -> None:
    many = pl.DataFrame(
        {
            "task": [f"task-{i}" for i in range(1000)],
            "baseline_mean": [i / 1000 for i in range(1000)],
            "treatment_mean": [(i * 7 % 1000) / 1000 for i in range(1000)],
        }
    )
    assert sum(len(c.get_segments()) for c in slopes(many).collections) == 1000
    axes = dumbbells(many)
    assert sum(len(c.get_segments()) for c in axes.collections) == 1000
    assert [t.get_text() for t in axes.get_yticklabels()] == ["1", "1,000"]
    assert len(picture(axes)) < 1_000_000


def test_forest_writes_the_numbers_and_why_a_row_has_none() -> None:
    axes = forest(SLICES, total="all", margin=-0.05)
    told = texts(axes)
    assert {"+0.100 [−0.100, +0.300]", "no estimate: too few tasks", "+0.200 [+0.050, +0.350]", "margin"} <= set(told)
    assert [t for t in told if t.isdigit()] == ["5", "1", "6"]
    assert [t.get_text() for t in axes.get_yticklabels()] == ["one", "two", "all"]


def test_cumulative_says_that_it_is_no_stopping_rule() -> None:
    axes = cumulative(STEPS, order="task id")
    assert any("no stopping rule" in t for t in texts(axes))
    assert "+0.300\n[+0.100, +0.500]\nn 3" in texts(axes)


def test_curves_tell_how_many_tasks_stand_behind_them() -> None:
    assert legend(pass_curves(CURVES)) == ["x\n9 to 8 tasks"]


def test_gaps_are_counted_by_side_and_no_bar_holds_two_sides() -> None:
    axes = gap_histogram(GAPS, estimate=(0.1, -0.2, 0.4))
    assert legend(axes) == ["mean +0.100 [−0.200, +0.400]", "below 0: 1", "0: 1", "above 0: 1"]
    assert "1 more has too few scores for one" in texts(axes)
    fine = pl.DataFrame({"gap": [i / 1000 - 0.5 for i in range(1001)]})
    axes = gap_histogram(fine)
    assert legend(axes) == ["below 0: 500", "0: 1", "above 0: 500"]
    assert sum(p.get_height() for p in axes.patches) == 1001


def test_the_plane_counts_bands() -> None:
    assert legend(learnability_plane(GAPS)) == ["too hard: 0", "learnable: 1", "too easy: 1", "cannot be told: 1"]


def test_the_flip_matrix_holds_every_task_once() -> None:
    axes = flip_matrix(TASKS, names=("x", "y"))
    counts = [int(t) for t in texts(axes) if t.isdigit()]
    assert sum(counts) == 4
    assert [t.get_text() for t in axes.get_xticklabels()] == ["fail", "mixed", "pass"]
    assert any("1 more lacks a verdict" in t for t in texts(axes))
    plain = TASKS.filter(pl.col("baseline_outcome") != "mixed", pl.col("treatment_outcome") != "mixed")
    assert [t.get_text() for t in flip_matrix(plain).get_xticklabels()] == ["fail", "pass"]


def test_an_arm_without_a_cost_is_named_not_drawn() -> None:
    axes = cost_success(COSTS)
    assert legend(axes) == ["x\nn 3", "y\nn 4"]
    assert "no cost or no verdict: z" in texts(axes)


def test_neighbours_differ_in_colour_lightness_marker_and_line() -> None:
    from matplotlib.colors import to_rgb

    light = [sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), to_rgb(s[0]), strict=True)) for s in SERIES]
    assert all(abs(a - b) > 0.05 for a, b in pairwise(light))
    assert all(len({s[i] for s in SERIES}) == len(SERIES) for i in (0, 1, 2, 3))


@given(st.lists(st.text(alphabet="ab$-_/é ", max_size=90), max_size=12))
def test_short_names_stay_short_and_apart_where_they_can(names: list[str]) -> None:
    cut = short(names)
    assert len(cut) == len(names)
    assert all(len(c.replace(r"\$", "$")) <= 56 for c in cut)
    flat = [" ".join(n.split()) for n in names]
    same = [c for c, f in zip(cut, flat, strict=True) if len(f) <= 28]
    assert same == [f.replace("$", r"\$") for f in flat if len(f) <= 28]


def test_names_that_differ_in_the_middle_only_are_cut_less() -> None:
    names = [f"{'x' * 20}-{i}-{'y' * 18}" for i in range(3)]
    assert len(set(short(names))) == 3


def test_a_dollar_in_a_name_begins_no_formula() -> None:
    assert picture(slopes(TASKS, names=("a $x", "b $y \\frac{")))
    assert picture(dumbbells(TASKS.with_columns(task=pl.lit("$\\frac{$"))))


def test_names_in_any_script_and_with_control_characters_are_drawn() -> None:
    told = picture(dumbbells(TASKS.with_columns(task=pl.lit("任务\x07\u202e<b>")))).decode()
    assert "任务␇\ufffd&lt;b&gt;" in told


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (None, "–"),
        (float("nan"), "–"),
        (0, "0"),
        (0.0, "0"),
        (6.9e-18, "0"),
        (5, "5"),
        (12345, "12,345"),
        (0.5, "0.500"),
        (-0.5, "−0.500"),
        (0.00012, "1.2e-04"),
        (12.345, "12.35"),
        (123.45, "123.5"),
        (1234.5, "1,234"),
    ],
)
def test_numbers(value: float | None, told: str) -> None:
    assert number(value) == told


def test_signs_and_intervals() -> None:
    assert [number(v, signed=True) for v in (0.5, 0.0, -0.5)] == ["+0.500", "0", "−0.500"]
    assert interval(0.5, 0.25, 0.75) == "0.500 [0.250, 0.750]"
    assert interval(0.5, None, None) == "0.500"
    assert interval(None, None, None) == "–"


def test_a_picture_is_svg_or_png() -> None:
    with pytest.raises(UsageError, match="svg or png"):
        picture(slopes(TASKS), "pdf")


def test_figures_import_nothing_heavy_before_they_draw() -> None:
    found = modules_after("import expcomp.figures.paired, expcomp.figures.gap, expcomp.reports.report")
    assert "matplotlib" not in found
    assert "scipy" not in found


def test_drawing_registers_nothing_with_pyplot() -> None:
    code = "import polars as pl\nfrom expcomp.figures.gap import gap_histogram\ngap_histogram(pl.DataFrame({'gap': [1.0]}))"
    assert "matplotlib.pyplot" not in modules_after(code)


class Ipython:
    """A module in the place of IPython, with or without a session."""

    version_info = (9, 0)

    def __init__(self, shell: object) -> None:
        self.get_ipython = lambda: shell


def test_only_a_session_of_ipython_gets_its_figures_through_pyplot(monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib import pyplot

    for shell, hidden, shown in ((None, False, 0), (MagicMock(), False, 1), (MagicMock(), True, 0)):
        monkeypatch.setitem(sys.modules, "IPython", Ipython(shell))
        with unshown() if hidden else nullcontext():
            axes_of(None)
        assert len(pyplot.get_fignums()) == shown
        pyplot.close("all")
