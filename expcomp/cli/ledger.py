"""The verbs of the ledger of benchmark runs, as one group."""

from __future__ import annotations

import typer

from expcomp.cli import ledger_change, ledger_check, ledger_look, ledger_write


def register(app: typer.Typer) -> None:
    """Add the verb group."""
    group = typer.Typer(
        help="A ledger of benchmark runs: one table that many add to, decisions by case, backlog, reports.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    group.command()(ledger_change.add)
    group.command()(ledger_look.show)
    group.command()(ledger_check.decide)
    group.command()(ledger_look.backlog)
    group.command()(ledger_change.merge)
    group.command()(ledger_change.archive)
    group.command()(ledger_check.drift)
    group.command()(ledger_write.report)
    group.command()(ledger_write.export)
    group.command()(ledger_look.history)
    app.add_typer(group, name="ledger")
