"""What only a verifier may see stays out: criteria marked so, by their description, name and id."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from expcomp.rows.private import MASK

if TYPE_CHECKING:
    from expcomp.packs.facts import Facts

_TELLING = r"[^A-Za-z]\S|\S[^A-Za-z]"
"""A name of several words, or with a digit or underscore: one that a free text holds only when it speaks of the criterion."""


def private_texts(facts: Facts) -> pl.DataFrame:
    """(pack_id, word, telling): descriptions, names and ids of criteria that agents may not see, in lower case.

    `telling` is false for a name that is a plain word: it betrays the criterion where it stands alone, not inside a text.
    """
    items = facts.compilation.tables["rubric_items"].filter(
        pl.col("verifier_only").fill_null(value=False) | ~pl.col("worker_visible").fill_null(value=True)
    )
    words = pl.concat(
        [
            items.select("package_id", word="criterion_description", name=pl.lit(value=False)),
            items.select("package_id", word="criterion_name", name=pl.lit(value=True)),
            items.select("package_id", word="rubric_item_id", name=pl.lit(value=True)),
        ]
    )
    text = pl.col("word").str.replace_all(r"\s+", " ").str.strip_chars().str.to_lowercase()
    telling = ~pl.col("name") | pl.col("word").str.contains(_TELLING)
    return (
        facts.by_pack(words.with_columns(word=text, telling=telling))
        .filter(pl.col("word") != "")
        .unique(["pack_id", "word"], keep="first", maintain_order=True)
        .select("pack_id", "word", "telling")
    )


def withheld(frame: pl.DataFrame, private: pl.DataFrame, *, text: str, subject: str | None = None) -> pl.Series:
    """True for each line that speaks of a private criterion of its pack.

    Args:
        frame: pack_id and the text.
        private: What `private_texts` gives.
        text: Column that is searched.
        subject: Column that is compared whole; without it a plain word counts where it stands in quotes.
    """
    if private.is_empty() or frame.is_empty():
        return pl.Series("withheld", [False]).new_from_index(0, frame.height)
    # Rows say where a judge spoke of one: what is left of the sentence advises nobody.
    told = frame[text].str.contains(MASK, literal=True).fill_null(value=False)
    lines = frame.select(
        "pack_id",
        _at=pl.int_range(pl.len()),
        _text=pl.col(text).str.replace_all(r"\\n|\s+", " ").str.to_lowercase(),
        _subject=pl.col(subject).str.to_lowercase() if subject else pl.lit(None, dtype=pl.String),
    )
    quoted = pl.concat_str(pl.lit('"'), "word", pl.lit('"'))
    inside = pl.when("telling").then("word").otherwise(quoted)
    hit = pl.col("_text").str.contains(inside, literal=True) | (pl.col("_subject") == pl.col("word")).fill_null(
        value=False
    )
    found = lines.join(private, on="pack_id", how="inner", maintain_order="left").filter(hit)["_at"].unique()
    return (told | lines["_at"].is_in(found.implode())).alias("withheld")
