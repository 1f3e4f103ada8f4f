"""Secrets that are known by the text around them: elements, calls, tables, sentences, forms as they are sent."""

from __future__ import annotations

from expcomp.evidence.rule import between
from expcomp.evidence.secret_words import (
    DIGITED,
    GAP,
    KEY_END,
    LONG,
    NAMED,
    NAMED_NEAR,
    OPEN,
    PASS,
    PASS_NEAR,
    SEP,
    STOP,
    TOKEN,
    WIDE,
    Q,
)

_END = r"<\\{0,4}/"
_BREAKS = r"(?:[\t-\r ]|\\+[nrt])*"
_FIRST = r"[A-Za-z0-9!#^+_=~-]"
_SENT = r"(?:[A-Za-z0-9_.~*!-]|%(?:2[1345ABDFabdf]|5[Ee]|3[DdFf]))"  # a character of a value in a form
_QUOTED = r"[^\x00-\x20\"'\\$<>{}%?:]*[0-9!#^*@~][^\x00-\x20\"'\\<>{}]{5,}|[^\x00-\x20\"'\\$<>{}%?:]{5,}[0-9!#^*@~][^\x00-\x20\"'\\<>{}]*"

PASSWORDS = (
    (
        rf"{PASS_NEAR}(?:[ \t][A-Za-z]+=|>{_FIRST})",
        rf"<(?:[A-Za-z]{{1,5}}:)?[A-Za-z._-]*(?i-u:{PASS})(?:[ \t][A-Za-z]+=[^<>]{{1,80}})?>",
        rf"{_FIRST}[^\x00-\x20<>]{{3,}}",
        _END,
    ),
    (
        rf"(?i-u:{PASS}|key|secret|token)\\{{0,4}}[\"']>",
        rf"<[A-Za-z:._-]+[ \t][^<>]{{0,80}}{NAMED}\\{{0,4}}[\"']>",
        WIDE,
        _END,
    ),
    (
        rf"{NAMED_NEAR}{_END}(?:name|key)>",
        rf"{NAMED}{_END}(?:name|key)>{_BREAKS}<(?:value|string)>",
        r"[^\x00-\x20<>${%*][^\x00-\x20<>]{3,}",
        _END,
    ),
    ("keyMaterial>", "<keyMaterial>", r"[^\x00-\x20<>]{6,}", _END),
    (
        rf"{PASS_NEAR}(?: for | is| was|:| has| set|\*\*)",
        (
            rf"(?i-u:{PASS})(?: for [A-Za-z0-9@._ -]{{1,40}})?"
            rf"(?:\*\*)?(?: is| was|:| is:| has been set to| set to)(?:\*\*)?:?{GAP} {Q}(?:\*\*)?`?"
        ),
        WIDE,
        STOP,
    ),
    (
        rf"{PASS_NEAR} (?:is |was )?(?:generated|created|set)",
        rf"(?i-u:{PASS}) (?:is |was )?(?:generated|created|set) for [^\x00-\x20]{{1,60}}: ",
        WIDE,
        STOP,
    ),
    (rf"{PASS_NEAR} +[`\"]", rf"(?i-u:{PASS}) +\\{{0,4}}[`\"]", WIDE, r"\\{0,4}[`\"]"),
    (
        "(?i-u:creds|credentials|login)(?: are| is)?:? ",
        rf"(?i-u:creds|credentials|login)(?: are| is)?:? +{Q}[A-Za-z0-9._-]+(?::| / )",
        WIDE,
        STOP,
    ),
    (rf"/ ?{PASS_NEAR}", rf"/ ?(?i-u:{PASS})[ \t]+\\{{0,4}}[\"']", WIDE, r"\\{0,4}[\"']"),
    (
        r"(?i-u:pass|pw|psk)\\{0,4}[\"']?[:=]",
        rf"[\t-\r \"'`,;&?(_.-](?i-u:pass(?:=|\\{{0,4}}[\"']: ?)|(?:pw|psk)(?:=|:[ ]+|\\{{0,4}}[\"']: ?)){OPEN}",
        WIDE,
        STOP,
    ),
    # Strings of connections, where a value needs no digit.
    (
        rf"[;?&][ \t]?{PASS_NEAR}=",
        rf"[^&][;?&][ \t]?(?i-u:{PASS})=",
        r"[A-Za-z0-9!@#^*_+~%-]{8,}",
        r"(?:[;&\"'[ \t]\\]|$)",
    ),
    (
        "getConnection",
        r"getConnection\([^)\n]{1,120}, *\\{0,4}\"[^\"\\]*\\{0,4}\", *\\{0,4}\"",
        r"[^\x00-\x20\"\\<>]{4,}",
    ),
    (
        rf"{PASS_NEAR}(?:[ \t]+|=)\\{{0,4}}[\"']",
        rf"[ \t]--?(?i-u:[a-z0-9-]*{PASS})(?:[ \t]+|=)\\{{0,4}}[\"']",
        rf"{WIDE}|[A-Za-z]{{10,}}",
        r"\\{0,4}[\"']",
    ),
    (rf"{PASS_NEAR}[ (]", r"(?i-u:password)[ (] *\\{0,4}'", _QUOTED, r"\\{0,4}'"),
    ("(?i-u:identified by) ", r"(?i-u:identified by) +\\{0,4}'", _QUOTED, r"\\{0,4}'"),
)

TOKENS = (
    # A name and its value in two fields, in a call, in an element.
    (
        rf"{NAMED_NEAR}[\\\"'`\],\t-\r /:{{nrt0-9→-]*(?i-u:(?:value|default)[\\\"'`\]]*[ \t]*[&:=]|(?:type|sensitive) *=)",
        (
            rf"{NAMED}\\{{0,4}}[\"'`]?\]?(?:[,\t-\r /:{{]|\\+[nrt]|\n *[0-9]{{1,6}}[\t:→-])+"
            rf"(?:(?:type|sensitive) *= *[a-z]+{_BREAKS}){{0,2}}{Q}(?i-u:value|default){KEY_END}{SEP}{OPEN}"
        ),
        WIDE,
    ),
    (
        rf"\(\\{{0,4}}[\"'][A-Za-z0-9_.-]*{NAMED_NEAR}\\{{0,4}}[\"'],",
        rf"(?i-u:define|env|get|fetch|set[a-z]*)\(\\{{0,4}}[\"'][A-Za-z0-9_.-]*?{NAMED}\\{{0,4}}[\"'],[ \t]*\\{{0,4}}[\"']",
        WIDE,
    ),
    (
        rf"{NAMED_NEAR}[)\"'\]\\]*[ \t]*(?:\|\||\?\?|:-)",
        rf"{NAMED}[)\"'\]\\]*[ \t]*(?:\|\||\?\?|:-)[ \t]*{Q}",
        WIDE,
        STOP,
    ),
    (rf"{NAMED_NEAR}\(\\{{0,4}}[\"']", rf"{NAMED}\(\\{{0,4}}[\"']", DIGITED, r"\\{0,4}[\"']"),
    (rf"{NAMED_NEAR}>{_FIRST}", rf"<(?:[A-Za-z]{{1,5}}:)?[A-Za-z._-]*(?i-u:{TOKEN})>", WIDE, _END),
    (
        r"(?:ENV|ARG|setx|setenv|set -g?x|setq|configure set)[ \t]",
        rf"(?:ENV|ARG|setx|setenv|set -g?x|setq|configure set)[ \t]+[A-Za-z0-9_.-]*{NAMED}[ \t]+{Q}",
        WIDE,
        STOP,
    ),
    ("#define[ ]", rf"#define[ ]+[A-Za-z0-9_]*{NAMED}[ \t]+\\{{0,4}}\"", WIDE, STOP),
    (
        rf"{NAMED_NEAR}[`*\"']*[ \t]*[|│]",
        rf"(?m:^|\\n|[\"\'])[ \t]*[|│][ \t`*\"']*[A-Za-z0-9_.-]*{NAMED}[`*\"']{{0,3}}[ \t]*[|│][ \t]*[`\"']?",
        LONG,
        STOP,
    ),
    (
        r"(?i-u:api key|token|secret|private key|access key) (?:is|was)",
        rf"(?i-u:api key|token|secret|private key|access key) (?:is|was):? {Q}`?",
        DIGITED,
        STOP,
    ),
    # Keys of ciphers and wallets.
    (
        r"(?:fromhex|from|b64decode|unhexlify)\(b?\\{0,4}[\"']",
        r"(?i-u:key|secret)[ \t]*=[ \t]*(?:[a-z0-9]+\.)?(?:fromhex|b64decode|unhexlify|Buffer\.from)\(b?\\{0,4}[\"']",
        DIGITED,
    ),
    (r"Fernet\(", r"Fernet\(b?\\{0,4}[\"']", "[A-Za-z0-9+/_-]{43}="),
    (
        r"TOTP\(|Wallet\(|login\(key",
        r"(?:TOTP|Wallet|login)\((?:key=)?\\{0,4}[\"']",
        "[A-Z2-7]{16,}|(?:0x)?[0-9a-f]{40,64}",
    ),
    (
        r"(?i-u:mnemonic|phrase)",
        rf"(?i-u:mnemonic|(?:seed|recovery|secret)[ _-]?phrase){KEY_END}(?: is|{SEP}){GAP}{OPEN}",
        "[a-z]{3,8}(?: [a-z]{3,8}){11,23}",
    ),
    # As a form sends it.
    (
        rf"{NAMED_NEAR}[+%]",
        rf"{NAMED}(?:%5[Cc])*(?:%2[27])?(?:%20|[+])*%3[AaDd](?:%20|[+])*(?:%5[Cc])*(?:%2[27])?",
        rf"{_SENT}{{8,}}",
    ),
    ("%3A%2F%2F", r"%3A%2F%2F[A-Za-z0-9_.-]*%3A", rf"{_SENT}{{4,}}", "%40"),
    (
        rf"{NAMED_NEAR}(?:[ \t]+|=)\\{{0,4}}[\"']",
        rf"[ \t]--?(?i-u:[a-z0-9-]*{TOKEN})(?:[ \t]+|=)\\{{0,4}}[\"']",
        WIDE,
        r"\\{0,4}[\"']",
    ),
)

TEXTS = (
    between("password", *PASSWORDS, stems=(PASS_NEAR, NAMED_NEAR)),
    between("token", *TOKENS, stems=(NAMED_NEAR,)),
)
