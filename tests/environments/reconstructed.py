"""A small reconstructed package of the ledger: one episode of three steps, rules that cite it."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import polars as pl

from expcomp.environments.config import PackageConfig
from expcomp.environments.frames import frames
from tests.environments.worlds import LEDGER

CONFIG = PackageConfig("ledger", name="Ledger", tenant="acme")
TEXT = "User: go\n"
SOURCE = "src_" + hashlib.sha256(TEXT.encode()).hexdigest()
STEPS = [
    ("balance", {}, "Balance: 10.0", "success", "r_balance"),
    ("deposit", {"amount": 5}, "Deposited 5. Balance: 15.0", "success", "r_deposit"),
    ("withdraw", {"amount": 5}, "Withdrew 5. Balance: 10.0", "success", "r_withdraw"),
    ("withdraw", {"amount": 500}, "Insufficient funds. Balance: 10.0", "failure", "r_short"),
]


def records() -> dict[str, list[dict[str, Any]]]:
    """Records by table."""
    found: dict[str, list[dict[str, Any]]] = {k: [dict(r) for r in v] for k, v in LEDGER.items()}
    for r in found["rules"]:
        r |= {"origin": "deterministic", "n_support": 1, "n_counter": 0, "heldout_n": 3, "heldout_hit": 3}
    found["sources"] = [
        {
            "source_id": SOURCE,
            "n_bytes": len(TEXT),
            "media": "text",
            "label": "trace.txt",
            "text": TEXT,
            "text_verbatim": True,
            "split": "train",
            "trajectory_group": "g1",
        }
    ]
    found["episodes"] = [
        {
            "episode_id": "ep_1",
            "source_id": SOURCE,
            "trajectory_group": "g1",
            "split": "train",
            "n_events": 8,
            "tenant": "acme",
            "environment_id": "ledger",
        }
    ]
    found |= {"events": [], "transitions": [], "evidence": [], "refs": []}
    for i, (action, arguments, answer, outcome, rule) in enumerate(STEPS):
        text = json.dumps(arguments)
        for j, (actor, kind, content) in enumerate((("agent", "action", action), ("tool", "observation", answer))):
            found["events"].append(
                {
                    "event_id": f"ev_{i}{j}",
                    "episode_id": "ep_1",
                    "ordinal": 2 * i + j,
                    "actor": actor,
                    "kind": kind,
                    "content": content,
                    "content_is_json": False,
                }
            )
        found["transitions"].append(
            {
                "transition_id": f"tr_{i}",
                "episode_id": "ep_1",
                "turn": i + 1,
                "action_event_ids": [f"ev_{i}0"],
                "observation_event_ids": [f"ev_{i}1"],
                "alignment": "correlated",
                "usable": True,
                "action_type": action,
                "arguments_json": text,
                "args_key": "0" * 16,
                "observation": answer,
            }
        )
        found["evidence"].append(
            {
                "evidence_id": f"evi_{i}",
                "transition_id": f"tr_{i}",
                "action_type": action,
                "arguments_json": text,
                "outcome": outcome,
                "observation_text": answer,
                "origin": "deterministic",
            }
        )
        found["refs"].append(
            {"owner_kind": "rule", "owner_id": rule, "source_id": SOURCE, "episode_id": "ep_1", "event_id": f"ev_{i}1"}
        )
    found["refs"].append(
        {
            "owner_kind": "invariant",
            "owner_id": "i_positive",
            "source_id": SOURCE,
            "episode_id": "ep_1",
            "event_id": "ev_01",
        }
    )
    found["demonstrations"] = [
        {
            "demo_id": "d_1",
            "action_type": "deposit",
            "arguments_json": '{"amount":5}',
            "observation": STEPS[1][2],
            "outcome": "success",
            "rule_ids": ["r_deposit"],
        }
    ]
    found["notes"] = [
        {"note_id": "n_1", "kind": "fact", "statement": "Balances are shown with one decimal.", "status": "supported"}
    ]
    found["refs"].append(
        {"owner_kind": "note", "owner_id": "n_1", "source_id": SOURCE, "episode_id": "ep_1", "event_id": "ev_01"}
    )
    return found


def package_frames(**tables: list[dict[str, Any]]) -> dict[str, pl.DataFrame]:
    """All tables, some replaced."""
    return frames(records() | tables)
