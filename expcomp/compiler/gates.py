"""The gates: one table of named boolean expressions. All are evaluated and all reasons kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import polars as pl

from expcomp.evidence.redact import residual
from expcomp.rows.labels import UNLABELLED
from expcomp.tables.families import FAMILIES

if TYPE_CHECKING:
    from expcomp.config import CompileOptions
    from expcomp.tables.family import Family

Make = Callable[["Family", "CompileOptions"], pl.Expr | None]


@dataclass(frozen=True, slots=True)
class Gate:
    """One reason to reject a row: true where it objects; None where the family has no such matter."""

    name: str
    description: str
    make: Make
    repair: str | None = None


def present(column: str, dtype: pl.DataType, *, spoken: bool = False) -> pl.Expr:
    """True where a value is there; of a conversation, with `spoken`, where the model under study said something."""
    expr = pl.col(column)
    if isinstance(dtype, pl.List):
        if spoken and isinstance(dtype.inner, pl.Struct) and any(f.name == "trainable" for f in dtype.inner.fields):
            return expr.list.eval(pl.element().struct.field("trainable")).list.any().fill_null(value=False)
        return (expr.list.len() > 0).fill_null(value=False)
    return expr.is_not_null()


def _missing(which: str) -> Make:
    def make(family: Family, _: CompileOptions) -> pl.Expr | None:
        names = getattr(family, which)
        if not names:
            return None
        there = [present(n, family.columns[n].dtype, spoken=which == "target") for n in names]
        # Pairs need both sides; elsewhere one of the named columns is enough.
        both = which == "target" and family.name == "preference_pair"
        return ~(pl.all_horizontal(there) if both else pl.any_horizontal(there))

    return make


def _texts(family: Family) -> list[str]:
    names = (*family.input, *family.target)
    return [n for n in dict.fromkeys(names) if isinstance(family.columns[n].dtype, pl.String)]


def _empty(family: Family, _: CompileOptions) -> pl.Expr | None:
    # A command that prints nothing is an observation; an empty critique or claim is not.
    if family.grain.startswith("step") or not _texts(family):
        return None
    return pl.any_horizontal((pl.col(n).str.strip_chars() == "").fill_null(value=False) for n in _texts(family))


_PLACEHOLDER = r"(?i)^\s*(todo|tbd|n/?a|none|null|placeholder|\.\.\.|…|lorem ipsum.*|<[a-z _-]+>|\[(insert|placeholder)[^\]]*\])\s*$"


def _placeholder(family: Family, _: CompileOptions) -> pl.Expr | None:
    if family.grain.startswith("step") or not _texts(family):
        return None
    return pl.any_horizontal(pl.col(n).str.contains(_PLACEHOLDER).fill_null(value=False) for n in _texts(family))


def _issue(name: str) -> Make:
    return lambda family, _: (pl.col("_issue") == name) if family.labelled else None


def _label_missing(family: Family, options: CompileOptions) -> pl.Expr | None:
    if not family.labelled:
        return None
    # A user may take the word of whoever made a set that its conversations are good; a void verdict is never taken for one.
    tolerant = options.allow_unlabelled and family.name == "training_example"
    return pl.col("_issue").is_in(["label_missing"] if tolerant else ["label_missing", UNLABELLED])


def _weak(family: Family, options: CompileOptions) -> pl.Expr | None:
    if not family.gated_label:
        return None
    weak = pl.col("_label_strength") < options.min_label_strength
    # Step pairs rest on recorded outcomes by design; pair_level and label_strength say so.
    return weak & (pl.col("pair_level") != "step") if "pair_level" in family.columns else weak


def _residual(kind: str) -> Make:
    def make(_: Family, options: CompileOptions) -> pl.Expr | None:
        return residual("_text", pii=options.pii).get(kind)

    return make


GATES: tuple[Gate, ...] = (
    Gate(
        "unreadable_source",
        "the file that should hold the row's source cannot be read",
        lambda _, __: pl.col("_unreadable"),
    ),
    Gate("missing_input", "nothing to start from", _missing("input")),
    Gate("missing_target", "nothing to learn", _missing("target")),
    Gate("empty_text", "a text that has to say something is empty", _empty),
    Gate("placeholder_text", "a text is a placeholder", _placeholder),
    Gate("label_missing", "nobody graded it", _label_missing),
    Gate("label_not_run", "the grader or verifier was not run", _issue("label_not_run")),
    Gate("score_not_finite", "the score is NaN or infinite", _issue("score_not_finite")),
    Gate("score_out_of_scale", "the score lies outside its scale", _issue("score_out_of_scale")),
    Gate(
        "scale_unknown", "the score has no known scale; --score-scale or expcomp.toml gives it", _issue("scale_unknown")
    ),
    Gate(
        "weak_label",
        "the label is weaker than min_label_strength",
        _weak,
    ),
    Gate(
        "attempt_failed",
        "the attempt did not pass",
        lambda f, _: ~pl.col("_passed") if f.name == "training_example" else None,
    ),
    Gate(
        "verdict_unknown",
        "the attempt has a score but no verdict",
        lambda f, _: (
            (pl.col("_passed").is_null() & pl.col("_issue").is_null()) if f.name == "training_example" else None
        ),
    ),
    Gate("tie_or_small_margin", "the two sides are closer than the margin", lambda _, o: pl.col("_margin") < o.margin),
    Gate("single_attempt", "a group needs two usable attempts", lambda _, __: pl.col("_group_n") < 2),
    Gate("zero_variance_group", "all rewards of the group are equal", lambda _, __: pl.col("_group_std") == 0),
    Gate(
        "several_contexts",
        "the conversation was compacted; it is no single prompt and answer",
        lambda _, __: pl.col("_contexts") > 1,
    ),
    Gate("no_evidence", "the row cites no file", lambda _, __: pl.col("_n_refs").fill_null(0) == 0),
    Gate(
        "unresolved_ref",
        "a ref of this row names no file",
        lambda _, __: pl.col("_n_missing") > 0,
        "drop_unresolved_ref",
    ),
    Gate("hidden_evidence", "the row rests on a hidden file", lambda _, __: pl.col("_n_hidden") > 0),
    Gate("duplicate_exact", "an exact copy of an earlier row of the package", lambda _, __: pl.col("_duplicate")),
    Gate(
        "simulated_review",
        "the judgement comes from a stand-in reviewer",
        lambda _, o: None if o.allow_simulated else pl.col("_simulated"),
    ),
    Gate(
        "too_long",
        "the content is larger than max_row_bytes",
        lambda _, o: pl.col("_text").str.len_bytes() > o.max_row_bytes,
    ),
    Gate("secret_after_redaction", "text still holds a secret", _residual("secret"), "redact_residual"),
    Gate("private_path_after_redaction", "text still holds a private path", _residual("path"), "redact_residual"),
    Gate("pii_after_redaction", "text still holds personal data", _residual("pii"), "redact_residual"),
)
REASONS: Mapping[str, str] = {g.name: g.description for g in GATES}
TEXT_GATES = frozenset(g.name for g in GATES if g.repair == "redact_residual")


@cache
def gate_exprs(family: Family, options: CompileOptions) -> Mapping[str, pl.Expr]:
    """The gates of a family that look at columns, each total: null counts as no objection."""
    made = {g.name: g.make(family, options) for g in GATES if g.name not in TEXT_GATES}
    return {gate: e.fill_null(value=False) for gate, e in made.items() if e is not None}


@cache
def text_gate_exprs(options: CompileOptions) -> Mapping[str, pl.Expr]:
    """The gates that search the content text, the same for all families."""
    made = {g.name: g.make(FAMILIES[0], options) for g in GATES if g.name in TEXT_GATES}
    return {gate: e.fill_null(value=False) for gate, e in made.items() if e is not None}
