"""SKILL.md and skill.json: the statements of a pack in the form of an Agent Skill (agentskills.io/specification)."""

from __future__ import annotations

import polars as pl

from expcomp.io.wording import worded
from expcomp.packs.about import shortened
from expcomp.packs.kinds import KINDS, MISSING, clean
from expcomp.tables.packs import SECTIONS

DESCRIPTION = 1024
"""Characters of a description at the most."""
BODY = 18_000
"""Characters of the statements in SKILL.md at the most: with the rest under the 5,000 tokens that the specification advises."""

_LINE = 300
_CITED = 2  # citations shown in a line; skill.json has them all
_TITLES = {
    "when": "When to use",
    "inputs": "Inputs and deliverables",
    "steps": "Steps",
    "decisions": "What separates passing from failing",
    "failures": "Failures seen, and what fixed them",
    "corrections": "What reviewers asked for",
    "checks": "Checks before the end",
}


def descriptions(packs: pl.DataFrame, statements: pl.DataFrame) -> pl.DataFrame:
    """(pack_id, description): what the skill is about and when to use it, from the statements alone."""
    subjects = {
        "task": ("tasks", 4, "; "),
        "request": ("requests", 2, "; "),
        "domain": ("domains", 3, "; "),
        "deliverable": ("files", 6, ", "),
        "step": ("used", 8, ", "),
    }
    found = packs.select("pack_id", "source")
    for kind, (name, most, between) in subjects.items():
        words = (
            statements.filter(pl.col("kind") == kind)
            .with_columns(word=clean(shortened("subject", 100)).str.replace_all("<", "(").str.replace_all(">", ")"))
            .group_by("pack_id", maintain_order=True)
            .agg(pl.col("word").head(most).str.join(between).alias(name))
        )
        found = found.join(words, on="pack_id", how="left", maintain_order="left")
    present = (
        statements.filter(~pl.col("section").is_in(["when", "inputs"]))
        .group_by("pack_id", maintain_order=True)
        .agg(parts=pl.col("section").cast(pl.String).unique(maintain_order=True).str.join(", "))
    )
    found = found.join(present, on="pack_id", how="left", maintain_order="left")
    said = pl.concat_str(
        pl.concat_str(
            pl.lit("What recorded work shows ("), "parts", pl.lit(") on: "), pl.coalesce("tasks", "requests")
        ),
        pl.concat_str(pl.lit(". Use for tasks in the domain "), "domains"),
        pl.concat_str(pl.lit(". Deliverables: "), "files"),
        pl.concat_str(pl.lit(". Tools: "), "used"),
        pl.lit("."),
        ignore_nulls=True,
    )
    none = pl.concat_str(pl.lit("No task or request was found for "), "source", pl.lit("; use it for nothing."))
    known = pl.any_horizontal(pl.col(c).is_not_null() for c in ("tasks", "requests", "domains"))
    text = found.with_columns(description=pl.when(known).then(said).otherwise(none))
    return text.select("pack_id", description=shortened("description", DESCRIPTION).str.strip_chars_start(". "))


def cited() -> pl.Expr:
    """The citations of a statement as a short text: the first ones, and how many more.

    In a pack of one package (`alone`) an id is enough; elsewhere the package stands behind it, `evidence_id@package_id`.
    """
    parts = pl.element().struct
    bare = pl.col("citations").list.head(_CITED).list.eval(parts.field("evidence_id"))
    full = (
        pl.col("citations")
        .list.head(_CITED)
        .list.eval(pl.concat_str(parts.field("evidence_id"), parts.field("package_id"), separator="@"))
    )
    more = pl.col("citations").list.len().cast(pl.Int64) - _CITED
    return pl.concat_str(
        pl.lit("["),
        pl.when("alone").then(bare).otherwise(full).list.join(", "),
        pl.when(more > 0).then(worded(", +{}", more)).otherwise(pl.lit("")),
        pl.lit("]"),
    )


def skill_texts(packs: pl.DataFrame, statements: pl.DataFrame) -> pl.DataFrame:
    """(pack_id, text): SKILL.md of each pack.

    Args:
        packs: Table `packs` with a column `description`.
        statements: Table `pack_statements`.
    """
    shown = _shown(_alone(packs, statements))
    body = packs.select("pack_id")
    for section in SECTIONS:
        lines = (
            shown.filter(pl.col("section") == section)
            .group_by("pack_id", maintain_order=True)
            .agg(lines=pl.col("line").filter("show").str.join("\n"), more=(~pl.col("show")).sum())
            .select(
                "pack_id",
                pl.concat_str(
                    "lines",
                    pl.when(pl.col("more") > 0)
                    .then(worded("\n- {} more in skill.json.", "more"))
                    .otherwise(pl.lit("")),
                ).alias(section),
            )
        )
        body = body.join(lines, on="pack_id", how="left", maintain_order="left")
    head = packs.select(
        "pack_id",
        title=clean(pl.coalesce("title", "source")),
        front=worded(
            '---\nname: {}\ndescription: {}\nmetadata:\n  source: {}\n  packages: "{}"\n  attempts: "{}"\n---\n',
            "pack_id",
            quoted("description"),
            quoted("source"),
            pl.col("package_ids").list.len(),
            "n_attempts",
        ),
    )
    sections = [
        worded("\n## {}\n\n{}\n", pl.lit(_TITLES[s]), pl.col(s).fill_null(f"Nothing: {MISSING[s]}.")) for s in SECTIONS
    ]
    return head.join(body, on="pack_id", how="left", maintain_order="left").select(
        "pack_id", text=pl.concat_str("front", worded("\n# {}\n", "title"), *sections)
    )


def named() -> pl.Expr:
    """Title and source of a pack: bare evidence ids are those of the source."""
    return clean(pl.when(pl.col("title").is_null()).then("source").otherwise(worded("{} ({})", "title", "source")))


def checklists(
    packs: pl.DataFrame, statements: pl.DataFrame, section: str, heading: str, *, bullet: str = "- [ ] "
) -> pl.DataFrame:
    """(pack_id, text): a Markdown list of the statements of a section; only packs that have some."""
    own = _alone(packs, statements.filter(pl.col("section") == section))
    lines = own.select("pack_id", line=pl.concat_str(pl.lit(bullet), shortened("text", _LINE), pl.lit(" "), cited()))
    found = lines.group_by("pack_id", maintain_order=True).agg(pl.col("line").str.join("\n"))
    titles = packs.select("pack_id", title=named())
    return found.join(titles, on="pack_id", how="left", maintain_order="left").select(
        "pack_id", text=worded("# {}: {}\n\n{}\n", pl.lit(heading), "title", "line")
    )


def missing_sections(packs: pl.DataFrame, statements: pl.DataFrame) -> pl.DataFrame:
    """(pack_id, missing): the sections of each pack that have no statement, and why, as a list of structs."""
    every = packs.select("pack_id").join(
        pl.DataFrame({"section": list(MISSING), "reason": list(MISSING.values())}),
        how="cross",
        maintain_order="left_right",
    )
    have = statements.select("pack_id", pl.col("section").cast(pl.String)).unique(maintain_order=True)
    gone = every.join(have, on=["pack_id", "section"], how="anti", maintain_order="left")
    return gone.group_by("pack_id", maintain_order=True).agg(missing=pl.struct("section", "reason"))


def _alone(packs: pl.DataFrame, statements: pl.DataFrame) -> pl.DataFrame:
    """The statements with `alone`: their pack rests on one package."""
    one = packs.select("pack_id", alone=pl.col("package_ids").list.len() == 1)
    return statements.join(one, on="pack_id", how="left", maintain_order="left")


def quoted(column: str) -> pl.Expr:
    """A text as a JSON string, which is a double-quoted YAML scalar, too."""
    return pl.struct(pl.col(column).alias("v")).struct.json_encode().str.extract(r'(?s)^\{"v":(.*)\}$', 1)


def _shown(statements: pl.DataFrame) -> pl.DataFrame:
    """Statements with their line, and whether SKILL.md has room for it: so many of a kind, so many characters in all."""
    most = {name: kind.shown for name, kind in KINDS.items()}
    return (
        statements.with_columns(
            line=pl.concat_str(pl.lit("- "), shortened("text", _LINE), pl.lit(" "), cited()),
            nth=pl.int_range(pl.len()).over("pack_id", "kind"),
            most=pl.col("kind").replace_strict(most, return_dtype=pl.Int64),
        )
        .with_columns(show=pl.col("nth") < pl.col("most"))
        .with_columns(
            room=pl.when("show").then(pl.col("line").str.len_chars()).otherwise(0).cum_sum().over("pack_id") <= BODY
        )
        .with_columns(show=pl.col("show") & pl.col("room"))
    )
