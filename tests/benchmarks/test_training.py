"""A training dataset of many rows: reading both forms, every check, digests, splits, and the guard. No time is asserted.

Run with `python -m pytest tests/benchmarks/test_training.py -m benchmark -s`. EXPCOMP_BENCH_ROWS sets the number of rows, which are of a
fifth as many tasks.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.page import Page
from tests.benchmarks.sizes import size
from tests.helpers import environment

ROWS = size("ROWS")
FEWER = 5  # times fewer rows, from which growth is counted
RECEIPTS = 10

pytestmark = pytest.mark.benchmark

# Each step in a process of its own, so that its peak is its own. A line of JSON says what was measured: ours, and what stands beside it.
MADE = """
import hashlib, json, resource, sys, time
from pathlib import Path
import polars as pl
folder, n, tasks, held, receipts = Path(sys.argv[1]), *map(int, sys.argv[2:6])
def cpu(call):
    start = time.process_time()
    call()
    return time.process_time() - start
def said(name, call, floor=None, peer=None):
    spent = cpu(call)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    beside = {k: f and (f[0], cpu(f[1])) for k, f in (("floor", floor), ("peer", peer))}
    print(json.dumps({"name": name, "cpu": spent, "memory_mib": peak, **beside}))
def content(numbers):
    return pl.Series(["sha256:" + hashlib.sha256(str(i).encode()).hexdigest() for i in numbers])
def rows():
    at = pl.int_range(n, eager=True)
    task = at % tasks
    partition = pl.select(pl.when(task % 10 == 0).then(pl.lit("validation")).otherwise(pl.lit("train"))).to_series()
    talk = '{"messages":[{"content":"Do number ' + at.cast(pl.String) + ' of the list, then say \\\\"done\\\\" in 2.5 words.'
    data = talk + " more words" * 20 + '","role":"user"},{"content":"' + "done and gone " * 10 + '","role":"assistant"}]}'
    return pl.DataFrame({"row": at, "benchmark": pl.Series(["bench"]).new_from_index(0, n), "task": "task-" + task.cast(pl.String),
        "content_digest": content(range(tasks)).gather(task), "partition": partition, "data": data})
def parsed(texts):
    import orjson
    for text in texts:
        orjson.loads(text)
def typed(texts):
    from typing import Literal
    from pydantic import BaseModel
    class Message(BaseModel):
        role: Literal["system", "user", "assistant", "tool"]
        content: str
    class Row(BaseModel):
        messages: list[Message]
    for text in texts:
        Row.model_validate_json(text)
def canonical(texts):
    import rfc8785
    for text in texts:
        hashlib.sha256(rfc8785.dumps(json.loads(text))).hexdigest()
"""
STEPS = {
    "write": """
from expcomp.training.bundle import write_bundle, write_document
frame = rows()
said("write bundle", lambda: write_bundle(frame, "sft", folder / "bundle"),
     floor=("Polars to Parquet", lambda: frame.write_parquet(folder / "rows.parquet", compression="zstd")))
write_document(frame, "sft", folder / "rows.json")
""",
    "validate": """
from expcomp.training.validate import validate_rows
frame = rows()
found = []
said("checks of rows", lambda: found.append(validate_rows(frame, "sft").height), floor=("parse each row", lambda: parsed(frame["data"])),
     peer=("pydantic, shape of messages only", lambda: typed(frame["data"])))
assert found == [0]
""",
    "digest": """
from expcomp.datasets.identity import task_set_digest
from expcomp.training.dataset import canonical_document_digest, row_digests
frame = rows()
said("digests of rows, document, tasks", lambda: (row_digests(frame), canonical_document_digest(frame, "sft"), task_set_digest(frame)),
     floor=("SHA-256 of each text", lambda: [hashlib.sha256(text.encode()).digest() for text in frame["data"]]),
     peer=("rfc8785 and hashlib, rows only", lambda: canonical(frame["data"])))
""",
    "bundle": """
from expcomp.training.dataset import check_dataset
found = []
said("bundle: read, verify, check", lambda: found.append(check_dataset(folder / "bundle").dataset),
     floor=("parse each row", lambda: parsed(pl.read_parquet(folder / "rows.parquet")["data"])))
assert found[0] is not None
""",
    "document": """
from expcomp.training.dataset import Limits, check_dataset
found, limits = [], Limits(document_bytes=4 << 30)
said("document: read, verify, check", lambda: found.append(check_dataset(folder / "rows.json", limits=limits).dataset),
     floor=("parse", lambda: parsed([(folder / "rows.json").read_bytes()])))
assert found[0] is not None
""",
    "split": """
from expcomp.training.splitting import SplitOptions, split_rows
frame = rows()
found = []
said("split by task", lambda: found.append(split_rows(frame, SplitOptions()).rows.height),
     floor=("tasks by Polars", lambda: frame.group_by("benchmark", "task", maintain_order=True).len()))
assert found == [n]
""",
    "guard": """
from expcomp.datasets.decontaminate.heldout import held_out
from expcomp.training.exposure import ExposureIndex
from expcomp.training.guard import guard
each = pl.DataFrame({"benchmark": "bench", "task": ["task-%d" % i for i in range(tasks)], "content_digest": content(range(tasks))})
parts = [each.slice(d * tasks // receipts // 2, tasks // 2).with_columns(receipt_digest=pl.lit(content([d])[0]), depth=pl.lit(d),
    partition=pl.lit("train")) for d in range(receipts)]
from expcomp.tables.training import EXPOSURE
index = ExposureIndex(pl.concat(parts).select(EXPOSURE.columns.keys()).cast(EXPOSURE.schema))
against = held_out(pl.DataFrame({"benchmark": "bench", "task": ["task-%d" % (i + tasks - 10) for i in range(held)],
    "content_digest": content(range(tasks - 10, tasks - 10 + held))}))
index.write(folder / "index.parquet")
reports = []
wanted = pl.DataFrame({"content_digest": content(range(tasks - 10, tasks - 10 + held))})
said("guard, index in memory", lambda: reports.append(guard(index, against).report),
     floor=("join of digests", lambda: index.frame.join(wanted, on="content_digest", how="semi", maintain_order="left")))
said("guard, index from its file", lambda: reports.append(guard(ExposureIndex.read(folder / "index.parquet"), against).report))
assert [r.heldout_tasks for r in reports] == [held] * 2
""",
}


def measured(folder: Path, rows: int) -> list[dict[str, Any]]:
    folder.mkdir()
    found = []
    for step in STEPS.values():
        arguments = [str(v) for v in (folder, rows, rows // 5, rows // 200, RECEIPTS)]
        done = subprocess.run(
            [sys.executable, "-c", MADE + step, *arguments],
            capture_output=True,
            text=True,
            check=False,
            env=environment(),
            timeout=1800,
        )
        assert done.returncode == 0, done.stderr
        found += [json.loads(line) for line in done.stdout.splitlines()]
    return found


def test_a_million_rows(tmp_path: Path, page: Page) -> None:
    few, many = measured(tmp_path / "few", ROWS // FEWER), measured(tmp_path / "many", ROWS)
    for small, large in zip(few, many, strict=True):
        page.add(
            f"training, {large['name']}",
            f"{ROWS:,} rows of {ROWS // 5:,} tasks",
            large["cpu"],
            unit="s CPU",
            floor=large["floor"] and tuple(large["floor"]),
            peer=large["peer"] and tuple(large["peer"]),
            memory_mib=large["memory_mib"],
            growth=large["cpu"] / small["cpu"] / FEWER,
        )
