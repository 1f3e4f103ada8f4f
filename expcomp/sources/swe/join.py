"""Verdicts of SWE-bench reports, handed on to the trajectories of the same load.

Trajectory, prediction and verdict of one attempt lie in three files. What ties them: the name of the run (a trajectory's folder is the run
of its predictions, and the run or, with SWE-agent, the model of its report), the instance, and the patch that was judged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from expcomp.io.digest import sha256_expr
from expcomp.io.wording import worded
from expcomp.sources.swe._apply import absorb, same_arm
from expcomp.sources.swe._told import line, tell

if TYPE_CHECKING:
    from expcomp.sources._contract import Frames

REPORTS = "swe_bench_report"
SURE = ("swe_agent", "mini_swe_agent")
"""Formats that write every submission: without a patch none was handed over."""

TRAJECTORIES = (*SURE, "openhands", "hf_trajectories")
_NONE = ""


def join_reports(frames: Frames) -> Frames:
    """Join what belongs to one attempt: reports and predictions of a run with each other, and both with trajectories.

    1. Predictions, instance reports and run reports of one run, model and instance are one attempt, unless their patches differ.
    2. A report goes to the trajectory of its run and instance. Where both patches are known and differ it speaks of another submission
       and is not taken; where several attempts of the run are at the instance only an equal patch decides.
    3. A report of a run without trajectories goes to a trajectory without verdict at the same instance with the same patch.
    4. A run all of whose patches are those of one run's trajectories is another evaluation of them: its grades are added to theirs.

    The trajectory's attempt takes score, verdict, grades and artifacts; an attempt that infrastructure broke keeps no verdict, and the
    grades are marked void (R1). The report's own attempt is absorbed. What finds no partner stays and is reported. Only small tables are
    read and changed: tasks, attempts, grades, artifacts, evidence, diagnostics.
    """
    if REPORTS not in frames["attempts"]["source_format"]:
        return frames
    rows = _rows(frames)
    told: list[pl.DataFrame] = []
    folded = _fold(rows.filter("report_row"), told)
    kept = _kept(rows.filter("report_row"), folded)
    trajectories = rows.filter(~pl.col("report_row"))
    pairs = _by_run(kept, trajectories, told)
    pairs = pl.concat([pairs, _by_patch(kept, trajectories, pairs)])
    pairs = pl.concat([pairs, _again(kept, trajectories, pairs)])
    if trajectories.height:
        told += tell(kept, trajectories, _open(trajectories), pairs, folded)
        frames = same_arm(frames, kept, trajectories, pairs)
    frames = absorb(absorb(frames, folded), pairs)
    return frames | {"diagnostics": pl.concat([frames["diagnostics"], *told])}


# -- what is joined --------------------------------------------------------------------------------------------------------


def _rows(frames: Frames) -> pl.DataFrame:
    """Reports, and trajectories of a known instance, with the keys of the join.

    `patch` is a digest of the patch without blanks at the ends of its lines, which tools for clean files take away, and carriage returns;
    empty where none was submitted, null where it is unknown.
    """
    named = pl.col("source_format").is_in([REPORTS, *SURE])
    instances = (
        frames["tasks"].select("task_id", _instance="native_id").unique("task_id", keep="first", maintain_order=True)
    )
    judged = frames["grades"].filter((pl.col("name") == "resolved") & pl.col("is_primary"))
    labels = judged.select("attempt_id", "label").unique("attempt_id", keep="first", maintain_order=True)
    report = pl.col("source_format") == REPORTS
    silent = pl.col("source_format").is_in(SURE) | (report & (pl.col("source_version") == "predictions"))
    rows = (
        frames["attempts"]
        .with_row_index("pos")
        .filter(pl.col("source_format").is_in([REPORTS, *TRAJECTORIES]) & (pl.col("relation") == "root"))
        .join(instances, on="task_id", how="left", maintain_order="left")
        .join(labels, on="attempt_id", how="left", maintain_order="left")
        .join(_patches(frames["artifacts"]), on="attempt_id", how="left", maintain_order="left")
        .select(
            "pos",
            "attempt_id",
            "package_id",
            "source_uri",
            "run_id",
            "arm",
            "passed",
            "score_valid",
            report_row=report,
            instance=pl.when(named).then(pl.coalesce("native_attempt_id", "_instance")).otherwise("_instance"),
            kind=pl.col("source_version").str.split("/").list.first(),
            run=_norm("run_id"),
            model_name=_norm("model"),
            model=_short("model"),
            asked=_short(pl.col("params").str.json_path_match("$.requested_model")),
            patch=pl.coalesce("patch", pl.when(silent | (pl.col("label") == "empty_patch")).then(pl.lit(_NONE))),
        )
        .filter(pl.col("instance").is_not_null())
    )
    return _keys(rows)


def _norm(column: str) -> pl.Expr:
    """A name as file names hold it."""
    return pl.col(column).str.to_lowercase().str.replace_all("/", "__", literal=True)


def _short(column: str | pl.Expr) -> pl.Expr:
    """The part of a model name after the provider."""
    name = pl.col(column) if isinstance(column, str) else column
    return name.str.to_lowercase().str.replace_all("__", "/", literal=True).str.split("/").list.last()


def _patches(artifacts: pl.DataFrame) -> pl.DataFrame:
    """The last patch of each attempt that is not a step's."""
    own = artifacts.filter((pl.col("kind") == "patch") & pl.col("step_index").is_null())
    text = pl.col("content").str.replace_all(r"[ \t\r]+\n", "\n").str.strip_chars()
    return (
        own.with_columns(_text=text)
        .with_columns(patch=pl.coalesce(sha256_expr("_text"), pl.col("digest")))
        .select("attempt_id", patch=pl.when(pl.col("_text") == "").then(pl.lit(_NONE)).otherwise("patch"))
        .unique("attempt_id", keep="last", maintain_order=True)
    )


def _keys(rows: pl.DataFrame) -> pl.DataFrame:
    """`key`: the run that a row belongs to.

    SWE-agent writes the name of its run as the model of the predictions, so that a report is called `<run>.<evaluation>`: there the
    model is the key, unless several evaluations claim it. What is no model then is none.
    """
    runs = rows.filter(~pl.col("report_row") | (pl.col("kind") == "predictions"))["run"].drop_nulls().unique().implode()
    by_model = (
        pl.col("report_row") & ~pl.col("run").is_in(runs).fill_null(value=False) & pl.col("model_name").is_in(runs)
    )
    rows = rows.with_columns(_by_model=by_model.fill_null(value=False))
    sole = pl.col("run").filter("_by_model").n_unique().over("model_name") == 1
    rows = rows.with_columns(key=pl.when(pl.col("_by_model") & sole).then("model_name").otherwise("run"))
    not_model = pl.col("report_row") & (pl.col("model_name") == pl.col("key"))
    rows = rows.with_columns(model=pl.when(not_model.fill_null(value=False)).then(None).otherwise("model"))
    # A hosted report names no model: where all others of the run name one, it is that.
    named = pl.col("model").filter("report_row").drop_nulls()
    only = pl.when(named.n_unique() == 1).then(named.first()).over("key")
    return rows.with_columns(model=pl.when("report_row").then(pl.coalesce("model", only)).otherwise("model")).drop(
        "_by_model", "model_name"
    )


# -- who belongs to whom ---------------------------------------------------------------------------------------------------


def _fold(reports: pl.DataFrame, told: list[pl.DataFrame]) -> pl.DataFrame:
    """Rows of one run, model and instance from several files; the one with the best verdict takes the others."""
    group = ["key", "model", "instance", "_which"]
    patch = pl.col("patch")
    rows = reports.filter(pl.col("key").is_not_null()).with_columns(
        _which=pl.when(patch.drop_nulls().n_unique().over("key", "model", "instance") <= 1)
        .then(pl.lit(""))
        .otherwise(patch.fill_null("unknown"))
    )
    # A file that has several rows here samples an instance several times: those are attempts of their own.
    once = pl.len().over([*group, "source_uri"]).max().over(group) == 1
    rank = pl.col("kind").replace_strict({"instance_report": 0, "run_report": 1}, default=2, return_dtype=pl.Int8)
    rows = rows.filter(once & (pl.len().over(group) > 1)).with_columns(
        pl.col("passed").is_null().alias("_open"), rank.alias("_rank")
    )
    rows = rows.sort("_open", "_rank", "pos").with_columns(onto=pl.col("attempt_id").first().over(group))
    split = rows.filter(pl.col("passed").drop_nulls().n_unique().over(group) > 1)
    detail = worded(
        "reports of run {} disagree on {}; the report of the instance counts, else the first", "run_id", "instance"
    )
    told.append(line(split.filter(pl.col("attempt_id") == pl.col("onto")), "verdict_conflict", detail))
    absorbed = rows.filter(pl.col("attempt_id") != pl.col("onto")).sort("pos")
    return absorbed.select(report="attempt_id", onto="onto", how=pl.lit("report", dtype=pl.String))


def _kept(reports: pl.DataFrame, folded: pl.DataFrame) -> pl.DataFrame:
    """Reports that stand for themselves, with the patch of what they took."""
    gone = folded["report"].implode()
    given = (
        reports.select("attempt_id", "patch")
        .join(folded, left_on="attempt_id", right_on="report", how="inner", maintain_order="left")
        .filter(pl.col("patch").is_not_null())
        .select(attempt_id="onto", _given="patch")
        .unique("attempt_id", keep="first", maintain_order=True)
    )
    return (
        reports.filter(~pl.col("attempt_id").is_in(gone))
        .join(given, on="attempt_id", how="left", maintain_order="left")
        .with_columns(patch=pl.coalesce("patch", "_given"))
        .drop("_given")
    )


def _open(trajectories: pl.DataFrame) -> pl.DataFrame:
    """Trajectories without a verdict of their own."""
    return trajectories.filter(pl.col("passed").is_null() & ~pl.col("score_valid").fill_null(value=False))


def _candidates(kept: pl.DataFrame, trajectories: pl.DataFrame, on: list[str]) -> pl.DataFrame:
    """All pairs with equal keys whose models may be the same; `_t` marks columns of the trajectory."""
    pairs = kept.join(trajectories, on=on, how="inner", suffix="_t", maintain_order="left_right")
    if "key" in on:
        pairs = pairs.with_columns(key_t="key")
    if "patch" in on:
        pairs = pairs.with_columns(patch_t="patch")
    said = pl.col("model")
    served = (
        said.is_null()
        | pl.col("model_t").is_null()
        | (said == pl.col("asked_t"))
        | said.str.starts_with(pl.col("model_t"))
        | pl.col("model_t").str.starts_with(said)
    )
    return pairs.filter(served.fill_null(value=False))


def _pairs(found: pl.DataFrame, how: str) -> pl.DataFrame:
    return found.select(report="attempt_id", onto="attempt_id_t", how=pl.lit(how, dtype=pl.String))


def _by_run(kept: pl.DataFrame, trajectories: pl.DataFrame, told: list[pl.DataFrame]) -> pl.DataFrame:
    """Same run, same instance; with several of either, the patch decides."""
    found = _candidates(kept, _open(trajectories), ["key", "instance"])
    equal = (pl.col("patch") == pl.col("patch_t")).fill_null(value=False)
    unknown = pl.col("patch").is_null() | pl.col("patch_t").is_null()
    other = found.filter(~equal & ~unknown)
    rest = found.filter(equal | unknown).with_columns(_equal=equal)
    same = ["key", "instance", "patch"]
    nth = {c: pl.col(c).rank("dense").over([*same, "_equal"]) for c in ("pos", "pos_t")}
    alone = (pl.len().over("attempt_id") == 1) & (pl.len().over("attempt_id_t") == 1)
    taken = rest.filter(pl.when("_equal").then(nth["pos"] == nth["pos_t"]).otherwise(alone))
    done = [taken["attempt_id"].implode(), taken["attempt_id_t"].implode()]
    left = pl.col("attempt_id").is_in(done[0]) | pl.col("attempt_id_t").is_in(done[1])
    detail = (
        "the report of run {} on {} judges another patch than this trajectory handed over; its verdict is not taken"
    )
    lost = other.filter(~left).unique("attempt_id_t", keep="first", maintain_order=True)
    told.append(line(lost, "patch_differs", worded(detail, "run_id", "instance"), of="_t"))
    detail = (
        "several attempts of run {} are at {} and no patch tells which one the report judges; its verdict is not taken"
    )
    torn = rest.filter(~left).unique("attempt_id", keep="first", maintain_order=True)
    told.append(line(torn, "ambiguous_report", worded(detail, "run_id", "instance")))
    return _pairs(taken, "run")


def _free(kept: pl.DataFrame, trajectories: pl.DataFrame, pairs: pl.DataFrame) -> pl.DataFrame:
    """Reports of runs that have no trajectories, not yet joined, with a patch."""
    elsewhere = ~pl.col("key").is_in(trajectories["key"].drop_nulls().unique().implode()).fill_null(value=False)
    joined = pl.col("attempt_id").is_in(pairs["report"].implode())
    return kept.filter(elsewhere & ~joined & (pl.col("patch") != _NONE))


def _by_patch(kept: pl.DataFrame, trajectories: pl.DataFrame, pairs: pl.DataFrame) -> pl.DataFrame:
    """Same instance, same patch: the runs that share most patches first."""
    judged = kept.filter(pl.col("score_valid").is_not_null())["attempt_id"].implode()
    graded = pl.col("attempt_id").is_in(pairs.filter(pl.col("report").is_in(judged))["onto"].implode())
    left = _open(trajectories).filter(~graded & (pl.col("patch") != _NONE))
    found = _candidates(_free(kept, trajectories, pairs), left, ["instance", "patch"])
    found = found.with_columns(_shared=pl.len().over("key", "key_t")).sort(
        ["_shared", "pos", "pos_t"], descending=[True, False, False]
    )
    out = [found.clear()]
    while found.height:
        # The best pair of both its sides cannot be improved; at least the first row is one.
        best = found.filter(
            pl.int_range(pl.len()).over("attempt_id").eq(0) & pl.int_range(pl.len()).over("attempt_id_t").eq(0)
        )
        out.append(best)
        taken = pl.col("attempt_id").is_in(best["attempt_id"].implode())
        found = found.filter(~taken & ~pl.col("attempt_id_t").is_in(best["attempt_id_t"].implode()))
    return _pairs(pl.concat(out), "patch")


def _again(kept: pl.DataFrame, trajectories: pl.DataFrame, pairs: pl.DataFrame) -> pl.DataFrame:
    """Runs whose every patch is that of the trajectories of one run: another evaluation of it."""
    total = kept.filter(pl.col("key").is_not_null()).group_by("key", maintain_order=True).len("_total")
    left = trajectories.filter(pl.col("patch") != _NONE)
    found = _candidates(_free(kept, trajectories, pairs), left, ["instance", "patch"]).filter(
        pl.col("score_valid").is_not_null()
    )
    found = found.join(total, on="key", how="inner", maintain_order="left").filter(
        pl.col("attempt_id").n_unique().over("key", "key_t") == pl.col("_total")
    )
    found = found.filter(pl.col("key_t").n_unique().over("key") == 1)
    return _pairs(found.unique("attempt_id", keep="first", maintain_order=True), "again")
