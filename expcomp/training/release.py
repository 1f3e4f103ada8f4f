"""What may be done about a decision: proposal, review, activation, and how these hold together."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from msgspec import UNSET, Meta, UnsetType

from expcomp.training.decisions import ImprovementDecision, MeasuredComparison
from expcomp.training.documents import Document, Name, Rule, Sealed, Sha256, Text, Time, ascending, distinct, moment

Surface = Name


def _of_comparison(decision: ImprovementDecision, comparison: MeasuredComparison) -> bool:
    """Whether a decision to ship has the figures of a comparison, and may rest on them: no policy asks for less than a bound above 0."""
    score = comparison.score
    low = score.interval.low
    figures = (low, score.difference, score.interval.high, score.interval.method, comparison.n_units)
    same = figures == (decision.low, decision.point, decision.high, decision.method, decision.n_units)
    own = comparison.experiment_digest == decision.experiment_digest
    whole = comparison.complete and not comparison.unmeasured
    return same and own and whole and low is not None and low > 0


class ImprovementProposal(Sealed, frozen=True, kw_only=True):
    """A candidate that may ship, with what speaks for it."""

    kind: Literal["improvement-proposal"] = "improvement-proposal"
    run_id: Name
    created_at: Time
    baseline_digest: Sha256
    candidate_digest: Sha256
    surfaces: Annotated[tuple[Surface, ...], Meta(min_length=1)]
    findings: tuple[Text, ...] = ()
    comparison: MeasuredComparison
    decision: ImprovementDecision

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule("proposal_surfaces", "surfaces", lambda p: ascending(p.surfaces), "sorted names, each once"),
        Rule(
            "proposal_not_shipping",
            "decision.outcome",
            lambda p: p.decision.outcome == "ship",
            "ship",
            lambda p: p.decision.outcome,
        ),
        Rule(
            "proposal_unsealed",
            "decision.experimentDigest",
            lambda p: p.decision.experiment_digest is not UNSET,
            "a decision about an experiment that was sealed before its runs",
        ),
        Rule(
            "proposal_other_comparison",
            "decision.comparisonDigest",
            lambda p: p.decision.comparison_digest == p.comparison.digest,
            "the digest of the comparison",
            lambda p: p.decision.comparison_digest,
            tampered=True,
        ),
        Rule(
            "proposal_not_of_comparison",
            "decision",
            lambda p: _of_comparison(p.decision, p.comparison),
            "the figures of a complete comparison of the same experiment, whose lower bound is above 0",
            tampered=True,
        ),
    )


class ImprovementReview(Sealed, frozen=True, kw_only=True):
    """What a reviewer says of a proposal; `Chain` holds the two together."""

    kind: Literal["improvement-review"] = "improvement-review"
    proposal_digest: Sha256
    verdict: Literal["approve", "reject", "request-changes"]
    reviewer: Name
    reviewed_at: Time
    reason: Text
    feedback: Text | UnsetType = UNSET


class ActivationTarget(Document, frozen=True, kw_only=True):
    """What is replaced; `expectedBaseDigest` makes it a compare-and-swap."""

    surface: Surface
    identity: Name
    expected_base_digest: Sha256


class ImprovementActivation(Sealed, frozen=True, kw_only=True):
    """An authorised wish to put a candidate into use, or the baseline back."""

    kind: Literal["improvement-activation"] = "improvement-activation"
    proposal_digest: Sha256
    review_digest: Sha256
    experiment_digest: Sha256
    candidate_digest: Sha256
    execution_ref: Sha256 | UnsetType = UNSET
    intent: Literal["activate-candidate", "restore-baseline"]
    targets: Annotated[tuple[ActivationTarget, ...], Meta(min_length=1)]
    payer: Name
    authorized_by: Name
    authorized_at: Time
    expires_at: Time

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "activation_targets",
            "targets",
            lambda a: distinct(tuple((t.surface, t.identity) for t in a.targets)),
            "each target once",
        ),
        Rule(
            "activation_execution_ref",
            "executionRef",
            lambda a: (a.execution_ref is not UNSET) == any(t.surface == "agent-profile" for t in a.targets),
            "an execution reference exactly when an agent-profile is a target",
        ),
        Rule(
            "activation_expiry",
            "expiresAt",
            lambda a: moment(a.expires_at) > moment(a.authorized_at),
            "a time after authorizedAt",
            lambda a: a.expires_at,
        ),
    )


class ActivationResult(Sealed, frozen=True, kw_only=True):
    """What became of an activation."""

    kind: Literal["activation-result"] = "activation-result"
    activation_digest: Sha256
    idempotency_key: Name
    attempted_at: Time
    completed_at: Time
    outcome: Literal["applied", "already-applied", "conflict", "expired", "unsupported", "failed", "indeterminate"]
    before_digest: Sha256 | UnsetType = UNSET
    after_digest: Sha256 | UnsetType = UNSET
    transaction_id: Name | UnsetType = UNSET
    detail: Text | UnsetType = UNSET

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "activation_times",
            "completedAt",
            lambda r: moment(r.completed_at) >= moment(r.attempted_at),
            "a time not before attemptedAt",
            lambda r: r.completed_at,
        ),
        Rule(
            "activation_applied",
            "outcome",
            lambda r: (r.outcome == "applied") <= (UNSET not in (r.before_digest, r.after_digest, r.transaction_id)),
            "digests before and after, and a transaction, of what was applied",
        ),
    )


class Chain(Document, frozen=True, kw_only=True):
    """A proposal with its review and activation, held together: `from_wire` or the constructor refuses what does not fit."""

    proposal: ImprovementProposal
    review: ImprovementReview
    activation: ImprovementActivation | UnsetType = UNSET

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "review_other_proposal",
            "review.proposalDigest",
            lambda c: c.review.proposal_digest == c.proposal.digest,
            "the digest of the proposal",
            lambda c: c.review.proposal_digest,
            tampered=True,
        ),
        Rule(
            "review_before_proposal",
            "review.reviewedAt",
            lambda c: moment(c.review.reviewed_at) >= moment(c.proposal.created_at),
            "a time not before the proposal",
            lambda c: c.review.reviewed_at,
        ),
        Rule(
            "activation_without_approval",
            "activation",
            lambda c: c.activation is UNSET or c.review.verdict == "approve",
            "an approving review",
            lambda c: c.review.verdict,
        ),
        Rule(
            "activation_other_documents",
            "activation",
            lambda c: c.activation is UNSET or _names(c.activation) == (
                c.proposal.digest, c.review.digest, c.proposal.decision.experiment_digest, c.proposal.candidate_digest
            ),
            "the digests of proposal, review, experiment and candidate",
            lambda c: _names(c.activation),
            tampered=True,
        ),
        Rule(
            "activation_before_review",
            "activation.authorizedAt",
            lambda c: c.activation is UNSET or moment(c.activation.authorized_at) >= moment(c.review.reviewed_at),
            "a time not before the review",
            lambda c: c.activation.authorized_at,
        ),
    )  # fmt: skip


def _names(activation: Any) -> tuple[Any, ...]:
    return (
        activation.proposal_digest,
        activation.review_digest,
        activation.experiment_digest,
        activation.candidate_digest,
    )
