"""The selection over all rows of a kind: duplicates, caps, balance and order. It sees key columns only, never a text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from expcomp.datasets.options import DatasetOptions
from expcomp.datasets.order import apart, shuffle_key

_NO = pl.lit(value=False)
_FEW = 20  # pairs of a split below which a share of long ones says nothing


@dataclass(frozen=True, slots=True)
class Rule:
    """One reason to leave rows out.

    Attributes:
        reason: Its code.
        order: Columns to sort by, with a minus in front where the largest comes first; nulls come last. What is first stays.
        drop: Which of the sorted rows go. Sees the rows that the rules before it kept.
    """

    reason: str
    order: tuple[str, ...]
    drop: Callable[[DatasetOptions], pl.Expr]


def _place(*groups: str) -> pl.Expr:
    """Place of a row among the rows of its group, from 0, in the order of the frame."""
    return pl.int_range(pl.len()).over(*groups)


def _repeated(_: DatasetOptions) -> pl.Expr:
    """Rows of a content that an earlier row has."""
    return pl.col("_hash").is_not_null() & ~pl.col("_hash").is_first_distinct()


def _conflict(_: DatasetOptions) -> pl.Expr:
    """Rows of a content that was judged both ways: the turn does not decide, and the two would pull against each other."""
    return pl.col("_hash").is_not_null() & (pl.col("label").n_unique().over("_hash") > 1)


def _attempts_over(options: DatasetOptions) -> pl.Expr:
    """Rows of attempts past the cap of their task; the sorted frame holds the rows of an attempt together."""
    return pl.col("_attempt").rle_id().over("_task") >= options.max_attempts


def _pairs_over(options: DatasetOptions) -> pl.Expr:
    return _place("_task") >= options.max_pairs


def _one_sided(options: DatasetOptions) -> pl.Expr:
    """Pairs by which the side with more of the longer answers outruns the bounds of `longer_share`.

    The share is that of pairs whose chosen side is the longer one among those whose sides differ in length. Left alone are a
    split with fewer than 20 such pairs, where the share is noise and each pair dear, and one in which a side has none: there
    nothing that is left would be balanced.
    """
    if options.longer_share is None:
        return _NO
    low, high = options.longer_share
    longer = pl.col("_chosen_chars") > pl.col("_rejected_chars")
    shorter = pl.col("_chosen_chars") < pl.col("_rejected_chars")
    n_longer, n_shorter = longer.sum().over("split"), shorter.sum().over("split")
    enough = (n_longer + n_shorter >= _FEW) & (n_longer > 0) & (n_shorter > 0)
    share = n_longer / (n_longer + n_shorter)
    side = pl.when(longer).then(1).when(shorter).then(2).otherwise(0)
    rank = pl.int_range(pl.len()).over("split", side)

    def most(other: pl.Expr, odds: float) -> pl.Expr:
        return (other * odds + 1e-9).floor().clip(lower_bound=1)

    above = _NO if high >= 1 else longer & (share > high + 1e-9) & (rank >= most(n_shorter, high / (1 - high)))
    below = _NO if low <= 0 else shorter & (share < low - 1e-9) & (rank >= most(n_longer, (1 - low) / low))
    return enough & (above | below)


def _class_over(options: DatasetOptions) -> pl.Expr:
    """Rows of the larger class past its multiple of the smaller one, the tasks with most of them first; none without both."""
    n_pos, n_neg = pl.col("label").sum().over("split"), (~pl.col("label")).sum().over("split")
    other = pl.when("label").then(n_neg).otherwise(n_pos)
    return (other > 0) & (_place("split", "label") >= (other * options.class_ratio + 1e-9).floor())


def _dominates(_: DatasetOptions) -> pl.Expr:
    """Rows of a task for which its split has too few others to stand between them."""
    others = pl.len().over("split").cast(pl.Int64) - pl.len().over("_task", "split").cast(pl.Int64)
    return _place("_task", "split") > others


_DUPLICATE = Rule("duplicate_exact", ("_split", "_order"), _repeated)
_TASK_CAP = Rule("task_cap", ("_attempt_chars", "_attempt"), _attempts_over)
RULES: dict[str, tuple[Rule, ...]] = {
    "conversation": (_DUPLICATE, _TASK_CAP),
    "turn": (_DUPLICATE, _TASK_CAP),
    "pair": (
        _DUPLICATE,
        Rule("task_cap", ("-margin", "_order"), _pairs_over),
        Rule("length_balance", ("-margin", "_order"), _one_sided),
    ),
    "judged": (
        Rule("label_conflict", ("_split", "_order"), _conflict),
        _DUPLICATE,
        Rule("class_ratio", ("_turn", "_order"), _class_over),
        Rule("task_dominates", ("_order",), _dominates),
    ),
    "prompt": (_DUPLICATE,),
    "process": (_DUPLICATE,),
    "world": (_DUPLICATE,),
}
# Here one rule can undo another: to leave out a dominating task's rows moves the ratio of the classes.
_UNTIL_STABLE = frozenset({"judged"})


def select(kind: str, keys: pl.DataFrame, options: DatasetOptions) -> pl.DataFrame:
    """The keys, in their order, with `reason` (null: selected) and `_order`, by which the rows of a split are sorted.

    Nothing rests on the order of `keys` or on how they were cut in slices. `_order` is the first 64 bits of a hash of seed and
    row, so that the old rows keep their order when new ones come; it breaks every tie. Judged rows get their place in the file
    instead, null when left out: the same shuffle, with rows moved where two of one task would be neighbours.

    Args:
        kind: Key of `RULES`.
        keys: row_id or `_order` (see `shuffle_key`), task_id, split, _hash, _chars, attempt_id where rows have one, and what the
            rules read: margin, _chosen_chars and _rejected_chars of pairs, label of judged rows. Other columns are kept.
        options: Of the dataset.
    """
    frame = keys if "_order" in keys.columns else keys.with_columns(_order=shuffle_key(options.seed))
    live = _measured(kind, frame, options)
    left = [live.select("_at", reason=pl.lit(None, dtype=pl.String)).clear()]
    again = True
    while again:
        before = live.height
        for rule in RULES[kind]:
            live, dropped = _apply(rule, live, options)
            left.append(dropped)
        again = kind in _UNTIL_STABLE and live.height < before
    reasons = pl.concat(left)
    frame = frame.with_row_index("_at").join(reasons, on="_at", how="left", maintain_order="left")
    if kind == "judged":
        places = apart(live.select("_at", "split", "_task", "_order"))
        frame = frame.drop("_order").join(places, on="_at", how="left", maintain_order="left")
    return frame.select(*(c for c in keys.columns if c != "_order"), "reason", "_order")


def _measured(kind: str, frame: pl.DataFrame, options: DatasetOptions) -> pl.DataFrame:
    """What the rules sort by and count, as small numbers: sorting a million names takes seconds."""
    names = [name for name, _ in options.splits]
    read = ("split", "_hash", "_order", "margin", "_chosen_chars", "_rejected_chars", "label")
    # Rows without a task are no task together.
    task = pl.coalesce([c for c in ("task_id", "attempt_id", "row_id") if c in frame.columns])
    live = frame.with_row_index("_at").select(
        "_at",
        *(c for c in read if c in frame.columns),
        _split=pl.col("split").replace_strict(names, range(len(names)), default=len(names), return_dtype=pl.Int32),
        # A task, and an attempt at it, is named by the least hash of its rows.
        _task=pl.col("_order").min().over(task),
        **(
            {
                "_attempt": pl.col("_order").min().over(task, "attempt_id"),
                "_attempt_chars": pl.col("_chars").sum().over(task, "attempt_id"),
            }
            if _TASK_CAP in RULES[kind]
            else {}
        ),
    )
    if kind != "judged":
        return live
    # The how-manieth row of its task and class: in this order every task gives one before any gives a second.
    return live.sort("_order").with_columns(_turn=_place("_task", "label"))


def _apply(rule: Rule, live: pl.DataFrame, options: DatasetOptions) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The rows that a rule keeps, and what it leaves out with its reason."""
    by = [c.removeprefix("-") for c in rule.order]
    down = [c.startswith("-") for c in rule.order]
    marked = live.sort(by, descending=down, nulls_last=True).with_columns(
        _drop=rule.drop(options).fill_null(value=False)
    )
    kept = marked.filter(~pl.col("_drop")).drop("_drop")
    return kept, marked.filter("_drop").select("_at", reason=pl.lit(rule.reason))


def kto_weights(n_pos: int, n_neg: int) -> tuple[float, float] | None:
    """(desirable_weight, undesirable_weight) such that desirable x n_pos / (undesirable x n_neg) lies in [1, 1.33].

    The smaller of the two is 1; the other has two decimals. None where a class is empty.
    """
    if n_pos <= 0 or n_neg <= 0:
        return None
    if n_pos < n_neg:
        return -(-100 * n_neg // n_pos) / 100, 1.0
    if 100 * n_pos <= 133 * n_neg:
        return 1.0, 1.0
    return 1.0, (100 * n_pos // n_neg) / 100


def length_report(pairs: pl.DataFrame) -> dict[str, int | float | None]:
    """How length goes with preference.

    Args:
        pairs: _chosen_chars, _rejected_chars, margin.

    Returns:
        n_pairs; n_longer and n_shorter (chosen against rejected, equal ones in neither); share_longer =
        n_longer / (n_longer + n_shorter); length_margin_correlation, Pearson's between chosen - rejected characters and margin
        over pairs with a margin. The last two are null where undefined.
    """
    rated = pairs.filter(pl.col("margin").is_not_null())
    gap = pl.col("_chosen_chars").cast(pl.Int64) - pl.col("_rejected_chars").cast(pl.Int64)
    n_longer, n_shorter = int(pairs.select((gap > 0).sum()).item()), int(pairs.select((gap < 0).sum()).item())
    both = rated.select(gap=gap, margin="margin")
    varied = both.height > 1 and all(both.select((pl.all().max() > pl.all().min()).fill_null(value=False)).row(0))
    correlation = both.select(pl.corr("gap", "margin")).item() if varied else None
    return {
        "n_pairs": pairs.height,
        "n_longer": n_longer,
        "n_shorter": n_shorter,
        "share_longer": n_longer / (n_longer + n_shorter) if n_longer + n_shorter else None,
        "length_margin_correlation": correlation,
    }
