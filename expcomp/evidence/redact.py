"""Redaction of secrets, private paths and, on request, personal data. Polars expressions only, one pass over clean text."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from expcomp.evidence.redaction_rules import PATH_RULES, PII_RULES, SECRET_RULES, RedactionRule

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Hits", "RedactionRule", "count_tokens", "redact", "redact_rows", "residual", "rules"]

TOKEN = r"<(?:secret|path|pii):[a-z0-9_]+>"  # noqa: S105  the shape of our own tokens


_ROUNDS = 8


class _Patch(NamedTuple):
    """New values for some rows of a column: ascending row numbers and as many values."""

    rows: pl.Series
    values: pl.Series


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
    active = rules(pii=pii, paths=paths)
    hits: list[Hits] = []
    changed = []
    for name in columns:
        column = frame.get_column(name)
        patch = _patch(column, active, hits)
        if patch is not None:
            changed.append(_apply(column, patch))
    return (frame.with_columns(changed) if changed else frame), hits


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
    """One pattern that every text with something to redact holds; its speed hardly depends on its length."""
    return "|".join(f"(?:{near})" for near in dict.fromkeys(rule.near for rule in active))


def _patch(column: pl.Series, active: Sequence[RedactionRule], hits: list[Hits]) -> _Patch | None:
    if column.dtype == pl.String:
        return _patch_text(column, active, hits)
    if isinstance(column.dtype, pl.List):
        return _patch_list(column, active, hits)
    if isinstance(column.dtype, pl.Struct):
        return _patch_struct(column, active, hits)
    return None


def _patch_text(column: pl.Series, active: Sequence[RedactionRule], hits: list[Hits]) -> _Patch | None:
    rows = _suspects(column, active)
    if rows.is_empty():
        return None
    text = column.gather(rows)
    open_rows = pl.int_range(rows.len(), dtype=pl.UInt32, eager=True)
    # A token is a new boundary, and a pattern may consume the boundary of its neighbour: repeat until nothing is found.
    for _ in range(_ROUNDS):
        part, changed = text.gather(open_rows), []
        for rule in active:
            at = _hits(part, rule)
            if at.is_empty():
                continue
            found = part.gather(at)
            tokens = found.str.count_matches(rule.pattern)
            hits.append(Hits(f"{rule.kind}:{rule.name}", rows.gather(open_rows.gather(at)), tokens))
            part = _apply(part, _Patch(at, found.str.replace_all(rule.pattern, rule.replacement)))
            changed.append(at)
        if not changed:
            break
        text = _apply(text, _Patch(open_rows, part))
        open_rows = open_rows.gather(pl.concat(changed).unique().sort())
    return _Patch(rows, text)


def _hits(text: pl.Series, rule: RedactionRule) -> pl.Series:
    """Numbers of the rows that a rule matches."""
    near = text.str.contains(rule.near).arg_true()
    return near if near.is_empty() else near.filter(text.gather(near).str.contains(rule.pattern))


def _suspects(column: pl.Series, active: Sequence[RedactionRule]) -> pl.Series:
    """Rows that some rule matches: one prefilter over all text, then each rule over what is left."""
    rows = column.str.contains(_gate(active)).arg_true()
    text = column.gather(rows)
    found = [rows.head(0)]
    if not rows.is_empty():
        found += [rows.gather(_hits(text, rule)) for rule in active]
    return pl.concat(found).unique().sort()


def _patch_list(column: pl.Series, active: Sequence[RedactionRule], hits: list[Hits]) -> _Patch | None:
    filled = (column.list.len() > 0).fill_null(value=False).arg_true()
    lists = column.gather(filled)
    flat = lists.explode()
    inner: list[Hits] = []
    patch = _patch(flat, active, inner)
    if patch is None:
        return None
    owner = _owners(filled, lists)
    hits += [Hits(hit.rule, owner.gather(hit.rows), hit.tokens) for hit in inner]
    touched = owner.gather(patch.rows).unique(maintain_order=True)
    new = (
        pl.DataFrame({"owner": owner, "item": _apply(flat, patch)})
        .filter(pl.col("owner").is_in(touched.implode()))
        .group_by("owner", maintain_order=True)
        .agg("item")
    )
    return _Patch(new.get_column("owner"), new.get_column("item"))


def _owners(rows: pl.Series, lists: pl.Series) -> pl.Series:
    """For every item of non-empty lists, the row that its list stands in."""
    return pl.DataFrame({"row": rows, "n": lists.list.len()}).select(pl.col("row").repeat_by("n").explode()).to_series()


def _patch_struct(column: pl.Series, active: Sequence[RedactionRule], hits: list[Hits]) -> _Patch | None:
    fields = {name: column.struct.field(name) for name in column.struct.fields}
    patches = {name: p for name, field in fields.items() if (p := _patch(field, active, hits)) is not None}
    if not patches:
        return None
    rows = pl.concat([patch.rows for patch in patches.values()]).unique().sort()
    whole = {name: _apply(field, patches[name]) if name in patches else field for name, field in fields.items()}
    return _Patch(
        rows, pl.DataFrame({name: field.gather(rows) for name, field in whole.items()}).to_struct(column.name)
    )


def _apply(column: pl.Series, patch: _Patch) -> pl.Series:
    """The column with the patched rows replaced; rows are gathered, text is not copied."""
    where = pl.int_range(column.len(), dtype=pl.UInt32, eager=True).scatter(
        patch.rows, pl.int_range(column.len(), column.len() + patch.rows.len(), dtype=pl.UInt32, eager=True)
    )
    return pl.concat([column, patch.values.cast(column.dtype).alias(column.name)]).gather(where)
