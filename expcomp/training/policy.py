"""What is asked of a candidate, as a TOML file says it."""

from __future__ import annotations

from pathlib import Path

from expcomp.errors import ConfigError
from expcomp.io.toml_files import read_toml
from expcomp.training.cost_records import nanos
from expcomp.training.documents import DocumentError, from_wire, to_wire
from expcomp.training.experiments import EvaluationPolicy

DEFAULT_POLICY = EvaluationPolicy(confidence=0.95, resamples=10_000, seed=0, minimum_lift=0.0)
"""What is asked where nobody says otherwise: the lower bound above 0, 20 tasks or more."""


def read_policy(path: Path) -> EvaluationPolicy:
    """A policy from a TOML file; what it leaves out is as in `DEFAULT_POLICY`, `budget_usd` is in dollars.

    Raises:
        ConfigError: It cannot be read, or a value of it cannot be used; the message names the field.
    """
    given = read_toml(path)
    if "budget_usd" in given:
        budget = given.pop("budget_usd")
        if isinstance(budget, bool) or not isinstance(budget, int | float):
            raise ConfigError(f"{path}, budget_usd: found {budget!r}, expected dollars")
        given["budget_nanos"] = nanos(budget)
    names = dict(zip(EvaluationPolicy.__struct_fields__, EvaluationPolicy.__struct_encode_fields__, strict=True))
    unknown = sorted(set(given) - set(names))
    if unknown:
        raise ConfigError(f"{path}: unknown field {unknown[0]}; expected some of {', '.join([*names, 'budget_usd'])}")
    wire = to_wire(DEFAULT_POLICY) | {names[n]: v for n, v in given.items()}
    try:
        return from_wire(EvaluationPolicy, wire, str(path))
    except DocumentError as error:
        raise ConfigError(str(error)) from error
