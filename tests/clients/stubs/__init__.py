"""Imports dataset classes of a trainer without the trainer's own heavy dependencies: packages without `__init__`, and stand-ins."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Union


def _named(holder, name: str):
    """A stand-in under this name, the same at every look."""
    if name.startswith("__"):
        raise AttributeError(name)
    members = {"__init__": lambda self, *a, **k: None, "__getattr__": _named}
    value = _Anything(name, (), members)
    setattr(holder, name, value)
    return value


class _Anything(type):
    """A class whose unknown attributes are stand-ins too, so that annotations, bases and defaults evaluate."""

    __getattr__ = _named

    def __getitem__(cls, _):
        return cls

    def __or__(cls, other):
        return Union[cls, other]  # noqa: UP007

    __ror__ = __or__

    def __add__(cls, other):
        return other

    __radd__ = __add__


class _StandIn(ModuleType):
    """A module in which every name exists and none does anything."""

    __getattr__ = _named


class _Finder(MetaPathFinder, Loader):
    """Finds the named modules, and all below them, as stand-ins."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names

    def find_spec(self, fullname, path=None, target=None):
        if any(fullname == n or fullname.startswith(f"{n}.") for n in self.names):
            return ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec):
        return _StandIn(spec.name)

    def exec_module(self, module) -> None:
        module.__path__ = []


@contextmanager
def trainer(folder: Path, *, bare: tuple[str, ...] = (), absent: tuple[str, ...] = ()) -> Iterator[None]:
    """Make the packages of `folder` importable for the time of the block.

    Args:
        folder: Made by install_trainers.sh.
        bare: Packages whose `__init__` is not run; their modules are found as usual. Parents first.
        absent: Modules that are stand-ins: what the dataset classes import and never call on text rows. Real ones win,
            unless they belong to the trainer itself.
    """
    tops = {n.split(".")[0] for n in bare}
    before = set(sys.modules)
    finder = _Finder(tuple(n for n in absent if n.split(".")[0] in tops or not _installed(n)))
    sys.path.append(str(folder))
    sys.meta_path.insert(0, finder)
    try:
        for name in bare:
            module = ModuleType(name)
            module.__path__ = [str(folder.joinpath(*name.split(".")))]
            sys.modules[name] = module
            parent, _, leaf = name.rpartition(".")
            if parent:
                setattr(sys.modules[parent], leaf, module)
        yield
    finally:
        sys.meta_path.remove(finder)
        sys.path.remove(str(folder))
        # Stand-ins must not be taken for the real thing by whoever asks next.
        gone = tops | {n.split(".")[0] for n in finder.names}
        for name in set(sys.modules) - before:
            if name.split(".")[0] in gone:
                del sys.modules[name]


def _installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False
