"""Terminal-Bench 0.2: `results.json` of a run with its companions, the result of one trial, or a table of trials."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from expcomp.sources._bytes import UnreadableError, read_head
from expcomp.sources._chat import Transcript
from expcomp.sources._contract import Batch, Found, Frames, ReadOptions, Unit, attempt_id
from expcomp.sources._emit import add_attempt, add_grade, verdict, voided
from expcomp.sources._json import dump_json
from expcomp.sources._look import Look
from expcomp.sources._units import add_tasks, file_unit, open_unit, relative, report
from expcomp.sources._values import Score, obj, text
from expcomp.sources.terminal_bench._run import (
    COMPANIONS,
    DATASET,
    Run,
    check_header,
    is_row,
    metadata,
    name_parts,
    read_results,
    read_run,
    recording,
    task_row,
    times,
    tokens,
)
from expcomp.sources.terminal_bench._table import is_table, read_table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from expcomp.sources._chat import Row

_RESULTS = "results.json"
_TESTS = {"passed": True, "failed": False}


class TerminalBench:
    """Reader of Terminal-Bench 0.2 runs and tables of trials."""

    name = "terminal_bench"
    summary = "Terminal-Bench 0.2: results.json with run_metadata.json and tb.lock, or a CSV table of trials"
    carries = {  # noqa: RUF012 - read only, by contract of the protocol
        "system_prompt": "no",
        "tools": "no",
        "reasoning": "no",
        "verdict": "yes",
        "trial": "in trial name",
        "tokens": "often 0, read as unknown",
        "cost": "no",
        "times": "yes",
        "token_ids": "no",
    }

    def claims_folder(self, folder: Path, names: frozenset[str]) -> bool:
        """A run folder: results of the format beside a companion; folders of single trials below belong to it."""
        if _RESULTS not in names or not names & set(COMPANIONS):
            return False
        try:
            return _is_results(Look(folder / _RESULTS, read_head(folder / _RESULTS)))
        except UnreadableError:
            return False

    def claims_file(self, look: Look) -> bool:
        """An object with `results[]` of trials, the object of one trial, a table of trials, or the metadata of a run."""
        if look.kind == "object":
            return _is_results(look) or _is_run_metadata(look)
        return look.kind == "other" and is_table(look.body)

    def units(self, path: Path, root: Path, found: Found) -> None:
        """One unit a results file. Companions are read with it; a trial's own file repeats a row of the run."""
        if path.is_dir():
            path = path / _RESULTS
        if path.name in COMPANIONS:
            if not path.with_name(_RESULTS).is_file():
                detail = f"the metadata of a run without {_RESULTS} beside it; no attempt"
                found.diagnostics.append(
                    {
                        "source_uri": relative(path, root),
                        "code": "no_attempt",
                        "severity": "warning",
                        "detail": detail,
                    }
                )
            return
        whole = path.parents[2] / _RESULTS if len(path.parents) > 2 else path
        if path.name == _RESULTS and whole.is_relative_to(root) and _same_run(path, whole):
            return
        file_unit(self.name, path, root, found, self.name)

    def read(self, units: Sequence[Unit], options: ReadOptions) -> Frames:
        """Read runs and tables."""
        batch = Batch()
        attempts: list[Row] = []
        tasks: list[Row] = []
        for unit in units:
            opened = open_unit(batch, unit, options.max_file_bytes)
            if opened is None:
                continue
            data, digest = opened
            if is_table(data[: 1 << 16]):
                tasks += read_table(batch, unit, data, digest)
            else:
                _read_run(batch, unit, data, digest, options, attempts, tasks)
        add_tasks(batch, tasks, attempts)
        for attempt in attempts:
            attempt.pop("_task_digest", None)
        return batch.frames()


def _is_results(look: Look) -> bool:
    inner = look.at("results")
    if "is_resolved" in inner and bool(inner & {"failure_mode", "parser_results", "trial_name"}):
        return True
    return {"trial_name", "task_id", "is_resolved"} <= look.keys


def _is_run_metadata(look: Look) -> bool:
    return {"run_id", "agent_name"} <= look.keys and bool(look.keys & {"n_concurrent_trials", "dataset_size"})


def _same_run(path: Path, whole: Path) -> bool:
    """Whether there is a file two folders up that is the run this trial is a part of."""
    try:
        if not whole.is_file():
            return False
        return "results" in Look(whole, read_head(whole)).keys and "results" not in Look(path, read_head(path)).keys
    except (OSError, UnreadableError):
        # Two folders above the root of an archive there is no such path.
        return False


def _read_run(
    batch: Batch,
    unit: Unit,
    data: bytes,
    digest: str,
    options: ReadOptions,
    attempts: list[Row],
    tasks: list[Row],
) -> None:
    header, rows, problems = read_results(data)
    report(batch, unit, problems)
    if rows is None:
        if not any(p.severity == "error" for p in problems):
            detail = "expected an object with results[] of trials, or a table of trials; no attempt"
            batch.diagnose(
                "no_attempt", detail, package_id=unit.package_id, source_uri=unit.package_id, severity="error"
            )
        return
    if not rows and not problems:
        detail = "results[] is empty; no attempt"
        batch.diagnose("no_attempt", detail, package_id=unit.package_id, source_uri=unit.package_id)
    run = read_run(batch, unit)
    good: list[Row] = []
    for pos, raw in rows:
        if not is_row(raw):
            found = f"an object with {', '.join(sorted(raw)[:5])}" if isinstance(raw, dict) else type(raw).__name__
            detail = f"results[{pos}] is {found}, expected an object with task_id and is_resolved; left out"
            batch.diagnose("bad_row", detail, package_id=unit.package_id, source_uri=unit.package_id, source_pos=pos)
            continue
        good.append(raw)
        _add(batch, unit, pos, raw, run, digest, options, attempts, tasks)
    if header:
        check_header(batch, unit, header, good)
    if good and run.agent is None and run.model is None:
        detail = "no run_metadata.json or tb.lock beside the file names agent and model; they are unknown"
        batch.diagnose("agent_unknown", detail, package_id=unit.package_id, source_uri=unit.package_id, severity="info")


def _add(
    batch: Batch,
    unit: Unit,
    pos: int,
    raw: Row,
    run: Run,
    digest: str,
    options: ReadOptions,
    attempts: list[Row],
    tasks: list[Row],
) -> None:
    """Add the attempt of a row with its grades, artifact and diagnostics."""
    trial_id, (named_task, trial, named_run) = text(raw.get("id")), name_parts(raw)
    # A trial's id is unique and stands in the run's file and in the trial's own: both are the same attempt.
    ident = attempt_id(unit.format, trial_id) if trial_id else attempt_id(unit.format, unit.package_id, pos)
    where: dict[str, Any] = {
        "package_id": unit.package_id,
        "source_uri": unit.package_id,
        "source_pos": pos,
        "attempt_id": ident,
    }
    native = text(raw.get("task_id")) or named_task
    task_id = f"{run.dataset or DATASET}/{native}" if native else None
    word = text(raw.get("failure_mode"))
    meaning, known = options.rules.status(unit.format, word)
    if not known:
        detail = f"failure mode {(word or '')[:80]!r} is not in the table; the status is unknown"
        batch.diagnose("unknown_status", detail, field="failure_mode", **where)
    resolved = raw.get("is_resolved")
    score = verdict(passed=resolved if isinstance(resolved, bool) else None)
    if score.value is not None and meaning.voids_reward:
        score = voided(score, "infrastructure")
    if score.issue is not None:
        detail = f"is_resolved is {str(resolved)[:40]} with failure mode {word}; not counted as a failure"
        batch.diagnose("not_graded" if score.value is None else "grade_voided", detail, field="is_resolved", **where)
    start, end, took, naive = times(raw)
    if naive:
        batch.diagnose("naive_time", "times without a zone were read as UTC", severity="info", **where)
    _grades(batch, unit, ident, raw, score)
    artifact = recording(ident, raw)
    if artifact:
        batch.add("artifacts", **artifact)
    folder = unit.package_id.rpartition("/")[0].rpartition("/")[2]
    add_attempt(
        batch,
        unit,
        ident,
        Transcript(),
        score=score,
        usage=tokens(raw),
        native_attempt_id=text(raw.get("trial_name")) or trial_id,
        task_id=task_id,
        run_id=run.run_id or named_run or folder or unit.package_id,
        trial=trial,
        trial_source="unknown" if trial is None else "native",
        agent=run.agent,
        model=run.model,
        params=dump_json(run.params) if run.params else None,
        status=meaning.status,
        stop_reason=word,
        error_type=word if meaning.status in ("agent_error", "infra_error") else None,
        started_at=start,
        ended_at=end,
        grade_kind="verifier",
        grade_ref=unit.path.name,
        trace_id=trial_id,
        source_version="0.2",
        source_digest=digest,
        source_pos=pos,
        metadata=metadata(raw, run, took),
    )
    if native and task_id:
        task = task_row(task_id, native, text(raw.get("instruction")), run, unit.path.name)
        tasks.append(task)
        attempts.append(batch.rows["attempts"][-1])
        attempts[-1]["_task_digest"] = task["task_digest"]


def _grades(batch: Batch, unit: Unit, ident: str, raw: Row, score: Score) -> None:
    common: dict[str, Any] = {"grader": unit.format, "source_ref": unit.path.name}
    add_grade(batch, ident, "is_resolved", score, kind="verifier", primary=True, **common)
    for test, word in obj(raw.get("parser_results")).items():
        said = text(word)
        passed = _TESTS.get(said or "")
        if passed is None:
            shown = said if said is not None else dump_json(word)
            seen = Score(None, None, None, None, valid=False, issue=f"test {shown[:40]}", label=shown)
        else:
            seen = Score(float(passed), (0.0, 1.0), float(passed), passed, valid=True, issue=None, label=said)
        add_grade(batch, ident, test, seen, kind="test", primary=False, **common)


SOURCE = TerminalBench()
