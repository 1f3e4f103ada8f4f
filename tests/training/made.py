"""Datasets, receipts and profiles of the tests: small, valid, and easy to break."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from expcomp.io.canon import digest_bytes
from expcomp.training.decisions import Accounting, ImprovementDecision, Interval, Measure, MeasuredComparison
from expcomp.training.documents import document_digest, seal, to_wire
from expcomp.training.experiments import (
    BenchmarkSeal,
    CandidateLineage,
    EvaluationPolicy,
    ExperimentCell,
    ExperimentDocument,
    GraderIdentity,
    ProfileDiff,
    ScenarioIdentity,
    SuiteDocument,
    TaskDocument,
)
from expcomp.training.identity import DatasetIdentity, TaskIdentity, dataset_identity, task_frame
from expcomp.training.profile import Profile, ProfileModel
from expcomp.training.receipts import (
    Checkpoint,
    TrainerIdentity,
    TrainingAncestry,
    TrainingReceipt,
    TrainingRequest,
    extended,
    trained_model_id,
)
from expcomp.training.release import (
    ActivationResult,
    ActivationTarget,
    Chain,
    ImprovementActivation,
    ImprovementProposal,
    ImprovementReview,
)
from expcomp.training.run.results import TrainingFailure, TrainingSuccess

PAYLOADS: Mapping[str, dict[str, Any]] = {
    "sft": {"messages": [{"role": "user", "content": "Count."}, {"role": "assistant", "content": "Twelve."}]},
    "dpo": {"prompt": "Count.", "chosen": "Twelve.", "rejected": "A few.", "margin": 0.5},
    "grpo": {"prompt": [{"role": "user", "content": "Count."}], "completions": ["12", "13"], "rewards": [1.0, 0.0]},
}


def sha(text: str) -> str:
    return digest_bytes(text.encode())


def row(
    task: str = "t1",
    partition: str = "train",
    *,
    benchmark: str = "bench",
    content: str | None = None,
    kind: str = "sft",
) -> dict[str, Any]:
    identity = {"benchmark": benchmark, "task": task, "contentDigest": sha(task if content is None else content)}
    return {"data": json.loads(json.dumps(PAYLOADS[kind])), "partition": partition, "task": identity}


def document(rows: Sequence[Any], kind: str = "sft", **top: Any) -> dict[str, Any]:
    return {"version": 1, "format": kind, "rows": list(rows)} | top


def write(path: Path, value: Any, *, compact: bool = True) -> Path:
    text = (
        value
        if isinstance(value, str)
        else json.dumps(value, ensure_ascii=False, separators=(",", ":") if compact else None)
    )
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    return path


def identity(*tasks: tuple[str, str, str], digest: str = sha("dataset")) -> DatasetIdentity:
    made = tuple(TaskIdentity(benchmark=b, task=t, content_digest=c) for b, t, c in tasks)
    return dataset_identity(task_frame(made), digest)


def receipt(
    name: str, parent: TrainingReceipt | None = None, dataset: DatasetIdentity | None = None
) -> TrainingReceipt:
    return TrainingReceipt(
        version=1,
        dataset=dataset or identity(("bench", name, sha(name))),
        parent_profile_digest=sha(f"profile before {name}"),
        parent_receipt_digest=None if parent is None else document_digest(parent),
        execution_ref=sha("execution"),
        trainer=TrainerIdentity(
            mode="command", id="trl-sft", revision=sha("command"), parameters={"learning_rate": 1e-5}
        ),
        checkpoint=Checkpoint(
            artifact_digest=sha(f"weights {name}"),
            artifact_bytes=7,
            router_model_id=trained_model_id(sha(f"weights {name}")),
            serving_digest=None,
        ),
    )


def ancestry(*names: str, datasets: Mapping[str, DatasetIdentity] | None = None) -> TrainingAncestry:
    """Receipts of these names, oldest first, as the ancestry of the last."""
    made: TrainingAncestry | None = None
    for name in names:
        made = extended(receipt(name, None if made is None else made.receipt, (datasets or {}).get(name)), made)
    assert made is not None
    return made


def profile(training: TrainingAncestry | None = None, **more: Any) -> Profile:
    default = "base-model" if training is None else training.receipt.checkpoint.router_model_id
    metadata = {} if training is None else {"training": to_wire(training)}
    fields: dict[str, Any] = {
        "harness": "loop",
        "model": ProfileModel(provider="local", default=default),
        "metadata": metadata,
    }
    return Profile(**fields | more)


def measure(name: str = "score", low: float = 0.1, high: float = 0.3) -> Measure:
    interval = Interval(low=low, high=high, confidence=0.95, method="bca", resamples=2000)
    return Measure(name=name, baseline_mean=0.5, candidate_mean=0.7, difference=0.2, interval=interval, n_units=2)


def task_document(name: str) -> TaskDocument:
    made: TaskDocument = seal(
        TaskDocument(
            scenario=ScenarioIdentity(id=name, kind="repair", digest=sha(name)),
            grader=GraderIdentity(id="tests", artifact_digest=sha("grader")),
            model="base-model",
            limits={"steps": 30},
        )
    )
    return made


TASKS = (task_document("a"), task_document("b"))
SUITE: SuiteDocument = seal(
    SuiteDocument(
        split_digest=sha("final"), task_digests=tuple(str(t.digest) for t in TASKS), repetitions=2, seeds=(1, 2, 3, 4)
    )
)
SEAL: BenchmarkSeal = seal(BenchmarkSeal(suite=SUITE, tasks=TASKS))
POLICY = EvaluationPolicy(confidence=0.95, resamples=2000, seed=7, minimum_lift=0.0)
DIFF = ProfileDiff(
    digest=sha("diff"), before=sha("old"), after=sha("new"), content={"prompts": {"system": "Count twice."}}
)
EXPERIMENT: ExperimentDocument = seal(
    ExperimentDocument(
        source_ref=sha("old"),
        execution_ref=sha("execution"),
        baseline_digest=sha("old"),
        candidate_digest=sha("new"),
        change=(DIFF,),
        lineage=CandidateLineage(
            origin="optimizer", parents=(sha("old"),), runs=("run-1",), development_split_digest=sha("development")
        ),
        benchmark_digest=str(SEAL.digest),
        split_digest=sha("final"),
        policy=POLICY,
    )
)
CELL: ExperimentCell = seal(
    ExperimentCell(
        experiment_digest=str(EXPERIMENT.digest),
        arm="candidate",
        state_digest=sha("new"),
        suite_digest=str(SUITE.digest),
        task_digest=str(TASKS[0].digest),
        task_index=0,
        repetition=1,
        seed=2,
    )
)
COMPARISON: MeasuredComparison = seal(
    MeasuredComparison(
        experiment_digest=str(EXPERIMENT.digest),
        policy_digest=document_digest(POLICY),
        unit="task",
        n_tasks=2,
        repetitions=2,
        n_units=2,
        n_samples=4,
        failed_runs=0,
        score=measure(),
        objectives=(measure("cost"),),
        dimensions=(measure("style"),),
        accounting=Accounting(
            preparation_nanos=1, measurement_nanos=2, known_nanos=3, unknown_calls=0, unknown_maximum_nanos=0
        ),
    )
)
DECISION: ImprovementDecision = seal(
    ImprovementDecision(
        experiment_digest=str(EXPERIMENT.digest),
        comparison_digest=str(COMPARISON.digest),
        outcome="ship",
        reasons=(),
        low=0.1,
        point=0.2,
        high=0.3,
        method="bca",
        n_units=2,
    )
)
PROPOSAL: ImprovementProposal = seal(
    ImprovementProposal(
        run_id="run-1",
        created_at="2026-01-02T03:04:05Z",
        baseline_digest=sha("old"),
        candidate_digest=sha("new"),
        surfaces=("agent-profile",),
        comparison=COMPARISON,
        decision=DECISION,
    )
)
REVIEW: ImprovementReview = seal(
    ImprovementReview(
        proposal_digest=str(PROPOSAL.digest),
        verdict="approve",
        reviewer="somebody",
        reviewed_at="2026-01-03T00:00:00Z",
        reason="The bound is above 0.",
    )
)
ACTIVATION: ImprovementActivation = seal(
    ImprovementActivation(
        proposal_digest=str(PROPOSAL.digest),
        review_digest=str(REVIEW.digest),
        experiment_digest=str(EXPERIMENT.digest),
        candidate_digest=sha("new"),
        execution_ref=sha("execution"),
        intent="activate-candidate",
        targets=(ActivationTarget(surface="agent-profile", identity="desk", expected_base_digest=sha("old")),),
        payer="team",
        authorized_by="somebody",
        authorized_at="2026-01-03T00:00:01Z",
        expires_at="2026-01-04T00:00:00Z",
    )
)
RESULT: ActivationResult = seal(
    ActivationResult(
        activation_digest=str(ACTIVATION.digest),
        idempotency_key="once",
        attempted_at="2026-01-03T00:00:02Z",
        completed_at="2026-01-03T00:00:03Z",
        outcome="applied",
        before_digest=sha("old"),
        after_digest=sha("new"),
        transaction_id="tx-1",
    )
)
SUCCESS = TrainingSuccess(
    mode="command",
    output_directory="runs/job-1",
    profile_digest=sha("new"),
    receipt_digest=sha("receipt"),
    model=trained_model_id(sha("weights")),
    served=False,
    profile_path="runs/job-1/profile.json",
    receipt_path="runs/job-1/receipt.json",
    checkpoint_path="runs/job-1/checkpoint.bin",
)
FAILURE = TrainingFailure(
    mode="command",
    stage="serving",
    reason="router down",
    output_directory="runs/job-1",
    training_may_exist=False,
    serving_may_exist=True,
    resumable=True,
    cleanup_error=None,
)
CHAIN = Chain(proposal=PROPOSAL, review=REVIEW, activation=ACTIVATION)
REQUEST = TrainingRequest(
    version=1,
    invocation_id="4f1c",
    dataset_path="dataset.json",
    checkpoint_path="checkpoint.bin",
    parent_profile_path="parent-profile.json",
    parent_profile_digest=sha("profile"),
    parameters={"steps": 2},
    execution_ref=sha("execution"),
)
