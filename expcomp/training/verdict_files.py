"""Folders of an experiment: what was sealed before it, and the decision with all that it rests on; anybody can check them."""

from __future__ import annotations

from pathlib import Path

from expcomp.io.publish import publish
from expcomp.io.sinks import write_parquet, write_pieces
from expcomp.training.deciding import Decided, verify_decision
from expcomp.training.decisions import ImprovementDecision, MeasuredComparison
from expcomp.training.documents import DocumentError, TamperedError, document_bytes, read_document
from expcomp.training.experiments import BenchmarkSeal, EvaluationPolicy, ExperimentDocument
from expcomp.training.guard import ExposureReport
from expcomp.training.sealing import cells, check_experiment

EXPERIMENT, BENCHMARK, CELLS = "experiment.json", "benchmark.json", "cells.parquet"
COMPARISON, EXPOSURE, POLICY, DECISION = "comparison.json", "exposure.json", "policy.json", "decision.json"


def write_experiment(experiment: ExperimentDocument, benchmark: BenchmarkSeal, out: Path) -> None:
    """Write experiment, benchmark and the cells that are to be run, in one step. A seal is not replaced.

    Raises:
        OutputError: `out` exists, or cannot be written.
    """
    with publish(out) as staging:
        write_pieces([document_bytes(experiment)], staging / EXPERIMENT)
        write_pieces([document_bytes(benchmark)], staging / BENCHMARK)
        write_parquet(cells(experiment, benchmark), staging / CELLS, {})


def read_experiment(experiment: Path, benchmark: Path) -> tuple[ExperimentDocument, BenchmarkSeal]:
    """A sealed experiment and the benchmark that it names.

    Raises:
        TamperedError: One was changed, or they do not belong together; the message names the file.
        SourceError: One cannot be read.
    """
    seal = read_document(BenchmarkSeal, benchmark)
    made = read_document(ExperimentDocument, experiment)
    if made.benchmark_digest != seal.digest:
        raise TamperedError(
            str(benchmark), "experiment_other_benchmark", "digest", str(seal.digest), made.benchmark_digest
        )
    check_experiment(made, seal)
    return made, seal


def write_decision(decided: Decided, out: Path) -> None:
    """Write comparison, exposure report, policy and decision as canonical documents, in one step. A decision is not replaced.

    Raises:
        OutputError: `out` exists, or cannot be written.
    """
    with publish(out) as staging:
        for name, document in (
            (COMPARISON, decided.comparison),
            (EXPOSURE, decided.exposure),
            (POLICY, decided.policy),
            (DECISION, decided.decision),
        ):
            write_pieces([document_bytes(document)], staging / name)


def check_decision(folder: Path) -> ImprovementDecision:
    """The decision in a folder, made again from the documents beside it.

    Raises:
        TamperedError: A document was changed, or gives another decision; the message names it.
        DocumentError: One is none.
        SourceError: One cannot be read.
    """
    comparison = read_document(MeasuredComparison, folder / COMPARISON)
    exposure = read_document(ExposureReport, folder / EXPOSURE)
    policy = read_document(EvaluationPolicy, folder / POLICY)
    decision = read_document(ImprovementDecision, folder / DECISION)
    for path, found, expected in (
        ("comparisonDigest", decision.comparison_digest, comparison.digest),
        ("exposureDigest", decision.exposure_digest, exposure.digest),
    ):
        if found != expected:
            raise DocumentError(str(folder / DECISION), "decision_other_documents", path, str(found), str(expected))
    # Receipts of an experiment are not in the folder; where they were not in order the decision says so.
    sound = "coverage_incomplete" not in decision.reasons
    verify_decision(decision, comparison, policy, exposure, sound=sound)
    return decision
