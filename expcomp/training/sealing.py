"""Closing an experiment before anything is measured: benchmark, states, change, policy."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import polars as pl
from msgspec import UNSET

from expcomp.datasets.identity import inventory
from expcomp.io.canon import digest
from expcomp.tables.training import ARM, EXPERIMENT_CELLS
from expcomp.training.diffs import profile_diff
from expcomp.training.documents import DocumentError, TamperedError, document_digest, seal, to_wire, verify_seal
from expcomp.training.experiments import (
    BenchmarkSeal,
    CandidateLineage,
    EvaluationPolicy,
    ExperimentCell,
    ExperimentDocument,
    GraderIdentity,
    ScenarioIdentity,
    SuiteDocument,
    TaskDocument,
    check_fresh,
)
from expcomp.training.profile import Profile

_SEEDS = 1 << 31


def split_digest(scenarios: Sequence[ScenarioIdentity], repetitions: int) -> str:
    """Digest of a split: its scenarios in order, and how often each is run."""
    return digest({"repetitions": repetitions, "scenarios": [to_wire(s) for s in scenarios]})


def seeds_of(seed: int, tasks: int, repetitions: int) -> tuple[int, ...]:
    """A seed for each task and repetition, task by task: bits 2 to 32 of SHA-256 over `seed`, a newline, and the position."""
    hashes = (hashlib.sha256(f"{seed}\n{n}".encode()).digest() for n in range(tasks * repetitions))
    return tuple(int.from_bytes(h[:4], "big") % _SEEDS for h in hashes)


def benchmark_tasks(
    held: pl.DataFrame, grader: GraderIdentity, *, model: str, limits: Mapping[str, int] | None = None
) -> list[TaskDocument]:
    """Held-out tasks as tasks of a benchmark, in their order; the kind of a scenario is its benchmark.

    Args:
        held: benchmark, task, content_digest (`held_out`).
        grader: What grades all of them.
        model: Model snapshot that they are resolved to; an arm may have its own.
        limits: Of each run, by name.

    Raises:
        TableError: A task has no usable name or digest.
    """
    named = held.with_columns(pl.col("benchmark").fill_null("unnamed"))
    inventory(named)
    columns = (named[c].to_list() for c in ("benchmark", "task", "content_digest"))
    return [
        TaskDocument(
            scenario=ScenarioIdentity(id=task, kind=kind, digest=content),
            grader=grader,
            model=model,
            limits=dict(limits or {}),
        )
        for kind, task, content in zip(*columns, strict=True)
    ]


def seal_benchmark(tasks: Sequence[TaskDocument], *, repetitions: int = 1, seed: int = 0) -> BenchmarkSeal:
    """Close the tasks of a benchmark, in this order.

    Args:
        tasks: Sealed here where they are not.
        repetitions: Runs of each task by each arm.
        seed: From which those of the runs are made.

    Raises:
        DocumentError: A task is there twice, or there are fewer than two.
    """
    if len(tasks) < 2:
        raise DocumentError("benchmark", "benchmark_too_small", "tasks", str(len(tasks)), "two tasks or more")
    closed = tuple(t if t.digest is not UNSET else seal(t) for t in tasks)
    suite: SuiteDocument = seal(
        SuiteDocument(
            split_digest=split_digest([t.scenario for t in closed], repetitions),
            task_digests=tuple(str(t.digest) for t in closed),
            repetitions=repetitions,
            seeds=seeds_of(seed, len(closed), repetitions),
        )
    )
    made: BenchmarkSeal = seal(BenchmarkSeal(suite=suite, tasks=closed))
    return made


def seal_experiment(
    benchmark: BenchmarkSeal,
    baseline: Profile,
    candidate: Profile,
    *,
    policy: EvaluationPolicy,
    lineage: CandidateLineage,
    execution_ref: str,
) -> ExperimentDocument:
    """Close an experiment: a baseline against a candidate on a sealed benchmark.

    Args:
        benchmark: What both are measured on.
        baseline: State that is in use.
        candidate: State that may replace it.
        policy: How the result will be judged.
        lineage: Where the candidate comes from.
        execution_ref: Digest that pins executors and adapters.

    Raises:
        DocumentError: Both states are the same, or the candidate was developed on this benchmark, or trained on a task of it: on
            equal content, as far as its receipts list their tasks. `decide` looks at names and inventories, too.
    """
    check_fresh(benchmark, [], _developed_on(candidate))
    change = profile_diff(baseline, candidate)
    made: ExperimentDocument = seal(
        ExperimentDocument(
            source_ref=change.before,
            execution_ref=execution_ref,
            baseline_digest=change.before,
            candidate_digest=change.after,
            change=(change,),
            lineage=lineage,
            benchmark_digest=str(benchmark.digest),
            split_digest=benchmark.suite.split_digest,
            policy=policy,
        )
    )
    check_experiment(made, benchmark)
    return made


def _developed_on(candidate: Profile) -> set[str]:
    """Contents of the tasks that the receipts of a profile list."""
    training = candidate.training
    receipts = [] if training is None else [training.receipt, *training.ancestors]
    return {t.content_digest for r in receipts if isinstance(r.dataset.tasks, tuple) for t in r.dataset.tasks}


def check_experiment(experiment: ExperimentDocument, benchmark: BenchmarkSeal) -> None:
    """Hold an experiment and its benchmark to each other.

    Raises:
        TamperedError: One of them is not the one that was sealed.
    """
    verify_seal(experiment, "experiment")
    verify_seal(benchmark, "benchmark")
    computed = split_digest([t.scenario for t in benchmark.tasks], benchmark.suite.repetitions)
    for name, path, found, expected in (
        ("benchmark", "digest", str(benchmark.digest), experiment.benchmark_digest),
        ("benchmark", "suite.splitDigest", benchmark.suite.split_digest, computed),
        ("experiment", "splitDigest", experiment.split_digest, computed),
    ):
        if found != expected:
            raise TamperedError(name, "experiment_other_benchmark", path, found, expected)


def cells(experiment: ExperimentDocument, benchmark: BenchmarkSeal) -> pl.DataFrame:
    """Every run that an experiment asks for (`EXPERIMENT_CELLS`): arms by tasks by repetitions."""
    suite = benchmark.suite
    arms = pl.DataFrame(
        {"arm": ARM.categories, "state_digest": [experiment.baseline_digest, experiment.candidate_digest]},
        schema_overrides={"arm": ARM},
    )
    tasks = pl.DataFrame(
        {"task": [t.scenario.id for t in benchmark.tasks], "task_digest": list(suite.task_digests)}
    ).with_row_index("task_index")
    runs = pl.DataFrame({"seed": suite.seeds}, schema={"seed": pl.Int64}).select(
        "seed",
        task_index=pl.int_range(pl.len(), dtype=pl.UInt32) // suite.repetitions,
        repetition=pl.int_range(pl.len()) % suite.repetitions,
    )
    made = arms.join(tasks, how="cross", maintain_order="left_right").join(
        runs, on="task_index", how="inner", maintain_order="left_right"
    )
    return made.with_columns(attempt=pl.lit(1)).select(EXPERIMENT_CELLS.columns.keys()).cast(EXPERIMENT_CELLS.schema)


def cell_of(
    experiment: ExperimentDocument, benchmark: BenchmarkSeal, arm: str, task: int, repetition: int
) -> ExperimentCell:
    """One cell as a sealed document.

    Raises:
        DocumentError: There is no such arm, task or repetition.
    """
    suite = benchmark.suite
    states = dict(zip(ARM.categories, (experiment.baseline_digest, experiment.candidate_digest), strict=True))
    if arm not in states or not 0 <= task < len(suite.task_digests) or not 0 <= repetition < suite.repetitions:
        raise DocumentError(
            "cell", "cell_unknown", "", f"{arm}, task {task}, repetition {repetition}", "a cell of the experiment"
        )
    made: ExperimentCell = seal(
        ExperimentCell(
            experiment_digest=str(experiment.digest),
            arm=arm,  # type: ignore[arg-type]
            state_digest=states[arm],
            suite_digest=str(suite.digest),
            task_digest=suite.task_digests[task],
            task_index=task,
            repetition=repetition,
            seed=suite.seeds[task * suite.repetitions + repetition],
        )
    )
    return made


def lineage_of(candidate: Profile, baseline: Profile, run: str) -> CandidateLineage:
    """Lineage of a candidate that one training run made of the baseline: the development split is what it was trained on.

    Raises:
        DocumentError: The candidate declares no training.
    """
    training = candidate.training
    if training is None:
        raise DocumentError("candidate", "lineage_untrained", "metadata.training", "none", "the receipt of the run")
    return CandidateLineage(
        origin="optimizer",
        parents=(document_digest(baseline),),
        runs=(run,),
        development_split_digest=training.receipt.dataset.task_set_digest,
    )


def heldout_frame(benchmark: BenchmarkSeal) -> pl.DataFrame:
    """The tasks of a benchmark as a held-out set: benchmark (the kind of its scenarios), task, content_digest."""
    scenarios = [t.scenario for t in benchmark.tasks]
    return pl.DataFrame(
        {
            "benchmark": [s.kind for s in scenarios],
            "task": [s.id for s in scenarios],
            "content_digest": [s.digest for s in scenarios],
        }
    )


def task_benchmarks(benchmark: BenchmarkSeal) -> pl.DataFrame:
    """task_index, benchmark: the kinds of the scenarios of a benchmark."""
    return heldout_frame(benchmark).select("benchmark").with_row_index("task_index").cast({"task_index": pl.Int64})


def check_candidate(experiment: ExperimentDocument, profile: Profile) -> None:
    """Hold a profile to the candidate of an experiment.

    Raises:
        TamperedError: It is another one.
    """
    found = document_digest(profile)
    if found != experiment.candidate_digest:
        raise TamperedError("candidate profile", "experiment_other_candidate", "", found, experiment.candidate_digest)
