"""Whatever a name or a message holds, the documents show it as text; the page loads nothing and runs its own script only."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from hashlib import sha256
from html.parser import HTMLParser
from xml.etree import ElementTree

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from expcomp.errors import InternalError
from expcomp.io.visible import visible
from expcomp.reports.cells import html, markdown, plain
from expcomp.reports.markdown import to_markdown
from expcomp.reports.model import Col, Section, Table
from expcomp.reports.report import Report
from tests.reports.conftest import HOSTILE


class Page(HTMLParser):
    """Elements with their attributes, and the text of each script, style and cell."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.inner: dict[str, list[str]] = {"script": [], "style": [], "td": []}
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.open = self.inner.get(tag, [])
        self.open.append("")

    def handle_endtag(self, tag: str) -> None:
        self.open = [""]

    def handle_data(self, data: str) -> None:
        self.open = self.open or [""]
        self.open[-1] += data


@pytest.fixture(scope="module")
def page(compared: Report) -> Page:
    return Page(compared.to_html())


def test_hostile_text_is_shown_as_text(page: Page, compared: Report) -> None:
    assert plain(HOSTILE) in [t.strip() for t in page.inner["td"]]
    assert [tag for tag, _ in page.elements].count("script") == 1
    assert not [a for _, attrs in page.elements for a in attrs if a.startswith("on")]
    assert "\x07" not in compared.to_html()
    assert "\u202e" not in compared.to_html() + compared.to_markdown()


def test_the_policy_allows_the_style_and_the_script_of_the_page_and_nothing_else(page: Page) -> None:
    (policy,) = [a["content"] for t, a in page.elements if t == "meta" and a.get("http-equiv")]
    assert policy is not None
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["img-src"] == "data:"
    for kind in ("style", "script"):
        (text,) = page.inner[kind]
        assert rules[f"{kind}-src"] == f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
    assert not [a for _, a in page.elements if "style" in a]


def test_nothing_is_loaded(page: Page) -> None:
    targets = [a[n] or "" for _, a in page.elements for n in ("src", "href", "action", "srcset", "data") if n in a]
    assert targets
    assert {t[:1] for t in targets if not t.startswith("data:")} == {"#"}


def test_ids_are_unique_and_every_link_has_its_target(page: Page) -> None:
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(ids) == len(set(ids))
    assert {(a["href"] or "")[1:] for t, a in page.elements if t == "a"} <= set(ids)


def test_figures_are_images_with_words_for_them(page: Page, compared: Report) -> None:
    images = [a for t, a in page.elements if t == "img"]
    assert len(images) == sum(len(s.figures) for s in compared.sections)
    for image in images:
        assert image["alt"]
        root = ElementTree.fromstring(b64decode((image["src"] or "").partition("base64,")[2]))
        assert root.tag.endswith("svg")


def test_cells_carry_their_value_in_full_for_sorting(page: Page, compared: Report) -> None:
    values = {a["data-v"] for t, a in page.elements if t == "td"}
    tables = [t for s in compared.sections for t in s.tables if t.id == "comparison_summary"]
    assert repr(tables[0].frame["estimate"][0]) in values


def test_a_notebook_gets_the_sections_without_script(compared: Report) -> None:
    part = Page(compared._repr_html_())
    assert {"script", "style", "html"} & {t for t, _ in part.elements} == set()
    assert {"table", "img"} <= {t for t, _ in part.elements}


def test_a_row_of_markdown_has_a_cell_for_each_column(compared: Report) -> None:
    lines = [line for line in compared.to_markdown().split("\n") if line.startswith("|")]
    bars = [len(re.findall(r"(?<!\\)\|", line)) for line in lines]
    heads = [i for i, line in enumerate(lines) if set(line) <= set("|-: ")]
    assert heads
    for at, end in zip(heads, [*heads[1:], len(lines) + 1], strict=True):
        assert len(set(bars[at - 1 : end - 1])) == 1


@given(st.text())
def test_html_gives_the_text_back(text: str) -> None:
    class Text(HTMLParser):
        told = ""

        def handle_data(self, data: str) -> None:
            self.told += data

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            assert (tag, attrs) == ("p", [("title", visible(text))])

    parser = Text()
    parser.feed(f'<p title="{html(text)}">{html(text)}</p>')
    parser.close()
    assert parser.told == visible(text)


@given(st.text())
def test_markdown_has_no_marks_of_the_text_left(text: str) -> None:
    told = markdown(text)
    assert "\n" not in told
    bare = re.sub(r"\\[\\`*\[\]|~$_#+.)\-]|&(amp|lt|gt);", "", told)
    assert not re.search(r"[\\`*\[\]|~$<>]", bare)
    assert not re.match(r"(#|[-+]\s|\d+[.)]\s)", told)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a_b_c", "a_b_c"),
        ("_a_", r"\_a\_"),
        ("1. x", r"1\. x"),
        ("1.000", "1.000"),
        ("- x", r"\- x"),
        ("-0.5", "-0.5"),
        ("# x", r"\# x"),
        ("a | b", r"a \| b"),
        ("<b>&", "&lt;b&gt;&amp;"),
    ],
)
def test_markdown_stays_readable(text: str, told: str) -> None:
    assert markdown(text) == told


def test_columns_without_any_value_are_not_shown() -> None:
    frame = pl.DataFrame({"a": [1, 2], "b": [None, None]}, schema={"a": pl.Int64, "b": pl.String})
    section = Section("s", "S", (), (Table("t", "T", frame, (Col("a", "A", "count"), Col("b", "B"))),))
    assert "| A |\n| ---: |\n| 1 |\n| 2 |" in to_markdown("x", [section], None)


def test_an_estimate_without_an_interval_says_so() -> None:
    schema = {"v": pl.Float64, "l": pl.Float64, "h": pl.Float64}
    frame = pl.DataFrame({"v": [0.5, None, 0.25], "l": [None, None, 0.1], "h": [None, None, 0.4]}, schema=schema)
    section = Section("s", "S", (), (Table("t", "T", frame, (Col("v", "V", "number", "l", "h"),)),))
    told = to_markdown("x", [section], None)
    assert "| 0.500 [no interval] |\n| – |\n| 0.250 [0.100, 0.400] |" in told


def test_a_table_that_shows_what_it_has_not_is_a_fault_of_ours() -> None:
    with pytest.raises(InternalError, match="table t of the report shows b"):
        Table("t", "T", pl.DataFrame({"a": [1]}), (Col("b", "B"),))
