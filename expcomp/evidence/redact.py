"""Redaction of secrets, private paths and, on request, personal data. Polars expressions only, one pass over clean text.

All texts of a frame are searched together and each distinct one once: Polars keeps 32 compiled patterns, so a second pass would compile
all rules again.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from expcomp.evidence.leaves import Leaf, Patch, leaves, patched, put_back
from expcomp.evidence.redaction_rules import PATH_RULES, PII_RULES, SECRET_RULES, RedactionRule

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Hits", "RedactionRule", "count_tokens", "redact", "redact_rows", "residual", "rules"]

TOKEN = r"<(?:secret|path|pii):[a-z0-9_]+>"  # noqa: S105  the shape of our own tokens


_ROUNDS = 8
_BUNDLE = 12
"""Rules that share a prefilter."""


class Hits(NamedTuple):
    """Where a rule put tokens in: `kind:name` of the rule, row numbers, and the number of tokens in each of these rows."""

    rule: str
    rows: pl.Series
    tokens: pl.Series


def rules(*, pii: bool = False, paths: Sequence[RedactionRule] = PATH_RULES) -> tuple[RedactionRule, ...]:
    """The rules in force, in the order they run; `paths` from `redaction_rules.path_rules` sets other roots."""
    return (*SECRET_RULES, *paths, *(PII_RULES if pii else ()))


def redact(
    frame: pl.DataFrame,
    columns: Sequence[str],
    *,
    pii: bool = False,
    paths: Sequence[RedactionRule] = PATH_RULES,
) -> tuple[pl.DataFrame, dict[str, int]]:
    """Replace every secret and private path in text columns, at any depth, by a typed token.

    Columns without a hit come back as they are. The counts say how many tokens each rule put in.
    """
    frame, hits = redact_rows(frame, columns, pii=pii, paths=paths)
    counts: dict[str, int] = {}
    for hit in hits:
        counts[hit.rule] = counts.get(hit.rule, 0) + int(hit.tokens.sum())
    return frame, dict(sorted(counts.items()))


def redact_rows(
    frame: pl.DataFrame,
    columns: Sequence[str],
    *,
    pii: bool = False,
    paths: Sequence[RedactionRule] = PATH_RULES,
) -> tuple[pl.DataFrame, list[Hits]]:
    """`redact`, with the rows in which each rule put tokens in; a row may come several times."""
    texts = [frame.get_column(name) for name in columns]
    found = [leaf for column in texts for leaf in leaves(column)]
    if not found:
        return frame, []
    pool = pl.concat([leaf.texts.alias("text") for leaf in found], rechunk=True)
    clean, hits = _redacted(pool.unique(maintain_order=True), rules(pii=pii, paths=paths))
    if not hits:
        return frame, []
    places = pool.to_frame().with_row_index("place").join(clean, on="text", maintain_order="left")
    patches = _patches(found, places)
    changed = [patched(column, patch) for column in texts if (patch := put_back(column, patches)) is not None]
    return frame.with_columns(changed), _hits_by_row(hits, found, places)


def residual(column: str | pl.Expr, *, pii: bool = False) -> dict[str, pl.Expr]:
    """Per kind, whether a text still holds something to redact; null counts as clean."""
    text = pl.col(column) if isinstance(column, str) else column
    found: dict[str, pl.Expr] = {}
    for kind in ("secret", "path", "pii") if pii else ("secret", "path"):
        active = [rule for rule in rules(pii=pii) if rule.kind == kind]
        gated = pl.when(text.str.contains(_gate(active))).then(text)
        hits = [gated.str.contains(rule.pattern) for rule in active]
        found[kind] = pl.any_horizontal(*hits).fill_null(value=False)
    return found


def count_tokens(column: str | pl.Expr) -> pl.Expr:
    """Number of redaction tokens in a text; null counts 0."""
    text = pl.col(column) if isinstance(column, str) else column
    return text.str.count_matches(TOKEN).fill_null(0)


def _gate(active: Sequence[RedactionRule]) -> str:
    """One pattern that every text with something to redact holds; its speed hardly depends on its length.

    The counts at the ends of prefilters are left out: they keep few texts away and multiply the states of the automaton.
    """
    nears = dict.fromkeys(re.sub(r"\{\d+\}(?=\||$)", "", rule.near) for rule in active)
    return "|".join(f"(?:{near})" for near in nears)


def _redacted(distinct: pl.Series, active: Sequence[RedactionRule]) -> tuple[pl.DataFrame, list[Hits]]:
    """Of distinct texts those that change: `text`, its `number` and its `clean` form; and the hits by number."""
    dirty = text = distinct.filter(distinct.str.contains(_gate(active)))
    hits: list[Hits] = []
    touched = [pl.Series(dtype=pl.UInt32)]
    # A path hides no boundary that a secret needs: it ends where a value ends. So secrets are settled first, and once.
    for own in ([r for r in active if r.kind == "secret"], [r for r in active if r.kind != "secret"]):
        text, at, found = _settled(text, own)
        touched.append(at)
        hits += found
    number = pl.concat(touched).unique().sort()
    return pl.DataFrame({"text": dirty.gather(number), "number": number, "clean": text.gather(number)}), hits


def _settled(text: pl.Series, active: Sequence[RedactionRule]) -> tuple[pl.Series, pl.Series, list[Hits]]:
    """Texts in which rules find no more, the numbers of those that changed, and the hits by number."""
    bundles = [active[at : at + _BUNDLE] for at in range(0, len(active), _BUNDLE)]
    hits: list[Hits] = []
    open_rows, touched = pl.int_range(text.len(), dtype=pl.UInt32, eager=True), [pl.Series(dtype=pl.UInt32)]
    # A token is a new boundary, and a pattern may consume the boundary of its neighbour: repeat until nothing is found.
    for _ in range(_ROUNDS):
        if open_rows.is_empty():
            break
        part, changed = text.gather(open_rows), [pl.Series(dtype=pl.UInt32)]
        for bundle in bundles:
            patch, found = _replaced(part, bundle)
            if patch is not None:
                part = patched(part, patch)
                changed.append(patch.rows)
                hits += [hit._replace(rows=open_rows.gather(hit.rows)) for hit in found]
        text = patched(text, Patch(open_rows, part))
        touched.append(open_rows.gather(pl.concat(changed).unique().sort()))
        open_rows = touched[-1]
    return text, pl.concat(touched).unique().sort(), hits


def _replaced(text: pl.Series, bundle: Sequence[RedactionRule]) -> tuple[Patch | None, list[Hits]]:
    """What some rules change in texts, one rule after the other."""
    rows = text.str.contains(_gate(bundle)).arg_true()
    own, hits = text.gather(rows), []
    for rule in bundle if rows.len() else ():
        at = _matched(own, rule)
        if at.len():
            found = own.gather(at)
            tokens = found.str.count_matches(rule.pattern)
            hits.append(Hits(f"{rule.kind}:{rule.name}", rows.gather(at), tokens))
            own = patched(own, Patch(at, found.str.replace_all(rule.pattern, rule.replacement)))
    if not hits:
        return None, []
    changed = pl.concat([hit.rows for hit in hits]).unique().sort()
    return Patch(changed, own.filter(rows.is_in(changed.implode()))), hits


def _matched(text: pl.Series, rule: RedactionRule) -> pl.Series:
    """Numbers of the rows that a rule matches."""
    near = text.str.contains(rule.near).arg_true()
    return near if near.is_empty() else near.filter(text.gather(near).str.contains(rule.pattern))


def _patches(found: Sequence[Leaf], places: pl.DataFrame) -> Iterator[Patch | None]:
    """For each leaf what changes in it, given the places of changed texts in the pool of all leaves."""
    start = 0
    for leaf in found:
        end = start + leaf.texts.len()
        own = places.filter(pl.col("place").is_between(start, end, closed="left"))
        yield Patch(own["place"] - start, own["clean"]) if own.height else None
        start = end


def _hits_by_row(hits: Sequence[Hits], found: Sequence[Leaf], places: pl.DataFrame) -> list[Hits]:
    """Hits in rows of the frame instead of distinct texts."""
    rows = pl.concat([leaf.rows for leaf in found], rechunk=True)
    places = places.select("number", row=rows.gather(places["place"]))
    out = []
    for hit in hits:
        own = pl.DataFrame({"number": hit.rows, "tokens": hit.tokens}).join(places, on="number", maintain_order="left")
        out.append(Hits(hit.rule, own["row"], own["tokens"]))
    return out
