"""ShareGPT conversations: turns of from and value, or role and content under the same key."""

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


class ShareGPT:
    """Reader of ShareGPT conversations."""

    name = "sharegpt"
    summary = "ShareGPT conversations: {from, value} turns with human, gpt, function_call, observation, system"
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
        """Records with conversations and without labels, or turns that say from whom they are."""
        return kind_of(look) == self.name

    def units(self, path: Path, root: Path, found: Found) -> None:
        """One unit a file, or one for each part of a file that is large and can be cut."""
        add_units(self.name, path, root, found, is_one)

    def read(self, units: Sequence[Unit], options: ReadOptions) -> Frames:
        """Read files, or parts of them."""
        return read_chats(self.name, units, options)


SOURCE = ShareGPT()
