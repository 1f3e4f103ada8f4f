from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from expcomp.cli.main import app
from expcomp.errors import ConfigError, ExpcompError
from expcomp.io.digest import sha256_file
from expcomp.training.documents import document_bytes
from expcomp.training.run.spec import read_run
from tests.training.made import ancestry, profile, sha
from tests.training.run.jobs import PYTHON, PYTHON_DIGEST, READ_REQUEST, TRAIN, dataset, made

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux only")
SPEC = """
profile = "profile.json"
dataset = "train.json"
dataset_digest = "{dataset}"
execution_ref = "{execution}"
timeout = 60
{top}

[parameters]
steps = 2

[trainer]
id = "script"
executable = "{python}"
executable_digest = "{python_digest}"
args = ["-I", "-S", "inputs/train.py"]

[[trainer.inputs]]
path = "{script}"
digest = "{script_digest}"
"""


def spec(folder: Path, code: str = TRAIN, top: str = "") -> Path:
    (folder / "profile.json").write_bytes(document_bytes(profile(ancestry("first"))))
    (folder / "train.py").write_text(READ_REQUEST + code)
    text = SPEC.format(
        dataset=sha256_file(dataset(folder)),
        execution=sha("execution"),
        top=top,
        python=PYTHON,
        python_digest=PYTHON_DIGEST,
        script=folder / "train.py",
        script_digest=sha256_file(folder / "train.py"),
    )
    (folder / "train.toml").write_text(text)
    return folder / "train.toml"


def call(*args: object) -> Result:
    return CliRunner().invoke(app, ["train", *map(str, args)])


def told(*args: object, code: int = 0) -> Any:
    result = call(*args, "--json")
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def test_run_verify_and_lineage(tmp_path: Path) -> None:
    made = told("run", spec(tmp_path, top='serving = "static"'))
    assert (made["succeeded"], made["served"], made["mode"]) == (True, True, "command")
    job = made["outputDirectory"]
    checked = told("verify", job, "--receipt-digest", made["receiptDigest"])
    assert checked["ok"]
    assert [c["check"] for c in checked["checks"] if c["ok"] is not True] == ["exposure"]  # nobody asked
    lines = told("lineage", made["profilePath"])
    assert [(line["depth"], line["trainer"]) for line in lines] == [(0, "script"), (1, "trl-sft")]
    assert lines[0]["receipt_digest"] == made["receiptDigest"]
    assert "checks hold" in call("verify", job).stdout
    assert "trl-sft" in call("lineage", made["profilePath"]).stdout
    assert call("verify", job, "--receipt-digest", sha("other")).exit_code == 1


def test_a_stage_that_fails_is_exit_1_and_an_object(tmp_path: Path) -> None:
    failed = told("run", spec(tmp_path, "sys.exit(3)"), code=1)
    assert (failed["succeeded"], failed["stage"], failed["resumable"]) == (False, "training", False)
    assert "exit code 3" in failed["reason"]
    result = call("run", tmp_path / "train.toml")
    assert (result.exit_code, "Failed in training" in result.stdout) == (1, True)


def test_resume(tmp_path: Path) -> None:
    top = f'[serving]\nexecutable = "{PYTHON}"\nexecutable_digest = "{PYTHON_DIGEST}"\nargs = ["-c", "raise SystemExit(1)"]\n'
    failed = told("run", spec(tmp_path, top=top), code=1)
    assert (failed["stage"], failed["resumable"], failed["servingMayExist"]) == ("serving", True, True)
    job = failed["outputDirectory"]
    shown = call("resume", job, "--spec", tmp_path / "train.toml")
    assert shown.exit_code == 1
    assert f"expcomp train resume {job}" in shown.stdout
    assert "Something may serve the checkpoint." in shown.stdout
    assert not told("resume", job)["served"]
    assert told("verify", job)["ok"]
    result = call("resume", job)
    assert isinstance(result.exception, ExpcompError)
    assert result.exception.exit_code == 2


def test_what_was_tampered_with_is_named(tmp_path: Path) -> None:
    job = made(tmp_path)
    (job / "checkpoint.bin").chmod(0o600)
    (job / "checkpoint.bin").write_bytes(b"another")
    result = call("verify", job)
    assert result.exit_code == 1
    assert result.stdout.startswith("checkpoint.bin: checkpoint: found sha256:")


def test_a_lineage_that_was_tampered_with_is_refused(tmp_path: Path) -> None:
    made = told("run", spec(tmp_path))
    path = Path(made["profilePath"])
    path.chmod(0o600)
    path.write_bytes(path.read_bytes().replace(sha("dataset").encode(), sha("clean").encode()))
    result = call("lineage", path)
    assert isinstance(result.exception, ExpcompError)
    assert (result.exception.exit_code, "ancestry_broken" in str(result.exception)) == (1, True)


def test_a_profile_without_training(tmp_path: Path) -> None:
    spec(tmp_path)
    (tmp_path / "profile.json").write_bytes(document_bytes(profile()))
    assert told("lineage", tmp_path / "profile.json") == []
    assert "no training" in call("lineage", tmp_path / "profile.json").stdout


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        ("steps = 2", "steps = ", "TOML"),
        ("timeout = 60", "timeout = 'x'", "timeout"),
        ("timeout = 60", "tmieout = 60", "tmieout"),
        ('profile = "profile.json"', "", "profile"),
        ("sha256:", "sha512:", "digest"),
        ('id = "script"', 'id = " "', "id"),
        (f'"{PYTHON}"', '"python"', "absolute"),
        ('id = "script"', 'id = "script"\nenvironment = {LD_PRELOAD = "x"}', "LD_PRELOAD"),
        ("timeout = 60", 'checkpoint = "zip"', "checkpoint"),
    ],
)
def test_a_spec_that_cannot_be_used_is_refused_by_field(tmp_path: Path, old: str, new: str, names: str) -> None:
    path = spec(tmp_path)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(ConfigError, match=names) as error:
        read_run(path)
    assert "train.toml" in str(error.value)
    assert error.value.exit_code == 2
