"""Attempts of a TraceSet as runs of the default profile: one expression a column, no row in Python."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from expcomp.errors import UsageError
from expcomp.ledger.identity import content_hash
from expcomp.tables._spec import UTC
from expcomp.tables.core import ATTEMPTS
from expcomp.tables.ledger import RUNS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

PROFILE = "default"
_CONTENT = (
    "native_attempt_id", "trace_id", "task_id", "agent", "agent_version", "model", "model_provider", "params", "status", "stop_reason",
    "error_type", "score", "score_min", "score_max", "passed", "score_valid", "started_at", "ended_at", "duration_s", "cost_usd",
    "input_tokens", "output_tokens", "n_steps", "n_messages", "_position",
)  # fmt: skip
_ROUNDING = 1e-9


class Inputs(NamedTuple):
    """Runs, and the records that were refused: `record` (0-based), `name`, `field`, `reason`, `file` (null from memory).

    `stored` are runs of a ledger, not records of runs: they are taken as they are, by their keys; `about` goes with them.
    """

    runs: pl.DataFrame
    refused: pl.DataFrame
    stored: bool = False
    about: Mapping[str, Any] = {}


REFUSED = {"record": pl.Int64, "name": pl.String, "field": pl.String, "reason": pl.String, "file": pl.String}


def from_attempts(
    attempts: pl.DataFrame,
    tasks: pl.DataFrame | None = None,
    *,
    arm: str | None = None,
    group: str | None = None,
    benchmark: str | None = None,
) -> Inputs:
    """Runs of attempts, and why others are none.

    A subagent, a fork or a session without a task is no run of a case; NaN and infinity are refused wherever they stand. A score
    its source calls unusable is left out with its reason, and the run stays.
    """
    table = _whole(attempts).with_row_index("_record").with_columns(pl.col("status").cast(pl.String))
    table = _with_tasks(table, tasks, benchmark)
    why: Any = (
        pl.when(pl.col("relation").cast(pl.String).fill_null("root") != "root")
        .then(pl.lit("relation;no attempt of its own"))
        .when(pl.col("task_id").is_null())
        .then(pl.lit("task_id;no task: nothing to compare it with"))
        .when(pl.col("_case").fill_null("") == "")
        .then(pl.lit("task_id;empty"))
    )
    for name, dtype in ATTEMPTS.schema.items():
        if dtype.is_float():
            why = why.when(~pl.col(name).is_finite().fill_null(value=True)).then(pl.lit(f"{name};not a finite number"))
    table = table.with_columns(_why=why)
    refused = _refusals(table.filter(pl.col("_why").is_not_null()), "_why", "attempt_id")
    kept = table.filter(pl.col("_why").is_null()).drop("_why")
    return Inputs(_runs(kept, arm, group), refused)


def _whole(attempts: pl.DataFrame) -> pl.DataFrame:
    """The columns that are read; what a caller's frame does not have is null."""
    names = {**ATTEMPTS.schema, "source_format": pl.String()}
    check_types(attempts, names)
    return attempts.select(
        pl.col(n) if n in attempts.columns else pl.lit(None, dtype).alias(n) for n, dtype in names.items()
    )


def check_types(frame: pl.DataFrame, wanted: Mapping[str, pl.DataType]) -> None:
    """Refuse a column that holds another kind of value than a table has there.

    Raises:
        UsageError: Naming the column and both types.
    """
    for name, dtype in wanted.items():
        given = frame.schema.get(name, pl.Null())
        if given != pl.Null and _kind(given) != _kind(dtype):
            msg = f"the column {name} has type {given}; expected {dtype}"
            raise UsageError(msg)


def _kind(dtype: pl.DataType) -> str:
    if dtype.is_numeric():
        return "number"
    if isinstance(dtype, pl.String | pl.Enum | pl.Categorical):
        return "text"
    return "time" if isinstance(dtype, pl.Date | pl.Datetime) else type(dtype).__name__


def _with_tasks(table: pl.DataFrame, tasks: pl.DataFrame | None, named: str | None) -> pl.DataFrame:
    if tasks is None:
        tasks = pl.DataFrame(schema=dict.fromkeys(("task_id", "dataset", "dataset_version", "task_digest"), pl.String))
    known = tasks.select("task_id", "dataset", "dataset_version", "task_digest").unique(
        "task_id", keep="first", maintain_order=True
    )
    joined = table.join(known, on="task_id", how="left", maintain_order="left")
    head = pl.col("task_id").str.extract(r"^([^/]+)/")
    benchmark = pl.coalesce(pl.when(pl.col("dataset") != "").then("dataset"), head)
    inside = pl.col("task_id").str.starts_with(pl.concat_str(benchmark, pl.lit("/")))
    rest = pl.col("task_id").str.slice(benchmark.str.len_chars() + 1)
    return joined.with_columns(
        _benchmark=pl.lit(named) if named else benchmark.fill_null(pl.lit("unknown-benchmark")),
        _case=pl.when(inside.fill_null(value=False)).then(rest).otherwise("task_id"),
    )


def _runs(table: pl.DataFrame, arm: str | None, group: str | None) -> pl.DataFrame:
    rules = _rules()
    usable = pl.col("score_valid").fill_null(value=True)
    issue = pl.when(~usable).then(pl.concat_str(pl.lit("source_"), pl.col("score_issue").fill_null("score_not_valid")))
    no_id = pl.all_horizontal(pl.col("native_attempt_id", "trace_id", "started_at", "ended_at").is_null())
    table = table.with_columns(
        _position=pl.when(no_id).then("attempt_id"),
        _score=pl.when(usable).then("score"),
        _issue=issue,
        _native=pl.when(pl.col("trial_source").cast(pl.String) == "native").then(pl.col("trial").cast(pl.Int64)),
    )
    table = table.with_columns(_passed=pl.when(usable).then("passed"), _content=content_hash(_CONTENT))
    table = _bare_verdicts(table)
    table = table.with_columns(_classes(rules))
    values: dict[str, pl.Expr] = {
        "filed_benchmark": pl.col("_benchmark"),
        "filed_case": pl.col("_case"),
        "benchmark_id": pl.col("_benchmark"),
        "case_id": pl.col("_case"),
        "case_ids": pl.concat_list("_case"),
        "benchmark_version": pl.col("dataset_version"),
        "dataset_hash": pl.col("task_digest"),
        "arm_id": pl.lit(arm) if arm else pl.coalesce("arm", pl.lit("unknown_arm")),
        "run_group_id": pl.lit(group) if group else pl.col("run_id"),
        "attempt": pl.col("_native"),
        "seed": pl.col("seed"),
        "content_hash": pl.col("_content"),
        "attempt_id": pl.col("attempt_id"),
        "status": pl.col("run_status"),
        "runner_return_status": pl.col("stop_reason"),
        "score_status": pl.when("_passed").then(pl.lit("passed")).when(~pl.col("_passed")).then(pl.lit("failed"))
        .when(pl.col("_score").is_not_null()).then(pl.lit("completed")).otherwise(pl.lit("missing")),
        "official_score": pl.col("score"),
        "official_passed": pl.col("_passed"),
        "score": pl.col("_score"),
        "score_min": pl.col("score_min"),
        "score_max": pl.col("score_max"),
        "score_norm": pl.when(pl.col("_score").is_not_null()).then("score_norm"),
        "score_issue": pl.col("_issue"),
        "issues": pl.when(pl.col("_issue").is_not_null()).then(pl.concat_list("_issue")),
        "passed": pl.col("_passed"),
        "run_at": pl.coalesce("ended_at", "started_at"),
        "failure_class": pl.col("_class"),
        "failure_scope": pl.col("_scope"),
        "failure_rule": pl.col("_rule"),
        "scope_rule": pl.col("_rule"),
        "infra": pl.col("_infra"),
        "score_failure_attribution": pl.col("error_type"),
        "official_score_countable": pl.col("_score").is_not_null() & ~pl.col("_infra"),
        "countable_score": pl.when(pl.col("_score").is_not_null() & ~pl.col("_infra")).then("_score"),
        "agent_model": pl.col("model"),
        "harness": pl.col("source_format").cast(pl.String),
        "source_event_schema": pl.lit("attempts"),
        "profile": pl.lit(PROFILE),
    }  # fmt: skip
    same = ("cost_usd", "input_tokens", "output_tokens", "duration_s", "agent", "agent_version", "model")
    return conform(table.select(*(e.alias(n) for n, e in values.items()), *same))


def _bare_verdicts(table: pl.DataFrame) -> pl.DataFrame:
    """A verdict without a number stands for an end of the scale 0 to 1, as it does in a record."""
    bare = pl.col("score").is_null() & pl.col("_passed").is_not_null()
    ends = {"score": pl.col("_passed").cast(pl.Float64), "score_min": pl.lit(0.0), "score_max": pl.lit(1.0)}
    ends |= {"_score": ends["score"], "score_norm": ends["score"]}
    return table.with_columns(pl.when(bare).then(e).otherwise(n).alias(n) for n, e in ends.items())


def _classes(rules: Mapping[str, Any]) -> list[pl.Expr]:
    """Status, class, scope and the rule that gave them."""
    status = {r["status"]: r for r in rules["status"]}

    def of(key: str) -> pl.Expr:
        return pl.col("status").replace_strict({s: r[key] for s, r in status.items()}, return_dtype=pl.String)

    infra = pl.col("status").is_in([s for s, r in status.items() if r.get("infra")])
    own = pl.col("_issue").is_null() & pl.col("_score").is_null() & pl.col("_passed").is_null()
    verdict = pl.coalesce("_passed", pl.col("_score") >= pl.col("score_max") - _ROUNDING)
    ended = pl.col("status").is_in(["completed", "unknown"])
    unjudged = pl.col("_score").is_not_null() & verdict.is_null() & ended

    def pick(words: Sequence[str], otherwise: pl.Expr) -> pl.Expr:
        passed, unusable, unscored, unknown = words
        return (
            pl.when(verdict.fill_null(value=False))
            .then(pl.lit(passed))
            .when(pl.col("_issue").is_not_null() & ~infra)
            .then(pl.lit(unusable))
            .when(own & ended)
            .then(pl.lit(unscored))
            .when(unjudged)
            .then(pl.lit(unknown))
            .otherwise(otherwise)
        )

    special = [rules[name] for name in ("unusable", "unscored", "unjudged")]
    ids = [f"attempt/{name}" for name in ("passed", "unusable", "unscored", "unjudged")]
    scope = pick(["passed", *(s["scope"] for s in special)], of("scope"))
    return [
        of("run_status").alias("run_status"),
        pick(["none", *(s["class"] for s in special)], of("class")).alias("_class"),
        scope.alias("_scope"),
        pick(ids, pl.lit("attempt/") + pl.col("status")).alias("_rule"),
        scope.is_in(["runner_or_setup", "verifier_or_infra", "score_missing"]).alias("_infra"),
    ]


def conform(frame: pl.DataFrame) -> pl.DataFrame:
    """A frame with all columns of the table of runs, in order; those it does not have are null, the key is yet to come."""
    if not frame.width:
        return RUNS.empty()  # a select of literals alone would make a row
    have = frame.schema
    return frame.select(pl.col(n).cast(t) if n in have else pl.lit(None, t).alias(n) for n, t in RUNS.schema.items())


def stamped(runs: pl.DataFrame, ingested: datetime) -> pl.DataFrame:
    """Runs with the time the ledger took them; the time of the run stays what it was."""
    at = pl.lit(ingested).cast(UTC)
    return runs.with_columns(
        ingested_at=at,
        recorded_at=pl.coalesce("recorded_at", pl.coalesce("run_at", at).dt.strftime("%Y-%m-%dT%H:%M:%S%.6f+00:00")),
    )


def _refusals(frame: pl.DataFrame, why: str, name: str) -> pl.DataFrame:
    parts = pl.col(why).str.split_exact(";", 1)
    return frame.select(
        pl.col("_record").cast(pl.Int64).alias("record"),
        pl.col(name).alias("name"),
        parts.struct.field("field_0").alias("field"),
        parts.struct.field("field_1").alias("reason"),
        pl.lit(None, dtype=pl.String).alias("file"),
    ).cast(REFUSED)  # type: ignore[arg-type]


@cache
def _rules() -> dict[str, Any]:
    text = resources.files("expcomp.ledger").joinpath("attempts.toml").read_text("utf-8")
    return tomllib.loads(text)
