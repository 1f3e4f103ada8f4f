"""Documents of training: what goes over the wire, what is refused and how it is named, and that no change goes unseen."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace as swap

from expcomp.errors import SourceError
from expcomp.io.canon import digest_bytes
from expcomp.training.documents import (
    Document,
    DocumentError,
    Sealed,
    TamperedError,
    document_bytes,
    document_digest,
    from_wire,
    read_document,
    seal,
    to_wire,
)
from expcomp.training.experiments import SuiteDocument, check_fresh
from expcomp.training.guard import ExposureCounts, ExposureReport
from expcomp.training.identity import DatasetIdentity, TaskIdentity
from expcomp.training.profile import Profile
from expcomp.training.receipts import TrainingAncestry, TrainingReceipt, extended
from tests.training import made
from tests.training.made import ancestry, identity, profile, receipt, sha

REPORT: ExposureReport = seal(
    ExposureReport(
        level="name",
        index_digest=sha("index"),
        receipts=1,
        tasks_seen=2,
        heldout_tasks=3,
        heldout_found=1,
        errors=1,
        found=ExposureCounts(content=1, name=0, near=None),
        verdict="refused",
    )
)
DOCUMENTS: dict[str, Document] = {
    "task identity": TaskIdentity(benchmark="b", task="t", content_digest=sha("t")),
    "dataset identity": identity(("b", "t", sha("t"))),
    "request": made.REQUEST,
    "receipt": receipt("one"),
    "ancestry": ancestry("one", "two", "three"),
    "profile": profile(ancestry("one", "two")),
    "exposure": REPORT,
    "benchmark task": made.TASKS[0],
    "benchmark suite": made.SUITE,
    "benchmark seal": made.SEAL,
    "experiment": made.EXPERIMENT,
    "cell": made.CELL,
    "comparison": made.COMPARISON,
    "decision": made.DECISION,
    "proposal": made.PROPOSAL,
    "review": made.REVIEW,
    "activation": made.ACTIVATION,
    "activation result": made.RESULT,
    "chain": made.CHAIN,
}
each = pytest.mark.parametrize("document", DOCUMENTS.values(), ids=DOCUMENTS.keys())
sealed = pytest.mark.parametrize(
    "document",
    [d for d in DOCUMENTS.values() if isinstance(d, Sealed)],
    ids=[n for n, d in DOCUMENTS.items() if isinstance(d, Sealed)],
)


def leaves(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[tuple[Any, ...], Any]]:
    if isinstance(value, dict):
        return [leaf for k, v in value.items() for leaf in leaves(v, (*at, k))]
    if isinstance(value, list | tuple):
        return [leaf for k, v in enumerate(value) for leaf in leaves(v, (*at, k))]
    return [(at, value)]


def changed(wire: Any, at: tuple[Any, ...], value: Any) -> Any:
    whole = json.loads(json.dumps(wire))
    inner = whole
    for key in at[:-1]:
        inner = inner[key]
    inner[at[-1]] = value
    return whole


@each
def test_the_wire_form_comes_back_as_the_same_document(document: Document, tmp_path: Path) -> None:
    path = tmp_path / "document.json"
    path.write_bytes(document_bytes(document))
    assert path.read_bytes() == rfc8785.dumps(json.loads(path.read_bytes()))
    assert read_document(type(document), path) == document


@each
def test_the_digest_is_that_of_the_canonical_wire_form(document: Document) -> None:
    wire = {k: v for k, v in to_wire(document).items() if k not in document.OUTSIDE}
    assert document_digest(document) == digest_bytes(rfc8785.dumps(wire))


@each
def test_an_unknown_field_is_refused(document: Document) -> None:
    with pytest.raises(DocumentError, match="surprise"):
        from_wire(type(document), to_wire(document) | {"surprise": 1})


@each
def test_a_missing_field_is_refused(document: Document) -> None:
    required = [f.encode_name for f in msgspec.structs.fields(document) if f.required]
    for name in required:
        with pytest.raises(DocumentError, match=name):
            from_wire(type(document), {k: v for k, v in to_wire(document).items() if k != name})


@each
def test_names_on_the_wire_are_camel_case(document: Document) -> None:
    assert not [k for k in to_wire(document) if "_" in k]


@each
def test_documents_are_frozen(document: Document) -> None:
    with pytest.raises(AttributeError):
        setattr(document, document.__struct_fields__[0], None)


@sealed
def test_every_change_of_a_sealed_document_is_seen(document: Sealed) -> None:
    wire = to_wire(document)
    for at, value in leaves(wire):
        other = not value if isinstance(value, bool) else value + 1 if isinstance(value, int | float) else f"{value}x"
        if at == ("digest",):
            other = sha("other")
        with pytest.raises(DocumentError):
            from_wire(type(document), changed(wire, at, other), "the document")


@sealed
def test_a_changed_digest_names_the_document(document: Sealed) -> None:
    with pytest.raises(TamperedError, match=r"seal\.json, digest: digest_mismatch"):
        from_wire(type(document), to_wire(document) | {"digest": sha("other")}, "seal.json")


@pytest.mark.parametrize(
    ("document", "at", "value"),
    [
        (made.PROPOSAL, ("comparison", "score", "name"), "another"),
        (made.SEAL, ("tasks", 1, "model"), "another-model"),
        (made.SEAL, ("suite", "seeds", 0), 9),
        (made.CHAIN, ("proposal", "comparison", "score", "name"), "another"),
    ],
)
def test_an_inner_document_is_verified_whatever_the_outer_digest_says(document: Document, at: Any, value: Any) -> None:
    forged = msgspec.convert(changed(to_wire(document), at, value), type(document))
    wire = to_wire(seal(forged) if isinstance(forged, Sealed) else forged)
    place = at[0] if at[1] != 1 else "tasks[1]"
    with pytest.raises(TamperedError, match=f"^document, {re.escape(place)}.*digest_mismatch"):
        from_wire(type(document), wire)


def test_a_document_without_its_digest_is_refused() -> None:
    with pytest.raises(DocumentError, match="digest_missing"):
        from_wire(SuiteDocument, {k: v for k, v in to_wire(made.SUITE).items() if k != "digest"})


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"contentDigest": "sha256:ABC"}, "contentDigest"),
        ({"contentDigest": sha("x") + "\n"}, "contentDigest"),
        ({"benchmark": ""}, "benchmark"),
        ({"benchmark": " b"}, "benchmark"),
        ({"task": "t\n"}, "task"),
        ({"task": "t" * 513}, "task"),
        ({"task": 1}, "task: bad_document: found `int`; expected `str`"),
        ({"task": None}, "task"),
    ],
)
def test_a_bad_task_identity_is_named(change: dict[str, Any], told: str) -> None:
    with pytest.raises(DocumentError, match=told):
        from_wire(TaskIdentity, to_wire(DOCUMENTS["task identity"]) | change)


def test_a_name_may_hold_512_characters() -> None:
    wire = to_wire(DOCUMENTS["task identity"]) | {"task": "😀" * 512}
    assert from_wire(TaskIdentity, wire).task == "😀" * 512


@pytest.mark.parametrize("value", [2**53, 1e400, float("nan"), "\ud800"], ids=repr)
def test_values_without_canonical_form_are_refused(value: Any) -> None:
    wire = to_wire(made.REQUEST) | {"parameters": {"x": value}}
    with pytest.raises(DocumentError, match="not_canonicalizable"):
        from_wire(type(made.REQUEST), wire)


def test_a_constructor_is_checked_before_anything_is_digested() -> None:
    wrong = TaskIdentity(benchmark="b", task=7, content_digest=sha("t"))  # type: ignore[arg-type]
    with pytest.raises(DocumentError, match="task: bad_document"):
        document_digest(wrong)


def test_a_file_with_a_key_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "task.json"
    path.write_text(f'{{"benchmark":"a","task":"t","task":"u","contentDigest":"{sha("t")}"}}')
    with pytest.raises(SourceError, match="twice"):
        read_document(TaskIdentity, path)


# Dataset identity.

A, B = ("a", "t2", sha("two")), ("b", "t1", sha("one"))


def test_vectors_of_the_specification() -> None:
    assert (
        identity(("fixture", "train", sha("train-task"))).task_set_digest
        == "sha256:468958deeb982c0f0e8f058e7bb72d30ee76f382a15476e5f8b1beefdab37f1d"
    )
    assert identity(B, A).task_set_digest == "sha256:a35b8b86509f0cefa2a366e16b9ae4a15863ebb8324fa94d20751aa58c1b734c"


def test_an_identity_with_all_tasks_has_the_three_keys_of_its_format() -> None:
    assert list(to_wire(identity(A, B))) == ["digest", "taskSetDigest", "tasks"]


def _identity(**change: Any) -> dict[str, Any]:
    return json.loads(json.dumps(to_wire(identity(A, B)))) | change


@pytest.mark.parametrize(
    ("wire", "code", "tampered"),
    [
        (_identity(tasks=_identity()["tasks"][::-1]), "identity_tasks_unsorted", False),
        (_identity(tasks=[*_identity()["tasks"], _identity()["tasks"][1]]), "identity_tasks_duplicate", False),
        (_identity(taskSetDigest=sha("other")), "identity_task_set_digest", True),
        (_identity(tasks=_identity()["tasks"][:1]), "identity_task_set_digest", True),
        (_identity(taskCount=3), "identity_task_count", True),
        (_identity(inventory={"digest": sha("i"), "bytes": 1}), "identity_bad_shape", False),
        ({k: v for k, v in _identity().items() if k != "tasks"}, "identity_bad_shape", False),
        (_identity(tasks=_identity()["tasks"] * 2049), "identity_too_many_tasks", False),
    ],
)
def test_an_identity_that_does_not_recompute_is_refused(wire: dict[str, Any], code: str, tampered: bool) -> None:
    with pytest.raises(DocumentError) as caught:
        from_wire(DatasetIdentity, wire)
    assert caught.value.code == code
    assert isinstance(caught.value, TamperedError) is tampered


# Receipts and their chain.


def _training(**change: Any) -> dict[str, Any]:
    return json.loads(json.dumps(to_wire(ancestry("one", "two", "three")))) | change


@pytest.mark.parametrize("place", [("ancestors", 0), ("ancestors", 1)])
def test_a_laundered_ancestor_is_refused_by_name(place: tuple[str, int]) -> None:
    wire = changed(_training(), (*place, "dataset", "digest"), sha("clean"))
    with pytest.raises(TamperedError, match="ancestry_broken") as caught:
        from_wire(TrainingAncestry, wire, "profile.json")
    assert f"{place[0]}[{place[1]}] with digest" in str(caught.value)


def test_a_receipt_whose_tasks_were_cut_is_refused_by_name() -> None:
    both = identity(A, B)
    wire = json.loads(json.dumps(to_wire(ancestry("one", "two", datasets={"one": both}))))
    wire["ancestors"][0]["dataset"]["tasks"].pop()
    with pytest.raises(TamperedError, match=r"ancestors\[0\]\.dataset\.taskSetDigest"):
        from_wire(TrainingAncestry, wire)


@pytest.mark.parametrize(
    "change", [{"ancestors": []}, {"ancestors": _training()["ancestors"][::-1]}, {"older": [sha("more")]}], ids=str
)
def test_a_chain_with_a_gap_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(TamperedError, match="ancestry_broken"):
        from_wire(TrainingAncestry, _training(**change))


def test_old_ancestors_are_named_and_come_from_a_store() -> None:
    names = [f"run {n}" for n in range(12)]
    lineage = ancestry(*names)
    assert (len(lineage.ancestors), len(lineage.older)) == (8, 3)
    made_before: TrainingAncestry | None = None
    store = {}
    for name in names:
        one = receipt(name, None if made_before is None else made_before.receipt)
        store[document_digest(one)] = one
        made_before = extended(one, made_before)
    chain = lineage.resolved(store)
    assert [r.dataset.tasks[0].task for r in chain] == names[::-1]  # type: ignore[index,union-attr]
    with pytest.raises(DocumentError, match=r"training\.older\[0\].*receipt_missing"):
        lineage.resolved({})
    other = store | {lineage.older[1]: receipt("another")}
    with pytest.raises(DocumentError, match=r"training\.older\[1\].*ancestry_broken"):
        lineage.resolved(other)


def test_too_many_whole_ancestors_are_refused() -> None:
    lineage = ancestry(*(f"run {n}" for n in range(10)))
    wire = json.loads(json.dumps(to_wire(lineage)))
    wire["ancestors"].append(to_wire(receipt("run 0")))
    with pytest.raises(DocumentError, match="ancestry_too_long"):
        from_wire(TrainingAncestry, wire)


def test_observations_are_outside_the_digest() -> None:
    one = receipt("one")
    seen = swap(one, observations={"seconds": 12.5, "loss": [2.0, 1.5]})
    assert document_digest(seen) == document_digest(one)
    assert to_wire(seen) != to_wire(one)


@pytest.mark.parametrize(
    "parameters",
    [
        {"api_key": "x"},
        {"nested": {"hubToken": "x"}},
        {"wandb": [{"password": "x"}]},
        {"note": "Bearer abcdefgh12345678"},
        {"url": "https://me:pw@example.org/x"},
        {"key": "sk-proj-Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4z"},
    ],
    ids=str,
)
def test_parameters_that_look_like_credentials_are_refused(parameters: dict[str, Any]) -> None:
    with pytest.raises(DocumentError, match="parameters_not_public"):
        from_wire(type(made.REQUEST), to_wire(made.REQUEST) | {"parameters": parameters})


def test_parameters_about_tokens_of_a_tokenizer_are_fine() -> None:
    parameters = {"max_tokens": 5, "eos_token": "</s>", "padToken": "x", "tokenizer": "dir", "author": "a"}
    assert from_wire(type(made.REQUEST), to_wire(made.REQUEST) | {"parameters": parameters}).parameters == parameters


def test_a_model_id_has_to_be_that_of_the_artifact() -> None:
    wire = changed(to_wire(receipt("one")), ("checkpoint", "artifactDigest"), sha("other weights"))
    with pytest.raises(TamperedError, match=r"checkpoint\.routerModelId: model_id_not_of_artifact"):
        from_wire(TrainingReceipt, wire)


def test_a_movable_model_id_is_refused() -> None:
    wire = changed(to_wire(receipt("one")), ("checkpoint", "routerModelId"), "expcomp-trained/latest")
    with pytest.raises(DocumentError, match="routerModelId"):
        from_wire(TrainingReceipt, wire)


@pytest.mark.parametrize("path", ["/etc/dataset.json", "../dataset.json", "a/../../b", "a\\b", "a\x00b", ""])
def test_a_request_has_no_path_out_of_its_job(path: str) -> None:
    with pytest.raises(DocumentError, match="datasetPath"):
        from_wire(type(made.REQUEST), to_wire(made.REQUEST) | {"datasetPath": path})


# Profiles.

TRAINED = receipt("one").checkpoint.router_model_id
OTHER = receipt("two").checkpoint.router_model_id


def test_a_profile_without_training_is_untouched() -> None:
    plain = profile(subagents={"helper": {"model": "small-model", "prompt": "Help."}})
    assert from_wire(Profile, to_wire(plain)).training is None


def _profile(training: bool, **change: Any) -> dict[str, Any]:
    wire = json.loads(json.dumps(to_wire(profile(ancestry("one") if training else None))))
    return wire | change


@pytest.mark.parametrize(
    ("wire", "code"),
    [
        (_profile(False, model={"provider": "local", "default": TRAINED}), "profile_without_receipt"),
        (_profile(False, modes={"plan": {"model": TRAINED}}), "profile_without_receipt"),
        (_profile(True, model={"provider": "local", "default": "base-model"}), "profile_other_model"),
        (_profile(True, model={"provider": "local", "default": TRAINED, "small": OTHER}), "profile_other_secondary_model"),
        (_profile(True, subagents={"a": {"model": OTHER}}), "profile_other_secondary_model"),
        (_profile(True, modes={"a": {"model": OTHER}}), "profile_other_secondary_model"),
    ],
)  # fmt: skip
def test_a_profile_that_its_receipt_does_not_carry_is_refused(wire: dict[str, Any], code: str) -> None:
    with pytest.raises(DocumentError) as caught:
        from_wire(Profile, wire)
    assert caught.value.code == code


def test_a_profile_with_a_broken_ancestry_is_refused() -> None:
    wire = json.loads(json.dumps(to_wire(profile(ancestry("one", "two")))))
    wire["metadata"]["training"]["ancestors"][0]["dataset"]["digest"] = sha("clean")
    with pytest.raises(TamperedError, match=r"^document, metadata\.training\.ancestors: ancestry_broken"):
        from_wire(Profile, wire)


@pytest.mark.parametrize("name", ["harness", "model"])
def test_harness_and_model_are_explicit(name: str) -> None:
    with pytest.raises(DocumentError, match=name):
        from_wire(Profile, {k: v for k, v in to_wire(profile()).items() if k != name})


def compared(**change: Any) -> dict[str, Any]:
    """Another comparison, and a decision that names it and has its bound."""
    comparison = seal(swap(made.COMPARISON, **change))
    low = comparison.score.interval.low
    return {
        "comparison": comparison,
        "decision": seal(swap(made.DECISION, comparison_digest=str(comparison.digest), low=low)),
    }


# What spans fields of the other documents: the document, what is changed, the code.

CODES: list[tuple[Document, dict[str, Any], str]] = [
    (REPORT, {"verdict": "clear"}, "exposure_verdict"),
    (REPORT, {"heldout_found": 9}, "exposure_counts"),
    (made.SUITE, {"seeds": (1, 2)}, "suite_seeds"),
    (made.SUITE, {"task_digests": (sha("x"), sha("x"))}, "suite_tasks_duplicate"),
    (made.SEAL, {"tasks": made.TASKS[::-1]}, "seal_other_tasks"),
    (made.SEAL, {"suite": swap(made.SUITE, digest=msgspec.UNSET)}, "seal_unsealed_part"),
    (made.POLICY, {"critical_dimensions": ("b", "a")}, "policy_dimensions"),
    (made.DIFF, {"after": sha("old")}, "diff_changes_nothing"),
    (made.EXPERIMENT.lineage, {"parents": (sha("old"), sha("old"))}, "lineage_parents_duplicate"),
    (made.EXPERIMENT.lineage, {"origin": "compound"}, "lineage_compound"),
    (made.EXPERIMENT.lineage, {"runs": ()}, "lineage_generated"),
    (made.EXPERIMENT, {"candidate_digest": sha("old")}, "experiment_same_state"),
    (made.EXPERIMENT, {"source_ref": sha("x")}, "experiment_other_source"),
    (made.EXPERIMENT, {"candidate_digest": sha("x")}, "experiment_change"),
    (made.EXPERIMENT, {"split_digest": sha("development")}, "experiment_split_not_fresh"),
    (made.EXPERIMENT, {"lineage": swap(made.EXPERIMENT.lineage, parents=(sha("new"), sha("old")))}, "experiment_own_parent"),
    (made.EXPERIMENT, {"lineage": swap(made.EXPERIMENT.lineage, parents=(sha("x"),))}, "experiment_parents"),
    (made.COMPARISON.score, {"difference": 0.21}, "comparison_difference"),
    (made.COMPARISON.score, {"interval": swap(made.COMPARISON.score.interval, low=0.25)}, "comparison_interval"),
    (made.COMPARISON.accounting, {"known_nanos": 4}, "accounting_total"),
    (made.COMPARISON, {"n_samples": 5}, "comparison_samples"),
    (made.COMPARISON, {"n_units": 4}, "comparison_units"),
    (made.COMPARISON, {"objectives": (made.measure("style"),)}, "comparison_dimensions"),
    (made.DECISION, {"outcome": "hold"}, "decision_outcome"),
    (made.DECISION, {"reasons": ("too_few_units",)}, "decision_outcome"),
    (made.DECISION, {"outcome": "hold", "reasons": ("too_few_units", "held_out_exposure")}, "decision_reasons"),
    (made.PROPOSAL, {"surfaces": ("b", "a")}, "proposal_surfaces"),
    (made.PROPOSAL, {"comparison": swap(made.COMPARISON, digest=sha("x"))}, "proposal_other_comparison"),
    (made.PROPOSAL, {"decision": seal(swap(made.DECISION, outcome="hold", reasons=("too_few_units",)))}, "proposal_not_shipping"),
    (made.PROPOSAL, {"decision": seal(swap(made.DECISION, experiment_digest=msgspec.UNSET))}, "proposal_unsealed"),
    (made.PROPOSAL, {"decision": seal(swap(made.DECISION, low=0.15))}, "proposal_not_of_comparison"),
    (made.PROPOSAL, compared(failed_runs=1), "proposal_not_of_comparison"),
    (made.PROPOSAL, compared(unmeasured=("cost",)), "proposal_not_of_comparison"),
    (made.PROPOSAL, compared(experiment_digest=sha("x")), "proposal_not_of_comparison"),
    (made.PROPOSAL, compared(score=made.measure(low=-0.1)), "proposal_not_of_comparison"),
    (made.ACTIVATION, {"targets": made.ACTIVATION.targets * 2}, "activation_targets"),
    (made.ACTIVATION, {"execution_ref": msgspec.UNSET}, "activation_execution_ref"),
    (made.ACTIVATION, {"expires_at": "2026-01-03T00:00:01Z"}, "activation_expiry"),
    (made.RESULT, {"completed_at": "2026-01-03T00:00:01Z"}, "activation_times"),
    (made.RESULT, {"transaction_id": msgspec.UNSET}, "activation_applied"),
    (made.CHAIN, {"review": swap(made.REVIEW, proposal_digest=sha("x"))}, "review_other_proposal"),
    (made.CHAIN, {"review": swap(made.REVIEW, reviewed_at="2026-01-01T00:00:00Z")}, "review_before_proposal"),
    (made.CHAIN, {"review": swap(made.REVIEW, verdict="reject")}, "activation_without_approval"),
    (made.CHAIN, {"activation": swap(made.ACTIVATION, review_digest=sha("x"))}, "activation_other_documents"),
    (made.CHAIN, {"activation": swap(made.ACTIVATION, authorized_at="2026-01-02T23:00:00Z")}, "activation_before_review"),
]  # fmt: skip


@pytest.mark.parametrize(("document", "change", "code"), CODES, ids=[f"{c}-{n}" for n, (_, _, c) in enumerate(CODES)])
def test_what_does_not_fit_together_is_refused(document: Document, change: dict[str, Any], code: str) -> None:
    with pytest.raises(ValueError, match=code):
        swap(document, **change)


def test_every_code_of_a_document_has_a_test() -> None:
    classes, codes = [Document], set()
    while classes:
        one = classes.pop()
        classes += one.__subclasses__()
        codes |= {r.code for r in one.RULES} if one.__module__.startswith("expcomp.training") else set()
    text = "".join(p.read_text("utf-8") for p in sorted(Path(__file__).parent.rglob("test_*.py")))
    assert [c for c in sorted(codes) if c not in text] == []


def test_a_benchmark_that_was_developed_on_is_not_fresh() -> None:
    check_fresh(made.SEAL, {sha("development")}, {sha("c")})
    for splits, scenarios in (({sha("final")}, set()), (set(), {sha("a")})):
        with pytest.raises(DocumentError, match="benchmark_not_fresh"):
            check_fresh(made.SEAL, splits, scenarios)


@given(st.dictionaries(st.text("abcxyz_", min_size=1), st.integers(0, 9) | st.text("αβ😀\ufffd"), max_size=4))
def test_sealing_is_idempotent_and_survives_the_wire(limits: dict[str, Any]) -> None:
    numbers = {k: v for k, v in limits.items() if isinstance(v, int)}
    one = seal(swap(made.TASKS[0], limits=numbers))
    assert seal(one) == one
    assert from_wire(type(one), copy.deepcopy(to_wire(one))) == one
