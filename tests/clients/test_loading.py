"""A dataset folder as `datasets` and mlcroissant open it: by the card, as JSONL, streamed, beside other data."""

from __future__ import annotations

import hashlib
import json
from itertools import islice
from pathlib import Path

import pytest

from expcomp.tables.targets import TARGETS
from tests.clients.files import configs, features, lines, load, load_jsonl, paths, ten

BY_CONFIG = {t.config: t for t in TARGETS.values()}


def padded(value, feature):
    """A row of plain JSON with a null where the type has a key that the row has not; values of JSON stay as they are."""
    from datasets import Json, List

    if value is None or isinstance(feature, Json):
        return value
    if isinstance(feature, List):
        return [padded(v, feature.feature) for v in value]
    if isinstance(feature, dict):
        assert set(value) <= set(feature), set(value) - set(feature)
        return {k: padded(value.get(k), f) for k, f in feature.items()}
    return value


def test_the_card_names_what_is_there(dataset_dir):
    found = {p.name for p in (dataset_dir / "data").iterdir() if p.is_dir()}
    with_parquet = {c for c in found if paths(dataset_dir, c, "parquet")}
    assert with_parquet == set(configs(dataset_dir))
    assert {c for c in found if paths(dataset_dir, c, "jsonl")} == set(configs(dataset_dir / "data"))
    assert found <= set(BY_CONFIG)
    for config in found:
        ends = {end for end in ("parquet", "jsonl") if paths(dataset_dir, config, end)}
        assert ends == set(BY_CONFIG[config].files)


def test_parquet_loads_with_the_types_of_the_card(dataset_dir):
    for config in configs(dataset_dir):
        data = load(dataset_dir, config)
        assert len(data) > 0, config
        assert data.features == features(dataset_dir, config), config
        assert set(data.features) <= set(BY_CONFIG[config].columns), config
        assert not set(data.features) & BY_CONFIG[config].reserved, config


def test_jsonl_holds_the_same_rows_with_the_same_types(dataset_dir):
    for config in set(configs(dataset_dir)) & set(configs(dataset_dir / "data")):
        parquet, twin = load(dataset_dir, config), load_jsonl(dataset_dir, config)
        assert twin.features == parquet.features, config
        rows = parquet.to_list()
        assert ten(twin.to_list()) == ten(rows), config
        # A reader that knows nothing but JSON sees them too: a key that is absent is a null there.
        plain = [padded(r, dict(parquet.features)) for r in lines(dataset_dir, config)]
        assert ten(plain) == ten(rows), config


def test_jsonl_without_parquet_loads_too(dataset_dir):
    for config in set(configs(dataset_dir / "data")) - set(configs(dataset_dir)):
        data = load_jsonl(dataset_dir, config)
        assert len(data) == len(lines(dataset_dir, config)) > 0
        assert data.features == features(dataset_dir / "data", config)
        assert set(data.features) <= set(BY_CONFIG[config].columns)


def test_rows_can_be_streamed(dataset_dir):
    from datasets import load_dataset

    for config in configs(dataset_dir):
        stream = load_dataset(str(dataset_dir), config, split="train", streaming=True)
        assert stream.features == features(dataset_dir, config)
        assert list(islice(stream, 3)) == load(dataset_dir, config).to_list()[:3], config


@pytest.mark.parametrize("part", ["", "data"], ids=["parquet", "jsonl"])
def test_a_folder_that_was_built_anew_is_read_anew(build, tmp_path, part):
    """`datasets` finds what it has cached by the folder's name and the card's front matter: the card has to tell the rows."""
    want = {}
    for seed in ("a", "b", "c"):
        folder = build(tmp_path / seed / "one_name", "--to", "trl-sft", "--seed", seed)
        want[seed] = [r["row_id"] for r in lines(folder, "sft")]
        assert load(folder / part, "sft")["row_id"][:] == want[seed]
    # The seeds give the rows in different orders, or nothing was tried here.
    assert len(set(map(tuple, want.values()))) > 1


@pytest.mark.parametrize("config", ["sft", "verl-sft"])
def test_rows_stand_beside_those_of_other_people(dataset_dir, config):
    from datasets import Dataset, concatenate_datasets, interleave_datasets

    if config not in configs(dataset_dir):
        pytest.skip(f"no config {config}")
    ours = load(dataset_dir, config).select_columns(["messages"])
    other = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]
    if config == "sft":
        blank = {"reasoning_content": None, "tool_calls": None, "tool_call_id": None, "name": None}
        other = [m | blank for m in other]
    ordinary = Dataset.from_dict({"messages": [other] * 2}, features=ours.features)
    joined = concatenate_datasets([ordinary, ours])
    assert joined.to_list() == [{"messages": other}] * 2 + ours.to_list()
    mixed = interleave_datasets([ordinary, ours], stopping_strategy="all_exhausted")
    assert [m["content"] for m in mixed[0]["messages"]] == ["x", "y"]
    assert mixed[1] == ours[0]


def test_messages_of_other_people_are_cast(dataset_dir):
    from datasets import Dataset, concatenate_datasets

    if "openrlhf" not in configs(dataset_dir):
        pytest.skip("no config openrlhf")
    ours = load(dataset_dir, "openrlhf").select_columns(["messages"])
    # Types that `datasets` infers by itself, no features given.
    ordinary = Dataset.from_list([{"messages": [{"role": "user", "content": "x"}]}])
    assert len(concatenate_datasets([ordinary, ours])) == len(ours) + 1


def croissant(folder: Path):
    import mlcroissant

    if not (folder / "croissant.json").is_file():
        pytest.skip("no croissant.json")
    return mlcroissant.Dataset(jsonld=folder / "croissant.json")


def test_croissant_is_valid_and_gives_the_records(dataset_dir):
    data = croissant(dataset_dir)
    assert not data.metadata.ctx.issues.errors
    sets = {r.name: r for r in data.metadata.record_sets}
    with_parquet = {c for c in configs(dataset_dir) if paths(dataset_dir, c, "parquet")}
    assert with_parquet <= {name.split("/")[0] for name in sets}
    for config in sorted(with_parquet):
        (name,) = [n for n in sets if n.split("/")[0] == config]
        rows = load(dataset_dir, config)
        columns = {f.name.split("/")[-1] for f in sets[name].fields}
        assert columns <= set(rows.features), config
        records = list(islice(data.records(name), 3))
        assert len(records) == min(3, len(rows))
        for record, row in zip(records, rows, strict=False):
            got = {key.split("/")[-1]: value for key, value in record.items()}
            texts = {k: v.decode() if isinstance(v, bytes) else v for k, v in got.items() if isinstance(row[k], str)}
            assert texts == {k: row[k] for k in texts}


def test_croissant_digests_are_those_of_the_files(dataset_dir):
    croissant(dataset_dir)
    told = json.loads((dataset_dir / "croissant.json").read_text(encoding="utf-8"))
    files = [d for d in told["distribution"] if "sha256" in d]
    assert files
    for entry in files:
        assert not Path(entry["contentUrl"]).is_absolute()
        content = (dataset_dir / entry["contentUrl"]).read_bytes()
        assert hashlib.sha256(content).hexdigest() == entry["sha256"]
