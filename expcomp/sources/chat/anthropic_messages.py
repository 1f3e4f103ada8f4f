"""Messages of the Anthropic API: results are blocks of a user turn, the system prompt stands beside the messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expcomp.sources.chat._claims import kind_of
from expcomp.sources.chat._read import read_chats
from expcomp.sources.chat._sets import add_units
from expcomp.sources.chat._shape import is_one

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from expcomp.sources._contract import Found, Frames, ReadOptions, Unit
    from expcomp.sources._look import Look


class AnthropicMessages:
    """Reader of Anthropic messages."""

    name = "anthropic_messages"
    summary = "Anthropic messages: rows of system and messages with content blocks, request logs"
    carries = {  # noqa: RUF012 - read only, by contract of the protocol
        "system_prompt": "often",
        "tools": "often",
        "reasoning": "sometimes",
        "verdict": "no",
        "trial": "no",
        "tokens": "rarely",
        "cost": "no",
        "times": "no",
        "token_ids": "no",
    }

    def claims_folder(self, folder: Path, names: frozenset[str]) -> bool:
        """Never: sets are files."""
        return False

    def claims_file(self, look: Look) -> bool:
        """Messages with blocks that only this API has, or a system prompt beside messages of role and content."""
        return kind_of(look) == self.name

    def units(self, path: Path, root: Path, found: Found) -> None:
        """One unit a file, or one for each part of a file that is large and can be cut."""
        add_units(self.name, path, root, found, is_one)

    def read(self, units: Sequence[Unit], options: ReadOptions) -> Frames:
        """Read files, or parts of them."""
        return read_chats(self.name, units, options)


SOURCE = AnthropicMessages()
