from __future__ import annotations

import json

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expcomp.sources._columns import frame_of
from expcomp.sources._contract import ReadOptions
from expcomp.sources.load import parse_units
from expcomp.sources.registry import discover
from expcomp.sources.swe.join import join_reports
from expcomp.tables.core import CORE

A, B, C = (f"acme__widget-{n}" for n in range(1, 4))


def patch(text):
    return f"diff --git a/a.py b/a.py\n+{text}\n"


def mini(root, run, instance, submission=None, word="Submitted", model="openai/gpt-5", place=None):
    """A mini-swe-agent trajectory."""
    document = {
        "info": {
            "exit_status": word,
            "submission": patch(f"{run}{instance}") if submission is None else submission,
            "mini_version": "2.2.7",
            "model_stats": {"instance_cost": 0.5},
            "config": {"model": {"model_name": model}},
        },
        "messages": [{"role": "user", "content": "Fix."}, {"role": "assistant", "content": "Done."}],
        "instance_id": instance,
    }
    write(root, f"{run}/{place or instance}/{instance}.traj.json", document)


def swe(root, run, instance, submission):
    """A SWE-agent trajectory."""
    document = {
        "trajectory": [{"action": "submit", "observation": submission, "response": "Done.", "thought": "Done."}],
        "history": [{"role": "assistant", "content": "Done.", "action": "submit"}],
        "info": {"exit_status": "submitted", "submission": submission},
    }
    write(root, f"{run}/{instance}/{instance}.traj", document)


def report(root, name, resolved=(), unresolved=(), **more):
    lists = {"resolved_ids": list(resolved), "unresolved_ids": list(unresolved)} | more
    write(root, name, lists | {"submitted_ids": [i for ids in lists.values() for i in ids]})


def judged(root, run, instance, diff, resolved=True, model="openai__gpt-5"):
    """The folder of an evaluated instance."""
    folder = f"logs/run_evaluation/{run}/{model}/{instance}"
    tests = {"FAIL_TO_PASS": {"success": ["t"] if resolved else [], "failure": [] if resolved else ["t"]}}
    flags = {"patch_exists": True, "resolved": resolved, "tests_status": tests}
    write(root, f"{folder}/report.json", {instance: flags})
    write(root, f"{folder}/patch.diff", diff)


def predictions(root, name, patches, model="openai/gpt-5"):
    rows = {i: {"instance_id": i, "model_name_or_path": model, "model_patch": p} for i, p in patches.items()}
    write(root, name, rows)


def write(root, name, document):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(document if isinstance(document, str) else json.dumps(document))


def joined(root):
    before = parse_units(discover([root]).units, ReadOptions())
    after = join_reports(before)
    for name, table in CORE.items():
        assert after[name].schema == table.schema
        # Tasks are made unique when a load is finished.
        for rule, expr in table.all_rules().items() if name != "tasks" else ():
            assert after[name].filter(~expr).is_empty(), (name, rule)
    known = after["attempts"]["attempt_id"].implode()
    for name in ("grades", "artifacts"):
        assert after[name].filter(~pl.col("attempt_id").is_in(known)).is_empty()
        moved = before[name].height - after[name].height
        assert moved == 0 or name == "artifacts"
    primary = after["grades"].filter("is_primary")
    assert not primary["attempt_id"].is_duplicated().any()
    cited = after["attempts"].filter(pl.col("grade_ref").is_not_null()).select("package_id", ref="grade_ref")
    assert cited.join(after["evidence"], on=["package_id", "ref"], how="anti").is_empty()
    return after


def verdicts(frames, *columns):
    rows = frames["attempts"].filter(pl.col("source_format") != "swe_bench_report")
    return {
        (r[0], r[1]): r[2] if not columns else r[2:]
        for r in rows.select("run_id", "native_attempt_id", "passed", *columns).rows()
    }


def reports(frames):
    rows = frames["attempts"].filter(pl.col("source_format") == "swe_bench_report")
    return set(rows.select("run_id", "native_attempt_id").rows())


def codes(frames):
    return frames["diagnostics"]["code"].to_list()


def test_the_name_of_the_run_and_the_instance(tmp_path):
    for run in ("one", "two"):
        mini(tmp_path / "out", run, A)
    mini(tmp_path / "out", "two", B)
    report(tmp_path, "openai__gpt-5.one.json", [A], [C])
    report(tmp_path, "openai__gpt-5.two.json", [B], [A])
    frames = joined(tmp_path)
    assert verdicts(frames) == {("one", A): True, ("two", A): False, ("two", B): True}
    attempt = frames["attempts"].filter(pl.col("source_format") == "mini_swe_agent").row(0, named=True)
    assert (attempt["score"], attempt["score_norm"], attempt["score_valid"]) == (1.0, 1.0, True)
    assert (attempt["grade_kind"], attempt["grade_ref"]) == ("verifier", "openai__gpt-5.one.json")
    assert reports(frames) == {("one", C)}
    assert codes(frames) == ["report_without_trajectory", "reports_joined"]


def test_a_report_without_trajectory_is_of_the_arm_of_its_run(tmp_path):
    mini(tmp_path / "out", "one", A)
    report(tmp_path, "openai__gpt-5.one.json", [A], [B])
    report(tmp_path, "other__model.one.json", [A])
    frames = joined(tmp_path)
    arms = frames["attempts"].select("native_attempt_id", "arm").rows()
    assert sorted(arms) == [(A, "mini-swe-agent@2.2.7/gpt-5"), (A, "model"), (B, "mini-swe-agent@2.2.7/gpt-5")]


def test_without_trajectories_or_without_reports_nothing_is_said(tmp_path):
    mini(tmp_path / "out", "one", A)
    report(tmp_path / "reports", "openai__gpt-5.one.json", [A], [B])
    assert codes(joined(tmp_path / "out")) == []
    frames = joined(tmp_path / "reports")
    assert frames["attempts"].height == 2
    assert codes(frames) == []


def test_another_model_under_the_same_name_of_a_run(tmp_path):
    mini(tmp_path / "out", "one", A)
    report(tmp_path, "other__model.one.json", [A])
    frames = joined(tmp_path)
    assert verdicts(frames) == {("one", A): None}
    assert codes(frames) == ["report_without_trajectory", "trajectory_without_report"]


def test_the_model_of_a_swe_agent_report_is_the_run(tmp_path):
    run = "default__gpt-4o__t-0.00__p-1.00__c-3.00___swe_bench"
    swe(tmp_path / "trajectories", run, A, patch("a"))
    swe(tmp_path / "trajectories", run, B, patch("b"))
    predictions(tmp_path, f"trajectories/{run}/preds.json", {A: patch("a"), B: patch("b")}, model=run)
    write(
        tmp_path,
        f"trajectories/{run}/{A}/{A}.pred",
        {"instance_id": A, "model_name_or_path": run, "model_patch": patch("a")},
    )
    report(tmp_path, f"{run}.evaluation.json", [A], [B])
    frames = joined(tmp_path)
    assert verdicts(frames) == {(run, A): True, (run, B): False}
    assert reports(frames) == set()
    assert frames["artifacts"].filter(pl.col("kind") == "patch").height == 2
    assert frames["tasks"]["task_id"].n_unique() == 2


def test_two_evaluations_that_claim_one_run_by_its_name_as_model_are_not_guessed(tmp_path):
    run = "a__b__c"
    swe(tmp_path / "trajectories", run, A, patch("a"))
    report(tmp_path, f"{run}.first.json", [A])
    report(tmp_path, f"{run}.second.json", [], [A])
    frames = joined(tmp_path)
    assert verdicts(frames) == {(run, A): None}
    assert reports(frames) == {("first", A), ("second", A)}


def test_predictions_and_reports_of_a_run_are_one_attempt(tmp_path):
    predictions(tmp_path, "one/preds.json", {A: patch("a"), B: patch("b")})
    report(tmp_path, "openai__gpt-5.one.json", [A], [B])
    judged(tmp_path, "one", A, patch("a"))
    frames = joined(tmp_path)
    rows = frames["attempts"].select("native_attempt_id", "passed", "source_version").rows()
    assert sorted(rows) == [(A, True, "instance_report"), (B, False, "run_report")]
    assert frames["artifacts"].filter(pl.col("kind") == "patch").height == 2
    assert sorted(frames["grades"]["name"]) == ["FAIL_TO_PASS", "resolved", "resolved", "resolved"]
    assert frames["grades"].filter("is_primary").height == 2


def test_samples_of_one_file_are_attempts_of_their_own(tmp_path):
    rows = [{"instance_id": A, "model_name_or_path": "m", "model_patch": patch("a")} for _ in range(2)]
    write(tmp_path, "one.jsonl", "\n".join(map(json.dumps, rows)))
    assert joined(tmp_path)["attempts"].height == 2


def test_a_patch_finds_its_trajectory_under_another_name(tmp_path):
    mini(tmp_path / "out", "one", A, patch("a"))
    mini(tmp_path / "out", "two", A, patch("b"))
    judged(tmp_path, "evaluation", A, patch("b").replace("+b", "+b  "))
    frames = joined(tmp_path)
    assert verdicts(frames) == {("one", A): None, ("two", A): True}
    assert codes(frames) == ["trajectory_without_report", "reports_joined"]
    names = frames["grades"].select("name", "is_primary").rows()
    assert names == [("resolved", True), ("FAIL_TO_PASS", False)]


def test_a_report_by_another_name_joins_through_its_predictions(tmp_path):
    mini(tmp_path / "out", "one", A, patch("a"))
    report(tmp_path, "openai__gpt-5.evaluation.json", [A])
    assert verdicts(joined(tmp_path)) == {("one", A): None}
    predictions(tmp_path, "evaluation.preds.json", {A: patch("a")})
    assert verdicts(joined(tmp_path)) == {("one", A): True}


def test_predictions_beside_the_trajectories_do_not_keep_a_verdict_away(tmp_path):
    mini(tmp_path / "out", "one", A, patch("a"))
    predictions(tmp_path, "out/one/preds.json", {A: patch("a")})
    report(tmp_path, "openai__gpt-5.evaluation.json", [A])
    predictions(tmp_path, "evaluation.preds.json", {A: patch("a")})
    frames = joined(tmp_path)
    assert verdicts(frames) == {("one", A): True}
    assert frames["attempts"].height == 1
    assert frames["grades"]["is_primary"].to_list() == [True]


def test_equal_patches_go_to_the_run_that_shares_most(tmp_path):
    for run in ("one", "two"):
        mini(tmp_path / "out", run, A, patch("same"))
        mini(tmp_path / "out", run, B, patch(run))
    judged(tmp_path, "e2", A, patch("same"), resolved=True)
    judged(tmp_path, "e2", B, patch("two"), resolved=True)
    judged(tmp_path, "e1", A, patch("same"), resolved=False)
    judged(tmp_path, "e1", B, patch("one"), resolved=False)
    frames = joined(tmp_path)
    assert verdicts(frames) == {("one", A): False, ("one", B): False, ("two", A): True, ("two", B): True}


def test_a_patch_of_another_model_is_another_attempt(tmp_path):
    mini(tmp_path / "out", "one", A, patch("a"))
    judged(tmp_path, "evaluation", A, patch("a"), model="other__model")
    assert verdicts(joined(tmp_path)) == {("one", A): None}


def test_another_patch_than_the_one_handed_over(tmp_path):
    mini(tmp_path / "out", "one", A, patch("new"))
    judged(tmp_path, "one", A, patch("old"))
    frames = joined(tmp_path)
    assert verdicts(frames) == {("one", A): None}
    assert reports(frames) == {("one", A)}
    assert "patch_differs" in codes(frames)


def test_several_attempts_of_one_run_at_one_instance(tmp_path):
    mini(tmp_path / "out", "one", A, patch("a"))
    mini(tmp_path / "more", "one", A, patch("b"))
    report(tmp_path, "openai__gpt-5.one.json", [A])
    frames = joined(tmp_path)
    assert set(verdicts(frames).values()) == {None}
    assert "ambiguous_report" in codes(frames)
    judged(tmp_path, "one", A, patch("b"))
    rows = joined(tmp_path)["attempts"].select("package_id", "passed").sort("package_id").rows()
    assert rows == [(f"more/one/{A}/{A}.traj.json", True), (f"out/one/{A}/{A}.traj.json", None)]


def test_another_evaluation_of_a_run_adds_its_grades(tmp_path):
    for instance in (A, B):
        mini(tmp_path / "out", "one", instance, patch(instance))
        judged(tmp_path, "again", instance, patch(instance), resolved=instance == A)
    report(tmp_path, "openai__gpt-5.one.json", [A, B])
    frames = joined(tmp_path)
    assert verdicts(frames) == {("one", A): True, ("one", B): True}
    assert reports(frames) == set()
    attempt = frames["attempts"].filter(pl.col("native_attempt_id") == A)["attempt_id"][0]
    grades = frames["grades"].filter(pl.col("attempt_id") == attempt).select("name", "is_primary").rows()
    assert sorted(grades) == [("FAIL_TO_PASS", False), ("resolved", False), ("resolved", True)]
    assert codes(frames) == ["verdict_conflict", "reports_joined"]


def test_another_run_with_one_equal_patch_is_no_evaluation_of_the_first(tmp_path):
    mini(tmp_path / "out", "one", A, patch("easy"))
    report(tmp_path, "openai__gpt-5.one.json", [A])
    judged(tmp_path, "two", A, patch("easy"))
    judged(tmp_path, "two", B, patch("other"))
    assert reports(joined(tmp_path)) == {("two", A), ("two", B)}


def test_what_infrastructure_broke_keeps_no_verdict(tmp_path):
    mini(tmp_path / "out", "one", A, "", word="InternalServerError")
    report(tmp_path, "openai__gpt-5.one.json", empty_patch_ids=[A])
    frames = joined(tmp_path)
    assert verdicts(frames, "score_valid", "score_issue") == {("one", A): (None, False, "infra_error")}
    grades = frames["grades"].select("label", "passed", "valid", "invalid_reason").rows()
    assert grades == [("empty_patch", None, False, "infra_error")]
    assert reports(frames) == set()


def test_an_evaluation_that_broke_is_no_verdict(tmp_path):
    mini(tmp_path / "out", "one", A)
    report(tmp_path, "openai__gpt-5.one.json", error_ids=[A])
    frames = joined(tmp_path)
    assert verdicts(frames, "score_valid", "score_issue") == {("one", A): (None, False, "evaluation_error")}


def test_predictions_alone_are_absorbed_and_give_no_verdict(tmp_path):
    mini(tmp_path / "out", "one", A, patch("a"))
    predictions(tmp_path, "out/one/preds.json", {A: patch("a")})
    frames = joined(tmp_path)
    assert verdicts(frames, "score_valid") == {("one", A): (None, None)}
    assert reports(frames) == set()
    assert codes(frames) == ["trajectory_without_report", "reports_joined"]


def test_a_trajectory_without_submission_is_not_resolved_by_another_patch(tmp_path):
    mini(tmp_path / "out", "one", A, "", word="LimitsExceeded")
    judged(tmp_path, "one", A, patch("a"))
    assert verdicts(joined(tmp_path)) == {("one", A): None}


@pytest.mark.parametrize("own", [None, True])
def test_trajectories_of_other_formats_with_an_instance_and_a_patch(tmp_path, own):
    judged(tmp_path, "evaluation", A, patch("a"), resolved=False)
    frames = parse_units(discover([tmp_path]).units, ReadOptions())
    diff = patch("a")
    rows = {
        "attempts": {
            "attempt_id": "x",
            "package_id": "rows.jsonl",
            "task_id": "set/x",
            "status": "completed",
            "relation": "root",
            "passed": own,
            "score_valid": own,
            "has_transcript": True,
            "has_system_prompt": False,
            "has_tools": False,
            "source_format": "hf_trajectories",
            "source_uri": "rows.jsonl",
        },
        "tasks": {"task_id": "set/x", "native_id": A},
        "artifacts": {"attempt_id": "x", "kind": "patch", "content": diff},
    }
    for name, row in rows.items():
        frames[name] = pl.concat([frames[name], frame_of([row], CORE[name].schema)])
    after = join_reports(frames)
    assert after["attempts"].filter(pl.col("attempt_id") == "x")["passed"].to_list() == [own is not None]
    assert after["attempts"].height == 1


def test_the_order_of_the_files_does_not_matter_and_a_second_join_changes_no_verdict(tmp_path):
    mini(tmp_path / "out", "one", A, patch("a"))
    mini(tmp_path / "out", "two", A, patch("a"))
    report(tmp_path, "openai__gpt-5.one.json", [A])
    units = discover([tmp_path]).units
    first = join_reports(parse_units(units, ReadOptions()))
    second = join_reports(parse_units(units[::-1], ReadOptions()))
    assert verdicts(first) == verdicts(second) == verdicts(join_reports(first))


NAMES = st.sampled_from(["one", "two"])
PATCHES = st.sampled_from(["a", "b", ""])


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(NAMES, st.sampled_from([A, B]), PATCHES), max_size=4),
    st.lists(
        st.tuples(st.sampled_from(["one", "two", "three"]), st.sampled_from([A, B]), PATCHES, st.booleans()), max_size=5
    ),
    st.lists(st.tuples(st.sampled_from(["one", "three"]), st.sampled_from([A, B, C]), st.booleans()), max_size=4),
)
def test_no_attempt_is_lost_and_none_is_judged_by_another_patch(tmp_path_factory, runs, logs, lists):
    root = tmp_path_factory.mktemp("join")
    for run, instance, text in runs:
        mini(root / "out", run, instance, patch(text) if text else "")
    for run, instance, text, resolved in logs:
        judged(root, run, instance, patch(text) if text else "", resolved)
    for run in {r for r, _, _ in lists}:
        own = {i: ok for r, i, ok in lists if r == run}
        report(
            root,
            f"openai__gpt-5.{run}.json",
            [i for i, ok in own.items() if ok],
            [i for i, ok in own.items() if not ok],
        )
    units = discover([root]).units
    if not units:
        return
    before = parse_units(units, ReadOptions())
    after = joined(root)
    trajectories = pl.col("source_format") == "mini_swe_agent"
    assert after["attempts"].filter(trajectories).height == before["attempts"].filter(trajectories).height
    keys = {(r, i) for r, i in before["attempts"].select("run_id", "native_attempt_id").rows()}
    assert {i for _, i in keys} == set(after["attempts"]["native_attempt_id"])
    said = {(f"logs/run_evaluation/{r}/openai__gpt-5/{i}", t) for r, i, t, _ in logs}
    handed = {(r, i): t for r, i, t in runs}
    for row in after["attempts"].filter(trajectories & (pl.col("grade_ref") == "report.json")).to_dicts():
        text = handed[row["run_id"], row["native_attempt_id"]]
        assert any(t == text and name.endswith(row["native_attempt_id"]) for name, t in said)
