"""Candidates of one family become rows: cut, envelope, quality, hash, gates and repairs, split into accepted and rejected."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

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
    from expcomp.tables.families import Family


@dataclass(frozen=True)
class FamilyRows:
    """Rows of one family in one shard.

    Attributes:
        accepted: Rows no gate objects to.
        rejected: The others, with all reasons.
        lines: JSON text of each accepted row.
        rounds: Record of each round: rows in and out by reason, repairs applied.
    """

    accepted: pl.DataFrame
    rejected: pl.DataFrame
    lines: pl.Series
    rounds: list[dict[str, Any]] = field(default_factory=list)


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
    frame, rounds = _gated(frame, family, options)
    frame = frame.with_columns(quality=_quality(family))
    table = family.table
    ok = pl.col("accepted")
    accepted, rejected = frame.filter(ok), frame.filter(~ok)
    return FamilyRows(accepted.select(*table.columns), rejected.select(*table.columns), row_lines(accepted), rounds)


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
    attempt = context.attempts.select("attempt_id", "attempt_kind", "trace_id")
    task = context.tasks.select("task_id", "domain", "subdomain", "workflow_family", "split").join(
        context.task_stats.select("task_id", "difficulty", "learnability"),
        on="task_id",
        how="left",
        maintain_order="left",
    )
    return frame.join(attempt, on="attempt_id", how="left", maintain_order="left").join(
        task, on="task_id", how="left", maintain_order="left"
    )


def _identified(frame: pl.DataFrame, family: Family) -> pl.DataFrame:
    frame = frame.with_columns(content_hash=pl.concat_str(pl.lit(PREFIX), sha256_expr("_text")))
    place = pl.concat_str(
        pl.lit(f"{SCHEMA_VERSION}\x1f{family.name}"),
        "package_id",
        pl.col("attempt_id").fill_null(""),
        pl.col("step_index").cast(pl.String).fill_null(""),
        pl.col("_discriminator").fill_null(""),
        "content_hash",
        separator="\x1f",
    )
    frame = frame.with_columns(_place=place)
    return frame.with_columns(row_id=pl.concat_str(pl.lit("row_"), sha256_expr("_place").str.head(32))).drop("_place")


def _gated(frame: pl.DataFrame, family: Family, options: CompileOptions) -> tuple[pl.DataFrame, list[dict[str, Any]]]:
    """Evaluate all gates; repair what can be repaired and evaluate again, until nothing changes."""
    frame = frame.with_columns(
        _cited=pl.col("_n_refs").fill_null(0),
        _found=pl.col("_n_there").fill_null(0),
        _n_hidden=pl.col("_n_hidden").fill_null(0),
    ).with_columns(_n_missing=pl.col("_cited") - pl.col("_found") - pl.col("_n_hidden"))
    gates = gate_exprs(family, options)
    searched = text_gate_exprs(family, options)
    frame = _searched(frame, searched, pii=options.pii)
    text_flags = {name: pl.col(f"_gate_{name}") for name in searched}
    rounds: list[dict[str, Any]] = []
    for number in range(1, options.max_rounds + 1):
        reasons = pl.concat_list(
            pl.when(e).then(pl.lit(name)) for name, e in {**gates, **text_flags}.items()
        ).list.drop_nulls()
        frame = frame.with_columns(reject_reasons=reasons).with_columns(
            accepted=pl.col("reject_reasons").list.len() == 0
        )
        fixable = (pl.col("_n_missing") > 0) & (pl.col("_found") > 0)
        repairs = int(frame.select(fixable.sum()).item()) if number < options.max_rounds else 0
        rounds.append(_record(frame, number, repairs))
        if not repairs:
            break
        frame = frame.with_columns(
            _evidence_ids=pl.when(fixable).then("_evidence_ok").otherwise("_evidence_ids"),
            _n_missing=pl.when(fixable).then(0).otherwise("_n_missing"),
        )
    return frame.with_columns(evidence_ids=pl.col("_evidence_ids").fill_null([])), rounds


def _searched(frame: pl.DataFrame, gates: Mapping[str, pl.Expr], *, pii: bool) -> pl.DataFrame:
    """Search for what redaction may have left; only in rows where it changed something, the others were clean before."""
    frame = frame.with_columns(_tokens=count_tokens("_text").cast(pl.Int32))
    at = frame.select((pl.col("_tokens") > 0).arg_true()).to_series()
    clean = pl.Series([False]).new_from_index(0, frame.height)
    if not at.len():
        return frame.with_columns(clean.alias(f"_gate_{name}") for name in gates)
    changed = frame.select(pl.col("_text").gather(at))
    _, hits = redact(changed, ["_text"], pii=pii)
    # Redaction run again says quickly whether anything is left at all; which gate it is, is worth the search only then.
    found = changed.select(**gates) if hits else pl.DataFrame({name: clean.head(at.len()) for name in gates})
    return frame.with_columns(clean.scatter(at, found[name]).alias(f"_gate_{name}") for name in gates)


def _record(frame: pl.DataFrame, number: int, repairs: int) -> dict[str, Any]:
    by_reason = (
        frame.select(pl.col("reject_reasons").list.explode(keep_nulls=False, empty_as_null=False))
        .to_series()
        .value_counts(sort=False)
    )
    counts = dict(sorted(zip(by_reason["reject_reasons"].to_list(), by_reason["count"].to_list(), strict=True)))
    accepted = int(frame["accepted"].sum())
    return {
        "round": number,
        "rows": frame.height,
        "accepted": accepted,
        "rejected": frame.height - accepted,
        "reasons": counts,
        "repairs": {"drop_unresolved_ref": repairs} if repairs else {},
        "judge": "rules",
    }


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
