"""What stands for a trial without a usable score: the named policies, and what each fills in."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from expcomp.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

POLICIES = ("exclude", "fail", "bounds")
BOUNDS = ("worst", "best")
SIDES = ("baseline", "treatment")

FILL: Mapping[str, tuple[float | None, float | None]] = {
    "exclude": (None, None),
    "fail": (0.0, 0.0),
    "worst": (1.0, 0.0),
    "best": (0.0, 1.0),
}
"""Policy -> score of a lost trial of the baseline and of the treatment; None leaves it out. `bounds` is `worst` and `best`."""


class Policy(NamedTuple):
    """What becomes of trials and cells without a score, and of trials lost to infrastructure."""

    missing: str
    infra: str

    @property
    def fills(self) -> bool:
        """Whether some lost trial gets a score, which needs a known scale."""
        return (self.missing, self.infra) != ("exclude", "exclude")


SENSITIVITY = (
    Policy("exclude", "exclude"),
    Policy("exclude", "fail"),
    Policy("fail", "exclude"),
    Policy("fail", "fail"),
    Policy("worst", "worst"),
    Policy("best", "best"),
)
"""The policies every comparison is made under, so that one sees whether its decision hangs on them."""


def policies(missing: str, infra: str | None) -> tuple[Policy, ...]:
    """The policies of a call: one, or the worst and the best case.

    Raises:
        UsageError: An unknown policy.
    """
    infra = missing if infra is None else infra
    for name, value in (("missing", missing), ("infra", infra)):
        if value not in POLICIES:
            msg = f"{name} is {value!r}; expected one of {', '.join(POLICIES)}"
            raise UsageError(msg)
    if "bounds" not in (missing, infra):
        return (Policy(missing, infra),)
    return tuple(Policy(*(side if p == "bounds" else p for p in (missing, infra))) for side in BOUNDS)


def fill(side: str, policy: Policy) -> dict[str, pl.Expr]:
    """Trials, mean and variance of one arm's cell, with the fills of a policy.

    A lost trial counts as one more trial of score v. For k of them the mean becomes `(n m + k v) / (n + k)`, and the sum of squares
    grows by `n k (m - v)^2 / (n + k)` (Chan, Golub and LeVeque 1983). A cell without a trial becomes v itself.
    """
    n, total = pl.col(f"{side}_n").fill_null(0), pl.col(f"{side}_total").fill_null(0.0)
    squares = pl.col(f"{side}_var").fill_null(0.0) * (n - 1)
    where = SIDES.index(side)
    for count, rule in (("missing", policy.missing), ("infra", policy.infra)):
        value = FILL[rule][where]
        if value is None:
            continue
        k = pl.col(f"{side}_{count}").fill_null(0)
        apart = pl.when(n > 0).then(total / n - value).otherwise(0.0)
        squares = squares + pl.when(n + k > 0).then(n * k * apart**2 / (n + k)).otherwise(0.0)
        n, total = n + k, total + k * value
    mean: pl.Expr = pl.when(n > 0).then(total / n)
    empty = FILL[policy.missing][where]
    absent = pl.col(f"{side}_trials").is_null()
    if empty is not None:
        mean = pl.when(absent).then(pl.lit(empty)).otherwise(mean)
    return {
        f"{side}_n": n.cast(pl.Int64),
        f"{side}_mean": mean,
        f"{side}_var": pl.when(n > 1).then(squares / (n - 1)),
    }
