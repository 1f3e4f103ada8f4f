"""Tolerant resolver: from what an agent or a grader wrote about a file to a file of the package, or to no guess at all."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from expcomp.evidence.refs import is_hidden, normalise

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

__all__ = ["Resolution", "resolve"]

_PREFIX = re.compile(
    r"^(?:artifact_content_previews?(?:_truncated)?|artifacts?|files?|refs?|outputs?|saved (?:to|as)|wrote)\s*:\s*",
    re.IGNORECASE,
)
_PACKAGE = re.compile(r"(?:^|/)packages/[^/]+/(.+)\Z", re.DOTALL)
_INSIDE = re.compile(r"(?:^|/)((?:attempts/[^/]+|artifacts)/.+)\Z", re.DOTALL)
_DECORATION = re.compile(
    r"\s*(?:\((?:truncated|parse_error|missing|preview|empty|[\d,.]+ ?(?:bytes|[kmg]i?b|lines|rows))\b.*|\[[^\]]*\]?|…|\.\.\.)\s*\Z",
    re.IGNORECASE | re.DOTALL,
)
_END_OF_NAME = re.compile(r"[\s\[\](){},;\"'`<>|]")
_EXTENSIONS = (
    "csv tsv json jsonl ndjson txt md rst html htm xml yaml yml toml ini log pdf docx xlsx xls pptx png jpg jpeg gif svg webp "
    "parquet arrow sqlite db sql py js ts tsx jsx css sh ipynb java go rs c h cpp rb php zip gz tar patch diff"
).split()
_EXTENSION = re.compile(
    rf"\.(?:{'|'.join(sorted(_EXTENSIONS, key=len, reverse=True))})(?=[:#\s\[\](){{}},;_])", re.IGNORECASE
)


class Resolution(NamedTuple):
    """What a text refers to.

    `how` is `exact`, `attempt` (relative to the attempt folder), `artifacts` (relative to its artifacts), `basename`
    (the only file of that name in the attempt) or `unresolved`. `candidates` lists the files of that name in the whole
    package when nothing was chosen.
    """

    ref: str | None
    how: str
    candidates: tuple[str, ...] = ()


def resolve(text: str, *, attempt: str | None, paths: Collection[str]) -> Resolution:
    """The file of the package that a text refers to; never a file of another attempt unless its path is spelled out.

    Args:
        text: A ref as recorded, perhaps decorated.
        attempt: Folder name of the attempt that speaks, if any.
        paths: Paths of the package, as `expcomp.io.files.walk` gives them; a set or a mapping.
    """
    names = dict.fromkeys(_readings(text))
    own = f"attempts/{attempt}/" if attempt else None
    for name in names:
        for how, ref in _places(name, own):
            if ref in paths and not is_hidden(ref):
                return Resolution(ref, how)
    by_name = _by_name(paths if isinstance(paths, frozenset) else frozenset(paths))
    candidates: dict[str, None] = {}
    for name in names:
        same = by_name.get(name.rpartition("/")[2], ())
        candidates.update(dict.fromkeys(same))
        elsewhere = name.startswith("attempts/") and not (own and name.startswith(own))
        if own is None or elsewhere:
            continue
        mine = [ref for ref in same if ref.startswith(own)]
        if len(mine) == 1:
            return Resolution(mine[0], "basename")
    return Resolution(None, "unresolved", tuple(candidates))


def _places(name: str, own: str | None) -> Iterator[tuple[str, str]]:
    yield "exact", name
    if own is not None:
        yield "attempt", own + name
        yield "artifacts", f"{own}artifacts/{name}"


def _readings(text: str) -> Iterator[str]:
    """Ways to read a text as a path, the most literal first."""
    raw = text.strip().strip("\"'`").strip()
    plain = _PREFIX.sub("", raw).strip("\"'` \t\r\n")
    bare = _DECORATION.sub("", plain)
    for reading in (raw, plain, bare):
        yield from _tails(reading)
    for found in _EXTENSION.finditer(bare):
        yield from _tails(bare[: found.end()])
    for tail in list(_tails(bare)):
        if cut := _END_OF_NAME.search(tail):
            yield from _tails(tail[: cut.start()])


def _tails(text: str) -> Iterator[str]:
    """A path, what follows `packages/<id>/` in it, and what starts at `attempts/` or `artifacts/`."""
    slashed = text.replace("\\", "/")
    parts = [slashed]
    parts += [found[1] for pattern in (_PACKAGE, _INSIDE) if (found := pattern.search(slashed))]
    for part in parts:
        ref = normalise(part)
        if ref:
            yield ref


@lru_cache(maxsize=16)
def _by_name(paths: frozenset[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for path in sorted(paths):
        if not is_hidden(path):
            found.setdefault(path.rpartition("/")[2], []).append(path)
    return {name: tuple(refs) for name, refs in found.items()}
