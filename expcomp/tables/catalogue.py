"""Every public table: tables of a compile, row families, environment packages, what a dataset folder holds, what trainers read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expcomp.tables.contracts import CONTRACT_TABLES
from expcomp.tables.core import CORE
from expcomp.tables.datasets import DATASET_TABLES
from expcomp.tables.decontamination import DECONTAMINATION_TABLES
from expcomp.tables.environment import ENVIRONMENT_TABLES
from expcomp.tables.families import BY_NAME
from expcomp.tables.judge import JUDGE_TABLES
from expcomp.tables.ledger import LEDGER_TABLES
from expcomp.tables.packs import PACK_TABLES
from expcomp.tables.stats import STATS_TABLES
from expcomp.tables.targets import TARGETS
from expcomp.tables.training import TRAINING_TABLES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from expcomp.tables._spec import Table

CATALOGUE: Mapping[str, Mapping[str, Table]] = {
    "Tables": CORE,
    "Row families": {n: f.table for n, f in BY_NAME.items()},
    "Ledger": LEDGER_TABLES,
    "Comparisons": STATS_TABLES,
    "Environment packages": ENVIRONMENT_TABLES,
    "Packs": {**PACK_TABLES, **CONTRACT_TABLES, **JUDGE_TABLES},
    "Dataset folders": {**DATASET_TABLES, **DECONTAMINATION_TABLES},
    "Training": TRAINING_TABLES,
    "Dataset configs": {t.table.name: t.table for t in TARGETS.values()},
}
TABLES: dict[str, Table] = {n: t for group in CATALOGUE.values() for n, t in group.items()}
