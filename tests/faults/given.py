"""What the writing verbs are given in the fault suite: one small folder of inputs, made in a process of its own."""

from __future__ import annotations

import json
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path

from expcomp.io.stat_digest import FRESH_NS
from tests.helpers import STEPS, edit, package, put

CHATS = 40


def make(folder: str) -> None:
    """Everything, below a folder that is there."""
    root = Path(folder)
    _runs(root)
    _chats(root)
    _records(root)
    _worlds(root)
    _training(root)


def copy(source: str, target: str) -> None:
    """A copy that no file system takes for fresh."""
    shutil.copytree(source, target)
    settle()


def settle() -> None:
    """Wait until nothing counts as just written."""
    time.sleep(2 * FRESH_NS / 1e9)


def change(folder: str) -> None:
    """Edit one package, take one away, add one."""
    source = Path(folder)
    edit(source / "pkg_1/task/task_intake_spec.json", lambda spec: spec.update(normalized_instruction="Count again."))
    shutil.rmtree(source / "pkg_2")
    package(source, "pkg_3", task_id="task_3", steps=STEPS[:2], loops=False)
    settle()


def copy_file(source: str, target: str) -> None:
    """One file; what it names stays where it is."""
    shutil.copy(source, target)


def older_schemas(folder: str) -> None:
    """Some schemas of an older release: other bytes, and one table more."""
    for name in ("attempts.schema.json", "attempts.md", "gone.md"):
        put(Path(folder) / name, f"# {name} as it was\n")


def train(spec: str, runs: str) -> None:
    """A job of an earlier run."""
    from expcomp.training.run.machine import run_training
    from expcomp.training.run.spec import read_run

    parent, options = read_run(Path(spec))
    run_training(parent, replace(options, out=Path(runs)))


def play(package_folder: str, start: str, session: str) -> None:
    """A session of three steps."""
    from expcomp.environments.folder import open_package
    from expcomp.environments.session import open_session

    opened = open_session(open_package(Path(package_folder)), session, start=json.loads(Path(start).read_text()))
    for amount in (1, 2, 3):
        opened.step("deposit", {"amount": amount})
    opened.store.close()


def score(folder: str) -> None:
    """What an earlier score left."""
    put(Path(folder) / "reward.txt", "0.0\n")
    put(Path(folder) / "score.json", {"reward": 0.0})


def in_processes(*words: str) -> None:
    """The command line, with worker processes for inputs of any size."""
    import expcomp.compiler.build
    import expcomp.compiler.plan
    import expcomp.sources.load
    import expcomp.sources.registry
    from expcomp.cli.main import main

    expcomp.compiler.plan.LEAST_FOR_TWO = expcomp.compiler.build.LEAST_FOR_TWO = 0
    expcomp.sources.load.LARGE_BYTES = expcomp.sources.registry.LARGE_BYTES = 0
    sys.argv = ["expcomp", *words]
    main()


def _runs(root: Path) -> None:
    from tests.datasets.inputs import trials

    for n in range(3):
        package(root / "packages", f"pkg_{n}", task_id=f"task_{n}", steps=STEPS[:2], loops=False)
    put(root / "runs/gpt-x-retail.json", trials(range(4)))
    asked = "Please refund my order W-00, the river gauge of type 0 that I bought for site 3."
    put(root / "heldout.jsonl", json.dumps({"task_id": "tau_bench/retail/0", "prompt": asked}) + "\n")


def _chats(root: Path) -> None:
    for name, rows in (("chats", CHATS), ("fewer", 5)):
        turns = [{"role": "user", "content": f"{name} q " * 40}, {"role": "assistant", "content": "a " * 40}]
        put(root / f"{name}.jsonl", "".join(json.dumps({"id": n, "messages": turns}) + "\n" for n in range(rows)))


def _records(root: Path) -> None:
    for name, arm in (("first", "plain"), ("second", "with-skills")):
        records = [
            {
                "schema_version": "benchmark_run_v0",
                "benchmark_id": "bench",
                "case_id": f"case-{n}",
                "arm_id": arm,
                "attempt": 0,
                "score_min": 0.0,
                "score_max": 1.0,
                "official_task_score": {"value": float(n % 2)},
            }
            for n in range(6)
        ]
        put(root / f"{name}.jsonl", "".join(json.dumps(r) + "\n" for r in records))


def _worlds(root: Path) -> None:
    from expcomp.environments.frames import frames
    from expcomp.environments.package import compile_package
    from tests.environments.reconstructed import CONFIG, package_frames
    from tests.environments.test_build import states, write
    from tests.environments.test_replay import GOOD, OTHER, case_steps
    from tests.environments.worlds import AUTHORED, LEDGER

    compile_package(frames(LEDGER), AUTHORED).write(root / "authored")
    compile_package(package_frames(), CONFIG).write(root / "candidate")
    steps = case_steps(GOOD)
    case = {"id": "c1", "trajectory_group": "h1", "source_ids": [OTHER], "split": "validation", "steps": steps}
    put(root / "cases.jsonl", json.dumps(case | {"initial_state": {"world": {"balance": 100.0}}}) + "\n")
    put(root / "start.json", '{"world": {"balance": 100.0}}')
    base = json.loads((root / "candidate/manifest.json").read_text("utf-8"))["artifact_digest"]
    put(root / "fix.json", {"base": base, "edits": [{"op": "remove", "table": "notes", "key": {"note_id": "n_1"}}]})
    numbers = list(range(8))
    write(root / "transcripts", numbers)
    records = [{"episode": e, "state": json.loads(s)} for e, s in states(numbers).rows()]
    put(root / "states.jsonl", "".join(json.dumps(r) + "\n" for r in records))


def _training(root: Path) -> None:
    import polars as pl

    from expcomp.io.digest import sha256_file
    from expcomp.training.dataset import read_dataset
    from expcomp.training.documents import document_bytes
    from tests.training.made import PAYLOADS, ancestry, document, profile, row, sha, write
    from tests.training.measured import BASELINE, CANDIDATE, trials
    from tests.training.run.jobs import PYTHON, PYTHON_DIGEST, READ_REQUEST, TRAIN
    from tests.training.run.test_cli import SPEC

    rows = write(root / "rows.json", document([row("one"), row("two"), row("v", "validation")]))
    write(root / "bad.json", document([row("a"), row("a", "validation"), row("b") | {"data": {}}]))
    known = profile(ancestry("one", "two", datasets={"one": read_dataset(rows).identity()}))
    (root / "profile.json").write_bytes(document_bytes(known))
    write(
        root / "asked.jsonl",
        json.dumps({"benchmark": "bench", "task": "one", "content_digest": sha("x"), "prompt": "Count."}),
    )
    trials(0.2).write_parquet(root / "trials.parquet")
    put(root / "policy.toml", "resamples = 100\n")
    tasks = {"benchmark": "garden", "task": ["a", "b", "c"], "content_digest": [sha(t) for t in "abc"]}
    pl.DataFrame(tasks).write_parquet(root / "tasks.parquet")
    (root / "old.json").write_bytes(document_bytes(BASELINE))
    (root / "new.json").write_bytes(document_bytes(CANDIDATE))
    put(root / "grade.py", "score = 1.0\n")

    put(
        root / "ds/data/sft/train-00000-of-00001.jsonl",
        json.dumps(PAYLOADS["sft"] | {"task_id": "bench/a", "row_id": "a"}) + "\n",
    )
    columns = {
        "benchmark": "bench",
        "task": ["a", "d"],
        "task_id": ["bench/a", "bench/d"],
        "content_digest": [sha("a"), sha("d")],
        "instruction": "Count.",
        "split": ["train", "test"],
    }
    pl.DataFrame(columns).write_parquet(root / "ds/inventory.parquet")
    put(root / "base/weights", "w")

    (root / "parent.json").write_bytes(document_bytes(profile(ancestry("first"))))
    (root / "train.py").write_text(READ_REQUEST + TRAIN)
    spec = SPEC.format(
        dataset=sha256_file(rows),
        execution=sha("execution"),
        top="",
        python=PYTHON,
        python_digest=PYTHON_DIGEST,
        script=root / "train.py",
        script_digest=sha256_file(root / "train.py"),
    )
    put(root / "train.toml", spec.replace("profile.json", str(root / "parent.json")).replace("train.json", str(rows)))


if __name__ == "__main__":
    make(sys.argv[1])
