"""Frames as Markdown and CSV: no value breaks its row, no text is run as a formula."""

from __future__ import annotations

import csv
import io
import re
from datetime import UTC, datetime

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expcomp.io.text_tables import csv_table, markdown_table

TEXTS = st.lists(st.none() | st.text(max_size=20), min_size=1, max_size=5)


def bars(line: str) -> int:
    """Cells of a Markdown row: bars that are not escaped, less one."""
    return len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) - 1


@settings(deadline=None)
@given(TEXTS)
def test_a_markdown_row_is_one_line_with_its_cells(values: list[str | None]) -> None:
    lines = markdown_table(pl.DataFrame({"a": values, "b": values}, schema={"a": pl.String, "b": pl.String})).split(
        "\n"
    )
    assert len(lines) == len(values) + 3
    assert {bars(line) for line in lines[:-1]} == {2}
    assert not any("<" in line for line in lines)


def test_markup_in_a_cell_is_text() -> None:
    text = markdown_table(pl.DataFrame({"x|y": ["a|b", "`c`", "*d*", "<script>&", "e\\", "f\ng", "[h](u)", None]}))
    assert text.splitlines() == [
        "| x\\|y |",
        "| --- |",
        "| a\\|b |",
        "| \\`c\\` |",
        "| \\*d\\* |",
        "| &lt;script>&amp; |",
        "| e\\\\ |",
        "| f g |",
        "| \\[h](u) |",
        "| - |",
    ]


def test_numbers_stand_to_the_right_and_columns_have_titles() -> None:
    assert markdown_table(pl.DataFrame({"n": [1], "s": ["a"]}), {"n": "N"}) == "| N | s |\n| ---: | --- |\n| 1 | a |\n"


def test_lists_and_times_are_told() -> None:
    frame = pl.DataFrame({"l": [["a", "b"]], "t": [datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)]})
    assert markdown_table(frame).splitlines()[2] == "| a, b | 2026-01-02T03:04:05.000000+00:00 |"
    assert csv_table(frame) == 'l,t\n"[""a"",""b""]",2026-01-02T03:04:05.000000+00:00\n'


@pytest.mark.parametrize("text", ["=1+2", "+1", "-1", "@x", "\t=1", "\r=1", "\n=1", "＝1"])
def test_a_formula_is_neutralised(text: str) -> None:
    rows = list(csv.reader(io.StringIO(csv_table(pl.DataFrame({text: [text]})), newline="")))
    assert rows == [[f"'{text}"], [f"'{text}"]]


@settings(deadline=None)
@given(TEXTS)
def test_csv_gives_back_every_text(values: list[str | None]) -> None:
    text = csv_table(pl.DataFrame({"a": values, "n": [-1.5] * len(values)}, schema={"a": pl.String, "n": pl.Float64}))
    rows = list(csv.reader(io.StringIO(text, newline="")))[1:]
    assert [r[0].removeprefix("'") for r in rows] == [(v or "").removeprefix("'") for v in values]
    assert {r[1] for r in rows} == {"-1.5"}
