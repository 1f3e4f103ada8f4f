"""A process pool that starts fast, keeps each worker to one Polars thread, and works in the caller's process when it has to."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import wait
from multiprocessing.context import BaseContext, ForkServerContext, ForkServerProcess
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

from expcomp.errors import InternalError
from expcomp.io.engine import LOCAL, Engine

PRELOAD = ("expcomp.compiler.shard", "expcomp.compiler.merge", "expcomp.sources.stream")
"""What the server imports once for all workers, unless the caller names other modules."""

ONE_THREAD = {"POLARS_MAX_THREADS": "1"}

T = TypeVar("T")
R = TypeVar("R")


class Workers:
    """Runs jobs in processes, or here when there is one worker."""

    def __init__(self, executor: ProcessPoolExecutor | None, size: int = 1) -> None:
        self._executor = executor
        self.size = size
        """Jobs that run at once."""

    def map(self, work: Callable[[T], R], jobs: Sequence[T], done: Callable[[int], None]) -> list[R]:
        """Results in the order of the jobs; `done` hears the number of finished jobs."""
        if self._executor is None or len(jobs) < 2:
            results = []
            for job in jobs:
                results.append(work(job))
                done(len(results))
            return results
        futures = {self._executor.submit(work, job): i for i, job in enumerate(jobs)}
        found: dict[int, R] = {}
        try:
            for future in as_completed(futures):
                found[futures[future]] = future.result()
                done(len(found))
        except BrokenProcessPool as error:
            msg = "a worker process died (killed, or out of memory); run again with --workers 1, or with less at once"
            raise InternalError(msg) from error
        finally:
            for future in futures:
                future.cancel()
        return [found[i] for i in range(len(jobs))]


HERE = Workers(None)
"""The caller's process."""


@contextmanager
def workers(
    count: int, *, preload: Sequence[str] = PRELOAD, engine: Engine = LOCAL, seen: Iterable[Path] = ()
) -> Iterator[Workers]:
    """A pool of `count` processes; one means this process. `preload` counts when no pool came before in this process.

    An engine on other machines brings its own workers, says how many, and looks whether each machine sees the paths in `seen`.
    """
    if engine.remote:
        from expcomp.io.engine_ray import ray_workers

        with ray_workers(engine, seen) as pool:
            yield pool
        return
    if count <= 1:
        yield Workers(None)
        return
    executor = None
    try:
        with _one_thread():
            executor = ProcessPoolExecutor(count, mp_context=_context(preload), initializer=_settle)
            for _ in range(count):
                executor.submit(os.getpid)  # they start now, while the setting above holds
        yield Workers(executor, count)
    finally:
        # With all results in, nothing is lost by not waiting for the workers to tidy up; without, they must not go on.
        if executor is not None:
            executor.shutdown(wait=False, cancel_futures=True)
        for process in multiprocessing.active_children():
            process.terminate()


def prepare(preload: Sequence[str] = PRELOAD) -> None:
    """Start the server that workers come from, so that it imports what they need while the caller still imports its own."""
    with _one_thread():
        if _context(preload).get_start_method() == "forkserver":
            forkserver.ensure_running()


class _Process(ForkServerProcess):
    """A worker that does not run the caller's script: scripts need no `if __name__ == "__main__"` around their calls."""

    @staticmethod
    def _Popen(process_obj: Any) -> Any:  # noqa: N802 - the name multiprocessing asks for
        # The new process would import the main module to find what it is told to run; all our jobs live in modules of the package.
        main = sys.modules["__main__"]
        hidden = {name: main.__dict__.pop(name) for name in ("__file__", "__spec__") if name in main.__dict__}
        main.__dict__["__spec__"] = None
        try:
            return ForkServerProcess._Popen(process_obj)
        finally:
            main.__dict__.update({"__spec__": None} | hidden)


class _Context(ForkServerContext):
    Process = _Process


def _context(preload: Sequence[str]) -> BaseContext:
    # A fork of a process that runs Polars threads may hang, so workers come from a clean server that has imported all they need.
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = _Context()
    context.set_forkserver_preload(list(preload))
    return context


@contextmanager
def _one_thread() -> Iterator[None]:
    """Processes started inside run Polars on one thread each, and leave Ctrl-C to the caller from their first moment."""
    with environment(ONE_THREAD), _later():
        yield


@contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """Variables of this process, and of those started inside, as they were before when the block ends."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _later() -> Iterator[None]:
    """Ctrl-C inside the block comes when it ends: a process that is half started cannot be ended, and would say so at length."""
    # The tracker of resources, which is started with the first process, would lift the block: it has to be there before.
    resource_tracker.ensure_running()
    came: list[tuple[int, FrameType | None]] = []
    handler = signal.getsignal(signal.SIGINT)
    ours = threading.current_thread() is threading.main_thread() and callable(handler)
    # Blocked, so that it stays blocked in what is started; and noted, since other threads of this process still take it.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    if ours:
        signal.signal(signal.SIGINT, lambda number, frame: came.append((number, frame)))
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGINT, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if came and callable(handler):
            handler(*came[0])


def _settle() -> None:
    """A worker ends with the run that started it, also when that is killed, and leaves Ctrl-C to it."""
    gc.freeze()  # what the server imported stays
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)
