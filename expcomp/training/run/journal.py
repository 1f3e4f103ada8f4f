"""The journal of a job: one canonical record a line, when a stage starts and how it ends. A run can be taken up from it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import msgspec
import polars as pl

from expcomp.io.job_files import LineFile, read_lines
from expcomp.training.documents import Count, Document, DocumentError, Time, document_bytes, from_wire
from expcomp.training.run.results import Stage

JOURNAL = "journal.jsonl"


class StageRecord(Document, frozen=True, kw_only=True):
    """One line of a journal.

    Attributes:
        number: 0-based position.
        at: The clock of the machine; no digest covers it.
        facts: Digests and measures of the stage; of a failed one its reason.
    """

    number: Count
    stage: Stage
    event: Literal["started", "ended", "failed"]
    at: Time
    facts: dict[str, Any]


class Journal:
    """The journal of one job, held by one process at a time.

    Args:
        job: Its folder.

    Raises:
        OutputError: Another process holds it.
        DocumentError: A record is none.
    """

    def __init__(self, job: Path) -> None:
        self._file = LineFile(job / JOURNAL)
        try:
            self.records = _parsed(self._file.data)
        except DocumentError:
            self._file.close()
            raise

    def write(self, stage: Stage, event: Literal["started", "ended", "failed"], facts: dict[str, Any]) -> None:
        """Add a record.

        Raises:
            OutputError: It cannot be written, or somebody else wrote into the journal.
        """
        record = StageRecord(number=len(self.records), stage=stage, event=event, at=now(), facts=facts)
        self._file.append(document_bytes(record))
        self.records.append(record)

    def ended(self, stage: Stage) -> StageRecord | None:
        """The last record of a stage that ended well."""
        return last_ended(self.records, stage)

    def verify(self) -> None:
        """Hold the file to what was written.

        Raises:
            OutputError: Somebody else wrote into it.
        """
        self._file.verify()

    def close(self) -> None:
        """Let it go."""
        self._file.close()


def read_journal(job: Path) -> list[StageRecord]:
    """Records of a journal that nobody needs to hold.

    Raises:
        DocumentError: It is not there, or a record is none.
    """
    data = read_lines(job / JOURNAL)
    if data is None:
        name = str(job / JOURNAL)
        raise DocumentError(name, "journal_missing", "", "no file that can be read", "the journal of a training job")
    return _parsed(data)


def journal_frame(records: list[StageRecord]) -> pl.DataFrame:
    """One line a record: number, stage, event, at, facts (JSON text)."""
    return pl.DataFrame(
        [(r.number, r.stage, r.event, r.at, msgspec.json.encode(r.facts).decode()) for r in records],
        schema={"number": pl.Int64, "stage": pl.String, "event": pl.String, "at": pl.String, "facts": pl.String},
        orient="row",
    ).with_columns(pl.col("at").str.to_datetime(time_zone="UTC", time_unit="us"))


def last_ended(records: list[StageRecord], stage: Stage) -> StageRecord | None:
    """The last record of a stage that ended well."""
    return next((r for r in reversed(records) if r.stage == stage and r.event == "ended"), None)


def now() -> str:
    """The clock of the machine, as a `Time`."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _parsed(data: bytes) -> list[StageRecord]:
    records = []
    for number, line in enumerate(data.splitlines()):
        name = f"{JOURNAL}, line {number + 1}"
        try:
            record = from_wire(StageRecord, msgspec.json.decode(line), name)
        except msgspec.DecodeError as error:
            raise DocumentError(name, "not_json", "", str(error), "a JSON object") from error
        if record.number != number:
            raise DocumentError(name, "journal_gap", "number", str(record.number), str(number))
        records.append(record)
    return records
