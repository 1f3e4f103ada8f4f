"""A statement is in a pack exactly when its evidence is there, and its counts are those of the evidence."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from expcomp.compiler.compilation import Compilation, open_compilation
from expcomp.packs.kinds import KINDS
from expcomp.packs.pack import Packs, build_packs
from expcomp.tables import models
from tests.helpers import STEPS, package
from tests.packs.pack_helpers import known, loaded, without_evidence

KINDS_OF_GARDEN = (
    "task domain record input_file constraint deliverable step program order sequence unrated_use tool_gap criterion_gap "
    "measure_gap step_failure criterion_failure review criterion plan_check verify_action"
).split()


def compiled(folder: Path) -> Compilation:
    from expcomp.compiler.build import compile_paths

    compile_paths([folder / "in"], folder / "out", processes=1)
    return loaded(open_compilation(folder / "out"))


def texts(packs: Packs, pack_id: str, *kinds: str) -> list[str]:
    frame = packs.statements.filter((pl.col("pack_id") == pack_id) & pl.col("kind").is_in(list(kinds)))
    return frame["text"].to_list()


def test_tables_hold_to_their_contracts(garden_packs: Packs) -> None:
    models.validate("packs", garden_packs.packs.drop("description"))
    models.validate("pack_statements", garden_packs.statements)
    models.validate("pack_tools", garden_packs.tools)
    models.validate("pack_corrections", garden_packs.corrections)
    models.validate("pack_artifacts", garden_packs.artifacts)


def test_every_statement_cites_files_that_were_found(garden: Compilation, garden_packs: Packs) -> None:
    cited = garden_packs.statements.select("citations").explode("citations").unnest("citations")
    assert cited.height > 500
    assert set(cited.select("package_id", "evidence_id").iter_rows()) <= known(garden)


def test_a_pack_only_cites_its_own_packages(garden_packs: Packs) -> None:
    cited = garden_packs.statements.select("pack_id", "citations").explode("citations").unnest("citations")
    own = garden_packs.packs.explode("package_ids").rename({"package_ids": "package_id"})
    assert cited.join(own, on=["pack_id", "package_id"], how="anti").is_empty()


@pytest.mark.parametrize("kind", KINDS_OF_GARDEN)
def test_a_statement_vanishes_with_its_evidence(kind: str, garden: Compilation, garden_packs: Packs) -> None:
    # Of a package: in a family another package may state the same.
    single = ~pl.col("pack_id").str.starts_with("family-") | (kind == "order")
    statement = garden_packs.statements.filter((pl.col("kind") == kind) & single).row(0, named=True)
    bare = build_packs(without_evidence(garden, statement["citations"]))
    same = (pl.col("pack_id") == statement["pack_id"]) & (pl.col("kind") == kind)
    assert statement["text"] not in bare.statements.filter(same)["text"].to_list()
    assert statement["subject"] not in bare.statements.filter(same)["subject"].to_list()


def test_counts_shrink_with_the_evidence(garden: Compilation, garden_packs: Packs) -> None:
    family = garden_packs.packs.filter(pl.col("pack_kind") == "family").row(0, named=True)
    attempts = garden.tables["attempts"].filter(pl.col("package_id").is_in(family["package_ids"]))
    first = attempts.drop_nulls("trace_ref").row(0, named=True)
    record = garden.tables["evidence"].filter(
        (pl.col("package_id") == first["package_id"]) & (pl.col("ref") == first["trace_ref"])
    )
    bare = build_packs(without_evidence(garden, record.select("package_id", "evidence_id").to_dicts()))
    after = bare.packs.filter(pl.col("pack_id") == family["pack_id"]).row(0, named=True)
    assert (after["n_attempts"], after["n_passed"] + after["n_failed"]) == (
        family["n_attempts"] - 1,
        family["n_passed"] + family["n_failed"] - (first["passed"] is not None),
    )


def test_without_any_evidence_a_pack_says_what_is_missing(garden: Compilation, tmp_path: Path) -> None:
    empty = garden.tables["evidence"].select("package_id", "evidence_id").to_dicts()
    packs = build_packs(without_evidence(garden, empty))
    assert packs.statements.is_empty()
    assert packs.packs.filter(pl.col("pack_kind") == "package").height == 11
    report = packs.write(tmp_path / "packs")
    assert report["packs_without_statements"] == packs.packs.height
    skill = (tmp_path / "packs/packs/seed-packet-count/SKILL.md").read_text("utf-8")
    assert skill.count("Nothing: ") == 7
    assert not (tmp_path / "packs/packs/seed-packet-count/runtime").exists()
    assert {m["path"] for m in report["missing"]} >= {"runtime/memory.jsonl", "evals/grader_cases.jsonl", "task.json"}


def test_support_is_counted_over_the_attempts(tmp_path: Path) -> None:
    package(tmp_path / "in", "pkg_a", scores={"baseline": 0.2, "revised": 0.9})
    package(tmp_path / "in", "pkg_b", task_id="task_b", scores={"baseline": 0.1, "revised": 0.8})
    packs = build_packs(compiled(tmp_path))
    family = packs.packs.filter(pl.col("pack_kind") == "family").row(0, named=True)
    assert (family["source"], family["n_attempts"], family["n_passed"], family["n_failed"]) == ("counting", 4, 2, 2)
    steps = packs.statements.filter((pl.col("pack_id") == family["pack_id"]) & (pl.col("kind") == "step"))
    assert set(zip(steps["support"], steps["total"], strict=True)) == {(2, 2)}
    failed = packs.statements.filter((pl.col("pack_id") == family["pack_id"]) & (pl.col("kind") == "step_failure"))
    assert failed.select("support", "total").row(0) == (4, 4)
    assert "A retry that worked: http: GET /v2/gauges?retry=1" in failed["text"][0]
    criterion = packs.statements.filter((pl.col("pack_id") == family["pack_id"]) & (pl.col("kind") == "criterion_gap"))
    assert criterion["text"].to_list() == ["'counted' holds in 2 of 2 passing and 0 of 2 failing attempts."]


def test_what_all_attempts_do_separates_nothing(tmp_path: Path) -> None:
    package(tmp_path / "in")
    packs = build_packs(compiled(tmp_path))
    assert packs.statements.filter(pl.col("kind").is_in(["tool_gap", "program_gap"])).is_empty()


def test_different_evidence_gives_different_text(tmp_path: Path) -> None:
    package(tmp_path / "in", "pkg_a", steps=STEPS, loops=False)
    package(tmp_path / "in", "pkg_b", steps=[s for s in STEPS if s["step"] not in (3, 4)], loops=False)
    packs = build_packs(compiled(tmp_path))
    a, b = (
        packs.statements.filter(pl.col("pack_id").str.starts_with(p) & (pl.col("section") != "when"))["text"].to_list()
        for p in ("pkg-a", "pkg-b")
    )
    assert a
    assert b
    assert a != b
    assert any("Timeout" in t for t in a)
    assert not any("Timeout" in t for t in b)


def test_simulated_reviews_correct_nothing(garden: Compilation) -> None:
    rows = garden.rows["feedback_revision_pair"]
    assert rows.height
    faked = {"feedback_revision_pair": rows.with_columns(simulated_review=pl.lit(value=True))}
    from dataclasses import replace

    from expcomp.compiler.compilation import Rows
    from expcomp.rows.registry import ROW_FAMILIES

    other = replace(garden, rows=Rows({n: garden.rows[n] for n in ROW_FAMILIES} | faked))
    packs = build_packs(other)
    assert packs.statements.filter(pl.col("kind") == "review").is_empty()
    assert packs.corrections.filter(pl.col("correction_kind") == "feedback").is_empty()


def test_statements_stand_in_the_order_of_their_sections(garden_packs: Packs) -> None:
    told = garden_packs.statements
    assert told["statement_id"].n_unique() == told.height
    assert told.sort("pack_id", "section", "position").equals(told)
    assert set(told["kind"]) <= set(KINDS)


def test_tool_use_counts_calls_and_errors(tmp_path: Path) -> None:
    package(tmp_path / "in", loops=False)
    packs = build_packs(compiled(tmp_path))
    http = packs.tools.filter(pl.col("tool") == "http").row(0, named=True)
    assert (http["calls"], http["errors"], http["error_rate"], http["attempts"]) == (4, 2, 0.5, 2)
    assert http["seconds_median"] == 1.0
    retries = packs.corrections.filter(pl.col("correction_kind") == "retry")
    assert retries.select("before", "problem", "after").unique().rows() == [
        ("GET /v2/gauges", "no answer in time", "http: GET /v2/gauges?retry=1")
    ]


def test_artifacts_count_the_passing_attempts(garden_packs: Packs) -> None:
    files = garden_packs.artifacts.filter(pl.col("pack_id") == "seed-packet-count")
    totals = files.filter(pl.col("name") == "totals.csv").row(0, named=True)
    assert (totals["attempts"], totals["passing"], totals["total_passing"]) == (2, 1, 1)
    assert totals["header"] == "shelf,packets"


def test_a_whole_compile_in_memory_gives_the_same_packs(garden_packs: Packs) -> None:
    import expcomp as xc
    from tests.helpers import ROOT

    again = build_packs(xc.compile(xc.read_traces(str(ROOT / "data/packages"))))
    key = ("pack_id", "kind", "subject", "text")
    assert again.statements.select(key).equals(garden_packs.statements.select(key))
