"""What an agent can look up while it works: how tools were used, what corrected what, which files were handed over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from expcomp.packs.counting import gather, totals
from expcomp.packs.guard import withheld
from expcomp.packs.statements import citations
from expcomp.tables.packs import PACK_ARTIFACTS, PACK_CORRECTIONS, PACK_TOOLS

if TYPE_CHECKING:
    from expcomp.packs.facts import Facts

_PROGRAMS = 12


def tools(facts: Facts) -> pl.DataFrame:
    """The table `pack_tools`."""
    used = facts.actions.with_columns(cites=pl.concat_list("trace", "grade").list.drop_nulls())
    found = gather(
        used,
        ["label"],
        more={
            "calls": pl.len(),
            "errors": pl.col("failed").sum(),
            "passing": pl.col("attempt_id").filter("passed").n_unique(),
            "failing": pl.col("attempt_id").filter(~pl.col("passed")).n_unique(),
            "seconds_median": pl.col("seconds").median(),
            "response_chars_median": pl.col("response").str.len_chars().median(),
        },
    )
    programs = (
        facts.actions.filter(pl.col("program").is_not_null())
        .group_by("pack_id", "label", "program", maintain_order=True)
        .agg(n=pl.len())
        .sort("pack_id", "label", "n", "program", descending=[False, False, True, False])
        .group_by("pack_id", "label", maintain_order=True)
        .agg(programs=pl.col("program").head(_PROGRAMS))
    )
    return (
        found.join(programs, on=["pack_id", "label"], how="left", maintain_order="left")
        .rename({"label": "tool", "support": "attempts"})
        .with_columns(error_rate=pl.col("errors") / pl.col("calls"), citations=citations("cites"))
        .sort("pack_id", "calls", "tool", descending=[False, True, False])
        .select(list(PACK_TOOLS.columns))
        .cast(PACK_TOOLS.schema)
    )


def corrections(facts: Facts, steps: pl.DataFrame, private: pl.DataFrame) -> pl.DataFrame:
    """The table `pack_corrections`: retries and later calls that worked, and feedback that an attempt followed.

    Args:
        facts: The facts.
        steps: What `failed_steps` gives.
        private: What `private_texts` gives.
    """
    fixed = steps.filter(pl.col("retry").is_not_null() | pl.col("later").is_not_null()).select(
        "pack_id",
        "attempt_id",
        "cites",
        correction_kind=pl.when(pl.col("retry").is_not_null()).then(pl.lit("retry")).otherwise(pl.lit("later_call")),
        tool="label",
        before="given",
        problem=pl.coalesce("error_message", "response", "error_type", "outcome"),
        after=pl.coalesce("retry", "later"),
        at="place",
    )
    said = facts.row_facts("feedback_revision_pair").filter(
        ~pl.col("simulated_review").fill_null(value=False) & pl.col("next_attempt_id").is_not_null()
    )
    score = facts.attempts.select("pack_id", "attempt_id", "score")
    followed = (
        said.join(
            score.rename({"score": "score_before"}), on=["pack_id", "attempt_id"], how="left", maintain_order="left"
        )
        .join(
            score.rename({"attempt_id": "next_attempt_id", "score": "score_after"}),
            on=["pack_id", "next_attempt_id"],
            how="left",
            maintain_order="left",
        )
        .select(
            "pack_id",
            "attempt_id",
            "cites",
            "score_before",
            "score_after",
            correction_kind=pl.lit("feedback"),
            problem="feedback",
            after=pl.col("revision_instructions").list.join("\n"),
            at=pl.col("loop_iteration").cast(pl.Int64),
        )
    )
    made = pl.concat([fixed, followed], how="diagonal_relaxed").filter(pl.col("attempt_id").is_not_null())
    texts = made.with_columns(_text=pl.concat_str("before", "problem", "after", separator=" ", ignore_nulls=True))
    return (
        made.filter(~withheld(texts, private, text="_text"))
        .sort("pack_id", "correction_kind", "attempt_id", "at", nulls_last=True)
        .with_columns(citations=citations("cites"))
        .select(list(PACK_CORRECTIONS.columns))
        .cast(PACK_CORRECTIONS.schema)
    )


def handed_over(facts: Facts) -> pl.DataFrame:
    """Files of attempts by pack: name below the folder of artifacts, with the file's own citation."""
    files = (
        facts.compilation.tables["artifacts"]
        .filter((pl.col("kind") == "file") & pl.col("uri").is_not_null())
        .select("attempt_id", "uri", "mime", "content", name=pl.col("uri").str.replace(r"^.*/artifacts/", ""))
        .unique(["attempt_id", "uri"], keep="first", maintain_order=True)
    )
    attempt = facts.attempts.select("pack_id", "package_id", "task_id", "attempt_id", "passed", "grade")
    own = attempt.join(files, on="attempt_id", how="inner", maintain_order="left_right")
    known = facts.files.select("package_id", "bytes", "sha256", "cite", uri="ref")
    return own.join(known, on=["package_id", "uri"], how="inner", maintain_order="left")


def artifacts(facts: Facts, files: pl.DataFrame) -> pl.DataFrame:
    """The table `pack_artifacts`, from what `handed_over` gives."""
    first = pl.col("content").str.extract(r"^\x{feff}?([^\r\n]+)", 1)
    table = pl.col("name").str.contains(r"(?i)\.(?:csv|tsv)$")
    one = pl.col("header").filter("passed")
    named = files.with_columns(
        header=pl.when(table).then(first), cites=pl.concat_list("cite", "grade").list.drop_nulls()
    )
    found = gather(
        named,
        ["name"],
        more={
            "passing": pl.col("attempt_id").filter("passed").n_unique(),
            "mime": pl.when(pl.col("mime").n_unique() == 1).then(pl.col("mime").first()),
            "bytes_min": pl.col("bytes").min(),
            "bytes_max": pl.col("bytes").max(),
            "header": pl.when((one.n_unique() == 1) & (one.null_count() == 0)).then(one.first()),
        },
    ).rename({"support": "attempts"})
    good = facts.attempts.filter("passed")
    return (
        totals(found, good, name="total_passing")
        .with_columns(citations=citations("cites"))
        .sort("pack_id", "name")
        .select(list(PACK_ARTIFACTS.columns))
        .cast(PACK_ARTIFACTS.schema)
    )
