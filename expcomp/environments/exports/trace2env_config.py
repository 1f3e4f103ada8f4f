"""Settings of a package as those of the trace2env layout, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from expcomp.environments.config import PackageConfig
from expcomp.environments.flatten import dump
from expcomp.errors import PackageSchemaError

AGENT = "none"
"""Where the layout wants the name of a model and there was none."""


def config_document(config: PackageConfig) -> dict[str, Any]:
    """The settings; texts that the layout wants and nobody gave are empty, the model is `none`."""
    return {
        "environment_id": config.environment_id,
        "name": config.name or config.environment_id,
        "description": config.description or "",
        "domains": list(config.domains),
        "model": config.model or AGENT,
        "reasoning_effort": config.reasoning_effort or AGENT,
        "max_history_events": config.max_history_events,
        "min_rule_confidence": config.min_rule_confidence,
        "tenant_scope": config.tenant,
        "environment_version": config.environment_version,
        "scope": dict(config.scope),
        "construction_kind": config.construction_kind,
        "ablation": None if config.ablation is None else {"removed": config.ablation},
    }


def read_config(document: Mapping[str, Any]) -> PackageConfig:
    """The settings; what only a model needs is left out.

    Raises:
        PackageSchemaError: The environment has no id.
    """
    if not isinstance(document.get("environment_id"), str):
        raise PackageSchemaError("config of the layout: environment_id is missing")
    ablation = document.get("ablation")
    removed = ablation.get("removed") if isinstance(ablation, Mapping) else None
    model, effort = document.get("model"), document.get("reasoning_effort")
    name = document.get("name")
    return PackageConfig(
        environment_id=document["environment_id"],
        name=None if name == document["environment_id"] else name,
        description=document.get("description") or None,
        domains=tuple(document.get("domains") or ()),
        model=None if model == AGENT else model,
        reasoning_effort=None if effort == AGENT else effort,
        max_history_events=int(document.get("max_history_events", 20)),
        min_rule_confidence=float(document.get("min_rule_confidence", 0.55)),
        tenant=document.get("tenant_scope"),
        environment_version=document.get("environment_version"),
        scope=dict(document.get("scope") or {}),
        construction_kind=document.get("construction_kind", "reconstructed"),
        ablation=removed if isinstance(removed, str) or ablation is None else dump(ablation),
    )
