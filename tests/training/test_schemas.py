"""JSON Schemas of the documents say the same as the documents themselves, as far as a schema can."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from expcomp.cli.schema import exported, show
from expcomp.tables.catalogue import TABLES
from expcomp.training.checks import CHECKS
from expcomp.training.dataset import check_dataset
from expcomp.training.documents import Document, to_wire
from expcomp.training.schemas import DATASET, KINDS, document_schema, schema_files, schema_titles
from tests.helpers import ROOT
from tests.training import made
from tests.training.made import ancestry, identity, profile, receipt, sha

EXAMPLES: tuple[Document, ...] = (
    identity(("b", "t", sha("t"))),
    receipt("one"),
    ancestry("one", "two"),
    profile(ancestry("one")),
    made.REQUEST,
    made.SEAL,
    made.EXPERIMENT,
    made.CELL,
    made.COMPARISON,
    made.DECISION,
    made.PROPOSAL,
    made.REVIEW,
    made.ACTIVATION,
    made.RESULT,
    made.SUCCESS,
    made.FAILURE,
)


@pytest.mark.parametrize("name", [*KINDS, DATASET])
def test_schemas_are_schemas(name: str) -> None:
    schema = document_schema(name)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert r"\\A" not in json.dumps(schema)


@pytest.mark.parametrize("document", EXAMPLES, ids=lambda d: type(d).__name__)
def test_a_document_holds_to_its_schema_and_a_broken_one_does_not(document: Document) -> None:
    name = next(n for n, kind in KINDS.items() if kind is type(document))
    validator = jsonschema.Draft202012Validator(document_schema(name))
    wire: dict[str, Any] = to_wire(document)
    assert list(validator.iter_errors(wire)) == []
    assert not validator.is_valid(wire | {"surprise": 1})
    assert not validator.is_valid({})


@pytest.mark.parametrize("name", [*KINDS, DATASET])
def test_the_file_in_the_repository_is_in_step_with_the_code(name: str) -> None:
    file = f"{name}.schema.json"
    assert (ROOT / "schemas" / file).read_text("utf-8") == schema_files()[file], "run `expcomp schema export schemas/`"


def test_the_index_lists_every_document_and_no_name_is_a_table_too() -> None:
    index = exported()["index.md"]
    assert [n for n in schema_titles() if f"- [{n}]({n}.schema.json): {schema_titles()[n]}" not in index] == []
    assert not schema_titles().keys() & TABLES.keys()


@pytest.mark.parametrize("name", ["training_receipt", DATASET])
def test_a_schema_can_be_shown(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    show(name)
    assert json.loads(capsys.readouterr().out) == document_schema(name)


def test_fields_are_described_where_the_class_does() -> None:
    parts = document_schema("training_receipt")["$defs"]
    assert parts["TrainingReceipt"]["description"] == "Record of one successful training run."
    assert parts["TrainingReceipt"]["properties"]["parentReceiptDigest"]["description"].startswith("Its receipt")
    assert parts["DatasetIdentity"]["properties"]["tasks"]["description"].startswith("The distinct tasks")


WHOLE = made.document([made.row("a"), made.row("b", "validation")])
BROKEN: list[Any] = [
    WHOLE | {"version": 2},
    WHOLE | {"format": "ppo"},
    WHOLE | {"rows": []},
    WHOLE | {"more": 1},
    made.document([made.row("a") | {"more": 1}]),
    made.document([made.row("a") | {"partition": "test"}]),
    made.document([made.row("a", kind="dpo")]),
    made.document([made.row("a")], "grpo"),
    made.document(
        [made.row("a", kind="grpo") | {"data": {"prompt": "x", "completions": ["y"], "rewards": [1]}}], "grpo"
    ),
]


@pytest.mark.parametrize("kind", ["sft", "dpo", "grpo"])
def test_a_good_dataset_holds_to_its_schema(kind: str) -> None:
    validator = jsonschema.Draft202012Validator(document_schema(DATASET))
    assert list(validator.iter_errors(made.document([made.row("a", kind=kind)], kind))) == []


@pytest.mark.parametrize("value", BROKEN)
def test_a_dataset_that_breaks_its_schema_is_refused_by_a_check_too(value: Any, tmp_path: Path) -> None:
    assert not jsonschema.Draft202012Validator(document_schema(DATASET)).is_valid(value)
    found = check_dataset(made.write(tmp_path / "d.json", value)).findings
    assert [c for c in found["code"] if CHECKS[c].severity == "error"]
