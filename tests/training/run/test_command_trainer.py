from __future__ import annotations

import secrets
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from expcomp.errors import ExpcompError, UsageError
from expcomp.io.digest import sha256_file
from expcomp.training.documents import read_document
from expcomp.training.receipts import TrainingReceipt
from expcomp.training.run.results import TrainingFailure, TrainingSuccess
from expcomp.training.run.trainer import PinnedFile
from expcomp.training.run.verify import verify_job
from tests.io.test_processes import marked
from tests.training.made import sha
from tests.training.run.jobs import TRAIN, command, dataset, failed, made, names, run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux only")
DAEMON = """
def daemon():
    if os.fork():
        return False
    os.setsid()
    if os.fork():
        os._exit(0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return True
def wait(name):
    while not os.path.exists(name):
        time.sleep(0.005)
"""


def train(folder: Path, code: str, *, cancel: str | None = None, **more: Any) -> TrainingSuccess | TrainingFailure:
    """A run with a trainer of this code; no process of it is there afterwards."""
    mark = secrets.token_hex(8)
    trainer = command(folder, DAEMON + code, environment={"MARK": mark}, **more.pop("command", {}))
    if cancel is not None:
        more["cancelled"] = lambda: any(folder.glob(f"runs/*/{cancel}"))
    result = run(folder, trainer=trainer, **more)
    assert marked(mark) == []
    return result


def job_of(result: TrainingSuccess | TrainingFailure) -> Path:
    return Path(str(result.output_directory))


def test_a_command_trains(tmp_path: Path) -> None:
    code = """
print("rows", len(json.load(open(request["datasetPath"]))["rows"]), request["parameters"])
open(request["checkpointPath"], "wb").write(b"weights")
"""
    result = train(tmp_path, code)
    assert isinstance(result, TrainingSuccess), result
    job = job_of(result)
    assert (job / "trainer.log").read_text() == "rows 2 {'steps': 2}\n"
    checks = verify_job(job)
    assert checks["ok"].to_list().count(False) == 0
    receipt = read_document(TrainingReceipt, job / "receipt.json")
    assert receipt.trainer.mode == "command"
    assert isinstance(receipt.observations, dict)
    assert (receipt.observations["exitCode"], receipt.observations["processesLeftRunning"]) == (0, 0)


def test_a_trainer_that_leaves_a_daemon_writing_into_the_checkpoint(tmp_path: Path) -> None:
    code = """
if daemon():
    while True:
        open(request["checkpointPath"], "ab").write(b"x")
        time.sleep(0.002)
wait(request["checkpointPath"])
"""
    result = train(tmp_path, code)
    assert isinstance(result, TrainingSuccess), result
    receipt = read_document(TrainingReceipt, job_of(result) / "receipt.json")
    assert isinstance(receipt.observations, dict)
    assert receipt.observations["processesEscaped"] >= 1
    size = (job_of(result) / "checkpoint.bin").stat().st_size
    time.sleep(0.05)
    assert (job_of(result) / "checkpoint.bin").stat().st_size == size == receipt.checkpoint.artifact_bytes


FAILURES = [
    ("sys.exit(3)", {}, "exit code 3"),
    ("os.kill(os.getpid(), signal.SIGSEGV)", {}, "ended by a signal (-11)"),
    ("while True: print('x' * 1000)", {"command": {"max_output_bytes": 5_000}}, "more than the limit of output"),
    ("signal.signal(signal.SIGTERM, signal.SIG_IGN); daemon(); time.sleep(600)", {"timeout": 1.5}, "its time was up"),
    ("daemon() or open('up', 'w'); time.sleep(600)", {"cancel": "up"}, "it was cancelled"),
    ("os.chmod('dataset.json', 0o600); open('dataset.json', 'a').write(' ')", {}, "dataset.json"),
    ("os.chmod('inputs/train.py', 0o600); open('inputs/train.py', 'a').write(' ')", {}, "input train.py"),
    ("os.remove('inputs/train.py')", {}, "input train.py"),
    ("os.remove('parent-profile.json'); os.symlink('dataset.json', 'parent-profile.json')", {}, "parent-profile.json"),
]  # fmt: skip


@pytest.mark.parametrize(("code", "more", "told"), FAILURES, ids=[t for _, _, t in FAILURES])
def test_a_trainer_that_fails(tmp_path: Path, code: str, more: dict[str, Any], told: str) -> None:
    result = failed(train(tmp_path, f"{TRAIN}\n{code}", **more))
    assert result.stage == "training"
    assert told in result.reason
    assert (result.resumable, result.training_may_exist, result.cleanup_error) == (False, False, None)
    assert {"dataset.json", "checkpoint.bin", "journal.jsonl", "run.json"} <= {
        f.name for f in job_of(result).iterdir() if f.exists()
    }


# What a trainer that succeeds may leave behind or leave undone; what is measured of it.
GROUP = """
for _ in range(4):
    if not os.fork():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(600)
"""
SESSION = """
if not os.fork():
    os.setsid()
    open("up", "w").close()
    time.sleep(600)
wait("up")
"""
ZOMBIE = """
if not os.fork():
    os.fork() or os._exit(0)
    open("up", "w").close()
    time.sleep(600)
wait("up")
"""
HYDRA = """
if daemon():
    open("up", "w").close()
    while True:
        os.fork() and os._exit(0)
        time.sleep(0.002)
wait("up")
"""
STREAMS = "os.close(0); os.close(1); os.close(2)"
LEFTOVERS = [(GROUP, 4, 0), (SESSION, 1, 1), (ZOMBIE, 1, 0), (HYDRA, 0, 0), (STREAMS, 0, 0)]


@pytest.mark.parametrize(
    ("code", "running", "escaped"), LEFTOVERS, ids=["group", "session", "zombie", "hydra", "streams"]
)
def test_what_a_successful_trainer_leaves_behind_is_ended_and_told(
    tmp_path: Path, code: str, running: int, escaped: int
) -> None:
    result = train(tmp_path, f"{TRAIN}\n{code}")
    assert isinstance(result, TrainingSuccess), result
    seen: Any = read_document(TrainingReceipt, job_of(result) / "receipt.json").observations
    assert seen["processesLeftRunning"] >= running
    assert seen["processesEscaped"] >= escaped
    assert (seen["processesSurvived"], seen["exitCode"]) == (0, 0)
    assert verify_job(job_of(result))["ok"].to_list().count(False) == 0


def test_a_request_of_any_size_may_be_left_unread(tmp_path: Path) -> None:
    """It is a file in memory: no pipe whose writer could fail or wait, depending on who is first."""
    script = tmp_path / "t.py"
    script.write_text("import os\nos.close(0)\nopen('checkpoint.bin', 'wb').write(b'weights')\n")
    trainer = replace(
        command(tmp_path), args=("-I", "-S", "inputs/t.py"), inputs=(PinnedFile(script, sha256_file(script)),)
    )
    assert isinstance(run(tmp_path, trainer=trainer, parameters={"text": "x" * 300_000}), TrainingSuccess)


def test_cancelling_children_that_ignore_it(tmp_path: Path) -> None:
    code = "signal.signal(signal.SIGTERM, signal.SIG_IGN); os.fork(); os.fork(); daemon(); open('up', 'w'); time.sleep(600)"
    result = failed(train(tmp_path, f"{TRAIN}\n{code}", cancel="up"))
    assert (result.stage, "it was cancelled" in result.reason, result.training_may_exist) == ("training", True, False)


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (
            "name = 'dataset/rows-00000.parquet'; os.chmod(name, 0o600); open(name, 'ab').write(b'x')",
            "rows-00000.parquet",
        ),
        ("open('dataset/more.parquet', 'w')", "more.parquet"),
        ("os.remove('dataset/inventory.parquet')", "inventory.parquet"),
    ],
)
def test_a_trainer_that_changes_a_bundle(tmp_path: Path, code: str, told: str) -> None:
    from expcomp.training.bundle import write_bundle
    from expcomp.training.dataset import read_dataset

    digest = write_bundle(read_dataset(dataset(tmp_path)).rows, "sft", tmp_path / "bundle")
    result = failed(train(tmp_path, f"{TRAIN}\n{code}", dataset=tmp_path / "bundle", dataset_digest=digest))
    assert (result.stage, told in result.reason, result.resumable) == ("training", True, False)


def test_a_trainer_that_removes_its_job_folder(tmp_path: Path) -> None:
    result = failed(train(tmp_path, f"{TRAIN}\nimport shutil; shutil.rmtree(os.getcwd())"))
    assert (result.stage, result.resumable) == ("training", False)


def test_what_is_known_of_a_run_beyond_its_digests(tmp_path: Path) -> None:
    own = "json.dump({'loss': 0.5, 'costNanos': 7}, open('observations.json', 'w'))"
    job = made(tmp_path, trainer=command(tmp_path, f"{TRAIN}\n{own}"), parameters={"options": {"seed": 3}})
    seen: Any = read_document(TrainingReceipt, job / "receipt.json").observations
    assert (seen["costNanos"], seen["seed"], seen["trainer"]["loss"]) == (7, 3, 0.5)
    assert seen["seconds"] > 0
    assert seen["hardware"]["system"] == "Linux"
    assert seen["hardware"]["processors"] >= 1
    assert seen["hardware"]["memoryBytes"] > 1 << 20
    assert set(seen["versions"]) == {"expcomp", "python"}


def test_a_trainer_that_kills_its_supervisor_may_still_run(tmp_path: Path) -> None:
    trainer = command(tmp_path, "os.kill(os.getppid(), 9)\ntime.sleep(600)")
    result = failed(run(tmp_path, trainer=trainer))
    assert (result.stage, result.training_may_exist) == ("training", True)


def test_a_trainer_that_puts_a_link_in_place_of_its_checkpoint(tmp_path: Path) -> None:
    result = failed(train(tmp_path, "os.symlink('dataset.json', request['checkpointPath'])"))
    assert (result.stage, result.resumable) == ("checkpoint", True)


def test_the_log_keeps_the_end_and_no_secret(tmp_path: Path) -> None:
    secret = "sk-" + "a1B2" * 12
    job = made(tmp_path, trainer=command(tmp_path, f"{TRAIN}\nprint('x' * 70_000)\nprint('{secret}')\nprint('end')"))
    log = (job / "trainer.log").read_text()
    assert secret not in log
    assert log.startswith("<secret:")
    assert log.endswith("end\n")


def test_an_executable_or_input_that_is_not_the_pinned_one(tmp_path: Path) -> None:
    trainer = command(tmp_path)
    other = replace(trainer, executable=PinnedFile(trainer.executable.path, sha("other")))
    result = failed(run(tmp_path, trainer=other))
    assert (result.stage, "expected the pinned" in result.reason) == ("training", True)
    assert "checkpoint.bin" not in names(result.output_directory)
    other = replace(trainer, inputs=(replace(trainer.inputs[0], digest=sha("other")),))
    result = failed(run(tmp_path, trainer=other))
    assert (result.stage, "input train.py" in result.reason) == ("training", True)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"environment": {"LD_PRELOAD": "x.so"}}, "LD_PRELOAD"),
        ({"environment": {"HF_TOKEN": "x"}}, "environment_not_public"),
        ({"environment": {"PROXY": "https://me:pass@host/"}}, "environment_not_public"),
        ({"args": ("--proxy", "https://me:pass@host/")}, "args_not_public"),
        ({"environment": {"A B": "x"}}, "A B"),
        ({"id": " x"}, "id"),
        ({"args": ("a\x00",)}, "NUL"),
        ({"limits": {"RSS": 1}}, "RSS"),
        ({"max_output_bytes": 0}, "maxOutputBytes"),
        ({"executable": PinnedFile(Path("python"), sha("x"))}, "absolute"),
        ({"inputs": (PinnedFile(Path("/a/x"), sha("x")), PinnedFile(Path("/b/x"), sha("x")))}, "inputs_duplicate"),
        ({"inputs": (PinnedFile(Path("/a/x"), sha("x"), "../x"),)}, "inputs"),
    ],
)
def test_a_command_that_cannot_be_used_is_refused_where_it_is_made(
    tmp_path: Path, more: dict[str, Any], told: str
) -> None:
    with pytest.raises(ExpcompError, match=told):
        command(tmp_path, **more)


def test_the_revision_says_what_runs_and_not_where(tmp_path: Path) -> None:
    one, two = command(tmp_path / "a"), command(tmp_path / "b")
    assert one.revision == two.revision
    assert command(tmp_path / "c", "pass").revision != one.revision
    assert replace(one, args=("-B", *one.args)).revision != one.revision
    assert str(tmp_path) not in repr(one.command)


def test_a_loader_variable_that_is_allowed_is_part_of_the_revision(tmp_path: Path) -> None:
    plain = command(tmp_path)
    allowed = replace(plain, environment={"PYTHONPATH": "lib"}, loader=("PYTHONPATH",))
    assert allowed.revision != plain.revision
    with pytest.raises(UsageError):
        replace(plain, environment={"PYTHONPATH": "lib"})
