"""Fixtures: the example packages of the repository, compiled and packed once."""

from __future__ import annotations

from pathlib import Path

import pytest

from expcomp.compiler.compilation import Compilation, open_compilation
from expcomp.packs.pack import Packs, build_packs
from tests.helpers import ROOT
from tests.packs.pack_helpers import loaded


@pytest.fixture(scope="session")
def garden_compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Output of a compile of data/packages; only to be read."""
    from expcomp.compiler.build import compile_paths

    out = tmp_path_factory.mktemp("garden") / "compiled"
    compile_paths([ROOT / "data/packages"], out, processes=1)
    return out


@pytest.fixture(scope="session")
def garden(garden_compiled: Path) -> Compilation:
    return loaded(open_compilation(garden_compiled))


@pytest.fixture(scope="session")
def garden_packs(garden_compiled: Path) -> Packs:
    return build_packs(garden_compiled)


@pytest.fixture(scope="session")
def garden_folder(garden_packs: Packs, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packs of data/packages, published; only to be read."""
    out = tmp_path_factory.mktemp("garden_packs") / "packs"
    garden_packs.write(out)
    return out
