"""The entry, artifact, case and countability cases of the reference ledger, every one, under the profile `loopx`."""

from __future__ import annotations

import json
import os
from pathlib import Path

import polars as pl
import pytest

from expcomp.ledger.arms import case_from_job
from expcomp.ledger.artifacts import public, relative
from expcomp.ledger.documents import entry_documents, from_documents
from expcomp.ledger.entries import entries
from expcomp.ledger.pack import read_pack
from expcomp.ledger.verdict import countability_of

REFERENCE = os.environ.get("EXPCOMP_REFERENCE")
if REFERENCE is None:
    if os.environ.get("CI") == "true":
        pytest.fail("EXPCOMP_REFERENCE is not set; CI has to run the reference ledger", pytrace=False)
    pytest.skip("EXPCOMP_REFERENCE is not set; it names the folder with the reference ledger", allow_module_level=True)

pytestmark = pytest.mark.reference
LINES = (Path(REFERENCE) / "ledger" / "cases.jsonl").read_text("utf-8").splitlines()
CASES = [json.loads(line) for line in LINES if line.strip()]
NOW = "2026-01-01T00:00:00+00:00"


def of(kind):
    return [c for c in CASES if c["kind"] == kind]


@pytest.fixture(scope="module")
def pack():
    return read_pack("loopx")


@pytest.fixture(scope="module")
def made(pack):
    cases = of("entry")
    return entries([c["input"] for c in cases], pack, [c["options"] for c in cases], recorded_at=NOW)


def test_every_entry(made):
    found = zip(of("entry"), entry_documents(made), strict=True)
    assert {c["name"]: d for c, d in found if d != c["expected_entry"]} == {}


def test_what_still_runs_is_not_written(made, pack):
    running = (made["status"] == pack.settings["running"]).to_list()
    wrong = [c["name"] for c, r in zip(of("entry"), running, strict=True) if r != bool(c.get("expected_skipped"))]
    assert wrong == []


def test_entries_made_one_by_one_are_those_made_at_once(made, pack):
    some = of("entry")[::40]
    alone = [entries([c["input"]], pack, [c["options"]], recorded_at=NOW) for c in some]
    together = made.filter(pl.int_range(pl.len()) % 40 == 0)
    assert pl.concat(alone).equals(together)


def test_documents_come_back_as_they_went_in():
    documents = [c["expected_entry"] for c in of("entry")]
    assert entry_documents(from_documents(documents)) == documents


def test_every_artifact_reference(pack):
    wrong = {}
    for case in of("artifact_ref"):
        given = pl.Series([case["input"]["ref"].strip() or None], dtype=pl.String)
        cwd = pl.Series([case["input"].get("cwd")], dtype=pl.String)
        found = public(relative(given, cwd), pack.section("artifacts")).item()
        if found != case["expected"]:
            wrong[case["name"]] = found
    assert wrong == {}


def test_every_case_of_a_job_name(pack):
    cases = of("case_id_from_job")
    frame = pl.DataFrame([c["input"] for c in cases])
    spec = pack.settings["case_from_job"]
    found = frame.select(case_from_job(pl.col("benchmark_id"), pl.col("job_name"), spec).fill_null("")).to_series()
    assert found.to_list() == [c["expected"] for c in cases]


def test_every_verdict_on_a_score(pack):
    cases = of("countability")
    found = countability_of([c["input"] for c in cases], pack).drop("rule").to_dicts()
    assert {c["name"]: f for c, f in zip(cases, found, strict=True) if f != c["expected"]} == {}


def test_a_stored_entry_gets_the_verdict_of_its_document(pack, made):
    again = countability_of(entry_documents(made), pack)
    assert again["reason"].equals(made["official_score_countability_reason"], check_names=False)
    assert again["countable"].equals(made["official_score_countable"], check_names=False)
