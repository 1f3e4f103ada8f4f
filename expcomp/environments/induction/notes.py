"""Notes: what the recordings say of arguments and failures in words, with counts; nothing that nobody measured.

format      every value of a text argument has one shape (runs of letters and digits of one length), 30 calls of 2 families,
            at least 5 values
constraint  an action fails with one text, numbers and ids masked: how often, of how many calls; 3 calls of 2 families
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import polars as pl

from expcomp.environments.frames import frame
from expcomp.environments.induction.invariants import CARRIED, CITED
from expcomp.environments.records import lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from expcomp.environments.induction.prepared import Prepared

__all__ = ["notes"]

SUPPORT, FAMILIES, VALUES, FAILURES = 30, 2, 5, 3
LONGEST = 40
"""Characters of a value above which its shape is prose."""

_MASKS = ((r'"(?:[^"\\]|\\.)*"', "…"), (r"'[^']*'", "…"), (r"[\w.+-]*\d[\w.+-]*", "…"))
"""What differs from call to call: quoted words, numbers and ids."""

Found = tuple[str, str, str, list[int]]


def notes(p: Prepared) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Table `notes`, and what carries them: `owner_kind`, `owner_id`, `t`.

    Args:
        p: Prepared transitions.
    """
    records, cited = [], []
    for kind, action, words, shown in (*_formats(p), *_failures(p)):
        name = "note_" + hashlib.sha256(f"{kind}\n{action}\n{words}".encode()).hexdigest()[:24]
        records.append(
            {"note_id": name, "kind": kind, "statement": words, "action_types": [action], "status": "supported"}
        )
        cited += [("note", name, t) for t in shown]
    return frame("notes", records), pl.DataFrame(cited, schema=CARRIED, orient="row")


def _first() -> pl.Expr:
    return pl.col("t").sort().head(CITED)


def _formats(p: Prepared) -> Iterator[Found]:
    given = p.args.join(p.rows.select("t", "action_type", "group"), on="t", how="inner", maintain_order="left")
    text = pl.col("value").str.strip_prefix('"').str.strip_suffix('"')
    shape = (
        text.str.replace_all(r"[A-Z]", "A").str.replace_all(r"[a-z]", "a").str.replace_all(r"[0-9]", "0")
    )  # fmt: skip
    found = (
        given.filter(pl.col("value").str.starts_with('"') | pl.col("value").str.contains(r"^[\[{\dtfn-]"))
        .with_columns(shape=pl.when(pl.col("value").str.starts_with('"')).then(shape))
        .group_by("action_type", "key", maintain_order=True)
        .agg(
            pl.col("shape").first(), shapes=pl.col("shape").n_unique(), texts=pl.col("shape").is_not_null().all(), n=pl.len(),
            values=pl.col("value").n_unique(), families=pl.col("group").n_unique(), t=_first(),
        )
        .filter(
            "texts", pl.col("shapes") == 1, pl.col("n") >= SUPPORT, pl.col("values") >= VALUES, pl.col("families") >= FAMILIES,
            pl.col("shape").str.len_chars().is_between(2, LONGEST),
        )
        .sort("action_type", "key")
    )  # fmt: skip
    for action, key, shape_, n, values, t in lines(found, "action_type", "key", "shape", "n", "values", "t"):
        yield (
            "format",
            action,
            f"{key} of {action} always has the shape {shape_} (A, a: letters; 0: digits): {n} calls, {values} values",
            t,
        )


def _failures(p: Prepared) -> Iterator[Found]:
    calls = p.rows.group_by("action_type", maintain_order=True).agg(calls=pl.len())
    words = pl.coalesce(
        pl.col("observation").str.json_path_match("$.error"), pl.col("observation")
    ).str.strip_chars().str.slice(0, 400)  # fmt: skip
    for pattern, token in _MASKS:
        words = words.str.replace_all(pattern, token)
    found = (
        p.rows.filter("failed")
        .with_columns(words=words.str.replace_all(r"\s+", " "))
        .group_by("action_type", "words", maintain_order=True)
        .agg(n=pl.len(), families=pl.col("group").n_unique(), t=_first())
        .filter(pl.col("n") >= FAILURES, pl.col("families") >= FAMILIES, pl.col("words") != "")
        .join(calls, on="action_type", how="left", maintain_order="left")
        .sort("action_type", "n", "words", descending=[False, True, False])
    )
    for action, text, n, total, t in lines(found, "action_type", "words", "n", "calls", "t"):
        yield "constraint", action, f"{action} failed in {n} of {total} calls with: {text}", t
