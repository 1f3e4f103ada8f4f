"""The redaction rules as data, in the order they run: secrets by shape, secrets by name, private paths, personal data on request."""

from __future__ import annotations

from expcomp.evidence.path_rules import PATH_ROOTS, PATH_RULES, path_rules
from expcomp.evidence.rule import ESC, RedactionRule
from expcomp.evidence.secret_names import NAMES
from expcomp.evidence.secret_shapes import SHAPES

__all__ = ["PATH_ROOTS", "PATH_RULES", "PII_RULES", "SECRET_RULES", "RedactionRule", "path_rules"]

SECRET_RULES: tuple[RedactionRule, ...] = (*SHAPES, *NAMES)
"""Order matters: whole blocks and well-known shapes first, assignments last."""

_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])"
_OCTET_1 = r"(?:[1-9][0-9]?|1[013-9][0-9]|12[0-689]|2[0-4][0-9]|25[0-5])"
_PII_STOP = r"($|[^A-Za-z0-9._-]|\.(?:$|[^0-9]))"
PII_RULES: tuple[RedactionRule, ...] = (
    RedactionRule(
        "email",
        "pii",
        r"@[A-Za-z0-9-]+\.",
        rf"(^|{ESC}|[^A-Za-z0-9._%+\\-])[A-Za-z0-9._%+-]+@(?:[A-Za-z0-9-]+\.)+[A-Za-z]{{2,24}}",
        "${1}<pii:email>",
        optional=True,
    ),
    RedactionRule(
        "ip",
        "pii",
        r"[0-9]\.[0-9]{1,3}\.[0-9]",
        rf"(^|{ESC}|://|[^A-Za-z0-9._/\\-]){_OCTET_1}(?:\.{_OCTET}){{3}}{_PII_STOP}",
        "${1}<pii:ip>${2}",
        optional=True,
    ),
    RedactionRule(
        "card",
        "pii",
        "[0-9]{4}[ -][0-9]{4}[ -][0-9]{4}",
        rf"(^|{ESC}|[^A-Za-z0-9._/\\-])[3-6][0-9]{{3}}([ -])[0-9]{{4}}[ -][0-9]{{4}}[ -][0-9]{{1,7}}(?-u:\b)",
        "${1}<pii:card>",
        optional=True,
    ),
    RedactionRule(
        "phone",
        "pii",
        r"\+[1-9][0-9 .(-]{6}|[0-9]{3}-[0-9]{4}",
        rf"(^|{ESC}|[^A-Za-z0-9._/\\+-])(?:\+[1-9][0-9]{{0,2}}[ .-]?\(?[0-9]{{1,4}}\)?(?:[ .-]?[0-9]{{2,4}}){{2,4}}"
        r"|\([0-9]{3}\) ?[0-9]{3}-[0-9]{4}|[0-9]{3}-[0-9]{3}-[0-9]{4})(?-u:\b)",
        "${1}<pii:phone>",
        optional=True,
    ),
    RedactionRule(
        "iban",
        "pii",
        "[A-Z]{2}[0-9]{2} [A-Z0-9]{4} ",
        rf"(^|{ESC}|[^A-Za-z0-9._/\\-])[A-Z]{{2}}[0-9]{{2}}(?: [A-Z0-9]{{4}}){{3,7}}(?: [A-Z0-9]{{1,4}})?(?-u:\b)",
        "${1}<pii:iban>",
        optional=True,
    ),
)
