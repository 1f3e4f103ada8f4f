"""The receipt of one run of an experiment: what ran, what it cost, what came out, how it was graded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import msgspec
import polars as pl
from msgspec import UNSET, Meta, UnsetType

from expcomp.io.text_files import read_text_file
from expcomp.tables.training import RUN_RECEIPTS
from expcomp.training.documents import (
    Count,
    Document,
    DocumentError,
    Name,
    Rule,
    Sealed,
    Sha256,
    Text,
    distinct,
    from_wire,
)
from expcomp.training.experiments import ExperimentCell


class Grading(Document, frozen=True, kw_only=True):
    """What the grader of the task says.

    Attributes:
        artifact_digest: Of the grader, as the task document pins it.
        evidence_digest: Of what it looked at and wrote.
        dimensions: Scores beside the main one.
    """

    grader: Name
    artifact_digest: Sha256
    evidence_digest: Sha256
    score: float
    passed: bool | None = None
    dimensions: dict[str, float] = msgspec.field(default_factory=dict)


class RunReceipt(Sealed, frozen=True, kw_only=True):
    """Record of one run of one cell.

    Attributes:
        execution_id: Of the run; no other has it.
        billing: Ids of its calls in the cost ledger, each once.
        limits: Of the task.
        usage: What was used; at most the limit of the same name.
        model_calls: Calls of a model; as many as were settled.
        events: Events of its trace; at least the calls.
        failure: Code of what ended it, null for a run that was graded.
        observations: Times, hardware, versions; outside of the digest.
    """

    OUTSIDE: ClassVar[tuple[str, ...]] = ("digest", "observations")

    kind: Literal["run-receipt"] = "run-receipt"
    execution_id: Name
    execution_ref: Sha256
    cell: ExperimentCell
    billing: Annotated[tuple[Name, ...], Meta(min_length=1)]
    cost_nanos: Count | None
    model: Name
    limits: dict[str, Count]
    usage: dict[str, Count]
    model_calls: Count
    events: Count
    trace_digest: Sha256
    output_digest: Sha256
    failure: Name | None
    grading: Grading | None
    observations: dict[Text, Any] | UnsetType = UNSET

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule("receipt_billing_duplicate", "billing", lambda r: distinct(r.billing), "each call once"),
        Rule(
            "receipt_over_limit",
            "usage",
            lambda r: all(r.usage.get(name, 0) <= most for name, most in r.limits.items()),
            "at most the limit of the same name",
            lambda r: {n: r.usage[n] for n, most in r.limits.items() if r.usage.get(n, 0) > most},
        ),
        Rule(
            "receipt_calls",
            "modelCalls",
            lambda r: r.model_calls == len(r.billing) and r.events >= r.model_calls,
            "the number of billed calls, and at most the events of the trace",
            lambda r: (r.model_calls, len(r.billing), r.events),
        ),
        Rule(
            "receipt_outcome",
            "grading",
            lambda r: (r.failure is None) == (r.grading is not None),
            "a grading exactly for a run that did not fail",
        ),
        Rule(
            "receipt_evidence",
            "grading.evidenceDigest",
            lambda r: (
                r.grading is None or distinct((r.grading.evidence_digest, r.grading.artifact_digest, r.output_digest))
            ),
            "evidence that is neither the grader nor the output",
        ),
    )


def receipts_frame(receipts: Sequence[RunReceipt]) -> pl.DataFrame:
    """Receipts as a frame (`RUN_RECEIPTS`), in their order."""
    cells = [r.cell for r in receipts]
    graded = [r.grading for r in receipts]
    columns: dict[str, Any] = {
        "receipt_digest": [None if r.digest is UNSET else r.digest for r in receipts],
        **{n: [getattr(r, n) for r in receipts] for n in ("execution_id", "execution_ref", "billing", "model", "failure", "cost_nanos")},
        **{n: [getattr(c, n) for c in cells] for n in _CELL},
        "grader_digest": [g and g.artifact_digest for g in graded],
        "succeeded": [g is not None for g in graded],
        "score": [g and g.score for g in graded],
        "passed": [g and g.passed for g in graded],
        "dimensions": [g and msgspec.json.encode(g.dimensions, order="sorted").decode() for g in graded],
        "duration_ms": [_duration(r.observations) for r in receipts],
    }  # fmt: skip
    return pl.DataFrame({n: columns[n] for n in RUN_RECEIPTS.columns}, schema=RUN_RECEIPTS.schema)


def read_receipts(path: Path) -> pl.DataFrame:
    """A file of run receipts, one a line, each checked in full (`RUN_RECEIPTS`).

    Raises:
        SourceError: It cannot be read.
        TamperedError: The digest of one is not that of its content; the message names the line.
        DocumentError: A line is no receipt.
    """
    made = []
    for number, line in enumerate(read_text_file(path).encode().splitlines(), 1):
        name = f"{path}, line {number}"
        try:
            made.append(from_wire(RunReceipt, msgspec.json.decode(line), name))
        except msgspec.DecodeError as error:
            raise DocumentError(name, "not_json", "", str(error), "a run receipt") from error
    return receipts_frame(made)


_CELL = (
    "experiment_digest", "arm", "state_digest", "suite_digest", "task_digest", "task_index", "repetition", "seed", "attempt"
)  # fmt: skip


def _duration(observations: dict[str, Any] | UnsetType) -> int | None:
    found = None if observations is UNSET else observations.get("durationMs")
    return found if isinstance(found, int) and not isinstance(found, bool) else None
