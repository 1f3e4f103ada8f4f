"""What is decided over a whole load, after every file was read: options, scales, trial numbers, copies, links.

Readers see one file, or a few; these rules need all attempts. They are expressions over the small tables, and give the large ones two
lists of keys, so that a load that does not fit in memory is finished without holding it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from expcomp.sources._columns import frame_of
from expcomp.sources._dialogue import USAGE
from expcomp.sources.swe.join import join_reports
from expcomp.tables import vocab as v
from expcomp.tables.core import ATTEMPTS, TASKS

if TYPE_CHECKING:
    from expcomp.sources._contract import Frames, ReadOptions

NAMED = frozenset(
    "openai_chat openai_responses anthropic_messages sharegpt hf_trajectories otel openinference langfuse langsmith mlflow".split()
)
"""Formats whose readers take the options arm, task_id and trial themselves, as names of a column, attribute or tag."""

RUN_IS_TRIAL = frozenset({"swe_agent", "mini_swe_agent", "swe_bench_report"})
"""Formats that hold one attempt at a task a run: their trials are counted over the runs of an arm."""

OWN_TRIALS = frozenset({"packages", "tau_bench"})
"""Formats whose readers number trials, and report doubles, themselves."""

RESUMED = frozenset({"claude_code"})
"""Formats that copy history into a new file under the ids of the old model calls (R4)."""

CALLS = ("attempt_id", "step_index", "llm_call_id", "source", "is_copied_context", "tool_calls", *USAGE)
"""Columns of steps by which copies are found and sums are taken again."""

_TOLERANCE = 1e-6
_DEEPEST = 32


@dataclass(frozen=True, slots=True)
class Settled:
    """The small tables as they are to be, and what that means for the large ones.

    Attributes:
        attempts: All attempts that stay.
        tasks: All tasks, each once.
        diagnostics: Lines that were added.
        dropped: Attempts of which a copy is loaded already.
        copied: Steps (attempt_id, step_index) that repeat a model call of an earlier attempt.
    """

    attempts: pl.DataFrame
    tasks: pl.DataFrame
    diagnostics: pl.DataFrame
    dropped: pl.Series
    copied: pl.DataFrame


def settle(attempts: pl.DataFrame, tasks: pl.DataFrame, calls: pl.DataFrame, options: ReadOptions) -> Settled:
    """Finish the attempts and tasks of a load.

    Args:
        attempts: All attempts, in the order of the load.
        tasks: All tasks that were told of, in that order.
        calls: `CALLS` of all steps of the formats in `RESUMED`.
        options: What the user supplies.
    """
    told: list[pl.DataFrame] = []
    attempts, dropped = _once(attempts, told)
    attempts = _supplied(attempts, options)
    attempts = _scaled(attempts, options)
    attempts = _linked(attempts, told)
    attempts = _numbered(attempts, told)
    told.append(_duplicate_tasks(attempts))
    copied = _copies(attempts, calls)
    attempts = _without_copies(attempts, calls, copied, told)
    return Settled(
        attempts.select(list(ATTEMPTS.columns)), _tasks(tasks, attempts, options), pl.concat(told), dropped, copied
    )


def settle_frames(frames: Frames, options: ReadOptions) -> Frames:
    """Finish a load that is in memory."""
    frames = join_reports(frames)
    resumed = frames["attempts"].filter(pl.col("source_format").is_in(RESUMED))["attempt_id"]
    calls = frames["steps"].filter(pl.col("attempt_id").is_in(resumed.implode())).select(CALLS)
    settled = settle(frames["attempts"], frames["tasks"], calls, options)
    out = dict(frames)
    for name in ("steps", "messages", "grades", "artifacts"):
        out[name] = settled_table(name, frames[name].lazy(), settled).collect()
    out["attempts"], out["tasks"] = settled.attempts, settled.tasks
    out["diagnostics"] = pl.concat([frames["diagnostics"], settled.diagnostics])
    return out


def settled_table(name: str, frame: pl.LazyFrame, settled: Settled) -> pl.LazyFrame:
    """A large table without the rows of dropped attempts; copied steps are marked."""
    if len(settled.dropped):
        # A dropped attempt has the id of the one that stays: the rows of the first are kept, by their own keys.
        keys = {"steps": ["attempt_id", "step_index"], "messages": ["attempt_id", "message_index"]}.get(name)
        again = pl.col("attempt_id").is_in(settled.dropped.unique().implode())
        frame = (
            frame.filter(~again | pl.struct(keys).is_first_distinct())
            if keys
            else frame.filter(~again | pl.struct(pl.all()).is_first_distinct())
        )
    if name == "steps" and settled.copied.height:
        marks = settled.copied.lazy().with_columns(_copied=pl.lit(value=True))
        frame = (
            frame.join(marks, on=["attempt_id", "step_index"], how="left", maintain_order="left")
            .with_columns(
                is_copied_context=pl.col("is_copied_context") | pl.col("_copied").fill_null(value=False),
                trainable=pl.col("trainable") & pl.col("_copied").is_null(),
            )
            .drop("_copied")
        )
    return frame


# -- one thing each --------------------------------------------------------------------------------------------------------


def _lines(
    frame: pl.DataFrame, code: str, detail: pl.Expr, *, field: str | None = None, severity: str = "warning"
) -> pl.DataFrame:
    """A line of the load report for each row of attempts."""
    wanted = {
        "package_id": pl.col("package_id"),
        "source_uri": pl.col("source_uri"),
        "source_pos": pl.col("source_pos"),
        "byte_offset": pl.lit(None, dtype=pl.Int64),
        "attempt_id": pl.col("attempt_id"),
        "field": pl.lit(field, dtype=pl.String),
        "code": pl.lit(code),
        "severity": pl.lit(severity, dtype=v.SEVERITY),
        "detail": detail,
    }
    return frame.select(**wanted)


def _duplicate_tasks(attempts: pl.DataFrame) -> pl.DataFrame:
    """One diagnostics line for each package that holds a task an earlier package of the load holds too."""
    own = (
        attempts.filter(pl.col("source_format") == "packages")
        .select("task_id", "package_id")
        .unique(maintain_order=True)
    )
    first = pl.col("package_id").first().over("task_id")
    twins = own.with_columns(
        first=first,
        source_uri="package_id",
        source_pos=pl.lit(None, dtype=pl.Int64),
        attempt_id=pl.lit(None, dtype=pl.String),
    ).filter(pl.col("package_id") != pl.col("first"))
    detail = pl.format(
        "{}: holds task {}, as package {} does; rows of both are kept, statistics count both",
        "package_id",
        "task_id",
        "first",
    )
    return _lines(twins, "duplicate_task", detail, field="task_id")


def _once(attempts: pl.DataFrame, told: list[pl.DataFrame]) -> tuple[pl.DataFrame, pl.Series]:
    again = ~pl.col("attempt_id").is_first_distinct()
    twins = attempts.filter(again)
    if twins.height:
        detail = pl.format("attempt {} is in this load already; this copy was left out", "native_attempt_id")
        told.append(_lines(twins, "duplicate_attempt", detail.fill_null("is in this load already; left out")))
        attempts = attempts.filter(~again)
    return attempts, twins["attempt_id"]


def _supplied(attempts: pl.DataFrame, options: ReadOptions) -> pl.DataFrame:
    """What the user supplies, where the file has nothing; an arm that is given is the arm of all."""
    own = ~pl.col("source_format").is_in(NAMED)
    if options.arm is not None:
        attempts = attempts.with_columns(arm=pl.when(own).then(pl.lit(options.arm)).otherwise("arm"))
    if options.task_id is not None:
        task = pl.when(own & pl.col("task_id").is_null()).then(pl.lit(options.task_id)).otherwise("task_id")
        attempts = attempts.with_columns(task_id=task)
    if options.trial is not None and str(options.trial).isdecimal():
        given = own & pl.col("trial").is_null()
        attempts = attempts.with_columns(
            trial=pl.when(given).then(pl.lit(int(options.trial), dtype=pl.Int32)).otherwise("trial"),
            trial_source=pl.when(given).then(pl.lit("native", dtype=v.TRIAL_SOURCE)).otherwise("trial_source"),
        )
    for name, value, flag in (
        ("tools", options.tools, "has_tools"),
        ("system_prompt", options.system, "has_system_prompt"),
    ):
        if value is not None:
            bare = ~pl.col(flag) | (
                pl.col(name).is_null() & (pl.col("task_id").is_null() if name == "tools" else False)
            )
            attempts = attempts.with_columns(
                pl.when(bare).then(pl.lit(value)).otherwise(name).alias(name), pl.lit(value=True).alias(flag)
            )
    return attempts


def _scaled(attempts: pl.DataFrame, options: ReadOptions) -> pl.DataFrame:
    """Scales and thresholds that the user gives for scores on which the source says nothing (R10)."""
    if not options.rules.scores and options.score_scale is None:
        return attempts
    dataset = pl.col("task_id").str.split("/").list.first()
    keys = [pl.concat_str("source_format", pl.lit("/"), dataset), pl.col("source_format").cast(pl.String)]
    low, high, passes = (
        pl.coalesce(
            *(
                k.replace_strict(
                    {n: getattr(s, part) for n, s in options.rules.scores.items()},
                    default=None,
                    return_dtype=pl.Float64,
                )
                for k in keys
            ),
            pl.lit(fallback, dtype=pl.Float64),
        )
        for part, fallback in zip(
            ("low", "high", "passes"), (*(options.score_scale or (None, None)), None), strict=True
        )
    )
    open_ = pl.col("score").is_not_null() & pl.col("score_valid").fill_null(value=True) & pl.col("score_min").is_null()
    with_scale = attempts.with_columns(_low=low, _high=high, _passes=passes, _open=open_)
    scale = pl.col("_open") & pl.col("_low").is_not_null() & pl.col("_high").is_not_null()
    inside = pl.col("score").is_between(pl.col("_low") - _TOLERANCE, pl.col("_high") + _TOLERANCE)
    norm = ((pl.col("score") - pl.col("_low")) / (pl.col("_high") - pl.col("_low"))).clip(0.0, 1.0)
    judged = pl.col("_open") & pl.col("_passes").is_not_null() & pl.col("passed").is_null()
    return with_scale.with_columns(
        score_min=pl.when(scale).then("_low").otherwise("score_min"),
        score_max=pl.when(scale).then("_high").otherwise("score_max"),
        score_norm=pl.when(scale & inside).then(norm).otherwise("score_norm"),
        score_valid=pl.when(scale & ~inside).then(pl.lit(value=False)).otherwise("score_valid"),
        score_issue=pl.when(scale & ~inside).then(pl.lit("score_out_of_scale")).otherwise("score_issue"),
        passed=pl.when(judged & (inside | ~scale))
        .then(pl.col("score") >= pl.col("_passes") - _TOLERANCE)
        .otherwise("passed"),
    ).drop("_low", "_high", "_passes", "_open")


def _linked(attempts: pl.DataFrame, told: list[pl.DataFrame]) -> pl.DataFrame:
    """Parents that are not in the load are none; the root of a chain is the last parent that is."""
    known = pl.col("attempt_id").implode()
    lost = attempts.filter(pl.col("parent_attempt_id").is_not_null() & ~pl.col("parent_attempt_id").is_in(known))
    if lost.height:
        detail = pl.lit("the attempt that started this one is not in the load; it stands alone")
        told.append(_lines(lost, "parent_not_loaded", detail, field="parent_attempt_id", severity="info"))
        gone = pl.col("parent_attempt_id").is_in(known)
        attempts = attempts.with_columns(parent_attempt_id=pl.when(gone).then("parent_attempt_id"))
    above = attempts.select("attempt_id", up=pl.coalesce("parent_attempt_id", "attempt_id"))
    root = above["up"]
    for _ in range(_DEEPEST):
        higher = root.replace(above["attempt_id"], above["up"])
        if higher.equals(root):
            break
        root = higher
    return attempts.with_columns(root.alias("root_attempt_id"))


def _numbered(attempts: pl.DataFrame, told: list[pl.DataFrame]) -> pl.DataFrame:
    """Trials of the attempts at a task: the source's number where it is one, else the order of start, else of position (R11, R12)."""
    per_run = ~pl.col("source_format").is_in(RUN_IS_TRIAL)
    ours = ~pl.col("source_format").is_in(OWN_TRIALS) & pl.col("task_id").is_not_null() & (pl.col("relation") == "root")
    # Trajectories and bare verdicts of one arm are attempts at the same tasks, whatever files they come from.
    kin = pl.when(per_run).then(pl.col("source_format").cast(pl.String)).otherwise(pl.lit("swe"))
    rows = attempts.with_row_index("_row").with_columns(
        pl.when(per_run).then("run_id").alias("_run"), _kin=kin, _ours=ours
    )
    group = ["_kin", "_run", "arm", "task_id"]
    native = pl.col("_ours") & (pl.col("trial_source") == "native") & pl.col("trial").is_not_null()
    rows = rows.with_columns(_twice=native & (pl.len().over([*group, "trial"]) > 1))
    doubles = rows.filter("_twice")
    if doubles.height:
        detail = pl.format(
            "task {} has trial {} more than once in run {}; its attempts are numbered by order",
            pl.col("task_id"),
            pl.col("trial"),
            pl.col("run_id").fill_null("(unnamed)"),
        )
        told.append(_lines(doubles, "duplicate_trial", detail, field="trial"))
    open_ = pl.col("_ours") & (pl.col("trial").is_null() | pl.col("_twice").any().over(group))
    todo = rows.filter(open_)
    if todo.is_empty():
        return attempts
    timed = pl.col("started_at").is_not_null().all().over(group)
    order = todo.with_columns(_timed=timed).sort(
        [*group, pl.when("_timed").then("started_at"), "run_id", "source_uri", "source_pos", "_row"], nulls_last=True
    )
    numbers = order.select(
        "_row",
        _trial=pl.int_range(pl.len(), dtype=pl.Int32).over(group),
        _source=pl.when("_timed").then(pl.lit("ordered")).otherwise(pl.lit("unknown")).cast(v.TRIAL_SOURCE),
    )
    return (
        rows.join(numbers, on="_row", how="left", maintain_order="left")
        .with_columns(trial=pl.coalesce("_trial", "trial"), trial_source=pl.coalesce("_source", "trial_source"))
        .drop("_row", "_run", "_kin", "_ours", "_twice", "_trial", "_source")
    )


def _copies(attempts: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Steps whose model call an earlier attempt holds already; earlier is what began first, then what ended first: a copy keeps the old
    times and goes on from there. Then the path decides.
    """
    known = calls.filter(pl.col("llm_call_id").is_not_null())
    if known.is_empty():
        return known.select("attempt_id", "step_index")
    order = attempts.select(
        "attempt_id",
        _order=pl.struct("started_at", "ended_at", "source_uri").rank("ordinal"),
        _home=_folder("package_id"),
    )
    return (
        known.join(order, on="attempt_id", how="inner", maintain_order="left")
        .with_columns(_first=pl.col("_order").min().over("_home", "llm_call_id"))
        .filter(pl.col("_order") > pl.col("_first"))
        .select("attempt_id", "step_index")
    )


def _folder(column: str) -> pl.Expr:
    """The folder of an id that is a path: the project."""
    return pl.col(column).str.extract(r"^(.*)/", 1).fill_null("")


def _without_copies(
    attempts: pl.DataFrame, calls: pl.DataFrame, copied: pl.DataFrame, told: list[pl.DataFrame]
) -> pl.DataFrame:
    """Attempts that repeat model calls are continuations; what they used and did is counted without the copies (R3)."""
    if copied.is_empty():
        return attempts
    repeated = copied.group_by("attempt_id", maintain_order=True).len("_copied")
    own = (
        calls.join(copied, on=["attempt_id", "step_index"], how="anti", maintain_order="left")
        .filter(~pl.col("is_copied_context").fill_null(value=False) & (pl.col("source") == "agent"))
        .group_by("attempt_id", maintain_order=True)
        .agg(
            pl.len().cast(pl.Int32).alias("n_steps"),
            pl.col("tool_calls").list.len().sum().cast(pl.Int32).alias("n_tool_calls"),
            *(pl.when(pl.col(n).is_not_null().any()).then(pl.col(n).sum()).alias(n) for n in USAGE),
        )
    )
    counted = ["n_steps", "n_tool_calls", *USAGE]
    joined = attempts.join(repeated, on="attempt_id", how="left", maintain_order="left").join(
        own, on="attempt_id", how="left", maintain_order="left", suffix="_own"
    )
    again = pl.col("_copied").is_not_null()
    detail = pl.format("{} model calls are copies of an earlier session's; marked as copied context", "_copied")
    told.append(_lines(joined.filter(again), "copied_history", detail, severity="info"))
    return joined.with_columns(
        *(
            pl.when(again)
            .then(pl.col(f"{n}_own").fill_null(0) if n.startswith("n_") else f"{n}_own")
            .otherwise(n)
            .alias(n)
            for n in counted
        ),
        relation=pl.when(again & (pl.col("relation") == "root"))
        .then(pl.lit("continuation", dtype=v.RELATION))
        .otherwise("relation"),
    ).drop("_copied", *(f"{n}_own" for n in counted))


def _tasks(tasks: pl.DataFrame, attempts: pl.DataFrame, options: ReadOptions) -> pl.DataFrame:
    """Each task once, with what any file says of it; a task that the user names has a row too."""
    names = [n for n in TASKS.columns if n != "task_id"]
    if tasks["task_id"].is_duplicated().any():
        tasks = (
            tasks.group_by("task_id", maintain_order=True)
            .agg(pl.col(names).drop_nulls().first())
            .select(list(TASKS.columns))
        )
    if options.task_id is not None:
        missing = options.task_id in attempts["task_id"] and options.task_id not in tasks["task_id"]
        if missing:
            row = {"task_id": options.task_id, "native_id": options.task_id}
            tasks = pl.concat([tasks, frame_of([row], TASKS.schema)])
    return tasks
