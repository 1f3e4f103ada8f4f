"""Which files of a trial folder are read: native sessions and set-up files are not, and their folders are not even listed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expcomp.sources._units import below, entries

if TYPE_CHECKING:
    from expcomp.sources._bytes import Place

RESULT = "result.json"
LOGS = {".log": "log", ".txt": "log", ".cast": "recording", ".patch": "patch", ".diff": "patch", ".png": "image"}
"""Suffixes of the files of an agent that are listed, each with its kind of artifact."""

_TOP = frozenset({RESULT, "exception.txt", "trial.log", "artifacts", "verifier"})
_LISTING = "manifest.json"
"""What Harbor writes about artifacts, in their folder; it is none."""


def wanted(trial: Place) -> list[tuple[str, Place]]:
    """Refs and paths of regular files in stable order; symlinks are never followed."""
    out: list[tuple[str, Place]] = []
    for name, kind in entries(trial):
        if kind == "file":
            if name in _TOP:
                out.append((name, below(trial, name)))
        elif kind == "folder":
            if name == "steps":
                _steps(below(trial, name), out)
            else:
                _part(below(trial, name), name, name, out)
    return out


def _steps(folder: Place, out: list[tuple[str, Place]]) -> None:
    """A step of a multi-step task has the folders that a trial has."""
    for step, kind in entries(folder):
        if kind == "folder":
            inside = below(folder, step)
            for name, what in entries(inside):
                if what == "folder":
                    _part(below(inside, name), name, f"steps/{step}/{name}", out)


def _part(folder: Place, name: str, prefix: str, out: list[tuple[str, Place]]) -> None:
    if name == "agent":
        for file, kind in entries(folder):
            if kind == "file" and (file.startswith("trajectory") or f".{file.rpartition('.')[2]}" in LOGS):
                out.append((f"{prefix}/{file}", below(folder, file)))
    elif name == "verifier":
        _all(folder, prefix, "", out)
    elif name == "artifacts":
        _all(folder, prefix, _LISTING, out)


def _all(folder: Place, prefix: str, left_out: str, out: list[tuple[str, Place]]) -> None:
    """All files at any depth, except those of one name."""
    for name, kind in entries(folder):
        if kind == "folder":
            _all(below(folder, name), f"{prefix}/{name}", left_out, out)
        elif kind == "file" and name != left_out:
            out.append((f"{prefix}/{name}", below(folder, name)))
