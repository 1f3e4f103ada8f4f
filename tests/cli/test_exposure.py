"""`expcomp exposure` as scripts meet it: exit codes, the public report on stdout, the private one in a file."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import polars as pl
import pytest
import typer
from typer.testing import CliRunner

from expcomp.cli.exposure import register
from expcomp.errors import SourceError, UsageError
from expcomp.io.canon import digest_bytes
from expcomp.training.dataset import read_dataset
from expcomp.training.documents import DocumentError, TamperedError, document_bytes
from tests.training.made import ancestry, document, profile, receipt, row, sha, write

app = typer.Typer()
app.callback()(lambda: None)
register(app)


def run(*args: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["exposure", *map(str, args)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = write(tmp_path / "rows.json", document([row("one"), row("v", "validation")]))
    identity = read_dataset(rows).identity()
    write(
        tmp_path / "heldout.jsonl",
        json.dumps({"benchmark": "bench", "task": "one", "content_digest": sha("new rendering"), "prompt": "Count."}),
    )
    write(
        tmp_path / "clean.jsonl",
        json.dumps({"benchmark": "bench", "task": "x", "prompt": "Nothing of this kind was asked before."}),
    )
    (tmp_path / "profile.json").write_bytes(document_bytes(profile(ancestry("one", "two", datasets={"one": identity}))))
    (tmp_path / "plain.json").write_bytes(document_bytes(profile()))
    return tmp_path


def test_exit_codes_and_both_reports(folder: Path) -> None:
    base = ("check", "--profile", folder / "profile.json", "--heldout")
    assert run(*base, folder / "clean.jsonl")[0] == 0
    code, text = run(*base, folder / "heldout.jsonl", "--json", "--report", folder / "hits.parquet")
    report = json.loads(text)
    assert (code, report["verdict"], report["found"]) == (1, "refused", {"content": 0, "name": 1, "near": None})
    hits = pl.read_parquet(folder / "hits.parquet")
    assert (hits["heldout_task"].to_list(), hits["depth"].to_list()) == (["one"], [1])
    assert stat.S_IMODE((folder / "hits.parquet").stat().st_mode) == 0o600
    assert run(*base, folder / "heldout.jsonl", "--level", "exact")[0] == 0
    code, text = run(*base, folder / "heldout.jsonl", "--name-warning")
    assert code == 1
    assert "warning" in text
    assert run(*base, folder / "heldout.jsonl", "--quiet") == (1, "")


def test_what_is_printed_names_no_task(folder: Path) -> None:
    for more in ((), ("--json",)):
        _, text = run("check", "--profile", folder / "profile.json", "--heldout", folder / "heldout.jsonl", *more)
        assert "bench" not in text
        assert sha("one") not in text


def test_near_looks_at_the_rows_of_every_receipt(folder: Path) -> None:
    base = ("check", "--profile", folder / "profile.json", "--heldout", folder / "clean.jsonl", "--level", "near")
    with pytest.raises(UsageError, match="--dataset"):
        run(*base)
    with pytest.raises(DocumentError, match="dataset_missing"):
        run(*base, "--dataset", folder / "rows.json")
    one = profile(ancestry("one", datasets={"one": read_dataset(folder / "rows.json").identity()}))
    (folder / "one.json").write_bytes(document_bytes(one))
    base = (
        "check",
        "--profile",
        folder / "one.json",
        "--level",
        "near",
        "--dataset",
        folder / "rows.json",
        "--heldout",
    )
    assert run(*base, folder / "clean.jsonl")[0] == 0
    # "Count." as a whole text of two words is what both rows say.
    code, text = run(*base, folder / "heldout.jsonl", "--json")
    assert (code, json.loads(text)["found"]) == (1, {"content": 0, "name": 1, "near": 1})


def test_an_index_stands_for_its_profile(folder: Path) -> None:
    code, text = run("index", "--profile", folder / "profile.json", "--out", folder / "i.parquet", "--json")
    told = json.loads(text)
    assert (code, told["receipts"], told["lines"]) == (0, 2, 3)
    by_index = run("check", "--index", folder / "i.parquet", "--heldout", folder / "heldout.jsonl", "--json")
    by_profile = run("check", "--profile", folder / "profile.json", "--heldout", folder / "heldout.jsonl", "--json")
    assert by_index == by_profile
    assert json.loads(by_index[1])["indexDigest"] == told["digest"]


def test_a_profile_without_training(folder: Path) -> None:
    code, text = run("check", "--profile", folder / "plain.json", "--heldout", folder / "heldout.jsonl")
    assert code == 0
    assert "declares no training" in text


def test_receipts_that_are_only_named_are_given(folder: Path) -> None:
    names = [f"run {n}" for n in range(10)]
    (folder / "long.json").write_bytes(document_bytes(profile(ancestry(*names))))
    write(folder / "h.jsonl", json.dumps({"task": "renamed", "content_digest": sha("run 0")}))
    base = ("check", "--profile", folder / "long.json", "--heldout", folder / "h.jsonl")
    with pytest.raises(DocumentError, match="receipt_missing"):
        run(*base)
    (folder / "run0.json").write_bytes(document_bytes(receipt("run 0")))
    assert run(*base, "--receipt", folder / "run0.json")[0] == 1


def test_bad_input_is_named(folder: Path) -> None:
    held = ("--heldout", folder / "heldout.jsonl")
    with pytest.raises(UsageError, match="--profile or --index"):
        run("check", *held)
    with pytest.raises(UsageError, match="--level"):
        run("check", "--profile", folder / "profile.json", "--level", "all", *held)
    with pytest.raises(UsageError, match="--profile"):
        run("index", "--out", folder / "x.parquet")
    with pytest.raises(SourceError, match=r"none\.json"):
        run("check", "--profile", folder / "none.json", *held)
    with pytest.raises(SourceError, match=r"none\.parquet"):
        run("check", "--index", folder / "none.parquet", *held)
    wire = json.loads((folder / "profile.json").read_bytes())
    wire["metadata"]["training"]["ancestors"][0]["dataset"]["digest"] = digest_bytes(b"clean")
    with pytest.raises(TamperedError, match=r"laundered\.json.*ancestry_broken"):
        run("check", "--profile", write(folder / "laundered.json", wire), *held)
