"""Names the rules of a pack can give, so that a misspelt one is an error and not a check that never finds anything."""

from __future__ import annotations

import re
from itertools import product
from typing import TYPE_CHECKING

from expcomp.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from expcomp.ledger.pack import Pack

_PLACE = re.compile(r"\{(\w+)\}")
_RESEARCH, _REPAIR = "research_suffix", "repair_suffix"


def decision_names(pack: Pack) -> list[str]:
    """Every decision the rules of a pack can give, sorted."""
    spec = pack.data("decisions")
    found = {r["then"] for r in spec["rules"] if isinstance(r.get("then"), str)}
    for rule in spec["rules"]:
        if (template := spec["format"].get(rule.get("take"))) is not None:
            found.update(_filled(template, spec))
    return sorted(found)


def check_decisions(names: Iterable[str], pack: Pack) -> None:
    """Refuse names no rule gives.

    Raises:
        UsageError: There is one.
    """
    known = decision_names(pack)
    for name in names:
        if name not in known:
            raise UsageError(f"no rule of profile {pack.profile} gives decision {name!r}; there are {', '.join(known)}")


def _filled(template: str, spec: Mapping[str, Any]) -> Iterator[str]:
    places = _PLACE.findall(template)
    tables = [sorted({*spec[_RESEARCH if p == _RESEARCH else _REPAIR].values()}) for p in places]
    return (template.format(**dict(zip(places, values, strict=True))) for values in product(*tables))
