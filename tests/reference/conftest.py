"""One build of real traces that several files of tests look at: learning is what costs."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import NamedTuple

import pytest

from expcomp.environments.build import EnvironmentBuild, build_environment
from tests.environments.induction.recorded import paths_of

REFERENCE = os.environ.get("EXPCOMP_REFERENCE")


class Built(NamedTuple):
    """Traces, what was built from them, and the package folder; only to be read."""

    traces: Path
    build: EnvironmentBuild
    folder: Path


def refused(*_: object) -> None:
    raise AssertionError("a build must not open a connection")


@pytest.fixture(
    scope="session",
    params=paths_of(Path(REFERENCE) / "environment", "chats") if REFERENCE else [],
    ids=lambda p: p.name,
)
def chats(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Chats with tools, built without a model and without a network."""
    out = tmp_path_factory.mktemp("chats") / "world"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", refused)
        built = build_environment(request.param, environment_id="chats")
        built.write(out)
    return Built(request.param, built, out)
