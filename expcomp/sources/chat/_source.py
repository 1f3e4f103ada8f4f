"""What the five chat formats are as sources: one reader, told apart by a name, what they say of themselves and what they carry."""

from __future__ import annotations

from dataclasses import dataclass
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


@dataclass(frozen=True)
class ChatSource:
    """Reader of one chat format: JSON, JSON lines or Parquet.

    Attributes:
        name: Registry name.
        summary: One line.
        carries: What a file holds for training.
    """

    name: str
    summary: str
    carries: dict[str, str]

    def claims_folder(self, folder: Path, names: frozenset[str]) -> bool:
        """Never: sets are files."""
        return False

    def claims_file(self, look: Look) -> bool:
        """Records whose shape is that of this format; `_claims` has the shapes of all five in their order."""
        return kind_of(look) == self.name

    def units(self, path: Path, root: Path, found: Found) -> None:
        """One unit a file, or one for each part of a file that is large and can be cut."""
        add_units(self.name, path, root, found, is_one)

    def read(self, units: Sequence[Unit], options: ReadOptions) -> Frames:
        """Read files, or parts of them."""
        return read_chats(self.name, units, options)
