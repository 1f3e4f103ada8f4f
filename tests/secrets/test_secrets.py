"""Redaction on the labelled corpus: almost every secret goes, hardly a look-alike does, and the corpus itself holds no secret."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import polars as pl

from expcomp.evidence.redact import redact, residual, rules
from expcomp.evidence.rule import shape
from expcomp.evidence.secret_shapes import ROWS
from tests.secrets.corpus import lookalikes, rare, secrets
from tests.secrets.measuring import Score, ours, score


@cache
def measured() -> Score:
    return score(ours, secrets(), lookalikes())


def test_the_corpus_is_large_enough_and_the_same_each_time() -> None:
    assert len(measured().kinds) >= 40
    assert len({c.text for c in lookalikes()}) >= 400
    assert not {c.text for c in secrets()} & {c.text for c in lookalikes()}
    assert all(all(part in c.text for part in c.parts) and c.parts for c in secrets())
    secrets.cache_clear()
    again = secrets()
    secrets.cache_clear()
    assert again == secrets()


def test_recall_and_precision() -> None:
    found = measured()
    assert found.recall >= 0.995
    assert found.precision >= 0.999
    weak = {kind: f"{yes} of {cases}" for kind, (cases, yes, _) in found.kinds.items() if yes < 0.97 * cases}
    assert weak == {}


def test_lookalikes_stay() -> None:
    hit = {group: wrong for group, (_, wrong) in measured().false.items() if wrong}
    # A key that a vendor's documentation shows, and an attribute whose name ends in a digit after `password=`.
    assert hit == {"placeholder": 2, "code": 2}


def test_kinds_outside_the_measure_go_as_well() -> None:
    found = ours(rare())
    assert [case.text for case, (gone, _) in zip(rare(), found, strict=True) if not gone] == []


def test_every_row_of_the_table_of_shapes_finds_a_secret() -> None:
    texts = pl.Series([c.text for c in (*secrets()[::3], *rare()[::3])])
    idle = [
        near
        for name, start, rows in ROWS
        for near, pattern in rows
        if not texts.str.contains(shape(name, near, pattern, start).pattern).any()
    ]
    assert idle == []


def test_nothing_is_left_that_a_gate_would_find() -> None:
    out, _ = redact(pl.DataFrame({"t": [c.text for c in secrets()[::7]]}), ["t"])
    assert not out.select(residual("t")["secret"]).to_series().any()


def test_every_prefilter_holds_whenever_its_pattern_does() -> None:
    texts = pl.Series([c.text for c in (*secrets()[::11], *lookalikes())])
    for rule in rules(paths=()):
        near = texts.str.contains(rule.near)
        missed = texts.filter(texts.str.contains(rule.pattern) & ~near)
        assert missed.is_empty(), (rule.name, missed.head(3).to_list())


def test_the_files_of_the_corpus_hold_no_secret() -> None:
    texts = [p.read_text("utf-8") for p in sorted(Path(__file__).parent.glob("*.py"))]
    shapes = [
        r"[a-z]{2,}_[A-Za-z0-9]{30,}",
        r"AKIA[A-Z0-9]{16}",
        r"xox[bp]-[0-9]{10}",
        r"sk-[A-Za-z0-9]{20}",
        r"PRIVATE KEY-----\n[A-Za-z0-9+/]{40}",
    ]
    assert not pl.Series(texts).str.contains("|".join(shapes)).any()
