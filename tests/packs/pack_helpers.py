"""What the tests of packs share: compiles of the example packages, tampering with evidence, reading what was published."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from expcomp.compiler.compilation import Compilation

EVIDENCE = re.compile(r"evidence_[0-9a-f]{16}")
LINE = re.compile(r"^- (?:\[ \] )?(.*) \[(evidence_[^\]]*)\]$")
MORE = re.compile(r"^- \d+ more in skill\.json\.$")


def without_evidence(compilation: Compilation, cited: list[dict[str, str]]) -> Compilation:
    """The compilation as if some files had not been found."""
    gone = pl.DataFrame(cited, schema={"package_id": pl.String, "evidence_id": pl.String})
    tables = dict(compilation.tables)
    tables["evidence"] = tables["evidence"].join(
        gone, on=["package_id", "evidence_id"], how="anti", maintain_order="left"
    )
    return replace(compilation, tables=tables)


def loaded(compilation: Compilation) -> Compilation:
    """A compilation with its tables in memory, so that they can be exchanged."""
    from expcomp.tables.core import CORE

    return replace(compilation, tables={name: compilation.tables[name] for name in CORE})


def known(compilation: Compilation) -> set[tuple[str, str]]:
    """(package_id, evidence_id) of the files that were found and may be seen."""
    frame = compilation.tables["evidence"].filter(pl.col("exists") & (pl.col("visibility") == "visible"))
    return set(zip(frame["package_id"], frame["evidence_id"], strict=True))


def files(folder: Path) -> dict[str, bytes]:
    """Contents by path below a folder."""
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def cited_in(value: Any) -> Iterator[tuple[str, str]]:
    """Every citation in a JSON value."""
    if isinstance(value, dict):
        if value.keys() == {"package_id", "evidence_id"}:
            yield value["package_id"], value["evidence_id"]
        for inner in value.values():
            yield from cited_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from cited_in(inner)


def documents(folder: Path) -> Iterator[tuple[str, Any]]:
    """Every JSON document and JSON line below a folder."""
    for name, data in files(folder).items():
        if name.endswith(".json"):
            yield name, json.loads(data)
        elif name.endswith(".jsonl"):
            yield from ((name, json.loads(line)) for line in data.decode().split("\n") if line)


def uncited(markdown: str) -> list[str]:
    """Lines of a Markdown file that state something and cite nothing."""
    body = markdown.split("\n---\n", 1)[-1] if markdown.startswith("---\n") else markdown
    plain = [line for line in body.splitlines() if line and not line.startswith("#")]
    return [
        line
        for line in plain
        if not EVIDENCE.search(line) and not MORE.match(line) and not line.startswith("Nothing: ")
    ]
