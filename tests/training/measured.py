"""A sealed experiment of the tests with all its runs: small, complete, and easy to break."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from expcomp.io.canon import dumps
from expcomp.training.documents import document_bytes, seal, to_wire
from expcomp.training.experiments import (
    BenchmarkSeal,
    EvaluationPolicy,
    ExperimentDocument,
    GraderIdentity,
    ScenarioIdentity,
    TaskDocument,
)
from expcomp.training.profile import Profile
from expcomp.training.run_receipts import Grading, RunReceipt
from expcomp.training.sealing import cell_of, lineage_of, seal_benchmark, seal_experiment
from tests.training.made import ancestry, profile, sha

POLICY = EvaluationPolicy(
    confidence=0.95, resamples=500, seed=7, minimum_lift=0.0, critical_dimensions=("style",), regression_tolerance=0.1
)
BASELINE = profile()
CANDIDATE = profile(ancestry("one"))
EXECUTION = sha("execution")


def task(name: str) -> TaskDocument:
    return TaskDocument(
        scenario=ScenarioIdentity(id=name, kind="garden", digest=sha(name)),
        grader=GraderIdentity(id="tests", artifact_digest=sha("grader")),
        model="any",
        limits={"steps": 30},
    )


def experiment(
    tasks: int = 24, repetitions: int = 2, policy: EvaluationPolicy = POLICY, candidate: Profile = CANDIDATE
) -> tuple[ExperimentDocument, BenchmarkSeal]:
    benchmark = seal_benchmark([task(f"t{n:02}") for n in range(tasks)], repetitions=repetitions)
    made = seal_experiment(
        benchmark,
        BASELINE,
        candidate,
        policy=policy,
        lineage=lineage_of(candidate, BASELINE, "run-1"),
        execution_ref=EXECUTION,
    )
    return made, benchmark


def receipt(
    of: ExperimentDocument, benchmark: BenchmarkSeal, arm: str, number: int, repetition: int, score: float, **more: Any
) -> RunReceipt:
    name = f"{arm}-{number}-{repetition}"
    given: dict[str, Any] = {
        "execution_id": name,
        "execution_ref": of.execution_ref,
        "cell": cell_of(of, benchmark, arm, number, repetition),
        "billing": (f"call-{name}",),
        "cost_nanos": 1_000,
        "model": "any",
        "limits": {"steps": 30},
        "usage": {"steps": 3},
        "model_calls": 1,
        "events": 4,
        "trace_digest": sha(f"trace {name}"),
        "output_digest": sha(f"output {name}"),
        "failure": None,
        "grading": Grading(
            grader="tests",
            artifact_digest=sha("grader"),
            evidence_digest=sha(f"evidence {name}"),
            score=score,
            passed=score > 0.5,
            dimensions={"style": score},
        ),
        "observations": {"durationMs": 1_000 + number},
    }
    made: RunReceipt = seal(RunReceipt(**given | more))
    return made


def all_receipts(of: ExperimentDocument, benchmark: BenchmarkSeal, lift: float = 0.2) -> list[RunReceipt]:
    rng = np.random.default_rng(5)
    made = []
    for number in range(len(benchmark.tasks)):
        base = float(rng.uniform(0.2, 0.6))
        for arm, gain in (("baseline", 0.0), ("candidate", lift)):
            for repetition in range(benchmark.suite.repetitions):
                score = round(float(np.clip(base + gain + rng.normal(0, 0.05), 0, 1)), 6)
                made.append(receipt(of, benchmark, arm, number, repetition, score))
    return made


def trials(lift: float = 0.2, tasks: int = 24, repetitions: int = 2, **columns: Any) -> pl.DataFrame:
    """The same runs as a table of trials, without a seal."""
    rng = np.random.default_rng(5)
    rows = []
    for number in range(tasks):
        base = float(rng.uniform(0.2, 0.6))
        for arm, gain in (("plain", 0.0), ("tuned", lift)):
            for repetition in range(repetitions):
                score = round(float(np.clip(base + gain + rng.normal(0, 0.05), 0, 1)), 6)
                rows.append(
                    {"benchmark": "garden", "task": f"t{number:02}", "arm": arm, "attempt": repetition, "score": score}
                )
    return pl.DataFrame(rows).with_columns(**({"cost_usd": pl.lit(0.001)} | columns))


def write_sealed(
    folder: Path, receipts: list[RunReceipt], of: ExperimentDocument, benchmark: BenchmarkSeal
) -> list[str]:
    """Files of a sealed experiment, as options of `expcomp decide`."""
    files = {
        "experiment": (folder / "experiment.json", document_bytes(of)),
        "benchmark": (folder / "benchmark.json", document_bytes(benchmark)),
        "receipts": (folder / "receipts.jsonl", b"".join(dumps(to_wire(r)) + b"\n" for r in receipts)),
    }
    for path, data in files.values():
        path.write_bytes(data)
    return [part for name, (path, _) in files.items() for part in (f"--{name}", str(path))]


def changed(path: Path, edit: Any) -> None:
    """Edit a document and leave its digest as it is: of a file of lines, the first line."""
    first, *rest = path.read_bytes().split(b"\n")
    wire = json.loads(first)
    edit(wire)
    path.chmod(0o600)
    path.write_bytes(b"\n".join([dumps(wire), *rest]))
