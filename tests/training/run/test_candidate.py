from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expcomp.errors import UsageError
from expcomp.training.documents import TamperedError, document_digest, read_document, to_wire
from expcomp.training.profile import Profile, ProfileModel
from expcomp.training.receipts import MAX_INLINE, TrainingReceipt
from expcomp.training.run.candidate import (
    CandidateInput,
    CandidateRejectedError,
    check_validators,
    derive_candidate,
    findings_validator,
    validate_candidate,
)
from tests.training.made import ancestry, profile, receipt
from tests.training.run.jobs import InProcess, failed, made, run

JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FREE = st.dictionaries(st.text(max_size=8).filter(lambda k: k != "training"), JSON, max_size=3)


@settings(max_examples=25)
@given(prompts=FREE, tools=FREE, metadata=FREE)
def test_nothing_else_of_the_profile_changes(prompts: Any, tools: Any, metadata: Any) -> None:
    parent = profile(prompts=prompts, tools=tools, metadata=metadata)
    candidate = derive_candidate(parent, receipt("first"))
    old, new = to_wire(parent), to_wire(candidate)
    assert new["model"].pop("default") == receipt("first").checkpoint.router_model_id
    assert new["metadata"].pop("training")["receipt"] == to_wire(receipt("first"))
    old["model"].pop("default")
    old.setdefault("metadata", {})
    assert new == old


def test_models_that_were_the_trained_one_move_with_it_and_others_stay() -> None:
    training = ancestry("first")
    old = training.receipt.checkpoint.router_model_id
    parent = profile(
        training,
        model=ProfileModel(provider="local", default=old, small=old),
        subagents={"a": {"model": old, "x": 1}, "b": {"model": "base"}, "c": {}},
        modes={"fast": {"model": old}},
    )
    second = receipt("second", training.receipt)
    candidate = to_wire(derive_candidate(parent, second))
    new = second.checkpoint.router_model_id
    assert candidate["model"] == {"provider": "local", "default": new, "small": new}
    assert candidate["subagents"] == {"a": {"model": new, "x": 1}, "b": {"model": "base"}, "c": {}}
    assert candidate["modes"] == {"fast": {"model": new}}


def test_a_base_model_elsewhere_is_not_moved() -> None:
    parent = profile(subagents={"a": {"model": "base-model"}})
    assert to_wire(derive_candidate(parent, receipt("first")))["subagents"] == {"a": {"model": "base-model"}}


def test_a_receipt_of_another_parent_is_refused() -> None:
    with pytest.raises(TamperedError, match="ancestry_broken"):
        derive_candidate(profile(ancestry("first")), receipt("second"))


def test_generations_beyond_those_that_a_profile_carries(tmp_path: Path) -> None:
    parent = profile()
    for number in range(MAX_INLINE + 2):
        weights = f"weights {number}".encode()
        work = InProcess(lambda job, weights=weights: (job / "checkpoint.bin").write_bytes(weights))  # type: ignore[misc]
        job = made(tmp_path / str(number), parent, trainer=work)
        parent = read_document(Profile, job / "profile.json")
    training = parent.training
    assert training is not None
    assert (len(training.ancestors), len(training.older)) == (MAX_INLINE, 1)
    first = read_document(TrainingReceipt, next(tmp_path.glob("0/runs/*/receipt.json")))
    assert training.older[-1] == document_digest(first)
    assert [r.parent_receipt_digest for r in training.resolved({document_digest(first): first})][-1] is None


def accepts(given: CandidateInput) -> None:
    assert given.surface == "model.default"


async def asynchronous(given: CandidateInput) -> None:
    raise AssertionError


def rejects(given: CandidateInput) -> None:
    if not given.is_baseline:
        raise ValueError("too bold")


def test_a_validator_sees_the_parent_and_then_the_candidate(tmp_path: Path) -> None:
    seen: list[CandidateInput] = []
    job = made(tmp_path, validators=(seen.append, accepts))
    assert [s.is_baseline for s in seen] == [True, False]
    assert [s.value is None for s in seen] == [True, False]
    assert seen[1].profile == (job / "profile.json").read_bytes()
    assert seen[1].candidate_surface == read_document(Profile, job / "profile.json").model.default


@pytest.mark.parametrize("validator", [asynchronous, lambda _: True, lambda _: False, lambda _: ""])
def test_a_validator_that_returns_anything_accepts_nothing(validator: Any) -> None:
    with pytest.raises(CandidateRejectedError, match="returns None to accept"):
        validate_candidate([validator], profile(), None)


def test_a_validator_that_raises_rejects(tmp_path: Path) -> None:
    result = failed(run(tmp_path, validators=(rejects,)))
    assert (result.stage, result.resumable) == ("profile", True)
    assert result.reason == "rejects rejected the candidate: ValueError: too bold"


def test_a_parent_that_is_rejected_is_not_trained(tmp_path: Path) -> None:
    trainer = InProcess()
    result = failed(run(tmp_path, trainer=trainer, validators=(lambda _: 1,)))
    assert (result.stage, trainer.requests, result.output_directory) == ("admission", [], None)


def test_what_is_no_function_is_refused_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="expected a function"):
        check_validators(["name"])
    assert failed(run(tmp_path, validators=("name",))).stage == "admission"


def test_a_validator_that_changes_the_checkpoint(tmp_path: Path) -> None:
    def changes(given: CandidateInput) -> None:
        for file in tmp_path.glob("runs/*/checkpoint.bin"):
            file.chmod(0o600)
            file.write_bytes(b"another")

    result = failed(run(tmp_path, validators=(changes,)))
    assert result.stage == "profile"
    assert "the checkpoint was changed" in result.reason


def found(*severities: str) -> pl.DataFrame:
    lines = {"code": [f"code_{n}" for n, _ in enumerate(severities)], "severity": list(severities)}
    return pl.DataFrame(lines, schema={"code": pl.String, "severity": pl.String})


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (found("warning", "error"), "1 findings, as code_1"),
        (pl.DataFrame({"x": [1, 2]}), "2 findings, as its first line"),
        (True, "gave bool, expected a frame"),
        (None, "gave NoneType, expected a frame"),
    ],
)
def test_a_check_that_answers_with_findings_rejects(answer: Any, told: str) -> None:
    def check(given: CandidateInput) -> Any:
        return answer

    with pytest.raises(CandidateRejectedError, match=f"check rejected the parent profile: .*{told}"):
        validate_candidate([findings_validator(check)], profile(), None)


def test_a_check_that_answers_with_findings_accepts_without_errors(tmp_path: Path) -> None:
    made(tmp_path, validators=(findings_validator(lambda _: found()), findings_validator(lambda _: found("warning"))))
    with pytest.raises(CandidateRejectedError, match="gave coroutine"):
        validate_candidate([findings_validator(asynchronous)], profile(), None)  # type: ignore[arg-type]
    with pytest.raises(UsageError):
        findings_validator("name")  # type: ignore[arg-type]
