"""Where jobs run: processes of this machine, or a Ray cluster."""

from __future__ import annotations

from dataclasses import dataclass

from expcomp.errors import UsageError

ENGINES = ("local", "ray")


@dataclass(frozen=True, slots=True)
class Engine:
    """What maps jobs; the results, and so the files of a run, do not depend on it.

    Attributes:
        name: `local`, a process pool; or `ray`, Ray Data (extra `ray`), for many machines.
        address: Ray: of a running cluster, `auto` for the one of this machine; None starts one here for the run.
        workers: Processes at once; None takes the processors, of this machine or of the cluster.
    """

    name: str = "local"
    address: str | None = None
    workers: int | None = None

    def __post_init__(self) -> None:
        if self.name not in ENGINES:
            msg = f"there is no engine '{self.name}'; known are {', '.join(ENGINES)}"
            raise UsageError(msg)
        if self.address is not None and self.name != "ray":
            msg = f"the address {self.address} is that of a Ray cluster; give the engine ray with it"
            raise UsageError(msg)

    @property
    def remote(self) -> bool:
        """Whether jobs may run on other machines, and so never in the caller's process."""
        return self.name != "local"


LOCAL = Engine()


def engine_of(value: Engine | str | None, workers: int | None = None) -> Engine:
    """An engine by name, or as it is; with `workers`, if given, as many processes at once.

    Raises:
        UsageError: There is no such engine.
    """
    if isinstance(value, Engine):
        return Engine(value.name, value.address, workers or value.workers)
    return Engine(value or "local", workers=workers)
