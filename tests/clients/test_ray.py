"""The engine ray on a cluster of three nodes: what it makes is what the process pool makes, whatever happens to a worker or a node."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from expcomp.compiler.build import compile_paths
from expcomp.datasets.build import write_datasets
from expcomp.datasets.decontaminate.check import check_rows, held_out, write_clean
from expcomp.datasets.options import Policy
from expcomp.errors import InternalError, SourceError, UsageError
from expcomp.io import engine_ray
from expcomp.io.engine import LOCAL, Engine
from expcomp.io.engine_ray import ray_workers
from expcomp.io.pool import Workers, workers
from expcomp.io.pool import environment as pool_environment
from expcomp.io.whole import sweep
from expcomp.sources.load import scan_traces
from tests.clients import ray_jobs
from tests.helpers import RUN_CLI, environment, package, published, tree

if TYPE_CHECKING:
    from ray.cluster_utils import Cluster

RAY = Engine("ray", workers=3)
TARGETS = ["trl-sft", "trl-dpo", "verl-rl"]


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[Cluster]:
    """One Ray for all tests here, of three nodes of one processor each: a connection that the caller has is used."""
    from ray.cluster_utils import Cluster

    # Quiet, on the loopback address alone (the second is Ray's name for that), and workers with as much of a busy machine as the tests.
    names = {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "RAY_worker_niceness": "0",
    }
    with pool_environment(names):
        made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        try:
            for _ in range(2):
                made.add_node(num_cpus=1)
            with ray_workers(Engine("ray", made.address)):
                yield made
        finally:
            made.shutdown()


@pytest.fixture(scope="module")
def pool(cluster: Cluster) -> Iterator[Workers]:
    with workers(1, engine=RAY) as made:
        yield made


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Packages, whose tasks are known from their names, and chats, whose tasks are not."""
    folder = tmp_path_factory.mktemp("source")
    for number in range(6):
        package(folder / "packages", f"package_{number}", task_id=f"task_{number % 4}", step_count=12)
    (folder / "chats").mkdir()
    for number in range(3):
        lines = [json.dumps(_chat(f"bench__chat-{i % 5}", i + 10 * number)) for i in range(20)]
        (folder / "chats" / f"{number}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def _chat(task: str, number: int) -> dict[str, object]:
    words = " ".join(f"word{(number * 7 + k) % 50}" for k in range(30))
    return {
        "messages": [
            {"role": "user", "content": f"Please solve {task}: {words}"},
            {"role": "assistant", "content": f"Here is answer {number} to it. {words}"},
        ],
        "task_id": task,
        "reward": float(number % 2),
    }


@pytest.fixture(scope="module")
def compiled(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("compiled") / "out"
    compile_paths([source], out, processes=1)
    return out


def test_jobs_run_side_by_side_and_answer_in_order(pool: Workers, tmp_path: Path) -> None:
    heard: list[int] = []
    found = pool.map(ray_jobs.meets, [(tmp_path, n, 3) for n in range(3)], heard.append)
    assert [number for number, _, _ in found] == [0, 1, 2]
    assert len({pid for _, pid, _ in found}) == 3
    assert {threads for _, _, threads in found} == {1}
    assert heard == [1, 2, 3]
    assert pool.map(ray_jobs.large, range(4), heard.append) == [bytes([n]) * (3 << 20) for n in range(4)]
    assert pool.map(ray_jobs.large, [], heard.append) == []
    assert pool.size == 3


def test_a_lost_worker_loses_and_doubles_nothing(pool: Workers, tmp_path: Path) -> None:
    found = pool.map(ray_jobs.dies_once, [(tmp_path, n, 3) for n in range(8)], lambda n: None)
    assert (tmp_path / "died").exists()
    assert found == [n * n for n in range(8)]
    assert sorted((tmp_path / "log").read_text().split()) == [str(n) for n in range(8)]
    assert {p.read_text() for p in tmp_path.glob("*.txt")} == {"first half, second half"}
    assert len(list(tmp_path.glob(".*"))) == 1  # of the worker that was killed
    sweep(tmp_path)
    assert not list(tmp_path.glob(".*"))


def test_a_job_that_always_loses_its_worker_ends(pool: Workers) -> None:
    with pytest.raises(InternalError, match="lost its worker 4 times"):
        pool.map(ray_jobs.always_dies, [1], lambda n: None)


def test_errors_of_jobs_are_those_of_a_local_run(pool: Workers) -> None:
    with pytest.raises(SourceError) as found:
        pool.map(ray_jobs.refuses, range(4), lambda n: None)
    assert str(found.value) == "job 2 is bad"
    with pytest.raises(UsageError, match="does not find /not/there; with the engine ray"):
        pool.map(ray_jobs.missing, ["/not/there"], lambda n: None)


@contextmanager
def taking_a_node(cluster: Cluster, ready: Callable[[Any], bool]) -> Iterator[list[Any]]:
    """While the block runs, a node goes at once with all on it, as soon as it is ready for that; afterwards there is another."""
    victim, over, taken = sorted(cluster.worker_nodes, key=lambda n: str(n.node_id))[0], threading.Event(), list[Any]()

    def take() -> None:
        while not over.wait(0.01):
            if ready(victim):
                cluster.remove_node(victim, allow_graceful=False)
                taken.append(victim)
                return

    thread = threading.Thread(target=take)
    thread.start()
    try:
        yield taken
    finally:
        over.set()
        thread.join()
        if taken:
            cluster.add_node(num_cpus=1)


def test_a_lost_node_loses_nothing(cluster: Cluster, pool: Workers, tmp_path: Path) -> None:
    """Of jobs that ran there, and of results that lay there."""

    def ready(node: Any) -> bool:
        return any(tmp_path.glob(f"at.{node.node_id}.*"))

    def take(node: Any) -> bool:
        found = ready(node)
        if found:
            threading.Timer(1.0, (tmp_path / "taken").touch).start()
        return found

    with taking_a_node(cluster, take) as taken:
        found = pool.map(ray_jobs.outlives, [(tmp_path, n) for n in range(9)], lambda n: None)
    assert found == [(n, bytes([n]) * (3 << 20)) for n in range(9)]
    (victim,) = taken
    lost = {p.suffix for p in tmp_path.glob(f"at.{victim.node_id}.*")}
    elsewhere = {p.suffix for p in tmp_path.glob("at.*") if victim.node_id not in p.name}
    assert lost <= elsewhere


def test_a_machine_that_does_not_see_a_folder_is_told(cluster: Cluster, tmp_path: Path) -> None:
    """What the caller saw when the run started, and no worker does, stands for what is not shared; so does a folder of other names."""
    folder = tmp_path / "out"
    for own in ("a", "b"):
        (folder / own).mkdir(parents=True)
    with workers(1, engine=RAY, seen=[folder]) as pool:
        (folder / "a").rmdir()
        assert pool.map(ray_jobs.large, [1], lambda n: None)
    with workers(1, engine=RAY, seen=[folder]) as pool:
        (folder / "b").rename(folder / "c")
        _refused(pool, folder)
    with workers(1, engine=RAY, seen=[folder]) as pool:
        shutil.rmtree(folder)
        _refused(pool, folder)


def test_a_machine_with_other_code_is_told(pool: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would make other files, and nobody would know which rows are whose."""
    monkeypatch.setattr(engine_ray, "software", lambda: "expcomp 0")
    with pytest.raises(UsageError, match=r"has expcomp .*, polars .* and the caller expcomp 0; install the same"):
        pool.map(ray_jobs.refuses, range(20), lambda n: None)


def _refused(pool: Workers, folder: Path) -> None:
    with pytest.raises(UsageError, match=f"the machine .* does not see {folder}; .*mount the folder there"):
        pool.map(ray_jobs.refuses, range(20), lambda n: None)


def _read(source: Path, compiled: Path, out: Path, engine: Engine) -> dict[str, str]:
    scan_traces(source, processes=1, engine=engine).write(out)
    return tree(out)


def _compile(source: Path, compiled: Path, out: Path, engine: Engine) -> dict[str, str]:
    compile_paths([source], out, processes=1, engine=engine)
    return _files(out)


def _update(source: Path, compiled: Path, out: Path, engine: Engine) -> dict[str, str]:
    own = out.with_name(f"{out.name}-source")
    shutil.copytree(source, own)
    compile_paths([own], out, processes=1)
    package(own / "packages", "package_7", task_id="task_1", step_count=12)
    compile_paths([own], out, update=True, processes=1, engine=engine)
    return _files(out)


def _dataset(source: Path, compiled: Path, out: Path, engine: Engine) -> dict[str, str]:
    write_datasets(compiled, TARGETS, out, processes=1, engine=engine)
    return tree(out)


def _decontaminate(source: Path, compiled: Path, out: Path, engine: Engine) -> dict[str, str]:
    held = held_out(compiled.parent / "out")
    with workers(1, engine=engine) as pool:
        checked = check_rows(compiled, held, Policy(), pool=pool)
        write_clean(compiled, checked, out, pool=pool)
    assert checked.n_dropped
    return tree(out) | {"found": str(checked.rows.to_dicts()), "manifest": str(checked.manifest)}


def _files(out: Path) -> dict[str, str]:
    """All but clocks and the state of files, which are those of a run."""
    return {name: digest for name, digest in published(out).items() if name != "update.state"}


@pytest.mark.parametrize("verb", [_read, _compile, _update, _dataset, _decontaminate])
def test_outputs_are_those_of_the_local_run(
    verb: Callable[[Path, Path, Path, Engine], dict[str, str]], source: Path, compiled: Path, tmp_path: Path
) -> None:
    local = verb(source, compiled, tmp_path / "local", LOCAL)
    assert verb(source, compiled, tmp_path / "ray", RAY) == local
    assert len(local) > 2


def test_a_compile_that_loses_a_node_gives_the_same_files(
    cluster: Cluster, source: Path, compiled: Path, tmp_path: Path
) -> None:
    """The node goes while it works; the run is one of the command line, which joins the cluster by its address."""
    out = tmp_path / "out"
    command = [
        *RUN_CLI,
        "compile",
        source,
        "--out",
        out,
        "--engine",
        "ray",
        "--ray-address",
        cluster.address,
        "--quiet",
    ]
    with taking_a_node(cluster, lambda node: bool(_busy(_raylet(node)))) as taken:
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, env=environment())
    assert done.returncode == 0, done.stderr[-3000:]
    assert taken
    assert _files(out) == _files(compiled)
    assert not list(tmp_path.glob(".out*"))


def _raylet(node: Any) -> int:
    pid: int = node.all_processes["raylet"][0].process.pid
    return pid


def test_a_run_whose_worker_is_killed_gives_the_same_files(source: Path, compiled: Path, tmp_path: Path) -> None:
    """From the command line, which starts a Ray of its own, and leaves nothing of it behind."""
    short = Path(tempfile.mkdtemp(prefix="r", dir="/tmp"))  # a socket's path is bounded
    command = ["compile", os.fspath(source), "--out", os.fspath(tmp_path / "out"), "--engine", "ray", "--workers", "2"]
    with (tmp_path / "stdout").open("wb") as stdout, (tmp_path / "stderr").open("wb") as stderr:
        started = subprocess.Popen(
            [*RUN_CLI, *command, "--json"], stdout=stdout, stderr=stderr, env=environment({"TMPDIR": os.fspath(short)})
        )
        killed = 0
        while started.poll() is None:
            for pid in _busy(started.pid) if not killed else ():
                os.kill(pid, signal.SIGKILL)
                killed = pid
            time.sleep(0.005)
    assert started.returncode == 0, (tmp_path / "stderr").read_text()[-3000:]
    assert killed
    assert json.loads((tmp_path / "stdout").read_text())["total"]["accepted"] > 0
    assert _files(tmp_path / "out") == _files(compiled)
    assert not list(short.iterdir())
    short.rmdir()
    assert not list(tmp_path.glob(".out*"))


def _busy(root: int) -> list[int]:
    """Workers of Ray below a process that run a job now; Ray writes into their titles what they do."""
    parents: dict[int, int] = {}
    titles: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                titles[int(entry.name)] = (entry / "cmdline").read_text()
            except (OSError, IndexError):
                continue
    return [pid for pid, title in titles.items() if title.startswith("ray::Map") and _below(pid, root, parents)]


def _below(pid: int, root: int, parents: dict[int, int]) -> bool:
    while pid in parents and pid != root:
        pid = parents[pid]
    return pid == root
