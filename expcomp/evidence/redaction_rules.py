r"""The redaction rules as data: name, kind, pattern, prefilter, replacement.

Patterns are Rust regexes, which know no look-around, so what must stand before a hit is a group that the replacement
puts back. Text may be raw or JSON-encoded once or twice: a boundary is also an escape such as `\n` spelled out, and a
quote may carry backslashes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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


PATH_ROOTS: Mapping[str, tuple[str, ...]] = {
    "home": ("Users", "home", "root"),
    "tmp": ("tmp", "private", "var/folders"),
    "mount": ("mnt", "media"),
    "work": ("opt", "srv", "workspace", "data"),
}
"""Token kind to absolute folders that count as private, without the leading slash."""

# Boundaries. The spelled-out escapes come first: in `\nabc` the n belongs to the escape, never to a hit.
_ESC = r"\\[nrtbfv]|\\u[0-9a-fA-F]{4}|\\x[0-9a-fA-F]{2}|\\\\"
_ANSI = r"\[[0-9;]*m"
_START = rf"(^|{_ESC}|%[0-9A-Fa-f]{{2}}|{_ANSI}|[^A-Za-z0-9\\])"
_START_BS = rf"(^|{_ESC}|%[0-9A-Fa-f]{{2}}|{_ANSI}|[^A-Za-z0-9])"
_PATH_START = rf"(^|{_ESC}|{_ANSI}|[^\w./\\~$}})*\]%-])"


def _mixed(least: int, chars: str = "A-Za-z0-9+/_=-", letters: str = "A-Za-z+/_=-") -> str:
    """A run with a letter and a digit, `least` characters or more; dates and plain numbers do not qualify."""
    any_, letter, lead = f"[{chars}]", f"[{letters}]", "[A-Za-z_]"
    parts = [f"{lead}{letter}{{{i}}}[0-9]{any_}{{{max(0, least - 2 - i)},}}" for i in range(least - 1)]
    parts += [f"{lead}{letter}{{{least - 1},}}[0-9]{any_}*"]
    parts += [f"[0-9]{{{i}}}[A-Za-z]{any_}{{{max(0, least - 1 - i)},}}" for i in range(1, least)]
    parts += [f"[0-9]{{{least},}}[A-Za-z]{any_}*"]
    return "(?:" + "|".join(parts) + ")"


# Names whose value is a secret. A name may have any prefix; it ends with one of these.
_KEY_WORDS = (
    "api access secret auth private encryption signing account master shared subscription storage client".split()
)
_PASS = r"(?:pass(?:word|wd|phrase|code)|pwd|pswd)"  # noqa: S105  names of keys
_TOKEN = rf"(?:token|secret|(?:{'|'.join(_KEY_WORDS)})[_-]?key(?:[_-]?base)?|credentials?)"
_ANY_KEY = r"(?:[_-]key|[\"']key|auth|credentials?|signature|cookie|session)"
_KEY_END = r"\\{0,4}[\"']?\]?"
_GAP = r"[ \t]{0,3}"
_SEP = rf"{_GAP}(?:=>|:=|={{1,3}}|:){_GAP}"
_OPEN = r"[A-Za-z]?\\{0,4}[\"'`]?"
_STOP = r"($|\.?[\s\x00-\x1f\"'`\\,;&<>)}\]|]|\.$)"
_BARE = r"[^\s\x00-\x1f\"'`\\,;&<>(){}\[\]|]"  # a value without quotes
_BARE_PLAIN = r"[A-Za-z\x{80}-\x{10FFFF}_.:=/]"
_BARE_SPECIAL = r"[^A-Za-z\x{80}-\x{10FFFF}_.:=/\s\x00-\x1f\"'`\\,;&<>(){}\[\]|]"
_BARE_FIRST = r"[^A-Za-z\x{80}-\x{10FFFF}_.:=/\s\x00-\x1f\"'`\\,;&<>(){}\[\]|$*%~@-]"  # `$x`, `%s`, `***`, `@file` are not secrets
_BARE_PASSWORD = (
    rf"(?:{_BARE_FIRST}{_BARE}{{5,}}|[A-Za-z\x{{80}}-\x{{10FFFF}}_](?:"
    + "|".join(rf"{_BARE_PLAIN}{{{i}}}{_BARE_SPECIAL}{_BARE}{{{4 - i},}}" for i in range(4))
    + rf"|{_BARE_PLAIN}{{4,}}{_BARE_SPECIAL}{_BARE}*))"
)
_MIXED_CASE = r"(?:[A-Za-z]*(?:[a-z][A-Z]|[A-Z][a-z])[A-Za-z]*)"
_ENTROPIC = (
    rf"[A-Za-z0-9+/_=-]{{8,}}?{_MIXED_CASE}(?:[0-9+/_=-]+[A-Za-z0-9+/_=-]*?{_MIXED_CASE}){{2}}[A-Za-z0-9+/_=-]{{4,}}"
)


# Escapes inside a quoted value, by the number of backslashes before the quotes around it.
_INNER = {0: r"\\[^\s]", 1: r"\\\\\\QUOTE|\\\\[^\sQUOTE]", 3: r"\\{4}[^\sQUOTE]|\\{7}QUOTE"}


def _assigned(words: str, value: str) -> str:
    """Prefilter of an assignment: the key, the sign, and the start of a value."""
    return rf"(?i-u:{words}){_KEY_END}{_SEP}{_OPEN}{value}"


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
_QUOTED_PASSWORD = (
    rf"(?:[^a-zA-Z\s\"'\\|<>{{}}$*%]UNIT{{3,}}|{_LETTERS}{_SPECIAL}UNIT{{2,}}|{_LETTERS}{{2}}{_SPECIAL}UNIT+"
    rf"|{_LETTERS}{{3,}}{_SPECIAL}UNIT*|{_LETTERS}{{9,}})"
)


def _shape(name: str, near: str, pattern: str, start: str = _START_BS) -> RedactionRule:
    return RedactionRule(name, "secret", near, f"{start}(?:{pattern})", f"${{1}}<secret:{name}>")


_PEM_HEAD = r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
_PEM_TAIL = r"-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
_PEM_BREAK = r"(?:\s|\\+[nrt]|[\"'+,|>#])"
_PEM = (
    rf"{_PEM_HEAD}(?:(?:[^-]|-[^-])*{_PEM_TAIL}"
    rf"|(?:{_PEM_BREAK}*(?:[A-Z][A-Za-z-]{{2,20}}: [A-Za-z0-9,. -]{{1,80}}|[A-Za-z0-9+/=]{{16,}}))+"
    rf"(?:{_PEM_BREAK}+[A-Za-z0-9+/]+={{1,2}})?)"
)

_TAIL = "[A-Za-z0-9_-]"
_HEADER_VALUE = "A-Za-z0-9+/_.~=-"
_TOKEN_VALUE = "[A-Za-z0-9+/_=.~-]{8}"  # noqa: S105  a pattern

SECRET_RULES: tuple[RedactionRule, ...] = (
    RedactionRule("pem_block", "secret", "-----BEGIN [A-Z0-9 ]*PRIVATE KEY", _PEM, "<secret:pem_block>"),
    _shape("jwt", "eyJ[A-Za-z0-9_-]{6}", rf"eyJ{_TAIL}{{6,}}\.(?:{_TAIL}{{6,}}\.{_TAIL}{{4,}}|eyJ{_TAIL}{{4,}}\.?)"),
    _shape("project_key", "sk-(?:proj|svcacct|admin)-", rf"sk-(?:proj|svcacct|admin)-{_TAIL}{{20,}}"),
    _shape("vendor_key", "sk-(?:ant|or-v1)-", rf"sk-(?:ant|or-v1)-{_TAIL}{{20,}}"),
    _shape(
        "service_key",
        f"sk-{_TAIL}{{20}}",
        rf"d?sk-(?:[A-Za-z0-9]{{20,}}{_TAIL}*|{_mixed(20, 'A-Za-z0-9_-', 'A-Za-z_-')})",
    ),
    _shape("maps_key", "AIza", rf"AIza{_TAIL}{{20,}}"),
    _shape("cloud_access_id", "AKIA|ASIA|AROA|AIDA", r"(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{16}(?-u:\b)"),
    _shape(
        "forge_token",
        "gh[pousr]_[A-Za-z0-9]|github_pat_|glpat-",
        rf"gh[pousr]_[A-Za-z0-9]{{20,}}|github_pat_[A-Za-z0-9_]{{22,}}|glpat-{_TAIL}{{20,}}",
    ),
    _shape("chat_token", "xox[a-z]-|xapp-[0-9]", r"xox[a-z]-[A-Za-z0-9-]{10,}|xapp-[0-9]-[A-Za-z0-9-]{10,}"),
    _shape("hub_token", "hf_[A-Za-z0-9]{20}", r"hf_[A-Za-z0-9]{20,}"),
    _shape(
        "payment_key",
        "k_live_|k_test_|whsec_",
        r"[sr]k_(?:live|test)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9+/]{20,}",
        _START,
    ),
    _shape("package_token", "npm_[A-Za-z0-9]{30}", r"npm_[A-Za-z0-9]{30,}", _START),
    _shape(
        "package_token",
        "pypi-",
        rf"pypi-(?:[A-Za-z0-9]{{32,}}{_TAIL}*|{_mixed(32, 'A-Za-z0-9_-', 'A-Za-z_-')})",
    ),
    _shape(
        "cloud_token",
        r"ya29\.|GOCSPX-|SG\.[A-Za-z0-9_-]{16}",
        rf"ya29\.{_TAIL}{{20,}}|GOCSPX-{_TAIL}{{20,}}|SG\.{_TAIL}{{16,}}\.{_TAIL}{{16,}}",
    ),
    RedactionRule(
        "url_password",
        "secret",
        r"://[^\s/:@\"'`<>\\]*:[^\s/@\"'`<>\\]+@",
        r"([A-Za-z][A-Za-z0-9+.-]*://[^\s/:@\"'`<>\\]*:)[^\s/@\"'`<>\\${*][^\s/@\"'`<>\\]*(@)",
        "${1}<secret:url_password>${2}",
    ),
    RedactionRule(
        "auth_header",
        "secret",
        "(?i-u:authorization)[^A-Za-z0-9]",
        rf"((?i-u:authorization){_KEY_END}{_GAP}[:=,]{_GAP}{_OPEN}(?:[A-Za-z]{{2,12}}[ \t]+)?)[{_HEADER_VALUE}]{{12,}}",
        "${1}<secret:auth_header>",
    ),
    RedactionRule(
        "auth_header",
        "secret",
        rf"(?i-u:bearer|basic)(?:[ \t]+|%20|\+)[{_HEADER_VALUE}]{{12}}",
        rf"{_START_BS}((?i-u:bearer|basic)(?:[ \t]+|%20|\+))"
        rf"(?:{_mixed(12, _HEADER_VALUE, 'A-Za-z+/_.~=-')}|[A-Za-z0-9+/]{{12,}}={{1,2}})",
        "${1}${2}<secret:auth_header>",
    ),
    RedactionRule(
        "cloud_secret",
        "secret",
        "(?i-u:secret_?(?:access_?)?key)[^A-Za-z0-9]",
        rf"((?i-u:secret_?(?:access_?)?key){_KEY_END}{_SEP}\\{{0,4}}[\"']?)[A-Za-z0-9/+]{{40}}={{0,2}}",
        "${1}<secret:cloud_secret>",
    ),
    _quoted("password", _PASS, _QUOTED_PASSWORD, r"[^\s$*%]{3}"),
    _quoted("token", _TOKEN, _mixed(8, "A-Za-z0-9+/_=.~-", "A-Za-z+/_=.~-"), _TOKEN_VALUE),
    RedactionRule(
        "password",
        "secret",
        rf"(?i-u:{_PASS})(?:{_KEY_END}{_SEP}|[ \t]+){_BARE}{{6}}",
        rf"((?:(?i-u:{_PASS}){_KEY_END}{_SEP}|--(?i-u:{_PASS})[ \t]+)){_BARE_PASSWORD}{_STOP}",
        "${1}<secret:password>${2}",
    ),
    RedactionRule(
        "token",
        "secret",
        rf"(?i-u:{_TOKEN})(?:{_KEY_END}=|[ \t]+)[A-Za-z0-9+/_=-]{{8}}",
        rf"((?:(?i-u:{_TOKEN}){_KEY_END}=|--(?i-u:{_TOKEN})[ \t]+)){_mixed(8)}{_STOP}",
        "${1}<secret:token>${2}",
    ),
    RedactionRule(
        "token",
        "secret",
        _assigned(_TOKEN, "[A-Za-z0-9+/_=-]{16}"),
        rf"((?i-u:{_TOKEN}){_KEY_END}{_SEP}){_mixed(16)}{_STOP}",
        "${1}<secret:token>${2}",
    ),
    RedactionRule(
        "env_secret",
        "secret",
        "(?:PASSWORD|PASSWD|PASSPHRASE|TOKEN|SECRET|KEY)=[^\\s$\"'`]{8}",
        rf"((?:PASSWORD|PASSWD|PASSPHRASE|TOKEN|SECRET|(?:{'|'.join(_KEY_WORDS).upper()})_?KEY)=)"
        rf"[^\s\"'`\\,;&<>(){{}}\[\]|$*%/~.:=@-]{_BARE}{{7,}}{_STOP}",
        "${1}<secret:env_secret>${2}",
    ),
    RedactionRule(
        "entropy",
        "secret",
        _assigned(_ANY_KEY, "[A-Za-z0-9+/_=-]{20}"),
        rf"((?i-u:{_ANY_KEY}){_KEY_END}{_SEP}{_OPEN}){_ENTROPIC}",
        "${1}<secret:entropy>",
    ),
)
"""Order matters: whole blocks and well-known shapes first, assignments last."""

# Paths. A path ends before white space, a quote or a separator; a dot that ends a sentence is not part of it.
_CHAR = r"(?:[^\s\"'`<>|;,:\\()\[\]{}?&\x00-\x1f]|\\{1,2} |\([^\s\"'`()\\<>]*\)|\[[^\s\"'`\[\]\\<>]*\])"
_LAST = r"(?:[^\s\"'`<>|;,:\\()\[\]{}?&\x00-\x1f.!…]|\([^\s\"'`()\\<>]*\)|\[[^\s\"'`\[\]\\<>]*\])"
_KEPT = rf"/(?:attempts|packages)/{_CHAR}*{_LAST}"
_WORD = (
    r"(?:[^\s\"'`<>|;,:\\&$=?.]|\.[^\s\"'`<>|;,:\\&$=?.]*/)+"  # a word of a spaced path: no extension before the end
)
_ENDING = r"(?:[^\s\"'`<>|;,:\\&$=?]*(?:/|\.[A-Za-z0-9])[^\s\"'`<>|;,:\\&$=?]*)"
_SPACED = rf"{_WORD} (?:{_WORD} )*{_ENDING}|{_WORD} [A-Z0-9(]{_WORD}"
_QUOTE = r"(\\{0,4}[\"'`])"


def path_rules(roots: Mapping[str, Sequence[str]] = PATH_ROOTS) -> tuple[RedactionRule, ...]:
    """The rules for private paths, given token kind to root folders without their leading slash."""
    start = rf"(^|{_ESC}|{_ANSI}|[^A-Za-z0-9\\])"
    body = rf"(?:(?:/{_CHAR}*?)??({_KEPT})|/{_CHAR}*{_LAST})"
    rules = [
        RedactionRule(
            "file_url",
            "path",
            "(?i-u:file)://",
            rf"{start}(?i-u:file)://(?:{_CHAR}|:)*{_LAST}",
            "${1}<path:file_url>",
        )
    ]
    for token, names in roots.items():
        near, folder = "|".join(f"/{name}/" for name in names), f"/(?:{'|'.join(names)})"
        spaced = rf"{_QUOTE}{folder}/(?:{_SPACED}){_QUOTE}"
        rules.append(RedactionRule(token, "path", near, spaced, f"${{1}}<path:{token}>${{2}}"))
        rules.append(RedactionRule(token, "path", near, rf"{_PATH_START}{folder}{body}", f"${{1}}<path:{token}>${{2}}"))
    tilde = rf"{_PATH_START}~(?:[a-z_][a-z0-9_-]{{2,}})?{body}"
    rules.append(RedactionRule("home", "path", r"~[a-z0-9_-]*/[^\s\"'`]", tilde, "${1}<path:home>${2}"))
    return tuple(rules)


_NOT_SEGMENT = r"\s\"'`<>|;,:*?\\/()\[\]{}\x00-\x1f"
_FOLDERS = (  # first folders whose name starts like an escape
    "Users users user Windows new net nas node repos? release root runner resources temp tmp team tools tests? "
    "bin build backup files? folder foo bar update usr vm var"
).split()
_FIRST_FOLDER = (
    rf"(?:(?:{'|'.join(_FOLDERS)})(?-u:\b)|[^nrtbfuvxNU0-9^+.@%&={_NOT_SEGMENT}]\w|[NU][a-z]"
    rf"|[^nrtbfuvxNUdDsSwWbBA-Z0-9{_NOT_SEGMENT}]\\)"
)


def _drive_rules() -> tuple[RedactionRule, ...]:
    """Drive letters and network shares; a backslash is 1, 2 or 4 backslashes, the same all along a path."""
    more = rf"[^{_NOT_SEGMENT}]"
    slashed = rf"[A-Za-z]:/(?:{more}+(?: {more}+){{0,2}}/)*{more}+"
    drives, shares = [], []
    for n in (4, 2, 1):
        sep = rf"\\{{{n}}}"
        drives.append(rf"\\{{{n - 1}}}{_FIRST_FOLDER}(?:{more}*(?: {more}+){{0,2}}{sep})*{more}*")
        shares.append(
            rf"\\{{{2 * n - 2}}}[A-Za-z0-9][A-Za-z0-9._-]+{sep}(?:{_FIRST_FOLDER}{more}*|{more}+{sep}{more}+)(?:{sep}{more}+)*"
        )
    start = rf"(^|{_ESC}|{_ANSI}|[^A-Za-z0-9\\?])"
    share_start = rf"(^|\\[nrt]|{_ANSI}|[\s\"'`(=,;\[{{<>])"
    drive, share = "|".join(drives), "|".join(shares)
    return (
        RedactionRule("drive", "path", ":/[^/]", rf"{start}{slashed}", "${1}<path:drive>"),
        RedactionRule("drive", "path", r":\\[^\s\"']", rf"{start}[A-Za-z]:\\(?:{drive})", "${1}<path:drive>"),
        RedactionRule(
            "unc", "path", r"\\\\[A-Za-z0-9][A-Za-z0-9._-]+\\", rf"{share_start}\\\\(?:{share})", "${1}<path:unc>"
        ),
    )


PATH_RULES: tuple[RedactionRule, ...] = (*path_rules(), *_drive_rules())

_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])"
_OCTET_1 = r"(?:[1-9][0-9]?|1[013-9][0-9]|12[0-689]|2[0-4][0-9]|25[0-5])"
_PII_STOP = r"($|[^A-Za-z0-9._-]|\.(?:$|[^0-9]))"
PII_RULES: tuple[RedactionRule, ...] = (
    RedactionRule(
        "email",
        "pii",
        r"@[A-Za-z0-9-]+\.",
        rf"(^|{_ESC}|[^A-Za-z0-9._%+\\-])[A-Za-z0-9._%+-]+@(?:[A-Za-z0-9-]+\.)+[A-Za-z]{{2,24}}",
        "${1}<pii:email>",
        optional=True,
    ),
    RedactionRule(
        "ip",
        "pii",
        r"[0-9]\.[0-9]{1,3}\.[0-9]",
        rf"(^|{_ESC}|://|[^A-Za-z0-9._/\\-]){_OCTET_1}(?:\.{_OCTET}){{3}}{_PII_STOP}",
        "${1}<pii:ip>${2}",
        optional=True,
    ),
    RedactionRule(
        "card",
        "pii",
        "[0-9]{4}[ -][0-9]{4}[ -][0-9]{4}",
        rf"(^|{_ESC}|[^A-Za-z0-9._/\\-])[3-6][0-9]{{3}}([ -])[0-9]{{4}}[ -][0-9]{{4}}[ -][0-9]{{1,7}}(?-u:\b)",
        "${1}<pii:card>",
        optional=True,
    ),
    RedactionRule(
        "phone",
        "pii",
        r"\+[1-9][0-9 .(-]{6}|[0-9]{3}-[0-9]{4}",
        rf"(^|{_ESC}|[^A-Za-z0-9._/\\+-])(?:\+[1-9][0-9]{{0,2}}[ .-]?\(?[0-9]{{1,4}}\)?(?:[ .-]?[0-9]{{2,4}}){{2,4}}"
        r"|\([0-9]{3}\) ?[0-9]{3}-[0-9]{4}|[0-9]{3}-[0-9]{3}-[0-9]{4})(?-u:\b)",
        "${1}<pii:phone>",
        optional=True,
    ),
    RedactionRule(
        "iban",
        "pii",
        "[A-Z]{2}[0-9]{2} [A-Z0-9]{4} ",
        rf"(^|{_ESC}|[^A-Za-z0-9._/\\-])[A-Z]{{2}}[0-9]{{2}}(?: [A-Z0-9]{{4}}){{3,7}}(?: [A-Z0-9]{{1,4}})?(?-u:\b)",
        "${1}<pii:iban>",
        optional=True,
    ),
)
