"""JSON Schema (draft 2020-12) of every document, so that others can check receipts and decisions without this package."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from expcomp.tables.training import PARTITION
from expcomp.training.bundle import BundleManifest
from expcomp.training.checks import ROW_KEYS
from expcomp.training.cost_records import CostRecord
from expcomp.training.decisions import ImprovementDecision, MeasuredComparison
from expcomp.training.documents import Document
from expcomp.training.experiments import BenchmarkSeal, ExperimentCell, ExperimentDocument, SuiteDocument, TaskDocument
from expcomp.training.guard import ExposureReport
from expcomp.training.identity import DatasetIdentity, TaskIdentity
from expcomp.training.payloads import PAYLOADS
from expcomp.training.population import PopulationRecord, SearchLineage
from expcomp.training.profile import Profile
from expcomp.training.receipts import TrainingAncestry, TrainingReceipt, TrainingRequest
from expcomp.training.release import ActivationResult, ImprovementActivation, ImprovementProposal, ImprovementReview
from expcomp.training.run.journal import StageRecord
from expcomp.training.run.plan import RunPlan
from expcomp.training.run.results import TrainingFailure, TrainingSuccess
from expcomp.training.run.serving import ServingOrder
from expcomp.training.run_receipts import RunReceipt

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
    "training_plan": RunPlan,
    "training_journal_record": StageRecord,
    "training_success": TrainingSuccess,
    "training_failure": TrainingFailure,
    "serving_order": ServingOrder,
    "cost_record": CostRecord,
    "population": PopulationRecord,
    "search_lineage": SearchLineage,
    "run_receipt": RunReceipt,
}
"""Documents by the name of their schema."""


FILE = "{}.schema.json"
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_DEFS = "#/$defs/{name}"
_WORD = re.compile(r"_([a-z0-9])")
_ATTRIBUTE = re.compile(r"^    (\w[\w, ]*): ", re.MULTILINE)
DATASET = "training_dataset"
"""Name of the schema of a dataset document, which no class holds whole: it may have a million rows."""


def schema_files() -> dict[str, str]:
    """The schemas of all documents as files, by name."""
    made = {name: document_schema(name) for name in KINDS} | {DATASET: dataset_schema()}
    return {FILE.format(n): json.dumps(s, indent=2, ensure_ascii=False) + "\n" for n, s in made.items()}


def schema_titles() -> dict[str, str]:
    """What each document is, by the name of its schema."""
    titles = {name: _parts(inspect.cleandoc(kind.__doc__ or ""))[0] for name, kind in KINDS.items()}
    return titles | {DATASET: _DATASET_TITLE}


def document_schema(name: str) -> dict[str, Any]:
    """JSON Schema of a document: types and bounds. What spans fields is in `RULES` of its class.

    Raises:
        KeyError: There is no document of this name.
    """
    if name == DATASET:
        return dataset_schema()
    (made,), parts = msgspec.json.schema_components([KINDS[name]], ref_template=_DEFS)
    return {"$schema": _DIALECT, "title": name} | made | {"$defs": _portable(_told(parts))}


_DATASET_TITLE = "Dataset of a training run: rows with their partition and the task they were made from."


def dataset_schema() -> dict[str, Any]:
    """JSON Schema of a dataset document; what spans rows is in `checks.CHECKS`."""
    refs, parts = msgspec.json.schema_components([TaskIdentity, *PAYLOADS.values()], ref_template=_DEFS)
    row = {
        "type": "object",
        "properties": {
            "data": {"type": "object"},
            "partition": {"enum": PARTITION.categories.to_list()},
            "task": refs[0],
        },
        "required": list(ROW_KEYS),
        "additionalProperties": False,
    }
    payloads = zip(PAYLOADS, refs[1:], strict=True)
    return {
        "$schema": _DIALECT,
        "title": DATASET,
        "description": _DATASET_TITLE,
        "type": "object",
        "properties": {
            "version": {"const": 1},
            "format": {"enum": list(PAYLOADS)},
            "rows": {"type": "array", "minItems": 1, "items": row},
        },
        "required": ["version", "format", "rows"],
        "additionalProperties": False,
        "allOf": [
            {
                "if": {"properties": {"format": {"const": kind}}},
                "then": {"properties": {"rows": {"items": {"properties": {"data": payload}}}}},
            }
            for kind, payload in payloads
        ],
        "$defs": _portable(_told(parts)),
    }


def _told(parts: Mapping[str, Any]) -> dict[str, Any]:
    """Definitions with what the docstrings of their classes say of each field."""
    made = {}
    for name, part in sorted(parts.items()):
        first, fields = _parts(part.get("description", ""))
        properties = {
            key: value | ({"description": fields[key]} if key in fields else {})
            for key, value in part.get("properties", {}).items()
        }
        made[name] = (
            part | ({"description": first} if first else {}) | ({"properties": properties} if properties else {})
        )
    return made


def _parts(docstring: str) -> tuple[str, dict[str, str]]:
    """What a docstring says of the class, and of its attributes by their names on the wire."""
    told, _, attributes = docstring.partition("\n\nAttributes:\n")
    names = _ATTRIBUTE.split(attributes)[1:]
    fields = {
        _WORD.sub(lambda m: m[1].upper(), name.strip()): " ".join(text.split())
        for several, text in zip(names[::2], names[1::2], strict=True)
        for name in several.split(",")
    }
    return " ".join(told.split()), fields


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
