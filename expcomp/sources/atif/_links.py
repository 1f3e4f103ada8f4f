"""Which trajectory of a load started, summarised or continues which: by reference; a shared id is none (R11)."""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from expcomp.sources._contract import Unit
from expcomp.sources._values import obj, text, whole
from expcomp.sources.atif._read import Trajectory

_SUMMARISER = re.compile(r"summari[sz]|compact|condens", re.IGNORECASE)
_CANONICAL = "trajectory.json"


@dataclass(slots=True)
class Document:
    """One trajectory, its place, and its place among the others."""

    unit: Unit
    doc: dict[str, Any]
    attempt_id: str
    digest: str
    relation: str
    trajectory: Trajectory
    embedded_in: Document | None = None
    parent: Document | None = None
    parent_call_id: str | None = None

    def ids(self) -> list[str]:
        """Native ids, the more exact one first."""
        found = [text(self.doc.get("trajectory_id")), text(self.doc.get("session_id"))]
        return [i for i in found if i]

    def root(self) -> Document:
        """The outermost document."""
        seen, at = {id(self)}, self
        while at.parent is not None and id(at.parent) not in seen:
            at = at.parent
            seen.add(id(at))
        return at


def first_relation(doc: dict[str, Any], *, embedded: bool) -> str:
    """Relation as far as the document itself tells."""
    agent = obj(doc.get("agent"))
    extra = obj(agent.get("extra"))
    if (whole(extra.get("continuation_index")) or 0) > 0:
        return "continuation"
    if embedded or text(extra.get("parent_session_id")):
        return "summariser" if _SUMMARISER.search(text(agent.get("name")) or "") else "subagent"
    return "root"


def link(documents: list[Document]) -> list[tuple[Document, str, str]]:
    """Set parents and relations; gives (document, code, detail) for references that lead nowhere or to several."""
    problems: list[tuple[Document, str, str]] = []
    by_id: dict[str, list[Document]] = defaultdict(list)
    by_path = {d.unit.package_id: d for d in documents if d.embedded_in is None}
    for document in documents:
        for native in dict.fromkeys(document.ids()):
            by_id[native].append(document)
    for document in documents:
        if document.embedded_in is not None:
            document.parent = document.embedded_in
        for ref in document.trajectory.refs:
            child = _follow(document, ref, by_id, by_path, problems)
            if child is not None and child is not document:
                child.parent = document
                child.parent_call_id = ref.get("call_id")
                child.relation = "summariser" if _SUMMARISER.search(str(ref)) else "subagent"
        path = text(document.doc.get("continued_trajectory_ref"))
        if path is not None:
            child = _by_path(document, path, by_path)
            if child is None:
                problems.append((document, "dangling_reference", f"the continuation {path} is not in this load"))
            elif child is not document:
                child.parent, child.relation = document, "continuation"
    shared = {native: found for native, found in by_id.items() if len(found) > 1}
    for native, found in shared.items():
        others = [d for d in found if d.relation == "root"]
        if len(others) > 1:
            detail = f"{len(others)} root trajectories of this load share the id {native}; kept apart by their files"
            problems.append((others[0], "duplicate_id", detail))
    return problems


def _follow(
    document: Document,
    ref: dict[str, Any],
    by_id: dict[str, list[Document]],
    by_path: dict[str, Document],
    problems: list[tuple[Document, str, str]],
) -> Document | None:
    natives = [i for i in (text(ref.get("trajectory_id")), text(ref.get("session_id"))) if i]
    for native in natives:
        found = [d for d in by_id.get(native, ()) if d is not document]
        if len(found) == 1:
            return found[0]
        if found and not text(ref.get("trajectory_path")):
            detail = f"the sub-agent id {native} belongs to {len(found)} trajectories of this load; not linked"
            problems.append((document, "ambiguous_reference", detail))
            return None
    path = text(ref.get("trajectory_path"))
    child = _by_path(document, path, by_path) if path else None
    if child is None:
        shown = path or ", ".join(natives) or "without id and path"
        problems.append((document, "dangling_reference", f"the sub-agent trajectory {shown} is not in this load"))
    return child


def _by_path(document: Document, path: str, by_path: dict[str, Document]) -> Document | None:
    """A sibling of that name, also behind the prefix that the file's own name has before `trajectory.json`."""
    folder, own = posixpath.split(document.unit.package_id)
    prefix = own.removesuffix(_CANONICAL) if own.endswith(_CANONICAL) else ""
    for name in (path, prefix + path):
        child = by_path.get(posixpath.normpath(posixpath.join(folder, name)))
        if child is not None:
            return child
    return None
