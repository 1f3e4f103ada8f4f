"""Ratios of reading, all from one run on one machine. No time is asserted.

Run with `python -m pytest tests/benchmarks -m benchmark -s`. Folders of many files are stated as a multiple of the floor (open, hash
and parse every file), a large chat set as a multiple of Polars' own `scan_ndjson` to `sink_parquet` of the same file. EXPCOMP_BENCH_FILES
and EXPCOMP_BENCH_MB set the sizes.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks.page import Page
from tests.helpers import environment

FILES = int(os.environ.get("EXPCOMP_BENCH_FILES", "5000"))
MEGABYTES = int(os.environ.get("EXPCOMP_BENCH_MB", "500"))

pytestmark = pytest.mark.benchmark

FLOOR = """
import hashlib, json, os, sys, time
import orjson
start = time.perf_counter()
for folder, _, names in os.walk(sys.argv[1]):
    for name in names:
        with open(os.path.join(folder, name), "rb") as handle:
            data = handle.read()
        hashlib.sha256(data).digest()
        if name.endswith(".json"):
            orjson.loads(data)
        else:
            for line in data.split(b"\\n"):
                if line.strip():
                    orjson.loads(line)
print(json.dumps({"seconds": time.perf_counter() - start}))
"""
POLARS = """
import json, sys, time
import polars as pl
start = time.perf_counter()
pl.scan_ndjson(sys.argv[1]).sink_parquet(sys.argv[2] + ".parquet")
print(json.dumps({"seconds": time.perf_counter() - start}))
"""
OURS = """
import json, resource, sys, time
import expcomp as xc
import expcomp.sources.load, expcomp.sources.store
start = time.perf_counter()
xc.scan_traces(sys.argv[1]).write(sys.argv[2])
seconds = time.perf_counter() - start
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
attempts = xc.scan_traces(sys.argv[2]).attempts.collect().height
print(json.dumps({"seconds": seconds, "peak_mib": peak, "attempts": attempts}))
"""


def run(code: str, *args: Path) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, args)], env=environment(), capture_output=True, text=True, check=True
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


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


@pytest.mark.parametrize("kind", ["claude_code", "codex", "harbor"])
def test_a_folder_of_many_files_against_the_floor(tmp_path: Path, kind: str, page: Page) -> None:
    for number in range(FILES):
        if kind == "harbor":
            harbor(tmp_path / "in", number)
            continue
        path = tmp_path / "in" / f"p{number % 20}" / f"{number:06d}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(claude(number) if kind == "claude_code" else codex(number))
    floor, ours = run(FLOOR, tmp_path / "in"), run(OURS, tmp_path / "in", tmp_path / "out")
    assert ours["attempts"] == FILES
    page.add(f"read, {kind}", f"{FILES:,} files", ours["seconds"], floor=floor["seconds"], memory_mib=ours["peak_mib"])
    print(f"\n{kind}, {FILES} files: {ours['seconds'] / floor['seconds']:.2f} x floor, peak {ours['peak_mib']:.0f} MiB")


def test_a_large_chat_set_against_polars(tmp_path: Path, page: Page) -> None:
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
    path, number = tmp_path / "set.jsonl", 0
    with path.open("w") as handle:
        while handle.tell() < MEGABYTES << 20:
            handle.write(json.dumps({"id": f"r{number}", "messages": turns}) + "\n")
            number += 1
    floor, ours = run(POLARS, path, tmp_path / "floor"), run(OURS, path, tmp_path / "out")
    assert ours["attempts"] == number
    peer = ("scan_ndjson to sink_parquet", floor["seconds"])
    page.add("read, chat", f"{MEGABYTES} MB", ours["seconds"], peer=peer, memory_mib=ours["peak_mib"])
    print(f"\nchat, {MEGABYTES} MB: {ours['seconds'] / floor['seconds']:.2f} x Polars, peak {ours['peak_mib']:.0f} MiB")
