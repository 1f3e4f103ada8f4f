"""Rounds: what is repaired, what never is, and the record that each round leaves."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import expcomp as xc
from expcomp.compiler.assemble import FamilyRows, assemble
from expcomp.compiler.counts import Tally
from expcomp.compiler.owners import Owners
from expcomp.compiler.plan import REST
from expcomp.compiler.report import build_report
from expcomp.config import CompileOptions
from expcomp.rows.context import Context
from expcomp.rows.family import RowFamily
from expcomp.tables.core import CORE
from expcomp.tables.families import BY_NAME
from tests.helpers import package

EMPTY = Context({name: table.empty() for name, table in CORE.items()})
VARIANT = BY_NAME["task_variant"]


def cited(*, refs: int, there: int, hidden: int = 0, max_rounds: int = 3) -> FamilyRows:
    """One whole row that cites `refs` files, of which some are there and some are hidden."""
    ids = [f"evidence_{i}" for i in range(refs)]
    row: dict[str, Any] = {
        "package_id": "pkg_a",
        "base_instruction": "count",
        "variant_instruction": "count again",
        "_evidence_ids": ids,
        "_evidence_ok": ids[:there],
        "_n_refs": refs,
        "_n_there": there,
        "_n_hidden": hidden,
    }
    schema = RowFamily(VARIANT, (), lambda _: pl.DataFrame()).candidate_schema
    frame = pl.DataFrame([{n: row.get(n) for n in schema}], schema=schema)
    return assemble(RowFamily(VARIANT, (), lambda _: frame), EMPTY, CompileOptions(max_rounds=max_rounds))


def rounds_of(found: FamilyRows) -> list[dict[str, Any]]:
    """The rounds of the one row, as the report has them."""
    tally = Tally([REST])
    tally.family(VARIANT.name, found, Owners((REST,), {}).of(found.keys))
    rounds: list[dict[str, Any]] = build_report(tally.frame(), {}, ["pkg_a"], Counter())["rounds"][VARIANT.name]
    return rounds


def counts(rounds: list[dict[str, Any]]) -> list[tuple[int, int, int]]:
    return [(r["round"], r["accepted"], r["rejected"]) for r in rounds]


def test_an_unresolved_ref_is_rejected_in_round_1_and_repaired_in_round_2() -> None:
    found = rounds_of(cited(refs=3, there=2))
    assert counts(found) == [(1, 0, 1), (2, 1, 0)]
    assert [r["reasons"] for r in found] == [{"unresolved_ref": 1}, {}]
    assert [r["repairs"] for r in found] == [{"drop_unresolved_ref": 1}, {}]


def test_the_repaired_row_keeps_the_refs_that_are_there() -> None:
    assert cited(refs=3, there=2).accepted["evidence_ids"].to_list() == [["evidence_0", "evidence_1"]]


def test_a_row_without_other_evidence_stays_rejected_in_one_round() -> None:
    found = cited(refs=2, there=0)
    assert counts(rounds_of(found)) == [(1, 0, 1)]
    assert found.rejected["reject_reasons"].to_list() == [["unresolved_ref"]]


def test_a_hidden_ref_is_never_repaired() -> None:
    found = cited(refs=2, there=1, hidden=1)
    assert counts(rounds_of(found)) == [(1, 0, 1)]
    assert found.rejected["reject_reasons"].to_list() == [["hidden_evidence"]]


def test_a_hidden_ref_stays_a_reason_when_another_ref_is_repaired() -> None:
    found = cited(refs=3, there=1, hidden=1)
    assert [r["reasons"] for r in rounds_of(found)] == [
        {"hidden_evidence": 1, "unresolved_ref": 1},
        {"hidden_evidence": 1},
    ]
    assert found.accepted.height == 0


def test_one_round_repairs_nothing() -> None:
    found = rounds_of(cited(refs=3, there=2, max_rounds=1))
    assert counts(found) == [(1, 0, 1)]
    assert found[0]["repairs"] == {}


def test_a_clean_row_takes_one_round() -> None:
    assert counts(rounds_of(cited(refs=1, there=1))) == [(1, 1, 0)]


def test_every_record_names_its_judge_and_adds_up() -> None:
    for record in rounds_of(cited(refs=3, there=2)):
        assert record["judge"] == "rules"
        assert record["rows"] == record["accepted"] + record["rejected"]


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> xc.Compilation:
    folder = tmp_path_factory.mktemp("faulty")
    package(folder, faults=["missing_ref"])
    return xc.compile(xc.read_traces(folder))


def test_only_rows_that_use_the_missing_file_wait_for_round_2(faulty: xc.Compilation) -> None:
    first, second = faulty.report["rounds"]["environment_response_pair"]
    # Two attempts of four agent steps; the closing words have no action.
    assert (first["rows"], first["accepted"], first["reasons"]) == (8, 5, {"missing_input": 2, "unresolved_ref": 1})
    assert (second["rows"], second["accepted"], second["reasons"]) == (8, 6, {"missing_input": 2})
    assert first["repairs"] == {"drop_unresolved_ref": 1}


def test_the_repaired_row_cites_no_missing_file(faulty: xc.Compilation) -> None:
    missing = set(faulty.tables["evidence"].filter(~pl.col("exists"))["evidence_id"])
    used = set(faulty.rows["environment_response_pair"]["evidence_ids"].explode(empty_as_null=False))
    assert len(missing) == 1
    assert not missing & used


def test_a_missing_file_is_reported_with_its_place(faulty: xc.Compilation) -> None:
    lines = faulty.tables["diagnostics"].filter(pl.col("code") == "unresolved_ref")
    assert lines.select("package_id", "source_uri", "source_pos").rows() == [
        ("pkg_a", "attempts/baseline/agent_trace.json", 2)
    ]


def test_a_hidden_file_keeps_its_row_out_and_others_in(tmp_path: Path) -> None:
    root = package(tmp_path, faults=["hidden_ref"])
    (root / "hidden").mkdir()
    (root / "hidden/reference.json").write_text('{"answer": "twelve, says the oracle"}', encoding="utf-8")
    found = xc.compile(xc.read_traces(tmp_path))
    rejected = found.rejected["environment_response_pair"].filter(
        pl.col("reject_reasons").list.contains("hidden_evidence")
    )
    assert rejected["step_index"].to_list() == [1]
    assert found.rows["environment_response_pair"].height == 5


def test_a_hidden_file_is_never_opened(tmp_path: Path) -> None:
    root = package(tmp_path, faults=["hidden_ref"])
    (root / "hidden").mkdir()
    (root / "hidden/reference.json").write_text('{"answer": "twelve, says the oracle"}', encoding="utf-8")
    xc.compile_paths([tmp_path], tmp_path.parent / f"{tmp_path.name}_out", processes=1)
    out = tmp_path.parent / f"{tmp_path.name}_out"
    line = pl.read_parquet(out / "tables/evidence.parquet").filter(pl.col("ref") == "hidden/reference.json")
    assert line.select("visibility", "bytes", "sha256", "exists").rows() == [("hidden_excluded", None, None, None)]
    texts = b"".join(p.read_bytes() for p in out.rglob("*.json*"))
    assert b"says the oracle" not in texts
