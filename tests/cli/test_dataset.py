"""`expcomp dataset` as users and scripts meet it: its streams, its exit codes, its options."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner, Result

from expcomp.cli.main import app
from expcomp.datasets.verify import verify_dataset
from expcomp.errors import ExpcompError
from tests.datasets import inputs
from tests.helpers import compile_cli, put, tree

NONE = ("--pass-rate", "0.96,0.99")  # a band in which no task lies


def run(*words: object) -> Result:
    """The verb in this process; what `main` would make of an error of ours is in `stderr` and `exit_code`."""
    done = CliRunner().invoke(app, ["dataset", *map(str, words), "--workers", "1"])
    if isinstance(done.exception, ExpcompError):
        done.stderr_bytes = str(done.exception).encode()
        done.exit_code = done.exception.exit_code
    elif done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def manifest(folder: Path) -> dict[str, object]:
    value: dict[str, object] = json.loads((folder / "manifest.json").read_text("utf-8"))
    return value


def test_it_builds_what_it_says_and_verify_takes_it(compiled: Path, tmp_path: Path) -> None:
    out = tmp_path / "ds"
    done = compile_cli("dataset", compiled, "--to", "trl-dpo,trl-kto", "--to", "verl", "--out", out)
    assert (done.returncode, done.stderr) == (0, "")
    assert [c["config"] for c in manifest(out)["configs"]] == ["dpo", "kto", "verl-rl", "verl-sft"]  # type: ignore[index,attr-defined]
    assert all(word in done.stdout for word in ("dpo", "kto", "verl-rl", "verl-sft"))
    assert "\x1b" not in done.stdout
    checked = compile_cli("verify", out)
    assert (checked.returncode, checked.stdout.split(":")[0]) == (0, "verified")
    (out / "left_out.parquet").write_bytes(b"")
    checked = compile_cli("verify", out)
    assert checked.returncode == 1
    assert "left_out.parquet" in checked.stdout


def test_json_is_one_document_and_nothing_else(compiled: Path, tmp_path: Path) -> None:
    done = compile_cli("dataset", compiled, "--to", "trl-dpo", "--out", tmp_path / "ds", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == manifest(tmp_path / "ds")


def test_quiet_is_quiet(compiled: Path, tmp_path: Path) -> None:
    done = run(compiled, "--to", "trl-dpo", "--out", tmp_path / "ds", "--quiet")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "")


def test_the_command_line_and_the_library_make_the_same_folder(compiled: Path, tmp_path: Path) -> None:
    from expcomp.datasets.build import write_datasets
    from expcomp.datasets.options import DatasetOptions

    words = ("--split", "train=0.5, test=0.5", "--seed", "s", "--min-margin", "0.2", "--length-ratio", "any")
    words += ("--longer-share", "any", "--max-pairs", "2", "--name", "n", "--license", "mit", "--date", "2026-01-02")
    assert run(compiled, "--to", "trl-dpo", "--out", tmp_path / "a", *words).exit_code == 0
    options = DatasetOptions(
        splits=(("train", 0.5), ("test", 0.5)),
        seed="s",
        min_margin=0.2,
        length_ratio=None,
        longer_share=None,
        max_pairs=2,
    )
    about = {"name": "n", "license": "mit", "url": None, "date": "2026-01-02"}
    write_datasets(compiled, ["trl-dpo"], tmp_path / "b", options=options, about=about, processes=1)
    assert tree(tmp_path / "a") == tree(tmp_path / "b")


def test_files_are_named_with_an_at(compiled: Path, tmp_path: Path) -> None:
    schema = [{"name": "wc", "input_schema": {"type": "object"}}]
    put(tmp_path / "tools.json", schema)
    put(tmp_path / "system.txt", "Be brief.")
    words = ("--tools", f"@{tmp_path / 'tools.json'}", "--system", f"@{tmp_path / 'system.txt'}")
    assert run(compiled, "--to", "trl-kto", "--out", tmp_path / "ds", *words).exit_code == 0
    frame = pl.read_parquet(tmp_path / "ds/data/kto/*.parquet")
    assert {t for t in frame["tools"] if t} == {
        '[{"type":"function","function":{"name":"wc","parameters":{"type":"object"}}}]'
    }
    missing = run(compiled, "--to", "trl-kto", "--out", tmp_path / "b", "--tools", "@nowhere.json")
    assert missing.exit_code in (2, 3)
    assert "nowhere.json" in missing.stderr
    wrong = run(compiled, "--to", "trl-kto", "--out", tmp_path / "b", "--tools", "oops")
    assert wrong.exit_code == 2
    assert "option tools holds no schema" in wrong.stderr


def test_held_out_tasks_are_left_out(compiled: Path, tmp_path: Path) -> None:
    held = inputs.chats(tmp_path / "held.jsonl", [{"which": "task_a"}, {"which": "Not here."}])
    words = (compiled, "--to", "trl-kto", "--against", held)
    done = run(*words, "--column", "task=which", "--column", "prompt=which", "--out", tmp_path / "ds")
    assert done.exit_code == 0
    assert manifest(tmp_path / "ds")["decontamination"]["heldout_tasks"] == 2  # type: ignore[index]
    assert run(*words, "--column", "task", "--out", tmp_path / "b").exit_code == 2
    unreadable = run(*words[:-1], tmp_path / "none.jsonl", "--out", tmp_path / "b")
    assert unreadable.exit_code == 3
    assert "none.jsonl" in unreadable.stderr
    assert not (tmp_path / "b").exists()


def test_some_empty_configs_are_fine_and_all_empty_are_partial(compiled: Path, tmp_path: Path) -> None:
    assert run(compiled, "--to", "trl-grpo,trl-kto", "--out", tmp_path / "a", *NONE).exit_code == 0
    done = run(compiled, "--to", "trl-grpo", "--out", tmp_path / "b", *NONE)
    assert done.exit_code == 4
    assert verify_dataset(tmp_path / "b").ok
    assert not (tmp_path / "b/data/grpo").exists()
    # It is told which reasons emptied it.
    assert "pass_rate_band" in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--to", "trl-sftt"), "there is no target 'trl-sftt'; known are trl-sft, "),
        (("--to", ","), "no target"),
        (("--to", "trl-sft", "--split", "train"), "--split train: expected names and shares"),
        (("--to", "trl-sft", "--split", "train=0.5"), "shares that sum to 1"),
        (("--to", "trl-sft", "--split", "a-b=1"), "expected names like train"),
        (("--to", "trl-sft", "--group", "colour"), "option group is 'colour'"),
        (("--to", "trl-sft", "--before", "2026-01-01"), "needs a second split"),
        (("--to", "trl-sft", "--split", "a=0.5,b=0.5", "--before", "spring"), "before is 'spring'"),
        (("--to", "trl-sft", "--length-ratio", "2,1"), "--length-ratio 2,1: expected LOW,HIGH"),
        (("--to", "trl-sft", "--pass-rate", "x"), "--pass-rate x: expected LOW,HIGH"),
        (("--to", "trl-sft", "--max-tokens", "9"), "needs a tokenizer"),
        (("--to", "trl-sft", "--column", "prompt"), "--column prompt: expected PART=NAME"),
    ],
)
def test_what_makes_no_sense_is_told_in_one_line(
    words: tuple[str, ...], said: str, compiled: Path, tmp_path: Path
) -> None:
    done = run(compiled, "--out", tmp_path / "ds", *words)
    assert done.exit_code == 2
    assert said in done.stderr
    assert "\n" not in done.stderr.strip()
    assert list(tmp_path.iterdir()) == []


def test_an_error_is_one_line_of_the_program(compiled: Path, tmp_path: Path) -> None:
    done = compile_cli("dataset", compiled, "--to", "nothing", "--out", tmp_path / "ds")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("expcomp: there is no target 'nothing'")
    assert done.stderr.count("\n") == 1
    bare = compile_cli("dataset", compiled, "--out", tmp_path / "ds")
    assert bare.returncode == 2
    assert "--to" in bare.stderr


def test_input_that_is_no_compile_is_unreadable(tmp_path: Path, compiled: Path) -> None:
    (tmp_path / "empty").mkdir()
    shutil.copytree(compiled, tmp_path / "cut")
    (tmp_path / "cut/rows/training_example.parquet").unlink()
    for name in ("nowhere", "empty", "cut"):
        done = run(tmp_path / name, "--to", "trl-sft", "--out", tmp_path / "ds")
        assert done.exit_code == 3, name
        assert name in done.stderr
    assert not (tmp_path / "ds").exists()


def test_outputs_are_replaced_with_force_only_and_never_around_the_compile(compiled: Path, tmp_path: Path) -> None:
    out = tmp_path / "ds"
    assert run(compiled, "--to", "trl-dpo", "--out", out).exit_code == 0
    before = tree(out)
    refused = run(compiled, "--to", "trl-kto", "--out", out)
    assert refused.exit_code == 2
    assert "--force" in refused.stderr
    assert tree(out) == before
    assert run(compiled, "--to", "trl-kto", "--out", out, "--force").exit_code == 0
    assert [p.name for p in (out / "data").iterdir() if p.is_dir()] == ["kto"]
    inside = run(compiled, "--to", "trl-kto", "--out", compiled / "ds", "--force")
    assert inside.exit_code == 2
    assert "inside each other" in inside.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_place_that_cannot_be_written_is_told(compiled: Path, tmp_path: Path) -> None:
    (tmp_path / "shut").mkdir(mode=0o500)
    done = run(compiled, "--to", "trl-dpo", "--out", tmp_path / "shut/ds")
    assert done.exit_code == 2
    assert "cannot write in" in done.stderr


def test_a_place_below_a_file_is_told(compiled: Path, tmp_path: Path) -> None:
    put(tmp_path / "file", "x")
    done = run(compiled, "--to", "trl-dpo", "--out", tmp_path / "file/ds")
    assert done.exit_code == 2
    assert "cannot write in" in done.stderr


def test_a_dataset_is_no_compile_and_says_so(compiled: Path, tmp_path: Path) -> None:
    assert run(compiled, "--to", "trl-dpo", "--out", tmp_path / "ds").exit_code == 0
    done = run(tmp_path / "ds", "--to", "trl-dpo", "--out", tmp_path / "again")
    assert done.exit_code == 3
    assert str(tmp_path / "ds") in done.stderr


def test_help_names_an_example_and_imports_no_engine(tmp_path: Path) -> None:
    done = compile_cli("dataset", "--help", cwd=tmp_path)
    assert done.returncode == 0
    assert "Example: expcomp dataset out --to trl-sft,trl-dpo" in done.stdout
    assert done.stderr == ""
