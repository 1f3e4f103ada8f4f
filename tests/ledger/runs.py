"""Runs for tests: entries with a few keys, and the ledger of one upsert after the other, written out plainly."""

from __future__ import annotations

import json
from typing import Any

from expcomp.ledger.document import with_roles
from expcomp.ledger.documents import entry_documents, from_documents
from expcomp.ledger.pack import read_pack

LOOPX, DEFAULT = read_pack("loopx"), read_pack("default")
ARCHIVE = ("archive_state", "archive_reason", "archive_batch_id", "archived_at")


def entry(run_id: str, **keys: Any) -> dict[str, Any]:
    """An ended run that failed by its solution, unless `keys` say otherwise; a key that is None is left out."""
    found = {
        "run_id": run_id,
        "benchmark_id": "b",
        "case_id": "c",
        "arm_id": "x_baseline",
        "run_group_id": "g",
        "job_name": run_id,
        "mode": "m",
        "recorded_at": "2026-01-02T00:00:00+00:00",
        "status": "completed",
        "score_status": "failed",
        "official_score": 0.0,
        "official_passed": False,
        "official_score_countable": True,
        "countable_score": 0.0,
        "failure_class": "solution_incorrect",
        "failure_scope": "case_or_solution",
    } | keys
    return {k: v for k, v in found.items() if v is not None}


def passed(run_id: str, **keys: Any) -> dict[str, Any]:
    """A run that passed."""
    good = {"official_score": 1.0, "countable_score": 1.0, "official_passed": True, "score_status": "passed"}
    return entry(run_id, **(good | {"failure_class": "none", "failure_scope": "passed"} | keys))


def frame(*entries: dict[str, Any]):
    """Runs with the roles their names say."""
    return with_roles(from_documents(list(entries), profile="loopx"), LOOPX)


def canonical(runs) -> list[str]:
    """What runs say, in an order of its own."""
    return sorted(json.dumps(e, sort_keys=True) for e in entry_documents(runs))


def upsert_one(ledger: dict[tuple[str, str], list[dict[str, Any]]], new: dict[str, Any], rules: dict[str, Any]) -> str:
    """The upsert of one run into lists, as the specification words it: what became of it."""
    if new.get("status") == "running":
        return "skipped"
    case = ledger.setdefault((new["benchmark_id"], new["case_id"]), [])
    same = [i for i, x in enumerate(case) if x["run_id"] == new["run_id"]]
    key = [new.get(k) for k in rules["key"]]
    twins = [
        x
        for x in case
        if all(key) and [x.get(k) for k in rules["key"]] == key and all(x.get(k) == new.get(k) for k in rules["equal"])
    ]
    if same:
        old = case[same[0]]
        sticky = old.get("archive_state") == "archived" and "archive_state" not in new
        case[same[0]] = dict(new) | ({k: old[k] for k in ARCHIVE if k in old} if sticky else {})
        done = "replaced"
    elif twins:
        twins[0].update({f: new[f] for f in rules["fill"] if f in new and f not in twins[0]})
        done = "filled"
    else:
        case.append(dict(new))
        done = "appended"
    case.sort(key=lambda r: (r["recorded_at"], r["run_id"]))
    return done
