"""Options that the verbs of the ledger share, and what they become."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from expcomp.errors import UsageError

if TYPE_CHECKING:
    from expcomp.ledger.select import Where
    from expcomp.ledger.store import Ledger

LedgerPath = Annotated[str, typer.Argument(metavar="LEDGER", help="Folder of the ledger, or s3://, gs://, az://.")]
At = Annotated[int | None, typer.Option("--at", min=0, help="Version to read; see `expcomp ledger history`.")]
Profile = Annotated[str | None, typer.Option(help="Rules the ledger must have: default, loopx.")]
Roles = Annotated[
    list[str] | None, typer.Option("--roles", help="Role of an arm, as plain=baseline. Repeatable, or comma-separated.")
]
RulesFile = Annotated[Path | None, typer.Option("--rules", help="TOML file of rules over the profile.")]
Benchmarks = Annotated[list[str] | None, typer.Option("--benchmark", help="Runs of this benchmark. Repeatable.")]
Cases = Annotated[list[str] | None, typer.Option("--case", help="Runs of this case. Repeatable.")]
Arms = Annotated[list[str] | None, typer.Option("--arm", help="Runs of this arm. Repeatable.")]
Groups = Annotated[list[str] | None, typer.Option("--group", help="Runs whose run group holds this text. Repeatable.")]
Statuses = Annotated[
    list[str] | None,
    typer.Option("--status", help="Runs of this status, as completed, blocked, recorded. Repeatable."),
]
Scores = Annotated[
    list[str] | None,
    typer.Option("--score-status", help="Runs whose score is passed, failed, completed, missing, refused. Repeatable."),
]
Scopes = Annotated[
    list[str] | None, typer.Option("--scope", help="Runs of this failure scope, as runner_or_setup. Repeatable.")
]
Infra = Annotated[
    bool | None, typer.Option("--infra/--no-infra", help="Only failures that are not the agent's, or none of them.")
]
Archived = Annotated[bool | None, typer.Option("--archived/--active", help="Only archived runs, or only active ones.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Tell what would change, write nothing.")]
Conflict = Annotated[
    str | None,
    typer.Option(help="Another record of an attempt that is there: newest (default), error, keep_both."),
]


def roles_of(given: list[str] | None) -> dict[str, str]:
    """ARM=ROLE options as a mapping.

    Raises:
        UsageError: One that is not of this form, or an arm with two roles.
    """
    found: dict[str, str] = {}
    for part in (p.strip() for g in given or [] for p in g.split(",")):
        arm, sign, role = part.rpartition("=")
        if not (arm and sign and role):
            msg = f"--roles {part}: expected ARM=ROLE, as in plain=baseline"
            raise UsageError(msg)
        if found.setdefault(arm, role) != role:
            msg = f"--roles: {arm} is both {found[arm]} and {role}"
            raise UsageError(msg)
    return found


def where_of(
    benchmarks: list[str] | None = None,
    cases: list[str] | None = None,
    arms: list[str] | None = None,
    groups: list[str] | None = None,
    statuses: list[str] | None = None,
    scores: list[str] | None = None,
    scopes: list[str] | None = None,
    infra: bool | None = None,
    archived: bool | None = None,
) -> Where:
    """The filter of some options."""
    from expcomp.ledger.select import Where

    return Where(
        benchmarks=tuple(benchmarks or ()),
        cases=tuple(cases or ()),
        arms=tuple(arms or ()),
        groups=tuple(groups or ()),
        statuses=tuple(statuses or ()),
        scores=tuple(scores or ()),
        scopes=tuple(scopes or ()),
        infra=infra,
        archived=archived,
    )


def opened(
    path: str,
    profile: str | None = None,
    at: int | None = None,
    roles: list[str] | None = None,
    rules: Path | None = None,
) -> Ledger:
    """The ledger, or one of its versions, to read."""
    from expcomp.ledger.opening import open_ledger

    return open_ledger(path, profile, at=at, roles=roles_of(roles), rules=rules)
