"""Receipts against the cells of their experiment: what is missing, there twice, foreign, or used a second time."""

from __future__ import annotations

import polars as pl

from expcomp.tables.stats import TRIALS
from expcomp.training.cost_records import NANOS
from expcomp.training.experiments import BenchmarkSeal, ExperimentDocument
from expcomp.training.sealing import cells, check_experiment, task_benchmarks

FINDINGS: dict[str, pl.DataType] = {
    "code": pl.String(),
    "arm": pl.String(),
    "task_index": pl.Int64(),
    "repetition": pl.Int64(),
    "receipt_digest": pl.String(),
    "found": pl.String(),
    "expected": pl.String(),
}
"""What is wrong with the receipts of an experiment; empty when each cell has exactly one of its own."""

_CELL = ("arm", "task_index", "repetition")
_SAME = ("state_digest", "task_digest", "seed")
ONCE = {"execution_id": "execution_id_reused", "receipt_digest": "receipt_digest_reused", "billing": "billing_reused"}
"""Identities that no two receipts share."""


def verify_receipts(experiment: ExperimentDocument, benchmark: BenchmarkSeal, receipts: pl.DataFrame) -> pl.DataFrame:
    """Everything that is wrong with a set of receipts (`FINDINGS`), as joins.

    Args:
        experiment: Sealed.
        benchmark: The one it names.
        receipts: `RUN_RECEIPTS`.

    Raises:
        TamperedError: Experiment and benchmark do not hold together.
    """
    check_experiment(experiment, benchmark)
    designed = cells(experiment, benchmark)
    graders = pl.DataFrame(
        {
            "task_digest": [str(t.digest) for t in benchmark.tasks],
            "_grader": [t.grader.artifact_digest for t in benchmark.tasks],
        }
    )
    own = (pl.col("experiment_digest") == str(experiment.digest)) & (
        pl.col("suite_digest") == str(benchmark.suite.digest)
    )
    ours = receipts.filter(own).join(designed, on=[*_CELL, *_SAME], how="semi", maintain_order="left")
    foreign = receipts.join(ours, on="receipt_digest", how="anti", maintain_order="left")
    missing = designed.join(ours, on=_CELL, how="anti", maintain_order="left")
    twice = ours.filter(pl.len().over(_CELL) > 1).filter(~pl.struct(_CELL).is_first_distinct())
    graded = ours.join(graders, on="task_digest", how="left", maintain_order="left")
    found = [
        _told(missing, "receipt_missing", pl.lit("no receipt"), "one receipt"),
        _told(twice, "receipt_duplicate", pl.col("execution_id"), "one receipt"),
        _told(
            foreign,
            "receipt_foreign",
            pl.col("execution_id"),
            "a cell of the experiment, with its states, tasks and seeds",
        ),
        _told(ours.filter(pl.col("attempt") != 1), "receipt_attempt", pl.col("attempt").cast(pl.String), "1"),
        _told(
            ours.filter(pl.col("execution_ref") != experiment.execution_ref),
            "receipt_other_execution",
            pl.col("execution_ref"),
            experiment.execution_ref,
        ),
        _told(
            graded.filter(pl.col("grader_digest") != pl.col("_grader")),
            "receipt_other_grader",
            pl.col("grader_digest"),
            "the grader of the task",
        ),
        *(_reused(receipts, column, code) for column, code in ONCE.items()),
        _told(ours.filter(~pl.col("succeeded")), "run_failed", pl.col("failure"), "a run that was graded"),
    ]
    return pl.concat(found)


def receipt_trials(experiment: ExperimentDocument, benchmark: BenchmarkSeal, receipts: pl.DataFrame) -> pl.DataFrame:
    """The runs of an experiment as trials (`TRIALS`), with a column for each critical dimension; foreign ones are left out."""
    designed = cells(experiment, benchmark)
    named = designed.select("task", *_CELL, *_SAME)
    ours = receipts.filter(pl.col("experiment_digest") == str(experiment.digest))
    told = ours.join(named, on=[*_CELL, *_SAME], how="inner", maintain_order="left").sort(_CELL, maintain_order=True)
    critical = experiment.policy.critical_dimensions
    values = pl.col("dimensions").str.json_decode(pl.Struct(dict.fromkeys(critical, pl.Float64())))
    told = told.join(task_benchmarks(benchmark), on="task_index", how="left", maintain_order="left")
    made = told.with_columns(
        pl.col("arm").cast(pl.String),
        attempt=pl.col("repetition"),
        source_id=pl.col("execution_id"),
        scale_known=pl.when(pl.col("score").is_not_null()).then(pl.col("score").is_between(0, 1).all()),
        infra=pl.lit(value=False),
        failure_class=pl.col("failure"),
        cost_usd=pl.col("cost_nanos") / NANOS,
        duration_s=pl.col("duration_ms") / 1000,
        role=pl.col("arm").cast(pl.String),
        **{n: values.struct.field(n) for n in critical},
    )
    nothing = [pl.lit(None, t).alias(n) for n, t in TRIALS.schema.items() if n not in made.columns]
    return made.with_columns(nothing).select(*TRIALS.columns, *critical).cast(dict(TRIALS.schema))  # type: ignore[arg-type]


def _told(frame: pl.DataFrame, code: str, found: pl.Expr, expected: str) -> pl.DataFrame:
    made = frame.with_columns(code=pl.lit(code), found=found, expected=pl.lit(expected))
    if "receipt_digest" not in frame.columns:
        made = made.with_columns(receipt_digest=pl.lit(None, pl.String))
    return made.select(FINDINGS.keys()).cast(FINDINGS)  # type: ignore[arg-type]


def _reused(receipts: pl.DataFrame, column: str, code: str) -> pl.DataFrame:
    long = receipts.explode(column) if receipts.schema[column].is_nested() else receipts
    again = long.filter(pl.col(column).is_duplicated() & ~pl.col(column).is_first_distinct())
    return _told(again, code, pl.col(column), "an identity that no other receipt has")
