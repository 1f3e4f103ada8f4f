"""An S3 of this machine (moto) as the place of inputs: the outputs are those of the same tree on disk."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers import compile_cli, package, published, tree


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("source") / "runs"
    for number in range(3):
        package(folder, f"package_{number}", task_id=f"task_{number}")
    return folder


@pytest.fixture(scope="module")
def cloud(source: Path) -> Iterator[dict[str, str]]:
    """Environment of a process for which the tree lies at s3://bucket/runs."""
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    names = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}
    names["AWS_ENDPOINT_URL"] = f"http://{host}:{port}"
    with pytest.MonkeyPatch.context() as patch:
        for name, value in names.items():
            patch.setenv(name, value)
        s3 = boto3.client("s3")
        s3.create_bucket(Bucket="bucket")
        for file in sorted(p for p in source.rglob("*") if p.is_file()):
            s3.upload_file(os.fspath(file), "bucket", file.relative_to(source.parent).as_posix())
        yield names
    server.stop()


@pytest.mark.parametrize("verb", ["compile", "read"])
def test_outputs_are_those_of_the_tree_on_disk(verb: str, cloud: dict[str, str], source: Path, tmp_path: Path) -> None:
    for name, place in (("here", os.fspath(source)), ("there", "s3://bucket/runs")):
        done = compile_cli(verb, place, "--out", tmp_path / name, "--workers", "2", "--quiet", env=cloud)
        assert done.returncode == 0, done.stderr
    digests = published if verb == "compile" else tree
    here, there = (digests(tmp_path / name) for name in ("here", "there"))
    here.pop("update.state", None)
    there.pop("update.state", None)
    assert here == there
    assert sorted(p.name for p in tmp_path.iterdir()) == ["here", "there"]
