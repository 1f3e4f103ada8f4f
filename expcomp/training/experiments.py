"""Sealed experiments: what is measured, on what, under which policy, and each cell of it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from expcomp.training.documents import (
    Count,
    Document,
    DocumentError,
    Name,
    NotNegative,
    Positive,
    Rule,
    Sealed,
    Sha256,
    ascending,
    distinct,
)


class ScenarioIdentity(Document, frozen=True, kw_only=True):
    """One item of a benchmark by the digest of its whole payload."""

    id: Name
    kind: Name
    digest: Sha256


class GraderIdentity(Document, frozen=True, kw_only=True):
    """What grades, pinned by its artifact."""

    id: Name
    artifact_digest: Sha256


class TaskDocument(Sealed, frozen=True, kw_only=True):
    """A benchmark task with all that decides its result."""

    kind: Literal["benchmark-task"] = "benchmark-task"
    digest_algorithm: Literal["sha256"] = "sha256"
    scenario: ScenarioIdentity
    grader: GraderIdentity
    model: Name
    limits: dict[str, Count]


class SuiteDocument(Sealed, frozen=True, kw_only=True):
    """The tasks of an experiment in order, with a seed for each repetition, task by task."""

    kind: Literal["benchmark-suite"] = "benchmark-suite"
    split_digest: Sha256
    task_digests: Annotated[tuple[Sha256, ...], Meta(min_length=1)]
    repetitions: Positive
    seeds: tuple[Count, ...]

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule("suite_tasks_duplicate", "taskDigests", lambda s: distinct(s.task_digests), "each task once"),
        Rule(
            "suite_seeds",
            "seeds",
            lambda s: len(s.seeds) == len(s.task_digests) * s.repetitions,
            "one seed for each task and repetition",
            lambda s: len(s.seeds),
        ),
    )


class BenchmarkSeal(Sealed, frozen=True, kw_only=True):
    """A suite with its tasks, closed before anything is measured."""

    kind: Literal["benchmark-seal"] = "benchmark-seal"
    suite: SuiteDocument
    tasks: tuple[TaskDocument, ...]

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "seal_unsealed_part",
            "suite",
            lambda b: b.suite.digest is not UNSET and all(t.digest is not UNSET for t in b.tasks),
            "suite and tasks with their digests",
        ),
        Rule(
            "seal_other_tasks",
            "tasks",
            lambda b: tuple(t.digest for t in b.tasks) == b.suite.task_digests,
            "the tasks of the suite, in its order",
            tampered=True,
        ),
    )


class EvaluationPolicy(Document, frozen=True, kw_only=True):
    """How the result will be judged; frozen before any run.

    Attributes:
        confidence: Of all intervals.
        resamples, seed: Of the bootstrap.
        minimum_lift: What the lower bound of the difference has to exceed.
        minimum_runs: Runs of an arm below which nothing is proposed.
        min_units: Tasks, or clusters, below which nothing is decided.
        metric: `passed`, `score`, or `auto`: verdicts where every run has one.
        cluster: Column of a unit above the task; the task where it is not set.
        budget_nanos: What all work may cost, in billionths of a dollar.
        critical_dimensions: Scores beside the main one that may not fall by more than `regression_tolerance`.
        objectives: `cost_usd`, `tokens`, `duration_s`: the relative increase that each tolerates, 0.1 for 10 %.
    """

    confidence: Annotated[float, Meta(gt=0, lt=1)]
    resamples: Annotated[int, Meta(ge=100)]
    seed: Count
    minimum_lift: NotNegative
    minimum_runs: Annotated[int, Meta(ge=3)] = 3
    min_units: Count = 20
    metric: Literal["auto", "passed", "score"] = "auto"
    cluster: Name | UnsetType = UNSET
    budget_nanos: Count | UnsetType = UNSET
    critical_dimensions: tuple[Name, ...] = ()
    regression_tolerance: NotNegative = 0.0
    objectives: dict[Literal["cost_usd", "tokens", "duration_s"], NotNegative] = msgspec.field(default_factory=dict)

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "policy_dimensions",
            "criticalDimensions",
            lambda p: ascending(p.critical_dimensions),
            "sorted names, each once",
        ),
    )


class ProfileDiff(Document, frozen=True, kw_only=True):
    """One step from the baseline to the candidate, with its resources in it."""

    digest: Sha256
    before: Sha256
    after: Sha256
    content: dict[str, Any]

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule("diff_changes_nothing", "after", lambda d: d.before != d.after, "another state than before"),
    )


class CandidateLineage(Document, frozen=True, kw_only=True):
    """Where a candidate comes from."""

    origin: Literal["optimizer", "human", "import", "compound"]
    parents: tuple[Sha256, ...] = ()
    runs: tuple[Name, ...] = ()
    development_split_digest: Sha256 | UnsetType = UNSET

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule("lineage_parents_duplicate", "parents", lambda c: distinct(c.parents), "each parent once"),
        Rule(
            "lineage_compound",
            "parents",
            lambda c: c.origin != "compound" or len(c.parents) >= 2,
            "two parents or more of a compound candidate",
            lambda c: len(c.parents),
        ),
        Rule(
            "lineage_generated",
            "developmentSplitDigest",
            lambda c: c.origin != "optimizer" or (bool(c.runs) and c.development_split_digest is not UNSET),
            "runs and the development split of a generated candidate",
        ),
    )


class ExperimentDocument(Sealed, frozen=True, kw_only=True):
    """A baseline against a candidate on a sealed benchmark."""

    kind: Literal["experiment"] = "experiment"
    source_ref: Sha256
    execution_ref: Sha256
    baseline_digest: Sha256
    candidate_digest: Sha256
    change: Annotated[tuple[ProfileDiff, ...], Meta(min_length=1)]
    lineage: CandidateLineage
    benchmark_digest: Sha256
    split_digest: Sha256
    policy: EvaluationPolicy

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "experiment_same_state", "candidateDigest", lambda e: e.baseline_digest != e.candidate_digest, "another state than the baseline"
        ),
        Rule(
            "experiment_other_source",
            "sourceRef",
            lambda e: e.source_ref == e.baseline_digest,
            "the baseline",
            lambda e: e.source_ref,
        ),
        Rule(
            "experiment_change",
            "change",
            lambda e: (e.baseline_digest, *(d.after for d in e.change)) == (*(d.before for d in e.change), e.candidate_digest),
            "diffs that lead from the baseline to the candidate, one after the other",
            tampered=True,
        ),
        Rule(
            "experiment_own_parent",
            "lineage.parents",
            lambda e: e.candidate_digest not in e.lineage.parents,
            "others than the candidate itself",
        ),
        Rule(
            "experiment_parents",
            "lineage.parents",
            lambda e: e.lineage.origin != "optimizer" or e.baseline_digest in e.lineage.parents,
            "the baseline among the parents of a generated candidate",
        ),
        Rule(
            "experiment_split_not_fresh",
            "splitDigest",
            lambda e: e.lineage.development_split_digest != e.split_digest,
            "another split than the candidate was developed on",
            lambda e: e.split_digest,
        ),
    )  # fmt: skip


class ExperimentCell(Sealed, frozen=True, kw_only=True):
    """One run of one arm on one task with one seed."""

    kind: Literal["experiment-cell"] = "experiment-cell"
    experiment_digest: Sha256
    arm: Literal["baseline", "candidate"]
    state_digest: Sha256
    suite_digest: Sha256
    task_digest: Sha256
    task_index: Count
    repetition: Count
    seed: Count
    attempt: Positive = 1


def check_fresh(benchmark: BenchmarkSeal, splits: Collection[str], scenarios: Collection[str]) -> None:
    """Refuse a benchmark that a candidate was developed on.

    Args:
        benchmark: What the release is to be measured on.
        splits: Digests of the splits that the optimiser trained and selected on.
        scenarios: Digests of their scenarios.

    Raises:
        DocumentError: One of them is in the benchmark.
    """
    used = [benchmark.suite.split_digest] if benchmark.suite.split_digest in splits else []
    used += [t.scenario.digest for t in benchmark.tasks if t.scenario.digest in scenarios]
    if used:
        found = f"{len(used)} digests of splits or scenarios that were used in development"
        raise DocumentError(
            "benchmark", "benchmark_not_fresh", "suite", found, "a split and scenarios that nobody searched on"
        )
