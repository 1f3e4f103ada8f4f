"""All row families, in the order of their declarations. Adding one is an entry in `tables.families` and one builder here."""

from __future__ import annotations

from expcomp.rows.attempt_rows import ATTEMPT_FAMILIES
from expcomp.rows.failures import FAILURE_FAMILIES
from expcomp.rows.family import RowFamily
from expcomp.rows.groups import GROUP_FAMILIES
from expcomp.rows.loops import LOOP_FAMILIES
from expcomp.rows.pairs import PAIR_FAMILIES
from expcomp.rows.records import RECORD_FAMILIES
from expcomp.rows.step_rows import STEP_FAMILIES
from expcomp.tables.families import FAMILIES

_BUILT = {
    f.name: f
    for f in (
        *ATTEMPT_FAMILIES,
        *PAIR_FAMILIES,
        *GROUP_FAMILIES,
        *STEP_FAMILIES,
        *RECORD_FAMILIES,
        *FAILURE_FAMILIES,
        *LOOP_FAMILIES,
    )
}
ROW_FAMILIES: dict[str, RowFamily] = {f.name: _BUILT[f.name] for f in FAMILIES}
