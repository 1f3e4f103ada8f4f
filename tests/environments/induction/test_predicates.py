"""Values worth a condition: the most frequent ones of each operand."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from expcomp.environments.induction.predicates import MAX_VALUES, MIN_ROWS, _frequent

CODES = arrays(
    np.int64, st.tuples(st.integers(1, 90), st.integers(0, 4)), elements=st.integers(-1, 12) | st.integers(-1, 60)
)


@given(CODES)
def test_the_most_frequent_values_of_each_column_come_first(codes: np.ndarray) -> None:
    wanted = []
    for place, column in enumerate(codes.T.tolist()):
        often = sorted((-n, c) for c, n in Counter(column).items() if c >= 0 and n >= MIN_ROWS)
        wanted += [(place, c) for _, c in often[:MAX_VALUES]] if len(often) <= 4 * MAX_VALUES else []
    assert [(int(p), int(c)) for p, c in zip(*_frequent(codes), strict=True)] == wanted
