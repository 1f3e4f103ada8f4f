"""Releases and bundles: records laid at their place in a package, whatever their files are called."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import expcomp as xc
from expcomp.sources.load import read_frames
from tests.helpers import package

RELEASE = {
    "task_intake_specs": "task/task_intake_spec.json",
    "rubrics": "rubric/rubric.json",
    "agent_traces": "attempts/*/agent_trace.json",
    "actual_outputs": "attempts/*/actual_outputs.json",
    "grader_results": "grading/*_grader_result.json",
    "verifier_results": "grading/*_verifier_result.json",
}


def records(folder: Path, pattern: str) -> list[dict[str, Any]]:
    """The documents of a package as records: each names its task and, below an attempt, its attempt."""
    found = []
    for file in sorted(folder.glob(pattern)):
        own = {"task_id": f"task_{folder.name}"}
        parts = file.relative_to(folder).parts
        if parts[0] in ("attempts", "grading"):
            own["attempt_kind"] = parts[1].split("_")[0]
        found.append(json.loads(file.read_text("utf-8")) | own)
    return found


def release(tmp_path: Path) -> Path:
    out = tmp_path / "release"
    out.mkdir()
    folders = [package(tmp_path / "in", name, task_id=f"task_{name}") for name in ("pkg_a", "pkg_b")]
    for stem, pattern in RELEASE.items():
        lines = [json.dumps(r) + "\n" for folder in folders for r in records(folder, pattern)]
        (out / f"{stem}.jsonl").write_text("".join(lines), encoding="utf-8")
    return out


def texts(folder: Path, table: str, column: str) -> list[str]:
    return sorted(x for x in read_frames([folder])[table][column].to_list() if x is not None)


def test_a_release_gives_the_attempts_and_steps_of_its_packages(tmp_path: Path) -> None:
    out = release(tmp_path)
    for table, column in (
        ("attempts", "native_attempt_id"),
        ("attempts", "attempt_kind"),
        ("steps", "output"),
        ("messages", "content"),
    ):
        assert texts(out, table, column) == texts(tmp_path / "in", table, column)
    assert read_frames([out])["attempts"]["package_id"].n_unique() == 2


def test_rows_of_a_release_cite_the_file_that_holds_the_record(tmp_path: Path) -> None:
    frames = read_frames([release(tmp_path)])
    assert set(frames["attempts"]["trace_ref"]) == {"agent_traces.jsonl"}
    cited = frames["evidence"].filter(frames["evidence"]["ref"] == "agent_traces.jsonl")
    assert cited["exists"].all()
    assert cited["sha256"].n_unique() == 1


def test_a_release_compiles_into_pairs(tmp_path: Path) -> None:
    compilation = xc.compile(xc.read_traces(release(tmp_path)))
    assert compilation.rows["preference_pair"].height > 0
    assert compilation.report["total"]["generated"] == sum(
        p["generated"] for p in compilation.report["packages"].values()
    )


def test_a_record_that_names_no_task_is_reported(tmp_path: Path) -> None:
    out = release(tmp_path)
    with (out / "verifier_results.jsonl").open("a", encoding="utf-8") as handle:
        handle.write(json.dumps({"verification_status": "verified", "attempt_kind": "baseline"}) + "\n")
    told = read_frames([out])["diagnostics"]
    assert told.filter((told["code"] == "no_task_id") & (told["source_uri"] == "verifier_results.jsonl")).height == 1


def test_a_bundle_is_one_package(tmp_path: Path) -> None:
    source = package(tmp_path / "in", "pkg_a", task_id="task_pkg_a")
    bundle = tmp_path / "bundle"
    places = {"traces": "agent_traces", "outputs": "actual_outputs", "evaluation": "grader_results"}
    for folder, stem in places.items():
        (bundle / folder).mkdir(parents=True)
        for i, record in enumerate(records(source, RELEASE[stem])):
            (bundle / folder / f"{stem}_{i}.json").write_text(json.dumps(record), encoding="utf-8")
    (bundle / "contribution_manifest.json").write_text("{}", encoding="utf-8")
    frames = read_frames([bundle])
    assert set(frames["attempts"]["package_id"]) == {"bundle"}
    assert texts(bundle, "steps", "output") == texts(tmp_path / "in", "steps", "output")
    assert frames["attempts"]["score_norm"].null_count() == 0
