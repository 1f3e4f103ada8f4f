"""Contracts that other tools wrote: every spelling of a key is read, and what cannot be checked is said."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from expcomp.errors import ConfigError, SourceError
from expcomp.packs.contracts import words
from expcomp.packs.contracts.kinds import TYPES, WORDS
from expcomp.packs.contracts.verify import verify_contract
from expcomp.sources.load import read_traces
from tests.helpers import RUN_CLI, compile_cli, package, put

CSV = "name,level,note\na,1,x\nb,2,\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "attempt"
    put(root / "artifacts/t.csv", CSV)
    put(root / "artifacts/s.json", {"n": 2, "tags": ["x", 1], "name": "", "deep": {"runs": [{"id": 1}, {"id": "b"}]}})
    put(root / "actual_outputs.json", {"files": ["t.csv", "s.json"], "sizes": [1, "2"]})
    return root


def issues(contract: dict[str, Any], folder: Path) -> list[str]:
    return verify_contract(contract, folder).failures["issue"].to_list()


@pytest.mark.parametrize(("key", "kind", "required"), words.LISTS)
def test_every_list_of_files_is_read(key: str, kind: str, required: bool, folder: Path) -> None:
    found = verify_contract({key: ["gone.txt", {"path": "t.csv", "columns": ["x"]}]}, folder)
    expected = [("gone.txt", "missing_file")] if required else []
    assert found.failures.select("path", "issue").rows() == [*expected, ("t.csv", "missing_column:x")]
    assert set(found.checked["kind"]) == {kind}


@pytest.mark.parametrize("key", words.PATH)
def test_every_spelling_of_the_path_is_read(key: str, folder: Path) -> None:
    assert issues({"outputs": [{key: "gone.txt"}]}, folder) == ["missing_file"]
    assert issues({key: "gone.txt"}, folder) == ["missing_file"]


FIELD_ISSUES = {
    "present": ("more", "missing_column:more"),
    "non_empty": ("note", "csv_field_empty:note"),
    "numeric": ("name", "csv_field_not_numeric:name"),
}


@pytest.mark.parametrize(("check", "key"), [(c, k) for c, keys in words.FIELDS.items() for k in keys])
def test_every_list_of_fields_is_read(check: str, key: str, folder: Path) -> None:
    field, issue = FIELD_ISSUES[check]
    for value in (field, [field], [{"name": field}]):
        assert issues({"outputs": [{"path": "t.csv", key: value}]}, folder) == [issue]


@pytest.mark.parametrize("key", words.TYPE_MAPS["type"])
@pytest.mark.parametrize("word", ["int", "integer", "number", "numeric", "float", "Boolean"])
def test_every_map_of_types_is_read(key: str, word: str, folder: Path) -> None:
    contract = {"outputs": [{"path": "t.csv", key: {"name": word}}]}
    assert issues(contract, folder) == ["csv_field_type_mismatch:name"]


@pytest.mark.parametrize("key", words.TYPE_MAPS["list_item"])
def test_items_of_lists_are_checked(key: str, folder: Path) -> None:
    contract = {"outputs": [{"path": "s.json", key: {"tags": "string"}}]}
    assert issues(contract, folder) == ["json_list_item_type_mismatch:tags.1"]
    contract = {"outputs": [{"path": "actual_outputs.json", key: {"sizes": "int"}}]}
    assert issues(contract, folder) == ["actual_outputs_json_list_item_type_mismatch:sizes.1"]


@pytest.mark.parametrize(
    ("key", "value", "issue"),
    [
        ("min_bytes", 1000, "artifact_too_small_or_empty"),
        ("min_rows", 3, "csv_row_count_below_minimum"),
        ("max_rows", 1, "csv_row_count_above_maximum"),
        ("max_rows", 0, "csv_row_count_above_maximum"),
        ("row_count", 5, "csv_row_count_mismatch"),
        ("expected_row_count", 5, "csv_row_count_mismatch"),
        ("row_count", 0, "csv_row_count_mismatch"),
        ("row_count", "3", "csv_row_count_mismatch"),
    ],
)
def test_every_number_is_checked_also_zero(key: str, value: Any, issue: str, folder: Path) -> None:
    assert issues({"outputs": [{"path": "t.csv", key: value}]}, folder) == [issue]


@pytest.mark.parametrize("key", words.REQUIREMENTS)
def test_requirements_in_words_make_a_pass_uncertain(key: str, folder: Path) -> None:
    contract = {"outputs": [{"path": "t.csv", key: ["levels are plausible", ""]}, "s.json"]}
    found = verify_contract(contract, folder)
    assert (found.verdict, found.failures.height) == ("uncertain", 0)
    assert found.warnings.select("path", "requirement", "status").rows() == [
        ("t.csv", "levels are plausible", "requires_reader")
    ]
    assert found.to_dict()["repair_plan"]["risk_of_regression"] == "high"
    contract["outputs"].append("gone.txt")
    assert verify_contract(contract, folder).verdict == "fail"


@pytest.mark.parametrize(
    ("item", "status"),
    [
        ({"path": "t.csv", "expected_types": {"name": "iban"}}, "unknown_type"),
        ({"path": "t.csv", "format": "avro"}, "unknown_format"),
        ({"path": "s.json", "derived_value_checks": [{"operation": "median"}]}, "unknown_operation"),
        ({"description": "a chart"}, "no_path"),
    ],
)
def test_what_is_not_known_is_never_passed_in_silence(item: dict[str, Any], status: str, folder: Path) -> None:
    found = verify_contract({"outputs": [item]}, folder)
    assert (found.verdict, found.warnings["status"].to_list()[:1]) == ("uncertain", [status])


def test_an_empty_contract_is_no_pass(folder: Path) -> None:
    found = verify_contract({"outputs": []}, folder)
    assert (found.verdict, found.warnings["status"].to_list()) == ("uncertain", ["nothing_to_check"])


def test_paths_in_documents_reach_into_lists(folder: Path) -> None:
    types = {"deep.runs.0.id": "int", "deep.runs.1.id": "int", "deep.runs.2.id": "int"}
    assert issues({"outputs": [{"path": "output/s.json", "expected_types": types}]}, folder) == [
        "missing_json_field:deep.runs.2.id",
        "json_field_type_mismatch:deep.runs.1.id",
    ]


def test_files_are_listed_that_the_list_is_asked_to_name(folder: Path) -> None:
    contract = {"outputs": [{"path": "actual_outputs.json", words.DECLARED_FILES: ["output/t.csv", "more.csv"]}]}
    assert issues(contract, folder) == ["actual_outputs_json_missing_declared_file:more.csv"]


def test_the_same_fault_is_named_once(folder: Path) -> None:
    contract = {"outputs": ["gone.txt", "gone.txt"], "artifacts": [{"path": "gone.txt"}]}
    assert issues(contract, folder) == ["missing_file"]


def test_every_type_has_one_name_and_accepts_what_it_is_inferred_from() -> None:
    assert sorted(WORDS.values()) == sorted(n for n, t in TYPES.items() for _ in (n, *t.aliases))
    assert all(set(t.infers) <= set(t.accepts) for t in TYPES.values())


WRONG = [
    (
        {"outputs": [{"path": "t.csv", "min_rows": "three"}]},
        r"outputs\[0\].min_rows is 'three', expected a whole number",
    ),
    ({"outputs": [{"path": "t.csv", "max_rows": -1}]}, r"outputs\[0\].max_rows is '-1'"),
    ({"outputs": [{"path": "t.csv", "columns": [3]}]}, r"outputs\[0\].columns is '3', expected a name"),
    ({"outputs": [{"path": "t.csv", "expected_types": ["int"]}]}, r"outputs\[0\].expected_types"),
    ({"files": [7]}, r"files\[0\] is '7', expected a path or an object"),
    ({"outputs": ["t.csv"], "actual_outputs_required": "no"}, "actual_outputs_required is 'no'"),
    (
        {
            "outputs": [
                {"path": "s.json", "derived_value_checks": [{"operation": "count", "tolerance": "low", "field": "n"}]}
            ]
        },
        "tolerance of count is 'low'",
    ),
    ({"outputs": [{"path": "s.json", "derived_value_checks": ["count"]}]}, r"derived_value_checks\[0\] is 'count'"),
]


@pytest.mark.parametrize(("contract", "message"), WRONG)
def test_a_key_with_a_value_of_another_type_is_an_error(contract: dict[str, Any], message: str, folder: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        verify_contract(contract, folder)


def test_a_contract_that_is_none_is_an_error(folder: Path, tmp_path: Path) -> None:
    for text, message in (("{", "no contract"), ("[]", "expected a JSON object with outputs or artifacts")):
        (tmp_path / "c.json").write_text(text, "utf-8")
        with pytest.raises(ConfigError, match=message):
            verify_contract(tmp_path / "c.json", folder)
    with pytest.raises(ConfigError, match="no contract: cannot be opened"):
        verify_contract(tmp_path / "none.json", folder)
    with pytest.raises(SourceError, match="no folder"):
        verify_contract({"outputs": ["a"]}, tmp_path / "none")


# -- derived values ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operation", "column", "value", "wrong"),
    [
        ("count", None, 3, 4),
        ("count", "level", 3, 2),
        ("count_non_empty", "note", 2, 3),
        ("n_unique", "name", 3, 2),
        ("sum", "level", 6.5, 6.0),
        ("mean", "level", 2.1667, 2.0),
        ("min", "level", 1.0, 0.0),
        ("max", "level", 3.5, 3.0),
    ],
)
def test_a_value_is_computed_from_another_file(
    operation: str, column: str | None, value: float, wrong: float, tmp_path: Path
) -> None:
    put(tmp_path / "t.csv", "name,level,note\na,1,x\nb,2,\nc,3.5,y\n")
    check = {"operation": operation, "input_csv": "t.csv", "column": column, "field": "v", "tolerance": 0.001}
    contract = {"outputs": [{"path": "s.json", "derived_value_checks": [check]}], "actual_outputs_required": False}
    put(tmp_path / "s.json", {"v": value})
    assert issues(contract, tmp_path) == []
    for other in (wrong, "many", None):
        put(tmp_path / "s.json", {"v": other})
        assert issues(contract, tmp_path) == ["derived_value_mismatch:v"]
    put(tmp_path / "s.json", {})
    assert issues(contract, tmp_path) == ["derived_value_mismatch:v"]


def test_a_tolerance_of_zero_counts(tmp_path: Path) -> None:
    put(tmp_path / "t.csv", "n\n1\n2\n")
    put(tmp_path / "s.json", {"v": 1.5000001})
    check = {"operation": "mean", "input_csv": "t.csv", "column": "n", "field": "v"}
    for tolerance, expected in ((None, []), (0, ["derived_value_mismatch:v"])):
        item = {"path": "s.json", "derived_value_checks": [check | {"tolerance": tolerance}]}
        assert issues({"outputs": [item], "actual_outputs_required": False}, tmp_path) == expected


def groups(folder: Path, rows: str) -> dict[str, Any]:
    put(folder / "input/matrix.csv", "gene,s1,s2,s3,s4\nA,1,3,5,7\nB,2,2,2,2\n")
    put(folder / "input/meta.csv", "sample,group\ns1,Normal\ns2,normal\ns3,tumor\ns4,tumor\n")
    put(folder / "diff.csv", rows)
    check = {
        "check_id": "diff",
        "operation": "group_mean_difference",
        "input_expression_matrix": "input/matrix.csv",
        "input_metadata": "input/meta.csv",
    }
    return {"outputs": [{"path": "diff.csv", "derived_value_checks": [check]}], "actual_outputs_required": False}


HEAD = "gene,mean_normal,mean_tumor,log2FC\n"


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (HEAD + "A,2,6,4\nB,2,2,0\n", []),
        ("gene,log2FC\nA,4\nB,0\n", []),
        (HEAD + "A,2,6,-4\nB,2,2,0\n", ["derived_value_mismatch:log2FC"]),
        (HEAD + "A,1,6,4\nB,2,,0\n", ["derived_value_mismatch:mean_normal", "derived_value_mismatch:mean_tumor"]),
        ("name,log2FC\nA,4\n", ["derived_value_mismatch:gene"]),
    ],
)
def test_differences_of_group_means_are_computed(rows: str, expected: list[str], tmp_path: Path) -> None:
    assert issues(groups(tmp_path, rows), tmp_path) == expected


def test_inputs_of_a_derived_value_that_are_not_there_or_hidden_are_named(tmp_path: Path) -> None:
    contract = groups(tmp_path, HEAD + "A,2,6,4\n")
    (tmp_path / "input/meta.csv").unlink()
    assert issues(contract, tmp_path) == ["derived_check_inputs_missing:diff"]
    contract["outputs"][0]["derived_value_checks"][0]["input_metadata"] = "hidden/meta.csv"
    put(tmp_path / "hidden/meta.csv", "sample,group\n")
    assert issues(contract, tmp_path) == ["forbidden_or_hidden_reference:diff"]


# -- the command line -------------------------------------------------------------------------------------------------


def test_exit_codes_and_json(folder: Path, tmp_path: Path) -> None:
    for outputs, code, verdict in (
        (["t.csv"], 0, "pass"),
        (["t.csv", "gone.txt"], 1, "fail"),
        ([{"path": "t.csv", "semantic_checks": ["is right"]}], 4, "uncertain"),
        ([{"path": "t.csv", "min_rows": "x"}], 2, None),
    ):
        put(tmp_path / "c.json", {"outputs": outputs})
        done = compile_cli("pack", "verify", tmp_path / "c.json", folder, "--json")
        assert done.returncode == code, done.stderr
        if verdict is None:
            assert "min_rows" in done.stderr
            continue
        document = json.loads(done.stdout)
        assert document["verdict"] == verdict
        assert os.fspath(tmp_path) not in done.stdout


def test_a_contract_is_inferred_and_verified_on_the_command_line(tmp_path: Path) -> None:
    root = package(tmp_path, "pkg_a")
    done = compile_cli("pack", "contract", root, "--out", tmp_path / "c.json")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"wrote {tmp_path / 'c.json'}\n", "")
    assert os.fspath(tmp_path) not in (tmp_path / "c.json").read_text("utf-8")
    passed = compile_cli("pack", "verify", tmp_path / "c.json", root / "attempts/revised")
    assert (passed.returncode, passed.stdout) == (0, "pass: 1 files, 0 failures\n")
    (root / "attempts/revised/artifacts/report.md").unlink()
    failed = compile_cli("pack", "verify", tmp_path / "c.json", root / "attempts/revised")
    assert failed.returncode == 1
    assert "report.md: missing_file: expected a regular file, found nothing\n    Create report.md.\n" in failed.stdout
    assert RUN_CLI[-1] == "expcomp.cli.main"


def test_a_verification_is_read_back_as_the_evidence_of_a_loop(folder: Path, tmp_path: Path) -> None:
    root = package(tmp_path, "pkg_a")
    document = verify_contract({"outputs": ["gone.txt"]}, folder).to_dict()
    step = root / "loops/iterations/0001"
    put(step / "contract_verification.json", {k: v for k, v in document.items() if k != "repair_plan"})
    put(step / "contract_repair_plan.json", document["repair_plan"])
    traces = read_traces(root)
    assert traces.diagnostics.is_empty()
    loop = traces.loops.row(0, named=True)
    assert json.loads(loop["contract_verification"])["failure_count"] == 1
    assert json.loads(loop["contract_repair_plan"])["files_to_modify"] == ["gone.txt"]
