"""Samples that hypothesis draws for the tests of this room."""

from __future__ import annotations

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

# Scores on a coarse grid: ties, constants and repeated differences come up often.
SCORE = st.integers(0, 20).map(lambda i: i / 20)


@st.composite
def arms(draw, least=2, most=40):
    """Baseline and candidate scores of the same units, with differences that are not all equal."""
    n = draw(st.integers(least, most))
    a, b = (np.array(draw(st.lists(SCORE, min_size=n, max_size=n))) for _ in "ab")
    assume(np.ptp(np.rint((b - a) * 20)) > 0)
    return a, b


@st.composite
def clustered(draw, least=3, most=40):
    """Differences and their clusters, with clusters whose means are not all equal."""
    n = draw(st.integers(least, most))
    d = np.array(draw(st.lists(st.integers(-20, 20), min_size=n, max_size=n))) / 20
    labels = np.array(draw(st.lists(st.integers(0, 5), min_size=n, max_size=n)))
    means = [d[labels == k].mean() for k in set(labels.tolist())]
    assume(len(means) > 1 and np.ptp(means) > 1e-9)
    return d, labels


TABLE = st.tuples(*[st.integers(0, 60)] * 4).filter(lambda t: sum(t) > 0)
