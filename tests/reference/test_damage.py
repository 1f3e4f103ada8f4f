"""Every sample file, damaged in every way that files get damaged: never a crash, never a silent loss, and what is whole stays."""

from __future__ import annotations

import gzip
import json
import os
import tempfile
from collections import Counter
from functools import cached_property
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from expcomp.sources.load import read_frames
from expcomp.tables.core import CORE

REFERENCE = os.environ.get("EXPCOMP_REFERENCE")
if REFERENCE is None:
    pytest.skip("EXPCOMP_REFERENCE is not set; it names the folder with the reference traces", allow_module_level=True)

pytestmark = pytest.mark.reference
ROOT = Path(REFERENCE) / "traces"
LIMIT = 160_000


class Sample:
    """A sample file; what it holds when nothing is wrong is read once."""

    def __init__(self, path, data):
        self.path, self.data, self.name = path, data, path.name
        self.lines = data.strip().split(b"\n")

    def __repr__(self):
        return self.path.relative_to(ROOT).as_posix()

    @cached_property
    def before(self):
        with tempfile.TemporaryDirectory() as folder:
            return load(Path(folder), self.name, self.data)

    @property
    def format(self):
        formats = self.before["attempts"]["source_format"].unique().to_list()
        return formats[0] if len(formats) == 1 else None


def samples():
    """One file of each folder and shape that is not too large: documents and lines."""
    kept = {}
    for path in sorted(ROOT.rglob("*")):
        if not path.is_file() or path.name == "expected.json":
            continue
        data = path.read_bytes()
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
        if data[:1] in (b"{", b"[") and len(data) <= LIMIT:
            kept.setdefault((path.relative_to(ROOT).parts[:2], path.suffix, data[:1]), Sample(path, data))
    return list(kept.values())


SAMPLES = samples()
LINES = [s for s in SAMPLES if s.path.suffix == ".jsonl" and len(s.lines) > 1]
each_sample = pytest.mark.parametrize("sample", SAMPLES, ids=repr)
each_file_of_lines = pytest.mark.parametrize("sample", LINES, ids=repr)
FEW = settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def load(folder, name, data, forced=None):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)
    frames = read_frames([folder / name], format=forced)
    for table, frame in frames.items():
        assert frame.schema == CORE[table].schema
        frame.write_ndjson()  # every text is valid UTF-8
    return frames


def content(frames):
    """What is there to lose, as a multiset."""
    said = frames["messages"].select("role", "content", "parts").rows()
    calls = frames["steps"].select(pl.col("tool_calls").explode()).drop_nulls().unnest("tool_calls")
    return Counter([*said, *calls.select("name", "arguments").rows()])


def told(frames):
    return frames["diagnostics"].height


@each_sample
@FEW
@given(share=st.floats(0, 1))
def test_a_file_that_is_cut_anywhere(tmp_path, sample, share):
    before = sample.before
    cut = sample.data[: int(share * len(sample.data))]
    if sample in LINES and b"\n" in (cut[-1:], sample.data[len(cut) : len(cut) + 1]):
        return  # a file that ends with a whole line is a whole file: nobody can tell
    after = load(tmp_path / "cut", sample.name, cut, sample.format)
    if cut.strip() != sample.data.strip() and content(before) - content(after):
        assert told(after), "something is gone and nothing says so"
    elif after["attempts"].height < before["attempts"].height:
        assert told(after)


@each_file_of_lines
@FEW
@given(place=st.integers(0, 10_000))
def test_lines_that_were_glued_lose_nothing(tmp_path, sample, place):
    before = sample.before
    lines = sample.lines
    at = place % (len(lines) - 1)
    glued = b"\n".join([*lines[:at], lines[at] + lines[at + 1], *lines[at + 2 :]]) + b"\n"
    after = load(tmp_path / "glued", sample.name, glued, sample.format)
    assert content(after) == content(before)
    assert told(after) > told(before)


@each_file_of_lines
@FEW
@given(
    place=st.integers(0, 10_000),
    junk=st.sampled_from([b"{", b"null", b"[1]", b'"x"', b"\xff\xfe", b'{"a": NaN}', b"{}"]),
)
def test_a_line_of_rubbish_costs_itself_and_is_told(tmp_path, sample, place, junk):
    before = sample.before
    lines = sample.lines
    at = 1 + place % len(lines)
    after = load(tmp_path / "junk", sample.name, b"\n".join([*lines[:at], junk, *lines[at:]]), sample.format)
    assert not content(before) - content(after)
    assert told(after) > told(before)


@each_sample
def test_a_byte_order_mark_changes_nothing(tmp_path, sample):
    before = sample.before
    after = load(tmp_path / "bom", sample.name, b"\xef\xbb\xbf" + sample.data)
    assert (after["attempts"]["source_format"].to_list()) == before["attempts"]["source_format"].to_list()
    assert content(after) == content(before)
    assert sample.format is None or after["attempts"].height == before["attempts"].height


def texts(value, found):
    """Places of texts in a JSON value."""
    if isinstance(value, dict):
        for key, inner in value.items():
            found.append((value, key))
            texts(inner, found)
    elif isinstance(value, list):
        for key, inner in enumerate(value):
            found.append((value, key))
            texts(inner, found)
    return found


ODD = [
    None,
    True,
    7,
    -1.5,
    1e300,
    2**70,
    "",
    "x",
    [],
    {},
    [[]],
    [None],
    {"a": None},
    [{"type": None}],
    "\ud800lone",
    float("nan"),
]


@each_sample
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    picks=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, len(ODD) - 1)), min_size=1, max_size=4)
)
def test_values_of_any_other_type_are_taken_or_told(tmp_path, sample, picks):
    try:
        documents, lines = [json.loads(sample.data)], False
    except ValueError:
        documents, lines = [json.loads(line) for line in sample.lines], True
    places = texts(documents, [])
    for share, odd in picks:
        holder, key = places[int(share * len(places))]
        if isinstance(holder, dict) or key < len(holder):
            holder[key] = ODD[odd]
    text = "\n".join(json.dumps(d) for d in documents) if lines else json.dumps(documents[0])
    load(tmp_path / "odd", sample.name, text.encode("utf-8", "replace"), sample.format)


@each_sample
def test_nesting_too_deep_is_told(tmp_path, sample):
    deep = b"[" * 100_000 + b"]" * 100_000
    at = sample.data.index(b":") + 1
    after = load(tmp_path / "deep", sample.name, sample.data[:at] + deep + b"," + sample.data[at:], sample.format)
    assert told(after)


@each_file_of_lines
def test_a_line_of_50_megabytes_is_read_or_told(tmp_path, sample):
    before = sample.before
    first = json.loads(sample.lines[0])
    if not isinstance(first, dict):
        pytest.skip("no object to make larger")
    large = json.dumps(first | {"zz_padding": "x" * (50 << 20)}).encode()
    after = load(tmp_path / "large", sample.name, large + b"\n" + sample.data, sample.format)
    assert not content(before) - content(after)
    (tmp_path / "large" / sample.name).unlink()
