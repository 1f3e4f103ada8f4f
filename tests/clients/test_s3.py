"""An S3 of this machine (moto) as the place of inputs: the outputs are those of the same tree on disk."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from expcomp.io.remote import local_paths
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
        _upload(source)
        yield names
    server.stop()


def _upload(folder: Path) -> None:
    import boto3

    for file in sorted(p for p in folder.rglob("*") if p.is_file()):
        boto3.client("s3").upload_file(os.fspath(file), "bucket", file.relative_to(folder.parent).as_posix())


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


def test_an_update_fetches_and_compiles_what_changed(cloud: dict[str, str], source: Path, tmp_path: Path) -> None:
    def run(*out: str | Path) -> dict[str, Any]:
        done = compile_cli("compile", "s3://bucket/runs", *out, "--workers", "1", "--json", env=cloud)
        assert done.returncode == 0, done.stderr
        report: dict[str, Any] = json.loads(done.stdout)["run"]
        return report

    cache = ("--cache", tmp_path / "cache")
    run("--out", tmp_path / "out", *cache)
    before = _inodes(tmp_path / "cache")
    package(tmp_path / "runs", "package_1", task_id="task_1", step_count=9)
    _upload(tmp_path / "runs")
    assert run("--update", tmp_path / "out", *cache)["cells_compiled"] == 1
    now = _inodes(tmp_path / "cache")
    fetched = {name for name in now if before.get(name) != now[name]}
    assert fetched
    assert all("/package_1/" in name for name in fetched)
    run("--out", tmp_path / "full")
    assert _without_state(tmp_path / "out") == _without_state(tmp_path / "full")


def _inodes(folder: Path) -> dict[str, int]:
    return {p.relative_to(folder).as_posix(): p.stat().st_ino for p in folder.rglob("*") if not p.name.startswith(".")}


def _without_state(out: Path) -> dict[str, str]:
    return {name: digest for name, digest in published(out).items() if name != "update.state"}


def test_wildcards_find_what_the_store_lists(cloud: dict[str, str]) -> None:
    with local_paths(["s3://bucket/runs/package_[02]"]) as (top,):
        assert sorted(p.name for p in Path(top).iterdir()) == ["package_0", "package_2"]
    with local_paths(["s3://bucket/runs/*/rubric/*.json", "s3://bucket/runs/package_1/"]) as (runs, own):
        assert [p.name for p in (Path(runs) / "package_0").rglob("*.*")] == ["rubric.json"]
        assert (Path(own) / "task").is_dir()


def test_what_the_store_refuses_is_told_with_what_to_do(cloud: dict[str, str], tmp_path: Path) -> None:
    nobody = cloud | dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), "")
    home = {"HOME": os.fspath(tmp_path), "AWS_EC2_METADATA_DISABLED": "true"}
    for address, env, said in (
        ("s3://bucket/runs", nobody | home, "give credentials as the driver of the store reads them"),
        ("s3://nobucket/runs", cloud, "s3://nobucket/runs"),
        ("s3://bucket/none", cloud, "s3://bucket/none"),
    ):
        done = compile_cli("read", address, env=env)
        assert done.returncode == 3, done.stderr
        assert said in done.stderr
