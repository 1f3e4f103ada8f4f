"""How strong a label is, and why a grade cannot be one. Rules as data."""

from __future__ import annotations

import polars as pl

# (kind of grader, reliability word) -> strength; the first that fits counts. None fits anything.
STRENGTH: tuple[tuple[str | None, str | None, float], ...] = (
    (None, "not_run", 0.0),
    (None, "failed_verification", 0.0),
    ("simulated", None, 0.0),
    ("heuristic", None, 0.25),
    (None, "verified", 1.0),
    ("verifier", None, 1.0),
    ("test", None, 1.0),
    ("environment", None, 1.0),
    ("human", None, 0.75),
    ("user_feedback", None, 0.5),
    ("model_judge", "needs_review", 0.75),
    ("model_judge", "unverified", 0.75),
    ("model_judge", None, 0.5),
    # Nobody says who judged: worth no more than a model's word.
    ("unstated", None, 0.5),
)
ISSUES = ("label_missing", "label_not_run", "score_not_finite", "score_out_of_scale", "scale_unknown")


def strength(kind: str = "grade_kind", reliability: str = "reliability") -> pl.Expr:
    """Label strength of a grade by the table above; null without a grade."""
    exprs = []
    for k, r, value in STRENGTH:
        hit = pl.lit(value=True)
        if k is not None:
            hit = hit & (pl.col(kind) == k)
        if r is not None:
            hit = hit & (pl.col(reliability) == r)
        exprs.append(pl.when(pl.col(kind).is_not_null() & hit).then(pl.lit(value)))
    return pl.coalesce(*exprs)


UNLABELLED = "unlabelled"


def issue() -> pl.Expr:
    """Why an attempt has no usable verdict; null when it has one.

    `unlabelled`: the source has no place for a verdict. `label_missing`: it has one, and it is empty or void.
    """
    usable = pl.col("score_norm").is_not_null() & pl.col("score_valid").fill_null(value=False)
    known = pl.when(pl.col("score_issue").is_in(ISSUES)).then("score_issue")
    unasked = pl.col("score_valid").is_null() & pl.col("score").is_null() & pl.col("passed").is_null()
    scaleless = (
        pl.col("score").is_not_null() & pl.col("score_norm").is_null() & pl.col("score_valid").fill_null(value=True)
    )
    other = pl.when(unasked).then(pl.lit(UNLABELLED)).when(scaleless).then(pl.lit("scale_unknown"))
    return pl.when(~usable).then(pl.coalesce(known, other, pl.lit("label_missing")))
