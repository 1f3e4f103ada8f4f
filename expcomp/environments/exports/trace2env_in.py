"""Documents of the trace2env layout as tables of a package. Open values become canonical JSON text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

import polars as pl

from expcomp.environments.exports.trace2env_out import EPISODE_WORDS, EVENT_WORDS, PROVENANCE
from expcomp.environments.flatten import dump
from expcomp.environments.frames import frames
from expcomp.errors import PackageSchemaError
from expcomp.io.digest import sha256_hex

Document = Mapping[str, Any]
Records = dict[str, list[dict[str, Any]]]

NOTE = {"kind": "fact", "confidence": 1.0, "status": "supported"}
"""What a note that leaves a field out means in the layout."""

_STAMP = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d")


def tables(artifacts: Document) -> dict[str, pl.DataFrame]:
    """All tables of a package from the artifacts of the layout.

    Raises:
        PackageSchemaError: A document lacks a field, or holds a value that its column may not hold.
    """
    try:
        return frames(_records(artifacts))
    except (KeyError, TypeError, AttributeError) as error:
        raise PackageSchemaError(
            f"artifacts of the layout: a document is not usable ({type(error).__name__}: {error})"
        ) from None


def _records(a: Document) -> Records:
    made: Records = {
        "facts": [],
        "mutations": [],
        "conditions": [],
        "action_args": [],
        "action_aliases": [],
        "state_aliases": [],
    }
    origin = "authored" if not a.get("evidence") else "model"
    made["sources"] = list(_sources(a))
    made["episodes"], made["events"] = _episodes(a, made["sources"])
    made["evidence"] = [_evidence(d, made) for d in a.get("evidence") or ()]
    made["transitions"] = _transitions(a, made["events"], made["evidence"])
    made["action_schema"] = [_action(d, made) for d in a["action_schema"]["actions"]]
    made["state_schema"] = [_field(d, made) for d in a["state_schema"]["fields"]]
    made["rules"] = [_rule(d, made, origin) for d in a["rules"]]
    made["invariants"] = [_invariant(d, made) for d in a.get("invariants") or ()]
    made["renderers"] = [
        {
            "renderer_id": d["id"],
            **{k: d.get(k) for k in "action_types content_type template required_fields instructions examples".split()},
        }
        for d in a["renderers"]
    ]
    made["demonstrations"] = [_demonstration(d) for d in a.get("demonstrations") or ()]
    made["notes"] = [
        {
            "note_id": d["id"],
            **NOTE,
            **{k: d[k] for k in "kind statement action_types confidence status".split() if k in d},
        }
        for d in a.get("notes") or ()
    ]
    made["refs"] = list(_refs(a))
    made["unresolved"] = [
        {"ordinal": i, "stage": "layout", "message": str(m)} for i, m in enumerate(a.get("unresolved") or ())
    ]
    made["rejected"] = [
        {
            "kind": str(d.get("kind", "unknown")),
            "id": str(d.get("id", i)),
            "issues": [str(v) for v in d.get("issues") or ()],
            "artifact_json": dump(d.get("artifact", d)),
        }
        for i, d in enumerate(a.get("rejected") or ())
    ]
    return made


def _optional(value: Any) -> str | None:
    return None if value is None else dump(value)


def _sources(a: Document) -> Iterator[dict[str, Any]]:
    texts, splits = a.get("source_snapshots") or {}, a.get("split_assignments") or {}
    for source in sorted({*texts, *splits, *(e["source_id"] for e in a.get("episodes") or ())}):
        text = texts.get(source)
        data = None if text is None else text.encode()
        told = splits.get(source) or {}
        yield {
            "source_id": source,
            "n_bytes": None if data is None else len(data),
            "media": "text" if text is None or text.lstrip()[:1] not in ("{", "[") else "json",
            "label": "source",
            "text": text,
            "text_verbatim": None if data is None else f"src_{sha256_hex(data)}" == source,
            "split": told.get("split"),
            "trajectory_group": told.get("trajectory_group"),
        }


def _episodes(a: Document, sources: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    by_source = {s["source_id"]: s for s in sources}
    episodes, events = [], []
    for d in a.get("episodes") or ():
        metadata, source = dict(d.get("metadata") or {}), by_source[d["source_id"]]
        told = _taken(metadata, EPISODE_WORDS)
        told["trajectory_group"] = told.get("trajectory_group") or source["trajectory_group"] or d["source_id"]
        told["split"] = told.get("split") or source["split"] or "train"
        episodes.append({"episode_id": d["id"], "source_id": d["source_id"], "n_events": len(d["events"]), **told})
        events += [_event(e, d["id"], i) for i, e in enumerate(d["events"])]
    return episodes, events


def _taken(metadata: dict[str, Any], words: list[str]) -> dict[str, Any]:
    """Metadata by column; what no column takes is in `metadata_json`. A local path is not taken over."""
    told = {k: metadata.pop(k) for k in words if k in metadata}
    rest = {k: v for k, v in metadata.items() if not (isinstance(v, str) and PurePath(v).is_absolute())}
    if rest and "metadata_json" not in told:
        told["metadata_json"] = dump(rest)
    return told


def _event(d: Document, episode: str, ordinal: int) -> dict[str, Any]:
    content, metadata = d["content"], dict(d.get("metadata") or {})
    is_text = isinstance(content, str)
    told = {"content_is_json": not is_text, **_taken(metadata, EVENT_WORDS)}
    stamp = d.get("timestamp")
    if stamp is not None:
        moment = (
            pl.Series([stamp]).str.to_datetime(time_unit="us", time_zone="UTC", strict=False)[0]
            if _STAMP.match(stamp)
            else None
        )
        told["timestamp"] = moment
    return {
        "event_id": d["id"],
        "episode_id": episode,
        "ordinal": ordinal,
        "actor": d.get("actor", "unknown"),
        "kind": d.get("kind", "message"),
        "content": content if is_text else dump(content),
        **told,
    }


def _transitions(a: Document, events: list[dict[str, Any]], evidence: list[dict[str, Any]]) -> list[dict[str, Any]]:
    content = {e["event_id"]: e["content"] for e in events}
    said = {e["transition_id"]: e for e in evidence}
    turns: dict[str, int] = {}
    found = []
    for d in a.get("transitions") or ():
        turns[d["episode_id"]] = turn = turns.get(d["episode_id"], 0) + 1
        alignment, concurrent = d.get("alignment", "sequential"), d.get("concurrent_action_event_ids") or []
        told = said.get(d["id"], {})
        arguments = told.get("arguments_json", "{}")
        answers = [content[e] for e in d["observation_event_ids"] if e in content]
        found.append(
            {
                "transition_id": d["id"],
                "episode_id": d["episode_id"],
                "turn": turn,
                "action_event_ids": d["action_event_ids"],
                "observation_event_ids": d["observation_event_ids"],
                "delayed_observation_event_ids": d.get("delayed_observation_event_ids"),
                "concurrent_action_event_ids": concurrent,
                "history_event_ids": d.get("history_event_ids"),
                "alignment": alignment,
                "ambiguities": d.get("ambiguities"),
                "usable": alignment != "ambiguous" and not concurrent,
                "action_type": told.get("action_type", "unknown"),
                "arguments_json": arguments,
                "args_key": sha256_hex(arguments.encode())[:16],
                "observation": "\n".join(answers) if answers else None,
            }
        )
    return found


def _evidence(d: Document, made: Records) -> dict[str, Any]:
    for role, key in (("precondition", "preconditions"), ("observation", "observation_facts")):
        made["facts"] += [
            {
                "evidence_id": d["id"],
                "role": role,
                "subject": f["subject"],
                "predicate": f["predicate"],
                "value_json": _optional(f.get("value")),
                "status": f.get("status", "observed"),
                "confidence": f.get("confidence", 1.0),
            }
            for f in d.get(key) or ()
        ]
    _changes("evidence", d["id"], d.get("mutations") or (), made)
    confidence = d.get("confidence") or {}
    return {
        "evidence_id": d["id"],
        "transition_id": d["transition_id"],
        "action_type": d["action"]["type"],
        "arguments_json": dump(d["action"].get("arguments") or {}),
        "outcome": d.get("outcome", "unknown"),
        "confidence": confidence.get("value"),
        "rationale": confidence.get("rationale") or None,
        "observation_text": d.get("observation_text") or None,
        "latent_variables": d.get("latent_variables"),
        "ambiguities": d.get("ambiguities"),
        "origin": "model",
    }


def _changes(kind: str, owner: str, changes: Any, made: Records) -> None:
    for i, c in enumerate(changes):
        value, op = c.get("value"), c["op"]
        if op == "schedule" and kind == "rule":
            queue = f"{owner}_pending_{i}"
            queued = (
                value["effects"]
                if isinstance(value, Mapping) and "effects" in value
                else [{"op": "set", "path": c["path"], "value": value}]
            )
            _changes("pending", queue, queued, made)
            value = queue
        made["mutations"].append(
            {
                "owner_kind": kind,
                "owner_id": owner,
                "ordinal": i,
                "op": op,
                "path": c["path"],
                "value_json": None if op == "delete" else dump(value),
                "delay_steps": c.get("delay_steps"),
            }
        )


def _conditions(owner: str, conditions: Any, made: Records) -> None:
    for i, c in enumerate(conditions):
        told = {"owner_id": owner, "ordinal": i, "op": c["op"]}
        for side in ("left", "right"):
            operand = c.get(side)
            if operand is not None:
                kind = next((k for k in ("path", "action_arg") if operand.get(k) is not None), "literal")
                told |= {f"{side}_kind": kind}
                told[side] = dump(operand.get("literal")) if kind == "literal" else operand[kind]
        if c["op"] in ("exists", "not_exists"):
            told |= {"right_kind": None, "right": None}
        made["conditions"].append(told)


def _action(d: Document, made: Records) -> dict[str, Any]:
    made["action_args"] += [
        {
            "action": d["name"],
            "arg": arg,
            "type": spec.get("type", "any"),
            "required": spec.get("required", False),
            "enum_json": _optional(spec.get("enum")),
            "description": spec.get("description") or None,
        }
        for arg, spec in (d.get("arguments") or {}).items()
    ]
    made["action_aliases"] += [{"alias": alias, "action": d["name"]} for alias in d.get("aliases") or ()]
    return {"action": d["name"], "description": d.get("description") or None}


def _field(d: Document, made: Records) -> dict[str, Any]:
    made["state_aliases"] += [{"alias": alias, "path": d["path"]} for alias in d.get("aliases") or ()]
    return {
        "path": d["path"],
        "type": d.get("type", "any"),
        "default_json": _optional(d.get("default")),
        "mutable": d.get("mutable", True),
        "visibility": d.get("visibility", "world"),
        "description": d.get("description") or None,
    }


def _rule(d: Document, made: Records, origin: str) -> dict[str, Any]:
    _conditions(d["id"], d.get("conditions") or (), made)
    _changes("rule", d["id"], d.get("effects") or (), made)
    return {
        "rule_id": d["id"],
        "action_type": d["action_type"],
        "description": d.get("description") or None,
        "priority": d.get("priority", 0),
        "outcome": d.get("outcome", "success"),
        "renderer": d.get("renderer", "default"),
        "observation_template": d.get("observation_template"),
        "confidence": d.get("confidence", 1.0),  # the layout's own default
        "status": d.get("status", "supported"),
        "scope_json": dump(d.get("scope") or {}),
        "origin": origin,
    }


def _invariant(d: Document, made: Records) -> dict[str, Any]:
    _conditions(d["id"], [d["condition"]], made)
    return {
        "invariant_id": d["id"],
        "description": d.get("description") or None,
        "severity": d.get("severity", "error"),
    }


def _demonstration(d: Document) -> dict[str, Any]:
    return {
        "demo_id": d["id"],
        "action_type": d["action"]["type"],
        "arguments_json": dump(d["action"].get("arguments") or {}),
        "state_before_json": dump(d["state_before"]) if d.get("state_before") else None,
        "state_after_json": dump(d["state_after"]) if d.get("state_after") else None,
        "observation": d["observation"],
        "outcome": d.get("outcome", "unknown"),
        "rule_ids": d.get("rule_ids"),
    }


def _refs(a: Document) -> Iterator[dict[str, Any]]:
    for kind, name in PROVENANCE.items():
        group = {"actions": a["action_schema"]["actions"], "state_fields": a["state_schema"]["fields"]}
        for d in group.get(name) or a.get(name) or ():
            owner = d.get("id") or d.get("name") or d.get("path")
            for role, key in (("support", "provenance"), ("counterexample", "counterexamples")):
                for cited in d.get(key) or ():
                    told = {k: cited.get(k) for k in ("source_id", "episode_id", "locator", "excerpt")}
                    for event in cited.get("event_ids") or [None]:
                        yield {"owner_kind": kind, "owner_id": owner, "role": role, "event_id": event, **told}
