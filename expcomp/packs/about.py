"""What a pack is for and what it starts from: tasks, domains, requests, input files, constraints, deliverables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from expcomp.packs.counting import gather, totals
from expcomp.packs.kinds import stated

if TYPE_CHECKING:
    from collections.abc import Iterator

    from expcomp.packs.facts import Facts

_TITLE = 80
_ASKED = 600  # characters of an instruction in a sentence; the whole stands in task.json
_INPUT = r"(?:^|/)inputs?/"


def about(facts: Facts) -> Iterator[pl.DataFrame]:
    """Statements of the sections `when` and `inputs`."""
    yield _tasks(facts)
    yield _domains(facts)
    yield _record(facts)
    yield _requests(facts)
    yield _input_files(facts)
    yield _listed(facts, "constraints", "constraint")
    yield _listed(facts, "deliverables", "deliverable")


def shortened(text: str, length: int) -> pl.Expr:
    """The text of a column, cut with an ellipsis."""
    return (
        pl.when(pl.col(text).str.len_chars() > length)
        .then(pl.concat_str(pl.col(text).str.slice(0, length - 1), pl.lit("…")))
        .otherwise(pl.col(text))
    )


def _tasks(facts: Facts) -> pl.DataFrame:
    titled = pl.col("title").is_not_null()
    asked = facts.tasks.filter(titled | pl.col("instruction").is_not_null()).with_columns(
        subject=pl.coalesce("title", shortened("instruction", _TITLE)),
        heading="title",
        instruction=pl.concat_str(
            pl.when(titled).then(pl.lit(": ")).otherwise(pl.lit("")), shortened("instruction", _ASKED)
        ),
        attempt_id=pl.lit(None, dtype=pl.String),
        cites=pl.concat_list("cite"),
    )
    return stated(gather(asked, ["subject", "heading", "instruction"], unit="package_id"), "task")


def _record(facts: Facts) -> pl.DataFrame:
    """How many attempts a pack rests on, and how they were judged."""
    said = facts.attempts.with_columns(
        subject=pl.lit("record"), cites=pl.concat_list("trace", "grade").list.drop_nulls()
    )
    some = {
        "passing": pl.col("passed").fill_null(value=False).sum(),
        "failing": (~pl.col("passed")).fill_null(value=False).sum(),
        "unjudged": pl.col("passed").is_null().sum(),
    }
    found = gather(said, ["subject"], more=some).with_columns(pl.when(pl.col(n) > 0).then(n).alias(n) for n in some)
    return stated(found.with_columns(total="support"), "record")


def _domains(facts: Facts) -> pl.DataFrame:
    named = facts.tasks.filter(pl.col("domain").is_not_null()).with_columns(
        subject=pl.concat_str("domain", "subdomain", separator=", ", ignore_nulls=True),
        attempt_id=pl.lit(None, dtype=pl.String),
        cites=pl.concat_list("cite"),
    )
    found = gather(named, ["subject", "workflow_family"], unit="task_id")
    return stated(totals(found, facts.tasks, "task_id"), "domain")


def _requests(facts: Facts) -> pl.DataFrame:
    """First words of a user in attempts that name no task."""
    bare = facts.attempts.filter(pl.col("task_id").is_null() & (pl.col("relation") == "root"))
    first = (
        facts.compilation.tables["messages"]
        .filter((pl.col("role") == "user") & (pl.col("origin") == "human") & (pl.col("branch").fill_null(0) == 0))
        .filter(pl.col("content").str.strip_chars() != "")
        .sort("attempt_id", "message_index")
        .unique("attempt_id", keep="first", maintain_order=True)
        .select("attempt_id", "content")
    )
    asked = bare.join(first, on="attempt_id", how="inner", maintain_order="left").with_columns(
        subject=shortened("content", _ASKED), cites=pl.concat_list("trace")
    )
    return stated(gather(asked, ["subject"]), "request")


def _input_files(facts: Facts) -> pl.DataFrame:
    files = facts.by_pack(facts.files.filter(pl.col("ref").str.contains(_INPUT)))
    named = files.with_columns(
        subject=pl.col("ref").str.replace(r"^.*(?:^|/)inputs?/", "input/"),
        attempt_id=pl.lit(None, dtype=pl.String),
        cites=pl.concat_list("cite"),
    )
    same = pl.when(pl.col("bytes").n_unique() == 1).then(pl.col("bytes").first())
    found = gather(named, ["subject"], unit="package_id", more={"size": same})
    return stated(totals(found, facts.members, "package_id"), "input_file")


def _listed(facts: Facts, column: str, kind: str) -> pl.DataFrame:
    named = (
        facts.tasks.explode(column, empty_as_null=False)
        .filter(pl.col(column).str.strip_chars() != "")
        .with_columns(subject=pl.col(column), attempt_id=pl.lit(None, dtype=pl.String), cites=pl.concat_list("cite"))
    )
    return stated(totals(gather(named, ["subject"], unit="task_id"), facts.tasks, "task_id"), kind)
