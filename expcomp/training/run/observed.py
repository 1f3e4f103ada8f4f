"""What is known of a run beyond its digests: time, cost, seed, hardware, versions. Measured, or null."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from expcomp.io.canon import CanonError, dumps
from expcomp.io.pinned_files import PinnedFileError, hash_file
from expcomp.training.public import not_public
from expcomp.training.run.plan import RunPlan
from expcomp.version import __version__

COST = "costNanos"
"""What a trainer calls its cost in its observations: billionths of a dollar, an integer."""
_BYTES = 1 << 20


def observations(plan: RunPlan, started: str, seconds: float, facts: Mapping[str, Any], own: Path) -> dict[str, Any]:
    """Observations of a training call, as its receipt carries them outside of its digest.

    Args:
        plan: Of the run.
        started: When the call began.
        seconds: How long it took.
        facts: What the port measured.
        own: File in which the trainer may have written what it measured itself.

    Returns:
        startedAt; seconds; costNanos, when the trainer says it; seed, when the parameters have one; hardware and versions of this
        machine, null for a managed trainer, which runs elsewhere; the facts; `trainer`, or why its file is not taken (`trainerRefused`).
    """
    told = _own(own)
    cost = told.get("trainer", {}).get(COST)
    here = plan.trainer.mode == "command"
    return {
        "startedAt": started,
        "seconds": seconds,
        COST: cost if type(cost) is int and cost >= 0 else None,
        "seed": seed_of(plan.parameters),
        "hardware": hardware() if here else None,
        "versions": versions() if here else None,
        **facts,
        **told,
    }


def hardware() -> dict[str, Any]:
    """Of this machine: system, machine, processors that this process may use, memory in bytes; null where it cannot be known."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        memory = None
    affinity = getattr(os, "sched_getaffinity", None)
    return {
        "system": platform.system() or None,
        "machine": platform.machine() or None,
        "processors": os.cpu_count() if affinity is None else len(affinity(0)),
        "memoryBytes": memory,
    }


def versions() -> dict[str, str]:
    """Of what supervised the run; those of the trainer's own libraries are for the trainer to say."""
    return {"expcomp": __version__, "python": platform.python_version()}


def seed_of(parameters: Mapping[str, Any]) -> int | None:
    """`seed` among the parameters of a run or in their `options`; null when there is none."""
    options = parameters.get("options")
    for place in (parameters, options if isinstance(options, Mapping) else {}):
        if type(place.get("seed")) is int:
            return int(place["seed"])
    return None


def _own(path: Path) -> dict[str, Any]:
    if not path.exists() and not path.is_symlink():
        return {}
    try:
        found = msgspec.json.decode(hash_file(path, _BYTES, capture=True).content or b"")
        dumps(found)
    except PinnedFileError as error:
        return {"trainerRefused": error.found}
    except (CanonError, msgspec.DecodeError) as error:
        return {"trainerRefused": str(error)}
    if not isinstance(found, dict):
        return {"trainerRefused": "no JSON object"}
    private = not_public(found)
    return {"trainer": found} if private is None else {"trainerRefused": f"{private} is not public"}
