"""Files of recorded episodes, each content once, in an order that follows from their content."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from expcomp.io.digest import sha256_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

Row = tuple[Any, ...]


class RecordedFiles(NamedTuple):
    """What files hold.

    Attributes:
        files: One file for each content, by hexadecimal digest.
        episodes: Rows of episodes.
        events: Rows of their events.
        copies: Episodes of files that are copies of another, which are not read.
    """

    files: Mapping[str, Path]
    episodes: list[Row]
    events: list[Row]
    copies: int


def read_files(paths: Sequence[Path], read: Callable[[Path, str], Iterator[tuple[Row, list[Row]]]]) -> RecordedFiles:
    """Read files.

    Args:
        paths: In any order.
        read: Of a file and the id of its source, each episode with its events.
    """
    placed = sorted(paths, key=lambda p: (p.name, str(p)), reverse=True)
    named = [(sha256_file(p).removeprefix("sha256:"), p) for p in placed]
    files, times = dict(named), Counter(digest for digest, _ in named)
    events: list[Row] = []
    episodes: list[Row] = []
    copies = 0
    for digest, path in sorted(files.items()):
        before = len(episodes)
        for told, happened in read(path, f"src_{digest}"):
            episodes.append(told)
            events += happened
        copies += (times[digest] - 1) * (len(episodes) - before)
    return RecordedFiles(files, episodes, events, copies)
