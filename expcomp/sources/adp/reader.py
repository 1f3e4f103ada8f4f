"""ADP, the standard form of the Agent Data Protocol: rows of typed actions and observations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expcomp.io.digest import PREFIX, sha256_hex
from expcomp.sources._contract import Batch, Found, Frames, ReadOptions, Unit, attempt_id
from expcomp.sources._emit import add_attempt
from expcomp.sources._json import dump_json, load_rows
from expcomp.sources._units import file_unit, open_unit, report
from expcomp.sources._values import items, obj, redact, text
from expcomp.sources.adp._read import entry_class, read_entries
from expcomp.sources.verifiers._chat import add_images

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from expcomp.sources._chat import Row
    from expcomp.sources._look import Look

_MODELS = ("model", "model_name")
_AGENTS = ("agent", "agent_name")
_PATCHES = ("generated_patch", "model_patch", "git_patch", "patch")
_STOPS = ("exit_status", "exit_reason")
_MAPPED = frozenset({"id", "content", "details", "schema_version"})


class Adp:
    """Reader of ADP trajectories."""

    name = "adp"
    summary = "ADP standard form: JSON rows of {id, content[] of typed actions and observations, details}"
    carries = {  # noqa: RUF012 - read only, by contract of the protocol
        "system_prompt": "rarely, as an observation",
        "tools": "no",
        "reasoning": "newer files",
        "verdict": "no; a few labels as text in details",
        "trial": "no",
        "tokens": "no",
        "cost": "no",
        "times": "no",
        "token_ids": "no",
    }

    def claims_folder(self, folder: Path, names: frozenset[str]) -> bool:
        """Never: sets are files."""
        return False

    def claims_file(self, look: Look) -> bool:
        """Rows with `content[]` of objects whose `class_` ends in action or observation."""
        if look.kind not in ("object", "array") or "class_" not in look.at("content"):
            return False
        if not look.rows:
            return "id" in look.keys
        return any(entry_class(entry) is not None for row in look.rows for entry in items(row.get("content")))

    def units(self, path: Path, root: Path, found: Found) -> None:
        """One unit a file."""
        file_unit(self.name, path, root, found)

    def read(self, units: Sequence[Unit], options: ReadOptions) -> Frames:
        """Read sets of trajectories."""
        batch = Batch()
        for unit in units:
            opened = open_unit(batch, unit, options.max_file_bytes)
            if opened is None:
                continue
            data, digest = opened
            loaded = load_rows(data)
            report(batch, unit, loaded.problems)
            for pos, raw in loaded.rows:
                if isinstance(raw, dict) and "content" in raw:
                    _add(batch, unit, pos, raw, digest)
                    continue
                found = f"an object with {', '.join(sorted(raw)[:5])}" if isinstance(raw, dict) else type(raw).__name__
                detail = f"row {pos} is {found}, expected an object with id and content; left out"
                batch.diagnose(
                    "bad_row", detail, package_id=unit.package_id, source_uri=unit.package_id, source_pos=pos
                )
        return batch.frames()


def _add(batch: Batch, unit: Unit, pos: int, raw: Row, digest: str) -> None:
    ident = attempt_id(unit.format, unit.package_id, pos)
    transcript, images, left_out = read_entries(raw.get("content"))
    for note in transcript.notes:
        note.pos = pos
    if left_out:
        detail = f"{len(left_out)} entries are no action or observation ({', '.join(left_out[:3])}); left out"
        batch.diagnose(
            "bad_message",
            detail,
            package_id=unit.package_id,
            source_uri=unit.package_id,
            source_pos=pos,
            attempt_id=ident,
            field="content",
        )
    add_images(batch, ident, images)
    details = obj(raw.get("details"))
    model, agent, stop = (_first(details, keys) for keys in (_MODELS, _AGENTS, _STOPS))
    patch_key = next((k for k in _PATCHES if text(details.get(k))), None)
    if patch_key is not None:
        _patch(batch, ident, patch_key, details[patch_key])
    rest = {k: v for k, v in raw.items() if k not in _MAPPED and v is not None}
    if details:
        rest["details"] = {k: v for k, v in details.items() if k != patch_key}
    elif raw.get("details") not in (None, {}):
        rest["details"] = raw["details"]
    kept = redact(rest)
    version = raw.get("schema_version")
    native = raw.get("id")
    add_attempt(
        batch,
        unit,
        ident,
        transcript,
        native_attempt_id=None if native is None else str(native),
        trace_id=None if native is None else str(native),
        agent=agent,
        model=model,
        stop_reason=stop,
        status="unknown",
        source_version=version if isinstance(version, str) else None,
        source_digest=digest,
        source_pos=pos,
        metadata=dump_json(kept) if kept else None,
    )


def _first(details: Row, keys: Sequence[str]) -> str | None:
    return next((value for key in keys if (value := text(details.get(key)))), None)


def _patch(batch: Batch, ident: str, name: str, content: str) -> None:
    data = content.encode("utf-8", "replace")
    batch.add(
        "artifacts",
        attempt_id=ident,
        kind="patch",
        name=name,
        mime="text/x-diff",
        bytes=len(data),
        digest=PREFIX + sha256_hex(data),
        content=content,
    )


SOURCE = Adp()
