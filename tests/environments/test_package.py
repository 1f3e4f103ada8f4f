"""A package on disk: digests, refusals, search, looking."""

from __future__ import annotations

import json
import random
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from expcomp.environments.cases import check_cases
from expcomp.environments.exports.bundle import bundle, write_bundle
from expcomp.environments.exports.targets import TARGETS
from expcomp.environments.folder import open_package, verify_package
from expcomp.environments.frames import frame
from expcomp.environments.gates import require
from expcomp.environments.package import EnvironmentPackage, compile_package
from expcomp.environments.reader import inspect_action, state_fields, turn
from expcomp.environments.search import Search
from expcomp.errors import (
    DestinationExistsError,
    PackageIntegrityError,
    PackageSchemaError,
    RuleInvalidError,
    SourceError,
    UsageError,
)
from expcomp.io.digest import sha256_file
from expcomp.tables.environment import PACKAGE
from tests.environments.reconstructed import CONFIG, package_frames, records
from tests.environments.worlds import LEDGER, change, condition, rule


@pytest.fixture(scope="module")
def package() -> EnvironmentPackage:
    return compile_package(package_frames(), CONFIG)


@pytest.fixture
def folder(package: EnvironmentPackage, tmp_path: Path) -> Path:
    package.write(tmp_path / "pkg")
    return tmp_path / "pkg"


def test_what_is_written_is_read_again(package: EnvironmentPackage, folder: Path) -> None:
    again = open_package(folder)
    assert all(package[n].equals(again[n]) for n in PACKAGE)
    assert (again.config, again.status, again.artifact_digest) == (CONFIG, "candidate", package.artifact_digest)
    assert verify_package(folder) == []
    assert (folder / "rules/rules.md").read_text("utf-8").count("**r_") == 4
    tools = json.loads((folder / "schema/actions.json").read_text("utf-8"))
    assert tools[1]["function"]["parameters"] == {
        "type": "object",
        "properties": {"amount": {"type": "number"}},
        "required": ["amount"],
    }
    assert "4 transitions" in repr(again)


def test_order_and_place_of_the_input_do_not_matter(package: EnvironmentPackage, folder: Path, tmp_path: Path) -> None:
    shuffled = records()
    for rows in shuffled.values():
        random.Random(7).shuffle(rows)
    other = compile_package({k: v.rechunk() for k, v in package_frames(**shuffled).items()}, CONFIG)
    assert other.artifact_digest == package.artifact_digest
    other.write(tmp_path / "elsewhere" / "copy")
    names = ("manifest.json", "tables/rules.parquet", "overview.md", "index.sqlite")
    assert [(folder / n).read_bytes() == (tmp_path / "elsewhere" / "copy" / n).read_bytes() for n in names] == [
        True
    ] * 4


def test_content_and_settings_have_digests_of_their_own(package: EnvironmentPackage) -> None:
    from dataclasses import replace

    changed = compile_package(package_frames(notes=[]), CONFIG)
    assert changed.artifact_digest != package.artifact_digest
    # Without the note its citation goes, and that is told.
    assert {n for n in PACKAGE if changed.tables[n] != package.tables[n]} == {"notes", "refs", "unresolved"}
    assert replace(CONFIG, name="Other", model="m").digest() == CONFIG.digest()
    assert replace(CONFIG, min_rule_confidence=0.6).digest() != CONFIG.digest()


def test_an_existing_folder_is_left_alone(package: EnvironmentPackage, folder: Path) -> None:
    before = (folder / "manifest.json").read_bytes()
    with pytest.raises(DestinationExistsError, match="exists"):
        package.write(folder)
    assert (folder / "manifest.json").read_bytes() == before
    package.write(folder, force=True)


def test_what_a_gate_refuses_leaves_nothing_behind(package: EnvironmentPackage, tmp_path: Path) -> None:
    bad = package_frames(mutations=[change("r_deposit", "set", "world.debt", 1)])
    with pytest.raises(RuleInvalidError):
        EnvironmentPackage(bad, CONFIG).write(tmp_path / "pkg")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name", [f"tables/{n}.parquet" for n in PACKAGE] + ["overview.md", "rules/rules.md", "index.sqlite"]
)
def test_one_changed_byte_is_refused(folder: Path, name: str) -> None:
    data = bytearray((folder / name).read_bytes())
    data[len(data) // 2] ^= 1
    (folder / name).write_bytes(data)
    with pytest.raises(PackageIntegrityError, match=f"{name}: was changed"):
        open_package(folder)
    assert verify_package(folder) == [f"{name}: was changed"]


@pytest.mark.parametrize(
    "name", ["extra.txt", "tables/more.parquet", "rules/manifest.json", ".hidden", "validation/report.json"]
)
def test_one_extra_file_is_refused(folder: Path, name: str) -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("x", encoding="utf-8")
    with pytest.raises(PackageIntegrityError, match="not listed"):
        open_package(folder)


def test_a_missing_file_a_link_and_a_path_outside_are_refused(folder: Path, tmp_path: Path) -> None:
    path = folder / "overview.md"
    text = path.read_bytes()
    path.unlink()
    with pytest.raises(PackageIntegrityError, match=r"overview\.md: listed .* not there"):
        open_package(folder)
    (tmp_path / "outside.md").write_bytes(text)
    path.symlink_to(tmp_path / "outside.md")
    with pytest.raises(PackageIntegrityError, match="is a link"):
        open_package(folder)
    edit(folder, lambda m: m["documents"].append({"path": "../outside.md", "sha256": "x"}))
    with pytest.raises(PackageIntegrityError, match="leads outside"):
        open_package(folder)


def edit(folder: Path, change: Any) -> None:
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text("utf-8"))
    change(manifest)
    path.write_text(json.dumps(manifest), encoding="utf-8")


def test_a_manifest_that_was_changed_is_found_out(folder: Path) -> None:
    edit(folder, lambda m: m["config"].update(min_rule_confidence=0.0))
    with pytest.raises(PackageIntegrityError, match="config_digest"):
        open_package(folder)
    edit(folder, lambda m: (m["config"].update(min_rule_confidence=0.55), m.update(status="validated")))
    with pytest.raises(PackageIntegrityError, match="status validated, found candidate"):
        open_package(folder)
    (folder / "manifest.json").unlink()
    with pytest.raises(SourceError, match=r"no manifest\.json"):
        open_package(folder)


def test_a_table_changed_together_with_its_file_digest_is_found_by_verify(folder: Path) -> None:
    from expcomp.io.digest import sha256_file

    path = folder / "tables/notes.parquet"
    pl.read_parquet(path).with_columns(statement=pl.lit("Balances are in euro.")).write_parquet(path)
    edit(
        folder,
        lambda m: next(t for t in m["tables"] if t["path"] == "tables/notes.parquet").update(sha256=sha256_file(path)),
    )
    open_package(folder)
    assert verify_package(folder) == ["tables/notes.parquet: its rows are not those of the digest"]


def test_actions_whose_names_are_alike_keep_their_rules_apart(tmp_path: Path) -> None:
    actions = ["get user", "get-user", "get/user", "Get_User"]
    made = {
        **LEDGER,
        "action_schema": [{"action": a} for a in actions],
        "action_args": [],
        "action_aliases": [],
        "conditions": [],
        "mutations": [],
        "invariants": [],
        "rules": [rule(f"r{i}", a, template=a) for i, a in enumerate(actions)],
    }
    from expcomp.environments.frames import frames
    from tests.environments.worlds import AUTHORED, play, state

    compile_package(frames(made), AUTHORED).write(tmp_path / "pkg")
    e = open_package(tmp_path / "pkg").engine()
    assert [play(e, state(), a).plan.observation for a in actions] == actions
    assert (tmp_path / "pkg" / "rules" / "rules.md").read_text("utf-8").count("## ") == 4


# Search and looking


@pytest.mark.parametrize("fts", [True, False])
def test_search_finds_names_whole_and_ranks_by_kind(package: EnvironmentPackage, fts: bool) -> None:
    search = Search(package.frames, fts=fts)
    assert search.find("r_short").row(0)[:2] == ("rule", "r_short")
    assert search.find("insufficient funds")["id"].to_list()[:2] == ["r_short", "tr_3"]
    assert set(search.find("deposit")["kind"].cast(pl.String)) == {"rule", "action", "demonstration", "evidence"}
    assert search.find("deposit", kinds=["evidence"])["id"].to_list() == ["tr_1"]
    assert search.find("withdraw", action="withdraw", kinds=["rule"])["id"].sort().to_list() == [
        "r_short",
        "r_withdraw",
    ]
    assert search.find("").is_empty()
    assert search.find('"; DROP TABLE lines; --').is_empty()
    assert (search.find("balance")["score"] > 0).all()


def test_equal_arguments_come_first(package: EnvironmentPackage) -> None:
    keyed = package["transitions"].with_columns(
        args_key=pl.when(pl.col("transition_id") == "tr_2").then(pl.lit("k")).otherwise("args_key")
    )
    search = Search({**package.frames, "transitions": keyed})
    assert search.find("insufficient funds", args_key="k", kinds=["evidence"])["id"].to_list()[0] == "tr_2"


def test_one_episode_does_not_fill_the_list(package: EnvironmentPackage) -> None:
    assert Search(package.frames).find("balance", kinds=["evidence"]).height == 3


def test_withheld_rules_are_found_too() -> None:
    weak = records()
    weak["rules"][0]["status"] = "tentative"
    made = compile_package(package_frames(**weak), CONFIG)
    hit = Search(made.frames).find("r_balance").row(0, named=True)
    assert (hit["id"], hit["status"]) == ("r_balance", "tentative")


def test_the_written_index_gives_the_same_as_one_in_memory(package: EnvironmentPackage, folder: Path) -> None:
    search = Search(package.frames, folder / "index.sqlite")
    assert search.find("withdraw funds").equals(Search(package.frames).find("withdraw funds"))
    search.close()
    with sqlite3.connect(folder / "index.sqlite") as db:
        assert db.execute("SELECT count(*) FROM lines").fetchone() == (13,)
    with pytest.raises(SourceError, match="index"):
        Search(package.frames, folder / "overview.md")


def test_looking_at_an_action(package: EnvironmentPackage) -> None:
    view = inspect_action(package, "withdraw")
    assert view.rules["rule_id"].to_list() == ["r_short", "r_withdraw"]
    assert view.notes["note_id"].to_list() == ["n_1"]
    assert inspect_action(package, "put").demonstrations["demo_id"].to_list() == ["d_1"]
    with pytest.raises(UsageError, match="no action 'fly'; known are balance"):
        inspect_action(package, "fly")
    assert state_fields(package, "world").height == 1
    assert state_fields(package, "worl").height == 0


def test_looking_at_a_turn(package: EnvironmentPackage) -> None:
    part = turn(package, "tr_1", offset=10, length=2)
    assert (part["observation"], part["before"], part["after"], part["n_chars"]) == ("5.", "tr_0", "tr_2", 26)
    with pytest.raises(UsageError, match="no transition"):
        turn(package, "tr_9")


def test_the_gates_hold_for_what_was_compiled(package: EnvironmentPackage) -> None:
    require(package.frames, package.config)


KEY = "sk-" + "a1B2" * 12


def test_no_secret_gets_into_a_package(tmp_path: Path) -> None:
    made = records()
    made["sources"][0] |= {"text": f"User: {KEY}\n"}
    made["sources"][0] |= {"source_id": "src_" + "b" * 64, "text_verbatim": False}
    made["episodes"][0] |= {"source_id": "src_" + "b" * 64}
    for ref in made["refs"]:
        ref["source_id"] = "src_" + "b" * 64
    made["events"][1]["content"] = made["transitions"][0]["observation"] = f"Key {KEY}"
    made["demonstrations"][0]["observation"] = f"in /home/ann/x with {KEY}"
    made["rules"][0]["observation_template"] = f"{KEY} of /home/ann/x"
    made["conditions"].append(condition("r_balance", ("literal", f'"{KEY}"'), "exists", ordinal=7))
    package = compile_package(package_frames(**made), CONFIG)
    package.write(tmp_path / "pkg")
    everything = "".join(frame.write_ndjson() for frame in package.frames.values())
    assert KEY not in everything
    for path in (tmp_path / "pkg").rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes()
    assert "<path:home>" in package["demonstrations"]["observation"][0]
    # What the engine runs keeps its paths: they may be keys of the world.
    assert "/home/ann/x" in package["rules"].filter(rule_id="r_balance")["observation_template"][0]
    told = package["unresolved"].filter(stage="redaction")
    assert {"rules.observation_template", "transitions.observation", "conditions.left"} <= set(told["owner_id"])


def test_a_snapshot_in_which_something_was_replaced_is_not_verbatim() -> None:
    import hashlib

    text = f"User: {KEY}\n"
    ident = "src_" + hashlib.sha256(text.encode()).hexdigest()
    made = records()
    made["sources"][0] |= {"source_id": ident, "text": text, "n_bytes": len(text)}
    made["episodes"][0]["source_id"] = ident
    for ref in made["refs"]:
        ref["source_id"] = ident
    assert compile_package(package_frames(**made), CONFIG)["sources"]["text_verbatim"].to_list() == [False]


def forged(folder: Path, **entries: Any) -> None:
    """A manifest with other entries."""
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    (folder / "manifest.json").write_text(json.dumps(manifest | entries), "utf-8")


@pytest.mark.parametrize("config", [5, [], None, {"x": 1}, {}])
def test_a_manifest_with_settings_of_another_shape_is_refused(folder: Path, config: Any) -> None:
    """Whoever wrote it."""
    forged(folder, config=config)
    with pytest.raises(PackageIntegrityError, match=r"manifest\.json, config"):
        open_package(folder)
    assert len(verify_package(folder)) == 1


@pytest.mark.parametrize("report", ["[]", "5", "null"])
def test_a_report_that_is_no_object_is_refused(folder: Path, report: str) -> None:
    """All of its digests may be right."""
    (folder / "validation").mkdir(exist_ok=True)
    (folder / "validation/report.json").write_text(report, "utf-8")
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    others = [e for e in manifest["documents"] if e["path"] != "validation/report.json"]
    entry = {"path": "validation/report.json", "sha256": sha256_file(folder / "validation/report.json")}
    forged(folder, documents=[*others, entry], report_digest="sha256:" + "0" * 64)
    assert verify_package(folder) != []
    with pytest.raises(PackageIntegrityError, match=r"report\.json"):
        open_package(folder)


@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("transitions", "arguments_json"),
        ("evidence", "arguments_json"),
        ("action_args", "examples_json"),
    ],
)
@pytest.mark.parametrize("text", ["{bad", "", "NaN", '{"a": 1} x'])
def test_a_text_that_is_no_json_is_refused_by_name(
    package: EnvironmentPackage, table: str, column: str, text: str
) -> None:
    """Exports read these texts."""
    bad = package[table].with_columns(pl.lit(text).alias(column))
    assert bad.height
    with pytest.raises(PackageSchemaError, match=f"{table} .*{column} is no JSON"):
        require({**package.frames, table: bad}, CONFIG)


def test_a_deep_document_is_json(package: EnvironmentPackage) -> None:
    """Deeper than some parsers go."""
    text = json.dumps({"x": json.loads("[" * 200 + "]" * 200)})
    require({**package.frames, "transitions": package["transitions"].with_columns(arguments_json=pl.lit(text))}, CONFIG)


CASE = {
    "case_id": "c",
    "trajectory_group": "g",
    "split": "validation",
    "initial_state_json": "{}",
    "source_ids": ["src_x"],
}
STEP = {"case_id": "c", "ordinal": 0, "action_type": "a", "arguments_json": "{}", "expected_observation": "o"}


@pytest.mark.parametrize(
    ("case", "step", "told"),
    [
        ({"initial_state_json": "[]"}, {}, "case c, initial_state_json"),
        ({"known_absent_paths": ["world.a["]}, {}, "case c, known_absent_paths"),
        ({}, {"arguments_json": "{bad"}, "case c, arguments_json"),
        ({}, {"expected_state_json": '{"world..a": 1}'}, "case c, expected_state_json"),
    ],
)
def test_cases_that_cannot_be_played_are_refused_by_name(case: dict[str, Any], step: dict[str, Any], told: str) -> None:
    """Before anything plays or exports them."""
    with pytest.raises(PackageSchemaError, match=told):
        check_cases(frame("replay_cases", [CASE | case]), frame("replay_steps", [STEP | step]))


def test_an_export_passes_the_gates(package: EnvironmentPackage, tmp_path: Path) -> None:
    """A folder that is opened passed none: its author may have written anything."""
    bad = package["transitions"].with_columns(arguments_json=pl.lit("{bad"))
    forged_ = replace(package, frames={**package.frames, "transitions": bad})
    with pytest.raises(PackageSchemaError):
        write_bundle(bundle(forged_), tmp_path / "out", "trace2env", TARGETS["trace2env"])
    assert not (tmp_path / "out").exists()


def test_a_link_to_a_folder_that_nobody_listed_is_refused(folder: Path) -> None:
    """As any other entry."""
    (folder / "more").symlink_to("/usr")
    assert verify_package(folder) == ["more: not listed in manifest.json"]
