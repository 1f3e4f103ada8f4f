"""Whether a score counts, and the score a bare verdict stands for. The same rules run on records, fresh entries and stored ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from expcomp.ledger.build import all_labels, apply
from expcomp.ledger.rounds import reached

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from expcomp.ledger.pack import Pack

_OPEN_LABELS = (
    "v_repair",
    "v_attribution",
    "v_class",
    "v_blocker",
    "v_return",
    "v_labels",
    "v_attributions",
    "v_setup",
)
_LABELS = (
    *("v_attribution", "v_class", "v_attempt_label", "v_attempt_class", "v_blocker", "v_return"),
    *("v_labels", "v_attributions", "v_setup", "v_accounting_label", "v_accounting_class"),
)


def with_fallback(frame: pl.DataFrame, pack: Pack) -> pl.DataFrame:
    """The frame with what a verdict without a number would be worth, and whether it may stand for the score."""
    passed = pl.coalesce("nested_passed", "own_passed", "plain_passed")
    frame = frame.with_columns(
        fallback_labels=all_labels(*_OPEN_LABELS, schema=frame.schema),
        round_seen=_round_seen(),
        raw_score=pl.coalesce("score_text", "nested_value"),
        fallback_passed=passed,
    )
    for rules in ("fallback_candidate", "fallback_allowed", "fallback_value"):
        frame = apply(frame, pack, rules, rules)
    usable = pl.col("fallback_candidate") & pl.col("fallback_allowed")
    return frame.with_columns(
        fallback_scored=usable,
        fallback_value=pl.when(usable).then(pl.col("fallback_value").cast(pl.Float64)),
    )


def _round_seen() -> pl.Expr:
    good = pl.element().struct.field("passed").fill_null(value=False) | (
        reached(pl.element().struct.field("reward"))
    ).fill_null(value=False)
    flags = [pl.col(c) for c in ("t_success", "t_first_true", "t_best", "t_final", "o_success")]
    numbers = [pl.col(c) > 0 for c in ("t_first", "t_best_number", "t_final_number")]
    seen = [*flags, *numbers, pl.col("o_first").is_not_null(), pl.col("t_rounds").list.eval(good).list.any()]
    return pl.any_horizontal(e.fill_null(value=False) for e in seen)


def countability(frame: pl.DataFrame, pack: Pack) -> pl.DataFrame:
    """`countable`, `reason`, `score` and `rule` for each row.

    Args:
        frame: The columns `verdict` of the pack's fields.
        pack: Rules.
    """
    frame = with_fallback(frame, pack)
    status = (
        pl.when(
            (pl.col("own_status") == "missing") & pl.col("fallback_scored") & pl.col("fallback_passed").is_not_null()
        )
        .then(pl.when("fallback_passed").then(pl.lit("passed")).otherwise(pl.lit("failed")))
        .otherwise("own_status")
    )
    frame = frame.with_columns(
        v_status=status,
        v_score=pl.coalesce("raw_score", "fallback_value"),
        class_text=pl.coalesce("v_attribution", "v_class", "v_accounting_class", "v_accounting_label"),
        all_verdict_labels=all_labels(*_LABELS, schema=frame.schema),
    )
    for rules in ("completed_pass", "attempt_uncountable"):
        frame = apply(frame, pack, rules, rules)
    frame = apply(frame, pack, "countability", "verdict", "rule")
    part = pl.col("verdict").struct.field
    return frame.select(
        countable=part("countable"),
        reason=part("reason"),
        score=pl.when(part("scored")).then("v_score"),
        rule="rule",
    )


def countability_of(records: Sequence[Mapping[str, Any]], pack: Pack) -> pl.DataFrame:
    """`countability` of records or entry documents."""
    return countability(pack.fields["verdict"].frame(records), pack)
