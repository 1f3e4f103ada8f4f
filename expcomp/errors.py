"""Errors of the package. Catching `ExpcompError` is enough."""

from __future__ import annotations

__all__ = [
    "AmbiguousAliasError",
    "AmbiguousRuleError",
    "CheckFailedError",
    "ConfigError",
    "DanglingRefError",
    "DestinationExistsError",
    "DuplicateIdError",
    "EnvironmentPackageError",
    "ExpcompError",
    "InternalError",
    "InvalidActionError",
    "NoApplicableRuleError",
    "OutputError",
    "PackageIntegrityError",
    "PackageSchemaError",
    "PromotionRefusedError",
    "ProvenanceError",
    "RevisionConflictError",
    "RuleInvalidError",
    "ScopeConflictError",
    "SessionError",
    "SourceError",
    "SourceMismatchError",
    "SplitViolationError",
    "StatsError",
    "TableError",
    "UsageError",
    "VerificationFailedError",
]


class ExpcompError(Exception):
    """Base of all errors; `exit_code` is what the command line returns for it."""

    exit_code = 2


class UsageError(ExpcompError):
    """A call or option that makes no sense."""


class ConfigError(ExpcompError):
    """A configuration value that cannot be used."""


class SourceError(ExpcompError):
    """Input that cannot be read at all."""

    exit_code = 3


class OutputError(ExpcompError):
    """An output folder that cannot be written or must not be replaced."""


class TableError(ExpcompError):
    """A frame that does not hold to the contract of its table."""


class StatsError(ExpcompError):
    """Numbers that a statistic cannot be computed from: too few units, no spread, not finite, outside the range.

    `reason` is a short code of the refusal that a table can hold (`expcomp.stats.inputs.REASONS`).
    """

    def __init__(self, message: str, *, reason: str = "bad_option") -> None:
        super().__init__(message)
        self.reason = reason


class EnvironmentPackageError(ExpcompError):
    """An environment package, or a record of one, that cannot be used."""


class DestinationExistsError(EnvironmentPackageError):
    """The folder a package is to stand at is there already."""


class PackageSchemaError(EnvironmentPackageError):
    """A frame of a package with a missing column, an unknown one, or a value that its column may not hold."""


class DuplicateIdError(EnvironmentPackageError):
    """An id that two records of a package share."""


class AmbiguousAliasError(EnvironmentPackageError):
    """An alias that means two things."""


class SplitViolationError(EnvironmentPackageError):
    """A family of trajectories in two splits, or a held-out one in the construction."""


class SourceMismatchError(EnvironmentPackageError):
    """A source whose bytes are not those of its id, or a reconstruction without sources."""


class DanglingRefError(EnvironmentPackageError):
    """A record that names another one that is not there."""


class ProvenanceError(EnvironmentPackageError):
    """A claim whose citations do not carry it."""


class RuleInvalidError(EnvironmentPackageError):
    """A rule, condition, effect or renderer that can never run as written."""


class ScopeConflictError(EnvironmentPackageError):
    """A scope that contradicts the configuration or an episode."""


class PromotionRefusedError(EnvironmentPackageError):
    """A package whose replay report does not carry a promotion."""

    exit_code = 1


class PackageIntegrityError(EnvironmentPackageError):
    """A package folder with a missing, changed or unlisted file."""

    exit_code = 1


class SessionError(EnvironmentPackageError):
    """A session that cannot be opened, or a step that is refused; nothing is committed."""


class InvalidActionError(SessionError):
    """An action that is not declared, lacks an argument, or has one of a wrong type or value."""


class NoApplicableRuleError(SessionError):
    """No rule of the package answers the action in this state."""


class AmbiguousRuleError(SessionError):
    """Two rules of one priority answer differently."""


class VerificationFailedError(SessionError):
    """The effects of a step break the state schema, an invariant or the rules they cite."""


class TooMuchWorkError(SessionError):
    """A rule that looks at more than it may in one step: loops in loops."""


class RevisionConflictError(SessionError):
    """Another step was committed in between."""


class CheckFailedError(ExpcompError):
    """A check the user asked for found something."""

    exit_code = 1


class InternalError(ExpcompError):
    """A broken invariant of expcomp itself; please report it."""

    exit_code = 70
