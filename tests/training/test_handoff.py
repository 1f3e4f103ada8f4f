"""From a dataset folder to the dataset of a run: tasks, partitions, and what stays held out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

from expcomp.cli.main import app
from expcomp.datasets.decontaminate.heldout import held_out
from expcomp.errors import SourceError, UsageError
from expcomp.training.checks import DatasetError
from expcomp.training.dataset import read_dataset
from expcomp.training.documents import document_bytes
from expcomp.training.handoff import training_rows
from expcomp.training.run.spec import read_run
from expcomp.training.run.spec_text import execution_ref, option_value
from tests.training.made import PAYLOADS, profile, sha

SPLITS = {"a": "train", "b": "train", "c": "validation", "d": "test"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A dataset folder in what is read of it; task `a` has two rows."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for name, split in (("a", "train"), ("a", "train"), *list(SPLITS.items())[1:]):
        rows.setdefault(split, []).append(PAYLOADS["sft"] | {"task_id": f"bench/{name}", "row_id": name})
    data = tmp_path / "ds" / "data" / "sft"
    data.mkdir(parents=True)
    for split, lines in rows.items():
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (data / f"{split}-00000-of-00001.jsonl").write_text(text)
    columns = {
        "benchmark": "bench",
        "task": list(SPLITS),
        "task_id": [f"bench/{n}" for n in SPLITS],
        "content_digest": [sha(n) for n in SPLITS],
        "instruction": "Count.",
        "split": list(SPLITS.values()),
    }
    pl.DataFrame(columns).write_parquet(tmp_path / "ds" / "inventory.parquet")
    return tmp_path / "ds"


def test_rows_have_their_tasks_and_the_other_splits_are_held_out(folder: Path) -> None:
    found = training_rows(folder, "sft", validation="validation")
    assert found.rows["task"].to_list() == ["a", "a", "b", "c"]
    assert found.rows["partition"].to_list() == ["train"] * 3 + ["validation"]
    assert found.rows["row"].to_list() == [0, 1, 2, 3]
    assert found.rows["content_digest"][0] == sha("a")
    assert json.loads(found.rows["data"][0])["row_id"] == "a"
    assert found.heldout["task"].to_list() == ["d"]
    assert training_rows(folder, "sft").heldout["task"].to_list() == ["c", "d"]


def test_the_command_writes_what_a_run_takes(folder: Path, tmp_path: Path) -> None:
    args = [str(folder), "--out", str(tmp_path / "train.json"), "--heldout", str(tmp_path / "held.parquet"), "--json"]
    result = CliRunner().invoke(app, ["train", "prepare", *args])
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    dataset = read_dataset(tmp_path / "train.json", expected_digest=told["digest"])
    assert (dataset.kind, dataset.rows.height, told["heldout_tasks"]) == ("sft", 3, 2)
    assert held_out(tmp_path / "held.parquet")["task"].to_list() == ["c", "d"]


def test_a_spec_of_the_packaged_trainer_is_ready_to_run(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "profile.json").write_bytes(document_bytes(profile()))
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "weights").write_bytes(b"w")
    args = [str(folder), "--out", str(tmp_path / "train.json"), "--heldout", str(tmp_path / "held.parquet")]
    args += ["--spec", str(tmp_path / "train.toml"), "--model", str(tmp_path / "base"), "--option", "max_steps=2"]
    assert isinstance(CliRunner().invoke(app, ["train", "prepare", *args]).exception, UsageError)
    args += ["--profile", str(tmp_path / "profile.json"), "--usd-per-hour", "0.36"]
    result = CliRunner().invoke(app, ["train", "prepare", *args])
    assert result.exit_code == 0, result.output
    parent, options = read_run(tmp_path / "train.toml")
    assert parent == profile()
    assert options.parameters["options"]["max_steps"] == 2
    assert options.dataset == tmp_path / "train.json"
    assert options.heldout is not None
    assert options.heldout.sources == [tmp_path / "held.parquet"]
    assert options.costs is not None
    assert options.costs.nanos_per_second == 100_000
    assert options.execution_ref == execution_ref()
    assert [option_value(t) for t in ("x", "true", "2")] == ["x", True, 2]
    wrong = CliRunner().invoke(app, ["train", "prepare", *args, "--force", "--option", "max_steps"]).exception
    assert isinstance(wrong, UsageError)
    assert "NAME=VALUE" in str(wrong)


def test_what_cannot_be_handed_on_is_named(folder: Path) -> None:
    for config, splits, error, named in (
        ("grpo", {}, UsageError, "sft or dpo"),
        ("sft", {"validation": "train"}, UsageError, "train"),
        ("sft", {"train": "none"}, SourceError, "none-"),
        ("dpo", {}, SourceError, "dpo"),
    ):
        with pytest.raises(error, match=named):
            training_rows(folder, config, **splits)
    file = folder / "data" / "sft" / "train-00000-of-00001.jsonl"
    file.write_text(file.read_text().replace("bench/b", "bench/x"))
    with pytest.raises(SourceError, match="bench/x"):
        training_rows(folder, "sft")
    whole = json.dumps(PAYLOADS["sft"] | {"task_id": "bench/a"})
    file.write_text(f"{whole}\n{whole}")
    assert training_rows(folder, "sft").rows.height == 2
    file.write_text(f"{whole}\n{whole[:-9]}")
    with pytest.raises(DatasetError, match="row 1"):
        training_rows(folder, "sft")
    file.write_text(json.dumps(PAYLOADS["sft"] | {"task_id": "bench/a", "n": 2**60}) + "\n")
    with pytest.raises(DatasetError, match=r"row 0.*not_canonicalizable"):
        training_rows(folder, "sft")
    pl.DataFrame({"task_id": ["x"]}).write_parquet(folder / "inventory.parquet")
    with pytest.raises(SourceError, match="benchmark"):
        training_rows(folder, "sft")
