"""Every system that a package can be exported to."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from expcomp.environments.exports.awb import write_awb
from expcomp.environments.exports.bundle import Bundle, LeftOut, Target, bundle, write_bundle
from expcomp.environments.exports.gymnasium import write_gymnasium
from expcomp.environments.exports.harbor import write_harbor
from expcomp.environments.exports.openenv import write_openenv
from expcomp.environments.exports.tau2 import write_tau2
from expcomp.environments.exports.trace2env import write_layout
from expcomp.environments.exports.verifiers import write_verifiers
from expcomp.environments.exports.world_model import write_world_model
from expcomp.errors import UsageError

if TYPE_CHECKING:
    import polars as pl

    from expcomp.environments.package import EnvironmentPackage


def _trace2env(made: Bundle, staging: Path) -> LeftOut:
    write_layout(made.package, staging)
    return {}


TARGETS: Mapping[str, Target] = {
    "gymnasium": Target("a Python package that registers a Gymnasium environment", write_gymnasium),
    "openenv": Target("a folder that OpenEnv serves", write_openenv),
    "verifiers": Target("a verifiers package, one task a case", write_verifiers),
    "harbor": Target("task folders, one a case, whose oracle scores 1", write_harbor),
    "tau2": Target("a tau2-bench domain, data and code", write_tau2),
    "world-model": Target("rows to train a model of the environment on", write_world_model),
    "awb": Target("AgentWorldBench rows, one a step", write_awb),
    "trace2env": Target("the layout of trace2env 1.1", _trace2env, own_manifest=True),
}


def export_environment(
    package: EnvironmentPackage,
    out: str | Path,
    *,
    to: str,
    cases: str | Path | tuple[pl.DataFrame, pl.DataFrame] | None = None,
    instructions: Mapping[str, str] | None = None,
    force: bool = False,
) -> LeftOut:
    """Write a package for another system, in one step.

    Args:
        package: The package.
        out: Folder.
        to: Name of `TARGETS`.
        cases: File of replay cases, or cases and steps; by default those that a promotion left in its folder.
        instructions: What agents are asked to do, by case.
        force: Replace an earlier output of expcomp.

    Returns:
        Cases that are in no file, with the reason.

    Raises:
        UsageError: There is no such target, or an instruction is about no case.
        OutputError: `out` exists and may not be replaced, or cannot be written.
    """
    if to not in TARGETS:
        raise UsageError(f"target {to!r}: expected one of {', '.join(TARGETS)}")
    return write_bundle(
        bundle(package, cases=cases, instructions=instructions), Path(out), to, TARGETS[to], force=force
    )
