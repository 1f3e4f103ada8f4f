"""Text from data, made safe to look at."""

from __future__ import annotations


def visible(text: str) -> str:
    """Control characters as pictures, so that a terminal or a page takes them for what they are; line ends and tabs stay."""
    return text.translate(_PICTURES)


_PICTURES = (
    {i: 0x2400 + i for i in range(32) if i not in (9, 10)} | {127: 0x2421} | dict.fromkeys(range(128, 160), 65533)
)
_PICTURES |= dict.fromkeys((*range(8234, 8239), *range(8294, 8298)), 65533)
