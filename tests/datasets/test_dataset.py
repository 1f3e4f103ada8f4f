"""A dataset in a notebook: what it shows of itself, its rows one by one, figures, Arrow, card."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import matplotlib as mpl
import polars as pl
import pytest

import expcomp as xc
from expcomp.datasets.arrow import arrow_schema
from expcomp.datasets.dataset import Dataset
from expcomp.errors import UsageError
from expcomp.tables.targets import TARGETS
from tests.datasets import inputs
from tests.helpers import put

mpl.use("Agg")
EVIL = "<script>alert('gauge')</script> & <b>"


@pytest.fixture(scope="module")
def sft(runs: Path) -> Dataset:
    return xc.dataset(runs, "trl-sft", splits={"train": 0.6, "test": 0.4})


def test_it_says_what_it_is(sft: Dataset) -> None:
    train, test = sft.splits["train"], sft.splits["test"]
    assert repr(sft) == f"Dataset(trl-sft: test {test}, train {train}; {sft.left_out.height} candidates left out)"
    assert len(sft) == train + test == sft.rows.height == sft.frame.height
    assert sft.rows["row_id"].to_list() == sft.frame["row_id"].to_list()
    assert sft.frame.columns == list(TARGETS["trl-sft"].columns)


def test_reasons_add_up(sft: Dataset) -> None:
    assert sft.reasons.columns == ["reason", "candidates"]
    assert sft.reasons["candidates"].sum() == sft.left_out.height
    assert sft.reasons["candidates"].is_sorted(descending=True)
    assert sft.left_out.columns == ["row_id", "task_id", "reason", "detail"]


def test_without_rows_it_still_shows_itself(runs: Path) -> None:
    made = xc.dataset(runs, "trl-grpo", pass_rate=(0.96, 0.99))
    assert repr(made).startswith("Dataset(trl-grpo: no rows; ")
    assert "pass_rate_band" in made._repr_html_()
    assert (len(made), made.splits, made.frame.columns) == (0, {}, list(TARGETS["trl-grpo"].columns))
    assert made.arrow().num_rows == 0
    assert made.card()
    with pytest.raises(IndexError, match="has 0 rows"):
        made.show()


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.words = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)

    def handle_data(self, data: str) -> None:
        self.words += data


def parsed(html: str) -> Tags:
    tags = Tags()
    tags.feed(html)
    return tags


@pytest.fixture(scope="module")
def evil(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """A run in which everyone speaks HTML."""
    folder = tmp_path_factory.mktemp("evil")
    row = inputs.trial(1, 0, passed=True, said=EVIL, seen=EVIL)
    row["traj"][1]["content"] += EVIL
    row["traj"][2]["tool_calls"] = [inputs.call("c1", f"find_{EVIL}", order=EVIL)]
    put(folder / "in/gpt-x-retail.json", [row])
    return xc.dataset(inputs.compiled(folder / "in", folder / "out"), "trl-sft")


def test_html_is_escaped(evil: Dataset) -> None:
    for html in (evil._repr_html_(), evil.show()._repr_html_()):
        tags = parsed(html)
        assert "script" not in tags.seen
        assert "<script>" not in html
    assert EVIL in parsed(evil.show()._repr_html_()).words


def test_the_table_shows_rows_and_reasons(sft: Dataset) -> None:
    tags = parsed(sft._repr_html_())
    assert tags.seen.count("table") == 2
    assert all(r in tags.words for r in sft.reasons["reason"])
    assert repr(sft) in tags.words


ONE_EACH = {t.kind: n for n, t in TARGETS.items()}


@pytest.mark.parametrize("name", ONE_EACH.values())
def test_a_row_of_any_kind_is_shown(name: str, runs: Path) -> None:
    made = xc.dataset(runs, name)
    last = made.show(len(made) - 1)
    row = made.rows.row(len(made) - 1, named=True)
    for shown in (repr(last), last._repr_html_()):
        assert row["task_id"] in shown
    texts = [m["content"] for c in ("messages", "prompt", "completion", "chosen") for m in _chat(row.get(c))]
    assert all(t.splitlines()[0] in repr(last) for t in texts if t)
    for i in (-1, len(made)):
        with pytest.raises(IndexError, match=f"row {i}: the dataset has {len(made)} rows"):
            made.show(i)


def _chat(value: Any) -> list[dict[str, Any]]:
    return value if isinstance(value, list) and value and isinstance(value[0], dict) else []


@pytest.mark.parametrize("name", ["trl-sft", "trl-dpo", "trl-kto", "trl-grpo", "trl-prm", "world-model"])
def test_figures_are_axes(name: str, runs: Path) -> None:
    import matplotlib.pyplot as plt
    from matplotlib.axes import Axes

    made = xc.dataset(runs, name)
    _, ax = plt.subplots()
    assert made.plot(ax) is ax
    drawn = made.plot()
    assert isinstance(drawn, Axes)
    assert drawn.get_xlabel() == "bytes of text"
    if name not in ("trl-sft", "world-model"):
        assert isinstance(made.plot_labels(), Axes)
    else:
        with pytest.raises(UsageError, match=r"no labels; datasets of kto .* and prm"):
            made.plot_labels()
    plt.close("all")


@pytest.mark.parametrize("name", TARGETS)
def test_arrow_has_the_types_of_the_files(name: str, runs: Path) -> None:
    made = xc.dataset(runs, name)
    table = made.arrow()
    assert table.num_rows == len(made)
    assert table.schema.equals(arrow_schema(TARGETS[name]))


def test_the_card_tells_what_is_in_it_without_files(sft: Dataset) -> None:
    card = sft.card()
    assert card.startswith("---\n")
    assert "turn_without_loss" in card
    assert f"{len(sft):,}" in card
    assert "train-00000" not in card


def test_wrong_names_are_told(runs: Path) -> None:
    with pytest.raises(UsageError, match="there is no target 'trl'; known are trl-sft"):
        xc.dataset(runs, "trl")
    with pytest.raises(UsageError, match="there is no option colour; known are splits, seed"):
        xc.dataset(runs, "trl-sft", colour="red")


def test_its_rows_can_be_filtered_with_its_columns(sft: Dataset) -> None:
    assert {"row_id", "task_id", "attempt_id", "evidence_ids", "split", "messages"} <= set(sft.rows.columns)
    assert sft.rows.filter(pl.col("split") == "test").height == sft.splits["test"]
    assert sft.rows["evidence_ids"].list.len().min() >= 1  # type: ignore[operator]
