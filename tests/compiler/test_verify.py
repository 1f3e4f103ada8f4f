"""`verify`: a published folder passes; one changed byte, a missing file, an extra file or an edited document does not."""

from __future__ import annotations

import json
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from expcomp.compiler.verify import verify
from expcomp.errors import SourceError
from expcomp.rows.registry import ROW_FAMILIES
from expcomp.tables.core import CORE
from tests.helpers import edit

PUBLISHED = [
    "diagnostics.parquet",
    "update.state",
    *(f"tables/{n}.parquet" for n in CORE if n != "diagnostics"),
    *(f"{where}/{n}.parquet" for n in ROW_FAMILIES for where in ("rows", "rejected")),
    *(f"rows/{n}.jsonl" for n in ROW_FAMILIES),
]

UNREADABLE = [None, b"", b"{", b"[]", b"\xff\xfe"]


@pytest.fixture
def out(compiled: Path, tmp_path: Path) -> Path:
    """A copy to spoil."""
    return shutil.copytree(compiled, tmp_path / "out")


def names(problems: list[str], name: str) -> bool:
    return any(p.startswith(f"{name}:") for p in problems)


def test_a_published_folder_passes(compiled: Path) -> None:
    found = verify(compiled)
    assert (found.ok, found.problems) == (True, [])


def test_all_files_and_rows_are_recomputed(compiled: Path) -> None:
    found = verify(compiled)
    assert found.files == len(PUBLISHED)
    assert found.rows == json.loads((compiled / "report.json").read_text("utf-8"))["total"]["generated"]


def test_the_list_of_files_here_is_complete(compiled: Path) -> None:
    listed = {e["path"] for e in json.loads((compiled / "manifest.json").read_text("utf-8"))["files"]}
    assert listed == set(PUBLISHED)


def flip(path: Path, place: int) -> None:
    """Change one bit of one byte; a file without bytes gets one."""
    data = bytearray(path.read_bytes())
    if data:
        data[place % len(data)] ^= 0x01
    else:
        data = bytearray(b"\n")
    path.write_bytes(data)


@pytest.fixture(scope="module")
def spare(compiled: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy that each test leaves as it found it."""
    return shutil.copytree(compiled, tmp_path_factory.mktemp("spare") / "out")


@pytest.mark.parametrize("name", PUBLISHED)
def test_one_changed_byte_is_found_and_the_file_named(spare: Path, name: str) -> None:
    path = spare / name
    whole = path.read_bytes()
    flip(path, zlib.crc32(name.encode()))
    try:
        found = verify(spare)
    finally:
        path.write_bytes(whole)
    # A byte that changes a row in the Parquet makes it differ from its JSONL twin, too.
    twin = name.replace(".parquet", ".jsonl")
    assert not found.ok
    assert {p.split(":", 1)[0] for p in found.problems} <= {name, twin, Path(name).stem, "report.json"}
    assert names(found.problems, name)


@pytest.mark.parametrize("place", [0, 1000, -1])
def test_one_changed_byte_in_every_file_is_found_in_every_file(out: Path, place: int) -> None:
    for name in PUBLISHED:
        flip(out / name, place)
    problems = verify(out).problems
    assert [n for n in PUBLISHED if not names(problems, n)] == []


@pytest.mark.parametrize(
    "name",
    ["diagnostics.parquet", "tables/steps.parquet", "rows/database_event.jsonl", "rejected/preference_pair.parquet"],
)
def test_a_missing_file_is_named(out: Path, name: str) -> None:
    (out / name).unlink()
    assert names(verify(out).problems, name)


def test_every_missing_file_is_named(out: Path) -> None:
    for name in PUBLISHED:
        (out / name).unlink()
    problems = verify(out).problems
    assert [n for n in PUBLISHED if not names(problems, n)] == []


@pytest.mark.parametrize("name", ["rows/extra.parquet", "extra.txt", "tables/more/deep.json", "rows/.hidden"])
def test_an_extra_file_is_named(out: Path, name: str) -> None:
    (out / name).parent.mkdir(exist_ok=True)
    (out / name).write_bytes(b"more")
    assert names(verify(out).problems, name)


def test_a_link_in_place_of_a_file_is_named(out: Path, compiled: Path) -> None:
    (out / "rows/preference_pair.jsonl").unlink()
    (out / "rows/preference_pair.jsonl").symlink_to(compiled / "rows/preference_pair.jsonl")
    assert names(verify(out).problems, "rows/preference_pair.jsonl")


def first_file(change: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], Any]:
    return lambda doc: change(next(e for e in doc["files"] if e["path"] == "rows/preference_pair.parquet"))


@pytest.mark.parametrize(
    "change",
    [
        first_file(lambda e: e.update(sha256="sha256:" + "0" * 64)),
        first_file(lambda e: e.update(bytes=e["bytes"] + 1)),
        first_file(lambda e: e.update(rows=e["rows"] + 1)),
        first_file(lambda e: e.update(schema_digest="sha256:" + "0" * 64)),
        first_file(lambda e: e.update(path="rows/other.parquet")),
        lambda doc: doc["files"].remove(next(e for e in doc["files"] if e["path"] == "rows/preference_pair.parquet")),
    ],
    ids=["sha256", "bytes", "rows", "schema_digest", "path", "removed"],
)
def test_an_edited_entry_of_the_manifest_is_found_and_its_file_named(
    out: Path, change: Callable[[dict[str, Any]], Any]
) -> None:
    edit(out / "manifest.json", lambda doc: change(doc) and None)
    assert names(verify(out).problems, "rows/preference_pair.parquet")


def test_an_edited_line_count_of_the_manifest_is_found(out: Path) -> None:
    def change(doc: dict[str, Any]) -> None:
        entry = next(e for e in doc["files"] if e["path"] == "rows/preference_pair.jsonl")
        entry["rows"] += 1

    edit(out / "manifest.json", change)
    assert names(verify(out).problems, "rows/preference_pair.jsonl")


def test_an_edited_hash_rule_is_found(out: Path) -> None:
    edit(out / "manifest.json", lambda doc: doc["hash_rule"]["exclude"].append("prompt"))
    assert not verify(out).ok


@pytest.mark.parametrize("verdict", ["generated", "accepted", "rejected"])
def test_edited_counts_of_a_family_are_found(out: Path, verdict: str) -> None:
    edit(out / "report.json", lambda doc: doc["families"]["preference_pair"].update({verdict: 99}))
    problems = verify(out).problems
    assert names(problems, "report.json")
    assert "preference_pair" in problems[0]


@pytest.mark.parametrize("verdict", ["generated", "accepted", "rejected"])
def test_edited_counts_of_a_package_are_found(out: Path, verdict: str) -> None:
    edit(out / "report.json", lambda doc: doc["packages"]["pkg_a"].update({verdict: 99}))
    problems = verify(out).problems
    assert names(problems, "report.json")
    assert "pkg_a" in problems[0]


@pytest.mark.parametrize("verdict", ["generated", "accepted", "rejected"])
def test_edited_totals_are_found(out: Path, verdict: str) -> None:
    edit(out / "report.json", lambda doc: doc["total"].update({verdict: 99}))
    assert names(verify(out).problems, "report.json")


def test_edited_reasons_are_found(out: Path) -> None:
    edit(out / "report.json", lambda doc: doc["families"]["training_example"]["reasons"].update(attempt_failed=1))
    assert names(verify(out).problems, "report.json")


def test_a_package_that_is_not_in_the_report_is_found(out: Path) -> None:
    edit(out / "report.json", lambda doc: doc["packages"].pop("pkg_b") and None)
    assert names(verify(out).problems, "report.json")


def reseal(out: Path, name: str) -> None:
    """Make the manifest agree with a file that was changed, as a careful forger would."""
    from expcomp.io.digest import sha256_file

    def change(doc: dict[str, Any]) -> None:
        entry = next(e for e in doc["files"] if e["path"] == name)
        entry |= {"sha256": sha256_file(out / name), "bytes": (out / name).stat().st_size}

    edit(out / "manifest.json", change)


def rewrite(out: Path, name: str, change: Callable[[pl.DataFrame], pl.DataFrame]) -> None:
    change(pl.read_parquet(out / name)).write_parquet(out / name)
    reseal(out, name)


def test_forged_content_under_a_right_digest_is_found_by_the_row_hash(out: Path) -> None:
    rewrite(out, "rows/reward_model_row.parquet", lambda f: f.with_columns(reward=pl.col("reward") + 0.05))
    assert any(
        "content_hash of row 0" in p for p in verify(out).problems if p.startswith("rows/reward_model_row.parquet:")
    )


def test_a_forged_line_under_a_right_digest_is_found(out: Path) -> None:
    path = out / "rows/reward_model_row.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"reward":0.4', b'"reward":0.5', 1))
    reseal(out, "rows/reward_model_row.jsonl")
    assert names(verify(out).problems, "rows/reward_model_row.jsonl")


def test_a_row_filed_under_the_wrong_verdict_is_found(out: Path) -> None:
    rewrite(out, "rows/reward_model_row.parquet", lambda f: f.with_columns(accepted=pl.lit(value=False)))
    assert names(verify(out).problems, "rows/reward_model_row.parquet")


def test_a_row_that_occurs_twice_is_found(out: Path) -> None:
    rewrite(out, "rows/reward_model_row.parquet", lambda f: pl.concat([f, f.head(1)]))
    assert any("occur twice" in p and "reward_model_row" in p for p in verify(out).problems)


def test_a_forged_envelope_is_found(out: Path) -> None:
    rewrite(
        out,
        "rows/reward_model_row.parquet",
        lambda f: f.with_columns(row_id=pl.lit("row_") + pl.col("row_id").str.slice(5) + "0"),
    )
    assert not verify(out).ok


def spoil(path: Path, content: bytes | None) -> None:
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)


@pytest.mark.parametrize("content", UNREADABLE)
def test_an_unreadable_manifest_is_an_error_that_names_it(out: Path, content: bytes | None) -> None:
    spoil(out / "manifest.json", content)
    with pytest.raises(SourceError, match=r"manifest\.json"):
        verify(out)


@pytest.mark.parametrize("content", UNREADABLE)
def test_an_unreadable_report_is_a_finding_beside_those_of_the_files(out: Path, content: bytes | None) -> None:
    spoil(out / "report.json", content)
    (out / "diagnostics.parquet").unlink()
    problems = verify(out).problems
    assert any("report.json" in p for p in problems)
    assert any("diagnostics.parquet" in p for p in problems)


def test_a_folder_that_is_no_output_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"manifest\.json"):
        verify(tmp_path)


def test_verify_writes_nothing(out: Path) -> None:
    before = {p: p.stat().st_mtime_ns for p in out.rglob("*")}
    verify(out)
    assert {p: p.stat().st_mtime_ns for p in out.rglob("*")} == before
