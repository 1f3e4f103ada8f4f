"""Verbs that make packs and look at them: pack build, pack show, pack search."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from expcomp.cli.options import Force, Json, Out, Quiet
from expcomp.errors import UsageError

Folder = Annotated[Path, typer.Option("--packs", "-p", help="Folder that `expcomp pack build` wrote.")]


class Layout(StrEnum):
    """How the files of a pack are laid out."""

    packs = "packs"
    apprenticeship = "apprenticeship"


def build(
    compiled: Annotated[Path, typer.Argument(help="Output folder of a compile.")],
    out: Out,
    layout: Annotated[
        Layout, typer.Option(help="packs, or the experience_compiler/ tree of the ancestor.")
    ] = Layout.packs,
    files: Annotated[
        Path | None, typer.Option(help="The packages that were compiled, to infer output contracts from.")
    ] = None,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Make skills, run-time material and evals of a compile, from its evidence alone.

    Example: expcomp pack build out --out packs
    """
    from expcomp.io.documents import json_document
    from expcomp.packs.pack import build_packs

    report = build_packs(compiled, files=files).write(out, layout=layout.value, force=force)
    if as_json:
        print(json_document(report), end="")
    elif not quiet:
        _show_report(report, out)


def _show_report(report: dict[str, Any], out: Path) -> None:
    kinds = ", ".join(f"{n} of a {kind}" for kind, n in report["packs"].items())
    print(f"packs: {kinds}; {sum(report['statements'].values()):,} statements, each with its evidence")
    for section, n in report["sections"].items():
        print(f"  {section:12} {n:>8,}")
    if report["packs_without_statements"]:
        print(f"nothing could be stated in {report['packs_without_statements']} packs")
    for name, n in report["withheld"].items():
        print(f"left out, see report.json: {n} of {name}")
    if report["missing"]:
        print(f"{len(report['missing'])} files are missing or empty in some packs, see report.json")
    print(f"wrote {out}")


def show(
    pack: Annotated[str | None, typer.Argument(help="Pack; without it the packs are listed.")] = None,
    packs: Folder = Path("packs"),
    as_json: Json = False,
) -> None:
    """List the packs of a folder, or print the skill of one.

    Example: expcomp pack show --packs packs
    """
    import polars as pl

    from expcomp.errors import SourceError
    from expcomp.io.documents import json_document, read_json
    from expcomp.io.text_files import read_text_file

    if not (packs / "packs.parquet").is_file():
        msg = f"{packs} holds no packs; make some with `expcomp pack build COMPILED --out {packs}`, or name the folder with --packs"
        raise SourceError(msg)
    table = pl.read_parquet(packs / "packs.parquet", glob=False)
    if pack is None:
        rows = table.to_dicts()
        if as_json:
            print(json_document(rows), end="")
            return
        for row in rows:
            print(
                f"{row['pack_id']:64} {row['n_attempts']:>6,} attempts {row['n_passed']:>6,} passed  {row['title'] or row['source']}"
            )
        return
    if pack not in table["pack_id"]:
        near = table.filter(pl.col("pack_id").str.contains(pack, literal=True))["pack_id"].head(5).to_list()
        msg = f"there is no pack '{pack}' in {packs}" + (
            f"; near: {', '.join(near)}" if near else "; `expcomp pack show` lists them"
        )
        raise UsageError(msg)
    if as_json:
        print(json_document(read_json(packs / "packs" / pack / "skill.json")), end="")
        return
    print(read_text_file(packs / "packs" / pack / "SKILL.md"), end="")


def search(
    query: Annotated[str, typer.Argument(help="What the pack is to be about.")],
    packs: Folder = Path("packs"),
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Packs to show.")] = 10,
    as_json: Json = False,
) -> None:
    """Find packs by BM25 over their cards and statements.

    Example: expcomp pack search "csv with a flag column" --packs packs
    """
    from dataclasses import asdict

    from expcomp.io.documents import json_document
    from expcomp.packs.search import PackIndex

    index = PackIndex(packs)
    found = index.search(query, limit=limit)
    index.close()
    if as_json:
        print(json_document([asdict(f) for f in found]), end="")
        return
    for f in found:
        print(f"{f.score:8.3f}  {f.pack_id}  {f.card.get('title') or f.card['source']}")
        for said in f.statements:
            print(f"          {said['text'][:160]}")
    if not found:
        print("no pack holds a word of the query")
