"""Fixtures that several rooms share: one compiled output of a small input, made once."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

from tests.helpers import package

# A deadline is a timing assertion: how long an example takes depends on who else uses the machine.
# The readers meet far more inputs in the fuzzing campaign (tests/faults/fuzz).
settings.register_profile("house", deadline=None, max_examples=60)
settings.load_profile("house")


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two packages: one whole, with a criterion only the verifier may see; one whose baseline cites a file that is not there."""
    folder = tmp_path_factory.mktemp("packages")
    package(folder, "pkg_a", private_item=True)
    package(
        folder,
        "pkg_b",
        task_id="task_b",
        scores={"baseline": 2.0, "revised": 5.0},
        max_score=5.0,
        faults=["missing_ref"],
    )
    return folder


@pytest.fixture(scope="session")
def compiled(packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Output of a compile of `packages`; only to be read."""
    from expcomp.compiler.build import compile_paths

    out = tmp_path_factory.mktemp("compiled") / "out"
    compile_paths([packages], out, processes=1)
    return out
