"""Tables of a package as the documents of the trace2env layout, schema version 1.1.

Every document has all fields of its kind. What the layout has no word for is left to the caller: `skip` names the rules
and invariants that its language cannot say.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import polars as pl

from expcomp.environments.records import Frames, lines

Document = dict[str, Any]

EPISODE_WORDS = (
    "original_id trajectory_group split environment_id tenant environment_version task_id agent reward metadata_json"
).split()
"""Columns of an episode that go to its metadata."""

EVENT_WORDS = (
    "content_is_json call_id action_name arguments is_error parent_event_id batch_size char_start char_end metadata_json"
).split()
"""Columns of an event that go to its metadata."""

PROVENANCE = {
    "evidence": "evidence",
    "action": "actions",
    "state": "state_fields",
    "rule": "rules",
    "invariant": "invariants",
    "renderer": "renderers",
    "demonstration": "demonstrations",
    "note": "notes",
}
"""Kind of owner in `refs`: the documents that carry its citations."""


class Citations:
    """Provenance by owner, from `refs`: one citation a source, episode, locator and excerpt, with its events."""

    def __init__(self, refs: pl.DataFrame) -> None:
        where = ("owner_kind", "owner_id", "role", "source_id", "episode_id", "locator", "excerpt")
        grouped = refs.group_by(where, maintain_order=True).agg(pl.col("event_id").drop_nulls().sort())
        self._by: dict[tuple[str, str, str], list[Document]] = {}
        for kind, owner, role, source, episode, locator, excerpt, events in lines(grouped, *where, "event_id"):
            told = {
                "source_id": source,
                "episode_id": episode,
                "event_ids": events,
                "locator": locator,
                "excerpt": excerpt,
            }
            self._by.setdefault((kind, owner, role), []).append(told)

    def of(self, kind: str, owner: str, role: str = "support") -> list[Document]:
        """Citations of one owner."""
        return self._by.get((kind, owner, role), [])


def documents(frames: Frames, skip: Mapping[str, list[str]]) -> Document:
    """The artifacts of a package, as one object.

    Args:
        frames: All tables.
        skip: Why a rule or invariant cannot be said in the layout, by id; it goes to `rejected`.
    """
    cited = Citations(frames["refs"])
    changes, conditions = _changes(frames["mutations"]), _conditions(frames["conditions"])
    rules = _rules(frames, cited, changes, conditions)
    invariants = _invariants(frames, cited, conditions)
    aside = [
        {"kind": kind, "id": d["id"], "issues": skip[d["id"]], "artifact": d}
        for kind, group in (("rules", rules), ("invariants", invariants))
        for d in group
        if d["id"] in skip
    ]
    return {
        "episodes": _episodes(frames),
        "transitions": _transitions(frames["transitions"]),
        "evidence": _evidence(frames, cited, changes),
        "action_schema": {"actions": _actions(frames, cited)},
        "state_schema": {"fields": _state(frames, cited)},
        "rules": [d for d in rules if d["id"] not in skip],
        "invariants": [d for d in invariants if d["id"] not in skip],
        "renderers": _renderers(frames["renderers"], cited),
        "demonstrations": _demonstrations(frames["demonstrations"], cited),
        "notes": _notes(frames["notes"], cited),
        "unresolved": [m for (m,) in lines(frames["unresolved"].sort("ordinal"), "message")],
        "rejected": [
            {"kind": kind, "id": i, "issues": issues, "artifact": json.loads(text)}
            for kind, i, issues, text in lines(frames["rejected"], "kind", "id", "issues", "artifact_json")
        ]
        + aside,
        "source_snapshots": dict(lines(frames["sources"].drop_nulls("text"), "source_id", "text")),
        "split_assignments": {
            source: {"split": split, "trajectory_group": group}
            for source, split, group in lines(
                frames["sources"].drop_nulls(["split", "trajectory_group"]), "source_id", "split", "trajectory_group"
            )
        },
    }


def _known(names: list[str], values: tuple[Any, ...]) -> Document:
    return {n: v for n, v in zip(names, values, strict=True) if v is not None}


def _episodes(frames: Frames) -> list[Document]:
    events: dict[str, list[Document]] = {}
    stamp = pl.col("timestamp").dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ")
    ordered = frames["events"].sort("episode_id", "ordinal").with_columns(stamp)
    names = ("episode_id", "event_id", "actor", "kind", "content", "timestamp")
    for episode, event, actor, kind, content, time, *rest in lines(ordered, *names, *EVENT_WORDS):
        told = {"id": event, "actor": actor, "kind": kind, "content": content, "timestamp": time}
        events.setdefault(episode, []).append(
            told | {"metadata": _known(EVENT_WORDS, tuple(rest)), "raw_payload": None}
        )
    return [
        {"id": i, "source_id": source, "events": events.get(i, []), "metadata": _known(EPISODE_WORDS, tuple(rest))}
        for i, source, *rest in lines(frames["episodes"], "episode_id", "source_id", *EPISODE_WORDS)
    ]


def _transitions(frame: pl.DataFrame) -> list[Document]:
    names = (
        "episode_id history_event_ids action_event_ids observation_event_ids delayed_observation_event_ids "
        "concurrent_action_event_ids alignment ambiguities"
    ).split()
    return [
        {"id": i, **dict(zip(names, rest, strict=True))}
        for i, *rest in lines(frame.sort("episode_id", "turn"), "transition_id", *names)
    ]


def _action(action: str, arguments: str) -> Document:
    return {"type": action, "arguments": json.loads(arguments), "raw": None}


def _evidence(frames: Frames, cited: Citations, changes: Mapping[tuple[str, str], list[Document]]) -> list[Document]:
    facts: dict[tuple[str, str], list[Document]] = {}
    names = ("evidence_id", "role", "subject", "predicate", "value_json", "status", "confidence")
    for owner, role, subject, predicate, value, status, confidence in lines(frames["facts"], *names):
        told = {"subject": subject, "predicate": predicate, "value": None if value is None else json.loads(value)}
        told |= {"status": status, "confidence": confidence or 0.0, "provenance": []}
        facts.setdefault((owner, role), []).append(told)
    placed = frames["evidence"].join(
        frames["transitions"].select("transition_id", "episode_id"),
        on="transition_id",
        how="left",
        maintain_order="left",
    )
    names = (
        "evidence_id episode_id transition_id action_type arguments_json outcome observation_text latent_variables ambiguities "
        "confidence rationale"
    ).split()  # type: ignore[assignment]
    return [
        {
            "id": i,
            "episode_id": episode,
            "transition_id": transition,
            "preconditions": facts.get((i, "precondition"), []),
            "action": _action(action, arguments),
            "outcome": outcome,
            "mutations": changes.get(("evidence", i), []),
            "observation_facts": facts.get((i, "observation"), []),
            "observation_text": text or "",
            "latent_variables": latent,
            "ambiguities": unsure,
            "confidence": {"value": confidence or 0.0, "rationale": rationale or ""},
            "provenance": cited.of("evidence", i),
        }
        for i, episode, transition, action, arguments, outcome, text, latent, unsure, confidence, rationale in lines(
            placed, *names
        )
    ]


def _changes(frame: pl.DataFrame) -> dict[tuple[str, str], list[Document]]:
    """Mutations by owner; a schedule holds what it queues."""
    found: dict[tuple[str, str], list[Document]] = {}
    names = ("owner_kind", "owner_id", "op", "path", "value_json", "value_ref", "delay_steps")
    first = pl.col("owner_kind") != "pending"
    for kind, owner, op, path, text, ref, delay in lines(
        frame.sort(first, "owner_kind", "owner_id", "ordinal"), *names
    ):
        value: Any = None if text is None else json.loads(text)
        if op == "schedule" and ref == "literal" and ("pending", value) in found:
            value = {"effects": found["pending", value]}
        elif ref == "arg":
            value = {"$action_arg": value}
        told = {"op": op, "path": path, "value": value, "delay_steps": delay}
        found.setdefault((kind, owner), []).append(told)
    return found


def _conditions(frame: pl.DataFrame) -> dict[str, list[Document]]:
    found: dict[str, list[Document]] = {}
    names = ("owner_id", "left_kind", "left", "op", "right_kind", "right")
    for owner, left_kind, left, op, right_kind, right in lines(frame.sort("owner_id", "group", "ordinal"), *names):
        told = {"left": _operand(left_kind, left), "op": op}
        told["right"] = None if right_kind is None else _operand(right_kind, right)
        found.setdefault(owner, []).append(told)
    return found


def _operand(kind: str, text: str) -> Document:
    blank = {"path": None, "action_arg": None, "literal": None}
    if kind == "expr":
        return {"expr": text}  # only in what is set aside: the layout has no such operand
    return blank | {kind: json.loads(text) if kind == "literal" else text}


def _actions(frames: Frames, cited: Citations) -> list[Document]:
    arguments: dict[str, Document] = {}
    names = ("action", "arg", "type", "required", "description", "enum_json")
    for action, arg, kind, required, told, enum in lines(frames["action_args"], *names):
        spec = {"type": kind, "required": required, "description": told or ""}
        arguments.setdefault(action, {})[arg] = spec | {"enum": None if enum is None else json.loads(enum)}
    aliases: dict[str, list[str]] = {}
    for alias, action in lines(frames["action_aliases"].sort("alias"), "alias", "action"):
        aliases.setdefault(action, []).append(alias)
    return [
        {
            "name": action,
            "description": told or "",
            "arguments": arguments.get(action, {}),
            "aliases": aliases.get(action, []),
            "provenance": cited.of("action", action),
        }
        for action, told in lines(frames["action_schema"], "action", "description")
    ]


def _state(frames: Frames, cited: Citations) -> list[Document]:
    aliases: dict[str, list[str]] = {}
    for alias, path in lines(frames["state_aliases"].sort("alias"), "alias", "path"):
        aliases.setdefault(path, []).append(alias)
    names = ("path", "type", "description", "default_json", "mutable", "visibility")
    return [
        {
            "path": path,
            "type": kind,
            "description": told or "",
            "default": None if default is None else json.loads(default),
            "mutable": mutable,
            "visibility": seen,
            "aliases": aliases.get(path, []),
            "provenance": cited.of("state", path),
        }
        for path, kind, told, default, mutable, seen in lines(frames["state_schema"], *names)
    ]


def _rules(
    frames: Frames,
    cited: Citations,
    changes: Mapping[tuple[str, str], list[Document]],
    conditions: Mapping[str, list[Document]],
) -> list[Document]:
    names = (
        "rule_id action_type description priority outcome renderer observation_template confidence status scope_json"
    ).split()
    return [
        {
            "id": i,
            "action_type": action,
            "description": told or "",
            "priority": priority,
            "conditions": conditions.get(i, []),
            "effects": changes.get(("rule", i), []),
            "outcome": outcome,
            "renderer": renderer,
            "observation_template": template,
            "confidence": confidence or 0.0,
            "status": status,
            "provenance": cited.of("rule", i),
            "counterexamples": cited.of("rule", i, "counterexample"),
            "scope": json.loads(scope),
        }
        for i, action, told, priority, outcome, renderer, template, confidence, status, scope in lines(
            frames["rules"], *names
        )
    ]


def _invariants(frames: Frames, cited: Citations, conditions: Mapping[str, list[Document]]) -> list[Document]:
    return [
        {
            "id": i,
            "description": told or "",
            "condition": next(iter(conditions.get(i, ())), None),
            "severity": severity,
            "provenance": cited.of("invariant", i),
        }
        for i, told, severity in lines(frames["invariants"], "invariant_id", "description", "severity")
    ]


def _renderers(frame: pl.DataFrame, cited: Citations) -> list[Document]:
    names = "action_types content_type template required_fields instructions examples".split()
    return [
        {"id": i, **dict(zip(names, rest, strict=True)), "provenance": cited.of("renderer", i)}
        for i, *rest in lines(frame, "renderer_id", *names)
    ]


def _demonstrations(frame: pl.DataFrame, cited: Citations) -> list[Document]:
    names = (
        "demo_id action_type arguments_json state_before_json state_after_json observation outcome rule_ids"
    ).split()
    return [
        {
            "id": i,
            "action": _action(action, arguments),
            "state_before": json.loads(before or "{}"),
            "state_after": json.loads(after or "{}"),
            "observation": text,
            "rule_ids": rules,
            "provenance": cited.of("demonstration", i),
            "outcome": outcome,
        }
        for i, action, arguments, before, after, text, outcome, rules in lines(frame, *names)
    ]


def _notes(frame: pl.DataFrame, cited: Citations) -> list[Document]:
    names = ("note_id", "kind", "statement", "action_types", "confidence", "status")
    return [
        {
            "id": i,
            "kind": kind,
            "statement": statement,
            "action_types": actions,
            "confidence": confidence or 0.0,
            "status": status,
            "provenance": cited.of("note", i),
        }
        for i, kind, statement, actions, confidence, status in lines(frame, *names)
    ]
