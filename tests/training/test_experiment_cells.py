"""Sealed experiments: their cells, and receipts against them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest
from msgspec.structs import replace

from expcomp.tables.models import validate
from expcomp.training.coverage import FINDINGS, receipt_trials, verify_receipts
from expcomp.training.diffs import apply_diffs, profile_diff
from expcomp.training.documents import DocumentError, TamperedError, document_digest, from_wire, seal, to_wire
from expcomp.training.profile import Profile, ProfileModel
from expcomp.training.run_receipts import RunReceipt, receipts_frame
from expcomp.training.sealing import cell_of, cells, check_experiment, seal_benchmark, seeds_of
from tests.training.made import ancestry, profile, sha
from tests.training.measured import CANDIDATE, all_receipts, experiment, receipt, task

E, B = experiment(tasks=3, repetitions=2)
RECEIPTS = all_receipts(E, B)


def codes(receipts: list[RunReceipt]) -> list[str]:
    found = verify_receipts(E, B, receipts_frame(receipts))
    assert dict(found.schema) == FINDINGS
    return found["code"].to_list()


def test_cells_are_arms_by_tasks_by_repetitions_with_one_seed_for_both_arms() -> None:
    made = cells(E, B)
    validate("experiment_cells", made)
    assert made.height == 2 * 3 * 2
    assert made["task"].to_list() == ["t00", "t00", "t01", "t01", "t02", "t02"] * 2
    assert made["seed"].to_list() == list(B.suite.seeds) * 2
    assert made.group_by("arm").agg(pl.col("state_digest").first()).sort("arm")["state_digest"].to_list() == [
        E.baseline_digest,
        E.candidate_digest,
    ]
    line = made.filter(arm="candidate", task_index=1, repetition=1).row(0, named=True)
    cell = cell_of(E, B, "candidate", 1, 1)
    assert (cell.seed, cell.task_digest, cell.state_digest) == (line["seed"], line["task_digest"], line["state_digest"])
    with pytest.raises(DocumentError, match="cell_unknown"):
        cell_of(E, B, "candidate", 3, 0)


@pytest.mark.parametrize("names", [("t01",), ("t01", "another")], ids=["its own", "of an ancestor"])
def test_nothing_is_sealed_on_tasks_that_the_candidate_was_trained_on(names: tuple[str, ...]) -> None:
    with pytest.raises(DocumentError, match="benchmark_not_fresh"):
        experiment(tasks=3, candidate=profile(ancestry(*names)))


def test_seeds_come_from_one_seed_and_do_not_move() -> None:
    assert seeds_of(0, 2, 2) == seeds_of(0, 1, 4)
    assert seeds_of(0, 3, 2)[:4] == seeds_of(0, 2, 2)
    assert len(set(seeds_of(0, 50, 2))) == 100
    assert seeds_of(1, 2, 1) != seeds_of(0, 2, 1)


def test_a_complete_set_of_receipts_has_no_findings() -> None:
    validate("run_receipts", receipts_frame(RECEIPTS))
    assert codes(RECEIPTS) == []


OTHER, _ = experiment(tasks=3, repetitions=2, candidate=profile(ancestry("two")))
BROKEN: dict[str, tuple[Callable[[list[RunReceipt]], list[RunReceipt]], list[str]]] = {
    "missing": (lambda r: r[1:], ["receipt_missing"]),
    "duplicate": (
        lambda r: [*r, receipt(E, B, "baseline", 0, 0, 0.4, execution_id="x", billing=("x",))],
        ["receipt_duplicate"],
    ),
    "foreign experiment": (
        lambda r: [*r, receipt(OTHER, B, "baseline", 0, 0, 0.4, execution_id="x", billing=("x",))],
        ["receipt_foreign"],
    ),
    "foreign seed": (
        lambda r: [seal(replace(r[0], cell=seal(replace(r[0].cell, seed=1)))), *r[1:]],
        ["receipt_missing", "receipt_foreign"],
    ),
    "second attempt": (
        lambda r: [seal(replace(r[0], cell=seal(replace(r[0].cell, attempt=2)))), *r[1:]],
        ["receipt_attempt"],
    ),
    "other execution": (lambda r: [seal(replace(r[0], execution_ref=sha("x"))), *r[1:]], ["receipt_other_execution"]),
    "other grader": (
        lambda r: [seal(replace(r[0], grading=replace(r[0].grading, artifact_digest=sha("x")))), *r[1:]],
        ["receipt_other_grader"],
    ),
    "execution id": (
        lambda r: [r[0], seal(replace(r[1], execution_id=r[0].execution_id)), *r[2:]],
        ["execution_id_reused"],
    ),
    "billing": (lambda r: [r[0], seal(replace(r[1], billing=r[0].billing)), *r[2:]], ["billing_reused"]),
    "failed": (lambda r: [seal(replace(r[0], failure="timeout", grading=None)), *r[1:]], ["run_failed"]),
    "same receipt twice": (
        lambda r: [*r, r[0]],
        ["receipt_duplicate", "execution_id_reused", "receipt_digest_reused", "billing_reused"],
    ),
}


@pytest.mark.parametrize(("change", "expected"), BROKEN.values(), ids=BROKEN.keys())
def test_what_is_wrong_with_receipts_is_named(change: Any, expected: list[str]) -> None:
    assert codes(change(list(RECEIPTS))) == expected


def test_the_order_of_receipts_does_not_matter() -> None:
    given = BROKEN["duplicate"][0](list(RECEIPTS))
    assert codes(given[::-1]) == codes(given)


def test_receipts_as_trials() -> None:
    made = receipt_trials(E, B, receipts_frame(RECEIPTS))
    validate("trials", made.drop("style"))
    assert made.height == 12
    assert made["style"].to_list() == made["score"].to_list()
    assert made["cost_usd"].to_list() == pytest.approx([1e-6] * 12)
    assert made.filter(arm="baseline", task="t01")["duration_s"].to_list() == pytest.approx([1.001, 1.001])


RECEIPT_RULES = [
    ({"billing": ("a", "a"), "model_calls": 2}, "receipt_billing_duplicate"),
    ({"usage": {"steps": 31}}, "receipt_over_limit"),
    ({"model_calls": 2}, "receipt_calls"),
    ({"events": 0}, "receipt_calls"),
    ({"failure": "timeout"}, "receipt_outcome"),
    ({"grading": None}, "receipt_outcome"),
    ({"output_digest": sha("grader")}, "receipt_evidence"),
]


@pytest.mark.parametrize(("fields", "code"), RECEIPT_RULES)
def test_rules_of_a_receipt(fields: dict[str, Any], code: str) -> None:
    with pytest.raises(ValueError, match=code):
        receipt(E, B, "baseline", 0, 0, 0.5, **fields)


def test_what_was_observed_is_outside_of_the_digest() -> None:
    one = receipt(E, B, "baseline", 0, 0, 0.5)
    assert seal(replace(one, observations={"durationMs": 9})).digest == one.digest
    with pytest.raises(TamperedError, match="digest_mismatch"):
        from_wire(RunReceipt, to_wire(one) | {"costNanos": 0})


def test_an_experiment_and_its_benchmark_hold_together() -> None:
    check_experiment(E, B)
    other = seal_benchmark([task("a"), task("b")])
    with pytest.raises(TamperedError, match="experiment_other_benchmark"):
        check_experiment(E, other)
    moved = seal(replace(B.suite, split_digest=sha("x")))
    forged = seal(replace(B, suite=moved))
    with pytest.raises(TamperedError, match=r"suite\.splitDigest"):
        check_experiment(seal(replace(E, benchmark_digest=forged.digest)), forged)
    with pytest.raises(DocumentError, match="benchmark_too_small"):
        seal_benchmark([task("a")])


CHANGED = Profile(
    harness="other",
    model=ProfileModel(provider="local", default="base-model", small="s/m"),
    prompts={"a/b": {"~": [1, True, None]}, "system": "Count."},
    metadata={},
)


@pytest.mark.parametrize("after", [CHANGED, CANDIDATE], ids=["changed", "trained"])
def test_a_step_leads_from_one_profile_to_the_other_and_back(after: Profile) -> None:
    there, back = profile_diff(profile(), after), profile_diff(after, profile())
    assert apply_diffs(profile(), [there]) == after
    assert document_digest(apply_diffs(profile(), [there, back])) == document_digest(profile())
    with pytest.raises(TamperedError, match=r"diffs\[0\].*before"):
        apply_diffs(profile(), [back])
    with pytest.raises(TamperedError, match="digest"):
        apply_diffs(profile(), [replace(there, content={"patch": []})])
    with pytest.raises(DocumentError, match="diff_changes_nothing"):
        profile_diff(after, after)
