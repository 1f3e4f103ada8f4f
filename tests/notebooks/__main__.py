"""Run notebooks and write their outputs: python -m tests.notebooks [part of a name ...]."""

from __future__ import annotations

import sys

import nbformat

from tests.notebooks.execution import NOTEBOOKS, execute

for path in NOTEBOOKS:
    if len(sys.argv) < 2 or any(word in path.name for word in sys.argv[1:]):
        nbformat.write(execute(path), path)
        sys.stdout.write(f"{path.name}: {path.stat().st_size / 1000:,.0f} kB\n")
