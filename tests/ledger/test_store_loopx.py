"""A ledger under the ancestor's profile: its documents come in and go out, its upserts and its archive work on the table."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from expcomp.errors import UsageError
from expcomp.ledger.archive import Filter
from expcomp.ledger.pack import read_pack
from expcomp.ledger.recompute import recompute
from expcomp.ledger.store import Ledger
from tests.ledger.attempts import many

REFERENCE = os.environ.get("EXPCOMP_REFERENCE")
DOCUMENT = Path(REFERENCE or "") / "ledger" / "benchmark-run-ledger.json"
AT = "2026-01-01T00:00:00+00:00"

pytestmark = pytest.mark.filterwarnings("error")
real = [pytest.mark.reference, pytest.mark.skipif(not REFERENCE, reason="EXPCOMP_REFERENCE is not set")]


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger", "loopx", create=True)


def record(**changes: Any) -> dict[str, Any]:
    body = {"schema_version": "benchmark_run_v0", "benchmark_id": "b@1", "case_id": "c", "job_name": "j", "mode": "m"}
    return body | {"official_task_score": {"value": 0.0}} | changes


def actions(ledger: Ledger, *records: dict[str, Any], **options: Any) -> dict[str, int]:
    return ledger.add(list(records), recorded_at=AT, **options).counts


def test_a_record_of_the_same_job_replaces_the_one_before(ledger: Ledger) -> None:
    assert actions(ledger, record()) == {"appended": 1, "refused": 0}
    assert actions(ledger, record(official_task_score={"value": 1.0})) == {"replaced": 1, "refused": 0}
    assert ledger.runs.collect()["official_score"].to_list() == [1.0]


def test_an_equal_run_fills_the_one_that_is_there(ledger: Ledger) -> None:
    actions(ledger, record(), group="g")
    told = ledger.add([record(artifact="x")], group="g", recorded_at=AT)
    assert told.counts in ({"replaced": 1, "refused": 0}, {"filled": 1, "refused": 0})
    assert ledger.runs.collect().height == 1


def test_a_running_job_is_skipped(ledger: Ledger) -> None:
    running = record(official_task_score=None, progress={"n_running_trials": 1})
    assert actions(ledger, running) == {"skipped": 1, "refused": 0}
    assert (ledger.version, ledger.runs.collect().height) == (0, 0)


def test_attempts_belong_to_the_default_profile(ledger: Ledger) -> None:
    with pytest.raises(UsageError, match="profile default"):
        ledger.add(many(2))


def test_archive_is_reasoned_reversible_and_sticky(ledger: Ledger) -> None:
    actions(ledger, *(record(case_id=c, job_name=f"j-{c}") for c in "abc"), group="night")
    which = Filter("b@1", cases=("a", "b"))
    dry = ledger.archive(which, reason="broken verifier", dry_run=True)
    assert (dry["newly_archived_run_count"], ledger.version) == (2, 1)
    told = ledger.archive(which, reason="broken verifier")
    assert told["newly_archived_run_count"] == 2
    assert ledger.cases.collect()["active"].to_list() == [0, 0, 1]
    actions(ledger, record(case_id="a", job_name="j-a", official_task_score={"value": 1.0}), group="night")
    assert ledger.runs.sort("filed_case").collect()["archive_reason"].to_list() == [
        "broken verifier",
        "broken verifier",
        None,
    ]
    back = ledger.unarchive(Filter("b@1", cases=("a",)))
    assert back["archive_reason"].to_list() == ["broken verifier"]
    assert ledger.cases.collect()["active"].to_list() == [1, 0, 1]
    assert ledger.unarchive(Filter("b@1", cases=("a",))).height == 0
    told = ledger.history.collect().select("action", "archived", "restored").rows()
    assert told[::-1][2:] == [("archive", 2, None), ("add", None, None), ("unarchive", None, 1)]


@pytest.mark.parametrize("which", [Filter("b@1"), Filter("", cases=("a",))])
def test_an_archive_without_a_filter_is_refused(ledger: Ledger, which: Filter) -> None:
    with pytest.raises(UsageError, match="archiving needs"):
        ledger.archive(which, reason="because")


@pytest.mark.parametrize("mark", [pytest.param(None, marks=real)])
def test_the_real_ledger_comes_in_once_and_goes_out_equal(ledger: Ledger, mark: None) -> None:
    del mark
    document = json.loads(DOCUMENT.read_bytes())
    assert ledger.add(DOCUMENT).counts == {"inserted": 303, "refused": 0}
    assert ledger.add(DOCUMENT).counts == {"identical": 303, "refused": 0}
    out = ledger.document(derived=False)
    assert [r for _, r in found(out)] == [r for _, r in found(document)]
    assert {k: v for k, v in out.items() if k != "benchmarks"} == {
        k: v for k, v in document.items() if k != "benchmarks"
    }


@pytest.mark.parametrize("mark", [pytest.param(None, marks=real)])
def test_the_default_profile_keeps_every_run_of_the_real_ledger(ledger: Ledger, tmp_path: Path, mark: None) -> None:
    del mark
    ours = Ledger(tmp_path / "ours", create=True)
    assert ours.add(DOCUMENT).counts == {"inserted": 303, "refused": 0}
    ledger.add(DOCUMENT)
    merged = Ledger(tmp_path / "merged", create=True)
    assert merged.merge(ledger).counts == {"inserted": 303, "refused": 0}
    assert merged.merge(ours).counts == {"identical": 303, "refused": 0}


@pytest.mark.parametrize("mark", [pytest.param(None, marks=real)])
def test_other_rules_start_no_run_of_the_real_ledger_again(ledger: Ledger, mark: None) -> None:
    """Six of its runs are blocked though their job once had no result: what a stored run says has ended stays so."""
    del mark
    ledger.add(DOCUMENT)
    runs = ledger.runs.collect()
    again = recompute(runs, read_pack("default"))
    assert again["status"].equals(runs["status"])
    assert (runs["status"] == "blocked").any()


def test_ledgers_of_other_profiles_do_not_merge_into_the_ancestors(ledger: Ledger, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be merged"):
        ledger.merge(Ledger(tmp_path / "ours", create=True))


def test_merging_under_the_ancestors_rules_is_its_upsert(ledger: Ledger, tmp_path: Path) -> None:
    actions(ledger, *(record(case_id=c, job_name=f"j-{c}") for c in "ab"))
    other = Ledger(tmp_path / "other", "loopx", create=True)
    actions(other, record(case_id="b", job_name="j-b", official_task_score={"value": 1.0}), record(case_id="d"))
    assert ledger.merge(other).counts == {"replaced": 1, "appended": 1, "refused": 0}
    assert ledger.runs.sort("filed_case").collect()["official_score"].to_list() == [0.0, 1.0, 0.0]


def found(document: dict[str, Any]) -> list[tuple[str, Any]]:
    """Runs of a document, by place."""
    return [
        (f"{b}/{c}/{i}", run)
        for b, node in sorted(document["benchmarks"].items())
        for c, case in sorted(node["cases"].items())
        for i, run in enumerate(case["runs"])
    ]


def test_what_the_rules_do_not_tell_is_null_in_an_estimate(ledger: Ledger) -> None:
    actions(ledger, record(), record(case_id="other", job_name="j2", official_task_score=None))
    told = ledger.estimate("mean_of_case_means")
    assert told["runs"].sum() == 2
    assert told["runs_infra"].null_count() == told["runs_unscored"].null_count() == told.height
