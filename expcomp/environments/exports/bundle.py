"""What every export is made of, and its publishing: the package, its cases, a manifest, one folder in one step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import polars as pl

from expcomp.environments.cases import read_cases
from expcomp.environments.exports.case_lines import case_text, json_lines
from expcomp.environments.exports.opening import CASES, PACKAGE
from expcomp.environments.folder import read_replay, write_package
from expcomp.environments.gates import require
from expcomp.environments.package import EnvironmentPackage
from expcomp.errors import UsageError
from expcomp.io.digest import sha256_file
from expcomp.io.documents import write_json, write_text
from expcomp.io.files import listing
from expcomp.io.publish import publish
from expcomp.version import __version__

KIND = "environment_export"
MANIFEST = "manifest.json"
LEFT_OUT = "left_out.jsonl"

LeftOut = dict[str, str]
"""Why a case is in no file, by case."""


@dataclass(frozen=True)
class Bundle:
    """What is exported.

    Attributes:
        package: The package.
        cases: `REPLAY_CASES`; may be empty.
        steps: `REPLAY_STEPS` of the cases.
        instructions: What an agent is asked to do, by case.
    """

    package: EnvironmentPackage
    cases: pl.DataFrame
    steps: pl.DataFrame
    instructions: Mapping[str, str] = field(default_factory=dict)

    def of_all(self, case_ids: Iterable[str]) -> Bundle:
        """The same with some of the cases."""
        mine = pl.col("case_id").is_in(list(case_ids))
        return replace(self, cases=self.cases.filter(mine), steps=self.steps.filter(mine))

    def of(self, case_id: str) -> tuple[pl.DataFrame, pl.DataFrame]:
        """One case and its steps."""
        mine = pl.col("case_id") == case_id
        return self.cases.filter(mine), self.steps.filter(mine)


class Target(NamedTuple):
    """A system to export to: what is written for it, and how.

    Attributes:
        about: One line for people.
        write: Writes into a folder that is there; returns the cases it left out.
        own_manifest: The layout has a manifest of its own.
    """

    about: str
    write: Callable[[Bundle, Path], LeftOut]
    own_manifest: bool = False


def bundle(
    package: EnvironmentPackage,
    *,
    cases: str | Path | tuple[pl.DataFrame, pl.DataFrame] | None = None,
    instructions: Mapping[str, str] | None = None,
) -> Bundle:
    """A package with its cases: those of a file or of two frames, else those that a promotion left in its folder.

    Raises:
        PackageSchemaError: A case is not usable.
        UsageError: An instruction is about no case.
    """
    found = read_replay(package) if cases is None else cases if isinstance(cases, tuple) else read_cases(Path(cases))
    told = dict(instructions or {})
    if unknown := sorted(set(told) - set(found[0]["case_id"])):
        raise UsageError(f"instruction for {unknown[0]!r}: there is no such case")
    return Bundle(package, *found, told)


def write_bundle(made: Bundle, out: Path, target: str, spec: Target, *, force: bool = False) -> LeftOut:
    """Publish an export as a folder, in one step; `left_out.jsonl` says which cases are in no file, and why.

    Raises:
        EnvironmentPackageError: The package, which others may have written, does not pass a gate.
        OutputError: `out` exists and may not be replaced, or cannot be written.
    """
    require(made.package.frames, made.package.config)
    with publish(out, force=force) as staging:
        left = spec.write(made, staging)
        if not spec.own_manifest:
            told = [{"case_id": case, "reason": left[case]} for case in sorted(left)]
            write_text(staging / LEFT_OUT, json_lines(told))
            _manifest(made, staging, target)
    return left


def _manifest(made: Bundle, staging: Path, target: str) -> None:
    write_json(
        staging / MANIFEST,
        {
            "kind": KIND,
            "target": target,
            "expcomp_version": __version__,
            "environment_id": made.package.config.environment_id,
            "artifact_digest": made.package.artifact_digest,
            "files": [{"path": p, "sha256": sha256_file(staging / p)} for p in listing(staging)],
        },
    )


def put_package(made: Bundle, folder: Path) -> None:
    """Write the package below a folder without the replay it was validated by: that holds the answers of held-out cases."""
    write_package(replace(made.package, validation=None, folder=None), folder / PACKAGE)


def put_cases(made: Bundle, folder: Path) -> None:
    """Write the cases below a folder."""
    write_text(folder / CASES, case_text(made.cases, made.steps))
