"""The columns that rules give under our own profile, for fresh and for stored runs: scale, verdict, class, scope, repair, role."""

from __future__ import annotations

import functools
import operator
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.ledger.build import apply
from expcomp.ledger.repair import repair_columns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from expcomp.ledger.pack import Pack

_UNKNOWN = ("unknown_class", "unknown_unscored")  # rules of scope that fire for a class nobody declared
# What a fresh record gives beside the columns of the table, and what stands for it in a stored run.
STORED: Mapping[str, pl.Expr] = {
    "given_class": pl.col("failure_class"),
    "given_scope": pl.when(~pl.col("scope_rule").is_in(_UNKNOWN).fill_null(value=False)).then("failure_scope"),
    "given_passed": pl.col("official_passed"),
    "given_status": pl.col("status"),
    "stored_status": pl.col(
        "status"
    ),  # what a stored run says of its job is as old as the run: it does not start again
    "given_role": pl.when(pl.col("role_source") == "record").then("role"),
    "odd_score": pl.when(pl.col("score_issue") == "score_not_finite").then(True),
    "labels": pl.col("failure_labels"),
    "exceptions": pl.lit(None, dtype=pl.List(pl.String())),
    "first_blocker": pl.lit(None, dtype=pl.String()),
    "compact_failure_class": pl.lit(None, dtype=pl.String()),
    "ready_for_marker": pl.lit(None, dtype=pl.Boolean()),
    "running_trials": pl.lit(None, dtype=pl.Int64()),
}
_SCALE_ISSUES = ("score_out_of_scale", "scale_empty")
_UNNAMED = ("benchmark_unknown", "case_unknown", "arm_unknown")
_ISSUES = ("role_guessed", "role_ambiguous", "class_unknown", "scale_unknown", *_UNNAMED, *_SCALE_ISSUES)
_HALF_SCALE = ("score_min", "score_max")


def derive(frame: pl.DataFrame, pack: Pack) -> pl.DataFrame:
    """The frame with every derived column made again.

    Args:
        frame: Columns of the table of runs, with those of `STORED`.
        pack: Rules of the profile.
    """
    frame = frame.with_columns(_kept_rule=pl.col("failure_rule"), _kept_issue=pl.col("score_issue"))
    frame = _verdict(_scale(frame, pack), pack)
    frame = apply(frame, pack, "failure_class", "failure_class", "failure_rule")
    declared = (pl.col("failure_rule") == "declared") & pl.col("_kept_rule").is_not_null()
    frame = frame.with_columns(failure_rule=pl.when(declared).then("_kept_rule").otherwise("failure_rule"))
    frame = apply(frame, pack, "failure_scope", "failure_scope", "scope_rule")
    frame = apply(frame, pack, "infra", "infra")
    frame = frame.with_columns(_repairs(frame, pack))
    frame = apply(frame, pack, "countability", "_counted", "countability_rule")
    counted = pl.col("_counted").struct.field("countable")
    frame = frame.with_columns(
        official_score_countable=counted,
        official_score_countability_reason=pl.col("_counted").struct.field("reason"),
        countable_score=pl.when(counted).then("score"),
    )
    return _reported(_roles(frame, pack), pack.settings)


def _scale(frame: pl.DataFrame, pack: Pack) -> pl.DataFrame:
    """Scale and threshold: those the pack declares for the benchmark, with or without its version, else the record's own."""
    table = pack.section("benchmarks")
    bare = pl.col("benchmark_id").str.replace(r"@[^@]*$", "")

    def declared(key: str, dtype: Any) -> pl.Expr:
        known = {n: t[key] for n, t in table.items() if key in t}
        if not known:
            return pl.lit(None, dtype=dtype)
        values = [dtype.to_python()(v) for v in known.values()]
        exact, loose = (
            c.replace_strict(list(known), values, default=None, return_dtype=dtype)
            for c in (pl.col("benchmark_id"), bare)
        )
        return pl.coalesce(exact, loose)

    real = pl.Float64()
    frame = frame.with_columns(
        score_min=pl.coalesce(declared("min", real), "score_min"),
        score_max=pl.coalesce(declared("max", real), "score_max"),
        _threshold=pl.coalesce(declared("threshold", real), "score_threshold"),
        _higher=declared("higher_is_better", pl.Boolean()).fill_null(value=True),
    )
    best = pl.when("_higher").then("score_max").otherwise("score_min")
    whole = pl.all_horizontal(pl.col(c).is_not_null() for c in _HALF_SCALE)
    return frame.with_columns(
        score_threshold=pl.coalesce("_threshold", pl.when(whole).then(best)),
        empty_scale=(pl.col("score_max") <= pl.col("score_min")).fill_null(value=False),
        below_scale=(pl.col("official_score") < pl.col("score_min")).fill_null(value=False),
        above_scale=(pl.col("official_score") > pl.col("score_max")).fill_null(value=False),
    )


def _verdict(frame: pl.DataFrame, pack: Pack) -> pl.DataFrame:
    frame = apply(frame, pack, "score_issue", "score_issue")
    kept = pl.when(~pl.col("_kept_issue").is_in(_SCALE_ISSUES)).then("_kept_issue")
    frame = frame.with_columns(score_issue=pl.coalesce("score_issue", kept))
    frame = frame.with_columns(score=pl.when(pl.col("score_issue").is_null()).then("official_score"))
    low, high = pl.col("score_min"), pl.col("score_max")
    share = (pl.col("score") - low) / pl.when(high > low).then(high - low)
    score, limit = pl.col("score"), pl.col("score_threshold")
    frame = frame.with_columns(
        score_norm=pl.when("_higher").then(share).otherwise(1 - share),
        reached=pl.when("_higher").then(score >= limit).otherwise(score <= limit),
    )
    frame = frame.with_columns(above_least=(pl.coalesce("score_norm", "score") > 0).fill_null(value=False))
    for rules in ("passed", "score_status", "status"):
        frame = apply(frame, pack, rules, rules)
    return frame


def _repairs(frame: pl.DataFrame, pack: Pack) -> list[pl.Series]:
    return repair_columns(frame, pack).get_columns()


def _roles(frame: pl.DataFrame, pack: Pack) -> pl.DataFrame:
    """The declared role of the arm, else the record's own, else what the words of its name say, if they say one thing."""
    arms = {n: t["role"] for n, t in pack.section("arms").items() if "role" in t}
    declared = (
        pl.col("arm_id").replace_strict(list(arms), list(arms.values()), default=None, return_dtype=pl.String())
        if arms
        else pl.lit(None, dtype=pl.String())
    )
    words = pl.col("arm_id").str.to_lowercase().str.extract_all(r"[a-z0-9]+")
    says = {
        role: functools.reduce(operator.or_, [words.list.contains(w) for w in listed])
        for role, listed in pack.settings["role_words"].items()
    }
    count = pl.sum_horizontal(e.cast(pl.Int8) for e in says.values())
    guess = pl.coalesce(*(pl.when(e).then(pl.lit(r)) for r, e in says.items()))
    frame = frame.with_columns(_declared=declared, _said=count, _guess=pl.when(count == 1).then(guess))
    return frame.with_columns(
        role=pl.coalesce("_declared", "given_role", "_guess"),
        role_source=pl.when(pl.col("_declared").is_not_null())
        .then(pl.lit("declared"))
        .when(pl.col("given_role").is_not_null())
        .then(pl.lit("record"))
        .when(pl.col("_guess").is_not_null())
        .then(pl.lit("guessed")),
    ).with_columns(
        is_baseline=(pl.col("role") == "baseline").fill_null(value=False),
        is_treatment=(pl.col("role") == "treatment").fill_null(value=False),
    )


def _reported(frame: pl.DataFrame, settings: Mapping[str, Any]) -> pl.DataFrame:
    """What was guessed or could not be told, beside what was refused."""
    told: dict[str, pl.Expr] = {
        "role_guessed": pl.col("role_source") == "guessed",
        "role_ambiguous": pl.col("role").is_null() & (pl.col("_said") > 1),
        "class_unknown": pl.col("scope_rule").is_in(_UNKNOWN),
        "scale_unknown": pl.col("score").is_not_null() & pl.col("score_norm").is_null(),
        "benchmark_unknown": pl.col("benchmark_id") == settings["default_benchmark"],
        "case_unknown": pl.col("case_id") == settings["default_case"],
        "arm_unknown": pl.col("arm_id") == "unknown_arm",
    }
    flags = [pl.when(e.fill_null(value=False)).then(pl.lit(n)) for n, e in told.items()]
    known = pl.concat_list(*flags, "score_issue").list.drop_nulls()
    kept = (
        pl.col("issues").list.set_difference(pl.lit(list(_ISSUES))).list.set_difference(pl.concat_list("score_issue"))
    )
    found = pl.concat_list(kept.fill_null([]), known)
    return frame.with_columns(issues=pl.when(found.list.len() > 0).then(found))
