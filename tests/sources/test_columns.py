from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from expcomp.sources._columns import frame_of
from expcomp.tables.core import STEPS

TEXT = st.text(max_size=5).filter(lambda t: t.isprintable())
CALL = st.fixed_dictionaries(
    {
        "id": st.none() | TEXT,
        "name": st.none() | TEXT,
        "arguments": st.none() | TEXT,
        "arguments_ok": st.none() | st.booleans(),
        "kind": st.sampled_from(["function", "custom", "server"]),
    }
)
ROW = st.fixed_dictionaries(
    {"attempt_id": TEXT, "step_index": st.integers(0, 9), "source": st.sampled_from(["agent", "user"])},
    optional={
        "tool_calls": st.none() | st.lists(CALL, max_size=3),
        "refs": st.none() | st.lists(TEXT, max_size=2),
        "caused_by": st.none() | st.lists(st.integers(0, 5), max_size=2),
        "input_tokens": st.none() | st.integers(0, 9),
        "content": st.none() | TEXT,
    },
)


@given(st.lists(ROW, max_size=6))
def test_columns_give_the_frame_that_polars_makes_of_the_rows(rows):
    assert frame_of(rows, STEPS.schema).equals(pl.DataFrame(rows, schema=STEPS.schema, orient="row"))


def test_a_mistake_in_a_reader_is_not_swallowed():
    with pytest.raises(KeyError, match="no_such"):
        frame_of([{"attempt_id": "a", "no_such": 1}], STEPS.schema)
    with pytest.raises(TypeError):
        frame_of([{"attempt_id": "a", "step_index": "x"}], STEPS.schema)


@given(st.lists(ROW, max_size=6), st.integers(1, 3), st.integers(1, 4))
def test_the_frame_does_not_depend_on_where_rows_are_cut(rows, chunk, most):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("expcomp.sources._columns.CHUNK", chunk)
        patch.setattr("expcomp.sources._columns._MOST", most)
        cut = frame_of(rows, STEPS.schema)
    assert cut.equals(frame_of(rows, STEPS.schema))
