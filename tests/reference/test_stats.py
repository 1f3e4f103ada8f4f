"""Every worked example of the statistics, by topic, through the public functions, within its own tolerance."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.reference import stats_topics_a, stats_topics_b

REFERENCE = os.environ.get("EXPCOMP_REFERENCE")
if REFERENCE is None:
    if os.environ.get("CI") == "true":
        pytest.fail("EXPCOMP_REFERENCE is not set; CI has to run the worked examples", pytrace=False)
    pytest.skip("EXPCOMP_REFERENCE is not set; it names the folder with the reference data", allow_module_level=True)

pytestmark = pytest.mark.reference
FILES = sorted((Path(REFERENCE) / "stats").glob("*.json"))
EXAMPLES = [e for f in FILES for e in json.loads(f.read_bytes())["examples"]]
TOPICS = stats_topics_a.TOPICS | stats_topics_b.TOPICS


def differences(got: Any, expected: Any, rel: float, absolute: float, at: str = "") -> Iterator[str]:
    """Where `got` differs from `expected`; keys beyond the expected ones are fine, missing ones are not."""
    where = at or "value"
    if isinstance(got, np.ndarray | np.generic):
        got = got.tolist()
    if isinstance(expected, dict):
        if not isinstance(got, dict):
            yield f"{where}: {got!r} is no mapping"
            return
        for key, value in expected.items():
            # Keys of JSON are texts; a table by number of trials has numbers.
            found = [k for k in got if str(k) == key]
            if not found:
                yield f"{where}.{key}: missing"
                continue
            yield from differences(got[found[0]], value, rel, absolute, f"{at}.{key}")
    elif isinstance(expected, list):
        if not isinstance(got, list | tuple) or len(got) != len(expected):
            yield f"{where}: {got!r} is no list of {len(expected)}"
            return
        for i, (g, e) in enumerate(zip(got, expected, strict=True)):
            yield from differences(g, e, rel, absolute, f"{at}[{i}]")
    elif expected is None or isinstance(expected, bool | str):
        if type(got) is not type(expected) or got != expected:
            yield f"{where}: {got!r}, expected {expected!r}"
    elif isinstance(got, bool) or not isinstance(got, int | float):
        yield f"{where}: {got!r} is no number, expected {expected!r}"
    elif not math.isclose(got, expected, rel_tol=rel, abs_tol=absolute):
        yield f"{where}: {got!r}, expected {expected!r}"


def test_there_are_examples_and_every_id_is_told_once() -> None:
    assert FILES
    assert EXAMPLES
    assert len({e["id"] for e in EXAMPLES}) == len(EXAMPLES)


def test_no_topic_is_told_twice() -> None:
    assert not stats_topics_a.TOPICS.keys() & stats_topics_b.TOPICS.keys()


@pytest.mark.parametrize("example", [pytest.param(e, id=e["id"]) for e in EXAMPLES])
def test_a_worked_example(example: dict[str, Any]) -> None:
    topic = example["topic"]
    assert topic in TOPICS, f"no function for topic {topic!r}; known: {', '.join(sorted(TOPICS))}"
    tolerance = example["tolerance"]
    got = TOPICS[topic](example["inputs"])
    assert list(differences(got, example["expected"], tolerance.get("rel", 0.0), tolerance.get("abs", 0.0))) == []


@pytest.mark.parametrize(
    ("got", "expected", "count"),
    [
        ({"a": 1.0, "b": 2}, {"a": 1.0}, 0),
        ({"b": 2}, {"a": 1.0}, 1),
        ([1.0, 2.0], [1.0], 1),
        (np.array([1.0, 2.0]), [1.0, 2.0 + 1e-13], 0),
        (math.nan, None, 1),
        (None, 0.0, 1),
        (True, 1.0, 1),
        (np.bool_(True), True, 0),
        ({3: 0.5}, {"3": 0.5}, 0),
        (1.0, 1.001, 1),
    ],
)
def test_the_comparison_sees_what_it_must(got, expected, count) -> None:
    assert len(list(differences(got, expected, 1e-9, 1e-12))) == count
