"""Looking into a package: an action with all that is known of it, state fields, recorded turns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from expcomp.environments.config import SCOPE_NAMES
from expcomp.errors import UsageError
from expcomp.io.nearest import nearest

if TYPE_CHECKING:
    from expcomp.environments.package import EnvironmentPackage

DEMONSTRATIONS = 4


class ActionView(NamedTuple):
    """One action: its arguments, the rules that may run, and what stands beside them, each a frame."""

    arguments: pl.DataFrame
    rules: pl.DataFrame
    renderers: pl.DataFrame
    demonstrations: pl.DataFrame
    notes: pl.DataFrame
    invariants: pl.DataFrame


def eligible_rules(package: EnvironmentPackage) -> pl.DataFrame:
    """Rules that may run as far as it is known without a state: supported, confident enough, not out of scope by a setting."""
    values = package.config.scope_values()
    older = {own: old for old, own in SCOPE_NAMES.items()}
    fits = pl.lit(value=True)
    for key in dict.fromkeys((*values, *older)):
        said = pl.coalesce(
            pl.col("scope_json").str.json_path_match(f'$["{name}"]') for name in (key, older.get(key)) if name
        )
        # A setting that the package does not have matches no rule that asks for it.
        fits &= said.is_null() | ((said == values[key]) if key in values else pl.lit(value=False))
    return package["rules"].filter(
        (pl.col("status") == "supported") & (pl.col("confidence") >= package.config.min_rule_confidence) & fits
    )


def inspect_action(package: EnvironmentPackage, action: str) -> ActionView:
    """What is known of an action, by its name or an alias; rules by priority, confidence, id.

    Raises:
        UsageError: There is no such action.
    """
    aliases = dict(zip(package["action_aliases"]["alias"], package["action_aliases"]["action"], strict=True))
    name = aliases.get(action, action)
    known = package["action_schema"]["action"]
    if name not in known:
        raise UsageError(f"there is no action {action!r}; known are {', '.join(known.sort())}{nearest(action, known)}")
    mine = pl.col("action_type") == name
    named = (pl.col("action_types").list.len() == 0) | pl.col("action_types").list.contains(name)
    rules = (
        eligible_rules(package).filter(mine).sort("priority", "confidence", "rule_id", descending=[True, True, False])
    )
    cited = pl.col("renderer_id").is_in(rules["renderer"].implode())
    return ActionView(
        package["action_args"].filter(pl.col("action") == name),
        rules,
        package["renderers"].filter(cited),
        package["demonstrations"].filter(mine).head(DEMONSTRATIONS),
        package["notes"].filter((pl.col("status") == "supported") & named),
        package["invariants"],
    )


def state_fields(package: EnvironmentPackage, prefix: str = "") -> pl.DataFrame:
    """Declared state paths that are a prefix or below it."""
    path = pl.col("path")
    return package["state_schema"].filter((path == prefix) | path.str.starts_with(f"{prefix}." if prefix else ""))


def turn(package: EnvironmentPackage, transition_id: str, *, offset: int = 0, length: int = 2_000) -> dict[str, Any]:
    """A part of a recorded answer, with its action and the ids of the turns before and after it.

    Raises:
        UsageError: There is no such transition.
    """
    frame = package["transitions"]
    found = frame.filter(pl.col("transition_id") == transition_id)
    if found.is_empty():
        raise UsageError(f"there is no transition {transition_id!r}")
    one = found.row(0, named=True)
    near = frame.filter(pl.col("episode_id") == one["episode_id"]).sort("turn")
    ids = near["transition_id"].to_list()
    at = ids.index(transition_id)
    text = one["observation"] or ""
    return {
        "transition_id": transition_id,
        "episode_id": one["episode_id"],
        "turn": one["turn"],
        "action_type": one["action_type"],
        "arguments_json": one["arguments_json"],
        "observation": text[offset : offset + length],
        "offset": offset,
        "n_chars": len(text),
        "before": ids[at - 1] if at else None,
        "after": ids[at + 1] if at + 1 < len(ids) else None,
    }
