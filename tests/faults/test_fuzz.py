"""Damaged and hostile input, many at once: no crash, no hang, no write, no silent loss. The campaign is `tests.faults.fuzz.campaign`."""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import ANY

import pytest

from expcomp.sources.load import read_frames
from tests.faults.fuzz import campaign, harness, verifying
from tests.faults.fuzz.mutate import Files, mutate
from tests.faults.fuzz.seeds import CRASHERS, crashers, decoded, encoded, formats, seeds, signed_tables
from tests.faults.fuzz.spans import cut, tagged, text

FEW = 12
FORMATS = formats()


def few(name: str, count: int = FEW) -> list[Files]:
    """Of both mutators, by turns."""
    rng = random.Random(f"suite:{name}")
    own = few_seeds(name)
    out = []
    for n in range(count):
        seed, tag = rng.choice(own), b"%06x" % n
        out.append((cut(seed, own, rng, tag) if n % 2 else None) or mutate(seed, own, rng))
    return [signed_tables(files) for files in out] if name == "stored" else out


def few_seeds(name: str) -> list[Files]:
    return [files for files in seeds(name) if name == "stored" or not any(n.endswith(".parquet") for n in files)]


def broken(batch: list[Files], name: str | None) -> list[tuple[str, str]]:
    """What does not hold for an input alone; several files may rightly be one attempt."""
    return [(b.what, b.detail) for b in harness.search(batch, lambda given: harness.problem(given, name), most=1)]


def test_every_format_has_seeds_that_hold() -> None:
    for name in FORMATS:
        assert seeds(name), name
    assert broken([seeds(name)[0] for name in FORMATS], None) == []


@pytest.mark.parametrize("name", FORMATS)
def test_mutations_of_every_format_hold(name: str) -> None:
    assert broken(few(name), name) == []


def test_mutations_of_all_formats_together_hold() -> None:
    assert broken([files for name in FORMATS for files in few(name, 3)], None) == []


@pytest.mark.parametrize("name", sorted(p.stem for p in CRASHERS.glob("*.json")))
def test_what_once_broke_holds_now(name: str) -> None:
    assert broken(crashers(name), name) == []


@pytest.mark.parametrize(
    "digits", ["9" * 19, "9" * 30, "7" * 400, "7" * 5000], ids=["64 bits", "more", "no float", "no text"]
)
def test_whole_numbers_beyond_every_column_hold(digits: str) -> None:
    """In place of the first numbers of each seed, one at a time."""
    for name in FORMATS:
        batch = []
        for files in few_seeds(name):
            for path, data in files.items():
                found = list(re.finditer(rb": (\d[\d.]*)", data))[:3]
                batch += [files | {path: data[: m.start(1)] + digits.encode() + data[m.end(1) :]} for m in found]
        assert broken(batch[:6], name) == [], name


def test_a_stored_manifest_of_another_shape_is_told() -> None:
    (files,) = seeds("stored")
    manifest = json.loads(files["t/manifest.json"])
    changed = [files | {"t/manifest.json": json.dumps(manifest | {"packages": odd}).encode()} for odd in (1, "x", [1])]
    assert broken(changed, "stored") == []


def test_copies_of_a_traceset_are_left_out_and_told() -> None:
    """Of frames in several pieces, where `pl.format` panics."""
    (files,) = seeds("stored")
    assert broken([files] * 3, "stored") == []


def test_tampered_folders_are_findings_or_errors_of_ours() -> None:
    rng = random.Random("suite:verify")
    assert verifying.problem([verifying.mutated(rng) for _ in range(3)]) is None


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("report.json", b'{"families": true, "packages": 1, "total": null}'),
        ("report.json", b'{"families": {}, "packages": ["a"], "total": {}}'),
        ("report.json", b"[" * 100_000),
        ("manifest.json", b'{"files":' * 50_000),
        ("rows/task_variant.parquet", b"PAR1" + b"\x00" * 40 + b"PAR1"),
        ("rows/task_variant.parquet", b""),
    ],
    ids=["no objects", "list of packages", "deep report", "deep manifest", "empty footer", "empty file"],
)
def test_folders_that_once_broke_verify(name: str, data: bytes) -> None:
    changed = verifying.published() | {name: data}
    assert verifying.problem([changed, verifying.signed(changed)]) is None


def test_a_table_that_was_changed_or_damaged_is_told(tmp_path: Path) -> None:
    """Signed again or not; some single bits make Polars end the process."""
    (files,) = seeds("stored")
    table = files["t/grades.parquet"]
    flipped = [table[:at] + bytes([table[at] ^ 1 << at % 8]) + table[at + 1 :] for at in range(4, 2000, 150)]
    changed = [files | {"t/grades.parquet": data} for data in flipped]
    assert broken(changed + [signed_tables(one) for one in changed], "stored") == []
    for name, data in changed[0].items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    frames = read_frames([tmp_path / "t"])
    assert frames["attempts"].is_empty()
    assert any("grades.parquet is not the file that was written" in d for d in frames["diagnostics"]["detail"])


def test_every_place_of_a_text_is_a_value() -> None:
    for name in FORMATS:
        for data in (data for files in few_seeds(name) for data in files.values()):
            known = text(data)
            for place in known.places if known else ():
                json.loads(data[place.start : place.end])
                assert place.holder is not None


def test_an_input_keeps_its_tag() -> None:
    known = b'{"trace_id": "t", "id": "5", "at": ["t", "0123456789abcdef"], "x": 1}'
    assert tagged(known, b"00002a") == (
        b'{"trace_id": "00002at", "id": "00002a5", "at": ["00002at", "00002a6789abcdef"], "x": 1}'
    )


def test_the_same_seed_gives_the_same_bytes() -> None:
    assert few("codex") == few("codex")
    assert few("codex") != few("claude_code")
    assert all(decoded(encoded(files)) == files for files in few("atif", 50))


def test_the_harness_sees_what_breaks() -> None:
    bad = {"a.json": b"bad"}
    batch = [{"a.json": b"{}"}] * 5 + [bad] + [{"a.json": b"{}"}] * 6
    found = harness.search(batch, lambda given: harness.Finding("crash", "x") if bad in given else None)
    assert [b.files for b in found] == [bad]


def test_the_harness_looks_at_every_input_that_seems_lost() -> None:
    """The first is lost only in company, the last alone as well."""
    batch = [{"a.json": b"1"}, {"a.json": b"2"}, {"a.json": b"bad"}]

    def check(given: Sequence[Files]) -> harness.Finding | None:
        return harness.Finding("lost", "x", tuple(range(len(given)))) if batch[2] in given else None

    assert [b.files for b in harness.search(batch, check, most=1)] == [batch[2]]


def test_a_changed_file_must_not_pass_verify(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = verifying.published() | {"diagnostics.parquet": b"{}"}
    assert verifying.problem([changed]) is None
    monkeypatch.setattr(verifying, "_passes", lambda folder: True)
    assert verifying.problem([changed]) == harness.Finding("passed", "diagnostics.parquet")


def spin() -> None:
    while True:
        pass


def test_the_harness_sees_hangs() -> None:
    with harness.bounded(0.05), pytest.raises(harness.HangError):
        spin()


def test_the_harness_sees_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from expcomp.sources.load import read_frames

    def writes(*args: object, **kwargs: object) -> object:
        (tmp_path / "out.txt").write_text("x")
        return read_frames(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(harness, "read_frames", writes)
    assert harness.problem([{"a.json": b"{}"}], None) == harness.Finding("writes", ANY)


def test_records_are_summed(tmp_path: Path) -> None:
    for name, seconds in (("a", 1.5), ("b", None)):
        mine = {"executions": 1000, "peak_mib": 7, "breaks": {"crash-1": 2}}
        (tmp_path / name).mkdir()
        record = {"adp": mine | ({"cpu_seconds": seconds} if seconds else {})}
        (tmp_path / name / "record.json").write_text(json.dumps(record))
    rows = campaign.table([tmp_path / "a", tmp_path / "b"]).splitlines()
    assert "| adp | 2,000 | 1.50 | 7 | 4 |" in rows
    assert rows[-1] == "| sum | 2,000 | | | 4 |"


@pytest.mark.stress
def test_campaign(tmp_path: Path) -> None:
    """Rounds over all targets for EXPCOMP_FUZZ_SECONDS (60); a break is left in EXPCOMP_FUZZ_OUT."""
    out = Path(os.environ.get("EXPCOMP_FUZZ_OUT", tmp_path))
    record = campaign.run(
        out, seconds=float(os.environ.get("EXPCOMP_FUZZ_SECONDS", "60")), most=1_000_000, only=campaign.targets()
    )
    assert {(name, key) for name, mine in record.items() for key in mine["breaks"]} == set()
