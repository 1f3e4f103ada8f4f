"""How many processes a memory budget allows. Only that: what is read and written at once rests on the input, so outputs do too."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from expcomp.errors import UsageError

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}


@dataclass(frozen=True, slots=True)
class Need:
    """Bytes that a verb needs.

    Attributes:
        base: Of the process that hands out the work.
        worker: Of each worker beside it, as measured with the largest pieces that are cut.
    """

    base: int
    worker: int


READ = Need(base=256 << 20, worker=384 << 20)
COMPILE = Need(base=512 << 20, worker=1280 << 20)
DATASET = Need(base=512 << 20, worker=896 << 20)


def memory_bytes(text: str) -> int:
    """Bytes that a size such as `4GB`, `512MiB` or `2e9` names.

    Raises:
        UsageError: It names none.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?(?:[eE]\d+)?)\s*([KMGT]?I?)B?\s*", text.upper())
    if match is None or match[2] not in _UNITS or not float(match[1]):
        msg = f"memory {text!r}: expected a size, as 4GB or 512MiB"
        raise UsageError(msg)
    return int(float(match[1]) * _UNITS[match[2]])


def processors() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0))


def processes_within(memory: int | None, processes: int | None, need: Need) -> int | None:
    """Processes at once that stay within a budget: those wanted, by default the processors, or as many as fit.

    Raises:
        UsageError: Not even one fits.
    """
    if memory is None:
        return processes
    fit = (memory - need.base) // need.worker
    if fit < 1:
        least = -(-(need.base + need.worker) // 2**20)
        msg = f"memory of {memory / 2**20:.0f} MiB is less than one process needs here; give {least} MiB or more"
        raise UsageError(msg)
    return min(processes or processors(), fit)
