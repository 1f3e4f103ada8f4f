"""Hand-written worlds for tests."""

from __future__ import annotations

import copy
import json
from typing import Any

from expcomp.environments.config import PackageConfig
from expcomp.environments.engine import Engine, blank_state
from expcomp.environments.frames import frames

AUTHORED = PackageConfig("ledger", name="Ledger", construction_kind="authored", domains=("finance",))
AMOUNT = {"left_kind": "action_arg", "left": "amount"}
BALANCE = {"left_kind": "path", "left": "world.balance"}


def change(
    owner: str,
    op: str,
    path: str,
    value: Any = None,
    *,
    ordinal: int = 0,
    ref: str = "literal",
    kind: str = "rule",
    delay: int | None = None,
) -> dict[str, Any]:
    """One line of `mutations`."""
    text = None if op == "delete" else json.dumps(value)
    return {
        "owner_kind": kind,
        "owner_id": owner,
        "ordinal": ordinal,
        "op": op,
        "path": path,
        "value_json": text,
        "value_ref": ref,
        "delay_steps": delay,
    }


def condition(
    owner: str,
    left: tuple[str, str],
    op: str,
    right: tuple[str, str] | None = None,
    *,
    ordinal: int = 0,
    group: int = 0,
) -> dict[str, Any]:
    """One line of `conditions`; operands are (kind, text)."""
    found = {"owner_id": owner, "ordinal": ordinal, "group": group, "left_kind": left[0], "left": left[1], "op": op}
    return found if right is None else found | {"right_kind": right[0], "right": right[1]}


def rule(
    rule_id: str,
    action: str,
    *,
    outcome: str = "success",
    renderer: str = "text",
    template: str | None = None,
    confidence: float | None = 1.0,
    **more: Any,
) -> dict[str, Any]:
    """One line of `rules`."""
    return {
        "rule_id": rule_id,
        "action_type": action,
        "outcome": outcome,
        "renderer": renderer,
        "observation_template": template,
        "confidence": confidence,
    } | more


LEDGER: dict[str, list[dict[str, Any]]] = {
    "action_schema": [{"action": a} for a in ("balance", "deposit", "withdraw")],
    "action_args": [{"action": a, "arg": "amount", "type": "number"} for a in ("deposit", "withdraw")],
    "action_aliases": [{"alias": "put", "action": "deposit"}],
    "state_schema": [{"path": "world.balance", "type": "number", "visibility": "world"}],
    "renderers": [{"renderer_id": "text"}],
    "rules": [
        rule("r_balance", "balance", template="Balance: {state_after.world.balance}"),
        rule("r_deposit", "deposit", template="Deposited {action.arguments.amount}. Balance: {state_after.world.balance}"),
        rule("r_withdraw", "withdraw", template="Withdrew {action.arguments.amount}. Balance: {state_after.world.balance}"),
        rule("r_short", "withdraw", outcome="failure", template="Insufficient funds. Balance: {state_after.world.balance}"),
    ],
    "conditions": [
        condition("r_withdraw", ("path", "world.balance"), "gte", ("action_arg", "amount")),
        condition("r_short", ("path", "world.balance"), "lt", ("action_arg", "amount")),
        condition("i_positive", ("path", "world.balance"), "gte", ("literal", "0")),
    ],
    "mutations": [
        change("r_deposit", "increment", "world.balance", "amount", ref="arg"),
        change("r_withdraw", "decrement", "world.balance", {"$action_arg": "amount"}),
    ],
    "invariants": [{"invariant_id": "i_positive"}],
}  # fmt: skip


def world(**tables: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The ledger with some tables replaced."""
    return copy.deepcopy(LEDGER) | tables


def engine(
    records: dict[str, list[dict[str, Any]]] | None = None, *, strict: bool = False, config: PackageConfig = AUTHORED
) -> Engine:
    """The engine of a world."""
    return Engine(frames(LEDGER if records is None else records), config, strict=strict)


def state(**world_values: Any) -> dict[str, Any]:
    """A state with these values in the namespace `world`."""
    return blank_state() | {"world": world_values}


def play(e: Engine, at: dict[str, Any], action: str, **arguments: Any) -> Any:
    """One step."""
    return e.step(at, e.canonical(action, arguments))


def tiny(
    rules: list[dict[str, Any]],
    conditions: list[dict[str, Any]] | None = None,
    mutations: list[dict[str, Any]] | None = None,
    *,
    args: dict[str, str] | None = None,
    **tables: Any,
) -> Engine:
    """An engine of one action `go` over an undeclared world."""
    records = {
        "action_schema": [{"action": "go"}],
        "action_args": [
            {"action": "go", "arg": a, "type": t, "required": False} for a, t in (args or {"x": "any"}).items()
        ],
        "renderers": [{"renderer_id": "text"}],
        "rules": rules,
        "conditions": conditions or [],
        "mutations": mutations or [],
        **{k: v for k, v in tables.items() if k != "strict"},
    }
    return engine(records, strict=bool(tables.get("strict")))
