"""Serving by an endpoint that is already there: its model card has to name the model and the artifact."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from expcomp.errors import UsageError
from expcomp.io.canon import digest
from expcomp.io.chat_endpoint import check_url
from expcomp.io.model_cards import ModelCardError, model_cards
from expcomp.training.run.serving import Served, ServingError, ServingOrder


@dataclass(frozen=True, slots=True)
class EndpointServing:
    """Look whether an endpoint serves a checkpoint; nothing is deployed.

    `GET url/models` has to list a card whose `id` is the model id that the digest of the artifact gives, and whose `field` is that
    digest. It is what the endpoint says of itself: who serves something else under that name is not found out.

    Args:
        url: Base of the endpoint, such as `http://127.0.0.1:8000/v1`.
        field: Where the card has the digest; keys in each other are joined by a dot.
        api_key_env: Environment variable with the key of the endpoint.
        timeout: Seconds for each wait on the network.

    Raises:
        ConfigError: The URL is none of http or https, or carries a password.
        UsageError: A field or timeout that cannot be used.
    """

    url: str
    field: str = "artifactDigest"
    api_key_env: str | None = None
    timeout: float = 10.0

    def __post_init__(self) -> None:
        check_url(self.url)
        if not all(self.field.split(".")):
            raise UsageError(
                f"field {self.field!r}: expected the names of keys, as in artifactDigest or metadata.digest"
            )
        if not self.timeout > 0:
            raise UsageError(f"timeout {self.timeout}: expected a positive number of seconds")

    def publish(self, artifact: Path, order: ServingOrder, cancelled: Callable[[], bool]) -> Served:
        """Read the model card. The evidence is what was compared: times and paths that a card may hold are no part of it.

        Raises:
            ServingError: There is no such card, or the variable of the key is not set.
        """
        if cancelled():
            raise ServingError("serving: it was cancelled", undone=True)
        try:
            cards = model_cards(self.url, api_key=self._key(), timeout=self.timeout)
        except ModelCardError as error:
            raise ServingError(f"serving: {error}", undone=True) from error
        card = next((c for c in cards if c.get("id") == order.model_id), None)
        if card is None:
            raise ServingError(
                f"serving: none of the {len(cards):,} models of the endpoint is {order.model_id}", undone=True
            )
        found = _value(card, self.field)
        if not isinstance(found, str):
            raise ServingError(f"serving: the model card has no text in {self.field}; expected {order.artifact_digest}")
        evidence = {"kind": "model-card", "field": self.field, "modelId": order.model_id, "artifactDigest": found}
        return Served(order.model_id, found, digest(evidence))

    def _key(self) -> str | None:
        if self.api_key_env is None:
            return None
        key = os.environ.get(self.api_key_env)
        if not key:
            raise ServingError(f"serving: the environment variable {self.api_key_env} is not set", undone=True)
        return key


def _value(card: Mapping[str, Any], field: str) -> Any:
    value: Any = card
    for key in field.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
