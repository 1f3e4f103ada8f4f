"""`--layout apprenticeship`: the ancestor's `experience_compiler/` tree and file names, filled from our rows and statements.

The tree is data. What no evidence speaks for is there as an empty file of its type: no line in JSON lines, a JSON object or a
Markdown text that says so and why; each is a line of the report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson
import polars as pl

from expcomp.compiler.canonical import json_lines
from expcomp.io.documents import json_document
from expcomp.io.wording import worded
from expcomp.packs.kinds import MISSING
from expcomp.packs.layout_tree import COPIES, EMPTY, LISTED, ROOT, ROWS, SECTION_TEXTS, STATED
from expcomp.packs.members import pack_name
from expcomp.packs.pack import visible
from expcomp.packs.render import MISSING_FILES, pack_files
from expcomp.packs.skill import checklists, quoted

if TYPE_CHECKING:
    from expcomp.packs.pack import Packs


def apprenticeship_files(packs: Packs) -> tuple[pl.DataFrame, pl.DataFrame]:
    """(path, text) of every file of the tree of each package, and (pack_id, path, reason) of those without content."""
    single = packs.packs.filter(pl.col("pack_kind") == "package").select("pack_id", "source")
    own = pack_files(packs).join(single, on="pack_id", how="semi", maintain_order="left")
    made = pl.concat(
        [
            _rows(packs, single),
            _copies(own),
            _stated(packs, single),
            _lists(packs, single),
            _section_texts(packs, single),
        ]
    )
    declared = _declared(single)
    lacking = declared.join(made, on=["pack_id", "path"], how="anti", maintain_order="left")
    empty = lacking.select("pack_id", "path", text=_nothing())
    filled = pl.concat([made, empty])
    every = pl.concat([filled, _manifests(packs, single, filled)]).join(
        _places(single), on="pack_id", how="inner", maintain_order="left"
    )
    placed = every.select("text", path=pl.concat_str(pl.lit("packages"), "place", pl.lit(ROOT), "path", separator="/"))
    return placed.sort("path"), lacking


def _places(single: pl.DataFrame) -> pl.DataFrame:
    """Folder of each package: its own id where that is a plain name, else the pack's."""
    plain = pl.col("source").str.contains(r"^[A-Za-z0-9_][\w.-]{0,127}$")
    return single.select("pack_id", place=pl.when(plain).then("source").otherwise(pack_name(pl.col("source"))))


def _declared(single: pl.DataFrame) -> pl.DataFrame:
    """(pack_id, path, reason) of every file that the tables above declare."""
    reasons = {
        **{path: f"no row of {family} was accepted" for path, family in ROWS.items()},
        **{path: MISSING_FILES.get(source, "nothing was found") for path, source in COPIES.items()},
        **{path: f"no statement of {' or '.join(kinds)} was found" for path, kinds in STATED.items()},
        **{path: f"no statement of {' or '.join(kinds)} was found" for path, (_, kinds) in LISTED.items()},
        **{path: MISSING[section] for path, (section, _) in SECTION_TEXTS.items()},
        **EMPTY,
    }
    table = pl.DataFrame({"path": list(reasons), "reason": list(reasons.values())})
    return single.select("pack_id").join(table, how="cross", maintain_order="left_right")


def _rows(packs: Packs, single: pl.DataFrame) -> pl.DataFrame:
    """Accepted rows of each package as JSON lines, without those that speak of what only a verifier may see."""
    texts = {}
    for family in sorted(set(ROWS.values())):
        frame = packs.compilation.rows[family]
        if "verifier_only" in frame.columns:
            frame = frame.filter(~pl.col("verifier_only"))
        if "criterion_rewards" in frame.columns:
            frame = _public_rewards(frame, packs)
        named = frame.join(single, left_on="package_id", right_on="source", how="inner", maintain_order="left")
        kept, _ = visible(named, packs.private)
        aliased = kept.with_columns(
            data_type="row_type",
            source_package_id="package_id",
            source_task_id="task_id",
            source_evidence_ref_ids="evidence_ids",
        )
        lines = aliased.select("pack_id", line=json_lines(aliased, [c for c in aliased.columns if c != "pack_id"]))
        texts[family] = lines.group_by("pack_id", maintain_order=True).agg(text=pl.col("line").str.join("\n") + "\n")
    return pl.concat(
        texts[family].select("pack_id", pl.lit(path).alias("path"), "text") for path, family in ROWS.items()
    )


def _public_rewards(frame: pl.DataFrame, packs: Packs) -> pl.DataFrame:
    """Reward rows without the rewards of private criteria."""
    items = packs.compilation.tables["rubric_items"]
    private = items.filter(
        pl.col("verifier_only").fill_null(value=False) | ~pl.col("worker_visible").fill_null(value=True)
    )
    ids = private["rubric_item_id"].unique().sort().to_list()
    item = pl.element().struct.field("rubric_item_id")
    return frame.with_columns(
        pl.col("criterion_rewards").list.eval(pl.element().filter(~item.is_in(ids).fill_null(value=False))),
        pl.col("failed_criteria").list.eval(pl.element().filter(~pl.element().is_in(ids))),
    )


def _copies(own: pl.DataFrame) -> pl.DataFrame:
    """Files of the packs under the names of the tree."""
    names = pl.DataFrame({"target": list(COPIES), "path": list(COPIES.values())})
    return (
        own.join(names, on="path", how="inner", maintain_order="left")
        .select("pack_id", "text", path="target")
        .select("pack_id", "path", "text")
    )


def _stated(packs: Packs, single: pl.DataFrame) -> pl.DataFrame:
    told = packs.statements.join(single.select("pack_id"), on="pack_id", how="semi", maintain_order="left")
    parts = [pl.DataFrame(schema={"pack_id": pl.String, "path": pl.String, "text": pl.String})]
    for path, kinds in STATED.items():
        frame = told.filter(pl.col("kind").is_in(list(kinds)))
        lines = frame.select("pack_id", line=json_lines(frame, frame.columns))
        grouped = lines.group_by("pack_id", maintain_order=True).agg(text=pl.col("line").str.join("\n") + "\n")
        parts.append(grouped.select("pack_id", pl.lit(path).alias("path"), "text"))
    return pl.concat(parts)


def _lists(packs: Packs, single: pl.DataFrame) -> pl.DataFrame:
    told = packs.statements.with_columns(pl.col("section").cast(pl.String)).drop("position")
    made = []
    for path, (key, kinds) in LISTED.items():
        chosen = told.filter(pl.col("kind").is_in(list(kinds)))
        listed = chosen.group_by("pack_id", maintain_order=True).agg(pl.struct(pl.exclude("pack_id")).alias(key))
        made.append(_documents(single.join(listed, on="pack_id", how="inner", maintain_order="left"), path))
    return pl.concat(made)


def _section_texts(packs: Packs, single: pl.DataFrame) -> pl.DataFrame:
    own = packs.packs.join(single.select("pack_id"), on="pack_id", how="semi", maintain_order="left")
    told = packs.statements.join(single.select("pack_id"), on="pack_id", how="semi", maintain_order="left")
    made = (
        (path, checklists(own, told, section, heading, bullet="- "))
        for path, (section, heading) in SECTION_TEXTS.items()
    )
    return pl.concat(texts.select("pack_id", pl.lit(path).alias("path"), "text") for path, texts in made)


def _nothing() -> pl.Expr:
    """An empty file of its type: no lines, or a document that says why there is nothing."""
    said = pl.concat_str(
        pl.lit('{\n  "source_package_id": '),
        quoted("pack_id"),
        pl.lit(',\n  "empty": '),
        quoted("reason"),
        pl.lit("\n}\n"),
    )
    return (
        pl.when(pl.col("path").str.ends_with(".jsonl"))
        .then(pl.lit(""))
        .when(pl.col("path").str.ends_with(".json"))
        .then(said)
        .otherwise(worded("# {}\n\nNothing: {}.\n", "pack_id", "reason"))
    )


def _manifests(packs: Packs, single: pl.DataFrame, files: pl.DataFrame) -> pl.DataFrame:
    """Manifests of the tree and of its parts: which files there are, with their lines, and the evidence behind the package."""
    evidence = packs.compilation.tables["evidence"].filter(pl.col("visibility") == "visible")
    counted = files.select(
        "pack_id",
        "path",
        lines=pl.when(pl.col("path").str.ends_with(".jsonl")).then(pl.col("text").str.count_matches("\n")),
    )
    parts = {
        "compiler_manifest.json": "",
        "compiler_report.json": "",
        "learning_objects_index.json": "",
        "experience_pack/experience_pack_manifest.json": "",
        "runtime_learning_package/runtime_learning_manifest.json": "runtime_learning_package/",
        "training_time_package/training_time_manifest.json": "training_time_package/",
        "eval_package/eval_manifest.json": "eval_package/",
        "environment/environment_manifest.json": "environment/",
    }
    made = []
    for path, prefix in parts.items():
        below = counted.filter(pl.col("path").str.starts_with(prefix))
        listed = below.group_by("pack_id", maintain_order=True).agg(files=pl.struct("path", "lines"))
        made.append(_documents(single.join(listed, on="pack_id", how="left", maintain_order="left"), path))
    known = evidence.join(single, left_on="package_id", right_on="source", how="inner", maintain_order="left")
    listed = (
        known.with_columns(pl.col("kind").cast(pl.String))
        .group_by("pack_id", maintain_order=True)
        .agg(evidence=pl.struct("evidence_id", "ref", "kind", "bytes", "sha256", "exists"))
    )
    made.append(
        _documents(single.join(listed, on="pack_id", how="left", maintain_order="left"), "source_evidence_map.json")
    )
    return pl.concat(made)


def _documents(frame: pl.DataFrame, path: str) -> pl.DataFrame:
    named = frame.rename({"source": "source_package_id"})
    lines = json_lines(named, [c for c in named.columns if c != "pack_id"])
    texts = [json_document(orjson.loads(line)) for line in lines]
    return frame.select("pack_id", pl.lit(path).alias("path"), text=pl.Series("text", texts, dtype=pl.String))
