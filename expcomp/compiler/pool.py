"""A process pool that starts fast, keeps each worker to one Polars thread, and works in the caller's process when it has to."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.connection import wait
from typing import TypeVar

from expcomp.errors import InternalError

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
def workers(count: int, preload: Sequence[str]) -> Iterator[Workers]:
    """A pool of `count` processes; one means this process."""
    if count <= 1:
        yield Workers(None)
        return
    # A fork of a process that runs Polars threads may hang, so workers come from a clean server that has imported all they need.
    method = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
    context = multiprocessing.get_context(method)
    if method == "forkserver":
        context.set_forkserver_preload(list(preload))
    before = os.environ.get("POLARS_MAX_THREADS")
    os.environ["POLARS_MAX_THREADS"] = "1"
    try:
        executor = ProcessPoolExecutor(count, mp_context=context, initializer=_settle)
        # Start them now: discovery runs meanwhile.
        for _ in range(count):
            executor.submit(_warm)
    finally:
        if before is None:
            del os.environ["POLARS_MAX_THREADS"]
        else:
            os.environ["POLARS_MAX_THREADS"] = before
    try:
        yield Workers(executor)
    except BaseException:
        executor.shutdown(wait=False, cancel_futures=True)
        for process in multiprocessing.active_children():
            process.terminate()
        raise
    executor.shutdown()


def _settle() -> None:
    """A worker ends with the run that started it, also when that is killed, and leaves Ctrl-C to it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)


def _warm() -> None:
    import expcomp.compiler.shard
    import expcomp.tables.models

    del expcomp
