"""A contract inferred from a passing attempt holds for it, and each change of its files is named as exactly that fault."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from expcomp.packs.contracts.infer import infer_contracts
from expcomp.packs.contracts.verify import verify_contract
from expcomp.tables.contracts import CONTRACT_TABLES
from tests.helpers import edit, package
from tests.packs.contract_helpers import TABLE, hand_over, parquet, typed


@pytest.fixture(scope="module")
def passing(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    """A contract, and the attempt it was inferred from."""
    root = package(tmp_path_factory.mktemp("contract"), "pkg_a")
    hand_over(root / "attempts/revised")
    return infer_contracts(root)["pkg_a"], root / "attempts/revised"


@pytest.fixture
def attempt(passing: tuple[dict[str, Any], Path], tmp_path: Path) -> Path:
    """A copy of the attempt, to be changed."""
    return shutil.copytree(passing[1], tmp_path / "attempt")


def test_what_was_inferred_holds(passing: tuple[dict[str, Any], Path]) -> None:
    contract, folder = passing
    found = verify_contract(contract, folder)
    assert (found.verdict, found.failures.height, found.listing_ok) == ("pass", 0, True)
    assert found.checked.height == 9
    assert found.to_dict()["repair_plan"]["repair_required"] is False


def csv(folder: Path, frame: pl.DataFrame, name: str = "table.csv", separator: str = ",") -> None:
    (folder / "artifacts" / name).write_bytes(frame.write_csv(separator=separator).encode())


def summary(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    return lambda folder: edit(folder / "artifacts/summary.json", change)


def items(change: Callable[[list[Any]], Any]) -> Callable[[Path], None]:
    return lambda folder: edit(folder / "artifacts/list.json", change)


def write(name: str, data: bytes) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / "artifacts" / name).write_bytes(data)

    return change


def cut(name: str, share: float) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / "artifacts" / name
        data = path.read_bytes()
        path.write_bytes(data[: int(len(data) * share)])

    return change


def replace(name: str, old: str, new: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / "artifacts" / name
        path.write_text(path.read_text("utf-8").replace(old, new), "utf-8")

    return change


def linked(folder: Path) -> None:
    path = folder / "artifacts/report.md"
    path.rename(folder / "elsewhere.md")
    path.symlink_to(folder / "elsewhere.md")


def unlisted(folder: Path) -> None:
    edit(
        folder / "actual_outputs.json",
        lambda doc: doc["deliverable_refs"].remove("attempts/revised/artifacts/table.csv"),
    )


def listed_elsewhere(folder: Path) -> None:
    unlisted(folder)
    edit(folder / "actual_outputs.json", lambda doc: doc["deliverable_refs"].append("attempts/revised/other/table.csv"))


def listed_by_another(folder: Path) -> None:
    unlisted(folder)
    edit(
        folder / "actual_outputs.json",
        lambda doc: doc["deliverable_refs"].append("attempts/baseline/artifacts/table.csv"),
    )


MUTATIONS: dict[str, tuple[Callable[[Path], Any], list[tuple[str, str]]]] = {
    "missing file": (lambda d: (d / "artifacts/report.md").unlink(), [("report.md", "missing_file")]),
    "folder in its place": (
        lambda d: ((d / "artifacts/notes.txt").unlink(), (d / "artifacts/notes.txt").mkdir()),
        [("notes.txt", "missing_file")],
    ),
    "link in its place": (linked, [("report.md", "forbidden_or_hidden_reference")]),
    "empty file": (write("table.csv", b""), [("table.csv", "empty_file")]),
    "dropped column": (lambda d: csv(d, TABLE.drop("level")), [("table.csv", "missing_column:level")]),
    "renamed column": (lambda d: csv(d, TABLE.rename({"level": "depth"})), [("table.csv", "missing_column:level")]),
    "column of words": (
        lambda d: csv(d, TABLE.with_columns(level=pl.lit("high"))),
        [("table.csv", "csv_field_not_numeric:level")],
    ),
    "one word in a column of numbers": (
        replace("table.tsv", "2.25", "deep"),
        [("table.tsv", "csv_field_not_numeric:level")],
    ),
    "NaN in a column of numbers": (
        replace("table.csv", "2.25", "NaN"),
        [("table.csv", "csv_field_not_numeric:level")],
    ),
    "fractions in a column of integers": (
        lambda d: csv(d, TABLE.with_columns(count=pl.Series([4.5, 5.0, 6.0]))),
        [("table.csv", "csv_field_type_mismatch:count")],
    ),
    "no date": (replace("table.csv", "2026-01-03", "3 January"), [("table.csv", "csv_field_type_mismatch:day")]),
    "empty cells": (
        lambda d: csv(d, TABLE.with_columns(id=pl.Series(["g1", None, ""]))),
        [("table.csv", "csv_field_empty:id")],
    ),
    "empty cells among numbers": (
        lambda d: csv(d, TABLE.with_columns(level=pl.Series([1.5, None, 3.5]))),
        [("table.csv", "csv_field_empty:level")],
    ),
    "an empty cell and a word": (
        lambda d: csv(d, TABLE.with_columns(level=pl.Series(["1.5", None, "deep"]))),
        [("table.csv", "csv_field_empty:level"), ("table.csv", "csv_field_not_numeric:level")],
    ),
    "too few rows": (lambda d: csv(d, TABLE.head(2)), [("table.csv", "csv_row_count_mismatch")]),
    "too many rows": (lambda d: csv(d, pl.concat([TABLE, TABLE])), [("table.csv", "csv_row_count_mismatch")]),
    "header only": (lambda d: csv(d, TABLE.head(0)), [("table.csv", "csv_has_no_data_rows")]),
    "more cells than columns": (replace("table.csv", "dry", "dry,more"), [("table.csv", "invalid_csv")]),
    "two columns of one name": (replace("table.csv", "note", "id"), [("table.csv", "invalid_csv")]),
    "wrong encoding": (
        write("table.csv", TABLE.write_csv().replace("dry", "trübe").encode("latin-1")),
        [("table.csv", "invalid_encoding")],
    ),
    "UTF-16 text": (write("notes.txt", "All went well.".encode("utf-16")), [("notes.txt", "invalid_encoding")]),
    "JSON where CSV belongs": (
        write("table.csv", json.dumps({"id": ["g1"]}).encode()),
        [("table.csv", "format_mismatch")],
    ),
    "Parquet where CSV belongs": (write("table.csv", parquet(TABLE)), [("table.csv", "format_mismatch")]),
    "CSV where Parquet belongs": (
        write("table.parquet", TABLE.write_csv().encode()),
        [("table.parquet", "format_mismatch")],
    ),
    "text where a picture belongs": (write("plot.png", b"a picture"), [("plot.png", "format_mismatch")]),
    "truncated Parquet": (cut("table.parquet", 0.8), [("table.parquet", "invalid_parquet")]),
    "Parquet without a column": (
        write("table.parquet", parquet(typed().drop("tags"))),
        [("table.parquet", "missing_column:tags")],
    ),
    "Parquet with a column of another type": (
        write("table.parquet", parquet(typed().cast({"count": pl.String}))),
        [("table.parquet", "parquet_field_not_numeric:count")],
    ),
    "Parquet with dates as text": (
        write("table.parquet", parquet(typed().with_columns(day=pl.lit("soon")))),
        [("table.parquet", "parquet_field_type_mismatch:day")],
    ),
    "Parquet with lists of another type": (
        write("table.parquet", parquet(typed().with_columns(tags=pl.Series([[1], [2], [3]])))),
        [("table.parquet", "parquet_list_item_type_mismatch:tags.0")],
    ),
    "Parquet with one row less": (
        write("table.parquet", parquet(typed().head(2))),
        [("table.parquet", "parquet_row_count_mismatch")],
    ),
    "truncated JSON": (cut("summary.json", 0.5), [("summary.json", "invalid_json")]),
    "NaN in JSON": (replace("summary.json", "2.4167", "NaN"), [("summary.json", "invalid_json")]),
    "JSON key gone": (summary(lambda s: s.pop("rows") and None), [("summary.json", "missing_json_field:rows")]),
    "JSON object gone, with all below it": (
        summary(lambda s: s.pop("source") and None),
        [("summary.json", "missing_json_field:source")],
    ),
    "JSON object is a text": (
        summary(lambda s: s.update(source="north")),
        [("summary.json", "json_field_type_mismatch:source")],
    ),
    "inner JSON key gone": (
        summary(lambda s: s["source"].pop("name") and None),
        [("summary.json", "missing_json_field:source.name")],
    ),
    "JSON number as text": (summary(lambda s: s.update(rows="3")), [("summary.json", "json_field_not_numeric:rows")]),
    "JSON flag as text": (
        summary(lambda s: s.update(checked="yes")),
        [("summary.json", "json_field_type_mismatch:checked")],
    ),
    "JSON null": (summary(lambda s: s.update(checked=None)), [("summary.json", "json_field_empty:checked")]),
    "JSON list is empty": (summary(lambda s: s.update(flags=[])), [("summary.json", "json_field_empty:flags")]),
    "JSON list of another type": (
        summary(lambda s: s.update(flags=["dry", 2])),
        [("summary.json", "json_list_item_type_mismatch:flags.1")],
    ),
    "JSON array where an object belongs": (
        write("summary.json", b"[1, 2]"),
        [("summary.json", "json_root_type_mismatch")],
    ),
    "JSON array with an item less": (items(lambda v: v[:3]), [("list.json", "json_row_count_mismatch")]),
    "JSON array with an item that lacks a key": (
        items(lambda v: v[2].pop("score") and None),
        [("list.json", "missing_json_field:score")],
    ),
    "bad JSON line": (replace("lines.jsonl", '{"id": 2,', '{"id": 2'), [("lines.jsonl", "invalid_json")]),
    "JSON line with another type": (
        replace("lines.jsonl", '"id": 2,', '"id": "2",'),
        [("lines.jsonl", "json_field_not_numeric:id")],
    ),
    "section renamed": (replace("report.md", "## Gaps", "## Holes"), [("report.md", "missing_section:Gaps")]),
    "section only in a code block": (
        replace("report.md", "## Gaps", "```\n## Gaps\n```"),
        [("report.md", "missing_section:Gaps")],
    ),
    "no list of outputs": (
        lambda d: (d / "actual_outputs.json").unlink(),
        [("actual_outputs.json", "missing_actual_outputs_json")],
    ),
    "broken list of outputs": (
        lambda d: (d / "actual_outputs.json").write_text("{", "utf-8"),
        [("actual_outputs.json", "invalid_actual_outputs_json")],
    ),
    "empty list of outputs": (
        lambda d: edit(d / "actual_outputs.json", lambda doc: doc.update(deliverable_refs=[])),
        [("actual_outputs.json", "actual_outputs_json_has_no_file_refs")],
    ),
    "file not listed": (unlisted, [("table.csv", "actual_outputs_json_missing_required_file_ref")]),
    "file of the same name listed": (
        listed_elsewhere,
        [("table.csv", "actual_outputs_json_missing_required_file_ref")],
    ),
    "file of another attempt listed": (
        listed_by_another,
        [("table.csv", "actual_outputs_json_missing_required_file_ref")],
    ),
    "two faults in two files": (
        lambda d: ((d / "artifacts/report.md").unlink(), csv(d, TABLE.head(2))),
        [("report.md", "missing_file"), ("table.csv", "csv_row_count_mismatch")],
    ),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_change_is_named_and_nothing_else(name: str, passing: tuple[dict[str, Any], Path], attempt: Path) -> None:
    change, expected = MUTATIONS[name]
    change(attempt)
    found = verify_contract(passing[0], attempt)
    assert found.verdict == "fail"
    assert list(found.failures.select("path", "issue").rows()) == sorted(expected)
    assert all(found.failures["repair_hint"].str.len_chars() > 0)
    assert [found.failures.schema, found.warnings.schema, found.checked.schema] == [
        t.schema for t in CONTRACT_TABLES.values()
    ]
    plan = found.to_dict()["repair_plan"]
    assert plan["files_to_modify"] == sorted({path for path, _ in expected})
    assert not set(plan["files_to_modify"]) & set(plan["files_to_preserve"])


def refs(folder: Path, spell: Callable[[str], str]) -> None:
    edit(
        folder / "actual_outputs.json",
        lambda doc: doc.update(deliverable_refs=[spell(Path(r).name) for r in doc["deliverable_refs"]]),
    )


BENIGN: dict[str, Callable[[Path], Any]] = {
    "byte order mark": lambda d: (d / "artifacts/table.csv").write_bytes(b"\xef\xbb\xbf" + TABLE.write_csv().encode()),
    "byte order mark in JSON": lambda d: (d / "artifacts/summary.json").write_bytes(
        b"\xef\xbb\xbf" + (d / "artifacts/summary.json").read_bytes()
    ),
    "line ends of another system": lambda d: (d / "artifacts/table.csv").write_bytes(
        TABLE.write_csv().replace("\n", "\r\n").encode()
    ),
    "one column more": lambda d: csv(d, TABLE.with_columns(more=pl.lit(1))),
    "columns in another order": lambda d: csv(d, TABLE.select(reversed(TABLE.columns))),
    "integers written with a point": lambda d: csv(d, TABLE.with_columns(pl.col("count").cast(pl.Float64))),
    "an optional value": lambda d: edit(d / "artifacts/summary.json", lambda s: s.update(remark="fine")),
    "an optional key gone": lambda d: edit(d / "artifacts/summary.json", lambda s: s.update(more=1)),
    "files right in the folder": lambda d: (
        [p.rename(d / p.name) for p in sorted((d / "artifacts").iterdir())],
        refs(d, lambda name: f"./{name}"),
    ),
    "files in output": lambda d: ((d / "artifacts").rename(d / "output"), refs(d, lambda name: f"output/{name}")),
    "bare names listed": lambda d: refs(d, lambda name: name),
    "paths of the machine listed": lambda d: refs(
        d, lambda n: f"/srv/run/packages/pkg_a/attempts/revised/artifacts/{n}"
    ),
    "list with decorations": lambda d: edit(
        d / "actual_outputs.json",
        lambda doc: doc.update(deliverable_refs=[f"wrote: {r} (truncated)" for r in doc["deliverable_refs"]]),
    ),
    "objects listed": lambda d: edit(
        d / "actual_outputs.json",
        lambda doc: doc.update(files=[{"path": r} for r in doc.pop("deliverable_refs")]),
    ),
}


@pytest.mark.parametrize("name", BENIGN)
def test_what_the_contract_leaves_open_is_no_fault(
    name: str, passing: tuple[dict[str, Any], Path], attempt: Path
) -> None:
    BENIGN[name](attempt)
    found = verify_contract(passing[0], attempt)
    assert (found.verdict, found.failures["issue"].to_list()) == ("pass", [])


@pytest.mark.parametrize(
    "path", ["../secret.csv", "/etc/hostname", "C:\\x.csv", "~/x.csv", "hidden/x.csv", "a/../../x.csv"]
)
def test_a_path_that_leaves_the_folder_or_is_hidden_is_refused(path: str, attempt: Path) -> None:
    (attempt.parent / "secret.csv").write_text("a\n1\n", "utf-8")
    (attempt / "hidden").mkdir()
    (attempt / "hidden/x.csv").write_text("a\n1\n", "utf-8")
    found = verify_contract({"outputs": [{"path": path, "columns": ["a"]}], "actual_outputs_required": False}, attempt)
    assert found.failures["issue"].to_list() == ["forbidden_or_hidden_reference"]
    assert found.checked["sha256"].to_list() == [None]
    assert found.to_dict()["repair_plan"]["files_to_modify"] == []


def test_a_folder_that_is_a_link_is_not_entered(attempt: Path) -> None:
    (attempt / "away").symlink_to(attempt / "artifacts")
    found = verify_contract({"outputs": ["away/table.csv"]}, attempt)
    assert "forbidden_or_hidden_reference" in found.failures["issue"].to_list()


def test_a_folder_named_expected_is_a_folder_like_any_other(attempt: Path) -> None:
    (attempt / "artifacts/expected").mkdir()
    (attempt / "artifacts/expected/.env.csv").write_text("a\n1\n", "utf-8")
    contract = {"outputs": [{"path": "expected/.env.csv", "columns": ["a"]}], "actual_outputs_required": False}
    assert verify_contract(contract, attempt).verdict == "pass"


def test_a_file_over_the_limit_is_not_read(passing: tuple[dict[str, Any], Path], attempt: Path) -> None:
    (attempt / "artifacts/table.csv").write_bytes(b"a" * 5000)
    found = verify_contract(passing[0], attempt, max_bytes=4000)
    assert found.failures.select("path", "issue").rows() == [("table.csv", "file_too_large")]
    assert "5,000 bytes" in found.failures["found"][0]


def test_a_pipe_is_no_file(passing: tuple[dict[str, Any], Path], attempt: Path) -> None:
    (attempt / "artifacts/notes.txt").unlink()
    os.mkfifo(attempt / "artifacts/notes.txt")
    assert verify_contract(passing[0], attempt).failures["issue"].to_list() == ["missing_file"]


def test_one_failure_stands_for_all_wrong_rows(tmp_path: Path) -> None:
    (tmp_path / "long.csv").write_text("n\n" + "1\n" * 5 + "x\n" * 5000, "utf-8")
    contract = {"outputs": [{"path": "long.csv", "numeric_columns": ["n"]}], "actual_outputs_required": False}
    found = verify_contract(contract, tmp_path)
    assert found.failures.select("issue", "count", "row").rows() == [("csv_field_not_numeric:n", 5000, 5)]
    assert found.failures["found"].to_list() == ["5000 text; the first in row 6"]


def test_lists_of_the_document_are_cut_and_counted(tmp_path: Path) -> None:
    document = verify_contract({"outputs": [f"{n:03}.txt" for n in range(80)]}, tmp_path).to_dict()
    assert (document["failure_count"], len(document["failures"])) == (81, 50)
    assert (document["repair_plan"]["repair_allowed"], document["repair_plan"]["risk_of_regression"]) == (False, "high")
    assert len(document["repair_plan"]["files_to_modify"]) == 81


@pytest.mark.parametrize(("files", "risk", "allowed"), [(1, "low", True), (3, "medium", True), (4, "high", False)])
def test_the_risk_of_a_repair_grows_with_its_files(files: int, risk: str, allowed: bool, tmp_path: Path) -> None:
    contract = {"outputs": [f"{n}.txt" for n in range(files)], "actual_outputs_required": False}
    plan = verify_contract(contract, tmp_path).to_dict()["repair_plan"]
    assert (plan["risk_of_regression"], plan["repair_allowed"]) == (risk, allowed)
    assert plan["repair_steps"] == [f"Create {n}.txt." for n in range(files)]
