"""`schemas/` in the repository is what the code exports, and rows of a compile hold to it."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from expcomp.cli import schema as cli
from expcomp.errors import OutputError
from expcomp.io.schemas import write_schemas
from expcomp.rows.registry import ROW_FAMILIES
from expcomp.tables import models
from expcomp.tables.core import CORE
from expcomp.tables.digests import rules_digest, schema_digest
from expcomp.tables.export import json_schema
from tests.helpers import ROOT

SCHEMAS = ROOT / "schemas"
NAMES = [*CORE, *ROW_FAMILIES]
exported = cache(cli.exported)


def test_the_folder_holds_the_exported_files_and_no_other() -> None:
    assert sorted(p.name for p in SCHEMAS.iterdir()) == sorted(exported())


@pytest.mark.parametrize(
    "name", ["index.md", *(f"{n}.{ending}" for n in NAMES for ending in ("schema.json", "arrow.txt", "md"))]
)
def test_a_file_is_in_step_with_the_code(name: str) -> None:
    assert (SCHEMAS / name).read_text("utf-8") == exported()[name], "run `expcomp schema export schemas/`"


@pytest.mark.parametrize("name", NAMES)
def test_a_json_schema_describes_the_columns_in_order(name: str) -> None:
    schema, table = json_schema(models.table(name)), models.table(name)
    assert list(schema["properties"]) == list(table.columns)
    assert schema["required"] == [n for n, c in table.columns.items() if not c.nullable]
    assert schema["additionalProperties"] is False
    assert all(p["description"] for p in schema["properties"].values())


@pytest.mark.parametrize("name", NAMES)
def test_a_dictionary_names_every_column_and_rule(name: str) -> None:
    text, table = exported()[f"{name}.md"], models.table(name)
    assert [c for c in table.columns if f"| `{c}` |" not in text] == []
    assert [r for r in table.all_rules() if f"- `{r}`" not in text] == []


@pytest.mark.parametrize("name", NAMES)
def test_an_arrow_schema_is_that_of_the_frame(name: str) -> None:
    fields = [line.split(": ", 1)[0] for line in exported()[f"{name}.arrow.txt"].splitlines()]
    assert fields == list(models.table(name).columns)


def rows(compiled: Path, family: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (compiled / f"rows/{family}.jsonl").read_text("utf-8").split("\n")[:-1]]


@pytest.mark.parametrize("family", list(ROW_FAMILIES))
def test_rows_of_a_compile_have_the_keys_of_their_schema(compiled: Path, family: str) -> None:
    schema = json_schema(models.table(family))
    for row in rows(compiled, family):
        assert set(schema["required"]) <= set(row) <= set(schema["properties"])


@pytest.mark.parametrize("family", list(ROW_FAMILIES))
def test_rows_of_a_compile_are_valid(compiled: Path, family: str) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json_schema(models.table(family))
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    assert [e.message for row in rows(compiled, family) for e in validator.iter_errors(row)] == []


def test_most_families_of_the_sample_have_rows(compiled: Path) -> None:
    assert sum(bool(rows(compiled, f)) for f in ROW_FAMILIES) >= 16


def test_the_digest_of_a_schema_follows_its_columns() -> None:
    steps, messages = models.table("steps"), models.table("messages")
    assert schema_digest(steps) != schema_digest(messages)
    assert schema_digest(steps) == json.loads(exported()["steps.schema.json"])["x-expcomp"]["schema_digest"]


def test_digests_are_those_of_another_process() -> None:
    from subprocess import run
    from sys import executable

    from tests.helpers import environment

    code = (
        "from expcomp.tables.digests import rules_digest as r, schema_digest as s\nfrom expcomp.tables.models import table as t\n"
        "print(s(t('preference_pair')), r(t('preference_pair')))"
    )
    said = run(
        [executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=environment({"PYTHONHASHSEED": "7"}),
        timeout=60,
    ).stdout
    table = models.table("preference_pair")
    assert said.split() == [schema_digest(table), rules_digest(table)]


def test_an_export_replaces_what_is_no_longer_there_and_keeps_other_files(tmp_path: Path) -> None:
    for name in ("gone.schema.json", "gone.md", "notes.txt"):
        (tmp_path / name).write_text("old", encoding="utf-8")
    assert write_schemas(tmp_path, {"a.md": "new"}) == ["a.md"]
    assert {p.name: p.read_text("utf-8") for p in tmp_path.iterdir()} == {"a.md": "new", "notes.txt": "old"}


def test_an_export_to_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(OutputError, match="file"):
        write_schemas(tmp_path / "file", {"a.md": "new"})


def test_parquet_files_of_a_compile_have_the_declared_schema(compiled: Path) -> None:
    for family in ROW_FAMILIES:
        assert pl.read_parquet_schema(compiled / f"rows/{family}.parquet") == dict(models.table(family).schema)
