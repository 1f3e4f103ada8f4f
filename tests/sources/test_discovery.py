from __future__ import annotations

import gzip
import json
import os
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest

from expcomp.errors import SourceError, UsageError
from expcomp.sources._json import load_json, load_lines, load_rows
from expcomp.sources._look import Look
from expcomp.sources.load import find, read_frames
from expcomp.sources.registry import SOURCES, discover
from expcomp.tables.core import CORE

TAU = json.dumps([{"task_id": 1, "reward": 1.0, "info": {"reward_info": {}}, "traj": [], "trial": 0}]).encode()
ATIF = json.dumps({"schema_version": "ATIF-v1.5", "agent": {"name": "a"}, "steps": []}).encode()


def write(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def codes(found):
    return [d["code"] for d in found.diagnostics]


def test_content_decides_and_not_the_name(tmp_path):
    write(tmp_path / "trajectory.json", TAU)
    write(tmp_path / "b" / "results.txt", ATIF)
    write(tmp_path / "b" / "packed", gzip.compress(TAU))
    found = discover([tmp_path])
    assert [(u.format, u.package_id) for u in found.units] == [
        ("tau_bench", "b/packed"),
        ("atif", "b/results.txt"),
        ("tau_bench", "trajectory.json"),
    ]
    assert found.diagnostics == []


def test_a_pointer_alone_says_what_it_is(tmp_path):
    write(tmp_path / "results.jsonl", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
    with pytest.raises(SourceError, match=r"results\.jsonl: a Git LFS pointer.*git lfs pull"):
        find([tmp_path])


def test_what_nobody_knows_is_reported(tmp_path):
    write(tmp_path / "notes.md", b"# hello")
    write(tmp_path / "empty.json", b"")
    write(tmp_path / "pointer.json", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
    write(tmp_path / "broken.gz", b"\x1f\x8bnothing")
    found = discover([tmp_path])
    assert {(d["source_uri"], d["code"]) for d in found.diagnostics} == {
        ("notes.md", "not_recognised"),
        ("empty.json", "not_recognised"),
        ("pointer.json", "pointer_file"),
        ("broken.gz", "bad_archive"),
    }
    frames = read_frames([tmp_path])
    assert frames["attempts"].is_empty()
    assert "no_attempt" in frames["diagnostics"]["code"].to_list()
    assert all(frames[name].schema == table.schema for name, table in CORE.items())


def test_links_and_hidden_folders(tmp_path):
    write(tmp_path / "x.json", TAU)
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "link.json").symlink_to(tmp_path / "x.json")
    for name in (".git", "node_modules", ".venv", "__pycache__"):
        write(tmp_path / name / "y.json", TAU)
    found = discover([tmp_path])
    assert [u.package_id for u in found.units] == ["x.json"]
    assert codes(found) == ["symlink_refused", "symlink_refused"]


def test_a_truncated_archive_is_a_diagnostic(tmp_path):
    write(tmp_path / "x.json.gz", gzip.compress(TAU * 5000, mtime=0)[:-9])
    frames = read_frames([tmp_path])
    assert "bad_archive" in frames["diagnostics"]["code"].to_list()


def test_zstd(tmp_path):
    write(
        tmp_path / "x.json",
        pa.compress(TAU, codec="zstd", asbytes=True) + pa.compress(b" ", codec="zstd", asbytes=True),
    )
    assert read_frames([tmp_path])["attempts"].height == 1
    assert len(read_frames([tmp_path])["attempts"]) == 1
    cut = tmp_path / "x.json"
    cut.write_bytes(cut.read_bytes()[:20])
    assert "bad_archive" in read_frames([tmp_path], format="tau_bench")["diagnostics"]["code"].to_list()


def test_roots(tmp_path):
    write(tmp_path / "a" / "r.json", TAU)
    write(tmp_path / "b" / "r.json", TAU)
    assert [u.package_id for u in discover([tmp_path / "a" / "r.json"]).units] == ["r.json"]
    both = discover([tmp_path / "b" / "r.json", tmp_path / "a" / "r.json"])
    assert [u.package_id for u in both.units] == ["b/r.json", "a/r.json"]
    again = discover([tmp_path / "a", tmp_path / "a" / "r.json", tmp_path / "a"])
    assert [u.package_id for u in again.units] == ["r.json"]


def test_nothing_there(tmp_path):
    assert codes(discover([tmp_path / "gone"])) == ["not_found"]


def test_forced_format(tmp_path):
    write(tmp_path / "x.json", ATIF)
    write(tmp_path / "y.txt", b"words")
    found = discover([tmp_path], format="tau_bench")
    assert [u.format for u in found.units] == ["tau_bench", "tau_bench"]
    frames = read_frames([tmp_path], format="tau_bench")
    assert frames["attempts"].is_empty()
    assert {"no_attempt", "bad_row", "bad_json"} <= set(frames["diagnostics"]["code"])
    with pytest.raises(UsageError, match="tau_bench"):
        discover([tmp_path], format="nonsense")


CARRIED = ["system_prompt", "tools", "reasoning", "verdict", "trial", "tokens", "cost", "times", "token_ids"]


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_says_what_it_carries(name):
    source = SOURCES[name]
    assert source.name == name
    assert source.summary
    assert list(source.carries) == CARRIED
    assert all(source.carries.values())


def test_the_readme_has_a_line_for_each_format():
    text = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
    assert [name for name in SOURCES if f"| `{name}` |" not in text] == []


def test_formats_mix_in_one_load(tmp_path):
    write(tmp_path / "t.json", TAU)
    write(tmp_path / "a.json", ATIF)
    frames = read_frames([tmp_path])
    assert sorted(frames["attempts"]["source_format"]) == ["atif", "tau_bench"]


@pytest.mark.parametrize(
    ("text", "kind", "keys"),
    [
        (b'{"a": {"b": 1}, "c": "}', "object", {"a", "c"}),
        (b'[{"a": ["x", {"b": 2}], "q": 1}, {"z": 1}]', "array", {"a", "q"}),
        (b'[{"a": ["x", {"b": 2}], "q": 1}, {"z": 1', "array", {"a", "q"}),
        (b'{"a": 1}\n{"b": 2}\n{"c', "object", {"a"}),
        (b"\xef\xbb\xbf {}", "object", set()),
        (b"text", "other", set()),
        (b"PK\x03\x04", "zip", set()),
        (b"PAR1", "parquet", set()),
    ],
)
def test_a_look_tells_kind_and_keys_of_whole_and_cut_texts(text, kind, keys):
    look = Look(Path("x"), text)
    assert (look.kind, set(look.keys)) == (kind, keys)


def test_a_look_shows_keys_by_place_the_same_for_whole_and_cut_texts():
    text = json.dumps({"info": {"m": 1}, "t": [{"a": {"x": 1}}, {"b": 2}], "end": "z" * 40}).encode()
    for look in (Look(Path("x"), text), Look(Path("x"), text[:-20])):
        assert look.keys == {"info", "t", "end"}
        assert look.at("info") == {"m"}
        assert look.at("t") == {"a", "b"}
        assert look.at("t/a") == {"x"}


def test_deep_nesting_is_a_diagnostic(tmp_path):
    deep = b'{"steps": ' + b"[" * 100_000 + b"]" * 100_000 + b', "agent": {}}'
    write(tmp_path / "x.json", deep)
    frames = read_frames([tmp_path], format="atif")
    assert "bad_json" in frames["diagnostics"]["code"].to_list()


def test_deep_folders_do_not_exhaust_the_stack(tmp_path):
    path = tmp_path
    for _ in range(60):
        path = path / "d"
    write(path / "x.json", TAU)
    assert len(discover([tmp_path]).units) == 1


def packed(path, members):
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def test_an_archive_reads_as_the_folder_it_holds(tmp_path):
    trial = {"trial_name": "t__abc", "task_name": "t", "verifier_result": {"rewards": {"reward": 1.0}}}
    members = {"run/t.json": TAU, "run/t__abc/result.json": json.dumps(trial).encode(), "notes.md": b"# x"}
    packed(tmp_path / "zip" / "in.zip", members)
    for name, data in members.items():
        write(tmp_path / "plain" / "in.zip" / name, data)
    zipped, plain = read_frames([tmp_path / "zip"]), read_frames([tmp_path / "plain"])
    assert zipped["attempts"]["source_format"].to_list() == ["harbor", "tau_bench"]
    for name in CORE:
        assert zipped[name].equals(plain[name]), name


def test_members_outside_and_broken_archives_are_refused(tmp_path):
    packed(tmp_path / "a.zip", {"../evil.json": TAU, "ok.json": TAU, "inner.zip": b"PK\x03\x04"})
    packed(tmp_path / "office.docx", {"word/document.xml": b"<xml/>"})
    write(tmp_path / "b.zip", b"PK\x03\x04broken")
    found = discover([tmp_path])
    assert [u.package_id for u in found.units] == ["a.zip/ok.json"]
    assert sorted(codes(found)) == ["bad_archive", "member_refused", "nested_archive", "not_recognised"]


def test_a_damaged_member_costs_itself(tmp_path):
    packed(tmp_path / "a.zip", {"one.json": TAU, "two.json": TAU})
    data = bytearray((tmp_path / "a.zip").read_bytes())
    at = data.index(b"one.json") + len(b"one.json")
    data[at + 4] ^= 0xFF
    (tmp_path / "a.zip").write_bytes(bytes(data))
    frames = read_frames([tmp_path], format=None)
    assert frames["attempts"].height == 1
    assert frames["diagnostics"]["code"].to_list() != []


def test_lines_that_were_glued_are_taken_apart_and_a_broken_one_costs_itself():
    good, bad = load_lines(b'{"a": 1}{"a": 2}\n{"a": 3}\n{"a": 4} {"a": \n\n{"a": 5}')
    assert good == [(1, {"a": 1}), (1, {"a": 2}), (2, {"a": 3}), (3, {"a": 4}), (5, {"a": 5})]
    assert [(p.code, p.pos) for p in bad] == [("glued_line", 1), ("glued_line", 3), ("bad_json", 3)]


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        (b'{"a": 1, "b": {"c": 1, "c": 2}}', ["duplicate_key"]),
        (b'{"a" : 1, "a" : 2}', ["duplicate_key"]),
        (b'{"a": "\\"x\\": 1, \\"x\\": 2", "b": "\\u0022:"}', []),
        (b'{"a": 1, "b": 2}', []),
    ],
)
def test_a_key_that_stands_twice_is_told(text, codes):
    assert [p.code for p in load_json(text)[1]] == codes


@pytest.mark.parametrize("name", [b"\xff.json", b"d\xe9/x.json"])
@pytest.mark.parametrize("data", [TAU, ATIF, b"nothing"])
def test_names_that_are_no_utf8_are_spelled_out(tmp_path, name, data):
    write(tmp_path / os.fsdecode(name), data)
    frames = read_frames([tmp_path])
    assert frames["attempts"].height == int(data != b"nothing")
    for frame in frames.values():
        frame.write_ndjson()
    if data == b"nothing":
        assert "\\udc" in frames["diagnostics"]["source_uri"][0]


@pytest.mark.parametrize("cut", [b'[{"a": 1}', b'[{"a": 1},', b'[{"a": 1}, ', b'[{"a": 1}, {"b"'])
def test_an_array_that_is_cut_anywhere_is_told(cut):
    found = load_rows(cut)
    assert found.rows == [(0, {"a": 1})]
    assert "bad_json" in [p.code for p in found.problems]
