"""Families at the grain of a step: environment response, process supervision, and the fifteen surface events."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from expcomp.rows.family import EVIDENCE, RowFamily
from expcomp.tables.events import EVENTS, EXPECTED, NOT_APPLICABLE, EventFamily
from expcomp.tables.families import BY_NAME
from expcomp.tables.step_fields import DTYPES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from expcomp.rows.context import Context

_SHARED = (
    pl.col("package_id"),
    pl.col("task_id"),
    pl.col("attempt_id"),
    pl.col("step_index"),
    *(pl.col(c) for c in EVIDENCE),
    pl.col("duplicate_of").is_not_null().alias("_duplicate"),
    pl.col("step_number"),
    pl.col("tool"),
    pl.col("operation").cast(pl.String),
    pl.col("surface").cast(pl.String),
    pl.col("success"),
    pl.col("outcome").cast(pl.String),
)


def environment_response(c: Context) -> pl.DataFrame:
    """One row for each agent step: the four texts as recorded, null where the source has none."""
    duration = pl.when(pl.col("ended_at") >= pl.col("started_at")).then(
        (pl.col("ended_at") - pl.col("started_at")).dt.total_microseconds() / 1000
    )
    return c.agent_steps.select(
        *_SHARED,
        "turn",
        "actor",
        "response_source",
        "state_before",
        "state_after",
        "error_type",
        "error_message",
        "error_code",
        "started_at",
        "ended_at",
        environment_domain=pl.col("domain").cast(pl.String),
        agent_action="action",
        observed_environment_response="response",
        exit_code=pl.col("observations").list.first().struct.field("exit_code"),
        duration_ms=duration,
        total_steps=pl.len().over("attempt_id").cast(pl.Int32),
    )


def process_supervision(c: Context) -> pl.DataFrame:
    """One row for each agent step: the source's own label first, then the recorded outcome; null when neither says anything."""
    by_outcome = (
        pl.when(pl.col("outcome").is_in(["progress", "completed", "corrected"]))
        .then(1)
        .when(pl.col("outcome").is_in(["failed", "blocked"]))
        .then(-1)
        .when(pl.col("outcome") == "neutral")
        .then(0)
    )
    given = pl.col("label_source").is_not_null()
    steps = c.agent_steps
    if not steps.select(pl.col("retry_of").is_not_null().any()).item():
        retried = pl.DataFrame(
            {"retry_of_step_index": pl.Series([None], dtype=pl.Int32).new_from_index(0, steps.height)}
        )
    else:
        first = steps.filter(pl.col("duplicate_of").is_null()).unique(
            ["attempt_id", "step_number"], keep="first", maintain_order=True
        )
        retried = steps.join(
            first.select("attempt_id", retry_of="step_number", retry_of_step_index="step_index"),
            on=["attempt_id", "retry_of"],
            how="left",
            maintain_order="left",
        ).select("retry_of_step_index")
    return steps.hstack(retried).select(
        *_SHARED,
        "turn",
        "actor",
        "local_reward",
        "retry_of_step_index",
        failed="is_error",
        environment_domain=pl.col("domain").cast(pl.String),
        agent_action="action",
        observed_result="response",
        label=pl.when(given).then("label").otherwise(by_outcome),
        label_source=pl.when(given)
        .then(pl.col("label_source").cast(pl.String))
        .when(by_outcome.is_not_null())
        .then(pl.lit("outcome")),
        attempt_score=pl.when("usable").then("score_norm"),
        _label_strength=pl.when((pl.col("label_source") == "heuristic") | (~given & by_outcome.is_not_null()))
        .then(0.25)
        .when(pl.col("label_source").is_in(["evaluator", "grader"]))
        .then(0.75)
        .when(pl.col("label_source") == "verifier")
        .then(1.0),
    )


def _selected(e: EventFamily) -> pl.Expr:
    hit = pl.col("surface").is_in(list(e.surfaces)) if e.surfaces else pl.lit(value=False)
    if e.domains:
        hit = hit | pl.col("domain").is_in(list(e.domains))
    hit = hit.fill_null(value=False)
    for mark in e.marks:
        # The parser writes compact JSON and leaves absent fields out, so the key stands in the text only when the field is there.
        hit = hit | pl.col("detail").str.contains(f'"{mark}":', literal=True).fill_null(value=False)
    return hit


def _asked(e: EventFamily) -> dict[str, tuple[str, ...]]:
    """Surface -> expected fields, of the surfaces that steps of the family can be on."""
    only = e.surfaces if not (e.marks or e.domains) else EXPECTED
    return {surface: EXPECTED[surface] for surface in only if surface in EXPECTED}


def _recorded(name: str) -> pl.Expr:
    if name not in DTYPES:
        return pl.col(name).is_not_null()
    value = pl.col("_detail").struct.field(name)
    return (value.list.len() > 0).fill_null(value=False) if isinstance(DTYPES[name], pl.List) else value.is_not_null()


def _missing(asked: Mapping[str, tuple[str, ...]]) -> pl.Expr:
    """Of the fields that the surface of a step should carry those that it lacks; null for a surface without a list of them."""
    missing = pl.lit(None, dtype=pl.List(pl.String))
    for name, entries in asked.items():
        lacks = [~pl.any_horizontal(_recorded(n) for n in entry.split("|")) for entry in entries]
        named = [pl.when(no).then(pl.lit(entry.split("|")[0])) for no, entry in zip(lacks, entries, strict=True)]
        missing = pl.when(pl.col("surface") == name).then(pl.concat_list(named).list.drop_nulls()).otherwise(missing)
    return missing


def _captured(asked: Mapping[str, tuple[str, ...]]) -> pl.Expr:
    """How much of what its surface should carry a step records, by `missing_fields`; without a list any trace of a result is a part."""
    surface, lacks = pl.col("surface").cast(pl.String), pl.col("missing_fields").list.len()
    every = surface.replace_strict({n: len(e) for n, e in asked.items()}, default=None, return_dtype=pl.UInt32)
    any_trace = pl.any_horizontal(_recorded(n) for n in ("response", "state_after", "artifact_refs"))
    return (
        pl.when(lacks == 0)
        .then(pl.lit("complete"))
        .when(surface.is_in(NOT_APPLICABLE))
        .then(pl.lit("not_applicable"))
        .when((lacks < every) | (lacks.is_null() & surface.is_not_null() & any_trace))
        .then(pl.lit("partial"))
        .when(surface.is_not_null())
        .then(pl.lit("unavailable"))
    )


def event(e: EventFamily, c: Context) -> pl.DataFrame:
    """Rows of one event family; `detail` is decoded once, with the dtypes of this family's fields, on the rows that need it."""
    wanted = tuple(dict.fromkeys((*e.fields, *e.marks, *e.per_ref)))
    asked = _asked(e)
    also = [n for entries in asked.values() for entry in entries for n in entry.split("|") if n in DTYPES]
    dtype = pl.Struct({n: DTYPES[n] for n in dict.fromkeys((*wanted, *also, "artifact_refs"))})
    steps = (
        c.agent_steps.filter(_selected(e))
        .with_columns(_detail=pl.col("detail").fill_null("{}").str.json_decode(dtype))
        .with_columns(missing_fields=_missing(asked))
    )
    decoded = steps.select(
        *_SHARED,
        "missing_fields",
        *(pl.col("_detail").struct.field(n) for n in wanted),
        pl.col("surface_source").cast(pl.String),
        "error_type",
        "error_message",
        agent_action="action",
        observed_result="response",
        surface_capture=_captured(asked),
    )
    if e.marks and not e.surfaces:
        # A key may stand in nested text; the decoded field decides.
        decoded = decoded.filter(pl.any_horizontal(pl.col(m).is_not_null() for m in e.marks))
    return _one_row_per_ref(decoded, e, c) if e.per_ref else decoded


def _one_row_per_ref(frame: pl.DataFrame, e: EventFamily, c: Context) -> pl.DataFrame:
    """One row for each distinct ref; a step without any keeps one row with a null ref."""
    lists = [pl.when(pl.col(n).list.len() > 0).then(n) for n in e.per_ref]
    raw = frame.with_columns(artifact_ref=pl.coalesce(*lists).list.unique(maintain_order=True)).explode("artifact_ref")
    clean = raw.with_columns(
        artifact_ref=pl.col("artifact_ref").str.replace_all("\\", "/", literal=True).str.strip_prefix("./")
    )
    facts = c.tables["evidence"].select(
        "package_id",
        artifact_ref="ref",
        artifact_exists="exists",
        artifact_bytes="bytes",
        artifact_sha256="sha256",
        artifact_media_type="media_type",
        hidden=pl.col("visibility") == "hidden_excluded",
    )
    joined = clean.join(facts, on=["package_id", "artifact_ref"], how="left", maintain_order="left")
    # This row is about one ref only: what else the step cites is not its business.
    mine = joined.select(
        "package_id", _refs=pl.concat_list("artifact_ref").list.drop_nulls(), trace=pl.col("_evidence_ids").list.head(1)
    )
    cited = c.cite(mine.select("package_id", "_refs"))
    merged = mine.hstack(cited.drop("package_id")).select(
        _evidence_ids=pl.concat_list("trace", pl.col("_evidence_ids").fill_null([])),
        _evidence_ok=pl.concat_list("trace", pl.col("_evidence_ok").fill_null([])),
        _n_refs=(pl.col("_n_refs").fill_null(0) + 1),
        _n_there=(pl.col("_n_there").fill_null(0) + 1),
        _n_hidden=pl.col("_n_hidden").fill_null(0),
    )
    return joined.drop(*EVIDENCE, "hidden").hstack(merged).with_columns(_discriminator="artifact_ref")


STEP_FAMILIES: tuple[RowFamily, ...] = (
    RowFamily(BY_NAME["environment_response_pair"], ("steps", "attempts"), environment_response),
    RowFamily(BY_NAME["process_supervision"], ("steps", "attempts"), process_supervision),
    *(RowFamily(BY_NAME[e.name], ("steps", "attempts"), partial(event, e)) for e in EVENTS),
)
