"""The dataset card: front matter that types the files, numbers in the body, a recipe for every target."""

from __future__ import annotations

import re
from typing import Any

import pytest

from expcomp.datasets.card import card, front_matter, twin_card
from expcomp.datasets.options import DatasetOptions
from expcomp.datasets.recipes import RECIPES, dataset_info, recipe, trainer
from expcomp.tables.targets import TARGETS


def config(target: str, kinds: tuple[str, ...] | None = None, **more: Any) -> dict[str, Any]:
    name = TARGETS[target].config
    files = [
        {
            "path": f"data/{name}/{s}-00000-of-00001.{k}",
            "split": s,
            "rows": 2,
            "bytes": 10,
            "sha256": "sha256:" + "0" * 64,
        }
        for k in kinds or TARGETS[target].files
        for s in ("train", "test")
    ]
    splits = {"train": 900, "test": 100}
    return {"config": name, "target": target, "rows": 1000, "splits": splits, "files": files, "left": {}} | more


def manifest(*configs: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"configs": list(configs)} | more


def features(target: str) -> dict[str, Any]:
    (made,) = front_matter(manifest(config(target)))["dataset_info"]
    return {f["name"]: f for f in made["features"]}


def test_arguments_are_json_in_the_typed_form_and_text_in_the_plain_one() -> None:
    def arguments(target: str) -> str:
        calls = next(f for f in features(target)["messages"]["list"] if f["name"] == "tool_calls")
        function = next(f for f in calls["list"] if f["name"] == "function")
        return next(f["dtype"] for f in function["struct"] if f["name"] == "arguments")

    assert arguments("trl-sft") == arguments("prime-rl") == arguments("nemo-rl") == "json"
    assert arguments("ms-swift") == arguments("axolotl") == "string"


def test_types_of_other_columns() -> None:
    assert features("trl-prm")["labels"] == {"name": "labels", "list": "bool"}
    assert features("trl-reward")["margin"] == {"name": "margin", "dtype": "float64"}
    assert features("verl-rl")["reward_model"]["struct"][0] == {"name": "style", "dtype": "string"}
    assert features("nemo-rl")["tools"] == {"name": "tools", "list": "json"}


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_has_features_for_its_columns_and_a_recipe(target: str) -> None:
    assert list(features(target)) == list(TARGETS[target].columns)
    made = recipe(config(target), "DIR")
    assert "$" not in made.text
    assert trainer(target)
    assert set(RECIPES) == set(TARGETS)


def test_a_readme_is_about_one_format_and_the_twins_have_their_own() -> None:
    made = manifest(config("trl-sft"), config("nemo-rl"))
    (only,) = front_matter(made)["configs"]
    assert only["config_name"] == "sft"
    assert only["data_files"] == [
        {"split": "train", "path": "data/sft/train-*.parquet"},
        {"split": "test", "path": "data/sft/test-*.parquet"},
    ]
    twin = twin_card(made)
    assert twin is not None
    assert "path: sft/train-*.jsonl" in twin
    assert "config_name: nemo-rl" in twin


def test_a_dataset_of_one_format_has_one_readme() -> None:
    assert twin_card(manifest(config("nemo-rl"))) is None
    assert twin_card(manifest(config("trl-sft", ("parquet",)))) is None
    assert front_matter(manifest(config("nemo-rl")))["configs"][0]["data_files"][0]["path"].endswith(".jsonl")


@pytest.mark.parametrize(
    ("rows", "size"), [(0, "n<1K"), (1000, "1K<n<10K"), (99_999, "10K<n<100K"), (10**6, "1M<n<10M"), (10**8, "n>10M")]
)
def test_size_category(rows: int, size: str) -> None:
    assert front_matter(manifest(config("trl-sft", rows=rows)))["size_categories"] == [size]


def test_front_matter_is_yaml() -> None:
    yaml = pytest.importorskip("yaml")
    made = manifest(*(config(t) for t in TARGETS), license="custom: yes # no", name="Ω")
    assert yaml.safe_load(card(made).split("---\n")[1]) == front_matter(made)


def test_body_tells_what_is_known() -> None:
    statistics = {
        "system": 3,
        "tools": 5,
        "labels": {"true": 100, "false": 300},
        "verifiers": {"pytest": 400},
        "tokens": {"median": 900, "max": 5000, "over": {"4096": 0.25}, "keep": {"95": 4000, "100": 5000}},
        "templates": {"Llama 3.1": 7},
        "chosen_longer": 0.5,
        "length_correlation": -0.01,
    }
    options = DatasetOptions(tokenizer="/home/someone/tok", system="x" * 200).to_dict()
    text = card(
        manifest(
            config("trl-kto", statistics=statistics, left={"no|verdict": 3, "<b>": 1}),
            options=options,
            decontamination={"heldout_tasks": 12, "reports": {"dropped": 3}},
            digest="sha256:" + "1" * 64,
        )
    )
    for words in (
        "good 3.0, bad 1.0",
        "3 of 1,000 rows have a system prompt",
        "5 of 1,000 rows have tool schemas",
        "pytest 400",
        "25.0% over 4k",
        "Llama 3.1 7",
        "in 50.0% of the pairs",
        "-0.010",
        r"no\|verdict",
        "&lt;b>",
        "12 held-out tasks: 3 dropped",
        "parse_agent_traces=False",
        "datasets` 4.7",
        ".ext.storage()",
        "desirable_weight=3.0",
        "max_length=5000",
        "`min_margin` | 0.5",
    ):
        assert words in text, words
    assert "/home" not in text
    assert "x" * 81 not in text


def test_an_empty_dataset_still_has_a_card() -> None:
    empty = config("trl-sft") | {"rows": 0, "splits": {}, "files": []}
    assert "Nothing was left out" in card(manifest(empty))
    assert front_matter(manifest(empty))["configs"] == []


def test_equal_input_gives_equal_text() -> None:
    made = manifest(*(config(t) for t in TARGETS))
    assert card(made) == card(made)


def test_dataset_info_names_one_file_an_entry() -> None:
    many = config("llama-factory-dpo")
    many["files"] = [
        {"path": f"data/llama-factory-dpo/train-0000{i}-of-00002.parquet", "split": "train"} for i in range(2)
    ]
    made = dataset_info([config("trl-sft"), config("llama-factory"), many])
    assert made["llama-factory"] == {
        "file_name": "data/llama-factory/train-00000-of-00001.parquet",
        "formatting": "sharegpt",
        "columns": {"messages": "conversations", "system": "system", "tools": "tools"},
    }
    assert set(made) == {"llama-factory", "llama-factory-test", "llama-factory-dpo-00000", "llama-factory-dpo-00001"}
    assert made["llama-factory-dpo-00001"]["ranking"] is True
    assert "llama-factory-dpo-00000,llama-factory-dpo-00001" in recipe(many).text


@pytest.mark.parametrize("target", TARGETS)
def test_a_recipe_trains_on_the_train_split_wherever_it_stands(target: str) -> None:
    told = config(target, splits={"test": 100, "train": 900})
    text = recipe(told).text
    # LLaMA-Factory names an entry of dataset_info.json, which names the file.
    text += "".join(e["file_name"] for name, e in dataset_info([told]).items() if f"dataset: {name}\n" in text)
    assert "train-00000" in text or "train" in re.findall(r"[A-Za-z]+", text)
    assert "test-00000" not in text
    assert not re.search(r"split\W+test", text)
