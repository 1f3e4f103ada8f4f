"""The report of a compile: books that add up, reasons, redactions, score distributions, rounds; clocks apart."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.compiler.counts import BINS
from expcomp.compiler.gates import REASONS
from expcomp.errors import InternalError
from expcomp.rows.registry import ROW_FAMILIES
from expcomp.tables.core import CORE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def build_report(
    counts: pl.DataFrame, tables: Mapping[str, int], packages: Iterable[str], discovery: Counter[str]
) -> dict[str, Any]:
    """The report over the counts of all cells.

    Args:
        counts: As `counts.COUNTS`.
        tables: Rows of each table of the common model, without the diagnostics of the discovery.
        packages: All packages, also those without rows.
        discovery: Diagnostics of the discovery by code.

    Raises:
        InternalError: The books do not balance; nothing is published then.
    """
    families: dict[str, dict[str, Any]] = {}
    verdicts, reasons = _sums(counts, "family", "a", "b"), _sums(counts, "reason", "a", "b")
    for name in ROW_FAMILIES:
        accepted, rejected = verdicts.get((name, "accepted"), 0), verdicts.get((name, "rejected"), 0)
        own = {reason: n for (family, reason), n in sorted(reasons.items()) if family == name}
        families[name] = {
            "generated": accepted + rejected,
            "accepted": accepted,
            "rejected": rejected,
            "reasons": own,
        }
    by_package = _sums(counts, "package", "a", "b")
    books = {}
    for package in packages:
        yes, no = by_package.get((package, "accepted"), 0), by_package.get((package, "rejected"), 0)
        books[package] = {"generated": yes + no, "accepted": yes, "rejected": no}
    total = {k: sum(int(f[k]) for f in families.values()) for k in ("generated", "accepted", "rejected")}
    if total != {k: sum(b[k] for b in books.values()) for k in total}:
        msg = f"the books do not balance: families say {total}, packages another sum; nothing was published"
        raise InternalError(msg)
    diagnostics = discovery + Counter({k: n for (k,), n in _sums(counts, "diagnostics", "a").items()})
    held = {name: tables.get(name, 0) for name in CORE}
    return {
        "total": total,
        "families": families,
        "empty": {name: _why_empty(name, held) for name, own in families.items() if not own["generated"]},
        "packages": books,
        "attempts": {k: n for (k,), n in sorted(_sums(counts, "attempts", "a").items())},
        "tables": dict(sorted(held.items())),
        "redactions": {k: n for (k,), n in sorted(_sums(counts, "redactions", "a").items())},
        "diagnostics": dict(sorted(diagnostics.items())),
        "scores": _scores(counts),
        "rounds": _rounds(counts),
        "reasons": dict(REASONS),
    }


def _why_empty(family: str, tables: Mapping[str, int]) -> str:
    """Which of the tables a family is made from are empty; with none empty, no record in them makes such a row."""
    empty = [name for name in ROW_FAMILIES[family].requires if not tables[name]]
    if empty:
        return f"the sources have no {' and no '.join(name.replace('_', ' ') for name in empty)}"
    return f"no record in {', '.join(ROW_FAMILIES[family].requires)} makes such a row"


def _sums(counts: pl.DataFrame, kind: str, *keys: str) -> dict[tuple[str, ...], int]:
    found = counts.filter(pl.col("kind") == kind).group_by(keys, maintain_order=True).agg(pl.col("n").sum())
    return dict(zip(zip(*(found[k].to_list() for k in keys), strict=True), found["n"].to_list(), strict=True))


def _scores(counts: pl.DataFrame) -> dict[str, Any]:
    """Ten equal bins over 0..1 and the nulls, by family and part; parts that are null throughout are left out."""
    total: dict[tuple[str, str], list[int]] = {}
    for (family, part, bin_), n in _sums(counts, "score", "a", "b", "c").items():
        total.setdefault((family, part), [0] * (BINS + 1))[int(bin_)] += n
    out: dict[str, Any] = {}
    for (family, part), bins in sorted(total.items()):
        if sum(bins[:-1]):
            out.setdefault(family, {})[part] = {"bins": bins[:-1], "null": bins[-1]}
    return out


def _rounds(counts: pl.DataFrame) -> dict[str, Any]:
    """Rounds by family, summed over cells; a cell that needed fewer counts with its last state."""
    rounds = counts.filter(pl.col("kind") == "round").with_columns(pl.col("b").cast(pl.Int64))
    rounds = rounds.with_columns(last=pl.col("b").max().over("cell", "a"), most=pl.col("b").max().over("a"))
    repair = pl.col("c").str.starts_with("repair:")
    found: dict[str, list[dict[str, Any]]] = {}
    for number in sorted(set(rounds["b"].to_list())):
        state = (pl.col("b") == pl.min_horizontal(number, "last")) & ~repair
        fresh = (pl.col("b") == number) & repair
        part = rounds.filter((pl.col("most") >= number) & (state | fresh)).with_columns(kind=pl.lit("round"))
        sums = _sums(part, "round", "a", "c")
        for name in ROW_FAMILIES:
            own = {what: n for (family, what), n in sorted(sums.items()) if family == name}
            if not own:
                continue
            said = {
                kind: {k.removeprefix(kind): n for k, n in own.items() if k.startswith(kind)}
                for kind in ("reason:", "repair:")
            }
            rejected = own.get("rejected", 0)
            found.setdefault(name, []).append(
                {
                    "round": number,
                    "rows": own["rows"],
                    "accepted": own["rows"] - rejected,
                    "rejected": rejected,
                    "reasons": said["reason:"],
                    "repairs": said["repair:"],
                    "judge": "rules",
                }
            )
    return {name: found[name] for name in ROW_FAMILIES if name in found}
