"""G1 to G14: each trap is first walked into with a naive file, then passed with ours. Sources: docs on datasets, and `expcomp.datasets`."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from expcomp.tables.targets import TARGETS
from tests.clients.crafted import ISO, LOOKALIKES, rollouts
from tests.clients.files import configs, features, lines, load, load_jsonl, paths, split

TRL = ("sft", "sft_pc", "dpo", "grpo", "kto", "reward", "prm")
# What TRL takes for a conversation, and the columns in which it looks for one.
SPOKEN = ("prompt", "chosen", "rejected", "completion", "messages")


def jsonl(path, rows):
    path.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows), encoding="utf-8")
    return str(path)


def read(kind, path, **options):
    from datasets import load_dataset

    return load_dataset(kind, data_files=path, split="train", **options)


def spoken(row):
    return [m for key in SPOKEN if isinstance(row.get(key), list) for m in row[key] if isinstance(m, dict)]


def calls(messages):
    return [c["function"] for m in messages for c in m.get("tool_calls") or ()]


def as_text(row):
    return {"chosen": "Order A0100: " + (row["chosen"][0]["content"] or "-")}


def test_g1_text_in_place_of_messages_stays_text(crafted):
    naive = read("json", split(crafted, "dpo", "jsonl")).map(as_text)
    assert naive[0]["chosen"][:8] == ["O", "r", "d", "e", "r", " ", "A", 0]
    for ours in (load(crafted, "dpo"), load_jsonl(crafted, "dpo")):
        assert all(text.startswith("Order A0100: ") for text in ours.map(as_text)["chosen"])


def test_g1_trl_renders_in_a_map(crafted, tokenizer):
    from trl.data_utils import apply_chat_template

    options = {"fn_kwargs": {"processing_class": tokenizer}}
    naive = read("json", split(crafted, "dpo", "jsonl")).map(apply_chat_template, **options)
    assert isinstance(naive[0]["chosen"], list)
    rendered = load(crafted, "dpo").map(apply_chat_template, **options)
    assert all(isinstance(row[key], str) for row in rendered for key in ("prompt", "chosen", "rejected"))


SESSION_LIKE = (
    {"id": "a", "source": "b", "model": "c", "system_prompt": "d", "messages": [{"role": "user", "content": "x"}]},
    {"type": "user", "message": {"role": "user", "parts": [{"a": 1}, {"b": "c"}], "content": [1, "x"]}},
    {"type": "a", "id": "b", "cwd": "c", "version": 3},
)
SESSION_COLUMNS = (
    {"id", "source", "model", "system_prompt", "messages"},
    {"type", "message"},
    {"type", "payload"},
    {"type", "id", "cwd", "version"},
)


@pytest.mark.parametrize("row", SESSION_LIKE, ids=["messages", "message", "version"])
def test_g2_rows_that_look_like_sessions_are_refused_by_the_loader(tmp_path, row):
    rows = [row, {k: {"n": 1} if k == "message" else v for k, v in row.items()}]
    with pytest.raises(Exception, match=r"teich|generating the dataset") as caught:
        read("json", jsonl(tmp_path / "a.jsonl", rows))
    assert "teich" in f"{caught.value!r} {caught.value.__cause__!r}"


def test_g2_no_target_looks_like_a_session(crafted):
    for target in TARGETS.values():
        assert not [names for names in SESSION_COLUMNS if names <= set(target.columns)], target.name
    for config in configs(crafted):
        if files := split(crafted, config, "jsonl"):
            assert len(read("json", files)) == len(lines(crafted, config))


def test_g3_tool_output_that_looks_like_json_stays_text(crafted):
    from datasets import Dataset, Features, Json, Value

    types = Features({"role": Value("string"), "content": Json()})
    naive = Dataset.from_dict({"role": ["tool"] * 4, "content": ["42", '{"t": 21}', "null", "hi"]}, features=types)
    assert naive["content"][:3] == [42, {"t": 21}, None]
    for ours in (load(crafted, "sft"), load_jsonl(crafted, "sft")):
        (row,) = [r for r in ours if r["task_id"] == "desk-2"]
        assert tuple(m["content"] for m in row["messages"] if m["role"] == "tool") == LOOKALIKES
        assert all(isinstance(m["content"], str) for r in ours for m in r["messages"])


def test_g4_texts_that_are_times_stay_texts(crafted, tmp_path):
    from datasets import Value

    rows = [r for r in lines(crafted, "grpo") if r["task_id"] == "desk-3"]
    assert [m["content"] for r in rows for m in r["prompt"]] == [ISO]
    naive = read("json", jsonl(tmp_path / "a.jsonl", [{"prompt": ISO}] * 2))
    assert naive.features["prompt"] != Value("string")
    # Types alone do not help where a file holds nothing but times: they are applied after the guess.
    guessed = read("json", jsonl(tmp_path / "b.jsonl", rows), features=features(crafted, "grpo"))
    assert guessed[0]["prompt"][0]["content"] != ISO
    # Parquet does not guess, and other texts in the column keep the JSON reader from guessing.
    for ours in (load(crafted, "grpo"), load_jsonl(crafted, "grpo")):
        (row,) = [r for r in ours if r["task_id"] == "desk-3"]
        assert row["prompt"][0]["content"] == ISO


def test_g5_keys_may_appear_late(crafted, tmp_path):
    from datasets.exceptions import DatasetGenerationError

    rows = lines(crafted, "sft")
    (late,) = [r for r in rows if r["task_id"] == "desk-0"]
    early = late | {"messages": [{"role": "user", "content": "x" * 2000}, {"role": "assistant", "content": "y"}]}
    path = jsonl(tmp_path / "a.jsonl", [early] * 6000 + [late])
    assert Path(path).stat().st_size > 10 << 20
    with pytest.raises(DatasetGenerationError):
        read("json", path)
    ours = read("json", path, features=features(crafted, "sft"))
    assert calls(ours[6000]["messages"])[0]["name"] == "search"
    # Nor does it come to that: the first row has the keys that any row has.
    assert calls(rows[0]["messages"])


def test_g6_arguments_and_schemas_are_not_padded(crafted):
    from datasets import Dataset

    naive = Dataset.from_list([{"arguments": {"x": 0}}, {"arguments": {"y": "b"}}])
    assert naive[0]["arguments"] == {"x": 0, "y": None}
    said = {r["instance_id"]: (r["messages"], r["tools"]) for r in rollouts() if r["resolved"]}
    for ours in (load(crafted, "sft"), load_jsonl(crafted, "sft")):
        assert {r["task_id"] for r in ours} == set(said)
        for row in ours:
            messages, tools = said[row["task_id"]]
            want = [c | {"arguments": json.loads(c["arguments"])} for c in calls(messages)]
            assert calls(row["messages"]) == want
            assert (row["tools"] and json.loads(row["tools"])) == tools


def test_g7_our_types_join_with_ordinary_ones(crafted, tmp_path):
    from datasets import concatenate_datasets, interleave_datasets

    ordinary = read("json", jsonl(tmp_path / "a.jsonl", [{"prompt": "p", "completions": ["a"], "labels": [True]}]))
    pl.DataFrame({"prompt": ["p"], "completions": [["a"]], "labels": [[True]]}).write_parquet(tmp_path / "n.parquet")
    naive = read("parquet", str(tmp_path / "n.parquet"))
    with pytest.raises(ValueError, match=r"[Ff]eatures"):
        concatenate_datasets([ordinary, naive])
    ours = read("parquet", split(crafted, "openrlhf-rl", "parquet")).select_columns(["prompt"])
    other = read("json", jsonl(tmp_path / "b.jsonl", [{"prompt": [{"role": "user", "content": "x"}]}]))
    assert len(concatenate_datasets([other, ours])) == len(ours) + 1
    assert len(interleave_datasets([other, ours], stopping_strategy="all_exhausted")) >= len(ours)


def test_g8_types_are_in_the_arrow_schema(crafted, tmp_path):
    from datasets import Features, Json, Value

    told = {"huggingface": json.dumps({"info": {"features": Features({"arguments": Json()}).to_dict()}})}
    pl.DataFrame({"arguments": ['{"x": 0}']}).write_parquet(tmp_path / "n.parquet", metadata=told)
    naive = read("parquet", str(tmp_path / "n.parquet"))
    assert naive.features["arguments"] in (Value("string"), Value("large_string"))
    assert naive[0]["arguments"] == '{"x": 0}'
    # Without the card.
    ours = read("parquet", split(crafted, "sft", "parquet"))
    assert ours.features == features(crafted, "sft")
    assert all(isinstance(c["arguments"], dict) for r in ours for c in calls(r["messages"]))


def test_g9_old_datasets_read_what_is_made_for_them(crafted, trainers):
    folder = trainers / "datasets4"
    if not folder.is_dir():
        pytest.skip("install_trainers.sh did not install datasets 4.0.0")
    # LLaMA-Factory pins datasets <= 4.0.0, which knows no arrow.json and has no `Json` feature.
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); import datasets; assert datasets.__version__ == '4.0.0'\n"
        "for p in sys.argv[2:]:\n"
        "    kind = 'parquet' if p.endswith('.parquet') else 'json'\n"
        "    try: d = datasets.load_dataset(kind, data_files=p, split='train'); repr(d.features); print(d.num_rows)\n"
        "    except Exception as e: print(e)\n"
    )
    made_for_it = [c for c in configs(crafted) if c.startswith("llama-factory")]
    assert made_for_it
    files = [f for c in made_for_it for end in ("parquet", "jsonl") for f in split(crafted, c, end)]
    rows = [len(lines(crafted, c)) for c in made_for_it for _ in ("parquet", "jsonl")]
    typed = split(crafted, "sft", "parquet")
    command = [sys.executable, "-W", "ignore", "-c", program, str(folder), *typed, *files]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    naive, *ours = done.stdout.splitlines()
    assert "does not have a datasets dtype equivalent" in naive
    assert ours == [str(n) for n in rows]


def test_g10_the_kind_of_a_row_does_not_hang_on_the_hash_seed(dataset_dir):
    from trl.data_utils import is_conversational

    row = {"prompt": "text", "messages": [{"role": "user", "content": "x"}]}
    program = (
        f"from __future__ import annotations\n{inspect.getsource(is_conversational)}\nprint(is_conversational({row!r}))"
    )
    answers = {
        subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONHASHSEED": str(seed)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in range(12)
    }
    assert answers == {"True\n", "False\n"}
    for config in set(TRL) & set(configs(dataset_dir)):
        first = load(dataset_dir, config)[0]
        kinds = {is_conversational({key: first[key]}) for key in SPOKEN if key in first}
        assert kinds == {config != "prm"}


def test_g11_no_column_of_template_options(crafted, tokenizer):
    from trl.data_utils import apply_chat_template

    naive = {"messages": [{"role": "user", "content": "x"}], "chat_template_kwargs": None}
    with pytest.raises(TypeError):
        apply_chat_template(naive, tokenizer)
    for config in configs(crafted):
        assert "chat_template_kwargs" not in features(crafted, config)
    for row in load(crafted, "sft"):
        assert apply_chat_template(row, tokenizer)["text"]


def test_g12_calls_without_arguments_are_kept(crafted, tmp_path):
    empty = pa.table({"arguments": pa.array([{}], pa.struct([]))})
    with pytest.raises(pa.ArrowNotImplementedError):
        pq.write_table(empty, tmp_path / "n.parquet")
    for ours in (load(crafted, "sft"), load_jsonl(crafted, "sft")):
        assert {"name": "clock", "arguments": {}} in [c for r in ours for c in calls(r["messages"])]


def _leaves(kind):
    """Types at the ends of a type."""
    if pa.types.is_struct(kind):
        return [leaf for field in kind for leaf in _leaves(field.type)] or [kind]
    if isinstance(kind, pa.ListType):
        return _leaves(kind.value_type)
    return [kind]


def test_g13_every_shard_has_the_one_schema(dataset_dir, tmp_path):
    from datasets import Value

    for name, tools in (("a", [None]), ("b", ["[]"])):
        pq.write_table(pa.table({"tools": tools}), tmp_path / f"{name}.parquet")
    naive = [read("parquet", str(tmp_path / f"{n}.parquet")) for n in "ab"]
    assert [d.features["tools"] for d in naive] == [Value("null"), Value("string")]
    plain = {pa.string(), pa.int64(), pa.float64(), pa.bool_(), pa.json_()}
    for config in configs(dataset_dir):
        first, *others = [pq.read_schema(p) for p in paths(dataset_dir, config, "parquet")]
        assert all(other.equals(first) for other in others)
        assert {leaf for field in first for leaf in _leaves(field.type)} <= plain


def test_g14_other_readers_get_the_text_of_arguments(crafted, tmp_path):
    want = [c["arguments"] for r in load(crafted, "sft") for c in calls(r["messages"])]
    frame = pl.read_parquet(split(crafted, "sft", "parquet"))
    turns = frame.lazy().select(pl.col("messages").explode()).unnest("messages")
    read_back = (
        turns.select(pl.col("tool_calls").explode()).drop_nulls().unnest("tool_calls").unnest("function").collect()
    )
    assert isinstance(read_back.schema["arguments"], pl.BaseExtension)
    texts = read_back.select(pl.col("arguments").ext.storage()).to_series()
    assert texts.dtype == pl.String
    assert [json.loads(t) for t in texts] == want
    seen = pq.read_table(split(crafted, "sft", "parquet")).to_pandas()["messages"]
    found = [
        c["function"]["arguments"] for ms in seen for m in ms if m["tool_calls"] is not None for c in m["tool_calls"]
    ]
    assert found == texts.to_list()
    # Polars cannot write the nested form: what the exporter keeps in Polars is text.
    with pytest.raises(BaseException, match=r"(?i)extension|panic|not implemented|index out|unwrap"):
        frame.write_parquet(tmp_path / "n.parquet")
