"""The notebooks: their outputs are those of a fresh run, they use what is public, and nothing of a machine is in them."""

from __future__ import annotations

import ast
import base64
import getpass
import math
import re
import socket
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import nbformat
import pytest

import expcomp
from tests.helpers import ROOT
from tests.notebooks.execution import KERNEL, NOTEBOOKS, SHOWN, execute

NAMES = ("01_tour", "02_solver_gap", "03_paired_arms", "04_traces_to_dataset")
MODULES = {"expcomp", "matplotlib", "polars", "pathlib", "tempfile"}
MOST_BYTES = 300_000
MINUS = "\N{MINUS SIGN}"
FRAME = re.compile("[\u2500-\u257f]+")
each = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


def code(path: Path) -> Iterator[tuple[int, Any]]:
    return ((n, c) for n, c in enumerate(read(path).cells, 1) if c.cell_type == "code")


def said(output: Any) -> list[str]:
    """The words of an output, without markup and the lines of tables; of a figure only that it is there."""
    if output.output_type == "stream":
        return [output.name, *output.text.split()]
    if "image/png" in output.data:
        return ["image/png"]
    text = output.data.get("text/html")
    if text is None:
        return FRAME.sub(" ", output.data["text/plain"]).split()
    return unescape(re.sub(r"<style>.*?</style>|<[^>]*>", " ", text, flags=re.DOTALL)).split()


def told(cell: Any) -> list[str]:
    """All words of a cell."""
    return [word for output in cell.outputs for word in said(output)]


def same(one: str, other: str) -> bool:
    """Equal words, or numbers that differ by what processors round differently."""
    if one == other:
        return True
    try:
        return math.isclose(float(one), float(other), rel_tol=1e-6, abs_tol=1e-9)
    except ValueError:
        return False


def text_of(path: Path) -> str:
    return " ".join(word for _, cell in code(path) for word in told(cell))


def test_all_notebooks_are_there() -> None:
    assert tuple(p.stem for p in NOTEBOOKS) == NAMES


def test_words_of_an_output() -> None:
    frame = nbformat.v4.new_output(
        "execute_result", data={"text/html": "<style>a</style><td>0.5</td><td>&lt;x&gt;</td>"}
    )
    plain = nbformat.v4.new_output("execute_result", data={"text/plain": "\u2502 a \u2506 1 \u2502"})
    assert (said(frame), said(plain)) == (["0.5", "<x>"], ["a", "1"])
    assert same("0.3000001", "0.3")
    assert not same("0.31", "0.3")
    assert not same("nan", "0.3")


@pytest.mark.slow
@each
def test_outputs_are_those_of_a_fresh_run(path: Path) -> None:
    kept = {n: told(cell) for n, cell in code(path)}
    fresh = {n: told(cell) for n, cell in enumerate(execute(path).cells, 1) if cell.cell_type == "code"}
    assert kept.keys() == fresh.keys()
    for number, words in fresh.items():
        differ = [(a, b) for a, b in zip(kept[number], words, strict=False) if not same(a, b)]
        assert (len(kept[number]), differ) == (len(words), []), (
            f"{path.name}, cell {number}: outputs are not those of a run; read the text around it, "
            f"then: python -m tests.notebooks {path.stem}"
        )


@each
def test_cells_ran_in_order_and_none_failed(path: Path) -> None:
    assert [cell.execution_count for _, cell in code(path)] == list(range(1, len(list(code(path))) + 1))
    kinds = {o.output_type for _, cell in code(path) for o in cell.outputs}
    assert kinds <= {"stream", "execute_result", "display_data"}
    assert {o.name for _, cell in code(path) for o in cell.outputs if o.output_type == "stream"} <= {"stdout"}


@each
def test_only_the_public_api_is_used(path: Path) -> None:
    trees = [ast.parse(re.sub(r"(?m)^%.*$", "", cell.source)) for _, cell in code(path)]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    imports = [a for n in nodes if isinstance(n, ast.Import) for a in n.names]
    froms = [n.module for n in nodes if isinstance(n, ast.ImportFrom)]
    assert {name.split(".")[0] for name in (*(a.name for a in imports), *map(str, froms))} <= MODULES
    assert [(a.name, a.asname) for a in imports if a.name.startswith("expcomp")] == [("expcomp", "xc")]
    assert not [m for m in froms if str(m).startswith("expcomp")]
    attributes = [n for n in nodes if isinstance(n, ast.Attribute)]
    used = {n.attr for n in attributes if isinstance(n.value, ast.Name) and n.value.id == "xc"}
    assert used
    assert used <= set(expcomp.__all__)
    assert not [n.attr for n in attributes if n.attr.startswith("_")]


@each
def test_nothing_of_the_machine_or_the_clock_is_kept(path: Path) -> None:
    notebook = read(path)
    assert notebook.metadata == {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    assert [c.id for c in notebook.cells] == [f"cell-{n:02}" for n in range(1, len(notebook.cells) + 1)]
    assert not any(c.metadata for c in notebook.cells)
    outputs = [o for _, cell in code(path) for o in cell.outputs if "data" in o]
    assert not any(o.metadata for o in outputs)
    assert {form for o in outputs for form in o.data} <= set(SHOWN)
    written = path.read_text("utf-8")
    private = {str(ROOT), str(Path.home()), "/tmp/", "/home/", "/Users/", "C:\\\\"} - {"/"}
    # Shorter names are words, or stand in any picture.
    private |= {name for name in (getpass.getuser(), socket.gethostname()) if len(name) > 4}
    assert sorted(p for p in private if p in written) == []


@each
def test_it_is_small_and_its_figures_are_pictures(path: Path) -> None:
    assert path.stat().st_size < MOST_BYTES
    images = [o.data["image/png"] for _, c in code(path) for o in c.outputs if "image/png" in o.get("data", {})]
    assert images
    assert all(base64.b64decode(i).startswith(b"\x89PNG") for i in images)


@each
def test_numbers_in_the_text_stand_in_the_outputs(path: Path) -> None:
    # Three decimals in the text are results; they must not stay behind when the outputs change.
    shown = text_of(path).replace(MINUS, "-")
    prose = " ".join(c.source for c in read(path).cells if c.cell_type == "markdown").replace(MINUS, "-")
    assert [n for n in re.findall(r"-?\d\.\d{3}\b", prose) if n not in shown] == []
