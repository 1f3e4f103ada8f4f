"""A million rows of 200,000 tasks: reading both forms, every check, digests, and the guard. Prints CPU seconds; no time is asserted.

Run with `python -m pytest tests/benchmarks/test_training.py -m benchmark -s`. EXPCOMP_BENCH_ROWS sets another number of rows.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import environment

ROWS = int(os.environ.get("EXPCOMP_BENCH_ROWS", "1000000"))
TASKS, HELD, RECEIPTS = 200_000, 5_000, 10

pytestmark = pytest.mark.benchmark

# Each step in a process of its own, so that its peak is its own.
MADE = """
import hashlib, resource, sys, time
from pathlib import Path
import polars as pl
folder, n, tasks, held, receipts = Path(sys.argv[1]), *map(int, sys.argv[2:6])
def said(name, start):
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{name:34}{time.process_time() - start:7.2f} s CPU {peak:8,.0f} MiB peak")
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
"""
STEPS = {
    "write": """
from expcomp.training.bundle import write_bundle, write_document
frame = rows()
write_bundle(frame, "sft", folder / "bundle")
write_document(frame, "sft", folder / "rows.json")
print(f"{n:,} rows, document of {(folder / 'rows.json').stat().st_size / 1e6:,.0f} MB")
""",
    "validate": """
from expcomp.training.validate import validate_rows
frame = rows()
start = time.process_time()
assert not validate_rows(frame, "sft").height
said("all checks of rows", start)
""",
    "digest": """
from expcomp.datasets.identity import task_set_digest
from expcomp.training.dataset import canonical_document_digest, row_digests
frame = rows()
start = time.process_time()
row_digests(frame); canonical_document_digest(frame, "sft"); task_set_digest(frame)
said("digests of rows, document, tasks", start)
""",
    "bundle": """
from expcomp.training.dataset import check_dataset
start = time.process_time()
assert check_dataset(folder / "bundle").dataset is not None
said("bundle: read, verify, check", start)
""",
    "document": """
from expcomp.training.dataset import Limits, check_dataset
start = time.process_time()
assert check_dataset(folder / "rows.json", limits=Limits(document_bytes=4 << 30)).dataset is not None
said("document: read, verify, check", start)
""",
    "split": """
from expcomp.training.splitting import SplitOptions, split_rows
frame = rows()
start = time.process_time()
assert split_rows(frame, SplitOptions()).rows.height == n
said("split by task", start)
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
start = time.process_time()
found = guard(index, against)
said(f"guard over {index.frame.height:,} exposures", start)
assert found.report.heldout_tasks == held
index.write(folder / "index.parquet")
start = time.process_time()
guard(ExposureIndex.read(folder / "index.parquet"), against)
said("the same from its file", start)
""",
}


def test_a_million_rows(tmp_path: Path) -> None:
    for step in STEPS.values():
        arguments = [str(v) for v in (tmp_path, ROWS, TASKS, HELD, RECEIPTS)]
        done = subprocess.run(
            [sys.executable, "-c", MADE + step, *arguments],
            capture_output=True,
            text=True,
            check=False,
            env=environment(),
            timeout=1800,
        )
        assert done.returncode == 0, done.stderr
        print(done.stdout, end="")
