"""Payloads of rows against their format: what a trainer reads of SFT, DPO and GRPO rows, checked strictly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
import polars as pl
from msgspec import UNSET, Meta, UnsetType

_BATCH = 8_192


class Message(msgspec.Struct, frozen=True, gc=False):
    """A turn of a conversation; what else it holds is the exporter's own."""

    role: Annotated[str, Meta(min_length=1)]


_Messages = Annotated[list[Message], Meta(min_length=1)]
_Texts = str | _Messages


class Sft(msgspec.Struct, frozen=True):
    """A conversation that ends with a turn of the assistant."""

    messages: _Messages

    def __post_init__(self) -> None:
        """Hold what spans fields."""
        if self.messages[-1].role != "assistant":
            msg = f"messages: found a last turn of {self.messages[-1].role}, expected assistant"
            raise ValueError(msg)


class Dpo(msgspec.Struct, frozen=True):
    """A prompt with a better and a worse answer."""

    prompt: _Texts
    chosen: _Texts
    rejected: _Texts
    margin: float | UnsetType | None = UNSET


class Grpo(msgspec.Struct, frozen=True):
    """A prompt with a group of answers and a reward for each."""

    prompt: _Texts
    completions: Annotated[list[_Texts], Meta(min_length=2)]
    rewards: list[float]

    def __post_init__(self) -> None:
        """Hold what spans fields."""
        if len(self.rewards) != len(self.completions):
            msg = f"rewards: found {len(self.rewards)}, expected one for each of {len(self.completions)} completions"
            raise ValueError(msg)


PAYLOADS: Mapping[str, type[Any]] = {"sft": Sft, "dpo": Dpo, "grpo": Grpo}
"""What is read of a payload; other keys are the exporter's own."""

BAD: dict[str, pl.DataType] = {"at": pl.UInt32(), "path": pl.String(), "found": pl.String(), "expected": pl.String()}


def bad_payloads(data: pl.Series, kind: str) -> pl.DataFrame:
    """Payloads that do not fit the format (`BAD`), by position.

    Args:
        data: JSON texts, each valid by itself.
        kind: `sft`, `dpo` or `grpo`.
    """
    one, many = msgspec.json.Decoder(PAYLOADS[kind]), msgspec.json.Decoder(list[PAYLOADS[kind]])  # type: ignore[valid-type]
    bad: list[tuple[int, str, str, str]] = []
    for start in range(0, data.len(), _BATCH):
        batch = data.slice(start, _BATCH)
        try:
            # One list for many rows: most batches are clean, and cost a fraction of as many calls.
            many.decode(f"[{batch.str.join(',').item()}]")
        except msgspec.MsgspecError:
            bad += [(start + n, *told) for n, text in enumerate(batch) if (told := _told(one, text))]
    return pl.DataFrame(bad, schema=BAD, orient="row")


def _told(decoder: msgspec.json.Decoder[Any], text: str | None) -> tuple[str, str, str] | None:
    """path, found, expected of the first thing that is wrong."""
    if text is None:
        return "data", "nothing", "a JSON object"
    try:
        decoder.decode(text)
    except msgspec.MsgspecError as error:
        said, _, place = str(error).partition(" - at `")
        path = "data" + place.removesuffix("`").removeprefix("$")
        if isinstance(error.__cause__, ValueError) and ": found " in said:
            field, _, rest = said.partition(": found ")
            found, _, expected = rest.partition(", expected ")
            return f"{path}.{field}", found, expected
        expected, sign, found = said.partition(", got ")
        return (path, found, expected.removeprefix("Expected ")) if sign else (path, said, "a payload of the format")
    return None
