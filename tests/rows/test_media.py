"""Messages that hold more than text: nothing of them vanishes, two of them are not equal, and rows say so."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

import expcomp as xc

WORDS = " ".join(f"word{i}" for i in range(20))


def picture(byte: int) -> dict[str, Any]:
    data = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes([byte]) * 40).decode()
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}


def compiled(tmp_path: Path, *rows: dict[str, Any]) -> xc.Compilation:
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
    return xc.compile(xc.read_traces(tmp_path / "a.jsonl"))


def chat(task: str, *messages: tuple[str, Any], passed: bool = True, **more: Any) -> dict[str, Any]:
    return {
        "instance_id": task,
        "resolved": passed,
        "messages": [{"role": r, "content": c} if isinstance(c, str | list) else {"role": r, **c} for r, c in messages],
        **more,
    }


CALL = {
    "content": None,
    "tool_calls": [{"id": "s", "type": "function", "function": {"name": "shot", "arguments": "{}"}}],
}


def looked(task: str, byte: int, then: str, *, passed: bool = True) -> dict[str, Any]:
    shown = {"tool_call_id": "s", "content": [{"type": "text", "text": "the screen"}, picture(byte)]}
    return chat(task, ("user", "Look."), ("assistant", CALL), ("tool", shown), ("assistant", then), passed=passed)


def test_a_picture_and_the_text_beside_it_stay_in_the_row_and_are_told(tmp_path: Path) -> None:
    asked = [{"type": "text", "text": "What is this?"}, picture(1)]
    rows = compiled(tmp_path, chat("t", ("user", asked), ("assistant", WORDS))).rows["training_example"]
    user, agent = rows["messages"].to_list()[0]
    assert user["media"] is True
    assert [p["type"] for p in json.loads(user["content"])] == ["text", "image"]
    assert "What is this?" in user["content"]
    assert agent["media"] is None


def test_the_answer_of_a_tool_is_whole_in_the_step(tmp_path: Path) -> None:
    rows = compiled(tmp_path, looked("t", 1, WORDS)).rows["environment_response_pair"]
    assert [p["type"] for p in json.loads(rows["observed_environment_response"][0])] == ["text", "image"]


@pytest.mark.parametrize(("other", "shared"), [(1, 3), (2, 1)])
def test_two_pictures_are_not_one_history(tmp_path: Path, other: int, shared: int) -> None:
    rows = compiled(tmp_path, looked("t", 1, WORDS), looked("t", other, "no " + WORDS, passed=False))
    assert rows.rows["preference_pair"]["prompt"].list.len().to_list() == [shared]


@pytest.mark.parametrize("target", ["trl-sft", "trl-kto"])
def test_no_dataset_of_texts_holds_an_answer_to_a_picture(tmp_path: Path, target: str) -> None:
    asked = [{"type": "text", "text": "What is this?"}, picture(1)]
    plain = chat("u", ("user", "What is that?"), ("assistant", WORDS))
    c = compiled(tmp_path, chat("t", ("user", asked), ("assistant", WORDS)), looked("v", 1, WORDS), plain)
    ds = xc.dataset(c, target, class_ratio=None)
    assert ds.frame["task_id"].to_list() == ["u"]
    assert ds.reasons.filter(reason="not_only_text")["candidates"].to_list() == [2]


def test_json_that_speaks_of_pictures_is_text(tmp_path: Path) -> None:
    listing = json.dumps([{"type": "image", "url": "a.png"}])
    rows = compiled(tmp_path, chat("t", ("user", listing), ("assistant", WORDS))).rows["training_example"]
    assert rows["messages"].to_list()[0][0] | {"media": None} == rows["messages"].to_list()[0][0]
