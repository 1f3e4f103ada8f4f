"""The folder of a package: written in one step, read only when every file is listed and unchanged.

manifest.json                  settings, digests, every other file with its SHA-256
overview.md  rules/rules.md    for people
schema/actions.json  schema/state.json
tables/<table>.parquet         all of the content
validation/                    report, cases and step results of the replay; a promotion rests on them, a candidate says why not
index.sqlite                   search index, derived from the tables
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Any

import polars as pl

from expcomp.environments.cases import check_cases
from expcomp.environments.config import PackageConfig
from expcomp.environments.digests import artifact_digest, table_digests
from expcomp.environments.gates import require
from expcomp.environments.overview import overview, rules_text, state_fields, tool_schemas
from expcomp.environments.package import EnvironmentPackage
from expcomp.errors import (
    DestinationExistsError,
    EnvironmentPackageError,
    PackageIntegrityError,
    PackageSchemaError,
    SourceError,
    TableError,
)
from expcomp.io.canon import digest
from expcomp.io.digest import sha256_file
from expcomp.io.documents import read_json, write_json, write_text
from expcomp.io.files import listing
from expcomp.io.publish import publish
from expcomp.io.sinks import in_pieces, write_parquet
from expcomp.io.staging import subfolder
from expcomp.tables.digests import rules_digest, schema_digest
from expcomp.tables.environment import PACKAGE, REPLAY
from expcomp.tables.models import check_schema
from expcomp.version import __version__

KIND = "environment_package"
VERSION = "1"
MANIFEST, REPORT = "manifest.json", "validation/report.json"


def write_package(
    package: EnvironmentPackage,
    out: Path,
    *,
    force: bool = False,
    results: dict[str, pl.DataFrame] | None = None,
    report: dict[str, Any] | None = None,
) -> None:
    """Publish a package.

    Args:
        package: It has passed the gates.
        out: Folder.
        force: Replace an earlier output of expcomp.
        results: Tables of the replay: cases, steps and their results.
        report: Why it is a candidate; a promoted package brings its own.

    Raises:
        DestinationExistsError: `out` exists and may not be replaced.
        OutputError: It cannot be written.
    """
    require_free(out, force=force)
    require(package.frames, package.config)
    with publish(out, force=force) as staging:
        _write(package, staging, results or {}, report if package.validation is None else dict(package.validation))


def require_free(out: Path, *, force: bool) -> None:
    """Refuse a place that is taken before work is done for it.

    Raises:
        DestinationExistsError: `out` exists and `force` is not given.
    """
    if out.exists() and not force:
        raise DestinationExistsError(f"{out} exists; choose another folder, or --force to replace it")


def _write(
    package: EnvironmentPackage, staging: Path, results: dict[str, pl.DataFrame], report: dict[str, Any] | None
) -> None:
    for name in ("tables", "rules", "schema"):
        subfolder(staging / name)
    entries = []
    for name, table in PACKAGE.items():
        path = staging / "tables" / f"{name}.parquet"
        contract = {"schema_digest": schema_digest(table), "rules_digest": rules_digest(table)}
        rows = write_parquet(in_pieces(package[name]), path, contract)
        entries.append({"path": f"tables/{name}.parquet", "rows": rows, "digest": package.tables[name], **_file(path)})
    write_text(staging / "overview.md", overview(package))
    write_text(staging / "rules/rules.md", rules_text(package.frames))
    write_json(staging / "schema/actions.json", tool_schemas(package.frames))
    write_json(staging / "schema/state.json", state_fields(package.frames))
    if report is not None:
        beside = subfolder((staging / REPORT).parent)
        write_json(staging / REPORT, report)
        for name, frame in results.items():
            write_parquet(frame, beside / f"{name}.parquet", {})
    _index(package, staging / "index.sqlite")
    listed = {e["path"] for e in entries}
    others = [{"path": p, **_file(staging / p)} for p in listing(staging) if p not in listed]
    manifest = {
        "kind": KIND,
        "schema_version": VERSION,
        "expcomp_version": __version__,
        "environment_id": package.config.environment_id,
        "status": package.status,
        "artifact_digest": package.artifact_digest,
        "config_digest": package.config.digest(),
        "report_digest": None if package.validation is None else digest(dict(package.validation)),
        "config": package.config.to_dict(),
        "tables": entries,
        "documents": others,
    }
    write_json(staging / MANIFEST, manifest)


def _file(path: Path) -> dict[str, Any]:
    return {"bytes": path.stat().st_size, "sha256": sha256_file(path)}


def _index(package: EnvironmentPackage, path: Path) -> None:
    from expcomp.environments.search import write_index

    write_index(package.frames, path)


def open_package(folder: str | Path) -> EnvironmentPackage:
    """Open a package; every file is checked against the manifest first.

    Raises:
        PackageIntegrityError: A file is missing, changed, unlisted, a link, or outside the folder.
        SourceError: There is no readable manifest.
    """
    root = Path(folder)
    manifest = read_manifest(root)
    if problems := file_problems(root, manifest):
        raise PackageIntegrityError(
            f"{root}: {'; '.join(problems[:5])}" + (f" (and {len(problems) - 5} more)" if problems[5:] else "")
        )
    frames = {n: _parquet(root / "tables" / f"{n}.parquet", t.name) for n, t in PACKAGE.items()}
    config = PackageConfig.from_dict(manifest["config"])
    validation = read_json(root / REPORT) if manifest["report_digest"] is not None else None
    if manifest["report_digest"] is not None and not isinstance(validation, dict):
        raise PackageIntegrityError(f"{root}: {REPORT} is no JSON object")
    package = EnvironmentPackage(frames, config, validation, root)
    if problems := [*digest_problems(manifest), *validation_problems(package, manifest)]:
        raise PackageIntegrityError(f"{root}: {'; '.join(problems)}")
    return package


def is_package(folder: Path) -> bool:
    """Whether a folder says that it is an environment package."""
    path = folder / MANIFEST
    value = read_json(path) if path.is_file() else None
    return isinstance(value, dict) and value.get("kind") == KIND


def read_manifest(root: Path) -> dict[str, Any]:
    """The manifest of a package.

    Raises:
        SourceError: It is absent or no JSON.
        PackageIntegrityError: It is of something else, or lacks an entry.
    """
    if not (root / MANIFEST).is_file():
        raise SourceError(f"{root}: no {MANIFEST}; expected the folder of an environment package")
    value = read_json(root / MANIFEST)
    if not isinstance(value, dict) or value.get("kind") != KIND:
        raise PackageIntegrityError(f"{root}: {MANIFEST} is not that of an environment package")
    needed = (
        "schema_version",
        "status",
        "artifact_digest",
        "config_digest",
        "report_digest",
        "config",
        "tables",
        "documents",
    )
    if lacking := [n for n in needed if n not in value]:
        raise PackageIntegrityError(f"{root}: {MANIFEST} lacks {', '.join(lacking)}")
    if value["schema_version"] != VERSION:
        raise PackageIntegrityError(f"{root}: schema version {value['schema_version']!r}, this release reads {VERSION}")
    try:
        have = {str(e["path"]) for e in [*value["tables"], *value["documents"]] if str(e["sha256"])}
        [str(e["digest"]) for e in value["tables"]]
        PackageConfig.from_dict(value["config"])
    except PackageSchemaError as error:
        raise PackageIntegrityError(f"{root}: {MANIFEST}, {error}") from None
    except (KeyError, TypeError) as error:
        raise PackageIntegrityError(f"{root}: an entry of {MANIFEST} is not usable ({error!r})") from None
    if lacking := [n for n in PACKAGE if f"tables/{n}.parquet" not in have]:
        raise PackageIntegrityError(f"{root}: {MANIFEST} lists no table {', '.join(lacking)}")
    return value


def file_problems(root: Path, manifest: dict[str, Any]) -> list[str]:
    """Files that are missing, changed, unlisted, links, or outside the folder."""
    listed = {str(e["path"]): str(e["sha256"]) for e in [*manifest["tables"], *manifest["documents"]]}
    outside = [n for n in listed if PurePosixPath(n).is_absolute() or ".." in PurePosixPath(n).parts or "\\" in n]
    if outside:
        return [f"{n}: leads outside the package" for n in outside]
    there = set(listing(root)) - {MANIFEST}
    found = [f"{n}: listed in {MANIFEST}, but not there" for n in sorted(set(listed) - there)]
    found += [f"{n}: not listed in {MANIFEST}" for n in sorted(there - set(listed))]
    for name in sorted(set(listed) & there):
        path = root / name
        if path.is_symlink() or any(p.is_symlink() for p in path.parents if p != root and root in p.parents):
            found.append(f"{name}: is a link")
        elif sha256_file(path) != listed[name]:
            found.append(f"{name}: was changed")
    return found


def digest_problems(manifest: dict[str, Any]) -> list[str]:
    """Digests of the manifest that do not follow from its entries."""
    tables = {PurePosixPath(str(e["path"])).stem: str(e["digest"]) for e in manifest["tables"]}
    found = []
    if artifact_digest(tables) != manifest["artifact_digest"]:
        found.append(f"{MANIFEST}: artifact_digest is not that of its tables")
    if PackageConfig.from_dict(manifest["config"]).digest() != manifest["config_digest"]:
        found.append(f"{MANIFEST}: config_digest is not that of its config")
    return found


def validation_problems(package: EnvironmentPackage, manifest: dict[str, Any]) -> list[str]:
    """A status or a report that is not about this package."""
    found = (
        []
        if manifest["status"] == package.status
        else [f"{MANIFEST}: status {manifest['status']}, found {package.status}"]
    )
    report = package.validation
    if report is None:
        return found
    want = {k: manifest[k] for k in ("artifact_digest", "config_digest")}
    found += [f"{REPORT}: {k} is not that of the package" for k, v in want.items() if report.get(k) != v]
    if digest(dict(report)) != manifest["report_digest"]:
        found.append(f"{REPORT}: is not the report that {MANIFEST} names")
    if report.get("eligible") is not True:
        found.append(f"{REPORT}: says the package is not eligible")
    return found


def _parquet(path: Path, table: str) -> pl.DataFrame:
    try:
        frame = pl.read_parquet(path, glob=False)
        check_schema(table, frame)
    except (OSError, pl.exceptions.PolarsError, TableError) as error:
        raise PackageIntegrityError(f"{path}: {str(error).partition(chr(10))[0]}") from None
    return frame


def read_replay(package: EnvironmentPackage) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Cases and their steps that a build or a promotion left beside the tables; empty frames when there was none.

    Raises:
        PackageIntegrityError: They do not hold to their tables.
    """
    names = ("replay_cases", "replay_steps")
    if package.folder is None or not (package.folder / "validation" / f"{names[0]}.parquet").is_file():
        return REPLAY[names[0]].empty(), REPLAY[names[1]].empty()
    cases, steps = (_parquet(package.folder / "validation" / f"{n}.parquet", REPLAY[n].name) for n in names)
    try:
        check_cases(cases, steps)
    except PackageSchemaError as error:
        raise PackageIntegrityError(f"{package.folder}: validation, {error}") from None
    return cases, steps


def read_report(package: EnvironmentPackage) -> dict[str, Any]:
    """The report that a build or a promotion left, also with a candidate; empty when there is none."""
    if package.validation is not None:
        return dict(package.validation)
    path = None if package.folder is None else package.folder / REPORT
    return dict(read_json(path)) if path is not None and path.is_file() else {}


def verify_package(folder: str | Path) -> list[str]:
    """Everything that is wrong with a package folder: files, digests recomputed from the rows, gates.

    Raises:
        SourceError: There is no readable manifest.
    """
    root = Path(folder)
    try:
        manifest = read_manifest(root)
    except PackageIntegrityError as error:
        return [str(error)]
    if found := file_problems(root, manifest):
        return found
    try:
        package = open_package(root)
        require(package.frames, package.config)
        read_replay(package)
    except EnvironmentPackageError as error:
        return [str(error)]
    said = {PurePosixPath(str(e["path"])).stem: str(e["digest"]) for e in manifest["tables"]}
    now = table_digests(package.frames)
    return [f"tables/{n}.parquet: its rows are not those of the digest" for n in PACKAGE if now[n] != said[n]]
