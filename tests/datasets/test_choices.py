"""What a dataset may be told, from the compile to the files: splits, likeness, tokens, templates, what is supplied."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import expcomp as xc
from expcomp.datasets.build import write_datasets
from expcomp.datasets.options import DatasetOptions
from expcomp.datasets.verify import verify_dataset
from expcomp.errors import ConfigError
from expcomp.tables.family import CHAT
from tests.datasets import inputs
from tests.helpers import STEPS, edit, package

THIRDS = {"train": 0.5, "dev": 0.25, "test": 0.25}


# -- splits -----------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def repositories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tasks of six repositories, two each; those of a repository began a month after those of the one before."""
    folder = tmp_path_factory.mktemp("repositories")
    for i in range(12):
        owner = f"org{i // 2}"
        steps = [STEPS[0] | {"input": f"Fix bug {i} of {owner}."}, *STEPS[1:]]
        root = package(folder / "in", f"pkg_{i:02}", task_id=f"{owner}__tool-{100 + i}", steps=steps)
        for trace in root.glob("attempts/*/agent_trace.json"):
            edit(trace, lambda doc: doc | {"started_at": f"2026-{1 + i // 2:02}-03T00:00:00Z", "ended_at": None})  # noqa: B023
    return inputs.compiled(folder / "in", folder / "out")


def placed(made: xc.Dataset) -> dict[str, set[str]]:
    """Splits of each repository."""
    found: dict[str, set[str]] = {}
    for task, split in made.rows.select("task_id", "split").iter_rows():
        found.setdefault(task.rpartition("/")[2].partition("__")[0], set()).add(split)
    return found


def test_tasks_of_a_repository_share_a_split(repositories: Path) -> None:
    by_task = placed(xc.dataset(repositories, "trl-kto", splits=THIRDS, group="task", seed="a"))
    by_repo = placed(xc.dataset(repositories, "trl-kto", splits=THIRDS, group="repository", seed="a"))
    assert len(by_task) == len(by_repo) == 6
    assert max(map(len, by_task.values())) == 2
    assert max(map(len, by_repo.values())) == 1
    assert len({s for splits in by_repo.values() for s in splits}) > 1


def test_what_began_later_is_the_last_split(repositories: Path) -> None:
    made = xc.dataset(
        repositories, "trl-kto", splits={"train": 0.8, "test": 0.2}, group="repository", before="2026-04-01"
    )
    assert placed(made) == {f"org{i}": {"train" if i < 3 else "test"} for i in range(6)}
    with pytest.raises(ConfigError, match="before is 'spring'"):
        xc.dataset(repositories, "trl-kto", splits={"train": 0.8, "test": 0.2}, before="spring")


def test_the_seed_moves_tasks_and_rows(runs: Path) -> None:
    a, b = (xc.dataset(runs, "trl-kto", splits=THIRDS, seed=s) for s in ("a", "b"))
    assert a.rows["row_id"].to_list() != b.rows["row_id"].to_list()
    assert set(a.rows.select("task_id", "split").iter_rows()) != set(b.rows.select("task_id", "split").iter_rows())


def test_caps_and_bands_can_be_set(runs: Path) -> None:
    assert len(xc.dataset(runs, "trl-sft", max_attempts=1)) < len(xc.dataset(runs, "trl-sft"))
    per_task = xc.dataset(runs, "trl-dpo", max_pairs=1).rows["task_id"].value_counts()["count"]
    assert per_task.max() == 1
    assert len(xc.dataset(runs, "trl-grpo", pass_rate=(0.6, 0.9))) == 0
    assert "turn_without_loss" not in xc.dataset(runs, "trl-sft", mask_failed=False).reasons["reason"].to_list()


@pytest.mark.parametrize(
    "given",
    [
        {"max_attempts": 0},
        {"min_words": -1},
        {"min_margin": 1.1},
        {"max_pairs": 0},
        {"min_attempts": 0},
        {"class_ratio": 0.5},
        {"near": 3.0},
        {"tokenizer": "x", "max_tokens": 0},
        {"pass_rate": (0.9, 0.1)},
        {"length_ratio": (2.0, 0.5)},
        {"longer_share": (0.6, 0.4)},
        {"splits": (("train", 0.5), ("train", 0.5))},
        {"splits": ()},
        {"group": "colour"},
    ],
)
def test_values_that_make_no_sense_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"(option )?{list(given)[-1]} (is|are) "):
        DatasetOptions(**given)


def test_users_that_nobody_names_make_no_groups(repositories: Path) -> None:
    with pytest.raises(ConfigError, match="nothing in the compile names users"):
        xc.dataset(repositories, "trl-sft", group="user")


def test_users_are_taken_from_what_sources_say_of_a_task_or_an_attempt(runs: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(runs, tmp_path / "out")
    path = folder / "tables/tasks.parquet"
    tasks = pl.read_parquet(path)
    users = pl.Series("metadata", [json.dumps({"user_id": f"u{i % 2}"}) for i in range(tasks.height)])
    tasks.with_columns(users).write_parquet(path)
    made = xc.dataset(folder, "trl-sft-pc", group="user", splits=THIRDS)
    known = dict(zip(tasks["task_id"], users, strict=True))
    splits: dict[str, set[str]] = {}
    for task, split in zip(made.rows["task_id"], made.rows["split"], strict=True):
        splits.setdefault(known[task], set()).add(split)
    assert {len(s) for s in splits.values()} == {1}


# -- likeness ---------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def alike(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Passed runs of eight tasks; the agent says the same long words in all but the last two."""
    folder = tmp_path_factory.mktemp("alike")
    same = " ".join(f"word{i}" for i in range(300))
    rows = [inputs.trial(t, 0, passed=True, said=same if t < 6 else f"{t} only this") for t in range(8)]
    (folder / "in").mkdir()
    (folder / "in/gpt-x-retail.json").write_text(json.dumps(rows), "utf-8")
    return inputs.compiled(folder / "in", folder / "out")


@pytest.mark.parametrize("name", ["trl-sft", "trl-sft-pc"])
def test_of_rows_that_are_alike_one_stays_and_is_named(name: str, alike: Path, tmp_path: Path) -> None:
    pytest.importorskip("rensa")
    options = DatasetOptions(near=0.8, splits=(("train", 0.5), ("test", 0.5)))
    whole = xc.dataset(alike, name, options=DatasetOptions(splits=options.splits))
    made = xc.dataset(alike, name, options=options)
    gone = made.left_out.filter(pl.col("reason") == "near_duplicate")
    assert whole.left_out.filter(pl.col("reason") == "near_duplicate").is_empty()
    assert len(made) + gone.height == len(whole)
    # Of the six tasks one is left; the split named first has it when it has any of them.
    assert made.rows["task_id"].n_unique() == 3
    kept = {str(r) for r in made.rows["row_id"]}
    assert {d.split()[1].rstrip(",").partition("#")[0] for d in gone["detail"]} <= {k.partition("#")[0] for k in kept}
    write_datasets(alike, [name], tmp_path / "ds", options=options, processes=1)
    assert [
        *inputs.ids(tmp_path / "ds", made.target.config),
        *inputs.ids(tmp_path / "ds", made.target.config, "test"),
    ] == (
        made.rows.filter(pl.col("split") == "train")["row_id"].to_list()
        + made.rows.filter(pl.col("split") == "test")["row_id"].to_list()
    )


@pytest.mark.parametrize("name", ["trl-dpo", "trl-grpo", "trl-prm", "trl-kto", "world-model"])
def test_likeness_is_judged_for_every_kind(name: str, runs: Path) -> None:
    pytest.importorskip("rensa")
    made = xc.dataset(runs, name, near=0.8)
    whole = xc.dataset(runs, name)
    assert len(made) + made.left_out.height == len(whole) + whole.left_out.height
    assert 0 < len(made) <= len(whole)


# -- tokens and templates ---------------------------------------------------------------------------------------------------

CHATML = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls or [] %}"
    "{{ c.function.name }}({{ c.function.arguments | tojson }}){% endfor %}\n{% endfor %}"
)
STRICT = (
    "{% for m in messages %}{% if m.content == 'One more.' %}{{ raise_exception('no more') }}{% endif %}{% endfor %}"
)


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    """A tokenizer of words and signs, with a chat template."""
    pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    folder = tmp_path / "tokenizer"
    folder.mkdir()
    made.save(str(folder / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "[UNK]", "chat_template": CHATML}
    (folder / "tokenizer_config.json").write_text(json.dumps(config), "utf-8")
    return folder


def test_tokens_are_counted_and_rows_that_are_too_long_left_out(runs: Path, tokenizer: Path, tmp_path: Path) -> None:
    whole = DatasetOptions(tokenizer=str(tokenizer))
    manifest = write_datasets(runs, ["trl-sft-pc"], tmp_path / "a", options=whole, processes=1)
    counts = inputs.side(tmp_path / "a", "row_index")["tokens"]
    assert counts.null_count() == 0
    told = manifest["configs"][0]["statistics"]["tokens"]
    assert (told["rows"], told["min"], told["max"]) == (counts.len(), counts.min(), counts.max())
    limit = int(counts.median() or 0)  # type: ignore[arg-type]
    cut = DatasetOptions(tokenizer=str(tokenizer), max_tokens=limit)
    write_datasets(runs, ["trl-sft-pc"], tmp_path / "b", options=cut, processes=1)
    kept = inputs.side(tmp_path / "b", "row_index")["tokens"]
    left = inputs.side(tmp_path / "b", "left_out").filter(pl.col("reason") == "too_long")
    assert kept.max() == limit
    assert kept.len() == (counts <= limit).sum()
    assert all(int(d.split()[0]) > limit for d in left["detail"])
    assert verify_dataset(tmp_path / "b").ok


def test_a_limit_needs_a_tokenizer_that_is_there(runs: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="max_tokens needs a tokenizer"):
        xc.dataset(runs, "trl-sft", max_tokens=9)
    pytest.importorskip("transformers")
    with pytest.raises(ConfigError, match="no tokenizer"):
        xc.dataset(runs, "trl-sft", tokenizer=str(tmp_path / "none"))


def test_rows_that_a_template_refuses_are_left_out_and_told(runs: Path, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    folder = tmp_path / "templates"
    folder.mkdir()
    with pytest.raises(ConfigError, match=r"no .jinja"):
        xc.dataset(runs, "trl-sft", templates=str(folder))
    (folder / "plain.jinja").write_text(CHATML, "utf-8")
    assert len(xc.dataset(runs, "trl-sft", templates=str(folder))) == len(xc.dataset(runs, "trl-sft"))
    (folder / "strict.jinja").write_text(STRICT, "utf-8")
    made = xc.dataset(runs, "trl-sft", templates=str(folder))
    refused = made.left_out.filter(pl.col("reason") == "template_refused")
    assert refused["detail"].str.contains("^strict: .*no more").all()
    assert refused.height > 0
    assert not made.rows["messages"].list.eval(pl.element().struct.field("content") == "One more.").list.any().any()
    first = write_datasets(
        runs, ["trl-sft"], tmp_path / "ds", options=DatasetOptions(templates=str(folder)), processes=1
    )
    assert first["configs"][0]["left"]["template_refused"] == refused.height


def test_places_on_this_machine_are_not_published(runs: Path, tokenizer: Path, tmp_path: Path) -> None:
    (tokenizer / "plain.jinja").write_text(CHATML, "utf-8")
    options = DatasetOptions(tokenizer=str(tokenizer), templates=str(tokenizer))
    write_datasets(runs, ["trl-sft"], tmp_path / "ds", options=options, processes=1)
    assert inputs.holds(tmp_path / "ds", str(tmp_path)) == []
    said = json.loads((tmp_path / "ds/manifest.json").read_text("utf-8"))["options"]
    assert (said["tokenizer"], said["templates"]) == ("tokenizer", "tokenizer")


# -- what is supplied -------------------------------------------------------------------------------------------------------

SCHEMA = '[{"type":"function","function":{"name":"find_order","parameters":{"type":"object","properties":{}}}}]'


@pytest.mark.parametrize("name", ["trl-sft", "trl-sft-pc", "trl-dpo", "trl-kto", "trl-grpo", "world-model"])
def test_schemas_are_supplied_where_a_row_has_none(name: str, runs: Path) -> None:
    made = xc.dataset(runs, name, tools=SCHEMA)
    assert set(made.frame["tools"]) == {SCHEMA}
    assert xc.dataset(runs, name).frame["tools"].null_count() == len(made)


def test_schemas_of_any_vendor_are_supplied_in_one_form(runs: Path) -> None:
    own = json.dumps({"name": "find_order", "input_schema": {"type": "object", "properties": {}}, "strict": None})
    assert set(xc.dataset(runs, "trl-sft", tools=own).frame["tools"]) == {
        '[{"type":"function","function":{"name":"find_order","parameters":{"type":"object","properties":{}}}}]'
    }
    assert set(xc.dataset(runs, "world-model", tools=own).frame["tools"]) == {SCHEMA}


@pytest.mark.parametrize("text", ["{", "[]", "3", '[{"no": "name"}]', "null"])
def test_supplied_schemas_that_are_none_are_refused(text: str, runs: Path) -> None:
    with pytest.raises(ConfigError, match="tools"):
        xc.dataset(runs, "trl-sft", tools=text)


def test_a_system_prompt_is_supplied_where_a_row_has_none(tmp_path: Path) -> None:
    rows = [inputs.trial(t, n, passed=n == 0) for t in range(3) for n in range(2)]
    for row in rows[::2]:
        row["traj"] = row["traj"][1:]
    (tmp_path / "in").mkdir()
    (tmp_path / "in/gpt-x-retail.json").write_text(json.dumps(rows), "utf-8")
    source = inputs.compiled(tmp_path / "in", tmp_path / "out")

    def opening(made: xc.Dataset) -> set[tuple[str, str]]:
        chat = next(c for c, t in made.rows.schema.items() if t == CHAT)
        first = made.rows[chat].list.first().struct
        return set(zip(first.field("role"), first.field("content"), strict=True))

    for name in ("trl-sft", "trl-sft-pc", "trl-kto"):
        assert ("user", "Supplied.") not in opening(xc.dataset(source, name))
        assert opening(xc.dataset(source, name, system="Supplied.")) <= {
            ("system", "Supplied."),
            ("system", inputs.POLICY["content"]),
        }


# -- conversations that nobody opens ----------------------------------------------------------------------------------------


def test_conversations_without_a_user_are_left_out_unless_told(tmp_path: Path) -> None:
    rows = [inputs.trial(t, n, passed=n == 0) for t in range(3) for n in range(2)]
    for row in rows[:2]:
        row["traj"] = [m for m in row["traj"] if m["role"] != "user"]
    (tmp_path / "in").mkdir()
    (tmp_path / "in/gpt-x-retail.json").write_text(json.dumps(rows), "utf-8")
    source = inputs.compiled(tmp_path / "in", tmp_path / "out")
    strict, loose = (xc.dataset(source, "trl-sft", keep_unasked=k) for k in (False, True))
    assert strict.left_out.filter(pl.col("reason") == "no_user_turn").height == 1
    assert len(loose) == len(strict) + 1
    kinds: Callable[[Any], list[str]] = lambda made: made.left_out["reason"].to_list()  # noqa: E731
    assert "no_user_turn" not in kinds(loose)
