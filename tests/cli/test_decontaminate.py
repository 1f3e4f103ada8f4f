"""`expcomp decontaminate` as scripts meet it: exit codes, reports, and the rows that are left."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

from expcomp.cli.decontaminate import register
from expcomp.errors import ConfigError, OutputError, SourceError, UsageError
from expcomp.tables.decontamination import DECONTAMINATION_ROWS

app = typer.Typer()
app.callback()(lambda: None)
register(app)
QUESTION = (
    "Given the ledger of the harbour office for last May find every berth that was billed twice and name the ship"
)
PATCH = "replace the loop over berths by a join on ship and month then keep the first line of each and drop the rest quietly"


def run(*args: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["decontaminate", *map(str, args)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.stdout


def chat(*texts: str, call: str = "{}") -> dict[str, Any]:
    turn = {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": call}}],
    }
    return {"messages": [{"role": "user", "content": t, "tool_calls": None} for t in texts] + [turn]}


ROWS = [
    chat("Hello there.") | {"task_id": "a", "row_id": "r0"},
    chat(f"Please. {QUESTION.upper()}!") | {"task_id": "b", "row_id": "r1"},
    chat("Go on.", call=json.dumps({"text": PATCH.replace(" ", "\n")})) | {"task_id": "c", "row_id": "r2"},
    chat("Something else.") | {"task_id": "held__1", "row_id": "r3"},
    chat("Some of it: " + " ".join(PATCH.split()[:10]) + ".") | {"task_id": "d", "row_id": "r4"},
    chat("More: " + " ".join(PATCH.split()[:11]) + " but no more.") | {"task_id": "e", "row_id": "r5"},
]  # fmt: skip
LEFT = ["r0", "r4", "r5"]


@pytest.fixture
def heldout(tmp_path: Path) -> Path:
    path = tmp_path / "heldout.jsonl"
    path.write_text(
        json.dumps({"instance_id": "held__1", "problem_statement": QUESTION, "patch": PATCH}) + "\n", "utf-8"
    )
    return path


def put(path: Path, rows: list[dict[str, Any]] = ROWS) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        path.write_text("".join(json.dumps(r) + "\n" for r in rows), "utf-8")
    return path


def ids(path: Path) -> list[str]:
    if path.suffix == ".parquet":
        return pl.read_parquet(path)["row_id"].to_list()
    return [json.loads(line)["row_id"] for line in path.read_text("utf-8").splitlines()]


@pytest.mark.parametrize("suffix", ["parquet", "jsonl"])
def test_what_is_planted_is_found_and_the_rest_is_left(tmp_path: Path, heldout: Path, suffix: str) -> None:
    rows, out = put(tmp_path / f"rows.{suffix}"), tmp_path / f"clean.{suffix}"
    code, shown = run(rows, "--against", heldout, "--json", "--report", tmp_path / "r.parquet", "--drop", "--out", out)
    result = json.loads(shown)
    assert code == 1
    assert (result["rows"], result["rows_dropped"], result["rows_kept"]) == (6, 3, 3)
    assert ids(out) == LEFT
    report = pl.read_parquet(tmp_path / "r.parquet")
    assert report.schema == DECONTAMINATION_ROWS.schema
    dropped = report.filter(pl.col("verdict") == "drop").sort("row_id")
    assert dropped.select("row_id", pl.col("level").cast(pl.String), pl.col("field").cast(pl.String)).rows() == [
        ("r1", "ngram", "prompt"),
        ("r2", "ngram", "answer"),
        ("r3", "exact_name", None),
    ]
    assert run(out, "--against", heldout, "--json")[0] == 0


def test_the_schema_of_a_parquet_file_is_kept(tmp_path: Path, heldout: Path) -> None:
    field = pa.json_()
    table = pa.table({"row_id": ["x", "y"], "text": pa.array([json.dumps(QUESTION), '"z"']).cast(pa.string())})
    table = table.set_column(1, "text", pa.ExtensionArray.from_storage(field, table["text"].combine_chunks()))
    pq.write_table(table.replace_schema_metadata({"k": "v"}), tmp_path / "rows.parquet")
    assert run(tmp_path / "rows.parquet", "--against", heldout, "-q", "--drop", "-o", tmp_path / "o.parquet") == (1, "")
    got = pq.read_table(tmp_path / "o.parquet")
    assert got.schema.equals(pq.read_schema(tmp_path / "rows.parquet"), check_metadata=True)
    assert got["row_id"].to_pylist() == ["y"]


def test_a_dataset_folder_loses_rows_in_both_of_its_twins(tmp_path: Path, heldout: Path) -> None:
    for suffix in ("parquet", "jsonl"):
        put(tmp_path / f"ds/data/sft/train-00000-of-00001.{suffix}")
    put(tmp_path / "ds/data/other/train-00000-of-00001.jsonl", ROWS[:1])
    tasks = {
        "benchmark": ["b"] * 2,
        "task": ["x", "y"],
        "task_id": ["a", "b"],
        "content_digest": [None, None],
        "instruction": ["A", QUESTION],
    }
    pl.DataFrame(tasks).write_parquet(tmp_path / "ds/inventory.parquet")
    code, shown = run(tmp_path / "ds", "--against", heldout, "--json", "--drop", "--out", tmp_path / "clean")
    assert code == 1
    assert json.loads(shown)["rows_kept"] == 4
    for suffix in ("parquet", "jsonl"):
        assert ids(tmp_path / f"clean/data/sft/train-00000-of-00001.{suffix}") == LEFT
    manifest = json.loads((tmp_path / "clean/manifest.json").read_text("utf-8"))
    assert manifest["decontamination"]["policy"]["coverage"] == 0.5
    assert [f["rows"] for f in manifest["files"]] == [1, 3, 3]


def test_levels_and_thresholds_can_be_set(tmp_path: Path, heldout: Path) -> None:
    rows = put(tmp_path / "rows.jsonl")
    one = json.loads(run(rows, "--against", heldout, "--json", "--level", "exact_name")[1])
    assert [f["row_id"] for f in one["found"]] == ["r3"]
    all_ = json.loads(run(rows, "--against", heldout, "--json", "--coverage", "0.43")[1])
    assert {f["row_id"] for f in all_["found"] if f["verdict"] == "drop"} == {"r1", "r2", "r3", "r5"}


def test_clean_rows_exit_0_and_say_so(tmp_path: Path, heldout: Path) -> None:
    code, shown = run(put(tmp_path / "rows.jsonl", ROWS[:1]), "--against", heldout)
    assert (code, "0 hold one" in shown) == (0, True)


def test_findings_are_shown_by_held_out_task(tmp_path: Path, heldout: Path) -> None:
    code, shown = run(put(tmp_path / "rows.jsonl"), "--against", heldout)
    assert code == 1
    assert "held__1" in shown
    assert "3 hold one" in shown


def test_wrong_use_and_unreadable_input_say_what_to_do(tmp_path: Path, heldout: Path) -> None:
    rows = put(tmp_path / "rows.jsonl")
    with pytest.raises(UsageError, match="--drop and --out"):
        run(rows, "--against", heldout, "--drop")
    with pytest.raises(UsageError, match="PART=NAME"):
        run(rows, "--against", heldout, "--column", "prompt")
    with pytest.raises(UsageError, match="one place"):
        run(rows, "--against", heldout, "--drop", "--out", rows)
    with pytest.raises(ConfigError, match="nearly"):
        run(rows, "--against", heldout, "--level", "nearly")
    (tmp_path / "empty").mkdir()
    pl.DataFrame({"task_id": ["a"]}).write_parquet(tmp_path / "empty/inventory.parquet")
    with pytest.raises(SourceError, match="holds no rows"):
        run(tmp_path / "empty", "--against", heldout)
    (tmp_path / "bad.jsonl").write_text('{"a": 1}\nnope\n', "utf-8")
    with pytest.raises(SourceError, match="line 2"):
        run(tmp_path / "bad.jsonl", "--against", heldout)
    there = put(tmp_path / "there.jsonl")
    with pytest.raises(OutputError, match="exists"):
        run(rows, "--against", heldout, "--drop", "--out", there)
    assert ids(there) == ids(rows)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "bad.jsonl",
        "empty",
        "heldout.jsonl",
        "rows.jsonl",
        "there.jsonl",
    ]
