"""The search index of the trace2env layout: rules, examples, state paths, and all knowledge as full text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from expcomp.io.database_files import write_database

SCHEMA = """
CREATE TABLE rules (
    id TEXT PRIMARY KEY, action_type TEXT NOT NULL, priority INTEGER NOT NULL, confidence REAL NOT NULL,
    status TEXT NOT NULL, description TEXT NOT NULL, artifact_path TEXT NOT NULL
);
CREATE INDEX rules_action_idx ON rules(action_type, priority DESC);
CREATE TABLE demonstrations (
    id TEXT PRIMARY KEY, action_type TEXT NOT NULL, observation TEXT NOT NULL, artifact_path TEXT NOT NULL
);
CREATE INDEX demo_action_idx ON demonstrations(action_type);
CREATE TABLE state_fields (
    path TEXT PRIMARY KEY, type TEXT NOT NULL, description TEXT NOT NULL, visibility TEXT NOT NULL
);
CREATE TABLE knowledge (
    id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, ref_id TEXT NOT NULL, action_type TEXT NOT NULL,
    text TEXT NOT NULL, artifact_path TEXT NOT NULL
);
CREATE INDEX knowledge_kind_idx ON knowledge(kind, action_type);
CREATE VIRTUAL TABLE knowledge_fts USING fts5(
    kind UNINDEXED, ref_id UNINDEXED, action_type, text, content='knowledge', content_rowid='id'
)
""".split(";")
FINISH = ("INSERT INTO knowledge_fts(knowledge_fts) VALUES ('rebuild')",)

RULES, DEMONSTRATIONS, EVIDENCE = (
    "rules/index.jsonl",
    "demonstrations/transitions.jsonl",
    "evidence/local_transitions.jsonl",
)


def write_layout_index(artifacts: Mapping[str, Any], executable: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write the index of some artifacts.

    Args:
        artifacts: Documents of the layout.
        executable: The rules that run; withheld ones are found as knowledge, with their status.
        path: File.
    """
    fields, demos = artifacts["state_schema"]["fields"], artifacts["demonstrations"]
    keys = ("id", "action_type", "priority", "confidence", "status", "description")
    rows = [
        ("INSERT INTO rules VALUES (?, ?, ?, ?, ?, ?, ?)", [(*(r[k] for k in keys), RULES) for r in executable]),
        (
            "INSERT INTO demonstrations VALUES (?, ?, ?, ?)",
            [(d["id"], d["action"]["type"], d["observation"], DEMONSTRATIONS) for d in demos],
        ),
        (
            "INSERT INTO state_fields VALUES (?, ?, ?, ?)",
            [(f["path"], f["type"], f["description"], f["visibility"]) for f in fields],
        ),
        (
            "INSERT INTO knowledge(kind, ref_id, action_type, text, artifact_path) VALUES (?, ?, ?, ?, ?)",
            _knowledge(artifacts),
        ),
    ]
    write_database(path, SCHEMA, rows, FINISH)


def _knowledge(a: Mapping[str, Any]) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = [
        (
            "action",
            d["name"],
            d["name"],
            f"{d['name']} {d['description']} {' '.join(d['aliases'])}",
            "action_schema.json",
        )
        for d in a["action_schema"]["actions"]
    ]
    found += [
        (
            "rule",
            r["id"],
            r["action_type"],
            f"{r['status']} {r['outcome']}: {r['description']}",
            "candidates/rules.jsonl",
        )
        for r in a["rules"]
    ]
    found += [
        ("note", n["id"], ",".join(n["action_types"]), f"{n['kind']}: {n['statement']}", "knowledge/notes.jsonl")
        for n in a["notes"]
    ]
    for kind, group, text, path in (
        ("demonstration", a["demonstrations"], "observation", DEMONSTRATIONS),
        ("evidence", a["evidence"], "observation_text", EVIDENCE),
    ):
        found += [(kind, d["id"], d["action"]["type"], f"{_call(d['action'])}\n{d[text]}", path) for d in group]
    return found


def _call(action: Mapping[str, Any]) -> str:
    return f"{action['type']} {json.dumps(action['arguments'], ensure_ascii=False)}"
