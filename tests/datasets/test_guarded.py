"""Held-out tasks, from the compile to the files: no text of one reaches any config of any target, and the reports say why."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import expcomp as xc
from expcomp.datasets.build import write_datasets
from expcomp.datasets.options import DatasetOptions, Policy
from expcomp.datasets.verify import verify_dataset
from expcomp.errors import SourceError
from expcomp.tables.targets import TARGETS
from tests.datasets import inputs
from tests.helpers import tree

HALVES = (("train", 0.5), ("test", 0.5))
TASK = "tau_bench/retail/5"
MARK = "W-535"  # the order that the user of this task names, and nobody else
LEAKED = (
    "Ledger of the harbour office lists berth nineteen twice in May and names the ship that paid for neither of both"
)


def facts(runs: Path) -> dict[str, Any]:
    return pl.read_parquet(runs / "tables/tasks.parquet").filter(pl.col("task_id") == TASK).row(0, named=True)


def by_content(task: dict[str, Any]) -> dict[str, Any]:
    return {"id": "other", "content_digest": task["task_digest"]}


def by_name(task: dict[str, Any]) -> dict[str, Any]:
    return {"benchmark": task["dataset"], "task": task["native_id"], "prompt": "In other words."}


def by_text(task: dict[str, Any]) -> dict[str, Any]:
    return {"id": "other", "prompt": f"  {task['instruction'].upper().replace(' ', '   ')}!!"}


def by_id(task: dict[str, Any]) -> dict[str, Any]:
    return {"task_id": task["task_id"]}


@pytest.mark.parametrize(
    ("level", "held"),
    [("exact_content", by_content), ("exact_name", by_name), ("exact_name", by_id), ("normalized_text", by_text)],
)
def test_a_held_out_task_reaches_no_file_of_any_target_or_split(
    level: str, held: Callable[[dict[str, Any]], dict[str, Any]], runs: Path, tmp_path: Path
) -> None:
    path = inputs.chats(tmp_path / "held.jsonl", [held(facts(runs)), {"id": "another", "prompt": "Never asked here."}])
    options = DatasetOptions(splits=HALVES, policy=Policy(levels=(level,)))
    out = tmp_path / "ds"
    manifest = write_datasets(runs, list(TARGETS), out, against=[path], options=options, processes=1)
    assert inputs.holds(out, MARK) == []
    assert TASK not in inputs.side(out, "row_index")["task_id"].to_list()
    assert TASK not in inputs.side(out, "inventory")["task_id"].to_list()
    left = inputs.side(out, "left_out").filter(pl.col("reason") == "held_out_task")
    assert set(left["task_id"]) == {TASK}
    assert left["detail"].str.starts_with(f"{level} with held-out ").all()
    assert not left["detail"].str.ends_with(" ").any()
    # Every config that would have had a row of it says so; none lost anything else.
    for config in manifest["configs"]:
        assert config["candidates"] == config["rows"] + sum(config["left"].values())
        assert config["left"].get("held_out_task", 0) == left.filter(pl.col("config") == config["config"]).height
    assert manifest["decontamination"]["heldout_tasks"] == 2
    assert manifest["decontamination"]["tasks_found"] == 1
    report = inputs.side(out, "decontamination_tasks")
    assert report["levels"].to_list() == [[level], []]
    assert report["n_tasks"].to_list() == [1, 0]
    assert report["rows_dropped"][0] > 0
    assert verify_dataset(out).ok


def test_without_a_held_out_set_the_task_is_there(everything: Any) -> None:
    assert any(n.startswith("data/") for n in inputs.holds(everything.folder, MARK))
    assert everything.manifest["decontamination"] is None
    assert not (everything.folder / "decontamination_tasks.parquet").exists()


def test_near_copies_are_found_when_asked(runs: Path) -> None:
    pytest.importorskip("rensa")
    words = " ".join(f"word{i}" for i in range(60))
    tasks = xc.open_compilation(runs)
    held = pl.DataFrame({"id": ["x"], "prompt": [words]})
    policy = Policy(levels=("minhash",))
    assert (
        xc.dataset(tasks, "trl-sft", against=held, policy=policy)
        .left_out.filter(pl.col("reason") == "held_out_task")
        .is_empty()
    )
    same = pl.DataFrame({"id": ["x"], "prompt": [facts(runs)["instruction"]]})
    left = xc.dataset(tasks, "trl-sft", against=same, policy=policy).left_out.filter(
        pl.col("reason") == "held_out_task"
    )
    assert set(left["task_id"]) == {TASK}
    assert left["detail"].str.starts_with("minhash").all()


@pytest.fixture(scope="module")
def leaky(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of which one saw a held-out text in what a tool answered, and one wrote a part of it."""
    folder = tmp_path_factory.mktemp("leaky")
    rows = inputs.trials(range(6), range(2))
    rows[4] = inputs.trial(2, 0, passed=True, seen=LEAKED.replace(" ", "\n").lower())
    rows[7] = inputs.trial(3, 1, passed=True, said=" ".join(LEAKED.split()[:13]))
    (folder / "in").mkdir()
    (folder / "in/gpt-x-retail.json").write_text(json.dumps(rows), "utf-8")
    return inputs.compiled(folder / "in", folder / "out")


def test_rows_with_held_out_text_in_a_tool_output_are_dropped_and_shorter_finds_listed(
    leaky: Path, tmp_path: Path
) -> None:
    held = inputs.chats(
        tmp_path / "held.jsonl", [{"id": "h1", "prompt": "Nothing like it here at all.", "patch": LEAKED}]
    )
    names = [n for n in TARGETS if n != "trl-grpo" and TARGETS[n].kind != "prompt"]
    out = tmp_path / "ds"
    options = DatasetOptions(policy=Policy(coverage=0.9))
    manifest = write_datasets(leaky, names, out, against=[held], options=options, processes=1)
    assert inputs.holds(out, "berth\\nnineteen\\ntwice\\nin\\nmay\\nand\\nnames\\nthe\\nship\\nthat\\npaid") == []
    assert inputs.holds(out, "berth nineteen twice")
    left = inputs.side(out, "left_out").filter(pl.col("reason") == "contaminated")
    assert set(left["task_id"]) == {"tau_bench/retail/2"}
    assert set(left["config"]) >= {"sft", "sft_pc", "kto", "axolotl", "world-model"}
    assert left["detail"].str.contains("held-out 0 answer: coverage 1.0").all()
    rows = inputs.side(out, "decontamination_rows")
    assert set(rows["verdict"]) == {"drop", "review"}
    assert set(rows.filter(pl.col("verdict") == "review")["task_id"]) == {"tau_bench/retail/3"}
    assert set(rows["level"]) == {"ngram"}
    reports = manifest["decontamination"]["reports"]
    assert reports["candidates with held-out text left out"] == left.height
    assert reports["candidates of held-out tasks left out"] == 0
    assert reports["rows to review"] > 0


def test_in_memory_and_on_disk_the_same_is_left_out(leaky: Path, tmp_path: Path) -> None:
    held = pl.DataFrame({"id": ["h1", "tau_bench/retail/1"], "answer": [LEAKED, None]})
    options = DatasetOptions(splits=HALVES)
    for name in ("trl-sft-pc", "trl-kto", "world-model"):
        write_datasets(leaky, [name], tmp_path / f"{name}.a", against=[held], options=options, processes=1)
        xc.dataset(leaky, name, against=held, options=options).write(tmp_path / f"{name}.b")
        assert tree(tmp_path / f"{name}.a") == tree(tmp_path / f"{name}.b")


def test_slices_and_workers_do_not_show_in_what_is_found(leaky: Path, tmp_path: Path) -> None:
    held = pl.DataFrame({"id": ["h1", "tau_bench/retail/1"], "answer": [LEAKED, None]})
    for n in (1, 2):
        write_datasets(leaky, ["trl-sft-pc", "trl-kto"], tmp_path / str(n), against=[held], processes=n)
    assert tree(tmp_path / "1") == tree(tmp_path / "2")


def test_the_last_dataset_is_the_held_out_set_of_the_next(runs: Path, tmp_path: Path) -> None:
    first = DatasetOptions(splits=HALVES, seed="first")
    write_datasets(runs, ["trl-kto"], tmp_path / "a", options=first, processes=1)
    inventory = inputs.side(tmp_path / "a", "inventory")
    assert set(inventory["split"]) == {"train", "test"}
    policy = Policy(levels=("exact_content", "exact_name"))
    made = xc.dataset(runs, "trl-kto", against=tmp_path / "a", policy=policy)
    assert not set(made.rows["task_id"]) & set(inventory["task_id"])
    held = inventory.filter(pl.col("split") == "test")
    rest = xc.dataset(runs, "trl-kto", against=held, policy=policy)
    # The packages are copies of each other, and which one stands for them may change.
    kept, old, gone = ({t for t in f["task_id"] if "/" in t} for f in (rest.rows, inventory, held))
    assert kept == old - gone
    assert kept
    assert gone


def test_a_held_out_set_that_cannot_be_read_ends_the_run(runs: Path, tmp_path: Path) -> None:
    bad = inputs.chats(tmp_path / "bad.jsonl", [{"colour": "red"}])
    for against in (tmp_path / "none.jsonl", bad):
        with pytest.raises(SourceError, match=against.name):
            write_datasets(runs, ["trl-sft"], tmp_path / "ds", against=[against], processes=1)
    assert [p.name for p in tmp_path.iterdir()] == ["bad.jsonl"]
    renamed = xc.dataset(runs, "trl-sft", against=bad, columns={"prompt": "colour"})
    assert len(renamed) == len(xc.dataset(runs, "trl-sft"))
