"""Entries of records: what our own profile keeps, refuses and reports where the ancestor is wrong, and what both have in common."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from expcomp.errors import UsageError
from expcomp.ledger.documents import entry_documents, from_documents
from expcomp.ledger.entries import OPTIONS, entries
from expcomp.ledger.pack import read_pack
from expcomp.ledger.recompute import recompute
from expcomp.tables.ledger import DOCUMENT, RUNS

NOW = "2026-02-01T00:00:00+00:00"
SCHEMA = "benchmark_run_v0"


@pytest.fixture(scope="module")
def ours():
    return read_pack("default")


@pytest.fixture(scope="module")
def ancestors():
    return read_pack("loopx")


def run(**record):
    return {"benchmark_id": "bench", "case_id": "case", "arm_id": "arm", **record}


def one(pack, /, **record):
    (row,) = entries([run(**record)], pack, recorded_at=NOW).to_dicts()
    return row


def with_pack(folder, text):
    path = folder / "own.toml"
    path.write_text(text, "utf-8")
    return read_pack("default", path)


SCALE = {"score_min": 0, "score_max": 1}


# Weakness 6: roles by substring.
def test_an_arm_with_two_role_words_has_no_role_and_says_so(ours, ancestors):
    row = one(ours, arm_id="treatment-baseline-safe")
    assert (row["role"], row["is_baseline"], row["is_treatment"]) == (None, False, False)
    assert "role_ambiguous" in row["issues"]
    old = entries([run()], ancestors, [{"arm_id": "treatment-baseline-safe"}])
    assert old.select("is_baseline", "is_treatment").row(0) == (True, True)


def test_a_declared_role_wins_over_the_words_of_a_name(tmp_path):
    pack = with_pack(tmp_path, '[arms.treatment-baseline-safe]\nrole = "treatment"')
    row = one(pack, arm_id="treatment-baseline-safe")
    assert (row["role"], row["role_source"], row["is_baseline"], row["is_treatment"]) == (
        "treatment",
        "declared",
        False,
        True,
    )
    assert row["issues"] is None


def test_the_role_of_the_record_wins_over_a_guess_and_a_guess_is_reported(ours):
    said = one(ours, arm_id="my-baseline", role="treatment")
    assert (said["role"], said["role_source"], said["issues"]) == ("treatment", "record", None)
    guessed = one(ours, arm_id="my-baseline")
    assert (guessed["role"], guessed["role_source"], guessed["issues"]) == ("baseline", "guessed", ["role_guessed"])
    # A word inside another word is none.
    assert one(ours, arm_id="baselinetwo")["role"] is None


# Weakness 7: no scale, NaN.
def test_a_percentage_passes_by_its_threshold_and_not_by_being_above_one(tmp_path, ours, ancestors):
    pack = with_pack(tmp_path, "[benchmarks.percent]\nmin = 0\nmax = 100\nthreshold = 90")
    low, high = (one(pack, benchmark_id="percent@2", score=s) for s in (85, 90))
    assert (low["passed"], low["score_norm"], low["failure_class"]) == (False, 0.85, "partial_solution")
    assert (high["passed"], high["score_norm"], high["failure_class"]) == (True, 0.9, "none")
    unknown = one(ours, score=85)
    assert (unknown["passed"], unknown["score_norm"], unknown["issues"]) == (None, None, ["scale_unknown"])
    assert entries([run(official_score=85)], ancestors)["official_passed"].item() is True


def test_lower_may_be_better(tmp_path):
    pack = with_pack(tmp_path, "[benchmarks.bench]\nmin = 0\nmax = 10\nthreshold = 2\nhigher_is_better = false")
    good, bad = (one(pack, score=s) for s in (1, 9))
    assert (good["passed"], good["score_norm"]) == (True, 0.9)
    assert (bad["passed"], round(bad["score_norm"], 9)) == (False, 0.1)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), "nan"])
def test_a_score_that_is_no_number_is_refused_and_is_not_the_agents_failure(ours, value):
    row = one(ours, score=value, **SCALE)
    assert (row["score"], row["official_score"], row["countable_score"], row["passed"]) == (None,) * 4
    assert (row["score_issue"], row["failure_scope"], row["infra"]) == ("score_not_finite", "verifier_or_infra", True)
    assert (row["official_score_countable"], row["official_score_countability_reason"]) == (False, "score_refused")


@pytest.mark.parametrize("value", [-0.1, 1.1])
def test_a_score_beside_its_scale_is_refused_and_stays_readable(ours, value):
    row = one(ours, score=value, **SCALE)
    assert (row["score"], row["official_score"], row["score_issue"]) == (None, value, "score_out_of_scale")


def test_nan_counts_for_nothing_in_the_ancestors_rules_either(ancestors):
    row = entries([run(official_score=float("nan"))], ancestors)
    assert row["official_passed"].item() is False
    assert row["failure_class"].item() == "none"


# Weakness 10: keys cut.
def test_two_long_names_stay_two(ours, ancestors):
    names = ["x" * 200 + end for end in "ab"]
    made = entries([run(case_id=n) for n in names], ours)
    assert made["filed_case"].to_list() == names
    assert made["run_key"].n_unique() == 2
    assert entries([run(case_id=n) for n in names], ancestors)["case_id"].n_unique() == 1


def test_a_key_keeps_what_is_inside_it(ours):
    assert entries([run(case_id=n) for n in ("a b", "a  b")], ours)["run_key"].n_unique() == 2


# Weakness 11: another class after loading.
def test_a_run_that_is_loaded_again_is_the_run_that_was_made(ours):
    records = [
        run(round_reward_trace={"best_round_passed": True}, score_failure_attribution="x", score=0, **SCALE),
        run(score=0.5, **SCALE),
        run(score=float("nan")),
        run(score=0, trials=[{"exception_type": "AgentSetupTimeout"}]),
        run(trials=[{"exception_type": "AgentSetupTimeout"}]),
        run(first_blocker="unheard_of"),
        run(official_task_score={"passed": True}),
        run(failure_class="agent_limit_before_solution_completion", passed=False),
        {},
    ]
    made = entries(records, ours, recorded_at=NOW)
    assert_frame_equal(recompute(made, ours), made)


SETUP_TIMEOUT = {"trials": [{"exception_type": "AgentSetupTimeoutError"}]}
NO_ENVIRONMENT = {"failure_attribution_labels": ["environment_setup_failed_before_worker"]}


@pytest.mark.parametrize(
    ("score", "more", "name", "infra"),
    [
        (0, {}, "none", False),
        (0, SETUP_TIMEOUT, "agent_setup_timeout_before_worker_start", True),
        (0, NO_ENVIRONMENT, "environment_setup_failed_before_worker", True),
        (0, {"trials": [{"exception_type": "TimeoutError"}]}, "agent_timeout_before_solution_completion", False),
        (85, SETUP_TIMEOUT, "none", False),  # how good 85 is nobody knows; it may be a pass
    ],
)
def test_a_zero_on_no_known_scale_is_explained_by_what_went_wrong(ours, score, more, name, infra):
    row = one(ours, score=score, **more)
    assert (row["failure_class"], row["infra"], row["passed"]) == (name, infra, None)
    assert row["failure_scope"] == ("runner_or_setup" if infra else "case_or_solution")


# Weakness 20: infrastructure by a word inside a name.
@pytest.mark.parametrize("name", ["runner_up_solution_bug", "docker_compose_syntax_task", "setup_of_the_proof_wrong"])
def test_a_class_nobody_declared_is_reported_and_not_called_infrastructure(ours, name):
    row = one(ours, score=0, score_failure_attribution=name, **SCALE)
    assert (row["failure_class"], row["failure_scope"], row["infra"]) == (name, "attribution_required", False)
    assert "class_unknown" in row["issues"]
    assert row["official_score_countable"] is True


def test_a_class_nobody_declared_without_a_score_is_a_missing_score(ours):
    row = one(ours, score_failure_attribution="unheard_of")
    assert (row["failure_scope"], row["infra"], row["issues"]) == ("score_missing", True, ["class_unknown"])


def test_a_declared_class_says_whose_failure_it_is(ours):
    scopes = {
        "environment_setup_failed_before_worker": ("runner_or_setup", True),
        "verifier_platform_probe_failure": ("verifier_or_infra", True),
        "solution_incorrect": ("case_or_solution", False),
    }
    for name, (scope, infra) in scopes.items():
        row = one(ours, score=0, score_failure_attribution=name, **SCALE)
        assert (row["failure_scope"], row["infra"], row["official_score_countable"]) == (scope, infra, not infra)


# Weakness 26: partial scores without a class.
def test_a_partial_score_is_a_failure_with_a_class(ours, ancestors):
    row = one(ours, score=0.5, **SCALE)
    assert (row["failure_class"], row["failure_rule"], row["failure_scope"]) == (
        "partial_solution",
        "partial",
        "case_or_solution",
    )
    labelled = one(ours, score=0.5, failure_attribution_labels=["agent_timeout_before_solution_completion"], **SCALE)
    assert labelled["failure_class"] == "agent_timeout_before_solution_completion"
    assert entries([run(official_score=0.5)], ancestors)["failure_class"].item() == "none"


# Weakness 2 and 18: what tells attempts apart, and what was never written down.
def test_attempt_seed_and_content_tell_runs_apart_and_the_same_record_is_the_same_run(ours):
    records = [run(score=0), run(score=1), run(score=0, seed=1), run(score=0, attempt=2), run(score=0)]
    keys = entries(records, ours)["run_key"].to_list()
    assert len(set(keys)) == 4
    assert keys[0] == keys[4]
    assert all(len(k) >= 64 for k in keys)


def test_cost_tokens_time_versions_and_seed_are_columns(ours):
    row = one(
        ours,
        usage={"input_tokens": 10, "completion_tokens": 3},
        cost_usd=0.25,
        duration_s=1.5,
        agent={"name": "worker", "version": "2", "model": "m"},
        seed=7,
        ended_at="2026-01-02T03:04:05+02:00",
        dataset_hash="sha256:aa",
    )
    wanted = ("input_tokens", "output_tokens", "cost_usd", "duration_s", "agent", "agent_version", "model", "seed")
    assert tuple(row[c] for c in wanted) == (10, 3, 0.25, 1.5, "worker", "2", "m", 7)
    assert row["dataset_hash"] == "sha256:aa"
    assert row["run_at"] == datetime(2026, 1, 2, 1, 4, 5, tzinfo=UTC)
    assert row["ingested_at"] == datetime(2026, 2, 1, tzinfo=UTC)


def test_what_a_field_does_not_take_is_reported(ours):
    row = one(ours, cost_usd=-1, seed="seven", score="0.5", input_tokens=True)
    assert row["issues"] == ["cost_usd_refused", "input_tokens_refused", "score_refused", "seed_refused"] or set(
        row["issues"]
    ) == {"cost_usd_refused", "input_tokens_refused", "score_refused", "seed_refused"}
    assert (row["cost_usd"], row["seed"], row["score"], row["input_tokens"]) == (None,) * 4


def test_every_derived_value_names_its_rule(ours):
    row = one(ours, score=0, score_failure_attribution="verifier_platform_probe_failure", **SCALE)
    assert (row["failure_rule"], row["scope_rule"], row["repair_rule"], row["countability_rule"]) == (
        "attribution",
        "verifier",
        "verifier",
        "infra",
    )
    assert row["next_action"]


@pytest.mark.parametrize("profile", ["default", "loopx"])
def test_entries_are_rows_of_the_table(profile):
    made = entries([run(schema_version=SCHEMA), {}], read_pack(profile), recorded_at=NOW)
    assert made.schema == RUNS.schema
    broken = [n for n, rule in RUNS.all_rules().items() if not made.select(rule.all()).item()]
    assert broken == []
    assert entries([], read_pack(profile)).schema == RUNS.schema


def test_options_must_be_one_for_each_record_and_known(ours):
    with pytest.raises(UsageError, match="1 records and 2 options"):
        entries([{}], ours, [{}, {}])
    with pytest.raises(UsageError, match="unknown option 'arm'"):
        entries([{}], ours, [{"arm": "x"}])
    with pytest.raises(UsageError, match="recorded_at is 'soon'"):
        entries([{}], ours, recorded_at="soon")


def test_the_arm_and_group_of_all_give_way_to_those_of_one(ours):
    made = entries([{}, {}], ours, [{}, {"arm_id": "b", "run_group_id": "h"}], arm="a", group="g")
    assert made.select("arm_id", "run_group_id").rows() == [("a", "g"), ("b", "h")]


def test_more_records_than_are_read_at_once_stay_in_order(ours, monkeypatch):
    monkeypatch.setattr("expcomp.ledger.entries.CHUNK", 3)
    many = [{"case_id": "c", "attempt": i} for i in range(8)]
    assert entries(many, ours)["attempt"].to_list() == list(range(8))


# Private paths.
@pytest.mark.parametrize("profile", ["default", "loopx"])
@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("runs/a/x.compact.json", "runs/a/x.compact.json"),
        ("/work/runs/a", "runs/a"),
        ("/else/runs/a", None),
        ("~/x.compact.json", None),
        ("a/../b", None),
        ("a/logs/x.compact.json", None),
        ("a/x.private.json", None),
        ("a/tmp/x.compact.json", "x.compact.json"),
        ("a/readme.txt", None),
        ("/work/../else/x.compact.json", None),
    ],
)
def test_only_public_paths_are_kept(profile, given, kept):
    made = entries([{}], read_pack(profile), [{"artifact_ref": given, "cwd": "/work"}])
    refs = made["artifact_refs"].item()
    assert (None if refs is None else json.loads(refs)["artifact_ref"]) == kept


# Documents.
JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-5, 5),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=5),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
    max_leaves=6,
)
KEYS = st.one_of(st.sampled_from(sorted(DOCUMENT)), st.text(min_size=1, max_size=5))


@settings(max_examples=15, deadline=None)
@given(st.lists(st.dictionaries(KEYS, JSON, max_size=6), min_size=1, max_size=4))
def test_any_document_comes_back_as_it_went_in(documents):
    assert entry_documents(from_documents(documents)) == documents


@settings(max_examples=15, deadline=None)
@given(st.lists(st.dictionaries(KEYS, JSON, max_size=6), min_size=1, max_size=3), st.sampled_from(["default", "loopx"]))
def test_any_stored_document_can_be_loaded(documents, profile):
    pack = read_pack(profile)
    loaded = recompute(from_documents(documents), pack)
    assert (loaded.schema, loaded.height) == (RUNS.schema, len(documents))


NAMES = sorted(
    {
        p.partition(".")[0].partition("[")[0]
        for _, ps in read_pack("loopx").fields["record"].written.values()
        for p in ps
    }
)


@settings(max_examples=20, deadline=None)
@given(st.dictionaries(st.sampled_from(NAMES), JSON, max_size=8), st.sampled_from(["default", "loopx"]))
def test_any_record_is_an_entry(record, profile):
    made = entries([record], read_pack(profile), [dict.fromkeys(OPTIONS[:3], "a/b")], recorded_at=NOW)
    assert made.height == 1
    assert made.schema == RUNS.schema


def test_half_a_character_does_not_stop_the_others(ours):
    made = entries([run(mode="\ud800"), run(mode="fine")], ours)
    assert made["mode"].to_list() == ["?", "fine"]


def test_an_archived_run_keeps_its_reason_and_an_active_one_has_none(ancestors):
    documents = [
        {"run_id": "a", "archive_state": "archived", "archive_reason": "  old   job ", "archived_at": "2026"},
        {"run_id": "b", "archive_state": "gone", "archive_reason": "old"},
    ]
    loaded = recompute(from_documents(documents), ancestors)
    assert loaded["archive_reason"].to_list() == ["old job", None]
    assert loaded["archive_state"].to_list() == ["archived", None]


def test_a_stored_case_named_after_its_job_is_read_again(ancestors):
    job = "terminal_bench_2_0_path_tracing_baseline_run7"
    loaded = recompute(from_documents([{"case_id": job, "job_name": job, "benchmark_id": "b"}]), ancestors)
    assert loaded["case_id"].item() == "path-tracing"


def test_rows_with_and_without_unknown_keys_are_judged_alike(ancestors):
    plain = {"run_id": "a", "official_score": 1.0, "score_status": "passed", "failure_labels": ["x_uncountable"]}
    both = recompute(from_documents([plain, {**plain, "run_id": "b", "unheard_of": 1}]), ancestors)
    reasons = both["official_score_countability_reason"]
    assert reasons.to_list() == ["uncountable_attribution"] * 2
    assert both.filter(pl.col("extra").is_not_null()).height == 1


def test_references_of_a_stored_entry_are_filtered_again(ancestors):
    refs = {
        "artifact_ref": "a/x.compact.json",
        "compact_artifact_ref": 5,
        "result_ref": "private/result.json",
        "other": "x",
    }
    loaded = recompute(
        from_documents([{"artifact_refs": refs}, {"artifact_refs": {"result_ref": ".local/x"}}]), ancestors
    )
    kept = [d.get("artifact_refs") for d in entry_documents(loaded)]
    assert kept == [{"artifact_ref": "a/x.compact.json"}, None]
