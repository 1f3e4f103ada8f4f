from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expcomp.datasets.lines import json_lines
from expcomp.datasets.lower import lower
from expcomp.io.dataset_files import Lines, Written
from expcomp.tables.targets import TARGETS
from tests.datasets.logical import BARE, CHATS, conversations, message, rows_of

JSONL = [t for t in TARGETS.values() if "jsonl" in t.files]
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
CALL = st.fixed_dictionaries({"id": TEXT, "name": TEXT, "arguments": st.dictionaries(TEXT, JSON, max_size=3)})


def bare(value: Any) -> Any:
    """A message without what it does not have, at any depth below a chat."""
    if isinstance(value, list):
        return [bare(v) for v in value]
    if isinstance(value, dict):
        optional = ("reasoning_content", "tool_calls", "tool_call_id", "name", "training", "loss")
        return {k: bare(v) for k, v in value.items() if not (k in optional and v is None)}
    return value


def opened(value: Any) -> Any:
    """Texts of arguments as the objects they hold."""
    if isinstance(value, list):
        return [opened(v) for v in value]
    if isinstance(value, dict):
        return {k: json.loads(v) if k == "arguments" else opened(v) for k, v in value.items()}
    return value


def expected(name: str, frame: pl.DataFrame) -> list[dict[str, Any]]:
    rows = [bare(r) for r in frame.to_dicts()]
    if TARGETS[name].profile in ("typed", "native"):
        rows = [opened(r) for r in rows]
    if TARGETS[name].profile == "native":
        rows = [{**r, "tools": r["tools"] and json.loads(r["tools"])} for r in rows]
    return rows


@pytest.mark.parametrize("target", JSONL, ids=lambda t: t.name)
def test_a_line_is_the_row(target: Any) -> None:
    frame = lower(target, rows_of(target.kind)).frame
    lines = json_lines(target, frame).to_list()
    assert [json.loads(line) for line in lines] == expected(target.name, frame)
    assert [list(json.loads(line)) for line in lines] == [frame.columns] * frame.height
    assert json_lines(target, frame.head(0)).to_list() == []


def test_a_line_says_when_there_are_no_tools() -> None:
    lines = json_lines(TARGETS["trl-sft"], lower(TARGETS["trl-sft"], rows_of("conversation")).frame)
    assert [json.loads(line)["tools"] is None for line in lines] == [False, False, True, True]


def test_json_over_several_lines_stays_on_one() -> None:
    calls = [{"id": "c", "name": "f", "arguments": '{\n "a": "x\\n",\r\n "b": 1\n}'}]
    rows = conversations({"parallel": [BARE[0], message("assistant", "", tool_calls=calls), *BARE]})
    rows = rows.with_columns(tools=pl.lit('[\n {"type": "function"}\n]'))
    line = json_lines(TARGETS["nemo-rl"], lower(TARGETS["nemo-rl"], rows).frame)[0]
    assert "\n" not in line
    assert "\r" not in line
    row = json.loads(line)
    assert row["messages"][1]["tool_calls"][0]["function"]["arguments"] == {"a": "x\n", "b": 1}
    assert row["tools"] == [{"type": "function"}]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(TEXT, TEXT | st.none(), st.lists(CALL, max_size=3) | st.none()), min_size=1, max_size=4))
def test_any_text_comes_back_from_a_line(turns: list[tuple[str, str | None, list[Any] | None]]) -> None:
    said = [
        message(
            "assistant",
            content,
            reasoning=reasoning,
            tool_calls=calls and [{**c, "arguments": json.dumps(c["arguments"])} for c in calls],
        )
        for content, reasoning, calls in turns
    ]
    for name in ("trl-sft", "ms-swift", "axolotl", "nemo-rl", "verl-sft"):
        frame = lower(TARGETS[name], conversations({"parallel": [BARE[0], *said]})).frame
        line = json_lines(TARGETS[name], frame)[0]
        assert len(line.split("\n")) == 1
        assert [json.loads(line)] == expected(name, frame)
    typed = json.loads(json_lines(TARGETS["trl-sft"], lower(TARGETS["trl-sft"], conversations({"x": said})).frame)[0])
    assert [[c["function"]["arguments"] for c in m.get("tool_calls", [])] for m in typed["messages"]] == [
        [c["arguments"] for c in calls or []] for _, _, calls in turns
    ]


def test_lines_are_written_in_order_with_their_measures(tmp_path: Path) -> None:
    target = TARGETS["trl-sft"]
    lines = json_lines(target, lower(target, conversations(CHATS)).frame)
    out = tmp_path / "a.jsonl"
    written = write(out, lines.head(1), lines.head(0), lines.slice(1))
    assert written is not None
    assert out.read_text("utf-8").removesuffix("\n").split("\n") == lines.to_list()
    assert (written.rows, written.bytes) == (lines.len(), out.stat().st_size)
    assert write(tmp_path / "b.jsonl", lines) == written
    assert write(tmp_path / "c.jsonl") is None
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.jsonl", "b.jsonl"]


def write(path: Path, *parts: pl.Series) -> Written | None:
    with Lines(path) as lines:
        for part in parts:
            lines.write(part)
        return lines.close()
