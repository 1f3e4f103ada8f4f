"""Identity of tasks and datasets: the vectors of the specification, order, and what is refused."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expcomp.datasets.identity import KEY, dataset_digest, inventory, task_set_digest
from expcomp.errors import TableError
from expcomp.io.canon import digest, digest_bytes, dumps

ONE = "sha256:468958deeb982c0f0e8f058e7bb72d30ee76f382a15476e5f8b1beefdab37f1d"
TWO = "sha256:a35b8b86509f0cefa2a366e16b9ae4a15863ebb8324fa94d20751aa58c1b734c"


def frame(*tasks: tuple[str | None, str | None, str | None]) -> pl.DataFrame:
    schema = {"benchmark": pl.String, "task": pl.String, "content_digest": pl.String}
    return pl.DataFrame(tasks, schema=schema, orient="row")


A = ("a", "t2", digest_bytes(b"two"))
B = ("b", "t1", digest_bytes(b"one"))


def test_vectors() -> None:
    assert task_set_digest(frame(("fixture", "train", digest_bytes(b"train-task")))) == ONE
    assert task_set_digest(frame(A, B)) == TWO


def test_order_and_repetition_of_rows_do_not_matter() -> None:
    assert task_set_digest(frame(B, A, B, A)) == TWO


def test_no_tasks_is_the_digest_of_an_empty_list() -> None:
    assert task_set_digest(frame()) == digest([])


def test_key_is_the_canonical_list() -> None:
    assert frame(("a", 'q"', "sha256:x")).select(KEY).item() == '["a","q\\"","sha256:x"]'


def test_beyond_the_basic_plane_utf_16_decides() -> None:
    # UTF-8 puts U+FFFD before U+1F600; UTF-16 units put the surrogate pair first.
    tasks = frame(("b", "\ufffd", A[2]), ("b", "\U0001f600", A[2]))
    assert inventory(tasks)["task"].to_list() == ["\U0001f600", "\ufffd"]


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.text("xy\ufffd\U0001f600\"'\\", min_size=1)), unique=True))
def test_inventory_is_sorted_by_utf_16_units_of_the_key(names: list[tuple[str, str]]) -> None:
    made = inventory(frame(*((b, t, A[2]) for b, t in names)))
    keys = [dumps(list(row)).decode() for row in made.iter_rows()]
    assert made.select(KEY)["key"].to_list() == keys
    assert keys == sorted(keys, key=lambda k: k.encode("utf-16-be"))
    assert task_set_digest(made) == digest(
        [{"benchmark": b, "task": t, "contentDigest": c} for b, t, c in made.iter_rows()]
    )
    assert len(keys) == len(names)


@pytest.mark.parametrize(
    ("task", "word"),
    [
        ((None, "t", A[2]), "benchmark"),
        (("", "t", A[2]), "benchmark"),
        (("b", " t", A[2]), "task"),
        (("b", "t\x1f", A[2]), "task"),  # no space to Polars, but to the documents that carry it
        (("b", "t" * 513, A[2]), "task"),
        (("b", "t", None), "content_digest"),
        (("b", "t", "sha256:ABC"), "content_digest"),
    ],
)
def test_a_bad_identity_is_named(task: tuple[str | None, str | None, str | None], word: str) -> None:
    with pytest.raises(TableError, match=f"no usable {word}"):
        task_set_digest(frame(A, task))


def test_dataset_digest_leaves_itself_out() -> None:
    manifest = {"configs": [{"rows": 1}], "b": None}
    assert dataset_digest(manifest | {"digest": "sha256:any"}) == digest(manifest)
    assert dataset_digest(manifest | {"b": 1}) != digest(manifest)
