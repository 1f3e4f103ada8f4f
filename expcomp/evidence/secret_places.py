r"""Secrets that are known by the command, the file or the device they are given to.

A place is a prefilter, the text before, the value and the text after, if any. In commands a user name, a quote or a switch may stand
between.
"""

from __future__ import annotations

from expcomp.evidence.rule import between, mixed
from expcomp.evidence.secret_words import (
    BARE_PASSWORD,
    DIGITED,
    LINE,
    NAMED,
    STOP,
    WIDE,
    WORD,
    Q,
)

_B = r"(?-u:\b)"
_USER = rf"(?:-u|-U|--?user(?:name)?|--login)[ =]{Q}[A-Za-z0-9@._\\-]+{Q}[ \t]+"
_USER_NEAR = " -u | -U | -u=|-user|--login"
_ECHOED = (
    r"[^\n|]{0,80}(?:--password-stdin|--with-token|secret put|secret set|secrets set|secret create|chpasswd)"
    "|sudo -S|passwd --stdin"
)

PASSWORDS = (
    (r"curl", rf"{_B}curl[ \t]{LINE}(?:-u|--user|--proxy-user)[ =]?{Q}[^\x00-\x20:\"'$\\]+:", WORD),
    (" -a |--auth", rf"{_B}https?[ \t]{LINE}(?:-a|--auth)[ =]{Q}[^\x00-\x20:\"'$\\]+:", WORD),
    (r"mysql", rf"{_B}mysql[a-z]*[ \t]{LINE}[ \t]-p{Q}", BARE_PASSWORD),
    (r"sshpass", rf"sshpass[ \t]+-p[ =]?{Q}", WORD),
    ("login ", rf"login {LINE}[ \t]-p[ =]{Q}", BARE_PASSWORD),
    (r"redis-cli", rf"redis-cli[ \t]{LINE}(?:-a|--pass)[ \t]+{Q}", WORD),
    ("zip -", rf"{_B}(?:un)?zip (?:-[A-Za-z0-9]+[ \t]+)*-P ?{Q}", BARE_PASSWORD),
    ("7z ", rf"{_B}7z {LINE}[ \t]-p{Q}", BARE_PASSWORD),
    (r"pass:", rf"-pass(?:in|out)?[ \t]+{Q}pass:", WORD),
    (
        "sudo -S|-stdin|chpasswd|with-token|secret put|secret set|secrets set|secret create",
        rf"{_B}echo[ \t]+(?:-n[ \t]+)?{Q}(?:[a-z_][a-z0-9_-]*:)?",
        r"[^\x00-\x20\"'`\\$<>{}|&;()-][^\x00-\x20\"'`\\<>|&;]{3,}",
        rf"{Q}[ \t]*\|[ \t]*(?:{_ECHOED})",
    ),
    ("<<<", rf"(?i-u:login|auth|passw|secret|insert|kinit|env add)[^\n<|]{{0,60}}<<< ?{Q}", WIDE, STOP),
    (_USER_NEAR, rf"[ \t]{_USER}(?:-p|-P|-w|--?pass|--?password)[ =]?{Q}", WIDE, STOP),
    (" -D ", rf" -D {Q}[^\x00-\x20\"']+{Q}[ \t]+-w[ ]{Q}", WORD),
    (" -U ", rf" -U {Q}[A-Za-z0-9._\\/-]+%", WORD),
    (r"lftp", rf"lftp[ \t]{LINE}-u[ ]{Q}[A-Za-z0-9@._-]+,", WORD),
    ("storepass|keypass", rf"[ \t]-(?:dest|src)?(?:store|key)pass[ \t]+{Q}", WORD),
    (r"openssl", rf"openssl[ \t]{LINE}[ \t]-k[ ]{Q}", BARE_PASSWORD),
    (r"htpasswd", rf"htpasswd[ \t]+-[A-Za-z]*b[A-Za-z]*[ \t]+[^\x00-\x20]+[ \t]+[^\x00-\x20]+[ \t]+{Q}", WORD),
    (
        r"add_user|change_password",
        rf"rabbitmqctl[ \t]{LINE}(?:add_user|change_password)[ \t]+[^\x00-\x20]+[ \t]+{Q}",
        WORD,
    ),
    (r"ssh-keygen", rf"ssh-keygen[ \t]{LINE}[ \t]-[NP][ ]{Q}", WORD),
    (r"-generic-password|-internet-password", rf"add-(?:generic|internet)-password[ \t]{LINE}[ \t]-w[ ]{Q}", WORD),
    ("mc alias|mc config", rf"{_B}mc (?:alias set|config host add)(?:[ \t]+[^\x00-\x20]+){{3}}[ \t]+{Q}", WORD),
    (r"put-parameter", rf"put-parameter[ \t]{LINE}--value[ =]{Q}", WIDE),
    (r"--secret-string", rf"--secret-string[ =]{Q}", WIDE),
    (r"kv put ", rf"kv put [^\x00-\x20]*{NAMED}[ \t]+{Q}", WIDE),
    (r"sqlplus", rf"sqlplus[ \t]{LINE}[A-Za-z0-9_]+/", WORD, "@"),
    (":thin:", ":thin:[A-Za-z0-9_]+/", WORD, "@"),
    (
        "psexec|wmiexec|smbexec|secretsdump",
        rf"(?:psexec|wmiexec|smbexec|secretsdump)[.py]*{LINE}[ ][A-Za-z0-9.-]+/[A-Za-z0-9._-]+:",
        WORD,
        r"@[0-9]{1,3}\.[0-9]{1,3}\.",
    ),
    (
        " /p:| /pass:| /password:| /rp ",
        rf" /(?:(?:p|pass|password):|rp ){Q}",
        mixed(8, "A-Za-z0-9!#^*@_.-", "A-Za-z!#^*@_.-"),
        STOP,
    ),
    (r"net user |/user:", rf"(?:net user [A-Za-z0-9._-]+|/user:[^\x00-\x20]+) +{Q}", BARE_PASSWORD),
    (r"nmcli|wpa_passphrase", rf"(?:nmcli[ \t]{LINE}[ \t]password|wpa_passphrase[ \t]+[^\x00-\x20]+)[ \t]+{Q}", WORD),
    (r"SecureString", rf"ConvertTo-SecureString[ \t]+(?:-String[ \t]+)?{Q}", WORD),
    # Devices.
    (r"snmp", rf"{_B}snmp[a-z]+[ \t]{LINE}[ \t]-[cAX][ ]{Q}", BARE_PASSWORD),
    (
        "community |com2sec|community6 ",
        r"(?:snmp-server community|r[ow]community6?|com2sec(?: +[^\x00-\x20]+){2}) +",
        BARE_PASSWORD,
    ),
    (
        " password | secret ",
        r"(?:enable|privilege [0-9]+|username [^\x00-\x20]+|neighbor [^\x00-\x20]+) (?:password|secret) (?:[0-9] )?",
        BARE_PASSWORD,
    ),
    (
        r"key-string |-server key |isakmp key |shared-key ",
        r"(?:key-string|(?:tacacs|radius)-server key|isakmp key|pre-shared-key) (?:[0-9] )?",
        BARE_PASSWORD,
    ),
    (r"WIFI:", r"WIFI:[^\n\"']{0,60}P:", r"[^\x00-\x20;\\<>]{4,}", ";"),
    (r"Key Content", r"Key Content +: +", r"[^\x00-\x20\\<>]{6,}"),
    (r"WiFi\.begin", r"WiFi\.begin\(\\{0,4}\"[^\"\\]+\\{0,4}\", *\\{0,4}\"", r"[^\x00-\x20\"\\<>]{6,}"),
    # Files.
    (r"requirepass |masterauth ", r"(?:requirepass|masterauth) +", WORD),
    ("login ", r"login +[^\x00-\x20/]+(?:[\t-\r ]|\\+[nrt])+password[ \t]+", WORD.replace("*%", "*")),
    (r"default login", r"default login [^\x00-\x20]+ password[ \t]+", WORD),
    (
        ":5432:|:5433:|:6432:|:6543:",
        r"[A-Za-z0-9_.*-]+(?::5432:|:5433:|:6432:|:6543:)[A-Za-z0-9_*.-]+:[A-Za-z0-9_.-]+:",
        WORD,
    ),
    (r"pass: ", rf"(?:user(?:name)?|login|host):[^\n\\]{{1,80}}(?:\n|\\+n)[ \t]*pass: +{Q}", WIDE),
)

TOKENS = (
    ("_auth=|_auth |_authToken|_authtoken", rf"_auth(?:[Tt]oken)?(?:=|[ \t]+){Q}", r"[A-Za-z0-9+/_=-]{16,}"),
    (":_password=", rf":_password={Q}", "[A-Za-z0-9+/=]{8,}"),
    ("secret set ", r"secret set [A-Za-z0-9_]+ (?:--body|-b)[ =]" + Q, r"[A-Za-z0-9+/_=.-]{8,}"),
    (
        "login |snyk auth|setapikey|authtoken |with-token ",
        rf"(?:(?:wandb|vault|cargo|npm|railway) login|snyk auth|setapikey|ngrok authtoken|add-authtoken|--with-token)[ ]+{Q}",
        DIGITED,
    ),
    (" -t ", rf"(?:codecov|doctl auth init)[^\n]{{0,80}} -t[ ]{Q}", DIGITED),
    (" -k |--key", rf"(?:login|push|publish)[ \t][^\n]{{0,80}} (?:-k|--key)[ =]{Q}", DIGITED),
    ("--auth", rf"--auth(?:key)?[ =]{Q}", DIGITED),
    (r"sonar\.login", rf"sonar\.login={Q}", DIGITED),
    (r"-setcookie |ERLANG_COOKIE", rf"(?:-setcookie |ERLANG_COOKIE[=:] ?){Q}", "[A-Za-z0-9_]{8,}"),
    (r"oathtool", rf"oathtool[ \t]{LINE}[ ]{Q}", "[A-Z2-7]{16,}"),
    (
        "::add-mask::|::set-output",
        rf"::(?:add-mask|set-output name=[A-Za-z0-9_-]*{NAMED})::",
        r"[^\x00-\x20\"'\\$<>{}]{8,}",
    ),
    ("Unseal Key [0-9]", "Unseal Key [0-9]+: ", "[A-Za-z0-9+/]{40,}={0,2}"),
    (
        "vault|VAULT|Vault",
        rf"(?i-u:vault[a-z_-]{{0,10}}[ _-]?(?:token|login))(?:{Q}[:=]|[ \t])[ \t]*{Q}",
        r"s\.[A-Za-z0-9]{24}",
    ),
    (r"Secret Access Key \[", r"Secret Access Key \[[A-Za-z0-9*]*\]: ", "[A-Za-z0-9+/]{40}"),
    (
        "random_password",
        r"random_password[\x00-\x7f]{0,400}?\\{0,4}\"result\\{0,4}\": ?\\{0,4}\"",
        r"[^\x00-\x20\"\\<]{6,}",
    ),
)
"""Each row is a prefilter and a pattern."""

PLACES = (between("password", *PASSWORDS[::2]), between("password", *PASSWORDS[1::2]), between("token", *TOKENS))
