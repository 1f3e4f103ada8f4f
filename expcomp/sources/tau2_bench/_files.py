"""Files of tau2-bench: which they are, and the header, tasks and simulations they hold, whatever the layout."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from expcomp.io.digest import PREFIX, sha256_hex
from expcomp.sources._bytes import UnreadableError, read_bytes, read_head
from expcomp.sources._json import canonical, load_json
from expcomp.sources._look import Look
from expcomp.sources._units import add_evidence, open_unit, report
from expcomp.sources._values import items, obj, text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from expcomp.sources._contract import Batch, ReadOptions, Unit

HEADER = "results.json"
FOLDER = "simulations"
_SIDES = {"agent_info", "user_info", "environment_info"}
_OUTCOME = {"reward_info", "termination_reason", "messages", "ticks"}
_DOMAIN = re.compile(rb'"domain_name"\s*:\s*"([^"\\]{1,80})"')
_CRITERIA = ("user_scenario", "ticket", "initial_state", "evaluation_criteria")


@dataclass(slots=True)
class Simulation:
    """One simulation, and where it lies.

    Attributes:
        raw: The object; for an entry of the index only what the index says.
        pos: Position in the file, or among the files of the folder.
        key: What tells it apart inside the unit.
        ref: File below the unit's package.
        uri: File below the load root.
        digest: Digest of that file.
        indexed: Whether only the index of the folder layout knows it.
    """

    raw: dict[str, Any]
    pos: int
    key: str
    ref: str
    uri: str
    digest: str | None
    indexed: bool = False


@dataclass(slots=True)
class Document:
    """What all simulations of a unit have in common."""

    unit: Unit
    info: dict[str, Any]
    tasks: dict[str, dict[str, Any]]
    header: dict[str, Any] = field(default_factory=dict)

    @property
    def domain(self) -> str | None:
        """Domain, from the header."""
        return text(obj(self.info.get("environment_info")).get("domain_name"))

    def task_id(self, native: str) -> str:
        """`tau2_bench/<domain>/<native id>`; without a domain the file's own name space."""
        return f"tau2_bench/{self.domain or 'unknown'}/{native}"


def claims(look: Look) -> bool:
    """Whether a file is a results file, or one simulation of the folder layout."""
    keys, info = look.keys, look.at("info")
    if "simulations" in keys or "simulation_index" in keys:
        inside = look.at("simulations")
        return bool(inside & _OUTCOME) or len(info & _SIDES) > 1 or ("tasks" in keys and not inside)
    if "info" in keys and len(info & _SIDES) > 1:
        return True
    return "termination_reason" in keys and len(keys & _OUTCOME) > 1 and "task_id" in keys


def claims_folder(folder: Path, names: frozenset[str]) -> bool:
    """Whether a folder is of the 2026 layout: a header file beside a folder of simulations."""
    if not {HEADER, FOLDER} <= names or not (folder / FOLDER).is_dir():
        return False
    try:
        return claims(Look(folder / HEADER, read_head(folder / HEADER)))
    except (UnreadableError, OSError):
        return False


def domain_of(path: Path) -> str | None:
    """Domain as the first bytes of a results file name it."""
    try:
        found = _DOMAIN.search(read_head(path))
    except UnreadableError:
        return None
    return found.group(1).decode("utf-8", "replace") if found else None


def native_id(value: Any) -> str | None:
    """Task id as text; older files write numbers."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    return str(value)


def task_digest(task: dict[str, Any]) -> str:
    """Digest of what makes a task: keys that are null count as absent, since versions differ in them."""
    return PREFIX + sha256_hex(canonical(_filled({k: task.get(k) for k in _CRITERIA})))


def _filled(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _filled(v) for k, v in value.items() if v is not None}
    return [_filled(v) for v in value] if isinstance(value, list) else value


def read_document(batch: Batch, unit: Unit, options: ReadOptions) -> tuple[Document, list[Simulation]] | None:
    """Header, tasks and simulations of a unit; None, with a diagnostic, when there is nothing to read."""
    if unit.path.is_dir():
        return _read_folder(batch, unit, options)
    opened = open_unit(batch, unit, options.max_file_bytes)
    if opened is None:
        return None
    document, problems = load_json(opened[0])
    report(batch, unit, problems)
    name = unit.path.name
    if isinstance(document, dict) and "simulations" not in document and _OUTCOME & document.keys():
        return Document(unit, {}, {}), [Simulation(document, 0, "0", name, unit.package_id, opened[1])]
    if not isinstance(document, dict):
        if not any(p.severity == "error" for p in problems):
            _tell(batch, unit, "bad_row", f"expected an object with simulations, found {type(document).__name__}")
        return None
    head = _document(batch, unit, document)
    rows = document.get("simulations")
    if not isinstance(rows, list | None):
        detail = f"simulations is {type(rows).__name__}, expected a list; read as empty"
        _tell(batch, unit, "bad_row", detail)
    found = [
        Simulation(raw, pos, str(pos), name, unit.package_id, opened[1])
        for pos, raw in _objects(batch, unit, items(rows), "simulation")
    ]
    if not found:
        found = _indexed(batch, head, document, set(), name, opened[1])
    return head, found


def _read_folder(batch: Batch, unit: Unit, options: ReadOptions) -> tuple[Document, list[Simulation]] | None:
    document, digest = _file(batch, unit, unit.path / HEADER, options)
    head = _document(batch, unit, obj(document))
    found = []
    try:
        paths = sorted((unit.path / FOLDER).iterdir())
    except OSError as error:
        _tell(batch, unit, "unreadable", f"cannot list {FOLDER}: {error.strerror}")
        paths = []
    for pos, path in enumerate(paths):
        if path.is_dir() or path.is_symlink() or path.name.startswith("."):
            continue
        raw, own = _file(batch, unit, path, options)
        ref = f"{FOLDER}/{path.name}"
        if isinstance(raw, dict):
            found.append(Simulation(raw, pos, path.name, ref, f"{unit.package_id}/{ref}", own))
        elif raw is not None:
            detail = f"{ref} holds {type(raw).__name__}, expected a simulation; left out"
            _tell(batch, unit, "bad_row", detail, uri=f"{unit.package_id}/{ref}", pos=pos)
    seen = {text(s.raw.get("id")) or "" for s in found} | {s.key.removesuffix(".json") for s in found}
    return head, found + _indexed(batch, head, obj(document), seen, HEADER, digest)


def _indexed(
    batch: Batch, head: Document, document: dict[str, Any], seen: set[str], ref: str, digest: str | None
) -> list[Simulation]:
    """Simulations that the index lists and no file holds: an outcome without a transcript."""
    unit = head.unit
    uri = f"{unit.package_id}/{ref}" if unit.path.is_dir() else unit.package_id
    out = []
    index = document.get("simulation_index")
    if not isinstance(index, list | None):
        detail = f"simulation_index is {type(index).__name__}, expected a list; read as empty"
        _tell(batch, unit, "bad_row", detail, uri=uri)
    for pos, raw in _objects(batch, unit, items(index), "entry of the index"):
        if text(raw.get("id")) in seen:
            continue
        out.append(Simulation(raw, pos, f"index/{pos}", ref, uri, digest, indexed=True))
    if out:
        detail = f"{len(out)} simulations are in the index only; they are loaded without transcript and checks"
        _tell(batch, unit, "missing_file", detail, uri=uri)
    return out


def _file(batch: Batch, unit: Unit, path: Path, options: ReadOptions) -> tuple[Any, str | None]:
    ref = path.relative_to(unit.path).as_posix()
    uri = f"{unit.package_id}/{ref}"
    try:
        data, raw = read_bytes(path, options.max_file_bytes)
    except UnreadableError as error:
        batch.diagnose(error.code, error.detail, package_id=unit.package_id, source_uri=uri, severity="error")
        return None, None
    digest = PREFIX + sha256_hex(raw)
    add_evidence(batch, unit.package_id, ref, "trace", size=len(raw), digest=digest)
    document, problems = load_json(data)
    report(batch, unit, problems, uri)
    return document, digest


def _document(batch: Batch, unit: Unit, document: dict[str, Any]) -> Document:
    tasks: dict[str, dict[str, Any]] = {}
    for pos, task in _objects(batch, unit, items(document.get("tasks")), "task"):
        native = native_id(task.get("id"))
        if native is None:
            _tell(batch, unit, "missing_task_id", f"task {pos} has no id; left out", pos=pos)
        else:
            tasks.setdefault(native, task)
    return Document(unit, obj(document.get("info")), tasks, document)


def _objects(batch: Batch, unit: Unit, rows: list[Any], what: str) -> Iterator[tuple[int, dict[str, Any]]]:
    for pos, raw in enumerate(rows):
        if isinstance(raw, dict):
            yield pos, raw
        else:
            detail = f"{what} {pos} is {type(raw).__name__}, expected an object; left out"
            _tell(batch, unit, "bad_row", detail, pos=pos)


def _tell(batch: Batch, unit: Unit, code: str, detail: str, *, uri: str | None = None, pos: int | None = None) -> None:
    batch.diagnose(code, detail, package_id=unit.package_id, source_uri=uri or unit.package_id, source_pos=pos)
