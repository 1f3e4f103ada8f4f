"""Calls of foreign code that may not come back: told to stop when the run is, and given up when they do not."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from expcomp.errors import ExpcompError

GRACE = 60.0
"""Seconds that foreign code is waited for after it was told to stop; to end all processes of a command takes a part of it."""
_TICK = 0.02
T = TypeVar("T")


class GivenUpError(ExpcompError):
    """Foreign code that did not stop; it may still be at work."""

    exit_code = 1


def raced(call: Callable[[Callable[[], bool]], T], stopped: Callable[[], bool]) -> T:
    """The result of a call in a thread of its own, or what it raised.

    Args:
        call: Given what it has to ask whether it has to stop.
        stopped: Whether the run is cancelled or its time is up.

    Raises:
        GivenUpError: It was told to stop, and did not within `GRACE`.
    """
    told, results, errors = threading.Event(), list[T](), list[BaseException]()

    def work() -> None:
        try:
            results.append(call(lambda: told.is_set() or stopped()))
        except BaseException as error:  # raised again in the thread of the run
            errors.append(error)

    thread = threading.Thread(target=work, name="expcomp-port", daemon=True)
    thread.start()
    until: float | None = None
    try:
        while thread.is_alive():
            thread.join(_TICK)
            if until is None and stopped():
                until = time.monotonic() + GRACE
            if until is not None and time.monotonic() >= until and thread.is_alive():
                raise GivenUpError(f"it was told to stop, and is still at work {GRACE:g} seconds later")
    except BaseException:
        told.set()  # so that an interrupt of the run reaches it, too
        thread.join(0 if until is not None else GRACE)
        raise
    if errors:
        raise errors[0]
    return results[0]
