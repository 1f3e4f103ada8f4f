"""Canonical JSON of columns, held to the exact writer of RFC 8785."""

from __future__ import annotations

import json
from typing import Any

import orjson
import polars as pl
import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from expcomp.io.canon import CanonError, dumps
from expcomp.io.canonical_rows import canonical_texts, json_text, utf16_order

NUMBERS = (
    st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.integers(-(10**17), 10**17).map(float)
    | st.floats(-23, 23).map(lambda e: 10.0**e)
).filter(lambda x: not 2**53 <= abs(x) < 1e21)
TEXTS = st.text() | st.sampled_from(
    ["v1.0,", "x [2.0]", ":-0.0}", '",3e5,', "1234567890123456789", "\\", '\U0001f600":']
)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=15,
)  # fmt: skip


def orjson_text(value: Any) -> str:
    return orjson.dumps(value).decode()


@settings(max_examples=200)
@given(st.lists(VALUES, max_size=4), st.sampled_from([json.dumps, orjson_text]))
def test_many_at_once_are_as_each_by_itself(values: list[Any], write: Any) -> None:
    texts = pl.Series([write(v) for v in values], dtype=pl.String)
    made = canonical_texts(texts)
    assert made["text"].to_list() == [rfc8785.dumps(json.loads(t)).decode() for t in texts]
    assert made["code"].null_count() == len(values)


@settings(max_examples=200)
@given(VALUES)
def test_the_slow_and_the_fast_writer_agree(value: Any) -> None:
    assert dumps(value) == rfc8785.dumps(value)
    assert canonical_texts(pl.Series([dumps(value).decode()]))["text"].to_list() == [dumps(value).decode()]


@pytest.mark.parametrize(
    ("text", "code", "told"),
    [
        ('{"a":1,"a":1}', "not_json", "twice"),
        ('{"a":1,"\\u0061":1}', "not_json", "twice"),
        ('[{"a":1, "a":2}]', "not_json", "twice"),
        ("", "not_json", ""),
        ("{", "not_json", ""),
        (None, "not_json", "no text"),
        ("[" * 100_000, "not_json", ""),
        ("NaN", "not_canonicalizable", "no JSON number"),
        ("[1e400]", "not_canonicalizable", "no JSON number"),
        ("[9007199254740992]", "not_canonicalizable", "2^53"),
        ("[123456789012345678901234567890]", "not_canonicalizable", "2^53"),
        ('"\\ud800"', "not_canonicalizable", "surrogate"),
        ("9007199254740992.0", "not_canonicalizable", "2^53"),
        ('{"at":1.7e18}', "not_canonicalizable", "2^53"),
    ],
)
def test_what_has_no_canonical_form_is_said(text: str | None, code: str, told: str) -> None:
    made = canonical_texts(pl.Series(["1", text, "[2.0]"], dtype=pl.String))
    assert made["text"].to_list() == ["1", None, "[2]"]
    assert made["code"].to_list() == [None, code, None]
    assert told in str(made["problem"][1])


@settings(max_examples=200)
@given(st.text() | st.text('\x00\x1f\x7f"\\/\b\f\n\r\t\u2028é😀'))
def test_json_strings(text: str) -> None:
    assert pl.select(json_text(pl.lit(text))).item() == rfc8785.dumps(text).decode()


def test_null_is_no_json_string() -> None:
    assert pl.select(json_text(pl.lit(None, pl.String))).item() is None


@settings(max_examples=200)
@given(st.lists(st.text("a\ud7ff\ue000\uf8ff\ufffd\uffff\U00010000\U0001f600\U0010ffff\x00\x01"), max_size=8))
def test_order_by_utf_16(texts: list[str]) -> None:
    frame = pl.DataFrame({"t": texts}, schema={"t": pl.String})
    assert frame.sort(utf16_order(pl.col("t")))["t"].to_list() == sorted(texts, key=lambda t: t.encode("utf-16-be"))


def test_an_exact_text_is_refused_as_the_exact_writer_does() -> None:
    with pytest.raises(CanonError):
        dumps(json.loads("[9007199254740992]"))
