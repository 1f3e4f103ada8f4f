"""A process pool that starts fast, keeps each worker to one Polars thread, and works in the caller's process when it has to."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import forkserver
from multiprocessing.connection import wait
from multiprocessing.context import BaseContext
from typing import TypeVar

from expcomp.errors import InternalError

PRELOAD = ("expcomp.compiler.shard", "expcomp.compiler.merge", "pandera.polars")
"""What the server imports once for all workers."""

T = TypeVar("T")
R = TypeVar("R")


class Workers:
    """Runs jobs in processes, or here when there is one worker."""

    def __init__(self, executor: ProcessPoolExecutor | None) -> None:
        self._executor = executor

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


@contextmanager
def workers(count: int) -> Iterator[Workers]:
    """A pool of `count` processes; one means this process."""
    if count <= 1:
        yield Workers(None)
        return
    with _one_thread():
        executor = ProcessPoolExecutor(count, mp_context=_context(), initializer=_settle)
        for _ in range(count):
            executor.submit(os.getpid)  # they start now, while the setting above holds
    try:
        yield Workers(executor)
    except BaseException:
        executor.shutdown(wait=False, cancel_futures=True)
        for process in multiprocessing.active_children():
            process.terminate()
        raise
    # All results are in: nothing is lost by not waiting for the workers to tidy up.
    executor.shutdown(wait=False, cancel_futures=True)
    for process in multiprocessing.active_children():
        process.terminate()


def prepare() -> None:
    """Start the server that workers come from, so that it imports what they need while the caller still imports its own."""
    with _one_thread():
        if _context().get_start_method() == "forkserver":
            forkserver.ensure_running()


def _context() -> BaseContext:
    # A fork of a process that runs Polars threads may hang, so workers come from a clean server that has imported all they need.
    method = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
    context = multiprocessing.get_context(method)
    if method == "forkserver":
        context.set_forkserver_preload(list(PRELOAD))
    return context


@contextmanager
def _one_thread() -> Iterator[None]:
    """Processes started inside run Polars on one thread each."""
    before = os.environ.get("POLARS_MAX_THREADS")
    os.environ["POLARS_MAX_THREADS"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["POLARS_MAX_THREADS"]
        else:
            os.environ["POLARS_MAX_THREADS"] = before


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
