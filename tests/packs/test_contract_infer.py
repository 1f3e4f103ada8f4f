"""What a contract asks for follows from the files of passing attempts, and from nothing else."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from expcomp.compiler.build import compile_paths
from expcomp.errors import SourceError, UsageError
from expcomp.io.digest import sha256_file
from expcomp.packs.contracts.infer import evidence_of, infer_contracts
from expcomp.packs.contracts.verify import verify_contract
from tests.helpers import edit, package, put
from tests.packs.contract_helpers import LINES, TABLE, hand_over, workbook


def items(contract: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {i["path"]: i for i in contract["outputs"]}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = package(tmp_path, "pkg_a")
    hand_over(folder / "attempts/revised")
    return folder


def test_each_format_is_measured_whole(root: Path) -> None:
    found = items(infer_contracts(root)["pkg_a"])
    stripped = {p: {k: v for k, v in i.items() if k not in ("path", "evidence")} for p, i in found.items()}
    table = {
        "row_count": 3,
        "fields": ["id", "level", "count", "day", "note"],
        "non_empty_fields": ["id", "level", "count", "day"],
        "numeric_fields": ["level", "count"],
        "expected_types": {"id": "string", "level": "number", "count": "integer", "day": "date"},
        "optional_types": {"note": "string"},
    }
    assert stripped["table.csv"] == {"format": "csv", **table}
    assert stripped["table.tsv"] == {"format": "tsv", **table}
    assert stripped["table.parquet"] == {
        "format": "parquet",
        **table,
        "fields": [*table["fields"], "tags", "box"],  # type: ignore[misc]
        "non_empty_fields": [*table["non_empty_fields"], "box"],  # type: ignore[misc]
        "expected_types": {**table["expected_types"], "tags": "array", "box": "object"},  # type: ignore[dict-item]
        "list_item_types": {"tags": "string"},
    }
    assert stripped["summary.json"] == {
        "format": "json",
        "root_type": "object",
        "fields": ["rows", "mean_level", "flags", "checked", "source", "remark"],
        "non_empty_fields": ["rows", "mean_level", "flags", "checked", "source", "source.name", "source.depth"],
        "numeric_fields": ["rows", "mean_level", "source.depth"],
        "expected_types": {
            "rows": "integer",
            "mean_level": "number",
            "flags": "array",
            "checked": "boolean",
            "source": "object",
            "source.name": "string",
            "source.depth": "integer",
        },
        "list_item_types": {"flags": "string"},
    }
    lines = {
        "row_count": 4,
        "fields": ["id", "tags", "score"],
        "non_empty_fields": ["id", "tags", "score"],
        "numeric_fields": ["id", "score"],
        "expected_types": {"id": "integer", "tags": "array", "score": "number"},
        "list_item_types": {"": "object", "tags": "string"},
    }
    assert stripped["list.json"] == {"format": "json", "root_type": "array", **lines}
    assert stripped["lines.jsonl"] == {"format": "jsonl", **lines}
    assert stripped["report.md"] == {"format": "markdown", "sections": ["Gauges", "Gaps", "Method"]}
    assert stripped["notes.txt"] == {"format": "text"}
    assert stripped["plot.png"] == {"format": "png"}


def test_every_item_cites_evidence_that_resolves(root: Path, tmp_path: Path) -> None:
    contract = infer_contracts(root)["pkg_a"]
    compile_paths([root], tmp_path / "out", processes=1)
    evidence = pl.read_parquet(tmp_path / "out/tables/evidence.parquet")
    known = dict(zip(evidence["evidence_id"], evidence["sha256"], strict=True))
    cited = [e for item in contract["outputs"] for e in item["evidence"]]
    assert len(cited) == 9
    assert all(known[e["evidence_id"]] == e["sha256"] == sha256_file(root / e["ref"]) for e in cited)
    assert evidence_of(contract) == sorted({e["evidence_id"] for e in cited})
    attempts = {a["attempt_id"] for a in contract["attempts"]}
    assert {e["attempt_id"] for e in cited} == attempts


def test_traces_lists_inputs_and_hidden_files_are_never_asked_for(root: Path) -> None:
    attempt = root / "attempts/revised"
    planted = [
        "hidden_reference/answer.json",
        "hidden/answer.json",
        "input/given.csv",
        "attempts/revised/input/given.csv",
    ]
    logs = [
        "stdout.txt",
        "stderr.txt",
        "final_message.txt",
        "prompt.md",
        "agent_trace.raw.json",
        "attempt_manifest.json",
    ]
    for ref in [*planted, "rubric/verifier_private_rubric.json", *(f"attempts/revised/{n}" for n in logs)]:
        put(root / ref, '{"hidden_key_of_the_answer": 1}')
    refs = [*planted, "rubric/rubric.json", "rubric/verifier_private_rubric.json", "grading/revised_grader_result.json"]
    more = [f"attempts/revised/{n}" for n in (*logs, "agent_trace.json", "actual_outputs.json")]
    edit(attempt / "actual_outputs.json", lambda doc: doc["deliverable_refs"].extend([*refs, *more]))
    contract = infer_contracts(root)["pkg_a"]
    assert len(contract["outputs"]) == 9
    text = json.dumps(contract)
    assert "hidden" not in text
    assert "private_rubric" not in text
    reasons = {line["path"]: line["reason"] for line in contract["not_covered"]}
    assert reasons["agent_trace.json"] == "trace"
    assert reasons["actual_outputs.json"] == "list of outputs"
    assert reasons["input/given.csv"] == "input"
    assert reasons["stdout.txt"] == "log"


def test_an_attempt_that_failed_is_not_inferred_from(root: Path) -> None:
    hand_over(root / "attempts/baseline", "baseline")
    (root / "attempts/baseline/artifacts/table.csv").write_text("other\n1\n", "utf-8")
    contract = infer_contracts(root)["pkg_a"]
    assert [a["attempt_kind"] for a in contract["attempts"]] == ["revised"]
    assert items(contract)["table.csv"]["fields"] == TABLE.columns
    assert verify_contract(contract, root / "attempts/baseline").verdict == "fail"


@pytest.mark.parametrize("grader", ["model_judge", "structural_guardrail"])
def test_without_a_passing_attempt_nothing_is_asked_for(grader: str, tmp_path: Path) -> None:
    # A structural check that passes says that files exist, not that they are right.
    ok = grader != "model_judge"
    root = package(
        tmp_path, "pkg_a", scores={"baseline": 1.0 if ok else 0.1}, grader=grader, reliability="needs_review"
    )
    hand_over(root / "attempts/baseline", "baseline")
    contract = infer_contracts(root)["pkg_a"]
    assert (contract["outputs"], contract["attempts"]) == ([], [])
    assert "no attempt passed" in contract["not_covered"][0]["reason"]
    assert verify_contract(contract, root / "attempts/baseline").verdict == "uncertain"


def both(tmp_path: Path) -> Path:
    root = package(tmp_path, "pkg_a", scores={"baseline": 0.8, "revised": 0.9})
    for kind in ("baseline", "revised"):
        hand_over(root / f"attempts/{kind}", kind)
    return root


def test_attempts_are_merged_by_what_they_share(tmp_path: Path) -> None:
    root = both(tmp_path)
    other = root / "attempts/baseline/artifacts"
    longer = pl.concat([TABLE, TABLE]).with_columns(count=pl.lit(0.5)).drop("note").with_columns(more=pl.lit(1))
    (other / "table.csv").write_bytes(longer.write_csv().encode())
    put(other / "report.md", "# Gauges\n\n## Method\n\n## Thanks\n")
    edit(other / "summary.json", lambda doc: doc.update(rows="three", remark="fine") or (doc.pop("checked") and None))
    (other / "plot.png").unlink()
    contract = infer_contracts(root)["pkg_a"]
    found = items(contract)
    assert (found["table.csv"]["min_rows"], found["table.csv"]["max_rows"]) == (3, 6)
    assert found["table.csv"]["fields"] == ["id", "level", "count", "day"]
    assert found["table.csv"]["expected_types"]["count"] == "number"
    assert found["table.csv"]["optional_types"] == {"note": "string", "more": "integer"}
    assert found["report.md"]["sections"] == ["Gauges", "Method"]
    assert "rows" in found["summary.json"]["fields"]
    assert "rows" not in found["summary.json"]["expected_types"]
    assert found["summary.json"]["optional_types"] == {"checked": "boolean", "remark": "string"}
    assert [i["path"] for i in contract["optional_outputs"]] == ["plot.png"]
    assert len(found["table.csv"]["evidence"]) == 2
    for kind in ("baseline", "revised"):
        assert verify_contract(contract, root / f"attempts/{kind}").failures["issue"].to_list() == []
    edit(other / "summary.json", lambda doc: doc.update(checked="yes"))
    assert verify_contract(contract, other.parent).failures["issue"].to_list() == ["json_field_type_mismatch:checked"]


def test_rows_are_asked_for_as_told(tmp_path: Path) -> None:
    root = both(tmp_path)
    table = {rows: items(infer_contracts(root, rows=rows)["pkg_a"])["table.csv"] for rows in ("exact", "range", "any")}
    keys = {rows: {k: v for k, v in i.items() if "row" in k} for rows, i in table.items()}
    assert keys == {"exact": {"row_count": 3}, "range": {"min_rows": 3, "max_rows": 3}, "any": {}}
    longer = root / "attempts/revised/artifacts/table.csv"
    longer.write_bytes(pl.concat([TABLE, TABLE]).write_csv().encode())
    issues = {
        rows: verify_contract({"outputs": [item]}, longer.parents[1]).failures["issue"].to_list()
        for rows, item in table.items()
    }
    assert issues == {"exact": ["csv_row_count_mismatch"], "range": ["csv_row_count_above_maximum"], "any": []}


def test_packages_of_one_task_can_be_merged(tmp_path: Path) -> None:
    for name in ("pkg_a", "pkg_b"):
        hand_over(package(tmp_path, name) / "attempts/revised")
    (tmp_path / "pkg_b/attempts/revised/artifacts/table.csv").write_bytes(TABLE.head(2).write_csv().encode())
    assert sorted(infer_contracts(tmp_path)) == ["pkg_a", "pkg_b"]
    contract = infer_contracts(tmp_path, by="task_id")["task_a"]
    assert contract["package_ids"] == ["pkg_a", "pkg_b"]
    assert (items(contract)["table.csv"]["min_rows"], items(contract)["table.csv"]["max_rows"]) == (2, 3)


BROKEN = {
    "cut JSON": ("summary.json", b'{"rows": 3,', "invalid_json"),
    "no UTF-8": ("table.csv", "a\nü\n".encode("latin-1"), "invalid_encoding"),
    "JSON as CSV": ("table.csv", b'{"a": 1}', "format_mismatch"),
    "cut Parquet": ("table.parquet", b"PAR1 and no more", "invalid_parquet"),
    "empty": ("notes.txt", b"", "is empty"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_file_that_cannot_be_measured_is_asked_for_and_the_contract_says_why_no_more_is(
    name: str, root: Path
) -> None:
    file, data, reason = BROKEN[name]
    (root / "attempts/revised/artifacts" / file).write_bytes(data)
    contract = infer_contracts(root)["pkg_a"]
    item = items(contract)[file]
    assert {k for k in item if k not in ("path", "evidence", "min_bytes")} == {"format", "encoding"}
    assert [reason in line["reason"] for line in contract["not_covered"] if line["path"] == file] == [True]
    assert verify_contract(contract, root / "attempts/revised").verdict == "pass"


def test_a_link_or_a_file_over_the_limit_is_said(root: Path) -> None:
    files = root / "attempts/revised/artifacts"
    (files / "notes.txt").unlink()
    (files / "notes.txt").symlink_to(files / "report.md")
    contract = infer_contracts(root, max_bytes=1000)["pkg_a"]
    reasons = {line["path"]: line["reason"] for line in contract["not_covered"]}
    assert "link" in reasons["notes.txt"]
    assert "holds more than 1,000 bytes" in reasons["table.parquet"]
    assert verify_contract(contract, root / "attempts/revised", max_bytes=1000).failures.is_empty()


def test_names_with_secrets_are_not_published(root: Path) -> None:
    secret = "ghp_" + "a1B2" * 9
    put(root / "attempts/revised/artifacts/summary.json", {"rows": 1, secret: 2})
    put(root / "attempts/revised/artifacts/report.md", f"# Gauges\n\n## Run of {secret}\n")
    contract = infer_contracts(root)["pkg_a"]
    assert secret not in json.dumps(contract)
    assert items(contract)["report.md"]["sections"] == ["Gauges"]
    assert "1 names hold what looks like a secret" in json.dumps(contract["not_covered"])


def test_a_reason_with_a_secret_is_not_published(root: Path) -> None:
    secret = "ghp_" + "a1B2" * 9
    (root / "attempts/revised/artifacts/table.csv").write_text(f"{secret},{secret}\n1,2\n", "utf-8")
    contract = infer_contracts(root)["pkg_a"]
    assert secret not in json.dumps(contract)
    assert "secret" in next(line["reason"] for line in contract["not_covered"] if line["path"] == "table.csv")


def test_a_file_that_would_be_found_elsewhere_first_is_named_in_full(root: Path) -> None:
    attempt = root / "attempts/revised"
    (attempt / "table.csv").write_text("draft\n", "utf-8")
    contract = infer_contracts(root)["pkg_a"]
    assert "artifacts/table.csv" in items(contract)
    assert verify_contract(contract, attempt).verdict == "pass"


def test_every_sheet_of_a_workbook_is_an_item(root: Path) -> None:
    pytest.importorskip("fastexcel")
    pytest.importorskip("xlsxwriter")
    attempt = root / "attempts/revised"
    book = attempt / "artifacts/book.xlsx"
    gaps = pl.DataFrame({"gap": ["none"]})
    book.write_bytes(workbook({"Levels": TABLE, "Gaps": gaps}))
    edit(
        attempt / "actual_outputs.json",
        lambda doc: doc["deliverable_refs"].append("attempts/revised/artifacts/book.xlsx"),
    )
    contract = infer_contracts(root)["pkg_a"]
    sheets = {i["sheet"]: i for i in contract["outputs"] if i["path"] == "book.xlsx"}
    assert {s: (i["row_count"], i["fields"]) for s, i in sheets.items()} == {
        "Levels": (3, TABLE.columns),
        "Gaps": (1, ["gap"]),
    }
    assert sheets["Levels"]["numeric_fields"] == ["level", "count"]
    assert verify_contract(contract, attempt).verdict == "pass"
    for changed, issues in (
        (workbook({"Levels": TABLE}), ["missing_sheet:Gaps"]),
        (workbook({"Levels": TABLE.drop("level"), "Gaps": gaps}), ["missing_column:level"]),
        (workbook({"Levels": TABLE.head(1), "Gaps": gaps}), ["xlsx_row_count_mismatch"]),
        (workbook({"Levels": TABLE.with_columns(level=pl.lit("x")), "Gaps": gaps}), ["xlsx_field_not_numeric:level"]),
        (book.read_bytes()[:-40], ["invalid_xlsx"]),
        (b"id,level\n", ["format_mismatch"]),
    ):
        book.write_bytes(changed)
        assert verify_contract(contract, attempt).failures["issue"].to_list() == issues


def test_the_same_files_give_the_same_contract(root: Path, tmp_path: Path) -> None:
    first = infer_contracts(root)["pkg_a"]
    moved = shutil.copytree(root, tmp_path / "elsewhere/pkg_a")
    assert infer_contracts(moved)["pkg_a"] == first
    (moved / "attempts/revised/artifacts/notes.txt").write_text("Other words.\n", "utf-8")
    assert infer_contracts(moved)["pkg_a"]["contract_id"] != first["contract_id"]


def test_a_bare_folder_counts_as_passing(root: Path) -> None:
    contract = infer_contracts(root / "attempts/revised")[""]
    assert len(contract["outputs"]) == 9
    assert (contract["attempts"], contract["package_ids"]) == ([], [])
    assert verify_contract(contract, root / "attempts/revised").verdict == "pass"


def test_options_that_make_no_sense_are_refused(root: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="rows is 'some', expected one of exact, range, any"):
        infer_contracts(root, rows="some")
    with pytest.raises(SourceError, match="no such file or folder"):
        infer_contracts(tmp_path / "nowhere")


names = st.text(alphabet="ab.c é\"',;|#", min_size=1, max_size=4)
cells = st.one_of(st.none(), st.integers(-9, 9).map(str), st.floats().map(str), st.text("ab \",'é\n;", max_size=4))
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "x", "2026-01-02", "2026-01-02T03:04:05Z", "2026-99"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names | st.just(""), inner, max_size=3),
    max_leaves=12,
)
frames = st.lists(names, min_size=1, max_size=4, unique=True).flatmap(
    lambda heads: st.lists(st.fixed_dictionaries(dict.fromkeys(heads, cells)), max_size=5).map(
        lambda rows: pl.DataFrame(rows, schema=dict.fromkeys(heads, pl.String()))
    )
)
lasting = settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])


def holds(folder: Path, name: str, data: bytes, modes: tuple[str, ...] = ("exact",)) -> None:
    (folder / "artifacts").mkdir(exist_ok=True)
    (folder / "artifacts" / name).write_bytes(data)
    for rows in modes:
        contract = json.loads(json.dumps(infer_contracts(folder, rows=rows)[""]))
        found = verify_contract(contract, folder)
        assert (found.failures["issue"].to_list(), found.warnings.height) == ([], 0)


@lasting
@given(frames, st.sampled_from([",", ";", "|", "\t"]))
def test_any_table_holds_to_its_own_contract(tmp_path: Path, frame: pl.DataFrame, separator: str) -> None:
    data = frame.write_csv(separator=separator).encode()
    holds(tmp_path, "table.csv", data, ("exact", "any"))


@lasting
@given(values)
def test_any_document_holds_to_its_own_contract(tmp_path: Path, value: Any) -> None:
    holds(tmp_path, "value.json", json.dumps(value, ensure_ascii=False).encode())


@lasting
@example([{".": []}, {"": {"": False}}])
@given(st.lists(values, max_size=4))
def test_any_lines_hold_to_their_own_contract(tmp_path: Path, lines: list[Any]) -> None:
    holds(tmp_path, "lines.jsonl", "".join(json.dumps(line) + "\n" for line in lines).encode())


@lasting
@given(
    st.sampled_from(["a.csv", "a.json", "a.jsonl", "a.md", "a.txt", "a.parquet", "a.xlsx", "a.png", "a"]),
    st.binary(max_size=40),
)
def test_any_bytes_hold_to_their_own_contract(tmp_path: Path, name: str, data: bytes) -> None:
    for old in (tmp_path / "artifacts").glob("*"):
        old.unlink()
    holds(tmp_path, name, data)


@lasting
@given(st.text("# ab\n`=-*\\&;:<>[]()", max_size=60))
def test_any_markdown_holds_to_its_own_contract(tmp_path: Path, text: str) -> None:
    holds(tmp_path, "report.md", text.encode())


def test_a_typed_table_holds_to_its_own_contract(tmp_path: Path) -> None:
    import io

    frame = pl.DataFrame(
        {
            "list": [[1, None], [], None],
            "nested": [[[1]], [[2]], [[]]],
            "struct": [{"a": 1}, None, {"a": None}],
            "float": [1.0, float("nan"), None],
            "decimal": pl.Series(["1.5", "2.0", None]).cast(pl.Decimal(10, 2)),
            "enum": pl.Series(["a", "b", None], dtype=pl.Enum(["a", "b"])),
            "bytes": [b"a", b"", None],
            "time": pl.Series([1, 2, None]).cast(pl.Time),
            "gone": pl.Series([None, None, None], dtype=pl.Null),
            "array": pl.Series([[1, 2], [3, 4], None], dtype=pl.Array(pl.Int64, 2)),
            "lines": [json.dumps(line) for line in LINES[:3]],
        }
    )
    buffer = io.BytesIO()
    frame.drop("gone").write_parquet(buffer)
    holds(tmp_path, "typed.parquet", buffer.getvalue())
