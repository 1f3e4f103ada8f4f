"""The report of a ledger as Markdown: columns of cells by expressions, joined to lines at the end."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import polars as pl

from expcomp.io.wording import worded
from expcomp.ledger.cases import CASE, active, clean_text, in_order
from expcomp.ledger.decide import decide
from expcomp.ledger.drift import score_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from expcomp.ledger.pack import Pack

_PART = re.compile(r"\{([\w.]+)\|([^}]*)\}")
_SLICE = re.compile(r"(.+)\.(\d+)\.\.(\d+)")
_ORDER = ("recorded_at", "run_id")


def markdown(
    runs: pl.DataFrame, pack: Pack, *, updated_at: str | None = None, decisions: pl.DataFrame | None = None
) -> str:
    """The report of the runs of a ledger.

    Args:
        runs: Runs of a ledger.
        pack: Layout, words and rules.
        updated_at: When the ledger was written.
        decisions: What `decide` said of the runs, where it is known.
    """
    spec = pack.data("markdown")
    found = decide(runs, pack) if decisions is None else decisions
    cases = found.filter(pl.col("active_run_count") > 0)
    live = in_order(runs.filter(active()), _ORDER)
    facts = {
        "schema_version": pack.data("operations")["document"]["schema_version"],
        "updated_at": str(updated_at),
        "active_case_count": cases.height,
        "active_run_count": live.height,
        "archived_run_count": runs.height - live.height,
    }
    parts = [f"# {spec['title']}", spec["note"], "\n".join(f"- {k}: `{v}`" for k, v in facts.items())]
    tables = {
        "cases": _decision_cells(cases, spec),
        "backlog": _backlog_cells(live, spec),
        "archived": _archived_cells(found, spec),
        "runs": _run_cells(live, spec),
    }
    for name, cells in tables.items():
        if name in ("cases", "runs") or not cells.is_empty():
            parts.append(_table(spec["sections"][name], spec["columns"][name], cells, escape=spec["escape"]))
    return "\n\n".join(parts) + "\n"


def _table(heading: str, columns: Sequence[str], cells: pl.DataFrame, *, escape: bool) -> str:
    """A section with one table; the columns of `cells` are its cells, in order."""
    text = [pl.col(c).str.replace_all("|", "\\|", literal=True) if escape else pl.col(c) for c in cells.columns]
    line = pl.concat_str([pl.lit("| "), pl.concat_str(text, separator=" | "), pl.lit(" |")])
    lines = cells.select(line.alias("line")).get_column("line").to_list()
    head = [f"| {' | '.join(columns)} |", f"| {' | '.join('---' for _ in columns)} |"]
    return "\n".join([f"## {heading}", "", *head, *lines])


def _cells(frame: pl.DataFrame, *cells: pl.Expr) -> pl.DataFrame:
    return frame.select(cell.alias(f"cell_{i}") for i, cell in enumerate(cells))


def _code(text: pl.Expr, limit: int) -> pl.Expr:
    """A cell in code style, an empty one too."""
    return pl.concat_str([pl.lit("`"), clean_text(text.cast(pl.String).fill_null(""), limit), pl.lit("`")])


def _code_or_dash(text: pl.Expr, limit: int) -> pl.Expr:
    return pl.when(text.is_null()).then(pl.lit("-")).otherwise(_code(text, limit))


def _decision_cells(cases: pl.DataFrame, spec: Mapping[str, Any]) -> pl.DataFrame:
    limit = spec["limits"]["cell"]
    ready = pl.when("pair_complete").then(pl.lit(spec["pair"]["ready"])).otherwise("pair_blocker")
    live, gone = pl.col("active_run_count"), pl.col("archived_run_count")
    count = pl.when(gone > 0).then(worded("{} active / {} archived", live, gone)).otherwise(live.cast(pl.String))
    return _cells(
        cases,
        _code(pl.col("filed_benchmark"), limit),
        _code(pl.col("filed_case"), limit),
        _code(pl.col("decision"), limit),
        _code_or_dash(ready, spec["limits"]["pair"]),
        _code_or_dash(pl.col("routing_class"), limit),
        _code(count, limit),
    )


def _backlog_cells(live: pl.DataFrame, spec: Mapping[str, Any]) -> pl.DataFrame:
    """The repair of the last active run of each arm of each case."""
    limit, order = spec["limits"]["cell"], spec["priority"]["order"]
    last = live.unique([*CASE, "arm_id"], keep="last", maintain_order=True)
    open_ = last.filter((pl.col("repair_class") != "") | (pl.col("repair_priority") != ""))
    rank = pl.col("repair_priority").replace_strict(
        {p: i for i, p in enumerate(order)}, default=len(order), return_dtype=pl.Int8
    )
    keys = [pl.col(c).fill_null("") for c in ("repair_class", *CASE, "arm_id")]
    return _cells(
        open_.sort([rank, *keys], maintain_order=True),
        _code(pl.col("repair_priority"), limit),
        *(_code(pl.col(c), limit) for c in (*CASE, "arm_id", "repair_class", "failure_class")),
        _short_profile(spec),
        clean_text(pl.col("next_action").fill_null(""), spec["limits"]["next_action"]),
    )


def _short_profile(spec: Mapping[str, Any]) -> pl.Expr:
    """The short form of a repair profile; empty without one."""
    short = pl.col("repair_class")
    for rule in reversed(spec["profiles"]):
        short = (
            pl.when(pl.col("repair_class").is_in(rule["classes"])).then(_profile_text(rule["text"])).otherwise(short)
        )
    return pl.when(pl.col("repair_profile").is_not_null()).then(short).otherwise(pl.lit(""))


def _profile_text(template: str) -> pl.Expr:
    """A text with `{path|word when it is empty}`; a path ends in `.0` for one item, in `.0..3` for three, joined by commas."""
    pieces = _PART.split(template)
    texts = [pl.lit(pieces[0])]
    for path, empty, after in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True):
        value = _at(path)
        texts += [pl.when((value != "").fill_null(value=False)).then(value).otherwise(pl.lit(empty)), pl.lit(after)]
    return pl.concat_str(texts)


def _at(path: str) -> pl.Expr:
    profile = pl.col("repair_profile")
    if many := _SLICE.fullmatch(path):
        items = profile.str.json_path_match(f"$.{many[1]}").str.json_decode(pl.List(pl.String))
        return items.list.slice(int(many[2]), int(many[3]) - int(many[2])).list.join(",")
    head, _, item = path.rpartition(".")
    return profile.str.json_path_match(f"$.{head}[{item}]" if item.isdecimal() else f"$.{path}")


def _archived_cells(found: pl.DataFrame, spec: Mapping[str, Any]) -> pl.DataFrame:
    gone = pl.col("archived_run_count")
    totals = (
        found.filter(gone > 0)
        .group_by("filed_benchmark", maintain_order=True)
        .agg(cases=pl.len(), runs=gone.sum())
        .sort("filed_benchmark")
    )
    return _cells(totals, *(_code(pl.col(c), spec["limits"]["cell"]) for c in totals.columns))


def _run_cells(live: pl.DataFrame, spec: Mapping[str, Any]) -> pl.DataFrame:
    limit = spec["limits"]["cell"]
    refs = [pl.col("artifact_refs").str.json_path_match(f"$.{p}") for p in spec["artifact"]["paths"]]
    written = score_text()
    score = (
        pl.when(written == "true")
        .then(pl.lit("True"))
        .when(written == "false")
        .then(pl.lit("False"))
        .otherwise(written)
    )
    return _cells(
        live.with_columns(_round_text(live)),
        *(_code(pl.col(c), limit) for c in (*CASE, "arm_id")),
        _code(_attempt(spec["attempt"]), limit),
        _code(score.fill_null("missing"), limit),
        _code(pl.col("first_success_round"), limit),
        _code(pl.col("_rounds"), limit),
        _code(pl.col("failure_class"), limit),
        _code(pl.coalesce(refs), limit),
    )


def _attempt(spec: Mapping[str, Any]) -> pl.Expr:
    said = [pl.col(c) for c in spec["texts"]] + [pl.col("extra").str.json_path_match(f"$.{p}") for p in spec["paths"]]
    texts = [pl.when(s != "").then(s) for s in said]
    for flag in spec["flags"]:
        held = (
            pl.col(flag["column"]).eq_missing(other=True)
            if "column" in flag
            else pl.col("extra").str.json_path_match(f"$.{flag['path']}").eq_missing(pl.lit("true"))
        )
        texts.append(pl.when(held).then(pl.lit(flag["text"])))
    return pl.coalesce(texts)


_ROUND = pl.List(
    pl.Struct({"agent_round": pl.Int64, "reward": pl.Float64, "passed": pl.Boolean, "reward_present": pl.Boolean})
)


def _round_text(live: pl.DataFrame) -> pl.Series:
    """`round:reward` of each run, with a star where the round passed."""
    rows = live.select("round_rewards").with_row_index("_run").drop_nulls()
    rounds = (
        rows.with_columns(pl.col("round_rewards").str.json_decode(_ROUND))
        .explode("round_rewards")
        .unnest("round_rewards")
    )
    reward = pl.col("reward").round_sig_figs(6).cast(pl.String).str.strip_suffix(".0")
    what = pl.coalesce(
        reward, pl.when(pl.col("reward_present").eq_missing(other=False)).then(pl.lit("missing")), pl.lit("unknown")
    )
    star = pl.when(pl.col("passed").eq_missing(other=True)).then(pl.lit("*")).otherwise(pl.lit(""))
    text = pl.concat_str([pl.col("agent_round").cast(pl.String), pl.lit(":"), what, star])
    joined = rounds.with_columns(text.alias("_text")).drop_nulls("agent_round")
    joined = joined.group_by("_run", maintain_order=True).agg(pl.col("_text").str.join(",").alias("_rounds"))
    index = live.select(pl.int_range(pl.len(), dtype=pl.UInt32).alias("_run"))
    return index.join(joined, on="_run", how="left", maintain_order="left").get_column("_rounds")
