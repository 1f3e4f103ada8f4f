"""Which units are compiled together: shards of a fixed size, cut only between tasks, so that no group of attempts is torn."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from expcomp.sources._contract import Unit

SHARD_BYTES = 100 << 20
LEAST_FOR_TWO = 16 << 20
"""Below this one shard is quicker than two processes."""


def plan_shards(units: Sequence[Unit]) -> list[tuple[Unit, ...]]:
    """Cut units into shards. The cut depends on the input only, never on the machine, so that the output does neither.

    Units of one task key stay together. Units whose tasks are not known before they are read form one shard.
    """
    known = sorted((u for u in units if u.group is not None), key=lambda u: (u.group or "", u.package_id, u.format))
    unknown = tuple(sorted((u for u in units if u.group is None), key=lambda u: (u.format, u.package_id)))
    total = sum(u.size for u in known)
    wanted = max(1, -(-total // SHARD_BYTES), 2 if total >= LEAST_FOR_TWO else 1)
    target = total / wanted
    shards: list[tuple[Unit, ...]] = []
    current: list[Unit] = []
    done = 0
    for _, group in groupby(known, key=lambda u: u.group):
        members = list(group)
        current += members
        done += sum(u.size for u in members)
        if done >= target * (len(shards) + 1) and len(shards) < wanted - 1:
            shards.append(tuple(current))
            current = []
    if current:
        shards.append(tuple(current))
    if unknown:
        shards.append(unknown)
    return shards
