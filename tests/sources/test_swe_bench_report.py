from __future__ import annotations

import copy
import json

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expcomp.sources._contract import Found, ReadOptions, Unit
from expcomp.sources._look import Look
from expcomp.sources.load import read_frames
from expcomp.sources.registry import discover
from expcomp.sources.swe.swe_bench_report import SOURCE
from expcomp.tables.core import CORE

A, B, C, D, E, F = (f"acme__widget-{n}" for n in range(1, 7))
PATCH = "diff --git a/a.py b/a.py\n+x\n"


def run_report(**lists):
    """A run report with consistent counts."""
    ids = {
        f"{name}_ids": list(lists.get(name, ()))
        for name in ("completed", "incomplete", "empty_patch", "submitted", "resolved", "unresolved", "error")
    }
    if "submitted" not in lists:
        ids["submitted_ids"] = [i for n in ("resolved", "unresolved", "empty_patch", "error") for i in ids[f"{n}_ids"]]
    if "completed" not in lists:
        ids["completed_ids"] = ids["resolved_ids"] + ids["unresolved_ids"]
    counts = {k.replace("_ids", "_instances"): len(v) for k, v in ids.items() if k != "incomplete_ids"}
    return {"total_instances": 9} | counts | ids | {"schema_version": 2}


def instance_report(instance=A, resolved=True, **more):
    tests = {
        "FAIL_TO_PASS": {"success": ["t1", "t2"], "failure": ["t3", "t4"]},
        "PASS_TO_PASS": {"success": ["t5"], "failure": []},
        "FAIL_TO_FAIL": {"success": [], "failure": []},
    }
    flags = {"patch_is_None": False, "patch_exists": True, "patch_successfully_applied": True}
    return {instance: flags | {"resolved": resolved, "tests_status": tests} | more}


def prediction(instance=A, patch=PATCH, model="openai/gpt-5"):
    return {"model_name_or_path": model, "instance_id": instance, "model_patch": patch}


def write(tmp_path, name, document):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(document if isinstance(document, bytes) else json.dumps(document).encode())
    return path


def load(tmp_path, document, name="openai__gpt-5.run_a.json", format=None):  # noqa: A002
    return read_frames([write(tmp_path, name, document)], format=format)


def codes(frames):
    return set(frames["diagnostics"]["code"])


def by_instance(frames, *columns):
    return {r[0]: r[1:] for r in frames["attempts"].select("native_attempt_id", *columns).rows()}


def test_a_run_report_gives_labelled_attempts(tmp_path):
    frames = load(tmp_path, run_report(resolved=[A], unresolved=[B], incomplete=[C]))
    rows = by_instance(frames, "passed", "score", "score_valid", "has_transcript")
    assert rows == {A: (True, 1.0, True, False), B: (False, 0.0, True, False)}
    first = frames["attempts"].row(0, named=True)
    assert (first["run_id"], first["model"], first["arm"]) == ("run_a", "openai/gpt-5", "gpt-5")
    assert first["task_id"] == f"swe_bench/acme__widget/{A}"
    assert (first["grade_kind"], first["grade_ref"]) == ("verifier", "openai__gpt-5.run_a.json")
    assert first["source_version"] == "run_report/2"
    assert set(frames["tasks"]["cluster"]) == {"acme/widget"}
    grades = frames["grades"].select("name", "value", "label", "passed", "is_primary", "kind").rows()
    assert grades == [
        ("resolved", 1.0, "resolved", True, True, "verifier"),
        ("resolved", 0.0, "unresolved", False, True, "verifier"),
    ]
    assert codes(frames) == set()


def test_an_empty_patch_is_a_class_of_its_own_and_an_evaluation_that_broke_no_failure(tmp_path):
    frames = load(tmp_path, run_report(resolved=[A], empty_patch=[B], error=[C]))
    assert by_instance(frames, "passed", "score_valid", "score_issue") == {
        A: (True, True, None),
        B: (False, True, None),
        C: (None, False, "evaluation_error"),
    }
    assert frames["grades"]["label"].to_list() == ["resolved", "empty_patch", "error"]
    assert frames["grades"]["valid"].to_list() == [True, True, False]
    assert codes(frames) == {"evaluation_error"}


def test_submitted_without_a_class_and_in_two_classes(tmp_path):
    frames = load(tmp_path, run_report(submitted=[A, B], resolved=[B], unresolved=[B]))
    assert by_instance(frames, "passed", "score_issue") == {A: (None, "not_evaluated"), B: (None, "verdict_conflict")}
    assert {"not_evaluated", "verdict_conflict"} <= codes(frames)


def test_counts_are_checked_against_the_lists(tmp_path):
    document = run_report(resolved=[A])
    document["resolved_instances"] = 2
    document["unresolved_ids"] = [B]
    frames = load(tmp_path, document)
    assert frames["attempts"].height == 2
    lines = frames["diagnostics"].filter(pl.col("code") == "header_differs")
    assert lines["field"].to_list() == ["resolved_instances", "unresolved_instances", "submitted_ids"]


def test_a_hosted_report_names_split_and_run(tmp_path):
    document = run_report(resolved=[A], unresolved=[B], incomplete=[C]) | {"pending_ids": [], "failed_ids": []}
    frames = load(tmp_path, document, "swe-bench_lite__dev__kimi-k25.json")
    assert set(frames["attempts"].select("run_id", "arm", "model").rows()) == {("kimi-k25", "kimi-k25", None)}
    assert set(frames["tasks"]["split"]) == {"dev"}


def test_runs_of_one_model_are_trials(tmp_path):
    for run in ("b", "a"):
        write(tmp_path, f"openai__gpt-4.1.{run}.json", run_report(resolved=[A]))
    attempts = read_frames([tmp_path])["attempts"].sort("trial")
    assert attempts.select("run_id", "trial", "model").rows() == [
        ("a", 0, "openai/gpt-4.1"),
        ("b", 1, "openai/gpt-4.1"),
    ]


def test_an_instance_folder(tmp_path):
    folder = f"logs/run_evaluation/run_a/openai__gpt-5/{A}"
    write(tmp_path, f"{folder}/report.json", instance_report())
    for name in ("patch.diff", "eval.sh", "test_output.txt", "run_instance.log"):
        write(tmp_path, f"{folder}/{name}", PATCH.encode())
    frames = read_frames([tmp_path])
    (attempt,) = frames["attempts"].to_dicts()
    assert (attempt["run_id"], attempt["model"], attempt["passed"]) == ("run_a", "openai/gpt-5", True)
    assert (attempt["package_id"], attempt["grade_ref"]) == (folder, "report.json")
    assert attempt["source_uri"] == f"{folder}/report.json"
    artifacts = dict(frames["artifacts"].select("name", "kind").rows())
    assert artifacts == {
        "patch.diff": "patch",
        "run_instance.log": "log",
        "test_output.txt": "test_report",
        "eval.sh": "file",
    }
    assert frames["artifacts"].filter(pl.col("kind") == "patch")["content"].to_list() == [PATCH]
    assert set(frames["evidence"]["ref"]) == {"report.json", "patch.diff"}
    assert codes(frames) == set()


def test_tests_are_one_grade_a_list(tmp_path):
    frames = load(tmp_path, instance_report(resolved=False, patch_successfully_applied=False), "report.json")
    grades = frames["grades"].select("name", "value", "label", "passed", "kind", "is_primary").rows()
    assert grades == [
        ("resolved", 0.0, "unresolved", False, "verifier", True),
        ("FAIL_TO_PASS", 0.5, "2/4", None, "test", False),
        ("PASS_TO_PASS", 1.0, "1/1", None, "test", False),
    ]
    assert json.loads(frames["grades"]["metadata"][0])["patch_successfully_applied"] is False
    assert json.loads(frames["grades"]["metadata"][1]) == {"success": ["t1", "t2"], "failure": ["t3", "t4"]}


def test_verdicts_without_tests_and_without_sense(tmp_path):
    document = {A: {"resolved": True, "patch_exists": True}, B: {"resolved": "yes", "patch_exists": True}, C: 3}
    frames = load(tmp_path, document, "report.json")
    assert by_instance(frames, "passed", "score_valid") == {A: (True, True), B: (None, False)}
    assert {"bad_verdict", "bad_entry"} <= codes(frames)
    empty = {A: {"resolved": False, "patch_exists": False, "patch_is_None": True}}
    assert load(tmp_path, empty, "report.json")["grades"]["label"].to_list() == ["empty_patch"]


@pytest.mark.parametrize(
    ("name", "document", "run"),
    [
        ("run_a/preds.json", {A: prediction()}, "run_a"),
        ("run_a.preds.json", {A: prediction()}, "run_a"),
        (f"run_a/{A}/{A}.pred", prediction(), "run_a"),
        (f"run_a/{A}.pred", prediction(), "run_a"),
        ("run_a/all_preds.jsonl", json.dumps(prediction()).encode() + b"\n", "run_a"),
        ("run_a.json", [prediction()], "run_a"),
    ],
)
def test_predictions(tmp_path, name, document, run):
    frames = load(tmp_path, document, name)
    (attempt,) = frames["attempts"].to_dicts()
    assert (attempt["run_id"], attempt["native_attempt_id"], attempt["model"]) == (run, A, "openai/gpt-5")
    assert (attempt["passed"], attempt["score_valid"], attempt["grade_ref"]) == (None, None, None)
    assert frames["artifacts"].select("kind", "content").rows() == [("patch", PATCH)]
    assert frames["grades"].is_empty()
    assert codes(frames) == set()


def test_an_instance_that_is_predicted_several_times(tmp_path):
    lines = [prediction(), prediction(patch="diff b"), prediction(B, None), {"instance_id": C}, 3]
    frames = load(tmp_path, b"\n".join(json.dumps(r).encode() for r in lines), "run_a.jsonl")
    assert frames["attempts"]["native_attempt_id"].to_list() == [A, A, B]
    assert frames["attempts"]["attempt_id"].n_unique() == 3
    assert frames["attempts"]["trial"].to_list() == [0, 1, 0]
    assert frames["artifacts"].height == 2
    assert frames["diagnostics"].filter(pl.col("code") == "bad_prediction").height == 2


def test_a_broken_line_costs_one_line(tmp_path):
    lines = [json.dumps(prediction(i)) for i in (A, B, C)]
    lines[1] = lines[1][:40]
    frames = load(tmp_path, "\n".join(lines).encode(), "run_a.jsonl")
    assert frames["attempts"]["native_attempt_id"].to_list() == [A, C]
    assert "bad_json" in codes(frames)


def test_recognition(tmp_path):
    def claims(document):
        blob = document if isinstance(document, bytes) else json.dumps(document).encode()
        return SOURCE.claims_file(Look(tmp_path / "x", blob[: 64 * 1024]))

    assert claims(run_report(resolved=[A]))
    assert claims(run_report(resolved=[f"acme__widget-{i}" for i in range(9000)]))
    assert claims(instance_report())
    assert claims(instance_report(tests_status={"PASS_TO_PASS": {"success": ["x" * 99] * 2000, "failure": []}}))
    assert claims({A: prediction(patch="x" * 200_000)})
    assert claims([prediction()])
    assert claims(prediction())
    assert not claims({"resolved_ids": []})
    assert not claims({"instance_id": A, "model_patch": PATCH, "messages": []})
    assert not claims({A: {"resolved": True}})
    assert not claims({"messages": [{"role": "user", "content": "resolved"}]})
    assert not claims(b"\x1f\x8b")
    write(tmp_path, "f/report.json", {"resolved": 1})
    write(tmp_path, "f/patch.diff", PATCH.encode())
    assert discover([tmp_path / "f"]).units == []


@pytest.mark.parametrize("broken", [b"", b"{", b"3", b"{}", b"[]", json.dumps(run_report(resolved=[A]))[:-9].encode()])
def test_a_broken_file_is_a_diagnostic(tmp_path, broken):
    frames = load(tmp_path, broken, format="swe_bench_report")
    assert frames["attempts"].is_empty()
    assert frames["diagnostics"].height > 0


def test_a_file_that_went_away(tmp_path):
    frames = SOURCE.read([Unit("swe_bench_report", tmp_path / "gone", "gone")], ReadOptions())
    assert codes(frames) == {"unreadable"}


def test_ids_of_other_families(tmp_path):
    ids = {
        "django__django-11099": ("swe_bench/django__django/django__django-11099", "django/django"),
        "oauthlib__oauthlib.1fd52536.combine_file__09v": (
            "swe_smith/oauthlib__oauthlib/oauthlib__oauthlib.1fd52536.combine_file__09v",
            "oauthlib/oauthlib",
        ),
        "my task": ("swe/my task", None),
    }
    frames = load(tmp_path, run_report(resolved=list(ids)))
    tasks = {r["native_id"]: (r["task_id"], r["cluster"]) for r in frames["tasks"].to_dicts()}
    assert tasks == ids


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 2**70) | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


def mutate(data, value):
    """The value with some of its nodes replaced by arbitrary ones."""
    value = copy.deepcopy(value)
    for _ in range(data.draw(st.integers(1, 4))):
        node = value
        while True:
            keys = list(node) if isinstance(node, dict) else list(range(len(node)))
            key = data.draw(st.sampled_from(keys))
            if isinstance(node[key], dict | list) and node[key] and data.draw(st.booleans()):
                node = node[key]
                continue
            node[key] = data.draw(VALUES)
            break
    return value


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_arbitrary_values_never_raise(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("report") / "x.json"
    start = data.draw(
        st.sampled_from(
            [
                run_report(resolved=[A], unresolved=[B], error=[C]),
                instance_report(),
                {A: prediction(), B: prediction(B)},
                [prediction(), prediction(B)],
            ]
        )
    )
    path.write_text(json.dumps(mutate(data, start)))
    found = Found()
    SOURCE.units(path, path.parent, found)
    frames = SOURCE.read(found.units, ReadOptions())
    assert frames["attempts"].height + frames["diagnostics"].height > 0
    for name, table in CORE.items():
        assert frames[name].schema == table.schema
        for rule, expr in table.all_rules().items():
            assert frames[name].filter(~expr).is_empty(), rule
    document = json.loads(path.read_text())
    if isinstance(document, list) or A in document or B in document:
        left_out = frames["diagnostics"].filter(pl.col("code").is_in(["bad_prediction", "bad_entry"])).height
        assert frames["attempts"].height + left_out == len(document)
