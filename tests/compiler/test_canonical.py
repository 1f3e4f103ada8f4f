"""Canonical JSON lines equal what Python's `json` writes, for every dtype that families use."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from expcomp.compiler.canonical import json_lines
from expcomp.tables.families import BY_NAME
from expcomp.tables.family import CALL, MESSAGE

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=12) | st.sampled_from(
    [
        ',"a":null',
        '{"a":null,',
        '{"a":null}',
        '\\",\\"a\\":null',
        ',"a":null,"b":null',
        "\x00\x1f\x7f\u2028\ufeff",
        '"',
        "\\",
        "\\u0041",
        "null",
        "🧭 ü",
    ]
)
# Families hold counts, scores, rewards and durations; the extremes of a double belong to the contract as well.
REAL = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from(
    [0.0, -0.0, 1e-5, 9.999e-5, 1e-4, 1.0, 5e-324, 0.1 + 0.2, 123456789.125]
)
WHOLE = st.integers(-(2**63), 2**63 - 1)
TIME = st.datetimes(datetime(1000, 1, 1), datetime(9999, 12, 31)).map(lambda t: t.replace(tzinfo=UTC))  # noqa: DTZ001 - hypothesis wants naive bounds


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


def of(dtype: pl.DataType) -> st.SearchStrategy[Any]:
    """Values of a dtype, nulls at every depth."""
    if isinstance(dtype, pl.List):
        return maybe(st.lists(of(dtype.inner), max_size=3))
    if isinstance(dtype, pl.Struct):
        return maybe(st.fixed_dictionaries({f.name: of(f.dtype) for f in dtype.fields}))
    if isinstance(dtype, pl.String):
        return maybe(TEXT)
    if isinstance(dtype, pl.Float64):
        return maybe(REAL)
    if isinstance(dtype, pl.Boolean):
        return maybe(st.booleans())
    if isinstance(dtype, pl.Datetime):
        return maybe(TIME)
    return maybe(WHOLE)


SCHEMA = pl.Schema(
    {
        "z_text": pl.String(),
        "count": pl.Int64(),
        "a_real": pl.Float64(),
        "flag": pl.Boolean(),
        "names": pl.List(pl.String()),
        "rewards": pl.List(pl.Float64()),
        "chat": pl.List(
            pl.Struct({"role": pl.String(), "calls": pl.List(CALL), "reward": pl.Float64(), "again": pl.Boolean()})
        ),
        "made": pl.Struct({"z": pl.Int64(), "b": pl.Float64()}),
        "at": pl.Datetime("us", "UTC"),
    }
)
ROW = st.fixed_dictionaries({n: of(t) for n, t in SCHEMA.items()})


def plain(value: Any) -> Any:
    """A row as JSON holds it: object members that are null are left out, list elements that are null stay, times are ISO text."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [plain(v) for v in value]
    return value.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if isinstance(value, datetime) else value


def written_by_python(row: dict[str, Any]) -> str:
    return json.dumps(plain(row), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


NULLS = dict.fromkeys(SCHEMA)


@given(st.lists(ROW, min_size=1, max_size=4))
@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@example([NULLS])
@example([NULLS | {"a_real": 1e-7, "rewards": [1.0, 1e-300, None]}])
@example(
    [
        NULLS
        | {
            "chat": [
                {
                    "role": None,
                    "calls": [None, {"id": None, "name": None, "arguments": '{"a":null}'}],
                    "reward": 2e-9,
                    "again": None,
                }
            ]
        }
    ]
)
def test_lines_are_what_python_writes_without_nulls(rows: list[dict[str, Any]]) -> None:
    frame = pl.DataFrame(rows, schema=SCHEMA)
    assert json_lines(frame, list(SCHEMA)).to_list() == [written_by_python(r) for r in frame.to_dicts()]


@pytest.mark.parametrize("value", [1e16, 1.5e17, -1e22, 1.7976931348623157e308, 123456789012345680.0])
def test_huge_numbers_are_what_python_writes(value: float) -> None:
    frame = pl.DataFrame({"x": [value], "xs": [[value, 1.0]], "s": [{"y": value}]})
    assert json_lines(frame, ["x", "xs", "s"]).to_list() == [
        written_by_python({"x": value, "xs": [value, 1.0], "s": {"y": value}})
    ]


@pytest.mark.parametrize(
    "text",
    [
        ',"a":null',
        '{"a":null,"b":1}',
        '{"a":null}',
        '[{"a":null},{"b":null}]',
        '\\",\\"a\\":null',
        'x,"a":null,"b":null',
    ],
)
def test_text_that_looks_like_a_null_member_survives(text: str) -> None:
    frame = pl.DataFrame(
        {"a": [text], "b": [None], "names": [[text, "a"]]},
        schema={"a": pl.String, "b": pl.String, "names": pl.List(pl.String)},
    )
    assert json.loads(json_lines(frame, ["a", "b", "names"]).item()) == {"a": text, "names": [text, "a"]}


def test_members_of_nested_objects_are_sorted_and_null_ones_left_out() -> None:
    message = {
        "role": "user",
        "content": "hi",
        "reasoning": None,
        "tool_calls": None,
        "tool_call_id": None,
        "name": None,
        "trainable": False,
    }
    frame = pl.DataFrame({"m": [[message]]}, schema={"m": pl.List(MESSAGE)})
    assert json_lines(frame, ["m"]).item() == '{"m":[{"content":"hi","role":"user","trainable":false}]}'


def test_nulls_in_lists_stay() -> None:
    frame = pl.DataFrame({"xs": [["a", None]], "n": [None]}, schema={"xs": pl.List(pl.String), "n": pl.Int64})
    assert json_lines(frame, ["xs", "n"]).item() == '{"xs":["a",null]}'


def test_only_the_named_columns_are_written() -> None:
    assert json_lines(pl.DataFrame({"b": [1], "a": [2], "c": [3]}), ["c", "a"]).item() == '{"a":2,"c":3}'


def test_an_empty_frame_gives_no_line() -> None:
    assert json_lines(pl.DataFrame(schema=SCHEMA), list(SCHEMA)).to_list() == []


@pytest.mark.parametrize("family", list(BY_NAME))
@given(data=st.data())
@settings(deadline=None, max_examples=8, suppress_health_check=[HealthCheck.too_slow])
def test_content_of_every_family_is_what_python_writes(family: str, data: st.DataObject) -> None:
    schema = {n: c.dtype for n, c in BY_NAME[family].columns.items()}
    narrow = {
        n: of(t) if t != pl.Int32() else maybe(st.integers(-(2**31), 2**31 - 1))
        for n, t in schema.items()
        if not _holds_small_int(t)
    }
    row = data.draw(st.fixed_dictionaries(narrow))
    frame = pl.DataFrame([row], schema={n: schema[n] for n in narrow})
    assert json_lines(frame, list(narrow)).item() == written_by_python(frame.to_dicts()[0])


def _holds_small_int(dtype: Any) -> bool:
    """A nested Int32, which the strategies above do not draw."""
    if isinstance(dtype, pl.List):
        return _holds_small_int(dtype.inner)
    return isinstance(dtype, pl.Struct) and any(f.dtype == pl.Int32() for f in dtype.fields)
