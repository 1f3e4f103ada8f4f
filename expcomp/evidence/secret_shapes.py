"""Secrets that are known by their own shape, by issuer. Each row is a prefilter and a pattern; rows of a name run as one rule."""

from __future__ import annotations

import base64

from expcomp.evidence.rule import PLACEHOLDERS, START, START_BS, UUID, RedactionRule, ending, mixed, shape, unlike

_GAP = "(?: |%20|[+])"  # also as forms send it
_WORD = rf"(?:[A-Z0-9]+{_GAP})*"
_PEM_HEAD = rf"-----BEGIN{_GAP}{_WORD}PRIVATE{_GAP}KEY(?:{_GAP}BLOCK)?-----"
_PEM_TAIL = rf"-----END{_GAP}{_WORD}PRIVATE{_GAP}KEY(?:{_GAP}BLOCK)?-----"
_PEM_BREAK = r"(?:\s|\\+[nrt]|%0[AaDd]|\[[0-9;]*m|\\+u001[bB]|[\"'+,|>#│\x1b-])"
_PEM_MARGIN = (  # what tools put before a line: the file and the number, the service, the time
    r"(?:(?:[ \t]*[0-9]{1,6}(?:[\t:-]|→|\\+t)|[A-Za-z0-9_./-]{1,80}:[0-9]{1,6}[:-]|[A-Za-z0-9_.-]{1,40} +\|"
    r"|[0-9T:.,/Z+ -]{19,32} ?(?:[A-Z]{4,8} )?(?:\[[a-z0-9-]+\] )?|//|-|(?:\x1b|\\+u001[bB])\[[0-9;]*m) ?)?"
)
_PEM_LINE = "[A-Za-z0-9+/=]{16,}"
_PEM_LINES = (
    rf"(?:{_PEM_BREAK}*{_PEM_MARGIN}{_PEM_BREAK}*(?:[A-Z][A-Za-z-]{{2,20}}: [A-Za-z0-9,. -]{{1,80}}|{_PEM_LINE}))+"
    rf"(?:{_PEM_BREAK}+{_PEM_MARGIN}[A-Za-z0-9+/]+={{1,2}})?"
)
_PEM = rf"{_PEM_HEAD}(?:(?:[^-]|-[^-])*-?{_PEM_TAIL}|{_PEM_LINES})"
_PEM_END = rf"{_PEM_LINE}(?:{_PEM_BREAK}+{_PEM_MARGIN}[A-Za-z0-9+/=]+)*{_PEM_BREAK}+{_PEM_MARGIN}{_PEM_TAIL}"
_U = "A-Za-z0-9_-"
_A = "A-Za-z0-9"
_TAIL = f"[{_U}]"
_B64 = "[A-Za-z0-9+/]"
_SLASH = r"\\{0,4}/"


def _real(chars: str, least: int) -> str:
    """A run that is no placeholder of a documentation."""
    return unlike(PLACEHOLDERS, chars, least)


def _wrapped(head: str, least: int) -> tuple[str, str]:
    """What begins with `head`, in base64 from its first byte on."""
    start = base64.b64encode(head.encode()).decode()[: len(head) * 8 // 6]
    return start, rf"{start}{_B64}{{{least},}}={{0,2}}"


_WRAPPED_TEXTS = (
    '{"auths":', '{\n  "auths"', '{"type":"service_account"', '{\n  "type": "service_account"',
    *(f"{scheme}://" for scheme in ("postgres", "postgresql", "mysql", "mongodb", "mongodb+srv", "redis", "amqp")),
)  # fmt: skip

_LAB = "pat|dt|rt|rtr|ptt|cbt|ft|soat|imt|agent|oas"

_Rows = tuple[tuple[str, str], ...]

ROWS: tuple[tuple[str, str, _Rows], ...] = (
    ("jwt", START_BS, (
        ("eyJ[A-Za-z0-9_-]{6}", rf"(?:ops_|sk\.)?eyJ{_TAIL}{{6,}}\.(?:{_TAIL}{{6,}}\.{_TAIL}{{4,}}|eyJ{_TAIL}{{4,}}\.?)"),
        ("ops_eyJ", "ops_eyJ[A-Za-z0-9_+/-]{40,}={0,3}"),
        (r"sk\.eyJ", rf"sk\.eyJ{_TAIL}{{20,}}\.{_TAIL}{{16,}}"),
    )),
    ("project_key", START_BS, (("sk-(?:proj|svcacct|admin)-", f"sk-(?:proj|svcacct|admin)-{_real(_U, 20)}"),)),
    ("vendor_key", START_BS, (("sk-(?:ant|or-v1)-", f"sk-(?:ant|or-v1)-{_real(_U, 20)}"),)),
    ("service_key", START_BS, (
        (f"sk-{_TAIL}{{20}}", rf"[cd]?sk-(?:{_real(_A, 20)}{_TAIL}*|{mixed(20, _U, 'A-Za-z_-')})"),
    )),
    ("model_key", START_BS, (
        ("gsk_|pplx-|r8_", "gsk_[A-Za-z0-9]{40,}|pplx-[A-Za-z0-9]{40,}|r8_[A-Za-z0-9]{36,}"),
        ("xai-|tgp_v1_|nvapi-", f"xai-{_TAIL}{{60,}}|tgp_v1_{_TAIL}{{40,}}|nvapi-{_TAIL}{{60,}}"),
        ("fw_[A-Za-z0-9]{8}|tvly-", r"fw_[A-Za-z0-9]{22,24}(?-u:\b)|tvly-[A-Za-z0-9-]{32,}"),
        ("pcsk_", "pcsk_[A-Za-z0-9]{5,}_[A-Za-z0-9]{50,}"),
        (r"sk_[0-9a-f]{8}|AQ\.Ab8", rf"sk_[0-9a-f]{{48}}(?-u:\b)|AQ\.Ab8{_TAIL}{{40,}}"),
        ("lsv2_", "lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}"),
    )),
    ("maps_key", START_BS, (("AIza", f"AIza{_real(_U, 20)}"),)),
    ("cloud_access_id", START_BS, (
        ("A(?:[KSB]I|CC|RO|ID)A", rf"A(?:[KSB]I|CC|RO|ID)A{ending('A-Z0-9', 16, 'EXAMPLE')}(?-u:\b)"),
    )),
    ("forge_token", START_BS, (
        ("gh[pousr]_[A-Za-z0-9]", f"gh[pousr]_{_real(_A, 20)}"),
        ("github_pat_", "github_pat_[A-Za-z0-9_]{22,}"),
        (f"gl(?:{_LAB})-", f"gl(?:{_LAB})-{_real(_U, 20)}(?:\\.[0-9a-z]{{2}}\\.[0-9a-z]{{7,9}})?"),
        ("ATBB|ATATT3|ATCTT3", "ATBB[A-Za-z0-9]{28,}|AT[AC]TT3[A-Za-z0-9_=-]{60,}"),
        ("sgp_|bkua_|CCIPAT_", "sgp_(?:[a-z0-9]{16}_)?[0-9a-f]{40}|bkua_[0-9a-f]{40}|CCIPAT_[A-Za-z0-9_]{40,}"),
        ("figd_|CFPAT-", f"figd_{_TAIL}{{30,}}|CFPAT-{_TAIL}{{40,}}"),
        ("lin_api_|ntn_|PMAK-", "lin_api_[A-Za-z0-9]{30,}|ntn_[A-Za-z0-9]{40,}|PMAK-[0-9a-f]{24}-[0-9a-f]{34}"),
        ("secret_[A-Za-z0-9]{8}", r"secret_[A-Za-z0-9]{43}(?-u:\b)"),
        ("rdme_|tfp_|sq[aup]_[0-9a-f]{8}", "rdme_[a-z0-9]{60,}|tfp_[A-Za-z0-9_]{40,}|sq[aup]_[0-9a-f]{40}"),
        ("pnu_|ico-[A-Za-z0-9]{8}", r"(?:pnu_[A-Za-z0-9]{36}|ico-[A-Za-z0-9]{32})(?-u:\b)"),
        (r"pat\.[A-Za-z0-9_-]{8}", rf"pat\.{_TAIL}{{22}}\.[0-9a-f]{{24}}\.[A-Za-z0-9]{{20}}"),
        ("1/[0-9]{8}", "1/[0-9]{16}:[0-9a-f]{32}"),
    )),
    ("chat_token", START_BS, (
        ("xox[a-z]-|xapp-[0-9]", f"xoxd-[A-Za-z0-9%/+_=-]{{40,}}|xox[a-z]-{_real('A-Za-z0-9-', 10)}|xapp-[0-9]-[A-Za-z0-9-]{{10,}}"),
        (":AA[A-Za-z0-9_-]{8}", rf"(?:bot)?[0-9]{{8,10}}:AA{_TAIL}{{33}}"),
        (rf"\.[GXYZ]{_TAIL}{{5}}\.{_TAIL}{{6}}", rf"[MNO][A-Za-z0-9_-]{{23,25}}\.[GXYZ]{_TAIL}{{5}}\.{_TAIL}{{27,}}"),
        ("SK[0-9a-f]{8}", r"SK[0-9a-f]{32}(?-u:\b)"),
        (":APA91b", rf"AAAA{_TAIL}{{7}}:APA91b{_TAIL}{{100,}}"),
        ("EAA[A-Za-z0-9]{8}", "EAA[A-Za-z0-9]{97,}"),
        ("A{19}[A-Za-z0-9]", "A{19,}[A-Za-z0-9]{8,40}%[0-9A-F]{2}[A-Za-z0-9%]{30,}"),
    )),
    ("hub_token", START_BS, (("hf_[A-Za-z0-9]{20}", f"hf_{_real(_A, 20)}"),)),
    ("payment_key", START, (
        ("k_live_|k_test_|whsec_", f"[sr]k_(?:live|test)_{_real(_A, 10)}|whsec_[A-Za-z0-9+/]{{20,}}"),
        ("sq0(?:atp|csp)-|EAAA", rf"sq0(?:atp|csp)-{_TAIL}{{22,}}|EAAA{_TAIL}{{60}}(?-u:\b)"),
        (r"access_token\$", r"access_token\$(?:production|sandbox)\$[a-z0-9]{16}\$[0-9a-f]{32}"),
        ("shp(?:at|ss|ca|pa)_", "shp(?:at|ss|ca|pa)_[0-9a-fA-F]{32}"),
        (f"A21AA{_TAIL}{{8}}", f"A21AA{_TAIL}{{60,}}"),
        ("access-(?:production|sandbox|development)-", f"access-(?:production|sandbox|development)-{UUID}"),
        ("shippo_", "shippo_(?:live|test)_[0-9a-f]{40}"),
    )),
    ("package_token", START, (
        ("npm_[A-Za-z0-9]{30}", f"npm_{_real(_A, 30)}"),
        ("pypi-", f"pypi-(?:{_real(_A, 32)}{_TAIL}*|{mixed(32, _U, 'A-Za-z_-')})"),
        ("rubygems_", "rubygems_[0-9a-f]{48}"),
        ("cio[A-Za-z0-9]{8}", r"cio[A-Za-z0-9]{32}(?-u:\b)"),
        ("oy2[a-z0-9]{8}", r"oy2[a-z0-9]{43}(?-u:\b)"),
        ("dckr_(?:pat|oat)_", f"dckr_(?:pat|oat)_{_TAIL}{{20,}}"),
        ("CLOJARS_", "CLOJARS_[a-z0-9]{60}"),
        ("AKCp[A-Za-z0-9]{8}|cmVmd[A-Za-z0-9]{8}", r"(?:AKCp[A-Za-z0-9]{69}|cmVmd[A-Za-z0-9]{59})(?-u:\b)"),
    )),
    ("cloud_token", START_BS, (
        (r"ya29\.|GOCSPX-", rf"ya29\.{_TAIL}{{20,}}|GOCSPX-{_TAIL}{{20,}}"),
        (r"1(?://|\\+/\\+/)0", rf"1(?://|\\+/\\+/)0{_TAIL}{{40,}}"),
        ("[78]Q~", r"[A-Za-z0-9_~.]{3}[78]Q~[A-Za-z0-9_~.-]{31,}"),
        ("ABSK", f"ABSK{_B64}{{60,}}={{0,2}}"),
        ("do[por]_v1_", "do[por]_v1_[0-9a-f]{64}"),
        (r"v1\.0-[0-9a-f]{8}", r"v1\.0-[0-9a-f]{24}-[0-9a-f]{146}"),
        ("fm[12][ar]?_|fo1_", rf"fm[12][ar]?_[A-Za-z0-9+/=]{{60,}}|fo1_{_TAIL}{{40,}}"),
        ("nfp_|sbp_|sb_secret_", f"nfp_[A-Za-z0-9]{{36,}}|sbp_[0-9a-f]{{40}}|sb_secret_{_TAIL}{{20,}}"),
        ("pscale_|HRKU-", f"pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.=-]{{30,}}|HRKU-{_TAIL}{{30,}}"),
        ("dapi[0-9a-f]{8}|pul-[0-9a-f]{8}", "dapi[0-9a-f]{32}(?:-[0-9])?|pul-[0-9a-f]{40}"),
        (r"hv[sbr]\.[A-Za-z0-9_-]{8}", rf"hv[sbr]\.{_TAIL}{{20,}}"),
        (r"\.atlasv1\.", rf"[A-Za-z0-9]{{14}}\.atlasv1\.{_TAIL}{{40,}}"),
        (r"dp\.(?:pt|st|sa|ct|scim|audit)\.", r"dp\.(?:pt|st|sa|ct|scim|audit)\.(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,}"),
        ("tskey-", f"tskey-[a-z]+-[A-Za-z0-9]+-{_TAIL}{{20,}}"),
        ("sha256~", f"sha256~{_TAIL}{{43}}"),
        (r"sl\.[A-Za-z0-9_-]", rf"sl\.(?:u\.)?{_TAIL}{{100,}}"),
        ("sdk-[0-9a-f]{8}-", f"sdk-{UUID}"),
        ("SWMTKN-1-", "SWMTKN-1-[a-z0-9]{40,}-[a-z0-9]{20,}"),
        ("AQVN|y0_|t1\\.", rf"AQVN{_TAIL}{{35}}|y0_{_TAIL}{{50,}}|t1\.{_TAIL}{{40,}}\.{_TAIL}{{86}}"),
        ("kubeconfig-|token-[a-z0-9]{5}:", "(?:kubeconfig-[a-z0-9-]{5,40}|token-[a-z0-9]{5}):[a-z0-9]{54}"),
        ("AGE-SECRET-KEY-1", "AGE-SECRET-KEY-1[A-Z0-9]{58}"),
        (r"pat[A-Za-z0-9]{14}\.[0-9a-f]|pat-(?:na|eu)[0-9]-", rf"pat[A-Za-z0-9]{{14}}\.[0-9a-f]{{64}}|pat-(?:na|eu)[0-9]-{UUID}"),
    )),
    ("service_token", START_BS, (
        (r"SG\.[A-Za-z0-9_-]{16}", rf"SG\.{_TAIL}{{16,}}\.{_TAIL}{{16,}}"),
        ("key-[0-9a-f]{8}|-us[0-9]", r"key-[0-9a-f]{32}(?-u:\b)|[0-9a-f]{32}-us[0-9]{1,2}(?-u:\b)"),
        ("xkeysib-|NRAK-", "xkeysib-[0-9a-f]{64}-[A-Za-z0-9]{16}|NRAK-[A-Z0-9]{27}"),
        ("NRI[IQ]-|NRAL", rf"NRI[IQ]-{_TAIL}{{32}}|[0-9a-f]{{36}}NRAL"),
        ("re_[A-Za-z0-9]{8}_", f"re_[A-Za-z0-9]{{8}}_{mixed(24, _A, 'A-Za-z')}"),
        ("eyJrIjoi", "eyJrIjoi[A-Za-z0-9+/=_-]{40,}"),
        ("tk-us-", f"tk-us-{_TAIL}{{48}}"),
        ("sntry[us]_", "sntryu_[0-9a-f]{64}|sntrys_[A-Za-z0-9+/=_]{40,}"),
        ("gl(?:sa|c)_", "glsa_[A-Za-z0-9]{32}_[0-9a-f]{8}|glc_[A-Za-z0-9+/=]{40,}"),
        ("p8e-|LTAI", r"(?:p8e-[A-Za-z0-9]{32}|LTAI[A-Za-z0-9]{20})(?-u:\b)"),
        ("A3-[A-Z0-9]{6}-", r"A3-[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}(?-u:\b)"),
        ("EZ[AT]K|FLWSECK", r"EZ[AT]K[A-Za-z0-9]{54}(?-u:\b)|FLWSECK(?:_TEST)?-[a-z0-9]{12,}(?:-X)?"),
        (r"amzn\.mws\.|fio-u-", rf"amzn\.mws\.{UUID}|fio-u-[A-Za-z0-9_=-]{{64}}"),
        ("dnkey-|duffel_", "dnkey-[A-Za-z0-9=_-]{26}-[A-Za-z0-9=_-]{52}|duffel_(?:test|live)_[A-Za-z0-9=_-]{40,}"),
        (r"dt0[a-z][0-9]{2}\.", r"dt0[a-z][0-9]{2}\.[A-Z0-9]{24}\.[A-Z0-9]{64}"),
    )),
    ("password_hash", START_BS, (
        (r"\$2[abxy]\$[0-9]{2}\$", r"\$2[abxy]\$[0-9]{2}\$[A-Za-z0-9./]{53}"),
        (r"\$(?:[156]|apr1)\$", r"\$(?:[156]|apr1)\$(?:rounds=[0-9]+\$)?[A-Za-z0-9./]{1,16}\$[A-Za-z0-9./]{22,86}"),
        (r"\$y\$", r"\$y\$[A-Za-z0-9./]+\$[A-Za-z0-9./]{1,86}\$[A-Za-z0-9./]{43}"),
        (r"\$argon2(?:id|i|d)\$", r"\$argon2(?:id|i|d)\$v=[0-9]+\$[a-z0-9=,]+\$[A-Za-z0-9+/]{8,}\$[A-Za-z0-9+/]{16,}"),
        (r"pbkdf2_sha[0-9]", r"pbkdf2_sha(?:1|256|512)\$[0-9]+\$[A-Za-z0-9]+\$[A-Za-z0-9+/]{20,}={0,2}"),
        (r"(?:scrypt|pbkdf2):[a-z0-9:]+\$", r"(?:scrypt:[0-9:]+|pbkdf2:sha[0-9]+:[0-9]+)\$[A-Za-z0-9]+\$[0-9a-f]{64,}"),
    )),
    ("wrapped", START_BS, (
        *(_wrapped(f"-----BEGIN {label}PRIVATE KEY", 40) for label in ("", "RSA ", "EC ", "DSA ", "OPENSSH ", "ENCRYPTED ", "PGP ")),
        *(_wrapped(head, 40) for head in ("ghp_", "gho_", "ghs_", "github_pat_", "sk-ant-", "sk-proj-", "sk_live_", "eyJ")),
        *(_wrapped(head, 20) for head in _WRAPPED_TEXTS),
        *(_wrapped(head, 20) for head in ("glpat-", "AKIA", "ASIA", "xoxb-", "xoxp-")),
    )),
)  # fmt: skip


def _rule(name: str, start: str, rows: _Rows) -> RedactionRule:
    return shape(name, "|".join(near for near, _ in rows), "|".join(pattern for _, pattern in rows), start)


_HOOKS = (
    rf"hooks\.slack\.com{_SLASH}(?:services|workflows|triggers){_SLASH}",
    rf"discord(?:app)?\.com{_SLASH}api{_SLASH}webhooks{_SLASH}",
    rf"\.office\.com{_SLASH}webhook[a-z0-9]*{_SLASH}",
)

SHAPES: tuple[RedactionRule, ...] = (
    RedactionRule("pem_block", "secret", "-----BEGIN", _PEM, "<secret:pem_block>"),
    RedactionRule("pem_block", "secret", "-----END", _PEM_END, "<secret:pem_block>"),
    RedactionRule(
        "ppk_block",
        "secret",
        "Private-Lines: ",
        rf"(Private-Lines: [0-9]+)(?:{_PEM_BREAK}+{_PEM_MARGIN}{_PEM_LINE})+(?:{_PEM_BREAK}+{_PEM_MARGIN}[A-Za-z0-9+/]+={{1,2}})?",
        "${1}<secret:ppk_block>",
    ),
    RedactionRule(
        "webhook",
        "secret",
        r"hooks\.slack\.com|/webhooks?[a-z0-9]*\\{0,4}/",
        rf"({'|'.join(_HOOKS)})(?:[A-Za-z0-9_@-]+{_SLASH})*[A-Za-z0-9_-]{{8,}}",
        "${1}<secret:webhook>",
    ),
    *(_rule(*row) for row in ROWS),
)
"""Whole blocks first, then tokens by issuer."""
