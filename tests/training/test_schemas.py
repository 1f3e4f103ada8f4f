"""JSON Schemas of the documents say the same as the documents themselves, as far as a schema can."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from expcomp.training.documents import Document, to_wire
from expcomp.training.schemas import KINDS, document_schema
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
)


@pytest.mark.parametrize("name", KINDS)
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
