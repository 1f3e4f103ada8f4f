"""Review of pairs: whether a baseline and a treatment may be compared, by a contract of equalities that is data."""

from __future__ import annotations

import functools
import operator
from typing import TYPE_CHECKING

import orjson
import polars as pl

from expcomp.ledger.cases import fill_template
from expcomp.ledger.documents import entry_documents
from expcomp.ledger.engine import compile_when
from expcomp.ledger.fields import compile_fields

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from expcomp.ledger.pack import Pack

SIDES = ("baseline", "treatment")
NO_BLOCKER = "none"
REVIEW = "pair_review"


def review_pairs(
    baselines: Sequence[Mapping[str, Any]],
    treatments: Sequence[Mapping[str, Any]],
    pack: Pack,
    *,
    benchmarks: Sequence[str | None] | None = None,
    max_rounds: Sequence[int | None] | None = None,
) -> pl.DataFrame:
    """One row a pair of records or entries, in their order.

    Args:
        baselines: Records or entry documents of the baselines.
        treatments: Those of the treatments, as many.
        pack: Rules.
        benchmarks: Benchmark each pair is expected to be of; null: the pack's.
        max_rounds: Budget of rounds asked for; null: what both had, else the pack's least.
    """
    contract = pack.data("pair")
    fields = compile_fields("pair", contract["facts"], {})
    sides = [
        frame.rename({c: f"{side}_{c}" for c in frame.columns})
        for side, frame in zip(SIDES, map(fields.frame, (baselines, treatments)), strict=True)
    ]
    asked = pl.DataFrame(
        {"expected": benchmarks or [None] * len(baselines), "asked_rounds": max_rounds or [None] * len(baselines)},
        schema={"expected": pl.String, "asked_rounds": pl.Int64},
    )
    found = pl.concat([*sides, asked], how="horizontal")
    for step in (_terms, _sides, _equalities):
        found = found.with_columns(**step(contract))
    blockers = [
        pl.when(compile_when(b["when"], found.schema, f"pair/{b['text']}")).then(fill_template(b["text"]))
        for b in contract["blockers"]
    ]
    found = found.with_columns(claim_blocker=pl.concat_str(blockers, separator=",", ignore_nulls=True))
    complete = pl.col("claim_blocker") == ""
    found = found.with_columns(
        complete=complete, claim_blocker=pl.when(complete).then(pl.lit(NO_BLOCKER)).otherwise("claim_blocker")
    )
    return found.select(list(dict.fromkeys(contract["columns"].values())))


def _terms(contract: Mapping[str, Any]) -> dict[str, pl.Expr]:
    """What the pair is of, and the budget it is held to."""
    least = contract["review"]["min_rounds"]
    rounds = [pl.col(f"{s}_rounds") for s in SIDES]
    common = pl.when((rounds[0] == rounds[1]) & (rounds[0] >= least)).then(rounds[0])
    return {
        **{f"{s}_case": pl.coalesce(f"{s}_case", pl.col(f"{s}_cases").list.first(), pl.lit("")) for s in SIDES},
        "expected": pl.coalesce("expected", pl.lit(contract["review"]["benchmark"])),
        "max_rounds_budget": pl.coalesce("asked_rounds", common, pl.lit(least, dtype=pl.Int64)),
    }


def _sides(contract: Mapping[str, Any]) -> dict[str, pl.Expr]:
    """What each side shows: its route, rounds, measures, and the life of the tool in the treatment."""
    routes, least = contract["routes"], contract["review"]["min_rounds"]
    out: dict[str, pl.Expr] = {}
    for s in SIDES:
        rounds = pl.col(f"{s}_rounds")
        out[f"{s}_route_valid"] = holds_a_word([pl.col(f"{s}_{c}") for c in routes["columns"]], routes[s])
        out[f"{s}_rounds_low"] = (rounds < least).fill_null(value=False)
        out[f"{s}_rounds_other"] = (rounds != pl.col("max_rounds_budget")).fill_null(value=False)
        out[f"{s}_measured"] = pl.any_horizontal(pl.col(f"{s}_reward", f"{s}_rewards").is_not_null())
        lived = pl.col(f"{s}_satisfied").eq_missing(other=True) & pl.col(f"{s}_countable").ne_missing(other=False)
        out[f"{s}_lifecycle_observed"] = lived | pl.any_horizontal(pl.col(f"{s}_observed", f"{s}_calls").is_not_null())
    return out


def _equalities(_contract: Mapping[str, Any]) -> dict[str, pl.Expr]:
    """What must be equal on both sides; unknown benchmarks and rounds are not unequal, unknown cases are."""
    base, treat = ({c: pl.col(f"{s}_{c}") for c in ("case", "benchmark", "rounds", "blinded")} for s in SIDES)
    return {
        "case_id": base["case"],
        "benchmark_id": pl.coalesce(base["benchmark"], "expected"),
        "same_case": (base["case"] != "") & (base["case"] == treat["case"]),
        "same_benchmark": (base["benchmark"] == treat["benchmark"]).fill_null(value=True),
        "expected_benchmark": (base["benchmark"] == pl.col("expected")).fill_null(value=True),
        "same_rounds": (base["rounds"] == treat["rounds"]).fill_null(value=True),
        "official_feedback_blinded": base["blinded"].eq_missing(other=True) & treat["blinded"].eq_missing(other=True),
    }


def holds_a_word(columns: Iterable[pl.Expr], words: Iterable[str]) -> pl.Expr:
    """True where some lower-case text holds one of the words."""
    words = list(words)
    tests = [c.str.contains_any(words).fill_null(value=False) for c in columns] if words else []
    return functools.reduce(operator.or_, tests, pl.lit(value=False))


def reviewed(contract: Mapping[str, Any]) -> pl.Expr:
    """True for a run whose pair is reviewed when it is the treatment."""
    spec = contract["reviewed"]
    texts = [pl.col(c) for c in spec["columns"]] + [
        pl.col("extra").str.json_path_match(f"$.{p}") for p in spec["paths"]
    ]
    return holds_a_word([t.str.to_lowercase() for t in texts], spec["words"])


def reviews_of(baselines: pl.DataFrame, treatments: pl.DataFrame, pack: Pack) -> pl.DataFrame:
    """One row a pair of runs: whether it is complete, what blocks it, and the document of its review as JSON text."""
    if baselines.is_empty():
        return pl.DataFrame(schema={"pair_complete": pl.Boolean, "pair_blocker": pl.String, REVIEW: pl.String})
    given = baselines.get_column("benchmark_id").to_list()
    found = review_pairs(entry_documents(baselines), entry_documents(treatments), pack, benchmarks=given)
    texts = [orjson.dumps(kept(d)).decode() for d in review_documents(found, pack)]
    return found.select(
        pair_complete="complete", pair_blocker="claim_blocker", **{REVIEW: pl.Series(texts, dtype=pl.String)}
    )


def kept(document: Mapping[str, Any]) -> dict[str, Any]:
    """A document without nulls, empty texts and empty lists."""
    return {k: v for k, v in document.items() if v is not None and v not in ("", [])}


def review_documents(found: pl.DataFrame, pack: Pack) -> list[dict[str, Any]]:
    """The document of each review."""
    contract = pack.data("pair")
    columns: Mapping[str, str] = contract["columns"]
    values = zip(*(found.get_column(c).to_list() for c in columns.values()), strict=True)
    return [{**contract["constants"], **dict(zip(columns, row, strict=True))} for row in values]
