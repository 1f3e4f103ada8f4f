"""What all families share, computed once per shard: enriched attempts and steps, conversations, task statistics, evidence."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import polars as pl

from expcomp.rows import labels
from expcomp.rows.private import phrases_of, private_items
from expcomp.tables.family import CALL, CHAT, MESSAGE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from expcomp.sources.traceset import TraceSet

KEYS = ("package_id", "task_id", "attempt_id")
# Keys and types of parts that are no text, as the parts' JSON has them; in a text of a part the quotation marks are escaped.
_MEDIA = (
    r'"(?:type|modality)":\s*"(?:(?:in|out)put_)?(?:image|audio|video|image_url|audio_url|video_url|image_file|input_file|blob)"'
    r'|"(?:artifact|file_id)":\s*"'
)


@dataclass(frozen=True)
class Context:
    """The collected tables of one shard and what is derived from them."""

    tables: Mapping[str, pl.DataFrame]

    @classmethod
    def of(cls, ts: TraceSet) -> Context:
        """Collect a TraceSet."""
        return cls(ts.collect())

    # -- tasks and attempts ------------------------------------------------------------------------------------------------
    @cached_property
    def tasks(self) -> pl.DataFrame:
        """The tasks, one line each."""
        return self.tables["tasks"]

    @cached_property
    def attempts(self) -> pl.DataFrame:
        """Attempts with their task's facts and the strength of their label; in order of package and attempt."""
        task = self.tasks.select(
            "task_id",
            "domain",
            "subdomain",
            "workflow_family",
            "split",
            "instruction",
            _task_tools="tools",
            _task_system="system_prompt",
            task_source_ref="source_ref",
        )
        return (
            self.tables["attempts"]
            .join(task, on="task_id", how="left", maintain_order="left")
            .with_columns(
                label_strength=labels.strength(),
                usable=pl.col("score_norm").is_not_null() & pl.col("score_valid").fill_null(value=False),
                issue=labels.issue(),
                is_root=pl.col("relation") == "root",
                task_tools=pl.coalesce("tools", "_task_tools"),
                header=pl.coalesce("system_prompt", "_task_system"),
            )
            .drop("_task_tools", "_task_system")
        )

    @cached_property
    def task_stats(self) -> pl.DataFrame:
        """Difficulty, learnability and pass rate of each task over its usable attempts; null below two."""
        own = self.attempts.filter("usable")
        enough = pl.col("n_usable") >= 2
        rated = pl.col("n_rated") >= 2
        return (
            own.group_by("task_id", maintain_order=True)
            .agg(
                n_usable=pl.len(),
                n_rated=pl.col("passed").is_not_null().sum(),
                mean=pl.col("score_norm").mean(),
                pass_rate=pl.col("passed").mean(),
            )
            .select(
                "task_id",
                "n_usable",
                pass_rate=pl.when(rated).then("pass_rate"),
                difficulty=pl.when(enough).then(1 - pl.col("mean")),
                learnability=pl.when(rated).then(4 * pl.col("pass_rate") * (1 - pl.col("pass_rate"))),
            )
        )

    @cached_property
    def attempt_place(self) -> pl.DataFrame:
        """What the envelope takes from the attempt."""
        return self.attempts.select("attempt_id", "attempt_kind", "trace_id")

    @cached_property
    def task_place(self) -> pl.DataFrame:
        """What the envelope and the quality take from the task."""
        stats = self.task_stats.select("task_id", "difficulty", "learnability")
        task = self.tasks.select("task_id", "domain", "subdomain", "workflow_family", "split")
        return task.join(stats, on="task_id", how="left", maintain_order="left")

    @cached_property
    def order(self) -> pl.DataFrame:
        """(package_id, attempt_id, order): attempts of a package in the order in which they began."""
        return (
            self.attempts.filter(pl.col("source_format") == "packages")
            .sort("package_id", "started_at", "attempt_kind", maintain_order=True, nulls_last=True)
            .select("package_id", "attempt_id", order=pl.int_range(pl.len()).over("package_id"))
        )

    @cached_property
    def next_attempt(self) -> pl.DataFrame:
        """(attempt_id, next_attempt_id): by the review loop where it says, else by start time within the package."""
        by_time = self.order.select("attempt_id", by_time=pl.col("attempt_id").shift(-1).over("package_id"))
        loop = self.tables["loops"].filter(pl.col("attempt_id").is_not_null())
        loop = loop.unique("attempt_id", keep="first", maintain_order=True).select(
            "attempt_id", by_loop="next_attempt_id"
        )
        return by_time.join(loop, on="attempt_id", how="left", maintain_order="left").select(
            "attempt_id", next_attempt_id=pl.coalesce("by_loop", "by_time")
        )

    # -- steps ---------------------------------------------------------------------------------------------------------------
    @cached_property
    def steps(self) -> pl.DataFrame:
        """All steps with the keys of their attempt, the action and the response as text, and their evidence."""
        attempt = self.attempts.select(
            *KEYS, "trace_ref", "source_format", "instruction", "score_norm", "label_strength", "usable", "is_root"
        )
        steps = self.tables["steps"].join(attempt, on="attempt_id", how="left", maintain_order="left")
        recorded = pl.col("source_format") == "packages"
        calls = pl.col("tool_calls").list.len().fill_null(0)
        came = pl.col("observations").list.len().fill_null(0)
        own = ~recorded.fill_null(value=False)
        by_tool: pl.Expr = pl.when(pl.col("tool").is_not_null()).then(pl.lit("tool"))
        if steps.select(own.any()).item():
            call_text = pl.col("tool_calls").list.eval(
                pl.struct(
                    name=pl.element().struct.field("name"), arguments=pl.element().struct.field("arguments")
                ).struct.json_encode()
            )
            result_text = pl.col("observations").list.eval(
                pl.struct(
                    call_id=pl.element().struct.field("call_id"), content=pl.element().struct.field("content")
                ).struct.json_encode()
            )
            action: pl.Expr = (
                pl.when(recorded)
                .then("input")
                .when(calls == 1)
                .then(call_text.list.first())
                .when(calls > 1)
                .then(pl.concat_str(pl.lit("["), call_text.list.join(","), pl.lit("]")))
                .otherwise("content")
            )
            answered = pl.col("next_source").is_in(["user", "simulator"]) & (calls == 0)
            response: pl.Expr = (
                pl.when(recorded)
                .then("output")
                .when(came == 1)
                .then(pl.col("observations").list.first().struct.field("content"))
                .when(came > 1)
                .then(pl.concat_str(pl.lit("["), result_text.list.join(","), pl.lit("]")))
                .when(answered)
                .then("next_content")
            )
            source: pl.Expr = (
                pl.when(recorded).then(by_tool).when(came > 0).then(pl.lit("tool")).when(answered).then(pl.lit("user"))
            )
        else:
            action, response, source = pl.col("input"), pl.col("output"), by_tool
        steps = (
            steps.with_columns(
                next_source=pl.col("source").cast(pl.String).shift(-1).over("attempt_id"),
                next_content=pl.col("content").shift(-1).over("attempt_id"),
            )
            .with_columns(action=action, response=response)
            .with_columns(
                response_source=pl.when(pl.col("response").is_not_null()).then(source),
                row=pl.int_range(pl.len(), dtype=pl.UInt32),
                is_error=pl.col("outcome").is_in(["failed", "blocked"]).fill_null(value=False)
                | pl.col("observations")
                .list.eval(pl.element().struct.field("is_error"))
                .list.any()
                .fill_null(value=False)
                & own,
            )
        )
        refs = steps.select(
            "row",
            "package_id",
            _refs=pl.concat_list(pl.concat_list("trace_ref").list.drop_nulls(), pl.col("refs").fill_null([])),
        )
        return steps.hstack(self.cite(refs).drop("row", "package_id"))

    @cached_property
    def agent_steps(self) -> pl.DataFrame:
        """Steps of agents, replayed history left out."""
        return self.steps.filter((pl.col("source") == "agent") & ~pl.col("is_copied_context").fill_null(value=False))

    # -- conversations ---------------------------------------------------------------------------------------------------------
    @cached_property
    def messages(self) -> pl.DataFrame:
        """Main-branch messages as chat structs, in the order of their context, with a signature that tells equal ones.

        A system prompt that stands in a header of the source, or was supplied, comes first where no message gives one: the model saw it.
        """
        step = self.steps.select(
            "attempt_id",
            "step_index",
            "trainable",
            "is_error",
            copied=pl.col("is_copied_context").fill_null(value=False),
        )
        frame = (
            self.tables["messages"]
            .filter(pl.col("branch").fill_null(0) == 0)
            .pipe(self._headed)
            .join(step, on=["attempt_id", "step_index"], how="left", maintain_order="left")
        )
        by_model = (pl.col("role") == "assistant") & (pl.col("origin") == "model")
        own = by_model & pl.col("trainable").fill_null(value=False)
        # What is shown whole as JSON text was seen as such, whatever it says of itself.
        media = pl.col("parts").str.contains(_MEDIA) & pl.col("content").ne_missing(pl.col("parts"))
        # A message of parts that are not all text has no text of its own; what it says must not vanish, nor two of them be equal.
        content = pl.when(pl.col("role") != "assistant").then(pl.coalesce("content", "parts")).otherwise("content")
        calls = pl.col("tool_calls").list.eval(
            pl.struct(
                id=pl.element().struct.field("id"),
                name=pl.element().struct.field("name"),
                arguments=pl.element().struct.field("arguments"),
            )
        )
        message = pl.struct(
            role=pl.col("role").cast(pl.String),
            content=content,
            reasoning="reasoning",
            tool_calls=pl.when(pl.col("tool_calls").list.len() > 0).then(calls).cast(pl.List(CALL)),
            tool_call_id="tool_call_id",
            name="name",
            trainable=own & ~pl.col("copied").fill_null(value=False),
            failed=pl.when(by_model & pl.col("is_error").fill_null(value=False)).then(pl.lit(value=True)),
            media=pl.when(media.fill_null(value=False)).then(pl.lit(value=True)),
        ).cast(MESSAGE)
        call_names = pl.col("tool_calls").list.eval(
            pl.concat_str(
                pl.element().struct.field("name"),
                pl.element().struct.field("arguments"),
                separator="\x1f",
                ignore_nulls=True,
            )
        )
        signature = pl.concat_str(
            pl.col("role").cast(pl.String),
            content,
            pl.when(media).then("parts"),
            call_names.list.join("\x1e"),
            separator="\x1d",
            ignore_nulls=True,
        )
        return frame.select(
            "attempt_id",
            "step_index",
            "context_id",
            message_index=pl.int_range(pl.len(), dtype=pl.Int32).over("attempt_id", "context_id"),
            by_model=by_model,
            message=message,
            signature=signature,
            n_calls=pl.col("tool_calls").list.len().fill_null(0),
        )

    def _headed(self, messages: pl.DataFrame) -> pl.DataFrame:
        """The messages with a system message at the head of each context that lacks one and whose attempt has a prompt."""
        messages = messages.with_columns(context_id=pl.col("context_id").fill_null(0))
        headers = self.attempts.filter(pl.col("header").is_not_null()).select("attempt_id", "header")
        if headers.is_empty():
            return messages
        spoken = pl.col("role").is_in(["system", "developer"]).first()
        bare = (
            messages.group_by("attempt_id", "context_id", maintain_order=True)
            .agg(has=spoken, first=pl.col("message_index").min())
            .filter(~pl.col("has"))
            .join(headers, on="attempt_id", how="inner", maintain_order="left")
        )
        schema = messages.schema
        rows = bare.select(
            (
                {
                    "attempt_id": pl.col("attempt_id"),
                    "context_id": pl.col("context_id"),
                    "message_index": pl.col("first"),
                    "role": pl.lit("system").cast(schema["role"]),
                    "origin": pl.lit("harness").cast(schema["origin"]),
                    "content": pl.col("header"),
                }.get(name, pl.lit(None, dtype=dtype))
            ).alias(name)
            for name, dtype in schema.items()
        )
        # The sort is stable and the header stands before the message whose index it borrows.
        order = messages.select("attempt_id").unique(maintain_order=True).with_row_index("_order")
        return (
            pl.concat([rows, messages])
            .join(order, on="attempt_id", how="left", maintain_order="left")
            .sort("_order", "message_index", maintain_order=True)
            .drop("_order")
        )

    @cached_property
    def chats(self) -> pl.DataFrame:
        """One conversation for each attempt and context: messages, where the agent's first word is, counts."""
        return self.messages.group_by("attempt_id", "context_id", maintain_order=True).agg(
            messages=pl.col("message"),
            n_prompt=pl.col("by_model").cum_max().not_().sum().cast(pl.Int32),
            n_messages=pl.len().cast(pl.Int32),
            n_calls=pl.col("n_calls").sum().cast(pl.Int32),
            by_model=pl.col("by_model").any(),
        )

    @cached_property
    def transcripts(self) -> pl.DataFrame:
        """One line for each attempt: its only conversation, split at the agent's first word; null chat where contexts were compacted."""
        single = pl.col("n_contexts") == 1
        return (
            self.chats.group_by("attempt_id", maintain_order=True)
            .agg(pl.all().exclude("context_id").first(), n_contexts=pl.len())
            .with_columns(messages=pl.when(single).then("messages").cast(CHAT))
            .with_columns(
                prompt=pl.col("messages").list.head("n_prompt"),
                completion=pl.when("by_model").then(pl.col("messages").list.slice("n_prompt")),
            )
        )

    # -- what only a verifier may see ---------------------------------------------------------------------------------------------
    @cached_property
    def private(self) -> pl.DataFrame:
        """Criteria that only a verifier may see."""
        return private_items(self.tables["rubric_items"])

    @cached_property
    def private_phrases(self) -> pl.DataFrame:
        """What betrays them in a text, by package."""
        return phrases_of(self.private)

    # -- evidence ----------------------------------------------------------------------------------------------------------------
    @cached_property
    def evidence(self) -> pl.DataFrame:
        """Facts of each referenced file."""
        hidden = pl.col("visibility") == "hidden_excluded"
        return self.tables["evidence"].select(
            "package_id", "ref", "evidence_id", hidden=hidden, there=pl.col("exists").fill_null(value=False) & ~hidden
        )

    def cite(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Replace `_refs` (paths) by `_evidence_ids`, `_evidence_ok` and counts; one output row for each input row, in order."""
        cited = (
            frame.select("package_id", "_refs", cite_row=pl.int_range(pl.len(), dtype=pl.UInt32))
            .explode("_refs", empty_as_null=False)
            .unique(["cite_row", "_refs"], keep="first", maintain_order=True)
            .join(
                self.evidence,
                left_on=["package_id", "_refs"],
                right_on=["package_id", "ref"],
                how="inner",
                maintain_order="left",
            )
            .group_by("cite_row", maintain_order=True)
            .agg(
                _evidence_ids=pl.col("evidence_id"),
                _evidence_ok=pl.col("evidence_id").filter("there"),
                _n_refs=pl.len(),
                _n_there=pl.col("there").sum(),
                _n_hidden=pl.col("hidden").sum(),
            )
        )
        return (
            frame.drop("_refs")
            .with_columns(cite_row=pl.int_range(pl.len(), dtype=pl.UInt32))
            .join(cited, on="cite_row", how="left", maintain_order="left")
            .drop("cite_row")
        )
