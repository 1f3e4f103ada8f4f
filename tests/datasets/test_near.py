from __future__ import annotations

import random
import sys

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expcomp.datasets import near
from expcomp.datasets.near import _components, _linked, near_duplicates, near_matches, near_pairs
from expcomp.errors import ConfigError

pytest.importorskip("rensa")

RNG = random.Random(5)
WORDS = [f"word{i}" for i in range(2000)]


def text(length: int = 100) -> list[str]:
    return [RNG.choice(WORDS) for _ in range(length)]


def changed(words: list[str], *places: int) -> str:
    return " ".join(f"other{i}" if i in places else w for i, w in enumerate(words))


def jaccard(a: str, b: str) -> float:
    def grams(t: str) -> set[tuple[str, ...]]:
        words = t.split()
        return {tuple(words[i : i + 5]) for i in range(max(1, len(words) - 4))}

    return len(grams(a) & grams(b)) / len(grams(a) | grams(b))


def clusters(frame: pl.DataFrame, **options: float) -> set[frozenset[int]]:
    found = near_duplicates(frame, **options)  # type: ignore[arg-type]
    return {frozenset(c) for c in found.group_by("cluster", maintain_order=True).agg("key")["key"]}


def frame(texts: list[str | None]) -> pl.DataFrame:
    return pl.DataFrame({"key": range(len(texts)), "text": texts}, schema={"key": pl.Int64, "text": pl.String})


def test_copies_with_a_few_other_words_are_one_cluster_and_strangers_none() -> None:
    a, b = text(), text()
    texts = [changed(a), changed(b), changed(a, 50), changed(a, 10), changed(b, 1), " ".join(text())]
    assert clusters(frame(texts)) == {frozenset({0, 2, 3}), frozenset({1, 4}), frozenset({5})}


def test_the_similarity_is_counted_and_not_estimated() -> None:
    words = text(100)
    near, far = changed(words, 20, 60), changed(words, 20, 50, 80)
    for other in (near, far):
        likeness = jaccard(" ".join(words), other)
        assert clusters(frame([" ".join(words), other]), jaccard=likeness) == {frozenset({0, 1})}
        assert len(clusters(frame([" ".join(words), other]), jaccard=likeness + 1e-9)) == 2


def test_case_and_punctuation_make_no_difference() -> None:
    assert clusters(frame(["Do it, now!", "do it now", "do it later"])) == {frozenset({0, 1}), frozenset({2})}


def test_texts_without_words_are_alone() -> None:
    assert clusters(frame([None, "", "...", None])) == {frozenset({i}) for i in range(4)}


def test_short_texts_are_equal_or_strangers() -> None:
    assert clusters(frame(["a b", "b a", "a b c", "a", "a a", "A  b"])) == {
        frozenset({0, 5}),
        *(frozenset({i}) for i in (1, 2, 3, 4)),
    }


def test_the_least_key_is_kept_whatever_the_order_of_rows() -> None:
    base = [text() for _ in range(30)]
    texts = [changed(b, 7 * k) for b in base for k in range(RNG.randint(1, 4))]
    rows = frame([*texts]).with_columns(part=pl.col("key") % 2).select("part", "key", "text")
    found = near_duplicates(rows)
    assert found.columns == ["part", "key", "cluster", "kept", "size"]
    assert found["key"].to_list() == list(range(len(texts)))
    shuffled = near_duplicates(rows.sample(fraction=1, shuffle=True, seed=1))
    assert shuffled.sort("key").equals(found)
    least = found.group_by("cluster", maintain_order=True).agg(
        kept=pl.struct("part", "key").filter("kept"),
        least=pl.struct("part", "key").min(),
        n=pl.len(),
        size=pl.col("size").unique(),
    )
    assert least.select(
        (pl.col("kept").list.len() == 1).all() & (pl.col("kept").list.first() == pl.col("least")).all()
    ).item()
    assert least["size"].list.first().to_list() == least["n"].to_list()


def test_a_crowd_of_copies_is_one_cluster() -> None:
    words = text(200)
    texts = [changed(words, 3 * i % 200) for i in range(150)] + [changed(words)] * 50
    found = near_duplicates(frame(texts))
    assert found["cluster"].n_unique() == 1
    assert found["size"].to_list() == [200] * 200
    assert near_pairs(pl.Series(texts)).height < 200 * 199 // 4


def joined(count: int, pairs: list[tuple[int, int]]) -> list[int]:
    """The least row of each row's cluster, by a plain union."""
    label = list(range(count))
    for _ in range(count):
        for a, b in pairs:
            label[a] = label[b] = min(label[a], label[b])
    return label


@pytest.mark.parametrize("crowd", [5, 40, 90])
@pytest.mark.parametrize("changes", [2, 5, 7])
def test_clusters_are_what_all_pairs_of_a_crowd_join(crowd: int, changes: int) -> None:
    dice = random.Random(crowd * changes)
    bases = [dice.choices(WORDS, k=120) for _ in range(3)]
    texts = [changed(b, *dice.sample(range(120), changes)) for b in bases for _ in range(crowd)]
    texts += dice.choices(texts, k=5)
    rows = frame(dice.sample(texts, len(texts)))
    pairs = near_pairs(rows["text"])
    assert all(jaccard(rows["text"][a], rows["text"][b]) >= 0.8 for a, b in pairs.head(200).iter_rows())
    assert near_duplicates(rows)["cluster"].to_list() == joined(rows.height, list(pairs.iter_rows()))


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=9), min_size=1, max_size=25), st.data())
def test_pairs_tried_in_turn_join_what_all_of_them_would(sets: list[list[int]], data: st.DataObject) -> None:
    n = len(sets)
    asked = sorted((b, a) for b in range(n) for a in range(b) if data.draw(st.integers(0, 3)))
    alike = [(a, b) for b, a in asked if len({*sets[a]} & {*sets[b]}) / len({*sets[a]} | {*sets[b]}) >= 0.6]
    known = pl.DataFrame({"row": range(n), "set": sets}, schema={"row": pl.UInt32, "set": pl.List(pl.UInt64)})
    known = known.with_columns(size=pl.col("set").list.n_unique())
    pairs = pl.DataFrame(asked, schema={"right": pl.UInt32, "left": pl.UInt32}, orient="row").select("left", "right")
    alone = pl.int_range(n, dtype=pl.UInt32, eager=True)
    assert _linked(alone, pairs, known, 0.6).to_list() == joined(n, alike)


def test_a_row_of_a_crowd_is_compared_about_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compared, likeness = [], near._likeness

    def counted(pairs: pl.DataFrame, sets: pl.Series) -> pl.Series:
        compared.append(pairs.height)
        return likeness(pairs, sets)

    monkeypatch.setattr(near, "_likeness", counted)
    bases = [text(200) for _ in range(3)]
    rows = frame([changed(b, i % 199, 7 * i % 193) for b in bases for i in range(190)])
    assert near_duplicates(rows)["cluster"].n_unique() == 3
    assert sum(compared) <= 2 * rows.height


def test_portions_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    base = [text(40) for _ in range(20)]
    rows = frame([changed(b, *([5] if k else [])) for b in base for k in range(2)] + ["", "short one"])
    whole = near_duplicates(rows)
    monkeypatch.setattr("expcomp.datasets.decontaminate.words.CHUNK", 500)
    monkeypatch.setattr("expcomp.datasets.near._PORTION", 100)
    assert near_duplicates(rows).equals(whole)


def test_no_rows_are_no_clusters() -> None:
    assert near_duplicates(frame([])).columns == ["key", "cluster", "kept", "size"]


@settings(deadline=None)
@given(
    st.integers(1, 30).flatmap(
        lambda n: st.tuples(st.just(n), st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=40))
    )
)
def test_components_are_those_of_a_plain_union(case: tuple[int, list[tuple[int, int]]]) -> None:
    n, edges = case
    edges = sorted({(min(e), max(e)) for e in edges if e[0] != e[1]})
    pairs = pl.DataFrame(edges, schema={"left": pl.UInt32, "right": pl.UInt32}, orient="row")
    assert _components(n, pairs).to_list() == joined(n, edges)


def test_without_the_extra_the_way_out_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rensa", None)
    with pytest.raises(ConfigError, match=r"expcomp\[dedup\]"):
        near_duplicates(frame(["a b c", "d"]))


def test_no_match_of_two_sides_hides_in_a_crowd() -> None:
    words = text(120)
    crowd = [changed(words, 2 * i % 120) for i in range(150)]
    ours, theirs = [*crowd, *crowd[:3], None, " ".join(text())], [None, " ".join(text()), changed(words), crowd[0]]
    found = near_matches(pl.Series(ours, dtype=pl.String), pl.Series(theirs, dtype=pl.String), jaccard=0.8)
    assert found["left"].to_list() == [i for i in range(153) for _ in range(2)]
    assert found["right"].to_list() == [2, 3] * 153
