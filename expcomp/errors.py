"""Errors of the package. Catching `ExpcompError` is enough."""

from __future__ import annotations

__all__ = [
    "CheckFailedError",
    "ConfigError",
    "ExpcompError",
    "InternalError",
    "OutputError",
    "SourceError",
    "TableError",
    "UsageError",
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


class CheckFailedError(ExpcompError):
    """A check the user asked for found something."""

    exit_code = 1


class InternalError(ExpcompError):
    """A broken invariant of expcomp itself; please report it."""

    exit_code = 70
