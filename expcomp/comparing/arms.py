"""Which trials a name stands for: an arm, or a declared role."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

import polars as pl

from expcomp.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence


def arms_of(trials: pl.DataFrame) -> pl.DataFrame:
    """One row an arm: `arm`, `role`, `benchmarks`, `tasks`, `trials`, `usable`; most trials first."""
    usable = ~pl.col("infra") & (pl.col("score").is_not_null() | pl.col("passed").is_not_null())
    return (
        trials.group_by("arm", maintain_order=True)
        .agg(
            role=pl.col("role").drop_nulls().first(),
            benchmarks=pl.col("benchmark").n_unique().cast(pl.Int64),
            tasks=pl.struct("benchmark", "task").n_unique().cast(pl.Int64),
            trials=pl.len().cast(pl.Int64),
            usable=usable.sum().cast(pl.Int64),
        )
        .sort("trials", "arm", descending=[True, False], nulls_last=True)
    )


def named(trials: pl.DataFrame, names: Sequence[str]) -> tuple[pl.DataFrame, list[str]]:
    """Trials of arms or roles, `arm` being the name that was asked for, and notes on roles of several arms.

    Without names all trials are taken. A name is an arm where there is one of it, else a role: `baseline` of a ledger is then every
    arm with this role.

    Raises:
        UsageError: A name is neither, is there twice, or shares an arm with another.
    """
    if not names:
        return trials, []
    twice = [n for i, n in enumerate(names) if n in names[:i]]
    if twice:
        msg = f"arm {twice[0]!r} is compared with itself; name two different arms"
        raise UsageError(msg)
    known = arms_of(trials)
    arms = known["arm"].drop_nulls().to_list()
    roles = known.drop_nulls(["arm", "role"])
    stands: dict[str, list[str]] = {}
    for name in names:
        stands[name] = [name] if name in arms else roles.filter(pl.col("role") == name)["arm"].to_list()
        if not stands[name]:
            raise UsageError(_unknown(name, known))
    told = [arm for found in stands.values() for arm in found]
    shared = sorted({a for a in told if told.count(a) > 1})
    if shared:
        msg = f"arm {shared[0]!r} belongs to more than one of {', '.join(map(repr, names))}; name arms instead of roles"
        raise UsageError(msg)
    label = {arm: name for name, found in stands.items() for arm in found}
    notes = [
        f"{n} is the role of {len(f)} arms, taken together: {', '.join(f)}" for n, f in stands.items() if len(f) > 1
    ]
    kept = trials.filter(pl.col("arm").is_in(list(label)))
    return kept.with_columns(arm=pl.col("arm").replace_strict(label, return_dtype=pl.String)), notes


def _unknown(name: str, known: pl.DataFrame) -> str:
    arms = known["arm"].drop_nulls().to_list()
    roles = known["role"].drop_nulls().unique(maintain_order=True).to_list()
    near = get_close_matches(name, [*arms, *roles], n=1)
    shown = ", ".join(arms[:20]) + (f" and {len(arms) - 20} more" if len(arms) > 20 else "")
    hint = f"; did you mean {near[0]!r}?" if near else ""
    of_role = f"; roles: {', '.join(roles)}" if roles else ""
    return f"there is no arm or role {name!r}{hint} (arms: {shown or 'none'}{of_role})"
