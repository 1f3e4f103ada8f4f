"""What a packs folder holds: skills by the rules of Agent Skills, citations that resolve, no constant file, nothing private."""

from __future__ import annotations

import json
import re
import shutil
from collections import defaultdict
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from expcomp.compiler.compilation import Compilation, open_compilation
from expcomp.errors import OutputError, UsageError
from expcomp.packs.contracts.verify import verify_contract
from expcomp.packs.layout_tree import COPIES, EMPTY, LISTED, ROWS, SECTION_TEXTS, STATED
from expcomp.packs.members import NAME, pack_name
from expcomp.packs.pack import Packs, build_packs
from expcomp.packs.skill import DESCRIPTION
from tests.helpers import ROOT, edit, package, put, tree
from tests.packs.pack_helpers import EVIDENCE as EVIDENCE_TEXT
from tests.packs.pack_helpers import cited_in, documents, files, known, loaded, uncited

SECRET = "ghp_" + "a1B2" * 9
EVIDENCE = re.compile(EVIDENCE_TEXT.pattern.encode())
PRIVATE = "the undisclosed acorn tally is reproduced"


def front_matter(skill: str) -> dict[str, Any]:
    assert skill.startswith("---\n")
    value = yaml.safe_load(skill.split("\n---\n", 1)[0][4:])
    assert isinstance(value, dict)
    return value


def check_skill(folder: Path) -> None:
    """The rules of agentskills.io/specification, and its advice on size."""
    text = (folder / "SKILL.md").read_text("utf-8")
    head = front_matter(text)
    assert set(head) <= {"name", "description", "license", "compatibility", "metadata", "allowed-tools"}
    assert head["name"] == folder.name
    assert re.fullmatch(r"[a-z0-9]+(?:-[a-z0-9]+)*", head["name"])
    assert len(head["name"]) <= NAME
    assert 1 <= len(head["description"]) <= DESCRIPTION
    assert not set("<>") & set(head["description"])
    assert all(isinstance(k, str) and isinstance(v, str) for k, v in head["metadata"].items())
    assert len(text.splitlines()) < 500
    assert len(text) / 4 < 5_000  # tokens, by the usual four characters


def check_folder(folder: Path, compilation: Compilation) -> None:
    """Every pack is a sound skill, every statement cites, every citation resolves, no file is a constant."""
    skills = sorted(folder.glob("packs/*/SKILL.md"))
    assert skills
    resolved = known(compilation)
    for skill in skills:
        check_skill(skill.parent)
    for path in folder.rglob("*.md"):
        assert uncited(path.read_text("utf-8")) == []
    for name, value in documents(folder / "packs"):
        assert set(cited_in(value)) <= resolved, name
    check_no_constant(files(folder / "packs"), compilation)


def check_no_constant(contents: dict[str, bytes], compilation: Compilation) -> None:
    """No two non-empty files of different packs are byte-identical, unless the bytes of what they cite are."""
    owners = defaultdict(set)
    for name, data in contents.items():
        if data:
            owners[data].add(name.split("/", 1)[0])
    evidence = compilation.tables["evidence"]
    digests = {(p, e): d for p, e, d in evidence.select("package_id", "evidence_id", "sha256").iter_rows()}
    for data, who in owners.items():
        cited = sorted({e.decode() for e in EVIDENCE.findall(data)})
        shown = {tuple(digests.get((package, e)) for e in cited) for package in who}
        assert len(who) == 1 or (cited and len(shown) == 1 and None not in shown.pop()), (sorted(who), data[:400])


def test_the_garden_folder_is_sound(garden_folder: Path, garden: Compilation) -> None:
    check_folder(garden_folder, garden)


def test_every_line_of_rows_cites(garden_folder: Path) -> None:
    bare = [n for n, v in documents(garden_folder / "packs") if n.endswith(".jsonl") and not v.get("citations")]
    assert bare == []


def test_the_manifest_lists_every_file_with_its_digest(garden_folder: Path) -> None:
    manifest = json.loads((garden_folder / "manifest.json").read_bytes())
    listed = {f["path"]: f["sha256"].removeprefix("sha256:") for f in manifest["files"]}
    there = tree(garden_folder)
    del there["manifest.json"], there["report.json"]
    assert listed == there
    assert manifest["input_fingerprint"].startswith("sha256:")


def test_a_second_build_gives_the_same_bytes(garden_compiled: Path, garden_folder: Path, tmp_path: Path) -> None:
    build_packs(garden_compiled).write(tmp_path / "again")
    assert tree(tmp_path / "again") == tree(garden_folder)


def test_an_earlier_folder_is_only_replaced_when_asked(garden_packs: Packs, tmp_path: Path) -> None:
    garden_packs.write(tmp_path / "packs")
    with pytest.raises(OutputError, match="--force"):
        garden_packs.write(tmp_path / "packs")
    garden_packs.write(tmp_path / "packs", force=True)
    with pytest.raises(UsageError, match="no layout 'tar'"):
        garden_packs.write(tmp_path / "other", layout="tar")


def test_pack_json_names_what_is_there_what_is_missing_and_the_linked_rows(
    garden_folder: Path, garden: Compilation
) -> None:
    index = json.loads((garden_folder / "packs/volunteer-rota/pack.json").read_bytes())
    there = {
        p.relative_to(garden_folder / "packs/volunteer-rota").as_posix()
        for p in (garden_folder / "packs/volunteer-rota").rglob("*")
        if p.is_file()
    }
    assert set(index["files"]) | {"pack.json"} == there
    missing = {m["path"] for m in index["missing_files"]}
    assert missing
    assert not missing & there
    assert all(m["reason"] for m in index["missing_files"] + index["missing_sections"])
    linked = json.loads((garden_folder / "packs/seed-packet-count/pack.json").read_bytes())["rows"]
    for family in linked:
        assert set(family["row_ids"]) <= set(garden.rows[family["family"]]["row_id"])


def test_grader_cases_hold_the_files_that_were_graded(garden_folder: Path, garden: Compilation) -> None:
    lines = (garden_folder / "packs/seed-packet-count/evals/grader_cases.jsonl").read_text("utf-8").splitlines()
    cases = [json.loads(line) for line in lines]
    held = {(f["ref"], f["content"]) for c in cases for f in c.get("evidence", [])}
    artifacts = garden.tables["artifacts"]
    assert held
    assert held <= set(artifacts.select("uri", "content").iter_rows())


def test_transfer_tasks_are_only_real_variants(garden_folder: Path, garden: Compilation) -> None:
    real = set(garden.rows["task_variant"]["variant_instruction"]) | set(garden.tables["tasks"]["instruction"])
    found = [v for n, v in documents(garden_folder / "packs") if n.endswith("transfer_tasks.jsonl")]
    assert found
    assert {v["instruction"] for v in found} <= real
    assert {v["variant_kind"] for v in found} == {"follow_up", "sibling_task"}


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("pkg-a", "pkg-a"),
        ("jobs/x__Y", r"jobs-x-y-[0-9a-f]{8}"),
        ("Ünter 1", r"nter-1-[0-9a-f]{8}"),
        ("...", r"pack-[0-9a-f]{8}"),
        ("a" * 90, r"a{55}-[0-9a-f]{8}"),
        ("a--b", r"a-b-[0-9a-f]{8}"),
    ],
)
def test_names_are_those_of_agent_skills(source: str, name: str) -> None:
    made = pl.DataFrame({"s": [source]}).select(pack_name(pl.col("s"))).item()
    assert re.fullmatch(name, made)
    assert len(made) <= NAME


def test_contracts_are_inferred_from_the_packages_that_were_compiled(garden_compiled: Path, tmp_path: Path) -> None:
    packs = build_packs(garden_compiled, files=ROOT / "data/packages")
    packs.write(tmp_path / "packs")
    contract = tmp_path / "packs/packs/seed-packet-count/runtime/contract.json"
    assert {o["path"] for o in json.loads(contract.read_bytes())["outputs"]} == {"note.md", "totals.csv", "totals.json"}
    verified = verify_contract(contract, ROOT / "data/packages/seed-packet-count/attempts/revised")
    assert verified.verdict == "pass"


def test_a_contract_of_other_bytes_is_left_out(garden_compiled: Path, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "data/packages/seed-packet-count", tmp_path / "packages/seed-packet-count")
    note = tmp_path / "packages/seed-packet-count/attempts/revised/artifacts/note.md"
    note.write_text(note.read_text("utf-8") + "more\n", encoding="utf-8")
    packs = build_packs(garden_compiled, files=tmp_path / "packages")
    assert packs.contracts.is_empty()
    assert packs.withheld == {"contracts_of_other_bytes": 1}


@given(st.lists(st.text(max_size=80), unique=True, min_size=1, max_size=6))
def test_any_sources_get_valid_names_of_their_own(sources: list[str]) -> None:
    made = pl.DataFrame({"s": sources}, schema={"s": pl.String}).select(pack_name(pl.col("s"))).to_series().to_list()
    assert all(re.fullmatch(r"[a-z0-9]+(?:-[a-z0-9]+)*", n) and len(n) <= NAME for n in made)
    assert len(set(made)) == len(sources)


# -- what must not appear ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package with a private criterion that feedback repeats, a hidden reference that a step cites, and a secret in a step."""
    root = tmp_path_factory.mktemp("planted")
    for name in ("pkg_a", "pkg_b"):
        folder = package(root / "in", name, task_id=f"task_{name}", private_item=True, faults=["hidden_ref"])
        put(folder / "hidden/reference.json", {"acorns_in_hiding": 4711})

        def private(doc: dict[str, Any]) -> None:
            doc["rubric_items"][1].update(
                rubric_item_id="acorn_tally", criterion_name="Acorn tally", criterion_description=PRIVATE
            )

        def leaky(doc: dict[str, Any]) -> None:
            doc["revision_instructions"] = ["Recount.", f"See to it that {PRIVATE.upper()}.", f"Mind that {PRIVATE}."]

        def secret(doc: dict[str, Any]) -> None:
            doc["steps"][2]["error_message"] = f"refused {SECRET} again"

        edit(folder / "rubric/rubric.json", private)
        edit(folder / "loops/iterations/0001/reviewer_feedback.json", leaky)
        edit(folder / "attempts/baseline/agent_trace.json", secret)
        for kind in ("baseline", "revised"):
            path = folder / f"grading/{kind}_grader_result.json"
            path.write_text(path.read_text("utf-8").replace("secret_total", "acorn_tally"), encoding="utf-8")
    from expcomp.compiler.build import compile_paths

    compile_paths([root / "in"], root / "compiled", processes=1)
    return root / "compiled"


@pytest.mark.parametrize("layout", ["packs", "apprenticeship"])
def test_private_and_hidden_things_and_secrets_are_in_no_file(planted: Path, layout: str, tmp_path: Path) -> None:
    packs = build_packs(planted, files=planted.parent / "in")
    assert packs.contracts.height == 2
    report = packs.write(tmp_path / "out", layout=layout)
    everything = b"\n".join(files(tmp_path / "out").values()).lower()
    assert b"gauges" in everything
    for needle in (PRIVATE, "acorn_tally", "Acorn tally", "acorns_in_hiding", "4711", "hidden/reference", SECRET):
        assert needle.lower().encode() not in everything, needle
    assert report["withheld"]["statements"] > 0


def test_what_was_withheld_does_not_take_the_rest_with_it(planted: Path) -> None:
    packs = build_packs(planted)
    said = packs.statements.filter(pl.col("kind") == "review")["subject"].unique().to_list()
    assert "Recount." in said
    assert not packs.statements["text"].str.contains("Mind that|<private:").any()
    assert "<secret:forge_token>" in "".join(packs.statements["text"])


# -- the ancestor's tree -------------------------------------------------------------------------------------------------------


def test_the_tree_of_the_ancestor(garden_packs: Packs, garden: Compilation, tmp_path: Path) -> None:
    report = garden_packs.write(tmp_path / "out", layout="apprenticeship")
    roots = sorted(p for p in (tmp_path / "out/packages").iterdir())
    assert [p.name for p in roots] == sorted(garden.report["packages"])
    declared = {*ROWS, *COPIES, *STATED, *LISTED, *SECTION_TEXTS, *EMPTY}
    for root in roots:
        there = files(root / "experience_compiler")
        assert declared <= set(there)
        for name in EMPTY:
            data = there[name].decode()
            assert (
                data == "" if name.endswith(".jsonl") else root.name in data and ("empty" in data or "Nothing" in data)
            )
    assert set(EMPTY) <= {m["path"] for m in report["missing"]}
    check_no_constant(files(tmp_path / "out/packages"), garden)
    for name, value in documents(tmp_path / "out/packages"):
        assert isinstance(value, dict), name


def test_rows_of_the_tree_are_those_of_the_compile(garden_packs: Packs, garden: Compilation, tmp_path: Path) -> None:
    garden_packs.write(tmp_path / "out", layout="apprenticeship")
    base = tmp_path / "out/packages/seed-packet-count/experience_compiler"
    lines = (base / "training_time_package/preference_pairs.jsonl").read_text("utf-8").splitlines()
    own = garden.rows["preference_pair"].filter(pl.col("package_id") == "seed-packet-count")
    assert [json.loads(line)["row_id"] for line in lines] == own["row_id"].to_list()
    assert {json.loads(line)["source_package_id"] for line in lines} == {"seed-packet-count"}
    assert (base / "skill_pack/skill.md").read_text("utf-8").startswith("---\nname: seed-packet-count\n")


def test_an_opened_and_a_loaded_compile_give_the_same(garden_compiled: Path, garden_packs: Packs) -> None:
    again = build_packs(loaded(open_compilation(garden_compiled)))
    assert again.statements.equals(garden_packs.statements)
