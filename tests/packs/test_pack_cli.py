"""expcomp pack build, show and search."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from expcomp.cli.main import app
from expcomp.errors import SourceError
from tests.helpers import compile_cli


def run(*args: Any) -> Any:
    """The command line in this process; errors of ours are raised."""
    return CliRunner().invoke(app, ["pack", *map(str, args)], catch_exceptions=False)


def test_build_tells_what_it_made(garden_compiled: Path, tmp_path: Path) -> None:
    out = tmp_path / "packs"
    built = compile_cli("pack", "build", garden_compiled, "--out", out, "--json")
    assert (built.returncode, built.stderr) == (0, "")
    assert json.loads(built.stdout)["packs"] == {"family": 1, "package": 11}
    again = compile_cli("pack", "build", garden_compiled, "--out", out)
    assert again.returncode == 2
    assert "--force" in again.stderr
    told = run("build", garden_compiled, "--out", out, "--force").stdout
    assert "11 of a package" in told
    assert run("build", garden_compiled, "--out", out, "--force", "-q").stdout == ""


def test_show_prints_the_skill_or_lists_the_packs(garden_folder: Path) -> None:
    shown = run("show", "seed-packet-count", "--packs", garden_folder)
    assert shown.stdout == (garden_folder / "packs/seed-packet-count/SKILL.md").read_text("utf-8")
    assert len(json.loads(run("show", "--packs", garden_folder, "--json").stdout)) == 12
    assert "seed-packet-count" in run("show", "--packs", garden_folder).stdout
    skill = json.loads(run("show", "seed-packet-count", "--packs", garden_folder, "--json").stdout)
    assert skill["name"] == "seed-packet-count"


def test_search_gives_scores_and_citations(garden_folder: Path) -> None:
    found = json.loads(run("search", "seed packets", "--packs", garden_folder, "--json", "-n", "2").stdout)
    assert found[0]["pack_id"] == "seed-packet-count"
    assert found[0]["score"] > 0
    assert found[0]["statements"][0]["citations"]
    assert "seed-packet-count" in run("search", "seed packets", "--packs", garden_folder).stdout
    assert "no pack" in run("search", "zyzzyva", "--packs", garden_folder).stdout


def test_the_layout_of_the_ancestor(garden_compiled: Path, tmp_path: Path) -> None:
    run("build", garden_compiled, "--out", tmp_path / "out", "--layout", "apprenticeship", "-q")
    assert (tmp_path / "out/packages/seed-packet-count/experience_compiler/skill_pack/skill.md").is_file()


def test_errors_name_the_way_out(garden_folder: Path, tmp_path: Path) -> None:
    for args, code, words in (
        (("build", tmp_path, "--out", tmp_path / "x"), 3, "no output of a compile"),
        (("search", "x", "--packs", tmp_path), 3, "expcomp pack build"),
        (("show", "rota", "--packs", garden_folder), 2, "near: plant-sale-rota, volunteer-rota"),
    ):
        done = compile_cli("pack", *args)
        assert done.returncode == code
        assert words in done.stderr
        assert "Traceback" not in done.stderr


def test_a_skill_that_is_no_text_is_refused_by_name(garden_folder: Path, tmp_path: Path) -> None:
    """A folder of packs may come from anywhere."""
    copied = tmp_path / "packs"
    shutil.copytree(garden_folder, copied)
    (copied / "packs/seed-packet-count/SKILL.md").write_bytes(b"\xff\xfe")
    with pytest.raises(SourceError, match=r"SKILL\.md cannot be read"):
        run("show", "seed-packet-count", "--packs", copied)
