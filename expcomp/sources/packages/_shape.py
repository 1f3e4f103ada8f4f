"""From recorded package steps to the common model: typed steps, messages rebuilt from them, counts on attempts. Expressions only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import polars as pl

from expcomp.evidence.refs import evidence_id_expr, kind_of, visibility_of
from expcomp.io.wording import worded
from expcomp.sources import surfaces
from expcomp.sources.packages import _documents as docs
from expcomp.sources.packages import _step
from expcomp.sources.packages._attempt import StepRows
from expcomp.tables import vocab as v
from expcomp.tables.core import ATTEMPTS, EVIDENCE, MESSAGES, OBSERVATION, TOOL_CALL
from expcomp.tables.step_fields import DTYPES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from expcomp.sources.packages._package import Cited
    from expcomp.sources.packages._records import Label

_json = msgspec.json.Encoder().encode
_RAW_TYPES: dict[str, Any] = {
    "text": pl.String(),
    "int": pl.Int64(),
    "flag": pl.Boolean(),
    "ints": pl.List(pl.Int64()),
}
_RAW_SCHEMA = {
    "attempt_id": pl.String(),
    "step_index": pl.Int32(),
    "refs": pl.List(pl.String()),
    "detail": pl.String(),
} | {name: _RAW_TYPES[_step.FIELDS[name]] for name in _step.CORE_ORDER}
_FIELD_SURFACE = pl.Struct({name: DTYPES[name] for name, _ in docs.SURFACE_BY_FIELD})


def utc(column: str) -> pl.Expr:
    """A time stamp text as UTC; null when it is none. A stamp without zone is taken as UTC."""
    text = pl.col(column).str.strip_chars()
    zoned = text.str.to_datetime("%+", time_unit="us", time_zone="UTC", strict=False)
    naive = text.str.replace(" ", "T").str.to_datetime("%Y-%m-%dT%H:%M:%S%.f", time_unit="us", strict=False)
    return pl.coalesce(zoned, naive.dt.replace_time_zone("UTC"))


def word(column: str, dtype: pl.Enum) -> pl.Expr:
    """A word of a closed vocabulary; null when it is not in it."""
    return pl.col(column).cast(dtype, strict=False)


def _surface() -> tuple[pl.Expr, pl.Expr]:
    """Surface and where it comes from: declared, else a surface-specific field, else a word of the tool name; never free text."""
    declared = word("interaction_surface", v.SURFACE)
    detail = pl.col("detail").str.json_decode(_FIELD_SURFACE)
    by_field = pl.coalesce(
        *(pl.when(detail.struct.field(f).is_not_null()).then(pl.lit(s)) for f, s in docs.SURFACE_BY_FIELD)
    )
    by_tool = surfaces.by_tool("tool")
    missing = pl.col("interaction_surface").is_null() & (pl.col("action") != "user_message")
    derived = pl.when(missing).then(pl.coalesce(by_field, by_tool)).cast(v.SURFACE)
    source = (
        pl.when(declared.is_not_null())
        .then(pl.lit("declared"))
        .when(missing & by_field.is_not_null())
        .then(pl.lit("field"))
        .when(missing & by_tool.is_not_null())
        .then(pl.lit("tool"))
        .otherwise(pl.lit("none"))
        .cast(v.SURFACE_SOURCE)
    )
    return pl.coalesce(declared, derived), source


def _json_object(column: str, key: str) -> pl.Expr:
    """`{"key": text}` as JSON text."""
    return pl.struct(pl.col(column).alias(key)).struct.json_encode()


def _column(name: str, values: Iterable[Any], dtype: Any) -> pl.Series:
    if isinstance(dtype, pl.List):
        # Polars builds one Series for each inner list; as JSON text the column is built in one go.
        texts = [None if v is None else _json(v).decode() for v in values]
        return pl.Series(name, texts, dtype=pl.String).str.json_decode(dtype)
    return pl.Series(name, values, dtype=dtype, strict=True)


def steps_frame(rows: StepRows, labels: Mapping[tuple[str, int], Label]) -> pl.DataFrame:
    """The steps table of packages, sorted by attempt and position."""
    columns = zip(*rows.rows, strict=True) if rows.rows else ([] for _ in StepRows.COLUMNS)
    raw = pl.DataFrame(
        {name: _column(name, values, _RAW_SCHEMA[name]) for name, values in zip(StepRows.COLUMNS, columns, strict=True)}
    )
    # Lists that are recorded but empty say nothing; a quote inside JSON text is escaped, so only keys match.
    raw = raw.with_columns(
        pl.col("detail").str.replace_all(r',"[a-z_]+":\[\]', "").str.replace(r'^\{"[a-z_]+":\[\],?', "{")
    )
    raw = raw.with_columns(detail=pl.when(pl.col("detail") != "{}").then("detail"))
    same = pl.struct(pl.exclude("step_index"))
    raw = raw.with_columns(step_index_first=pl.col("step_index").first().over(same))
    label_rows = [(a, s, *label) for (a, s), label in labels.items()]
    given = pl.DataFrame(
        label_rows,
        schema={
            "attempt_id": pl.String,
            "step": pl.Int64,
            "label": pl.Int32,
            "label_source": pl.String,
            "local_reward": pl.Float64,
        },
        orient="row",
    )
    raw = raw.join(given, on=["attempt_id", "step"], how="left", maintain_order="left", nulls_equal=False)
    surface, surface_source = _surface()
    if not raw.select((pl.col("interaction_surface").is_null() & (pl.col("action") != "user_message")).any()).item():
        # Decoding detail only to find what every step declares already would be wasted.
        surface = word("interaction_surface", v.SURFACE)
        surface_source = (
            pl.when(surface.is_not_null()).then(pl.lit("declared")).otherwise(pl.lit("none")).cast(v.SURFACE_SOURCE)
        )
    is_user = pl.col("action").eq_missing("user_message")
    tool_step = ~is_user & pl.col("tool").is_not_null()
    call_id = worded("call_{}", pl.col("step_index"))
    # Only text that parses as an object is taken as arguments; any other becomes the one argument `input`.
    looks = pl.col("input").str.contains(r"^\s*\{") & pl.col("input").str.contains(r"\}\s*$")
    is_object = (
        pl.when(looks).then(pl.col("input").str.json_path_match("$").str.starts_with("{")).fill_null(value=False)
    )
    frame = raw.with_columns(
        surface_=surface,
        surface_source_=surface_source,
    ).with_columns(
        domain_=pl.coalesce(
            word("environment_domain", v.DOMAIN),
            surfaces.domain_of(pl.col("surface_")),
        )
    )
    call = pl.struct(
        call_id.alias("id"),
        pl.col("tool").alias("name"),
        pl.when(is_object).then("input").otherwise(_json_object("input", "input")).alias("arguments"),
        pl.lit(value=True).alias("arguments_ok"),
        pl.lit("function", dtype=v.CALL_KIND).alias("kind"),
    ).cast(TOOL_CALL)
    exit_code = pl.col("detail").str.json_path_match("$.exit_code").cast(pl.Int32, strict=False)
    observation = pl.struct(
        call_id.alias("call_id"),
        pl.col("output").alias("content"),
        (~pl.col("success")).alias("is_error"),
        exit_code.alias("exit_code"),
        pl.lit(value=False).alias("truncated"),
    ).cast(OBSERVATION)
    return frame.select(
        "attempt_id",
        "step_index",
        source=pl.when(is_user).then(pl.lit("user")).otherwise(pl.lit("agent")).cast(v.STEP_SOURCE),
        started_at=utc("started_at"),
        ended_at=utc("ended_at"),
        content=pl.when(is_user).then("input").when(~tool_step).then("output"),
        reasoning="reasoning",
        reasoning_opaque=pl.lit(value=False),
        tool_calls=pl.when(tool_step).then(pl.concat_list(call)),
        observations=pl.when(tool_step & pl.col("output").is_not_null()).then(pl.concat_list(observation)),
        context_id=pl.lit(0, dtype=pl.Int32),
        is_copied_context=pl.lit(value=False),
        trainable=~is_user,
        step_number="step",
        turn="turn",
        actor="actor",
        tool="tool",
        surface="surface_",
        surface_source="surface_source_",
        domain="domain_",
        operation=word("operation", v.OPERATION),
        outcome=word("step_outcome", v.OUTCOME),
        success="success",
        retry_of="retry_of",
        caused_by="caused_by",
        input="input",
        output="output",
        state_before="observation",
        state_after="state_change",
        error_type="error_type",
        error_message="error_message",
        error_code="error_code",
        label="label",
        label_source=word("label_source", v.LABEL_SOURCE),
        local_reward="local_reward",
        duplicate_of=pl.when(pl.col("step_index_first") != pl.col("step_index")).then("step_index_first"),
        refs="refs",
        detail="detail",
        native_words=pl.concat_list(
            *(
                pl.when(pl.col(c).is_not_null() & word(c, d).is_null()).then(worded(c + "={}", pl.col(c)))
                for c, d in (
                    ("interaction_surface", v.SURFACE),
                    ("environment_domain", v.DOMAIN),
                    ("operation", v.OPERATION),
                    ("step_outcome", v.OUTCOME),
                )
            )
        ).list.drop_nulls(),
    )


def evidence_frame(rows: list[Cited]) -> pl.DataFrame:
    """The evidence table from what a package cites."""
    names = ("package_id", "ref", "bytes", "sha256", "exists", "media_type")
    columns = zip(*rows, strict=True) if rows else ([] for _ in names)
    raw = pl.DataFrame(
        {n: pl.Series(n, list(c), dtype=EVIDENCE.schema[n], strict=True) for n, c in zip(names, columns, strict=True)}
    )
    named = raw.with_columns(evidence_id=evidence_id_expr("ref"), kind=kind_of("ref"), visibility=visibility_of("ref"))
    return conform(named, EVIDENCE.schema)


def conform(frame: pl.DataFrame, schema: pl.Schema) -> pl.DataFrame:
    """The columns of a schema, in order; absent ones are null."""
    have = frame.schema
    return frame.select(
        *(
            (pl.col(n) if have[n] == t else pl.col(n).cast(t)) if n in have else pl.lit(None, dtype=t).alias(n)
            for n, t in schema.items()
        )
    )


def step_problems(steps: pl.DataFrame, attempts: pl.DataFrame) -> pl.DataFrame:
    """Diagnostics that only the whole column shows: causes that come later, reversed times, copies, words outside a vocabulary."""
    at = pl.coalesce(pl.col("step_number"), pl.col("step_index").cast(pl.Int64))
    reversed_ = pl.col("ended_at") < pl.col("started_at")
    late = pl.col("caused_by").list.max()
    checks = (
        (
            "forward_cause",
            late >= pl.col("step_number"),
            worded("step {}: is caused by step {}, which is no earlier one; kept", at, late),
        ),
        (
            "time_reversed",
            reversed_,
            worded("step {}: ends {} before it starts {}; duration is null", at, "ended_at", "started_at"),
        ),
        (
            "duplicate_step",
            pl.col("duplicate_of").is_not_null(),
            worded("step {}: element {} is an exact copy of element {}", at, "step_index", "duplicate_of"),
        ),
        (
            "unknown_word",
            pl.col("native_words").list.len() > 0,
            worded("step {}: {} is in no vocabulary; null", at, pl.col("native_words").list.join(", ")),
        ),
    )
    where = attempts.select("attempt_id", "package_id", "trace_ref")
    parts = [
        steps.filter(hit)
        .join(where, on="attempt_id", how="left", maintain_order="left")
        .select(
            package_id="package_id",
            source_uri="trace_ref",
            source_pos=at,
            byte_offset=pl.lit(None, dtype=pl.Int64),
            attempt_id="attempt_id",
            field=pl.lit(None, dtype=pl.String),
            code=pl.lit(code),
            severity=pl.lit("warning", dtype=v.SEVERITY),
            detail=worded("{}: {}", "trace_ref", detail),
        )
        for code, hit, detail in checks
    ]
    return pl.concat(parts)


def messages_frame(steps: pl.DataFrame, systems: Mapping[str, str]) -> pl.DataFrame:
    """The conversation rebuilt from the steps: system prompt, user turns, assistant turns with calls, tool results. Copies are left out."""
    own = steps.filter(pl.col("duplicate_of").is_null())
    is_user = pl.col("source") == "user"
    shared = {
        "attempt_id": pl.col("attempt_id"),
        "step_index": pl.col("step_index"),
        "context_id": pl.col("context_id"),
        "timestamp": pl.col("started_at"),
    }
    has_text = pl.col("content").is_not_null() | pl.col("tool_calls").is_not_null()
    said = own.filter(has_text).select(
        **shared,
        order=pl.lit(1, dtype=pl.Int8),
        role=pl.when(is_user).then(pl.lit("user")).otherwise(pl.lit("assistant")).cast(v.ROLE),
        origin=pl.when(is_user).then(pl.lit("human")).otherwise(pl.lit("model")).cast(v.ORIGIN),
        content="content",
        reasoning=pl.when(~is_user).then("reasoning"),
        tool_calls="tool_calls",
        tool_call_id=pl.lit(None, dtype=pl.String),
        name=pl.lit(None, dtype=pl.String),
    )
    first = pl.col("observations").list.first()
    came = own.filter(pl.col("observations").is_not_null()).select(
        **shared,
        order=pl.lit(2, dtype=pl.Int8),
        role=pl.lit("tool", dtype=v.ROLE),
        origin=pl.lit("tool", dtype=v.ORIGIN),
        content=first.struct.field("content"),
        reasoning=pl.lit(None, dtype=pl.String),
        tool_calls=pl.lit(None, dtype=pl.List(TOOL_CALL)),
        tool_call_id=first.struct.field("call_id"),
        name="tool",
    )
    prompt = pl.DataFrame(
        {"attempt_id": list(systems), "content": list(systems.values())},
        schema={"attempt_id": pl.String, "content": pl.String},
    )
    prompt = prompt.join(
        own.select("attempt_id").unique(maintain_order=True), on="attempt_id", how="semi", maintain_order="left"
    )
    opening = conform(
        prompt.with_columns(
            step_index=pl.lit(-1, dtype=pl.Int32),
            context_id=0,
            order=0,
            role=pl.lit("system"),
            origin=pl.lit("harness"),
        ),
        said.schema,
    )
    frame = pl.concat([opening, said, came]).sort("attempt_id", "step_index", "order", maintain_order=True)
    frame = frame.with_columns(
        message_index=pl.int_range(pl.len(), dtype=pl.Int32).over("attempt_id"),
        step_index=pl.when(pl.col("step_index") >= 0).then("step_index"),
        branch=pl.lit(0, dtype=pl.Int32),
    )
    return conform(frame, MESSAGES.schema)


def attempts_frame(raw: pl.DataFrame, steps: pl.DataFrame, messages: pl.DataFrame) -> pl.DataFrame:
    """The attempts table with times parsed and counts filled in from the other tables."""
    agent = (pl.col("source") == "agent") & pl.col("duplicate_of").is_null()
    counts = steps.group_by("attempt_id", maintain_order=True).agg(
        n_steps=agent.sum().cast(pl.Int32),
        first_start=pl.col("started_at").min(),
        n_tool_calls=pl.col("tool_calls").filter(agent).list.len().sum().cast(pl.Int32),
        n_tool_errors=(pl.col("observations").filter(agent).list.first().struct.field("is_error")).sum().cast(pl.Int32),
    )
    talk = messages.group_by("attempt_id", maintain_order=True).agg(n_messages=pl.len().cast(pl.Int32))
    frame = (
        raw.drop("n_steps", "n_tool_calls", "n_tool_errors", "n_messages")
        .join(counts, on="attempt_id", how="left", maintain_order="left")
        .join(talk, on="attempt_id", how="left", maintain_order="left")
        .with_columns(
            pl.col("n_steps", "n_tool_calls", "n_tool_errors", "n_messages").fill_null(0),
            started_at=pl.coalesce("started_at", "first_start"),
            has_transcript=pl.col("n_messages").fill_null(0) > 0,
            duration_s=pl.when(pl.col("ended_at") >= pl.col("started_at")).then(
                (pl.col("ended_at") - pl.col("started_at")).dt.total_microseconds() / 1e6
            ),
        )
    )
    return conform(frame, ATTEMPTS.schema)
