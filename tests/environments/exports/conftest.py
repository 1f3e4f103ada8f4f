"""A validated package with two cases: one that its recorded calls solve, one that they do not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from expcomp.environments.assessment import assess
from expcomp.environments.exports.bundle import LeftOut
from expcomp.environments.exports.targets import export_environment
from expcomp.environments.folder import open_package
from expcomp.environments.package import EnvironmentPackage, compile_package
from tests.environments.reconstructed import CONFIG, package_frames
from tests.environments.test_replay import GOOD, case

Frames = tuple[pl.DataFrame, pl.DataFrame]
Export = Callable[..., LeftOut]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package that a replay of case c1 validated."""
    out = tmp_path_factory.mktemp("exports") / "pkg"
    assess(compile_package(package_frames(), CONFIG), *case()).promote(out)
    return out


@pytest.fixture(scope="session")
def package(folder: Path) -> EnvironmentPackage:
    return open_package(folder)


@pytest.fixture(scope="session")
def two(folder: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Cases c1 and `Two words/2`; the latter ends in a state that its calls do not reach."""
    wrong = [*GOOD[:2], (*GOOD[2][:4], {"world.balance": 1.0})]
    parts = (case(), case("Two words/2", wrong, group="h2"))
    return pl.concat(p[0] for p in parts), pl.concat(p[1] for p in parts)


@pytest.fixture
def export(package: EnvironmentPackage, two: tuple[pl.DataFrame, pl.DataFrame], tmp_path: Path) -> Export:
    """Export to a target below `tmp_path`, by name."""

    def run(to: str, name: str = "out", **more: object) -> LeftOut:
        return export_environment(package, tmp_path / name, **({"to": to, "cases": two} | more))  # type: ignore[arg-type]

    return run
