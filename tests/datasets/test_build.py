"""Whole datasets from one compile: every target, the books, equal bytes however they are made, and how they grow."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import polars as pl
import pytest

import expcomp as xc
from expcomp.datasets.build import resolve_targets, write_datasets
from expcomp.datasets.options import DatasetOptions
from expcomp.datasets.verify import is_dataset, verify_dataset
from expcomp.errors import OutputError, SourceError, UsageError
from expcomp.tables.datasets import DATASET_TABLES
from expcomp.tables.targets import GROUPS, TARGETS
from tests.datasets import inputs
from tests.datasets.conftest import Made
from tests.helpers import put, tree

SOME = ("trl-sft-pc", "trl-kto", "trl-prm", "nemo-rl-grpo")
HALVES = DatasetOptions(splits=(("train", 0.6), ("test", 0.4)))


# -- every target ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_is_built_in_its_forms_from_the_one_compile(name: str, everything: Made) -> None:
    target = TARGETS[name]
    config = everything.config(target.config)
    assert config["rows"] > 0
    assert config["columns"] == list(target.columns)
    names = {f"data/{target.config}/{s}-00000-of-00001.{e}" for s in ("train", "test") for e in target.files}
    assert {f["path"] for f in config["files"]} == names
    if "jsonl" in target.files:
        rows = [
            *inputs.lines(everything.folder, target.config),
            *inputs.lines(everything.folder, target.config, "test"),
        ]
        assert len(rows) == config["rows"]
        assert all(set(r) <= set(target.columns) for r in rows)
    if "parquet" in target.files:
        frame = pl.read_parquet(everything.folder / "data" / target.config / "*.parquet")
        assert (frame.height, frame.columns) == (config["rows"], list(target.columns))


@pytest.mark.parametrize("name", TARGETS)
def test_every_candidate_is_a_row_or_left_out_with_a_reason(name: str, everything: Made) -> None:
    config = everything.config(TARGETS[name].config)
    at = pl.col("config") == config["config"]
    index, left = (inputs.side(everything.folder, n).filter(at) for n in ("row_index", "left_out"))
    assert config["candidates"] == config["rows"] + sum(config["left"].values())
    assert (index.height, left.height) == (config["rows"], sum(config["left"].values()))
    assert dict(left["reason"].value_counts().iter_rows()) == config["left"]
    assert dict(index["split"].value_counts().iter_rows()) == config["splits"]
    assert not set(index["row_id"]) & set(left["row_id"])
    assert index["row_id"].is_unique().all()


def test_targets_of_a_kind_have_the_same_candidates(everything: Made) -> None:
    def names(config: str) -> set[str]:
        at = pl.col("config") == config
        return {r for n in ("row_index", "left_out") for r in inputs.side(everything.folder, n).filter(at)["row_id"]}

    for kind in {t.kind for t in TARGETS.values()}:
        assert len({frozenset(names(t.config)) for t in TARGETS.values() if t.kind == kind}) == 1


@pytest.mark.parametrize("name", [n for n, t in TARGETS.items() if "jsonl" in t.files and "row_id" in t.columns])
def test_the_index_says_where_each_row_stands(name: str, everything: Made) -> None:
    config = TARGETS[name].config
    index = inputs.side(everything.folder, "row_index").filter(pl.col("config") == config)
    for split in ("train", "test"):
        own = index.filter(pl.col("split") == split).sort("position")
        assert own["position"].to_list() == list(range(own.height))
        assert own["row_id"].to_list() == inputs.ids(everything.folder, config, split)


def test_side_tables_are_of_their_declared_types_and_hold_their_keys(everything: Made) -> None:
    for name, table in DATASET_TABLES.items():
        frame = inputs.side(everything.folder, name)
        assert frame.schema == table.schema
        assert all(frame[n].null_count() == 0 for n, c in table.columns.items() if not c.nullable)
        if table.keys:
            assert frame.select(table.keys).is_unique().all()


def test_the_inventory_has_every_task_once_with_all_of_its_rows(everything: Made) -> None:
    inventory, index = (inputs.side(everything.folder, n) for n in ("inventory", "row_index"))
    assert inventory["task_id"].is_unique().all()
    assert set(inventory["task_id"]) == set(index["task_id"])
    assert inventory["n_rows"].sum() == index.height
    known = inventory.filter(pl.col("task_id") == "tau_bench/retail/3").row(0, named=True)
    assert known["instruction"] == "You want money back for W-3."
    assert known["content_digest"].startswith("sha256:")


def test_rows_of_a_task_are_in_one_split_over_all_configs(everything: Made) -> None:
    index = inputs.side(everything.folder, "row_index")
    assert index.group_by("task_id").agg(pl.col("split").n_unique())["split"].max() == 1


def test_trainers_stand_for_all_of_their_targets() -> None:
    assert [t.name for t in resolve_targets(["verl"])] == ["verl-rl", "verl-sft"]
    assert [t.name for t in resolve_targets(["trl-dpo", "trl-sft", "trl-dpo"])] == ["trl-sft", "trl-dpo"]
    assert {t.name for t in resolve_targets(list(GROUPS))} == set(TARGETS)


# -- verify -----------------------------------------------------------------------------------------------------------------


def test_a_dataset_verifies(everything: Made, runs: Path) -> None:
    found = verify_dataset(everything.folder)
    assert (found.problems, found.ok) == ([], True)
    named = [*everything.manifest["tables"], *everything.manifest["documents"]]
    assert found.files == len(named) + sum(len(c["files"]) for c in everything.manifest["configs"])
    assert is_dataset(everything.folder)
    assert not is_dataset(runs)


@pytest.fixture
def small(runs: Path, tmp_path: Path) -> Path:
    write_datasets(runs, ["trl-dpo", "verl-rl"], tmp_path / "ds", processes=1)
    return tmp_path / "ds"


def test_one_changed_byte_is_found_in_any_file(small: Path) -> None:
    names = [f"{n}.parquet" for n in DATASET_TABLES]
    names += [f.relative_to(small).as_posix() for f in sorted((small / "data").rglob("*-of-*"))]
    assert len(names) == 7
    for name in names:
        data = (small / name).read_bytes()
        for at in (0, len(data) // 2, len(data) - 1):
            (small / name).write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
            problems = verify_dataset(small).problems
            assert problems
            assert all(p.startswith(f"{name}: ") or name == "inventory.parquet" for p in problems), problems
        (small / name).write_bytes(data)
    assert verify_dataset(small).ok


def test_what_is_gone_and_what_is_new_is_named(small: Path) -> None:
    (small / "row_index.parquet").unlink()
    (small / "croissant.json").unlink()
    (small / "data/dpo/train-00000-of-00001.jsonl").rename(small / "data/dpo/extra.jsonl")
    assert verify_dataset(small).problems == [
        "croissant.json: listed in manifest.json, but not there",
        "data/dpo/train-00000-of-00001.jsonl: listed in manifest.json, but not there",
        "row_index.parquet: listed in manifest.json, but not there",
        "data/dpo/extra.jsonl: not listed in manifest.json",
    ]


def test_a_manifest_that_was_changed_says_so(small: Path) -> None:
    manifest = json.loads((small / "manifest.json").read_text("utf-8"))
    manifest["configs"][0]["rows"] -= 1
    put(small / "manifest.json", manifest)
    assert any(p.startswith("manifest.json: ") for p in verify_dataset(small).problems)
    put(small / "manifest.json", {"configs": []})
    with pytest.raises(SourceError, match=r"manifest\.json has no usable"):
        verify_dataset(small)


# -- equal bytes ------------------------------------------------------------------------------------------------------------


def test_runs_with_any_number_of_workers_give_equal_bytes(runs: Path, tmp_path: Path) -> None:
    for out, names, n in (("one", SOME, 1), ("again", SOME[::-1], 1), ("two", SOME, 2)):
        write_datasets(runs, names, tmp_path / out, options=HALVES, processes=n)
    assert tree(tmp_path / "again") == tree(tmp_path / "one")
    assert tree(tmp_path / "two") == tree(tmp_path / "one")


def test_what_else_is_built_does_not_show_in_the_files_of_a_config(
    runs: Path, everything: Made, tmp_path: Path
) -> None:
    write_datasets(runs, SOME, tmp_path / "some", options=HALVES, processes=1)
    for config in (TARGETS[n].config for n in SOME):
        assert tree(tmp_path / "some/data" / config) == tree(everything.folder / "data" / config)


# One of each kind and form. Four trainers bear the name of their own first target, and stand for all of their targets.
FORMS = {(t.kind, t.profile): n for n, t in TARGETS.items() if GROUPS.get(n, (n,)) == (n,)}


@pytest.mark.parametrize("name", FORMS.values())
def test_a_dataset_in_memory_writes_the_same_folder(name: str, runs: Path, tmp_path: Path) -> None:
    about = {"name": "gauges", "license": "mit", "url": "https://example.org/gauges", "date": "2026-01-02"}
    first = write_datasets(runs, [name], tmp_path / "a", options=HALVES, about=about, processes=1)
    made = xc.dataset(runs, name, options=HALVES)
    assert made.write(tmp_path / "b", about=about) == first
    assert tree(tmp_path / "b") == tree(tmp_path / "a")
    assert {p.name for p in tmp_path.iterdir()} == {"a", "b"}
    assert verify_dataset(tmp_path / "b").ok


@pytest.mark.parametrize("name", [n for n in TARGETS if GROUPS.get(n, (n,)) != (n,)])
def test_of_a_trainer_with_several_targets_one_can_be_made_in_memory(
    name: str, runs: Path, everything: Made, tmp_path: Path
) -> None:
    xc.dataset(runs, name, options=HALVES).write(tmp_path / "b")
    place = Path("data") / TARGETS[name].config
    assert tree(tmp_path / "b" / place) == tree(everything.folder / place)


def test_a_compilation_in_memory_gives_the_rows_of_its_folder(runs: Path) -> None:
    a, b = xc.dataset(runs, "trl-dpo"), xc.dataset(xc.open_compilation(runs), "trl-dpo")
    assert a.frame.equals(b.frame)


def test_the_folder_of_the_compile_and_its_place_do_not_show(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs, tmp_path / "elsewhere/moved")
    for source, out in ((runs, "a"), (tmp_path / "elsewhere/moved", "b")):
        write_datasets(source, SOME, tmp_path / out, processes=1)
    assert tree(tmp_path / "a") == tree(tmp_path / "b")
    assert inputs.holds(tmp_path / "a", str(tmp_path)) == []


# -- growth -----------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def grown(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compile of the same runs with tasks and attempts on top."""
    folder = tmp_path_factory.mktemp("grown")
    inputs.source(folder / "in")
    put(folder / "in/more/gpt-x-retail.json", inputs.trials([0, 5, *range(8, 14)], [4, 5]))
    return inputs.compiled(folder / "in", folder / "out")


def test_growth_moves_no_task_and_keeps_the_order_of_old_rows(runs: Path, grown: Path, tmp_path: Path) -> None:
    # Caps make room for better rows; here nothing is capped, so that old rows stay.
    loose = DatasetOptions(splits=HALVES.splits, max_attempts=99, max_pairs=999, class_ratio=99.0)
    old_out, new_out = tmp_path / "old", tmp_path / "new"
    write_datasets(runs, ["trl"], old_out, options=loose, processes=1)
    write_datasets(grown, ["trl"], new_out, options=loose, processes=1)
    old, new = (inputs.side(f, "inventory").select("task_id", "group", "split") for f in (old_out, new_out))
    assert old.join(new, on=old.columns, how="anti").is_empty()
    assert new.height > old.height
    for config in ("sft", "sft_pc", "dpo", "reward", "grpo", "prm"):
        for split in ("train", "test"):
            before, after = (inputs.ids(f, config, split) for f in (old_out, new_out))
            both = set(before) & set(after)
            assert both
            assert _turned([r for r in before if r in both], [r for r in after if r in both])


def _turned(before: list[str], after: list[str]) -> bool:
    """Whether one is the other, begun elsewhere: a file begins at a row that shows all keys, and goes round from there."""
    at = after.index(before[0])
    return before == after[at:] + after[:at]


# -- what cannot be built ---------------------------------------------------------------------------------------------------


def test_what_is_wrong_is_told_before_anything_is_written(runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "ds"
    with pytest.raises(UsageError, match="there is no target 'trl-sftt'; known are trl-sft, "):
        write_datasets(runs, ["trl-sftt"], out)
    with pytest.raises(SourceError, match="nowhere"):
        write_datasets(tmp_path / "nowhere", ["trl-sft"], out)
    for place in (runs, runs / "ds", runs / "rows/ds", runs.parent):
        with pytest.raises(UsageError, match="inside each other"):
            write_datasets(runs, ["trl-sft"], place, force=True)
    assert not out.exists()
    out.mkdir()
    with pytest.raises(OutputError, match="exists"):
        write_datasets(runs, ["trl-sft"], out)
    put(out / "mine.txt", "mine")
    with pytest.raises(OutputError, match="something else"):
        write_datasets(runs, ["trl-sft"], out, force=True)
    assert [p.name for p in tmp_path.iterdir()] == ["ds"]
    assert [p.name for p in out.iterdir()] == ["mine.txt"]


def test_a_compile_of_a_version_with_other_columns_is_told(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs, tmp_path / "old")
    manifest = json.loads((runs / "manifest.json").read_text("utf-8"))
    entry = next(f for f in manifest["files"] if f["path"] == "rows/preference_pair.parquet")
    entry["schema_digest"] = "sha256:0"
    put(tmp_path / "old" / "manifest.json", manifest)
    with pytest.raises(SourceError, match=r"preference_pair\.parquet has other columns .* compile again"):
        write_datasets(tmp_path / "old", ["trl-dpo"], tmp_path / "out")


def test_a_compile_that_lacks_a_file_says_which(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs, tmp_path / "in")
    (tmp_path / "in/rows/preference_pair.parquet").unlink()
    with pytest.raises(SourceError, match=r"preference_pair.parquet"):
        write_datasets(tmp_path / "in", ["trl-dpo"], tmp_path / "ds", processes=1)
    (tmp_path / "in/tables/tasks.parquet").unlink()
    with pytest.raises(SourceError, match=r"tasks.parquet"):
        write_datasets(tmp_path / "in", ["trl-dpo"], tmp_path / "ds", processes=1)
    assert [p.name for p in tmp_path.iterdir()] == ["in"]


def test_an_output_is_replaced_when_told_and_stays_when_a_run_fails(runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "ds"
    write_datasets(runs, ["trl-dpo"], out, processes=1)
    before = tree(out)
    with pytest.raises(SourceError):
        write_datasets(runs, ["trl-sft"], out, against=[tmp_path / "nothing.jsonl"], force=True, processes=1)
    assert tree(out) == before
    write_datasets(runs, ["trl-sft"], out, force=True, processes=1)
    assert [p.name for p in (out / "data").iterdir()] == ["README.md", "sft"] or (out / "data/sft").is_dir()
    assert [p.name for p in tmp_path.iterdir()] == ["ds"]


def test_a_config_without_rows_is_not_written_and_its_candidates_are_told(runs: Path, tmp_path: Path) -> None:
    options = DatasetOptions(min_margin=1.0, pass_rate=(0.96, 0.99))
    manifest = write_datasets(runs, ["trl-grpo", "trl-kto"], tmp_path / "ds", options=options, processes=1)
    empty, full = (next(c for c in manifest["configs"] if c["config"] == n) for n in ("grpo", "kto"))
    assert (empty["rows"], empty["files"], empty["splits"]) == (0, [], {})
    assert empty["candidates"] == sum(empty["left"].values()) > 0
    assert full["rows"] > 0
    assert not (tmp_path / "ds/data/grpo").exists()
    assert verify_dataset(tmp_path / "ds").ok
    assert "config_name: grpo" not in (tmp_path / "ds/README.md").read_text("utf-8")


def test_a_dataset_of_nothing_at_all_is_still_a_dataset(runs: Path, tmp_path: Path) -> None:
    options = DatasetOptions(pass_rate=(0.96, 0.99))
    first = write_datasets(runs, ["trl-grpo"], tmp_path / "a", options=options, processes=1)
    made = xc.dataset(runs, "trl-grpo", options=options)
    made.write(tmp_path / "b")
    assert (len(made), first["configs"][0]["rows"]) == (0, 0)
    assert tree(tmp_path / "a") == tree(tmp_path / "b")
    assert verify_dataset(tmp_path / "a").ok


def test_a_family_without_rows_is_a_config_without_rows(tmp_path: Path) -> None:
    put(tmp_path / "in/gpt-x-retail.json", [inputs.trial(1, 0, passed=True)])
    source = inputs.compiled(tmp_path / "in", tmp_path / "out")
    manifest = write_datasets(source, list(TARGETS), tmp_path / "ds", processes=1)
    rows = {c["config"]: (c["rows"], c["candidates"]) for c in manifest["configs"]}
    assert rows["dpo"] == rows["llama-factory-dpo"] == (0, 0)
    assert rows["sft"] == rows["nemo-rl"] == (1, 1)
    assert verify_dataset(tmp_path / "ds").ok
    for name in ("trl-dpo", "trl-grpo", "trl-sft"):
        write_datasets(source, [name], tmp_path / f"{name}.a", processes=1)
        xc.dataset(source, name).write(tmp_path / f"{name}.b")
        assert tree(tmp_path / f"{name}.a") == tree(tmp_path / f"{name}.b")
