"""Canonical JSON (RFC 8785) of columns: many JSON texts at once, JSON strings of texts, and the order of UTF-16 code units."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import orjson
import polars as pl

from expcomp.io.canon import CanonError, dumps

if TYPE_CHECKING:
    from collections.abc import Sequence

CANONICAL: dict[str, pl.DataType] = {"text": pl.String(), "code": pl.String(), "problem": pl.String()}
"""`text` is null where there is no canonical form; then `code` is `not_json` or `not_canonicalizable`, `problem` says why."""

_SHORT = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
_ESCAPES = {chr(c): f"\\u{c:04x}" for c in range(0x20)} | _SHORT

# In the compact text that orjson writes, a number stands behind one of `[:,` or is all there is.
_STRING = r'"(?:[^"\\]|\\.)*"'
_WHOLE_FLOAT = r"(\d)\.0([,\]}])"
_ODD_NUMBER = r"(?:^|[\[:,])(?:-?\d+(?:\.\d+)?e|-?\d{16}|-0\.0(?:[,\]}]|$)|-?\d+\.0$)"
_ASTRAL_KEY = r'[\x{10000}-\x{10FFFF}](?:[^"\\]|\\.)*":'
_BATCH = 65_536


def json_text(text: pl.Expr) -> pl.Expr:
    """The JSON string of a text, as RFC 8785 writes it; null stays null."""
    return pl.concat_str(pl.lit('"'), text.str.replace_many(list(_ESCAPES), list(_ESCAPES.values())), pl.lit('"'))


def utf16_order(text: pl.Expr) -> pl.Expr:
    """A text whose order by UTF-8 bytes, which is that of Polars, is the order of `text` by UTF-16 code units.

    The two differ in one thing: characters beyond the basic plane stand before U+E000 to U+FFFF in UTF-16.
    """
    last = "\U0010ffff"
    return text.str.replace_all(last, f"{last}\x00", literal=True).str.replace_all(
        r"([\x{E000}-\x{FFFF}])", f"{last}\x01${{1}}"
    )


def canonical_texts(texts: pl.Series) -> pl.DataFrame:
    """Canonical form of each JSON text (`CANONICAL`), in the same order; null is no JSON.

    Equal to `canon.dumps` of the parsed text. Refused, too: keys that stand twice in one object, numbers beyond doubles, floats that
    would be written as integers beyond 2^53-1.
    Texts whose numbers or keys orjson would write otherwise than RFC 8785 take the exact path, some ten times slower.
    """
    parts = [_canonical(texts.slice(at, _BATCH)) for at in range(0, texts.len(), _BATCH)]
    return pl.concat([pl.DataFrame(schema=CANONICAL), *parts])


def _canonical(texts: pl.Series) -> pl.DataFrame:
    raw, text = pl.col("raw"), pl.col("text")
    made = pl.DataFrame({"raw": texts, "text": _fast(texts)}, schema={"raw": pl.String, "text": pl.String})
    # Nothing but white space, escapes and repeated keys makes a text shorter: equal length means that no key was lost.
    made = made.with_columns(exact=text.is_null() | (raw.str.len_bytes() != text.str.len_bytes())).with_row_index("at")
    wide = made.filter(text.str.len_bytes() != text.str.len_chars()).filter(text.str.contains(_ASTRAL_KEY))
    # What looks like a number may stand inside a string; those texts are looked at again without their strings.
    look = made.filter(text.str.contains(_ODD_NUMBER) | text.str.contains(_WHOLE_FLOAT))
    bare = look.select("at", "text", bare=text.str.replace_all(_STRING, '""'))
    odd = bare.filter(pl.col("bare").str.contains(_ODD_NUMBER))
    whole = bare.filter(pl.col("bare").str.contains(_WHOLE_FLOAT)).with_columns(
        mixed=pl.col("bare").str.count_matches(_WHOLE_FLOAT) != text.str.count_matches(_WHOLE_FLOAT),
        text=text.str.replace_all(_WHOLE_FLOAT, "${1}${2}"),
    )
    exact = made["exact"]
    for at in (wide["at"], odd["at"], whole.filter("mixed")["at"]):
        exact = exact.scatter(at, values=True)
    made = made.with_columns(made["text"].scatter(whole["at"], whole["text"]), exact)
    slow = made.filter("exact")
    found = [_exact(value) for value in slow["raw"]]
    codes = pl.DataFrame(found, schema=CANONICAL, orient="row")
    # `scatter` writes into the series it is called on.
    nothing = pl.lit(None, pl.String)
    columns = made.select("text", code=nothing, problem=nothing)
    return columns.with_columns(columns[name].scatter(slow["at"], codes[name]) for name in CANONICAL)


def _fast(texts: Sequence[str] | pl.Series) -> list[str | None]:
    out: list[str | None] = []
    for text in texts:
        try:
            out.append(orjson.dumps(orjson.loads(text), option=orjson.OPT_SORT_KEYS).decode())
        except (ValueError, TypeError):
            out.append(None)
    return out


def parse_exactly(text: str | bytes) -> Any:
    """Value of a JSON text; large integers stay exact, and NaN and infinity are read as what they are.

    Raises:
        ValueError: It is no JSON, or an object has a key twice.
        RecursionError: It is nested too deep.
    """
    return json.loads(text, object_pairs_hook=_once)


def _exact(text: str | None) -> tuple[str | None, str | None, str | None]:
    if text is None:
        return None, "not_json", "there is no text"
    try:
        value = parse_exactly(text)
    except (ValueError, RecursionError) as error:
        return None, "not_json", str(error)
    try:
        canonical = dumps(value)
        # A large float without a fraction is written as an integer, which nobody could read again without losing digits.
        dumps(json.loads(canonical))
    except CanonError as error:
        return None, "not_canonicalizable", str(error)
    return canonical.decode(), None, None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(k for k, _ in pairs if k in seen or seen.add(k))  # type: ignore[func-returns-value]
        msg = f"the key {twice!r} is there twice in one object"
        raise ValueError(msg)
    return found
