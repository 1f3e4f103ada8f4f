"""Model cards of an endpoint that the user names: one GET, bounded, no redirects, no proxies, nothing of the machine sent along."""

from __future__ import annotations

from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

import msgspec

from expcomp.errors import SourceError
from expcomp.io.chat_endpoint import check_url

MAX_BYTES = 4 << 20


class ModelCardError(SourceError):
    """An endpoint that gives no list of model cards."""


class _Models(msgspec.Struct):
    data: list[dict[str, Any]]


def model_cards(url: str, *, api_key: str | None = None, timeout: float = 10.0) -> list[Mapping[str, Any]]:
    """What `GET url/models` lists, as the API of OpenAI has it.

    Args:
        url: Base of the endpoint, such as `http://127.0.0.1:8000/v1`.
        api_key: Sent as bearer token.
        timeout: Seconds for each wait on the network.

    Raises:
        ConfigError: The URL is none of http or https, or carries a password.
        ModelCardError: There is no answer in time, another status than 200, more than `MAX_BYTES`, or no such list.
    """
    check_url(url)
    parts = urlsplit(url)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    headers = {"Accept": "application/json", "User-Agent": "expcomp"}
    if api_key is not None:
        headers["Authorization"] = f"Bearer {api_key}"
    connection = kind(parts.hostname or "", parts.port, timeout=timeout)
    try:
        connection.request("GET", f"{parts.path.rstrip('/')}/models", headers=headers)
        with connection.getresponse() as answer:
            if answer.status != 200:
                raise ModelCardError(f"the endpoint answers with HTTP {answer.status}, expected 200")
            body = answer.read(MAX_BYTES + 1)
    except TimeoutError as error:
        raise ModelCardError("the endpoint gives no answer in time") from error
    except (OSError, HTTPException, ValueError) as error:
        raise ModelCardError(f"the endpoint cannot be reached ({type(error).__name__})") from error
    finally:
        connection.close()
    if len(body) > MAX_BYTES:
        raise ModelCardError(f"the endpoint answers with more than {MAX_BYTES:,} bytes")
    try:
        return list(msgspec.json.decode(body, type=_Models).data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ModelCardError("the endpoint answers with no list of models; expected an object with data") from error
