"""What a pack can state: kinds of statements as data, and how one becomes a sentence.

A kind is a list of pieces. A piece whose parts are all there is in the sentence; one that lacks a part is left out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from expcomp.io.wording import worded
from expcomp.tables.packs import SECTIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

_PART = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind: its section, what `support` and `total` count, how many SKILL.md shows, and the pieces of its sentence."""

    section: str
    unit: str
    shown: int
    pieces: tuple[str, ...]


KINDS: dict[str, Kind] = {
    "task": Kind("when", "packages", 3, ("{heading}", "{instruction}")),
    "domain": Kind(
        "when", "tasks", 2, ("Domain {subject}", ", workflow {workflow_family}", ": {support} of {total} tasks.")
    ),
    "record": Kind(
        "when",
        "attempts",
        1,
        (
            "On record: {total} attempts",
            ", {passing} passed",
            ", {failing} failed",
            ", {unjudged} without a verdict",
            ".",
        ),
    ),
    "request": Kind("when", "attempts", 2, ("A user asked: {subject}",)),
    "input_file": Kind(
        "inputs", "packages", 5, ("Input file `{subject}`", ", {size} bytes", " ({support} of {total} packages).")
    ),
    "constraint": Kind("inputs", "tasks", 3, ("Constraint: {subject}", " ({support} of {total} tasks).")),
    "deliverable": Kind("inputs", "tasks", 4, ("Deliverable: {subject}", " ({support} of {total} tasks).")),
    "step": Kind(
        "steps",
        "passing attempts",
        9,
        (
            "`{subject}`",
            " to {operation}",
            ": {support} of {total} passing attempts",
            ", first as action {first} (median)",
            ".",
        ),
    ),
    "program": Kind(
        "steps", "passing attempts", 5, ("`{tool}` runs `{program}`: {support} of {total} passing attempts.",)
    ),
    "order": Kind(
        "steps",
        "passing attempts",
        4,
        ("`{tool}` is followed at once by `{after}`: {support} of {total} passing attempts.",),
    ),
    "sequence": Kind("steps", "passing attempts", 1, ("The shortest passing attempt, {actions} actions: {sequence}.",)),
    "unrated_use": Kind(
        "steps",
        "attempts without a verdict",
        9,
        ("`{subject}` is called {calls} times in {support} of {total} attempts that nobody judged.",),
    ),
    "tool_gap": Kind(
        "decisions",
        "attempts",
        3,
        ("`{subject}` is used by {passing} of {all_passing} passing and {failing} of {all_failing} failing attempts.",),
    ),
    "program_gap": Kind(
        "decisions",
        "attempts",
        2,
        ("`{program}` is run by {passing} of {all_passing} passing and {failing} of {all_failing} failing attempts.",),
    ),
    "criterion_gap": Kind(
        "decisions",
        "graded attempts",
        3,
        ("'{subject}' holds in {passing} of {all_passing} passing and {failing} of {all_failing} failing attempts.",),
    ),
    "measure_gap": Kind(
        "decisions",
        "attempts",
        3,
        ("{subject} (median): {passing} in {all_passing} passing, {failing} in {all_failing} failing attempts.",),
    ),
    "step_failure": Kind(
        "failures",
        "attempts",
        6,
        (
            "`{subject}` fails",
            " with {problem}",
            ": {times} x in {support} of {total} attempts.",
            " A retry that worked: {retry}.",
            " A later call of `{subject}` that worked: {later}.",
        ),
    ),
    "criterion_failure": Kind(
        "failures",
        "graded attempts",
        4,
        (
            "'{subject}' is missed in {support} of {total} attempts.",
            " The grader: {rationale}",
            " Feedback: {feedback}",
            " It holds in {fixed} later attempts.",
        ),
    ),
    "review": Kind(
        "corrections",
        "attempts",
        5,
        ("{reviewer} asked: {subject}", " (mean score {before} before, {after} after)", " [{support} attempts]."),
    ),
    "criterion": Kind(
        "checks",
        "graded attempts",
        6,
        (
            "{subject}",
            ": {description}",
            " (weight {weight}",
            ", holds from {threshold})",
            "; held in {support} of {total}.",
        ),
    ),
    "plan_check": Kind("checks", "plans", 2, ("A plan checks: {subject}", " ({support} of {total} plans).")),
    "contract_check": Kind(
        "checks",
        "contract checks",
        3,
        ("The output contract checks `{subject}`", "; it held in {support} of {total} checks."),
    ),
    "verify_action": Kind(
        "checks",
        "passing attempts",
        3,
        ("`{subject}` verifies", ": {support} of {total} passing attempts", ", e.g. {example}", "."),
    ),
}
ORDER = {name: place for place, name in enumerate(KINDS)}

MISSING: dict[str, str] = {
    "when": "no task or request whose text was found",
    "inputs": "no input file, constraint or deliverable is named",
    "steps": "no attempt with actions was found",
    "decisions": "nothing separates passing from failing attempts, or one of the two kinds is missing",
    "failures": "no failed step or missed criterion was recorded",
    "corrections": "no reviewer's feedback that an attempt followed was recorded",
    "checks": "no criterion that an agent may see, and no check, was recorded",
}
"""What a section says when nothing can be stated in it."""
assert tuple(MISSING) == SECTIONS

_PARTS = sorted({p for k in KINDS.values() for piece in k.pieces for p in _PART.findall(piece)})


def clean(text: pl.Expr) -> pl.Expr:
    """A text on one line that no Markdown mark can break: white space runs as one space, no control characters, no backtick."""
    return (
        text.str.replace_all(r"\s+", " ")
        .str.replace_all(r"\p{C}", "�")
        .str.replace_all("`", "'", literal=True)
        .str.strip_chars()
    )


def sentence(kind: str, columns: Sequence[str]) -> pl.Expr:
    """The sentence of a kind, from the parts that the frame has."""
    have = set(columns)
    pieces = [
        worded(_PART.sub("{}", piece), *(pl.col(p).cast(pl.String) for p in parts)) if parts else pl.lit(piece)
        for piece in KINDS[kind].pieces
        if set(parts := _PART.findall(piece)) <= have
    ]
    return pl.concat_str(pieces, ignore_nulls=True)


def stated(frame: pl.DataFrame, kind: str, *, rank: pl.Expr | None = None) -> pl.DataFrame:
    """Statements of one kind: a line for each line of the frame, in the columns that all kinds share.

    Args:
        frame: pack_id, subject, attempt_ids, cites, and the parts of the kind; support and total where it has them.
        kind: A key of `KINDS`.
        rank: Smaller comes first inside the kind; by default more support first.
    """
    texts = [c for c, t in frame.schema.items() if t == pl.String and c in _PARTS]
    tidy = frame.with_columns(clean(pl.col(c)).alias(c) for c in texts)
    none = pl.lit(None, dtype=pl.Int64)
    return tidy.select(
        "pack_id",
        pl.lit(KINDS[kind].section).alias("section"),
        pl.lit(kind).alias("kind"),
        "subject",
        text=sentence(kind, tidy.columns),
        support=pl.col("support").cast(pl.Int64) if "support" in tidy.columns else none,
        total=pl.col("total").cast(pl.Int64) if "total" in tidy.columns else none,
        attempt_ids="attempt_ids",
        cites="cites",
        rank=(-pl.col("support").cast(pl.Float64) if rank is None else rank.cast(pl.Float64)),
    )
