"""Numbers of things in sentences."""

from __future__ import annotations


class Count(int):
    """A whole number that names what it counts: `f"{Count(n):task has|tasks have}"` is `1 task has` or `1,200 tasks have`."""

    __slots__ = ()

    def __format__(self, spec: str) -> str:
        one, bar, many = spec.partition("|")
        return f"{int(self):,} {one if self == 1 else many}" if bar else format(int(self), spec)


def percent(share: float) -> str:
    """A confidence as people say it, no digit rounded away: 95%, 97.5%, 99.9%."""
    return f"{100 * share:.10g}%"
