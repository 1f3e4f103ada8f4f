"""The trace2env layout, schema version 1.1, out and in.

What the layout has no word for (counts, held-out figures, computed effects, unknown values) stands beside it in
`construction/expcomp/`: the columns, and only those, that reading the layout would not give back. A package of another writer has no such
folder, and is read as it is.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from expcomp.environments.digests import ordered
from expcomp.environments.exports import trace2env_in, trace2env_out
from expcomp.environments.exports.case_lines import json_lines
from expcomp.environments.exports.texts import unique_names
from expcomp.environments.exports.trace2env_config import config_document, read_config
from expcomp.environments.exports.trace2env_index import write_layout_index
from expcomp.environments.exports.trace2env_limits import inexpressible
from expcomp.environments.folder import file_problems
from expcomp.environments.frames import frame
from expcomp.environments.package import EnvironmentPackage, compile_package
from expcomp.environments.reader import eligible_rules
from expcomp.errors import PackageIntegrityError, PackageSchemaError
from expcomp.io.digest import PREFIX, sha256_file
from expcomp.io.documents import json_document, read_json, write_json
from expcomp.io.files import listing
from expcomp.io.frame_files import read_frame
from expcomp.io.sinks import write_parquet
from expcomp.io.staging import subfolder
from expcomp.io.text_files import write_texts
from expcomp.tables.environment import PACKAGE

VERSION = "1.1"
BESIDE = "construction/expcomp"
MANIFEST = "manifest.json"


def write_layout(package: EnvironmentPackage, staging: Path) -> None:
    """Write the layout into a folder that is there."""
    skip = inexpressible(package.frames)
    artifacts = trace2env_out.documents(package.frames, skip)
    settings = config_document(package.config)
    runs = set(eligible_rules(package)["rule_id"])
    executable = [d for d in artifacts["rules"] if d["id"] in runs]
    write_texts(staging, _files(package, artifacts, settings, executable))
    write_layout_index(artifacts, executable, staging / "index.sqlite")
    beside = staging / BESIDE
    left = lost(package.frames, trace2env_in.tables(artifacts))
    for name, columns in left.items():
        write_parquet(columns, subfolder(beside) / f"{name}.parquet", {})
    if read_config(settings) != package.config:
        write_json(subfolder(beside) / "config.json", package.config.to_dict())
    files = {p: sha256_file(staging / p).removeprefix(PREFIX) for p in listing(staging)}
    write_json(staging / MANIFEST, _manifest(package, artifacts, settings, files))


def read_layout(folder: str | Path) -> EnvironmentPackage:
    """Read the layout as a candidate; what its replay said is not taken over.

    Raises:
        SourceError: There is no readable manifest or document.
        PackageIntegrityError: A file is missing, changed, unlisted or outside the folder.
        EnvironmentPackageError: The gate that refuses the tables.
    """
    root = Path(folder)
    manifest = read_json(root / MANIFEST)
    listed = manifest.get("files") if isinstance(manifest, Mapping) else None
    if not isinstance(listed, Mapping) or str(manifest.get("schema_version", "")).partition(".")[0] != "1":
        raise PackageIntegrityError(f"{root}: {MANIFEST} is not that of a trace2env package of schema version 1")
    entries = [{"path": p, "sha256": PREFIX + str(digest)} for p, digest in listed.items()]
    if problems := file_problems(root, {"tables": [], "documents": entries}):
        raise PackageIntegrityError(f"{root}: {'; '.join(problems[:5])}")
    artifacts, settings = (read_json(root / "construction" / f"{n}.json") for n in ("artifacts", "config"))
    if not isinstance(artifacts, Mapping) or not isinstance(settings, Mapping):
        raise PackageSchemaError(f"{root}: construction/artifacts.json and config.json: expected objects")
    frames = trace2env_in.tables(artifacts)
    config = read_config(settings)
    if (root / BESIDE).is_dir():
        frames = {n: restored(n, f, root / BESIDE / f"{n}.parquet") for n, f in frames.items()}
        if (root / BESIDE / "config.json").is_file():
            config = type(config).from_dict(read_json(root / BESIDE / "config.json"))
    else:
        frames["unresolved"] = _told(frames["unresolved"])
    return compile_package(frames, config)


def _told(unresolved: pl.DataFrame) -> pl.DataFrame:
    """The open points, and that nobody measured what another writer states."""
    line = {
        "ordinal": unresolved.height,
        "stage": "layout",
        "message": "confidences of rules, facts, notes and evidence are as the layout states them, not measured",
    }
    return pl.concat([unresolved, frame("unresolved", [line])])


def lost(have: Mapping[str, pl.DataFrame], given_back: Mapping[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """What reading does not give back, by table: key and differing columns; the whole table where rows differ or have no key."""
    found = {}
    for name, table in PACKAGE.items():
        mine, theirs = ordered(name, have[name]), ordered(name, given_back[name])
        if mine.equals(theirs):
            continue
        keys = list(table.keys)
        if not keys or not mine.select(keys).equals(theirs.select(keys)):
            found[name] = mine
            continue
        found[name] = mine.select(*keys, *(c for c in mine.columns if c not in keys and not mine[c].equals(theirs[c])))
    return found


def restored(name: str, frame: pl.DataFrame, path: Path) -> pl.DataFrame:
    """A table with the columns that stand beside the layout.

    Raises:
        PackageIntegrityError: They are not of this table.
    """
    if not path.is_file():
        return frame
    schema = PACKAGE[name].schema
    try:
        beside = read_frame(path)
        kept = [c for c in schema.names() if c not in beside.columns]
        if kept:
            beside = beside.join(
                frame.select(*PACKAGE[name].keys, *kept),
                on=PACKAGE[name].keys,
                how="inner",
                maintain_order="left",
                validate="1:1",
            )
        return beside.select(schema.names()).cast(schema)
    except pl.exceptions.PolarsError as error:
        told = str(error).partition("\n")[0]
        raise PackageIntegrityError(f"{path}: not the columns of the table {name} ({told})") from None


def _files(
    package: EnvironmentPackage,
    a: Mapping[str, Any],
    settings: Mapping[str, Any],
    executable: list[dict[str, Any]],
) -> Iterator[tuple[str, str]]:
    yield "construction/artifacts.json", json_document(a)
    yield "construction/config.json", json_document(settings)
    yield "candidates/rules.jsonl", json_lines(a["rules"])
    yield "evidence/episodes.jsonl", json_lines(a["episodes"])
    yield "evidence/transitions.jsonl", json_lines(a["transitions"])
    yield "evidence/local_transitions.jsonl", json_lines(a["evidence"])
    yield "evidence/sources.json", json_document(a["source_snapshots"])
    yield "overview.md", _overview(package, len(executable))
    yield "action_schema.json", json_document(a["action_schema"])
    yield "state_schema.json", json_document(a["state_schema"])
    yield "invariants.json", json_document(a["invariants"])
    yield "rules/index.jsonl", json_lines(executable)
    yield "demonstrations/transitions.jsonl", json_lines(a["demonstrations"])
    yield "knowledge/notes.jsonl", json_lines(a["notes"])
    yield "renderer/contracts.json", json_document(a["renderers"])
    yield "exceptions/unresolved.json", json_document(a["unresolved"])
    yield "exceptions/rejected.json", json_document(a["rejected"])
    shards: dict[str, list[dict[str, Any]]] = {}
    for d in executable:
        shards.setdefault(d["action_type"], []).append(d)
    names = unique_names(sorted(shards), shard_name)
    for action, rules in sorted(shards.items()):
        yield f"rules/by_action/{names[action]}.jsonl", json_lines(rules)


def shard_name(action: str) -> str:
    """File name of an action's rules."""
    return re.sub(r"[^a-zA-Z0-9_.-]+", "_", action).strip("_") or "unknown"


def _overview(package: EnvironmentPackage, runs: int) -> str:
    config = package.config
    return (
        f"# {config.name or config.environment_id}\n\n"
        f"Environment `{config.environment_id}`, {config.construction_kind}, written by expcomp.\n\n"
        f"{package['episodes'].height:,} episodes, {package['transitions'].height:,} transitions, {runs:,} rules that run.\n"
    )


def _manifest(
    package: EnvironmentPackage, a: Mapping[str, Any], settings: Mapping[str, Any], files: Mapping[str, str]
) -> dict[str, Any]:
    config = package.config
    return {
        "schema_version": VERSION,
        "environment_id": config.environment_id,
        "name": settings["name"],
        "description": settings["description"],
        "domains": settings["domains"],
        "source_count": package["episodes"].height,
        "transition_count": package["transitions"].height,
        "files": dict(sorted(files.items())),
        "metadata": {
            "compiler": "expcomp",
            "reconstruction_model": settings["model"],
            "tenant_scope": config.tenant,
            "unresolved_count": package["unresolved"].height,
            "scope_context": config.scope_values(),
            "min_rule_confidence": config.min_rule_confidence,
            "construction_kind": config.construction_kind,
            "artifact_digest": _canonical_digest(a),
            "config_digest": _canonical_digest(settings),
            # Its own replay has not seen the package.
            "validation_status": "authored" if config.construction_kind == "authored" else "candidate",
            "expcomp_artifact_digest": package.artifact_digest,
        },
    }


def _canonical_digest(value: Mapping[str, Any]) -> str:
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
