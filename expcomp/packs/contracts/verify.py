"""Verify a folder against an output contract."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.errors import SourceError
from expcomp.evidence.refs import is_hidden, problem
from expcomp.io.deliverables import LIMIT, Place, UnreadableFileError, read_whole
from expcomp.io.digest import PREFIX, sha256_hex
from expcomp.io.wording import worded
from expcomp.packs.contracts.derived import OPERATIONS, Finding, check_derived
from expcomp.packs.contracts.document import Contract, parse_contract, read_contract
from expcomp.packs.contracts.failures import COLUMNS, field_failures, file_failures
from expcomp.packs.contracts.formats import FORMATS
from expcomp.packs.contracts.kinds import FACTS
from expcomp.packs.contracts.listing import listing_failures
from expcomp.packs.contracts.measure import measure
from expcomp.packs.contracts.measured import Measured, failed
from expcomp.packs.contracts.places import find
from expcomp.packs.contracts.repair import repair_plan
from expcomp.packs.contracts.words import OUTPUTS_NAME
from expcomp.tables.contracts import CONTRACT_CHECKED, CONTRACT_FAILURES, CONTRACT_WARNINGS

if TYPE_CHECKING:
    from collections.abc import Mapping

SHOWN = 50
"""Failures, warnings and files in a document at the most; the counts beside them are of all."""
_LAST = 1000


@dataclass(frozen=True)
class Verification:
    """What a folder lacks of a contract.

    Attributes:
        verdict: `fail` with a failure; `uncertain` without one, when something could not be checked; else `pass`.
        failures: One line a fault, named by cause (table `contract_failures`).
        warnings: Requirements that were not decided (table `contract_warnings`).
        checked: Files that were looked at (table `contract_checked`).
        listing_ok: actual_outputs.json is a JSON object; null when there is none and none is asked for.
    """

    verdict: str
    failures: pl.DataFrame
    warnings: pl.DataFrame
    checked: pl.DataFrame
    listing_ok: bool | None

    def to_dict(self, *, limit: int = SHOWN) -> dict[str, Any]:
        """A JSON document with the repair plan; each list holds `limit` entries at the most, its count stands beside it."""
        failures, warnings, checked = (_entries(f.head(limit)) for f in (self.failures, self.warnings, self.checked))
        named = self.failures["path"].unique().sort().to_list()
        broken = [path for path in named if problem(path) is None and not is_hidden(path.lower())]
        sound = self.checked.filter(~pl.col("path").is_in(broken) & pl.col("exists"))["path"].unique().sort().to_list()
        return {
            "verdict": self.verdict,
            "contract_verification_passed": self.failures.is_empty(),
            "actual_outputs_json_ok": self.listing_ok,
            "failure_count": self.failures.height,
            "failures": failures,
            "semantic_warning_count": self.warnings.height,
            "semantic_warnings": warnings,
            "checked_count": self.checked.height,
            "checked": checked,
            "hidden_reference_used": False,
            "repair_plan": repair_plan(self.verdict, failures, broken, sound),
        }

    def __repr__(self) -> str:
        return (
            f"Verification({self.verdict}: {self.failures.height:,} failures, {self.warnings.height:,} requirements not decided, "
            f"{self.checked.height:,} files)"
        )

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>{self.failures._repr_html_()}"


def verify_contract(
    contract: Mapping[str, Any] | str | Path, folder: str | Path, *, max_bytes: int = LIMIT
) -> Verification:
    """Check the files of a folder against a contract. Nothing outside the folder is read, and no link is followed.

    Args:
        contract: The contract, or the JSON file that holds it.
        folder: What an attempt handed over: its files, right there or under `output/` or `artifacts/`, and actual_outputs.json.
        max_bytes: Larger files are reported as `file_too_large`, not read.

    Raises:
        ConfigError: The contract is none, or a key of it holds a value of another type.
        SourceError: The folder is none.
    """
    parsed = parse_contract(read_contract(Path(contract)) if isinstance(contract, str | Path) else contract)
    root = Path(folder)
    if not root.is_dir():
        msg = f"{folder}: no folder; expected the folder of an attempt"
        raise SourceError(msg)
    looked = _Looked(root, parsed, max_bytes)
    files = looked.files()
    of_files = file_failures(files)
    measured = files.join(
        of_files.filter(pl.col("group") == "file"), on="item", how="anti", maintain_order="left"
    ).filter((pl.col("state") == "file") & (pl.col("shape") != "opaque"))
    of_fields = field_failures(
        measured.select("item", "path", "kind", "family", "shape", "rows"), parsed.expectations, looked.facts()
    )
    of_list, listing_ok = listing_failures(root, files, needed=parsed.needs_listing)
    derived, unknown = _derived(looked, parsed, measured)
    failures = _combined(of_files, of_fields, of_list, derived, files)
    warnings = pl.concat([parsed.warnings, _unread(files, parsed), unknown]).unique(keep="first", maintain_order=True)
    verdict = "fail" if failures.height else "uncertain" if warnings.height else "pass"
    checked = files.with_columns(exists=pl.col("state") == "file").select(CONTRACT_CHECKED.schema.names())
    return Verification(verdict, failures, warnings, checked, listing_ok)


class _Looked:
    """The items of a contract with what stands at their places."""

    def __init__(self, root: Path, contract: Contract, limit: int) -> None:
        self.root, self.limit = root, limit
        self.items = contract.items
        self.bytes: dict[int, bytes] = {}
        self._read: dict[str, tuple[bytes | None, str | None, str | None]] = {}
        columns = ("item", "path", "format", "sheet", "delimiter", "encoding")
        wanted = dict(
            zip(*contract.expectations.group_by("item", maintain_order=True).agg("field").get_columns(), strict=True)
        )
        self.places: list[Place] = []
        self.digests: list[str | None] = []
        self.measured: list[Measured] = []
        for item, path, name, sheet, separator, encoding in zip(*(self.items[c] for c in columns), strict=True):
            place = find(root, path)
            data, digest, trouble = self._data(place)
            self.places.append(place)
            self.digests.append(digest)
            if encoding == "unknown" or name == "binary":
                self.measured.append(Measured())  # nothing is said of its content, so it need not be readable
            elif trouble is not None:
                self.measured.append(failed(*trouble.split(": ", 1)))
            elif not data:
                self.measured.append(Measured())
            else:
                self.bytes[item] = data
                fields = list(wanted.get(item, ()))
                self.measured.append(
                    measure(data, name, limit=limit, wanted=fields, separator=separator, sheet=sheet)[0]
                )

    def _data(self, place: Place) -> tuple[bytes | None, str | None, str | None]:
        """Bytes, digest and problem of a file; read once."""
        if place.state != "file" or place.path is None:
            return None, None, None
        if place.path not in self._read:
            size = place.bytes or 0
            if size > self.limit:
                self._read[place.path] = (
                    None,
                    None,
                    f"file_too_large: {size:,} bytes, more than the limit of {self.limit:,}",
                )
            else:
                try:
                    data = read_whole(self.root, place.path, limit=self.limit)
                    self._read[place.path] = data, PREFIX + sha256_hex(data), None
                except UnreadableFileError as error:
                    self._read[place.path] = None, None, f"unreadable_file: {error}"
        return self._read[place.path]

    def files(self) -> pl.DataFrame:
        """One line an item, with what was found."""
        families = {name: f.family for name, f in FORMATS.items()}
        return self.items.with_columns(
            family=pl.col("format").replace_strict(families, return_dtype=pl.String),
            state=pl.Series([p.state for p in self.places], dtype=pl.String),
            found_at=pl.Series([p.path if p.state == "file" else None for p in self.places], dtype=pl.String),
            bytes=pl.Series([p.bytes for p in self.places], dtype=pl.Int64),
            sha256=pl.Series(self.digests, dtype=pl.String),
            rows=pl.Series([m.rows for m in self.measured], dtype=pl.Int64),
            shape=pl.Series([m.shape for m in self.measured], dtype=pl.String),
            problem=pl.Series([m.problem for m in self.measured], dtype=pl.String),
            detail=pl.Series([m.detail for m in self.measured], dtype=pl.String),
        )

    def facts(self) -> pl.DataFrame:
        """Facts of all items."""
        parts = [
            m.facts.with_columns(item_number=pl.lit(n, dtype=pl.Int32))
            for n, m in zip(self.items["item"], self.measured, strict=True)
        ]
        empty = pl.DataFrame(schema={**FACTS, "item_number": pl.Int32()})
        return pl.concat([empty, *parts]).rename({"item": "item_right", "kind": "kind_right", "item_number": "item"})


def _derived(looked: _Looked, contract: Contract, measured: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Failures of derived values of the files that could be read, and the checks that nobody here knows."""
    sound = set(measured["item"].to_list())
    paths, kinds = contract.items["path"].to_list(), contract.items["kind"].to_list()
    finding, unknown = Finding(), []
    for item, check in contract.derived:
        if str(check.get("operation") or "").lower() not in OPERATIONS:
            unknown.append(
                (paths[item], kinds[item], f"derived value by {check.get('operation')}", "unknown_operation")
            )
        elif item in sound:
            check_derived(looked.root, item, paths[item], looked.bytes[item], check, looked.limit, finding)
    return finding.frame(), pl.DataFrame(unknown, schema=CONTRACT_WARNINGS.schema, orient="row")


def _unread(files: pl.DataFrame, contract: Contract) -> pl.DataFrame:
    """What is asked of files whose content is not measured here."""
    asked = contract.expectations.select("item").unique(maintain_order=True)
    opaque = files.filter((pl.col("state") == "file") & (pl.col("shape") == "opaque") & (pl.col("bytes") > 0))
    unread = opaque.filter(
        (pl.col("problem") == "not_checked")
        | pl.col("problem").is_null() & pl.col("item").is_in(asked["item"].implode())
    )
    return unread.select(
        "path",
        "kind",
        requirement=pl.coalesce("detail", worded("the content of a {} file", "format")),
        status=pl.lit("not_checked"),
    )


def _combined(
    of_files: pl.DataFrame, of_fields: pl.DataFrame, of_list: pl.DataFrame, derived: pl.DataFrame, files: pl.DataFrame
) -> pl.DataFrame:
    """All failures in the order of the contract, each fault once."""
    named = derived.join(files.select("item", "path", "kind"), on="item", how="left", maintain_order="left")
    lists = of_list.with_columns(pl.col("kind").cast(files.schema["kind"]))
    parts = [
        of_files.drop("group"),
        of_fields,
        named.with_columns(rank=pl.lit(_LAST)),
        lists.with_columns(item=pl.lit(_LAST * _LAST), rank=pl.lit(_LAST)),
    ]
    every = pl.concat([p.select(c for c in COLUMNS if c in p.columns) for p in parts], how="diagonal_relaxed")
    lost = pl.col("code").is_in(["missing_actual_outputs_json", "invalid_actual_outputs_json"]).any()
    about_list = pl.col("path").str.ends_with(OUTPUTS_NAME) & ~pl.col("code").str.ends_with("actual_outputs_json")
    issue = pl.when(pl.col("field").is_not_null()).then(pl.concat_str("code", pl.lit(":"), "field")).otherwise("code")
    return (
        every.filter(~(lost & about_list))
        .with_columns(issue=issue)
        .sort("item", "rank", maintain_order=True)
        .unique(["path", "issue"], keep="first", maintain_order=True)
        .select(CONTRACT_FAILURES.schema.names())
        .cast(CONTRACT_FAILURES.schema)
    )


def _entries(frame: pl.DataFrame) -> list[dict[str, Any]]:
    rows = frame.select(pl.struct(pl.all()).alias("row"))["row"].to_list()
    return [{k: v for k, v in row.items() if v is not None} for row in rows]
