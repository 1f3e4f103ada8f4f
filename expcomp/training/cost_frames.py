"""A cost ledger as a frame, and its summary: what is known, what is not, and why the accounting is not complete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import polars as pl

from expcomp.io.canon import digest_bytes
from expcomp.io.shared_lines import read_whole_lines
from expcomp.tables.training import COST_CALLS
from expcomp.training.documents import DocumentError

_COUNT = pl.Int64()
_TOKENS = pl.Struct(dict.fromkeys(("input", "output", "reasoning", "cached", "cacheWrite"), _COUNT))
_WIRE: dict[str, pl.DataType] = {
    "kind": pl.String(),
    "revision": _COUNT,
    "ceilingNanos": _COUNT,
    "call": pl.String(),
    "owner": pl.String(),
    "channel": pl.String(),
    "phase": pl.String(),
    "model": pl.String(),
    "maximumNanos": _COUNT,
    "costNanos": _COUNT,
    "provenance": pl.String(),
    "tokens": _TOKENS,
    "rates": pl.Struct(dict.fromkeys(("input", "output", "cached", "cacheWrite"), _COUNT)),
    "failure": pl.String(),
}
_KIND = pl.col("kind")
_BROKEN: Mapping[str, tuple[pl.Expr, str]] = {
    "cost_revision": (pl.col("revision") != pl.int_range(pl.len()), "the 0-based number of the line"),
    "cost_first_line": (
        (_KIND == "opened") != (pl.int_range(pl.len()) == 0),
        "opened in the first line, and only there",
    ),
    "cost_record_fields": (
        ~_KIND.is_in(["opened", "admitted", "settled"])
        | ((_KIND != "opened") & pl.any_horizontal(pl.col("call", "owner").is_null()))
        | ((_KIND == "admitted") & pl.any_horizontal(pl.col("channel", "phase", "model").is_null()))
        | ((_KIND == "settled") & ((pl.col("provenance") == "uncaptured") != pl.col("costNanos").is_null())),
        "an opened, admitted or settled record with its fields",
    ),
    "cost_negative": (
        pl.any_horizontal((pl.col("ceilingNanos", "maximumNanos", "costNanos") < 0).fill_null(value=False)),
        "amounts of at least 0",
    ),
    "cost_call_used": (
        (_KIND == "admitted") & pl.col("call").is_duplicated() & ~_KIND.is_first_distinct().over("call", "kind"),
        "an id that no earlier line has",
    ),
    "cost_not_admitted": (
        (_KIND == "settled")
        & ~((_KIND == "settled").cum_sum().over("call") <= (_KIND == "admitted").cum_sum().over("call")),
        "a call that was admitted and not yet settled",
    ),
}
"""What makes a line no line of a ledger, and what has to be there."""

_UNKNOWN = pl.col("state") != "known"
REASONS: Mapping[str, pl.Expr] = {
    "pending_call": pl.col("state") == "pending",
    "unknown_cost": pl.col("state") == "unknown",
    "unknown_usage": (pl.col("state") != "pending") & pl.col("input_tokens").is_null(),
    "charged_above_maximum": (pl.col("cost_nanos") > pl.col("maximum_nanos")).fill_null(value=False),
}
"""Why the accounting of some calls is not complete, in this order."""

SUMMARY: dict[str, pl.DataType] = {
    "calls": _COUNT,
    "known_nanos": _COUNT,
    "unknown_calls": _COUNT,
    "unknown_maximum_nanos": _COUNT,
    "upper_bound_nanos": _COUNT,
    "observed_calls": _COUNT,
    "estimated_calls": _COUNT,
    "uncaptured_calls": _COUNT,
    "failed_calls": _COUNT,
    "input_tokens": _COUNT,
    "output_tokens": _COUNT,
    "unpriced_models": pl.List(pl.String()),
    "accounting_complete": pl.Boolean(),
    "reasons": pl.List(pl.String()),
    "status": pl.String(),
}
"""`unknown_calls` are pending ones and those of unknown cost, `unknown_maximum_nanos` their declared maximum (null where one has none),
`upper_bound_nanos` known plus that. `status`: `complete` (every cost is known), `bounded_unknown` (the rest has a maximum), `unknown`."""


class CostSheet(NamedTuple):
    """A ledger as it was read.

    Attributes:
        calls: `COST_CALLS`, in the order of admission.
        ceiling_nanos: What all calls may cost together; None: no ceiling.
        digest: Of the whole lines of the file.
    """

    calls: pl.DataFrame
    ceiling_nanos: int | None
    digest: str


def read_costs(path: Path) -> CostSheet:
    """A cost ledger, checked in full.

    Raises:
        SourceError: It cannot be read.
        DocumentError: A line is no record; the message names it.
    """
    content = read_whole_lines(path)
    if not content:
        raise DocumentError(str(path), "cost_first_line", "", "no line", "a cost ledger, as CostLedger makes it")
    try:
        lines = pl.read_ndjson(BytesIO(content), schema=_WIRE)
    except pl.exceptions.PolarsError as error:
        raise DocumentError(str(path), "not_json", "", str(error), "a JSON object a line") from error
    for code, (broken, expected) in _BROKEN.items():
        bad = lines.with_row_index("line", offset=1).filter(broken.fill_null(value=True))
        if bad.height:
            found = f"{bad['kind'][0]} {bad['call'][0] or ''}".strip()
            raise DocumentError(f"{path}, line {bad['line'][0]}", code, "", found, expected)
    return CostSheet(_calls(lines), lines["ceilingNanos"][0], digest_bytes(content))


def cost_frame(path: Path) -> pl.DataFrame:
    """The calls of a cost ledger (`COST_CALLS`); raises as `read_costs`."""
    return read_costs(path).calls


def _calls(lines: pl.DataFrame) -> pl.DataFrame:
    settled = lines.filter(_KIND == "settled").select("call", "costNanos", "provenance", "tokens", "failure")
    admitted = lines.filter(_KIND == "admitted").drop("costNanos", "provenance", "tokens", "failure")
    found = admitted.join(settled, on="call", how="left", maintain_order="left")
    tokens = pl.col("tokens").struct
    usage = {"input_tokens": tokens.field("input"), "output_tokens": tokens.field("output")}
    # Parts that a record leaves out are 0; without a record of usage nobody knows them.
    part = {
        f"{name}_tokens": pl.when(tokens.field("input").is_not_null()).then(tokens.field(wire).fill_null(0))
        for name, wire in (("reasoning", "reasoning"), ("cached", "cached"), ("cache_write", "cacheWrite"))
    }
    state = (
        pl.when(pl.col("provenance").is_null())
        .then(pl.lit("pending"))
        .when(pl.col("costNanos").is_null())
        .then(pl.lit("unknown"))
        .otherwise(pl.lit("known"))
    )
    made = found.with_columns(maximum_nanos="maximumNanos", cost_nanos="costNanos", state=state, **usage, **part)
    return made.select(COST_CALLS.columns.keys()).cast(COST_CALLS.schema)


def cost_summary(calls: pl.DataFrame | pl.LazyFrame, by: Sequence[str] = ()) -> pl.DataFrame:
    """Totals of calls (`COST_CALLS`), one line for each combination of `by` (`channel`, `phase`, `model`, ...), in one pass: `SUMMARY`.

    Without calls and without `by`: one line that says 0 of everything.
    """
    maximum = pl.col("maximum_nanos").filter(_UNKNOWN)
    flags = [expr.any().alias(f"_{name}") for name, expr in REASONS.items()]
    totals = [
        pl.len().alias("calls"),
        pl.col("cost_nanos").sum().alias("known_nanos"),
        _UNKNOWN.sum().alias("unknown_calls"),
        pl.when(maximum.is_null().any()).then(None).otherwise(maximum.sum()).alias("unknown_maximum_nanos"),
        *((pl.col("provenance") == p).sum().alias(f"{p}_calls") for p in ("observed", "estimated", "uncaptured")),
        pl.col("failure").is_not_null().sum().alias("failed_calls"),
        pl.col("input_tokens", "output_tokens").sum(),
        *flags,
    ]
    unpriced = pl.col("model").filter(pl.col("state") == "unknown").unique().sort().alias("unpriced_models")
    lazy = calls.lazy()
    if by:
        found = lazy.group_by(list(by), maintain_order=True).agg(*totals, unpriced).sort(list(by), maintain_order=True)
    else:
        found = lazy.select(*totals, unpriced.implode())
    told = [pl.when(f"_{name}").then(pl.lit(name)) for name in REASONS]
    reasons = pl.concat_list(told).list.drop_nulls()
    made = found.with_columns(
        upper_bound_nanos=pl.col("known_nanos") + pl.col("unknown_maximum_nanos"),
        reasons=reasons,
        accounting_complete=reasons.list.len() == 0,
        status=pl.when(pl.col("unknown_calls") == 0)
        .then(pl.lit("complete"))
        .when(pl.col("unknown_maximum_nanos").is_not_null())
        .then(pl.lit("bounded_unknown"))
        .otherwise(pl.lit("unknown")),
    )
    return made.select(*by, *(pl.col(n).cast(t) for n, t in SUMMARY.items())).collect()
