"""Held-out evaluation: families are left out in turn, every answer is scored, nothing is judged by a model.

Definitions (specification of environments, section 4):
    exact       parsed values are equal; a boolean is no number; 1 and 1.0 are one number. Texts that are no JSON: equal. Generated
                values (UUID, time stamp, date) that the answer shows for the first time match by shape, one to one.
    text_exact  equal as written after white space is folded; null where the answer is JSON: it is predicted as a value, not as bytes
    leaf        share of the leaf paths of truth and prediction together with equal value
    outcome     accuracy; balanced accuracy is the mean of the recalls of failure and success
    coverage    share of answers with at least the asked confidence; selective: exactness of those
    state       the whole next state is equal, where states are given
    ECE         sum over 10 bins of confidence of n_bin / n * |exactness - mean confidence| (Naeini et al. 2015)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from expcomp.environments.induction.crossfit import answer, fold_of, learn
from expcomp.environments.induction.matching import leaf_shares, same_shape
from expcomp.environments.induction.prepared import Prepared, operands
from expcomp.environments.induction.world import states

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Evaluation", "cross_validate", "risk_coverage", "scored", "summary"]

GATES = (0.5, 0.6, 0.7, 0.8, 0.9)
TARGET = 0.99


@dataclass(slots=True)
class Evaluation:
    """Scores of held-out transitions.

    Attributes:
        steps: One row a transition: `route`, `confidence`, `exact`, `leaf`, `outcome_ok`, `state_ok`, ...
        leaky: Families of the tested rows were also learned from; such figures say nothing of unseen tasks.
    """

    steps: pl.DataFrame
    leaky: bool

    def summary(self, by: Sequence[str] = ()) -> pl.DataFrame:
        """Metrics overall, or by columns of `steps`, as one row each."""
        return summary(self.steps, by).with_columns(leaky=pl.lit(self.leaky))


def cross_validate(
    transitions: pl.DataFrame,
    *,
    folds: int = 5,
    unit: str = "group",
    salt: str = "fold",
    prepared: Prepared | None = None,
    only: Sequence[int] | None = None,
) -> Evaluation:
    """Learn on all folds but one and answer that one, in turn.

    Args:
        transitions: Columns of EXPERIENCE.
        folds: Number of folds; fold = first 8 hex digits of SHA-256 of `<salt>:<unit>`, modulo folds.
        unit: Column whose values are kept together. Any other than `group` lets families cross, and is labelled leaky.
        salt: Prefix of the hash.
        prepared: `operands` of the transitions, when they were made before.
        only: Folds to test; None: all.
    """
    p = prepared if prepared is not None else operands(transitions)
    units = p.rows.select("t", "group", unit=pl.col(unit)).join(
        fold_of(p.rows[unit], folds, salt).rename({"group": "unit"}), on="unit", how="left", maintain_order="left"
    )
    rows = p.rows.join(units.select("t", "fold"), on="t", how="left", maintain_order="left")
    crossed = bool(units.group_by("group", maintain_order=True).agg(n=pl.col("fold").n_unique())["n"].max() != 1)
    found = []
    for fold in range(folds) if only is None else only:
        inside, outside = rows.filter(pl.col("fold") != fold), rows.filter(pl.col("fold") == fold)
        if inside.is_empty() or outside.is_empty():
            continue
        learned = learn(p, inside)
        got = answer(learned, p, outside)
        asked = outside.join(got.select("t", outcome="failed"), on="t", how="left", maintain_order="left")
        after = states(learned.world, p, asked).rename({"after": "state"})
        found.append(got.join(after, on="t", how="left", maintain_order="left"))
    return Evaluation(scored(pl.concat(found), rows), crossed)


def scored(answers: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """Answers beside what was recorded.

    Args:
        answers: `t`, `route`, `answer`, `failed`, `confidence` and, where states are given, `state`.
        rows: Prepared transitions.
    """
    if "state" not in answers.columns:
        answers = answers.with_columns(state=pl.lit(None, dtype=pl.String))
    truth = rows.select(
        "t", "is_json", "transition_id", "episode_id", "group", "turn", "action_type", "counterfactual", "args",
        truth="answer", bad="failed", after="after", before="before",
    )  # fmt: skip
    joined = truth.join(answers, on="t", how="inner", maintain_order="left")
    equal = (pl.col("answer") == pl.col("truth")).fill_null(value=False)
    frame = joined.with_columns(equal=equal)
    asked = ("t", "episode_id", "turn", "answer", "truth", "args", "before")
    real = rows.filter(~pl.col("counterfactual")).select("episode_id", "turn", "answer")
    near = same_shape(frame.filter(~pl.col("equal")).select(asked), real)
    frame = frame.join(near, on="t", how="left", maintain_order="left").with_columns(
        exact=pl.col("equal") | pl.col("shape").fill_null(value=False)
    )
    leaves = leaf_shares(frame.select("answer", "truth"))
    folded = [pl.col(c).str.replace_all(r"\s+", " ").str.strip_chars() for c in ("answer", "truth")]
    stateful = pl.col("after").is_not_null() & pl.col("before").is_not_null()
    return frame.join(leaves, on=["answer", "truth"], how="left", maintain_order="left", nulls_equal=True).select(
        "transition_id", "episode_id", "group", "turn", "action_type", "counterfactual", "route", "key", "confidence",
        "answer", "truth", "exact",
        text_exact=pl.when(~pl.col("is_json")).then((folded[0] == folded[1]).fill_null(value=False)),
        leaf=pl.when("exact").then(1.0).otherwise(pl.col("leaf").fill_null(0.0)),
        failed="bad",
        failed_predicted="failed",
        outcome_ok=(pl.col("bad") == pl.col("failed")).fill_null(value=False),
        state_ok=pl.when(stateful).then((pl.col("state") == pl.col("after")).fill_null(value=False)),
        abstained=pl.col("answer").is_null(),
    )  # fmt: skip


def summary(steps: pl.DataFrame, by: Sequence[str] = ()) -> pl.DataFrame:
    """Metrics of scored steps, overall or by columns; `coverage_99` is the largest coverage with selective exactness of 99 %."""
    keys = list(by) or ["all"]
    frame = steps if by else steps.with_columns(all=pl.lit("all"))
    metrics = [
        pl.len().alias("n"),
        *(pl.col(c).mean() for c in ("exact", "text_exact", "leaf")),
        pl.col("outcome_ok").mean().alias("outcome"),
        (pl.col("outcome_ok").filter("failed").mean() + pl.col("outcome_ok").filter(~pl.col("failed")).mean())
        .truediv(2)
        .alias("outcome_balanced"),
        pl.col("state_ok").mean().alias("state"),
        pl.col("abstained").mean(),
        *((pl.col("confidence") >= g).mean().alias(f"coverage_at_{g}") for g in GATES),
        *(pl.col("exact").filter(pl.col("confidence") >= g).mean().alias(f"selective_at_{g}") for g in GATES),
    ]
    parts = frame.group_by(keys, maintain_order=True).agg(metrics)
    curve = risk_coverage(frame, keys).filter(pl.col("selective") >= TARGET)
    best = curve.group_by(keys, maintain_order=True).agg(coverage_99=pl.col("coverage").max())
    bins = frame.with_columns(bin=(pl.col("confidence") * 10).floor().clip(0, 9))
    error = (
        bins.group_by([*keys, "bin"], maintain_order=True)
        .agg(n=pl.len(), gap=(pl.col("exact").mean() - pl.col("confidence").mean()).abs())
        .group_by(keys, maintain_order=True)
        .agg(ece=(pl.col("gap") * pl.col("n")).sum() / pl.col("n").sum())
    )
    joined = parts.join(best, on=keys, how="left", maintain_order="left").join(
        error, on=keys, how="left", maintain_order="left"
    )
    return joined.with_columns(pl.col("coverage_99").fill_null(0.0)).sort(keys)


def risk_coverage(steps: pl.DataFrame, by: Sequence[str] = ()) -> pl.DataFrame:
    """Coverage and selective exactness at every confidence that occurs, by columns: `confidence`, `coverage`, `selective`."""
    keys = list(by)
    counts = (
        steps.group_by([*keys, "confidence"], maintain_order=True)
        .agg(n=pl.len(), right=pl.col("exact").sum())
        .sort([*keys, "confidence"], descending=[*[False] * len(keys), True])
    )
    n, right, total = pl.col("n").cum_sum(), pl.col("right").cum_sum(), pl.col("n").sum()
    if keys:
        n, right, total = n.over(keys), right.over(keys), total.over(keys)
    return counts.select(*keys, "confidence", coverage=n / total, selective=right / n)
