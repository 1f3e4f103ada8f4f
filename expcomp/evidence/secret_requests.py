"""Secrets of requests: in URLs, in headers, in cookies."""

from __future__ import annotations

from expcomp.evidence.rule import PLACEHOLDERS, START_BS, RedactionRule, between, mixed, other_than, unlike
from expcomp.evidence.secret_words import ENTROPIC, GAP, KEY_END, OPEN

_URL_CHARS = r"^\s/@\"'`<>\\"
_URL_WORDS = tuple(form for word in "pass passwd password pwd".split() for form in (word, word.upper(), word.title()))
"""What documentation writes in the place of a password."""
_USER_INFO = r"://[^\s/@\"'`<>\\]+@"

IN_URLS = (
    RedactionRule(
        "url_password",
        "secret",
        _USER_INFO,
        r"([A-Za-z][A-Za-z0-9+.-]*://[^\s/:@\"'`<>\\\[\]]*:)"
        rf"{other_than(_URL_WORDS, _URL_CHARS, never='${{*')}(@)",
        "${1}<secret:url_password>${2}",
    ),
    between(
        "url_signature",
        (
            "(?i-u:signature|security-token|sig)=",
            r"(?:[?&;,] ?|\\+u0026)(?:X-(?:Amz|Goog)-(?:Signature|Security-Token)|Signature|sig)=",
            "[A-Za-z0-9%+/_~-]{20,}={0,2}",
        ),
    ),
    between(
        "url_key",
        ("[?&6](?:key|auth|appid)=", r"(?:[?&]|\\+u0026)(?:key|auth|appid)=", mixed(24, "A-Za-z0-9_-", "A-Za-z_-")),
        (_USER_INFO, "://", mixed(36, "A-Za-z0-9_-", "A-Za-z_-"), "@"),
    ),
)

_HEADER_VALUE = "A-Za-z0-9+/_.~=-"
_AUTHORIZATION = rf"(?i-u:authorization){KEY_END}{GAP}[:=,]{GAP}{OPEN}"
_NO_CALL = rf"($|[^({_HEADER_VALUE}])"  # `authorization = base64.b64encode(` is code
_COOKIES = r"sess(?:ion)?[_-]?id|connect\.sid|[_-]session|session"

HEADERS = (
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
        rf"|{START_BS}((?i-u:basic)(?:[ \t]+|%20|\+))(?:{ENTROPIC}|[A-Za-z0-9+/]{{12,}}={{1,2}})",
        "${1}${2}${3}${4}<secret:auth_header>",
    ),
    between(
        "cookie",
        (
            r"(?i-u:cookies?)\\{0,4}[\"']?[=:]",
            r"(?i-u:cookies?)\\{0,4}[\"']?[=:] ?\{\\{0,4}[\"'][A-Za-z0-9_.-]+\\{0,4}[\"']: ?\\{0,4}[\"']",
            mixed(20, "A-Za-z0-9+/_.~-", "A-Za-z+/_.~-"),
        ),
        (
            r"[\"']auth\\{0,4}[\"']:",
            r"[\"']auth\\{0,4}[\"']: ?\\{0,4}[\"']",
            mixed(20, "A-Za-z0-9+/=", "A-Za-z+/="),
            r"\\{0,4}[\"']",
        ),
        (rf"(?i-u:{_COOKIES})=", rf"(?i-u:{_COOKIES})=(?:s%3A)?", mixed(20, "A-Za-z0-9+/_.~-", "A-Za-z+/_.~-")),
    ),
)
