"""Which of the fields that its surface should carry a step records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import expcomp as xc
from expcomp.rows.registry import ROW_FAMILIES
from expcomp.tables.events import EVENTS, EXPECTED, NOT_APPLICABLE
from expcomp.tables.step_fields import DTYPES
from expcomp.tables.vocab import SURFACES
from tests.helpers import edit, package

OF_THE_STEP = {"action", "response", "success", "operation", "state_after"}
BARE = {"action": "agent_step", "actor": "agent:worker"}


def captured(folder: Path, step: dict[str, Any], family: str) -> tuple[str | None, list[str] | None]:
    root = package(folder, "pkg_a", scores={"baseline": 0.9}, loops=False)
    edit(root / "attempts/baseline/agent_trace.json", lambda d: d.update(steps=[{**BARE, "step": 1, **step}]))
    compilation = xc.compile(xc.read_traces(folder))
    rows = pl.concat([compilation.rows[family], compilation.rejected[family]])
    return rows.select("surface_capture", "missing_fields").row(0)


def test_the_table_names_surfaces_and_fields_that_exist() -> None:
    assert set(EXPECTED) | set(NOT_APPLICABLE) <= set(SURFACES)
    fields = {name for entries in EXPECTED.values() for entry in entries for name in entry.split("|")}
    assert fields - DTYPES.keys() == OF_THE_STEP


@pytest.mark.parametrize(
    ("step", "family", "expected"),
    [
        (
            {"interaction_surface": "api", "api_endpoint": "/x", "api_method": "GET", "http_status": 200},
            "api_interaction_event",
            ("complete", []),
        ),
        (
            {"interaction_surface": "api", "api_endpoint": "/x", "output": "ok"},
            "api_interaction_event",
            ("partial", ["api_method", "http_status"]),
        ),
        (
            {"interaction_surface": "api", "resource_id": "r", "output": "ok"},
            "api_interaction_event",
            ("unavailable", ["api_endpoint", "api_method", "http_status"]),
        ),
        ({"interaction_surface": "cli", "input": "ls", "output": "a", "success": True}, "software_execution_event", ("complete", [])),
        ({"interaction_surface": "cli", "command": "ls"}, "software_execution_event", ("partial", ["exit_code", "stdout_ref"])),
        (
            {"interaction_surface": "computer_use", "visible_state_ref": "a", "screenshot_ref": "b", "action_type": "click"},
            "ui_interaction_event",
            ("complete", []),
        ),
        (
            {"interaction_surface": "file", "artifact_refs": [], "operation": "read", "file_path": "a"},
            "software_execution_event",
            ("complete", []),
        ),
        ({"interaction_surface": "email", "platform_name": "Post", "output": "sent"}, "collaboration_event", ("partial", None)),
        ({"interaction_surface": "email", "platform_name": "Post"}, "collaboration_event", ("unavailable", None)),
        ({"interaction_surface": "other_tool", "subagent_id": "s"}, "multi_agent_handoff", ("not_applicable", None)),
        ({"subagent_id": "s"}, "multi_agent_handoff", (None, None)),
        (
            {"interaction_surface": "database", "subagent_id": "s", "table_name": "t"},
            "multi_agent_handoff",
            ("partial", ["database_type", "query_ref"]),
        ),
    ],
)  # fmt: skip
def test_what_a_step_lacks_of_its_surface(
    step: dict[str, Any], family: str, expected: tuple[str | None, list[str] | None], tmp_path: Path
) -> None:
    assert captured(tmp_path, step, family) == expected


def test_all_fields_of_user_interfaces_are_in_their_rows() -> None:
    wanted = "app_name app_version os_name device_type window_title software_state_ref api_call_ref"
    assert set(wanted.split()) <= set(ROW_FAMILIES["ui_interaction_event"].family.columns)


@pytest.mark.parametrize("name", [*(e.name for e in EVENTS), "process_supervision", "failure_case"])
def test_a_text_that_may_be_cut_has_its_length_beside_it(name: str) -> None:
    family = ROW_FAMILIES[name].family
    assert {f"{text}_chars" for text in family.texts} <= set(family.columns)
