"""One chat endpoint that the user names (extra `judge`): a request out, its response or a typed failure back. No retries here."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import msgspec

from expcomp.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

# The last is a constant by which the client library knows afterwards that the raw response was asked for.
_SENT = frozenset(
    "host accept accept-encoding connection content-type content-length user-agent x-stainless-raw-response".split()
)
_CODE = re.compile(r"[a-z][a-z0-9_]{0,63}")


class Failure(Exception):  # noqa: N818 - an outcome, not a mistake
    """A request that brought no completion.

    Attributes:
        kind: `timeout`, `connection`, `status` or `response`.
        status: HTTP status; None when there was no response.
        code: Short error code of the endpoint, when it gives one.
        retry_after: Seconds that the endpoint asks to wait; None when it does not.
    """

    def __init__(
        self, kind: str, *, status: int | None = None, code: str | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(kind)
        self.kind, self.status, self.code, self.retry_after = kind, status, code, retry_after

    @property
    def said(self) -> str:
        """The failure in words."""
        if self.status is None:
            return {"timeout": "no answer in time", "connection": "no connection"}.get(self.kind, "no chat completion")
        return f"HTTP {self.status}" + (f" ({self.code})" if self.code else "")


class Usage(msgspec.Struct):
    """Tokens of a request; None where the endpoint does not say."""

    prompt_tokens: Annotated[int, msgspec.Meta(ge=0)] | None = None
    completion_tokens: Annotated[int, msgspec.Meta(ge=0)] | None = None


class _Message(msgspec.Struct):
    content: str | None = None
    refusal: str | None = None


class _Choice(msgspec.Struct):
    message: _Message
    finish_reason: str | None = None


class Completion(msgspec.Struct):
    """What is read of a chat completion."""

    choices: list[_Choice]
    model: str | None = None
    usage: Usage | None = None


@dataclass(frozen=True, slots=True)
class ChatEndpoint:
    """A chat endpoint.

    Only the headers that HTTP needs, and the key, are sent: what the client library adds of the machine or takes from the
    environment (`OPENAI_*`) is meant for another place than the one that the user names. Redirects are not followed.
    """

    client: Any
    library: Any

    def ask(self, request: Mapping[str, Any]) -> Completion:
        """Send one request and read its response; safe to be called from several threads.

        Raises:
            Failure: It brought no completion.
        """
        openai = self.library
        try:
            raw = self.client.chat.completions.with_raw_response.create(**request)
            body = msgspec.json.decode(raw.content, type=Completion)
        except openai.APITimeoutError:
            raise Failure("timeout") from None
        except openai.APIConnectionError:
            raise Failure("connection") from None
        except openai.APIStatusError as error:
            code = error.code if isinstance(error.code, str) and _CODE.fullmatch(error.code) else None
            wait = retry_after(error.response.headers, time.time())
            raise Failure("status", status=error.status_code, code=code, retry_after=wait) from None
        except (msgspec.DecodeError, UnicodeDecodeError, openai.OpenAIError):
            raise Failure("response") from None
        if not body.choices:
            raise Failure("response")
        return body

    def close(self) -> None:
        """Close its connections."""
        self.client.close()


def open_endpoint(url: str, *, api_key: str | None, timeout: float) -> ChatEndpoint:
    """A client of the endpoint at `url`, such as `http://127.0.0.1:8000/v1`; nothing is sent yet.

    Raises:
        ConfigError: The URL is none of http or https, carries a password, or the extra is not installed.
    """
    check_url(url)
    try:
        openai = import_module("openai")
    except ImportError as error:
        raise ConfigError("a model as judge needs the extra: pip install 'expcomp[judge]'") from error

    def bare(request: Any) -> None:
        for name in [n for n in request.headers if n.lower() not in _SENT]:
            del request.headers[name]
        request.headers["user-agent"] = "expcomp"
        if api_key is not None:
            request.headers["authorization"] = f"Bearer {api_key}"

    http = openai.DefaultHttpxClient(timeout=timeout, follow_redirects=False, event_hooks={"request": [bare]})
    client = openai.OpenAI(api_key=api_key or "none", base_url=url, timeout=timeout, max_retries=0, http_client=http)
    return ChatEndpoint(client, openai)


def check_url(url: str) -> None:
    """Refuse what is no endpoint.

    Raises:
        ConfigError: The URL is none of http or https, names no host, or carries a password.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise ConfigError(f"the endpoint is no URL ({error})") from None
    if parts.username or parts.password:
        raise ConfigError("the endpoint's URL carries a name or password; give a key by the name of its variable")
    if parts.scheme not in ("http", "https") or not host:
        raise ConfigError(f"endpoint '{url}': expected http:// or https:// and a host, as in http://127.0.0.1:8000/v1")


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds to wait by `Retry-After` (seconds or a date, RFC 9110 10.2.3) or `retry-after-ms`; None without a usable one."""
    for name, scale in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name) or "") / scale
        except ValueError:
            continue
        return seconds if 0 <= seconds < float("inf") else None
    try:
        return max(0.0, parsedate_to_datetime(headers.get("retry-after") or "").timestamp() - now)
    except (ValueError, OverflowError):
        return None
