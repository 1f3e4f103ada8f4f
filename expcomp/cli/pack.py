"""Verbs on packs, as one group; here those of contracts: contract, verify."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from expcomp.cli import judge, pack_build
from expcomp.cli.options import Json, Quiet
from expcomp.errors import UsageError

if TYPE_CHECKING:
    from expcomp.packs.contracts.verify import Verification

MaxMegabytes = Annotated[int, typer.Option("--max-mb", min=1, help="Larger files are reported, not read.")]
UNCERTAIN = 4
"""Exit code of the verdict `uncertain`."""


def register(app: typer.Typer) -> None:
    """Add the verb group."""
    group = typer.Typer(
        help="Packs: what agents and evaluators can use, from evidence only.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    group.command()(pack_build.build)
    group.command()(pack_build.show)
    group.command()(pack_build.search)
    group.command()(judge.judge)
    group.command()(contract)
    group.command()(verify)
    app.add_typer(group, name="pack")


def contract(
    path: Annotated[Path, typer.Argument(help="A package, a run folder with packages, or the folder of an attempt.")],
    package: Annotated[str | None, typer.Option(help="The contract of this package (or task) only.")] = None,
    by: Annotated[str, typer.Option(help="One contract for each package_id, or task_id.")] = "package_id",
    rows: Annotated[
        str,
        typer.Option(help="Rows asked for: exact when all passing attempts agree, else their range; range; or any."),
    ] = "exact",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write the one contract to this new file.")] = None,
    max_mb: MaxMegabytes = 128,
) -> None:
    """Infer the output contract of passing attempts from the files they handed over, as JSON.

    Example: expcomp pack contract runs/packages/count_gauges --out contract.json
    """
    from expcomp.io.documents import json_document, write_text
    from expcomp.io.row_files import replacing
    from expcomp.packs.contracts.infer import infer_contracts

    found = infer_contracts(path, by=by, rows=rows, max_bytes=max_mb << 20)
    if package is not None and package not in found:
        msg = f"there is no package '{package}'; known are {', '.join(list(found)[:10])}"
        raise UsageError(msg)
    chosen = found if package is None else {package: found[package]}
    if out is None:
        print(json_document(next(iter(chosen.values())) if len(chosen) == 1 else chosen), end="")
        return
    if len(chosen) != 1:
        msg = f"{path} holds {len(chosen)} packages; choose one with --package to write it to --out"
        raise UsageError(msg)
    if out.exists():
        msg = f"{out} exists; choose another --out"
        raise UsageError(msg)
    with replacing(out, force=False) as file:
        write_text(file, json_document(next(iter(chosen.values()))))
    print(f"wrote {out}")


def verify(
    contract: Annotated[Path, typer.Argument(help="Contract: a JSON file.")],
    folder: Annotated[Path, typer.Argument(help="Folder of an attempt: its files and actual_outputs.json.")],
    max_mb: MaxMegabytes = 128,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Check what an attempt handed over against a contract, with a repair plan.

    Exit code 0: pass; 1: fail; 4: uncertain, nothing failed but something could not be checked.

    Example: expcomp pack verify contract.json runs/packages/count_gauges/attempts/revised
    """
    from expcomp.io.documents import json_document
    from expcomp.packs.contracts.verify import verify_contract

    found = verify_contract(contract, folder, max_bytes=max_mb << 20)
    if as_json:
        print(json_document(found.to_dict()), end="")
    elif not quiet:
        _show(found)
    if found.verdict != "pass":
        raise typer.Exit(1 if found.verdict == "fail" else UNCERTAIN)


def _show(found: Verification) -> None:
    from expcomp.io.visible import visible

    print(f"{found.verdict}: {found.checked.height:,} files, {found.failures.height:,} failures")
    document = found.to_dict()
    for failure in document["failures"]:
        print(
            visible(
                f"{failure['path']}: {failure['issue']}: expected {failure['expectation']}, found {failure['found']}"
            )
        )
        print(visible(f"    {failure['repair_hint']}"))
    for warning in document["semantic_warnings"]:
        print(visible(f"{warning.get('path', '-')}: not decided ({warning['status']}): {warning['requirement']}"))
    plan = document["repair_plan"]
    if plan["repair_required"]:
        allowed = "repair" if plan["repair_allowed"] else "too many files for a repair; try the task again"
        print(f"{allowed}, risk {plan['risk_of_regression']}: {len(plan['files_to_modify'])} files to change")
