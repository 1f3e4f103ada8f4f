"""Secrets that are known by what stands before them: names of variables and fields, headers, options of commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expcomp.evidence.rule import PLACEHOLDERS, UUID, RedactionRule, mixed
from expcomp.evidence.secret_places import PLACES
from expcomp.evidence.secret_requests import HEADERS, IN_URLS
from expcomp.evidence.secret_texts import TEXTS
from expcomp.evidence.secret_words import (
    ANY_KEY,
    BARE,
    BARE_PASSWORD,
    BLOCK,
    ENTROPIC,
    KEY_END,
    KEY_WORDS,
    NEAR,
    OPEN,
    PASS,
    PASSWORD,
    PWD,
    SEP,
    STOP,
    TOKEN,
    WIDE,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

# Escapes inside a quoted value, by the number of backslashes before the quotes around it.
_INNER = {0: r"\\[^\s]", 1: r"\\\\\\QUOTE|\\\\[^\sQUOTE]", 3: r"\\{4}[^\sQUOTE]|\\{7}QUOTE"}


def _assigned(words: str, value: str) -> str:
    """Prefilter of an assignment: the key, the sign, and the start of a value."""
    return rf"(?i-u:{NEAR.get(words, words)}){KEY_END}{SEP}{OPEN}{value}"


def _quoted(token: str, key: str, value: str, start: str) -> RedactionRule:
    """A quoted value after a key: raw or JSON-encoded, either quote, or cut off."""
    parts, starts, ends = [], "", ""
    for n, (mark, depth) in enumerate((m, d) for m in "\"'" for d in (0, 1, 3)):
        quote = r"\\" * depth + mark
        unit = rf"(?:[^{mark}\\\s|<>{{}}]|{_INNER[depth].replace('QUOTE', mark)})"
        parts.append(rf"((?i-u:{key}){KEY_END}{SEP}[A-Za-z$@]?{quote}){value.replace('UNIT', unit)}({quote}|$)")
        starts, ends = f"{starts}${{{2 * n + 1}}}", f"{ends}${{{2 * n + 2}}}"
    pattern = "|".join(parts)
    near = rf"(?i-u:{NEAR.get(key, key)}){KEY_END}{SEP}[A-Za-z$@]?\\{{0,4}}[\"']{start}"
    return RedactionRule(token, "secret", near, pattern, f"{starts}<secret:{token}>{ends}")


_LETTERS = "[a-zA-Z]"
_SPECIAL = r"[^a-zA-Z\s\"'\\|<>{}]"


def _password(first: str, second: str) -> str:
    """A quoted value; `first` and `second`, inside a class, are not its first sign, and its second behind a letter."""
    return (
        rf"(?:[^a-zA-Z\s\"'\\|<>{{}}$*%\[{first}]UNIT{{3,}}|{_LETTERS}[{_SPECIAL}--[{second}]]UNIT{{2,}}|{_LETTERS}{{2}}{_SPECIAL}UNIT+"
        rf"|{_LETTERS}{{3,}}{_SPECIAL}UNIT*|{_LETTERS}{{9,}})"
    )


_QUOTED_TOKEN = r"A-Za-z0-9+/_=.~!#^%*@$&(-"  # noqa: S105  a pattern
_BARE_LETTERS = "A-Za-z+/_=!#^%*@~-"
_BARE_TOKEN = f"0-9{_BARE_LETTERS}"


def _env_value(words: Sequence[str]) -> str:
    """A value without quotes of 8 characters or more that begins with none of the words, all of 4 letters."""
    parts = []
    for head in sorted({word[:n] for word in words for n in range(4)}):
        never = "".join(sorted({word[len(head)] for word in words if word.startswith(head)})) + (
            "" if head else "$*%/~.:=@-"
        )
        parts.append(rf"{head}[^\s\x00-\x1f\"'`\\,;&<>(){{}}\[\]|{never}]{BARE}{{{7 - len(head)},}}")
    return "(?:" + "|".join(parts) + ")"


NAMES: tuple[RedactionRule, ...] = (
    *IN_URLS,
    *HEADERS,
    RedactionRule(
        "cloud_secret",
        "secret",
        "(?i-u:secret_?(?:access_?)?key)[^A-Za-z0-9]",
        rf"((?i-u:secret_?(?:access_?)?key){KEY_END}{SEP}\\{{0,4}}[\"']?)[A-Za-z0-9/+]{{40}}={{0,2}}({STOP})",
        "${1}<secret:cloud_secret>${2}",
    ),
    _quoted("password", PASSWORD, _password(":", "|"), r"[^\s$*%]"),
    _quoted("password", PWD, _password("/~.:", ":"), r"[^\s$*%/~.]"),  # "pwd" is the working directory as well
    _quoted(
        "token",
        TOKEN,
        f"(?:[+!^.-]?{mixed(8, _QUOTED_TOKEN, 'A-Za-z+/_=.~!#^%*@$&(-')}|[{_QUOTED_TOKEN}--0-9]{{0,12}}[0-9][{_QUOTED_TOKEN})]{{28,}}"
        f"|/[A-Za-z0-9+/]{{20,}}={{1,2}}|{UUID})",
        r"[A-Za-z0-9+/_=.~!#^%*@$&()-]{8}",
    ),
    RedactionRule(
        "password",
        "secret",
        rf"(?i-u:{NEAR[PASS]})(?:{KEY_END}{SEP}{BLOCK}|[ \t]+){BARE}",
        rf"((?:(?i-u:{PASS}){KEY_END}{SEP}{BLOCK}|--(?i-u:{PASS})[ \t]+)){BARE_PASSWORD}({STOP})"
        rf"|([\s\"'(]--?[A-Za-z0-9-]*?(?i-u:{PASS})[ \t]+){WIDE}({STOP})",
        "${1}${3}<secret:password>${2}${4}",
    ),
    RedactionRule(
        "token",
        "secret",
        rf"(?i-u:{NEAR[TOKEN]})(?:{KEY_END}=|[ \t]+)[{_BARE_TOKEN}]{{8}}",
        rf"((?:(?i-u:{TOKEN}){KEY_END}=|--?[A-Za-z0-9-]*?(?i-u:{TOKEN})[ \t]+))"
        rf"(?:[+]?{mixed(8, _BARE_TOKEN, _BARE_LETTERS)}|{UUID})({STOP})",
        "${1}<secret:token>${2}",
    ),
    RedactionRule(
        "token",
        "secret",
        rf"(?i-u:{NEAR[TOKEN]}){KEY_END}{SEP}{BLOCK}`?[{_BARE_TOKEN}]{{16}}",
        rf"((?i-u:{TOKEN}){KEY_END}{SEP}{BLOCK}`?)(?:[+]?{mixed(16, _BARE_TOKEN, _BARE_LETTERS)}|{UUID})({STOP})",
        "${1}<secret:token>${2}",
    ),
    RedactionRule(
        "env_secret",
        "secret",
        "(?:PASSWORD|PASSWD|PASSPHRASE|PASS|_PW|_PAT|PEPPER|TOKEN|SECRET|KEY)=[^\\s$\"'`]{8}",
        rf"((?:PASSWORD|PASSWD|PASSPHRASE|(?:_|DB|SSH)PASS|_PW|_PAT|PEPPER|TOKEN|SECRET|(?:{'|'.join(KEY_WORDS).upper()})_?KEY)=)"
        rf"{_env_value(PLACEHOLDERS)}({STOP})",
        "${1}<secret:env_secret>${2}",
    ),
    RedactionRule(
        "entropy",
        "secret",
        _assigned(ANY_KEY, "[A-Za-z0-9+/_=-]{20}"),
        rf"((?i-u:{ANY_KEY}){KEY_END}{SEP}{OPEN}){ENTROPIC}",
        "${1}<secret:entropy>",
    ),
    *PLACES,
    *TEXTS,
)
"""Order matters: what is certain first, assignments, then what commands and sentences say."""
