"""The words that secrets stand behind, and what values look like: pieces of patterns that the other rules share."""

from __future__ import annotations

from expcomp.evidence.rule import mixed

# Names whose value is a secret. A name may have any prefix; it ends with one of these.
KEY_WORDS = (
    "api access secret auth private priv encryption crypto cipher aes hmac fernet jwt signing account master admin shared preshared"
    " pre-shared subscription storage client app application service_?role deploy webhook license"
).split()
PWD = r"(?:pwd|pswd)"  # noqa: S105  names of keys
PASSWORD = r"(?:pass(?:word|wd|phrase|code)|[_-]pass|(?:db|ssh|smtp|mail|ftp)pass)"  # noqa: S105  names of keys
PASS = rf"(?:{PASSWORD}|{PWD})"
_NO_Y = r"(?:^|[\x00-XZ-xz-\x7f]|(?u:[^\x00-\x7f]))"  # `publicKeyToken` is none
TOKEN = rf"(?:{_NO_Y}token|secret|(?:{'|'.join(KEY_WORDS)})[_ -]?key(?:[_-]?base)?|credentials?)"
ANY_KEY = r"(?:[ABD-Z0-9_][_-]key|[\"']key|auth|credentials?|cookie|session)"  # `public_key` is none
NEAR = {
    PASSWORD: "pass(?:word|wd|phrase|code)?",
    PASS: rf"(?:pass(?:word|wd|phrase|code)?|{PWD})",
    TOKEN: "(?:token|secret|key(?:[_-]?base)?|credentials?)",
    ANY_KEY: r"(?:[_\"'-]key|auth|credentials?|cookie|session)",
}
"""The names as prefilters have them: a little wider, but known by their first letters, which is twice as fast."""
NAMED = rf"(?i-u:{PASS}|{TOKEN})"
PASS_NEAR = rf"(?i-u:{NEAR[PASS]})"
NAMED_NEAR = rf"(?i-u:{NEAR[PASS]}|{NEAR[TOKEN]})"

# What stands between a name and its value.
_ENTITY = "&(?:quot|#3[49]|#x2[27]);"
KEY_END = rf"(?:\\{{0,4}}[\"'`]|{_ENTITY}|\\{{0,4}})\]?"
GAP = r"[ \t]*"
_TYPE = r"(?:(?:\?|!)?: ?(?:&(?:'static )?)?(?:str|string|String|Optional\[str\]|bytes|SecretStr)(?: ?\| ?(?:None|null|undefined))?[ \t]*)?"
SEP = rf"{GAP}{_TYPE}(?:=>|:=|={{1,3}}|:){GAP}"
OPEN = rf"(?:[A-Za-z$@]?\\{{0,4}}[\"'`]|{_ENTITY})?"
BLOCK = (
    rf"(?:{_ENTITY}|!!str +|&[A-Za-z0-9_]+ +|[|>][+-]?[ \t]*(?:\r?\n|(?:\\+r)?\\+n)[ \t]*)?"  # before a value of YAML
)
STOP = r"(?:$|\.?[\s\x00-\x1f\"'`\\,;&<>)}\]|]|\.$)"
Q = r"\\{0,4}[\"']?"

# Values.
BARE = r"[^\x00-\x20\x00-\x1f\"'`\\,;&<>(){}\[\]|]"  # without quotes
_BARE_PLAIN = r"[A-Za-z\x{80}-\x{10FFFF}_.:=/]"
_BARE_SPECIAL = r"[^A-Za-z\x{80}-\x{10FFFF}_.:=/\s\x00-\x1f\"'`\\,;&<>(){}\[\]|]"
_BARE_FIRST = r"[^A-Za-z\x{80}-\x{10FFFF}_.:=/\s\x00-\x1f\"'`\\,;&<>(){}\[\]|$*%~@!-]"  # `$x`, `%s`, `***`, `@file`, `!tag` are not secrets
_NO_URL = (  # five plain characters or more that do not begin with `http`
    rf"(?:[A-Za-gi-z\x{{80}}-\x{{10FFFF}}_]{_BARE_PLAIN}{{4,}}|h(?:[{_BARE_PLAIN}--t]{_BARE_PLAIN}{{3,}}"
    rf"|t(?:[{_BARE_PLAIN}--t]{_BARE_PLAIN}{{2,}}|t[{_BARE_PLAIN}--p]{_BARE_PLAIN}+)))"
)
BARE_PASSWORD = (
    rf"(?:{_BARE_FIRST}{BARE}{{5,}}|![^A-Za-z!\s\x00-\x1f\"'`\\,;&<>(){{}}\[\]|]{BARE}{{4,}}|[A-Za-z\x{{80}}-\x{{10FFFF}}_](?:"
    + "|".join(rf"{_BARE_PLAIN}{{{i}}}{_BARE_SPECIAL}{BARE}{{{4 - i},}}" for i in range(4))
    + rf")|{_NO_URL}{_BARE_SPECIAL}{BARE}*)"
)
_MIXED_CASE = r"(?:[A-Za-z]*(?:[a-z][A-Z]|[A-Z][a-z])[A-Za-z]*)"
ENTROPIC = (
    rf"[A-Za-z0-9+/_=-]{{8,}}?{_MIXED_CASE}(?:[0-9+/_=-]+[A-Za-z0-9+/_=-]*?{_MIXED_CASE}){{2}}[A-Za-z0-9+/_=-]{{4,}}"
)
LINE = r"[\t -:<-{}~]{0,200}?"  # of ASCII: all of Unicode 200 times takes 9 ms to compile
WORD = r"[^\x00-\x20\"'`\\$<>{}|&;()*%-][^\x00-\x20\"'`\\<>|&;]{3,}"


def _wide(least: int) -> str:
    """A value with a letter and a digit, and with the signs that passwords have."""
    return "[!^+%]?" + mixed(least, "A-Za-z0-9+/_=.~!#^%*@$-", "A-Za-z+/_=.~!#^%*@$-")


WIDE, LONG = _wide(8), _wide(12)
DIGITED = "[A-Za-z_+/=.~-]{0,16}[0-9][A-Za-z0-9_+/=.~-]{12,}"  # a token, where the text before leaves little doubt
