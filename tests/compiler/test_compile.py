"""A compile as a whole: books, bytes, inputs, refusals, and what single rows must look like."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from itertools import pairwise
from pathlib import Path
from subprocess import run
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import expcomp as xc
from expcomp.compiler.verify import verify
from expcomp.errors import OutputError, SourceError, UsageError
from expcomp.rows.registry import ROW_FAMILIES
from expcomp.sources.packages import _package
from expcomp.tables.core import CORE
from tests.helpers import STEPS, environment, package, published, put, tree

MANY = 33
"""Packages from which on there are two shards."""


def compiled_to(out: Path, *paths: Path, **more: Any) -> Path:
    xc.compile_paths(paths, out, **({"processes": 1} | more))
    return out


def document(out: Path, name: str) -> dict[str, Any]:
    return json.loads((out / name).read_text("utf-8"))


# -- size ---------------------------------------------------------------------------------------------------------------------


def test_tables_of_many_chunks_hold_the_same_rows(
    tmp_path: Path, packages: Path, compiled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("expcomp.compiler.layout.CHUNK_ROWS", 1)
    streamed = compiled_to(tmp_path / "streamed", packages)
    assert verify(streamed).ok
    for name in ROW_FAMILIES:
        for where in ("rows", "rejected"):
            file = f"{where}/{name}.parquet"
            assert_frame_equal(pl.read_parquet(streamed / file), pl.read_parquet(compiled / file))


# -- books -----------------------------------------------------------------------------------------------------------------


def test_generated_is_accepted_plus_rejected_by_family_and_in_all(compiled: Path) -> None:
    report = document(compiled, "report.json")
    for name, family in report["families"].items():
        assert family["generated"] == family["accepted"] + family["rejected"], name
    total = {k: sum(f[k] for f in report["families"].values()) for k in ("generated", "accepted", "rejected")}
    assert report["total"] == total == {k: sum(p[k] for p in report["packages"].values()) for k in total}
    assert total["rejected"] > 0


@pytest.mark.parametrize(("where", "verdict"), [("rows", "accepted"), ("rejected", "rejected")])
def test_the_files_hold_the_rows_that_the_report_counts(compiled: Path, where: str, verdict: str) -> None:
    report = document(compiled, "report.json")
    frames = {f: pl.read_parquet(compiled / where / f"{f}.parquet") for f in ROW_FAMILIES}
    assert {f: frame.height for f, frame in frames.items()} == {f: report["families"][f][verdict] for f in ROW_FAMILIES}
    ids = pl.concat([f["package_id"] for f in frames.values()])
    assert dict(ids.value_counts(sort=False).iter_rows()) == {p: b[verdict] for p, b in report["packages"].items()}


def test_the_reasons_in_the_report_are_those_in_the_rejected_rows(compiled: Path) -> None:
    report = document(compiled, "report.json")
    for family in ROW_FAMILIES:
        reasons = pl.read_parquet(compiled / f"rejected/{family}.parquet")["reject_reasons"].list.explode(
            keep_nulls=False, empty_as_null=False
        )
        assert dict(sorted(reasons.value_counts(sort=False).iter_rows())) == report["families"][family]["reasons"]


def test_a_package_without_an_attempt_is_in_the_books(tmp_path: Path) -> None:
    package(tmp_path / "in")
    (package(tmp_path / "in", "pkg_b", task_id="task_b") / "keep").mkdir()
    shutil.rmtree(tmp_path / "in/pkg_b/attempts")
    shutil.rmtree(tmp_path / "in/pkg_b/loops")
    report = xc.compile_paths([tmp_path / "in"], tmp_path / "out", processes=1)
    assert report["packages"]["pkg_b"] == {"generated": 0, "accepted": 0, "rejected": 0}


def test_a_package_without_loops_is_read(tmp_path: Path) -> None:
    package(tmp_path / "in", loops=False)
    report = xc.compile_paths([tmp_path / "in"], tmp_path / "out", processes=1)
    assert report["attempts"] == {"packages": 2}
    assert "unreadable_package" not in report["diagnostics"]


# -- files -----------------------------------------------------------------------------------------------------------------


def test_the_output_holds_every_table_and_family_also_the_empty_ones(compiled: Path) -> None:
    tables = {f"tables/{n}.parquet" for n in CORE if n != "diagnostics"} | {"diagnostics.parquet"}
    rows = {f"{where}/{n}.parquet" for n in ROW_FAMILIES for where in ("rows", "rejected")} | {
        f"rows/{n}.jsonl" for n in ROW_FAMILIES
    }
    assert set(tree(compiled)) == tables | rows | {"manifest.json", "report.json", "update.state"}


def test_empty_families_are_typed(compiled: Path) -> None:
    frame = pl.read_parquet(compiled / "rows/database_event.parquet")
    assert frame.height == 0
    assert frame.schema == ROW_FAMILIES["database_event"].family.table.schema


def test_the_manifest_states_the_bytes_of_each_file(compiled: Path) -> None:
    files = {e["path"]: (e["sha256"], e["bytes"]) for e in document(compiled, "manifest.json")["files"]}
    on_disk = {
        n: (f"sha256:{h}", (compiled / n).stat().st_size)
        for n, h in tree(compiled).items()
        if n not in ("manifest.json", "report.json")
    }
    assert files == on_disk


def test_parquet_carries_the_digests_of_its_contract(compiled: Path) -> None:
    entry = next(e for e in document(compiled, "manifest.json")["files"] if e["path"] == "rows/preference_pair.parquet")
    meta = pl.read_parquet_metadata(compiled / entry["path"])
    assert (meta["expcomp.schema_digest"], meta["expcomp.rules_digest"]) == (
        entry["schema_digest"],
        entry["rules_digest"],
    )


def test_lines_hold_the_rows_of_the_parquet_twin(compiled: Path) -> None:
    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: plain(v) for k, v in value.items() if v is not None}
        if isinstance(value, list):
            return [plain(v) for v in value]
        return value.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if hasattr(value, "strftime") else value

    for family in ROW_FAMILIES:
        lines = (compiled / f"rows/{family}.jsonl").read_text("utf-8").split("\n")
        rows = pl.read_parquet(compiled / f"rows/{family}.parquet").to_dicts()
        assert lines.pop() == ""
        assert [json.loads(line) for line in lines] == [plain(r) for r in rows], family


def test_the_hash_rule_of_the_manifest_gives_every_content_hash(compiled: Path) -> None:
    rule = document(compiled, "manifest.json")["hash_rule"]
    seen = 0
    for path in sorted((compiled / "rows").glob("*.jsonl")):
        for line in path.read_text("utf-8").split("\n")[:-1]:
            row = json.loads(line)
            stated = row.pop("content_hash")
            content = {k: v for k, v in row.items() if k not in rule["exclude"]}
            text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
            assert stated == rule["prefix"] + hashlib.new(rule["algorithm"], text.encode()).hexdigest(), path.name
            seen += 1
    assert seen == document(compiled, "report.json")["total"]["accepted"]


def test_row_ids_are_unique(compiled: Path) -> None:
    for family in ROW_FAMILIES:
        ids = pl.concat(
            [pl.read_parquet(compiled / where / f"{family}.parquet")["row_id"] for where in ("rows", "rejected")]
        )
        assert ids.n_unique() == ids.len(), family


def test_no_path_of_this_machine_is_in_the_output(packages: Path, compiled: Path) -> None:
    for where in (packages, compiled):
        needle = os.fspath(where.parent).encode()
        assert [n for n in tree(compiled) if needle in (compiled / n).read_bytes()] == []


# -- determinism ------------------------------------------------------------------------------------------------------------


def test_two_runs_in_different_folders_give_the_same_bytes(packages: Path, compiled: Path, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere/deeper"
    shutil.copytree(packages, moved)
    assert published(compiled_to(tmp_path / "again", moved)) == published(compiled)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """An input of two shards, and its output made by one process."""
    folder = tmp_path_factory.mktemp("many")
    for i in range(MANY):
        package(
            folder / "in",
            f"pkg_{i:02}",
            task_id=f"task_{(7 * i) % MANY:02}",
            scores={"baseline": 0.1, "revised": 0.5 + i / 100},
        )
    return folder / "in", compiled_to(folder / "out", folder / "in")


def test_the_input_has_two_shards(many: tuple[Path, Path]) -> None:
    assert document(many[1], "report.json")["run"]["shards"] == 2


@pytest.mark.slow
def test_one_and_two_processes_give_the_same_bytes(many: tuple[Path, Path], tmp_path: Path) -> None:
    out = compiled_to(tmp_path / "out", many[0], processes=2)
    assert document(out, "report.json")["run"]["processes"] == 2
    assert published(out) == published(many[1])


@pytest.mark.slow
@pytest.mark.parametrize(
    "engine",
    [{"POLARS_ENGINE_AFFINITY": "in-memory"}, {"POLARS_ENGINE_AFFINITY": "streaming"}, {"POLARS_MAX_THREADS": "1"}],
)
def test_the_engine_does_not_show_in_the_bytes(many: tuple[Path, Path], tmp_path: Path, engine: dict[str, str]) -> None:
    code = "import sys, expcomp; expcomp.compile_paths([sys.argv[1]], sys.argv[2], processes=1)"
    run([sys.executable, "-c", code, many[0], tmp_path / "out"], check=True, env=environment(engine), timeout=120)
    assert published(tmp_path / "out") == published(many[1])


def test_the_order_of_the_paths_does_not_show_in_the_rows(packages: Path, compiled: Path, tmp_path: Path) -> None:
    out = compiled_to(tmp_path / "out", packages / "pkg_b", packages / "pkg_a")
    for family in ROW_FAMILIES:
        assert_frame_equal(
            pl.read_parquet(out / f"rows/{family}.parquet"), pl.read_parquet(compiled / f"rows/{family}.parquet")
        )


def test_options_are_in_the_manifest(packages: Path, tmp_path: Path) -> None:
    out = compiled_to(tmp_path / "out", packages, options=xc.CompileOptions(margin=0.25, pii=True))
    options = document(out, "manifest.json")["options"]
    assert (options["margin"], options["pii"], options["max_rounds"]) == (0.25, True, 3)


def test_changed_input_changes_the_fingerprint(tmp_path: Path) -> None:
    root = package(tmp_path / "in")
    before = document(compiled_to(tmp_path / "one", tmp_path / "in"), "manifest.json")["input_fingerprint"]
    with (root / "attempts/baseline/artifacts/report.md").open("a") as handle:
        handle.write("\nOne more line.\n")
    assert document(compiled_to(tmp_path / "two", tmp_path / "in"), "manifest.json")["input_fingerprint"] != before


# -- inputs and refusals ------------------------------------------------------------------------------------------------------


def test_the_input_is_only_read(tmp_path: Path) -> None:
    package(tmp_path / "in", faults=["missing_ref", "duplicate_step"])
    before = tree(tmp_path / "in"), {p: p.stat().st_mtime_ns for p in (tmp_path / "in").rglob("*")}
    compiled_to(tmp_path / "out", tmp_path / "in")
    assert (tree(tmp_path / "in"), {p: p.stat().st_mtime_ns for p in (tmp_path / "in").rglob("*")}) == before


def test_an_existing_output_is_kept_without_force(packages: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/mine.txt").write_text("keep", encoding="utf-8")
    with pytest.raises(OutputError, match="out"):
        compiled_to(tmp_path / "out", packages)
    assert tree(tmp_path) == {"out/mine.txt": hashlib.sha256(b"keep").hexdigest()}


def test_force_replaces_an_earlier_output(packages: Path, compiled: Path, tmp_path: Path) -> None:
    shutil.copytree(compiled, tmp_path / "out")
    (tmp_path / "out/rows/old_family.parquet").write_bytes(b"old")
    compiled_to(tmp_path / "out", packages, force=True)
    assert published(tmp_path / "out") == published(compiled)
    assert os.listdir(tmp_path) == ["out"]  # noqa: PTH208


@pytest.mark.parametrize("out", ["in/out", "in/pkg_a/out", "in", "."])
def test_an_output_inside_or_around_an_input_is_refused(tmp_path: Path, out: str) -> None:
    package(tmp_path / "in")
    before = tree(tmp_path)
    with pytest.raises(UsageError, match="lie inside each other"):
        compiled_to(tmp_path / out, tmp_path / "in", force=True)
    assert tree(tmp_path) == before


def test_an_output_that_reaches_the_input_through_a_link_is_refused(tmp_path: Path) -> None:
    package(tmp_path / "in")
    (tmp_path / "link").symlink_to(tmp_path / "in")
    with pytest.raises(UsageError, match="lie inside each other"):
        compiled_to(tmp_path / "link/out", tmp_path / "in")


def test_a_sibling_with_the_same_beginning_of_its_name_is_no_input(tmp_path: Path) -> None:
    package(tmp_path / "in")
    assert verify(compiled_to(tmp_path / "in_out", tmp_path / "in")).ok


@pytest.mark.parametrize("content", [{}, {"notes.txt": "nothing of ours"}, {"a/b.json": "[]"}])
def test_nothing_found_is_an_error_and_leaves_nothing(tmp_path: Path, content: dict[str, str]) -> None:
    (tmp_path / "in").mkdir()
    for name, text in content.items():
        (tmp_path / "in" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "in" / name).write_text(text, encoding="utf-8")
    with pytest.raises(SourceError, match="nothing to read"):
        compiled_to(tmp_path / "out", tmp_path / "in")
    assert os.listdir(tmp_path) == ["in"]  # noqa: PTH208


def test_a_path_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no_such_folder"):
        compiled_to(tmp_path / "out", tmp_path / "no_such_folder")


@pytest.mark.parametrize("force", [False, True])
def test_an_output_that_cannot_be_written_is_an_output_error(packages: Path, tmp_path: Path, force: bool) -> None:
    (tmp_path / "file").write_text("a file, no folder", encoding="utf-8")
    with pytest.raises(OutputError, match="file"):
        compiled_to(tmp_path / "file/out", packages, force=force)
    assert tree(tmp_path) == {"file": hashlib.sha256(b"a file, no folder").hexdigest()}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_write_permission_is_an_output_error(packages: Path, tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0o555)
    with pytest.raises(OutputError, match="locked"):
        compiled_to(tmp_path / "locked/out", packages)


def test_a_failure_on_the_way_leaves_nothing(packages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("expcomp.compiler.build.write_json", full)
    with pytest.raises((OSError, OutputError), match="No space left"):
        compiled_to(tmp_path / "out", packages)
    assert os.listdir(tmp_path) == []  # noqa: PTH208


def test_a_failure_under_force_keeps_the_old_output(
    packages: Path, compiled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(compiled, tmp_path / "out")

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("expcomp.compiler.build.write_json", full)
    with pytest.raises((OSError, OutputError), match="No space left"):
        compiled_to(tmp_path / "out", packages, force=True)
    assert os.listdir(tmp_path) == ["out"]  # noqa: PTH208
    assert published(tmp_path / "out") == published(compiled)


def test_a_package_that_vanishes_while_it_is_read_costs_only_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("pkg_a", "pkg_b", "pkg_c"):
        package(tmp_path / "in", name, task_id=f"task_of_{name}")
    alone = xc.compile_paths([tmp_path / "in/pkg_a"], tmp_path / "alone", processes=1)
    real = _package.walk

    def walk(root: Path) -> Any:
        if Path(root).name == "pkg_b":
            shutil.rmtree(root)
        return real(root)

    monkeypatch.setattr(_package, "walk", walk)
    report = xc.compile_paths([tmp_path / "in"], tmp_path / "out", processes=1)
    assert report["packages"]["pkg_b"] == {"generated": 0, "accepted": 0, "rejected": 0}
    assert report["packages"]["pkg_a"] == report["packages"]["pkg_c"] == alone["packages"]["pkg_a"]
    lines = pl.read_parquet(tmp_path / "out/diagnostics.parquet")
    assert lines.select("package_id", "code", "severity").rows() == [("pkg_b", "unreadable_package", "error")]
    assert verify(tmp_path / "out").ok


def test_a_file_that_vanishes_while_it_is_read_costs_only_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package(tmp_path / "in", loops=False)
    package(tmp_path / "in", "pkg_b", task_id="task_b")
    real = _package.read_fast

    def read_fast(path: Any, **more: Any) -> bytes:
        if os.fspath(path).endswith("pkg_b/attempts/revised/agent_trace.json"):
            Path(path).unlink(missing_ok=True)
        return real(path, **more)

    monkeypatch.setattr(_package, "read_fast", read_fast)
    compiled_to(tmp_path / "out", tmp_path / "in")
    lines = pl.read_parquet(tmp_path / "out/diagnostics.parquet").filter(pl.col("code") == "unreadable_file")
    assert lines.select("package_id", "source_uri").rows() == [("pkg_b", "attempts/revised/agent_trace.json")]
    kinds = pl.read_parquet(tmp_path / "out/rows/environment_response_pair.parquet").filter(
        pl.col("package_id") == "pkg_b"
    )["attempt_kind"]
    assert set(kinds) == {"baseline"}


# -- in memory ------------------------------------------------------------------------------------------------------------------


def test_a_compile_in_memory_gives_the_rows_of_the_folder(many: tuple[Path, Path]) -> None:
    here, there = xc.compile(xc.read_traces(many[0])), xc.open_compilation(many[1])
    for family in ROW_FAMILIES:
        for one, two in ((here.rows, there.rows), (here.rejected, there.rejected)):
            assert_frame_equal(one[family].sort("row_id"), two[family].sort("row_id"))
    assert {k: here.report[k] for k in ("total", "families", "packages", "redactions", "diagnostics")} == {
        k: there.report[k] for k in ("total", "families", "packages", "redactions", "diagnostics")
    }


def test_a_compilation_says_what_it_holds(compiled: Path) -> None:
    found = xc.open_compilation(compiled)
    total = document(compiled, "report.json")["total"]
    assert repr(found) == f"Compilation({total['accepted']} rows accepted, {total['rejected']} rejected, 2 packages)"
    assert "preference_pair" in found._repr_html_()
    assert found.summary["family"].to_list() == list(ROW_FAMILIES)


def test_an_unknown_family_is_named_with_those_that_are_known(compiled: Path) -> None:
    with pytest.raises(KeyError, match=r"no family 'pairs'.*preference_pair"):
        xc.open_compilation(compiled).rows["pairs"]


# -- pairs and groups -------------------------------------------------------------------------------------------------------------


def test_pairs_never_cross_tasks(many: tuple[Path, Path]) -> None:
    pairs = pl.read_parquet(many[1] / "rows/preference_pair.parquet").filter(pl.col("pair_level") == "attempt")
    task = pl.read_parquet(many[1] / "tables/attempts.parquet").select("attempt_id", "task_id")
    both = pairs.select("task_id", "chosen_attempt_id", "rejected_attempt_id")
    for side in ("chosen", "rejected"):
        both = both.join(
            task.rename({"attempt_id": f"{side}_attempt_id", "task_id": f"{side}_task"}),
            on=f"{side}_attempt_id",
            how="left",
            maintain_order="left",
        )
    assert pairs.height == MANY
    assert (
        both.filter(
            (pl.col("chosen_task") != pl.col("task_id")) | (pl.col("rejected_task") != pl.col("task_id"))
        ).height
        == 0
    )


def test_the_better_attempt_is_chosen(compiled: Path) -> None:
    pairs = (
        pl.read_parquet(compiled / "rows/preference_pair.parquet")
        .filter(pl.col("pair_level") == "attempt")
        .sort("package_id")
    )
    assert pairs["chosen_score"].to_list() == [0.9, 1.0]
    assert pairs["rejected_score"].to_list() == [0.4, 0.4]
    assert pairs["margin"].to_list() == pytest.approx([0.5, 0.6])


@pytest.mark.parametrize(("low", "high", "pairs"), [(0.6, 0.6, 0), (0.6, 0.65, 0), (0.6, 0.8, 1)])
def test_a_tie_gives_no_pair(tmp_path: Path, low: float, high: float, pairs: int) -> None:
    package(tmp_path, scores={"baseline": low, "revised": high})
    found = xc.compile(xc.read_traces(tmp_path))
    assert found.rows["preference_pair"].filter(pl.col("pair_level") == "attempt").height == pairs
    rejected = found.rejected["preference_pair"].filter(pl.col("pair_level") == "attempt")
    assert rejected["reject_reasons"].to_list() == [["tie_or_small_margin"]] * (1 - pairs)


def test_three_attempts_give_three_pairs(tmp_path: Path) -> None:
    package(tmp_path, scores={"baseline": 0.2, "revised": 0.9, "third": 0.5})
    pairs = xc.compile(xc.read_traces(tmp_path)).rows["preference_pair"].filter(pl.col("pair_level") == "attempt")
    assert sorted(zip(pairs["chosen_score"], pairs["rejected_score"], strict=True)) == [
        (0.5, 0.2),
        (0.9, 0.2),
        (0.9, 0.5),
    ]


@pytest.mark.parametrize("fault", ["nan_score", "over_scale", "no_scale", "not_run"])
def test_an_attempt_without_a_usable_verdict_is_on_no_side_of_a_pair(tmp_path: Path, fault: str) -> None:
    package(tmp_path, faults=[fault])
    found = xc.compile(xc.read_traces(tmp_path))
    assert found.rows["preference_pair"].filter(pl.col("pair_level") == "attempt").height == 0
    assert found.rejected["preference_pair"].filter(pl.col("pair_level") == "attempt").height == 1


@pytest.mark.parametrize("fault", ["nan_score", "over_scale", "no_scale", "not_run"])
def test_an_attempt_without_a_usable_verdict_gives_no_sft_row_whatever_passed_says(tmp_path: Path, fault: str) -> None:
    package(tmp_path, scores={"baseline": 0.9}, faults=[fault])
    found = xc.compile(xc.read_traces(tmp_path))
    assert found.rows["training_example"].height == 0
    assert found.rejected["training_example"].height == 2


def test_advantages_are_over_the_population_deviation(compiled: Path) -> None:
    group = pl.read_parquet(compiled / "rows/grpo_rollout_group.parquet").filter(pl.col("package_id") == "pkg_a")
    row = group.to_dicts()[0]
    assert row["rewards"] == [0.4, 0.9]
    assert (row["reward_mean"], row["reward_std"]) == pytest.approx((0.65, 0.25))
    assert row["advantages"] == pytest.approx([-1.0, 1.0])
    assert (row["group_size"], row["pass_rate"], row["solver_gap"]) == (2, 0.5, 0.5)
    assert len(row["completions"]) == 2


def test_three_advantages_by_hand(tmp_path: Path) -> None:
    package(tmp_path, scores={"baseline": 0.0, "revised": 1.0, "third": 0.5})
    row = xc.compile(xc.read_traces(tmp_path)).rows["grpo_rollout_group"].to_dicts()[0]
    # Mean 0.5, variance (0.25 + 0.25 + 0) / 3, so 0.5 / sqrt(1/6) = sqrt(1.5).
    assert row["advantages"] == pytest.approx([-(1.5**0.5), 1.5**0.5, 0.0])


@pytest.mark.parametrize(
    ("scores", "reason"),
    [({"baseline": 0.9}, "single_attempt"), ({"baseline": 0.7, "revised": 0.7}, "zero_variance_group")],
)
def test_a_group_needs_two_attempts_and_some_spread(tmp_path: Path, scores: dict[str, float], reason: str) -> None:
    package(tmp_path, scores=scores)
    found = xc.compile(xc.read_traces(tmp_path))
    assert found.rows["grpo_rollout_group"].height == 0
    (reasons,) = found.rejected["grpo_rollout_group"]["reject_reasons"].to_list()
    assert reason in reasons


# -- conversations ---------------------------------------------------------------------------------------------------------------


def test_a_conversation_says_what_the_steps_say(tmp_path: Path) -> None:
    package(tmp_path, scores={"baseline": 0.9})
    found = (
        xc.compile(xc.read_traces(tmp_path)).rows["training_example"].filter(pl.col("example_kind") == "conversation")
    )
    messages = found["messages"].to_list()[0]
    tool_steps = [(n, s) for n, s in enumerate(STEPS) if "tool" in s]
    expected: list[tuple[str, Any, Any]] = [
        ("system", "Work in small recorded steps.", None),
        ("user", STEPS[0]["input"], None),
    ]
    for _, step in tool_steps:
        expected += [("assistant", None, {"input": step["input"]}), ("tool", step["output"], None)]
    expected.append(("assistant", "There are twelve gauges. (baseline)", None))
    said = [
        (m["role"], m["content"], json.loads(m["tool_calls"][0]["arguments"]) if m["tool_calls"] else None)
        for m in messages
    ]
    assert said == expected
    assert [m["tool_calls"][0]["name"] for m in messages if m["tool_calls"]] == [s["tool"] for _, s in tool_steps]


def test_a_result_answers_the_call_before_it(tmp_path: Path) -> None:
    package(tmp_path, scores={"baseline": 0.9})
    messages = xc.compile(xc.read_traces(tmp_path)).rows["training_example"]["messages"].to_list()[0]
    for call, answer in pairwise(messages):
        if call["tool_calls"]:
            assert answer["role"] == "tool"
            assert answer["tool_call_id"] == call["tool_calls"][0]["id"]


def test_only_what_the_model_wrote_is_trainable(tmp_path: Path) -> None:
    package(tmp_path, scores={"baseline": 0.9})
    messages = xc.compile(xc.read_traces(tmp_path)).rows["training_example"]["messages"].to_list()[0]
    assert {(m["role"], m["trainable"]) for m in messages} == {
        ("system", False),
        ("user", False),
        ("assistant", True),
        ("tool", False),
    }


def test_an_exact_copy_of_a_step_is_in_no_conversation_and_rejected_as_a_row(tmp_path: Path) -> None:
    package(tmp_path, scores={"baseline": 0.9}, faults=["duplicate_step"])
    found = xc.compile(xc.read_traces(tmp_path))
    talk = found.rows["training_example"].filter(pl.col("example_kind") == "conversation")
    assert talk["n_tool_calls"].to_list() == [3]
    copies = found.rejected["environment_response_pair"].filter(
        pl.col("reject_reasons").list.contains("duplicate_exact")
    )
    assert copies["step_index"].to_list() == [3]


def test_overlong_text_is_cut_flagged_and_counted(tmp_path: Path) -> None:
    steps = [dict(s) for s in STEPS]
    steps[1]["output"] = "ü" * 300
    package(tmp_path, scores={"baseline": 0.9}, steps=steps)
    rows = xc.compile(xc.read_traces(tmp_path), options=xc.CompileOptions(max_text_chars=100)).rows[
        "environment_response_pair"
    ]
    cut = rows.filter(pl.col("step_index") == 1).select(
        "observed_environment_response", "observed_environment_response_chars", "truncated"
    )
    assert cut.rows() == [("ü" * 100, 300, True)]
    assert rows.filter(pl.col("step_index") != 1)["truncated"].to_list() == [False, False]


def test_a_secret_is_in_no_file_of_the_output(tmp_path: Path) -> None:
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2
    steps = [dict(s) for s in STEPS]
    steps[1] |= {"output": f"token {token}", "command": f"login {token}", "error_message": token, "state_change": token}
    package(tmp_path / "in", steps=steps, instruction=f"Use {token} to count.")
    out = compiled_to(tmp_path / "out", tmp_path / "in")
    for path in sorted(out.rglob("*.parquet")):
        text = (
            pl.read_parquet(path)
            .select(
                pl.struct(pl.all()).struct.json_encode().str.contains(token, literal=True).any().fill_null(value=False)
            )
            .item()
        )
        assert not text, path.name
    assert not any(token.encode() in p.read_bytes() for p in out.rglob("*.json*"))
    assert sum(document(out, "report.json")["redactions"].values()) > 8


def test_private_criteria_are_in_flagged_evaluation_rows_only(packages: Path, compiled: Path) -> None:
    del packages
    holders = {
        p.stem
        for p in sorted((compiled / "rows").glob("*.jsonl"))
        if "The hidden total is matched." in p.read_text("utf-8")
    }
    assert holders == {"evaluation_example"}
    rows = pl.read_parquet(compiled / "rows/evaluation_example.parquet").filter(
        pl.col("criterion_description") == "The hidden total is matched."
    )
    assert rows["verifier_only"].to_list() == [True, True]


# -- twins ------------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> xc.Compilation:
    """The same task in two folders."""
    folder = tmp_path_factory.mktemp("twins")
    package(folder, "pkg_a")
    package(folder, "pkg_b")
    return xc.compile(xc.read_traces(folder))


def test_twins_are_reported_once(twins: xc.Compilation) -> None:
    lines = twins.tables["diagnostics"].filter(pl.col("code") == "duplicate_task")
    assert lines.select("package_id", "severity").rows() == [("pkg_b", "warning")]


def test_rows_of_twins_keep_their_package(twins: xc.Compilation) -> None:
    assert twins.report["packages"]["pkg_a"]["accepted"] > 0
    per_package = twins.rows["environment_response_pair"]["package_id"].value_counts(sort=False)
    assert dict(per_package.iter_rows()) == {"pkg_a": 6, "pkg_b": 6}


def test_pairs_stay_inside_a_twin(twins: xc.Compilation) -> None:
    pairs = twins.rows["preference_pair"].filter(pl.col("pair_level") == "attempt")
    owner = dict(twins.tables["attempts"].select("attempt_id", "package_id").iter_rows())
    assert sorted(
        (owner[a], owner[b]) for a, b in pairs.select("chosen_attempt_id", "rejected_attempt_id").iter_rows()
    ) == [
        ("pkg_a", "pkg_a"),
        ("pkg_b", "pkg_b"),
    ]


def test_two_packages_of_one_name_are_named_by_their_paths(tmp_path: Path) -> None:
    package(tmp_path / "in/first", "pkg_a")
    package(tmp_path / "in/second", "pkg_a")
    xc.compile_paths([tmp_path / "in"], tmp_path / "out")
    attempts = pl.read_parquet(tmp_path / "out/tables/attempts.parquet")
    assert attempts["package_id"].unique().sort().to_list() == ["pkg_a", "second/pkg_a"]
    assert "same_name" in pl.read_parquet(tmp_path / "out/diagnostics.parquet")["code"]


def test_row_ids_of_twins_differ(twins: xc.Compilation) -> None:
    for family in ROW_FAMILIES:
        ids = twins.rows[family]["row_id"]
        assert ids.n_unique() == ids.len(), family


def test_twins_give_one_group_for_their_task(twins: xc.Compilation) -> None:
    groups = twins.rows["grpo_rollout_group"]
    assert groups["rewards"].to_list() == [[0.4, 0.9, 0.4, 0.9]]
    assert groups["advantages"].to_list()[0] == pytest.approx([-1, 1, -1, 1])


def test_twins_in_two_shards_are_read_together(tmp_path: Path) -> None:
    for i in range(MANY):
        package(tmp_path / "in", f"pkg_{i:02}", task_id=f"task_{i % 3}", loops=True)
    report = xc.compile_paths([tmp_path / "in"], tmp_path / "out", processes=1)
    groups = pl.read_parquet(tmp_path / "out/rows/grpo_rollout_group.parquet")
    assert report["run"]["shards"] == 2
    assert groups["group_size"].to_list() == [22, 22, 22]


def test_a_compilation_in_memory_is_written_as_the_folder_would_be(
    tmp_path: Path, packages: Path, compiled: Path
) -> None:
    xc.compile(xc.read_traces(packages)).write(tmp_path / "out")
    assert verify(tmp_path / "out").ok
    for file in sorted(compiled.rglob("*.*")):
        name = file.relative_to(compiled).as_posix()
        if name.startswith(("rows/", "rejected/", "tables/")):
            assert (tmp_path / "out" / name).read_bytes() == file.read_bytes(), name


def test_the_same_file_of_two_attempts_is_a_pair_when_it_says_enough(tmp_path: Path) -> None:
    root = package(tmp_path, scores={"baseline": 0.4, "revised": 0.9, "third": 0.9})
    words = "Twelve gauges stand in the yard, of which three leak and one was replaced last week, so eleven count."
    for kind, text in (("baseline", f"{words} No."), ("revised", f"{words} Yes."), ("third", f"{words} Yes.")):
        put(root / f"attempts/{kind}/artifacts/report.md", text)
    found = xc.compile(xc.read_traces(tmp_path))
    pairs = found.rows["preference_pair"].filter(pl.col("pair_level") == "deliverable")
    # Equal scores give no pair, and neither do equal files.
    assert sorted(p[0]["content"][-4:] for p in pairs["chosen"].to_list()) == ["Yes.", "Yes."]
    assert {p[0]["content"] for p in pairs["rejected"].to_list()} == {f"{words} No."}
    assert pairs["margin"].to_list() == pytest.approx([0.5, 0.5])
    assert {p[0]["content"].split("\n\n")[-1] for p in pairs["prompt"].to_list()} == {"report.md"}
    put(root / "attempts/revised/artifacts/report.md", "Twelve.")
    short = xc.compile(xc.read_traces(tmp_path)).rows["preference_pair"].filter(pl.col("pair_level") == "deliverable")
    assert short.height == 1
