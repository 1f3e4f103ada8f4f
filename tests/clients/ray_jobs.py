"""Jobs that the tests of the engine hand to Ray; workers import this module."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import polars as pl

from expcomp.errors import SourceError
from expcomp.io.whole import whole


def meets(job: tuple[Path, int, int]) -> tuple[int, int, int]:
    """Waits for the others: they run side by side, or not at all."""
    folder, number, many = job
    (folder / f"came.{number}").touch()
    for _ in range(12000):
        if len(list(folder.glob("came.*"))) == many:
            return number, os.getpid(), pl.thread_pool_size()
        time.sleep(0.01)
    msg = "the others did not come"
    raise TimeoutError(msg)


def dies_once(job: tuple[Path, int, int]) -> int:
    """Kills its own worker in the middle, the first time of the one number."""
    folder, number, victim = job
    with whole(folder / f"{number}.txt") as beside, beside.open("w") as handle:
        handle.write("first half, ")
        handle.flush()
        if number == victim and not (folder / "died").exists():
            (folder / "died").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        handle.write("second half")
    with (folder / "log").open("a") as log:
        log.write(f"{number}\n")
    return number * number


def always_dies(job: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return job


def refuses(job: int) -> int:
    if job == 2:
        msg = "job 2 is bad"
        raise SourceError(msg)
    return job


def missing(job: str) -> int:
    return len(Path(job).read_bytes())


def outlives(job: tuple[Path, int]) -> tuple[int, bytes]:
    """Says on which machine it runs, and ends when one was taken away."""
    import ray

    folder, number = job
    (folder / f"at.{ray.get_runtime_context().get_node_id()}.{number}").touch()
    for _ in range(6000):
        if (folder / "taken").exists():
            return number, bytes([number]) * (3 << 20)
        time.sleep(0.01)
    msg = "no machine was taken away"
    raise TimeoutError(msg)


def large(job: int) -> bytes:
    return bytes([job]) * (3 << 20)
