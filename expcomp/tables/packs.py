"""Tables of a packs folder: the packs, what they state, how tools were used, what corrected what, which files were handed over."""

from __future__ import annotations

import polars as pl

from expcomp.tables._spec import Column, Table, integer, not_negative, one_of, real, text, texts, unit_interval

CITATION = pl.Struct({"package_id": pl.String(), "evidence_id": pl.String()})
"""A file in `tables/evidence` of the compile: an evidence_id is unique inside its package only."""

PACK_KIND = pl.Enum(["package", "family"])
SECTIONS = ("when", "inputs", "steps", "decisions", "failures", "corrections", "checks")
SECTION = pl.Enum(SECTIONS)


def _citations() -> Column:
    return Column(pl.List(CITATION), "files that it rests on; never empty", nullable=False)


_CITED = {"citations|some": pl.col("citations").list.len() > 0}

PACKS = Table(
    "packs",
    "One pack: what was learned from one package, or from all packages of one workflow family.",
    {
        "pack_id": text("name of the pack and of its folder, by the rules of Agent Skills", nullable=False),
        "pack_kind": one_of(PACK_KIND, "package, or family", nullable=False),
        "source": text("the package id, or the family", nullable=False),
        "title": text("title of the task; null when the packages name several or none"),
        "domain": text("domain of the tasks; null when they name several or none"),
        "subdomain": text("second level; null when they name several or none"),
        "workflow_family": text("family of workflows; null when they name several or none"),
        "package_ids": texts("packages behind it", nullable=False),
        "n_tasks": integer("tasks", nullable=False),
        "n_attempts": integer("attempts whose record is there", nullable=False),
        "n_passed": integer("attempts with a usable verdict that passed", nullable=False),
        "n_failed": integer("attempts with a usable verdict that failed", nullable=False),
        "score_mean": real("mean normalised score over the attempts with a usable one"),
        "n_scored": integer("attempts behind score_mean", nullable=False),
    },
    {"score_mean|unit": unit_interval("score_mean")},
    keys=("pack_id",),
)

PACK_STATEMENTS = Table(
    "pack_statements",
    "One sentence of a pack, with what supports it.",
    {
        "pack_id": text("pack", nullable=False),
        "statement_id": text("digest of pack, kind and text", nullable=False),
        "section": one_of(SECTION, "section of the skill", nullable=False),
        "kind": text("what is stated; a key of `expcomp.packs.kinds.KINDS`", nullable=False),
        "position": integer("0-based place in its section", nullable=False),
        "subject": text("what it speaks of: a tool, a file, a criterion", nullable=False),
        "text": text("the sentence", nullable=False),
        "support": integer("units that support it"),
        "total": integer("units that could"),
        "unit": text("what support and total count"),
        "attempt_ids": texts("attempts behind it", nullable=False),
        "citations": _citations(),
    },
    {
        **_CITED,
        "support|total": (pl.col("support") <= pl.col("total")).fill_null(value=True),
        "support|not_negative": not_negative("support"),
    },
    keys=("statement_id",),
)

PACK_TOOLS = Table(
    "pack_tools",
    "One tool of a pack, and how it was used.",
    {
        "pack_id": text("pack", nullable=False),
        "tool": text("tool, or operation where a step names no tool", nullable=False),
        "calls": integer("calls", nullable=False),
        "errors": integer("calls that the source flags as failed", nullable=False),
        "error_rate": real("errors / calls", nullable=False),
        "attempts": integer("attempts that call it", nullable=False),
        "passing": integer("passing attempts that call it", nullable=False),
        "failing": integer("failing attempts that call it", nullable=False),
        "seconds_median": real("median duration of a call; null where no times are recorded"),
        "response_chars_median": real("median characters of the answer; null where none is recorded"),
        "programs": texts("programs that its commands begin with, the most used first"),
        "citations": _citations(),
    },
    {**_CITED, "error_rate|unit": unit_interval("error_rate")},
    keys=("pack_id", "tool"),
)

PACK_CORRECTIONS = Table(
    "pack_corrections",
    "One correction that was really made: a retry that worked, or feedback that an attempt followed.",
    {
        "pack_id": text("pack", nullable=False),
        "correction_kind": text("retry (recorded as one), later_call (a later call of the same tool), or feedback"),
        "attempt_id": text("attempt that was corrected", nullable=False),
        "tool": text("tool, for steps"),
        "before": text("what failed, or what was criticised"),
        "problem": text("error, answer of the environment, or the feedback"),
        "after": text("what worked, or what was asked for"),
        "score_before": real("normalised score, for feedback"),
        "score_after": real("normalised score of the attempt that followed"),
        "citations": _citations(),
    },
    _CITED,
)

PACK_ARTIFACTS = Table(
    "pack_artifacts",
    "One file that attempts handed over, by name.",
    {
        "pack_id": text("pack", nullable=False),
        "name": text("path below the attempt's folder of artifacts", nullable=False),
        "attempts": integer("attempts that handed it over", nullable=False),
        "passing": integer("passing attempts among them", nullable=False),
        "total_passing": integer("passing attempts of the pack", nullable=False),
        "mime": text("media type; null when attempts differ"),
        "bytes_min": integer("least size"),
        "bytes_max": integer("greatest size"),
        "header": text("first line, for CSV and TSV, when all passing attempts share it"),
        "citations": _citations(),
    },
    _CITED,
    keys=("pack_id", "name"),
)

PACK_TABLES = {t.name: t for t in (PACKS, PACK_STATEMENTS, PACK_TOOLS, PACK_CORRECTIONS, PACK_ARTIFACTS)}
