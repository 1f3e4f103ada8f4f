"""Stable splits: a group's place rests on the seed and its own name alone, so new rows never move an old group."""

from __future__ import annotations

from datetime import UTC, datetime

import polars as pl

from expcomp.datasets.options import DatasetOptions
from expcomp.errors import ConfigError
from expcomp.io.digest import sha256_expr

# `owner__repo-12`, `owner__repo.50a1c4b6.rewrite__x`, `owner/repo#12`, `owner/repo:pr-12`: the repository ends where the number
# or commit of the task begins. What merges two repositories keeps them in one split, so the pattern leans to the shorter name.
_END = r"(?:-(?:\d+|[0-9a-f]{7,40})|\.[0-9a-f]{7,40}|#\d+|:pr-\d+|/(?:pull|issues)/\d+)(?:[_.].*|-v.*)?$"
_OWNER, _REPO = r"([A-Za-z0-9][A-Za-z0-9-]*)", r"([A-Za-z0-9._-]+?)"
_NATIVE = rf"(?:(?:^|[/_]){_OWNER}__{_REPO}{_END})|(?:^{_OWNER}/{_REPO}{_END})"
_HOST = r"^(?:https?://)?(?:www\.)?github\.com/|\.git$|/$"


def assign(tasks: pl.DataFrame, attempts: pl.DataFrame, options: DatasetOptions) -> pl.DataFrame:
    """Group and split of each task that the tables name.

    With `options.before`, a group whose first attempt began at that time or later goes to the last split; all others, those
    without a recorded time among them, are hashed over the splits before it, in proportion to their shares. An attempt that
    is added later moves its group only when it began before the time and the group had none such.

    Args:
        tasks: task_id and, where known, task (the source's own id), cluster, workflow_family.
        attempts: task_id and, where known, started_at, user.
        options: Of the dataset: seed, splits, group, before.

    Returns:
        task_id, group, split; one line a task, in the order of the tables.
    """
    known = [c for c in ("task", "cluster", "workflow_family") if c in tasks.columns]
    lines = (
        pl.concat([tasks.select("task_id", *known), attempts.select("task_id")], how="diagonal")
        .drop_nulls("task_id")
        .unique("task_id", keep="first", maintain_order=True)
    )
    if options.group == "user":
        if "user" not in attempts.columns or attempts["user"].null_count() == attempts.height:
            msg = (
                "option group is 'user', but nothing in the compile names users; expected task, repository or template"
            )
            raise ConfigError(msg)
        lines = lines.join(_users(attempts), on="task_id", how="left", maintain_order="left")
    groups = lines.select("task_id", group=group_key(options, lines.columns))
    cut = moment(options.before)
    if cut is None or "started_at" not in attempts.columns:
        return groups.with_columns(split=place("group", options))
    began = (
        attempts.select("task_id", "started_at")
        .join(groups, on="task_id", how="inner", maintain_order="left")
        .group_by("group", maintain_order=True)
        .agg(began=pl.col("started_at").min())
    )
    late = (pl.col("began") >= cut).fill_null(value=False)
    return groups.join(began, on="group", how="left", maintain_order="left").select(
        "task_id", "group", split=pl.when(late).then(pl.lit(options.splits[-1][0])).otherwise(place("group", options))
    )


def unlisted(options: DatasetOptions) -> tuple[pl.Expr, pl.Expr]:
    """`group` and `split` of rows whose `task_id` no table names: from the id alone, as `assign` would without any fact.

    The two belong in successive `with_columns`: the split reads the column `group`.
    """
    return group_key(options, ["task_id"]).alias("group"), place("group", options).alias("split")


def group_key(options: DatasetOptions, columns: list[str]) -> pl.Expr:
    """Name of the group of a task: kind and key, as `repository:owner/name`; `task:<id>` where nothing above it is known.

    Args:
        options: Which kind of group.
        columns: Columns at hand: task_id and any of task, cluster, workflow_family, user.
    """
    above: list[pl.Expr] = []
    if options.group == "repository":
        if "cluster" in columns:
            above.append(_repository(pl.col("cluster")))
        names = [c for c in ("task", "task_id") if c in columns]
        above.append(_repository(_from_native(pl.coalesce(names))))
    elif options.group == "template" and "workflow_family" in columns:
        above.append(pl.col("workflow_family"))
    elif options.group == "user" and "user" in columns:
        above.append(pl.col("user"))
    named = [pl.concat_str(pl.lit(f"{options.group}:"), e) for e in above]
    return pl.coalesce(*named, pl.concat_str(pl.lit("task:"), "task_id"))


def place(group: str, options: DatasetOptions) -> pl.Expr:
    """Split of a group: the first 32 bits of SHA-256(seed, newline, group) over 2^32, against the cumulative shares.

    With `options.before` the last split is kept for what came later and takes no part.

    Args:
        group: Column with the name of the group.
        options: Seed and splits.
    """
    splits = options.splits[:-1] if options.before is not None else options.splits
    if len(splits) == 1:
        return pl.when(pl.col(group).is_not_null()).then(pl.lit(splits[0][0]))
    u = share_of(group, options.seed)
    total, end = sum(share for _, share in splits), 0.0
    bounds: list[float] = []
    for _, share in splits[:-1]:
        end += share
        bounds.append(end / total)
    chosen: pl.Expr = pl.lit(splits[-1][0])
    for (name, _), bound in zip(reversed(splits[:-1]), reversed(bounds), strict=True):
        chosen = pl.when(u < bound).then(pl.lit(name)).otherwise(chosen)
    return pl.when(pl.col(group).is_not_null()).then(chosen)


def share_of(group: str, seed: str) -> pl.Expr:
    """Where a group stands among all: the first 32 bits of SHA-256(seed, newline, group) over 2^32."""
    text = pl.concat_str(pl.lit(f"{seed}\n"), pl.col(group))
    return sha256_expr(text).str.head(8).str.to_integer(base=16, dtype=pl.Int64) / 2**32


def _repository(name: pl.Expr) -> pl.Expr:
    """One spelling of a repository: GitHub's names know no case, `owner__name` is `owner/name`, and no owner has an underscore.

    What stands before one is the mark of a variant: `v0.7_owner/name`, `instance_owner/name`.
    """
    plain = name.str.strip_chars().str.to_lowercase().str.replace_all(_HOST, "").str.replace("__", "/", literal=True)
    plain = plain.str.replace(r"^[^/]*_([^/_]+/)", "${1}")
    return pl.when(plain.str.len_bytes() > 0).then(plain)


def _from_native(name: pl.Expr) -> pl.Expr:
    """`owner/name` from the id of a task in the manner of SWE-bench, else null."""
    part = name.str.extract_groups(_NATIVE).struct
    return pl.concat_str(pl.coalesce(part[0], part[2]), pl.coalesce(part[1], part[3]), separator="/")


def _users(attempts: pl.DataFrame) -> pl.DataFrame:
    """The user that stands for each task: the first by name among all users that shared tasks connect with its own.

    Users with a task in common have to share a split, so the smallest name travels along shared tasks until nothing changes.
    """
    links = attempts.select("task_id", user=pl.col("user").cast(pl.String)).drop_nulls().unique(maintain_order=True)
    links = links.with_columns(name=pl.col("user"))
    while True:
        spread = links.with_columns(name=pl.col("name").min().over("task_id"))
        spread = spread.with_columns(name=pl.col("name").min().over("user"))
        if spread.equals(links):
            break
        links = spread
    return links.group_by("task_id", maintain_order=True).agg(user=pl.col("name").min())


def moment(before: str | None) -> datetime | None:
    """The moment an ISO date or time names, in UTC where it names no zone."""
    if before is None:
        return None
    try:
        moment = datetime.fromisoformat(before)
    except ValueError as error:
        msg = f"option before is '{before}', expected an ISO date such as 2026-01-31"
        raise ConfigError(msg) from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
