"""Reading beside the floor (open, hash and parse every file) and beside tools that read JSON lines, all from one run. No time is asserted.

Run with `python -m pytest tests/benchmarks/test_read.py -m benchmark -s`. EXPCOMP_BENCH_FILES and EXPCOMP_BENCH_MB set the sizes. The peers
write what they read as one flat Parquet table; what a record means, they do not ask.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.benchmarks.cost import best, cost, growth, parsed, peer
from tests.benchmarks.page import Page
from tests.benchmarks.sizes import size
from tests.helpers import RUN_CLI

FILES, MEGABYTES = size("FILES"), size("MB")
FEWER = 5  # times fewer in the smaller input, from which growth is counted

pytestmark = pytest.mark.benchmark

POLARS = """
import sys
import polars as pl
pl.scan_ndjson(sys.argv[1]).sink_parquet(sys.argv[2], compression="zstd", compression_level=3)
"""
DUCKDB = """
import sys
import duckdb
duckdb.sql(f"copy (from read_json('{sys.argv[1]}', union_by_name = true, maximum_object_size = 1000000000)) "
           f"to '{sys.argv[2]}' (format parquet, compression zstd)")
"""
DATASETS = """
import sys
import datasets
datasets.load_dataset("json", data_files=sys.argv[1], split="train", cache_dir=sys.argv[2] + ".cache").to_parquet(sys.argv[2])
"""


def claude(number: int) -> str:
    lines = []
    for n in range(20):
        shared = {
            "sessionId": f"s{number}",
            "version": "2.1.0",
            "cwd": "/w",
            "timestamp": f"2026-01-01T00:{n:02d}:00.000Z",
        }
        usage = {"input_tokens": 10, "output_tokens": 5}
        block = {"type": "tool_use", "id": f"t{number}_{n}", "name": "Bash", "input": {"command": "ls " * 20}}
        said = {"id": f"m{number}_{n}", "role": "assistant", "model": "m", "content": [block], "usage": usage}
        back = {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": f"t{number}_{n}", "content": "out " * 300}],
        }
        above = None if not n else f"u{number}_{n - 1}"
        lines.append(shared | {"type": "assistant", "uuid": f"a{number}_{n}", "parentUuid": above, "message": said})
        lines.append(
            shared | {"type": "user", "uuid": f"u{number}_{n}", "parentUuid": f"a{number}_{n}", "message": back}
        )
    return "\n".join(map(json.dumps, lines)) + "\n"


def codex(number: int) -> str:
    ident = hashlib.md5(str(number).encode(), usedforsecurity=False).hexdigest()
    head = {
        "type": "session_meta",
        "payload": {"id": ident, "cli_version": "0.104.0", "timestamp": "2026-01-01T00:00:00Z"},
    }
    lines = [head]
    for n in range(20):
        call = {
            "type": "function_call",
            "name": "exec_command",
            "arguments": json.dumps({"cmd": "ls " * 20}),
            "call_id": f"c{n}",
        }
        back = {"type": "function_call_output", "call_id": f"c{n}", "output": "out " * 300}
        count = {"total_token_usage": {"input_tokens": 10 * n, "output_tokens": 5 * n}}
        lines += [
            {"type": "response_item", "payload": call},
            {"type": "response_item", "payload": back},
            {"type": "event_msg", "payload": {"type": "token_count", "info": count}},
        ]
    return "\n".join(json.dumps({"timestamp": "2026-01-01T00:00:00Z"} | line) for line in lines) + "\n"


def harbor(folder: Path, number: int) -> None:
    trial = folder / "job" / f"task-{number % 50}__{number:07d}"
    (trial / "agent").mkdir(parents=True)
    steps = [
        {
            "step_id": n + 1,
            "source": "agent",
            "message": "go",
            "tool_calls": [{"tool_call_id": f"c{n}", "function_name": "bash", "arguments": {"cmd": "ls"}}],
            "observation": {"results": [{"source_call_id": f"c{n}", "content": "out " * 100}]},
        }
        for n in range(10)
    ]
    result = {
        "trial_name": trial.name,
        "task_name": f"task-{number % 50}",
        "verifier_result": {"rewards": {"reward": 1.0}},
    }
    (trial / "result.json").write_text(json.dumps(result))
    doc = {"schema_version": "ATIF-v1.5", "agent": {"name": "a", "model_name": "m"}, "steps": steps}
    (trial / "agent" / "trajectory.json").write_text(json.dumps(doc))


def write(folder: Path, kind: str, files: int) -> Path:
    for number in range(files):
        if kind == "harbor":
            harbor(folder, number)
            continue
        path = folder / f"p{number % 20}" / f"{number:06d}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(claude(number) if kind == "claude_code" else codex(number))
    return folder


def attempts(out: Path) -> int:
    count: int = json.loads((out / "manifest.json").read_text())["tables"]["attempts"]["rows"]
    return count


@pytest.mark.parametrize("kind", ["claude_code", "codex", "harbor"])
def test_a_folder_of_many_files_against_the_floor(
    tmp_path: Path, kind: str, page: Page, starts: Callable[[str], float]
) -> None:
    small, large = (write(tmp_path / f"in{n}", kind, n) for n in (FILES // FEWER, FILES))
    few = cost(*RUN_CLI, "read", small, "--out", tmp_path / "few", "--quiet")
    ours = cost(*RUN_CLI, "read", large, "--out", tmp_path / "out", "--quiet")
    assert attempts(tmp_path / "out") == FILES
    files = large / ("*/*/agent/*.json" if kind == "harbor" else "*/*.jsonl")
    page.add(
        f"read, {kind}",
        f"{FILES:,} files",
        ours.cpu,
        unit="s CPU",
        floor=parsed(large),
        peer=best({"DuckDB, one flat table": lambda: peer("duckdb", DUCKDB, files, tmp_path / "duckdb")}),
        memory_mib=ours.sum_mib,
        growth=growth((1, few.cpu), (FEWER, ours.cpu), starts("read")),
    )


def test_a_large_chat_set_against_polars(tmp_path: Path, page: Page, starts: Callable[[str], float]) -> None:
    costs = []
    for megabytes in (MEGABYTES / FEWER, MEGABYTES):
        folder, out = tmp_path / f"in{megabytes}", tmp_path / f"out{megabytes}"
        folder.mkdir()
        number = chats(folder / "set.jsonl", megabytes)
        costs.append(cost(*RUN_CLI, "read", folder, "--out", out, "--quiet"))
        assert attempts(out) == number
    few, ours = costs
    peers = {"Polars": ("polars", POLARS), "DuckDB": ("duckdb", DUCKDB), "datasets": ("datasets", DATASETS)}
    page.add(
        "read, chats",
        f"{MEGABYTES} MB in one file",
        ours.cpu,
        unit="s CPU",
        floor=parsed(folder),
        peer=best(
            {
                f"{name}, one flat table": lambda about=about: peer(*about, folder / "set.jsonl", tmp_path / about[0])
                for name, about in peers.items()
            }
        ),
        memory_mib=ours.sum_mib,
        growth=growth((1, few.cpu), (FEWER, ours.cpu), starts("read")),
    )


def chats(path: Path, megabytes: float) -> int:
    """Write conversations of ten calls up to that size; returns how many."""
    turns = [{"role": "user", "content": "question " * 50}]
    for n in range(10):
        call = {
            "id": f"c{n}",
            "type": "function",
            "function": {"name": "bash", "arguments": json.dumps({"cmd": "ls " * 9})},
        }
        turns += [
            {"role": "assistant", "content": "thinking " * 20, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{n}", "content": "out " * 400},
        ]
    number = 0
    with path.open("w") as handle:
        while handle.tell() < megabytes * 2**20:
            handle.write(json.dumps({"id": f"r{number}", "messages": turns}) + "\n")
            number += 1
    return number
