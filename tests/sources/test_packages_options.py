"""What a user supplies for packages, and arguments that only look like JSON."""

from __future__ import annotations

import json
from pathlib import Path

from expcomp.sources._contract import ReadOptions
from expcomp.sources.load import read_frames
from tests.helpers import STEPS, package


def test_tools_arm_and_system_prompt_are_taken_from_the_options(tmp_path: Path) -> None:
    package(tmp_path)
    frames = read_frames([tmp_path], options=ReadOptions(tools='[{"name": "bash"}]', arm="mine"))
    assert set(frames["attempts"]["arm"]) == {"mine"}
    assert frames["attempts"]["has_tools"].all()
    assert frames["tasks"]["tools"].to_list() == ['[{"name": "bash"}]']


def test_text_that_only_looks_like_an_object_becomes_one_argument(tmp_path: Path) -> None:
    broken, whole = '{"a": oops}', '{"a": 1}'
    steps = [dict(STEPS[0]), *({**STEPS[1], "tool": "sql", "input": text} for text in (broken, whole))]
    package(tmp_path, steps=steps, scores={"baseline": 0.9})
    calls = read_frames([tmp_path])["steps"]["tool_calls"].drop_nulls().explode().struct.field("arguments").to_list()
    assert [json.loads(c) for c in calls] == [{"input": broken}, {"a": 1}]
