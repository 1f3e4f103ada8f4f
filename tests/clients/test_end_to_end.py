"""From traces to a decision, as the README tells it: every step is a command, on the processor, without a network.

The model has two layers and takes two steps of training. Nobody should expect it to ship; what is tested is that the whole chain runs,
holds together, says the same each time, and refuses what was tampered with by name.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from expcomp.io.canon import dumps
from expcomp.io.digest import sha256_file
from expcomp.training.documents import document_bytes, seal, to_wire
from expcomp.training.run_receipts import Grading, RunReceipt
from expcomp.training.sealing import cell_of
from expcomp.training.verdict_files import read_experiment
from tests.helpers import RUN_CLI
from tests.training.made import profile, sha
from tests.training.measured import changed

TASKS, TRAINED = 60, 0.5
SHELVES = ("fern", "moss", "orchid", "cactus", "palm")
OPTIONS = ("max_steps=2", "learning_rate=1e-3", "use_cpu=true", "bf16=false", "gradient_checkpointing=false")
POLICY = "minimum_lift = 0.05\nmin_units = 20\nbudget_usd = 1.0\n"


def run(*command: object, code: int = 0) -> Any:
    """A command as a user gives it; what it says as JSON."""
    done = subprocess.run([*RUN_CLI, *map(str, command), "--json"], capture_output=True, text=True, check=False)
    assert done.returncode == code, (command, done.stderr, done.stdout)
    return json.loads(done.stdout)


def traces(folder: Path) -> Path:
    """Rollouts of a garden desk: of each task one that passed and one that did not."""
    lines = []
    for n in range(TASKS):
        shelf, packets = SHELVES[n % len(SHELVES)], 3 + n * 7 % 40
        ask = {"role": "user", "content": f"Order {n}: how many seed packets are on the {shelf} shelf, in row {n + 1}?"}
        for passed, found in ((True, packets), (False, packets + 1)):
            answer = (
                f"On the {shelf} shelf, in row {n + 1}, there are {found} packets; I counted them twice, once from the left "
                "and once from the right."
            )
            lines.append(
                {
                    "messages": [ask, {"role": "assistant", "content": answer}],
                    "instance_id": f"garden__count-{n:02}",
                    "resolved": passed,
                    "model": "made-up",
                    "traj_id": f"{n}.{passed}",
                    "answer": str(packets),
                }
            )
    folder.mkdir()
    (folder / "desk.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory, model: Path) -> Path:
    """Everything up to the trials of both arms; tests look at what it left behind."""
    folder = tmp_path_factory.mktemp("chain")
    run("compile", traces(folder / "traces"), "--out", folder / "compiled", "--workers", 1)
    split = f"train={TRAINED},test={1 - TRAINED}"
    run("dataset", folder / "compiled", "--to", "trl-sft", "--split", split, "--out", folder / "ds", "--workers", 1)
    (folder / "profile.json").write_bytes(document_bytes(profile()))
    options = [part for o in OPTIONS for part in ("--option", o)]
    run(
        "train", "prepare", folder / "ds", "--out", folder / "train.json", "--heldout", folder / "heldout.parquet",
        "--spec", folder / "train.toml", "--model", model, "--profile", folder / "profile.json", *options,
    )  # fmt: skip
    spec = (folder / "train.toml").read_text()
    (folder / "train.toml").write_text(spec.replace('"costs.jsonl"', '"costs.jsonl"\nusd_per_hour = 0.0'))
    result = run("train", "run", folder / "train.toml")
    Path(result["outputDirectory"]).rename(folder / "job")
    (folder / "result.json").write_text(json.dumps(result))
    costs = ("--costs", folder / "costs.jsonl")
    run("train", "score", folder / "ds", "--model", model, "--arm", "baseline", "--out", folder / "base.jsonl", *costs)
    checkpoint = folder / "job" / "checkpoint"
    run(
        "train",
        "score",
        folder / "ds",
        "--model",
        checkpoint,
        "--arm",
        "candidate",
        "--out",
        folder / "tuned.jsonl",
        *costs,
    )
    (folder / "policy.toml").write_text(POLICY)
    return folder


@pytest.fixture
def copy(chain: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(chain, tmp_path / "chain"))


def decide(folder: Path, *more: object, code: int = 1) -> Any:
    return run(
        "decide", folder / "base.jsonl", folder / "tuned.jsonl", "--job", folder / "job", "--heldout", folder / "heldout.parquet",
        "--costs", folder / "costs.jsonl", "--policy", folder / "policy.toml", *more, code=code,
    )  # fmt: skip


def test_the_run_was_admitted_and_its_receipt_holds(chain: Path) -> None:
    result = json.loads((chain / "result.json").read_text())
    checks = run("train", "verify", chain / "job", "--receipt-digest", result["receiptDigest"])
    assert checks["ok"]
    assert {c["ok"] for c in checks["checks"]} == {True}
    assert json.loads((chain / "job" / "exposure.json").read_bytes())["verdict"] == "clear"
    held = pl.read_parquet(chain / "heldout.parquet")
    assert held.height >= 20
    told = json.loads((chain / "job" / "receipt.json").read_bytes())["observations"]["trainer"]
    assert (told["steps"], len(told["losses"])) == (2, 2)


def test_the_decision_rests_on_what_was_measured(chain: Path, tmp_path: Path) -> None:
    told = decide(chain, "--out", tmp_path / "decided")
    comparison, decision = told["comparison"], told["decision"]
    arms = [pl.read_ndjson(chain / f"{n}.jsonl") for n in ("base", "tuned")]
    one, two = (a.group_by("task").agg(pl.col("score").mean()).sort("task") for a in arms)
    assert one["task"].to_list() == two["task"].to_list() == sorted(pl.read_parquet(chain / "heldout.parquet")["task"])
    assert comparison["nUnits"] == one.height >= 20
    assert comparison["score"]["difference"] == pytest.approx((two["score"] - one["score"]).mean())
    assert comparison["accounting"] | {"ceilingNanos": 0} == {
        "preparationNanos": 0, "measurementNanos": 0, "knownNanos": 0, "unknownCalls": 0, "unknownMaximumNanos": 0, "ceilingNanos": 0,
    }  # fmt: skip
    # Two steps move a model by far less than the lift that the policy asks for.
    assert (decision["outcome"], decision["reasons"]) == ("hold", ["lower_bound_not_above_minimum_lift"])
    assert decide(chain, "--out", tmp_path / "again") == told
    for file in (tmp_path / "decided").iterdir():
        assert file.read_bytes() == (tmp_path / "again" / file.name).read_bytes()
    assert run("decide", "--check", tmp_path / "decided", code=1) == decision


def test_training_on_what_is_measured_is_refused(copy: Path) -> None:
    run("train", "prepare", copy / "ds", "--train", "test", "--out", copy / "leak.json")
    spec = (copy / "train.toml").read_text().replace("train.json", "leak.json")
    old = next(line for line in spec.splitlines() if line.startswith("dataset_digest"))
    (copy / "train.toml").write_text(spec.replace(old, f'dataset_digest = "{sha256_file(copy / "leak.json")}"'))
    failed = run("train", "run", copy / "train.toml", code=1)
    assert (failed["stage"], failed["exposure"]["verdict"]) == ("admission", "refused")
    assert "garden__count" not in json.dumps(failed)
    told = decide(copy, "--heldout", copy / "ds" / "inventory.parquet")  # the trained tasks are in it, too
    assert "held_out_exposure" in told["decision"]["reasons"]


def test_the_same_as_a_sealed_experiment(copy: Path) -> None:
    (copy / "grader.txt").write_text("The geometric mean of the probabilities of the tokens of the answer.")
    run(
        "experiment", "seal", copy / "heldout.parquet", "--baseline", copy / "profile.json",
        "--candidate", copy / "job" / "profile.json", "--run", "job", "--grader", f"likelihood={copy / 'grader.txt'}",
        "--execution-ref", sha("execution"), "--limit", "calls=1", "--policy", copy / "policy.toml", "--out", copy / "sealed",
    )  # fmt: skip
    experiment, benchmark = read_experiment(copy / "sealed" / "experiment.json", copy / "sealed" / "benchmark.json")
    at = {t.scenario.id: n for n, t in enumerate(benchmark.tasks)}
    receipts = [
        _receipt(experiment, benchmark, arm, at[line["task"]], line)
        for arm, file in (("baseline", "base"), ("candidate", "tuned"))
        for line in pl.read_ndjson(copy / f"{file}.jsonl").to_dicts()
    ]
    file = copy / "receipts.jsonl"
    file.write_bytes(b"".join(dumps(to_wire(r)) + b"\n" for r in receipts))
    assert run("experiment", "verify", copy / "sealed", "--receipts", file) == []
    sealed = ("--experiment", copy / "sealed" / "experiment.json", "--benchmark", copy / "sealed" / "benchmark.json")
    more = (*sealed, "--receipts", file, "--job", copy / "job", "--costs", copy / "costs.jsonl")
    told = run("decide", *more, code=1)
    assert told["findings"] == []
    assert told["decision"]["reasons"] == decide(copy)["decision"]["reasons"]
    assert told["decision"]["point"] == decide(copy)["decision"]["point"]
    assert told["exposure"]["found"] == {"content": 0, "name": 0, "near": None}
    changed(copy / "sealed" / "benchmark.json", lambda b: b["tasks"][0]["scenario"].update(id="easier"))
    done = subprocess.run([*RUN_CLI, "decide", *map(str, more)], capture_output=True, text=True, check=False)
    assert (done.returncode, "benchmark.json" in done.stderr) == (1, True), done.stderr


def _receipt(experiment: Any, benchmark: Any, arm: str, task: int, line: dict[str, Any]) -> RunReceipt:
    name = line["source_id"]
    made: RunReceipt = seal(
        RunReceipt(
            execution_id=name,
            execution_ref=experiment.execution_ref,
            cell=cell_of(experiment, benchmark, arm, task, 0),
            billing=(name,),
            cost_nanos=0,
            model=line["model"],
            limits={"calls": 1},
            usage={"calls": 1},
            model_calls=1,
            events=1,
            trace_digest=sha(f"trace {name}"),
            output_digest=sha(f"output {name}"),
            failure=None,
            grading=Grading(
                grader="likelihood",
                artifact_digest=benchmark.tasks[task].grader.artifact_digest,
                evidence_digest=sha(name),
                score=line["score"],
            ),
        )
    )
    return made


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("job/dataset.json", b"counted", b"guessed"),
        ("job/checkpoint/model.safetensors", b"", b"x"),
        ("job/receipt.json", b'"version":1', b'"version":1 '),
    ],
)
def test_what_was_tampered_with_is_refused_by_name(copy: Path, name: str, old: bytes, new: bytes) -> None:
    path = copy / name
    path.chmod(0o600)
    data = path.read_bytes()
    path.write_bytes(data.replace(old, new, 1) if old else data[:-1] + new)
    command = [*RUN_CLI, "decide", copy / "base.jsonl", copy / "tuned.jsonl", "--job", copy / "job"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert str(Path(name).parts[1]) in done.stderr
