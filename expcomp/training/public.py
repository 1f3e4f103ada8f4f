"""What may stand in a public document: no name that stands for a credential, no value that looks like one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from expcomp.evidence.redact import residual

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_CREDENTIAL = re.compile(
    r"\b(?:api keys?|private keys?|access keys?|secrets?|passwords?|passwd|passphrase|credentials?|bearer|authorization|auth)\b"
    r"|(?<!bos )(?<!eos )(?<!pad )(?<!unk )(?<!sep )(?<!cls )(?<!mask )(?<!image )\btoken\b"  # what a tokenizer calls tokens
    r"|\b(?:apikey|accesstoken|authtoken|accesskey|privatekey|secretkey)\b"
)
_USER_IN_URL = r"[A-Za-z][A-Za-z0-9+.-]*://[^/\s@]+@"
_BEARER = r"(?i)\bbearer\s+[A-Za-z0-9._~+/=-]{8,}"


def not_public(value: Any) -> str | None:
    """Path of the first part of a JSON value that may not be published: a key that names a credential, or a text like one.

    Names: the words of a key (camelCase and snake_case) hold one of api key, token, secret, password and their like. Values: the
    secret rules of the redaction, bearer strings, URLs with a user part.
    """
    keys, texts = [], []
    for path, key, text in _walk(value, ""):
        if key is not None and _CREDENTIAL.search(" ".join(_WORDS.findall(key)).lower()):
            keys.append(path)
        if text is not None:
            texts.append((path, text))
    if not texts:
        return next(iter(keys), None)
    frame = pl.DataFrame(texts, schema={"path": pl.String, "text": pl.String}, orient="row")
    bad = residual("text")["secret"] | pl.col("text").str.contains(_USER_IN_URL) | pl.col("text").str.contains(_BEARER)
    return next(iter([*keys, *frame.filter(bad)["path"]]), None)


def _walk(value: Any, at: str) -> Iterator[tuple[str, str | None, str | None]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            path = f"{at}.{key}" if at else str(key)
            yield path, str(key), None
            yield from _walk(item, path)
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from _walk(item, f"{at}[{number}]")
    elif isinstance(value, str):
        yield at, None, value
