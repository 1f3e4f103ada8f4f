"""Secrets that are known by what stands before them: names of variables and fields, headers, options of commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expcomp.evidence.rule import PLACEHOLDERS, START_BS, UUID, RedactionRule, mixed, other_than, unlike

if TYPE_CHECKING:
    from collections.abc import Sequence

# Names whose value is a secret. A name may have any prefix; it ends with one of these.
_KEY_WORDS = "api access secret auth private encryption signing account master shared subscription storage client app application".split()
_PWD = r"(?:pwd|pswd)"  # noqa: S105  names of keys
_PASS = rf"(?:pass(?:word|wd|phrase|code)|[_-]pass|{_PWD})"
_NO_Y = r"(?:^|[\x00-XZ-xz-\x7f]|(?u:[^\x00-\x7f]))"  # `publicKeyToken` is none
_TOKEN = rf"(?:{_NO_Y}token|secret|(?:{'|'.join(_KEY_WORDS)})[_-]?key(?:[_-]?base)?|credentials?)"
_ANY_KEY = r"(?:[ABD-Z0-9_][_-]key|[\"']key|auth|credentials?|cookie|session)"  # `public_key` is none
_NEAR = {
    _TOKEN: "(?:token|secret|key(?:[_-]?base)?|credentials?)",
    _ANY_KEY: r"(?:[_\"'-]key|auth|credentials?|cookie|session)",
}
"""The names as prefilters have them: a little wider, but known by their first letters, which is twice as fast."""
_KEY_END = r"\\{0,4}[\"']?\]?"
_GAP = r"[ \t]{0,3}"
_SEP = rf"{_GAP}(?:=>|:=|={{1,3}}|:){_GAP}"
_OPEN = r"[A-Za-z]?\\{0,4}[\"'`]?"
_STOP = r"(?:$|\.?[\s\x00-\x1f\"'`\\,;&<>)}\]|]|\.$)"
_BARE = r"[^\s\x00-\x1f\"'`\\,;&<>(){}\[\]|]"  # a value without quotes
_BARE_PLAIN = r"[A-Za-z\x{80}-\x{10FFFF}_.:=/]"
_BARE_SPECIAL = r"[^A-Za-z\x{80}-\x{10FFFF}_.:=/\s\x00-\x1f\"'`\\,;&<>(){}\[\]|]"
_BARE_FIRST = r"[^A-Za-z\x{80}-\x{10FFFF}_.:=/\s\x00-\x1f\"'`\\,;&<>(){}\[\]|$*%~@!-]"  # `$x`, `%s`, `***`, `@file`, `!tag` are not secrets
_NO_URL = (  # five plain characters or more that do not begin with `http`
    rf"(?:[A-Za-gi-z\x{{80}}-\x{{10FFFF}}_]{_BARE_PLAIN}{{4,}}|h(?:[{_BARE_PLAIN}--t]{_BARE_PLAIN}{{3,}}"
    rf"|t(?:[{_BARE_PLAIN}--t]{_BARE_PLAIN}{{2,}}|t[{_BARE_PLAIN}--p]{_BARE_PLAIN}+)))"
)
_BARE_PASSWORD = (
    rf"(?:{_BARE_FIRST}{_BARE}{{5,}}|![^A-Za-z!\s\x00-\x1f\"'`\\,;&<>(){{}}\[\]|]{_BARE}{{4,}}|[A-Za-z\x{{80}}-\x{{10FFFF}}_](?:"
    + "|".join(rf"{_BARE_PLAIN}{{{i}}}{_BARE_SPECIAL}{_BARE}{{{4 - i},}}" for i in range(4))
    + rf")|{_NO_URL}{_BARE_SPECIAL}{_BARE}*)"
)
_MIXED_CASE = r"(?:[A-Za-z]*(?:[a-z][A-Z]|[A-Z][a-z])[A-Za-z]*)"
_ENTROPIC = (
    rf"[A-Za-z0-9+/_=-]{{8,}}?{_MIXED_CASE}(?:[0-9+/_=-]+[A-Za-z0-9+/_=-]*?{_MIXED_CASE}){{2}}[A-Za-z0-9+/_=-]{{4,}}"
)


# Escapes inside a quoted value, by the number of backslashes before the quotes around it.
_INNER = {0: r"\\[^\s]", 1: r"\\\\\\QUOTE|\\\\[^\sQUOTE]", 3: r"\\{4}[^\sQUOTE]|\\{7}QUOTE"}


def _assigned(words: str, value: str) -> str:
    """Prefilter of an assignment: the key, the sign, and the start of a value."""
    return rf"(?i-u:{_NEAR.get(words, words)}){_KEY_END}{_SEP}{_OPEN}{value}"


def _quoted(token: str, key: str, value: str, start: str) -> RedactionRule:
    """A quoted value after a key: raw or JSON-encoded, either quote, or cut off."""
    parts, starts, ends = [], "", ""
    for n, (mark, depth) in enumerate((m, d) for m in "\"'" for d in (0, 1, 3)):
        quote = r"\\" * depth + mark
        unit = rf"(?:[^{mark}\\\s|<>{{}}]|{_INNER[depth].replace('QUOTE', mark)})"
        parts.append(rf"((?i-u:{key}){_KEY_END}{_SEP}[A-Za-z]?{quote}){value.replace('UNIT', unit)}({quote}|$)")
        starts, ends = f"{starts}${{{2 * n + 1}}}", f"{ends}${{{2 * n + 2}}}"
    pattern = "|".join(parts)
    return RedactionRule(token, "secret", _assigned(key, start), pattern, f"{starts}<secret:{token}>{ends}")


_LETTERS = "[a-zA-Z]"
_SPECIAL = r"[^a-zA-Z\s\"'\\|<>{}]"


def _password(first: str, second: str) -> str:
    """A quoted value; `first` and `second`, inside a class, are not its first sign, and its second behind a letter."""
    return (
        rf"(?:[^a-zA-Z\s\"'\\|<>{{}}$*%\[{first}]UNIT{{3,}}|{_LETTERS}[{_SPECIAL}--[{second}]]UNIT{{2,}}|{_LETTERS}{{2}}{_SPECIAL}UNIT+"
        rf"|{_LETTERS}{{3,}}{_SPECIAL}UNIT*|{_LETTERS}{{9,}})"
    )


_HEADER_VALUE = "A-Za-z0-9+/_.~=-"
_QUOTED_TOKEN = r"A-Za-z0-9+/_=.~!#^%*@$&(-"  # noqa: S105  a pattern
_BARE_LETTERS = "A-Za-z+/_=!#^%*@~-"
_BARE_TOKEN = f"0-9{_BARE_LETTERS}"
_LINE = r"[\t -:<-{}~]{0,200}?"  # of ASCII: all of Unicode 200 times takes 9 ms to compile
_Q = r"\\{0,4}[\"']?"
_WORD = r"[^\s\"'`\\$<>{}|&;()*%-][^\s\"'`\\<>|&;]{3,}"


def _env_value(words: Sequence[str]) -> str:
    """A value without quotes of 8 characters or more that begins with none of the words, all of 4 letters."""
    parts = []
    for head in sorted({word[:n] for word in words for n in range(4)}):
        never = "".join(sorted({word[len(head)] for word in words if word.startswith(head)})) + (
            "" if head else "$*%/~.:=@-"
        )
        parts.append(rf"{head}[^\s\x00-\x1f\"'`\\,;&<>(){{}}\[\]|{never}]{_BARE}{{{7 - len(head)},}}")
    return "(?:" + "|".join(parts) + ")"


_COOKIES = r"sess(?:ion)?[_-]?id|connect\.sid|[_-]session|session"


def _between(name: str, *places: tuple[str, ...]) -> RedactionRule:
    """Values between two texts, as one rule: each place is a prefilter, the text before, the value and the text after, if any."""
    parts, before, after = [], "", ""
    for number, (_, head, value, *tail) in enumerate(places):
        parts.append(f"({head})(?:{value})({''.join(tail)})")
        before, after = f"{before}${{{2 * number + 1}}}", f"{after}${{{2 * number + 2}}}"
    near = "|".join(dict.fromkeys(place[0] for place in places))
    return RedactionRule(name, "secret", near, "|".join(parts), f"{before}<secret:{name}>{after}")


_NAMED = rf"(?i-u:{_PASS}|{_TOKEN})"
_NAMED_NEAR = rf"(?i-u:{_PASS}|{_NEAR[_TOKEN]})"
_MIXED = mixed(8, "A-Za-z0-9+/_=.~-", "A-Za-z+/_=.~-")
_PASSWORD_PLACES = (
    # Options and files of commands.
    (r"curl\s", rf"(?-u:\bcurl)\s{_LINE}(?:-u|--user|--proxy-user)[ =]?{_Q}[^\s:\"'$\\]+:", _WORD),
    (r"mysql[a-z]*\s", rf"(?-u:\bmysql)[a-z]*\s{_LINE}\s-p", _BARE_PASSWORD),
    (r"sshpass\s", rf"sshpass\s+-p[ =]?{_Q}", _WORD),
    (r"login\s", rf"login\s{_LINE}\s-p[ =]{_Q}", _BARE_PASSWORD),
    (r"redis-cli\s", rf"redis-cli\s{_LINE}-a\s+{_Q}", _WORD),
    (r"zip\s+-[A-Za-z]", rf"(?-u:\b)(?:un)?zip\s+(?:-[A-Za-z0-9]+\s+)*-P ?{_Q}", _BARE_PASSWORD),
    (r"pass:[^\s]{4}", rf"-pass(?:in|out)?\s+{_Q}pass:", _WORD),
    (
        r"sudo\s+-S|--password-stdin",
        rf"(?-u:\becho)\s+(?:-n\s+)?{_Q}",
        r"[^\s\"'`\\$<>{}|&;()-][^\s\"'`\\<>|&;]{3,}",
        rf"{_Q}\s*\|\s*(?:sudo\s+-S|[^\n|]{{1,80}}--password-stdin)",
    ),
    (r"login\s", r"login\s+[^\s/]+(?:\s|\\+[nrt])+password[ \t]+", _WORD),
    (r"default login", r"default login [^\s]+ password\s+", _WORD),
    (":(?:543[0-9]|6543):", r"[A-Za-z0-9_.-]+:(?:543[0-9]|6543):[A-Za-z0-9_*.-]+:[A-Za-z0-9_.-]+:", _WORD),
    # Elements and sentences.
    (rf"(?i-u:{_PASS})>", rf"<[A-Za-z._-]*(?i-u:{_PASS})>", r"[^\s<>${%*][^\s<>]{3,}", r"<\\{0,4}/"),
    (
        rf"(?i-u:{_PASS})(?: for | is| was|:)",
        rf"(?i-u:{_PASS})(?: for [A-Za-z0-9@._ -]{{1,40}})?(?: is| was|:| is:){_GAP}[ ]{_Q}",
        mixed(8, "A-Za-z0-9!@#^*_+=-", "A-Za-z!@#^*_+=-"),
        _STOP,
    ),
    (rf"/ ?(?i-u:{_PASS})", rf"/ ?(?i-u:{_PASS})\s+\\{{0,4}}[\"']", mixed(8), r"\\{0,4}[\"']"),
)
_TOKEN_PLACES = (
    (r"_auth(?:[Tt]oken)?[= \t]", rf"_auth(?:[Tt]oken)?(?:=|[ \t]+){_Q}", r"[A-Za-z0-9+/_=-]{16,}"),
    ("secret set ", r"secret set [A-Za-z0-9_]+ (?:--body|-b)[ =]" + _Q, r"[A-Za-z0-9+/_=.-]{8,}"),
    # A name and its value in two fields, in a call, in an element.
    (
        rf"{_NAMED_NEAR}{_KEY_END}(?:[,\s/]|\\+[nrt])*{_Q}(?i-u:value)",
        rf"{_NAMED}{_KEY_END}(?:[,\s/]|\\+[nrt])*{_Q}(?i-u:value){_KEY_END}{_SEP}{_OPEN}",
        _MIXED,
    ),
    (
        rf"{_NAMED_NEAR}\\{{0,4}}[\"'],",
        rf"(?i-u:define|env|set[a-z]*)\(\\{{0,4}}[\"'][A-Za-z0-9_.-]*?{_NAMED}\\{{0,4}}[\"'],\s*\\{{0,4}}[\"']",
        _MIXED,
    ),
    (rf"{_NAMED_NEAR}>", rf"<[A-Za-z._-]*(?i-u:{_TOKEN})>", _MIXED, r"<\\{0,4}/"),
)

_URL_CHARS = r"^\s/@\"'`<>\\"
_URL_WORDS = tuple(form for word in "pass passwd password pwd".split() for form in (word, word.upper(), word.title()))
"""What documentation writes in the place of a password."""

_IN_URLS = (
    RedactionRule(
        "url_password",
        "secret",
        r"://[^\s/:@\"'`<>\\]*:[^\s/@\"'`<>\\]+@",
        r"([A-Za-z][A-Za-z0-9+.-]*://[^\s/:@\"'`<>\\\[\]]*:)"
        rf"{other_than(_URL_WORDS, _URL_CHARS, never='${{*')}(@)",
        "${1}<secret:url_password>${2}",
    ),
    _between(
        "url_signature",
        (
            "(?i-u:signature|security-token|sig)=",
            r"(?:[?&;]|\\+u0026)(?:X-(?:Amz|Goog)-(?:Signature|Security-Token)|Signature|sig)=",
            "[A-Za-z0-9%+/_~-]{20,}={0,2}",
        ),
    ),
    _between("url_key", ("[?&6]key=", r"(?:[?&]|\\+u0026)key=", mixed(24, "A-Za-z0-9_-", "A-Za-z_-"))),
)

_AUTHORIZATION = rf"(?i-u:authorization){_KEY_END}{_GAP}[:=,]{_GAP}{_OPEN}"
_NO_CALL = rf"($|[^({_HEADER_VALUE}])"  # `authorization = base64.b64encode(` is code
_HEADERS = (
    RedactionRule(
        "auth_header",
        "secret",
        "(?i-u:authorization)[^A-Za-z0-9]",
        rf"({_AUTHORIZATION}[A-Za-z]{{2,12}}[ \t]+(?:token=)?){unlike(PLACEHOLDERS, _HEADER_VALUE, 12)}{_NO_CALL}"
        rf"|({_AUTHORIZATION}){mixed(12, _HEADER_VALUE, 'A-Za-z+/_.~=-')}{_NO_CALL}",
        "${1}${3}<secret:auth_header>${2}${4}",
    ),
    RedactionRule(
        "auth_header",
        "secret",
        rf"(?i-u:bearer|basic)(?:[ \t]+|%20|\+)[{_HEADER_VALUE}]{{12}}",
        rf"{START_BS}((?i-u:bearer)(?:[ \t]+|%20|\+))(?:{mixed(12, _HEADER_VALUE, 'A-Za-z+/_.~=-')}|[A-Za-z0-9+/]{{12,}}={{1,2}})"
        rf"|{START_BS}((?i-u:basic)(?:[ \t]+|%20|\+))(?:{_ENTROPIC}|[A-Za-z0-9+/]{{12,}}={{1,2}})",
        "${1}${2}${3}${4}<secret:auth_header>",
    ),
    _between(
        "cookie",
        (rf"(?i-u:{_COOKIES})=", rf"(?i-u:{_COOKIES})=(?:s%3A)?", mixed(20, "A-Za-z0-9+/_.~-", "A-Za-z+/_.~-")),
    ),
)

NAMES: tuple[RedactionRule, ...] = (
    *_IN_URLS,
    *_HEADERS,
    RedactionRule(
        "cloud_secret",
        "secret",
        "(?i-u:secret_?(?:access_?)?key)[^A-Za-z0-9]",
        rf"((?i-u:secret_?(?:access_?)?key){_KEY_END}{_SEP}\\{{0,4}}[\"']?)[A-Za-z0-9/+]{{40}}={{0,2}}({_STOP})",
        "${1}<secret:cloud_secret>${2}",
    ),
    _quoted("password", _PASS.replace(f"|{_PWD}", ""), _password("", "|"), r"[^\s$*%]{3}"),
    _quoted("password", _PWD, _password("/~.", ":"), r"[^\s$*%/~.]{3}"),  # "pwd" is the working directory as well
    _quoted(
        "token",
        _TOKEN,
        f"(?:{mixed(8, _QUOTED_TOKEN, 'A-Za-z+/_=.~!#^%*@$&(-')}|{UUID})",
        r"[A-Za-z0-9+/_=.~!#^%*@$&(-]{8}",
    ),
    RedactionRule(
        "password",
        "secret",
        rf"(?i-u:{_PASS})(?:{_KEY_END}{_SEP}|[ \t]+){_BARE}{{6}}",
        rf"((?:(?i-u:{_PASS}){_KEY_END}{_SEP}|--(?i-u:{_PASS})[ \t]+)){_BARE_PASSWORD}({_STOP})",
        "${1}<secret:password>${2}",
    ),
    RedactionRule(
        "token",
        "secret",
        rf"(?i-u:{_NEAR[_TOKEN]})(?:{_KEY_END}=|[ \t]+)[{_BARE_TOKEN}]{{8}}",
        rf"((?:(?i-u:{_TOKEN}){_KEY_END}=|--(?i-u:{_TOKEN})[ \t]+))(?:{mixed(8, _BARE_TOKEN, _BARE_LETTERS)}|{UUID})({_STOP})",
        "${1}<secret:token>${2}",
    ),
    RedactionRule(
        "token",
        "secret",
        _assigned(_TOKEN, f"[{_BARE_TOKEN}]{{16}}"),
        rf"((?i-u:{_TOKEN}){_KEY_END}{_SEP})(?:{mixed(16, _BARE_TOKEN, _BARE_LETTERS)}|{UUID})({_STOP})",
        "${1}<secret:token>${2}",
    ),
    RedactionRule(
        "env_secret",
        "secret",
        "(?:PASSWORD|PASSWD|PASSPHRASE|_PASS|TOKEN|SECRET|KEY)=[^\\s$\"'`]{8}",
        rf"((?:PASSWORD|PASSWD|PASSPHRASE|_PASS|TOKEN|SECRET|(?:{'|'.join(_KEY_WORDS).upper()})_?KEY)=)"
        rf"{_env_value(PLACEHOLDERS)}({_STOP})",
        "${1}<secret:env_secret>${2}",
    ),
    RedactionRule(
        "entropy",
        "secret",
        _assigned(_ANY_KEY, "[A-Za-z0-9+/_=-]{20}"),
        rf"((?i-u:{_ANY_KEY}){_KEY_END}{_SEP}{_OPEN}){_ENTROPIC}",
        "${1}<secret:entropy>",
    ),
    _between("password", *_PASSWORD_PLACES),
    _between("token", *_TOKEN_PLACES),
)
"""Order matters: what is certain first, assignments, then what commands and sentences say."""
