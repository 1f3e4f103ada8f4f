"""What a package is told about itself; only what can change a result enters the digest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from expcomp.errors import PackageSchemaError
from expcomp.io.canon import digest

SCOPE_NAMES = {"tenant_scope": "tenant", "version": "environment_version"}
"""Older names of scope keys."""

_TOLD = frozenset({"name", "description", "model", "reasoning_effort"})


@dataclass(frozen=True, slots=True)
class PackageConfig:
    """Settings of a package.

    Attributes:
        environment_id: Which environment it is.
        name: Name for people.
        description: What it is.
        domains: Domains of the environment.
        model: Model that took part; None when none did.
        reasoning_effort: Of that model.
        max_history_events: Earlier events a transition names.
        min_rule_confidence: Rules below it do not run.
        tenant: Scope: the tenant.
        environment_version: Scope: the version.
        scope: Further scope entries.
        construction_kind: How it was made.
        ablation: What was left out of an ablated package.
    """

    environment_id: str
    name: str | None = None
    description: str | None = None
    domains: tuple[str, ...] = ()
    model: str | None = None
    reasoning_effort: str | None = None
    max_history_events: int = 20
    min_rule_confidence: float = 0.55
    tenant: str | None = None
    environment_version: str | None = None
    scope: Mapping[str, str] = field(default_factory=dict)
    construction_kind: str = "reconstructed"
    ablation: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self) | {"domains": list(self.domains), "scope": dict(self.scope)}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> PackageConfig:
        """From JSON.

        Raises:
            PackageSchemaError: An unknown or missing setting.
        """
        if not isinstance(value, Mapping):
            raise PackageSchemaError(f"config: {type(value).__name__}, expected an object")
        known = {f.name for f in fields(cls)}
        if unknown := sorted(set(value) - known):
            raise PackageSchemaError(
                f"config: unknown setting {', '.join(unknown)}; known are {', '.join(sorted(known))}"
            )
        if "environment_id" not in value:
            raise PackageSchemaError("config: environment_id is missing")
        return cls(**{**value, "domains": tuple(value.get("domains", ()))})

    def digest(self) -> str:
        """`sha256:` digest of the settings that can change a result."""
        return digest({k: v for k, v in self.to_dict().items() if k not in _TOLD})

    def scope_values(self) -> dict[str, str]:
        """What a rule's scope is compared with."""
        named = {SCOPE_NAMES.get(k, k): v for k, v in self.scope.items()}
        found = {"environment_id": self.environment_id, **named}
        if self.tenant is not None:
            found["tenant"] = self.tenant
        if self.environment_version is not None:
            found["environment_version"] = self.environment_version
        return found
