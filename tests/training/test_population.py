"""Candidates of a search: their way from the baseline, and a search that kept no record."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from expcomp.tables.models import validate
from expcomp.training.diffs import profile_diff
from expcomp.training.documents import DocumentError, TamperedError, document_digest, seal
from expcomp.training.population import (
    CandidateRecord,
    PopulationRecord,
    RolloutPolicy,
    SearchLineage,
    population_frame,
    rollout_policy,
    verify_population,
)
from tests.training.made import profile, sha

BASE = profile()
ONE = profile(prompts={"system": "Count."})
TWO = profile(prompts={"system": "Count twice."})
DONE = CandidateRecord(
    candidate_digest=document_digest(TWO),
    surface_digest=sha("prompts"),
    parents=(document_digest(BASE), document_digest(ONE)),
    status="materialized",
    profile_digest=document_digest(TWO),
    diffs=(profile_diff(BASE, ONE), profile_diff(ONE, TWO)),
)
FAILED = CandidateRecord(
    candidate_digest=sha("failed"), surface_digest=sha("prompts"), status="failed", error="ValueError", error_text="no"
)
RECORD: PopulationRecord = seal(
    PopulationRecord(status="available", baseline_digest=document_digest(BASE), candidates=(DONE, FAILED))
)
LINEAGE: dict[str, Any] = {
    "invocation_id": "i1",
    "run_id": "r1",
    "development_split_digest": sha("development"),
    "final_split_digest": sha("final"),
    "partitions": {"train": 3, "selection": 2, "final": 2},
    "execution_ref": sha("execution"),
    "baseline_digest": document_digest(BASE),
}


def test_steps_are_applied_again() -> None:
    verify_population(RECORD, BASE)
    with pytest.raises(DocumentError, match="population_other_baseline"):
        verify_population(RECORD, ONE)
    lost = seal(replace(RECORD, candidates=(replace(DONE, diffs=DONE.diffs[:1]),)))
    with pytest.raises(DocumentError, match="candidate_other_profile"):
        verify_population(lost, BASE)
    with pytest.raises(TamperedError, match=r"population\.candidates\[0\]\.diffs\[0\]"):
        verify_population(seal(replace(RECORD, candidates=(replace(DONE, diffs=DONE.diffs[1:]),))), BASE)


def test_as_a_frame() -> None:
    frame = population_frame(RECORD)
    validate("population_candidates", frame)
    assert frame["parent_digest"].to_list() == [*DONE.parents, None]
    assert frame["n_diffs"].to_list() == [2, 2, None]
    assert frame["error"].to_list() == [None, None, "ValueError"]


def test_unknown_is_not_empty() -> None:
    unknown = PopulationRecord(status="unavailable", baseline_digest=sha("b"))
    assert population_frame(unknown)["status"].to_list() == ["unavailable"]
    validate("population_candidates", population_frame(unknown))
    assert population_frame(replace(unknown, status="available")).is_empty()
    with pytest.raises(ValueError, match="population_unavailable"):
        PopulationRecord(status="unavailable", baseline_digest=sha("b"), candidates=(DONE,))


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"status": "failed"}, "candidate_status"),
        ({"parents": (sha("p"), sha("p"))}, "candidate_parents"),
        ({"parents": (document_digest(TWO),)}, "candidate_own_parent"),
    ],
)
def test_rules_of_a_candidate(fields: dict[str, Any], code: str) -> None:
    with pytest.raises(ValueError, match=code):
        replace(DONE, **fields)


def test_a_candidate_is_there_once() -> None:
    with pytest.raises(ValueError, match="population_candidates"):
        replace(RECORD, candidates=(DONE, DONE))


def test_the_run_of_a_result() -> None:
    SearchLineage(**LINEAGE)
    with pytest.raises(ValueError, match="lineage_split_not_fresh"):
        SearchLineage(**LINEAGE | {"final_split_digest": sha("development")})
    with pytest.raises(ValueError, match="lineage_partitions"):
        SearchLineage(**LINEAGE | {"partitions": {"train": 3, "selection": 2, "final": 1}})


@pytest.mark.parametrize(
    ("extension", "expected"),
    [
        ({"samples": 4, "repairRounds": 1, "other": 1}, RolloutPolicy(samples=4, repair_rounds=1)),
        ({}, RolloutPolicy()),
        ({"samples": 0}, None),
        ({"samples": "4"}, None),
        ("best of 4", None),
        (None, None),
    ],
)
def test_a_recipe_is_read_or_it_is_none(extension: Any, expected: RolloutPolicy | None) -> None:
    assert rollout_policy(profile(extensions={"rollout": extension})) == expected
    assert rollout_policy(profile()) is None
