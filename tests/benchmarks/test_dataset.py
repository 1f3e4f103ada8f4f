"""A dataset of many attempts against Polars reading and writing the same rows, all in one run on one machine. No time is asserted.

Run with `python -m pytest tests/benchmarks/test_dataset.py -m benchmark -s`. A compile of the reference traces (EXPCOMP_BENCH_COMPILE,
else made of EXPCOMP_REFERENCE) is multiplied to EXPCOMP_BENCH_ATTEMPTS attempts with ids and texts of their own, in EXPCOMP_BENCH_FOLDER
where one is named: a million attempts take some 50 GB there.
"""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest

from expcomp.io.sinks import join_parquet, write_part
from expcomp.tables.family import CHAT
from tests.benchmarks.page import Page
from tests.helpers import environment

ATTEMPTS = int(os.environ.get("EXPCOMP_BENCH_ATTEMPTS", "20000"))
TASKS, PLANTED = 5_000, 50
TARGETS = ("trl-sft", "trl-dpo", "trl-grpo")
FAMILIES = ("training_example", "preference_pair", "grpo_rollout_group")
TABLES = ("attempts", "tasks", "grades", "messages")
_BLOCK = 32  # copies written at a time

pytestmark = pytest.mark.benchmark

# Runs a command and says what it cost, itself and all processes below it: seconds, CPU seconds, peak of the sum of PSS, of the largest.
WATCH = """
import glob, json, os, subprocess, sys, time
TICK = os.sysconf("SC_CLK_TCK")
def stat(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return int(fields[1]), (int(fields[11]) + int(fields[12])) / TICK
def pss(pid):
    with open(f"/proc/{pid}/smaps_rollup") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("Pss:"))
cpu, total, largest = {}, 0, 0
start = time.perf_counter()
child = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
while child.poll() is None:
    parents = {}
    for path in glob.glob("/proc/[0-9]*"):
        pid = int(path[6:])
        try:
            parents[pid], spent = stat(pid)
        except (OSError, IndexError):
            continue
        cpu[pid] = spent
    own, size = {child.pid}, 0
    while len(own) != size:
        size = len(own)
        own |= {p for p, above in parents.items() if above in own}
    family = globals().setdefault("family", set())
    family |= own
    held = []
    for pid in own:
        try:
            held.append(pss(pid))
        except (OSError, StopIteration):
            pass
    total, largest = max(total, sum(held)), max(largest, max(held, default=0))
    time.sleep(0.25)
print(json.dumps({"code": child.returncode, "seconds": time.perf_counter() - start, "cpu": sum(cpu[p] for p in family if p in cpu),
                  "sum_mib": total / 1024, "largest_mib": largest / 1024}))
"""
# Reads the families and writes their rows as Parquet and as JSON lines.
FLOOR = """
import sys
import polars as pl
for name in sys.argv[3:]:
    scan = pl.scan_parquet(f"{sys.argv[1]}/rows/{name}.parquet")
    scan.sink_parquet(f"{sys.argv[2]}/{name}.parquet", compression="zstd", compression_level=3)
    scan.sink_ndjson(f"{sys.argv[2]}/{name}.jsonl")
"""
# The same for the rows and columns that the dataset took of them.
BARE = """
import sys
import polars as pl
index = pl.scan_parquet(f"{sys.argv[3]}/row_index.parquet")
stay = ("_id", "prompt", "chosen", "rejected", "messages", "tools", "pair_level", "pass_rate", "group_size")
for name, config in zip(sys.argv[4:], ("sft", "dpo", "grpo"), strict=True):
    scan = pl.scan_parquet(f"{sys.argv[1]}/rows/{name}.parquet")
    taken = index.filter(config=config).select("row_id")
    scan = scan.select(c for c in scan.collect_schema() if c.endswith(stay)).join(taken, on="row_id", how="semi", maintain_order="left")
    scan.sink_parquet(f"{sys.argv[2]}/{name}.parquet", compression="zstd", compression_level=3)
    scan.sink_ndjson(f"{sys.argv[2]}/{name}.jsonl")
"""


@dataclass(frozen=True)
class Cost:
    seconds: float
    cpu: float
    sum_mib: float
    largest_mib: float


def cost(*command: str | Path) -> Cost:
    done = subprocess.run(
        [sys.executable, "-c", WATCH, *map(str, command)], capture_output=True, text=True, check=True, env=environment()
    )
    said = json.loads(done.stdout)
    assert said.pop("code") == 0, done.stderr
    return Cost(**said)


def reference(folder: Path) -> Path:
    """A compile of the reference traces."""
    if made := os.environ.get("EXPCOMP_BENCH_COMPILE"):
        return Path(made)
    traces = os.environ.get("EXPCOMP_REFERENCE")
    if traces is None:
        pytest.skip("neither EXPCOMP_BENCH_COMPILE nor EXPCOMP_REFERENCE is set")
    from expcomp.compiler.build import compile_paths

    kinds = ("tau", "harbor", "swe_agent", "mini_swe_agent", "swebench", "hf", "verifiers")
    compile_paths([p for k in kinds if (p := Path(traces) / "traces" / k).is_dir()], folder)
    return folder


def held_out(words: list[str], path: Path) -> list[str]:
    """A file of held-out tasks; returns the passages to plant."""
    dice = random.Random(4)
    prompts = [" ".join(dice.choices(words, k=dice.randint(60, 200))) for _ in range(TASKS)]
    lines = [json.dumps({"benchmark": "held", "id": f"h{n}", "prompt": text}) for n, text in enumerate(prompts)]
    path.write_text("\n".join(lines) + "\n")
    return [" ".join(p.split()[:60]) for p in prompts[:PLANTED]]


def multiplied(source: Path, out: Path, attempts: int, passages: list[str]) -> int:
    """A compile of at least that many attempts: copies with ids of their own, and texts that differ in every message but the system's.

    Returns:
        Copies that hold a planted passage.
    """
    each = pl.scan_parquet(source / "tables/attempts.parquet").select(pl.len()).collect().item()
    copies = -(-attempts // each)
    planted = {k * copies // len(passages): p for k, p in enumerate(passages)}
    (out / "parts").mkdir(parents=True)
    for name in ("rows", "tables"):
        shutil.copytree(source / name, out / name, ignore=shutil.ignore_patterns("*.jsonl"))
    for name in ("manifest.json", "report.json", "diagnostics.parquet"):
        shutil.copy(source / name, out / name)
    shutil.copytree(source / "rejected", out / "rejected")
    for name in [*(f"rows/{f}" for f in FAMILIES), *(f"tables/{t}" for t in TABLES)]:
        frame = pl.read_parquet(source / f"{name}.parquet")
        parts = []
        for start in range(0, copies, _BLOCK):
            block = [
                frame.with_columns(_copied(frame.schema, k, planted.get(k)))
                for k in range(start, min(copies, start + _BLOCK))
            ]
            parts.append(out / "parts" / f"{start:07}.arrow")
            write_part(pl.concat(block), parts[-1])
        join_parquet(parts, out / f"{name}.parquet", {})
        for part in parts:
            part.unlink()
    (out / "parts").rmdir()
    return len(planted)


def _copied(schema: pl.Schema, number: int, passage: str | None) -> list[pl.Expr]:
    """A copy: ids and texts of its own; the passage in the first user message of one row."""
    end = pl.lit(f"~{number}")
    ids = [n for n, t in schema.items() if n.endswith("_id") and t == pl.String and n != "rubric_item_id"]
    made = [pl.col(n) + end for n in ids]
    made += [pl.col(n).list.eval(pl.element() + end) for n in ("attempt_ids",) if n in schema]
    made += [pl.col(n) + f" {number}" for n in ("instruction", "content") if n in schema]
    for name, dtype in schema.items():
        if dtype == CHAT:
            said = pl.col(name).list.eval(_said(f" {number}"))
            if passage is not None:
                here = pl.int_range(pl.len()) == number % pl.len()
                said = pl.when(here).then(pl.col(name).list.eval(_said(f" {number} {passage}"))).otherwise(said)
            made.append(said.alias(name))
        elif dtype == pl.List(CHAT):
            made.append(pl.col(name).list.eval(pl.element().list.eval(_said(f" {number}"))))
    return made


def _said(more: str) -> pl.Expr:
    role, content = pl.element().struct.field("role"), pl.element().struct.field("content")
    said = pl.when((role != "system") & (content.str.len_bytes() > 0)).then(content + more).otherwise(content)
    return pl.element().struct.with_fields(content=said)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    named = os.environ.get("EXPCOMP_BENCH_FOLDER")
    folder = Path(named) / str(ATTEMPTS) if named else tmp_path_factory.mktemp("dataset")
    prepare(folder)
    return folder


def prepare(folder: Path) -> None:
    """The input and the held-out tasks, unless an earlier run left them there."""
    if (folder / "compile" / "rows").is_dir() and (folder / "held.jsonl").is_file():
        return
    folder.mkdir(parents=True, exist_ok=True)
    source = reference(folder / "reference")
    texts = pl.read_parquet(source / "tables/tasks.parquet")["instruction"].drop_nulls()
    words = sorted({w for t in texts for w in t.lower().split() if w.isalpha()})
    multiplied(source, folder / "compile", ATTEMPTS, held_out(words, folder / "held.jsonl"))


def test_a_dataset_against_polars(made: Path, page: Page) -> None:
    source, out = made / "compile", made / "out"
    shutil.rmtree(out, ignore_errors=True)
    command = [Path(sys.executable).with_name("expcomp"), "dataset", source, "--to", ",".join(TARGETS)]
    ours = cost(*command, "--against", made / "held.jsonl", "--split", "train=0.9,test=0.1", "--out", out)
    floors = []
    for code, more in ((FLOOR, ()), (BARE, (out,))):
        (made / "floor").mkdir(exist_ok=True)
        floors.append(cost(sys.executable, "-c", code, source, made / "floor", *more, *FAMILIES))
        written = sum(p.stat().st_size for p in (made / "floor").iterdir())
        shutil.rmtree(made / "floor")
        print(f"\n{written / 1e9:.2f} GB written: {floors[-1]}")
    manifest = json.loads((out / "manifest.json").read_text())
    size = sum(f["bytes"] for c in manifest["configs"] for f in c["files"])
    rows = {c["config"]: (c["rows"], c["candidates"], c["left"]) for c in manifest["configs"]}
    read = sum((source / f"rows/{f}.parquet").stat().st_size for f in FAMILIES)
    print(f"{ATTEMPTS:,} attempts, {read / 1e9:.2f} GB read, {size / 1e9:.2f} GB written: {ours}\n{rows}")
    print(
        f"{ours.seconds / floors[0].seconds:.2f} x (CPU {ours.cpu / floors[0].cpu:.2f} x) Polars reading and writing all rows,"
        f" {ours.seconds / floors[1].seconds:.2f} x (CPU {ours.cpu / floors[1].cpu:.2f} x) writing ours alone;"
        f" peak {ours.sum_mib:.0f} MiB"
    )
    page.add(
        "dataset",
        f"{ATTEMPTS:,} attempts, {', '.join(TARGETS)}",
        ours.cpu,
        unit="s CPU",
        peer=("Polars reads and writes all rows", floors[0].cpu),
        memory_mib=ours.sum_mib,
    )
    assert all(n for n, *_ in rows.values())
    left = [reasons for *_, reasons in rows.values()]
    assert any(r.get("contaminated") for r in left)


@pytest.mark.parametrize(("crowd", "words", "changes"), [(1, 60, 1), (276, 400, 2), (276, 400, 6)])
def test_near_duplicates(crowd: int, words: int, changes: int, page: Page) -> None:
    """Short texts of which a fifth are near copies; long ones in crowds of copies; crowds whose copies are just not near enough."""
    pytest.importorskip("rensa")
    from expcomp.datasets.near import near_duplicates

    dice = random.Random(5)
    known = [f"{dice.randrange(16**6):x}" for _ in range(20_000)]

    def copied(base: list[str]) -> list[str]:
        places = dice.sample(range(words), changes)
        return [dice.choice(known) if k in places else w for k, w in enumerate(base)]

    bases = [dice.choices(known, k=words) for _ in range(80_000 if crowd == 1 else 102)]
    rows = (
        [copied(b) for b in bases for _ in range(crowd)] if crowd > 1 else bases + [copied(b) for b in bases[:20_000]]
    )
    frame = pl.DataFrame({"key": range(len(rows)), "text": [" ".join(r) for r in rows]})
    start = time.process_time()
    found = near_duplicates(frame)
    spent = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"\n{len(rows):,} rows, {found['kept'].sum():,} kept: {len(rows) / spent:,.0f} rows per CPU second, peak {peak:.0f} MiB"
    )
    page.add("near duplicates", f"{len(rows):,} texts of {words} words", spent, unit="s CPU", memory_mib=peak)
    # Texts drawn apart all stay, and some copies go.
    assert len(bases) <= found["kept"].sum() < len(rows)
