"""Hand-made runs of agents, small, from which every target gets rows; and what tests ask of a dataset folder again and again."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from tests.helpers import package, put

POLICY = {"role": "system", "content": "# Policy of the gauge shop\n\nBe kind and look orders up before any refund."}
THANKS = "we thank you very much for your great patience with all of us on this long day"
SHARED = {"tau_bench/retail/0", "tau_bench/retail/1"}


def call(ident: str, name: str, **arguments: Any) -> dict[str, Any]:
    return {"id": ident, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def trial(task: int, number: int, *, passed: bool, said: str = "", seen: str = "") -> dict[str, Any]:
    """One run of a task in the form of tau-bench: a look-up, a second one that differs by trial, an answer.

    Args:
        task: Its number; the user's words rest on it alone.
        number: Of the trial.
        passed: The verdict.
        said: More words of the agent.
        seen: More words of a tool.
    """
    ask = (
        f"Please refund my order W-{task}{task * 7}, the river gauge of type {task} that I bought for site {task + 3}."
    )
    how = "all went well" if passed else "it went badly, sorry"
    info = {
        "task": {"user_id": f"u_{task}", "actions": [], "instruction": f"You want money back for W-{task}.", "outputs": [f"{task}"]},
        "source": "user",
        "user_cost": 0.5,
        "reward_info": {"reward": float(passed), "info": {"r_actions": 1.0, "gt_data_hash": "ff"}, "actions": []},
    }  # fmt: skip
    chat = [
        POLICY,
        {"role": "user", "content": ask},
        {"role": "assistant", "content": None, "tool_calls": [call("c1", "find_order", order=f"W-{task}", page=number)]},
        {"role": "tool", "name": "find_order", "tool_call_id": "c1", "content": f'{{"order": {task}}} {seen}'},
        {"role": "assistant", "content": "One more.", "tool_calls": [call("c2", "refund", order=task, cents=number + 1)]},
        {"role": "tool", "name": "refund", "tool_call_id": "c2", "content": f"refunded {number + 1} cents of {task}"},
        {"role": "assistant", "content": f"Order {task}, try {number}: {how}; {THANKS}. {said}"},
        {"role": "user", "content": "Bye ###STOP###"},
    ]  # fmt: skip
    return {"task_id": task, "reward": float(passed), "info": info, "traj": chat, "trial": number}


def trials(tasks: Iterable[int], numbers: Sequence[int] = range(4)) -> list[dict[str, Any]]:
    return [trial(t, n, passed=(t + n) % 2 == 0) for t in tasks for n in numbers]


def chats(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """Chat logs as JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(r) + "\n" for r in rows), "utf-8")
    return path


def source(folder: Path, tasks: Iterable[int] = range(8), packages: int = 3) -> Path:
    """A folder of runs: tau-bench and packages."""
    put(folder / "gpt-x-retail.json", trials(tasks))
    for i in range(packages):
        package(folder, f"pkg_{i}", task_id=f"task_{i}", scores={"baseline": 0.2, "revised": 0.95})
    return folder


def compiled(folder: Path, out: Path) -> Path:
    from expcomp.compiler.build import compile_paths

    compile_paths([folder], out, processes=1)
    return out


def lines(folder: Path, config: str, split: str = "train") -> list[dict[str, Any]]:
    """Rows of a split as the JSON lines of all of its shards."""
    files = sorted((folder / "data" / config).glob(f"{split}-*.jsonl"))
    return [json.loads(line) for f in files for line in f.read_text("utf-8").splitlines()]


def ids(folder: Path, config: str, split: str = "train") -> list[str]:
    return [r["row_id"] for r in lines(folder, config, split)]


def side(folder: Path, name: str) -> pl.DataFrame:
    return pl.read_parquet(folder / f"{name}.parquet")


def holds(folder: Path, text: str) -> list[str]:
    """Files below a folder that hold a text, in Parquet files any value of any column."""
    found = []
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        if path.suffix == ".parquet":
            frame = pl.read_parquet(path)
            words = "\n".join(frame.select(pl.struct(pl.all()).struct.json_encode()).to_series().to_list())
        else:
            words = path.read_text("utf-8")
        # Escaped or not, a text without marks stands as it is.
        if text in words:
            found.append(path.relative_to(folder).as_posix())
    return found


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def copy(folder: Path, to: Path) -> Path:
    """A copy that a test may write to."""
    shutil.copytree(folder, to)
    return to
