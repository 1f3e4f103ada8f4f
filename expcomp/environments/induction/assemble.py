"""From what was learned to the tables of a package: rules, conditions, mutations, renderers, demonstrations, references.

A case of an action's decision list is a rule: its condition, the outcome and shape it asserts, the template that computes the answer, and
as effects the facts that the answer shows. The first case has the highest priority; a case that does not run (tentative, conflicted,
rejected) keeps its calls from the rules below by their further conditions. What the rule language cannot say is kept as a
rejected record with the reason.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.environments.frames import frame
from expcomp.environments.induction.answers import WHOLE, Shape, shape_of
from expcomp.environments.induction.compose import Object, Slot, Text
from expcomp.environments.induction.effects_table import state_mutations
from expcomp.environments.induction.status import heldout, status_of
from expcomp.environments.induction.terms import Const, Copy, Term
from expcomp.environments.induction.translate import Inexpressible, condition, expression, slot, test

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from expcomp.environments.induction.action import ActionModel
    from expcomp.environments.induction.crossfit import Learned
    from expcomp.environments.induction.terms import Predicate

__all__ = ["TABLES", "assemble"]

TABLES = ("rules", "conditions", "mutations", "renderers", "state_schema", "demonstrations", "unresolved", "rejected")
_LABEL = re.compile(r"([A-Za-z][A-Za-z_ ]{0,30}): *$")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_SEEN = re.compile(r"^(?:seen|kb)\[.*\]\.([A-Za-z_]\w*)")
Records = dict[str, list[dict[str, Any]]]


def assemble(learned: Learned, classes: Sequence[str], rows: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Tables of a package, by name.

    Args:
        learned: What was learned, with held-out counts.
        classes: Entity classes.
        rows: Prepared transitions that were learned from.

    Returns:
        The tables of TABLES, and `cited`: `rule_id`, `t` of transitions that a rule explains.
    """
    out: Records = {name: [] for name in TABLES}
    cited: list[tuple[str, int]] = []
    models = learned.world.actions.values()
    needed = {n for model in models for n in model.reads()}
    fields = {f.group(1) for n in needed if (f := _SEEN.match(n))}
    labels = {n.removeprefix("last.") for n in needed if n.startswith("last.")}
    counts = heldout(learned.counts)
    for model in models:
        guards: list[dict[str, Any]] = []
        open_above = False
        for place, (predicate, shape_term, n, hits) in enumerate(model.classes.cases):
            assert isinstance(shape_term, Const)
            rule_id = _rule_id(model.action, place, predicate, shape_term.value)
            shape = shape_of(shape_term.value)
            tried = counts.get((model.action, shape_term.value, str(predicate)), (0, 0, 0))
            status, confidence = status_of(n, hits, tried, sharp=model.sharp[place] if model.sharp else True)
            record = {
                "rule_id": rule_id,
                "action_type": model.action,
                "priority": len(model.classes.cases) - place,
                "outcome": "failure" if shape.failed else "success",
                "renderer": f"renderer_{rule_id.removeprefix('rule_')}",
                "confidence": confidence,
                "status": status,
                "n_support": hits,
                "n_counter": n - hits,
                "heldout_n": tried[0],
                "heldout_hit": tried[1],
                "origin": "deterministic",
            }
            try:
                body = _body(model, shape, shape_term.value, rule_id, classes, fields, labels)
                told = [] if predicate.kind == "always" else [_condition(rule_id, condition(predicate))]
                body["conditions"] = [c | {"owner_id": rule_id, "ordinal": i} for i, c in enumerate([*told, *guards])]
            except Inexpressible as error:
                out["rejected"].append(
                    {
                        "kind": "rules",
                        "id": rule_id,
                        "issues": [f"the rule language cannot say it: {error}"],
                        "artifact_json": json.dumps(record, sort_keys=True),
                    }
                )
                open_above |= not _guarded(guards, predicate)
                continue
            if status == "supported" and open_above:
                record["status"] = status = "tentative"
                out["unresolved"].append(
                    {
                        "stage": "translate",
                        "owner_id": rule_id,
                        "message": "a rule above it cannot be said in the rule language, so that its calls would fall to this one",
                    }
                )
            if status != "supported":
                open_above |= not _guarded(guards, predicate)
            if model.sharp and not model.sharp[place]:
                out["unresolved"].append(
                    {
                        "stage": "contrast",
                        "owner_id": rule_id,
                        "message": "no call was made exactly at the boundary: whether it belongs to this rule is not known",
                    }
                )
            out["rules"].append(record)
            for name, more in body.items():
                out[name].extend(more)
            cited += [(rule_id, t) for t in (model.cited[place] if model.cited else ())]
    for i, record in enumerate(out["unresolved"]):
        record["ordinal"] = i
    out["state_schema"] = _state_schema(out)
    cites = pl.DataFrame(cited, schema={"rule_id": pl.String, "t": pl.UInt32}, orient="row")
    return {name: frame(name, records) for name, records in out.items() if name != "demonstrations"} | {
        "demonstrations": _demonstrations(rows, cites),
        "cited": cites,
    }


def _rule_id(action: str, place: int, predicate: object, shape: str) -> str:
    return "rule_" + hashlib.sha256(f"{action}\n{place}\n{predicate}\n{shape}".encode()).hexdigest()[:24]


def _guarded(guards: list[dict[str, Any]], predicate: Predicate) -> bool:
    """Keep the rules below from the calls of a rule that does not run; false: its condition cannot be said."""
    try:
        guards.append(_condition("", (test(predicate), "eq", "false")))
    except Inexpressible:
        return False
    return True


def _condition(rule_id: str, sides: tuple[str, str, str]) -> dict[str, Any]:
    left, op, right = sides
    return {
        "owner_id": rule_id, "group": 0, "ordinal": 0, "left_kind": "expr", "left": left, "op": op,
        "right_kind": "expr", "right": right,
    }  # fmt: skip


def _body(
    model: ActionModel, shape: Shape, key: str, rule_id: str, classes: Sequence[str], fields: set[str], labels: set[str]
) -> Records:
    term = model.documents.get(key)
    if term is None:
        raise Inexpressible("the answer could not be explained")
    renderer = {
        "renderer_id": f"renderer_{rule_id.removeprefix('rule_')}",
        "action_types": [model.action],
        "content_type": "application/json" if shape.is_json else "text/plain",
        "template": _template(term, shape),
    }
    changes = [*_shown(term, shape, classes, fields, labels), *state_mutations(model.effects, failed=shape.failed)]
    mutations = [
        {"owner_kind": "rule", "owner_id": rule_id, "ordinal": i, "op": op, "path": path, "value_json": value, "value_ref": "expr"}
        for i, (op, path, value) in enumerate(dict.fromkeys(changes))
    ]  # fmt: skip
    return {"renderers": [renderer], "mutations": mutations}


def _template(term: Term, shape: Shape) -> str:
    if isinstance(term, Text) and not shape.is_json:
        return "".join(
            json.loads(f'"{p}"') if isinstance(p, str) else "{= " + slot(p) + "}"
            for p in term.parts
            if isinstance(p, str | Slot)
        )
    if isinstance(term, Const) and not shape.is_json:
        return str(json.loads(term.value))
    if isinstance(term, Object):
        return "{" + ", ".join(f"{k}: {{= {expression(t)}}}" for k, t in term.items) + "}"
    return "{= " + expression(term) + "}"


def _shown(
    term: Term, shape: Shape, classes: Sequence[str], fields: set[str], labels: set[str]
) -> Iterator[tuple[str, str, str]]:
    """Facts that an answer shows, as changes `(op, path, JSON of an expression)`."""
    if isinstance(term, Text):
        for before, part in zip(term.parts, term.parts[1:], strict=False):
            found = _LABEL.search(before) if isinstance(before, str) else None
            if (
                found
                and isinstance(part, Slot)
                and (label := found.group(1).lower().strip()) in labels
                and _IDENTIFIER.fullmatch(label)
            ):
                yield "set", f"world.{label}", json.dumps(expression(part.term))
        return
    if not isinstance(term, Object) or shape.failed:
        return
    members = {json.loads(k): t for k, t in term.items}
    keys = [(k, t) for k, t in members.items() if k in classes and _IDENTIFIER.fullmatch(k)]
    for cls, key in keys:
        for name, value in members.items():
            if name not in fields or not _IDENTIFIER.fullmatch(name):
                continue
            if (
                isinstance(value, Copy)
                and value.name.endswith(f"].{name}")
                and value.name.startswith(f"seen[arg.{cls}]")
            ):
                continue  # it stays what it is
            at = (
                "{action.arguments." + cls + "}"
                if isinstance(key, Copy) and key.name == f"arg.{cls}"
                else "{= " + expression(key) + "}"
            )
            yield from _set(f"world.{cls}.{at}.{name}", expression(value))
    for name, value in members.items():
        if name in labels and name != WHOLE and _IDENTIFIER.fullmatch(name):
            yield from _set(f"world.{name}", expression(value))


def _set(path: str, value: str) -> Iterator[tuple[str, str, str]]:
    if value != path:
        yield "set", path, json.dumps(value)


def _state_schema(out: Records) -> list[dict[str, Any]]:
    """Every top-level member of the world that a rule reads or writes."""
    texts = [str(r.get(f) or "") for name, names in _PLACES.items() for r in out[name] for f in names]
    found = sorted({m for text in texts for m in re.findall(r"world\.([A-Za-z_]\w*)", text)})
    return [{"path": f"world.{m}", "type": "any", "visibility": "world"} for m in found]


_PLACES = {"conditions": ("left", "right"), "mutations": ("path", "value_json"), "renderers": ("template",)}


def _demonstrations(rows: pl.DataFrame, cited: pl.DataFrame) -> pl.DataFrame:
    """One verbatim example a rule: the first transition it explains."""
    first = cited.group_by("rule_id", maintain_order=True).agg(pl.col("t").first())
    per = first.group_by("t", maintain_order=True).agg(rule_ids="rule_id")
    shape = frame("demonstrations", []).schema
    return per.join(rows, on="t", how="inner", maintain_order="left").select(
        demo_id=pl.lit("demo_") + pl.col("transition_id"),
        action_type="action_type",
        arguments_json="args",
        state_before_json="before",
        state_after_json="after",
        observation="observation",
        outcome=pl.when("failed").then(pl.lit("failure")).otherwise(pl.lit("success")),
        rule_ids="rule_ids",
    ).cast(shape).sort("demo_id")  # fmt: skip
