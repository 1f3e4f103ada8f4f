"""What the file system says of the sources of each cell."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from expcomp.compiler.plan import REST, cells
from expcomp.io.stat_digest import files_beside, now_ns, on_disk, stat_digest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from expcomp.sources._contract import Unit


def stat_cells(units: Sequence[Unit]) -> dict[str, str]:
    """Digest for each cell over its units and what the file system says of their files; "" where that is not to be relied on."""
    now = now_ns()
    return {cell: _digest(cell, own, now) for cell, own in cells(units).items()}


def _digest(cell: str, units: Sequence[Unit], now: int) -> str:
    paths = list(dict.fromkeys(on_disk(Path(str(unit.path))) for unit in units))
    if cell == REST:
        # Readers of single files look for reports and notes beside them.
        paths = list(dict.fromkeys([*paths, *files_beside(paths)]))
    seen = stat_digest(paths, now)
    if not seen:
        return ""
    names = "\n".join(f"{u.format}\x1f{u.package_id}\x1f{u.group}\x1f{u.span}" for u in units)
    return sha256(f"{seen}\n{names}".encode("utf-8", "surrogatepass")).hexdigest()
