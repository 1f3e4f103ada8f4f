"""The command line as users and scripts meet it: a process of its own, its streams and its exit code."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from expcomp.cli.main import app
from expcomp.rows.registry import ROW_FAMILIES
from expcomp.sources.packages import _package
from tests.helpers import ROOT, RUN_CLI, compile_cli, environment, package, published, tree


def verbs(command: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Every verb, as the words that call it."""
    inner = getattr(command, "commands", None)
    return [path] if inner is None else [v for name, sub in sorted(inner.items()) for v in verbs(sub, (*path, name))]


VERBS = verbs(typer.main.get_command(app))
DATA = ROOT / "data/packages"


@pytest.fixture
def small(tmp_path: Path) -> Path:
    package(tmp_path / "in", faults=["missing_ref"])
    return tmp_path / "in"


def test_the_verbs_of_the_compiler_are_there() -> None:
    assert {
        ("demo",),
        ("compile",),
        ("verify",),
        ("rows",),
        ("formats",),
        ("schema", "export"),
        ("schema", "show"),
    } <= set(VERBS)


# -- help -------------------------------------------------------------------------------------------------------------------


HELP = """
import contextlib, io, json, sys
from expcomp.cli.main import main
found = {}
for verb in json.loads(sys.stdin.read()):
    sys.argv = ["expcomp", *verb, "--help"]
    said, code = io.StringIO(), None
    try:
        with contextlib.redirect_stdout(said):
            main()
    except SystemExit as end:
        code = end.code
    found[" ".join(verb)] = {"code": code, "said": said.getvalue(), "heavy": [m for m in HEAVY if m in sys.modules]}
print(json.dumps(found))
"""
HEAVY = ("polars", "pyarrow", "pandera", "pandas", "numpy", "matplotlib", "transformers", "pydantic_settings", "ray")


@pytest.fixture(scope="module")
def helped() -> dict[str, Any]:
    """The help of every verb, one after the other in one process: what makes it slow is what it imports."""
    code = HELP.replace("HEAVY", repr(HEAVY))
    done = subprocess.run(
        [sys.executable, "-c", code], input=json.dumps(VERBS), capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_help_loads_nothing_heavy_and_has_an_example(verb: tuple[str, ...], helped: dict[str, Any]) -> None:
    found = helped[" ".join(verb)]
    assert found["code"] in (0, None)
    assert found["heavy"] == []
    assert re.search(rf"Example: expcomp {' '.join(verb)}\b", found["said"])


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_help_describes_every_option(verb: tuple[str, ...]) -> None:
    command = typer.main.get_command(app)
    for word in verb:
        command = command.commands[word]  # type: ignore[attr-defined]
    assert [p.name for p in command.params if p.name != "help" and not getattr(p, "help", None)] == []


@pytest.mark.parametrize(
    "words", [["--help"], ["compile", "--help"], ["schema", "--help"], ["verify", "-h"]], ids=" ".join
)
def test_help_imports_neither_polars_nor_pandera(words: list[str]) -> None:
    code = "import sys\nfrom expcomp.cli.main import main\ntry:\n    main()\nfinally:\n    print(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=True, env=environment(), timeout=60
    )
    assert not {"polars", "pandera", "pyarrow", "numpy"} & set(done.stderr.split())


def test_help_states_the_exit_codes() -> None:
    said = " ".join(compile_cli("--help").stdout.split())
    assert all(
        f"{code} {word}" in said
        for code, word in enumerate(("fine", "findings", "wrong usage", "unreadable", "partial"))
    )


def test_version() -> None:
    import expcomp

    assert compile_cli("--version").stdout == f"expcomp {expcomp.__version__}\n"


# -- one document, or nothing -------------------------------------------------------------------------------------------------


def test_compile_prints_its_report_as_one_json_document(small: Path, tmp_path: Path) -> None:
    done = compile_cli("compile", small, "--out", tmp_path / "out", "--json")
    report = json.loads((tmp_path / "out/report.json").read_text("utf-8"))
    del report["run"]["update"]  # what the file system says of the files, for `--update` alone
    assert json.loads(done.stdout) == report
    assert (done.returncode, done.stderr) == (0, "")


def test_verify_prints_one_json_document(compiled: Path) -> None:
    done = compile_cli("verify", compiled, "--json")
    found = json.loads(done.stdout)
    assert (found["ok"], found["problems"], done.stderr) == (True, [], "")


@pytest.mark.parametrize(
    "words",
    [["rows", "OUT"], ["rows", "OUT", "preference_pair"], ["rows", "OUT", "failure_case", "--rejected"], ["formats"]],
    ids=" ".join,
)
def test_json_is_one_document_and_nothing_else(compiled: Path, words: list[str]) -> None:
    done = compile_cli(*(w.replace("OUT", os.fspath(compiled)) for w in words), "--json")
    json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")


def test_schema_export_prints_what_it_wrote(tmp_path: Path) -> None:
    done = compile_cli("schema", "export", tmp_path / "schemas", "--json")
    assert json.loads(done.stdout) == sorted(p.name for p in (tmp_path / "schemas").iterdir())
    assert tree(tmp_path / "schemas") == tree(ROOT / "schemas")


def test_quiet_prints_nothing(small: Path, tmp_path: Path) -> None:
    done = compile_cli("compile", small, "--out", tmp_path / "out", "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert compile_cli("verify", tmp_path / "out", "--quiet").stdout == ""


def test_without_an_option_a_summary_is_printed(small: Path, tmp_path: Path) -> None:
    done = compile_cli("compile", small, "--out", tmp_path / "out")
    assert "preference_pair" in done.stdout
    assert f"expcomp verify {tmp_path}" in done.stdout.replace("\n", " ")
    assert done.stderr == ""


# -- exit codes ----------------------------------------------------------------------------------------------------------------


def test_0_all_is_well(small: Path, tmp_path: Path) -> None:
    assert compile_cli("compile", small, "-o", tmp_path / "out").returncode == 0
    assert compile_cli("verify", tmp_path / "out").returncode == 0


def test_1_a_check_found_something(compiled: Path, tmp_path: Path) -> None:
    out = shutil.copytree(compiled, tmp_path / "out")
    (out / "rows/more.txt").write_text("more", encoding="utf-8")
    done = compile_cli("verify", out)
    assert done.returncode == 1
    assert "rows/more.txt" in done.stdout
    assert json.loads(compile_cli("verify", out, "--json").stdout)["ok"] is False


@pytest.mark.parametrize(
    "words",
    [
        ["compile"],
        ["compile", "IN"],
        ["compile", "IN", "--out", "NEW", "--no-such-option"],
        ["compile", "IN", "--out", "NEW", "--margin", "2"],
        ["compile", "IN", "--out", "NEW", "--margin", "much"],
        ["compile", "IN", "--out", "NEW", "--check", "some"],
        ["compile", "IN", "--out", "NEW", "--max-rounds", "0"],
        ["compile", "IN", "--out", "NEW", "--format", "csv"],
        ["compile", "IN", "--out", "IN/out"],
        ["compile", "IN", "--out", "OLD"],
        ["rows", "OLD", "no_such_family"],
        ["schema", "show", "no_such_table"],
        ["no-such-verb"],
    ],
    ids=" ".join,
)
def test_2_wrong_usage(small: Path, compiled: Path, tmp_path: Path, words: list[str]) -> None:
    names = {
        "IN": os.fspath(small),
        "OLD": os.fspath(compiled),
        "NEW": os.fspath(tmp_path / "new"),
        "IN/out": os.fspath(small / "out"),
    }
    done = compile_cli(*(names.get(w, w) for w in words))
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["compile", "EMPTY", "--out", "NEW"],
        ["compile", "NOT_THERE", "--out", "NEW"],
        ["verify", "EMPTY"],
        ["verify", "NOT_THERE"],
        ["rows", "EMPTY"],
    ],
    ids=" ".join,
)
def test_3_unreadable_input(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "EMPTY").mkdir()
    done = compile_cli(*(os.fspath(tmp_path / w) if w.isupper() else w for w in words))
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("expcomp: ")
    assert os.listdir(tmp_path) == ["EMPTY"]  # noqa: PTH208


def test_4_something_was_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package(tmp_path / "in")
    package(tmp_path / "in", "pkg_b", task_id="task_b")
    real = _package.walk

    def walk(root: Any) -> Any:
        if Path(root).name == "pkg_b":
            raise PermissionError(13, "Permission denied")
        return real(root)

    monkeypatch.setattr(_package, "walk", walk)
    words = ["compile", os.fspath(tmp_path / "in"), "--out", os.fspath(tmp_path / "out"), "--workers", "1", "--json"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 4
    assert json.loads(done.stdout)["diagnostics"] == {"unreadable_package": 1}


def test_4_strict_counts_every_diagnostic(small: Path, tmp_path: Path) -> None:
    assert compile_cli("compile", small, "--out", tmp_path / "out", "--strict", "--quiet").returncode == 4


def test_0_strict_is_content_with_clean_input(tmp_path: Path) -> None:
    package(tmp_path / "in")
    assert compile_cli("compile", tmp_path / "in", "--out", tmp_path / "out", "--strict", "--quiet").returncode == 0


# -- errors --------------------------------------------------------------------------------------------------------------------


def test_an_error_is_one_message_on_stderr(small: Path, compiled: Path) -> None:
    done = compile_cli("compile", small, "--out", compiled)
    assert done.stdout == ""
    assert re.fullmatch(r"expcomp: [^\n]*--force[^\n]*\n", done.stderr)


def test_a_reader_that_goes_away_is_no_error_and_no_finding(compiled: Path) -> None:
    words = [*RUN_CLI, "rows", os.fspath(compiled), "environment_response_pair", "-n", "100", "--json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read().decode()
    assert said == ""
    assert process.returncode == 141


# -- what the options do -----------------------------------------------------------------------------------------------------------


def test_force_replaces_and_gives_the_same_bytes(packages: Path, compiled: Path, tmp_path: Path) -> None:
    out = shutil.copytree(compiled, tmp_path / "out")
    assert compile_cli("compile", packages, "--out", out, "--force", "--quiet").returncode == 0
    assert published(out) == published(compiled)


def test_options_reach_the_manifest(small: Path, tmp_path: Path) -> None:
    given = [
        "--pii",
        "--margin",
        "0.3",
        "--min-label-strength",
        "0.25",
        "--allow-simulated",
        "--max-text-chars",
        "99",
        "--max-rounds",
        "2",
        "--check",
        "full",
        "--arm",
        "mine",
    ]
    compile_cli("compile", small, "--out", tmp_path / "out", "--quiet", *given)
    options = json.loads((tmp_path / "out/manifest.json").read_text("utf-8"))["options"]
    expected = {
        "pii": True,
        "margin": 0.3,
        "min_label_strength": 0.25,
        "allow_simulated": True,
        "max_text_chars": 99,
        "max_rounds": 2,
        "check": "full",
        "arm": "mine",
    }
    assert {k: options.get(k) for k in expected} == expected


def test_rows_lists_the_families(compiled: Path) -> None:
    said = compile_cli("rows", compiled).stdout
    assert [line.split()[0] for line in said.splitlines()] == list(ROW_FAMILIES)


def test_rows_shows_as_many_as_asked_from_the_offset(compiled: Path) -> None:
    every = json.loads(compile_cli("rows", compiled, "environment_response_pair", "-n", "99", "--json").stdout)
    some = json.loads(
        compile_cli("rows", compiled, "environment_response_pair", "-n", "2", "--offset", "3", "--json").stdout
    )
    assert len(every) > 5
    assert some == every[3:5]


def test_rows_of_one_package(compiled: Path) -> None:
    found = json.loads(
        compile_cli("rows", compiled, "environment_response_pair", "-n", "99", "--package", "pkg_b", "--json").stdout
    )
    assert {r["package_id"] for r in found} == {"pkg_b"}


def test_rejected_rows_say_why(compiled: Path) -> None:
    found = json.loads(compile_cli("rows", compiled, "training_example", "--rejected", "--json").stdout)
    assert [r["reject_reasons"] for r in found] == [["attempt_failed"]] * 3


def test_long_texts_are_shortened_on_the_terminal(compiled: Path) -> None:
    said = compile_cli("rows", compiled, "training_example", "-n", "1", "--width", "30").stdout
    assert max(len(line) for line in said.splitlines() if not line.startswith(("─", "row_"))) < 70


def test_rows_with_markup_in_them_are_shown_as_they_are(tmp_path: Path) -> None:
    package(tmp_path / "in", instruction="Count [bold]all[/bold] gauges [/].")
    compile_cli("compile", tmp_path / "in", "--out", tmp_path / "out", "--quiet")
    done = compile_cli("rows", tmp_path / "out", "evaluation_example")
    assert "Count [bold]all[/bold] gauges [/]." in done.stdout


def test_schema_show_prints_the_dictionary() -> None:
    said = compile_cli("schema", "show", "preference_pair").stdout
    assert said == (ROOT / "schemas/preference_pair.md").read_text("utf-8")


def test_a_relative_path_and_the_full_one_give_the_same_bytes(packages: Path, compiled: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(packages)
    done = compile_cli("compile", "link", "--out", "out", "--quiet", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert published(tmp_path / "out") == published(compiled)


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason="the repository holds no data/packages yet")
def test_the_demo_gives_rows_that_verify(tmp_path: Path) -> None:
    done = compile_cli("demo", "--out", tmp_path / "out", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["total"]["accepted"] > 100
    assert compile_cli("verify", tmp_path / "out").returncode == 0


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason="the repository holds no data/packages yet")
def test_the_demo_can_be_run_twice(tmp_path: Path) -> None:
    codes = [compile_cli("demo", "--out", tmp_path / "out", "--quiet").returncode for _ in range(2)]
    assert codes == [0, 0]


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    row = {
        "task_id": 1,
        "reward": 1.0,
        "info": {"reward_info": {}},
        "traj": [{"role": "assistant", "content": "x"}],
        "trial": 0,
    }
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / "m.json").write_text(json.dumps([row]))
    (tmp_path / "traces" / "notes.md").write_text("# x")
    return tmp_path / "traces"


def test_read_counts_and_writes(traces: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["read", str(traces), "--json", "--out", str(tmp_path / "out"), "--arm", "mine"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (found["attempts"], found["units"]) == (1, 1)
    assert found["summary"][0]["arm"] == "mine"
    assert [d["code"] for d in found["diagnostics"]] == ["not_recognised"]
    shown = CliRunner().invoke(app, ["read", str(tmp_path / "out")])
    assert "1 attempt" in shown.stdout
    assert "tau_bench" in shown.stdout


def test_read_is_strict_on_demand_and_quiet(traces: Path) -> None:
    done = CliRunner().invoke(app, ["read", str(traces), "--strict", "--quiet"])
    assert (done.exit_code, done.stdout) == (4, "")


def test_options_of_reading_come_from_files_too(traces: Path, tmp_path: Path) -> None:
    (tmp_path / "tools.json").write_text('[{"type": "function", "function": {"name": "bash"}}]')
    (tmp_path / "rules.toml").write_text("[score]\ntau_bench = { min = 0, max = 2 }")
    out = tmp_path / "out"
    args = ["read", str(traces), "--out", str(out), "--tools", f"@{tmp_path / 'tools.json'}", "--system", "S"]
    done = CliRunner().invoke(app, [*args, "--config", str(tmp_path / "rules.toml"), "--quiet"])
    assert done.exit_code == 0, done.output
    import polars as pl

    (row,) = pl.read_parquet(out / "attempts.parquet").to_dicts()
    assert (row["has_tools"], row["has_system_prompt"]) == (True, True)


def test_what_the_rules_change_is_in_the_manifest(traces: Path, tmp_path: Path) -> None:
    (tmp_path / "rules.toml").write_text("[score]\ntau_bench = { min = 0, max = 2 }")
    args = ["compile", str(traces), "--out", str(tmp_path / "out"), "--config", str(tmp_path / "rules.toml"), "--quiet"]
    assert CliRunner().invoke(app, args).exit_code == 0
    options = json.loads((tmp_path / "out/manifest.json").read_text("utf-8"))["options"]
    assert options["rules_changed"] == {
        "errors": {},
        "status": {},
        "score": {"tau_bench": {"low": 0.0, "high": 2.0, "passes": None}},
    }


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--tools", "bash"], "JSON array"),
        (["--tools", "@/nowhere.json"], "--tools"),
        (["--score-scale", "1"], "LOW,HIGH"),
        (["--score-scale", "2,1"], "LOW,HIGH"),
        (["--score-scale", "nan,1"], "LOW,HIGH"),
        (["--score-scale=-inf,inf"], "LOW,HIGH"),
        (["--format", "moon"], "no format"),
        (["--config", "/nowhere.toml"], "nowhere.toml"),
    ],
)
def test_wrong_options_of_reading_are_usage_errors(traces: Path, args: list[str], said: str) -> None:
    done = subprocess.run([*RUN_CLI, "read", str(traces), *args], capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
