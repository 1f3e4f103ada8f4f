"""What is derived is never the stored truth: the columns of stored runs that rules give, made again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from expcomp.ledger.ancestor import judged
from expcomp.ledger.arms import case_from_job, roles_by_name, with_arm
from expcomp.ledger.artifacts import references
from expcomp.ledger.derive import STORED, derive
from expcomp.ledger.facts import facts
from expcomp.ledger.repair import repair_columns
from expcomp.tables.ledger import RUNS

if TYPE_CHECKING:
    from expcomp.ledger.pack import Pack

_ARCHIVE = {"archive_state": 80, "archive_reason": 220, "archive_batch_id": 120, "archived_at": 80}


def recompute(frame: pl.DataFrame, pack: Pack) -> pl.DataFrame:
    """Stored runs with what the rules of a profile derive from them; the same rows in the same order."""
    return _again(frame, pack) if pack.settings.get("compatible") else _derived(frame, pack)


def _derived(frame: pl.DataFrame, pack: Pack) -> pl.DataFrame:
    found = derive(frame.with_columns(**STORED), pack)
    return found.with_columns(_archive()).select(pl.col(c).cast(d) for c, d in RUNS.schema.items())


def _again(frame: pl.DataFrame, pack: Pack) -> pl.DataFrame:
    """As the ancestor has them on loading: case, arm, roles, repair, verdict, live phase, references, archive."""
    found = facts(frame, pack.fields["stored"])
    settings = pack.settings
    benchmark = pl.coalesce(pl.when(frame["benchmark_id"] != "").then(frame["benchmark_id"]), frame["filed_benchmark"])
    found = with_arm(found, pack)
    seen = pl.any_horizontal(pl.col(c).fill_null(value=False) for c in ("s_success", "s_best", "s_final"))
    repairs = repair_columns(
        found.with_columns(
            round_succeeded=seen | pl.col("s_first").is_not_null(),
            preflight_passed=pl.col("preflight_passed").fill_null(value=False),
        ),
        pack,
    )
    refs, _ = references(facts(frame, pack.fields["references"]), None, pack.section("artifacts"))
    roles = found.select(**roles_by_name(settings["roles"], ("contract_route", "contract_protocol")))
    case = pl.col("case_id")
    spec = settings["case_from_job"]
    unsure = case.fill_null("").is_in(["", settings["default_case"]]) | case.str.starts_with(spec["prefix"])
    parsed = case_from_job(pl.col("benchmark_id"), pl.col("job_name"), spec)
    runs = frame.with_columns(benchmark_id=benchmark).with_columns(
        case_id=pl.when(unsure).then(pl.coalesce(parsed, "case_id")).otherwise("case_id"),
        arm_id=found["arm_id"],
        arm_rule=found["arm_rule"],
        benchmark_live_worker_phase=found["live"],
        artifact_refs=refs,
    )
    runs = runs.with_columns(*repairs.get_columns(), *roles.get_columns(), *_archive())
    return judged(runs, pack)


def _archive() -> list[pl.Expr]:
    archived = pl.col("archive_state") == "archived"
    return [pl.when(archived).then(_cut(pl.col(c), n)).alias(c) for c, n in _ARCHIVE.items()]


def _cut(text: pl.Expr, limit: int) -> pl.Expr:
    line = text.str.replace_all(r"\s+", " ").str.strip_chars()
    short = pl.concat_str(line.str.head(limit - 3), pl.lit("..."))
    return pl.when(line.str.len_chars() > limit).then(short).when(line != "").then(line)
