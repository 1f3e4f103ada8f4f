"""Write the example packages, traces and benchmark runs below `data`, or check that they are what this program writes.

python data/generate.py            rewrite data/packages, data/packages_truth.json, data/runs, data/traces and data/heldout.jsonl
python data/generate.py --check    compare instead; 1 and the names of what differs
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from garden import runs, tasks_counts, tasks_desk, traces  # noqa: E402
from garden.faults import FAULTS, SILENT  # noqa: E402
from garden.model import Task, Tree, build, scored  # noqa: E402

MAKERS = (
    tasks_counts.seeds,
    tasks_counts.vents,
    tasks_desk.letter,
    tasks_desk.visitors,
    tasks_desk.labels,
    tasks_counts.pond,
    tasks_desk.rota,
    tasks_desk.sale,
    tasks_counts.moss,
    tasks_desk.tours,
    tasks_desk.twin,
)
OUTSIDE = "This file lies outside every package: fern-outside-73.\n"


def plant(tree: Tree) -> list[dict[str, Any]]:
    """Plant the faults of a package and say where they are."""
    return [
        {"kind": kind, "reported": kind not in SILENT} | where
        for kind in tree.task.faults
        for where in FAULTS[kind](tree)
    ]


def truth(task: Task, steps: dict[str, int], faults: list[dict[str, Any]]) -> dict[str, Any]:
    """What is known about a package, as it was before the faults."""
    return {
        "task_id": task.task_id,
        "ending": task.ending,
        "max_score": task.max_score,
        "scores": {kind: scored(task, attempt) for kind, attempt in task.attempts.items()},
        "passed": {kind: attempt.passed for kind, attempt in task.attempts.items()},
        "steps": steps,
        "faults": faults,
    }


def write(tree: Tree, folder: Path) -> None:
    """The files and links of one package."""
    for ref, data in tree.files().items():
        (folder / ref).parent.mkdir(parents=True, exist_ok=True)
        (folder / ref).write_bytes(data)
    for ref, target in tree.links.items():
        (folder / ref).symlink_to(target)


def generate(root: Path) -> None:
    """Write packages, truth, the file that lies outside, runs, traces and held-out tasks below `root`."""
    known: dict[str, Any] = {}
    for make in MAKERS:
        tree = build(make())
        steps = {kind: len(tree.trace(kind)["steps"]) for kind in tree.task.attempts}
        known[tree.task.id] = truth(tree.task, steps, plant(tree))
        write(tree, root / "packages" / tree.task.id)
    (root / "outside.txt").write_text(OUTSIDE, encoding="utf-8")
    (root / "packages_truth.json").write_text(json.dumps(known, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    (root / "runs").mkdir()
    for name, data in runs.files().items():
        (root / "runs" / name).write_bytes(data)
    for name, data in traces.files().items():
        (root / "traces" / name).parent.mkdir(parents=True)
        (root / "traces" / name).write_bytes(data)
    (root / "heldout.jsonl").write_bytes(traces.held_out())


def contents(root: Path) -> dict[str, bytes]:
    """What `generate` writes: bytes of files, targets of links, by path."""
    found = {}
    paths = [
        *(root / "packages").rglob("*"),
        *(root / "runs").rglob("*"),
        *(root / "traces").rglob("*"),
        root / "heldout.jsonl",
        root / "outside.txt",
        root / "packages_truth.json",
    ]
    for path in paths:
        name = path.relative_to(root).as_posix()
        if path.is_symlink():
            found[name] = b"link to " + path.readlink().as_posix().encode()
        elif path.is_file():
            found[name] = path.read_bytes()
    return found


def check(root: Path) -> list[str]:
    """Names of files that differ from what would be written."""
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder))
        want, have = contents(Path(folder)), contents(root)
    return sorted(name for name in want.keys() | have.keys() if want.get(name) != have.get(name))


def main(argv: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Example packages, traces and runs of expcomp.")
    parser.add_argument("--check", action="store_true", help="compare with what is there, write nothing")
    if parser.parse_args(argv).check:
        names = check(HERE)
        sys.stdout.write("".join(f"differs: {name}\n" for name in names))
        return 1 if names else 0
    for name in ("packages", "runs", "traces"):
        shutil.rmtree(HERE / name, ignore_errors=True)
    generate(HERE)
    sys.stdout.write(f"{len(contents(HERE))} files written\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
