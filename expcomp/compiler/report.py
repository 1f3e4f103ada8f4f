"""The report of a compile: books that add up, reasons, redactions, score distributions, rounds; clocks apart."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from expcomp.compiler.gates import REASONS
from expcomp.errors import InternalError
from expcomp.rows.registry import ROW_FAMILIES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from expcomp.compiler.shard import ShardResult


def build_report(results: Sequence[ShardResult], packages: Iterable[str], discovery: Counter[str]) -> dict[str, Any]:
    """Counts of all shards together.

    Raises:
        InternalError: The books do not balance; nothing is published then.
    """
    generated, accepted = _sum(r.generated for r in results), _sum(r.accepted for r in results)
    reasons, by_package = _sum(r.reasons for r in results), _sum(r.by_package for r in results)
    tables = _sum(r.tables for r in results)
    families: dict[str, dict[str, Any]] = {}
    for name in ROW_FAMILIES:
        own = {reason: n for (family, reason), n in sorted(reasons.items()) if family == name}
        families[name] = {
            "generated": generated[name],
            "accepted": accepted[name],
            "rejected": generated[name] - accepted[name],
            "reasons": own,
        }
    books = {}
    for package in packages:
        yes, no = by_package[package, "accepted"], by_package[package, "rejected"]
        books[package] = {"generated": yes + no, "accepted": yes, "rejected": no}
    total = {k: sum(int(f[k]) for f in families.values()) for k in ("generated", "accepted", "rejected")}
    if total != {k: sum(b[k] for b in books.values()) for k in total}:
        msg = f"the books do not balance: families say {total}, packages another sum; nothing was published"
        raise InternalError(msg)
    return {
        "total": total,
        "families": families,
        "empty": {name: _why_empty(name, tables) for name in ROW_FAMILIES if not generated[name]},
        "packages": books,
        "attempts": dict(sorted(_sum(r.attempts for r in results).items())),
        "tables": dict(sorted(tables.items())),
        "redactions": dict(sorted(_sum(r.redactions for r in results).items())),
        "diagnostics": dict(sorted((discovery + _sum(r.diagnostics for r in results)).items())),
        "scores": _scores(results),
        "rounds": _rounds(results),
        "reasons": dict(REASONS),
    }


def _why_empty(family: str, tables: Counter[str]) -> str:
    """Which of the tables a family is made from are empty; with none empty, no record in them makes such a row."""
    empty = [name for name in ROW_FAMILIES[family].requires if not tables[name]]
    if empty:
        return f"the sources have no {' and no '.join(name.replace('_', ' ') for name in empty)}"
    return f"no record in {', '.join(ROW_FAMILIES[family].requires)} makes such a row"


def _sum(counters: Iterable[Counter[Any]]) -> Counter[Any]:
    total: Counter[Any] = Counter()
    for counter in counters:
        total.update(counter)
    return total


def _scores(results: Sequence[ShardResult]) -> dict[str, Any]:
    """Ten equal bins over 0..1 and the nulls, by family and part; parts that are null throughout are left out."""
    total: dict[tuple[str, str], list[int]] = {}
    for result in results:
        for key, bins in result.scores.items():
            total[key] = [a + b for a, b in zip(total.get(key, [0] * len(bins)), bins, strict=True)]
    out: dict[str, Any] = {}
    for (family, part), bins in sorted(total.items()):
        if sum(bins[:-1]):
            out.setdefault(family, {})[part] = {"bins": bins[:-1], "null": bins[-1]}
    return out


def _rounds(results: Sequence[ShardResult]) -> dict[str, Any]:
    """Rounds by family, summed over shards; a shard that needed fewer counts with its last state."""
    out: dict[str, Any] = {}
    for name in ROW_FAMILIES:
        runs = [r.rounds[name] for r in results if name in r.rounds]
        if not runs:
            continue
        out[name] = []
        for number in range(max(map(len, runs))):
            states = [run[min(number, len(run) - 1)] for run in runs]
            fresh = [run[number] for run in runs if number < len(run)]
            out[name].append(
                {
                    "round": number + 1,
                    **{k: sum(s[k] for s in states) for k in ("rows", "accepted", "rejected")},
                    "reasons": dict(sorted(_sum(Counter(s["reasons"]) for s in states).items())),
                    "repairs": dict(sorted(_sum(Counter(s["repairs"]) for s in fresh).items())),
                    "judge": "rules",
                }
            )
    return out
