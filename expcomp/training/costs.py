"""A ledger of paid calls: each is let through before it runs, and settled afterwards. Many writers, one file, no cost lost."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
from msgspec import UNSET, UnsetType

from expcomp.errors import CheckFailedError, UsageError
from expcomp.io.shared_lines import Presence, SharedLines, alive
from expcomp.training.cost_records import Channel, CostRecord, Phase, Provenance, Rates, Tokens
from expcomp.training.documents import DocumentError, document_bytes, from_wire

_POLL = 0.05


class CostRefusedError(CheckFailedError):
    """A call that may not run: `code` is `above_ceiling`, `no_maximum`, `unresolved_calls`, `call_used` or `revision_moved`."""

    def __init__(self, path: Path, code: str, found: str) -> None:
        super().__init__(f"{path}: {code}: {found}")
        self.code = code


class CostLedger:
    """Append-only ledger of paid calls, for any number of writers.

    A call that was let through and not settled is reserved at its maximum. One whose writer is gone blocks all further spending until
    somebody settles it.

    Args:
        path: JSON lines file; made when it is not there.
        ceiling_nanos: What all calls may cost together, in billionths of a dollar; it stays what it is once the file is there.

    Raises:
        UsageError: The file has another ceiling.
        OutputError: It cannot be written.
        DocumentError: A line of it is no record.
    """

    def __init__(self, path: Path, *, ceiling_nanos: int | None = None) -> None:
        self.path = path
        self.owner = secrets.token_hex(8)
        self._lines = SharedLines(path)
        self._used: set[str] = set()
        self._pending: dict[str, CostRecord] = {}
        self._committed = self._reserved = self._revision = 0
        self._ceiling: int | None = None
        self._presence = Presence(path, self.owner)
        try:
            self._open(ceiling_nanos)
        except BaseException:
            self.close()
            raise

    @property
    def ceiling_nanos(self) -> int | None:
        """What all calls may cost together; None: no ceiling."""
        return self._ceiling

    @property
    def revision(self) -> int:
        """Lines of the ledger; for `expected_revision`."""
        with self._held():
            return self._revision

    def admit(
        self,
        call: str,
        *,
        channel: Channel,
        model: str,
        phase: Phase = "measurement",
        maximum_nanos: int | None = None,
        wait: float = 0.0,
        expected_revision: int | None = None,
    ) -> None:
        """Let a call through before it runs.

        Args:
            call: Its id; used once.
            channel: Who calls.
            model: What is called.
            phase: What for.
            maximum_nanos: What it may cost at the most; needed where there is a ceiling. See `Rates.maximum`.
            wait: Seconds to wait while only calls that still run stand in the way.
            expected_revision: Refuse when anybody wrote since the ledger had this many lines.

        Raises:
            CostRefusedError: It may not run.
        """
        until = time.monotonic() + wait
        while True:
            with self._held():
                self._free(call, expected_revision)
                if not self._reserved_in_the_way(maximum_nanos):
                    self._add(
                        kind="admitted",
                        call=call,
                        channel=channel,
                        phase=phase,
                        model=model,
                        maximum_nanos=UNSET if maximum_nanos is None else maximum_nanos,
                    )
                    return
            if time.monotonic() >= until:
                raise CostRefusedError(
                    self.path, "above_ceiling", f"{call}: calls that still run are reserved up to the ceiling"
                )
            time.sleep(_POLL)

    def settle(
        self,
        call: str,
        *,
        cost_nanos: int | None = None,
        tokens: Tokens | None = None,
        rates: Rates | None = None,
        estimated: bool = False,
        failure: str | None = None,
    ) -> None:
        """Say what came of a call: its cost, or tokens and rates to estimate it by, or neither: then nobody knows.

        `estimated` says that the cost was computed, as from a time and its price, and not billed.
        A call that another writer let through can be settled when that writer is gone.

        Raises:
            UsageError: It was never let through, is settled, or its writer is at work.
        """
        used: Rates | UnsetType = UNSET
        if cost_nanos is None and rates is not None and tokens is not None:
            cost_nanos, used, estimated = rates.cost(tokens), rates, True
        provenance: Provenance = "uncaptured" if cost_nanos is None else "estimated" if estimated else "observed"
        with self._held():
            admitted = self._pending.get(call)
            if admitted is None:
                known = "is settled already" if call in self._used else "was never admitted"
                raise UsageError(f"{self.path}: call {call} {known}")
            if admitted.owner != self.owner and alive(self.path, str(admitted.owner)):
                raise UsageError(f"{self.path}: call {call} belongs to another writer, who is at work")
            self._add(
                kind="settled",
                call=call,
                cost_nanos=UNSET if cost_nanos is None else cost_nanos,
                provenance=provenance,
                tokens=UNSET if tokens is None else tokens,
                rates=used,
                failure=UNSET if failure is None else failure,
            )

    def close(self) -> None:
        """Let it go; calls that are not settled stay so."""
        self._presence.close()
        self._lines.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def _held(self) -> Iterator[None]:
        with self._lines.locked() as lines:
            for line in lines:
                self._take(self._parsed(line))
            yield

    def _parsed(self, line: bytes) -> CostRecord:
        name = f"{self.path}, line {self._revision + 1}"
        record = parse_record(line, name, self._revision)
        call = str(record.call)
        if record.kind == "admitted" and call in self._used:
            raise DocumentError(name, "cost_call_used", "call", call, "an id that no earlier line has")
        if record.kind == "settled" and call not in self._pending:
            raise DocumentError(name, "cost_not_admitted", "call", call, "a call that was admitted and not yet settled")
        return record

    def _open(self, ceiling: int | None) -> None:
        with self._held():
            if not self._revision:
                self._add(kind="opened", ceiling_nanos=UNSET if ceiling is None else ceiling)
            elif ceiling is not None and ceiling != self._ceiling:
                raise UsageError(f"{self.path}: the ceiling is {self._ceiling} and stays so; asked for {ceiling}")

    def _free(self, call: str, expected: int | None) -> None:
        if expected is not None and expected != self._revision:
            raise CostRefusedError(
                self.path, "revision_moved", f"{call}: the ledger has {self._revision} lines, not {expected}"
            )
        if call in self._used:
            raise CostRefusedError(self.path, "call_used", f"{call}: an id is used once")
        lost = sorted(
            c for c, r in self._pending.items() if r.owner != self.owner and not alive(self.path, str(r.owner))
        )
        if lost:
            raise CostRefusedError(
                self.path, "unresolved_calls", f"{', '.join(lost)}: their writer is gone; settle them first"
            )

    def _reserved_in_the_way(self, maximum: int | None) -> bool:
        """Whether only reservations forbid a call of this maximum.

        Raises:
            CostRefusedError: It does not fit whatever these will cost.
        """
        if self._ceiling is None:
            return False
        if maximum is None:
            raise CostRefusedError(self.path, "no_maximum", "under a ceiling every call needs a maximum")
        if self._committed + maximum > self._ceiling:
            told = f"{self._committed:,} spent and {maximum:,} asked for, of {self._ceiling:,}"
            raise CostRefusedError(self.path, "above_ceiling", told)
        return self._committed + self._reserved + maximum > self._ceiling

    def _add(self, **fields: Any) -> None:
        more: dict[str, Any] = {} if fields["kind"] == "opened" else {"owner": self.owner}
        record = CostRecord(revision=self._revision, **more, **fields)
        self._lines.append(document_bytes(record))
        self._take(record)

    def _take(self, record: CostRecord) -> None:
        if record.kind == "opened":
            self._ceiling = None if record.ceiling_nanos is UNSET else record.ceiling_nanos
        elif record.kind == "admitted":
            self._used.add(str(record.call))
            self._pending[str(record.call)] = record
            self._reserved += _most(record)
        else:
            admitted = self._pending.pop(str(record.call))
            self._reserved -= _most(admitted)
            self._committed += _most(admitted) if record.cost_nanos is UNSET else record.cost_nanos
        self._revision += 1


def _most(admitted: CostRecord) -> int:
    return 0 if admitted.maximum_nanos is UNSET else admitted.maximum_nanos


def parse_record(line: bytes, name: str, revision: int) -> CostRecord:
    """A line as the record of this revision.

    Raises:
        DocumentError: It is none.
    """
    try:
        record = from_wire(CostRecord, msgspec.json.decode(line), name)
    except msgspec.DecodeError as error:
        raise DocumentError(name, "not_json", "", str(error), "a JSON object") from error
    if record.revision != revision:
        raise DocumentError(name, "cost_revision", "revision", str(record.revision), str(revision))
    if (record.kind == "opened") != (revision == 0):
        raise DocumentError(name, "cost_first_line", "kind", record.kind, "opened in the first line, and only there")
    return record
