"""Candidates of one family become rows: cut, envelope, quality, hash, gates and repairs, split into accepted and rejected."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import polars as pl

from expcomp.compiler.canonical import json_lines
from expcomp.compiler.gates import gate_exprs, present, text_gate_exprs
from expcomp.evidence.redact import count_tokens, redact
from expcomp.io.digest import PREFIX, sha256_expr
from expcomp.tables._spec import SCHEMA_VERSION
from expcomp.tables.envelope import ENVELOPE, HASH_EXCLUDE, QUALITY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from expcomp.config import CompileOptions
    from expcomp.rows.context import Context
    from expcomp.rows.family import RowFamily
    from expcomp.tables.family import Family


_KEYS = ("package_id", "attempt_id", "task_id")


@dataclass(frozen=True)
class FamilyRows:
    """Rows of one family in one shard.

    Attributes:
        accepted: Rows no gate objects to.
        rejected: The others, with all reasons.
        lines: JSON text of each accepted row.
        keys: Package, attempt and task of each candidate, in order.
        ok: Whether no gate objects to it.
        flags: Of each round the objections by reason, and the rows that were repaired (empty: none), by candidate.
    """

    accepted: pl.DataFrame
    rejected: pl.DataFrame
    lines: pl.Series
    keys: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=dict.fromkeys(_KEYS, pl.String)))
    ok: pl.Series = field(default_factory=lambda: pl.Series(dtype=pl.Boolean))
    flags: list[tuple[Mapping[str, pl.Series], pl.Series]] = field(default_factory=list)


def assemble(row_family: RowFamily, context: Context, options: CompileOptions) -> FamilyRows:
    """Build, gate and split the rows of one family."""
    family = row_family.family
    frame = row_family.candidates(context)
    if not frame.height:
        empty = family.table.empty()
        return FamilyRows(empty, empty, pl.Series("line", [], dtype=pl.String))
    frame = _cut(frame, family, options)
    frame = _placed(frame, context)
    content = [*family.columns, "row_type", "schema_version"]
    frame = frame.with_columns(row_type=pl.lit(family.name), schema_version=pl.lit(SCHEMA_VERSION))
    frame = frame.with_columns(json_lines(frame, content).alias("_text"))
    frame = _identified(frame, family)
    if family.dedupe:
        again = pl.int_range(pl.len()).over("package_id", "content_hash") > 0
        frame = frame.with_columns(_duplicate=pl.col("_duplicate").fill_null(value=False) | again)
    frame, flags = _gated(frame, family, options)
    frame = frame.with_columns(quality=_quality(family))
    table = family.table
    ok = frame["accepted"]
    accepted, rejected = frame.filter(ok), frame.filter(~ok)
    keys = frame.select(_KEYS)
    columns = list(table.columns)
    return FamilyRows(accepted.select(columns), rejected.select(columns), row_lines(accepted), keys, ok, flags)


def _cut(frame: pl.DataFrame, family: Family, options: CompileOptions) -> pl.DataFrame:
    """Cut overlong texts and flag them; redaction has run before."""
    if not family.texts:
        return frame
    limit = options.max_text_chars
    over = [(pl.col(n).str.len_bytes() > limit) & (pl.col(n).str.len_chars() > limit) for n in family.texts]
    lengths = [
        pl.col(n).str.len_chars().cast(pl.Int64).alias(f"{n}_chars")
        for n in family.texts
        if f"{n}_chars" in family.columns
    ]
    return frame.with_columns(
        *lengths,
        *(
            pl.when(pl.col(n).str.len_bytes() > limit).then(pl.col(n).str.head(limit)).otherwise(n).alias(n)
            for n in family.texts
        ),
        truncated=pl.any_horizontal(o.fill_null(value=False) for o in over),
    )


def _placed(frame: pl.DataFrame, context: Context) -> pl.DataFrame:
    """Envelope facts of attempt and task, and the task's difficulty."""
    return frame.join(context.attempt_place, on="attempt_id", how="left", maintain_order="left").join(
        context.task_place, on="task_id", how="left", maintain_order="left"
    )


def _identified(frame: pl.DataFrame, family: Family) -> pl.DataFrame:
    digest = pl.concat_str(pl.lit(PREFIX), sha256_expr("_text"))
    place = pl.concat_str(
        pl.lit(f"{SCHEMA_VERSION}\x1f{family.name}"),
        "package_id",
        pl.col("attempt_id").fill_null(""),
        pl.col("step_index").cast(pl.String).fill_null(""),
        pl.col("_discriminator").fill_null(""),
        digest,
        separator="\x1f",
    )
    frame = frame.with_columns(content_hash=digest, _place=place, _tokens=count_tokens("_text").cast(pl.Int32))
    row_id = pl.concat_str(pl.lit("row_"), sha256_expr("_place").str.head(32))
    frame = frame.with_columns(row_id=row_id)
    if frame["row_id"].n_unique() == frame.height:
        return frame
    # A source said the same of the same thing again: copies of the first, told apart by their number.
    nth = pl.int_range(pl.len()).over("row_id")
    numbered = pl.when(nth > 0).then(pl.concat_str("_place", pl.lit("\x1f"), nth)).otherwise("_place")
    again = pl.col("_duplicate").fill_null(value=False) | (nth > 0)
    return frame.with_columns(_place=numbered, _duplicate=again).with_columns(row_id=row_id)


def _gated(
    frame: pl.DataFrame, family: Family, options: CompileOptions
) -> tuple[pl.DataFrame, list[tuple[Mapping[str, pl.Series], pl.Series]]]:
    """Evaluate all gates; repair what can be repaired and evaluate again, until nothing changes."""
    counted = {"_cited": "_n_refs", "_found": "_n_there", "_n_hidden": "_n_hidden"}
    frame = frame.with_columns(pl.col(source).fill_null(0).alias(name) for name, source in counted.items())
    frame = frame.with_columns(_n_missing=pl.col("_cited") - pl.col("_found") - pl.col("_n_hidden"))
    gates = gate_exprs(family, options)
    left = _left_over(frame, options)
    marks: list[tuple[Mapping[str, pl.Series], pl.Series]] = []
    for number in range(1, options.max_rounds + 1):
        flags = frame.select(**gates)
        objecting = {n: flags[n] for n in flags.columns if flags[n].any()} | left
        fixable = pl.Series([], dtype=pl.Boolean)
        if "unresolved_ref" in objecting and number < options.max_rounds:
            fixable = objecting["unresolved_ref"] & (frame["_found"] > 0)
        repairs = bool(fixable.any())
        marks.append((objecting, fixable if repairs else fixable.clear()))
        if not repairs:
            break
        frame = frame.with_columns(
            _evidence_ids=pl.when(fixable).then("_evidence_ok").otherwise("_evidence_ids"),
            _n_missing=pl.when(fixable).then(0).otherwise("_n_missing"),
        )
    frame = frame.with_columns(_verdict(objecting, frame.height))
    return frame.with_columns(pl.col("_evidence_ids").fill_null([]).alias("evidence_ids")), marks


def _verdict(objecting: Mapping[str, pl.Series], height: int) -> list[pl.Series]:
    """`accepted` and `reject_reasons` from the gates that object somewhere."""
    if not objecting:
        none = pl.Series("reject_reasons", [[]], dtype=pl.List(pl.String))
        return [pl.Series("accepted", [True]).new_from_index(0, height), none.new_from_index(0, height)]
    named = pl.concat_list(pl.when(pl.col(name)).then(pl.lit(name)) for name in objecting).list.drop_nulls()
    reasons = pl.DataFrame(dict(objecting)).select(named.alias("reject_reasons"))
    return [*reasons.with_columns(accepted=pl.col("reject_reasons").list.len() == 0)]


def _left_over(frame: pl.DataFrame, options: CompileOptions) -> dict[str, pl.Series]:
    """Search for what redaction may have left; only in rows where it changed something, the others were clean before."""
    odd = frame["_tokens"] > 0
    if not odd.any():
        return {}
    at = odd.arg_true()
    changed = frame.select(pl.col("_text").gather(at))
    # Redaction run again says quickly whether anything is left at all; which gate it is, is worth the search only then.
    if not redact(changed, ["_text"], pii=options.pii)[1]:
        return {}
    found = changed.select(**text_gate_exprs(options))
    clean = pl.Series([False]).new_from_index(0, frame.height)
    return {name: clean.scatter(at, found[name]) for name in found.columns if found[name].any()}


def _quality(family: Family) -> pl.Expr:
    """Measured parts only; the score is their product over the parts that exist."""
    fidelity = pl.when(pl.col("_cited") > 0).then(pl.col("_found") / pl.col("_cited"))
    either = [(entry,) if isinstance(entry, str) else entry for entry in family.core]
    core = [pl.any_horizontal(present(n, family.columns[n].dtype) for n in names).cast(pl.Float64) for names in either]
    completeness = pl.mean_horizontal(core) if core else pl.lit(1.0)
    strength = pl.col("_label_strength") if family.labelled else pl.lit(None, dtype=pl.Float64)
    score = fidelity.fill_null(1.0) * completeness * strength.fill_null(1.0)
    return pl.struct(
        quality_score=score,
        fidelity=fidelity,
        completeness=completeness,
        label_strength=strength,
        difficulty=pl.col("difficulty"),
        learnability=pl.col("learnability"),
        novelty=pl.lit(None, dtype=pl.Float64),
        redactions=pl.col("_tokens"),
    ).cast(QUALITY)


def row_lines(accepted: pl.DataFrame) -> pl.Series:
    """The JSON line of each row: envelope first, then the very text that was hashed."""
    head = json_lines(accepted, [n for n in ENVELOPE if n in HASH_EXCLUDE or n == "content_hash"])
    return accepted.select(line=pl.concat_str(head.str.head(-1), pl.lit(","), pl.col("_text").str.slice(1)))["line"]


def lines_of(rows: pl.DataFrame) -> pl.Series:
    """`row_lines` of published rows: their content text is built again from the columns."""
    content = [c for c in rows.columns if c not in HASH_EXCLUDE and c != "content_hash"]
    return row_lines(rows.with_columns(json_lines(rows, content).alias("_text")))
