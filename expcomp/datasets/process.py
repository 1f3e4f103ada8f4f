"""Steps with a label each, from recorded attempts alone: what a process reward model is trained on.

A label needs a reason. The reasons stand in one table, the first that applies counts, and a row ends before the first step
that none speaks for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl
import polars_hash as plh

from expcomp.datasets.contract import LEFT, LOGICAL, OPENINGS, Kind, Lookups, Made
from expcomp.datasets.flat import content_hash, filled
from expcomp.io.digest import sha256_expr

if TYPE_CHECKING:
    from expcomp.datasets.options import DatasetOptions

# Whose grade is enough for a label. A person's or a model's opinion, a heuristic or a simulated grade is not.
VERIFIERS = ("verifier", "test", "environment")
# Words of `label_source` behind which nobody judged the step.
NOBODY = ("heuristic", "outcome", "none", "human_future")
GOOD = ("progress", "completed", "corrected")
BAD = ("failed", "blocked")
ARROW = " -> "
# The source's flag that a call of the step failed. Not every compile has the column.
_FLAG = "failed"
LEFT_OUT = {
    "no_task": "the source names no task",
    "no_instruction": "the task has no instruction",
    "no_step_label": "nothing speaks for or against the first step",
}
_COLUMNS = (
    "row_id",
    "task_id",
    "attempt_id",
    "step_index",
    "evidence_ids",
    "agent_action",
    "observed_result",
    "label",
    "label_source",
    "outcome",
    "success",
    "retry_of_step_index",
    "truncated",
)
_TRUE, _FALSE = pl.lit(value=True), pl.lit(value=False)


@dataclass(frozen=True, slots=True)
class Rule:
    """A reason for a label.

    Attributes:
        source: Word in `label_sources`.
        when: Steps it applies to.
        label: What they get; null says that the step is neither, and ends the row.
    """

    source: pl.Expr
    when: pl.Expr
    label: pl.Expr


def _rule(source: str, when: pl.Expr, label: pl.Expr) -> Rule:
    return Rule(pl.lit(source), when, label)


RULES: tuple[Rule, ...] = (
    # Somebody judged this very step: the word after the colon says who.
    Rule(
        pl.concat_str(pl.lit("step_label:"), "label_source"),
        pl.col("label").is_not_null() & ~pl.col("label_source").is_in(NOBODY),
        pl.when(pl.col("label") != 0).then(pl.col("label") > 0),
    ),
    # A step in which nothing was done is no step to praise or blame.
    _rule("no_action", filled("agent_action").is_null(), pl.lit(None)),
    _rule("execution_error", pl.col("_error"), _FALSE),
    # Ahead of the next: where a success went on from the same steps, the error in them was not the end.
    _rule("shared_with_success", pl.col("_shared"), _TRUE),
    _rule("after_unrecovered_error", pl.col("_lost"), _FALSE),
    _rule("verified_final_state", pl.col("_last") & pl.col("_verdict").is_not_null(), pl.col("_verdict")),
    # Weak, as strong as a heuristic: the record's own word on how the step went, which nobody checked.
    _rule("recorded_outcome", pl.col("outcome").is_in(GOOD), _TRUE),
)


def _by_rule(value: str) -> pl.Expr:
    chain = pl.lit(None)
    for rule in reversed(RULES):
        chain = pl.when(rule.when.fill_null(value=False)).then(getattr(rule, value)).otherwise(chain)
    return chain


def _verdicts(attempts: pl.DataFrame) -> pl.DataFrame:
    """(attempt_id, _passed, _verdict): whether any usable grade says passed, and what a verified one says."""
    usable = pl.col("score_norm").is_not_null() & pl.col("score_valid").fill_null(value=False)
    passed = pl.when(usable).then("passed")
    return attempts.select(
        "attempt_id",
        _passed=passed.fill_null(value=False),
        _verdict=pl.when(pl.col("grade_kind").cast(pl.String).is_in(VERIFIERS)).then(passed),
    )


# -- prefixes ----------------------------------------------------------------------------------------------------------------
# Attempts share a prefix when sums (mod 2^64) of their step hashes agree, each hash times the multiplier of its place. The sums
# live in one run and reach no file.
def _xxh(text: pl.Expr) -> pl.Expr:
    hashed: pl.Expr = plh.NonCryptographicHashingNameSpace(text).xxh3_64()
    return hashed


def _step_hash() -> pl.Expr:
    """Hash of task, action and observation. A cut text equals no other: what was cut off may differ."""
    action = pl.when(pl.col("truncated").fill_null(value=False)).then("row_id").otherwise("agent_action")
    parts = [_xxh(e).cast(pl.String).fill_null("-") for e in (pl.col("task_id"), action, pl.col("observed_result"))]
    return _xxh(pl.concat_str(parts, separator="|"))


def _prefixes(steps: pl.DataFrame) -> pl.Series:
    """Identity of the attempt up to each step, from `code` (equal in the rows of an attempt, which stand together) and `hash`."""
    place = steps.select(pl.int_range(pl.len(), dtype=pl.UInt32).over("code")).to_series()
    longest = 0 if steps.is_empty() else int(place.max()) + 1  # type: ignore[arg-type]
    # Random and odd, so that neither order nor repetition of steps cancels out.
    factor = pl.select(_xxh(pl.int_range(longest).cast(pl.String)) | 1).to_series()
    weighed = steps.select("code", hash=pl.col("hash") * factor.gather(place))
    return weighed.select(pl.col("hash").cum_sum().over("code")).to_series()


def prepare(steps: pl.LazyFrame, lookups: Lookups) -> pl.DataFrame:
    """(prefix), sorted: every prefix of a verified success at a task that other attempts did not solve.

    The texts are hashed as they stream by; what stays in memory is 16 bytes a step of such attempts.
    """
    known = lookups.attempts.select("task_id").hstack(_verdicts(lookups.attempts))
    solved = pl.col("_verdict").fill_null(value=False)
    wanted = known.filter(solved & (~solved).any().over("task_id")).select(
        "attempt_id", code=pl.int_range(pl.len(), dtype=pl.UInt32)
    )
    narrow = (
        steps.join(wanted.lazy(), on="attempt_id", how="inner", maintain_order="left")
        .select("code", "step_index", hash=_step_hash())
        .collect(engine="streaming")
        .sort("code", "step_index", maintain_order=True)
        .drop("step_index")
    )
    found = _prefixes(narrow).sort()
    return pl.DataFrame({"prefix": found.filter(found.ne_missing(found.shift(1)))})


def _is_in_sorted(values: pl.Series, known: pl.Series) -> pl.Series:
    """Whether each value is among known ones, by bisection: no table is built for a slice."""
    if known.is_empty():
        return pl.repeat(value=False, n=len(values), eager=True)
    place = known.search_sorted(values).clip(upper_bound=len(known) - 1)
    return known.gather(place) == values


# -- labels ------------------------------------------------------------------------------------------------------------------
def _recovered(steps: pl.DataFrame) -> pl.Expr | pl.Series:
    """Whether what failed in a step worked later: in a retry of it, or, as the attempt passed, in some way."""
    retry = pl.col("retry_of_step_index") < pl.col("step_index")
    links = steps.filter(retry).select("_code", "step_index", root="retry_of_step_index")
    if links.is_empty():
        return pl.col("_passed")
    links = links.unique(["_code", "step_index"], keep="first", maintain_order=True)
    # A retry of a retry leads to the first try; each pass doubles the stretch.
    while True:
        above = links.select("_code", root="step_index", above="root")
        further = links.join(above, on=["_code", "root"], how="left", maintain_order="left")
        if further["above"].null_count() == further.height:
            break
        links = further.select("_code", "step_index", root=pl.coalesce("above", "root"))
    worked = ~pl.col("_error") & (pl.col("success").fill_null(value=False) | pl.col("outcome").is_in(GOOD))
    tries = (
        steps.select("_code", "step_index", "_passed", _worked=worked.fill_null(value=False))
        .join(links, on=["_code", "step_index"], how="left", maintain_order="left")
        .with_columns(pl.coalesce("root", "step_index"))
    )
    last = pl.col("step_index").filter("_worked").max().over("_code", "root")
    return tries.select((last > pl.col("step_index")).fill_null(value=False) | pl.col("_passed")).to_series()


def label(frame: pl.DataFrame, lookups: Lookups) -> pl.DataFrame:
    """Steps in order of their attempts, with `_label` (null: unlabelled) and `_source`; `_code` numbers the attempts.

    Args:
        frame: Rows of process_supervision, attempts whole.
        lookups: `extra["process"]` from `prepare`.
    """
    flags = [pl.col(_FLAG)] if _FLAG in frame.columns else []
    failed = pl.any_horizontal(pl.col("outcome").is_in(BAD), ~pl.col("success"), *flags)
    steps = (
        frame.select(*_COLUMNS, _error=failed.fill_null(value=False))
        .with_row_index("_at")
        .sort(pl.col("_at").min().over("attempt_id"), "step_index", maintain_order=True)
        .with_columns(_code=pl.col("attempt_id").rle_id())
        .join(_verdicts(lookups.attempts), on="attempt_id", how="left", maintain_order="left")
        .with_columns(pl.col("_passed").fill_null(value=False))
    )
    prefix = _prefixes(steps.select(code="_code", hash=_step_hash()))
    shared = _is_in_sorted(prefix, lookups.extra["process"]["prefix"])
    stuck = pl.col("_error") & ~pl.col("_recovered")
    return (
        steps.with_columns(
            _recovered=_recovered(steps),
            # A success shares its prefixes with itself.
            _shared=pl.lit(shared) | pl.col("_verdict").fill_null(value=False),
            _last=pl.col("_code") != pl.col("_code").shift(-1, fill_value=pl.col("_code").max() + 1),
        )
        .with_columns(_lost=stuck.cast(pl.UInt32).cum_sum().over("_code") > stuck.cast(pl.UInt32))
        .with_columns(_label=_by_rule("label").cast(pl.Boolean), _source=_by_rule("source").cast(pl.String))
    )


def _text() -> pl.Expr:
    """A step as one text. It ends in no white space: the separator of steps is a line break."""
    result = pl.col("observed_result").str.strip_chars_end()
    came = pl.when(result != "").then(pl.concat_str(pl.lit(ARROW), result)).otherwise(pl.lit(""))
    return pl.concat_str(pl.col("agent_action").str.strip_chars_end(), came)


def _attempts(steps: pl.DataFrame, lookups: Lookups) -> pl.DataFrame:
    """One line an attempt, with the words it began with and why it is left out, if it is.

    They are the task's, or the simulated user's: the task of that one is a script that the agent never saw.
    """
    tasks, opened = lookups.tasks, lookups.extra.get(OPENINGS)
    if opened is None:
        opened = pl.DataFrame(schema={"attempt_id": pl.String, "opening": pl.String})
    no_task, no_words = pl.col("task_id").is_null(), pl.col("prompt").is_null()
    return (
        steps.group_by("_code", maintain_order=True)
        .agg(pl.col("row_id", "task_id", "attempt_id").first(), _mute=pl.col("_label").first().is_null())
        .join(tasks.select("task_id", prompt=filled("instruction")), on="task_id", how="left", maintain_order="left")
        .join(opened, on="attempt_id", how="left", maintain_order="left")
        .with_columns(prompt=pl.coalesce(filled("opening"), "prompt"))
        .with_columns(
            reason=pl.when(no_task)
            .then(pl.lit("no_task"))
            .when(no_words)
            .then(pl.lit("no_instruction"))
            .when("_mute")
            .then(pl.lit("no_step_label"))
        )
        .with_columns(detail=pl.col("reason").replace_strict(LEFT_OUT, return_dtype=pl.String))
    )


def build(frame: pl.DataFrame, lookups: Lookups, options: DatasetOptions) -> Made:
    """One row an attempt: the task, and its steps up to the first that has no label."""
    steps = label(frame, lookups)
    attempts = _attempts(steps, lookups)
    taken = attempts.filter(pl.col("reason").is_null())
    labelled = (
        steps.filter(pl.col("_label").is_null().cast(pl.UInt32).cum_sum().over("_code") == 0)
        .join(taken.select("_code"), on="_code", how="semi", maintain_order="left")
        .select("_code", "_label", "_source", "evidence_ids", text=_text())
        .with_columns(_line=pl.concat_str(sha256_expr("text"), pl.col("_label").cast(pl.String)))
    )
    grouped = labelled.group_by("_code", maintain_order=True).agg(
        pl.col("evidence_ids").explode(empty_as_null=False, keep_nulls=False),
        pl.col("_line").str.join(","),
        completions="text",
        labels="_label",
        label_sources="_source",
        _chars=pl.col("text").str.len_chars().sum(),
    )
    rows = taken.join(grouped, on="_code", how="left", maintain_order="left")
    rows = rows.with_columns(
        pl.col("evidence_ids").list.unique(maintain_order=True), _hash=content_hash(rows, (), ("prompt", "_line"))
    )
    return Made(
        rows.select(pl.col(n).cast(t) for n, t in LOGICAL["process"].items()),
        attempts.filter(pl.col("reason").is_not_null()).select(pl.col(n).cast(t) for n, t in LEFT.items()),
    )


PROCESS = Kind(
    "process",
    "process_supervision",
    build,
    chats=("prompt", "completions"),
    whole="attempt_id",
    prepare=prepare,
    opened=True,
)
