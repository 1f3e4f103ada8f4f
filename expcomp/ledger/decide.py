"""The decision of each case: facts of its active runs, one row a case, then rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson
import polars as pl

from expcomp.ledger.cases import CASE, active, clean_text, fill_template, lookup, ordered
from expcomp.ledger.engine import RuleSet, compile_rules, compile_when
from expcomp.ledger.pairs import REVIEW, SIDES, reviewed, reviews_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from expcomp.ledger.pack import Pack

_FACTS = ("run_id", "failure_scope", "official_score", "official_passed")
_DIGITS = 12
_ROUTING = ("class", "priority", "evidence", "next_action")


def decide(runs: pl.DataFrame, pack: Pack) -> pl.DataFrame:
    """One row a case, by benchmark and case: its decision, the rule that gave it, what it rests on, its route."""
    rules, routing = pack.data("decisions"), pack.data("routing")
    found = _cases(runs, rules, routing["counts"])
    found = _review(runs, _facts(runs, found, rules), pack)
    return decide_cases(found, pack)


def decide_cases(found: pl.DataFrame, pack: Pack) -> pl.DataFrame:
    """The decision for each row of facts."""
    rules, routing = pack.data("decisions"), pack.data("routing")
    value, rule = compile_rules(RuleSet("decisions", tuple(rules["rules"])), found.schema)
    found = found.with_columns(value.alias("decision"), rule.alias("decision_rule"))
    return _route(_repair(found, rules), routing).select(COLUMNS)


def _cases(runs: pl.DataFrame, rules: Mapping[str, Any], counts: Mapping[str, Any]) -> pl.DataFrame:
    """Per case: how many runs, and at which rows stand the last active one and the last of each role."""
    order = rules["last"]["order"]
    tests = {name: compile_when(when, runs.schema, f"routing/{name}") for name, when in counts.items()}
    roles = ("latest", *SIDES)
    counted = pl.col("countable_score")
    norm = pl.when(counted.is_not_null()).then("score_norm")
    side = {s: active() & pl.col(f"is_{s}").fill_null(value=False) for s in SIDES}
    narrow = runs.select(
        *CASE,
        *(ordered(c, runs.schema).alias(c) for c in order),
        active().alias("latest"),
        *(e.alias(s) for s, e in side.items()),
        *(pl.when(e).then(c).alias(f"{s}_{n}") for s, e in side.items() for n, c in (("raw", counted), ("norm", norm))),
        *(pl.when(e).then("arm_id").alias(f"{s}_arm") for s, e in side.items()),
        *((active() & test).alias(name) for name, test in tests.items()),
        _at=pl.int_range(pl.len(), dtype=pl.UInt32),
    )
    found = (
        narrow.group_by(CASE, maintain_order=True)
        .agg(
            pl.len().cast(pl.Int64).alias("run_count"),
            pl.col("latest").sum().cast(pl.Int64).alias("active_run_count"),
            *(pl.col(name).sum().cast(pl.Int64) for name in tests),
            *(pl.col(s).sum().cast(pl.Int64).alias(f"{s}_runs") for s in SIDES),
            *(pl.col(f"{s}_raw").count().cast(pl.Int64).alias(f"{s}_scored") for s in SIDES),
            *(pl.col(f"{s}_norm").count().alias(f"_{s}_normed") for s in SIDES),
            *(pl.col(f"{s}_{n}").mean().alias(f"_{s}_{n}") for s in SIDES for n in ("raw", "norm")),
            *(pl.col(f"{s}_arm").drop_nulls().n_unique().cast(pl.Int64).alias(f"{s}_arms") for s in SIDES),
        )
        .with_columns(_means())
        .sort(CASE)
        .with_row_index("_case")
    )
    runs_of = narrow.join(found.select(*CASE, "_case"), on=CASE, how="left", maintain_order="left")
    last = _last(runs_of.select("_case", "_at", *order, *roles), order, roles)
    return found.join(last, on="_case", how="left", maintain_order="left").drop("_case")


def _means() -> list[pl.Expr]:
    """Mean counted score of each side: from 0 to 1 where every score of the case has a scale, as it is where none has."""
    normed, scored = (pl.sum_horizontal(f.format(s) for s in SIDES) for f in ("_{}_normed", "{}_scored"))
    return [
        pl.when(normed == scored).then(f"_{s}_norm").when(normed == 0).then(f"_{s}_raw").alias(f"{s}_mean")
        for s in SIDES
    ]


def _last(runs: pl.DataFrame, order: Sequence[str], roles: Sequence[str]) -> pl.DataFrame:
    """Per case, where the last run of each role stands: without a sort, one column of the order after the other."""
    for column in order:
        best = (pl.when(r).then(column).max().over("_case") for r in roles)
        runs = runs.with_columns(
            (pl.col(r) & pl.col(column).eq_missing(b)).alias(r) for r, b in zip(roles, best, strict=True)
        ).filter(pl.any_horizontal(roles))
    return runs.group_by("_case", maintain_order=True).agg(
        pl.when(r).then("_at").max().alias(f"_at_{r}") for r in roles
    )


def _facts(runs: pl.DataFrame, found: pl.DataFrame, rules: Mapping[str, Any]) -> pl.DataFrame:
    """What the run of each role says, its repair, and the difference of the scores."""
    repair = rules["repair"]["columns"]
    limits = rules["repair"]["limits"]
    for side in SIDES:
        at = found.get_column(f"_at_{side}")
        found = found.with_columns(
            runs.get_column(c).gather(at).alias(f"{side}_{c}") for c in dict.fromkeys((*_FACTS, *repair))
        )
    found = found.with_columns(
        runs.get_column("run_id").gather(found.get_column("_at_latest")).alias("latest_run_id"),
        *(clean_text(pl.col(f"{s}_{c}"), limit).alias(f"{s}_{c}") for s in SIDES for c, limit in limits.items()),
        (pl.col("run_count") - pl.col("active_run_count")).alias("archived_run_count"),
        pl.col("_at_baseline").is_not_null().alias("has_baseline"),
        (pl.col("_at_baseline").is_not_null() & pl.col("_at_treatment").is_not_null()).alias("paired"),
        _delta(rules["last"].get("score", "official_score")),
    )
    wanted = rules["research"]["priority"]
    first = [pl.when(pl.col(f"{s}_repair_priority") == wanted).then(pl.lit(s)) for s in reversed(SIDES)]
    found = found.with_columns(
        delta_sign=pl.col("official_score_delta").sign().cast(pl.Int8),
        failure_scope=pl.col("baseline_failure_scope"),
        baseline_passed=pl.col("baseline_official_passed"),
        _researched=pl.coalesce(first),
    )
    found = found.with_columns(
        *(_of_side("_researched", c).alias(f"research_{c}") for c in repair),
        *(lookup(f"{s}_repair_class", rules["repair_suffix"]).alias(f"{s}_suffix") for s in SIDES),
        research=pl.col("_researched").is_not_null(),
    )
    found = found.with_columns(lookup("research_repair_class", rules["research_suffix"]).alias("research_suffix"))
    return found.with_columns(fill_template(t).alias(name) for name, t in rules["format"].items())


def _delta(score: str) -> pl.Expr:
    """Treatment minus baseline: of the scores of their last runs, or of the means of all counted ones."""
    delta = pl.col(f"treatment_{score}") - pl.col(f"baseline_{score}")
    # Equal means of several scores may differ in the last bit.
    return (delta.round(_DIGITS) if score == "mean" else delta).alias("official_score_delta")


def _of_side(column: str, name: str) -> pl.Expr:
    return pl.coalesce(pl.when(pl.col(column) == s).then(pl.col(f"{s}_{name}")) for s in SIDES)


def _review(runs: pl.DataFrame, found: pl.DataFrame, pack: Pack) -> pl.DataFrame:
    """The review of each pair whose treatment is of the kind that is reviewed."""
    candidates = found.select("_at_baseline", "_at_treatment", _row=pl.int_range(pl.len())).filter(
        pl.col("_at_baseline").is_not_null(), pl.col("_at_treatment").is_not_null()
    )
    treatments = runs[candidates.get_column("_at_treatment")]
    wanted = treatments.with_columns(wanted=reviewed(pack.data("pair"))).get_column("wanted")
    candidates = candidates.filter(wanted)
    done = reviews_of(runs[candidates.get_column("_at_baseline")], treatments.filter(wanted), pack)
    done = done.with_columns(candidates.get_column("_row"))
    return (
        found.with_columns(_row=pl.int_range(pl.len()))
        .join(done, on="_row", how="left", maintain_order="left")
        .drop("_row")
    )


def _repair(found: pl.DataFrame, rules: Mapping[str, Any]) -> pl.DataFrame:
    """The repair that the rule of a decision points to."""
    whose = pl.col("decision_rule").replace_strict(rules["repair_of"], default=None, return_dtype=pl.String)
    routed = pl.any_horizontal(pl.col("baseline_repair_class", "baseline_repair_priority").is_not_null())
    out = []
    for column in rules["repair"]["columns"]:
        cases = [pl.when(whose == s).then(pl.col(f"{s}_{column}")) for s in (*SIDES, "research")]
        cases.append(pl.when((whose == "baseline_if_routed") & routed).then(pl.col(f"baseline_{column}")))
        out.append(pl.coalesce(cases).alias(column))
    return found.with_columns(out)


def _route(found: pl.DataFrame, routing: Mapping[str, Any]) -> pl.DataFrame:
    """The route of a case with active runs."""
    value, _ = compile_rules(RuleSet("routing", tuple(routing["rules"])), found.schema)
    found = found.with_columns(
        pl.when(pl.col("active_run_count") > 0).then(value).cast(pl.String).alias("routing_class")
    )
    routes: Mapping[str, Mapping[str, str]] = routing["route"]
    is_route = {name: pl.col("routing_class") == name for name in routes}
    return found.with_columns(
        pl.coalesce(pl.when(is_route[name]).then(fill_template(r[part])) for name, r in routes.items()).alias(
            f"routing_{part}"
        )
        for part in _ROUTING[1:]
    )


COLUMNS = (
    *CASE,
    "decision",
    "decision_rule",
    "run_count",
    "active_run_count",
    "archived_run_count",
    "baseline_run_id",
    "treatment_run_id",
    "latest_run_id",
    "baseline_failure_scope",
    "treatment_failure_scope",
    "failure_scope",
    "official_score_delta",
    *(f"{s}_{what}" for s in SIDES for what in ("runs", "scored", "mean")),
    "repair_priority",
    "repair_class",
    "failure_class",
    "next_action",
    "pair_complete",
    "pair_blocker",
    REVIEW,
    *(f"routing_{c}" for c in _ROUTING),
)


def decision_documents(found: pl.DataFrame, pack: Pack) -> list[dict[str, Any]]:
    """The decision of each case as the document of a ledger holds it."""
    rules, pair = pack.data("decisions"), pack.data("pair")
    shapes = rules["document"]
    repair = rules["repair"]["columns"]
    columns = {c: found.get_column(c).to_list() for c in found.columns}
    out = []
    for i, rule in enumerate(columns["decision_rule"]):
        document = {c: columns[c][i] for c in shapes.get(rule, shapes["default"])["always"]}
        document |= {c: columns[c][i] for c in repair if columns[c][i] not in (None, "")}
        if columns[REVIEW][i] is not None:
            document[pair["review"]["key"]] = orjson.loads(columns[REVIEW][i])
        if columns["routing_class"][i] is not None:
            document["case_routing"] = {c: columns[f"routing_{c}"][i] for c in _ROUTING}
        out.append(document)
    return out


def decision_of_nothing(pack: Pack) -> dict[str, Any]:
    """The decision of a case without runs; a ledger never holds one."""
    rules = pack.data("decisions")
    first = next(r for r in rules["rules"] if r["id"] == "no_runs")
    return {"decision": first["then"]}
