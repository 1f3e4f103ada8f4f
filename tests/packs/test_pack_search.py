"""Search finds the pack that a query speaks of, with statements that cite."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from expcomp.errors import SourceError
from expcomp.packs.search import WEIGHTS, PackIndex, said, words
from tests.packs.pack_helpers import known


@pytest.fixture(scope="module")
def index(garden_folder: Path) -> PackIndex:
    return PackIndex(garden_folder)


@pytest.mark.parametrize(
    ("query", "pack"),
    [
        ("count seed packets by shelf", "seed-packet-count"),
        ("a letter for a herbarium loan", "herbarium-loan-letter"),
        ("totals.csv", "seed-packet-count"),
        ("SEEDBANK sql", "seed-packet-count"),
        ("pond water", "pond-water-log"),
    ],
)
def test_the_best_pack_is_the_one_that_is_meant(index: PackIndex, query: str, pack: str) -> None:
    found = index.search(query, limit=3)
    assert found[0].pack_id == pack
    assert [f.score for f in found] == sorted((f.score for f in found), reverse=True)
    assert all(f.score > 0 for f in found)


def test_a_hit_carries_its_card_and_statements_that_cite(index: PackIndex, garden) -> None:
    (found, *_) = index.search("unknown column shelve", limit=1)
    assert found.card["pack_id"] == found.pack_id == "seed-packet-count"
    assert "unknown column" in found.statements[0]["text"]
    cited = {(c["package_id"], c["evidence_id"]) for s in found.statements for c in s["citations"]}
    assert cited
    assert cited <= known(garden)


def test_nothing_is_found_for_words_that_no_pack_holds(index: PackIndex) -> None:
    assert index.search("zyzzyva") == []
    assert index.search("...") == []
    assert index.search("") == []


def test_words_that_most_packs_hold_only_count_alone(index: PackIndex) -> None:
    both = [f.pack_id for f in index.search("recorded letter", limit=12)]
    assert both == [f.pack_id for f in index.search("letter", limit=12)]
    assert len(index.search("recorded", limit=20)) > 6


def test_the_index_has_a_line_for_each_pack(index: PackIndex, garden_folder: Path) -> None:
    assert index.pack_ids == sorted(p.name for p in (garden_folder / "packs").iterdir())
    assert set(WEIGHTS) == {"title", "about", "tools", "lessons"}


@given(st.text())
def test_any_query_is_answered(index_text: str) -> None:
    assert all(w == w.lower() and w.strip() for w in words(index_text))


@given(query=st.text(alphabet="\"'*():^-+ab.ANDOR NEAR", max_size=30))
def test_no_mark_of_a_query_is_taken_as_syntax(index: PackIndex, query: str) -> None:
    index.search(query, limit=2)


def test_lines_of_a_skill_are_read_with_their_citations() -> None:
    one, two = "evidence_0123456789abcdef", "evidence_fedcba9876543210"
    skill = f"## Steps\n\n- `a` [1 attempts]. [{one}, +3]\n- b [{one}@pkg, {two}@pkg]\n- 4 more in skill.json.\n"
    assert said(skill, "own") == [
        {"text": "`a` [1 attempts].", "citations": [{"package_id": "own", "evidence_id": one}], "more_citations": 3},
        {
            "text": "b",
            "citations": [{"package_id": "pkg", "evidence_id": e} for e in (one, two)],
            "more_citations": 0,
        },
    ]


def test_a_folder_without_packs_says_how_to_make_them(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="expcomp pack build"):
        PackIndex(tmp_path)


def test_every_pack_of_many_is_found_by_its_own_word(tmp_path: Path) -> None:
    from expcomp.packs.search import index_lines, write_index

    n = 2_000
    lists = {
        c: pl.Series([[]] * n, dtype=pl.List(pl.String))
        for c in ("tasks", "inputs", "deliverables", "criteria", "tools", "programs")
    }
    cards = pl.DataFrame(
        {"pack_id": [f"pack-{i:05}" for i in range(n)], "title": [f"Gauge number {i}" for i in range(n)]}
    ).with_columns(
        *(pl.lit(None, dtype=pl.String).alias(c) for c in ("description", "domain", "subdomain", "workflow_family")),
        source="pack_id",
        **lists,
    )
    told = cards.select("pack_id", text=pl.format("seen{} gauge.", pl.int_range(pl.len())))
    assert index_lines(cards, told).columns == list(WEIGHTS)
    write_index(cards, told, tmp_path)
    cards.select("pack_id").write_parquet(tmp_path / "packs.parquet")
    index = PackIndex(tmp_path)
    hits = index._index.search(index._telling(words("gauge seen1234")), list(WEIGHTS.values()), 5)
    assert [index.pack_ids[at] for at, _ in hits] == ["pack-01234"]
