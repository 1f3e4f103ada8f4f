"""TraceSets: written and taken up again, streamed, summed up."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys

import polars as pl
import pytest

import expcomp as xc
from expcomp.errors import ExpcompError, OutputError, SourceError, UsageError
from expcomp.sources import load, stream
from expcomp.tables.core import CORE


def tau_row(task, trial, reward=1.0):
    calls = [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"x": "a\\\\d"}'}}]
    traj = [
        {"role": "system", "content": "policy"},
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "c1", "content": "seen"},
        {"role": "assistant", "content": "bye ###STOP###"},
    ]
    info = {"reward_info": {}, "task": {"instruction": f"task {task}"}}
    return {"task_id": task, "reward": reward, "info": info, "traj": traj, "trial": trial}


@pytest.fixture
def runs(tmp_path):
    folder = tmp_path / "runs"
    for trial in range(3):
        path = folder / f"model-{trial}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps([tau_row(t, trial, float(t % 2)) for t in range(4)]))
    for n in range(4):
        doc = {
            "schema_version": "ATIF-v1.5",
            "session_id": f"s{n}",
            "agent": {"name": "a", "model_name": "m"},
            "steps": [
                {"step_id": 1, "source": "user", "message": "do it"},
                {"step_id": 2, "source": "agent", "message": "done"},
            ],
        }
        path = folder / f"atif{n}" / "trajectory.json"
        path.parent.mkdir()
        path.write_text(json.dumps(doc))
    (folder / "notes.md").write_text("# nothing")
    return folder


def same(left, right):
    for name in CORE:
        assert left[name].equals(right[name]), name


def test_a_written_traceset_comes_back_as_it_was(runs, tmp_path):
    ts = xc.read_traces(runs)
    ts.write(tmp_path / "out")
    back = xc.scan_traces(tmp_path / "out")
    assert back.packages == ts.packages
    assert isinstance(back.steps, pl.LazyFrame)
    same(back.collect(), ts.tables)
    same(xc.read_traces(tmp_path / "out").tables, ts.tables)


def test_equal_input_gives_equal_bytes(runs, tmp_path):
    for name in ("a", "b"):
        xc.read_traces(runs).write(tmp_path / name)
    a, b = ({p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in (tmp_path / n).iterdir()} for n in "ab")
    assert a == b


def test_an_output_is_not_replaced_without_force(runs, tmp_path):
    ts = xc.read_traces(runs)
    ts.write(tmp_path / "out")
    with pytest.raises(OutputError, match="exists"):
        ts.write(tmp_path / "out")
    ts.write(tmp_path / "out", force=True)


def test_a_folder_of_another_schema_says_what_to_do(runs, tmp_path):
    xc.read_traces(runs).write(tmp_path / "out")
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    manifest["schema_version"] = "0"
    (tmp_path / "out" / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(SourceError, match="read the traces again"):
        xc.scan_traces(tmp_path / "out")
    assert "unreadable" in load.read_frames([tmp_path / "out"])["diagnostics"]["code"].to_list()


def test_a_missing_table_is_named(runs, tmp_path):
    xc.read_traces(runs).write(tmp_path / "out")
    (tmp_path / "out" / "steps.parquet").unlink()
    with pytest.raises(SourceError, match="table steps is missing"):
        xc.scan_traces(tmp_path / "out")


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setattr(load, "LARGE_BYTES", 0)
    monkeypatch.setattr(stream, "HELD_BYTES", 0)
    monkeypatch.setattr(stream, "BATCH_BYTES", 400)


def test_a_load_that_is_streamed_holds_the_same_rows(runs, tmp_path, monkeypatch, tiny):
    lazy = xc.scan_traces(runs, processes=1)
    assert "not read yet" in repr(lazy)
    assert "not read yet" in lazy._repr_html_()
    assert lazy.steps.filter(pl.col("source") == "agent").select(pl.len()).collect().item() == 28
    assert lazy.messages.head(3).collect().height == 3
    lazy.write(tmp_path / "out")
    monkeypatch.undo()
    whole = xc.read_traces(runs)
    for name in ("tasks", "attempts", "steps", "messages", "grades"):
        assert lazy[name].collect().equals(whole[name]), name
    same(xc.scan_traces(tmp_path / "out").collect(), lazy.collect())
    assert xc.scan_traces(tmp_path / "out").summary().equals(whole.summary())


def test_a_load_of_medium_size_is_read_once_and_kept(runs, monkeypatch):
    monkeypatch.setattr(load, "LARGE_BYTES", 0)
    lazy = xc.scan_traces(runs, processes=1)
    read = []
    monkeypatch.setattr(stream, "parse", lambda job, parse=stream.parse: read.append(job) or parse(job))
    assert lazy.steps.collect().height == lazy.steps.select(pl.len()).collect().item()
    assert lazy.attempts.collect().height == 16
    assert len(read) == 1


def test_the_number_of_workers_does_not_show_in_the_output(runs, tmp_path, tiny):
    for n in (1, 2):
        xc.scan_traces(runs, processes=n).write(tmp_path / str(n))
    one, two = ({p.relative_to(tmp_path / n): p.read_bytes() for p in (tmp_path / n).rglob("*.*")} for n in "12")
    assert one == two


def test_many_parts_stay_parts(runs, tmp_path, tiny):
    for n in range(10):
        (runs / f"more{n}.json").write_text(json.dumps([tau_row(100 + n, 0)]))
    for n in range(10):
        folder = runs / f"x{n}"
        folder.mkdir()
        (folder / "trajectory.json").write_bytes((runs / "atif0" / "trajectory.json").read_bytes())
    xc.scan_traces(runs, processes=1).write(tmp_path / "out")
    assert len(list((tmp_path / "out" / "steps").glob("*.parquet"))) > 8
    assert pl.read_parquet(tmp_path / "out" / "steps" / "*.parquet").equals(
        xc.scan_traces(tmp_path / "out").steps.collect()
    )


def test_a_script_needs_no_main_guard(runs, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import expcomp as xc\nfrom expcomp.sources import stream\nstream.BATCH_BYTES = 400\n"
        f"print(xc.read_traces({str(runs)!r}, processes=2).attempts.height)\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.strip(), done.returncode) == ("16", 0), done.stderr


def test_wildcards_do_not_load_a_file_twice(runs):
    assert xc.read_traces(f"{runs}/**").attempts.height == 16
    assert xc.read_traces(f"{runs}/model-*.json").attempts.height == 12
    with pytest.raises(SourceError, match="nothing matches"):
        xc.read_traces(f"{runs}/*.parquet")


def test_options_by_name(runs):
    ts = xc.read_traces(runs, arm="mine", system="S")
    assert set(ts.attempts["arm"]) == {"mine"}
    with pytest.raises(ExpcompError, match="no option mood"):
        xc.read_traces(runs, mood="good")
    with pytest.raises(ExpcompError, match="JSON array"):
        xc.read_traces(runs, tools="bash")


def test_summary_counts_by_format_model_and_arm(runs):
    ts = xc.read_traces(runs)
    by_format = ts.summary().group_by("source_format").agg(pl.col("attempts", "passed", "failed", "ungraded").sum())
    assert sorted(by_format.rows()) == [("atif", 4, 0, 0, 4), ("tau_bench", 12, 6, 6, 0)]
    assert ts.summary()["cost_usd"].null_count() == ts.summary().height
    skipped = ts.skipped()
    assert skipped.filter(pl.col("code") == "not_recognised")["first_file"].to_list() == ["notes.md"]


def test_the_html_escapes_what_files_say(runs):
    ts = xc.read_traces(runs, arm="<script>alert(1)</script>")
    html = ts._repr_html_()
    assert "<script>" not in html
    assert "tau_bench" in html
    assert "not_recognised" in html
    assert "<table>" in html


def test_compile_takes_a_written_traceset(runs, tmp_path):
    xc.read_traces(runs).write(tmp_path / "traces")
    report = xc.compile_paths([tmp_path / "traces"], tmp_path / "rows")
    direct = xc.compile_paths([runs], tmp_path / "direct")
    assert {k: v["accepted"] for k, v in report["families"].items()} == {
        k: v["accepted"] for k, v in direct["families"].items()
    }
    assert xc.verify(tmp_path / "rows").ok
    assert report["empty"]["evaluation_example"] == "the sources have no rubric items"


def test_conversations_that_no_source_could_grade_are_rows_when_the_user_says_so(tmp_path):
    row = {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}
    (tmp_path / "set.jsonl").write_text(json.dumps(row) + "\n")
    ts = xc.read_traces(tmp_path / "set.jsonl")
    assert xc.compile(ts).rejected["training_example"]["reject_reasons"].to_list() == [["label_missing"]]
    allowed = xc.compile(ts, options=xc.CompileOptions(allow_unlabelled=True))
    assert allowed.rows["training_example"].height == 1
    assert allowed.rows["agentic_rl_rollout"].height == 0


def test_the_header_prompt_and_the_supplied_tools_reach_the_rows(tmp_path):
    row = {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}
    (tmp_path / "set.jsonl").write_text(json.dumps(row) + "\n")
    ts = xc.read_traces(tmp_path / "set.jsonl", system="Be brief.", tools='[{"name": "t"}]')
    made = xc.compile(ts, options=xc.CompileOptions(allow_unlabelled=True)).rows["training_example"]
    assert [(m["role"], m["content"]) for m in made["messages"][0]] == [
        ("system", "Be brief."),
        ("user", "q"),
        ("assistant", "a"),
    ]
    assert made["tools"].to_list() == ['[{"name": "t"}]']


def test_scores_without_a_scale_wait_for_one(tmp_path):
    said = {"prompt": [{"role": "user", "content": "q"}], "completion": [{"role": "assistant", "content": "a"}]}
    rows = [{"example_id": 0, **said, "reward": float(n), "answer": "x", "task": "t"} for n in range(3)]
    (tmp_path / "results.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    (tmp_path / "metadata.json").write_text(json.dumps({"env_id": "w", "model": "m", "num_examples": 1}))
    ts = xc.read_traces(tmp_path)
    reasons = xc.compile(ts).rejected["agentic_rl_rollout"]["reject_reasons"].explode().unique().to_list()
    assert reasons == ["scale_unknown"]
    assert xc.compile(xc.read_traces(tmp_path, score_scale=(0, 2))).rows["grpo_rollout_group"].height == 1


@pytest.mark.parametrize("given", [(), (["a", "b"],), (3,)])
@pytest.mark.parametrize("read", [xc.read_traces, xc.scan_traces])
def test_paths_are_given_one_by_one(read, given):
    with pytest.raises(UsageError, match=r"expected paths one by one.*read_traces\(\*paths\)"):
        read(*given)
