"""What statements are made from: attempts, actions, tasks and rows of each pack, each with the files that show it.

A fact without a file that was found is no fact: it is left out here, before anything is counted. Citations are texts
`evidence_id@package_id` until they are published.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import polars as pl

from expcomp.packs.members import family, packs_of
from expcomp.rows.context import Context

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from expcomp.compiler.compilation import Compilation

_COMMAND = ("$.command", "$.cmd", "$.script")
_PROGRAM = (
    r"^(?:\W*(?:bash|sh|zsh|sudo|env|time|timeout)\b(?:[\s\"',]+-\w+)*)?"  # what starts another program
    r"[\s\"',(]*(?:\w+=\S*\s+)*([\w./+-]*[A-Za-z][\w./+-]*)(?:[\s;|&<>)\"',]|$)"
)


@dataclass(frozen=True)
class Facts:
    """The facts of a compilation, by pack."""

    compilation: Compilation

    @cached_property
    def context(self) -> Context:
        """What the row families share."""
        return Context(self.compilation.tables)

    @cached_property
    def files(self) -> pl.DataFrame:
        """(package_id, ref, evidence_id, bytes, cite): files that were found and are not hidden."""
        there = pl.col("exists").fill_null(value=False) & (pl.col("visibility") == "visible")
        return (
            self.compilation.tables["evidence"]
            .filter(there)
            .select(
                "package_id",
                "ref",
                "evidence_id",
                "bytes",
                "sha256",
                cite=pl.concat_str("evidence_id", "package_id", separator="@"),
            )
        )

    @cached_property
    def members(self) -> pl.DataFrame:
        """(pack_id, pack_kind, source, package_id, family): see `packs_of`."""
        packages: Mapping[str, object] | Iterable[str] = self.compilation.report["packages"]
        return packs_of(sorted(packages), self._attempts.select("package_id", "family"))

    def cited(self, frame: pl.DataFrame, ref: str, name: str, package: str = "package_id") -> pl.DataFrame:
        """The frame with a column `name`: the citation of the file in column `ref`; null where it was not found."""
        known = self.files.select(
            pl.col("package_id").alias(package), pl.col("ref").alias(ref), pl.col("cite").alias(name)
        )
        return frame.join(known, on=[package, ref], how="left", maintain_order="left")

    @cached_property
    def _attempts(self) -> pl.DataFrame:
        """Attempts whose record was found; `passed` and `score` only where the grade was found, too."""
        primary = (
            self.compilation.tables["grades"]
            .filter("is_primary")
            .unique("attempt_id", keep="first", maintain_order=True)
            .select("attempt_id", _graded="source_ref")
        )
        dataset = self.context.tasks.select("task_id", "dataset", "title", "deliverables", "constraints")
        frame = (
            self.context.attempts.join(primary, on="attempt_id", how="left", maintain_order="left")
            .join(dataset, on="task_id", how="left", maintain_order="left")
            .with_columns(
                family=family(),
                _trace=pl.coalesce("trace_ref", "source_uri"),
                _grade=pl.coalesce("grade_ref", "_graded"),
            )
        )
        frame = self.cited(
            self.cited(self.cited(frame, "_trace", "trace"), "_grade", "grade"), "outputs_ref", "outputs"
        )
        # Tasks that several attempts share stand in a package of their own.
        frame = self.cited(frame, "task_source_ref", "_own")
        frame = self.cited(frame, "task_source_ref", "_shared", package="task_id")
        valid = pl.col("score_valid").fill_null(value=True) & pl.col("grade").is_not_null()
        return frame.with_columns(
            # A task without a file of its own is told in the record of the attempt.
            task_file=pl.coalesce("_own", "_shared", pl.when(pl.col("task_source_ref").is_null()).then("trace")),
            passed=pl.when(valid).then("passed"),
            score=pl.when(valid & pl.col("usable")).then("score_norm"),
        ).drop("_graded", "_trace", "_grade", "_own", "_shared")

    @cached_property
    def attempts(self) -> pl.DataFrame:
        """Attempts by pack whose record was found."""
        return self.by_pack(self._attempts.filter(pl.col("trace").is_not_null()))

    @cached_property
    def graded(self) -> pl.DataFrame:
        """Attempts by pack whose grade was found, also without a record of what was done."""
        return self.by_pack(self._attempts.filter(pl.col("grade").is_not_null()))

    def by_pack(self, frame: pl.DataFrame) -> pl.DataFrame:
        """A line for each pack the line's package belongs to; with a column `family`, only families that are the line's own."""
        members = self.members.select("pack_id", "package_id", _family="family")
        own = frame.join(members, on="package_id", how="inner", maintain_order="left_right")
        if "family" in frame.columns:
            own = own.filter(
                pl.col("_family").is_null() | (pl.col("_family") == pl.col("family")).fill_null(value=False)
            )
        return own.drop("_family")

    @cached_property
    def tasks(self) -> pl.DataFrame:
        """(pack_id, package_id, task_id, file, ...): tasks of each pack whose text was found, a line for each package."""
        return (
            self.by_pack(self._attempts.filter(pl.col("task_id").is_not_null() & pl.col("task_file").is_not_null()))
            .unique(["pack_id", "package_id", "task_id"], keep="first", maintain_order=True)
            .select(
                "pack_id",
                "package_id",
                "task_id",
                "title",
                "instruction",
                "domain",
                "subdomain",
                "workflow_family",
                "deliverables",
                "constraints",
                cite="task_file",
            )
        )

    @cached_property
    def _actions(self) -> pl.DataFrame:
        """One line for each tool call, or for each step with an operation: in order, with its error and its program."""
        steps = self.context.agent_steps.filter(pl.col("duplicate_of").is_null()).select(
            "attempt_id",
            "step_index",
            "row",
            "tool_calls",
            "observations",
            "tool",
            "surface",
            "is_error",
            "action",
            "response",
            "source_format",
            operation=pl.col("operation").cast(pl.String),
            environment=pl.col("domain").cast(pl.String),
            seconds=(pl.col("ended_at") - pl.col("started_at")).dt.total_milliseconds() / 1000,
            command=pl.coalesce(pl.col("detail").str.json_path_match(p) for p in _COMMAND),
        )
        seen = (
            steps.select("row", "observations")
            .explode("observations", empty_as_null=False)
            .select("row", pl.col("observations").struct.field("call_id", "is_error", "content"))
            .drop_nulls("call_id")
            .unique(["row", "call_id"], keep="first", maintain_order=True)
        )
        calls = pl.col("tool_calls").list.len().fill_null(0)
        exploded = (
            steps.with_columns(n_calls=calls)
            .explode("tool_calls", empty_as_null=True)
            .with_columns(
                call_id=pl.col("tool_calls").struct.field("id"),
                call=pl.col("tool_calls").struct.field("name"),
                arguments=pl.col("tool_calls").struct.field("arguments"),
            )
            .join(
                seen.rename({"is_error": "call_error", "content": "call_response"}),
                on=["row", "call_id"],
                how="left",
                maintain_order="left",
            )
        )
        several = pl.col("n_calls") > 1
        packaged = pl.col("source_format") == "packages"
        command = pl.coalesce("command", *(pl.col("arguments").str.json_path_match(p) for p in _COMMAND))
        return (
            exploded.with_columns(
                label=pl.coalesce(pl.when(packaged).then("tool"), "call", "tool", "operation"),
                failed=pl.when(several).then(pl.col("call_error").fill_null(value=False)).otherwise("is_error"),
                response=pl.when(several).then("call_response").otherwise("response"),
                given=pl.when(packaged).then("action").otherwise("arguments"),
                program=command.str.extract(_PROGRAM, 1),
                seconds=pl.when(pl.col("seconds") >= 0).then("seconds"),
            )
            .filter(pl.col("label").is_not_null())
            .with_columns(place=pl.int_range(pl.len()).over("attempt_id"), n=pl.len().over("attempt_id"))
            .select(
                "attempt_id",
                "step_index",
                "place",
                "n",
                "label",
                "program",
                "operation",
                "surface",
                "environment",
                "failed",
                "given",
                "response",
                "seconds",
            )
        )

    @cached_property
    def actions(self) -> pl.DataFrame:
        """The actions by pack, with the verdict of their attempt and its record as citation."""
        attempt = self.attempts.select("pack_id", "package_id", "attempt_id", "passed", "trace", "grade")
        return self._actions.join(attempt, on="attempt_id", how="inner", maintain_order="left_right")

    def row_facts(self, family_name: str) -> pl.DataFrame:
        """Accepted rows of a family by pack, with `cites`: the files of the row that were found; rows without any are left out."""
        rows = self.compilation.rows[family_name].drop("trace_id", "split", "quality", "accepted", "reject_reasons")
        known = self.files.select("package_id", evidence_ids="evidence_id", cites="cite")
        cites = (
            rows.select("row_id", "package_id", "evidence_ids")
            .explode("evidence_ids", empty_as_null=False)
            .join(known, on=["package_id", "evidence_ids"], how="inner", maintain_order="left")
            .group_by("row_id", maintain_order=True)
            .agg("cites")
        )
        own = rows.join(cites, on="row_id", how="inner", maintain_order="left").drop("evidence_ids")
        return self.by_pack(own.join(self._families, on="task_id", how="left", maintain_order="left"))

    @cached_property
    def _families(self) -> pl.DataFrame:
        return self.context.tasks.select("task_id", family=family())
