"""Documents of training: frozen, strict, camelCase on the wire, RFC 8785 digests.

A document is checked where it is read, sealed, digested or written: types and bounds by msgspec, what spans fields by the `RULES` of
its class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from expcomp.errors import SourceError
from expcomp.io.canon import CanonError, digest, dumps
from expcomp.io.record_files import read_records

Sha256 = Annotated[str, Meta(pattern=r"\Asha256:[0-9a-f]{64}\Z")]
Name = Annotated[str, Meta(min_length=1, max_length=512, pattern=r"\A\S(?:[\s\S]*\S)?\Z")]
Text = Annotated[str, Meta(min_length=1, pattern=r"\S")]
Time = Annotated[str, Meta(pattern=r"\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?Z\Z")]
Positive = Annotated[int, Meta(ge=1)]
Count = Annotated[int, Meta(ge=0)]
NotNegative = Annotated[float, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0, le=1)]
D = TypeVar("D", bound="Document")


class DocumentError(SourceError):
    """A document that is not what it has to be.

    Attributes:
        document: What the document is called: a file, or its place in another one (`profile.metadata.training.ancestors[1]`).
        code: Stable code of the check; `bad_document` for types and bounds.
        path: Field, empty for the whole document.
        found: What is there.
        expected: What has to be there.
    """

    exit_code = 3

    def __init__(self, document: str, code: str, path: str, found: str, expected: str) -> None:
        at = f", {path}" if path else ""
        super().__init__(f"{document}{at}: {code}: found {_cut(found)}; expected {expected}")
        self.document, self.code, self.path, self.found, self.expected = document, code, path, found, expected


class TamperedError(DocumentError):
    """A document whose digest, or the digest by which another names it, is not that of its content."""

    exit_code = 1


@dataclass(frozen=True, slots=True)
class Rule:
    """What a document has to hold to beyond types.

    Attributes:
        code: Stable code of the check.
        path: Wire name of the field.
        holds: Whether a document does.
        expected: In words.
        found: What is there instead.
        tampered: A broken rule means that content was changed.
    """

    code: str
    path: str
    holds: Callable[[Any], bool]
    expected: str
    found: Callable[[Any], Any] | None = None
    tampered: bool = False


class BrokenError(ValueError):
    """A rule that does not hold; msgspec takes it up and adds the place in the document."""

    def __init__(self, rule: Rule, found: str) -> None:
        super().__init__(f"{rule.code}: found {found}")
        self.rule, self.found = rule, found


class Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, rename="camel"):
    """Base of all documents.

    Attributes:
        RULES: What spans fields.
        OUTSIDE: Wire names of fields that no digest covers.
    """

    RULES: ClassVar[tuple[Rule, ...]] = ()
    OUTSIDE: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        """Hold the document to the rules of its class."""
        for rule in self.RULES:
            if not rule.holds(self):
                raise BrokenError(rule, _cut(repr(rule.found(self))) if rule.found else "something else")


class Sealed(Document, frozen=True, kw_only=True):
    """A document that carries its own digest: that of the document without it."""

    OUTSIDE: ClassVar[tuple[str, ...]] = ("digest",)

    digest: Sha256 | UnsetType = UNSET


def to_wire(document: Document) -> dict[str, Any]:
    """The document as JSON values, by wire names; fields that are not set are left out."""
    wire: dict[str, Any] = _plain(msgspec.to_builtins(document))
    return wire


def from_wire(kind: type[D], value: Any, name: str = "document") -> D:
    """A document of JSON values, checked in full; of each sealed document in it the digest, too, inner ones first.

    Args:
        kind: Class of the document.
        value: What `to_wire` gives.
        name: What errors call it.

    Raises:
        TamperedError: Its digest is not that of its content.
        DocumentError: A field is missing, unknown, or of another type or value.
    """
    _canonical(value, name)
    try:
        document = msgspec.convert(value, kind, strict=True)
    except msgspec.ValidationError as error:
        raise _error(name, error) from error
    for at, part in _sealed(document, ""):
        verify_seal(part, f"{name}, {at}" if at else name)
    return document


def read_document(kind: type[D], path: Path) -> D:
    """A document from its JSON file.

    Raises:
        SourceError: The file cannot be read, is no JSON, or has a key twice in one object.
        TamperedError: Its digest is not that of its content.
        DocumentError: It is no such document.
    """
    return from_wire(kind, read_records(path), str(path))


def document_digest(document: Document) -> str:
    """`sha256:` digest of the canonical form, without the fields that no digest covers.

    Raises:
        DocumentError: The document was made with values that its class does not allow.
    """
    return digest(_core(_checked(document)))


def link_digest(document: Document) -> str:
    """`document_digest` of a document that was checked already."""
    return digest(_core(document))


def document_bytes(document: Document) -> bytes:
    """Canonical bytes of the document, as they are written to a file.

    Raises:
        DocumentError: The document was made with values that its class does not allow.
    """
    return dumps(to_wire(_checked(document)))


def seal(document: Sealed) -> Any:
    """The same document with its digest.

    Raises:
        DocumentError: The document was made with values that its class does not allow.
    """
    return msgspec.structs.replace(document, digest=document_digest(document))


def verify_seal(document: Sealed, name: str = "document") -> None:
    """Recompute the digest that a document carries.

    Raises:
        TamperedError: It has none, or another one.
    """
    found, computed = document.digest, digest(_core(document))
    if found is UNSET:
        raise DocumentError(name, "digest_missing", "digest", "none", "the digest of the document")
    if found != computed:
        raise TamperedError(name, "digest_mismatch", "digest", str(found), f"{computed}, which its content gives")


def moment(time: str) -> datetime:
    """A `Time` as a time."""
    return datetime.fromisoformat(time)


def ascending(values: tuple[Any, ...]) -> bool:
    """Whether values are sorted and none is there twice."""
    return all(a < b for a, b in pairwise(values))


def distinct(values: tuple[Any, ...]) -> bool:
    """Whether no value is there twice."""
    return len(set(values)) == len(values)


def _plain(value: Any) -> Any:
    """Lists in place of tuples, as JSON has them."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, list | tuple) else value


def _sealed(value: Any, at: str) -> Iterator[tuple[str, Sealed]]:
    """Sealed documents in a document, with their paths; inner ones first."""
    if isinstance(value, Document):
        for field in msgspec.structs.fields(value):
            yield from _sealed(getattr(value, field.name), f"{at}.{field.encode_name}" if at else field.encode_name)
        if isinstance(value, Sealed):
            yield at, value
    elif isinstance(value, tuple):
        for number, item in enumerate(value):
            yield from _sealed(item, f"{at}[{number}]")


def _core(document: Document) -> dict[str, Any]:
    wire = to_wire(document)
    return {k: v for k, v in wire.items() if k not in document.OUTSIDE}


def _checked(document: D) -> D:
    """Constructors take any value; here types and bounds are held."""
    wire = to_wire(document)
    _canonical(wire, type(document).__name__)
    try:
        msgspec.convert(wire, type(document), strict=True)
    except msgspec.ValidationError as error:
        raise _error(type(document).__name__, error) from error
    return document


def _canonical(value: Any, name: str) -> None:
    try:
        dumps(value)
    except CanonError as error:
        raise DocumentError(name, "not_canonicalizable", "", str(error), "values with a canonical JSON form") from error


def _error(name: str, error: msgspec.ValidationError) -> DocumentError:
    told, _, place = str(error).partition(" - at `")
    place = place.removesuffix("`").removeprefix("$").removeprefix(".")
    broken = error.__cause__
    if isinstance(broken, BrokenError):
        rule = broken.rule
        path = f"{place}.{rule.path}" if place and rule.path else place or rule.path
        kind = TamperedError if rule.tampered else DocumentError
        return kind(name, rule.code, path, broken.found, rule.expected)
    expected, sign, found = told.partition(", got ")
    if sign:
        return DocumentError(name, "bad_document", place, found, expected.removeprefix("Expected "))
    return DocumentError(
        name, "bad_document", place, told[:1].lower() + told[1:], "what the class of the document says"
    )


def _cut(text: str) -> str:
    return text if len(text) <= 200 else text[:197] + "..."
