"""actual_outputs.json of a folder: is it there, is it sound, does it name the files the contract asks for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from expcomp.evidence.resolve import resolve
from expcomp.io.deliverables import LIMIT, UnreadableFileError, first_of, read_whole
from expcomp.packs.contracts import words
from expcomp.packs.contracts.measured import Measured
from expcomp.packs.contracts.places import OUTPUT, candidates
from expcomp.packs.contracts.records import parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

_PLACES = (OUTPUT + words.OUTPUTS_NAME, words.OUTPUTS_NAME, "artifacts/" + words.OUTPUTS_NAME)
_KIND = re.compile(r"(?:^|/)attempts/([^/]+)/")


class Listing(NamedTuple):
    """The list of files an attempt gives. `problem` is a code when it is missing or no JSON object."""

    refs: tuple[str, ...]
    kind: str
    problem: str | None = None
    detail: str = ""


def read_listing(root: Path) -> Listing:
    """Read the list below a folder."""
    place = first_of(root, _PLACES)
    if place.path is None or place.state != "file":
        return Listing(
            (), "", "missing_actual_outputs_json", "nothing" if place.state == "absent" else "no regular file"
        )
    try:
        found = parse(read_whole(root, place.path, limit=LIMIT))
    except UnreadableFileError as error:
        return Listing((), "", "invalid_actual_outputs_json", str(error))
    if isinstance(found, Measured):
        return Listing((), "", "invalid_actual_outputs_json", found.detail or "no JSON")
    document = found[0]
    if not isinstance(document, dict):
        return Listing((), "", "invalid_actual_outputs_json", f"a JSON {type(document).__name__}")
    refs = tuple(dict.fromkeys(ref for key in words.LISTINGS for ref in _refs(document.get(key))))
    kinds = {m[1] for ref in refs if (m := _KIND.search(ref.replace("\\", "/")))}
    own = document.get("attempt_kind")
    kind = own if isinstance(own, str) and own else next(iter(kinds)) if len(kinds) == 1 else "this"
    return Listing(refs, kind)


def _refs(value: Any) -> Iterable[str]:
    for entry in value if isinstance(value, list) else [value]:
        names = [entry.get(k) for k in words.LISTED] if isinstance(entry, dict) else [entry]
        yield from (name for name in names if isinstance(name, str) and name.strip())


def listed(listing: Listing, paths: Sequence[str]) -> set[str]:
    """Which of the paths below the folder the list names; a bare name counts for the only file of that name."""
    own = f"attempts/{listing.kind}/"
    known = frozenset(own + path for path in paths)
    found: set[str] = set()
    for ref in listing.refs:
        for reading in dict.fromkeys((ref, ref.removeprefix("./").removeprefix(OUTPUT))):
            hit = resolve(reading, attempt=listing.kind, paths=known)
            if hit.ref is not None and (hit.how != "basename" or "/" not in reading.strip()):
                found.add(hit.ref.removeprefix(own))
    return found


def listing_failures(root: Path, files: pl.DataFrame, *, needed: bool) -> tuple[pl.DataFrame, bool | None]:
    """Failures of the list, as code, path, kind, field, expectation, found and hint; and whether the list is sound.

    Args:
        root: Folder.
        files: Items of the contract with `path`, `kind`, `required`, `state`, `found_at`, `declared`.
        needed: The list must be there and name the required files; else only what the contract declares of it is checked.
    """
    listing = read_listing(root)
    if listing.problem is not None:
        if not needed and listing.problem.startswith("missing"):
            return _frame([]), None
        hint = f"Write {words.OUTPUTS_NAME} as a JSON object that lists the files handed over."
        row = (
            listing.problem,
            words.OUTPUTS_NAME,
            "output",
            None,
            "a JSON object that lists files",
            listing.detail,
            hint,
        )
        return _frame([row]), False
    here = files.filter(
        pl.lit(needed)
        & (pl.col("state") == "file")
        & pl.col("required")
        & ~pl.col("path").str.ends_with(words.OUTPUTS_NAME)
    ).unique("path", keep="first", maintain_order=True)
    declared = (
        files.select("declared")
        .explode("declared", empty_as_null=False)
        .drop_nulls()
        .to_series()
        .unique(maintain_order=True)
    )
    if not listing.refs:
        if here.is_empty() and declared.is_empty():
            return _frame([]), True
        hint = f"List the files handed over in {words.OUTPUTS_NAME}, under files, files_created or deliverable_refs."
        row = (
            "actual_outputs_json_has_no_file_refs",
            words.OUTPUTS_NAME,
            "output",
            None,
            "a list of files",
            "none",
            hint,
        )
        return _frame([row]), True
    rows: list[tuple[str | None, ...]] = []
    named = listed(listing, here["found_at"].to_list())
    for path, kind, place in zip(here["path"], here["kind"], here["found_at"], strict=True):
        if place not in named:
            hint = f"List {path} in {words.OUTPUTS_NAME}."
            code = "actual_outputs_json_missing_required_file_ref"
            rows.append((code, path, kind, None, f"{words.OUTPUTS_NAME} names it", "it does not", hint))
    for path in declared:
        if not listed(listing, candidates(path)):
            hint = f"List {path} in {words.OUTPUTS_NAME}."
            code = "actual_outputs_json_missing_declared_file"
            rows.append((code, words.OUTPUTS_NAME, "output", path, f"{path} in its lists", "it is not there", hint))
    return _frame(rows), True


def _frame(rows: list[tuple[str | None, ...]]) -> pl.DataFrame:
    names = ("code", "path", "kind", "field", "expectation", "found", "repair_hint")
    return pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String()), orient="row")
