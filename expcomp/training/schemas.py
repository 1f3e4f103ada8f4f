"""JSON Schema (draft 2020-12) of every document, so that others can check receipts and decisions without this package."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from expcomp.training.bundle import BundleManifest
from expcomp.training.decisions import ImprovementDecision, MeasuredComparison
from expcomp.training.documents import Document
from expcomp.training.experiments import BenchmarkSeal, ExperimentCell, ExperimentDocument, SuiteDocument, TaskDocument
from expcomp.training.guard import ExposureReport
from expcomp.training.identity import DatasetIdentity, TaskIdentity
from expcomp.training.profile import Profile
from expcomp.training.receipts import TrainingAncestry, TrainingReceipt, TrainingRequest
from expcomp.training.release import ActivationResult, ImprovementActivation, ImprovementProposal, ImprovementReview

KINDS: Mapping[str, type[Document]] = {
    "task_identity": TaskIdentity,
    "dataset_identity": DatasetIdentity,
    "dataset_manifest": BundleManifest,
    "training_request": TrainingRequest,
    "training_receipt": TrainingReceipt,
    "training_ancestry": TrainingAncestry,
    "profile": Profile,
    "exposure_report": ExposureReport,
    "benchmark_task": TaskDocument,
    "benchmark_suite": SuiteDocument,
    "benchmark_seal": BenchmarkSeal,
    "experiment": ExperimentDocument,
    "experiment_cell": ExperimentCell,
    "measured_comparison": MeasuredComparison,
    "improvement_decision": ImprovementDecision,
    "improvement_proposal": ImprovementProposal,
    "improvement_review": ImprovementReview,
    "improvement_activation": ImprovementActivation,
    "activation_result": ActivationResult,
}
"""Documents by the name of their schema."""


def document_schema(name: str) -> dict[str, Any]:
    """JSON Schema of a document: types and bounds. What spans fields is in `RULES` of its class.

    Raises:
        KeyError: There is no document of this name.
    """
    made: dict[str, Any] = _portable(msgspec.json.schema(KINDS[name]))
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": name} | made


def _portable(value: Any) -> Any:
    """Patterns as JSON Schema has them: those of ECMAScript, which knows no other ends of a text than `^` and `$`."""
    if isinstance(value, list):
        return [_portable(v) for v in value]
    if not isinstance(value, dict):
        return value
    return {
        k: v.replace(r"\A", "^").replace(r"\Z", "$") if k == "pattern" and isinstance(v, str) else _portable(v)
        for k, v in value.items()
    }
