"""Columns of a set of chats: which of them say what, guessed from short lists or named by the user."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from expcomp.sources._values import obj
from expcomp.sources.chat._parts import parsed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from expcomp.sources._contract import Batch, ReadOptions, Unit

Path = tuple[str, ...]

GUESSES: dict[str, tuple[str, ...]] = {
    "task": ("instance_id", "task_id", "problem_id", "question_id", "example_id", "prompt_id", "task_name", "task"),
    "statement": ("question", "problem_statement", "problem", "instruction"),
    "native": ("traj_id", "trajectory_id", "attempt_id", "trial_name", "rollout_id", "uuid", "id"),
    "trace": ("traj_id", "trajectory_id", "trace_id", "session_id", "conversation_id"),
    "run": ("run_id", "experiment_id", "run", "experiment"),
    "trial": ("trial", "trial_id", "trial_index", "rollout_index", "rollout_idx", "sample_index", "sample_idx"),
    "arm": ("arm",),
    "seed": ("seed",),
    "dataset": ("dataset", "data_source", "dataset_name", "source_dataset", "benchmark"),
    "domain": ("domain",),
    "split": ("split",),
    "cluster": ("repo", "repository", "repo_name"),
    "environment": ("docker_image", "image_name", "image"),
    "commit": ("base_commit",),
    "gold": (
        "answer",
        "ground_truth",
        "gold_answer",
        "expected_answer",
        "reference_answer",
        "test_patch",
        "target_tools",
    ),
    "model": ("model", "model_name", "model_name_or_path", "model_id", "gen_model"),
    "provider": ("model_provider", "provider"),
    "agent": ("agent", "agent_name", "scaffold", "harness"),
    "agent_version": ("agent_version",),
    "tools": ("tools", "available_tools", "functions", "tool_definitions", "tool_schemas"),
    "system": ("system", "system_prompt", "instructions"),
    "patch": ("generated_patch", "model_patch", "output_patch", "git_patch", "patch", "test_result.git_patch"),
    "log": ("eval_logs", "eval_log", "test_output", "verifier_output", "test_result.test_output"),
    "status": ("exit_status", "exit_reason", "termination_reason", "stop_reason", "finish_reason"),
    "error": ("error", "exception", "error_message"),
    "started": ("started_at", "start_time", "created_at", "timestamp", "date"),
    "ended": ("ended_at", "end_time", "finished_at", "completed_at"),
    "cost": ("cost_usd", "total_cost", "instance_cost", "cost"),
    "usage": ("usage",),
    "verdict": (
        "resolved",
        "is_resolved",
        "verified",
        "is_verified",
        "passed",
        "is_passed",
        "success",
        "is_success",
        "task_success",
        "solved",
        "is_solved",
        "correct",
        "is_correct",
        "target",
        "label",
        "test_result.report.resolved",
    ),
    "score": (
        "reward",
        "final_reward",
        "total_reward",
        "score",
        "final_score",
        "total_score",
        "rewards",
        "scores",
        "rating",
        "result",
    ),
    "judge": ("response_quality_assessment", "quality_assessment", "llm_judge", "judge"),
}
_PATHS = {meaning: tuple(tuple(n.split(".")) for n in names) for meaning, names in GUESSES.items()}
"""Meaning -> columns in the order in which they are believed. A dot leads into an object."""

LABELS = frozenset(c.split(".")[0] for f in ("verdict", "score", "judge") for c in GUESSES[f])
"""Columns that hold a label: rows with one of them are a set of attempts."""
INSTANCES = frozenset(GUESSES["task"]) | {
    "question",
    "traj_id",
    "trajectory_id",
    "run_id",
    "trial_name",
    "patch",
    "generated_patch",
    "model_patch",
    "available_tools",
    "target_tools",
}
"""Columns that say of which task or run a row is."""

TASK_MEANINGS = frozenset({"statement", "split", "cluster", "environment", "commit", "gold"})
"""Meanings that go to the task, where there is one."""
_EVERY = frozenset({"verdict", "score", "gold"})
"""Meanings of which every column is kept; of the others the first."""
_TOLD = frozenset(
    "task statement native run trial arm dataset domain gold verdict score judge patch log status error agent started cost".split()
)
_FIRST = frozenset({"system", "usage", "tools"})
_RUN = re.compile(r"^(.*?)[-_.]?(?:run|trial|seed)[-_]?(\d{1,4})$")
SEARCHED = 32
"""Records from which columns are guessed: the first of the file, so that all parts of a file agree."""


def lookup(row: dict[str, Any], path: Path) -> Any:
    """The value at a path, null if there is none."""
    if len(path) == 1:
        return row.get(path[0])
    value: Any = row
    for key in path:
        if isinstance(value, str):
            value = parsed(value)
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


@dataclass(slots=True)
class Columns:
    """What columns of a file say.

    Attributes:
        paths: Meaning -> where it is, best first.
        run_trials: Whether names of runs end in the number of a trial.
        values: Meaning -> value that the user gave for all attempts.
        named: Meanings that the user named a column for.
        mapped: Top-level columns that go to columns of their own -> their meaning; the others are kept in the metadata.
        nested: Objects of which texts became artifacts -> keys of those.
        one_based: Whether trial numbers of the column begin with 1.
    """

    paths: dict[str, tuple[Path, ...]] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    named: set[str] = field(default_factory=set)
    mapped: dict[str, str] = field(default_factory=dict)
    nested: dict[str, set[str]] = field(default_factory=dict)
    one_based: bool = False
    run_trials: bool = False

    def get(self, meaning: str, row: dict[str, Any]) -> Any:
        """The first value for a meaning that a row has."""
        for path in self.paths.get(meaning, ()):
            value = lookup(row, path)
            if value is not None:
                return value
        return None

    def texts(self, meaning: str, row: dict[str, Any]) -> str | None:
        """The first text for a meaning that a row has."""
        for path in self.paths.get(meaning, ()):
            value = lookup(row, path)
            if isinstance(value, str) and value:
                return value
        return None


def guess(head: list[dict[str, Any]], options: ReadOptions) -> Columns:
    """Columns by the first records of a file; those that the user names win."""
    out = Columns()
    known: dict[str, set[type]] = {}
    for row in head[:SEARCHED]:
        for key, value in row.items():
            known.setdefault(key, set()).add(type(value))
    inner = {k for row in head[:SEARCHED] for k in _metadata(row)}
    there = known.keys() | inner
    for meaning, paths in _PATHS.items():
        found = [
            p for path in paths if path[0] in there and (p := _place(path, known, inner, head, meaning)) is not None
        ]
        if meaning == "verdict" and any(len(p) == 1 for p in found):
            # The report inside a result says again what the column beside it says.
            found = [p for p in found if len(p) == 1 or p[0] == "metadata"]
        if found:
            out.paths[meaning] = tuple(found)
    _gold_patch(out, head)
    for meaning, name in (("task", options.task_id), ("arm", options.arm), ("trial", options.trial)):
        if isinstance(name, str):
            path: Path | None = (name,) if name in known else ("metadata", name) if name in inner else None
            if path is not None:
                out.paths[meaning] = (path,)
                out.named.add(meaning)
        elif name is not None:
            out.values[meaning] = name
    for meaning, places in out.paths.items():
        for path in places if meaning in _EVERY else places[:1]:
            if len(path) == 1:
                out.mapped[path[0]] = meaning
            elif meaning in ("patch", "log"):
                out.nested.setdefault(path[0], set()).add(path[1])
    numbers = [n for row in head[:SEARCHED] if (n := number(out.get("trial", row))) is not None]
    if not out.paths.get("trial"):
        numbers = [n for row in head[:SEARCHED] if (n := run_number(out.get("run", row))[1]) is not None]
        out.run_trials = bool(numbers)
    out.one_based = bool(numbers) and min(numbers) >= 1
    return out


def settle(columns: Columns, options: ReadOptions, rows: Iterable[dict[str, Any]], batch: Batch, unit: Unit) -> None:
    """Look for the columns a user named in all records of a unit; a name that none of them has is the value itself."""
    wanted = {"task": options.task_id, "arm": options.arm, "trial": options.trial}
    missing = {m: n for m, n in wanted.items() if isinstance(n, str) and m not in columns.named}
    if not missing:
        return
    for row in rows:
        inner = _metadata(row)
        for meaning, name in list(missing.items()):
            if name in row or name in inner:
                columns.paths[meaning] = ((name,) if name in row else ("metadata", name),)
                columns.named.add(meaning)
                del missing[meaning]
        if not missing:
            break
    for meaning, name in missing.items():
        columns.values[meaning] = name
        if meaning == "trial" and number(name) is None:
            detail = f"no record has a column {name!r}, and it is no number; trials stay unknown"
            batch.diagnose("bad_trial", detail, package_id=unit.package_id, source_uri=unit.package_id, field=meaning)
            continue
        detail = f"no record has a column {name!r}; taken as the {meaning} of all attempts"
        batch.diagnose(
            "option_taken_as_value",
            detail,
            package_id=unit.package_id,
            source_uri=unit.package_id,
            field=meaning,
            severity="info",
        )


def report_guesses(columns: Columns, batch: Batch, unit: Unit) -> None:
    """Say once per file which columns were taken for what."""
    told = [
        f"{meaning} from {', '.join('.'.join(p) for p in places)}"
        for meaning, places in columns.paths.items()
        if meaning in _TOLD and meaning not in columns.named and meaning not in columns.values and places != (("id",),)
    ]
    if told:
        detail = f"columns were guessed by their names: {'; '.join(told)}"
        batch.diagnose(
            "guessed_columns", detail, package_id=unit.package_id, source_uri=unit.package_id, severity="info"
        )


def number(value: Any) -> int | None:
    """A number of a trial: a whole number, or a text that ends in one."""
    if isinstance(value, bool):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, str):
        match = re.search(r"(\d{1,9})$", value)
        value = int(match.group(1)) if match else None
    return value if isinstance(value, int) and 0 <= value < 2**31 else None


def run_number(value: Any) -> tuple[str | None, int | None]:
    """A run without the number of the repetition at its end, and that number: `set-t04-run_1` is repetition 1 of `set-t04`."""
    if not isinstance(value, str):
        return (None if value is None or isinstance(value, dict | list) else str(value)), None
    match = _RUN.match(value)
    if match is None or not match.group(1):
        return value, None
    return match.group(1), int(match.group(2))


def _place(
    path: Path, known: dict[str, set[type]], inner: set[str], head: list[dict[str, Any]], meaning: str
) -> Path | None:
    if len(path) > 1:
        return path if any(lookup(row, path) is not None for row in head[:SEARCHED]) else None
    (name,) = path
    if name in known:
        kinds = known[name] - {type(None)}
        if name == "target" and meaning == "verdict" and kinds and kinds != {bool}:
            return None
        if meaning in ("task", "arm", "agent", "dataset", "model", "environment") and kinds & {dict, list}:
            return None
        if meaning == "tools" and kinds and not kinds & {list, str}:
            return None
        return path
    if name in inner and meaning not in _FIRST and name not in ("id", "image"):
        return ("metadata", name)
    return None


def _metadata(row: dict[str, Any]) -> dict[str, Any]:
    inner = row.get("metadata")
    if isinstance(inner, str):
        inner = parsed(inner)
    return obj(inner)


def _gold_patch(columns: Columns, head: list[dict[str, Any]]) -> None:
    """Where a set has a column for the model's patch, or the tests of the task, `patch` is the reference."""
    places = columns.paths.get("patch", ())
    if ("patch",) in places and (len(places) > 1 or any("test_patch" in row for row in head[:SEARCHED])):
        left = tuple(p for p in places if p != ("patch",))
        columns.paths["gold"] = (*columns.paths.get("gold", ()), ("patch",))
        if left:
            columns.paths["patch"] = left
        else:
            del columns.paths["patch"]
