"""A table of Terminal-Bench trials as CSV: one row a trial, with reward, tokens and time, without transcripts."""

from __future__ import annotations

import csv
import io
import math
from typing import TYPE_CHECKING, Any

from expcomp.sources._chat import Transcript
from expcomp.sources._contract import attempt_id
from expcomp.sources._emit import add_attempt, add_grade, verdict
from expcomp.sources._json import dump_json
from expcomp.sources._values import UNIT, Score, amount, count, redact, score_of
from expcomp.sources.terminal_bench._run import DATASET

if TYPE_CHECKING:
    from collections.abc import Iterator

    from expcomp.sources._chat import Row
    from expcomp.sources._contract import Batch, Unit

_WORDS = {"true": True, "1": True, "false": False, "0": False}
_MAPPED = frozenset(
    "trial_id model_name provider task_name n_input_tokens n_output_tokens total_tokens execution_time_sec success reward".split()
)
# A table joined from two sources repeats columns under another name; a copy that says the same is left out.
_COPIES = {
    "model_name_perf": "model_name",
    "task_name_perf": "task_name",
    "execution_time_perf": "execution_time_sec",
    "final_execution_time": "execution_time_sec",
    "success_perf": "success",
    "final_success": "success",
}


def is_table(head: bytes) -> bool:
    """Whether the first line of a text is the header of such a table."""
    line = head.removeprefix(b"\xef\xbb\xbf").split(b"\n", 1)[0]
    if b"trial_id" not in line or len(line) > 1 << 14:
        return False
    names = {cell.strip().strip('"') for cell in line.decode("utf-8", "replace").split(",")}
    return {"trial_id", "task_name", "model_name"} <= names and bool({"reward", "success"} & names)


def read_table(batch: Batch, unit: Unit, data: bytes, digest: str) -> list[Row]:
    """Add attempts and grades of a table; give the tasks."""
    tasks: dict[str, Row] = {}
    for pos, cells in _rows(batch, unit, data):
        trial, task = cells.get("trial_id"), cells.get("task_name")
        if not trial and not task:
            detail = f"row {pos} names neither trial nor task; left out"
            batch.diagnose("bad_row", detail, package_id=unit.package_id, source_uri=unit.package_id, source_pos=pos)
            continue
        score = _score(batch, unit, pos, cells)
        ident = attempt_id("terminal_bench", unit.package_id, trial or pos)
        seen, made = count(_number(cells, "n_input_tokens")), count(_number(cells, "n_output_tokens"))
        usage = {"input_tokens": seen, "output_tokens": made} if seen or made else {}
        task_id = f"{DATASET}/{task}" if task else None
        add_attempt(
            batch,
            unit,
            ident,
            Transcript(),
            score=score,
            usage=usage,
            native_attempt_id=trial or None,
            task_id=task_id,
            run_id=unit.package_id,
            model=cells.get("model_name") or None,
            model_provider=cells.get("provider") or None,
            status="unknown",
            duration_s=amount(_number(cells, "execution_time_sec")),
            grade_kind="verifier",
            grade_ref=unit.path.name,
            source_digest=digest,
            source_pos=pos,
            metadata=_metadata(cells),
        )
        add_grade(
            batch,
            ident,
            "reward",
            score,
            kind="verifier",
            primary=True,
            grader="terminal_bench",
            source_ref=unit.path.name,
        )
        if task and task_id:
            tasks.setdefault(
                task_id,
                {
                    "task_id": task_id,
                    "dataset": DATASET,
                    "native_id": task,
                    "cluster": task.partition(".")[0] or None,
                    "source_ref": unit.path.name,
                },
            )
    return list(tasks.values())


def _rows(batch: Batch, unit: Unit, data: bytes) -> Iterator[tuple[int, dict[str, str]]]:
    """Rows of the table by column name, with their 0-based position; a row of another length is left out."""
    where: dict[str, Any] = {"package_id": unit.package_id, "source_uri": unit.package_id}
    text = data.decode("utf-8-sig", "replace")
    if "\ufffd" in text:
        batch.diagnose("not_utf8", "bytes that are not UTF-8 were replaced", **where)
    reader = csv.reader(io.StringIO(text.replace("\0", ""), newline=""))
    header: list[str] = []
    pos = -1
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            if pos < 0:
                batch.diagnose("no_attempt", "the table holds no row; no attempt", **where)
            return
        except csv.Error as error:
            detail = f"line {reader.line_num} cannot be read ({error}); left out"
            batch.diagnose("bad_row", detail, source_pos=pos + 1, severity="error", **where)
            pos += 1
            continue
        if not cells:
            continue
        if not header:
            header = [cell.strip() for cell in cells]
            if not is_table(",".join(header).encode("utf-8", "replace")):
                detail = "expected a header with trial_id, task_name, model_name and reward or success; no attempt"
                batch.diagnose("no_attempt", detail, severity="error", **where)
                return
            continue
        pos += 1
        if len(cells) != len(header):
            detail = f"row {pos} (line {reader.line_num}) has {len(cells)} cells, expected {len(header)}; left out"
            batch.diagnose("bad_row", detail, source_pos=pos, severity="error", **where)
            continue
        yield pos, dict(zip(header, cells, strict=True))


def _number(cells: dict[str, str], name: str) -> float | None:
    try:
        value = float(cells.get(name) or "nan")
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _score(batch: Batch, unit: Unit, pos: int, cells: dict[str, str]) -> Score:
    """The reward, by the harness's own rule that 1 passes; the success flag where there is no reward."""
    word = _WORDS.get((cells.get("success") or "").strip().lower())
    reward = _number(cells, "reward")
    written = (cells.get("reward") or "").strip()
    if reward is None:
        score = score_of(written, UNIT, verdict=True) if written else verdict(passed=word)
    else:
        score = score_of(reward, UNIT, verdict=True)
    code, detail = score.issue, f"row {pos} has reward {written[:40]!r} and success {cells.get('success')!r}"
    if code is None and word is not None and score.passed is not None and word != score.passed:
        code, detail = "verdict_conflict", f"{detail}; the reward decides"
    if code is not None:
        batch.diagnose(
            code, detail, package_id=unit.package_id, source_uri=unit.package_id, source_pos=pos, field="reward"
        )
    return score


def _metadata(cells: dict[str, str]) -> str | None:
    rest = {
        name: value
        for name, value in cells.items()
        if value and name not in _MAPPED and cells.get(_COPIES.get(name, "")) != value
    }
    total = count(_number(cells, "total_tokens"))
    seen, made = _number(cells, "n_input_tokens"), _number(cells, "n_output_tokens")
    if total and total != (seen or 0) + (made or 0):
        rest["total_tokens"] = cells["total_tokens"]
    kept = redact(rest)
    return dump_json(kept) if kept else None
