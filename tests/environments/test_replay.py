"""Replay of recorded cases, and what promotes a package."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from expcomp.environments.assessment import Assessment, assess
from expcomp.environments.folder import open_package, verify_package
from expcomp.environments.frames import frame, frames
from expcomp.environments.package import EnvironmentPackage, compile_package
from expcomp.environments.promotion import promote
from expcomp.environments.replay import replay
from expcomp.environments.session import open_session
from expcomp.errors import PackageIntegrityError, PackageSchemaError, PromotionRefusedError
from tests.environments.reconstructed import CONFIG, SOURCE, package_frames, records
from tests.environments.worlds import AUTHORED, LEDGER, condition, rule, world

OTHER = "src_" + "a" * 64
GOOD = [
    ("balance", {}, "Balance: 100.0", "success", {"world.balance": 100.0}),
    ("deposit", {"amount": 5}, "Deposited 5. Balance: 105.0", "success", {"world.balance": 105.0}),
    ("withdraw", {"amount": 25}, "Withdrew 25. Balance: 80.0", "success", {"world.balance": 80.0}),
    ("withdraw", {"amount": 1000}, "Insufficient funds. Balance: 80.0", "failure", {"world.balance": 80.0}),
]
Frames = tuple[pl.DataFrame, pl.DataFrame]


def case_steps(steps: list[tuple[Any, ...]]) -> list[dict[str, Any]]:
    """Steps as a file of cases holds them."""
    return [
        {
            "action": {"type": a, "arguments": args},
            "expected_observation": text,
            "expected_outcome": outcome,
            "expected_state": wanted,
        }
        for a, args, text, outcome, wanted in steps
    ]


def case(
    case_id: str = "c1",
    steps: list[tuple[Any, ...]] | None = None,
    *,
    group: str = "h1",
    split: str = "validation",
    source: str = OTHER,
    start: Any = None,
    **more: Any,
) -> Frames:
    """One case with its steps."""
    state = {"world": {"balance": 100.0}} if start is None else start
    told = {
        "case_id": case_id,
        "trajectory_group": group,
        "source_ids": [source],
        "split": split,
        "initial_state_json": json.dumps(state),
    } | more
    rows = [
        {
            "case_id": case_id,
            "ordinal": i,
            "action_type": a,
            "arguments_json": json.dumps(args),
            "expected_observation": text,
            "expected_outcome": outcome,
            "expected_state_json": json.dumps(wanted),
        }
        for i, (a, args, text, outcome, wanted) in enumerate(GOOD if steps is None else steps)
    ]
    return frame("replay_cases", [told]), frame("replay_steps", rows)


def together(*cases: Frames) -> Frames:
    """Several cases."""
    return pl.concat([c[0] for c in cases]), pl.concat([c[1] for c in cases])


@pytest.fixture(scope="module")
def authored() -> EnvironmentPackage:
    return compile_package(frames(LEDGER), AUTHORED)


@pytest.fixture(scope="module")
def candidate() -> EnvironmentPackage:
    return compile_package(package_frames(), CONFIG)


def test_a_case_that_is_right(candidate: EnvironmentPackage) -> None:
    done = replay(candidate, *case())
    assert done.cases.select("passed", "independent", "attempted_steps", "expected_steps").row(0) == (True, True, 4, 4)
    assert done.cases["rule_ids"].to_list() == [["r_balance", "r_deposit", "r_short", "r_withdraw"]]
    assert done.metrics()["selective_exact"] == 1.0
    assert done.steps["state_ok"].to_list() == [True] * 4


def test_wrong_steps_are_told_one_by_one_and_the_case_goes_on(candidate: EnvironmentPackage) -> None:
    steps = [("balance", {}, "Balance: 1", "failure", {"world.balance": 1}), ("fly", {}, "Up.", None, {}), *GOOD[1:2]]
    done = replay(candidate, *case(steps=steps))
    assert done.steps.select("exact", "outcome_ok", "state_ok", "abstained").rows() == [
        (False, False, False, False),
        (False, None, None, True),
        (True, True, True, False),
    ]
    assert done.cases.select("passed", "attempted_steps").row(0) == (False, 3)
    assert [e.split(":")[0] for e in done.cases["errors"][0]] == ["step 0", "step 1"]
    strict = replay(candidate, *case(steps=steps), strict=True)
    assert strict.cases.select("attempted_steps", "expected_steps").row(0) == (2, 3)
    assert strict.steps["abstained"].to_list() == [False, True, True]


def test_json_answers_are_compared_as_values() -> None:
    made = compile_package(
        frames(
            world(
                renderers=[{"renderer_id": "text"}, {"renderer_id": "j", "content_type": "application/json"}],
                rules=[rule("r", "balance", renderer="j", template='{"b": {state_after.world.balance}, "x": [1, 2]}')],
                conditions=[LEDGER["conditions"][2]],
                mutations=[],
            )
        ),
        AUTHORED,
    )
    cases, steps = case(steps=[("balance", {}, '{"x":[1,2],"b":100}', None, {})])
    exact = replay(made, cases, steps).steps.row(0, named=True)
    assert (exact["exact"], exact["json_equal"], exact["leaf_accuracy"]) == (False, True, 1.0)
    as_json = steps.with_columns(match=pl.lit("json", dtype=steps.schema["match"]))
    assert replay(made, cases, as_json).steps["exact"].to_list() == [True]
    other = steps.with_columns(expected_observation=pl.lit('{"x": [1, 3], "b": true, "y": 0}'))
    # Leaves: x/0 equal; x/1, b differ; y is only recorded.
    assert replay(made, cases, other).steps["leaf_accuracy"].to_list() == [0.25]


def test_what_nobody_has_seen_is_undecidable_unless_it_is_known_to_be_absent(candidate: EnvironmentPackage) -> None:
    step = [("withdraw", {"amount": 1}, "?", None, {})]
    row = replay(candidate, *case(steps=step, start={})).steps.row(0, named=True)
    assert (row["route"], row["abstained"], row["error"].split(":")[0]) == ("abstain", True, "UndecidableError")
    for more in (
        {"known_absent_paths": ["world.balance"]},
        {"known_absent_paths": ["world"]},
        {"initial_state_complete": True},
    ):
        assert (
            replay(candidate, *case(steps=step, start={}, **more)).steps["error"][0].startswith("NoApplicableRuleError")
        )


def test_teacher_forcing_takes_the_recorded_state(candidate: EnvironmentPackage) -> None:
    steps = [
        ("balance", {}, "Balance: 100.0", None, {"world.balance": 50.0}),
        ("balance", {}, "Balance: 50.0", None, {}),
    ]
    assert replay(candidate, *case(steps=steps)).steps["exact"].to_list() == [True, False]
    assert replay(candidate, *case(steps=steps), teacher_forced=True).steps["exact"].to_list() == [True, True]


def test_bad_cases_are_named(candidate: EnvironmentPackage) -> None:
    cases, steps = case()
    with pytest.raises(PackageSchemaError, match="case 'c1' is not in replay_cases"):
        replay(candidate, cases.clear(), steps)
    with pytest.raises(PackageSchemaError, match="replay case c1: 'x' is no JSON object"):
        replay(candidate, cases, steps.with_columns(arguments_json=pl.lit("x")))
    row = replay(candidate, *case(start={"wrld": {}})).steps.row(0, named=True)
    assert row["error"].startswith("not attempted: SessionError: initial state")


def test_independence_is_of_source_and_family(candidate: EnvironmentPackage) -> None:
    cases = together(case("a"), case("b", group="g1"), case("c", source=SOURCE))
    assert replay(candidate, *cases).cases["independent"].to_list() == [True, False, False]


# Promotion


@pytest.mark.parametrize("mode", ["graded", "strict"])
def test_a_package_that_is_right_is_promoted_and_runs(candidate: EnvironmentPackage, tmp_path: Path, mode: str) -> None:
    judged = assess(candidate, *case(), mode=mode)
    assert (judged.report["reasons"], judged.report["demoted"]) == ([], [])
    judged.promote(tmp_path / "pkg")
    made = open_package(tmp_path / "pkg")
    assert (made.status, made.artifact_digest, verify_package(tmp_path / "pkg")) == (
        "validated",
        candidate.artifact_digest,
        [],
    )
    assert open_session(made, start={"world": {"balance": 1}}).step("balance").observation == "Balance: 1"
    (tmp_path / "pkg/validation/report.json").write_text("{}", encoding="utf-8")
    with pytest.raises(PackageIntegrityError):
        open_package(tmp_path / "pkg")


BAD = [("balance", {}, "Balance: 9", "success", {})]


@pytest.mark.parametrize(
    ("mode", "cases", "reason"),
    [
        ("strict", (case()[0].clear(), case()[1].clear()), "a case: 0 cases"),
        ("graded", (case()[0].clear(), case()[1].clear()), "independent validation family: 0 families"),
        ("strict", together(case(), case("t", split="test", group="h2")), "no test-split case: 1 cases"),
        ("graded", together(case(), case("t", split="test", group="h2")), "no test-split case: 1 cases"),
        ("strict", case(split="train"), "an independent validation case: 0"),
        ("graded", case(split="train"), "independent validation family: 0"),
        ("strict", together(case(), case("o", group="g1")), "overlaps the construction: 1 overlap"),
        ("graded", case(group="g1"), "independent validation family: 0"),
        ("strict", together(case(), case("b", BAD, group="h2")), "every case passes: 1 of 2 failed"),
        (
            "graded",
            together(case("a", BAD), case("b", BAD, group="h2"), case()),
            "exactness of what is answered: 0.6667",
        ),
        ("strict", case(steps=GOOD[:2]), "every executable rule is covered: 2 of 4 are not"),
    ],
)
def test_what_keeps_a_package_from_promotion(
    candidate: EnvironmentPackage, tmp_path: Path, mode: str, cases: Frames, reason: str
) -> None:
    judged = assess(candidate, *cases, mode=mode)
    assert not judged.eligible
    assert reason in "; ".join(judged.report["reasons"])
    with pytest.raises(PromotionRefusedError):
        judged.promote(tmp_path / "pkg")
    assert list(tmp_path.iterdir()) == []


def test_a_rule_that_misses_its_bound_is_made_tentative(tmp_path: Path) -> None:
    made = records()
    made["rules"][3]["observation_template"] = "No money. Balance: {state_after.world.balance}"
    made["rules"][3] |= {"heldout_n": 3, "heldout_hit": 1}
    package = compile_package(package_frames(**made), CONFIG)
    judged = assess(package, *case())
    assert judged.report["demoted"] == ["r_short"]
    assert judged.report["artifact_digest"] == judged.package.artifact_digest != package.artifact_digest
    assert judged.replay.steps["abstained"].to_list() == [False, False, False, True]
    assert (judged.eligible, judged.report["metrics"]["coverage"]) == (True, 0.75)
    judged.promote(tmp_path / "pkg")
    status = open_package(tmp_path / "pkg")["rules"].select("rule_id", "status")
    assert dict(status.iter_rows())["r_short"] == "tentative"


def test_a_rule_never_tried_on_held_out_families_is_made_tentative() -> None:
    made = records()
    made["rules"][0] |= {"heldout_n": 0, "heldout_hit": 0}
    judged = assess(compile_package(package_frames(**made), CONFIG), *case(steps=GOOD[1:2]))
    assert judged.report["demoted"] == ["r_balance"]


def test_a_step_that_got_worse_is_a_regression(candidate: EnvironmentPackage, authored: EnvironmentPackage) -> None:
    worse = compile_package(
        frames(
            world(
                rules=[r | {"observation_template": "?"} if r["rule_id"] == "r_balance" else r for r in LEDGER["rules"]]
            )
        ),
        AUTHORED,
    )
    cases = together(*(case(f"c{i}", group=f"h{i}") for i in range(4)))
    before = replay(authored, *cases)
    assert assess(authored, *cases, baseline=before).eligible
    judged = assess(worse, *cases, baseline=before, threshold=0.5, mode="strict")
    assert "no regression: 4 cases passed before" in judged.report["reasons"]
    judged = assess(worse, *cases, baseline=before, threshold=0.5)
    assert any(r.startswith("no regression: 4 steps got worse") for r in judged.report["reasons"])
    assert not assess(authored, *case(), baseline=before).eligible


def test_a_report_is_bound_to_package_settings_cases_and_results(
    candidate: EnvironmentPackage, authored: EnvironmentPackage, tmp_path: Path
) -> None:
    judged = assess(candidate, *case())
    out = tmp_path / "pkg"
    good = (judged.package, judged.report, judged.cases, judged.steps, judged.replay)

    def refused(match: str, *parts: Any) -> None:
        with pytest.raises(PromotionRefusedError, match=match):
            promote(*parts, out)
        assert not out.exists()

    refused("no replay report", good[0], None, *good[2:])
    refused("artifact_digest", compile_package(package_frames(notes=[]), CONFIG), *good[1:])
    refused("config_digest", replace(candidate, config=replace(CONFIG, min_rule_confidence=0.1)), *good[1:])
    refused("cases_digest", *good[:2], *case("other"), good[4])
    refused("results_digest", *good[:4], replay(candidate, *case(steps=BAD)))
    refused("not eligible", good[0], {**good[1], "eligible": False, "reasons": []}, *good[2:])
    promote(*good, out)


def test_an_assessment_is_the_same_twice(candidate: EnvironmentPackage) -> None:
    one, two = (assess(candidate, *case()) for _ in range(2))
    assert isinstance(one, Assessment)
    assert json.dumps(one.report) == json.dumps(two.report)


def test_authored_rules_that_no_case_uses_stay(authored: EnvironmentPackage) -> None:
    judged = assess(authored, *case(steps=GOOD[:1]))
    assert (judged.eligible, judged.report["demoted"]) == (True, [])
    assert condition("x", ("path", "world.balance"), "exists")["group"] == 0
