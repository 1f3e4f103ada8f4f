"""Current aggregate: each run in a bucket, one run standing for each case, and what that adds up to."""

from __future__ import annotations

import functools
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from expcomp.ledger.archive import words
from expcomp.ledger.cases import active
from expcomp.ledger.engine import RuleSet, compile_rules, compile_when

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from expcomp.ledger.pack import Pack

LANES = ("missing", "backfill_noncountable", "current_noncountable", "backfill_countable", "current_countable")


@dataclass(frozen=True, slots=True)
class Lane:
    """Which runs stand for a lane: parts of run group, run id or job, in any case of letters.

    Attributes:
        name: Name of the lane.
        target: Runs of the lane.
        current: Runs of the lane proper.
        backfill: Runs that stand in where the lane has none that counts.
    """

    name: str = ""
    target: tuple[str, ...] = ()
    current: tuple[str, ...] = ()
    backfill: tuple[str, ...] = ()

    @property
    def enabled(self) -> bool:
        """Whether it says anything."""
        return bool(self.target or self.current or self.backfill)


@dataclass(frozen=True, slots=True)
class Aggregate:
    """What stands for each case of a benchmark.

    Attributes:
        benchmark: The benchmark.
        cases: One row a case of the set, in its order (a case named twice stands twice): `case`, `bucket`, `lane`, `at`.
        best: The run of each row of `cases` that has one, with `bucket`, `effective_failure_class` and `lane`.
        run_count: Active runs looked at.
        active_cases: Cases someone is working on.
        lane: The lane.
    """

    benchmark: str
    cases: pl.DataFrame
    best: pl.DataFrame
    run_count: int
    active_cases: tuple[str, ...]
    lane: Lane


def aggregate(
    runs: pl.DataFrame,
    pack: Pack,
    benchmark: str,
    *,
    canonical: Sequence[str] | None = None,
    active_cases: Sequence[str] = (),
    lane: Lane | None = None,
    drop_noncanonical: bool = True,
) -> Aggregate:
    """The run that stands for each case of a benchmark: the best of all attempts (best of n).

    Args:
        runs: Runs of a ledger.
        pack: Rules.
        benchmark: Benchmark the runs are filed under.
        canonical: The cases, in order; by default all the ledger has, sorted.
        active_cases: Cases someone is working on.
        lane: Which runs stand for a lane; all by default.
        drop_noncanonical: Leave out cases that are proven not to be of the benchmark.
    """
    spec, lane = pack.data("aggregate"), lane or Lane()
    filed = runs.filter(pl.col("filed_benchmark") == benchmark)
    own = filed.filter(active())
    sorted_runs = _bucketed(own, spec)
    sorted_runs = sorted_runs.with_columns(_lane(lane, spec))
    ranks = {b: i for i, b in enumerate(reversed(spec["buckets"]["order"]))}
    by = [
        pl.col("lane").replace_strict({n: i for i, n in enumerate(LANES)}, return_dtype=pl.Int8, default=0),
        pl.col("bucket").replace_strict(ranks, return_dtype=pl.Int8),
        pl.col("official_score").fill_null(float("-inf")),
        *(pl.col(c).fill_null("") for c in ("recorded_at", "run_group_id", "run_id")),
    ]
    usable = sorted_runs.filter(pl.col("lane").is_not_null()) if lane.enabled else sorted_runs
    best = usable.sort(by, maintain_order=True).unique("filed_case", keep="last", maintain_order=True)
    wanted = list(words(canonical)) or sorted(filed.get_column("filed_case").unique().to_list())
    if drop_noncanonical:
        gone = set(_noncanonical(own, spec))
        wanted = [c for c in wanted if c not in gone]
    cases = pl.DataFrame({"filed_case": wanted}, schema={"filed_case": pl.String})
    stands = cases.join(best, on="filed_case", how="left", maintain_order="left")
    missing = spec["buckets"]["missing"]
    found = stands.select(
        case="filed_case",
        bucket=pl.col("bucket").fill_null(missing),
        lane=pl.col("lane").fill_null("missing"),
        score="official_score",
        run_id="run_id",
        has_run=pl.col("run_key").is_not_null(),
    )
    picked = words(active_cases)
    return Aggregate(benchmark, found, stands.filter(pl.col("run_key").is_not_null()), own.height, picked, lane)


def _bucketed(own: pl.DataFrame, spec: Mapping[str, Any]) -> pl.DataFrame:
    """Runs with their effective class and their bucket."""
    nothing, columns = spec["effective"]["nothing"], spec["effective"]["columns"]
    attributed = pl.col("extra").str.json_path_match("$.failure_attribution_labels").str.json_decode(pl.List(pl.String))
    out = own.with_columns(
        labels=pl.concat_list(pl.col("failure_labels").fill_null([]), attributed.fill_null([])),
        attempt_uncounted=_uncounted(spec["attempt_flags"]),
    )
    texts = [_stored(c, own) for c in columns]
    told = [pl.when((t != "") & ~t.str.to_lowercase().is_in(nothing)).then(t) for t in texts]
    item = pl.element()
    label = pl.col("labels").list.eval(item.filter((item != "") & ~item.str.to_lowercase().is_in(nothing))).list.first()
    out = out.with_columns(effective_failure_class=pl.coalesce(*told, label))
    out = out.with_columns(
        effective_class=pl.col("effective_failure_class").str.to_lowercase(),
        labels=pl.col("labels").list.eval(pl.element().str.to_lowercase()),
    )
    signal = compile_when({"any": spec["setup_signal"]["any"]}, out.schema, "aggregate/setup_signal")
    out = out.with_columns(setup_signal=signal)
    bucket, rule = compile_rules(RuleSet("aggregate", tuple(spec["rules"])), out.schema)
    return out.with_columns(bucket.alias("bucket"), rule.alias("bucket_rule"))


def _stored(column: str, runs: pl.DataFrame) -> pl.Expr:
    return pl.col(column) if column in runs.columns else pl.col("extra").str.json_path_match(f"$.{column}")


def _uncounted(spec: Mapping[str, Any]) -> pl.Expr:
    """True where some attempt is said not to count, by the run or by its accounting."""
    own = [pl.col(c).eq_missing(other=False) for c in spec["columns"]]
    nested = [
        pl.col("extra").str.json_path_match(f"$.{spec['nested']}.{c}").eq_missing(pl.lit("false"))
        for c in spec["columns"]
    ]
    return functools.reduce(operator.or_, own + nested)


def _lane(lane: Lane, spec: Mapping[str, Any]) -> pl.Expr:
    """Where a run stands in the lane; null when it has no part in it."""
    if not lane.enabled:
        return pl.lit(None, dtype=pl.String).alias("lane")
    text = pl.concat_str(
        [pl.col(c).fill_null("") for c in ("run_group_id", "run_id", "job_name")], separator=" "
    ).str.to_lowercase()
    side = (
        pl.when(_holds(text, lane.current)).then(pl.lit("current"))
        .when(_holds(text, lane.backfill)).then(pl.lit("backfill"))
        .when(_holds(text, lane.target)).then(pl.lit("current"))
    )  # fmt: skip
    counts = pl.when(pl.col("bucket").is_in(spec["buckets"]["accepted"])).then(pl.lit("countable"))
    return pl.concat_str([side, counts.otherwise(pl.lit("noncountable"))], separator="_").alias("lane")


def _holds(text: pl.Expr, parts: Iterable[str]) -> pl.Expr:
    return functools.reduce(
        operator.or_, [text.str.contains(p.lower(), literal=True) for p in parts], pl.lit(value=False)
    )


def _noncanonical(own: pl.DataFrame, spec: Mapping[str, Any]) -> list[str]:
    """Cases whose every run proves that its source is not canonical."""
    rule = spec["noncanonical"]
    facts = own.select(
        "filed_case",
        "official_score",
        *(pl.col(rule["column"]).str.json_path_match(f"$.{p}").alias(n) for n, p in rule["paths"].items()),
    )
    proven = compile_when(rule["when"], facts.schema, "aggregate/noncanonical")
    cases = facts.group_by("filed_case", maintain_order=True).agg(proven.all().alias("proven"))
    return cases.filter("proven").get_column("filed_case").to_list()
