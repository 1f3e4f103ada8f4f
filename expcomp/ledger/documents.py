"""Entries as documents: the key-value form of the ancestor's ledger. A null is an absent key; false and 0 stay."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import orjson
import polars as pl

from expcomp.errors import SourceError
from expcomp.io.digest import PREFIX
from expcomp.ledger.facts import partial_documents
from expcomp.ledger.fields import series
from expcomp.ledger.values import boolean, integer, json_text, number, time
from expcomp.tables.ledger import DOCUMENT, RUNS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def entry_documents(frame: pl.DataFrame) -> list[dict[str, Any]]:
    """Entry documents of runs, in order."""
    return partial_documents(frame, list(DOCUMENT))


def _strings(value: Any) -> list[str] | None:
    return value if isinstance(value, list) and all(type(v) is str for v in value) else None


def _string(value: Any) -> str | None:
    return value if type(value) is str else None


_HOLDS: Mapping[str, Callable[[Any], Any]] = {
    "text": _string,
    "bool": boolean,
    "int": integer,
    "number": number,
    "list": _strings,
    "json": json_text,
}


def from_documents(
    documents: Sequence[Mapping[str, Any]],
    *,
    benchmarks: Sequence[str] | None = None,
    cases: Sequence[str] | None = None,
    profile: str | None = None,
) -> pl.DataFrame:
    """Runs of entry documents as they are; what a column cannot hold exactly goes to `extra`.

    Args:
        documents: Entries.
        benchmarks: Benchmark under which each is filed; its own by default.
        cases: Case under which each is filed; its own by default.
        profile: Profile the entries were made by.

    Raises:
        SourceError: A value that JSON text of ours cannot hold, such as an integer beyond 64 bits.
    """
    columns: dict[str, list[Any]] = {key: [None] * len(documents) for key in DOCUMENT}
    extras: list[str | None] = [None] * len(documents)
    keys: list[str] = []
    digests: list[str] = []
    for i, document in enumerate(documents):
        extra: dict[str, Any] = {}
        for key, value in document.items():
            kind = DOCUMENT.get(key)
            kept = None if kind is None else _HOLDS[kind](value)
            if kept is None:
                extra[key] = value
            else:
                columns[key][i] = kept
        own = document.get("run_id")
        try:
            extras[i] = orjson.dumps(extra).decode() if extra else None
            digest = _digest(document)
        except TypeError as error:
            raise SourceError(f"run {own!r}: {str(error).lower()}; write such a value as a text") from error
        digests.append(PREFIX + digest)
        keys.append(own if isinstance(own, str) and own else f"content:{digest}")
    frame = pl.DataFrame({k: series(v, RUNS.columns[k].dtype, len(documents)) for k, v in columns.items()})
    frame = frame.with_columns(
        pl.Series("extra", extras, dtype=pl.String()),
        pl.Series("run_key", keys, dtype=pl.String()),
        pl.Series("content_hash", digests, dtype=pl.String()),
        pl.Series("run_at", [time(d.get("recorded_at")) for d in documents], dtype=RUNS.schema["run_at"]),
        pl.lit(profile, dtype=pl.String()).alias("profile"),
        _filed(benchmarks, "benchmark_id").alias("filed_benchmark"),
        _filed(cases, "case_id").alias("filed_case"),
    )
    return frame.select(
        (pl.col(c) if c in frame.columns else pl.lit(None)).cast(d).alias(c) for c, d in RUNS.schema.items()
    )


def _filed(given: Sequence[str] | None, column: str) -> pl.Expr | pl.Series:
    return pl.col(column).fill_null("") if given is None else pl.Series(list(given), dtype=pl.String())


def _digest(document: Mapping[str, Any]) -> str:
    text = orjson.dumps(document, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)
    return hashlib.sha256(text).hexdigest()
