"""What tau-bench files leave to be found out: the domain of a row, and what a file name says of the arm.

Domain of a row, in this order: the title of the policy in its system message; the tools that only one domain has, in
its gold actions or its calls; the one domain that the other rows of the file show; the file name; `unknown`.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

from expcomp.sources._values import items, obj, text

UNKNOWN = "unknown"
_POLICY = re.compile(r"^\s*#\s*(\w+)\s+agent\s+policy", re.IGNORECASE)
_DOMAINS = ("airline", "retail", "telecom")
_TOOLS = {
    "airline": (
        "book_reservation cancel_reservation get_reservation_details list_all_airports search_direct_flight "
        "search_onestop_flight send_certificate update_reservation_baggages update_reservation_flights "
        "update_reservation_passengers"
    ),
    "retail": (
        "cancel_pending_order exchange_delivered_order_items find_user_id_by_email find_user_id_by_name_zip "
        "get_order_details get_product_details list_all_product_types modify_pending_order_address "
        "modify_pending_order_items modify_pending_order_payment modify_user_address return_delivered_order_items"
    ),
}
_DOMAIN_OF = {tool: domain for domain, tools in _TOOLS.items() for tool in tools.split()}
_SUFFIX = re.compile(r"(\.jsonl?|\.gz|\.zst)+$", re.IGNORECASE)
_TRIAL = re.compile(r"^(.*?)[-_.]?trial[-_]?(\d{1,6})$", re.IGNORECASE)
_HISTORICAL = re.compile(rf"^(.+?)[-_](?:{'|'.join(_DOMAINS)})$", re.IGNORECASE)
_NATIVE = re.compile(
    r"^(?P<agent>tool-calling|act|react|few-shot)-(?P<model>.+?)-(?P<temperature>\d+(?:\.\d+)?)"
    r"_range_-?\d+-?-?\d+_user-(?P<user_model>.+)-(?P<user_strategy>llm|react|verify|reflection|human)(?:_(?P<stamp>\d+))?$"
)


def domain_in_row(row: dict[str, Any]) -> str | None:
    """Domain that the row itself shows."""
    for message in items(row.get("traj"))[:1]:
        title = _POLICY.match(text(obj(message).get("content")) or "") if obj(message).get("role") == "system" else None
        if title:
            return title.group(1).lower()
    names = [obj(a).get("name") for a in items(obj(obj(row.get("info")).get("task")).get("actions"))]
    for message in items(row.get("traj")):
        names += [obj(obj(c).get("function")).get("name") for c in items(obj(message).get("tool_calls"))]
    votes = Counter(_DOMAIN_OF[n] for n in names if isinstance(n, str) and n in _DOMAIN_OF)
    ranked = votes.most_common(2)
    return ranked[0][0] if ranked and (len(ranked) == 1 or ranked[0][1] > ranked[1][1]) else None


def domains(rows: list[dict[str, Any]], stem: str) -> list[str]:
    """Domain of each row of one file."""
    shown = [domain_in_row(row) for row in rows]
    known = {d for d in shown if d is not None}
    named = [d for d in _DOMAINS if d in stem.lower()]
    rest = known.pop() if len(known) == 1 else named[0] if len(named) == 1 else UNKNOWN
    return [d or rest for d in shown]


@dataclass(frozen=True, slots=True)
class FileName:
    """What a file name says; all of it is a fallback, the rows know nothing of model and agent.

    Attributes:
        run: Name without suffixes.
        arm: Run without a trailing trial number.
        trial: That number.
        agent: Agent strategy, in names that tau-bench itself writes.
        model: Model, in such names and in `<model>-<domain>`.
        params: The other parts of such a name.
    """

    run: str
    arm: str
    trial: int | None
    agent: str | None
    model: str | None
    params: dict[str, Any]


def read_name(name: str) -> FileName:
    """Take a file name apart."""
    run = _SUFFIX.sub("", name) or name
    numbered = _TRIAL.match(run)
    arm = (numbered.group(1) or run) if numbered else run
    trial = int(numbered.group(2)) if numbered else None
    native = _NATIVE.match(arm)
    if native:
        found = native.groupdict()
        params = {
            "temperature": float(found["temperature"]),
            "user_model": found["user_model"],
            "user_strategy": found["user_strategy"],
        }
        model = None if found["model"] == "none" else found["model"]
        # The time stamp at the end tells runs apart, not arms.
        arm = arm.removesuffix(f"_{found['stamp']}") if found["stamp"] else arm
        return FileName(run, arm, trial, found["agent"], model, params)
    historical = _HISTORICAL.match(arm)
    return FileName(run, arm, trial, None, historical.group(1) if historical else None, {})
