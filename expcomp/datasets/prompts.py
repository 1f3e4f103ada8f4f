"""Prompts for training with rollouts: one a task, with what a reward function and a sampler need."""

from __future__ import annotations

import polars as pl

from expcomp.datasets.contract import Kind, Lookups, Made
from expcomp.datasets.conversations import left_of, logical, named, read_chats
from expcomp.datasets.flat import chat_digest, combined_digest, implode_chat, message_lines, policy_chars
from expcomp.datasets.normal import Reason, first_reason
from expcomp.datasets.options import DatasetOptions
from expcomp.io.digest import sha256_expr

Z = 1.959963984540054  # 97.5 % quantile of the normal distribution
_LINE = pl.int_range(pl.len(), dtype=pl.UInt32)

REASONS = (
    Reason("no_messages", "the row has no prompt", pl.col("n") == 0),
    Reason("no_task", "no task is named and no user text stands for one", pl.col("task_id").is_null()),
    Reason("unsound", "a message breaks the rules", pl.col("unsound").is_not_null()),
    Reason("prompt_end", "the prompt ends with neither user nor tool", ~pl.col("end").is_in(["user", "tool"])),
    Reason("pass_rate_unknown", "no verdict on any attempt", pl.col("pass_rate").is_null()),
    Reason("few_attempts", "the pass rate rests on fewer than min_attempts", pl.col("n_attempts") < pl.col("least")),
    Reason("pass_rate_band", "the pass rate is outside the band", pl.col("pass_rate").is_between("low", "high").not_()),
)
"""In the order in which they apply. For `unsound` the reason of the first unsound message is given."""


def wilson(rate: pl.Expr, n: pl.Expr, z: float = Z) -> tuple[pl.Expr, pl.Expr]:
    """Wilson score interval of a share p of n trials: (p + z^2/2n -+ z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n).

    E. B. Wilson, Probable inference, the law of succession, and statistical inference, JASA 22 (1927) 209-212. Unlike p -+ z s it
    stays inside 0..1 and says something at p = 0 and 1. Null where n is 0 or either is null.
    """
    n = pl.when(n > 0).then(n.cast(pl.Float64))
    middle = rate + z * z / (2 * n)
    half = z * (rate * (1 - rate) / n + z * z / (4 * n * n)).sqrt()
    whole = 1 + z * z / n
    # At the ends the bound is the share itself; rounding would put it past.
    low = pl.when((rate <= 0) & n.is_not_null()).then(rate).otherwise((middle - half) / whole)
    high = pl.when((rate >= 1) & n.is_not_null()).then(rate).otherwise((middle + half) / whole)
    return low, high


def prompts(frame: pl.DataFrame, lookups: Lookups, options: DatasetOptions) -> Made:
    """Rows of grpo_rollout_group as their prompts. The attempts stay behind as statistics.

    `ground_truth` is the target of the task as recorded, JSON text: a target that is a text keeps its quotation marks, so that "42" and
    42 stay two answers. `n_attempts` counts attempts with a verdict, which the pass rate rests on; `group_size` of the compile counts those
    with a score. Where a simulated user opens every attempt in other words, the attempts share no prompt that ends with a user; the
    opening of the first attempt stands for the task there, and `n_openings` says how many there are.
    """
    frame = _opened(frame)
    read = read_chats(frame.rename({"prompt": "messages"}), "messages", options)
    end = read.flat.group_by("row", maintain_order=True).agg(end=pl.col("role").last())
    task = lookups.tasks.select("task_id", "target", "verifier", "benchmark").unique(
        "task_id", keep="first", maintain_order=True
    )
    low, high = wilson(pl.col("pass_rate"), pl.col("n_attempts"))
    rows = (
        read.rows.with_columns(frame["pass_rate"], frame["n_openings"], n_attempts=_rated(frame, lookups))
        .join(end, on="row", how="left", maintain_order="left")
        .join(task, on="task_id", how="left", maintain_order="left")
        .with_columns(
            least=options.min_attempts,
            low=options.pass_rate[0] - 1e-9,
            high=options.pass_rate[1] + 1e-9,
            ground_truth="target",
            pass_rate_low=low,
            pass_rate_high=high,
        )
        .with_columns(reason=first_reason(REASONS))
    )
    kept = rows.filter(pl.col("reason").is_null())
    places = rows.select(to=pl.when(pl.col("reason").is_null()).then(pl.col("reason").is_null().cum_sum() - 1))["to"]
    flat = read.flat.with_columns(row=places.gather(read.flat["row"]).cast(pl.UInt32)).filter(
        pl.col("row").is_not_null()
    )
    sizes = flat.select("row", chars=policy_chars(flat.with_columns(trainable=pl.lit(value=True))))
    chars = sizes.group_by("row", maintain_order=True).agg(pl.col("chars").sum())
    digest = chat_digest(flat.select("row", line=message_lines(flat)), kept.height).alias("prompt")
    made = kept.with_columns(
        implode_chat(flat, kept.height).alias("prompt"),
        chars["chars"].alias("_chars"),
        combined_digest(pl.DataFrame([digest, kept.select(sha256_expr("tools"))["tools"]])),
    )
    left = rows.filter(pl.col("reason").is_not_null())
    return Made(logical("prompt", made), left_of(named(left), REASONS))


def _opened(frame: pl.DataFrame) -> pl.DataFrame:
    """Prompts up to the agent's first word, and `n_openings`: different ways in which the recorded attempts get there."""
    role = pl.element().struct.field("role")
    answered = pl.col("completion").list.eval(role == "assistant")
    first = pl.when(answered.list.any()).then(answered.list.arg_max()).otherwise(0)
    openings = (
        frame.select("prompt", "completions", row=_LINE)
        .explode("completions", empty_as_null=False, keep_nulls=False)
        .rename({"completions": "completion"})
        .select("row", opening=pl.col("completion").list.head(first))
        .with_columns(
            said=pl.col("opening").list.eval(pl.element().struct.field("content").fill_null("")).list.join("\x1e")
        )
        .group_by("row", maintain_order=True)
        .agg(opening=pl.col("opening").first(), n_openings=pl.col("said").n_unique().cast(pl.Int64))
    )
    closed = pl.col("prompt").list.last().struct.field("role").is_in(["user", "tool"])
    more = pl.col("opening").fill_null([])
    return (
        frame.with_columns(_row=_LINE)
        .join(openings, left_on="_row", right_on="row", how="left", maintain_order="left")
        .with_columns(
            prompt=pl.when(closed.fill_null(value=False)).then("prompt").otherwise(pl.concat_list("prompt", more)),
            n_openings=pl.col("n_openings").fill_null(0),
        )
        .drop("_row", "opening")
    )


def _rated(frame: pl.DataFrame, lookups: Lookups) -> pl.Series:
    """Attempts of each group that have a verdict; all of the group where the key tables know none of them."""
    members = frame.select(row=_LINE, attempt_id="attempt_ids").explode(
        "attempt_id", empty_as_null=False, keep_nulls=False
    )
    rated = lookups.attempts.filter(pl.col("passed").is_not_null()).select("attempt_id")
    counts = (
        members.join(rated, on="attempt_id", how="semi", maintain_order="left")
        .group_by("row", maintain_order=True)
        .agg(n=pl.len())
    )
    return (
        frame.select("group_size", row=_LINE)
        .join(counts, on="row", how="left", maintain_order="left")
        .select(n_attempts=pl.coalesce("n", "group_size").cast(pl.Int64))["n_attempts"]
    )


PROMPT = Kind("prompt", "grpo_rollout_group", prompts, chats=("prompt",))
