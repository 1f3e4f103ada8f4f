"""What is decided over a whole load, after every file was read: options, scales, trial numbers, copies, links.

Readers see one file, or a few; these rules need all attempts. They read narrow columns of the small tables, and give the large ones two
lists of keys, so that a load that does not fit in memory is finished without holding it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from expcomp.sources._columns import frame_of
from expcomp.sources.copies import CALLS, RESUMED
from expcomp.sources.deciding import CHANGED, KEYS, Decided, decide
from expcomp.sources.swe.join import join_reports
from expcomp.tables.core import ATTEMPTS, TASKS

if TYPE_CHECKING:
    from expcomp.sources._contract import Frames, ReadOptions

_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True)
class Settled:
    """The small tables as they are to be, and what that means for the large ones.

    Attributes:
        attempts: All attempts that stay.
        tasks: All tasks, each once.
        decided: What was decided.
    """

    attempts: pl.DataFrame
    tasks: pl.DataFrame
    decided: Decided


def settle(
    attempts: pl.DataFrame,
    tasks: pl.DataFrame,
    calls: pl.DataFrame,
    options: ReadOptions,
    doubtful: pl.DataFrame | None = None,
) -> Settled:
    """Finish the attempts and tasks of a load; the arguments are those of `decide`, and all tasks that were told of, in their order."""
    decided = decide(attempts.select(KEYS), calls, options, doubtful)
    attempts = settled_attempts(attempts, decided.keys, options)
    return Settled(attempts, settled_tasks(tasks, attempts["task_id"], options), decided)


def settle_frames(frames: Frames, options: ReadOptions, doubtful: pl.DataFrame | None = None) -> Frames:
    """Finish a load that is in memory, or a part of it that holds all attempts at its tasks (see `decide`)."""
    frames = join_reports(frames)
    resumed = frames["attempts"].filter(pl.col("source_format").is_in(RESUMED))["attempt_id"]
    calls = frames["steps"].filter(pl.col("attempt_id").is_in(resumed.implode())).select(CALLS)
    settled = settle(frames["attempts"], frames["tasks"], calls, options, doubtful)
    out = dict(frames)
    for name in ("steps", "messages", "grades", "artifacts"):
        out[name] = settled_table(name, frames[name].lazy(), settled.decided).collect()
    out["attempts"], out["tasks"] = settled.attempts, settled.tasks
    out["diagnostics"] = told_once(pl.concat([frames["diagnostics"], settled.decided.diagnostics]))
    return out


def told_once(diagnostics: pl.DataFrame) -> pl.DataFrame:
    """The lines without those about a whole file that another part of it gave already."""
    whole = pl.col("attempt_id").is_null() & pl.col("source_pos").is_null() & pl.col("byte_offset").is_null()
    again = whole & pl.col("source_uri").is_not_null() & ~pl.struct(pl.all()).is_first_distinct()
    return diagnostics.filter(~again)


def settled_table(name: str, frame: pl.LazyFrame, decided: Decided) -> pl.LazyFrame:
    """A large table without the rows of dropped attempts; copied steps are marked."""
    if len(decided.dropped):
        # A dropped attempt has the id of the one that stays: the rows of the first are kept, by their own keys.
        keys = {"steps": ["attempt_id", "step_index"], "messages": ["attempt_id", "message_index"]}.get(name, pl.all())
        again = pl.col("attempt_id").is_in(decided.dropped.unique().implode())
        frame = frame.filter(~again | pl.struct(keys).is_first_distinct())
    if name == "steps" and decided.copied.height:
        marks = decided.copied.lazy().with_columns(_copied=pl.lit(value=True))
        frame = (
            frame.join(marks, on=["attempt_id", "step_index"], how="left", maintain_order="left")
            .with_columns(
                is_copied_context=pl.col("is_copied_context") | pl.col("_copied").fill_null(value=False),
                trainable=pl.col("trainable") & pl.col("_copied").is_null(),
            )
            .drop("_copied")
        )
    return frame


def settled_attempts(attempts: pl.DataFrame, keys: pl.DataFrame, options: ReadOptions) -> pl.DataFrame:
    """Attempts, or a part of them, finished; `keys`: their rows of `Decided.keys`."""
    finished = attempts.with_columns(keys[name] for name in CHANGED)
    if not keys["kept"].all():
        finished = finished.filter(keys["kept"])
    return _scaled(_texts(finished, options), options).select(list(ATTEMPTS.columns))


def _texts(attempts: pl.DataFrame, options: ReadOptions) -> pl.DataFrame:
    """Tools and system prompt that the user supplies, where the file has none."""
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


def merged_tasks(tasks: pl.DataFrame) -> pl.DataFrame:
    """Each task once, with what any file says of it, the first that says it."""
    if not tasks["task_id"].is_duplicated().any():
        return tasks
    names = [n for n in TASKS.columns if n != "task_id"]
    return (
        tasks.group_by("task_id", maintain_order=True)
        .agg(pl.col(names).drop_nulls().first())
        .select(list(TASKS.columns))
    )


def settled_tasks(tasks: pl.DataFrame, of_attempts: pl.Series, options: ReadOptions) -> pl.DataFrame:
    """Each task once; a task that the user names has a row too."""
    tasks = merged_tasks(tasks)
    if options.task_id is not None and options.task_id in of_attempts and options.task_id not in tasks["task_id"]:
        row = {"task_id": options.task_id, "native_id": options.task_id}
        tasks = pl.concat([tasks, frame_of([row], TASKS.schema)])
    return tasks
