"""Routes of repair: what to do about a failure, how urgently, and what a rerun must change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.io.wording import worded
from expcomp.ledger.build import apply, constant
from expcomp.ledger.engine import compile_rules

if TYPE_CHECKING:
    from collections.abc import Mapping

    from expcomp.ledger.pack import Pack


def repair_columns(frame: pl.DataFrame, pack: Pack) -> pl.DataFrame:
    """`repair_priority`, `repair_class`, `next_action`, `repair_profile` and `repair_rule` for each row.

    Args:
        frame: With the failure's class, scope and attribution, the model, `round_succeeded` and `preflight_passed`.
        pack: Rules.
    """
    frame = apply(frame, pack, "routing_class", "routing_class")
    frame = apply(frame, pack, "repair", "_repair", "repair_rule")
    repair = pl.col("_repair").struct.field("repair")
    texts = pack.section("next_action")
    action = pl.when(repair.is_not_null()).then(_action(repair, texts))
    return frame.select(
        repair_priority=pl.col("_repair").struct.field("priority"),
        repair_class=repair,
        next_action=action,
        repair_profile=_profile(repair, frame, pack),
        repair_rule="repair_rule",
    )


def _action(repair: pl.Expr, texts: Mapping[str, Any]) -> pl.Expr:
    known = {k: v for k, v in texts.items() if k != "pattern"}
    pattern = texts.get("pattern")
    other = pl.lit(None, dtype=pl.String()) if pattern is None else worded(pattern.replace("{repair}", "{}"), repair)
    if not known:
        return other
    return repair.replace_strict(list(known), list(known.values()), default=other, return_dtype=pl.String())


def _profile(repair: pl.Expr, frame: pl.DataFrame, pack: Pack) -> pl.Expr:
    profiles = pack.section("repair_profiles")
    common = profiles.get("common", {})
    found: pl.Expr = pl.lit(None, dtype=pl.String())
    for name, own in profiles.items():
        if name == "common":
            continue
        whole = {**common, "repair_class": name, **own}
        parts = [_value(v, frame, pack).alias(k) for k, v in whole.items()]
        found = pl.when(repair == name).then(pl.struct(parts).struct.json_encode()).otherwise(found)
    return found


def _value(value: Any, frame: pl.DataFrame, pack: Pack) -> pl.Expr:
    if isinstance(value, dict) and set(value) == {"rules"}:
        return compile_rules(pack.rules[value["rules"]], frame.schema)[0]
    return constant(value)
