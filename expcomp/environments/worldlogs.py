"""Recorded worlds: JSON lines in which calls stand beside the state of the world, one episode or one call a line.

Episode a line: `episode_id`, `initial_state`, `steps` (each of `action`, `observation`; `arguments`, `is_error` or `outcome`, `call_id`,
`user`, and `<member>_after` for every member of the state), `final_state`, `group`. Call a line: `episode_id` or `task_id`, `step`,
`action`, `observation`, `state_before`, `state_after`; with `record` probe it was tried on a copy of the state and is an
episode of its own.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.environments.recorded_files import read_files
from expcomp.environments.recordings import Recordings, finish_events, of_one_family
from expcomp.environments.splits import split_of
from expcomp.errors import SourceError
from expcomp.evidence.redact import redact
from expcomp.io.digest import sha256_expr
from expcomp.io.record_files import LINES, first_record, kind_of_file, not_finite, read_records
from expcomp.tables.environment import EPISODES, SOURCES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

__all__ = [
    "COUNTERFACTUAL",
    "EPISODE",
    "check_numbers",
    "episode_name",
    "episode_table",
    "is_world_log",
    "source_table",
    "world_logs",
]

COUNTERFACTUAL = '{"counterfactual":true}'
"""Metadata of an episode that is a single call, tried on a copy of a state."""

_EVENT = pl.Schema(
    {
        "episode_id": pl.String,
        "actor": pl.String,
        "kind": pl.String,
        "content": pl.String,
        "call_id": pl.String,
        "action_name": pl.String,
        "arguments": pl.String,
        "is_error": pl.Boolean,
    }
)
EPISODE = pl.Schema(
    {
        "episode_id": pl.String,
        "source_id": pl.String,
        "original_id": pl.String,
        "trajectory_group": pl.String,
        "task_id": pl.String,
        "metadata_json": pl.String,
    }
)
Record = dict[str, Any]


def is_world_log(path: Path) -> bool:
    """Whether the first line of a file is an episode or a call of a recorded world; what cannot be read is none."""
    if kind_of_file(path) not in LINES:
        return False
    return _layout(first_record(path)) is not None


def _layout(record: Any) -> str | None:
    if not isinstance(record, dict):
        return None
    if isinstance(record.get("state_before"), dict) and {"action", "observation"} <= set(record):
        return "calls" if isinstance(_id(record), str) else None
    steps = record.get("steps")
    known = isinstance(record.get("initial_state"), dict) and isinstance(record.get("episode_id"), str)
    first = steps[0] if isinstance(steps, list) and steps else None
    return "episodes" if known and isinstance(first, dict) and {"action", "observation"} <= set(first) else None


def _id(record: Record) -> Any:
    return record.get("episode_id", record.get("task_id"))


def world_logs(paths: Sequence[Path], *, holdout: float = 0.2, seed: int = 0, pii: bool = False) -> Recordings:
    """Episodes of recorded worlds.

    Args:
        paths: Files, in any order; copies of a file are read once.
        holdout: Share of the families that become validation; a family is a `group`, else a `task_id`, else the episode.
        seed: Of the split.
        pii: Also replace e-mail addresses, phone numbers and IP addresses.

    Raises:
        SourceError: A line that cannot be read; the message names file, line and field.
    """
    files, episodes, events, copies = read_files(paths, _read)
    frame = pl.DataFrame(events, schema=_EVENT, orient="row").with_columns(episode_id=episode_name())
    clean, redactions = redact(frame, ["content", "arguments"], pii=pii)
    known = pl.DataFrame(episodes, schema=EPISODE, orient="row")
    done = finish_events(clean)
    table = episode_table(known, done, holdout=holdout, seed=seed)
    return Recordings(source_table(files, table), table, done, redactions, copies)


def _read(path: Path, source: str) -> Iterator[tuple[tuple[Any, ...], list[tuple[Any, ...]]]]:
    """Of each episode its row and the rows of its events."""
    records = read_records(path)
    layout = _layout(records[0]) if records else None
    if layout is None:
        raise SourceError(
            f"{path.name}, line 1: expected an episode with initial_state and steps, or a call with state_before"
        )
    told = enumerate(records, 1)
    if layout == "episodes":
        seen: dict[str, int] = {}
        for number, record in told:
            where = f"{path.name}, line {number}"
            check_numbers(record, where)
            made = _episode(record, where, source)
            if (first := seen.setdefault(record["episode_id"], number)) != number:
                raise SourceError(
                    f"{where}: field episode_id: {record['episode_id']!r} is that of line {first}; give each episode its own"
                )
            yield made
        return
    open_: dict[str, list[tuple[str, Record]]] = {}
    for number, record in told:
        where = f"{path.name}, line {number}"
        check_numbers(record, where)
        if _layout(record) != layout:
            raise SourceError(
                f"{where}: expected episode_id or task_id, action, observation and the object state_before"
            )
        probe = record.get("record") == "probe"
        name = f"{_id(record)}\n{record.get('id', number)}" if probe else str(_id(record))
        open_.setdefault(name, []).append((where, record))
    for name, calls in open_.items():
        yield _called(name, calls, source)


def _row(source: str, name: str, record: Record, *, counterfactual: bool = False) -> tuple[Any, ...]:
    said = [v for n in ("group", "task_id", "episode_id") if (v := record.get(n)) is not None]
    family = said[0] if said else name
    # A name that another run of the file has too would make one episode of two: the source tells them apart.
    return (
        f"{source}\n{name}", source, name.partition("\n")[2] or name, str(family), record.get("task_id"),
        COUNTERFACTUAL if counterfactual else None,
    )  # fmt: skip


def _episode(record: Any, where: str, source: str) -> tuple[tuple[Any, ...], list[tuple[Any, ...]]]:
    if _layout(record) != "episodes":
        raise SourceError(
            f"{where}: expected episode_id, the object initial_state, and steps of action and observation"
        )
    row = _row(source, record["episode_id"], record)
    start = record["initial_state"]
    found = _Told(row[0])
    found.state(start)
    for number, step in enumerate(record["steps"]):
        if not isinstance(step, dict):
            raise SourceError(f"{where}, step {number}: expected an object, found {step!r:.60}")
        found.call(step, f"{where}, step {number}")
        after = {k: step[f"{k}_after"] for k in start if f"{k}_after" in step}
        if len(after) == len(start):
            found.state(after)
    if isinstance(record.get("final_state"), dict):
        found.state(record["final_state"])
    return row, found.events


def _called(
    name: str, calls: Sequence[tuple[str, Record]], source: str
) -> tuple[tuple[Any, ...], list[tuple[Any, ...]]]:
    first = calls[0][1]
    row = _row(source, name, first, counterfactual=first.get("record") == "probe")
    found = _Told(row[0])
    for where, record in sorted(calls, key=_order):
        found.state(record["state_before"])
        found.call(record, where)
        if isinstance(record.get("state_after"), dict):
            found.state(record["state_after"])
    return row, found.events


def _order(call: tuple[str, Record]) -> float:
    where, record = call
    step = record.get("step", 0)
    if isinstance(step, bool) or not isinstance(step, int | float):
        raise SourceError(f"{where}: field step: expected a number, found {step!r:.60}")
    return step


class _Told:
    """Events of one episode; a state that is the one before is not told again."""

    def __init__(self, episode: str) -> None:
        self.events: list[tuple[Any, ...]] = []
        self._episode = episode
        self._last: str | None = None

    def _add(self, actor: str, kind: str, content: str, *more: Any) -> None:
        self.events.append((self._episode, actor, kind, content, *more, *[None] * (4 - len(more))))

    def state(self, value: Mapping[str, Any]) -> None:
        text = _text({"world": value})
        if text != self._last:
            self._add("environment", "state", text)
        self._last = text

    def call(self, record: Record, where: str) -> None:
        action = record.get("action")
        named = action if isinstance(action, dict) else {"type": action, "arguments": record.get("arguments")}
        name, arguments = named.get("type", named.get("name")), named.get("arguments")
        if not isinstance(name, str) or not name:
            raise SourceError(f"{where}: field action: expected a name, or an object of type and arguments")
        if arguments is not None and not isinstance(arguments, dict):
            raise SourceError(f"{where}: field arguments: expected an object, found {arguments!r:.60}")
        if isinstance(record.get("user"), str):
            self._add("user", "message", record["user"])
        given, answer, call_id = _text(arguments or {}), record.get("observation"), record.get("call_id")
        if call_id is not None and not isinstance(call_id, str | int):
            raise SourceError(f"{where}: field call_id: expected a text, found {call_id!r:.60}")
        self._add("agent", "action", f"{name} {given}", call_id, name, given)
        text = answer if isinstance(answer, str) else _text(answer)
        self._add("tool", "observation", text, call_id, None, None, _error(record))
        # What a call did is told by the state after it, which is looked for even if it is the one before.
        self._last = None


def _error(record: Record) -> bool | None:
    flag = record.get("is_error")
    if isinstance(flag, bool):
        return flag
    return {"failure": True, "success": False}.get(str(record.get("outcome")))


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def check_numbers(record: Any, where: str) -> None:
    """Refuse a record that holds NaN or infinity.

    Raises:
        SourceError: It does; the message names the field.
    """
    if place := not_finite(record):
        raise SourceError(f"{where}: {place} is no finite number")


def episode_table(known: pl.DataFrame, events: pl.DataFrame, *, holdout: float, seed: int) -> pl.DataFrame:
    """`EPISODES` of episodes (columns EPISODE, ids as they were made) and their finished events."""
    counts = events.group_by("episode_id", maintain_order=True).agg(n_events=pl.len().cast(pl.Int32))
    split = split_of(pl.col("trajectory_group"), holdout=holdout, seed=seed)
    whole = known.with_columns(episode_id=episode_name()).join(
        counts, on="episode_id", how="left", maintain_order="left"
    )
    absent = [pl.lit(None, d).alias(n) for n, d in EPISODES.schema.items() if n not in (*whole.columns, "split")]
    return (
        whole.with_columns(split=split)
        .with_columns(absent)
        .select(list(EPISODES.columns))
        .cast(EPISODES.schema)
        .sort("episode_id")
    )


def episode_name() -> pl.Expr:
    """Id of an episode, from `episode_id` as it was made: source and name."""
    return pl.lit("ep_") + sha256_expr("episode_id").str.slice(0, 24)


def source_table(files: Mapping[str, Path], episodes: pl.DataFrame) -> pl.DataFrame:
    """`SOURCES` of files by digest, with the family and split of their episodes."""
    return (
        pl.DataFrame(
            {
                "source_id": [f"src_{d}" for d in files],
                "n_bytes": [p.stat().st_size for p in files.values()],
                "label": [p.name for p in files.values()],
            },
            schema={"source_id": pl.String, "n_bytes": pl.Int64, "label": pl.String},
        )
        .join(of_one_family(episodes), on="source_id", how="left", maintain_order="left")
        .with_columns(media=pl.lit("jsonl"), text=pl.lit(None, pl.String), text_verbatim=pl.lit(None, pl.Boolean))
        .select(list(SOURCES.columns))
        .cast(SOURCES.schema)
        .sort("source_id")
    )
