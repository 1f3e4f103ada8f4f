r"""What a redaction rule is, and the pieces its patterns are made of.

Patterns are Rust regexes, which know no look-around, so what must stand before a hit is a group that the replacement
puts back. Text may be raw or JSON-encoded once or twice: a boundary is also an escape such as `\n` spelled out, and a
quote may carry backslashes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal["secret", "path", "pii"]


@dataclass(frozen=True, slots=True)
class RedactionRule:
    """One shape of text that must not be published.

    `near` is the prefilter: a cheap pattern found in every text that `pattern` matches.
    """

    name: str
    kind: Kind
    near: str
    pattern: str
    replacement: str
    optional: bool = False


# Boundaries. The spelled-out escapes come first: in `\nabc` the n belongs to the escape, never to a hit.
ESC = r"\\[nrtbfv]|\\u[0-9a-fA-F]{4}|\\x[0-9a-fA-F]{2}|\\\\"
ANSI = r"\[[0-9;]*m"
START = rf"(^|{ESC}|%[0-9A-Fa-f]{{2}}|{ANSI}|[^A-Za-z0-9\\])"
START_BS = rf"(^|{ESC}|%[0-9A-Fa-f]{{2}}|{ANSI}|[^A-Za-z0-9])"
UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
PATH_START = rf"(^|{ESC}|{ANSI}|[^\w./\\~$}})*\]%-])"


def mixed(least: int, chars: str = "A-Za-z0-9+/_=-", letters: str = "A-Za-z+/_=-") -> str:
    """A run with a letter and a digit, `least` characters or more; dates and plain numbers do not qualify."""
    any_, letter, lead = f"[{chars}]", f"[{letters}]", "[A-Za-z_]"
    parts = [f"{lead}{letter}{{{i}}}[0-9]{any_}{{{max(0, least - 2 - i)},}}" for i in range(least - 1)]
    parts += [f"{lead}{letter}{{{least - 1},}}[0-9]{any_}*"]
    parts += [f"[0-9]{{{i}}}[A-Za-z]{any_}{{{max(0, least - 1 - i)},}}" for i in range(1, least)]
    parts += [f"[0-9]{{{least},}}[A-Za-z]{any_}*"]
    signs = "".join(sign for sign in "+!#^%*@~&$(" if sign in chars)
    parts += [f"[0-9]+[{signs}]{any_}{{{least},}}"] if signs else []
    return "(?:" + "|".join(parts) + ")"


def unlike(words: Sequence[str], chars: str, least: int) -> str:
    """A run of `least` characters or more that begins with none of the words; `chars` stands inside a class."""
    branches = []
    for head in sorted({word[:n] for word in words for n in range(len(word))}):
        next_ = sorted({word[len(head)] for word in words if word.startswith(head)})
        branches.append(f"{head}[[{chars}]--[{''.join(next_)}]][{chars}]{{{max(0, least - len(head) - 1)},}}")
    return "(?:" + "|".join(branches) + ")"


def other_than(words: Sequence[str], chars: str, never: str) -> str:
    """A run that is none of the words, if what follows it is no such character; it does not begin with one of `never`."""
    branches = []
    for head in sorted({word[:n] for word in words for n in range(len(word) + 1)}):
        next_ = "".join(sorted({word[len(head)] for word in words if word.startswith(head) and word != head}))
        branches.append(f"{head}[{chars}{next_}{'' if head else never}][{chars}]*")
        if head and head not in words:
            branches.append(head)
    return "(?:" + "|".join(branches) + ")"


def ending(chars: str, length: int, word: str) -> str:
    """A run of exactly `length` characters that does not end with `word`."""
    branches = [f"{word[:n]}[[{chars}]--[{word[n]}]][{chars}]{{{len(word) - n - 1}}}" for n in range(len(word))]
    return f"[{chars}]{{{length - len(word)}}}(?:{'|'.join(branches)})"


PLACEHOLDERS = tuple(
    "xxxx XXXX your YOUR Your exam EXAM Exam repl REPL chan CHAN plac PLAC inse INSE reda REDA".split()
)
"""How values of documentation begin; by chance one secret in a million does."""


def shape(name: str, near: str, pattern: str, start: str = START_BS) -> RedactionRule:
    """A secret that is known by its shape, behind a boundary that stays."""
    return RedactionRule(name, "secret", near, f"{start}(?:{pattern})", f"${{1}}<secret:{name}>")


def between(name: str, *places: tuple[str, ...], stems: Sequence[str] = ()) -> RedactionRule:
    """Values between two texts, as one rule: each place is a prefilter, the text before, the value and the text after, if any.

    Prefilters that begin with one of the stems share it.
    """
    # Places of one value share it: patterns compile in a third of the time.
    heads: dict[tuple[str, str], list[str]] = {}
    for _, head, value, *tail in places:
        heads.setdefault((value, "".join(tail)), []).append(head)
    parts, before, after = [], "", ""
    for number, ((value, tail_), own) in enumerate(heads.items()):
        parts.append(f"({'|'.join(own)})(?:{value})({tail_})")
        before, after = f"{before}${{{2 * number + 1}}}", f"{after}${{{2 * number + 2}}}"
    nears = list(dict.fromkeys(place[0] for place in places))
    for stem in stems:
        ends = [near.removeprefix(stem) for near in nears if near.startswith(stem)]
        nears = [near for near in nears if not near.startswith(stem)] + [f"{stem}(?:{'|'.join(ends)})"]
    near = "|".join(nears)
    return RedactionRule(name, "secret", near, "|".join(parts), f"{before}<secret:{name}>{after}")
