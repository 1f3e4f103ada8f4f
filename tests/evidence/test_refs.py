"""Refs: the expression and the plain function agree, and each problem has its code."""

from __future__ import annotations

import hashlib

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expcomp.evidence.refs import (
    evidence_id,
    evidence_id_expr,
    is_hidden,
    kind_of,
    normalise,
    normalise_ref,
    problem,
    ref_problem,
    visibility_of,
)
from expcomp.tables import vocab

PARTS = st.sampled_from(
    ["a", "b.txt", ".", "..", "/", "\\", "./", "~", "C:", "http://", "hidden", " ", "\t", "\0", "é", "x:", "artifacts"]
)


@pytest.mark.parametrize(
    ("ref", "code"),
    [
        ("", "empty_ref"),
        ("  ", "empty_ref"),
        ("./", "empty_ref"),
        (".", "empty_ref"),
        ("/etc/hostname", "absolute_ref"),
        ("\\\\host\\share", "absolute_ref"),
        ("../../outside.txt", "dotdot_ref"),
        ("a/../b", "dotdot_ref"),
        ("a\\..\\b", "dotdot_ref"),
        ("C:\\x", "drive_ref"),
        ("c:/x", "drive_ref"),
        ("~/x", "home_ref"),
        ("https://host.invalid/x", "url_ref"),
        ("file:///x", "url_ref"),
        ("a\0b", "nul_ref"),
    ],
)
def test_each_problem_has_its_code(ref: str, code: str) -> None:
    assert problem(ref) == code
    assert normalise(ref) is None


@pytest.mark.parametrize(
    ("ref", "plain"),
    [
        ("./a/b", "a/b"),
        ("a\\b", "a/b"),
        (" a//b/./c ", "a/b/c"),
        ("a/..b/c..", "a/..b/c.."),
        ("naïve name (1).txt", "naïve name (1).txt"),
    ],
)
def test_refs_have_one_spelling(ref: str, plain: str) -> None:
    assert normalise(ref) == plain
    assert normalise(plain) == plain


@settings(max_examples=300, deadline=None)
@given(st.lists(st.lists(PARTS, max_size=6).map("".join), min_size=1, max_size=20))
def test_expression_and_function_agree(refs: list[str]) -> None:
    frame = pl.DataFrame({"ref": refs}).select(
        problem=ref_problem("ref"), plain=normalise_ref("ref"), id=evidence_id_expr("ref"), see=visibility_of("ref")
    )
    assert frame["problem"].to_list() == [problem(r) for r in refs]
    assert frame["plain"].to_list() == [normalise(r) for r in refs]
    assert frame["id"].to_list() == [evidence_id(r) for r in refs]
    assert frame["see"].to_list() == ["hidden_excluded" if is_hidden(r) else "visible" for r in refs]


def test_the_id_is_the_digest_of_the_ref() -> None:
    assert evidence_id("rubric/rubric.json") == "evidence_" + hashlib.sha256(b"rubric/rubric.json").hexdigest()[:16]


def test_null_stays_null() -> None:
    frame = pl.DataFrame({"ref": [None]}, schema={"ref": pl.String})
    assert frame.select(a=ref_problem("ref"), b=normalise_ref("ref"), c=evidence_id_expr("ref")).row(0) == (None,) * 3


@pytest.mark.parametrize(
    ("ref", "kind"),
    [
        ("task/task_intake_spec.json", "task_spec"),
        ("source_task/x.md", "task_spec"),
        ("rubric/rubric.json", "rubric"),
        ("attempts/baseline/agent_trace.json", "trace"),
        ("attempts/baseline/actual_outputs.json", "actual_outputs"),
        ("attempts/baseline/artifacts/actual_outputs.csv", "artifact"),
        ("grading/baseline_grader_result.json", "grader"),
        ("grading/baseline_verifier_result.json", "verifier"),
        ("feedback/verifier_feedback.json", "feedback"),
        ("signals/hillclimb.json", "training_signal"),
        ("loops/iteration_1/review_packet.json", "review_packet"),
        ("loops/iteration_1/revision_plan.json", "revision_plan"),
        ("loops/iteration_1/loop_decision.json", "loop_decision"),
        ("loops/iteration_1/contract_repair_plan.json", "contract_verification_or_repair"),
        ("loops/iteration_1/diff_report.json", "loop_evidence"),
        ("README.md", "package_file"),
    ],
)
def test_the_kind_follows_the_path(ref: str, kind: str) -> None:
    frame = pl.DataFrame({"ref": [ref]}).select(kind_of("ref").cast(vocab.EVIDENCE_KIND).alias("kind"))
    assert frame["kind"].to_list() == [kind]


@pytest.mark.parametrize(
    ("ref", "hidden"),
    [
        ("hidden_reference/answer_key.json", True),
        ("task/hidden/x", True),
        ("rubric/verifier_private_rubric.json", True),
        ("task/unhidden.txt", False),
        ("rubric/rubric.json", False),
    ],
)
def test_hidden_files_are_known_by_their_path(ref: str, hidden: bool) -> None:
    assert is_hidden(ref) is hidden
