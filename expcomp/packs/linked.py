"""Output contracts beside the packs: inferred from the files of the packages, kept where the compile saw the same bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.io.documents import json_document
from expcomp.packs.contracts.infer import infer_contracts
from expcomp.packs.guard import withheld
from expcomp.packs.members import pack_name

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from expcomp.packs.facts import Facts


def contracts(path: Path, facts: Facts, private: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, int]]:
    """(pack_id, text): the contract of each package that asks for a file, and how many were left out, by reason.

    Args:
        path: The packages that were compiled: one, or a run folder with them.
        facts: The facts of the compile.
        private: What `private_texts` gives.

    Raises:
        SourceError: There are no packages.
    """
    found = {package: value for package, value in infer_contracts(path).items() if value.get("outputs")}
    files = facts.files.select("package_id", "evidence_id", "sha256")
    seen = set(zip(*(files[c].to_list() for c in files.columns), strict=True))
    same = {p: v for p, v in found.items() if {(p, *e) for e in _evidence(v)} <= seen}
    frame = pl.DataFrame(
        {"package_id": list(same), "text": [json_document(v) for v in same.values()]},
        schema={"package_id": pl.String, "text": pl.String},
    ).select("text", pack_id=pack_name(pl.col("package_id")))
    own = frame.join(
        facts.members.select("pack_id").unique(maintain_order=True), on="pack_id", how="semi", maintain_order="left"
    )
    hidden = withheld(own, private, text="text")
    counts = {"contracts_of_other_bytes": len(found) - own.height, "contracts": int(hidden.sum())}
    return own.filter(~hidden).select("pack_id", "text"), counts


def _evidence(value: Any) -> Iterator[tuple[str, str]]:
    """Every (evidence_id, sha256) in a contract."""
    if isinstance(value, dict):
        if "evidence_id" in value:
            yield str(value["evidence_id"]), str(value.get("sha256"))
        for inner in value.values():
            yield from _evidence(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _evidence(inner)
