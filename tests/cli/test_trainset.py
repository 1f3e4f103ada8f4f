"""`expcomp trainset` as scripts meet it: exit codes, one JSON document, findings, both forms, partitions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import typer
from typer.testing import CliRunner

from expcomp.cli.trainset import register
from expcomp.errors import ConfigError, OutputError, SourceError, UsageError
from expcomp.tables.models import validate
from expcomp.training.checks import DatasetError
from expcomp.training.dataset import read_dataset
from tests.training.made import PAYLOADS, document, row, sha, write

app = typer.Typer()
app.callback()(lambda: None)
register(app)
GOOD = [row("t1"), row("t2"), row("v1", "validation")]


def run(*args: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["trainset", *map(str, args)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.stdout


def told(*args: object, code: int = 0) -> Any:
    found, text = run(*args, "--json")
    assert found == code, text
    return json.loads(text)


@pytest.fixture
def good(tmp_path: Path) -> Path:
    return write(tmp_path / "rows.json", document(GOOD))


def test_a_clean_dataset_is_exit_0(good: Path) -> None:
    made = told("validate", good)
    assert (made["accepted"], made["rows"], made["counts"], made["findings"]) == (True, 3, {}, [])
    assert made["digest"] == read_dataset(good).digest
    assert run("validate", good)[1].endswith("3 rows pass every check that refuses.\n")
    assert run("validate", good, "--quiet") == (0, "")


def test_findings_are_exit_1_and_one_line_each(tmp_path: Path) -> None:
    bad = write(tmp_path / "rows.json", document([row("a"), row("a", "validation"), row("b") | {"data": {}}]))
    made = told("validate", bad, "--report", tmp_path / "found.parquet", code=1)
    assert (made["accepted"], made["digest"]) == (False, None)
    assert made["counts"] == {"partition_overlap_content": 2, "partition_overlap_name": 2, "row_bad_data": 1}
    assert [f["row"] for f in made["findings"]] == [0, 0, 1, 1, 2]
    found = pl.read_parquet(tmp_path / "found.parquet")
    validate("training_findings", found)
    assert found.height == 5
    text = run("validate", bad)[1].splitlines()
    assert text[4].startswith("rows.json, row 2, data: row_bad_data: found")
    assert text[5].endswith("rows.json: refused.")
    with pytest.raises(OutputError, match=r"found\.parquet exists"):
        run("validate", bad, "--report", tmp_path / "found.parquet")
    assert run("validate", bad, "--report", tmp_path / "found.parquet", "--force")[0] == 1


def test_a_warning_is_a_finding_unless_only_errors_are_asked_for(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.json", document([row("a", content="1"), row("a", content="2")]))
    made = told("validate", path, code=1)
    assert (made["accepted"], made["counts"]) == (True, {"task_content_conflict": 1})
    assert "(warning)" in run("validate", path)[1]
    assert told("validate", path, "--errors-only")["findings"] == []


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (None, "dataset_not_regular_file"),
        ('{"version":1', "dataset_not_json"),
        ("[1]", None),
        ("\ud800", "dataset_not_utf8"),
    ],
)
def test_what_cannot_be_read_is_exit_3(tmp_path: Path, content: str | None, code: str | None) -> None:
    path = tmp_path / "rows.json"
    if content is not None:
        write(path, content)
    made = told("validate", path, code=1 if code is None else 3)
    assert code is None or [f["code"] for f in made["findings"]] == [code]
    with pytest.raises(DatasetError) as error:
        run("identity", path)
    assert error.value.exit_code == (1 if code is None else 3)


def test_a_folder_that_is_no_bundle_is_exit_3(tmp_path: Path) -> None:
    assert run("validate", tmp_path)[0] == 3


def test_a_broken_row_is_a_finding_and_not_unreadable(tmp_path: Path) -> None:
    bad = row("b") | {"data": {"messages": PAYLOADS["sft"]["messages"], "n": 2**53}}
    text = json.dumps(document([row("a"), bad]))
    found = told("validate", write(tmp_path / "rows.json", text), code=1)["findings"]
    assert [(f["row"], f["code"]) for f in found] == [(1, "dataset_not_canonicalizable")]


def test_pinned_digest_and_limits(good: Path) -> None:
    assert told("validate", good, "--digest", sha("other"), code=1)["counts"] == {"dataset_digest_mismatch": 1}
    assert told("validate", good, "--max-rows", 2, code=1)["counts"] == {"dataset_too_many_rows": 1}
    assert told("validate", good, "--max-bytes", 2, code=1)["counts"] == {"dataset_too_large": 1}


def test_both_forms_have_one_identity(good: Path, tmp_path: Path) -> None:
    first = told("identity", good)
    assert first["identity"] == {
        "digest": first["digest"],
        "taskSetDigest": first["task_set_digest"],
        "tasks": [r["task"] for r in GOOD],
    }
    for shards in ("parquet", "jsonl"):
        packed = told("pack", good, "--out", tmp_path / shards, "--shards", shards, "--shard-rows", 2)
        assert len(list((tmp_path / shards).glob(f"rows-*.{shards}"))) == 2
        again = told("pack", tmp_path / shards, "--out", tmp_path / f"{shards}.json", "--digest", packed["digest"])
        same = ("rows", "kind", "document_digest", "task_set_digest", "task_count")
        assert {n: first[n] for n in same} == {n: packed[n] for n in same} == {n: again[n] for n in same}
        assert (packed["form"], again["form"]) == ("bundle", "document")
        assert again["digest"] == first["document_digest"]
        assert told("identity", tmp_path / shards)["digest"] == packed["digest"]
    assert run("validate", tmp_path / "jsonl")[0] == 0
    assert "document digest" in run("identity", good)[1]


def test_many_tasks_need_an_inventory(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.json", document([row(f"t{n}") for n in range(4_097)]))
    assert told("identity", path)["identity"] is None
    assert "--inventory FILE" in run("identity", path)[1]
    made = told("identity", path, "--inventory", tmp_path / "tasks.parquet")["identity"]
    assert (made["taskCount"], "tasks" in made) == (4_097, False)
    assert made["inventory"]["bytes"] == (tmp_path / "tasks.parquet").stat().st_size


def test_nothing_is_replaced_unasked_and_nothing_refused_is_written(good: Path, tmp_path: Path) -> None:
    with pytest.raises(OutputError):
        run("pack", good, "--out", good)
    with pytest.raises(UsageError, match="expected parquet or jsonl"):
        run("pack", good, "--out", tmp_path / "b", "--shards", "csv")
    bad = write(tmp_path / "bad.json", document([row("a"), row("a", "validation")]))
    with pytest.raises(DatasetError, match="partition_overlap_name"):
        run("pack", bad, "--out", tmp_path / "b")
    assert not (tmp_path / "b").exists()


def test_split_mends_overlaps_and_says_what_went_where(tmp_path: Path) -> None:
    rows = [row(f"t{n % 30}", "validation" if n % 2 else "train") for n in range(90)]
    path = write(tmp_path / "rows.json", document(rows))
    made = told("split", path, "--share", 0.3, "--seed", "v1", "--out", tmp_path / "split.json")
    assert run("validate", tmp_path / "split.json")[0] == 0
    assert sum(p["n_rows"] for p in made["partitions"]) == 90
    assert {p["partition"] for p in made["partitions"]} == {"train", "validation"}
    assert made["moved_rows"] > 0
    text = run("split", path, "--share", 0.3, "--seed", "v1", "--out", tmp_path / "b")[1]
    assert "groups" in text
    assert told("identity", tmp_path / "b")["document_digest"] == told("identity", tmp_path / "split.json")["digest"]


def test_options_of_a_split_that_make_no_sense(good: Path, tmp_path: Path) -> None:
    for words, error in (
        (("--time", "at"), ConfigError),
        (("--group", "repo"), SourceError),
        (("--share", 0), ConfigError),
    ):
        with pytest.raises(error):
            run("split", good, *words, "--out", tmp_path / "x.json")
    assert not (tmp_path / "x.json").exists()
