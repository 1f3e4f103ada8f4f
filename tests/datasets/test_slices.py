"""Slices and shards: a family cut small gives the rows of the family whole, in one order, under the right names."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from expcomp.datasets import shards, stage
from expcomp.datasets.build import write_datasets
from expcomp.datasets.options import DatasetOptions
from expcomp.datasets.registry import KINDS
from expcomp.datasets.verify import verify_dataset
from expcomp.io.parts import row_groups
from expcomp.tables.targets import TARGETS
from tests.datasets import inputs
from tests.datasets.conftest import Made
from tests.helpers import tree

HALVES = DatasetOptions(splits=(("train", 0.6), ("test", 0.4)))
ONE_EACH = ("trl-sft-pc", "trl-dpo", "trl-kto", "trl-prm", "axolotl", "nemo-rl-grpo", "nemo-rl-dpo", "world-model")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Sets how much a slice, a bucket and a shard hold."""

    def cut(
        *,
        read: int = 9_000,
        piece: int = 20_000,
        bucket: int = 30_000,
        shard: int = 3_000,
        chunk: int = 400,
        row: int = 0,
    ) -> None:
        monkeypatch.setattr(stage, "SLICE", read)
        monkeypatch.setattr(stage, "_CHUNK", piece)
        monkeypatch.setattr(stage, "BUCKET", bucket)
        monkeypatch.setattr(shards, "SHARD", shard)
        monkeypatch.setattr(shards, "ROW", row)
        monkeypatch.setattr(shards, "_CHUNK", chunk)

    return cut


@pytest.fixture(scope="module")
def grouped(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compile with row groups of three rows, so that a small input has many slices."""
    out = tmp_path_factory.mktemp("grouped") / "out"
    inputs.copy(runs, out)
    for path in sorted((out / "rows").glob("*.parquet")):
        pl.read_parquet(path).write_parquet(path, row_group_size=3)
    assert len(row_groups(out / "rows/training_example.parquet")) > 3
    return out


def test_cut_small_in_every_way_the_rows_and_the_books_are_the_same(
    grouped: Path, everything: Made, small: Callable[..., None], tmp_path: Path
) -> None:
    small(shard=500)
    out = tmp_path / "ds"
    made = Made(out, write_datasets(grouped, ONE_EACH, out, options=HALVES, processes=1))
    assert verify_dataset(out).ok
    configs = [TARGETS[n].config for n in ONE_EACH]
    for name in ("left_out", "row_index"):
        want = inputs.side(everything.folder, name).filter(pl.col("config").is_in(configs))
        assert inputs.side(out, name).equals(want), name
    for target in (TARGETS[n] for n in ONE_EACH):
        config = made.config(target.config)
        # NeMo-RL opens one file a set.
        many = not target.name.startswith("nemo")
        assert (len(config["files"]) > 2 * len(target.files)) == many, target.name
        assert config | {"files": []} == everything.config(target.config) | {"files": []}
        for split in ("train", "test"):
            for ending in target.files:
                a, b = (_whole(f, target.config, split, ending) for f in (out, everything.folder))
                assert a == b, (target.name, split, ending)


def _whole(folder: Path, config: str, split: str, ending: str) -> object:
    files = sorted((folder / "data" / config).glob(f"{split}-*.{ending}"))
    if ending == "jsonl":
        return "".join(f.read_text("utf-8") for f in files)
    return (
        pl.concat(pl.read_parquet(f) for f in files)
        .select(pl.struct(pl.all()).struct.json_encode())
        .to_series()
        .to_list()
    )


@pytest.mark.parametrize("kind", ["conversation", "turn", "pair"])
def test_slices_alone_do_not_show_in_any_byte(
    kind: str, grouped: Path, small: Callable[..., None], tmp_path: Path
) -> None:
    name = next(t.name for t in TARGETS.values() if t.kind == kind)
    write_datasets(grouped, [name], tmp_path / "a", options=HALVES, processes=1)
    small(shard=shards.SHARD, chunk=shards._CHUNK, row=shards.ROW)
    write_datasets(grouped, [name], tmp_path / "b", options=HALVES, processes=1)
    assert tree(tmp_path / "a") == tree(tmp_path / "b")


def test_shards_are_numbered_and_cut_by_their_bytes(grouped: Path, small: Callable[..., None], tmp_path: Path) -> None:
    small(shard=4_000)
    write_datasets(grouped, ["trl-sft-pc"], tmp_path / "ds", options=HALVES, processes=1)
    index = inputs.side(tmp_path / "ds", "row_index")
    for split in ("train", "test"):
        files = sorted((tmp_path / "ds/data/sft_pc").glob(f"{split}-*.jsonl"))
        n = len(files)
        assert n > 1
        assert [f.name for f in files] == [f"{split}-{i:05}-of-{n:05}.jsonl" for i in range(n)]
        assert {f.with_suffix(".parquet") for f in files} == set(files[0].parent.glob(f"{split}-*.parquet"))
        sizes, at = index.filter(pl.col("split") == split)["bytes"].to_list(), 0
        for file in files:
            rows = len(file.read_text("utf-8").splitlines())
            # A shard is full when its last row begins beyond its share.
            assert sum(sizes[at : at + rows - 1]) <= 4_000 + max(sizes)
            assert pl.read_parquet(file.with_suffix(".parquet")).height == rows
            at += rows
        assert at == len(sizes)


@pytest.mark.parametrize("name", ["process", "world"])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_no_slice_parts_the_steps_of_an_attempt(
    name: str, size: int, runs: Path, small: Callable[..., None], tmp_path: Path
) -> None:
    small()
    kind, path = KINDS[name], tmp_path / "family.parquet"
    frame = pl.read_parquet(runs / "rows" / f"{KINDS[name].family}.parquet")
    frame.write_parquet(path, row_group_size=size)
    jobs = stage.plan_stage(kind, path, tmp_path, 0)
    assert len(jobs) > 3
    assert sum(j.rows for j in jobs) == frame.height
    parts = [frame.slice(j.start, j.rows)["attempt_id"].unique().to_list() for j in jobs]
    named = [a for part in parts for a in part]
    assert len(named) == len(set(named)) == frame["attempt_id"].n_unique()
    assert all(re.fullmatch(r"\d+", str(j.number)) for j in jobs)
    assert len({j.number for j in jobs}) == len(jobs)


def test_a_family_that_is_one_attempt_is_one_slice(runs: Path, small: Callable[..., None], tmp_path: Path) -> None:
    small()
    frame = pl.read_parquet(runs / "rows/environment_response_pair.parquet").with_columns(attempt_id=pl.lit("a"))
    frame.write_parquet(tmp_path / "family.parquet", row_group_size=2)
    (job,) = stage.plan_stage(KINDS["world"], tmp_path / "family.parquet", tmp_path, 0)
    assert (job.start, job.rows) == (0, frame.height)
