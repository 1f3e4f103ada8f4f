"""What the formats around SWE-bench share: instance ids, names of runs, patches."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from expcomp.io.digest import PREFIX, sha256_hex
from expcomp.sources._emit import verdict, voided
from expcomp.sources._values import amount

if TYPE_CHECKING:
    from pathlib import Path

    from expcomp.sources._contract import Batch
    from expcomp.sources._values import Score
    from expcomp.sources.errors_map import ErrorClass

GROUP = "swe"
"""Units of trajectories, reports and predictions belong to each other: any report may judge any trajectory."""

PATCH_LIMIT = 1 << 20
"""Patches up to this many characters are kept as text; a trained model or a vendored folder in a patch is not."""

_FAMILIES = (
    ("swe_smith", re.compile(r"(?P<owner>[^\s/]+?)__(?P<name>[^\s/]+)\.[0-9a-f]{8}(?:\.[^\s/]*)?")),
    ("github_issue", re.compile(r"(?P<owner>[^\s/]+?)__(?P<name>[^\s/]+)-i\d+")),
    ("swe_bench", re.compile(r"(?P<owner>[^\s/]+?)__(?P<name>[^\s/]+)-\d+")),
)
_ENDINGS = re.compile(r"(?:\.(?:gz|zst|json|jsonl|traj|pred|preds))+$")


def known_instance(name: str) -> bool:
    """Whether a name has the form of an instance id: `owner__name-number` and its relatives."""
    return any(form.fullmatch(name) for _, form in _FAMILIES)


def instance_task(instance: str, **more: Any) -> dict[str, Any]:
    """Row of `tasks` for an instance: the same id whether a trajectory or a report names it.

    The dataset is the family that the id's form shows, as no file names the split; the cluster is the repository. An id of another
    form has dataset `swe` and no domain.
    """
    for dataset, form in _FAMILIES:
        found = form.fullmatch(instance)
        if found is not None:
            owner, name = found["owner"], found["name"]
            return {
                "task_id": f"{dataset}/{owner}__{name}/{instance}",
                "dataset": dataset,
                "domain": f"{owner}__{name}",
                "native_id": instance,
                "cluster": f"{owner}/{name}",
                **more,
            }
    return {"task_id": f"swe/{instance}", "dataset": "swe", "native_id": instance, **more}


def stem(path: Path) -> str:
    """File name without the endings that say how it is stored."""
    return _ENDINGS.sub("", path.name)


def instance_of(path: Path) -> str | None:
    """Instance that a file is named after, when the name has the form of an id."""
    name = stem(path)
    return name if known_instance(name) else None


def run_of(path: Path, instance: str | None) -> str | None:
    """Run of a trajectory: the folder that holds the instance's folder or file; a file named otherwise is a run of its own."""
    if instance is not None and path.parent.name == instance:
        return path.parent.parent.name or None
    name = stem(path)
    return (path.parent.name or None) if name == instance else (name or None)


def add_patch(
    batch: Batch, ident: str, name: str, patch: str | None, uri: str | None = None, *, blank: bool = False
) -> None:
    """Add a patch as an artifact; a blank one is none, unless it stands in a file of its own."""
    if patch is None or (not blank and not patch.strip()):
        return
    raw = patch.encode("utf-8", "replace")
    batch.add(
        "artifacts",
        attempt_id=ident,
        kind="patch",
        name=name,
        uri=uri,
        mime="text/x-diff",
        bytes=len(raw),
        digest=PREFIX + sha256_hex(raw),
        content=patch if len(patch) <= PATCH_LIMIT else None,
    )


def ungraded(meaning: ErrorClass) -> Score | None:
    """Score of a trajectory: none was asked for, but where the end voids whatever a report may say it is no score at all (R1)."""
    return voided(verdict(passed=None), meaning.status) if meaning.voids_reward else None


def cost(value: Any) -> float | None:
    """Cost in dollars; 0 is what is written where nobody knows it."""
    return amount(value) or None
