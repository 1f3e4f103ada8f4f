"""`build_packs`: all frames of all packs, from a compilation; `Packs.write` publishes them as a folder."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.compiler.compilation import Compilation, open_compilation
from expcomp.io.documents import read_json
from expcomp.packs.evals import evals
from expcomp.packs.facts import Facts
from expcomp.packs.guard import private_texts, withheld
from expcomp.packs.lessons import failed_steps
from expcomp.packs.linked import contracts
from expcomp.packs.runtime import artifacts, corrections, handed_over, tools
from expcomp.packs.skill import descriptions
from expcomp.packs.specs import domain_profiles, environment_specs, task_specs
from expcomp.packs.statements import statements
from expcomp.tables.packs import PACKS

if TYPE_CHECKING:
    from collections.abc import Mapping

LAYOUTS = ("packs", "apprenticeship")
LOOP_FAMILIES = (
    "loop_review_row",
    "feedback_revision_pair",
    "reviewer_decision_row",
    "contract_verification_row",
    "repair_loop_row",
)


@dataclass(frozen=True)
class Packs:
    """Packs of a compilation.

    Attributes:
        packs: Table `packs`, a line for each, with `description`.
        statements: Table `pack_statements`.
        tools: Table `pack_tools`.
        corrections: Table `pack_corrections`.
        artifacts: Table `pack_artifacts`.
        evals: Frames of the eval package by name.
        specs: task, environment and domain: one line for each pack that has one.
        links: pack_id, family, row_ids: rows of the compile that a pack links, for review loops and contracts.
        repairs: Rows of `repair_loop_row` by pack.
        private: pack_id, word, telling: what must not appear.
        withheld: Number of lines by frame that were left out because they speak of a private criterion; contracts also because
            their files have changed (`contracts_of_other_bytes`).
        contracts: pack_id and text: output contracts of packages, where files to infer them from were given.
        compilation: What they were made from.
        fingerprint: Digest of the input of the compile; None for one in memory.
    """

    packs: pl.DataFrame
    statements: pl.DataFrame
    tools: pl.DataFrame
    corrections: pl.DataFrame
    artifacts: pl.DataFrame
    evals: Mapping[str, pl.DataFrame]
    specs: Mapping[str, pl.DataFrame]
    links: pl.DataFrame
    repairs: pl.DataFrame
    private: pl.DataFrame
    withheld: Mapping[str, int]
    contracts: pl.DataFrame
    compilation: Compilation
    fingerprint: str | None = None

    def write(self, out: str | Path, *, layout: str = "packs", force: bool = False) -> dict[str, Any]:
        """Publish as a folder and return its report; `layout` is packs or apprenticeship.

        Raises:
            OutputError: `out` exists or cannot be written.
            UsageError: There is no such layout.
        """
        from expcomp.packs.folder import write_packs

        return write_packs(self, Path(out), layout=layout, force=force)

    def __repr__(self) -> str:
        return f"Packs({self.packs.height:,} packs, {self.statements.height:,} statements)"

    def _repr_html_(self) -> str:
        shown = self.packs.select("pack_id", "title", "n_attempts", "n_passed", "n_failed").head(20)
        return f"<p>{escape(repr(self))}</p>{shown._repr_html_()}"


def build_packs(source: Compilation | str | Path, *, files: str | Path | None = None) -> Packs:
    """Packs of every package of a compile, and of every workflow family with two or more of them.

    Args:
        source: A Compilation, or the output folder of a compile.
        files: The packages that were compiled; with them each pack gets the output contract of its passing attempts. A
            contract is left out when a file it rests on is not, byte for byte, what the compile saw.

    Raises:
        SourceError: The folder is no output of a compile, or `files` holds no packages.
    """
    compilation = source if isinstance(source, Compilation) else open_compilation(source)
    facts = Facts(compilation)
    private = private_texts(facts)
    steps, given = failed_steps(facts), handed_over(facts)
    told, hidden = statements(facts, steps, private)
    counts = {"statements": hidden}
    scored = {}
    for name, frame in evals(facts, given).items():
        scored[name], counts[name] = visible(frame, private)
    specs = {"task": task_specs(facts), "environment": environment_specs(facts), "domain": domain_profiles(facts)}
    for name, frame in specs.items():
        specs[name], counts[name] = visible(frame, private)
    repairs, counts["repairs"] = visible(facts.row_facts("repair_loop_row"), private)
    inferred = pl.DataFrame(schema={"pack_id": pl.String, "text": pl.String})
    if files is not None:
        inferred, left = contracts(Path(files), facts, private)
        counts |= left
    packs = _packs(facts)
    return Packs(
        packs=packs.join(descriptions(packs, told), on="pack_id", how="left", maintain_order="left"),
        statements=told,
        tools=tools(facts),
        corrections=corrections(facts, steps, private),
        artifacts=artifacts(facts, given),
        evals=scored,
        specs=specs,
        links=_links(facts),
        repairs=repairs,
        private=private,
        withheld={name: n for name, n in counts.items() if n},
        contracts=inferred,
        compilation=compilation,
        fingerprint=None
        if isinstance(source, Compilation)
        else read_json(Path(source) / "manifest.json").get("input_fingerprint"),
    )


def visible(frame: pl.DataFrame, private: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """The lines that do not speak of a private criterion anywhere in their JSON, and how many do."""
    if private.is_empty() or frame.is_empty():
        return frame, 0
    text = frame.select("pack_id", _json=pl.struct(pl.exclude("pack_id", "cites")).struct.json_encode())
    hidden = withheld(text, private, text="_json")
    return frame.filter(~hidden), int(hidden.sum())


def _packs(facts: Facts) -> pl.DataFrame:
    """The table `packs`."""
    every = facts.members.group_by("pack_id", "pack_kind", "source", maintain_order=True).agg(
        package_ids=pl.col("package_id").unique().sort()
    )
    tasks = facts.tasks.group_by("pack_id", maintain_order=True).agg(
        *(
            pl.when(pl.col(c).drop_nulls().n_unique() == 1).then(pl.col(c).drop_nulls().first()).alias(c)
            for c in ("title", "domain", "subdomain", "workflow_family")
        ),
        n_tasks=pl.col("task_id").n_unique(),
    )
    attempts = facts.attempts.group_by("pack_id", maintain_order=True).agg(
        n_attempts=pl.len(),
        n_passed=pl.col("passed").fill_null(value=False).sum(),
        n_failed=(~pl.col("passed")).fill_null(value=False).sum(),
        score_mean=pl.col("score").mean(),
        n_scored=pl.col("score").count(),
    )
    counts = ("n_tasks", "n_attempts", "n_passed", "n_failed", "n_scored")
    return (
        every.join(tasks, on="pack_id", how="left", maintain_order="left")
        .join(attempts, on="pack_id", how="left", maintain_order="left")
        .with_columns(pl.col(c).fill_null(0) for c in counts)
        .select(list(PACKS.columns))
        .cast(PACKS.schema)
        .sort("pack_id")
    )


def _links(facts: Facts) -> pl.DataFrame:
    found = [facts.row_facts(name).select("pack_id", "row_id", family=pl.lit(name)) for name in LOOP_FAMILIES]
    return (
        pl.concat(found)
        .group_by("pack_id", "family", maintain_order=True)
        .agg(row_ids="row_id")
        .sort("pack_id", "family")
    )
