"""Read a contract, ours or a peer's, into items, expectations of fields, and requirements that no check decides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson
import polars as pl

from expcomp.errors import ConfigError
from expcomp.io.deliverables import UnreadableFileError
from expcomp.io.files import read_fast
from expcomp.packs.contracts import words
from expcomp.packs.contracts.formats import ALIASES, FORMATS, format_of
from expcomp.packs.contracts.kinds import CELLS, EMPTY, KIND, KINDS, LEVEL, NUMERIC, TYPES, WORDS
from expcomp.tables.contracts import CONTRACT_WARNINGS, LIST

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

LIMIT = 64 << 20
ITEM = pl.Schema(
    {
        "item": pl.Int32(),
        "kind": LIST,
        "required": pl.Boolean(),
        "path": pl.String(),
        "format": pl.String(),
        "sheet": pl.String(),
        "delimiter": pl.String(),
        "root_type": pl.String(),
        "encoding": pl.String(),
        "min_bytes": pl.Int64(),
        "min_rows": pl.Int64(),
        "max_rows": pl.Int64(),
        "row_count": pl.Int64(),
        "rows_optional": pl.Boolean(),
        "declared": pl.List(pl.String()),
    }
)
EXPECTATION = pl.Schema(
    {
        "item": pl.Int32(),
        "check": pl.String(),
        "level": LEVEL,
        "field": pl.String(),
        "type": pl.String(),
        "accepts": pl.List(KIND),
    }
)
_NOT_ABSENT = tuple(k for k in KINDS if k != "absent")


@dataclass(frozen=True)
class Contract:
    """A contract as frames.

    Attributes:
        items: One line a file (or sheet) it names (`ITEM`).
        expectations: One line a field and check (`EXPECTATION`): kinds of values that are accepted.
        derived: Item number and the check, for values that follow from other files.
        warnings: Requirements that no check decides.
        needs_listing: actual_outputs.json must be there and list the files.
    """

    items: pl.DataFrame
    expectations: pl.DataFrame
    derived: tuple[tuple[int, Mapping[str, Any]], ...]
    warnings: pl.DataFrame
    needs_listing: bool = True


def read_contract(path: Path) -> dict[str, Any]:
    """The JSON object in a contract file.

    Raises:
        ConfigError: It cannot be read, or is no JSON object.
    """
    try:
        document = orjson.loads(read_fast(str(path), limit=LIMIT).removeprefix(b"\xef\xbb\xbf"))
    except (UnreadableFileError, orjson.JSONDecodeError) as error:
        msg = f"{path}: no contract: {error}"
        raise ConfigError(msg) from error
    if not isinstance(document, dict):
        msg = f"{path}: expected a JSON object with outputs or artifacts, found a {type(document).__name__}"
        raise ConfigError(msg)
    return document


def parse_contract(document: Mapping[str, Any]) -> Contract:
    """Frames of a contract.

    Raises:
        ConfigError: A value that its key cannot hold; the message names list, position, key and what is expected.
    """
    reader = _Reader()
    for key, kind, required in words.LISTS:
        for position, item in enumerate(_listed(document.get(key))):
            reader.add(item, f"{key}[{position}]", kind, required=required)
    if not reader.items and any(isinstance(document.get(k), str) for k in words.PATH):
        reader.add(document, "contract", "output", required=True)
    if not reader.items:
        reader.warn(None, None, "the contract names no file", "nothing_to_check")
    flag = document.get(words.OUTPUTS_REQUIRED, True)
    if not isinstance(flag, bool):
        raise _wrong(words.OUTPUTS_REQUIRED, flag, "true or false")
    return Contract(
        pl.DataFrame(reader.items, schema=ITEM, orient="row"),
        pl.DataFrame(reader.expectations, schema=EXPECTATION, orient="row"),
        tuple(reader.derived),
        pl.DataFrame(reader.warnings, schema=CONTRACT_WARNINGS.schema, orient="row"),
        flag,
    )


class _Reader:
    def __init__(self) -> None:
        self.items: list[tuple[Any, ...]] = []
        self.expectations: list[tuple[Any, ...]] = []
        self.derived: list[tuple[int, Mapping[str, Any]]] = []
        self.warnings: list[tuple[str | None, str | None, str, str]] = []

    def warn(self, path: str | None, kind: str | None, requirement: str, status: str) -> None:
        self.warnings.append((path, kind, requirement, status))

    def add(self, given: Any, where: str, kind: str, *, required: bool) -> None:
        item = {"path": given} if isinstance(given, str) else given
        if not isinstance(item, dict):
            raise _wrong(where, given, "a path or an object")
        path = next((v for k in words.PATH if isinstance(v := item.get(k), str) and v.strip()), None)
        if path is None:
            self.warn(None, kind, f"{where} names no file; one of {', '.join(words.PATH)} does", "no_path")
            return
        path = path.strip().replace("\\", "/")
        texts = {n: _text(item, keys, f"{where}.{n}") for n, keys in words.TEXTS.items()}
        numbers = {n: _number(item, keys, f"{where}.{n}") for n, keys in words.NUMBERS.items()}
        name = self._format(texts["format"], path, kind)
        number = len(self.items)
        optional = numbers["row_count"] == 0 or numbers["min_rows"] == 0 or item.get("scoring_critical") is False
        declared = _names(item, (words.DECLARED_FILES,), where)
        row: dict[str, Any] = {
            "item": number,
            "kind": kind,
            "required": required,
            "path": path,
            **texts,
            "format": name,
            **numbers,
        }
        row |= {"rows_optional": optional, "declared": declared}
        self.items.append(tuple(row[column] for column in ITEM))
        self._fields(item, number, where, path, kind, name)
        for requirement in (r for key in words.REQUIREMENTS for r in _listed(item.get(key)) if r):
            self.warn(path, kind, requirement if isinstance(requirement, str) else str(requirement), "requires_reader")
        for position, check in enumerate(_listed(item.get(words.DERIVED))):
            if not isinstance(check, dict):
                raise _wrong(f"{where}.{words.DERIVED}[{position}]", check, "an object")
            self.derived.append((number, check))

    def _format(self, word: str | None, path: str, kind: str) -> str:
        name = ALIASES.get((word or "").lower(), (word or "").lower())
        if word and name not in FORMATS:
            self.warn(path, kind, f"format {word}", "unknown_format")
        return name if name in FORMATS else format_of(path)

    def _fields(self, item: dict[str, Any], number: int, where: str, path: str, kind: str, name: str) -> None:
        family = FORMATS[name].family
        lists = {check: _names(item, keys, where) for check, keys in words.FIELDS.items()}
        maps = {check: _types(item, keys, where) for check, keys in words.TYPE_MAPS.items()}
        if family == "text":
            for heading in lists["present"]:
                self._expect(number, "section", "section", heading, None, _NOT_ABSENT)
            return
        needed = dict.fromkeys((*lists["present"], *lists["non_empty"], *lists["numeric"], *maps["type"]))
        for field in needed:
            self._expect(number, "present", "value", field, None, _NOT_ABSENT)
        for field in lists["non_empty"]:
            self._expect(number, "non_empty", "value", field, None, [k for k in _NOT_ABSENT if k not in EMPTY])
        for field in lists["numeric"]:
            self._expect(number, "numeric", "value", field, "number", NUMERIC)
        for check, level, more in (
            ("type", "value", ()),
            ("optional_type", "value", ("absent", "null")),
            ("list_item", "item", ()),
        ):
            for field, word in maps[check].items():
                typed = WORDS.get(word.strip().lower())
                if typed is None:
                    self.warn(path, kind, f"{field} is {word}", "unknown_type")
                    continue
                cells = typed == "string" and family in ("csv", "xlsx")
                self._expect(number, check, level, field, typed, (*(CELLS if cells else TYPES[typed].accepts), *more))

    def _expect(
        self, number: int, check: str, level: str, field: str, typed: str | None, accepts: Sequence[str]
    ) -> None:
        self.expectations.append((number, check, level, field, typed, list(accepts)))


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _names(item: Mapping[str, Any], keys: Sequence[str], where: str) -> list[str]:
    """Names under any of the keys, in order, each once; an object counts by its `name`."""
    found: dict[str, None] = {}
    for key in keys:
        for value in _listed(item.get(key)):
            name = value.get("name", value.get("field")) if isinstance(value, dict) else value
            if not isinstance(name, str):
                raise _wrong(f"{where}.{key}", value, "a name or a list of names")
            found[name] = None
    return list(found)


def _types(item: Mapping[str, Any], keys: Sequence[str], where: str) -> dict[str, str]:
    for key in keys:
        value = item.get(key)
        if value:
            if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
                raise _wrong(f"{where}.{key}", value, "an object from field names to types")
            return value
    return {}


def _text(item: Mapping[str, Any], keys: Sequence[str], where: str) -> str | None:
    value = next((v for k in keys if (v := item.get(k)) is not None), None)
    if value is not None and not isinstance(value, str):
        raise _wrong(where, value, "a text")
    return value


def _number(item: Mapping[str, Any], keys: Sequence[str], where: str) -> int | None:
    value = next((v for k in keys if (v := item.get(k)) is not None), None)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, str) and value.isdecimal():
        value = int(value)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63):
        raise _wrong(where, value, "a whole number from 0 on")
    return value


def _wrong(where: str, value: Any, expected: str) -> ConfigError:
    return ConfigError(f"contract: {where} is {str(value)[:60]!r}, expected {expected}")
