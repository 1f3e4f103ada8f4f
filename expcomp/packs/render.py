"""The files of each pack as one frame: path and text. A file without content is not there; pack.json says which are missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import polars as pl

from expcomp.compiler.canonical import json_lines
from expcomp.io.documents import json_document
from expcomp.io.wording import worded
from expcomp.packs.skill import checklists, missing_sections, named, skill_texts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from expcomp.packs.pack import Packs

_CARD = 12  # citations on a card; skill.json has them all
_MEMORY = ("decisions", "failures", "corrections")
_STATEMENT = ("statement_id", "kind", "subject", "text", "support", "total", "unit", "attempt_ids", "citations")
MISSING_FILES = {
    "runtime/memory.jsonl": "no decision, failure or correction was found",
    "runtime/tool_use.jsonl": "no action was recorded",
    "runtime/corrections.jsonl": "no retry that worked, and no feedback that an attempt followed",
    "runtime/artifacts.jsonl": "no file was handed over",
    "runtime/contract.json": "no packages were given to infer a contract from, or no passing attempt handed over a file",
    "runtime/checklist.md": "no criterion that an agent may see, and no check, was recorded",
    "runtime/repair.md": "no repair plan and no failure was recorded",
    "evals/rubric_items.jsonl": "no criterion that an agent may see was graded",
    "evals/grader_cases.jsonl": "no criterion that an agent may see has a grade",
    "evals/verifier_cases.jsonl": "no verdict of a verifier was recorded",
    "evals/expected_artifacts.jsonl": "no passing attempt handed over a file",
    "evals/transfer_tasks.jsonl": "no real variant of the task is known",
    "task.json": "no task whose text was found",
    "environment.json": "no action was recorded",
    "domain.json": "no attempt was recorded",
}
"""Files that a pack may lack, with the reason."""


def pack_files(packs: Packs) -> pl.DataFrame:
    """(pack_id, path, text): the files of all packs, paths below the pack's own folder."""
    told = packs.statements
    frames = [
        _file(skill_texts(packs.packs, told), "SKILL.md"),
        _file(_skill_json(packs), "skill.json"),
        _file(
            _lines(told.filter(pl.col("section").is_in(list(_MEMORY))), ("pack_id", *_STATEMENT)),
            "runtime/memory.jsonl",
        ),
        _file(_lines(packs.tools), "runtime/tool_use.jsonl"),
        _file(_lines(packs.corrections), "runtime/corrections.jsonl"),
        _file(_lines(packs.artifacts), "runtime/artifacts.jsonl"),
        _file(checklists(packs.packs, told, "checks", "Before the end"), "runtime/checklist.md"),
        _file(_repair(packs), "runtime/repair.md"),
        _file(packs.contracts, "runtime/contract.json"),
        *(_file(_lines(frame), f"evals/{name}.jsonl") for name, frame in packs.evals.items()),
        *(_file(_documents(frame), f"{name}.json") for name, frame in packs.specs.items()),
        _file(_documents(cards(packs)), "card.json"),
    ]
    files = pl.concat(frames)
    return pl.concat([files, _file(_index(packs, files), "pack.json")]).sort("pack_id", "path")


def cards(packs: Packs) -> pl.DataFrame:
    """Retrieval cards, one for each pack: what a runtime needs to choose it, with the citations of what it rests on."""
    told = packs.statements
    words = {
        "tasks": ("task", "request"),
        "inputs": ("input_file",),
        "deliverables": ("deliverable",),
        "criteria": ("criterion",),
    }
    card = packs.packs.select(
        "pack_id",
        "pack_kind",
        "source",
        "title",
        "description",
        "domain",
        "subdomain",
        "workflow_family",
        "n_tasks",
        "n_attempts",
        "n_passed",
        "n_failed",
    )
    for name, kinds in words.items():
        found = told.filter(pl.col("kind").is_in(list(kinds)))
        listed = found.group_by("pack_id", maintain_order=True).agg(
            pl.col("subject").unique(maintain_order=True).alias(name)
        )
        card = card.join(listed, on="pack_id", how="left", maintain_order="left")
    used = packs.tools.group_by("pack_id", maintain_order=True).agg(
        tools=pl.col("tool"),
        programs=pl.col("programs").explode(empty_as_null=False, keep_nulls=False).unique(maintain_order=True),
    )
    rests = told.filter(pl.col("kind").is_in(["task", "request", "record"]))
    every = pl.col("citations").explode(empty_as_null=False, keep_nulls=False).unique(maintain_order=True)
    cited = rests.group_by("pack_id", maintain_order=True).agg(citations=every.head(_CARD), n_citations=every.len())
    return card.join(used, on="pack_id", how="left", maintain_order="left").join(
        cited, on="pack_id", how="left", maintain_order="left"
    )


def _file(texts: pl.DataFrame, path: str) -> pl.DataFrame:
    return texts.select("pack_id", pl.lit(path).alias("path"), "text")


def _lines(frame: pl.DataFrame, columns: Sequence[str] | None = None) -> pl.DataFrame:
    """JSON lines of each pack, in the order of the frame."""
    lines = frame.select("pack_id", line=json_lines(frame, columns or frame.columns))
    return lines.group_by("pack_id", maintain_order=True).agg(text=pl.col("line").str.join("\n") + "\n")


def _documents(frame: pl.DataFrame) -> pl.DataFrame:
    """One JSON document for each line, indented."""
    texts = [json_document(_without_nulls(orjson.loads(t))) for t in json_lines(frame, frame.columns)]
    return frame.select("pack_id", text=pl.Series("text", texts, dtype=pl.String))


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    return [_without_nulls(v) for v in value] if isinstance(value, list) else value


def _skill_json(packs: Packs) -> pl.DataFrame:
    grouped = packs.statements.group_by("pack_id", maintain_order=True).agg(
        statements=pl.struct("section", *_STATEMENT)
    )
    frame = (
        packs.packs.select("pack_id", "title", "description", "package_ids", name="pack_id")
        .join(grouped, on="pack_id", how="left", maintain_order="left")
        .join(missing_sections(packs.packs, packs.statements), on="pack_id", how="left", maintain_order="left")
    )
    return _documents(frame.with_columns(_plain(frame)))


def _plain(frame: pl.DataFrame) -> list[pl.Expr]:
    """Vocabularies inside lists of structs as text, which JSON lines take."""
    section = pl.element().struct.with_fields(pl.field("section").cast(pl.String))
    return [pl.col("statements").list.eval(section)] if "statements" in frame.columns else []


def _repair(packs: Packs) -> pl.DataFrame:
    """Repair instructions: failures with what fixed them, and repair plans that were carried out."""
    failures = checklists(packs.packs, packs.statements, "failures", "When something fails", bullet="- ")
    plans = packs.repairs.filter(pl.col("files_to_modify").list.len() > 0).with_columns(
        line=pl.concat_str(
            worded("- Plan: change `{}`", pl.col("files_to_modify").list.join("`, `")),
            pl.when(pl.col("files_to_preserve").list.len() > 0).then(
                worded("; keep `{}`", pl.col("files_to_preserve").list.join("`, `"))
            ),
            pl.when(pl.col("repair_steps").list.len() > 0).then(worded("; {}", pl.col("repair_steps").list.join(", "))),
            pl.when(pl.col("after_score").is_not_null()).then(
                worded("; score {} before, {} after", pl.col("before_score").round(3), pl.col("after_score").round(3))
            ),
            worded(". [{}]", pl.col("cites").list.join(", ")),
            ignore_nulls=True,
        )
    )
    planned = plans.group_by("pack_id", maintain_order=True).agg(
        plans=pl.col("line").unique(maintain_order=True).str.join("\n")
    )
    titles = packs.packs.select("pack_id", title=named())
    every = (
        titles.join(failures, on="pack_id", how="left", maintain_order="left")
        .join(planned, on="pack_id", how="left", maintain_order="left")
        .filter(pl.col("text").is_not_null() | pl.col("plans").is_not_null())
    )
    head = pl.col("text").fill_null(worded("# When something fails: {}\n", "title"))
    return every.select(
        "pack_id",
        text=pl.concat_str(head, worded("\n## Repair plans on record\n\n{}\n", "plans"), ignore_nulls=True),
    )


def _index(packs: Packs, files: pl.DataFrame) -> pl.DataFrame:
    """pack.json: what the pack holds, what it lacks and why, and which rows of the compile it links."""
    listed = files.group_by("pack_id", maintain_order=True).agg(files=pl.col("path").sort())
    lacking = (
        missing_files(packs.packs, files)
        .group_by("pack_id", maintain_order=True)
        .agg(missing_files=pl.struct("path", "reason"))
    )
    links = packs.links.group_by("pack_id", maintain_order=True).agg(rows=pl.struct("family", "row_ids"))
    frame = packs.packs.drop("description")
    for more in (
        listed,
        lacking,
        missing_sections(packs.packs, packs.statements).rename({"missing": "missing_sections"}),
        links,
    ):
        frame = frame.join(more, on="pack_id", how="left", maintain_order="left")
    return _documents(frame)


def missing_files(packs: pl.DataFrame, files: pl.DataFrame) -> pl.DataFrame:
    """(pack_id, path, reason): the files that each pack lacks."""
    every = packs.select("pack_id").join(
        pl.DataFrame({"path": list(MISSING_FILES), "reason": list(MISSING_FILES.values())}),
        how="cross",
        maintain_order="left_right",
    )
    return every.join(files, on=["pack_id", "path"], how="anti", maintain_order="left")
