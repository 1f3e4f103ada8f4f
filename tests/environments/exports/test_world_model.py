"""World-model rows: the transitions of the package, and the cases, as conversations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from expcomp.environments.package import EnvironmentPackage
from expcomp.tables.targets import TARGETS
from tests.environments.exports.conftest import Export
from tests.environments.reconstructed import STEPS
from tests.environments.test_replay import GOOD


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_every_transition_and_every_case_is_told(export: Export, package: EnvironmentPackage, tmp_path: Path) -> None:
    assert export("world-model") == {}
    (train,) = rows(tmp_path / "out/train.jsonl")
    assert set(train) == set(TARGETS["world-model"].columns)
    assert (train["task_id"], train["attempt_id"]) == ("g1", "ep_1")
    assert train["messages"] == [
        m
        for action, arguments, answer, *_ in STEPS
        for m in (
            {
                "role": "user",
                "content": json.dumps({"name": action, "arguments": json.dumps(arguments)}, separators=(",", ":")),
            },
            {"role": "assistant", "content": answer},
        )
    ]
    assert [t["function"]["name"] for t in json.loads(train["tools"])] == sorted(package["action_schema"]["action"])
    held = {r["attempt_id"]: r for r in rows(tmp_path / "out/heldout.jsonl")}
    assert sorted(held) == ["Two words/2", "c1"]
    # The package was learned without states: what a case begins with would tell its answers.
    assert [m["role"] for m in held["c1"]["messages"]] == ["user", "assistant"] * len(GOOD)


def test_equal_packages_give_equal_rows(export: Export, tmp_path: Path) -> None:
    export("world-model", "a")
    export("world-model", "b")
    for name in ("train.jsonl", "heldout.jsonl"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
