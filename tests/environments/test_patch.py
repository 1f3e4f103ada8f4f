"""Patches: what they edit, and what they refuse."""

from __future__ import annotations

from typing import Any

import pytest

from expcomp.environments.package import EnvironmentPackage, compile_package
from expcomp.environments.patch import apply_patch
from expcomp.errors import PackageSchemaError, UsageError
from tests.environments.reconstructed import CONFIG, SOURCE, package_frames
from tests.environments.worlds import play, state

NOTE = {"note_id": "n_2", "kind": "fact", "statement": "Shut on Sundays."}


@pytest.fixture(scope="module")
def package() -> EnvironmentPackage:
    return compile_package(package_frames(), CONFIG)


def patched(package: EnvironmentPackage, *edits: dict[str, Any]) -> EnvironmentPackage:
    return apply_patch(package, {"base": package.artifact_digest, "edits": list(edits)})


def short(**changes: Any) -> dict[str, Any]:
    return {
        "rule_id": "r_short",
        "action_type": "withdraw",
        "outcome": "failure",
        "renderer": "text",
        "confidence": 0.9,
        "origin": "deterministic",
        **changes,
    }


def test_a_rule_is_replaced_with_its_parts(package: EnvironmentPackage) -> None:
    made = patched(
        package,
        {
            "op": "replace",
            "table": "rules",
            "key": {"rule_id": "r_short"},
            "record": short(observation_template="Too much."),
            "parts": {
                "conditions": [
                    {
                        "left_kind": "expr",
                        "left": "world.balance - arg.amount",
                        "op": "lt",
                        "right_kind": "literal",
                        "right": "0",
                    }
                ]
            },
        },
    )
    assert made["conditions"].filter(owner_id="r_short")["left_kind"].to_list() == ["expr"]
    assert made["refs"].filter(owner_id="r_short").height == 1
    assert play(made.engine(), state(balance=1), "withdraw", amount=2).plan.observation == "Too much."
    assert (made.status, made.artifact_digest == package.artifact_digest) == ("candidate", False)


def test_items_are_added_and_removed(package: EnvironmentPackage) -> None:
    ref = {"source_id": SOURCE, "episode_id": "ep_1", "event_id": "ev_01"}
    made = patched(
        package,
        {
            "op": "add",
            "table": "notes",
            "key": {"note_id": "n_2"},
            "record": {**NOTE, "status": "supported"},
            "parts": {"refs": [ref]},
        },
        {"op": "remove", "table": "rules", "key": {"rule_id": "r_short"}},
        {"op": "remove", "table": "demonstrations", "key": {"demo_id": "d_1"}},
    )
    assert made["notes"]["note_id"].to_list() == ["n_1", "n_2"]
    assert "r_short" not in {*made["rules"]["rule_id"], *made["conditions"]["owner_id"], *made["refs"]["owner_id"]}
    assert made["demonstrations"].is_empty()


def test_what_changes_nothing_gives_the_same_digest(package: EnvironmentPackage) -> None:
    one = patched(package, {"op": "add", "table": "notes", "key": {"note_id": "n_2"}, "record": NOTE})
    two = apply_patch(
        one, {"base": one.artifact_digest, "edits": [{"op": "remove", "table": "notes", "key": {"note_id": "n_2"}}]}
    )
    assert two.artifact_digest == package.artifact_digest


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (
            {"op": "add", "table": "notes", "key": {"note_id": "n_1"}, "record": {**NOTE, "note_id": "n_1"}},
            "there already",
        ),
        ({"op": "remove", "table": "notes", "key": {"note_id": "n_9"}}, "not there"),
        ({"op": "replace", "table": "notes", "key": {"note_id": "n_1"}, "record": NOTE}, "another key"),
        ({"op": "remove", "table": "notes", "key": "n_1"}, "expected an object of note_id"),
        ({"op": "remove", "table": "events", "key": {"event_id": "ev_00"}}, "table 'events'"),
        ({"op": "remove", "table": "refs", "key": {}}, "table 'refs'"),
        ({"op": "drop", "table": "notes", "key": {"note_id": "n_1"}}, "op is one of"),
        ({"op": "add", "table": "notes", "key": {"note_id": "n_2"}}, "needs a record"),
        ({"op": "remove", "table": "notes", "key": {"note_id": "n_1"}, "why": "?"}, "unknown field why"),
    ],
)
def test_an_edit_that_makes_no_sense(package: EnvironmentPackage, edit: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        patched(package, edit)


def test_patches_as_a_whole(package: EnvironmentPackage) -> None:
    gone = {"op": "remove", "table": "notes", "key": {"note_id": "n_1"}}
    with pytest.raises(UsageError, match="edited twice"):
        patched(package, gone, gone)
    with pytest.raises(UsageError, match="base 'sha256:0' is not the artifact digest"):
        apply_patch(package, {"base": "sha256:0", "edits": [gone]})
    with pytest.raises(UsageError, match="list of edits"):
        patched(package)
    with pytest.raises(PackageSchemaError, match="unknown field speed"):
        patched(package, {"op": "add", "table": "notes", "key": {"note_id": "n_2"}, "record": {**NOTE, "speed": 1}})


def test_an_invalid_rule_of_a_patch_is_set_aside(package: EnvironmentPackage) -> None:
    made = patched(
        package,
        {
            "op": "replace",
            "table": "rules",
            "key": {"rule_id": "r_short"},
            "record": short(observation_template="{= 1 +}"),
        },
    )
    assert made["rejected"]["id"].to_list() == ["r_short"]


@pytest.mark.parametrize("patch", [None, [], 5, "x"])
def test_a_patch_is_an_object(package: EnvironmentPackage, patch: Any) -> None:
    """Whatever the file holds."""
    with pytest.raises(UsageError, match="expected an object of base and edits"):
        apply_patch(package, patch)


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        ({"op": "remove", "table": ["rules"]}, r"table \['rules'\]"),
        ({"op": "remove", "table": "rules", "key": {"rule_id": ["x"]}}, "key rule_id"),
        ({"op": "replace", "table": "rules", "key": {"rule_id": "r_short"}, "record": 5}, "record is int"),
        ({"op": "replace", "table": "rules", "key": {"rule_id": "r_short"}, "record": short(), "parts": [1]}, "parts is list"),
        ({"op": "replace", "table": "rules", "key": {"rule_id": "r_short"}, "record": short(), "parts": {"refs": [1]}}, r"parts\.refs"),
    ],
)  # fmt: skip
def test_an_edit_of_another_shape_is_refused_by_number(
    package: EnvironmentPackage, edit: dict[str, Any], why: str
) -> None:
    """Patches are written by hand and by models."""
    with pytest.raises(UsageError, match=f"patch, edit 0: {why}"):
        patched(package, edit)
