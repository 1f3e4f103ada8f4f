"""Entries of records under our own profile: keys whole, times in UTC, scores on their scale, nothing swallowed."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import orjson
import polars as pl

from expcomp.io.digest import PREFIX
from expcomp.ledger.artifacts import references
from expcomp.ledger.build import apply
from expcomp.ledger.derive import derive
from expcomp.ledger.fields import series
from expcomp.ledger.identity import with_keys
from expcomp.ledger.rounds import round_columns
from expcomp.tables.ledger import RUNS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from expcomp.ledger.pack import Pack

REFUSED = "_refused"


def standard_entries(
    records: Sequence[Mapping[str, Any]], options: Sequence[Mapping[str, Any]], pack: Pack, *, now: datetime | None
) -> pl.DataFrame:
    """Entries in the columns of the table of runs; `now` is when the ledger takes them, where the options do not say."""
    refused: list[tuple[int, str]] = []
    read = pack.fields["record"].frame(records, refused)
    frame = read.hstack(pack.fields["option"].frame(options)).hstack(round_columns(read))
    shown, _ = references(frame, frame["cwd"], pack.section("artifacts"))
    frame = frame.with_columns(
        _issues(refused, frame.height),
        shown.alias("artifact_refs"),
        pl.lit(None, pl.String).alias("stored_status"),
        pl.Series("content_hash", [_digest(r) for r in records], dtype=pl.String()),
    )
    frame = derive(_scored(_identity(frame, pack, now)), pack)
    return with_keys(frame).with_columns(run_id="run_key").select(pl.col(c).cast(d) for c, d in RUNS.schema.items())


def _digest(record: Mapping[str, Any]) -> str:
    try:
        text = orjson.dumps(record, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS, default=str)
    except TypeError:
        # Half a character, or an integer beyond 64 bits: the text form of Python keeps apart what orjson cannot write.
        text = json.dumps(record, sort_keys=True, default=str).encode()
    return PREFIX + hashlib.sha256(text).hexdigest()


def _issues(refused: list[tuple[int, str]], height: int) -> pl.Series:
    """What each record gave in a form that is not taken, as `<column>_refused`."""
    found: list[list[str] | None] = [None] * height
    for row, column in refused:
        name = f"{column.removeprefix('given_')}{REFUSED}"
        have = found[row]
        if column == "odd_score":
            continue
        if have is None:
            found[row] = [name]
        elif name not in have:
            have.append(name)
    return series(found if refused else None, pl.List(pl.String()), height).alias("issues")


def _identity(frame: pl.DataFrame, pack: Pack, now: datetime | None) -> pl.DataFrame:
    settings = pack.settings
    frame = apply(frame, pack, "arm", "arm_id", "arm_rule")
    listed = pl.concat_list(pl.concat_list("given_case"), pl.col("given_cases").fill_null([]))
    named = pl.coalesce("job_name", pl.lit(settings["default_case"]))
    cases = (
        pl.when(pl.col("given_case").is_not_null())
        .then(listed.list.unique(maintain_order=True))
        .otherwise(pl.coalesce("given_cases", "trial_cases", pl.concat_list(named)))
    )
    taken = pl.coalesce("said_time", pl.lit(now, dtype=pl.Datetime("us", "UTC")))
    frame = frame.with_columns(
        benchmark_id=pl.coalesce("given_benchmark", pl.lit(settings["default_benchmark"])),
        case_ids=cases,
        run_group_id=pl.coalesce("said_group", "given_group", "job_name"),
        ingested_at=taken,
        recorded_at=pl.coalesce("run_at", taken).dt.strftime("%Y-%m-%dT%H:%M:%S%.6f+00:00"),
        notes="said_notes",
        agent_model="model",
        failure_labels="labels",
        profile=pl.lit(pack.profile),
    )
    return frame.with_columns(
        case_id=pl.col("case_ids").list.first(),
        filed_benchmark="benchmark_id",
        filed_case=pl.col("case_ids").list.first(),
        exceptions=pl.concat_list(pl.col("exceptions").fill_null([]), pl.concat_list("exception"))
        .list.drop_nulls()
        .list.eval(pl.element().str.to_lowercase()),
    )


def _scored(frame: pl.DataFrame) -> pl.DataFrame:
    """A verdict without a number stands for an end of the scale 0 to 1, unless its attempt is said not to count."""
    bare = (
        pl.col("given_score").is_null()
        & pl.col("odd_score").is_null()
        & pl.col("given_passed").is_not_null()
        & pl.col("official_score_attempt_countable").fill_null(value=True)
    )
    frame = frame.with_columns(bare=bare)
    made = pl.when("bare")
    missing = [c for c in RUNS.schema if c not in frame.columns]
    frame = frame.with_columns(
        official_score=made.then(pl.col("given_passed").cast(pl.Float64)).otherwise("given_score"),
        official_passed="given_passed",
        official_score_bool_fallback_used="bare",
        score_min=made.then(0.0).otherwise("given_min"),
        score_max=made.then(1.0).otherwise("given_max"),
        score_threshold=made.then(1.0).otherwise("given_threshold"),
    )
    return frame.with_columns(pl.lit(None, dtype=RUNS.schema[c]).alias(c) for c in missing if c not in frame.columns)
