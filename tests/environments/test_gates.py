"""Every gate has input that it refuses under its own name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from expcomp.environments.config import PackageConfig
from expcomp.environments.engine import Engine
from expcomp.environments.frames import frames
from expcomp.environments.gates import GATES, require
from expcomp.environments.reconcile import reconcile
from expcomp.errors import (
    AmbiguousAliasError,
    DanglingRefError,
    DuplicateIdError,
    EnvironmentPackageError,
    PackageSchemaError,
    ProvenanceError,
    RuleInvalidError,
    ScopeConflictError,
    SourceMismatchError,
    SplitViolationError,
)
from tests.environments.reconstructed import CONFIG, SOURCE, package_frames, records
from tests.environments.worlds import AUTHORED, LEDGER, change, condition, rule

Records = dict[str, list[dict[str, Any]]]


def test_good_packages_pass() -> None:
    require(package_frames(), CONFIG)
    require(frames(LEDGER), AUTHORED)


def put(table: str, index: int, **fields: Any) -> Callable[[Records], None]:
    return lambda r: r[table][index].update(fields)


def add(table: str, **fields: Any) -> Callable[[Records], None]:
    return lambda r: r.setdefault(table, []).append(fields)


def cut(table: str, keep: Callable[[dict[str, Any]], bool]) -> Callable[[Records], None]:
    return lambda r: r.update({table: [x for x in r[table] if keep(x)]})


STEP = "w_step"
FAULTS: list[tuple[type[EnvironmentPackageError], str, Callable[[Records], None]]] = [
    (PackageSchemaError, r"breaks n_bytes\|not_negative", put("sources", 0, n_bytes=-1)),
    (PackageSchemaError, r"breaks confidence\|unit", put("rules", 0, confidence=1.5)),
    (PackageSchemaError, r"breaks label\|no_path", put("sources", 0, label="a/b.txt")),
    (DuplicateIdError, "rules r_balance: 2 records", add("rules", **rule("r_balance", "balance"))),
    (
        DuplicateIdError,
        "events ev_00",
        add(
            "events",
            event_id="ev_00",
            episode_id="ep_1",
            ordinal=9,
            actor="agent",
            kind="meta",
            content="",
            content_is_json=False,
        ),
    ),
    (
        DuplicateIdError,
        "state_schema world.balance",
        add("state_schema", path="world.balance", type="any", visibility="world"),
    ),
    (AmbiguousAliasError, "action_aliases put", add("action_aliases", alias="put", action="withdraw")),
    (AmbiguousAliasError, "it is a action itself", add("action_aliases", alias="balance", action="withdraw")),
    (SplitViolationError, "g1: crosses splits train, validation", put("sources", 0, split="validation")),
    (
        SplitViolationError,
        "split test, expected train",
        lambda r: (r["episodes"][0].update(split="test"), r["sources"][0].update(split="test"))[0],
    ),
    (SourceMismatchError, "not the bytes of the id", put("sources", 0, text="User: stay\n")),
    (SourceMismatchError, "evidence: empty", cut("evidence", lambda _: False)),
    (DanglingRefError, "observation_event_ids names ev_zz", put("transitions", 0, observation_event_ids=["ev_zz"])),
    (DanglingRefError, "action_type names fly", add("rules", **rule("r_fly", "fly"))),
    (DanglingRefError, "renderer names none", put("rules", 0, renderer="none")),
    (DanglingRefError, "rule_ids names r_none", put("demonstrations", 0, rule_ids=["r_none"])),
    (DanglingRefError, "action_types names fly", put("notes", 0, action_types=["fly"])),
    (
        DanglingRefError,
        "no such rule or invariant",
        add("conditions", **condition("r_none", ("path", "world.balance"), "exists")),
    ),
    (DanglingRefError, "source_id names", put("episodes", 0, source_id="src_" + "0" * 64)),
    (
        DuplicateIdError,
        r"state_schema world\.parts\.lid: 2 records",
        lambda r: r["state_schema"].extend(
            {"path": p, "type": "any", "visibility": "world"} for p in ("world.parts.lid", 'world["parts"].lid')
        ),
    ),
    (
        DanglingRefError,
        "event ev_other is of another episode",
        lambda r: (
            r["episodes"].append({**r["episodes"][0], "episode_id": "ep_2"}),
            r["events"].append({**r["events"][0], "event_id": "ev_other", "episode_id": "ep_2"}),
            r["transitions"][0].update(history_event_ids=["ev_other"]),
        ),
    ),
    (DanglingRefError, "refs r_nobody: there is no such rule", put("refs", 0, owner_id="r_nobody")),
    (DanglingRefError, "refs r_balance: there is no such note", put("refs", 0, owner_kind="note")),
    (ProvenanceError, "cites event ev_zz", put("refs", 0, event_id="ev_zz")),
    (ProvenanceError, "cites episode ep_zz", put("refs", 0, episode_id="ep_zz")),
    (ProvenanceError, "cites source", put("refs", 0, source_id="src_" + "1" * 64)),
    (ProvenanceError, "rule r_short: no supporting citation", cut("refs", lambda x: x["owner_id"] != "r_short")),
    (ProvenanceError, "invariant i_positive: no supporting", cut("refs", lambda x: x["owner_id"] != "i_positive")),
    (ProvenanceError, "note n_1: no supporting", cut("refs", lambda x: x["owner_id"] != "n_1")),
    (ProvenanceError, "rule r_short: no citation touches", put("refs", 3, event_id="ev_30")),
    (ProvenanceError, "rule r_short: no citation touches", put("transitions", 3, usable=False)),
    (
        RuleInvalidError,
        "argument speed is not declared",
        add("conditions", **condition("r_short", ("action_arg", "speed"), "exists", ordinal=5)),
    ),
    (
        RuleInvalidError,
        "an invariant reads state only",
        add("conditions", **condition("i_positive", ("action_arg", "amount"), "exists", ordinal=5)),
    ),
    (
        RuleInvalidError,
        "world.debt is not declared",
        add("conditions", **condition("r_short", ("path", "world.debt"), "exists", ordinal=5)),
    ),
    (
        RuleInvalidError,
        "is no JSON literal",
        add("conditions", **condition("r_short", ("literal", "{"), "exists", ordinal=5)),
    ),
    (
        RuleInvalidError,
        "eq needs a right side",
        add("conditions", **condition("r_short", ("path", "world.balance"), "eq", ordinal=5)),
    ),
    (RuleInvalidError, "is immutable", put("state_schema", 0, mutable=False)),
    (RuleInvalidError, "path is not declared", add("mutations", **change("r_short", "set", "world.debt", 1))),
    (RuleInvalidError, "counted by the session", add("mutations", **change("r_short", "set", "step", 1))),
    (
        RuleInvalidError,
        "not of the declared type number",
        add("mutations", **change("r_short", "set", "world.balance", "much")),
    ),
    (RuleInvalidError, "expected number or integer", put("state_schema", 0, type="string")),
    (RuleInvalidError, "expected array", add("mutations", **change("r_short", "append", "world.balance", 1))),
    (RuleInvalidError, "expected object", add("mutations", **change("r_short", "merge", "world.balance", {}))),
    (
        RuleInvalidError,
        "needs a delay",
        lambda r: r["mutations"].extend(
            [
                change("r_short", "schedule", "world.balance", "p"),
                change("p", "increment", "world.balance", 1, kind="pending"),
            ]
        ),
    ),
    (
        RuleInvalidError,
        "may not read the state",
        add("mutations", **change("r_short", "set", "world.balance", "{state_before.world.balance}")),
    ),
    (
        RuleInvalidError,
        "argument speed is not declared",
        put("rules", 0, observation_template="{action.arguments.speed}"),
    ),
    (RuleInvalidError, "world.debt is not declared", put("renderers", 0, required_fields=["state_after.world.debt"])),
    (RuleInvalidError, "tenant is .*expected a text", put("rules", 0, scope_json='{"tenant": {"a": 1}}')),
    (RuleInvalidError, "is no expression", put("rules", 0, observation_template="{= 1 +}")),
    (ScopeConflictError, "tenant other, the package says acme", put("episodes", 0, tenant="other")),
    (ScopeConflictError, "environment_id bank", put("episodes", 0, environment_id="bank")),
]


@pytest.mark.parametrize(("error", "message", "fault"), FAULTS)
def test_a_fault_is_refused_by_name(
    error: type[EnvironmentPackageError], message: str, fault: Callable[[Records], None]
) -> None:
    broken = records()
    fault(broken)
    with pytest.raises(error, match=message):
        require(frames(broken), CONFIG)


def test_a_configuration_that_contradicts_itself() -> None:
    with pytest.raises(ScopeConflictError, match="scope says other, the setting acme"):
        require(package_frames(), replace(CONFIG, scope={"tenant_scope": "other"}))


def test_a_missing_column_and_a_missing_table() -> None:
    made = package_frames()
    with pytest.raises(PackageSchemaError, match="'outcome' is missing"):
        require(made | {"rules": made["rules"].drop("outcome")}, CONFIG)
    with pytest.raises(PackageSchemaError, match="notes: the table is missing"):
        require({k: v for k, v in made.items() if k != "notes"}, CONFIG)


def test_records_with_unknown_words_and_fields_are_refused() -> None:
    with pytest.raises(PackageSchemaError, match="rules, field outcome"):
        package_frames(rules=[rule("r", "balance", outcome="maybe")])
    with pytest.raises(PackageSchemaError, match="unknown field speed"):
        package_frames(rules=[rule("r", "balance") | {"speed": 1}])
    with pytest.raises(PackageSchemaError, match="field action_type is missing"):
        package_frames(rules=[{"rule_id": "r"}])
    with pytest.raises(PackageSchemaError, match="unknown setting colour"):
        PackageConfig.from_dict({"environment_id": "x", "colour": "red"})


def test_every_gate_is_tried() -> None:
    assert {g.error for g in GATES} == {f[0] for f in FAULTS}


# Reconciliation


def test_what_is_good_is_left_as_it_is() -> None:
    made = package_frames()
    done = reconcile(made, CONFIG)
    assert [n for n in made if not made[n].equals(done[n])] == []


def repaired(fault: Callable[[Records], None]) -> dict[str, pl.DataFrame]:
    broken = records()
    fault(broken)
    done = reconcile(frames(broken), CONFIG)
    require(done, CONFIG)
    return done


def test_an_invalid_rule_is_set_aside_with_all_that_is_its() -> None:
    done = repaired(add("mutations", **change("r_deposit", "set", "world.debt", 1, ordinal=3)))
    assert done["rejected"].select("kind", "id").row(0) == ("rules", "r_deposit")
    assert "world.debt" in done["rejected"]["issues"][0][0]
    assert "r_deposit" in done["rejected"]["artifact_json"][0]
    assert "r_deposit" not in {*done["rules"]["rule_id"], *done["mutations"]["owner_id"], *done["refs"]["owner_id"]}
    assert done["demonstrations"]["rule_ids"].to_list() == [[]]
    assert done["unresolved"]["owner_id"].to_list() == ["r_deposit"]


def test_rules_of_an_invalid_renderer_go_with_it() -> None:
    def fault(r: Records) -> None:
        r["renderers"].append({"renderer_id": "bad", "template": "{= 1 +}"})
        r["rules"][0]["renderer"] = "bad"

    done = repaired(fault)
    assert set(done["rejected"]["id"]) == {"bad", "r_balance"}


def test_a_renderer_nobody_defined_is_made() -> None:
    done = repaired(put("rules", 0, renderer="mine"))
    assert "mine" in done["renderers"]["renderer_id"].to_list()
    assert done["unresolved"]["owner_id"].to_list() == ["mine"]


def test_placeholder_prose_is_no_template() -> None:
    done = repaired(put("renderers", 0, template="Hello <the name of the user>"))
    assert done["renderers"]["template"].to_list() == [None]


def test_scope_keys_that_mean_nothing_are_removed() -> None:
    done = repaired(put("rules", 0, scope_json='{"colour": "red", "tenant": "acme", "world.mode": "x"}'))
    assert done["rules"]["scope_json"][0] == '{"tenant": "acme", "world.mode": "x"}'
    assert done["unresolved"]["message"].to_list() == ["scope key colour names no setting and no state path; removed"]


def test_other_scope_keys_survive_the_removal_whatever_their_values_are() -> None:
    done = repaired(put("rules", 0, scope_json='{"colour": "red", "world.parts[0]": 5, "world.open": true}'))
    assert done["rules"]["scope_json"][0] == '{"world.parts[0]": 5, "world.open": true}'


def test_a_scope_that_holds_more_than_plain_values_is_set_aside() -> None:
    done = repaired(put("rules", 0, scope_json='{"colour": "red", "tenant": {"a": "acme"}}'))
    assert done["rejected"]["id"].to_list() == ["r_balance"]


def test_a_citation_of_nobody_is_removed() -> None:
    done = repaired(put("refs", 0, owner_kind="note"))
    assert not done["refs"].filter((pl.col("owner_kind") == "note") & (pl.col("owner_id") == "r_balance")).height
    assert "there is no such note; its citation was removed" in done["unresolved"]["message"].to_list()


def test_a_citation_is_moved_to_the_episode_of_its_event() -> None:
    done = repaired(put("refs", 0, episode_id=None))
    assert done["refs"]["episode_id"].to_list() == ["ep_1"] * done["refs"].height
    assert done["refs"]["source_id"].unique().to_list() == [SOURCE]


def test_a_claim_that_loses_its_anchor_is_weakened() -> None:
    done = repaired(cut("refs", lambda x: x["owner_id"] not in ("r_short", "n_1", "i_positive")))
    status = dict(zip(done["rules"]["rule_id"], done["rules"]["status"], strict=True))
    assert status["r_short"] == "tentative"
    assert status["r_deposit"] == "supported"
    assert done["notes"]["status"].to_list() == ["tentative"]
    assert done["rejected"]["id"].to_list() == ["i_positive"]
    assert set(done["unresolved"]["owner_id"]) == {"r_short", "n_1", "i_positive"}


def test_aliases_are_replaced_by_names() -> None:
    def fault(r: Records) -> None:
        r["state_aliases"] = [{"alias": "world.money", "path": "world.balance"}]
        r["rules"][1]["action_type"] = "put"
        r["mutations"][0]["path"] = "world.money"
        r["conditions"][0]["left"] = "world.money"
        r["rules"][0]["observation_template"] = "world.money: {state_after.world.money}"
        r["renderers"][0]["required_fields"] = ["state_before.world.money", "outcome"]

    done = repaired(fault)
    assert done["rules"]["observation_template"][0] == "world.money: {state_after.world.balance}"
    assert done["renderers"]["required_fields"].to_list() == [["state_before.world.balance", "outcome"]]
    assert done["rules"]["action_type"][1] == "deposit"
    assert done["mutations"]["path"][0] == "world.balance"
    assert done["conditions"]["left"][0] == "world.balance"


@pytest.mark.parametrize("text", ["{bad", "5", "NaN", "[" * 2_000])
@pytest.mark.parametrize(
    ("table", "record", "field"),
    [
        ("action_args", {"action": "deposit", "arg": "amount", "type": "number"}, "enum_json"),
        ("state_schema", {"path": "world.balance", "type": "string", "visibility": "world"}, "default_json"),
        ("rules", rule("r_balance", "balance"), "scope_json"),
    ],
)
def test_a_declaration_that_is_no_json_is_refused_by_name(
    table: str, record: dict[str, Any], field: str, text: str
) -> None:
    """By the gate, and by an engine of tables that passed none."""
    made = frames(LEDGER | {table: [record | {field: text}], "invariants": [], "conditions": [], "mutations": []})
    with pytest.raises(RuleInvalidError, match=field):
        require(made, AUTHORED)
    with pytest.raises(RuleInvalidError, match=field):
        Engine(made, AUTHORED)


@pytest.mark.parametrize("text", ["{bad", "[1]", "5", '{"a": 1}'])
def test_a_schedule_that_names_nothing_is_refused(text: str) -> None:
    """Whatever stands in place of a name."""
    made = frames(
        LEDGER | {"mutations": [change("r_deposit", "schedule", "world.balance", delay=1) | {"value_json": text}]}
    )
    with pytest.raises(RuleInvalidError, match="r_deposit"):
        require(made, AUTHORED)


def test_a_state_path_that_is_none_is_refused() -> None:
    """By name."""
    path = {"path": "world.a[", "type": "any", "visibility": "world"}
    with pytest.raises(RuleInvalidError, match=r"state path world\.a\["):
        require(frames(LEDGER | {"state_schema": [*LEDGER["state_schema"], path]}), AUTHORED)
