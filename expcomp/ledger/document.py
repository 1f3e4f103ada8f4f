"""The ledger as one JSON document, in the shape of the ancestor: read, derived again, and written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson
import polars as pl

from expcomp.errors import SourceError
from expcomp.ledger.cases import CASE, RUN, in_order
from expcomp.ledger.decide import decide, decision_documents
from expcomp.ledger.documents import entry_documents, from_documents
from expcomp.ledger.recompute import recompute
from expcomp.ledger.written import KEY, with_whole_scores

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from expcomp.ledger.pack import Pack

_ORDER = ("recorded_at", "run_id")
_OWN = ("schema_version", "updated_at", "benchmarks")


@dataclass(frozen=True, slots=True)
class LedgerDocument:
    """What a ledger document holds.

    Attributes:
        runs: Its runs, derived again, in order.
        updated_at: When it was written, as it says.
        benchmarks: All benchmarks it names, also those without runs.
        header: Its other keys.
        refused: What in it is no run, or gives way to another with its id: place, field, reason.
    """

    runs: pl.DataFrame
    updated_at: str | None = None
    benchmarks: tuple[str, ...] = ()
    header: Mapping[str, Any] = field(default_factory=dict)
    refused: tuple[tuple[str, str, str], ...] = ()


def read_ledger_document(document: Any, pack: Pack, *, as_written: bool = False) -> LedgerDocument:
    """The runs of a ledger document: what rules derive is derived again, a run that is there twice counts once, the last wins.

    Args:
        document: The document.
        pack: Rules.
        as_written: Derive nothing again: the runs are what the document says of them.

    Raises:
        SourceError: Not an object, or of another schema.
    """
    schema = pack.data("operations")["document"]["schema_version"]
    if not isinstance(document, dict):
        raise SourceError(f"a ledger must be a JSON object, this is {type(document).__name__}")
    if document.get("schema_version") != schema:
        raise SourceError(f"a ledger must have schema_version {schema!r}, this has {document.get('schema_version')!r}")
    entries, benchmarks, cases = [], [], []
    refused: list[tuple[str, str, str]] = []
    named = dict(_objects(document, "benchmarks", "", refused))
    for benchmark, node in named.items():
        for case, inner in _objects(node, "cases", benchmark, refused):
            kept = list(_entries(inner, f"{benchmark}/{case}", refused))
            entries += kept
            benchmarks += [benchmark] * len(kept)
            cases += [case] * len(kept)
    runs = from_documents(entries, benchmarks=benchmarks, cases=cases, profile=pack.profile)
    runs = with_whole_scores(runs, [e.get(KEY) for e in entries])
    refused += _displaced(runs)
    runs = with_roles(runs, pack) if as_written else reload(runs, pack)
    at = document.get("updated_at")
    header = {k: v for k, v in document.items() if k not in _OWN}
    return LedgerDocument(runs, at if isinstance(at, str) else None, tuple(named), header, tuple(refused))


def reload(runs: pl.DataFrame, pack: Pack) -> pl.DataFrame:
    """Runs as they are after a ledger was written and read again: derived columns made again, filed by case, each once, in order."""
    fresh = recompute(runs, pack)
    renamed = fresh.get_column("case_id").ne_missing(runs.get_column("case_id"))
    fresh = fresh.with_columns(
        filed_case=pl.coalesce(pl.when(pl.col("case_id") != "").then("case_id"), "filed_case"),
        case_ids=pl.when(renamed).then(pl.concat_list("case_id")).otherwise("case_ids"),
    )
    return in_order(fresh.unique(RUN, keep="last", maintain_order=True), _ORDER)


def with_roles(runs: pl.DataFrame, pack: Pack) -> pl.DataFrame:
    """Runs with the roles that the rules give them, all else as it is."""
    return runs.with_columns(recompute(runs, pack).select("is_baseline", "is_treatment"))


def _objects(
    holder: Mapping[str, Any], key: str, at: str, refused: list[tuple[str, str, str]]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The entries of an object inside another that are objects; what is none is refused."""
    value = holder.get(key)
    if not isinstance(value, dict):
        if value is not None:
            refused.append((at, key, f"{type(value).__name__}; expected an object"))
        return
    for name, inner in value.items():
        if isinstance(inner, dict):
            yield name, inner
        else:
            refused.append((at, f"{key}.{name}", f"{type(inner).__name__}; expected an object"))


def _entries(case: Mapping[str, Any], at: str, refused: list[tuple[str, str, str]]) -> Iterator[Mapping[str, Any]]:
    runs = case.get("runs", [])
    if not isinstance(runs, list):
        refused.append((at, "runs", f"{type(runs).__name__}; expected a list"))
        return
    for i, run in enumerate(runs):
        if isinstance(run, dict):
            yield run
        else:
            refused.append((at, f"runs[{i}]", f"{type(run).__name__}; expected an object"))


def _displaced(runs: pl.DataFrame) -> list[tuple[str, str, str]]:
    """Runs that give way to a later one of their case with the same id and other content."""
    last = pl.struct(RUN).is_last_distinct()
    other = pl.col("content_hash") != pl.col("content_hash").last().over(RUN)
    lost = runs.filter(~last & other).select(at=pl.concat_str(*CASE, separator="/"))
    return [(at, "run_id", "a later run of the case has this id; that one counts") for at in lost["at"].to_list()]


def ledger_document(
    runs: pl.DataFrame,
    pack: Pack,
    *,
    updated_at: str | None = None,
    benchmarks: Sequence[str] = (),
    header: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The document of a ledger.

    Args:
        runs: Its runs.
        pack: Rules and the words of the header.
        updated_at: When it is written.
        benchmarks: Benchmarks that are named also without runs.
        header: Keys beside the benchmarks; the pack's own policy by default.
    """
    ordered = in_order(runs, _ORDER)
    found = decide(ordered, pack)
    spec = pack.data("operations")["document"]
    policy = {k: spec[k] for k in ("source_of_truth", "update_rule")} | spec["flags"]
    out: dict[str, Any] = {
        b: _benchmark(b) for b in sorted({*benchmarks, *found.get_column("filed_benchmark").to_list()})
    }
    counts = [found.get_column(c).to_list() for c in (*CASE, "active_run_count", "archived_run_count")]
    for decision, (benchmark, case, live, gone) in zip(
        decision_documents(found, pack), zip(*counts, strict=True), strict=True
    ):
        node = out[benchmark]
        node["cases"][case] = {
            "case_id": case,
            "runs": [],
            "active_run_count": live,
            "archived_run_count": gone,
            "latest_decision": decision,
        }
        node["case_count"] += 1
        node["run_count"] += live + gone
        node["active_run_count"] += live
        node["archived_run_count"] += gone
        node["active_case_count"] += live > 0
    places = (ordered.get_column(c).to_list() for c in CASE)
    for entry, benchmark, case in zip(entry_documents(ordered), *places, strict=True):
        out[benchmark]["cases"][case]["runs"].append(entry)
    return {
        "schema_version": spec["schema_version"],
        "updated_at": updated_at,
        **({"update_policy": policy} if header is None else header),
        "benchmarks": out,
    }


def _benchmark(name: str) -> dict[str, Any]:
    zero = dict.fromkeys(("case_count", "run_count", "active_case_count", "active_run_count", "archived_run_count"), 0)
    return {"benchmark_id": name, **zero, "cases": {}}


def document_bytes(document: Mapping[str, Any]) -> bytes:
    """The document as the ancestor writes it: two spaces, keys sorted, text as it is."""
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)
