"""A report says what its source holds, in three documents that agree, and nothing that is not there."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

import expcomp as xc
from expcomp.cli.main import app
from expcomp.errors import OutputError, SourceError, StatsError, UsageError
from expcomp.io.digest import sha256_file
from expcomp.reports.report import Report, report
from tests.helpers import compile_cli, tree
from tests.reports.conftest import made


def table(found: Report | dict[str, Any], name: str) -> list[dict[str, Any]]:
    """Rows of a table of the JSON document."""
    document = found.to_dict() if isinstance(found, Report) else found
    return next(t["rows"] for s in document["sections"] for t in s["tables"] if t["id"] == name)


def ids(found: Report) -> list[str]:
    return [s.id for s in found.sections]


def test_sections_appear_where_there_is_data(compared: Report, trials: pl.DataFrame) -> None:
    assert ids(compared) == ["read", "runs", "comparison", "gap", "passk", "failures"]
    one = trials.filter(pl.col("attempt") == 0, ~pl.col("infra")).drop("failure_class", "cost_usd", "duration_s")
    assert ids(report(one.filter(pl.col("arm") == "plain"))) == ["read", "runs"]
    assert ids(report(trials.clear())) == ["read"]


def test_figures_appear_where_there_is_data(compared: Report) -> None:
    drawn = [f.id for s in compared.sections for f in s.figures]
    assert drawn == [
        "runs_pass",
        "runs_cost",
        "comparison_slopes",
        "comparison_dumbbells",
        "comparison_flips",
        "comparison_forest",
        "comparison_policies",
        "comparison_cumulative",
        "gap_histogram",
        "gap_plane",
        "passk_curves",
    ]


def test_denominators_add_up(compared: Report, trials: pl.DataFrame) -> None:
    rows = table(compared, "runs_outcomes")
    assert sum(r["attempted"] for r in rows) == trials.height
    assert all(r["attempted"] == r["scored"] + r["infra"] + r["missing"] for r in rows)
    assert sum(r["infra"] for r in rows) == trials["infra"].sum()


def test_a_pass_rate_of_single_trials_has_wilsons_interval(trials: pl.DataFrame) -> None:
    from scipy.stats import binomtest

    single = trials.filter(pl.col("attempt") == 0)
    for row in table(report(single), "runs_outcomes"):
        own = single.filter(pl.col("arm") == row["arm"], pl.col("benchmark") == row["benchmark"])["passed"].drop_nulls()
        low, high = binomtest(int(own.sum()), own.len()).proportion_ci(method="wilson")
        assert (row["pass_estimate"], row["pass_tasks"], row["pass_n"]) == (
            pytest.approx(own.mean()),
            own.len(),
            own.len(),
        )
        assert (row["pass_low"], row["pass_high"], row["pass_method"]) == (
            pytest.approx(low),
            pytest.approx(high),
            "wilson",
        )


def test_a_pass_rate_of_repeated_trials_takes_the_task_as_unit(compared: Report, trials: pl.DataFrame) -> None:
    from scipy.stats import bootstrap, t

    row = next(r for r in table(compared, "runs_outcomes") if (r["arm"], r["benchmark"]) == ("plain", "desk"))
    own = trials.filter(pl.col("arm") == "plain", pl.col("benchmark") == "desk").drop_nulls("passed")
    means = own.group_by("task", maintain_order=True).agg(pl.col("passed").mean())["passed"].to_numpy()
    assert row["pass_estimate"] == pytest.approx(means.mean())
    assert (row["pass_tasks"], row["pass_n"], row["pass_method"]) == (means.size, own.height, "min(t, BCa)")
    low, high = t.interval(0.95, means.size - 1, means.mean(), means.std(ddof=1) / means.size**0.5)
    bca = bootstrap((means,), lambda x, axis: x.mean(axis=axis), method="BCa", rng=1).confidence_interval
    assert row["pass_low"] == pytest.approx(max(0, min(low, bca.low)), abs=0.01)
    assert row["pass_high"] == pytest.approx(min(1, max(high, bca.high)), abs=0.01)


def test_the_comparison_is_that_of_compare(compared: Report, trials: pl.DataFrame) -> None:
    c = xc.compare(trials, "plain", "with-skills")
    (row,) = table(compared, "comparison_summary")
    assert {k: row[k] for k in ("estimate", "low", "high", "n_units", "decision")} == {
        k: getattr(c, k) for k in ("estimate", "low", "high", "n_units", "decision")
    }
    assert (row["baseline_trials"], row["treatment_trials"]) == c.n_trials
    assert len(table(compared, "comparison_tasks")) == c.table.height
    assert [r["decision"] for r in table(compared, "comparison_sensitivity")] == c.sensitivity["decision"].to_list()


def test_the_last_point_of_the_accumulated_evidence_is_the_comparison(trials: pl.DataFrame) -> None:
    from expcomp.comparing.plots import accumulated, arm_means

    c = xc.compare(trials, "plain", "with-skills")
    steps = accumulated(c)
    assert steps.row(-1) == (c.n_units, pytest.approx(c.estimate), pytest.approx(c.low), pytest.approx(c.high))
    assert steps["n"].is_sorted()
    assert arm_means(c)["estimate"].to_list() == pytest.approx([c.baseline_mean, c.treatment_mean])


def test_what_a_result_object_plots(trials: pl.DataFrame) -> None:
    c = xc.compare(trials, "plain", "with-skills", slices="benchmark")
    gap = xc.solver_gap(trials, "plain", "with-skills")
    for which in ("slopes", "dumbbells", "flips", "forest", "policies", "cumulative"):
        assert c.plot(which).get_title(loc="left")
    for which in ("histogram", "plane", "curves"):
        assert gap.plot(which).get_title(loc="left")
    with pytest.raises(UsageError, match="no figure 'pie'; there are slopes, dumbbells"):
        c.plot("pie")


def test_every_estimate_that_is_shown_has_its_interval_and_its_n(compared: Report) -> None:
    counts = {"n", "n_units", "tasks", "n_tasks", "pass_tasks", "score_tasks", "n_verdicts", "weak_n", "baseline_n"}
    for section in compared.sections:
        for shown in section.tables:
            names = {c.name for c in shown.columns}
            if any(c.low for c in shown.columns):
                assert names & counts, shown.id


def test_equal_input_gives_equal_documents(compared: Report, trials: pl.DataFrame) -> None:
    again = report(trials, baseline="plain", treatment="with-skills", title="Two arms")
    assert again.to_json() == compared.to_json()
    assert again.to_html() == compared.to_html()
    assert again.to_markdown() == compared.to_markdown()


def test_the_json_document_holds_all_rows(compared: Report) -> None:
    document = json.loads(compared.to_json())
    assert document["schema_version"] == "expcomp_report_v1"
    for section, told in zip(compared.sections, document["sections"], strict=True):
        assert [len(t["rows"]) for t in told["tables"]] == [t.frame.height for t in section.tables]
    assert document == compared.to_dict()


def test_long_tables_end_with_a_word_on_the_rest() -> None:
    many = report(made(150, 1), baseline="plain", treatment="with-skills")
    assert "50 more rows stand in the JSON document." in many.to_markdown()
    assert len(table(many, "comparison_tasks")) == 150


def test_a_folder_is_published_with_its_digests(compared: Report, tmp_path: Path) -> None:
    compared.write(tmp_path / "r")
    files = tree(tmp_path / "r")
    manifest = json.loads((tmp_path / "r/manifest.json").read_text("utf-8"))
    listed = {f["path"]: f["sha256"] for f in manifest["files"]}
    assert set(listed) == set(files) - {"manifest.json"}
    assert all(sha256_file(tmp_path / "r" / path) == digest for path, digest in listed.items())
    shown = (tmp_path / "r/report.md").read_text("utf-8")
    assert {f"](figures/{f.id}.svg)" in shown for s in compared.sections for f in s.figures} == {True}
    with pytest.raises(OutputError, match="exists"):
        compared.write(tmp_path / "r")
    compared.write(tmp_path / "r", force=True)
    assert tree(tmp_path / "r") == files


def test_a_ledger_with_roles_is_compared_without_being_asked(trials: pl.DataFrame, tmp_path: Path) -> None:
    pytest.importorskip("deltalake")
    records = [
        {
            "schema_version": "benchmark_run_v0",
            "benchmark_id": "counts",
            "case_id": f"case-{i}",
            "arm_id": arm,
            "run_id": f"{arm}-{i}",
            "status": "completed",
            "official_score": float((i + shift) % 3 == 0),
            "recorded_at": "2026-01-02T03:04:05Z",
        }
        for arm, shift in (("plain", 0), ("with-skills", 1))
        for i in range(9)
    ]
    ledger = xc.Ledger(tmp_path / "l", create=True, roles={"plain": "baseline", "with-skills": "treatment"})
    ledger.add(records)
    found = report(str(tmp_path / "l"))
    assert found.kind == "ledger"
    assert "comparison" in ids(found)
    assert table(found, "read_counts")[0] == {"what": "runs", "n": 18}
    assert table(found, "comparison_summary")[0]["n_units"] == 9
    assert str(tmp_path) not in found.to_json() + found.to_html()


def test_a_compile_tells_what_became_of_the_rows(compiled: Path) -> None:
    found = report(compiled)
    total = xc.open_compilation(compiled).report["total"]
    rows = table(found, "compile_families")
    assert {k: sum(r[k] for r in rows) for k in total} == total
    assert "diagnostics" in ids(found)
    assert found.to_json() == report(xc.open_compilation(compiled)).to_json()
    assert str(compiled) not in found.to_json() + found.to_html() + found.to_markdown()


def test_traces_are_read_from_their_paths(packages: Path) -> None:
    found = report(packages)
    assert found.kind == "traces"
    assert {r["what"]: r["n"] for r in table(found, "read_counts")}["attempts"] == 4
    assert report([packages]).to_json() == found.to_json() == report(xc.read_traces(packages)).to_json()


def test_a_file_of_trials_is_read_from_its_path(trials: pl.DataFrame, tmp_path: Path) -> None:
    trials.write_parquet(tmp_path / "t.parquet")
    trials.write_ndjson(tmp_path / "t.jsonl")
    found = report(tmp_path / "t.parquet")
    assert (found.kind, found.to_json()) == ("frame", report(trials).to_json())
    assert report(tmp_path / "t.jsonl").to_json() == found.to_json()


def test_arms_without_a_baseline_are_not_compared_but_how_to_is_said(trials: pl.DataFrame) -> None:
    found = report(trials)
    assert "nothing says which is the baseline" in found.to_markdown()
    assert "comparison_summary" not in found.to_json()


def test_several_treatments_have_a_section_each(trials: pl.DataFrame) -> None:
    more = pl.concat([trials, trials.filter(pl.col("arm") == "plain").with_columns(arm=pl.lit("third"))])
    found = report(more, baseline="plain", treatment=["with-skills", "third"])
    assert ids(found)[2:6] == ["comparison", "comparison_2", "gap", "gap_2"]
    assert table(found, "comparison_2_summary")[0]["estimate"] == 0


def test_scores_of_two_scales_have_no_mean(trials: pl.DataFrame) -> None:
    mixed = trials.drop("passed").with_columns(scale_known=pl.col("attempt") == 0)
    found = report(mixed)
    rows = table(found, "runs_outcomes")
    assert {r["scale"] for r in rows} == {"mixed"}
    assert {r["score_estimate"] for r in rows} == {None}
    assert "No solver gap was computed" in found.to_markdown()


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"baseline": "plain"}, UsageError, "needs both arms"),
        ({"treatment": "plain"}, UsageError, "needs both arms"),
        ({"baseline": "plain", "treatment": "with-skils"}, UsageError, "did you mean 'with-skills'"),
        ({"confidence": 1.5}, StatsError, "confidence"),
    ],
)
def test_wrong_calls_are_refused(trials: pl.DataFrame, options: dict[str, Any], error: type, words: str) -> None:
    with pytest.raises(error, match=words):
        report(trials, **options)


def test_what_cannot_be_read_is_refused(tmp_path: Path, compiled: Path) -> None:
    with pytest.raises(SourceError):
        report(tmp_path / "absent")
    with pytest.raises(UsageError, match="is the output of a compile and is taken alone"):
        report([compiled, tmp_path])
    with pytest.raises(UsageError, match="no path"):
        report([])
    with pytest.raises(UsageError):
        report(3)


def test_the_command_line_prints_and_publishes(compiled: Path, tmp_path: Path) -> None:
    done = compile_cli("report", compiled, "--json", "--out", tmp_path / "r")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == json.loads((tmp_path / "r/report.json").read_text("utf-8"))
    assert compile_cli("report", tmp_path / "absent").returncode == 3


def test_the_forms_of_the_command_line(compiled: Path, tmp_path: Path) -> None:
    run = partial(CliRunner().invoke, app)
    assert run(["report", str(compiled)]).stdout == report(compiled).to_markdown()
    assert run(["report", str(compiled), "--html"]).stdout.startswith("<!doctype html>")
    assert run(["report", str(compiled), "--quiet"]).stdout == ""
    assert "Sections: read" in run(["report", str(compiled), "--out", str(tmp_path / "r")]).stdout
    for wrong in (["--out", str(tmp_path / "r")], ["-b", "baseline"], ["--html", "--json"], ["--score-scale", "1"]):
        error = run(["report", str(compiled), *wrong]).exception
        assert isinstance(error, OutputError | UsageError)
        assert error.exit_code == 2
