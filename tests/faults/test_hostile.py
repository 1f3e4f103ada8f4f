"""Input made to hurt: bombs, links that come in between, paths that lead out, keys without end. Bounded, told, nothing touched outside."""

from __future__ import annotations

import gzip
import io
import json
import os
import resource
import sys
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

from expcomp.errors import SourceError
from expcomp.sources import _bytes
from expcomp.sources._contract import ReadOptions
from expcomp.sources.load import find, read_frames, read_units
from tests.faults.fuzz.harness import bounded
from tests.helpers import tree

LIMIT = 1 << 20
BOMB = 48 << 20
OPTIONS = ReadOptions(max_file_bytes=LIMIT)
CHAT = b'{"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]}\n'
TRAJECTORY = json.dumps(
    {
        "schema_version": "ATIF-v1.4",
        "session_id": "s",
        "agent": {"name": "a", "version": "1"},
        "steps": [{"step_id": 1, "source": "user", "message": "hi"}],
    }
).encode()


def zipped(members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data, method)
    return out.getvalue()


def packed_zip(members: dict[str, bytes]) -> bytes:
    return zipped(members, zipfile.ZIP_DEFLATED)


def said(frames: dict[str, pl.DataFrame]) -> set[str]:
    return set(frames["diagnostics"]["code"])


BOMBS: dict[str, Callable[[bytes], bytes]] = {
    "a.json.gz": lambda data: gzip.compress(data, 1),
    "members.json.gz": lambda data: b"".join(gzip.compress(data[: len(data) // 8], 1) for _ in range(8)),
    "twice.json.gz": lambda data: gzip.compress(gzip.compress(data, 1), 1),
    "a.json.zst": lambda data: pa.compress(data, codec="zstd", asbytes=True),
    "a.zip": lambda data: packed_zip({"a.jsonl": data}),
    "nested.zip": lambda data: packed_zip({"in.zip": packed_zip({"a.jsonl": data})}),
    "a.eval": lambda data: packed_zip({"header.json": b'{"version": 2, "eval": {}}', "samples/1_epoch_1.json": data}),
    "header.eval": lambda data: packed_zip({"header.json": data, "samples/1_epoch_1.json": b"{}"}),
    "in_zip.zip": lambda data: packed_zip({"a.eval": packed_zip({"header.json": data})}),
}


def read_within_the_limit(folder: Path) -> dict[str, pl.DataFrame]:
    tracemalloc.start()
    try:
        with bounded(60):
            frames = read_frames([folder], options=OPTIONS)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < BOMB // 2
    return frames


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_costs_no_more_than_the_limit(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(BOMBS[name](CHAT[:-1] + b" " * BOMB + b"\n"))
    assert (tmp_path / name).stat().st_size < BOMB // 8
    frames = read_within_the_limit(tmp_path)
    assert said(frames)
    assert frames["messages"].is_empty()


def test_an_archive_that_lies_about_its_size_is_read_up_to_the_limit(tmp_path: Path) -> None:
    data = bytearray(packed_zip({"a.jsonl": CHAT + b" " * BOMB}))
    true = (len(CHAT) + BOMB).to_bytes(4, "little")
    assert data.count(true) == 2
    (tmp_path / "a.zip").write_bytes(bytes(data).replace(true, len(CHAT).to_bytes(4, "little")))
    frames = read_within_the_limit(tmp_path)
    assert frames["messages"].height == 2 or said(frames)


def test_archive_in_archive_is_taken_into_memory_up_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_bytes, "_LARGEST", 1000)
    log = packed_zip({"header.json": b'{"version": 2, "eval": {}}' + os.urandom(2000)})
    (tmp_path / "a.zip").write_bytes(zipped({"a.eval": log}))
    frames = read_frames([tmp_path])
    assert frames["attempts"].is_empty()
    assert said(frames)


def test_paths_that_lead_out_of_an_archive_are_refused(tmp_path: Path) -> None:
    names = ["../out.jsonl", "/etc/out.jsonl", "a/../../out.jsonl", "..\\out.jsonl", "C:\\out.jsonl", "ok.jsonl"]
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.zip").write_bytes(zipped(dict.fromkeys(names, CHAT)))
    before = tree(tmp_path)
    frames = read_frames([tmp_path / "in"])
    assert frames["attempts"]["package_id"].to_list() == ["a.zip/ok.jsonl"]
    assert said(frames) >= {"member_refused"}
    assert frames["diagnostics"].filter(pl.col("code") == "member_refused").height == len(names) - 1
    assert tree(tmp_path) == before


@pytest.mark.parametrize("kind", ["link", "gone", "folder", "pipe"])
def test_a_file_that_is_swapped_after_it_was_found_is_not_followed(tmp_path: Path, kind: str) -> None:
    secret = tmp_path / "outside.jsonl"
    secret.write_bytes(CHAT.replace(b"hi", b"do not read me"))
    path = tmp_path / "in/a.jsonl"
    path.parent.mkdir()
    path.write_bytes(CHAT)
    units = find([path.parent]).units
    path.unlink()
    if kind == "link":
        path.symlink_to(secret)
    elif kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    frames = read_units(units)
    assert frames["messages"].is_empty()
    assert frames["diagnostics"].height > 0
    assert "do not read me" not in frames["diagnostics"].write_ndjson()


@pytest.mark.parametrize(
    "ref", ["more.json", "../../outside.json", "out/outside.json", "x" * 300, "a\x00b", "."],
    ids=["beside", "above", "by a link", "long", "nul", "folder"],
)  # fmt: skip
def test_a_trial_goes_on_only_in_files_of_its_own(tmp_path: Path, ref: str) -> None:
    (tmp_path / "outside.json").write_bytes(TRAJECTORY.replace(b"hi", b"do not read me"))
    agent = tmp_path / "in/t__a/agent"
    agent.mkdir(parents=True)
    (agent / "out").symlink_to(tmp_path)
    (agent / "more.json").write_bytes(TRAJECTORY.replace(b"hi", b"more"))
    (agent.parent / "result.json").write_bytes(b'{"task_name": "t", "trial_name": "t__a", "agent_info": {}}')
    whole = json.loads(TRAJECTORY) | {"continued_trajectory_ref": ref}
    (agent / "trajectory.json").write_text(json.dumps(whole))
    frames = read_frames([tmp_path / "in"], format="harbor")
    seen = frames["messages"].write_ndjson() + frames["evidence"].write_ndjson()
    assert frames["attempts"].height == 1
    assert "do not read me" not in seen
    assert ('"more"' in seen) is (ref == "more.json")
    assert ("dangling_reference" in said(frames)) is (ref != "more.json")


def test_a_continuation_is_bounded_as_every_file(tmp_path: Path) -> None:
    agent = tmp_path / "t__a/agent"
    agent.mkdir(parents=True)
    (agent / "more.json").write_bytes(TRAJECTORY + b" " * LIMIT)
    (agent.parent / "result.json").write_bytes(b'{"task_name": "t", "trial_name": "t__a", "agent_info": {}}')
    (agent / "trajectory.json").write_bytes(TRAJECTORY[:-1] + b', "continued_trajectory_ref": "more.json"}')
    frames = read_frames([tmp_path], format="harbor", options=OPTIONS)
    assert "too_large" in said(frames)
    assert frames["messages"].height == 1


def test_a_link_that_is_named_itself_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(CHAT)
    (tmp_path / "link").symlink_to(tmp_path / "a.jsonl")
    assert read_frames([tmp_path / "link"])["messages"].height == 2
    (tmp_path / "round").symlink_to(tmp_path / "round")
    with pytest.raises(SourceError):
        find([tmp_path / "round"])


WIDE = "{" + ",".join(f'"k{n}": {n}' for n in range(200_000)) + "}"
STRANGE = {
    "many keys": '{"messages": [{"role": "user", "content": "q"}], "x": ' + WIDE + "}",
    "many keys in arguments": json.dumps(
        {
            "messages": [
                {"role": "user", "content": "q"},
                {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": WIDE}}]},
            ]
        }
    ),
    "one key many times": '{"messages": [{"role": "user", "content": "q"}], ' + '"a": 1, ' * 200_000 + '"b": 2}',
    "many messages": json.dumps({"messages": [{"role": "user", "content": "q"}] * 50_000}),
    "long line": json.dumps({"messages": [{"role": "user", "content": "q" * (16 << 20)}]}),
    "deep": '{"messages": [{"role": "user", "content": "q"}], "x": ' + "[" * 200_000 + "]" * 200_000 + "}",
    "long number": '{"messages": [{"role": "user", "content": "q"}], "reward": ' + "9" * 100_000 + "}",
}


@pytest.mark.parametrize("name", STRANGE)
def test_keys_lines_and_numbers_without_end_are_bounded(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.jsonl").write_bytes(CHAT + STRANGE[name].encode() + b"\n" + CHAT)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with bounded(60):
        frames = read_frames([tmp_path / "a.jsonl"], format="openai_chat")
    scale = 1 if sys.platform == "darwin" else 1024
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * scale < 1 << 30
    assert frames["attempts"].height + frames["diagnostics"].height >= 3
    assert frames["messages"].height >= 4
