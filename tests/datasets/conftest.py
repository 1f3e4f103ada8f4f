"""Inputs that the tests of whole datasets share: one compile, and every target built from it once."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.datasets import inputs


class Made(NamedTuple):
    """A dataset folder and its manifest."""

    folder: Path
    manifest: dict[str, Any]

    def config(self, name: str) -> dict[str, Any]:
        return next(c for c in self.manifest["configs"] if c["config"] == name)


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Output of a compile of eight tasks with four trials each and of three packages; only to be read."""
    folder = tmp_path_factory.mktemp("runs")
    return inputs.compiled(inputs.source(folder / "in"), folder / "out")


@pytest.fixture(scope="session")
def everything(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """All targets in two splits; only to be read."""
    from expcomp.datasets.build import write_datasets
    from expcomp.datasets.options import DatasetOptions
    from expcomp.tables.targets import TARGETS

    out = tmp_path_factory.mktemp("everything") / "ds"
    options = DatasetOptions(splits=(("train", 0.6), ("test", 0.4)))
    return Made(out, write_datasets(runs, list(TARGETS), out, options=options, processes=1))
