"""Large files are read in parts, and loads of unknown tasks in buckets: rows are those of the whole, whatever the cut."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from expcomp.compiler.build import compile_paths
from expcomp.compiler.verify import verify
from expcomp.io.digest import sha256_file
from expcomp.io.sorted_parts import read_bucket, write_sorted
from expcomp.sources import spread as module
from expcomp.sources import stored, stream, streamed
from expcomp.sources._columns import frame_of
from expcomp.sources._contract import ReadOptions
from expcomp.sources.chat import _sets
from expcomp.sources.copies import CALLS
from expcomp.sources.load import find, read_frames, read_traces, read_units
from expcomp.sources.spread import Gathered, SpreadJob, bucket_count, gather, gather_jobs, spread, spread_jobs
from expcomp.tables.core import CORE
from tests.helpers import package


def record(number: int, **more: object) -> dict[str, object]:
    """An attempt at one of seven tasks."""
    turns = [
        {"role": "user", "content": f"Task {number % 7}"},
        {"role": "assistant", "content": f"<think>{number}</think> {'word ' * (number % 5)}"},
    ]
    return {"task_id": f"t{number % 7}", "messages": turns, "resolved": number % 3 == 0} | more


def lines(path: Path, count: int = 60, **more: object) -> Path:
    text = [json.dumps(record(n) | ({"late": "x"} if n == count - 1 else {}) | more) for n in range(count)]
    text[count // 3] = text[count // 3][:-9]
    text[count // 2] += text[count // 2 - 1]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(text) + "\n")
    return path


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts, batches, jobs and buckets of a few lines."""
    monkeypatch.setattr(_sets, "WHOLE", 1000)
    monkeypatch.setattr(_sets, "PART", 900)
    monkeypatch.setattr(_sets, "CHUNK", 700)
    monkeypatch.setattr(stream, "BATCH_BYTES", 1500)
    monkeypatch.setattr(module, "SPREAD_BYTES", 3000)
    monkeypatch.setattr(module, "BUCKET_BYTES", 2000)


def bucketed(path: Path, folder: Path) -> list[Gathered]:
    jobs = spread_jobs(find([path]).units, str(folder), ReadOptions())
    assert len(jobs) > 1
    found = [gather(job) for job in gather_jobs(jobs, [spread(j) for j in jobs])]
    assert len(found) > 1
    return found


OPTIONS = {
    "none": {},
    "column": {"arm": "late"},
    "value": {"arm": "base"},
    "trial": {"trial": "attempt"},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
@pytest.mark.parametrize("trial", [{}, {"trial": 0}], ids=["no_trial", "no_trial_number"])
def test_a_file_in_parts_gives_the_rows_of_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, str], trial: dict[str, int]
) -> None:
    path = lines(tmp_path / "in" / "set.jsonl", **trial)
    whole = read_frames([path], options=ReadOptions(**options))  # type: ignore[arg-type]
    assert len(find([path]).units) == 1
    monkeypatch.setattr(_sets, "WHOLE", 1000)
    monkeypatch.setattr(_sets, "PART", 900)
    monkeypatch.setattr(_sets, "CHUNK", 700)
    units = find([path]).units
    assert len(units) > 5
    assert {u.digest for u in units} == {sha256_file(path)}
    parts = read_units(units, ReadOptions(**options))  # type: ignore[arg-type]
    for name in CORE:
        # The lines about a file as a whole come with the part that shows it.
        assert_frame_equal(parts[name], whole[name], check_row_order=name != "diagnostics")
    assert parts["attempts"]["source_digest"].unique().to_list() == [sha256_file(path)]


@pytest.mark.parametrize("files", [1, 9])
def test_buckets_together_give_the_rows_of_one_load(tmp_path: Path, small: None, files: int) -> None:
    for n in range(files):
        lines(tmp_path / "in" / f"{n}.jsonl", 66 // files)
    whole = read_units(find([tmp_path / "in"]).units)
    found = bucketed(tmp_path / "in", tmp_path)
    for name in CORE:
        assert_frame_equal(pl.concat([f.frames[name] for f in found]), whole[name], check_row_order=False)
    homes = [set(f.frames["attempts"]["task_id"]) for f in found]
    assert sum(map(len, homes)) == len(set().union(*homes)) == whole["tasks"].height
    for f in found:
        # What is cited in a bucket is there, if lent.
        cited = [frames["evidence"]["package_id"] for frames in (f.frames, f.borrowed) if "evidence" in frames]
        assert set(f.frames["attempts"]["package_id"]) <= set(pl.concat(cited))


def test_an_attempt_follows_the_one_that_started_it(tmp_path: Path) -> None:
    attempts = frame_of(
        [attempt("a", "t1"), attempt("b", None, "a"), attempt("c", "t9", "b"), attempt("d", None)],
        CORE["attempts"].schema,
    )
    job = SpreadJob(0, (), ReadOptions(), str(tmp_path), 1024)
    numbers = module._keyed(attempts, job)["_bucket"]
    assert numbers.n_unique() == 2
    assert numbers[:3].n_unique() == 1


def attempt(ident: str, task: str | None, parent: str | None = None) -> dict[str, object]:
    return {
        "attempt_id": ident,
        "package_id": "p",
        "task_id": task,
        "parent_attempt_id": parent,
        "source_format": "atif",
        "trial_source": "unknown",
        "relation": "root",
        "status": "completed",
    }


def test_written_traces_are_compiled_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(3):
        package(tmp_path / "in", f"p{n}", task_id=f"t{n % 2}")
    lines(tmp_path / "in" / "set.jsonl", 12)
    read_traces(tmp_path / "in").write(tmp_path / "traces")
    compile_paths([tmp_path / "traces"], tmp_path / "whole", processes=1)
    for name, size in (("WHOLE", 1), ("PART", 9000)):
        monkeypatch.setattr(stored, name, size)
    monkeypatch.setattr(module, "SPREAD_BYTES", 1)
    monkeypatch.setattr(module, "BUCKET_BYTES", 9000)
    monkeypatch.setattr(stream, "BATCH_BYTES", 1)
    assert len(find([tmp_path / "traces"]).units) > 3
    report = compile_paths([tmp_path / "traces"], tmp_path / "parts", processes=1)
    assert report["run"]["cells"] > 3
    for file in (tmp_path / "whole" / "rows").glob("*.jsonl"):
        other = tmp_path / "parts" / "rows" / file.name
        assert sorted(file.read_text().splitlines()) == sorted(other.read_text().splitlines()), file.name
    for table in CORE:
        folder = "" if table == "diagnostics" else "tables"
        one, other_ = (pl.read_parquet(tmp_path / f / folder / f"{table}.parquet") for f in ("whole", "parts"))
        assert_frame_equal(one, other_, check_row_order=False)


def test_small_input_is_one_bucket(tmp_path: Path) -> None:
    assert bucket_count(find([lines(tmp_path / "set.jsonl")]).units) == 1


def test_rows_of_a_bucket_keep_their_order(tmp_path: Path) -> None:
    frame = pl.DataFrame({"b": [2, 0, 2, 3], "x": ["a", "b", "c", None], "y": [[1], [], None, [2, 3]]})
    path = tmp_path / "a.arrow"
    assert write_sorted(frame, "b", 5, path) == path.stat().st_size
    for number in range(5):
        found = read_bucket([path, path], number)
        rows = frame.filter(pl.col("b") == number).drop("b")
        if rows.height:
            assert found is not None
            assert_frame_equal(found, pl.concat([rows, rows]))
        else:
            assert found is None


def test_a_compile_in_buckets_makes_the_rows_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = lines(tmp_path / "in" / "set.jsonl")
    whole = compile_paths([path], tmp_path / "whole", processes=1)
    monkeypatch.setattr(_sets, "WHOLE", 1000)
    monkeypatch.setattr(_sets, "PART", 900)
    monkeypatch.setattr(module, "SPREAD_BYTES", 3000)
    monkeypatch.setattr(module, "BUCKET_BYTES", 2000)
    parts = compile_paths([path], tmp_path / "parts", processes=1)
    assert parts["run"]["cells"] > 2
    assert parts["total"] == whole["total"]
    for family, counts in parts["families"].items():
        assert counts == whole["families"][family]
        one, other = (
            sorted((tmp_path / f / "rows" / f"{family}.jsonl").read_text().splitlines()) for f in ("whole", "parts")
        )
        assert one == other
    # All attempts at a task met, however far from each other they lie in the file.
    groups = [pl.read_parquet(tmp_path / "parts" / f / "grpo_rollout_group.parquet") for f in ("rows", "rejected")]
    tasks = pl.read_parquet(tmp_path / "parts" / "tables" / "attempts.parquet").group_by("task_id", maintain_order=True)
    trials = tasks.agg(pl.col("trial").sort())["trial"]
    assert sorted(pl.concat(groups)["attempt_ids"].list.len()) == sorted(trials.list.len())
    assert trials.len() == 7
    assert all(numbers == list(range(len(numbers))) for numbers in trials.to_list())
    assert verify(tmp_path / "parts").ok


def test_a_copy_in_another_part_is_left_out_of_every_table(tmp_path: Path) -> None:
    written = []
    for number, idents in enumerate(("ab", "ac", "dd")):
        rows = {
            "attempts": [attempt(i, None) for i in idents],
            "steps": [{"attempt_id": i, "step_index": n, "source": "agent"} for i in idents for n in range(2)],
            "tasks": [{"task_id": "t", "domain": "x" if number else None}],
        }
        written.append({name: tmp_path / f"{name}.{number}.parquet" for name in rows})
        for name, own in rows.items():
            frame_of(own, CORE[name].schema).write_parquet(written[-1][name])
    calls = CORE["steps"].empty().select(CALLS)
    found = streamed.stream(written, calls, CORE["diagnostics"].empty(), ReadOptions())
    tables = {n: pl.concat([found.finished(n, p) for p in found.parts[n]]).collect() for n in ("attempts", "steps")}
    assert tables["attempts"]["attempt_id"].to_list() == ["a", "b", "c", "d"]
    assert tables["steps"].select("attempt_id", "step_index").rows() == [(i, n) for i in "abcd" for n in range(2)]
    assert found.held["tasks"].select("task_id", "domain").rows() == [("t", "x")]
    assert found.held["diagnostics"]["code"].to_list() == ["duplicate_attempt"] * 2
