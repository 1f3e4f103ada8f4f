"""`pytest -m benchmark tests/benchmarks --page FILE` writes what was measured as one Markdown table; without the option it is printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.page import Page

PAGE = Page()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--page", type=Path, help="Markdown file for the table of all benchmarks of the run")


@pytest.fixture(scope="session")
def page() -> Page:
    """Where a benchmark says what it measured."""
    return PAGE


def pytest_sessionfinish(session: pytest.Session) -> None:
    if not PAGE.lines and not PAGE.notes:
        return
    target = session.config.getoption("--page", None)
    if target is None:
        print("\n" + PAGE.markdown())
    else:
        target.write_text(PAGE.markdown(), encoding="utf-8")
