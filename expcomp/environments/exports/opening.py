"""Opening a package for play: its folder and a file of cases, or the folder of an export that holds both."""

from __future__ import annotations

from pathlib import Path

from expcomp.environments.cases import read_cases
from expcomp.environments.core import Environment, open_environment
from expcomp.environments.playing import Responder

PACKAGE, CASES = "package", "cases.jsonl"
"""Where an export keeps the package and its cases."""


def opened(
    folder: str | Path,
    cases: str | Path | None = None,
    *,
    responder: Responder | None = None,
    predict: bool = False,
    allow_unvalidated: bool = False,
) -> Environment:
    """An environment from a package folder, with the cases of a file if one is given.

    Args:
        folder: The package.
        cases: Replay cases, JSON lines; by default those beside its tables.
        responder: Who answers when no rule applies.
        predict: In place of a responder: what the recorded turns of the package teach.
        allow_unvalidated: Play a candidate that no replay has validated.

    Raises:
        UsageError: Both a responder and `predict`.
        PackageIntegrityError: A file of the package is missing, changed or unlisted.
        PackageSchemaError: A case is not usable.
    """
    env = open_environment(folder, responder=responder, predict=predict, allow_unvalidated=allow_unvalidated)
    if cases is not None:
        env.cases, env.case_steps = read_cases(Path(cases))
    return env


def open_export(folder: str | Path, *, responder: Responder | None = None) -> Environment:
    """The environment of an export: what may be played was settled when it was written.

    Raises:
        PackageIntegrityError: A file of the package is missing, changed or unlisted.
        PackageSchemaError: A case is not usable.
    """
    root = Path(folder)
    return opened(root / PACKAGE, root / CASES, responder=responder, allow_unvalidated=True)
