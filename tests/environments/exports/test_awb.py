"""AgentWorldBench rows, out and in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expcomp.environments.exports.awb import read_cases_of_rows, read_rows, rows_of, rows_text, turns_of, turns_of_cases
from expcomp.environments.exports.bundle import bundle
from expcomp.environments.package import EnvironmentPackage
from expcomp.environments.replay import replay
from expcomp.errors import SourceError
from tests.environments.exports.conftest import Export

Frames = tuple[pl.DataFrame, pl.DataFrame]


def rows(n: int = 2, **changes: Any) -> list[dict[str, Any]]:
    """Rows of one trajectory of `n` turns."""
    prompts = [
        f'### Turn {i}\n**Action:**\n```json\n{{"name": "look", "arguments": {{"n": {i}}}}}\n```'
        for i in range(1, n + 1)
    ]
    answers = [f"**Environment Observation:**\nseen {i}" for i in range(1, n + 1)]
    return [
        {
            "task": "t",
            "id": 7,
            "prompt": [*prompts[: i - 1], prompts[i - 1] + "\n\nWhat comes back?"],
            "response": answers[:i],
            "current_prompt": prompts[i - 1],
            "system_str": "s",
            "turn_idx": i,
            "total_turns": n,
        }
        | changes
        for i in range(1, n + 1)
    ]


def put(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(r) + "\n" for r in records))
    return path


def test_rows_of_a_package_are_read_back_as_its_cases(
    export: Export, two: Frames, package: EnvironmentPackage, tmp_path: Path
) -> None:
    assert export("awb") == {}
    read = read_rows(tmp_path / "out/rows.jsonl")
    assert read.height == two[1].height
    made = turns_of_cases(bundle(package, cases=two))
    assert turns_of(read).equals(made)
    cases, steps = read_cases_of_rows(tmp_path / "out/rows.jsonl")
    assert cases["case_id"].to_list() == ["ledger/Two words/2", "ledger/c1"]
    mine = two[1].with_columns(case_id="ledger/" + pl.col("case_id")).sort("case_id", "ordinal")
    same = ["case_id", "ordinal", "action_type", "expected_observation"]
    assert steps.select(same).equals(mine.select(same))
    assert [json.loads(a) for a in steps["arguments_json"]] == [json.loads(a) for a in mine["arguments_json"]]


def test_a_package_is_measured_on_rows(package: EnvironmentPackage, export: Export, tmp_path: Path) -> None:
    export("awb")
    done = replay(package, *read_cases_of_rows(tmp_path / "out/rows.jsonl"))
    assert done.steps["abstained"].all()  # rows tell no state, and the package does not guess one


def test_turns_without_a_row_are_kept_as_history(tmp_path: Path) -> None:
    some = rows(3)[1:]
    turns = turns_of(read_rows(put(tmp_path / "r.jsonl", some)))
    assert turns["asked"].to_list() == [None, "\n\nWhat comes back?", "\n\nWhat comes back?"]
    assert turns["observation"].to_list() == ["seen 1", "seen 2", "seen 3"]
    assert [json.loads(line) for line in rows_text(rows_of(turns)).splitlines()] == some


def test_trajectories_of_one_id_that_begin_otherwise_are_two(tmp_path: Path) -> None:
    turns = turns_of(read_rows(put(tmp_path / "r.jsonl", rows() + rows(1, system_str="other"))))
    assert turns["trajectory"].n_unique() == 2


def test_other_actions_are_one_action_with_an_input(tmp_path: Path) -> None:
    listed = "### Turn 1\n**Action:**\n```json\n[1, 2]\n```"
    _, steps = read_cases_of_rows(put(tmp_path / "r.jsonl", rows(1, current_prompt=listed, prompt=[listed])))
    assert steps.select("action_type", "arguments_json").rows() == [("t", '{"input":[1,2]}')]


def test_a_turn_that_cannot_be_read_ends_its_case(tmp_path: Path) -> None:
    told = rows(2)
    told[1]["response"] = [told[1]["response"][0], "no such head"]
    _, steps = read_cases_of_rows(put(tmp_path / "r.jsonl", told))
    assert steps.height == 1


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"id": None}, "record 1: field id is None"),
        ({"turn_idx": True}, "field turn_idx is True"),
        ({"response": []}, r"expected turn_idx \(1\) texts each"),
        ({"current_prompt": "other"}, "does not begin with current_prompt"),
    ],
)
def test_what_is_no_row_is_refused(tmp_path: Path, change: dict[str, Any], told: str) -> None:
    with pytest.raises(SourceError, match=told):
        read_rows(put(tmp_path / "r.jsonl", rows(1, **change)))


def test_rows_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    told = rows(2)
    told[0]["response"] = ["**Environment Observation:**\nother"]
    with pytest.raises(SourceError, match="do not tell the same turns"):
        turns_of(read_rows(put(tmp_path / "r.jsonl", told)))
    with pytest.raises(SourceError, match="do not tell the same turns"):
        turns_of(read_rows(put(tmp_path / "r.jsonl", rows(2) + rows(1))))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.text(), st.text()), min_size=1, max_size=4))
def test_any_texts_survive(tmp_path_factory: pytest.TempPathFactory, texts: list[tuple[str, str]]) -> None:
    records = [
        {
            "task": "t",
            "id": "x",
            "prompt": [*(p for p, _ in texts[: i - 1]), texts[i - 1][0] + "?"],
            "response": [r for _, r in texts[:i]],
            "current_prompt": texts[i - 1][0],
            "system_str": "",
            "turn_idx": i,
            "total_turns": len(texts),
        }
        for i in range(1, len(texts) + 1)
    ]
    path = put(tmp_path_factory.mktemp("awb") / "r.jsonl", records)
    assert [json.loads(line) for line in rows_text(rows_of(turns_of(read_rows(path)))).split("\n")[:-1]] == records
