"""EnvironmentPackage: the tables of a package, its settings, and what can be done with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.environments.config import PackageConfig
from expcomp.environments.digests import artifact_digest, ordered, table_digests
from expcomp.environments.frames import complete
from expcomp.environments.gates import require
from expcomp.environments.privacy import redacted
from expcomp.environments.reconcile import reconcile
from expcomp.tables.environment import PACKAGE

if TYPE_CHECKING:
    from expcomp.environments.engine import Engine


@dataclass(frozen=True)
class EnvironmentPackage:
    """A package in memory; `write` publishes it.

    Attributes:
        frames: Tables by file stem, each in the order of its key.
        config: Its settings.
        validation: What a promotion was based on; None for a candidate.
        folder: Where it was opened from.
    """

    frames: Mapping[str, pl.DataFrame]
    config: PackageConfig
    validation: Mapping[str, Any] | None = None
    folder: Path | None = field(default=None, compare=False)

    def __getitem__(self, name: str) -> pl.DataFrame:
        return self.frames[name]

    @cached_property
    def tables(self) -> Mapping[str, str]:
        """Digest of each table."""
        return table_digests(self.frames)

    @cached_property
    def artifact_digest(self) -> str:
        """Digest of all tables: equal for equal content, whatever the machine, day or order of the input."""
        return artifact_digest(self.tables)

    @property
    def status(self) -> str:
        """`authored`, `validated` (its replay was enough) or `candidate`."""
        if self.config.construction_kind == "authored":
            return "authored"
        return "candidate" if self.validation is None else "validated"

    def engine(self, *, strict: bool = False) -> Engine:
        """An engine that plays its rules."""
        from expcomp.environments.engine import Engine

        return Engine(self.frames, self.config, strict=strict)

    def write(self, out: str | Path, *, force: bool = False) -> None:
        """Publish as a folder, in one step.

        Raises:
            DestinationExistsError: `out` exists and `force` is not given.
        """
        from expcomp.environments.folder import write_package

        write_package(self, Path(out), force=force)

    def summary(self) -> pl.DataFrame:
        """Rules by action: how many run, what they rest on."""
        runs = pl.col("status") == "supported"
        return (
            self["rules"]
            .group_by("action_type", maintain_order=True)
            .agg(
                supported=runs.sum(),
                tentative=(pl.col("status") == "tentative").sum(),
                conflicted=(pl.col("status") == "conflicted").sum(),
                n_support=pl.col("n_support").sum(),
                heldout_n=pl.col("heldout_n").sum(),
                heldout_hit=pl.col("heldout_hit").sum(),
            )
            .sort("action_type")
        )

    def __repr__(self) -> str:
        sizes = (
            ("episodes", "episodes"),
            ("transitions", "transitions"),
            ("actions", "action_schema"),
            ("rules", "rules"),
        )
        told = ", ".join(f"{self[table].height:,} {word}" for word, table in sizes)
        return f"EnvironmentPackage({self.config.environment_id}, {self.status}, {told})"

    def _repr_html_(self) -> str:
        frame: Any = self.summary()
        return f"<p>{escape(repr(self))}</p>{frame._repr_html_()}"


def compile_package(
    frames: Mapping[str, pl.DataFrame], config: PackageConfig, *, pii: bool = False
) -> EnvironmentPackage:
    """Reconcile the tables, take secrets out, put the rows in order, and pass every gate.

    Args:
        frames: Tables by file stem; absent ones are empty.
        config: Settings.
        pii: Also replace e-mail addresses, phone numbers and IP addresses.

    Raises:
        EnvironmentPackageError: The named error of the first gate that refuses.
    """
    whole = complete(frames)
    ready = {n: ordered(n, whole[n]) if set(PACKAGE[n].keys) <= set(whole[n].columns) else whole[n] for n in PACKAGE}
    done = redacted(reconcile(ready, config), pii=pii)
    made = {name: ordered(name, done[name]) for name in PACKAGE}
    require(made, config)
    return EnvironmentPackage(made, config)
