"""What people read in a package: overview, rules in words, schemas as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.environments.records import Frames, lines

if TYPE_CHECKING:
    from expcomp.environments.package import EnvironmentPackage

SIGNS = {"eq": "=", "ne": "≠", "gt": ">", "gte": "≥", "lt": "<", "lte": "≤"}
TYPES = {"any": None}


def tool_schemas(frames: Frames) -> list[dict[str, Any]]:
    """The actions as function schemas (JSON Schema), as tool-using models take them."""
    arguments: dict[str, dict[str, dict[str, Any]]] = {a: {} for a in frames["action_schema"]["action"]}
    required: dict[str, list[str]] = {a: [] for a in arguments}
    names = ("action", "arg", "type", "required", "enum_json", "description")
    for action, arg, kind, needed, enum, told in lines(frames["action_args"].sort("action", "arg"), *names):
        spec: dict[str, Any] = {} if TYPES.get(kind, kind) is None else {"type": kind}
        if enum is not None:
            spec["enum"] = json.loads(enum)
        if told is not None:
            spec["description"] = told
        arguments[action][arg] = spec
        if needed:
            required[action].append(arg)
    return [
        {
            "type": "function",
            "function": {
                "name": action,
                **({} if told is None else {"description": told}),
                "parameters": {"type": "object", "properties": arguments[action], "required": required[action]},
            },
        }
        for action, told in lines(frames["action_schema"].sort("action"), "action", "description")
    ]


def state_fields(frames: Frames) -> list[dict[str, Any]]:
    """The declared state paths."""
    names = ("path", "type", "mutable", "default_json", "description")
    return [
        {
            "path": path,
            "type": kind,
            "mutable": mutable,
            **({} if default is None else {"default": json.loads(default)}),
            **({} if told is None else {"description": told}),
        }
        for path, kind, mutable, default, told in lines(frames["state_schema"].sort("path"), *names)
    ]


def rules_text(frames: Frames) -> str:
    """Every rule in words, by action."""
    when = _conditions(frames)
    then = _effects(frames)
    out = ["# Rules", ""]
    names = (
        "rule_id",
        "action_type",
        "priority",
        "outcome",
        "status",
        "confidence",
        "observation_template",
        "renderer",
    )
    order = frames["rules"].sort("action_type", -pl.col("priority"), "rule_id")
    last = None
    for rule, action, priority, outcome, status, confidence, template, renderer in lines(order, *names):
        if action != last:
            out += [f"## {action}", ""]
            last = action
        known = "unmeasured" if confidence is None else f"{confidence:.3f}"
        out += [f"**{rule}** {status}, {outcome}, priority {priority}, confidence {known}", ""]
        out += [f"- when {line}" for line in when.get(rule, ["always"])]
        out += [f"- then {line}" for line in then.get(rule, [])]
        out += [
            f"- answer {json.dumps(template, ensure_ascii=False)}" if template else f"- answer by renderer {renderer}",
            "",
        ]
    return "\n".join(out)


def _conditions(frames: Frames) -> dict[str, list[str]]:
    groups: dict[str, dict[int, list[str]]] = {}
    names = ("owner_id", "group", "left_kind", "left", "op", "right_kind", "right")
    for owner, group, lk, left, op, rk, right in lines(
        frames["conditions"].sort("owner_id", "group", "ordinal"), *names
    ):
        text = f"{_operand(lk, left)} {SIGNS.get(op, op.replace('_', ' '))}"
        if right is not None:
            text += f" {_operand(rk, right)}"
        groups.setdefault(owner, {}).setdefault(group, []).append(text)
    return {owner: [" and ".join(part) for part in found.values()] for owner, found in groups.items()}


def _operand(kind: str, text: str) -> str:
    return f"`arg.{text}`" if kind == "action_arg" else f"`{text}`"


def _effects(frames: Frames) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    names = ("owner_id", "op", "path", "value_json", "value_ref", "delay_steps")
    mine = frames["mutations"].filter(pl.col("owner_kind") == "rule").sort("owner_id", "ordinal")
    for owner, op, path, value, ref, delay in lines(mine, *names):
        told = "" if value is None else f" {value}" if ref == "literal" else f" {ref} {json.loads(value)}"
        later = "" if delay is None else f" after {delay} steps"
        found.setdefault(owner, []).append(f"{op} `{path}`{told}{later}")
    return found


def overview(package: EnvironmentPackage) -> str:
    """The page a reader sees first."""
    config = package.config
    counts = "\n".join(f"| {name} | {package[name].height:,} |" for name in package.frames)
    weak = package["unresolved"].height, package["rejected"].height
    return (
        f"# {config.name or config.environment_id}\n\n"
        f"{(config.description + chr(10) + chr(10)) if config.description else ''}"
        f"Environment package `{config.environment_id}`, {config.construction_kind}, {package.status}.\n\n"
        f"Artifact digest `{package.artifact_digest}`.\n\n"
        f"{weak[0]:,} repairs and open points are in `tables/unresolved.parquet`, {weak[1]:,} records set aside in "
        f"`tables/rejected.parquet`. The rules in words are in `rules/rules.md`.\n\n"
        f"| table | rows |\n| --- | ---: |\n{counts}\n"
    )
