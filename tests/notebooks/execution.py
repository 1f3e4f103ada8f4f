"""Run a notebook on a copy of `data`, away from the checkout, and leave in it nothing of the machine or the clock."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nbformat
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

from tests.helpers import ROOT, environment

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
# Only these forms of an output are kept: what a reader sees.
SHOWN = ("text/plain", "text/html", "image/png")


def execute(path: Path) -> Any:
    """The notebook with fresh outputs; a cell that raises fails the run."""
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    with TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "notebooks").mkdir()
        shutil.copytree(ROOT / "data", root / "data", symlinks=True)
        # Sockets as files: a kernel on TCP needs free ports, and warns that others on the machine can listen.
        where = {"metadata": {"path": os.fspath(root / "notebooks")}}
        client = NotebookClient(notebook, timeout=300, coalesce_streams=True, resources=where)
        client.km = AsyncKernelManager(kernel_name=KERNEL["name"], transport="ipc", ip=os.fspath(root / "kernel"))
        client.execute(env=environment())
    return clean(notebook)


def clean(notebook: Any) -> Any:
    """Ids and counts by position, outputs in the forms a reader sees, no other metadata."""
    notebook.metadata = nbformat.from_dict({"kernelspec": KERNEL, "language_info": {"name": "python"}})
    count = 0
    for number, cell in enumerate(notebook.cells, 1):
        cell.id, cell.metadata = f"cell-{number:02}", nbformat.from_dict({})
        if cell.cell_type != "code":
            continue
        count += 1
        cell.execution_count = count
        for output in cell.outputs:
            if "data" in output:
                output.data = nbformat.from_dict({k: v for k, v in output.data.items() if k in SHOWN})
                output.metadata = nbformat.from_dict({})
            if "execution_count" in output:
                output.execution_count = count
    return notebook
