"""expcomp: an experience compiler. Finished agent work in, typed and gated training rows out.

Names are loaded when they are first used, so that importing the package and `--help` stay quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from expcomp.version import __version__

if TYPE_CHECKING:
    from expcomp.compiler.build import compile_paths
    from expcomp.compiler.compilation import Compilation, compile, open_compilation
    from expcomp.compiler.verify import verify
    from expcomp.config import CompileOptions
    from expcomp.datasets.build import write_datasets
    from expcomp.datasets.dataset import Dataset, dataset
    from expcomp.datasets.decontaminate.heldout import held_out
    from expcomp.datasets.options import DatasetOptions, Policy
    from expcomp.errors import ExpcompError
    from expcomp.ledger.store import Ledger
    from expcomp.sources._contract import ReadOptions
    from expcomp.sources.load import read_traces, scan_traces
    from expcomp.sources.rules import Rules, read_rules
    from expcomp.sources.traceset import TraceSet
    from expcomp.tables.models import model, validate

__all__ = [
    "Compilation",
    "CompileOptions",
    "Dataset",
    "DatasetOptions",
    "ExpcompError",
    "Ledger",
    "Policy",
    "ReadOptions",
    "Rules",
    "TraceSet",
    "__version__",
    "compile",
    "compile_paths",
    "dataset",
    "held_out",
    "model",
    "open_compilation",
    "read_rules",
    "read_traces",
    "scan_traces",
    "validate",
    "verify",
    "write_datasets",
]

_HOMES = {
    "Compilation": "expcomp.compiler.compilation",
    "CompileOptions": "expcomp.config",
    "Dataset": "expcomp.datasets.dataset",
    "DatasetOptions": "expcomp.datasets.options",
    "ExpcompError": "expcomp.errors",
    "Ledger": "expcomp.ledger.store",
    "Policy": "expcomp.datasets.options",
    "ReadOptions": "expcomp.sources._contract",
    "Rules": "expcomp.sources.rules",
    "TraceSet": "expcomp.sources.traceset",
    "compile": "expcomp.compiler.compilation",
    "compile_paths": "expcomp.compiler.build",
    "dataset": "expcomp.datasets.dataset",
    "held_out": "expcomp.datasets.decontaminate.heldout",
    "model": "expcomp.tables.models",
    "open_compilation": "expcomp.compiler.compilation",
    "read_rules": "expcomp.sources.rules",
    "read_traces": "expcomp.sources.load",
    "scan_traces": "expcomp.sources.load",
    "validate": "expcomp.tables.models",
    "verify": "expcomp.compiler.verify",
    "write_datasets": "expcomp.datasets.build",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
    msg = f"module 'expcomp' has no attribute '{name}'"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    return sorted(__all__)
