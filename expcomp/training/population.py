"""What a search made: every candidate with its way from the baseline, and the run that it comes from."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import msgspec
import polars as pl
from msgspec import UNSET, Meta, UnsetType

from expcomp.tables.training import POPULATION
from expcomp.training.diffs import apply_diffs
from expcomp.training.documents import (
    Count,
    Document,
    DocumentError,
    Name,
    Positive,
    Rule,
    Sealed,
    Sha256,
    Text,
    distinct,
    document_digest,
    verify_seal,
)
from expcomp.training.experiments import ProfileDiff
from expcomp.training.profile import Profile


class CandidateRecord(Document, frozen=True, kw_only=True):
    """One candidate of a search.

    Attributes:
        candidate_digest: Of what was proposed; of a materialized candidate its profile's.
        surface_digest: Of the part of the profile that was searched.
        parents: Candidates it was made of; the baseline counts as one.
        status: `materialized` (it became a profile) or `failed`.
        profile_digest, diffs: Of a materialized one: what it became, and the steps from the baseline to it.
        error, error_text: Of a failed one.
    """

    candidate_digest: Sha256
    surface_digest: Sha256
    parents: tuple[Sha256, ...] = ()
    status: Literal["materialized", "failed"]
    profile_digest: Sha256 | UnsetType = UNSET
    diffs: tuple[ProfileDiff, ...] = ()
    error: Name | UnsetType = UNSET
    error_text: Text | UnsetType = UNSET

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "candidate_status",
            "status",
            lambda c: (c.status == "materialized") == (c.profile_digest is not UNSET) == (c.error is UNSET),
            "a profile of a materialized candidate, an error of a failed one",
            lambda c: c.status,
        ),
        Rule("candidate_parents", "parents", lambda c: distinct(c.parents), "each parent once"),
        Rule(
            "candidate_own_parent",
            "parents",
            lambda c: c.candidate_digest not in c.parents,
            "others than the candidate itself",
        ),
    )


class PopulationRecord(Sealed, frozen=True, kw_only=True):
    """All candidates of one search. `unavailable` says that the search kept no record: unknown is not empty."""

    kind: Literal["population"] = "population"
    status: Literal["available", "unavailable"]
    baseline_digest: Sha256
    candidates: tuple[CandidateRecord, ...] = ()

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "population_unavailable",
            "candidates",
            lambda p: p.status == "available" or not p.candidates,
            "no candidates where no record was kept",
        ),
        Rule(
            "population_candidates",
            "candidates",
            lambda p: distinct(tuple(c.candidate_digest for c in p.candidates)),
            "each candidate once",
        ),
    )


class SearchLineage(Sealed, frozen=True, kw_only=True):
    """The run that a result comes from.

    Attributes:
        invocation_id: Unique for each run.
        run_id: What the search calls it.
        development_split_digest: Of what it trained and selected on.
        final_split_digest: Of what the result is measured on; never shown to the search.
        partitions: Sizes of train, selection and final test: what is told of them without naming a task.
    """

    kind: Literal["search-lineage"] = "search-lineage"
    invocation_id: Name
    run_id: Name
    development_split_digest: Sha256
    final_split_digest: Sha256
    partitions: dict[Literal["train", "selection", "final"], Positive]
    repetitions: Positive = 1
    execution_ref: Sha256
    baseline_digest: Sha256

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "lineage_split_not_fresh",
            "finalSplitDigest",
            lambda s: s.development_split_digest != s.final_split_digest,
            "another split than the search worked on",
            lambda s: s.final_split_digest,
        ),
        Rule(
            "lineage_partitions",
            "partitions",
            lambda s: set(s.partitions) == {"train", "selection", "final"} and s.partitions["final"] >= 2,
            "train, selection and final, the last with two tasks or more",
            lambda s: s.partitions,
        ),
    )


def verify_population(record: PopulationRecord, baseline: Profile, name: str = "population") -> None:
    """Apply the steps of every materialized candidate to the baseline again.

    Raises:
        TamperedError: One does not lead to its profile, or the record is not what was sealed.
        DocumentError: The record is about another baseline, or a step cannot be applied.
    """
    verify_seal(record, name)
    own = document_digest(baseline)
    if record.baseline_digest != own:
        raise DocumentError(name, "population_other_baseline", "baselineDigest", record.baseline_digest, own)
    for number, candidate in enumerate(record.candidates):
        if candidate.status == "materialized":
            at = f"{name}.candidates[{number}]"
            made = document_digest(apply_diffs(baseline, candidate.diffs, f"{at}.diffs"))
            if made != candidate.profile_digest:
                raise DocumentError(at, "candidate_other_profile", "profileDigest", str(candidate.profile_digest), made)


def population_frame(record: PopulationRecord) -> pl.DataFrame:
    """Candidates (`POPULATION`), a line for each parent; where no record was kept one line that says so."""
    if record.status == "unavailable":
        told = [{"candidate_digest": record.baseline_digest, "status": "unavailable"}]
        return pl.DataFrame(told, schema=POPULATION.schema)
    each = record.candidates
    done = [c.status == "materialized" for c in each]
    columns = {
        "candidate_digest": [c.candidate_digest for c in each],
        "parent_digest": [c.parents or (None,) for c in each],
        "status": [c.status for c in each],
        "error": [None if c.error is UNSET else c.error for c in each],
        "profile_digest": [None if c.profile_digest is UNSET else c.profile_digest for c in each],
        "n_diffs": [len(c.diffs) if ok else None for c, ok in zip(each, done, strict=True)],
    }
    schema = dict(POPULATION.schema) | {"parent_digest": pl.List(pl.String)}
    return pl.DataFrame(columns, schema=schema).explode("parent_digest")


class RolloutPolicy(Document, frozen=True, kw_only=True):
    """Recipe of an agent at inference time, one part of a profile that may be searched (`extensions.rollout`).

    Attributes:
        samples: Answers that are drawn.
        repair_rounds: Times an answer is repaired.
        generated_tests: Tests that the agent writes for itself.
        diversity: Whether answers are asked to differ.
        temperature: Of sampling.
    """

    samples: Positive = 1
    repair_rounds: Count = 0
    generated_tests: Count = 0
    diversity: bool | UnsetType = UNSET
    temperature: Annotated[float, Meta(ge=0)] | UnsetType = UNSET


def rollout_policy(profile: Profile) -> RolloutPolicy | None:
    """The recipe of a profile; None when there is none, or when a field of it is no such value: a recipe is never made up.

    Unknown fields are left out.
    """
    given = {} if profile.extensions is UNSET else profile.extensions
    found = given.get("rollout")
    if not isinstance(found, dict):
        return None
    known = {n: found[n] for n in RolloutPolicy.__struct_encode_fields__ if n in found}
    try:
        return msgspec.convert(known, RolloutPolicy, strict=True)
    except msgspec.ValidationError:
        return None
