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
    from expcomp.config import CompileOptions
    from expcomp.datasets.build import write_datasets
    from expcomp.datasets.dataset import Dataset, dataset
    from expcomp.datasets.decontaminate.check import check_rows as check_contamination
    from expcomp.datasets.decontaminate.heldout import held_out
    from expcomp.datasets.options import DatasetOptions, Policy
    from expcomp.environments.build import EnvironmentBuild, build_environment, evaluate_environment
    from expcomp.environments.core import Environment, open_environment
    from expcomp.environments.exports.targets import export_environment
    from expcomp.environments.folder import open_package
    from expcomp.environments.package import EnvironmentPackage
    from expcomp.errors import ExpcompError
    from expcomp.io.engine import Engine
    from expcomp.ledger.store import Ledger
    from expcomp.packs.contracts.infer import infer_contracts
    from expcomp.packs.contracts.verify import verify_contract
    from expcomp.packs.pack import Packs, build_packs
    from expcomp.packs.search import PackIndex
    from expcomp.reports.report import Report, report
    from expcomp.reports.verify import verify
    from expcomp.sources._contract import ReadOptions
    from expcomp.sources.load import read_traces, scan_traces
    from expcomp.sources.rules import Rules, read_rules
    from expcomp.sources.traceset import TraceSet
    from expcomp.tables.models import model, validate
    from expcomp.training.cost_frames import cost_frame, cost_summary, read_costs
    from expcomp.training.costs import CostLedger
    from expcomp.training.deciding import decide
    from expcomp.training.exposure import ExposureIndex
    from expcomp.training.lineage import check_exposure
    from expcomp.training.policy import read_policy
    from expcomp.training.run.machine import resume_training, run_training
    from expcomp.training.run.spec import read_run
    from expcomp.training.run.verify import verify_job as verify_training

__all__ = [
    "Comparison",
    "Comparisons",
    "Compilation",
    "CompileOptions",
    "CostLedger",
    "Dataset",
    "DatasetOptions",
    "Engine",
    "Environment",
    "EnvironmentBuild",
    "EnvironmentPackage",
    "ExpcompError",
    "ExposureIndex",
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
    "build_environment",
    "build_packs",
    "check_contamination",
    "check_exposure",
    "compare",
    "compare_many",
    "compile",
    "compile_paths",
    "cost_frame",
    "cost_summary",
    "dataset",
    "decide",
    "evaluate_environment",
    "export_environment",
    "held_out",
    "infer_contracts",
    "model",
    "open_compilation",
    "open_environment",
    "open_package",
    "power",
    "read_costs",
    "read_policy",
    "read_rules",
    "read_run",
    "read_traces",
    "report",
    "resume_training",
    "run_training",
    "scan_traces",
    "solver_gap",
    "trials_of",
    "validate",
    "verify",
    "verify_contract",
    "verify_training",
    "write_datasets",
]

_HOMES = {
    "Comparison": "expcomp.comparing.comparison",
    "Comparisons": "expcomp.comparing.comparison",
    "Compilation": "expcomp.compiler.compilation",
    "CompileOptions": "expcomp.config",
    "CostLedger": "expcomp.training.costs",
    "Dataset": "expcomp.datasets.dataset",
    "DatasetOptions": "expcomp.datasets.options",
    "Engine": "expcomp.io.engine",
    "Environment": "expcomp.environments.core",
    "EnvironmentBuild": "expcomp.environments.build",
    "EnvironmentPackage": "expcomp.environments.package",
    "ExpcompError": "expcomp.errors",
    "ExposureIndex": "expcomp.training.exposure",
    "Ledger": "expcomp.ledger.store",
    "PackIndex": "expcomp.packs.search",
    "Packs": "expcomp.packs.pack",
    "Policy": "expcomp.datasets.options",
    "ReadOptions": "expcomp.sources._contract",
    "Report": "expcomp.reports.report",
    "Rules": "expcomp.sources.rules",
    "SolverGap": "expcomp.comparing.gap",
    "TraceSet": "expcomp.sources.traceset",
    "build_environment": "expcomp.environments.build",
    "build_packs": "expcomp.packs.pack",
    "check_contamination": "expcomp.datasets.decontaminate.check:check_rows",
    "check_exposure": "expcomp.training.lineage",
    "compare": "expcomp.comparing.compare",
    "compare_many": "expcomp.comparing.many",
    "compile": "expcomp.compiler.compilation",
    "compile_paths": "expcomp.compiler.build",
    "cost_frame": "expcomp.training.cost_frames",
    "cost_summary": "expcomp.training.cost_frames",
    "dataset": "expcomp.datasets.dataset",
    "decide": "expcomp.training.deciding",
    "evaluate_environment": "expcomp.environments.build",
    "export_environment": "expcomp.environments.exports.targets",
    "held_out": "expcomp.datasets.decontaminate.heldout",
    "infer_contracts": "expcomp.packs.contracts.infer",
    "model": "expcomp.tables.models",
    "open_compilation": "expcomp.compiler.compilation",
    "open_environment": "expcomp.environments.core",
    "open_package": "expcomp.environments.folder",
    "power": "expcomp.comparing.planning",
    "read_costs": "expcomp.training.cost_frames",
    "read_policy": "expcomp.training.policy",
    "read_rules": "expcomp.sources.rules",
    "read_run": "expcomp.training.run.spec",
    "read_traces": "expcomp.sources.load",
    "report": "expcomp.reports.report",
    "resume_training": "expcomp.training.run.machine",
    "run_training": "expcomp.training.run.machine",
    "scan_traces": "expcomp.sources.load",
    "solver_gap": "expcomp.comparing.gap",
    "trials_of": "expcomp.comparing.trials",
    "validate": "expcomp.tables.models",
    "verify": "expcomp.reports.verify",
    "verify_contract": "expcomp.packs.contracts.verify",
    "verify_training": "expcomp.training.run.verify:verify_job",
    "write_datasets": "expcomp.datasets.build",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        module, _, attribute = _HOMES[name].partition(":")
        value = getattr(importlib.import_module(module), attribute or name)
        globals()[name] = value
        return value
    msg = f"module 'expcomp' has no attribute '{name}'"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    return sorted(__all__)
