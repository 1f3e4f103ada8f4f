"""Sections on a compile: rows of families, why rows were rejected, scores, redactions; and what was reported while reading."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.reports.model import Col, Section, Table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from expcomp.reports.given import Given

_BINS = tuple(f"{i / 10:.1f} to {(i + 1) / 10:.1f}" for i in range(10))


def compile_section(given: Given) -> Section | None:
    """What became of the rows."""
    report = given.compiled
    if report is None:
        return None
    total = report["total"]
    counts = (
        f"{total[k]:,} {words}"
        for k, words in (("generated", "rows were generated"), ("accepted", "accepted"), ("rejected", "rejected"))
    )
    text = [f"{', '.join(counts)}: counts of all rows, not of a sample."]
    silent: dict[str, list[str]] = {}
    for name, why in report["empty"].items():
        silent.setdefault(why, []).append(name)
    text += [f"Empty, since {why}: {', '.join(names)}." for why, names in silent.items()]
    tables = [_families(report), _reasons(report), _scores(report), _redactions(report)]
    return Section("compile", "Compile", tuple(text), tuple(t for t in tables if t.frame.height))


def diagnostics_section(given: Given) -> Section | None:
    """What was reported while reading."""
    if not given.problems.height:
        return None
    columns = (
        Col("severity", "severity"),
        Col("code", "code"),
        Col("lines", "times", "count"),
        Col("files", "files", "count"),
        Col("first_file", "first file"),
    )
    table = Table("diagnostics", "Reported while reading", given.problems, columns)
    return Section("diagnostics", "Diagnostics", ("Nothing was dropped without a line here.",), (table,))


def _families(report: Mapping[str, Any]) -> Table:
    made = {n: f for n, f in report["families"].items() if f["generated"]}
    frame = pl.DataFrame(
        {"family": list(made), **{k: [f[k] for f in made.values()] for k in ("generated", "accepted", "rejected")}},
        schema={"family": pl.String, "generated": pl.Int64, "accepted": pl.Int64, "rejected": pl.Int64},
    ).with_columns(share=pl.col("accepted") / pl.col("generated"))
    columns = (
        Col("family", "family"),
        *(Col(k, k, "count") for k in ("generated", "accepted", "rejected")),
        Col("share", "accepted of generated", "share"),
    )
    return Table("compile_families", "Rows by family", frame, columns)


def _reasons(report: Mapping[str, Any]) -> Table:
    told = [
        (n, reason, count, f["generated"])
        for n, f in report["families"].items()
        for reason, count in f["reasons"].items()
    ]
    frame = pl.DataFrame(
        told, schema={"family": pl.String, "reason": pl.String, "rows": pl.Int64, "generated": pl.Int64}, orient="row"
    ).with_columns(
        meaning=pl.col("reason").replace_strict(dict(report["reasons"]), default=None, return_dtype=pl.String)
    )
    frame = frame.sort("rows", "family", "reason", descending=[True, False, False])
    columns = (
        Col("family", "family"),
        Col("reason", "reason"),
        Col("rows", "rows", "count"),
        Col("generated", "of generated", "count"),
        Col("meaning", "meaning"),
    )
    return Table("compile_reasons", "Why rows were rejected", frame, columns, "A row may have several reasons.")


def _scores(report: Mapping[str, Any]) -> Table:
    told = [
        (n, part, *s["bins"], sum(s["bins"]), s["null"])
        for n, parts in report["scores"].items()
        for part, s in parts.items()
    ]
    schema = {"family": pl.String, "score": pl.String, **dict.fromkeys((*_BINS, "measured", "null"), pl.Int64)}
    frame = pl.DataFrame(told, schema=schema, orient="row")
    columns = (
        Col("family", "family"),
        Col("score", "score"),
        Col("measured", "measured", "count"),
        Col("null", "no evidence", "count"),
        *(Col(b, b, "count") for b in _BINS),
    )
    note = "Accepted rows by tenths of the score; a score without evidence is null and never counted as 0."
    return Table("compile_scores", "Distributions of the measured scores", frame, columns, note)


def _redactions(report: Mapping[str, Any]) -> Table:
    found = report["redactions"]
    frame = pl.DataFrame(
        {"rule": list(found), "times": list(found.values())}, schema={"rule": pl.String, "times": pl.Int64}
    )
    return Table("compile_redactions", "Redacted", frame, (Col("rule", "rule"), Col("times", "times", "count")))
