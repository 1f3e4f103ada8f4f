"""Typed patches: add, replace or remove items of a package by key; the result is a new candidate.

A patch is a JSON document:

    {"base": "sha256:...", "edits": [
      {"op": "replace", "table": "rules", "key": {"rule_id": "r1"},
       "record": {"rule_id": "r1", ...}, "parts": {"conditions": [...], "mutations": [...], "refs": [...]}},
      {"op": "remove", "table": "notes", "key": {"note_id": "n1"}}]}

`parts` are the lines that belong to a rule, invariant or note; they go and come with it. Their owner need not be said. A part
that a replacement leaves out stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Any

import polars as pl

from expcomp.environments.frames import frame
from expcomp.environments.package import EnvironmentPackage, compile_package
from expcomp.errors import UsageError
from expcomp.tables.environment import PACKAGE

RECORDED = frozenset("sources episodes events transitions evidence facts unresolved rejected".split())
"""Tables that say what was recorded or done; a patch cannot change them."""

OWNED: dict[str, tuple[str, tuple[str, ...]]] = {
    "rules": ("rule", ("conditions", "mutations", "refs")),
    "invariants": ("invariant", ("conditions", "refs")),
    "notes": ("note", ("refs",)),
}
"""Kind of owner and tables of its parts."""

OPS = ("add", "replace", "remove")


def apply_patch(package: EnvironmentPackage, patch: Mapping[str, Any]) -> EnvironmentPackage:
    """The candidate that a patch makes of a package, reconciled and through all gates.

    Raises:
        UsageError: The patch is for another package, edits one item twice, or an item that is (not) there.
        EnvironmentPackageError: What comes out does not pass a gate.
    """
    if not isinstance(patch, Mapping):
        raise UsageError(f"patch: {type(patch).__name__}, expected an object of base and edits")
    if unknown := sorted(set(patch) - {"base", "edits"}):
        raise UsageError(f"patch: unknown field {', '.join(unknown)}; known are base, edits")
    if patch.get("base") != package.artifact_digest:
        raise UsageError(
            f"patch: base {patch.get('base')!r} is not the artifact digest of the package, {package.artifact_digest}"
        )
    edits = patch.get("edits")
    if not isinstance(edits, list) or not edits:
        raise UsageError("patch: expected a list of edits")
    seen: set[tuple[Any, ...]] = set()
    frames = dict(package.frames)
    for number, edit in enumerate(edits):
        where = f"patch, edit {number}"
        item = _item(edit, where)
        if item in seen:
            raise UsageError(f"{where}: {item[0]} {item[1:]} is edited twice")
        seen.add(item)
        frames = _applied(frames, edit, where)
    return compile_package(frames, package.config)


def _item(edit: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(edit, Mapping) or edit.get("op") not in OPS:
        raise UsageError(f"{where}: expected an object whose op is one of {', '.join(OPS)}")
    if unknown := sorted(set(edit) - {"op", "table", "key", "record", "parts"}):
        raise UsageError(f"{where}: unknown field {', '.join(unknown)}")
    table = edit.get("table")
    if not isinstance(table, str) or table not in PACKAGE or table in RECORDED or not PACKAGE[table].keys:
        legal = [n for n, t in PACKAGE.items() if n not in RECORDED and t.keys]
        raise UsageError(f"{where}: table {table!r}, expected one of {', '.join(legal)}")
    keys, key = PACKAGE[table].keys, edit.get("key")
    if not isinstance(key, Mapping) or set(key) != set(keys):
        raise UsageError(f"{where}: key {key!r}, expected an object of {', '.join(keys)}")
    if odd := [k for k, v in key.items() if not isinstance(v, str | int)]:
        raise UsageError(f"{where}: key {odd[0]} is {key[odd[0]]!r:.60}, expected a text or a number")
    record = edit.get("record")
    if record is not None and not isinstance(record, Mapping):
        raise UsageError(f"{where}: record is {type(record).__name__}, expected an object")
    if (record is None) is not (edit["op"] == "remove"):
        raise UsageError(f"{where}: {edit['op']} {'takes no' if record is not None else 'needs a'} record")
    if record is not None and any(record.get(k) != key[k] for k in keys):
        raise UsageError(f"{where}: the record has another key")
    return (table, *(key[k] for k in keys))


def _applied(frames: dict[str, pl.DataFrame], edit: Mapping[str, Any], where: str) -> dict[str, pl.DataFrame]:
    table, op, key = edit["table"], edit["op"], edit["key"]
    here = reduce(lambda a, b: a & b, [pl.col(k).cast(pl.String) == str(v) for k, v in key.items()])
    there = frames[table].filter(here).height > 0
    if there is (op == "add"):
        raise UsageError(f"{where}: {table} {dict(key)} is {'there already' if there else 'not there'}")
    kept = frames[table].filter(~here)
    changed = {table: kept if op == "remove" else pl.concat([kept, frame(table, [edit["record"]])])}
    parts = edit.get("parts") or {}
    if not isinstance(parts, Mapping):
        raise UsageError(f"{where}: parts is {type(parts).__name__}, expected an object of lists")
    for name, lines in parts.items():
        if not isinstance(lines, list) or not all(isinstance(line, Mapping) for line in lines):
            raise UsageError(f"{where}: parts.{name} is no list of objects")
    kind, names = OWNED.get(table, ("", ()))
    if unknown := sorted(set(parts) - set(names)):
        raise UsageError(f"{where}: {table} has no parts {', '.join(unknown)}")
    owner = next(iter(key.values()))
    for name in names if op == "remove" else parts:
        columns = PACKAGE[name].columns
        mine = pl.col("owner_id") == owner
        if "owner_kind" in columns:
            mine &= pl.col("owner_kind").cast(pl.String) == kind
        own = {"owner_id": owner, **({"owner_kind": kind} if "owner_kind" in columns else {})}
        order = {"ordinal"} & set(columns)
        lines = [{**dict.fromkeys(order, i), **part, **own} for i, part in enumerate(parts.get(name, ()))]
        changed[name] = pl.concat([frames[name].filter(~mine), frame(name, lines)])
    return frames | changed
