"""A dataset of many attempts beside tools that read and write the same rows; decontamination, near duplicates. No time is asserted.

Run with `python -m pytest tests/benchmarks/test_dataset.py -m benchmark -s`. A compile of the reference traces (EXPCOMP_BENCH_COMPILE, else
made of EXPCOMP_REFERENCE, else of generated chats) is multiplied to EXPCOMP_BENCH_ATTEMPTS attempts with ids and texts of their own, in
EXPCOMP_BENCH_FOLDER where one is named: a million attempts take some 50 GB there.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from expcomp.io.sinks import write_part
from expcomp.tables.family import CHAT
from tests.benchmarks.cost import Cost, Spent, alone, best, cost, growth, peer, program, spent
from tests.benchmarks.page import Page
from tests.benchmarks.sizes import size
from tests.benchmarks.test_scale import one_file
from tests.helpers import RUN_CLI

ATTEMPTS, TEXTS = size("ATTEMPTS"), size("TEXTS")
FEWER = 4  # times fewer attempts or texts, from which growth is counted
TASKS, PLANTED = 5_000, 50
TARGETS = ("trl-sft", "trl-dpo", "trl-grpo")
FAMILIES = ("training_example", "preference_pair", "grpo_rollout_group")
TABLES = ("attempts", "tasks", "grades", "messages")
_BLOCK = 32  # copies written at a time

pytestmark = pytest.mark.benchmark

# The rows and columns that the dataset took, read and written as Parquet and as JSON lines.
FLOOR = """
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
# All rows of the families, read and written in the same two forms.
POLARS = """
import sys
import polars as pl
for name in sys.argv[3:]:
    scan = pl.scan_parquet(f"{sys.argv[1]}/rows/{name}.parquet")
    scan.sink_parquet(f"{sys.argv[2]}/{name}.parquet", compression="zstd", compression_level=3)
    scan.sink_ndjson(f"{sys.argv[2]}/{name}.jsonl")
"""
DUCKDB = """
import sys
import duckdb
for name in sys.argv[3:]:
    rows = f"copy (from '{sys.argv[1]}/rows/{name}.parquet') to '{sys.argv[2]}/{name}"
    duckdb.sql(rows + ".parquet' (format parquet, compression zstd, compression_level 3)")
    duckdb.sql(rows + ".jsonl' (format json)")
"""
DATASETS = """
import sys
import datasets
for name in sys.argv[3:]:
    files = f"{sys.argv[1]}/rows/{name}.parquet"
    rows = datasets.load_dataset("parquet", data_files=files, split="train", cache_dir=sys.argv[2] + "/cache")
    rows.to_parquet(f"{sys.argv[2]}/{name}.parquet")
    rows.to_json(f"{sys.argv[2]}/{name}.jsonl")
"""
# Every text of the rows, cut into words: what a check for held-out passages cannot do without.
WORDS = """
import sys
import polars as pl
for name in sys.argv[2:]:
    scan = pl.scan_parquet(f"{sys.argv[1]}/rows/{name}.parquet")
    chats = [c for c, t in scan.collect_schema().items() if t.is_nested() and c in ("messages", "prompt", "chosen", "rejected")]
    for column in chats:
        said = scan.select(pl.col(column).explode(empty_as_null=True).struct.field("content"))
        print(said.select(pl.col("content").str.to_lowercase().str.extract_all(r"[\\p{L}\\p{N}]+").list.len().sum()).collect().item())
"""
# The common method: a row that shares 13 words in a row with a held-out task goes.
NGRAMS = """
import json, re, sys
import polars as pl
word, n = re.compile(r"\\w+"), 13
held = set()
for line in open(sys.argv[2]):
    words = word.findall(json.loads(line)["prompt"].lower())
    held.update(tuple(words[i : i + n]) for i in range(len(words) - n + 1))
found = 0
for name in sys.argv[3:]:
    rows = pl.scan_parquet(f"{sys.argv[1]}/rows/{name}.parquet")
    chats = [c for c, t in rows.collect_schema().items() if t.is_nested() and c in ("messages", "prompt", "chosen", "rejected")]
    for batch in rows.select(chats).collect_batches(chunk_size=1000):
        for row in batch.iter_rows():
            words = word.findall(" ".join(m["content"] or "" for chat in row if chat for m in chat).lower())
            found += any(tuple(words[i : i + n]) in held for i in range(len(words) - n + 1))
print(found)
"""


def reference(folder: Path) -> Path:
    """A compile of the reference traces, or of generated ones."""
    if made := os.environ.get("EXPCOMP_BENCH_COMPILE"):
        return Path(made)
    from expcomp.compiler.build import compile_paths

    traces = os.environ.get("EXPCOMP_REFERENCE")
    if traces is None:
        one_file(folder.with_name("generated"), max(40, min(2_000, ATTEMPTS // FEWER)))
        compile_paths([folder.with_name("generated")], folder)
        return folder
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
        pl.scan_ipc(parts).sink_parquet(out / f"{name}.parquet", maintain_order=True)
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
    """Both inputs and the held-out tasks, unless an earlier run left them there."""
    if (folder / "compile" / "rows").is_dir() and (folder / "few" / "rows").is_dir():
        return
    folder.mkdir(parents=True, exist_ok=True)
    source = reference(folder / "reference")
    texts = pl.read_parquet(source / "tables/tasks.parquet")["instruction"].drop_nulls()
    words = sorted({w for t in texts for w in t.lower().split() if w.isalpha()})
    passages = held_out(words, folder / "held.jsonl")
    multiplied(source, folder / "few", ATTEMPTS // FEWER, passages)
    multiplied(source, folder / "compile", ATTEMPTS, passages)


def count(source: Path) -> int:
    """Attempts of a compile."""
    found: int = pl.scan_parquet(source / "tables/attempts.parquet").select(pl.len()).collect().item()
    return found


def test_a_dataset_beside_reading_and_writing_its_rows(made: Path, page: Page, starts: Callable[[str], float]) -> None:
    def built(source: Path, out: Path) -> tuple[Cost, int]:
        shutil.rmtree(out, ignore_errors=True)
        options = ("--against", made / "held.jsonl", "--split", "train=0.9,test=0.1", "--out", out, "--quiet")
        return cost(*RUN_CLI, "dataset", source, "--to", ",".join(TARGETS), *options), count(source)

    def written(code: str, module: str, *more: Path) -> float:
        folder = made / "written"
        folder.mkdir()
        try:
            return peer(module, code, made / "compile", folder, *more, *FAMILIES)
        finally:
            shutil.rmtree(folder)

    few, fewer = built(made / "few", made / "few-out")
    ours, attempts = built(made / "compile", made / "out")
    peers = {"Polars": (POLARS, "polars"), "DuckDB": (DUCKDB, "duckdb"), "datasets": (DATASETS, "datasets")}
    page.add(
        "dataset",
        f"{attempts:,} attempts, {', '.join(TARGETS)}",
        ours.cpu,
        unit="s CPU",
        floor=("Polars, the rows taken", written(FLOOR, "polars", made / "out")),
        peer=best(
            {f"{name}, all rows as they are": lambda about=about: written(*about) for name, about in peers.items()}
        ),
        memory_mib=ours.sum_mib,
        growth=growth((fewer, few.cpu), (attempts, ours.cpu), starts("dataset")),
    )
    manifest = json.loads((made / "out" / "manifest.json").read_text())
    assert all(c["rows"] for c in manifest["configs"])
    assert any(c["left"].get("contaminated") for c in manifest["configs"])


def test_decontamination_beside_sets_of_ngrams(made: Path, page: Page, starts: Callable[[str], float]) -> None:
    def checked(source: Path) -> Cost:
        return cost(*RUN_CLI, "decontaminate", source, "--against", made / "held.jsonl", "--quiet", codes=(1,))

    source = made / "compile"
    few, ours = checked(made / "few"), checked(source)
    page.add(
        "decontaminate",
        f"{count(source):,} attempts against {TASKS:,} tasks",
        ours.cpu,
        unit="s CPU",
        floor=("cut into words", program(WORDS, source, *FAMILIES).cpu),
        peer=("13-grams in a Python set", program(NGRAMS, source, made / "held.jsonl", *FAMILIES).cpu),
        memory_mib=ours.sum_mib,
        growth=growth((count(made / "few"), few.cpu), (count(source), ours.cpu), starts("decontaminate")),
    )


def near(crowd: int, words: int, changes: int, texts: int) -> pl.DataFrame:
    """Texts, of which a fifth are near copies, or crowds of copies."""
    dice = random.Random(5)
    known = [f"{dice.randrange(16**6):x}" for _ in range(20_000)]

    def copied(base: list[str]) -> list[str]:
        places = dice.sample(range(words), changes)
        return [dice.choice(known) if k in places else w for k, w in enumerate(base)]

    bases = [dice.choices(known, k=words) for _ in range(texts * 4 // 5 if crowd == 1 else max(2, texts // crowd))]
    rows = bases + [copied(b) for b in bases[: len(bases) // 4]]
    if crowd > 1:
        rows = [copied(b) for b in bases for _ in range(crowd)]
    return pl.DataFrame({"key": range(len(rows)), "text": [" ".join(r) for r in rows]})


def ours_near(*case: int) -> tuple[Spent, int, int]:
    from expcomp.datasets.near import near_duplicates

    frame = near(*case)
    near_duplicates(frame.head(50))
    kept: list[int] = []
    cost = spent(lambda: kept.append(near_duplicates(frame)["kept"].sum()))
    return cost, frame.height, kept[0]


def datasketch_near(*case: int) -> float:
    """The same shingles, permutations and threshold; candidates are not compared exactly."""
    from datasketch import MinHash, MinHashLSH

    frame = near(*case)

    def run() -> None:
        index = MinHashLSH(threshold=0.8, num_perm=128)
        for key, text in zip(frame["key"], frame["text"], strict=True):
            words = text.split()
            made = MinHash(num_perm=128)
            made.update_batch([" ".join(words[i : i + 5]).encode() for i in range(len(words) - 4)])
            if not index.query(made):
                index.insert(key, made)

    return spent(run).cpu


@pytest.mark.parametrize(("crowd", "words", "changes"), [(1, 60, 1), (276, 400, 2), (276, 400, 6)])
def test_near_duplicates(crowd: int, words: int, changes: int, page: Page) -> None:
    """Short texts of which a fifth are near copies; long ones in crowds of copies; crowds whose copies are just not near enough."""
    pytest.importorskip("rensa")
    texts = TEXTS if crowd == 1 else TEXTS // 4
    few, fewer, _ = alone(ours_near, crowd, words, changes, texts // FEWER)
    ours, rows, kept = alone(ours_near, crowd, words, changes, texts)
    page.add(
        "near duplicates",
        f"{rows:,} texts of {words} words, {'in crowds' if crowd > 1 else 'a fifth copied'}, {changes} changed",
        ours.cpu,
        unit="s CPU",
        peer=best({"datasketch, candidates only": lambda: alone(datasketch_near, crowd, words, changes, texts)}),
        memory_mib=ours.peak_mib,
        growth=growth((fewer, few.cpu), (rows, ours.cpu)),
    )
    assert kept < rows
