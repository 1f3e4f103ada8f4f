"""The example packages: what they cover, that they are reproducible, and that they compile."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from expcomp.compiler.build import compile_paths
from expcomp.compiler.previous import STATE
from expcomp.config import CompileOptions
from expcomp.io.state_file import read_state
from expcomp.tables.events import EVENTS
from expcomp.tables.step_fields import REF_FIELDS
from expcomp.tables.vocab import SURFACES

DATA = Path(__file__).resolve().parents[2] / "data"
PACKAGES = DATA / "packages"
TRUTH: dict[str, Any] = json.loads((DATA / "packages_truth.json").read_text(encoding="utf-8"))
FAULTS = [(package, fault) for package, known in TRUTH.items() for fault in known["faults"]]
KINDS = (
    *(
        "secret_in_step",
        "private_path",
        "pii_in_step",
        "lookalike_text",
        "trade_words",
        "missing_artifact",
        "dotdot_ref",
    ),
    *("absolute_ref", "symlink_escape", "hidden_ref", "truncated_trace", "truncated_grade", "trace_is_list"),
    *("empty_trace", "missing_attempt_file", "non_object_step", "wrong_types", "duplicate_steps", "non_utf8_text"),
    *("non_utf8_json", "bom_json", "bad_jsonl_line", "line_separator_jsonl", "huge_output", "nan_score"),
    *("score_over_max", "duplicate_package_task", "future_and_reversed_times"),
)
CODES = {
    "missing_artifact": ["unresolved_ref"],
    "dotdot_ref": ["bad_ref"],
    "absolute_ref": ["bad_ref"],
    "symlink_escape": ["symlink_refused"],
    "hidden_ref": ["hidden_ref"],
    "truncated_trace": ["bad_json"],
    "truncated_grade": ["bad_json"],
    "trace_is_list": ["trace_is_list"],
    "empty_trace": ["empty_trace"],
    "missing_attempt_file": ["missing_file"],
    "non_object_step": ["not_an_object"],
    "wrong_types": ["wrong_type"],
    "duplicate_steps": ["duplicate_step"],
    "non_utf8_text": ["not_utf8"],
    "non_utf8_json": ["not_utf8"],
    "bom_json": ["bom"],
    "bad_jsonl_line": ["bad_json"],
    "nan_score": ["score_not_finite"],
    "score_over_max": ["score_out_of_scale"],
    "future_and_reversed_times": ["time_reversed"],
}
HIDDEN = ("hidden-answer-orchid-73", "hidden-key-orchid-73", "fern-outside-73")


def _garden() -> Any:
    sys.path.insert(0, str(DATA))
    try:
        import garden.faults as faults
    finally:
        sys.path.remove(str(DATA))
    return faults


def _generator() -> Any:
    sys.path.insert(0, str(DATA))
    try:
        import generate
    finally:
        sys.path.remove(str(DATA))
    return generate


def _steps() -> list[tuple[str, dict[str, Any]]]:
    found = []
    for path in sorted(PACKAGES.glob("*/attempts/*/agent_trace.json")):
        try:
            trace = json.loads(path.read_bytes())
        except ValueError:
            continue
        listed = trace if isinstance(trace, list) else trace["steps"]
        found += [(path.relative_to(PACKAGES).parts[0], s) for s in listed if isinstance(s, dict)]
    return found


def _run(*args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(DATA / "generate.py"), *args]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _rows(out: Path, folder: str, family: str) -> pl.DataFrame:
    return pl.read_parquet(out / folder / f"{family}.parquet")


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    out = tmp_path_factory.mktemp("data") / "out"
    return out, compile_paths([PACKAGES], out, processes=1)


# -- the files ---------------------------------------------------------------------------------------------------------
def test_check_is_clean():
    run = _run("--check")
    assert (run.returncode, run.stdout) == (0, "")


def test_check_names_what_differs(tmp_path):
    generator = _generator()
    generator.generate(tmp_path)
    assert generator.check(tmp_path) == []
    (tmp_path / "packages/moss-survey-notes/extra.txt").write_text("x")
    (tmp_path / "packages/pond-water-log/package_manifest.json").write_text("{}")
    (tmp_path / "packages/volunteer-rota/rubric/rubric.json").unlink()
    assert generator.check(tmp_path) == [
        "packages/moss-survey-notes/extra.txt",
        "packages/pond-water-log/package_manifest.json",
        "packages/volunteer-rota/rubric/rubric.json",
    ]


def test_small():
    files = [p for p in PACKAGES.rglob("*") if p.is_file() and not p.is_symlink()]
    assert len(files) < 500
    assert sum(p.stat().st_size for p in files) < 600_000


def test_truth_lists_every_package():
    assert sorted(TRUTH) == sorted(p.name for p in PACKAGES.iterdir())


def test_truth_counts_the_steps():
    for package, known in TRUTH.items():
        assert set(known["steps"]) == {p.name for p in (PACKAGES / package / "attempts").iterdir()}
        assert all(6 <= n <= 20 for n in known["steps"].values())


def test_every_surface_is_declared():
    declared = {s.get("interaction_surface") for _, s in _steps()}
    assert declared >= set(SURFACES)


def test_every_event_field_is_used():
    used = {name for _, s in _steps() for name, value in s.items() if value not in (None, [], "")}
    wanted = {name for family in EVENTS for name in family.fields}
    assert wanted - used == set()


def test_refs_name_files():
    planted = {f["file"] for _, f in FAULTS if f["kind"].endswith(("_ref", "_artifact"))}
    for package, s in _steps():
        for name in REF_FIELDS:
            values = s.get(name) or []
            for ref in [values] if isinstance(values, str) else values:
                odd = package == "orchid-label-print" and name == "evidence_refs" and planted
                assert odd or (PACKAGES / package / ref).is_file(), (package, name, ref)


def test_every_ending_and_scale():
    assert {k["ending"] for k in TRUTH.values()} == {"better", "worse", "tie", "single", "three"}
    assert {k["max_score"] for k in TRUTH.values()} == {1, 5, 100}
    for known in TRUTH.values():
        first, last = (list(known["scores"].values())[i] for i in (0, -1))
        change = {"better": last > first, "three": last > first, "worse": last < first, "tie": last == first}
        assert change.get(known["ending"], len(known["scores"]) == 1)


def test_every_fault_kind():
    assert len(KINDS) == 28
    assert {f["kind"] for _, f in FAULTS} == set(KINDS)


def test_special_documents():
    text = {
        p: "".join(f.read_text("utf-8", "replace") for f in sorted((PACKAGES / p).rglob("*.json")) if f.is_file())
        for p in TRUTH
    }
    everything = "".join(text.values())
    for word in (
        "not_run",
        "structural_guardrail",
        "simulated_for_test",
        '"verifier_only": true',
        "retry_of",
        "human_expert",
    ):
        assert word in everything
    for pattern in (
        *("rubric/verifier_private_rubric.json", "hidden_reference/*", "signals/process_supervision.jsonl", "input/*"),
        *("signals/lesson_pack.json", "loops/loop_manifest.json", "loops/iterations/*/contract_repair_result.json"),
        *("attempts/*/artifacts/*.csv", "attempts/*/artifacts/*.json", "attempts/*/artifacts/*.md"),
    ):
        assert list(PACKAGES.glob(f"*/{pattern}")), pattern


# -- the compile -------------------------------------------------------------------------------------------------------
def test_inputs_stay_as_they_are(compiled):
    assert _run("--check").returncode == 0


def test_books_balance(compiled):
    report = compiled[1]
    total = report["total"]
    assert total["generated"] == total["accepted"] + total["rejected"] > 0
    assert set(report["packages"]) == set(TRUTH)


def test_no_family_is_empty(compiled):
    assert [name for name, f in compiled[1]["families"].items() if not f["generated"]] == []


def test_no_package_is_given_up(compiled):
    assert compiled[1]["diagnostics"].get("unreadable_package", 0) == 0


@pytest.mark.parametrize(("package", "fault"), [(p, f) for p, f in FAULTS if f["reported"]])
def test_diagnostics_name_file_and_place(compiled, package, fault):
    lines = pl.read_parquet(compiled[0] / "diagnostics.parquet")
    lines = lines.filter((pl.col("package_id") == package) & (pl.col("source_uri") == fault["file"]))
    codes = CODES[fault["kind"]]
    found = lines.filter(pl.col("code").is_in(codes))
    place = None if codes == ["symlink_refused"] else fault.get("step", fault.get("line", fault.get("element")))
    assert found.height > 0, lines["code"].to_list()
    assert place is None or place in found["source_pos"].to_list()


def test_only_planted_faults_are_reported(compiled):
    lines = pl.read_parquet(compiled[0] / "diagnostics.parquet").filter(pl.col("code") != "duplicate_task")
    planted = {(package, fault["file"]) for package, fault in FAULTS if fault["reported"]}
    assert set(lines.select("package_id", "source_uri").iter_rows()) == planted


def test_the_twin_is_reported_once(compiled):
    lines = pl.read_parquet(compiled[0] / "diagnostics.parquet").filter(pl.col("code") == "duplicate_task")
    assert lines["package_id"].to_list() == ["tour-timetable-copy"]


@pytest.mark.parametrize("needle", [*_garden().cores().values(), *_garden().private_paths().values(), *HIDDEN])
def test_nothing_leaks(compiled, needle):
    once = json.dumps(needle)[1:-1]
    spellings = {needle, once, json.dumps(once)[1:-1], json.dumps(json.dumps(once)[1:-1])[1:-1]}
    assert [f.name for f, text in _texts(compiled[0]) if any(s in text for s in spellings)] == []


def _texts(out: Path) -> list[tuple[Path, str]]:
    """All that a reader of the output can see: tables as JSON, other files as they are."""
    return [(path, _text(path)) for path in sorted(p for p in out.rglob("*") if p.is_file())]


def _text(path: Path) -> str:
    if path.suffix == ".parquet":
        return pl.read_parquet(path).write_ndjson()
    if path.name != STATE:
        return path.read_text("utf-8")
    return "".join(frame.write_ndjson() for frame in read_state(path).values())


def test_lookalikes_and_trade_words_survive(compiled):
    rows = _rows(compiled[0], "rows", "environment_response_pair").filter(
        pl.col("package_id") == "herbarium-loan-letter"
    )
    seen = "\n".join(rows["observed_environment_response"].drop_nulls().to_list())
    wanted = [f["text"] for _, f in FAULTS if f["kind"] in ("lookalike_text", "trade_words")]
    assert [w for w in wanted if w not in seen] == []


def test_pii_goes_on_request(compiled, tmp_path):
    pii = _garden().PII
    kept = _rows(compiled[0], "rows", "environment_response_pair").write_ndjson()
    assert all(value in kept for value in pii.values())
    compile_paths([PACKAGES / "herbarium-loan-letter"], tmp_path / "out", options=CompileOptions(pii=True), processes=1)
    assert [v for _, text in _texts(tmp_path / "out") for v in pii.values() if v in text] == []


def test_huge_output_is_cut_and_flagged(compiled):
    rows = _rows(compiled[0], "rows", "environment_response_pair").filter("truncated")
    assert rows["observed_environment_response_chars"].to_list() == [70_000]


def test_bad_scores_are_no_labels(compiled):
    reasons = set(_rows(compiled[0], "rejected", "reward_model_row")["reject_reasons"].explode().to_list())
    assert reasons >= {"score_not_finite", "score_out_of_scale"}


def test_copied_steps_are_rejected(compiled):
    rows = _rows(compiled[0], "rejected", "environment_response_pair").filter(
        pl.col("package_id") == "fern-house-vents"
    )
    assert rows["reject_reasons"].explode().to_list().count("duplicate_exact") == 1


def test_retry_makes_a_step_pair(compiled):
    pairs = _rows(compiled[0], "rows", "preference_pair")
    assert pairs.filter((pl.col("pair_level") == "step") & (pl.col("package_id") == "seed-packet-count")).height == 3


def test_no_row_prefers_the_worse_attempt(compiled):
    pairs = _rows(compiled[0], "rows", "preference_pair").filter(pl.col("package_id") == "fern-house-vents")
    assert pairs["attempt_kind"].to_list() == ["baseline"]


def test_stand_in_reviews_are_rejected(compiled):
    rows = _rows(compiled[0], "rows", "reviewer_decision_row")
    assert "simulated_for_test" not in rows["reviewer_type"].to_list()


def test_surfaces_derived(compiled):
    steps = pl.read_parquet(compiled[0] / "tables/steps.parquet")
    found = steps.group_by("surface_source").agg(pl.col("surface").cast(pl.String).unique().sort())
    derived = dict(found.filter(pl.col("surface_source").cast(pl.String).is_in(["field", "tool"])).iter_rows())
    assert derived == {"field": ["file"], "tool": ["database"]}
