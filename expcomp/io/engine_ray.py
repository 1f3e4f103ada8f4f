"""Jobs as tasks of Ray Data: on one machine or many. Ray places them, runs those of a lost worker again, and moves the results."""

from __future__ import annotations

import importlib
import logging
import os
import pickle
import shutil
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from expcomp.errors import ConfigError, InternalError, UsageError
from expcomp.io.memory import processors
from expcomp.io.pool import ONE_THREAD, Workers, environment
from expcomp.io.seen import SHARED, Place, look, places, same, software

if TYPE_CHECKING:
    import pyarrow as pa

    from expcomp.io.engine import Engine

T = TypeVar("T")
R = TypeVar("R")

_QUIET = {"RAY_USAGE_STATS_ENABLED": "0"}
# Ray's own name for it; it makes a node listen on the loopback address alone, on Linux too.
_LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
_TRIES = 4
_LESS = "run again with fewer workers at once, or on machines with more memory"


class RayWorkers(Workers):
    """Maps jobs by Ray Data, one task a job. A task whose worker is lost runs again, so a job may run twice, also after it did its work."""

    def __init__(self, size: int | None, seen: tuple[Place, ...] = ()) -> None:
        import ray

        super().__init__(None, size or max(1, int(ray.cluster_resources().get("CPU", 1))))
        self._seen = seen
        self._most = size  # without a number nothing is fixed: a cluster may grow while it works

    def map(self, work: Callable[[T], R], jobs: Sequence[T], done: Callable[[int], None]) -> list[R]:
        """Results in the order of the jobs; `done` hears the number of finished jobs."""
        if not jobs:
            return []
        import pyarrow as pa
        import ray.data
        from ray.exceptions import RayError

        # A block a job: a block is what Ray Data hands to a task, and what it runs again.
        data = ray.data.from_arrow([_table(i, pickle.dumps(job, protocol=5)) for i, job in enumerate(jobs)])
        data.context.enable_progress_bars = False
        data.context.print_on_execution_start = False
        tasks = data.map_batches(
            _run,
            fn_kwargs={"work": pickle.dumps(work, protocol=5), "seen": self._seen, "caller": software()},
            batch_size=None,
            batch_format="pyarrow",
            compute=ray.data.TaskPoolStrategy(size=min(self._most, len(jobs)) if self._most else None),
            num_cpus=1,
        )
        found: dict[int, R] = {}
        try:
            for block in tasks.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=0):
                assert isinstance(block, pa.Table)
                for number, answer in zip(block["number"], block["data"], strict=True):
                    found[number.as_py()] = _opened(answer.as_buffer())
                    done(len(found))
        except RayError as error:
            msg = f"Ray gave up a job: {_cause(error)}; {_LESS}"
            raise InternalError(msg) from error
        return [found[i] for i in range(len(jobs))]


def _table(number: int, data: bytes) -> pa.Table:
    import pyarrow as pa

    return pa.table({"number": pa.array([number], pa.int64()), "data": pa.array([data], pa.large_binary())})


def _run(block: pa.Table, work: bytes, seen: tuple[Place, ...], caller: str) -> pa.Table:
    """The job of a block; runs in a worker. An error of it is an answer, too: Ray would run the job again and rename the error."""
    if _attempt() >= _TRIES:  # Ray itself would go on for ever
        msg = f"a job lost its worker {_TRIES} times (killed, or out of memory); {_LESS}"
        return _table(block["number"][0].as_py(), pickle.dumps((False, InternalError(msg)), protocol=5))
    os.environ.update(ONE_THREAD)  # before the function comes with all that it imports
    try:
        same(caller)
        look(seen)  # a reader takes a file that is not there for one that is gone, and goes on without it
        function = pickle.loads(work)  # noqa: S301 - what `map` wrote
        answer = (True, function(pickle.loads(block["data"][0].as_buffer())))  # noqa: S301
    except Exception as error:
        error.add_note(traceback.format_exc())
        answer = (False, error)
    try:
        data = pickle.dumps(answer, protocol=5)
    except Exception as error:
        data = pickle.dumps((False, InternalError(f"{type(answer[1]).__name__}: {answer[1]} ({error})")), protocol=5)
    return _table(block["number"][0].as_py(), data)


def _attempt() -> int:
    """How often this task lost its worker; 0 where this release of Ray does not tell."""
    import ray

    worker = getattr(ray._private.worker.global_worker, "core_worker", None)
    told = getattr(worker, "get_current_task_attempt_number", None)
    return int(told()) if told is not None else 0


def _opened(answer: pa.Buffer) -> Any:
    fine, value = pickle.loads(answer)  # noqa: S301 - what `_run` wrote
    if fine:
        return value
    if isinstance(value, FileNotFoundError):
        msg = f"a worker does not find {value.filename or 'a file'}; {SHARED}"
        raise UsageError(msg) from value
    raise value


def _cause(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0].rstrip('.') if lines else 'no more is known'}"


@contextmanager
def ray_workers(engine: Engine, seen: Iterable[Path] = ()) -> Iterator[Workers]:
    """Workers of a cluster that runs, or of one started for the block; a connection that the caller has is used, and left.

    Each machine looks for the paths that are to be `seen` before it works.

    Raises:
        ConfigError: The extra is not installed.
        UsageError: No cluster answers at the address.
        InternalError: None could be started here.
    """
    with environment(_QUIET | ({} if engine.address else _LOOPBACK)):
        _import()
        # What Ray says of lost workers goes to stdout, which is for results.
        with redirect_stdout(sys.stderr):
            yield from _connected(engine, places(seen))


def _import() -> None:
    try:
        importlib.import_module("ray.data")
    except ImportError as error:
        msg = "the engine ray needs the extra: pip install 'expcomp[ray]'"
        raise ConfigError(msg) from error
    for handler in logging.getLogger("ray.data").handlers:
        if isinstance(handler, logging.StreamHandler):
            handler.setLevel(logging.ERROR)  # Ray's files keep what it says of each run; the terminal is ours


def _connected(engine: Engine, seen: tuple[Place, ...]) -> Iterator[Workers]:
    import ray

    if ray.is_initialized():
        yield RayWorkers(engine.workers, seen)
    elif engine.address is not None:
        try:
            ray.init(engine.address, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, RuntimeError, ValueError) as error:
            msg = f"no Ray cluster answers at {engine.address}: {_cause(error)}"
            raise UsageError(msg) from error
        try:
            yield RayWorkers(engine.workers, seen)
        finally:
            ray.shutdown()
    else:
        with _started(engine.workers or processors()):
            yield RayWorkers(engine.workers, seen)


@contextmanager
def _started(size: int) -> Iterator[None]:
    """A cluster of this machine alone, which only this machine can reach, with its files in a folder that goes with it."""
    import ray

    folder = Path(tempfile.mkdtemp(prefix="expcomp-ray-"))
    try:
        try:
            ray.init(
                "local",
                num_cpus=size,
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.ERROR,
                _temp_dir=os.fspath(folder),
            )
        except Exception as error:  # a class of its own it has not
            msg = f"Ray did not start: {_cause(error)}; run again when the machine is less busy, or give the address of a cluster"
            raise InternalError(msg) from error
        yield
    finally:
        ray.shutdown()
        shutil.rmtree(folder, ignore_errors=True)
