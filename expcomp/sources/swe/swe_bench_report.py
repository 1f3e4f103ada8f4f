"""What SWE-bench says of submissions: run reports, reports of instances, and the predictions that were judged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from expcomp.io.digest import PREFIX, sha256_hex
from expcomp.sources._bytes import UnreadableError, read_bytes, read_head
from expcomp.sources._contract import Batch, Found, Frames, ReadOptions, Unit
from expcomp.sources._json import Problem, load_json, load_rows
from expcomp.sources._look import Look
from expcomp.sources._units import add_evidence, add_tasks, file_unit, relative, report
from expcomp.sources.swe._common import GROUP
from expcomp.sources.swe._reports import INSTANCE_KEYS, PREDICTION_KEYS, Report, is_run_report

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_REPORT = "report.json"
_BESIDE = frozenset({"patch.diff", "eval.sh", "run_instance.log", "test_output.txt"})
_TRANSCRIPT = frozenset({"messages", "trajectory", "history", "conversations", "test_result", "traj"})


class SweBenchReport:
    """Reader of SWE-bench reports and predictions; each judged or predicted instance is an attempt without transcript.

    `swe_join.join_reports` hands verdicts on to the trajectories of the same load.
    """

    name = "swe_bench_report"
    summary = (
        "SWE-bench: run reports (<model>.<run>.json), instance reports (report.json), predictions (preds.json, JSONL)"
    )
    carries = {  # noqa: RUF012 - read only, by contract of the protocol
        "system_prompt": "no",
        "tools": "no",
        "reasoning": "no",
        "verdict": "yes (reports), with tests in instance reports",
        "trial": "no (the run)",
        "tokens": "no",
        "cost": "no",
        "times": "no",
        "token_ids": "no",
    }

    def claims_folder(self, folder: Path, names: frozenset[str]) -> bool:
        """The folder of an evaluated instance: a report by its content, and the patch or a log beside it."""
        if _REPORT not in names or not names & _BESIDE:
            return False
        path = folder / _REPORT
        if path.is_symlink() or not path.is_file():
            return False
        try:
            return _judges_instances(Look(path, read_head(path)))
        except UnreadableError:
            return False

    def claims_file(self, look: Look) -> bool:
        """A run report, a report of instances, or predictions, by their keys."""
        if look.kind not in ("object", "array"):
            return False
        keys = look.keys
        if is_run_report(keys):
            return look.kind == "object"
        if keys >= PREDICTION_KEYS and not keys & _TRANSCRIPT:
            return True
        return look.kind == "object" and (_judges_instances(look) or _predicts_instances(look))

    def units(self, path: Path, root: Path, found: Found) -> None:
        """One unit a file, or a folder of an instance; trajectories and reports are one group."""
        if path.is_dir():
            size = (path / _REPORT).stat().st_size
            found.units.append(Unit(self.name, path, relative(path, root), size, GROUP))
        else:
            file_unit(self.name, path, root, found, GROUP)

    def read(self, units: Sequence[Unit], options: ReadOptions) -> Frames:
        """Read reports and predictions."""
        batch = Batch()
        tasks: list[dict[str, Any]] = []
        attempts: list[dict[str, Any]] = []
        for unit in units:
            path = unit.path / _REPORT if unit.path.is_dir() else unit.path
            uri = f"{unit.package_id}/{_REPORT}" if unit.path.is_dir() else unit.package_id
            try:
                data, raw = read_bytes(path, options.max_file_bytes)
            except UnreadableError as error:
                batch.diagnose(error.code, error.detail, package_id=unit.package_id, source_uri=uri, severity="error")
                continue
            digest = PREFIX + sha256_hex(raw)
            one = Report(batch, unit, path, uri, digest, options)
            document, rows, problems = _parse(data)
            report(batch, unit, problems, uri)
            before = len(one.attempts)
            if rows is not None:
                one.predictions([(pos, None, row) for pos, row in rows])
            elif isinstance(document, dict):
                one.document(document)
            if len(one.attempts) == before and not any(p.severity == "error" for p in problems):
                detail = "expected a run report, a report of instances or predictions, found none of them; no attempt"
                batch.diagnose("no_attempt", detail, package_id=unit.package_id, source_uri=uri)
            kind = "verifier" if any(a.get("grade_kind") for a in one.attempts) else "actual_outputs"
            add_evidence(batch, unit.package_id, path.name, kind, size=len(raw), digest=digest)
            attempts += one.attempts
            tasks += one.tasks
        add_tasks(batch, tasks, attempts)
        return batch.frames()


def _parse(data: bytes) -> tuple[Any, list[tuple[int, Any]] | None, list[Problem]]:
    """The document, or the records of an array or of lines, and what was wrong."""
    document, problems = load_json(data)
    broken = any(p.code == "bad_json" for p in problems)
    if isinstance(document, list):
        return None, list(enumerate(document)), problems
    if isinstance(document, dict) and document.keys() >= PREDICTION_KEYS and not is_run_report(document.keys()):
        return None, [(0, document)], problems
    if broken and (data.lstrip()[:1] == b"[" or _starts_with_record(data)):
        found = load_rows(data)
        return None, found.rows, found.problems
    return document, None, problems


def _starts_with_record(data: bytes) -> bool:
    """Whether the first line is a whole object: then a broken file is lines of which some are broken."""
    line = data.removeprefix(b"\xef\xbb\xbf").lstrip().split(b"\n", 1)[0]
    try:
        return isinstance(orjson.loads(line), dict)
    except orjson.JSONDecodeError:
        return False


def _judges_instances(look: Look) -> bool:
    return any("resolved" in look.at(key) and look.at(key) & INSTANCE_KEYS for key in look.keys)


def _predicts_instances(look: Look) -> bool:
    return any(
        "model_patch" in look.at(key) and look.at(key) & PREDICTION_KEYS and not look.at(key) & _TRANSCRIPT
        for key in look.keys
    )


SOURCE = SweBenchReport()
