"""The profile of an agent: what is trained, and what carries the proof of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, UnsetType

from expcomp.training.documents import Document, Name, Rule
from expcomp.training.receipts import TrainingAncestry, is_trained


class ProfileModel(Document, frozen=True, kw_only=True):
    """Which models the agent calls."""

    provider: Name
    default: Name
    small: Name | UnsetType = UNSET


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """What is read of a sub-agent or mode; whatever else it holds is its own."""

    model: Name | UnsetType = UNSET


class Metadata(msgspec.Struct, frozen=True, kw_only=True):
    """What is read of the metadata; whatever else it holds is its owner's."""

    training: TrainingAncestry | UnsetType = UNSET


class _Carrier(msgspec.Struct, frozen=True, kw_only=True):
    """So that errors give the whole path."""

    metadata: Metadata


def _training(profile: Profile) -> TrainingAncestry | None:
    if profile.metadata is UNSET:
        return None
    found = msgspec.convert({"metadata": profile.metadata}, _Carrier, strict=True).metadata.training
    return None if found is UNSET else found


def _models(profile: Profile) -> Iterator[tuple[str, str]]:
    if profile.model.small is not UNSET:
        yield "model.small", profile.model.small
    for group in ("subagents", "modes"):
        for name, part in (getattr(profile, group) or {}).items():
            model = msgspec.convert(part, Part, strict=True).model
            if model is not UNSET:
                yield f"{group}.{name}.model", model


def _unproven(profile: Profile) -> str | None:
    """The first trained model that no receipt speaks for."""
    named = [("model.default", profile.model.default), *_models(profile)]
    trained = next((f"{at} {m}" for at, m in named if is_trained(m)), None)
    return trained if profile.metadata is UNSET or "training" not in profile.metadata else None


def _other_default(profile: Profile) -> bool:
    training = profile.training
    return training is not None and profile.model.default != training.receipt.checkpoint.router_model_id


def _other_secondary(profile: Profile) -> str | None:
    if profile.metadata is UNSET or "training" not in profile.metadata:
        return None
    # The rule before this one has read the whole of it.
    own = profile.metadata["training"]["receipt"]["checkpoint"]["routerModelId"]
    return next((f"{at} {m}" for at, m in _models(profile) if is_trained(m) and m != own), None)


class Profile(Document, frozen=True, kw_only=True):
    """Versioned configuration of an agent.

    Attributes:
        harness: What runs the agent.
        model: Its models; provider and default are explicit.
        prompts, tools, subagents, modes, extensions: Free-form JSON; `model` of a sub-agent or mode is a model id.
        metadata: Free-form, but `training`, a `TrainingAncestry`.
    """

    version: Literal[1] | UnsetType = UNSET
    harness: Name
    model: ProfileModel
    prompts: dict[str, Any] | UnsetType = UNSET
    tools: dict[str, Any] | UnsetType = UNSET
    subagents: dict[str, dict[str, Any]] | UnsetType = UNSET
    modes: dict[str, dict[str, Any]] | UnsetType = UNSET
    extensions: dict[str, Any] | UnsetType = UNSET
    metadata: dict[str, Any] | UnsetType = UNSET

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "profile_without_receipt",
            "metadata.training",
            lambda p: _unproven(p) is None,
            "a training receipt for each trained model that is named",
            _unproven,
        ),
        Rule(
            "profile_other_model",
            "model.default",
            lambda p: not _other_default(p),
            "the model of the training receipt",
            lambda p: p.model.default,
            tampered=True,
        ),
        Rule(
            "profile_other_secondary_model",
            "model",
            lambda p: _other_secondary(p) is None,
            "no trained model but that of the training receipt",
            _other_secondary,
            tampered=True,
        ),
    )

    @property
    def training(self) -> TrainingAncestry | None:
        """Its receipt and those before it; None for a profile that declares no training."""
        return _training(self)
