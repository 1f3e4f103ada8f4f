"""The page in a real browser: no error, no request, tables sort, figures are drawn."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from expcomp.reports.report import Report

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage --window-size=1200,1600"
).split()

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (CHROMIUM and DRIVER), reason="no chromium and chromedriver: apt-get install chromium chromium-driver"
    ),
]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory, compared: Report) -> Iterator[Any]:
    """A browser that shows the page."""
    pytest.importorskip("selenium", reason="selenium is not installed: pip install selenium")
    from selenium import webdriver

    folder = tmp_path_factory.mktemp("browser")
    compared.write(folder / "report")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM or ""
    for flag in (*FLAGS, f"--user-data-dir={folder / 'profile'}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    try:
        driver.get((folder / "report/report.html").as_uri())
        yield driver
    finally:
        driver.quit()


def column(browser: Any, table: str, index: int) -> list[str]:
    script = (
        "return [...document.getElementById(arguments[0]).tBodies[0].rows].map(r => r.cells[arguments[1]].innerText)"
    )
    return list(browser.execute_script(script, table, index))


def heads(browser: Any, table: str) -> list[Any]:
    from selenium.webdriver.common.by import By

    return list(browser.find_elements(By.CSS_SELECTOR, f"#{table} th"))


def test_nothing_is_wrong_and_nothing_is_requested(browser: Any) -> None:
    assert browser.get_log("browser") == []
    sent = [json.loads(e["message"])["message"] for e in browser.get_log("performance")]
    asked = [m["params"] for m in sent if m["method"] == "Network.requestWillBeSent"]
    # What the browser loads for its own empty first page is not ours.
    urls = [a["request"]["url"] for a in asked if a["documentURL"] == browser.current_url]
    assert [u for u in urls if not u.startswith("data:")] == [browser.current_url]


def test_all_figures_are_drawn(browser: Any, compared: Report) -> None:
    sizes = browser.execute_script("return [...document.images].map(i => i.complete ? i.naturalWidth : 0)")
    assert len(sizes) == sum(len(s.figures) for s in compared.sections)
    assert min(sizes) > 100


def test_a_click_on_a_heading_sorts_by_number_and_again_the_other_way(browser: Any) -> None:
    table = "table-comparison_tasks"
    titles = [h.text for h in heads(browser, table)]
    at = titles.index("difference")
    before = column(browser, table, at)
    heads(browser, table)[at].find_element("tag name", "button").click()
    values = [float(v.replace("−", "-")) for v in column(browser, table, at) if v != "–"]
    assert values == sorted(values)
    assert sorted(column(browser, table, at)) == sorted(before)
    assert heads(browser, table)[at].get_attribute("aria-sort") == "ascending"
    heads(browser, table)[at].find_element("tag name", "button").click()
    values = [float(v.replace("−", "-")) for v in column(browser, table, at) if v != "–"]
    assert values == sorted(values, reverse=True)
    assert heads(browser, table)[at].get_attribute("aria-sort") == "descending"
    assert [h.get_attribute("aria-sort") for i, h in enumerate(heads(browser, table)) if i != at] == ["none"] * (
        len(titles) - 1
    )


def test_text_sorts_as_text_and_the_keyboard_does_it_too(browser: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    at = [h.text for h in heads(browser, "table-comparison_tasks")].index("task")
    heads(browser, "table-comparison_tasks")[at].find_element("tag name", "button").send_keys(Keys.ENTER)
    names = [n for n in column(browser, "table-comparison_tasks", at) if n.startswith("task-")]
    assert names == sorted(names)
    assert len(names) > 20


def test_hostile_text_did_not_become_markup(browser: Any) -> None:
    assert browser.execute_script("return document.scripts.length") == 1
    assert browser.execute_script("return document.querySelectorAll('td > *').length") == 0


def test_the_page_does_not_scroll_sideways(browser: Any) -> None:
    assert browser.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")
