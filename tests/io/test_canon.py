"""Canonical JSON: public examples of RFC 8785, vectors of our own, and the fast path against the slow one."""

from __future__ import annotations

from typing import Any

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from expcomp.io.canon import CanonError, digest, digest_bytes, dumps


def task(benchmark: str, name: str, content: bytes) -> dict[str, str]:
    return {"benchmark": benchmark, "task": name, "contentDigest": digest_bytes(content)}


def test_vectors() -> None:
    assert digest_bytes(b"train-task") == "sha256:dafa62332d99edb7403ee591df2bf19f7f13f9fc7fb4b06c71f0830bea93d54a"
    one = [task("fixture", "train", b"train-task")]
    assert digest(one) == "sha256:468958deeb982c0f0e8f058e7bb72d30ee76f382a15476e5f8b1beefdab37f1d"
    two = [task("a", "t2", b"two"), task("b", "t1", b"one")]
    assert digest(two) == "sha256:a35b8b86509f0cefa2a366e16b9ae4a15863ebb8324fa94d20751aa58c1b734c"
    odd = {"a": [1e-7, 1e21, -0.0, 0.1], "b": None, "z": 1.0, "€": "\u0001", "😀": True, "\ufffd": False}
    assert digest(odd) == "sha256:a162b0cdac37a59d3196013a61279d040dca293149c36f3ba971a7bf27fc0e0e"


def test_example_of_the_rfc() -> None:
    value = {
        "numbers": [333333333.33333329, 1e30, 4.50, 2e-3, 0.000000000000000000000000001],
        "string": "\u20ac$\u000f\u000aA'\u0042\u0022\u005c\\\"/",
        "literals": [None, True, False],
    }
    assert (
        dumps(value)
        == (
            '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
            '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
        ).encode()
    )


def test_keys_sort_by_utf_16_units() -> None:
    value = {"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\U0001f600": 5, "\u0080": 6, "\u00f6": 7}
    assert list(dumps(value).decode()) == list('{"\\r":2,"1":4,"\u0080":6,"ö":7,"€":1,"😀":5,"\ufb33":3}')


CYCLE: list[Any] = []
CYCLE.append({"x": CYCLE})


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        -float("inf"),
        2**53,
        -(2**53),
        "\ud800",
        {"\udfff": 1},
        {1: 2},
        {None: 1},
        CYCLE,
        {1, 2},
        b"x",
        1j,
    ],
    ids=repr,
)
def test_refused(value: Any) -> None:
    for holder in (value, [value], {"k": value}):
        with pytest.raises(CanonError):
            dumps(holder)


def test_depth_is_bounded() -> None:
    value: Any = 1.5
    for _ in range(240):
        value = [value]
    assert dumps(value) == b"[" * 240 + b"1.5" + b"]" * 240
    for _ in range(100_000):
        value = [value]
    with pytest.raises(CanonError, match="deeper"):
        dumps(value)


def test_a_value_used_twice_is_no_cycle() -> None:
    shared = {"a": [1]}
    assert dumps([shared, shared]) == b'[{"a":[1]},{"a":[1]}]'


SCALARS = st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text()
VALUES = st.recursive(
    SCALARS | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=5),
    max_leaves=20,
)


@settings(max_examples=300, deadline=None)
@given(VALUES)
def test_both_paths_write_the_same_bytes(value: Any) -> None:
    assert dumps(value) == rfc8785.dumps(value)
