"""Damaged and hostile input, many at once: no crash, no hang, no write, no silent loss. The campaign is `tests.faults.fuzz.campaign`."""

from __future__ import annotations

import json
import os
import random
import re
from pathlib import Path
from unittest.mock import ANY

import pytest

from tests.faults.fuzz import campaign, harness, verifying
from tests.faults.fuzz.mutate import Files, mutate
from tests.faults.fuzz.seeds import CRASHERS, crashers, decoded, encoded, formats, seeds

FEW = 12
# A damaged Parquet table can end the process inside Polars; the campaign runs it in a child, this suite does not.
IN_PROCESS = [name for name in formats() if name != "stored"]


def few(name: str, count: int = FEW) -> list[Files]:
    rng = random.Random(f"suite:{name}")
    own = [files for files in seeds(name) if not any(n.endswith(".parquet") for n in files)]
    return [mutate(rng.choice(own), own, rng) for _ in range(count)]


def few_seeds(name: str) -> list[Files]:
    return [files for files in seeds(name) if not any(n.endswith(".parquet") for n in files)]


def broken(batch: list[Files], name: str | None) -> list[tuple[str, str]]:
    """What does not hold for an input alone; several files may rightly be one attempt."""
    return [(b.what, b.detail) for b in harness.search(batch, lambda given: harness.problem(given, name), most=1)]


def test_every_format_has_seeds_that_hold() -> None:
    for name in IN_PROCESS:
        assert seeds(name), name
    assert broken([seeds(name)[0] for name in IN_PROCESS], None) == []


@pytest.mark.parametrize("name", IN_PROCESS)
def test_mutations_of_every_format_hold(name: str) -> None:
    assert broken(few(name), name) == []


def test_mutations_of_all_formats_together_hold() -> None:
    assert broken([files for name in IN_PROCESS for files in few(name, 3)], None) == []


@pytest.mark.parametrize("name", sorted(p.stem for p in CRASHERS.glob("*.json")))
def test_what_once_broke_holds_now(name: str) -> None:
    assert broken(crashers(name), name) == []


@pytest.mark.parametrize(
    "digits", ["9" * 19, "9" * 30, "7" * 400, "7" * 5000], ids=["64 bits", "more", "no float", "no text"]
)
def test_whole_numbers_beyond_every_column_hold(digits: str) -> None:
    """In place of the first numbers of each seed, one at a time."""
    for name in IN_PROCESS:
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


def test_the_same_seed_gives_the_same_bytes() -> None:
    assert few("codex") == few("codex")
    assert few("codex") != few("claude_code")
    assert all(decoded(encoded(files)) == files for files in few("atif", 50))


def test_the_harness_sees_what_breaks() -> None:
    bad = {"a.json": b"bad"}
    batch = [{"a.json": b"{}"}] * 5 + [bad] + [{"a.json": b"{}"}] * 6
    found = harness.search(batch, lambda given: harness.Finding("crash", "x") if bad in given else None)
    assert [b.files for b in found] == [bad]


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


@pytest.mark.stress
def test_campaign(tmp_path: Path) -> None:
    """Rounds over all targets for EXPCOMP_FUZZ_SECONDS (60); a break is left in EXPCOMP_FUZZ_OUT."""
    out = Path(os.environ.get("EXPCOMP_FUZZ_OUT", tmp_path))
    record = campaign.run(
        out, seconds=float(os.environ.get("EXPCOMP_FUZZ_SECONDS", "60")), most=1_000_000, only=campaign.targets()
    )
    assert {name: mine["breaks"] for name, mine in record.items() if mine["breaks"] and name != "stored"} == {}
