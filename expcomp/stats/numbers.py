"""Numbers of any shape held to a range: refused by name and position, never bent into it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from expcomp.stats.inputs import finite, refuse

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from expcomp.stats.inputs import Floats, Ints, Numbers


def numbers(name: str, values: ArrayLike) -> Floats:
    """`values` as finite floats of the same shape.

    Raises:
        StatsError: A value is missing, no number or not finite.
    """
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise refuse("non_finite", f"{name} holds something that is no number: {error}") from error
    _all(name, array, np.isfinite(array), "non_finite", "leave such units out first and say so")
    return array


def whole(name: str, values: ArrayLike, *, low: int = 0) -> Ints:
    """`values` as integers of the same shape, each at least `low`.

    Raises:
        StatsError: A value is missing, has a fraction or is too small.
    """
    array = numbers(name, values)
    _all(name, array, (array == np.floor(array)) & (array >= low), "bad_counts", f"use whole numbers of at least {low}")
    return array.astype(np.int64)


def within(name: str, values: Numbers, low: float, high: float = np.inf, *, at_least: int = 1) -> Floats:
    """One column as a float array of shape (n,), each value in [low, high].

    Raises:
        StatsError: As `inputs.finite`, or a value is outside the range.
    """
    array = finite(values, name, at_least=at_least)
    _all(name, array, (array >= low) & (array <= high), "outside", f"use numbers in [{low:g}, {high:g}]")
    return array


def between(name: str, value: float, low: float, high: float) -> float:
    """`value`, strictly between `low` and `high`.

    Raises:
        StatsError: It is not.
    """
    if not low < value < high:
        raise refuse("bad_option", f"{name} is {value}; use a number between {low:g} and {high:g}")
    return float(value)


def at_least_zero(name: str, values: ArrayLike) -> Floats:
    """`values` as floats of the same shape, none below 0: variances, costs.

    Raises:
        StatsError: A value is missing, not finite or negative.
    """
    array = numbers(name, values)
    _all(name, array, array >= 0, "outside", "use numbers of at least 0")
    return array


def _all(name: str, array: Floats, good: NDArray[np.bool_], reason: str, advice: str) -> None:
    if good.all():
        return
    bad = ~good
    where = f"[{int(np.flatnonzero(bad)[0])}]" if array.ndim else ""
    raise refuse(reason, f"{name}{where} is {array[bad].flat[0]:g}; {advice}")
