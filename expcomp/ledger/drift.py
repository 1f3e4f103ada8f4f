"""Drift: runs of a history that the ledger does not hold, by id or by what they say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from expcomp.ledger.archive import records
from expcomp.ledger.cases import terminal
from expcomp.ledger.entries import entries
from expcomp.ledger.written import score_of_record, with_whole_scores

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from expcomp.ledger.pack import Pack


def signature(pack: Pack) -> pl.Expr:
    """What a run says, as one text."""
    as_written = bool(pack.settings.get("compatible"))
    parts = [_text(c, as_written=as_written) for c in pack.data("operations")["drift"]["signature"]]
    return pl.concat_str(parts, separator="\x1f")


def score_text() -> pl.Expr:
    """The score as its document writes it; null without one."""
    written = pl.col("extra").str.json_path_match("$.official_score")
    return pl.coalesce(written, pl.col("official_score").cast(pl.String))


def _text(column: str, *, as_written: bool) -> pl.Expr:
    told = score_text() if as_written and column == "official_score" else pl.col(column).cast(pl.String)
    return told.fill_null("")


def history_runs(history: Iterable[Any], pack: Pack) -> pl.DataFrame:
    """Runs of the records in a history, made without arm or group; all else in it is passed over."""
    spec = pack.data("operations")["drift"]
    records, options = [], []
    for item in history:
        nested = item.get(spec["nested"]) if isinstance(item, dict) else None
        record = nested if isinstance(nested, dict) else item
        if isinstance(record, dict) and record.get("schema_version") == spec["record_schema"]:
            given = {"compact_artifact_ref": item.get("json_path"), "recorded_at": item.get("generated_at")}
            records.append(record)
            options.append({k: v for k, v in given.items() if v is not None})
    return with_whole_scores(entries(records, pack, options), [score_of_record(r) for r in records])


def drift(
    runs: pl.DataFrame, history: pl.DataFrame, pack: Pack, *, limit: int | None = None, ledger: str = "<ledger>"
) -> dict[str, Any]:
    """Which ended runs of a history the ledger does not hold.

    Args:
        runs: Runs of the ledger.
        history: Runs made from the records of the history, without arm or group.
        pack: Rules.
        limit: How many missing runs are listed.
        ledger: How the command that would add them names the ledger.
    """
    spec = pack.data("operations")["drift"]
    limit = spec["limit"] if limit is None else limit
    ended = history.filter(terminal())
    says = signature(pack)
    ids = runs.get_column("run_id").drop_nulls().unique().implode()
    known = runs.select(says.alias("s")).get_column("s").unique().implode()
    held = pl.col("run_id").is_in(ids).fill_null(value=False) | says.is_in(known)
    if spec.get("by_content"):
        contents = runs.get_column("content_hash").drop_nulls().unique().implode()
        held |= pl.col("content_hash").is_in(contents).fill_null(value=False)
    missing = ended.filter(~held)
    command = spec["command"].format(ledger=ledger)
    shown = missing.head(limit).select(
        *(pl.col(c).fill_null("") for c in spec["text"]),
        "official_score",
        pl.col("recorded_at").fill_null("").alias("generated_at"),
        pl.lit(command).alias("catch_up_command_template"),
    )
    return {
        "ok": True,
        "schema_version": spec["schema_version"],
        "ledger_schema_version": pack.data("operations")["document"]["schema_version"],
        "checked_history_run_count": history.height,
        "terminal_history_run_count": ended.height,
        "non_terminal_skipped_count": history.height - ended.height,
        "ledger_run_count": runs.height,
        "matched_history_run_count": ended.height - missing.height,
        "missing_ledger_run_count": missing.height,
        "drift_detected": missing.height > 0,
        "limit": limit,
        "missing_runs": records(shown),
        "truncated": missing.height > limit,
    }
