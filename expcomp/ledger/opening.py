"""Add to and merge into a ledger that may have to be made first: nothing is made before the input is read, nothing on a dry run."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from expcomp.errors import UsageError
from expcomp.io.delta_snapshot import is_table, uri_of
from expcomp.ledger.about import DEFAULT, known_profile
from expcomp.ledger.adding import CONFLICTS
from expcomp.ledger.pack import read_pack
from expcomp.ledger.store import Ledger
from expcomp.ledger.take import take
from expcomp.ledger.views import instant

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from expcomp.ledger.adding import AddReport


def open_ledger(
    path: str | Path,
    profile: str | None = None,
    *,
    at: int | None = None,
    roles: Mapping[str, str] | None = None,
    rules: Path | None = None,
) -> Ledger:
    """A ledger that is there, or one of its versions.

    Raises:
        SourceError: There is none, or no such version.
        UsageError: Another profile, or roles for a profile that tells them by names.
    """
    ledger = Ledger(path, profile, roles=roles, rules=rules)
    if roles and ledger.pack.settings.get("compatible"):
        raise UsageError(f"{path}: profile {ledger.profile} tells roles by the names of arms; roles cannot be declared")
    return ledger if at is None else ledger.at(at)


def add_to(
    path: str | Path,
    what: Sequence[str | Path],
    *,
    profile: str | None = None,
    roles: Mapping[str, str] | None = None,
    rules: Path | None = None,
    dry_run: bool = False,
    conflict: str | None = None,
    **said: Any,
) -> tuple[AddReport, bool]:
    """Add files to a ledger, which is made when there is none.

    Args:
        path: The ledger.
        what: Files and folders.
        profile: Profile of a ledger that is made.
        roles: Role by arm of a ledger that is made.
        rules: TOML file of the user over the profile.
        dry_run: Tell what would become of them; make and write nothing.
        conflict: Policy for another record of an attempt that is there; `newest` by default.
        **said: Arguments of `Ledger.add`.

    Returns:
        What became of the records, and whether the ledger is new.

    Raises:
        SourceError: A file cannot be read.
        UsageError: See `Ledger.add`; or roles that differ from those the ledger keeps.
    """
    paths = [Path(p) for p in what]
    if is_table(uri_of(path), None):
        ledger = Ledger(path, profile, rules=rules)
        kept(ledger, roles)
        _own_policy(ledger.profile, conflict)
        return ledger.add(paths, conflict=conflict or "newest", dry_run=dry_run, **said), False
    name = profile or DEFAULT
    known_profile(name)
    _own_policy(name, conflict)
    pack = read_pack(name, rules)
    if roles and pack.settings.get("compatible"):
        raise UsageError(f"profile {name} tells roles by the names of arms; roles cannot be declared")
    at = instant(said.pop("recorded_at", None) or datetime.now(UTC))
    named = {k: said.pop(k, None) for k in ("arm", "group", "benchmark")}
    given = take(paths, pack, at=at, **named)
    with _made(path, name, roles, rules, dry_run=dry_run) as ledger:
        kept(ledger, roles)
        return ledger.add(given, recorded_at=at, conflict=conflict or "newest", dry_run=dry_run, **said), True


def merge_into(
    path: str | Path, other: Ledger, *, rules: Path | None = None, conflict: str | None = None, dry_run: bool = False
) -> tuple[AddReport, bool]:
    """Merge a ledger into another, which is made with the profile and the roles of the first when there is none.

    Returns:
        What became of the runs, and whether the ledger is new.
    """
    policy = conflict or "newest"
    if is_table(uri_of(path), None):
        ledger = Ledger(path, rules=rules)
        _own_policy(ledger.profile, conflict)
        return ledger.merge(other, conflict=policy, dry_run=dry_run), False
    _own_policy(other.profile, conflict)
    with _made(path, other.profile, other.roles, rules, dry_run=dry_run) as ledger:
        return ledger.merge(other, conflict=policy, dry_run=dry_run), True


def kept(ledger: Ledger, roles: Mapping[str, str] | None) -> None:
    """Refuse roles a ledger does not keep: they would be told by this call and forgotten by the next.

    Raises:
        UsageError: They differ.
    """
    if roles and dict(roles) != ledger.roles:
        have = ", ".join(f"{a}={r}" for a, r in ledger.roles.items()) or "none"
        raise UsageError(
            f"{ledger.path} keeps the roles it was made with ({have}); give others where it is read, or declare arms in a file of rules"
        )


def _own_policy(profile: str, conflict: str | None) -> None:
    if conflict is not None and conflict not in CONFLICTS:
        raise UsageError(f"conflict is {conflict!r}; expected one of {', '.join(CONFLICTS)}")
    if conflict is not None and profile != DEFAULT:
        raise UsageError(f"a ledger of profile {profile} replaces by run id; --conflict is for profile {DEFAULT}")


@contextmanager
def _made(
    path: str | Path, profile: str, roles: Mapping[str, str] | None, rules: Path | None, *, dry_run: bool
) -> Iterator[Ledger]:
    """A new ledger; for a dry run one that is gone afterwards."""
    if not dry_run:
        Ledger(path, profile, create=True, roles=roles, rules=rules)
        # Opened for what it keeps: another writer may have been quicker to make it, with roles of its own.
        yield Ledger(path, profile, rules=rules)
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Ledger(Path(folder) / "ledger", profile, create=True, roles=roles, rules=rules)
