"""Private paths as redaction rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expcomp.evidence.rule import ANSI, ESC, PATH_START, RedactionRule

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PATH_ROOTS: Mapping[str, tuple[str, ...]] = {
    "home": ("Users", "home", "root"),
    "tmp": ("tmp", "private", "var/folders"),
    "mount": ("mnt", "media"),
    "work": ("opt", "srv", "workspace", "data"),
}
"""Token kind to absolute folders that count as private, without the leading slash."""

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
    start = rf"(^|{ESC}|{ANSI}|[^A-Za-z0-9\\])"
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
        rules.append(RedactionRule(token, "path", near, rf"{PATH_START}{folder}{body}", f"${{1}}<path:{token}>${{2}}"))
    tilde = rf"{PATH_START}~(?:[a-z_][a-z0-9_-]{{2,}})?{body}"
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
    start = rf"(^|{ESC}|{ANSI}|[^A-Za-z0-9\\?])"
    share_start = rf"(^|\\[nrt]|{ANSI}|[\s\"'`(=,;\[{{<>])"
    drive, share = "|".join(drives), "|".join(shares)
    return (
        RedactionRule("drive", "path", ":/[^/]", rf"{start}{slashed}", "${1}<path:drive>"),
        RedactionRule("drive", "path", r":\\[^\s\"']", rf"{start}[A-Za-z]:\\(?:{drive})", "${1}<path:drive>"),
        RedactionRule(
            "unc", "path", r"\\\\[A-Za-z0-9][A-Za-z0-9._-]+\\", rf"{share_start}\\\\(?:{share})", "${1}<path:unc>"
        ),
    )


PATH_RULES: tuple[RedactionRule, ...] = (*path_rules(), *_drive_rules())
