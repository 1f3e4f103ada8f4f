"""The page says what was measured, leaves empty what was not, and keeps the sections of other runs."""

from __future__ import annotations

import pytest

from tests.benchmarks.cost import alone, best, cost, program, spent
from tests.benchmarks.page import ABOUT, HEAD, Page


def cells(page: Page) -> list[list[str]]:
    lines = [line for line in page.section("S").splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[2:]]


def test_a_line_has_a_ratio_for_each_figure_beside_it_and_empty_cells_for_the_rest() -> None:
    page = Page()
    page.add("zip", "1 file", 123.4)
    page.add("read, x", "2 files", 3.0, unit="s CPU", floor=1.5, peer=("tool", 12.0), memory_mib=2048.4, growth=1.0)
    page.add("read, y", "3 files", 3.0, floor=("hash", 2.0))
    assert cells(page) == [
        ["read, x", "2 files", "s CPU", "3.00", "1.50", "2.00", "12.0 tool", "0.25", "2,048 MiB", "1.00"],
        ["read, y", "3 files", "s wall", "3.00", "2.00 hash", "1.50", "", "", "", ""],
        ["zip", "1 file", "s wall", "123", "", "", "", "", "", ""],
    ]
    told = set(HEAD) - {"stage", "size", "ours", "ours/floor"}
    assert all(f"**{name}**" in ABOUT for name in told)


def test_a_section_takes_the_place_of_its_own_and_leaves_the_others() -> None:
    first, second = Page(), Page()
    first.add("read", "1 file", 1.0)
    first.note("### Kinds\n\n| kind |\n| --- |\n| one |\n")
    second.add("read", "2 files", 2.0)
    once = first.written("", "A")
    both = second.written(once, "B", "large.")
    assert once in both
    assert both.count("## ") - both.count("### ") * 1 == 2
    assert first.written(second.written(both, "A"), "A") == both


def test_a_command_costs_memory_and_has_to_end_well() -> None:
    assert program("pass").sum_mib > 0
    cost("false", codes=(1,))
    with pytest.raises(AssertionError):
        cost("false")


def test_peers_that_are_missing_are_left_out() -> None:
    def missing() -> float:
        raise ImportError

    assert best({"missing": missing}) is None
    assert best({"missing": missing, "dear": lambda: 2.0, "cheap": lambda: 1.0}) == ("cheap", 1.0)
    assert alone(spent, int).peak_mib > 0
