"""The candidate profile of a receipt, and the validators that accept or reject one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import polars as pl
from msgspec import UNSET

from expcomp.errors import ExpcompError, UsageError
from expcomp.io.canon import dumps
from expcomp.training.documents import BrokenError, TamperedError, from_wire, to_wire
from expcomp.training.profile import Profile
from expcomp.training.receipts import TrainingReceipt, extended


class CandidateRejectedError(ExpcompError):
    """A validator rejected a profile, or gave no proper answer."""

    exit_code = 1


@dataclass(frozen=True, slots=True)
class CandidateInput:
    """What a validator is given.

    Attributes:
        profile: Canonical JSON of the profile.
        surface: What was searched or trained.
        candidate_surface: The same in the profile: its default model.
        value: The receipt in canonical JSON; None for the baseline.
        is_baseline: Whether this is the unchanged parent.
    """

    profile: bytes
    surface: str
    candidate_surface: str
    value: bytes | None
    is_baseline: bool


Validator = Callable[[CandidateInput], None]


def derive_candidate(parent: Profile, receipt: TrainingReceipt) -> Profile:
    """The parent with the model of a receipt.

    The default model is the new one; the small model, sub-agents and modes that used the parent's trained model use it, too;
    `metadata.training` is the new receipt with the extended ancestry. Nothing else changes.

    Raises:
        TamperedError: The receipt does not name that of the parent.
        DocumentError: The result is no profile.
    """
    wire, new = to_wire(parent), receipt.checkpoint.router_model_id
    before = parent.training
    old = None if before is None else before.receipt.checkpoint.router_model_id
    wire["model"]["default"] = new
    if old is not None:
        parts = [(wire["model"], "small")]
        parts += [(part, "model") for group in ("subagents", "modes") for part in wire.get(group, {}).values()]
        for part, name in parts:
            if part.get(name) == old:
                part[name] = new
    # What was observed holds clocks; in the profile it would come under its digest.
    core = msgspec.structs.replace(receipt, observations=UNSET)
    try:
        ancestry = extended(core, before)
    except BrokenError as error:
        rule = error.rule
        raise TamperedError("candidate profile", rule.code, "metadata.training", error.found, rule.expected) from error
    wire["metadata"] = wire.get("metadata", {}) | {"training": to_wire(ancestry)}
    return from_wire(Profile, wire, "candidate profile")


def check_validators(validators: Sequence[Any]) -> None:
    """Refuse what cannot be called, before any work starts.

    Raises:
        UsageError: A validator that is none.
    """
    for validator in validators:
        if not callable(validator):
            raise UsageError(f"validator {validator!r}: expected a function of one CandidateInput")


def findings_validator(check: Callable[[CandidateInput], pl.DataFrame]) -> Validator:
    """A validator of a check that answers with a frame of findings, one line each; it accepts when none is an error.

    Args:
        check: Gives a frame; lines count as errors unless a column `severity` says otherwise. The first is told, by its columns `code`,
            `path` and `found`, as far as it has them.

    Raises:
        UsageError: It cannot be called.
    """
    check_validators([check])

    def validator(given: CandidateInput) -> None:
        found: Any = check(given)
        if not isinstance(found, pl.DataFrame):
            if inspect.iscoroutine(found):
                found.close()
            raise TypeError(f"gave {type(found).__name__}, expected a frame of findings")
        errors = found.filter(severity="error") if "severity" in found.columns else found
        if errors.height:
            told = [str(errors[c][0]) for c in ("code", "path", "found") if c in errors.columns]
            raise ValueError(f"{errors.height:,} findings, as {': '.join(told) or 'its first line'}")

    validator.__qualname__ = getattr(check, "__qualname__", type(check).__name__)
    return validator


def validate_candidate(validators: Sequence[Validator], profile: Profile, receipt: TrainingReceipt | None) -> None:
    """Ask every validator; each has to return None.

    Args:
        validators: In order.
        profile: Candidate, or parent.
        receipt: Of the candidate; None for the parent.

    Raises:
        CandidateRejectedError: One raised, or returned anything: an asynchronous or boolean one would pass unasked otherwise.
    """
    given = CandidateInput(
        profile=dumps(to_wire(profile)),
        surface="model.default",
        candidate_surface=profile.model.default,
        value=None if receipt is None else dumps(to_wire(receipt)),
        is_baseline=receipt is None,
    )
    who = "the parent profile" if receipt is None else "the candidate"
    for validator in validators:
        name = getattr(validator, "__qualname__", type(validator).__name__)
        try:
            answer: Any = validator(given)
        except Exception as error:
            raise CandidateRejectedError(f"{name} rejected {who}: {type(error).__name__}: {error}") from error
        if answer is not None:
            if inspect.iscoroutine(answer):
                answer.close()
            raise CandidateRejectedError(
                f"{name} returned {type(answer).__name__} for {who}; a validator returns None to accept and raises to reject"
            )
