"""`expcomp ledger` as users and scripts meet it: what each verb prints, its exit codes, what it leaves behind."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner, Result

from expcomp import Ledger
from expcomp.cli.main import app
from expcomp.errors import ExpcompError
from tests.helpers import ROOT, package, put, tree

REFERENCE = os.environ.get("EXPCOMP_REFERENCE")
RUNS = ROOT / "data" / "runs"
DESK, COUNTS = "garden-desk@1.0", "garden-counts@2.1"
REGRESSED = "paired_treatment_regressed"


def run(*words: object) -> Result:
    """A verb in this process; what `main` would make of an error of ours is in `stderr` and `exit_code`."""
    done = CliRunner().invoke(app, ["ledger", *map(str, words)])
    if isinstance(done.exception, ExpcompError):
        done.stderr_bytes = str(done.exception).encode()
        done.exit_code = done.exception.exit_code
    elif done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def told(*words: object, code: int = 0) -> Any:
    """The JSON document a verb prints."""
    done = run(*words, "--json")
    assert (done.exit_code, done.stderr) == (code, ""), done.stderr
    return json.loads(done.stdout)


def record(**changes: Any) -> dict[str, Any]:
    body = {"schema_version": "benchmark_run_v0", "benchmark_id": "b", "case_id": "c", "arm_id": "plain", "attempt": 0}
    return body | {"score_min": 0.0, "score_max": 1.0, "official_task_score": {"value": 1.0}} | changes


def lines(path: Path, *records: object) -> Path:
    put(path, "".join(json.dumps(r) + "\n" for r in records))
    return path


def put_json(path: Path, value: object) -> Path:
    put(path, value)
    return path


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger of the shipped runs; only to be read."""
    where = tmp_path_factory.mktemp("ledger") / "ledger"
    assert run("add", where, RUNS).exit_code == 0
    return where


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    assert run("add", tmp_path / "ledger", RUNS, "--quiet").stdout == ""
    return tmp_path / "ledger"


# add


def test_a_folder_of_runs_is_added_once(tmp_path: Path) -> None:
    first = told("add", tmp_path / "l", RUNS)
    assert (first["made"], first["inserted"], first["refused"], first["version"]) == (True, 62, 0, 1)
    again = told("add", tmp_path / "l", *sorted(RUNS.iterdir()))
    assert (again["made"], again["identical"], again["version"]) == (False, 62, 1)
    assert run("add", tmp_path / "l", RUNS).stdout == f"62 identical; {tmp_path / 'l'}, version 1\n"


def test_a_dry_run_makes_and_changes_nothing(tmp_path: Path, ledger: Path) -> None:
    before = tree(tmp_path)
    assert run("add", tmp_path / "new", RUNS, "--dry-run").stdout == "dry run: 62 inserted\n"
    assert told("add", ledger, RUNS / "garden-desk-plain.jsonl", "--dry-run", "--arm", "other")["inserted"] == 21
    assert told("merge", tmp_path / "new", ledger, "--dry-run")["inserted"] == 62
    words = ("archive", ledger, "--benchmark", DESK, "--arm", "plain")
    assert told(*words, "--reason", "r", "--dry-run")["newly_archived_run_count"] == 21
    assert told(*words, "--undo", "--dry-run")["restored_run_count"] == 0
    assert tree(tmp_path) == before


def test_what_is_not_taken_is_named_by_file_record_and_field(tmp_path: Path) -> None:
    good, cheap = record(), record(case_id="d", cost_usd=float("nan"))
    running = record(case_id="e", status="running", official_task_score=None)
    lines(tmp_path / "in/a.jsonl", cheap, good, running)
    put(tmp_path / "in/notes.json", {"a": 1})
    put(tmp_path / "in/README.md", "words")
    report = told("add", tmp_path / "l", tmp_path / "in", code=4)
    assert (report["inserted"], report["refused"]) == (1, 3)
    found = {(Path(r["file"]).name, r["record"], r["name"], r["field"]) for r in report["records_refused"]}
    assert found == {
        ("a.jsonl", 0, "d", "cost_usd"),
        ("a.jsonl", 2, "e", "status"),
        ("notes.json", None, None, "file"),
    }
    shown = run("add", tmp_path / "l", tmp_path / "in")
    assert shown.exit_code == 4
    assert f"refused: {tmp_path / 'in/a.jsonl'}, record 0, d: cost_usd: not a finite number" in shown.stdout


def test_bad_input_makes_no_ledger(tmp_path: Path) -> None:
    put(tmp_path / "cut.jsonl", json.dumps(record()) + "\n" + json.dumps(record())[:20])
    for words, said in (
        ((tmp_path / "cut.jsonl",), "cut.jsonl, line 2"),
        ((tmp_path / "none.jsonl",), "does not exist"),
        ((RUNS, "--roles", "plain"), "ARM=ROLE"),
        ((RUNS, "--roles", "plain=baseline,plain=treatment"), "both baseline and treatment"),
        ((RUNS, "--profile", "nobody"), "known are default, loopx"),
        ((RUNS, "--conflict", "oldest"), "newest, error, keep_both"),
        ((RUNS, "--profile", "loopx", "--conflict", "newest"), "replaces by run id"),
        ((RUNS, "--profile", "loopx", "--roles", "plain=baseline"), "roles cannot be declared"),
        ((RUNS, "--rules", tmp_path / "none.toml"), "none.toml"),
        ((RUNS, "--recorded-at", "spring"), "ISO 8601"),
        ((RUNS, "--recorded-at", "2026-01-01T00:00:00"), "no time zone"),
    ):
        done = run("add", tmp_path / "l", *words)
        assert done.exit_code in (2, 3), words
        assert said in done.stderr
        assert not (tmp_path / "l").exists(), words


def test_a_conflict_ends_with_1_and_changes_nothing(tmp_path: Path) -> None:
    lines(tmp_path / "a.jsonl", record())
    lines(tmp_path / "b.jsonl", record(official_task_score={"value": 0.0}))
    run("add", tmp_path / "l", tmp_path / "a.jsonl")
    before = tree(tmp_path / "l")
    done = run("add", tmp_path / "l", tmp_path / "b.jsonl", "--conflict", "error")
    assert (done.exit_code, "b/c, attempt 0" in done.stderr) == (1, True)
    assert tree(tmp_path / "l") == before
    assert told("add", tmp_path / "l", tmp_path / "b.jsonl", "--conflict", "keep_both")["inserted"] == 1


def test_roles_are_kept_and_others_refused(tmp_path: Path) -> None:
    lines(tmp_path / "a.jsonl", record(arm_id="x"), record(arm_id="y", official_task_score={"value": 0.4}))
    run("add", tmp_path / "l", tmp_path / "a.jsonl", "--roles", "x=baseline", "--roles", "y=treatment")
    assert [d["decision"] for d in told("decide", tmp_path / "l")] == [REGRESSED]
    assert run("add", tmp_path / "l", tmp_path / "a.jsonl", "--roles", "y=treatment,x=baseline").exit_code == 0
    done = run("add", tmp_path / "l", tmp_path / "a.jsonl", "--roles", "x=treatment")
    assert (done.exit_code, "keeps the roles" in done.stderr) == (2, True)
    swapped = told("decide", tmp_path / "l", "--roles", "x=treatment,y=baseline")
    assert [d["decision"] for d in swapped] == ["paired_treatment_improved"]


def test_traces_are_added_as_attempts(tmp_path: Path) -> None:
    package(tmp_path / "in")
    report = told("add", tmp_path / "l", tmp_path / "in", "--benchmark", "desk", "--group", "g")
    assert report["inserted"] == 2
    shown = told("show", tmp_path / "l", "--columns", "filed_benchmark,run_group_id,source_event_schema")
    assert {tuple(r.values()) for r in shown} == {("desk", "g", "attempts")}


# show


def test_filters_narrow_and_all_must_hold(shared: Path) -> None:
    def count(*words: str) -> int:
        return len(told("show", shared, *words))

    assert count() == 62
    assert count("--benchmark", DESK) == 42
    assert count("--benchmark", DESK, "--arm", "plain", "--case", "plan-open-day") == 3
    assert count("--case", "plan-open-day", "--case", "file-seed-order") == 12
    assert count("--group", "march") == 62
    assert count("--infra") == count("--score-status", "missing") == 7
    assert count("--no-infra") == 55
    assert count("--scope", "verifier_or_infra") == 2
    assert count("--status", "recorded", "--infra") + count("--status", "completed", "--infra") == 7
    assert (count("--archived"), count("--active")) == (0, 62)
    assert count("--limit", "3") == 3


@pytest.mark.parametrize(
    "words",
    [
        ("--arm", "plian"),
        ("--benchmark", "garden"),
        ("--case", "x"),
        ("--group", "april"),
        ("--columns", "nothing"),
        ("--view", "all"),
        ("--json", "--csv"),
        ("--md", "--quiet"),
        ("--at", "9"),
        ("--profile", "loopx"),
    ],
    ids=" ".join,
)
def test_what_is_misspelt_is_an_error(shared: Path, words: tuple[str, ...]) -> None:
    done = run("show", shared, *words)
    assert done.exit_code == (3 if words[0] == "--at" else 2)
    assert "\n" not in done.stderr.strip()


@pytest.mark.parametrize("view", ["runs", "cases", "scores"])
def test_every_form_tells_the_same(shared: Path, view: str) -> None:
    words = ("show", shared, "--view", view)
    rows = told(*words)
    head, *body = csv.reader(io.StringIO(run(*words, "--csv").stdout, newline=""))
    assert head == list(rows[0])
    assert len(body) == len(rows)
    markdown = run(*words, "--md").stdout.splitlines()
    assert len(markdown) == len(rows) + 2
    assert all(line.startswith("| ") for line in markdown)
    shown = run(*words).stdout
    assert f"{min(len(rows), 40)} of {len(rows)} {view}" in shown
    assert run(*words, "--quiet").stdout == ""


def test_scores_have_their_denominators(shared: Path) -> None:
    rows = told("show", shared, "--view", "scores", "--benchmark", DESK)
    keys = ("arm_id", "cases", "cases_scored", "runs", "runs_scored", "runs_infra", "max_runs_per_case")
    assert [tuple(r[k] for k in keys) for r in rows] == [
        ("plain", 7, 7, 21, 20, 1, 3),
        ("with-skills", 7, 6, 21, 18, 3, 3),
    ]
    assert all(r["lower_bound"] <= r["mean_of_case_means"] <= r["upper_bound"] <= 1 for r in rows)
    assert all(r["mean_of_case_means"] < r["best_of_n"] for r in rows)


def test_text_of_others_cannot_run_or_break_a_row(tmp_path: Path) -> None:
    nasty = "=1|2\x1b[31m"
    lines(tmp_path / "a.jsonl", record(case_id=nasty))
    run("add", tmp_path / "l", tmp_path / "a.jsonl")
    words = ("show", tmp_path / "l", "--columns", "case_id")
    assert run(*words, "--md").stdout.splitlines()[2] == "| =1\\|2�\\[31m |"
    assert run(*words, "--csv").stdout.splitlines()[1].startswith("'=1|2")
    assert "\x1b" not in run(*words).stdout
    assert told(*words) == [{"case_id": nasty}]


# decide, backlog, drift


def test_a_decision_can_be_a_gate(shared: Path) -> None:
    assert run("decide", shared, "--quiet", "--fail-on", REGRESSED).exit_code == 1
    assert run("decide", shared, "--quiet", "--fail-on", REGRESSED, "--benchmark", COUNTS).exit_code == 0
    done = run("decide", shared, "--fail-on", "regresed")
    assert (done.exit_code, "no rule of profile default gives decision 'regresed'" in done.stderr) == (2, True)


def test_decisions_are_those_of_the_library(shared: Path) -> None:
    rows = told("decide", shared)
    want = Ledger(shared).decisions.collect()
    assert [r["decision"] for r in rows] == want["decision"].to_list()
    assert list(rows[0]) == want.columns
    some = told("decide", shared, "--decision", REGRESSED)
    assert [r["filed_case"] for r in some] == ["answer-loan-request"]


def test_two_arms_can_be_named(shared: Path) -> None:
    rows = told("decide", shared, "--baseline", "with-skills", "--treatment", "plain", "--case", "answer-loan-request")
    assert [r["decision"] for r in rows] == ["paired_treatment_improved"]
    assert run("decide", shared, "--baseline", "plain").exit_code == 2
    assert run("decide", shared, "--baseline", "plain", "--treatment", "skills").exit_code == 2


def test_the_backlog_is_that_of_the_library(shared: Path) -> None:
    rows = told("backlog", shared)
    want = Ledger(shared).backlog.collect()
    assert [(r["repair_class"], r["blocked_cases"]) for r in rows] == want.select(
        "repair_class", "blocked_cases"
    ).rows()
    assert [r["repair_priority"] for r in rows] == sorted(r["repair_priority"] for r in rows)
    assert told("backlog", shared, "--benchmark", DESK)[0]["blocked_cases"] == ["print-tour-tickets"]


def test_drift_ends_with_1_and_names_what_is_missing(shared: Path, tmp_path: Path) -> None:
    assert told("drift", shared, RUNS)["drift_detected"] is False
    lines(tmp_path / "h.jsonl", record(), *map(json.loads, (RUNS / "garden-desk-plain.jsonl").read_text().splitlines()))
    report = told("drift", shared, tmp_path / "h.jsonl", code=1)
    assert (report["missing_ledger_run_count"], report["matched_history_run_count"]) == (1, 21)
    shown = run("drift", shared, tmp_path / "h.jsonl")
    assert "missing: b, c, plain" in shown.stdout
    assert run("drift", shared, put_json(tmp_path / "x.json", {"a": 1})).exit_code == 2
    assert run("drift", shared, tmp_path / "none.jsonl").exit_code == 3


def test_runs_that_were_given_an_arm_do_not_drift(tmp_path: Path) -> None:
    one = RUNS / "garden-desk-plain.jsonl"
    run("add", tmp_path / "l", one, "--arm", "mine", "--group", "march")
    assert told("drift", tmp_path / "l", one)["drift_detected"] is False


# archive, history, merge


def test_archive_hides_and_undo_brings_back(ledger: Path) -> None:
    words = ("archive", ledger, "--benchmark", DESK, "--arm", "plain")
    done = told(*words, "--reason", "wrong prompt")
    assert (done["newly_archived_run_count"], done["reason"]) == (21, "wrong prompt")
    assert len(told("show", ledger, "--archived")) == 21
    assert [r["arm_id"] for r in told("show", ledger, "--view", "scores", "--benchmark", DESK)] == ["with-skills"]
    assert len(told("show", ledger, "--archived", "--at", "1")) == 0
    back = told(*words, "--undo")
    assert (back["restored_run_count"], back["runs"][0]["archive_reason"]) == (21, "wrong prompt")
    commits = told("history", ledger)
    assert [(c["version"], c["action"]) for c in commits] == [
        (3, "unarchive"),
        (2, "archive"),
        (1, "add"),
        (0, "create"),
    ]
    assert "21 archived" in run("history", ledger).stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--reason", "r"), "--all"),
        (("--arm", "plain"), "needs a --reason"),
        (("--arm", "plain", "--reason", "  "), "needs a --reason"),
        (("--arm", "plian", "--reason", "r"), "no run of the ledger has arm 'plian'"),
        (("--all", "--undo", "--reason", "r"), "neither"),
        (("--undo",), "--all"),
    ],
)
def test_an_archive_that_says_too_little_is_refused(ledger: Path, words: tuple[str, ...], said: str) -> None:
    before = tree(ledger)
    done = run("archive", ledger, "--benchmark", DESK, *words)
    assert (done.exit_code, said in done.stderr) == (2, True)
    assert tree(ledger) == before


def test_merge_adds_each_run_once(shared: Path, tmp_path: Path) -> None:
    run("add", tmp_path / "l", RUNS / "garden-desk-plain.jsonl")
    report = told("merge", tmp_path / "l", shared)
    assert (report["identical"], report["inserted"]) == (21, 41)
    assert told("merge", tmp_path / "new", shared)["made"] is True
    assert run("merge", tmp_path / "l", tmp_path / "typo").exit_code == 3


# report, export


def test_a_report_tells_scores_denominators_decisions_and_backlog(shared: Path, tmp_path: Path) -> None:
    text = run("report", shared).stdout
    heads = [line[3:] for line in text.splitlines() if line.startswith("## ")]
    assert heads == ["Scores", "Denominators", "Decisions", "Cases", "Backlog"]
    assert "| garden-desk@1.0 | with-skills | 7 | 6 | 21 | 18 | 14 | 3 | 0 |" in text
    done = run("report", shared, "--out", tmp_path / "r.md")
    assert (done.stdout, (tmp_path / "r.md").read_text("utf-8")) == (f"wrote {tmp_path / 'r.md'}\n", text)
    assert run("report", shared, "--out", tmp_path / "r.md").exit_code == 2
    assert run("report", shared, "--out", tmp_path / "r.md", "--force", "--quiet").exit_code == 0
    assert "10 more cases are not listed." in run("report", shared, "--limit", "2").stdout
    assert told("report", shared)["markdown"] == text


def test_a_report_tells_what_was_guessed_and_archived(ledger: Path, tmp_path: Path) -> None:
    lines(tmp_path / "a.jsonl", record(arm_id="control", score_min=None, score_max=None))
    run("add", ledger, tmp_path / "a.jsonl")
    run("archive", ledger, "--benchmark", DESK, "--all", "--reason", "old | gone")
    text = run("report", ledger).stdout
    assert "| garden-desk@1.0 | old \\| gone | 42 |" in text
    assert "| b | role_guessed | 1 |" in text
    assert "| b | scale_unknown | 1 |" in text


@pytest.mark.parametrize("kind", ["json", "md", "parquet", "csv"])
def test_an_export_is_one_file_that_others_read(shared: Path, tmp_path: Path, kind: str) -> None:
    out = tmp_path / f"runs.{kind}"
    assert told("export", shared, "--out", out)["runs"] == 62
    if kind == "json":
        document = json.loads(out.read_text("utf-8"))
        assert document["benchmarks"][DESK]["run_count"] == 42
    elif kind == "md":
        assert out.read_text("utf-8").startswith("# Benchmark Run Ledger\n")
    else:
        frame = pl.read_parquet(out) if kind == "parquet" else pl.read_csv(out, infer_schema=False)
        assert (frame.height, "run_key" in frame.columns) == (62, True)
    before = out.read_bytes()
    assert run("export", shared, "--out", out).exit_code == 2
    assert run("export", shared, "--out", out, "--force", "--quiet").exit_code == 0
    assert out.read_bytes() == before


def test_an_export_can_be_a_part(shared: Path, tmp_path: Path) -> None:
    assert told("export", shared, "--out", tmp_path / "a.json", "--benchmark", COUNTS, "--arm", "plain")["runs"] == 10
    document = json.loads((tmp_path / "a.json").read_text("utf-8"))
    assert [b["run_count"] for b in document["benchmarks"].values()] == [10]
    assert run("export", shared, "--out", tmp_path / "a.txt").exit_code == 2
    assert run("export", shared, "--out", shared / "a.csv").exit_code == 2


def test_under_loopx_a_document_comes_back_as_it_was(tmp_path: Path) -> None:
    at = "2026-01-01T00:00:00+00:00"
    entry = {"run_id": "r", "benchmark_id": "b", "case_id": "c", "case_ids": ["c"], "arm_id": "x_baseline"}
    entry |= {"recorded_at": at, "status": "completed", "run_group_id": "g"}
    benchmarks = {"b": {"cases": {"c": {"runs": [entry]}}}}
    document = {"schema_version": "benchmark_run_ledger_v0", "updated_at": at, "benchmarks": benchmarks}
    put(tmp_path / "led.json", document)
    assert told("add", tmp_path / "l", tmp_path / "led.json", "--profile", "loopx")["inserted"] == 1
    run("export", tmp_path / "l", "--out", tmp_path / "out.json")
    back = json.loads((tmp_path / "out.json").read_text("utf-8"))
    run("add", tmp_path / "again", tmp_path / "out.json", "--profile", "loopx")
    run("export", tmp_path / "again", "--out", tmp_path / "again.json")
    assert json.loads((tmp_path / "again.json").read_text("utf-8")) == back
    assert run("report", tmp_path / "l").stdout.startswith("# Benchmark Run Ledger\n")
    assert run("show", tmp_path / "l", "--roles", "x=baseline").exit_code == 2
    done = run("add", tmp_path / "mixed", tmp_path / "led.json", RUNS, "--profile", "loopx")
    assert (done.exit_code, "one after the other" in done.stderr) == (2, True)


def test_no_ledger_is_an_error_for_every_verb_that_reads(tmp_path: Path) -> None:
    alone = [(verb,) for verb in ("show", "decide", "backlog", "history", "report")]
    for verb, *words in (*alone, ("drift", RUNS), ("export", "--out", tmp_path / "a.csv")):
        done = run(verb, tmp_path / "typo", *words)
        assert (done.exit_code, "typo" in done.stderr) == (3, True), verb
    assert list(tmp_path.iterdir()) == []


# the ancestor's real ledger, and traces of others


@pytest.mark.reference
@pytest.mark.skipif(not REFERENCE, reason="EXPCOMP_REFERENCE is not set")
def test_the_real_ledger_goes_in_and_comes_out_byte_for_byte(tmp_path: Path) -> None:
    source = Path(str(REFERENCE)) / "ledger" / "benchmark-run-ledger.json"
    assert told("add", tmp_path / "l", source, "--profile", "loopx")["inserted"] == 303
    assert run("export", tmp_path / "l", "--out", tmp_path / "out.json", "--quiet").exit_code == 0
    assert (tmp_path / "out.json").read_bytes() == source.read_bytes()
    part = told("export", tmp_path / "l", "--out", tmp_path / "part.json", "--benchmark", "terminal-bench@2.0")
    whole = json.loads(source.read_bytes())["benchmarks"]["terminal-bench@2.0"]
    assert json.loads((tmp_path / "part.json").read_bytes())["benchmarks"] == {"terminal-bench@2.0": whole}
    assert part["runs"] == whole["run_count"]


@pytest.mark.reference
@pytest.mark.slow
@pytest.mark.skipif(not REFERENCE, reason="EXPCOMP_REFERENCE is not set")
@pytest.mark.parametrize("name", ["harbor", "tau", "terminal_bench", "inspect", "verifiers"])
def test_traces_of_benchmarks_are_added_once(tmp_path: Path, name: str) -> None:
    folder = Path(str(REFERENCE)) / "traces" / name
    done = run("add", tmp_path / "l", folder, "--json")
    report = json.loads(done.stdout)
    assert report["inserted"] > 0
    assert done.exit_code == (4 if report["refused"] else 0)
    assert all(r["field"] and r["reason"] and r["file"] for r in report["records_refused"])
    again = json.loads(run("add", tmp_path / "l", folder, "--json").stdout)
    assert (again.get("inserted", 0), again["version"]) == (0, report["version"])
