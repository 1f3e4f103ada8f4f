"""The trace2env layout: tables to layout to tables."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from expcomp.environments.config import PackageConfig
from expcomp.environments.exports import trace2env_in
from expcomp.environments.exports.targets import export_environment
from expcomp.environments.exports.trace2env import BESIDE, read_layout
from expcomp.environments.frames import frames
from expcomp.environments.package import EnvironmentPackage, compile_package
from expcomp.environments.session import open_session
from expcomp.errors import PackageIntegrityError, PackageSchemaError, SourceError
from tests.environments.exports.conftest import Export
from tests.environments.reconstructed import CONFIG, package_frames
from tests.environments.worlds import AUTHORED, LEDGER, change, condition, rule, world
from tests.helpers import compile_cli, tree

COMPUTED = world(
    rules=[*LEDGER["rules"], rule("r_twice", "deposit", priority=5, template="{= world.balance * 2}")],
    conditions=[*LEDGER["conditions"], condition("r_twice", ("expr", "arg.amount > 1"), "eq", ("literal", "true"))],
    mutations=[
        *LEDGER["mutations"],
        change("r_twice", "set", "world.balance", "world.balance * 2", ref="expr"),
        change("r_balance", "schedule", "world.balance", "later", delay=2),
        change("later", "increment", "world.balance", 1, kind="pending"),
    ],
    state_aliases=[{"alias": "world.money", "path": "world.balance"}],
)  # fmt: skip
WORLDS = {
    "reconstructed": lambda: compile_package(package_frames(), CONFIG),
    "authored": lambda: compile_package(frames(LEDGER), AUTHORED),
    "computed": lambda: compile_package(frames(COMPUTED), AUTHORED),
    "settings": lambda: compile_package(
        frames(LEDGER),
        PackageConfig(
            "w", description="d", construction_kind="ablated", ablation="rules", scope={"a": "b"}, tenant="t"
        ),
    ),
}


def plain(folder: Path) -> None:
    """Make a folder what another writer would have left: nothing beside the layout."""
    shutil.rmtree(folder / BESIDE, ignore_errors=True)
    path = folder / "manifest.json"
    told = json.loads(path.read_text())
    told["files"] = {k: v for k, v in told["files"].items() if not k.startswith(BESIDE)}
    path.write_text(json.dumps(told))


@pytest.mark.parametrize("name", WORLDS)
def test_tables_survive_the_layout(name: str, tmp_path: Path) -> None:
    made = WORLDS[name]()
    assert export_environment(made, tmp_path / "a", to="trace2env") == {}
    back = read_layout(tmp_path / "a")
    assert back.artifact_digest == made.artifact_digest
    assert back.config == made.config
    export_environment(back, tmp_path / "b", to="trace2env")
    assert tree(tmp_path / "b") == tree(tmp_path / "a")


def test_only_what_the_layout_has_no_word_for_stands_beside_it(export: Export, tmp_path: Path) -> None:
    export("trace2env")
    beside = {p.stem: set(pl.read_parquet(p).columns) for p in (tmp_path / "out" / BESIDE).glob("*.parquet")}
    assert beside["rules"] == {"rule_id", "n_support", "n_counter", "heldout_n", "heldout_hit", "origin"}
    assert beside["sources"] == {"source_id", "label"}
    assert not beside.keys() & {
        "episodes",
        "events",
        "conditions",
        "renderers",
        "demonstrations",
        "refs",
        "state_schema",
    }


def test_the_layout_alone_plays_alike(export: Export, tmp_path: Path) -> None:
    export("trace2env")
    plain(tmp_path / "out")
    made = read_layout(tmp_path / "out")
    assert made["rules"]["origin"].cast(pl.String).unique().to_list() == ["model"]
    assert made["rules"]["n_support"].null_count() == made["rules"].height
    session = open_session(made, start={"world": {"balance": 100.0}}, allow_unvalidated=True)
    told = [
        session.step(a, {"amount": n}).observation for a, n in (("deposit", 5), ("withdraw", 25), ("withdraw", 1000))
    ]
    assert told == ["Deposited 5. Balance: 105.0", "Withdrew 25. Balance: 80.0", "Insufficient funds. Balance: 80.0"]


def test_a_scheduled_effect_is_carried_whole(tmp_path: Path) -> None:
    export_environment(WORLDS["computed"](), tmp_path / "a", to="trace2env")
    plain(tmp_path / "a")
    told = {d["id"]: d for d in json.loads((tmp_path / "a/construction/artifacts.json").read_text())["rules"]}
    assert told["r_balance"]["effects"][0]["value"]["effects"][0]["op"] == "increment"
    session = open_session(read_layout(tmp_path / "a"), start={"world": {"balance": 1}})
    assert [session.step("balance").observation for _ in range(3)] == ["Balance: 1", "Balance: 1", "Balance: 2"]


def test_a_rule_that_the_layout_cannot_say_is_set_aside_with_its_reasons(tmp_path: Path) -> None:
    export_environment(WORLDS["computed"](), tmp_path / "a", to="trace2env")
    told = json.loads((tmp_path / "a/exceptions/rejected.json").read_text())
    assert [(d["kind"], d["id"]) for d in told] == [("rules", "r_twice")]
    assert told[0]["issues"] == [
        "a condition is an expression, which the layout cannot say",
        "an effect reads the state, which the layout cannot say",
        "its answer is computed, which the layout cannot say",
    ]
    index = [json.loads(line)["id"] for line in (tmp_path / "a/rules/index.jsonl").read_text().splitlines()]
    assert "r_twice" not in index


def test_the_tree_is_that_of_the_layout(export: Export, tmp_path: Path) -> None:
    export("trace2env")
    out = tmp_path / "out"
    manifest = json.loads((out / "manifest.json").read_text())
    assert (manifest["schema_version"], manifest["metadata"]["validation_status"]) == ("1.1", "candidate")
    assert set(manifest["files"]) == set(tree(out)) - {"manifest.json"}
    assert manifest["files"]["overview.md"] == hashlib.sha256((out / "overview.md").read_bytes()).hexdigest()
    wanted = """action_schema.json state_schema.json invariants.json rules/index.jsonl rules/by_action/deposit.jsonl candidates/rules.jsonl
    renderer/contracts.json demonstrations/transitions.jsonl knowledge/notes.jsonl evidence/sources.json evidence/episodes.jsonl
    evidence/transitions.jsonl evidence/local_transitions.jsonl exceptions/unresolved.json exceptions/rejected.json index.sqlite
    construction/artifacts.json construction/config.json""".split()  # fmt: skip
    assert set(wanted) <= set(manifest["files"])


def test_the_index_finds_what_is_in_the_layout(export: Export, tmp_path: Path) -> None:
    export("trace2env")
    with closing(sqlite3.connect(tmp_path / "out/index.sqlite")) as index:
        found = index.execute(
            "SELECT k.kind, k.ref_id FROM knowledge_fts f JOIN knowledge k ON k.id = f.rowid WHERE knowledge_fts MATCH ?",
            ("insufficient",),
        ).fetchall()
        rules = index.execute("SELECT id FROM rules ORDER BY id").fetchall()
    assert found == [("evidence", "evi_3")]
    assert rules == [("r_balance",), ("r_deposit",), ("r_short",), ("r_withdraw",)]


def test_actions_of_one_file_name_keep_both_shards(tmp_path: Path) -> None:
    names = ["a b", "a_b", "A_B"]
    none: list[dict[str, Any]] = []
    records = world(
        action_schema=[{"action": a} for a in names],
        rules=[rule(f"r{i}", a, template="x") for i, a in enumerate(names)],
        action_args=none,
        action_aliases=none,
        conditions=none,
        mutations=none,
        invariants=none,
    )
    export_environment(compile_package(frames(records), AUTHORED), tmp_path / "a", to="trace2env")
    assert len({p.name.casefold() for p in (tmp_path / "a/rules/by_action").iterdir()}) == 3


@pytest.mark.parametrize("damage", ["changed", "missing", "unlisted", "outside"])
def test_a_damaged_layout_is_refused(export: Export, tmp_path: Path, damage: str) -> None:
    export("trace2env")
    out = tmp_path / "out"
    target = out / "invariants.json"
    if damage == "changed":
        target.write_text("[]")
    elif damage == "missing":
        target.unlink()
    elif damage == "unlisted":
        (out / "more.json").write_text("{}")
    else:
        told = json.loads((out / "manifest.json").read_text())
        told["files"]["../x"] = "0" * 64
        (out / "manifest.json").write_text(json.dumps(told))
    with pytest.raises(PackageIntegrityError):
        read_layout(out)


def test_what_is_no_layout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError):
        read_layout(tmp_path)
    (tmp_path / "manifest.json").write_text('{"schema_version": "2.0", "files": {}}')
    with pytest.raises(PackageIntegrityError, match="schema version 1"):
        read_layout(tmp_path)


@pytest.mark.parametrize("artifacts", [{}, {"rules": 1}, {"action_schema": {"actions": [{}]}}])
def test_artifacts_that_are_none_are_refused(artifacts: dict[str, Any]) -> None:
    with pytest.raises(PackageSchemaError, match="not usable"):
        trace2env_in.tables(artifacts)


def test_a_package_of_another_writer_is_read(tmp_path: Path) -> None:
    source = "src_" + hashlib.sha256(b"User: go").hexdigest()
    artifacts = {
        "episodes": [
            {
                "id": "e",
                "source_id": source,
                "events": [
                    {"id": "v1", "actor": "agent", "kind": "action", "content": {"b": 1, "a": 2}, "timestamp": "2026-01-02T03:04:05+01:00"},
                    {"id": "v2", "actor": "environment", "kind": "observation", "content": "ok", "timestamp": "noon"},
                ],
                "metadata": {"path": "/home/someone/trace.txt", "tenant": "acme", "more": 1},
            }
        ],
        "transitions": [{"id": "t", "episode_id": "e", "action_event_ids": ["v1"], "observation_event_ids": ["v2"]}],
        "evidence": [
            {
                "id": "x",
                "episode_id": "e",
                "transition_id": "t",
                "action": {"type": "go", "arguments": {"b": 1.0, "a": 2}},
                "outcome": "success",
                "confidence": {"value": 0.5, "rationale": "why"},
                "observation_text": "ok",
            }
        ],
        "action_schema": {"actions": [{"name": "go", "arguments": {"a": {"type": "integer"}, "b": {}}, "aliases": ["walk"]}]},
        "state_schema": {"fields": [{"path": "world.n", "type": "integer"}]},
        "rules": [
            {
                "id": "r",
                "action_type": "go",
                "description": "d",
                "conditions": [{"left": {"action_arg": "a"}, "op": "exists"}, {"left": {"literal": None}, "op": "eq", "right": {}}],
                "effects": [{"op": "schedule", "path": "world.n", "value": 3, "delay_steps": 1}, {"op": "delete", "path": "world.n"}],
                "observation_template": "ok",
                "provenance": [{"source_id": source, "episode_id": "e", "event_ids": ["v1", "v2"]}],
            }
        ],
        "renderers": [{"id": "default"}],
        "source_snapshots": {source: "User: go"},
        "split_assignments": {source: {"split": "train", "trajectory_group": "g"}},
        "unresolved": ["one"],
    }  # fmt: skip
    config = {"environment_id": "w", "name": "W", "tenant_scope": "acme", "model": "m", "extraction_event_chars": 1}
    (tmp_path / "construction").mkdir()
    files = {"construction/artifacts.json": artifacts, "construction/config.json": config}
    for name, value in files.items():
        (tmp_path / name).write_text(json.dumps(value))
    listed = {n: hashlib.sha256((tmp_path / n).read_bytes()).hexdigest() for n in files}
    (tmp_path / "manifest.json").write_text(json.dumps({"schema_version": "1.0", "files": listed}))
    made: EnvironmentPackage = read_layout(tmp_path)
    assert (made.config.name, made.config.tenant, made.config.model) == ("W", "acme", "m")
    assert made["events"]["content"].to_list() == ['{"a":2,"b":1}', "ok"]
    assert made["events"]["timestamp"].dt.to_string().to_list() == ["2026-01-02 02:04:05.000000+00:00", None]
    assert made["episodes"]["metadata_json"].to_list() == ['{"more":1}']  # no path of somebody's disk
    assert made["transitions"].select("action_type", "arguments_json", "observation", "usable").row(0) == (
        "go",
        '{"a":2,"b":1}',
        "ok",
        True,
    )
    assert made["refs"].height == 2
    assert made["unresolved"]["message"].to_list()[1].endswith("as the layout states them, not measured")
    assert made["mutations"].filter(pl.col("owner_kind") == "pending").height == 1
    assert made["rules"]["status"].cast(pl.String).to_list() == ["supported"]
    session = open_session(made, start={"world": {"n": 1}}, allow_unvalidated=True)
    session.step("walk", {"a": 1})
    assert "n" not in session.state["world"]
    session.step("go", {"a": 1})
    assert [t.observation for t in session.turns] == ["ok", "ok"]


def test_the_command_line_exports_and_imports(folder: Path, tmp_path: Path) -> None:
    done = compile_cli("env", "export", folder, "--to", "trace2env", "--out", tmp_path / "a")
    assert (done.returncode, done.stdout) == (0, f"trace2env in {tmp_path / 'a'}\n"), done.stderr
    done = compile_cli("env", "import", tmp_path / "a", "--out", tmp_path / "b", "--json")
    assert json.loads(done.stdout)["status"] == "candidate"
