"""Tool schemas of any vendor, padded or not, as one text in one form."""

from __future__ import annotations

import json
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expcomp.datasets.tools import tool_set, with_tools

PARAMETERS = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
PLAIN = {"name": "find", "description": "Look it up.", "parameters": PARAMETERS}
WANTED = [{"type": "function", "function": PLAIN}]
ANSWER = {"enum", "const", "default", "examples"}


def tools(value: Any) -> Any:
    text = tool_set(value if isinstance(value, str) else json.dumps(value))
    return None if text is None else json.loads(text)


@pytest.mark.parametrize(
    "value",
    [
        WANTED,
        WANTED[0],
        [PLAIN],
        [{"type": "function", **PLAIN}],
        [{"name": "find", "description": "Look it up.", "input_schema": PARAMETERS}],
        [{"name": "find", "description": "Look it up.", "inputSchema": PARAMETERS}],
        [{"type": "custom", "name": "find", "description": "Look it up.", "input_schema": PARAMETERS}],
        [*WANTED, None, 7, {"type": "web_search"}, {"function": {"description": "nameless"}}],
        [{"type": "function", "function": {**PLAIN, "strict": None}, "cache_control": None}],
    ],
)
def test_schemas_of_every_vendor_become_those_of_one(value: Any) -> None:
    assert tools(value) == WANTED


@pytest.mark.parametrize(
    "text", ["", " ", "null", "[]", "{}", "3", "oops", "[{", '[{"name": 3}]', '"find"', '[{"name": "a", "x": NaN}]']
)
def test_what_holds_no_schema_is_null(text: str) -> None:
    assert tool_set(text) is None


def test_what_tables_pad_is_taken_away_and_what_a_schema_says_stays() -> None:
    padded = {
        "type": "object",
        "description": None,
        "enum": None,
        "properties": {
            "q": {"type": "string", "enum": ["a", None], "default": None, "items": None, "examples": [None]},
            "other": None,
            "default": None,
            "const": {"type": "null", "const": None, "enum": None},
        },
        "anyOf": [{"required": ["q"]}, None],
        "required": None,
    }
    assert tools([{"name": "find", "parameters": padded}])[0]["function"]["parameters"] == {
        "type": "object",
        "properties": {
            "q": {"type": "string", "enum": ["a", None], "default": None, "examples": [None]},
            # Here `default` and `const` name parameters; a parameter that is null was padded.
            "const": {"type": "null", "const": None},
        },
        "anyOf": [{"required": ["q"]}],
    }


def test_a_text_that_no_encoding_takes_is_no_end_of_the_build() -> None:
    text = tool_set('[{"name": "find", "description": "half \\ud83d of it"}]')
    assert text is not None
    assert pl.Series([text])[0] == text
    assert tool_set("[" * 100_000) is None


def test_equal_texts_are_one_set_and_rows_keep_their_order() -> None:
    rows = pl.DataFrame(
        {"row_id": ["a", "b", "c", "d"], "tools": ["[]", None, json.dumps([PLAIN]), json.dumps(WANTED)]}
    )
    made = with_tools(rows)
    assert made.columns == ["row_id", "tools"]
    assert made["row_id"].to_list() == ["a", "b", "c", "d"]
    text = json.dumps(WANTED, separators=(",", ":"))
    assert made["tools"].to_list() == [None, None, text, text]
    assert with_tools(rows.select("row_id")).columns == ["row_id"]
    assert with_tools(rows.clear()).height == 0


NAMES = st.sampled_from(
    ["type", "properties", "items", "description", "enum", "default", "const", "$defs", "name", "q"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)


def holes(value: Any) -> bool:
    """Whether a null stands where no schema writes one."""
    if isinstance(value, dict):
        return any(k not in ANSWER and holes(v) for k, v in value.items())
    if isinstance(value, list):
        return any(map(holes, value))
    return value is None


@settings(deadline=None)
@given(st.dictionaries(NAMES, VALUES, max_size=4), st.sampled_from(["parameters", "input_schema", "inputSchema"]))
def test_no_schema_has_holes_and_a_clean_one_stays_as_it_is(parameters: dict[str, Any], key: str) -> None:
    text = tool_set(json.dumps([{"name": "find", "strict": None, key: parameters}]))
    assert text is not None
    (made,) = json.loads(text)
    assert not holes(made)
    assert set(made) == {"type", "function"}
    assert made["function"]["name"] == "find"
    assert tool_set(text) == text
    if "null" not in json.dumps(parameters):
        assert made["function"]["parameters"] == parameters


@settings(deadline=None)
@given(VALUES | st.text())
def test_any_text_is_read_or_is_no_set(value: Any) -> None:
    text = tool_set(value if isinstance(value, str) else json.dumps(value))
    if text is not None:
        made = json.loads(text)
        assert made
        assert all(set(t) == {"type", "function"} and isinstance(t["function"]["name"], str) for t in made)
        assert tool_set(text) == text
