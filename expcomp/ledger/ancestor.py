"""Entries of records as the ancestor makes them: one row for each record, everything but the reading as expressions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.ledger.arms import case_from_job, roles_by_name, with_arm
from expcomp.ledger.artifacts import references
from expcomp.ledger.build import apply, short_digests
from expcomp.ledger.facts import facts
from expcomp.ledger.quality import with_quality
from expcomp.ledger.repair import repair_columns
from expcomp.ledger.rounds import round_columns
from expcomp.ledger.verdict import countability, with_fallback
from expcomp.tables.ledger import RUNS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from expcomp.ledger.pack import Pack

_ACCOUNTING = {
    "attempt_lifecycle_phase": "marker_phase",
    "attempt_failure_label": "marker_attempt_label",
    "attempt_failure_class": "marker_attempt_class",
    "launcher_attempt_countable": "marker_launcher",
    "solver_attempt_countable": "marker_solver",
    "verifier_attempt_countable": "marker_verifier",
    "official_score_attempt_countable": "marker_scored",
}
_POST_LAUNCH = {
    "post_launch_first_blocker": "first_blocker",
    "compact_monitor_class": "monitor_class",
    "job_active_without_trial_result": "job_active",
    "job_stale_active_without_trial_result": "job_stale",
    "stale_active_reconcile_requested": "reconcile",
    "compact_failure_evidence_kind": "marker_evidence",
    "ledger_attempt_kind": "marker_kind",
    "terminal_closeout": "marker_closeout",
    "benchmark_budget_countable": "marker_budget",
}


def ancestor_entries(
    records: Sequence[Mapping[str, Any]], options: Sequence[Mapping[str, Any]], pack: Pack, *, now: str | None
) -> pl.DataFrame:
    """Entries in the columns of the table of runs; `now` is the date of those whose options give none."""
    frame = pack.both("record", "verdict").frame(records).hstack(pack.fields["option"].frame(options))
    frame = _identity(frame, pack)
    frame = _scores(frame, pack)
    frame = _failure(frame, pack)
    frame = _copied(frame, pack)
    return _verdicts(frame.with_columns(recorded_at=pl.coalesce("given_time", pl.lit(now))), pack)


def _identity(frame: pl.DataFrame, pack: Pack) -> pl.DataFrame:
    settings, lists = pack.settings, pack.section("artifacts")
    post = (pl.col("schema") == settings["post_launch_schema"]).fill_null(value=False)
    frame = frame.with_columns(post_launch=post)
    default = pl.when("post_launch").then(pl.lit(settings["post_launch_benchmark"]))
    frame = frame.with_columns(
        benchmark_id=pl.coalesce("given_benchmark", default, pl.lit(settings["default_benchmark"]))
    )
    parsed = case_from_job(pl.col("benchmark_id"), pl.col("job_name"), settings["case_from_job"])
    single = pl.coalesce(parsed, "job_name", pl.lit(settings["default_case"]))
    listed = pl.concat_list(pl.concat_list("given_case"), pl.col("given_cases").fill_null([]))
    cases = (
        pl.when(pl.col("given_case").is_not_null())
        .then(listed.list.unique(maintain_order=True))
        .otherwise(pl.coalesce("given_cases", "trial_cases", pl.concat_list(single)))
    )
    frame = frame.with_columns(case_ids=cases).with_columns(case_id=pl.col("case_ids").list.first())
    frame = with_arm(frame, pack)
    group = pl.coalesce("given_group", "job_name")
    parts = ("benchmark_id", "case_id", "arm_id")
    shown, own = references(frame, frame["cwd"], lists)
    text = pl.concat_str(
        *parts,
        group.fill_null(""),
        pl.col("job_name").fill_null(""),
        own,
        separator="|",
    )
    frame = frame.with_columns(text.alias("_identity"), shown.alias("artifact_refs"))
    frame = frame.with_columns(short_digests(frame["_identity"], 12).alias("run_id"))
    return frame.with_columns(run_group_id=pl.coalesce(group, "run_id"))


def _scores(frame: pl.DataFrame, pack: Pack) -> pl.DataFrame:
    frame = with_fallback(frame, pack)
    known = pl.coalesce("task_value", "given_score")
    frame = frame.with_columns(number_score=known, score=pl.coalesce(known, "fallback_value"))
    frame = frame.with_columns(
        official_score="score",
        official_score_bool_fallback_used=pl.col("raw_score").is_null()
        & pl.col("score").is_not_null()
        & pl.col("nested_passed").is_not_null(),
    )
    frame = apply(frame, pack, "passed", "passed")
    frame = apply(frame, pack, "score_status", "score_status")
    frame = apply(frame, pack, "status", "status")
    return frame.with_columns(official_passed="passed", source_event_schema="schema")


def _failure(frame: pl.DataFrame, pack: Pack) -> pl.DataFrame:
    settings = pack.settings
    blockers = [pl.col(c) for c in ("setup_blockers_all", "startup_blockers_all")]
    setup, startup = (b.list.eval(pl.element().filter(~pl.element().is_in(settings["no_blocker"]))) for b in blockers)
    lowered = pl.col("exceptions").list.eval(pl.element().str.to_lowercase())
    counts = ("mismatch", "ambiguous", "eligible", "writeback", "startup", "environment", "agent_setup")
    kept = pl.coalesce(*blockers).list.head(settings["blockers_kept"])
    frame = frame.with_columns(
        setup_list=setup,
        startup_list=startup,
        labels="all_labels",
        exceptions=lowered.list.eval(pl.element().filter(pl.element() != "none")),
        bridge_trouble=pl.sum_horizontal(pl.col(f"count_{c}").fill_null(0).abs() for c in counts),
        failure_labels=pl.col("all_labels").list.head(settings["labels_kept"]),
        setup_blockers=kept,
        codex_acp_runtime_preflight_passed=pl.col("preflight_true").fill_null(value=False)
        | (pl.col("preflight_status") == "passed").fill_null(value=False),
    )
    frame = apply(frame, pack, "failure_class", "failure_class", "failure_rule")
    return apply(frame, pack, "failure_scope", "failure_scope", "scope_rule")


def _copied(frame: pl.DataFrame, pack: Pack) -> pl.DataFrame:
    settings = pack.settings
    frame = frame.hstack(round_columns(frame))
    semantics = settings["semantics"]
    contract = (pl.col("route") == semantics["contract_route"]).fill_null(value=False) | pl.col(
        "contract_required"
    ).fill_null(value=False)
    frame = frame.with_columns(
        app_server_goal_round_semantics=pl.coalesce("own_semantics", pl.when(contract).then("contract_semantics"))
    )
    word = pl.col("app_server_goal_round_semantics").str.json_path_match
    some = pl.col("round_reward_count") > 0
    frame = frame.with_columns(
        *(_typed(word(f"$.{k}"), c) for c, k in semantics["columns"].items()),
        max_rounds_budget=pl.coalesce("trace_budget", word(f"$.{semantics['budget']}").cast(pl.Int64)),
        loop_score_policy=pl.coalesce("trace_loop_policy", pl.when(some).then(pl.lit(settings["loop_score_policy"]))),
        official_score_policy=pl.coalesce(
            "trace_score_policy", pl.when(some).then(pl.lit(settings["official_score_policy"]))
        ),
        model_warning_labels=pl.coalesce("model_warnings", "runner_warnings"),
        notes="given_notes",
    )
    return _accounting(with_quality(frame, pack))


def _typed(text: pl.Expr, column: str) -> pl.Expr:
    dtype = RUNS.columns[column].dtype
    if dtype == pl.Boolean():
        return pl.when(text == "true").then(True).when(text == "false").then(False).alias(column)
    return text.cast(dtype).alias(column)


def _accounting(frame: pl.DataFrame) -> pl.DataFrame:
    post = pl.col("post_launch")
    marked = post & pl.col("accounting").is_null()
    frame = frame.with_columns(
        *(pl.when(marked).then(m).otherwise(c).alias(c) for c, m in _ACCOUNTING.items()),
        *(pl.when(post).then(c).alias(name) for name, c in _POST_LAUNCH.items()),
        case_attempt_countable=pl.when(post).then("marker_case").otherwise("case_attempt_countable"),
    )
    return frame.with_columns(
        official_score_attempt_countable=pl.when(
            "official_score_bool_fallback_used", pl.col("official_score_attempt_countable").is_not_null()
        )
        .then(True)
        .otherwise("official_score_attempt_countable")
    )


def _verdicts(frame: pl.DataFrame, pack: Pack) -> pl.DataFrame:
    repairs = repair_columns(
        frame.with_columns(
            round_succeeded="round_success_observed", preflight_passed="codex_acp_runtime_preflight_passed"
        ),
        pack,
    )
    frame = frame.with_columns(repairs.get_columns())
    spec = pack.settings["roles"]
    frame = frame.with_columns(**roles_by_name(spec))
    frame = frame.with_columns(
        run_key="run_id", filed_benchmark="benchmark_id", filed_case="case_id", profile=pl.lit(pack.profile)
    )
    return judged(in_table(frame), pack)


def in_table(frame: pl.DataFrame) -> pl.DataFrame:
    """The columns of the table of runs, those the frame lacks as null."""
    return frame.select(
        (pl.col(c) if c in frame.columns else pl.lit(None)).cast(d).alias(c) for c, d in RUNS.schema.items()
    )


def judged(runs: pl.DataFrame, pack: Pack) -> pl.DataFrame:
    """Runs with the verdict on their score made again."""
    found = countability(facts(runs, pack.fields["verdict"]), pack)
    return runs.with_columns(
        found["countable"].alias("official_score_countable"),
        found["reason"].alias("official_score_countability_reason"),
        pl.when(found["countable"]).then(found["score"]).alias("countable_score"),
        found["rule"].alias("countability_rule"),
    )
