"""From paths to recordings: traces of every format, and plain transcripts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from expcomp.environments.eventlogs import event_logs, is_event_log
from expcomp.environments.recordings import Recordings, recordings
from expcomp.environments.transcripts import transcripts
from expcomp.environments.worldlogs import is_world_log, world_logs
from expcomp.errors import SourceError
from expcomp.io.files import listing
from expcomp.io.text_files import read_text_file

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

TEXTS = (".txt", ".log")


def gather(paths: Sequence[str | Path], *, holdout: float = 0.2, seed: int = 0, pii: bool = False) -> Recordings:
    """Read traces, transcripts and recorded worlds.

    A `.txt` or `.log` file that is named, or that stands in a folder of nothing else, is a transcript; JSON lines that tell the state
    of the world beside the calls are a recorded world (`worldlogs`), and JSON lines of events recorded events (`eventlogs`); everything
    else is read as traces. Formats are told by content.

    Args:
        paths: Files and folders, in any order.
        holdout: Share of the families that become validation.
        seed: Of the split.
        pii: Also replace e-mail addresses, phone numbers and IP addresses.

    Raises:
        SourceError: A path does not exist, nothing there can be read, or a transcript in which no line begins with a role.
    """
    from expcomp.sources.load import read_traces

    texts: list[Path] = []
    logs: list[Path] = []
    told: list[Path] = []
    others: list[Path] = []
    for path in sorted(set(map(Path, paths))):
        found = _transcripts(path)
        worlds = [] if found else _logs(path, is_world_log)
        events = [] if found or worlds else _logs(path, is_event_log)
        texts += found
        logs += worlds
        told += events
        others += [] if found or worlds or events else [path]
    parts = []
    if texts:
        frame = pl.DataFrame({"label": [p.name for p in texts], "text": [read_text_file(p) for p in texts]})
        parts.append(transcripts(frame.sort("label", "text"), holdout=holdout, seed=seed, pii=pii))
    if logs:
        parts.append(world_logs(logs, holdout=holdout, seed=seed, pii=pii))
    if told:
        parts.append(event_logs(told, holdout=holdout, seed=seed, pii=pii))
    if others:
        parts.append(recordings(read_traces(*others), holdout=holdout, seed=seed, pii=pii))
    if not parts:
        raise SourceError("no path was given; name files or folders with traces or transcripts")
    return joined(parts)


def _transcripts(path: Path) -> list[Path]:
    if path.is_dir():
        names = listing(path)
        return [path / n for n in names] if names and all(n.lower().endswith(TEXTS) for n in names) else []
    return [path] if path.is_file() and path.suffix.lower() in TEXTS else []


def _logs(path: Path, is_log: Callable[[Path], bool]) -> list[Path]:
    if path.is_dir():
        files = [path / n for n in listing(path)]
        return files if files and all(map(is_log, files)) else []
    return [path] if path.is_file() and is_log(path) else []


def joined(parts: Sequence[Recordings]) -> Recordings:
    """Recordings of several loads as one, in the order of their ids."""
    counts = [p.redactions for p in parts]
    return Recordings(
        pl.concat(p.sources for p in parts).unique("source_id", keep="first", maintain_order=True).sort("source_id"),
        pl.concat(p.episodes for p in parts).sort("episode_id"),
        pl.concat(p.events for p in parts).sort("episode_id", "ordinal"),
        {rule: sum(c.get(rule, 0) for c in counts) for rule in sorted({r for c in counts for r in c})},
        sum(p.copies for p in parts),
    )
