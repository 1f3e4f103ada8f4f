"""From recordings to a package: what is held out, what validates, what is told; the world is a ledger written by the tests."""

from __future__ import annotations

import json
import random
from hashlib import sha256
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import expcomp as xc
from expcomp.environments.build import EnvironmentBuild, build_environment, evaluate_environment
from expcomp.environments.folder import open_package, read_replay, read_report, verify_package
from expcomp.environments.gathering import gather
from expcomp.environments.induction.crossfit import highest
from expcomp.environments.playing import Turn
from expcomp.environments.predictor import Predictor, Recorded
from expcomp.environments.starting import GIVEN, read_states, snapshots, with_states
from expcomp.errors import SourceError, UsageError

EPISODES = 24


def transcript(number: int) -> tuple[str, float]:
    """A text of eight calls, and the balance it begins with."""
    draw = random.Random(number)
    start = balance = draw.randint(4, 40) * 5
    lines = []
    for _ in range(8):
        kind, amount = draw.choice(["balance", "deposit", "withdraw", "withdraw", "all"]), draw.randint(1, 60)
        if kind == "all":
            kind, amount = "withdraw", balance
        arguments = {} if kind == "balance" else {"amount": amount}
        text = f"Balance: {balance}.0"
        if kind == "deposit":
            balance += amount
            text = f"Deposited {amount}. Balance: {balance}.0"
        elif kind == "withdraw" and amount <= balance:
            balance -= amount
            text = f"Withdrew {amount}. Balance: {balance}.0"
        elif kind == "withdraw":
            text = f"Insufficient funds. Balance: {balance}.0"
        lines += [
            f"User: {kind}, please",
            f"Action: {json.dumps({'type': kind, 'arguments': arguments})}",
            f"Observation: {text}",
        ]
    return "\n".join(lines) + "\n", start


def write(folder: Path, numbers: list[int]) -> Path:
    folder.mkdir(parents=True)
    for n in numbers:
        (folder / f"run-{n:02}.txt").write_text(transcript(n)[0], encoding="utf-8")
    return folder


def states(numbers: list[int]) -> pl.DataFrame:
    rows = [(f"run-{n:02}.txt", json.dumps({"world": {"balance": transcript(n)[1]}})) for n in numbers]
    return pl.DataFrame(rows, schema=dict(GIVEN), orient="row")


ALL = list(range(EPISODES))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("runs") / "ledger", ALL)


@pytest.fixture(scope="module")
def built(runs: Path) -> EnvironmentBuild:
    return build_environment(runs, environment_id="ledger", states=states(ALL))


@pytest.fixture(scope="module")
def package(built: EnvironmentBuild, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("package") / "world"
    built.write(folder)
    return folder


def test_a_ledger_is_learned_and_validated(built: EnvironmentBuild) -> None:
    report = built.report
    assert (built.validated, report["reasons"]) == (True, [])
    headline = report["evaluation"]["headline"]
    assert (headline["coverage"], headline["selective_exact"]) == (1.0, 1.0)
    assert report["evaluation"]["free_running"]["exact_to_the_end"] == 1.0
    found = report["evaluation"]["overall"]
    families = report["evaluation"]["families"]
    z = 1.959963984540054
    # Every turn is exact: what is not known is bounded by the number of families alone (Wilson).
    assert found["intervals"]["exact"] == pytest.approx({"low": families / (families + z * z), "high": 1.0})
    assert found["memory_exact"] < 0.5 < found["exact"]
    supported = built.package["rules"].filter(pl.col("status") == "supported")
    assert sorted(supported["action_type"]) == ["balance", "deposit", "withdraw", "withdraw"]


def test_the_report_says_how_much_rules_were_learned_from(built: EnvironmentBuild) -> None:
    n = built.package["transitions"].height
    assert built.report["learned"] == {"transitions": n, "rules_from": n}
    assert built.report["holdout"] == {"share": 0.2, "seed": 0, "by": "family"}


def test_nothing_held_out_is_in_the_package(built: EnvironmentBuild) -> None:
    held = set(built.assessment.cases["trajectory_group"])
    assert held
    assert held.isdisjoint(built.package["episodes"]["trajectory_group"])
    assert held == set(built.steps["group"])
    assert not built.steps["leaky"].any()


def test_what_is_published_is_whole_validated_and_holds_report_cases_and_steps(package: Path) -> None:
    assert verify_package(package) == []
    opened = open_package(package)
    assert opened.status == "validated"
    report = json.loads((package / "validation/report.json").read_text("utf-8"))
    assert report == read_report(opened)
    steps = pl.read_parquet(package / "validation/steps.parquet")
    assert steps.height == report["evaluation"]["steps"]
    assert {"exact", "leaf", "confidence", "route", "answered", "knowable"} <= set(steps.columns)
    cases, played = read_replay(opened)
    assert played["expected_outcome"].null_count() == 0
    assert set(cases["initial_state_json"].str.slice(0, 20)) == {'{"world":{"balance":'}


def test_input_in_another_order_and_folder_gives_the_same_digests(built: EnvironmentBuild, tmp_path: Path) -> None:
    folder = write(tmp_path / "elsewhere", ALL[::-1])
    paths = sorted(folder.iterdir(), reverse=True)
    again = build_environment(paths, environment_id="ledger", states=states(ALL[::-1]))
    assert again.package.artifact_digest == built.package.artifact_digest
    assert again.report == built.report


def test_without_its_start_the_ledger_is_a_candidate_that_says_why(runs: Path, tmp_path: Path) -> None:
    found = build_environment(runs, environment_id="ledger")
    assert not found.validated
    assert found.report["reasons"]
    found.write(tmp_path / "world")
    opened = open_package(tmp_path / "world")
    assert (opened.status, verify_package(tmp_path / "world")) == ("candidate", [])
    assert read_report(opened)["reasons"] == found.report["reasons"]
    assert not read_replay(opened)[0].is_empty()


def test_no_held_out_family_is_a_reason_not_a_crash(tmp_path: Path) -> None:
    split = gather([write(tmp_path / "few", ALL[:6])], holdout=0.0)
    found = build_environment(split, environment_id="ledger")
    assert not found.validated
    # Recordings came split; the share that the build did not use is no fact of it.
    assert found.report["holdout"] is None
    assert found.report["evaluation"]["headline"] is None
    assert "independent validation family: 0 families" in found.report["reasons"]
    found.write(tmp_path / "world")
    assert verify_package(tmp_path / "world") == []


def test_a_held_out_episode_is_walked_to_its_end(package: Path) -> None:
    env = xc.open_environment(package, predict=True)
    for case in env.case_ids:
        env.reset(case)
        for action, arguments, wanted in (
            env.case_steps.filter(pl.col("case_id") == case)
            .sort("ordinal")
            .select("action_type", "arguments_json", "expected_observation")
            .rows()
        ):
            assert env.step(action, json.loads(arguments)).observation == wanted
        assert env.score().reward == 1.0


def test_turns_of_known_families_are_labelled_and_counted_nowhere(package: Path, runs: Path, tmp_path: Path) -> None:
    opened = open_package(package)
    trained = set(opened["sources"]["label"])
    known = [p for p in sorted(runs.iterdir()) if p.name in trained]
    report, steps = evaluate_environment(opened, known)
    assert (report["leaky"], report["steps"], report["headline"]) == (True, 0, None)
    assert report["leaky_steps"] == steps.height == 8 * len(known)
    fresh = write(tmp_path / "fresh", [100, 101])
    mixed, _ = evaluate_environment(opened, [*known, fresh])
    assert (mixed["leaky"], mixed["steps"], mixed["leaky_steps"]) == (False, 16, 8 * len(known))


def test_a_predictor_of_a_package_is_the_one_that_built_it(built: EnvironmentBuild, package: Path) -> None:
    opened = open_package(package)
    state: dict[str, Any] = {"world": {}}
    turns = [Turn("balance", {}, "Balance: 20.0", "success")]
    ask = ("withdraw", {"amount": 5}, state, turns)
    want = built.responder().reply(*ask)
    assert want is not None
    assert want.observation == "Withdrew 5. Balance: 15.0"
    assert Recorded(opened).reply(*ask) == Predictor.of(opened).reply(*ask) == want


def test_below_the_gate_it_abstains(built: EnvironmentBuild) -> None:
    assert Predictor(built.learned, gate=1.0).reply("balance", {}, {"world": {}}, []) is None


def test_a_baseline_is_replayed_on_the_same_cases(built: EnvironmentBuild, runs: Path) -> None:
    same = build_environment(runs, environment_id="ledger", states=states(ALL), baseline=built.package)
    assert same.validated
    found = {c["name"]: c["found"] for c in same.report["conditions"]}
    assert found["no regression"].startswith("no step of")


def test_a_build_that_does_worse_than_its_baseline_is_refused(
    built: EnvironmentBuild, runs: Path, tmp_path: Path
) -> None:
    held = set(built.assessment.cases["trajectory_group"])
    sources = {p: "src_" + sha256(p.read_bytes()).hexdigest() for p in sorted(runs.iterdir())}
    tested = [p for p, s in sources.items() if s in held]
    few = [p for p, s in sources.items() if s not in held][:2]
    numbers = [int(p.stem.removeprefix("run-")) for p in (*tested, *few)]
    worse = build_environment(
        [*tested, *few], environment_id="ledger", states=states(sorted(numbers)), baseline=built.package
    )
    found = {c["name"]: c for c in worse.report["conditions"]}
    assert not found["no regression"]["holds"]
    assert not worse.validated
    worse.write(tmp_path / "world")
    assert open_package(tmp_path / "world").status == "candidate"


def test_states_stand_before_the_first_event_and_are_redacted(runs: Path) -> None:
    plain = gather([runs])
    secret = "sk-" + "abcdEFGH1234" * 4
    given = pl.DataFrame([(None, json.dumps({"world": {"key": secret}}))], schema=dict(GIVEN), orient="row")
    told = with_states(plain, given)
    assert told.events.height == plain.events.height + EPISODES
    assert told.events["event_id"].n_unique() == told.events.height
    first = told.events.filter(pl.col("ordinal") == 0)
    assert set(first["kind"].cast(pl.String)) == {"state"}
    assert snapshots(told.events).height == EPISODES
    assert not told.events["content"].str.contains(secret, literal=True).any()
    assert sum(told.redactions.values()) > sum(plain.redactions.values())
    assert told.episodes["n_events"].sum() == told.events.height


def test_states_of_nobody_and_two_for_one_are_refused(runs: Path) -> None:
    plain = gather([runs])
    with pytest.raises(UsageError, match=r"no episode 'run-99\.txt'"):
        with_states(plain, states([99]))
    twice = pl.concat([states([1]), pl.DataFrame([("run-01.txt", '{"world":{}}')], schema=dict(GIVEN), orient="row")])
    with pytest.raises(UsageError, match="two for episode"):
        with_states(plain, twice)


@pytest.mark.parametrize(
    "text",
    ['{"balance": 5}', "[3]", '[{"episode": 3, "state": {"world": {}}}]', '[{"episode": "a", "state": {"world": 1}}]'],
)
def test_a_file_of_states_that_are_none(text: str, tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match="record 1"):
        read_states(tmp_path / "s.json")


def test_one_state_serves_every_episode(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text('{"world": {"balance": 5}}', encoding="utf-8")
    assert read_states(tmp_path / "s.json").to_dicts() == [{"episode": None, "state_json": '{"world": {"balance": 5}}'}]


def test_input_that_cannot_be_learned_from(tmp_path: Path) -> None:
    (tmp_path / "talk.txt").write_text("User: hello\nAssistant: hello\n", encoding="utf-8")
    with pytest.raises(SourceError):
        build_environment(tmp_path / "talk.txt", environment_id="talk", holdout=0.0)
    with pytest.raises(SourceError, match="no such file"):
        build_environment(tmp_path / "absent", environment_id="x")
    with pytest.raises(UsageError, match="gate"):
        build_environment(tmp_path / "talk.txt", environment_id="x", gate=2)


def test_the_curve_of_risk_and_coverage_marks_the_gate(built: EnvironmentBuild) -> None:
    axes = built.plot()
    assert axes.get_xlabel() == "share answered"
    assert [t.get_text() for t in axes.texts if "gate 0.7" in t.get_text()] == [
        "gate 0.7: 100.0% answered, 100.0% exact"
    ]


def test_what_cannot_reach_the_gate_is_not_asked(built: EnvironmentBuild) -> None:
    known = highest(built.learned.learned)
    assert set(known["action"]) == {"balance", "deposit", "withdraw"}
    assert known["confidence"].is_between(0.5, 1.0).all()
    said = built.steps.group_by("action_type", maintain_order=True).agg(pl.col("confidence").max())
    both = said.join(known, left_on="action_type", right_on="action")
    assert (both["confidence"] <= both["confidence_right"] + 1e-12).all()
