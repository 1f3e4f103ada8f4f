"""expcomp: an experience compiler. Finished agent work in, typed and gated training rows out.

Names are loaded when they are first used, so that importing the package and `--help` stay quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from expcomp.version import __version__

if TYPE_CHECKING:
    from expcomp.comparing.compare import compare
    from expcomp.comparing.comparison import Comparison, Comparisons
    from expcomp.comparing.gap import SolverGap, solver_gap
    from expcomp.comparing.many import compare_many
    from expcomp.comparing.planning import power
    from expcomp.comparing.trials import trials_of
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
    from expcomp.packs.pack import Packs, build_packs
    from expcomp.packs.search import PackIndex
    from expcomp.reports.report import Report, report
    from expcomp.sources._contract import ReadOptions
    from expcomp.sources.load import read_traces, scan_traces
    from expcomp.sources.rules import Rules, read_rules
    from expcomp.sources.traceset import TraceSet
    from expcomp.tables.models import model, validate

__all__ = [
    "Comparison",
    "Comparisons",
    "Compilation",
    "CompileOptions",
    "Dataset",
    "DatasetOptions",
    "ExpcompError",
    "Ledger",
    "PackIndex",
    "Packs",
    "Policy",
    "ReadOptions",
    "Report",
    "Rules",
    "SolverGap",
    "TraceSet",
    "__version__",
    "build_packs",
    "compare",
    "compare_many",
    "compile",
    "compile_paths",
    "dataset",
    "held_out",
    "model",
    "open_compilation",
    "power",
    "read_rules",
    "read_traces",
    "report",
    "scan_traces",
    "solver_gap",
    "trials_of",
    "validate",
    "verify",
    "write_datasets",
]

_HOMES = {
    "Comparison": "expcomp.comparing.comparison",
    "Comparisons": "expcomp.comparing.comparison",
    "Compilation": "expcomp.compiler.compilation",
    "CompileOptions": "expcomp.config",
    "Dataset": "expcomp.datasets.dataset",
    "DatasetOptions": "expcomp.datasets.options",
    "ExpcompError": "expcomp.errors",
    "Ledger": "expcomp.ledger.store",
    "PackIndex": "expcomp.packs.search",
    "Packs": "expcomp.packs.pack",
    "Policy": "expcomp.datasets.options",
    "ReadOptions": "expcomp.sources._contract",
    "Report": "expcomp.reports.report",
    "Rules": "expcomp.sources.rules",
    "SolverGap": "expcomp.comparing.gap",
    "TraceSet": "expcomp.sources.traceset",
    "build_packs": "expcomp.packs.pack",
    "compare": "expcomp.comparing.compare",
    "compare_many": "expcomp.comparing.many",
    "compile": "expcomp.compiler.compilation",
    "compile_paths": "expcomp.compiler.build",
    "dataset": "expcomp.datasets.dataset",
    "held_out": "expcomp.datasets.decontaminate.heldout",
    "model": "expcomp.tables.models",
    "open_compilation": "expcomp.compiler.compilation",
    "power": "expcomp.comparing.planning",
    "read_rules": "expcomp.sources.rules",
    "read_traces": "expcomp.sources.load",
    "report": "expcomp.reports.report",
    "scan_traces": "expcomp.sources.load",
    "solver_gap": "expcomp.comparing.gap",
    "trials_of": "expcomp.comparing.trials",
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
